"""Slow accesses: arrays that a kernel accesses without 2D block messages on a device that has them, and why."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from xegpu.analysis.divisibility import multiple_of
from xegpu.dialect.block_io import CreateNdTdescOp, LoadNdOp, StoreNdOp, desc_of
from xegpu.ir.use_def import root_definitions
from xegpu.target.targets import Target

_COLUMN_BYTES = 4
_WAYS = {"rows": "row by row", "strided": "element by element"}


def slow_ways(function: FuncOp, target: Target, access: Sequence[str]) -> tuple[str, ...]:
    """Sentence for each array without 2D block access, and each reason.

    Args:
        function: the last stage of a kernel.
        target: the device.
        access: for each argument, how its memory may be reached; empty for numbers.
    """
    if not target.block_io:
        return ()
    ways: dict[SSAValue, str] = dict(zip(function.body.block.args, access, strict=True))
    found: dict[str, None] = {}
    for operation in function.walk():
        if isinstance(operation, (LoadNdOp, StoreNdOp)):
            block = desc_of(operation.desc).block
            if block.memory_scope == "global" and block.access in _WAYS:
                verb = "read" if isinstance(operation, LoadNdOp) else "written"
                found |= dict.fromkeys(f"{name} is {verb} {_WAYS[block.access]}, not by block messages: {reason}"
                                       for name, reason in _reasons(operation.desc, ways))
    return tuple(found)


def _reasons(desc: SSAValue, ways: dict[SSAValue, str]) -> list[tuple[str, str]]:
    """Arrays that a descriptor may be of, each with the reason that rules block messages out."""
    makers = [made.owner for made in root_definitions(desc) if isinstance(made.owner, CreateNdTdescOp)]
    return [(maker.source.name_hint or "an array", _reason(desc, ways.get(maker.source, ""))) for maker in makers]


def _reason(desc: SSAValue, way: str) -> str:
    parameters = desc_of(desc)
    elements = _COLUMN_BYTES // parameters.dtype.bytes
    if not way.startswith("block"):
        return "these need a base on a multiple of 64 bytes, rows of 64 bytes or more that are a multiple of 4 bytes " \
               "long, and a pitch that is a multiple of 16 bytes"
    if elements > 1 and multiple_of(desc) % elements:
        return f"its tiles stand on columns that are not known to be multiples of {elements}; make them so, as in " \
               "k // 32 * 32"
    return f"none has {'x'.join(map(str, parameters.shape))} elements of {parameters.dtype.bits} bits"
