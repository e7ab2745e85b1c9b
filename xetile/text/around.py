"""Operations of other dialects whose custom form xDSL does not read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects import gpu, memref
from xdsl.dialects.builtin import IndexType, MemRefType, VectorType
from xdsl.dialects.gpu import DimensionAttr, DimensionEnum
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation

from xegpu.mlir.vector import ShapeCastOp
from xetile.text.attributes import fail

_POSITIONS: dict[str, Callable[[DimensionAttr], Operation]] = {
    "gpu.block_id": gpu.BlockIdOp, "gpu.grid_dim": gpu.GridDimOp, "gpu.thread_id": gpu.ThreadIdOp,
    "gpu.block_dim": gpu.BlockDimOp, "gpu.global_id": gpu.GlobalIdOp,
}
_PLAIN: dict[str, type[Operation]] = {
    "gpu.subgroup_id": gpu.SubgroupIdOp, "gpu.num_subgroups": gpu.NumSubgroupsOp,
    "gpu.subgroup_size": gpu.SubgroupSizeOp, "gpu.lane_id": gpu.LaneIdOp,
}


def _bound(parser: Any) -> None:
    """``upper_bound 8``: what is known of a position without running; nothing here needs it."""
    if parser.parse_optional_keyword("upper_bound"):
        parser.parse_integer()
    parser.parse_optional_attr_dict()


def _position(parser: Any, name: str) -> Operation:
    """``gpu.block_id x``."""
    at, word = parser._current_token.span, parser.parse_identifier()
    if word not in ("x", "y", "z"):
        fail(parser, "XT2066", f"{name} is along x, y or z, not {word}", f"write {name} x", at)
    _bound(parser)
    return _POSITIONS[name](DimensionAttr(DimensionEnum(word)))


def _number(parser: Any, name: str) -> Operation:
    """``gpu.subgroup_id : index``."""
    _bound(parser)
    if parser.parse_optional_punctuation(":"):
        parser.parse_type()
    return _PLAIN[name]()


def _barrier(parser: Any, name: str) -> Operation:
    return gpu.BarrierOp()  # type: ignore[no-untyped-call]


def _cast(parser: Any, name: str) -> Operation:
    """``memref.cast %m : memref<4x4xf32> to memref<?x?xf32>``."""
    source = parser.parse_unresolved_operand()
    parser.parse_punctuation(":")
    operand = parser.resolve_operand(source, parser.parse_type())
    parser.parse_keyword("to")
    at, result = parser._current_token.span, parser.parse_type()
    if not isinstance(result, MemRefType):
        fail(parser, "XT2067", f"memref.cast gives a memref, not {result}", "write memref<?x?xf32>", at)
    made: Operation = memref.CastOp.get(operand, result)
    return made


def _address(parser: Any, name: str) -> Operation:
    """``memref.extract_aligned_pointer_as_index %m : memref<4x4xf32> -> index``."""
    source = parser.parse_unresolved_operand()
    parser.parse_punctuation(":")
    operand = parser.resolve_operand(source, parser.parse_type())
    parser.parse_punctuation("->")
    parser.parse_type()
    return memref.ExtractAlignedPointerAsIndexOp.build(operands=[operand], result_types=[IndexType()])


def _splat(parser: Any, name: str) -> Operation:
    """``vector.splat %x : vector<8x16xf32>``: a broadcast of a scalar."""
    source = parser.parse_unresolved_operand()
    parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    at, result = parser._current_token.span, parser.parse_type()
    if not isinstance(result, VectorType):
        fail(parser, "XT2067", f"vector.splat gives a vector, not {result}", "write vector<8x16xf32>", at)
    return BroadcastOp(parser.resolve_operand(source, result.element_type), result)


def _shape_cast(parser: Any, name: str) -> Operation:
    """``vector.shape_cast %v : vector<8x32xf16> into vector<8x16x2xf16>``."""
    at, source = parser._current_token.span, parser.parse_unresolved_operand()
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    said = parser.parse_type()
    known = parser.ssa_values.get(source.operand_name, ())
    if len(known) == 1 and known[0].type != said:
        fail(parser, "XT2039", f"%{source.operand_name} is {known[0].type}, and the text says {said}",
             f"write {known[0].type}", at, known[0])
    if not (parser.parse_optional_keyword("into") or parser.parse_optional_punctuation("->")):
        parser.parse_keyword("to")
    return ShapeCastOp.create(operands=[parser.resolve_operand(source, said)], result_types=[parser.parse_type()],
                              attributes=attributes)


RULES: dict[str, Callable[[Any, str], Operation]] = {
    **dict.fromkeys(_POSITIONS, _position), **dict.fromkeys(_PLAIN, _number),
    "gpu.barrier": _barrier, "memref.cast": _cast, "vector.splat": _splat, "vector.shape_cast": _shape_cast,
    "memref.extract_aligned_pointer_as_index": _address,
}


def read_operation(parser: Any, name: str, span: Any) -> Operation:
    """Read an operation of another dialect from behind its name."""
    return RULES[name](parser, name)
