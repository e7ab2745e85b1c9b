"""The register mode that a kernel is built for: from what its author says, else from what its lanes keep alive."""

from __future__ import annotations

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute

from codegen import branches
from codegen.pressure import live_bytes
from xegpu import register_mode
from xegpu.dialect.block_io import LoadNdOp
from xegpu.dtypes import of_mlir
from xegpu.errors import TargetError
from xegpu.targets import Target

LARGE = "-cl-intel-256-GRF-per-thread"
_SMALL_BUDGET = 0.7


def build_options(function: func.FuncOp, target: Target, subgroup: int, subgroups: int) -> str:
    """The build options that give a kernel its registers, empty for the smaller number of them.

    Args:
        function: the last stage of the pipeline.
        target: the device.
        subgroup: lanes of a subgroup.
        subgroups: subgroups of a work-group.

    Raises:
        TargetError: more subgroups than the target allows where each has the larger number of registers.
    """
    small, large = target.registers
    if not large:
        return ""
    said = register_mode.said(function)
    needed = registers_needed(function) * subgroup / target.register_bytes
    if said == small or (said is None and needed <= small * _SMALL_BUDGET):
        return ""
    if subgroups > target.subgroups[1]:
        raise TargetError("XT4050",
            f"{subgroups} subgroups a work-group, {'for which' if said else 'each of which needs'} "
            f"{f'{said} registers a thread are asked' if said else f'about {needed:.0f} registers'}: with more than "
            f"{small} registers a thread, {target.name} has at most {target.subgroups[1]} subgroups",
            f"lower sg_layout (or subgroups=) to {target.subgroups[1]} subgroups, or " +
            (f"ask for registers={small}" if said else "make the subgroup's tile smaller"))
    return LARGE


def registers_needed(function: func.FuncOp) -> int:
    """About the bytes of fragments that a lane keeps alive at once; of a loop all that it carries and loads counts."""
    totals = [live_bytes(function)]
    for operation in function.walk():
        if isinstance(operation, scf.ForOp):
            loaded = [op.results[0] for op in branches.inside(operation.body.block) if isinstance(op, LoadNdOp)]
            totals.append(sum(_bytes(value.type) for value in (*operation.iter_args, *loaded)))
    return max(totals)


def _bytes(type_: Attribute) -> int:
    if not isinstance(type_, VectorType):
        return 0
    count = of_mlir(type_.element_type).bytes
    for size in type_.get_shape():
        count *= size
    return count
