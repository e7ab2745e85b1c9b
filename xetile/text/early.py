"""Operations as MLIR wrote them when SuperVector.md was written: without the name of a dialect.

    %f0 = constant 0.0f : f32
    for %i1 = 0 to %1 step 256 { ... }
    %A = alloc() : memref<5x4x3xf32>
    %0 = dim %A, 0 : memref<?x?xf32>

What is allocated lies in shared local memory, the only memory that a kernel can allocate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IndexType, IntegerAttr, IntegerType, MemRefType, i64
from xdsl.ir import Operation, SSAValue

from xegpu.ir.matchers import number
from xegpu.ir.memref import SHARED
from xetile.text.attributes import fail


def _constant(parser: Any, name: str) -> Operation:
    at, number = parser._current_token.span, parser.parse_number()
    parser.parse_optional_keyword("f")
    parser.parse_punctuation(":")
    type_ = parser.parse_type()
    if isinstance(type_, AnyFloat):
        return arith.ConstantOp(FloatAttr(float(number), type_))
    if not isinstance(type_, (IntegerType, IndexType)) or number != int(number):
        fail(parser, "XT2068", f"{number} is no {type_}", "write constant 0.0 : f32, constant 0 : index", at)
    return arith.ConstantOp(IntegerAttr(int(number), type_))


def _early_bound(parser: Any) -> SSAValue:
    number = parser.parse_optional_integer()
    bound: SSAValue = parser.constant(number) if number is not None else \
        parser.resolve_operand(parser.parse_unresolved_operand(), IndexType())
    return bound


def _for(parser: Any, name: str) -> Operation:
    variable = parser.parse_argument(expect_type=False)
    parser.parse_punctuation("=")
    first = _early_bound(parser)
    parser.parse_keyword("to")
    last = _early_bound(parser)
    at, step = parser._current_token.span, parser.constant(1)
    if parser.parse_optional_keyword("step"):
        at, step = parser._current_token.span, _early_bound(parser)
    if (size := number(step)) is not None and size <= 0:
        fail(parser, "XT1331", f"the step of a loop is {size}, and it counts up", "write a positive step", at)
    before, parser._pending = parser._pending, []  # constants of the bounds stay in front of the loop
    body = parser.parse_region((variable.resolve(IndexType()),))
    parser._pending = before
    if not isinstance(body.block.last_op, scf.YieldOp):
        body.block.add_op(scf.YieldOp())
    return scf.ForOp(first, last, step, [], body)


def _alloc(parser: Any, name: str) -> Operation:
    parser.parse_punctuation("(")
    parser.parse_punctuation(")")
    parser.parse_punctuation(":")
    at, type_ = parser._current_token.span, parser.parse_type()
    if not isinstance(type_, MemRefType):
        fail(parser, "XT2067", f"alloc gives a memref, not {type_}", "write alloc() : memref<5x4x3xf32>", at)
    shared = MemRefType(type_.element_type, type_.get_shape(), type_.layout, IntegerAttr(SHARED, i64))
    return memref.AllocOp([], [], shared)


def _dim(parser: Any, name: str) -> Operation:
    source = parser.parse_unresolved_operand()
    parser.parse_punctuation(",")
    axis = _early_bound(parser)
    parser.parse_punctuation(":")
    return memref.DimOp(parser.resolve_operand(source, parser.parse_type()), axis)


EARLY_RULES: dict[str, Callable[[Any, str], Operation]] = {
    "constant": _constant, "for": _for, "alloc": _alloc, "dim": _dim,
}


def read_early_operation(parser: Any, name: str, span: Any) -> Operation:
    """Read an operation from behind its name."""
    return EARLY_RULES[name](parser, name)
