"""Fusion of the dequantization of 4-bit weights with their packing as operand B.

    %n = arith.andi (arith.shrui %words, 4), 15 : vector<16x1xui32>
    %w = arith.mulf (arith.subf (arith.uitofp %n), (broadcast %zero)), (broadcast %scale) : vector<16x1xf16>
    %b = xegpu.pack %w : vector<16x1xf16> -> vector<8x2xf16>
becomes
    %b = xegpu.dequantize %words, %zero, %scale {shift = 4} : vector<16x1xui32>, ... -> vector<8x2xf16>

Element by element each 16-bit number takes a register of its own, and the pairs are put together at the end; two rows
of words that are paired first are dequantized 32 elements at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from xdsl.dialects import arith, func, ub
from xdsl.dialects.builtin import UnrealizedConversionCastOp
from xdsl.dialects.vector import BroadcastOp as SplatOp
from xdsl.ir import Operation, SSAValue
from xdsl.traits import Pure

from xegpu.dialect.convert_layout import MASK, NIBBLES, DequantizeOp
from xegpu.dialect.reduction import BroadcastOp
from xegpu.dialect.vector import PackOp
from xegpu.ir.dtypes import bf16, f16, i32, of_mlir, u32
from xegpu.ir.matchers import number
from xegpu.mlir.arith import SIToFPOp, UIToFPOp
from xegpu.mlir.vector import ExtractStridedSliceOp, InsertStridedSliceOp, shape_of, values_of, vector_type
from xegpu.rewrite.dce import erase

REGISTER_ROWS = 16
"""Rows of operand B in 16 bits, which are packed together."""


@dataclass(frozen=True)
class _Weights:
    """Rows of dequantized weights.

    Attributes:
        words: the fragment that they are taken from.
        first, rows: of the words, which become as many rows.
        shift: lowest bit of a weight in its word.
        zero, scale: a row, or a number for all.
    """

    words: SSAValue
    first: int
    rows: int
    shift: int
    zero: SSAValue
    scale: SSAValue


def fuse_dequantize(function: func.FuncOp) -> None:
    """Fuse dequantization and packing in a distributed kernel, in place."""
    for operation in list(function.walk()):
        if isinstance(operation, PackOp) and (weights := _packed_weights(operation)) is not None:
            _replace(operation, weights)


def _replace(pack: PackOp, weights: _Weights) -> None:
    element = pack.source.type.element_type  # type: ignore[attr-defined]
    words, zero, scale = weights.words, weights.zero, weights.scale
    added: list[Operation] = []
    if shape_of(words)[0] != weights.rows:
        added.append(ExtractStridedSliceOp(words, (weights.first, 0), (weights.rows, 1)))
        words = added[-1].results[0]

    def row(value: SSAValue) -> SSAValue:
        if shape_of(value) == (1, 1):
            return value
        assert isinstance(value.owner, SplatOp)
        added.append(SplatOp(value.owner.source, vector_type((1, 1), element)))
        return added[-1].results[0]

    zero, scale = row(zero), row(scale)
    assert pack.sg_map is not None
    added.append(DequantizeOp(words, zero, scale, weights.shift, pack.sg_map.data, pack.result.type))
    assert pack.parent is not None
    for operation in added:
        operation.location = pack.location
        pack.parent.insert_op_before(operation, pack)
    added[-1].results[0].name_hint = pack.result.name_hint
    pack.result.replace_all_uses_with(added[-1].results[0])
    _erase_unused(pack)


def _erase_unused(operation: Operation) -> None:
    """Erase an unused operation, and the operations that it leaves unused."""
    owners = {operand.owner for operand in operation.operands}
    erase(operation)
    for owner in owners:
        if isinstance(owner, Operation) and owner.has_trait(Pure) and not any(result.uses for result in owner.results):
            _erase_unused(owner)


def _packed_weights(pack: PackOp) -> _Weights | None:
    """Dequantized weights that are packed, put together of consecutive rows."""
    rows, dtype = shape_of(pack.source), of_mlir(pack.source.type.element_type)  # type: ignore[attr-defined]
    if pack.sg_map is None or dtype not in (f16, bf16) or len(rows) != 2 or rows[0] % REGISTER_ROWS or rows[1] != 1:
        return None
    parts = [(_weights(part), first) for first, part in sorted(_inserted_parts(pack.source), key=lambda part: part[0])]
    whole, _ = parts[0]
    if whole is None:
        return None
    for part, first in parts[1:]:
        if part is None or first != whole.rows or \
                replace(part, rows=whole.rows, first=whole.first) != whole or part.first != whole.first + whole.rows:
            return None
        whole = replace(whole, rows=whole.rows + part.rows)
    return whole if whole.rows == rows[0] else None


def _inserted_parts(value: SSAValue) -> Iterator[tuple[int, SSAValue]]:
    """First rows and values that are put together to a fragment."""
    start = value
    while isinstance(start.owner, InsertStridedSliceOp):
        yield values_of(start.owner.offsets)[0], start.owner.source
        start = start.owner.dest
    if not isinstance(start.owner, ub.PoisonOp):
        yield 0, start


def _weights(value: SSAValue) -> _Weights | None:
    """The chain of operations that dequantizes, or None."""
    product = value.owner
    if not isinstance(product, arith.MulfOp):
        return None
    for difference, scale in ((product.lhs, product.rhs), (product.rhs, product.lhs)):
        if isinstance(difference.owner, arith.SubfOp) and (row := _row(scale)) is not None:
            converted, zero = difference.owner.lhs, _row(difference.owner.rhs)
            if zero is not None and isinstance(converted.owner, (UIToFPOp, SIToFPOp)) and \
                    (nibbles := _nibbles(converted.owner.operands[0])) is not None:
                return _Weights(*nibbles, zero, row)
    return None


def _row(value: SSAValue) -> SSAValue | None:
    """The row, or the number as it is, that is repeated along rows."""
    if isinstance(value.owner, SplatOp):
        return value
    is_row = isinstance(value.owner, BroadcastOp) and shape_of(value.owner.source) == (1, 1) and \
        shape_of(value)[-1] == 1
    return value.owner.source if is_row else None  # type: ignore[union-attr]


def _nibbles(value: SSAValue) -> tuple[SSAValue, int, int, int] | None:
    """Words, first row, rows and lowest bit of a value of 4-bit fields."""
    mask = value.owner
    if not isinstance(mask, arith.AndIOp) or of_mlir(value.type.element_type) not in (i32, u32):  # type: ignore[attr-defined]
        return None
    shifted = next((one for one, other in ((mask.lhs, mask.rhs), (mask.rhs, mask.lhs)) if _splat(other) == MASK), None)
    if shifted is None:
        return None
    shift: int | None = 0
    if isinstance(shifted.owner, (arith.ShRUIOp, arith.ShRSIOp)):
        shift, shifted = _splat(shifted.owner.rhs), shifted.owner.lhs
    if shift is None or shift not in NIBBLES:
        return None
    rows = shape_of(shifted)[0]
    if isinstance(shifted.owner, ExtractStridedSliceOp):
        return shifted.owner.source, values_of(shifted.owner.offsets)[0], rows, shift
    return shifted, 0, rows, shift


def _splat(value: SSAValue) -> int | None:
    """The constant that all elements of a vector are."""
    if not isinstance(value.owner, SplatOp):
        return None
    source = value.owner.source
    if isinstance(source.owner, UnrealizedConversionCastOp):
        source = source.owner.inputs[0]
    return number(source)
