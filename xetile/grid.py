"""Where an instance of a kernel stands: its work-group in the grid, its subgroup in the work-group."""

from __future__ import annotations

from xdsl.dialects import gpu
from xdsl.dialects.gpu import DimensionAttr, DimensionEnum

from xegpu.errors import RankError
from xetile.tracer import current
from xetile.values import Scalar

_DIMENSIONS = (DimensionEnum.X, DimensionEnum.Y, DimensionEnum.Z)


def group_id(d: int) -> Scalar:
    """Position of this work-group along dimension ``d`` of the grid."""
    group = Scalar(current("xt.group_id").emit(gpu.BlockIdOp(_dimension(d))))
    group.ssa.name_hint = f"group{d}"
    return group


def num_groups(d: int) -> Scalar:
    """Work-groups along dimension ``d`` of the grid."""
    return Scalar(current("xt.num_groups").emit(gpu.GridDimOp(_dimension(d))))


def subgroup_id(d: int | None = None) -> Scalar:
    """Position of this subgroup in its work-group: the linear one, or along dimension ``d`` of ``subgroups``."""
    tracer = current("xt.subgroup_id")
    linear = Scalar(tracer.emit(gpu.SubgroupIdOp()))  # type: ignore[no-untyped-call]
    if d is None:
        return linear
    if not isinstance(d, int) or d not in (0, 1):
        raise RankError(f"subgroups have dimensions 0 and 1, not {d!r}",
                        "use xt.subgroup_id(0) for its row, xt.subgroup_id(1) for its column", tracer.location())
    tracer.use_subgroup_axes()
    columns = tracer.subgroups[1]
    return linear // columns if d == 0 else linear % columns  # type: ignore[no-any-return]


def _dimension(d: int) -> DimensionAttr:
    if not isinstance(d, int) or d not in (0, 1, 2) or isinstance(d, bool):
        raise RankError(f"a grid has dimensions 0, 1 and 2, not {d!r}", "write xt.group_id(0) for the first number of "
                        "kernel[grid]", current().location())
    return DimensionAttr(_DIMENSIONS[d])
