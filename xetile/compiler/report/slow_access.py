"""Slow accesses: arrays that a kernel accesses without 2D block messages on a device that has them, and why."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue

from xegpu.analysis.dataflow.divisibility import multiple_of
from xegpu.analysis.gemm_loops import is_copy
from xegpu.analysis.memory_access import access_kind, bounded_axes, geometry
from xegpu.dialect.block_io import CreateNdTdescOp, LoadNdOp, StoreNdOp, desc_of
from xegpu.dialect.dpas import DpasOp
from xegpu.ir.matchers import VERSIONED
from xegpu.ir.memref import ALIGNED
from xegpu.ir.use_def import root_definitions
from xegpu.passes.distribute_lanes.operand_roles import is_copyable
from xegpu.target.block2d import COLUMN_ALIGNMENT
from xegpu.target.targets import Target

_ACCESS_PHRASES = {"rows": "row by row", "strided": "element by element"}


def slow_accesses(function: FuncOp, target: Target, access: Sequence[str]) -> tuple[str, ...]:
    """Sentence for each array without 2D block access, and each reason.

    Args:
        function: the last stage of a kernel.
        target: the device.
        access: for each argument, how its memory may be reached; empty for numbers.
    """
    if not target.block_io:
        return ()
    kinds: dict[SSAValue, str] = dict(zip(function.body.block.args, access, strict=True))
    found: dict[str, None] = {}
    for operation in function.walk():
        if isinstance(operation, (LoadNdOp, StoreNdOp)):
            block = desc_of(operation.desc).block
            if block.memory_scope == "global" and block.access in _ACCESS_PHRASES:
                verb = "read" if isinstance(operation, LoadNdOp) else "written"
                phrase, help_ = _ACCESS_PHRASES[block.access], _copy_help(operation, kinds)
                found |= dict.fromkeys(f"{name} is {verb} {phrase}, not by block messages: {reason}{help_}"
                                       for name, reason in _reasons(operation.desc, kinds))
    return tuple(found)


def _copy_help(operation: LoadNdOp | StoreNdOp, kinds: dict[SSAValue, str]) -> str:
    """Hint on cheaper copies of an unaligned operand; empty for other accesses."""
    around = operation.parent_op()
    unaligned = [init for init in root_definitions(operation.desc) if isinstance(init.owner, CreateNdTdescOp)
                 and access_kind(init.owner, kinds) == "rows" and not bounded_axes(init.owner)]
    if not isinstance(operation, LoadNdOp) or not unaligned or not is_copyable(desc_of(operation.desc).dtype) or \
            around is None or not any(isinstance(user, DpasOp) for user in around.walk()):
        return ""
    if is_copy(operation):
        return "; its words are copied through shared local memory, a part by each subgroup that " \
               "needs the operand: the more of these a wg_map distributes a larger tile to, the less each does"
    return "; as an operand of a product it would be copied through shared local memory where several subgroups of a " \
           "wg_map need it, or, of a smaller tile, where one subgroup alone has the registers"


def _reasons(desc: SSAValue, kinds: dict[SSAValue, str]) -> list[tuple[str, str]]:
    """Arrays that a descriptor may be of, each with the reason that rules block messages out."""
    inits = [value.owner for value in root_definitions(desc) if isinstance(value.owner, CreateNdTdescOp)]
    return [(init.source.name_hint or "an array", _reason(desc, init, kinds)) for init in inits]


def _is_second_version(desc: SSAValue) -> bool:
    """Whether a descriptor is of the version of a loop for columns that block messages do not take."""
    block = desc.owner if isinstance(desc.owner, Block) else desc.owner.parent
    while block is not None and (around := block.parent_op()) is not None:
        if VERSIONED in around.attributes:
            return block.parent is around.regions[1]
        block = around.parent
    return False


def _reason(desc: SSAValue, init: CreateNdTdescOp, kinds: dict[SSAValue, str]) -> str:
    parameters = desc_of(desc)
    elements = COLUMN_ALIGNMENT // parameters.dtype.bytes
    kind = access_kind(init, kinds)
    if not kind.startswith("block") and bounded_axes(init):
        return "its tile ends at a run-time bound along its rows (columns=, or base_shape=), and messages take rows " \
               "of 64 bytes or more that are a multiple of 4 bytes; bounds of rows= keep block messages"
    if geometry(init) == "other" and not bounded_axes(init) and ALIGNED not in init.attributes:
        return "base_shape and base_strides describe its memory anew, and nothing says how it is aligned; where it " \
               "starts on a multiple of 64 bytes, with rows of 64 bytes or more that are a multiple of 4 bytes long, " \
               "and a pitch that is a multiple of 16 bytes, say so: xt.init_tile(..., aligned=True)"
    if not kind.startswith("block"):
        return "these need a base on a multiple of 64 bytes, rows of 64 bytes or more that are a multiple of 4 bytes " \
               "long, and a pitch that is a multiple of 16 bytes"
    if elements > 1 and multiple_of(desc) % elements:
        if _is_second_version(desc):
            return f"this is the version of a loop for columns that are no multiples of {elements}; for those that " \
                   "are, as the kernel finds at run time, there is one with block messages"
        return f"its tiles begin at columns that are not known to be multiples of {elements}; make them so, as in " \
               "k // 32 * 32"
    return f"none has {'x'.join(map(str, parameters.shape))} elements of {parameters.dtype.bits} bits"
