"""Operations of memref that xDSL does not define or read: ``memref.transpose``, ``memref.memory_space_cast``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, MemRefType
from xdsl.dialects.memref import MemorySpaceCastOp
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import IRDLOperation, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from xegpu.ir.op_definition import operation_definition
from xegpu.mlir.vector import integers, values_of
from xegpu.support.lookahead import next_token
from xetile.text.types import fail


@operation_definition
class TransposeOp(IRDLOperation):
    """``memref.transpose``: the same memory with its dimensions in another order.

    Attributes:
        permutation: the source's dimension for each of the result.
    """

    name = "memref.transpose"
    source = operand_def(MemRefType)
    permutation = prop_def(ArrayAttr[IntegerAttr])
    result = result_def(MemRefType)
    traits = traits_def(Pure())

    @property
    def axes(self) -> tuple[int, ...]:
        """The source's dimension for each of the result."""
        return values_of(self.permutation)

    @staticmethod
    def of(source: SSAValue, axes: tuple[int, ...], result: MemRefType) -> TransposeOp:
        """Transposition to a result type."""
        return TransposeOp.create(operands=[source], result_types=[result], properties={"permutation": integers(axes)})


def _transpose(parser: Any, name: str) -> Operation:
    """Parse ``memref.transpose %m (i, j) -> (j, i) : memref<64x32xf32> to memref<32x64xf32, strided<[1, 32]>>``."""
    source = parser.parse_unresolved_operand()
    at, map_ = next_token(parser).span, parser.parse_affine_map()
    axes = tuple(getattr(result, "position", -1) for result in map_.results)
    parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    operand = parser.resolve_operand(source, parser.parse_type())
    parser.parse_keyword("to")
    result = parser.parse_type()
    rank = len(operand.type.get_shape()) if isinstance(operand.type, MemRefType) else 0
    if sorted(axes) != list(range(rank)) or map_.num_dims != rank or not isinstance(result, MemRefType) or \
            len(result.get_shape()) != rank:
        fail(parser, "XT2610", f"memref.transpose permutes the dimensions of a memref, which {operand.type} to "
             f"{result} with {map_} does not", "write (i, j) -> (j, i) : memref<64x32xf32> to "
             "memref<32x64xf32, strided<[1, 32]>>", at)
    return TransposeOp.of(operand, axes, result)


def _memory_space_cast(parser: Any, name: str) -> Operation:
    """Parse ``memref.memory_space_cast %m : memref<8x16xf32, 1> to memref<8x16xf32>``."""
    source = parser.parse_unresolved_operand()
    parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    at, operand = next_token(parser).span, parser.resolve_operand(source, parser.parse_type())
    parser.parse_keyword("to")
    result = parser.parse_type()
    if not (isinstance(operand.type, MemRefType) and isinstance(result, MemRefType) and
            (operand.type.element_type, operand.type.shape, operand.type.layout) ==
            (result.element_type, result.shape, result.layout)):
        fail(parser, "XT2610", f"memref.memory_space_cast changes the memory space alone, and {operand.type} to "
             f"{result} changes more", "write memref<8x16xf32, 1> to memref<8x16xf32>", at)
    return MemorySpaceCastOp(operand, result)


RULES: dict[str, Callable[[Any, str], Operation]] = {"memref.transpose": _transpose,
                                                     "memref.memory_space_cast": _memory_space_cast}


def read_operation(parser: Any, name: str, span: Any) -> Operation:
    """Parse an operation of memref after its name."""
    return RULES[name](parser, name)
