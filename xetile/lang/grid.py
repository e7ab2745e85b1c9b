"""Grid and subgroup ids: ``group_id``, ``num_groups``, ``subgroup_id``, and the grouped tile order."""

from __future__ import annotations

from xdsl.dialects import gpu
from xdsl.dialects.gpu import DimensionAttr, DimensionEnum

from xegpu.support.errors import ElementTypeError, RankError, ShapeError
from xetile.frontend.constants import python_number
from xetile.frontend.ssa_value import Value
from xetile.frontend.tracer import current
from xetile.frontend.values import Scalar
from xetile.lang.checks import describe_value
from xetile.lang.math import minimum

_DIMENSIONS = (DimensionEnum.X, DimensionEnum.Y, DimensionEnum.Z)


def group_id(d: int) -> Scalar:
    """Work-group id along dimension ``d`` of the grid."""
    group = Scalar(current("xt.group_id").emit(gpu.BlockIdOp(_dimension(d))))
    group.ssa.name_hint = f"group{d}"
    return group


def num_groups(d: int) -> Scalar:
    """Number of work-groups along dimension ``d`` of the grid."""
    return Scalar(current("xt.num_groups").emit(gpu.GridDimOp(_dimension(d))))


def subgroup_id(d: int | None = None) -> Scalar:
    """Subgroup id in the work-group: linear, or along dimension ``d`` of ``subgroups``."""
    tracer = current("xt.subgroup_id")
    linear = Scalar(tracer.emit(gpu.SubgroupIdOp()))  # type: ignore[no-untyped-call]
    if d is None:
        return linear
    d = python_number(d)
    if not isinstance(d, int) or d not in (0, 1):
        raise RankError("XT1061", f"subgroups have dimensions 0 and 1, not {describe_value(d)}",
                        "use xt.subgroup_id(0) for its row, xt.subgroup_id(1) for its column", tracer.location())
    tracer.use_subgroup_axes()
    columns = tracer.subgroups[1]
    return linear // columns if d == 0 else linear % columns  # type: ignore[no-any-return]


def grouped_id(rows: int) -> tuple[Scalar, Scalar]:
    """Grouped tile order for L2 reuse: row and column of this work-group when the grid is walked in bands of ``rows``
    rows, each band column by column.

    Work-groups that run at the same time then share rows of A and columns of B in the cache: where a row-major grid of
    64 x 64 has 64 of them read one band of A and all of B, bands of 8 rows read 8 bands of A and 8 of B. Use it instead
    of ``group_id(0)`` and ``group_id(1)``, with the same grid of two numbers; each pair occurs once, whatever the
    grid. The last band has the remaining rows.

    Args:
        rows: rows of a band, a positive compile-time integer; 1 is the order of ``group_id``.

    Returns:
        the two run-time indices.

    Raises:
        ElementTypeError: ``rows`` is not an integer.
        ShapeError: it is not positive.
    """
    where = current("xt.grouped_id").location()
    if isinstance(rows, (bool, Value)) or not hasattr(rows, "__index__"):
        raise ElementTypeError("XT1062",
                               f"xt.grouped_id takes a compile-time number of rows, not {describe_value(rows)}",
                               "write m, n = xt.grouped_id(8), or pass a keyword-only parameter", where)
    if rows < 1:
        raise ShapeError("XT1063",
                         f"xt.grouped_id takes at least one row, not {rows}",
                         "use 4 to 8 for large matrices, 1 for the row-major order", where)
    down, across = num_groups(0), num_groups(1)
    linear = group_id(0) * across + group_id(1)
    first = linear // (across * int(rows)) * int(rows)
    height = minimum(down - first, int(rows))
    within = linear - first * across
    column = within // height
    row = first + within - column * height
    row.ssa.name_hint, column.ssa.name_hint = "grouped0", "grouped1"
    return row, column


def _dimension(d: int) -> DimensionAttr:
    """Dimension attribute of a grid operation, checked."""
    d = python_number(d)
    if not isinstance(d, int) or d not in (0, 1, 2) or isinstance(d, bool):
        raise RankError("XT1060", f"a grid has dimensions 0, 1 and 2, not {describe_value(d)}",
                        "write xt.group_id(0) for the first number of kernel[grid]", current().location())
    return DimensionAttr(_DIMENSIONS[d])
