"""The index dialect: each operation is read as that of arith on ``index``.

    %q = index.floordivs %a, %b            %q = arith.floordivsi %a, %b : index
    %m = index.cmp slt(%a, %b)             %m = arith.cmpi slt, %a, %b : index
    %i = index.castu %n : i32 to index     %e = arith.extui %n : i32 to i64 ; %i = arith.index_cast %e : i64 to index
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, i1, i64
from xdsl.ir import Operation, SSAValue

from xegpu.mlir.arith import CmpIOp, ExtUIOp, IndexCastOp

_BINARY: dict[str, type[Operation]] = {
    "add": arith.AddiOp, "sub": arith.SubiOp, "mul": arith.MuliOp, "divs": arith.DivSIOp, "divu": arith.DivUIOp,
    "ceildivs": arith.CeilDivSIOp, "ceildivu": arith.CeilDivUIOp, "floordivs": arith.FloorDivSIOp,
    "rems": arith.RemSIOp, "remu": arith.RemUIOp, "maxs": arith.MaxSIOp, "maxu": arith.MaxUIOp,
    "mins": arith.MinSIOp, "minu": arith.MinUIOp, "shl": arith.ShLIOp, "shrs": arith.ShRSIOp, "shru": arith.ShRUIOp,
    "and": arith.AndIOp, "or": arith.OrIOp, "xor": arith.XOrIOp,
}


def _operand(parser: Any) -> SSAValue:
    value: SSAValue = parser.resolve_operand(parser.parse_unresolved_operand(), IndexType())
    return value


def _binary(parser: Any, name: str) -> Operation:
    """Parse ``index.add %a, %b``."""
    lhs = _operand(parser)
    parser.parse_punctuation(",")
    rhs = _operand(parser)
    parser.parse_optional_attr_dict()
    return _BINARY[name.removeprefix("index.")].create(operands=[lhs, rhs], result_types=[IndexType()])


def _compare(parser: Any, name: str) -> Operation:
    """Parse ``index.cmp slt(%a, %b)``."""
    predicate = CmpIOp.parse_predicate(parser)
    parser.parse_punctuation("(")
    lhs = _operand(parser)
    parser.parse_punctuation(",")
    rhs = _operand(parser)
    parser.parse_punctuation(")")
    parser.parse_optional_attr_dict()
    return CmpIOp(lhs, rhs, predicate)


def _constant(parser: Any, name: str) -> Operation:
    """Parse ``index.constant 42`` or ``index.bool.constant true``."""
    if name == "index.bool.constant":
        return arith.ConstantOp(IntegerAttr(int(parser.parse_boolean()), i1))
    return arith.ConstantOp(IntegerAttr(parser.parse_integer(), IndexType()))


def _cast(parser: Any, name: str) -> Operation:
    """Parse ``index.casts %a : i32 to index``, or ``index.castu``, which extends by zeros."""
    source = parser.parse_unresolved_operand()
    parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    operand = parser.resolve_operand(source, parser.parse_type())
    parser.parse_keyword("to")
    result = parser.parse_type()
    unsigned = name in ("index.castu", "arith.index_castui")
    if unsigned and isinstance(operand.type, IntegerType) and operand.type.width.data < 64:
        wide = ExtUIOp(operand, i64)
        parser.insert_before(wide)
        operand = wide.result
    return IndexCastOp(operand, result)


RULES: dict[str, Callable[[Any, str], Operation]] = {
    **dict.fromkeys((f"index.{name}" for name in _BINARY), _binary),
    "index.cmp": _compare, "index.constant": _constant, "index.bool.constant": _constant,
    "index.casts": _cast, "index.castu": _cast, "arith.index_castui": _cast,
}


def read_operation(parser: Any, name: str, span: Any) -> Operation:
    """Parse an operation of the index dialect after its name."""
    return RULES[name](parser, name)
