"""Operations of other dialects whose custom form xDSL does not parse, and MLIR's spellings of 2019.

The latter are SuperVector.md's, without the name of a dialect:

    %f0 = constant 0.0f : f32
    for %i1 = 0 to %1 step 256 { ... }
    %A = alloc() : memref<5x4x3xf32>
    %0 = dim %A, 0 : memref<?x?xf32>

What is allocated is in shared local memory, the only memory that a kernel can allocate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects import arith, gpu, memref, scf
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    UnitAttr,
    VectorType,
)
from xdsl.dialects.gpu import DimensionAttr, DimensionEnum
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation, SSAValue

from xegpu.interop.llvm.dialect.vector import MultiReductionOp
from xegpu.ir.memref import SHARED_SPACE
from xegpu.mlir.vector import ShapeCastOp
from xegpu.support.lookahead import next_token
from xetile.text.grammar import other_type
from xetile.text.types import fail

_POSITIONS: dict[str, Callable[[DimensionAttr], Operation]] = {
    "gpu.block_id": gpu.BlockIdOp, "gpu.grid_dim": gpu.GridDimOp, "gpu.thread_id": gpu.ThreadIdOp,
    "gpu.block_dim": gpu.BlockDimOp, "gpu.global_id": gpu.GlobalIdOp,
}
UNSIGNED = "unsignedCmp"
"""Attribute of a ``scf.for`` that compares its bounds as unsigned integers, as MLIR names it."""
_WITHOUT_OPERANDS: dict[str, type[Operation]] = {
    "gpu.subgroup_id": gpu.SubgroupIdOp, "gpu.num_subgroups": gpu.NumSubgroupsOp,
    "gpu.subgroup_size": gpu.SubgroupSizeOp, "gpu.lane_id": gpu.LaneIdOp,
}


def _bound(parser: Any) -> None:
    """Parse ``upper_bound 8``, a hint that is not used."""
    if parser.parse_optional_keyword("upper_bound"):
        parser.parse_integer()
    parser.parse_optional_attr_dict()


def _position(parser: Any, name: str) -> Operation:
    """Parse ``gpu.block_id x``."""
    at, word = next_token(parser).span, parser.parse_identifier()
    if word not in ("x", "y", "z"):
        fail(parser, "XT2066", f"{name} is along x, y or z, not {word}", f"write {name} x", at)
    _bound(parser)
    return _POSITIONS[name](DimensionAttr(DimensionEnum(word)))


def _position_without_axis(parser: Any, name: str) -> Operation:
    """Parse ``gpu.subgroup_id : index``."""
    _bound(parser)
    if parser.parse_optional_punctuation(":"):
        parser.parse_type()
    return _WITHOUT_OPERANDS[name]()


def _barrier(parser: Any, name: str) -> Operation:
    return gpu.BarrierOp()  # type: ignore[no-untyped-call]


def _cast(parser: Any, name: str) -> Operation:
    """Parse ``memref.cast %m : memref<4x4xf32> to memref<?x?xf32>``."""
    source = parser.parse_unresolved_operand()
    parser.parse_punctuation(":")
    operand = parser.resolve_operand(source, parser.parse_type())
    parser.parse_keyword("to")
    at, result = next_token(parser).span, parser.parse_type()
    if not isinstance(result, MemRefType):
        fail(parser, "XT2067", f"memref.cast gives a memref, not {result}", "write memref<?x?xf32>", at)
    cast: Operation = memref.CastOp.get(operand, result)
    return cast


def _address(parser: Any, name: str) -> Operation:
    """Parse ``memref.extract_aligned_pointer_as_index %m : memref<4x4xf32> -> index``."""
    source = parser.parse_unresolved_operand()
    parser.parse_punctuation(":")
    operand = parser.resolve_operand(source, parser.parse_type())
    parser.parse_punctuation("->")
    parser.parse_type()
    return memref.ExtractAlignedPointerAsIndexOp.build(operands=[operand], result_types=[IndexType()])


def _splat(parser: Any, name: str) -> Operation:
    """Parse ``vector.splat %x : vector<8x16xf32>``: a broadcast of a scalar."""
    source = parser.parse_unresolved_operand()
    parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    at, result = next_token(parser).span, parser.parse_type()
    if not isinstance(result, VectorType):
        fail(parser, "XT2067", f"vector.splat gives a vector, not {result}", "write vector<8x16xf32>", at)
    return BroadcastOp(parser.resolve_operand(source, result.element_type), result)


def _shape_cast(parser: Any, name: str) -> Operation:
    """Parse ``vector.shape_cast %v : vector<8x32xf16> into vector<8x16x2xf16>``."""
    at, source = next_token(parser).span, parser.parse_unresolved_operand()
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    stated = parser.parse_type()
    known = parser.ssa_values.get(source.operand_name, ())
    if len(known) == 1 and known[0].type != stated:
        other_type(parser, known[0], stated, at)
    if not (parser.parse_optional_keyword("into") or parser.parse_optional_punctuation("->")):
        parser.parse_keyword("to")
    return ShapeCastOp.create(operands=[parser.resolve_operand(source, stated)], result_types=[parser.parse_type()],
                              attributes=attributes)


def _counted_loop(parser: Any, name: str) -> Operation:
    """Parse ``scf.for``, also ``scf.for unsigned %i = ...``, whose bounds are compared as unsigned integers."""
    unsigned = parser.parse_optional_keyword("unsigned") is not None
    loop: Operation = scf.ForOp.parse(parser)
    if unsigned:
        loop.attributes[UNSIGNED] = UnitAttr()
    return loop


RULES: dict[str, Callable[[Any, str], Operation]] = {
    "scf.for": _counted_loop,
    **dict.fromkeys(_POSITIONS, _position), **dict.fromkeys(_WITHOUT_OPERANDS, _position_without_axis),
    "gpu.barrier": _barrier, "memref.cast": _cast, "vector.splat": _splat, "vector.shape_cast": _shape_cast,
    "memref.extract_aligned_pointer_as_index": _address,
    "vector.multi_reduction": lambda parser, name: MultiReductionOp.parse(parser),
}


def read_operation(parser: Any, name: str, span: Any) -> Operation:
    """Parse an operation of another dialect after its name."""
    return RULES[name](parser, name)


#
#     %f0 = constant 0.0f : f32
#     for %i1 = 0 to %1 step 256 { ... }
#     %A = alloc() : memref<5x4x3xf32>
#     %0 = dim %A, 0 : memref<?x?xf32>
#
# Allocations are in shared local memory, the only memory that a kernel can allocate.


def _constant(parser: Any, name: str) -> Operation:
    at, number = next_token(parser).span, parser.parse_number()
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
    step = _early_bound(parser) if parser.parse_optional_keyword("step") else parser.constant(1)
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
    at, type_ = next_token(parser).span, parser.parse_type()
    if not isinstance(type_, MemRefType):
        fail(parser, "XT2067", f"alloc gives a memref, not {type_}", "write alloc() : memref<5x4x3xf32>", at)
    shared = MemRefType(type_.element_type, type_.get_shape(), type_.layout, SHARED_SPACE)
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
    """Parse an operation in the spelling of 2019 after its name."""
    return EARLY_RULES[name](parser, name)
