"""What a loaded value is for: which operand of which product, seen through the slices that are taken of it."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import func
from xdsl.dialects.vector import ExtractOp
from xdsl.ir import Operation, SSAValue

from xegpu.dialect.block_io import LoadNdOp, PrefetchNdOp
from xegpu.dialect.descriptors import UpdateNdOffsetOp
from xegpu.dialect.products import DpasOp
from xegpu.dialect.scaled_products import DpasScaledOp
from xegpu.dialect.vectors import ExtractStridedSliceOp, ShapeCastOp
from xegpu.webs import Webs

_SLICES = (ExtractOp, ExtractStridedSliceOp, ShapeCastOp)
_OPERANDS = "abc"


def descriptor_webs(function: func.FuncOp) -> Webs:
    """Descriptors, each with those it is moved and carried into."""
    return Webs(function, _links)


def _links(operation: Operation) -> Iterator[SSAValue]:
    if isinstance(operation, UpdateNdOffsetOp):
        yield from (operation.desc, operation.result)


def uses_of_value(value: SSAValue) -> set[str]:
    """``a``, ``b``, ``c`` for the operands of DPAS that a value and its slices are; ``other`` for all else."""
    found: set[str] = set()
    for use in value.uses:
        if isinstance(use.operation, _SLICES):
            found |= uses_of_value(use.operation.results[0])
        elif isinstance(use.operation, DpasOp) or (isinstance(use.operation, DpasScaledOp) and use.index < 3):
            found.add(_OPERANDS[use.index])
        else:
            found.add("other")
    return found


def sides(webs: Webs, desc: SSAValue) -> set[str]:
    """What is loaded or stored through a descriptor's web is for."""
    return webs.note("sides", desc, lambda desc: _sides(webs, desc))


def _sides(webs: Webs, desc: SSAValue) -> set[str]:
    found: set[str] = set()
    for use in webs.uses(desc):
        if isinstance(use.operation, LoadNdOp):
            found |= uses_of_value(use.operation.result)
        elif not isinstance(use.operation, (UpdateNdOffsetOp, PrefetchNdOp)):
            found.add("other")
    return found
