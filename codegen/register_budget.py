"""The register mode that a kernel is built for: from what its author says, else from what its lanes keep alive."""

from __future__ import annotations

from xdsl.dialects import func, scf

from xegpu.analysis.gemm_loops import is_plain
from xegpu.analysis.register_pressure import live_bytes, loop_bytes
from xegpu.dialect.block_io import LoadNdOp, StoreNdOp, desc_of
from xegpu.support.errors import TargetError
from xegpu.target import grf_mode
from xegpu.target.targets import Target

_WITH_ADDRESSES = 0.7
LARGE = "-cl-intel-256-GRF-per-thread"


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
    said = grf_mode.said(function)
    registers, room = fragment_bytes(function) * subgroup / target.register_bytes, _part(function) * small
    if said == small or (said is None and registers <= room):
        return ""
    if subgroups > target.subgroups[1]:
        raise TargetError("XT4050",
            f"{subgroups} subgroups a work-group, {'for which' if said else 'each of which needs'} "
            f"{f'{said} registers a thread are asked' if said else f'about {registers:.0f} registers for its values'}"
            f"{'' if said else f', and {room:.0f} of {small} are for these'}: with more than "
            f"{small} registers a thread, {target.name} has at most {target.subgroups[1]} subgroups",
            f"lower sg_layout (or subgroups=) to {target.subgroups[1]} subgroups, or " +
            (f"ask for registers={small}" if said else "make the subgroup's tile or its step along K smaller"))
    return LARGE


def _part(function: func.FuncOp) -> float:
    """The part of the registers that fragments may take; addresses of other messages than blocks take more of them."""
    ways = {desc_of(operation.desc).block.access for operation in function.walk()
            if isinstance(operation, (LoadNdOp, StoreNdOp))}
    return grf_mode.FOR_FRAGMENTS if ways <= {"block"} else _WITH_ADDRESSES


def fragment_bytes(function: func.FuncOp) -> int:
    """About the bytes of fragments that a lane keeps alive at once.

    Of a loop all that it carries and loads counts, except where it does nothing but load and multiply: there the
    compiler keeps loads where they are when registers run out.
    """
    loops = (operation for operation in function.walk() if isinstance(operation, scf.ForOp))
    return max([live_bytes(function), *(loop_bytes(loop) for loop in loops if not is_plain(loop))])
