"""Operations that move elements between vectors of any rank."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerType,
    VectorType,
    i1,
)
from xdsl.dialects.vector import BitcastOp, BroadcastOp, InsertOp, ShuffleOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.type import get_element_type_or_self

from xegpu.interop.llvm.dialect.vector import DeinterleaveOp, InterleaveOp
from xegpu.ir.dtypes import of_mlir
from xegpu.mlir.arith import IndexCastOp, SelectOp
from xegpu.mlir.vector import (
    ExtractOp,
    ExtractStridedSliceOp,
    InsertStridedSliceOp,
    ShapeCastOp,
    TransposeOp,
    shape_of,
    shape_of_type,
    values_of,
)
from xegpu.rewrite.rewriter import Rule
from xetile.dialect.reduction import TileBroadcastOp, TileReduceOp
from xetile.dialect.supervector import collapsed
from xetile.text.canonicalize.vectors.flattener import ONE, VectorFlattener, element_of, strides_of
from xetile.text.vector.ops import FromElementsOp, PermuteOp, ToElementsOp


def _constant(rewriter: VectorFlattener, operation: arith.ConstantOp) -> None:
    dense, type_ = operation.value, operation.result.type
    if not isinstance(type_, VectorType) or len(type_.get_shape()) == 2 or \
            not isinstance(dense, DenseIntOrFPElementsAttr):
        rewriter.copy(operation)
        return
    flat = VectorType(type_.element_type, collapsed(type_.get_shape()))
    rewriter.set(operation.result, rewriter.emit(arith.ConstantOp(DenseIntOrFPElementsAttr(flat, dense.data))))


def _shape_cast(rewriter: VectorFlattener, operation: ShapeCastOp) -> None:
    value = rewriter.cast(rewriter.single(operation.source), collapsed(shape_of(operation.result)))
    rewriter.set(operation.result, value)


def _broadcast(rewriter: VectorFlattener, operation: BroadcastOp) -> None:
    """Rows are taken as often as they repeat, then a column is repeated."""
    shape, source = shape_of(operation.vector), operation.source
    flat = collapsed(shape)
    if not isinstance(source.type, VectorType):
        rewriter.set(operation.vector, rewriter.splat(rewriter.single(source), flat))
        return
    thin = (*[1] * (len(shape) - len(shape_of(source))), *shape_of(source))
    value = rewriter.take_rows(rewriter.single(source), repeated_rows(thin, shape))
    if shape_of(value) != flat:
        value = rewriter.emit(TileBroadcastOp(value, flat, [1]))
    rewriter.set(operation.vector, value)


def repeated_rows(thin: Sequence[int], shape: Sequence[int]) -> list[int]:
    """Row of a vector of shape ``thin`` for each row of its broadcast to ``shape``."""
    strides = [0 if size == 1 else stride for size, stride in zip(thin[:-1], strides_of(thin[:-1]), strict=True)]
    return [sum(map(int.__mul__, at, strides)) for at in product(*map(range, shape[:-1]))]


def permuted(rewriter: VectorFlattener, value: SSAValue, shape: Sequence[int], order: Sequence[int]) -> SSAValue:
    """Elements of a vector of ``shape``, its rows collapsed, with dimension ``order[i]`` as dimension i."""
    rank = len(shape)
    if rank < 2 or [*order] == [*range(rank)]:
        return value
    if order[-1] == rank - 1:
        strides = strides_of(shape[:-1])
        sizes, steps = ([numbers[axis] for axis in order[:-1]] for numbers in (shape, strides))
        return rewriter.take_rows(value, [sum(map(int.__mul__, at, steps)) for at in product(*map(range, sizes))])
    last = order[-1]
    others = [axis for axis in range(rank - 1) if axis != last]
    value = permuted(rewriter, value, shape, [*others, last, rank - 1])
    high, wide = shape[last], shape[-1]
    count = prod(shape[axis] for axis in others)
    turned = [rewriter.transposed(rewriter.slice(value, (part * high, 0), (high, wide))) for part in range(count)]
    value = stacked(rewriter, turned)
    between = [*others, rank - 1, last]
    return permuted(rewriter, value, [shape[axis] for axis in between], [between.index(axis) for axis in order])


def stacked(rewriter: VectorFlattener, parts: Sequence[SSAValue]) -> SSAValue:
    """Matrices one below the other."""
    if len(parts) == 1:
        return parts[0]
    rows, columns = shape_of(parts[0])
    whole = rewriter.splat(rewriter.number_of(0, element_of(parts[0])), (rows * len(parts), columns))
    for position, part in enumerate(parts):
        whole = rewriter.put(part, whole, (position * rows, 0))
    return whole


def _transpose(rewriter: VectorFlattener, operation: PermuteOp | TransposeOp) -> None:
    order = values_of(operation.permutation)
    value = permuted(rewriter, rewriter.single(operation.source), shape_of(operation.source), order)
    rewriter.set(operation.result, value)


# Positions: a vector as one row for each position that is named.


def _position(rewriter: VectorFlattener, operation: ExtractOp | InsertOp, shape: Sequence[int]) -> int | SSAValue:
    """Number of the row at a position, of the vector with a row for each position."""
    static, dynamic = operation.static_position.get_values(), iter(operation.dynamic_position)
    strides = strides_of(shape[:len(static)])
    if DYNAMIC_INDEX not in static:
        return sum(map(int.__mul__, static, strides))
    total = rewriter.constant(0)
    for entry, stride in zip(static, strides, strict=True):
        if entry != DYNAMIC_INDEX:
            index = rewriter.constant(entry)
        else:
            old = next(dynamic)
            if rewriter.lookup(old).encoding == ONE:
                rewriter.refuse_scalar(operation)
            index = rewriter.single(old)
        total = rewriter.add(total, rewriter.index(arith.MuliOp, index, rewriter.constant(stride)))
    return total


def _rows_of(shape: Sequence[int], count: int) -> tuple[int, int]:
    """Rows and columns of a vector with a row for each position in its first ``count`` dimensions."""
    return prod(shape[:count]), prod(shape[count:])


def row_at(rewriter: VectorFlattener, value: SSAValue, position: int | SSAValue) -> SSAValue:
    """One row of a matrix. Of one that is known at run time, the bits of all others are cleared, and all joined."""
    rows, columns = shape_of(value)
    if isinstance(position, int):
        return rewriter.slice(value, (position, 0), (1, columns))
    element = element_of(value)
    here = rewriter.is_at(0, position, (rows, columns))
    if element == i1:
        return rewriter.emit(TileReduceOp("or", rewriter.emit(arith.AndIOp(value, here)), [0]))
    cast = IndexCastOp if isinstance(element, IndexType) else arith.BitcastOp
    if isinstance(element, (AnyFloat, IndexType)):
        bits = IntegerType(64 if isinstance(element, IndexType) else of_mlir(element).bits)
        value = rewriter.emit(cast(value, VectorType(bits, (rows, columns))))
    zeros = rewriter.splat(rewriter.number_of(0, element_of(value)), (rows, columns))
    row = rewriter.emit(TileReduceOp("or", rewriter.emit(SelectOp(here, value, zeros)), [0]))
    if isinstance(element, (AnyFloat, IndexType)):
        row = rewriter.emit(cast(row, VectorType(element, (1, columns))))
    return row


def _extract(rewriter: VectorFlattener, operation: ExtractOp) -> None:
    shape, count = shape_of(operation.vector), len(operation.static_position)
    rows = rewriter.cast(rewriter.single(operation.vector), _rows_of(shape, count))
    row = row_at(rewriter, rows, _position(rewriter, operation, shape))
    _set(rewriter, operation.result, row)


def _set(rewriter: VectorFlattener, result: SSAValue, value: SSAValue) -> None:
    """Set a result, a vector or a scalar."""
    if isinstance(result.type, VectorType):
        rewriter.set(result, rewriter.cast(value, collapsed(shape_of(result))))
    else:
        rewriter.set(result, value, ONE)


def _insert(rewriter: VectorFlattener, operation: InsertOp) -> None:
    shape, count = shape_of(operation.dest), len(operation.static_position)
    rows = rewriter.cast(rewriter.single(operation.dest), _rows_of(shape, count))
    source = rewriter.single(operation.source)
    part = rewriter.cast(source, (1, shape_of(rows)[1])) if isinstance(operation.source.type, VectorType) else \
        rewriter.splat(source, (1, 1))
    position = _position(rewriter, operation, shape)
    if isinstance(position, int):
        rows = rewriter.put(part, rows, (position, 0))
    else:
        full = shape_of(rows)
        spread = rewriter.emit(TileBroadcastOp(part, full, [0])) if full[0] > 1 else part
        rows = rewriter.emit(SelectOp(rewriter.is_at(0, position, full), spread, rows))
    rewriter.set(operation.result, rewriter.cast(rows, collapsed(shape)))


def _part_rows(shape: Sequence[int], offsets: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Rows of a part of a vector."""
    strides = strides_of(shape[:-1])
    ranges = [range(start, start + size) for start, size in zip(offsets[:-1], sizes[:-1], strict=True)]
    return [sum(map(int.__mul__, at, strides)) for at in product(*ranges)]


def _extract_slice(rewriter: VectorFlattener, operation: ExtractStridedSliceOp) -> None:
    offsets, sizes = values_of(operation.offsets), values_of(operation.sizes)
    value = rewriter.single(operation.source)
    value = rewriter.slice(value, (0, offsets[-1]), (shape_of(value)[0], sizes[-1]))
    rows = _part_rows(shape_of(operation.source), offsets, sizes)
    if rows == [*range(rows[0], rows[0] + len(rows))]:
        rewriter.set(operation.result, rewriter.slice(value, (rows[0], 0), (len(rows), sizes[-1])))
    else:
        rewriter.set(operation.result, rewriter.take_rows(value, rows))


def _insert_slice(rewriter: VectorFlattener, operation: InsertStridedSliceOp) -> None:
    offsets, sizes = values_of(operation.offsets), shape_of(operation.source)
    part, whole = rewriter.single(operation.source), rewriter.single(operation.dest)
    rows = _part_rows(shape_of(operation.dest), offsets, sizes)
    start = 0
    while start < len(rows):
        end = start + 1
        while end < len(rows) and rows[end] == rows[start] + end - start:
            end += 1
        run = rewriter.slice(part, (start, 0), (end - start, sizes[-1]))
        whole = rewriter.put(run, whole, (rows[start], offsets[-1]))
        start = end
    rewriter.set(operation.result, whole)


def _shuffle(rewriter: VectorFlattener, operation: ShuffleOp) -> None:
    """Elements of two vectors, or their parts along the first dimension, as rows of both."""
    first, second = shape_of(operation.v1), shape_of(operation.v2)
    inner = prod(first[1:])
    parts = [rewriter.cast(rewriter.single(value), (size[0], inner))
             for value, size in ((operation.v1, first), (operation.v2, second))]
    both = rewriter.splat(rewriter.number_of(0, element_of(parts[0])), (first[0] + second[0], inner))
    both = rewriter.put(parts[1], rewriter.put(parts[0], both, (0, 0)), (first[0], 0))
    mask = [max(int(number), 0) for number in operation.mask.get_values()]  # -1 is poison
    value = rewriter.take_rows(both, mask)
    rewriter.set(operation.result, rewriter.cast(value, collapsed(shape_of(operation.result))))


def _interleave(rewriter: VectorFlattener, operation: InterleaveOp) -> None:
    count = prod(shape_of(operation.lhs))
    columns = [rewriter.cast(rewriter.single(value), (count, 1)) for value in (operation.lhs, operation.rhs)]
    both = rewriter.splat(rewriter.number_of(0, element_of(columns[0])), (count, 2))
    for position, column in enumerate(columns):
        both = rewriter.put(column, both, (0, position))
    rewriter.set(operation.result, rewriter.cast(both, collapsed(shape_of(operation.result))))


def _deinterleave(rewriter: VectorFlattener, operation: DeinterleaveOp) -> None:
    count = prod(shape_of(operation.res1))
    both = rewriter.cast(rewriter.single(operation.source), (count, 2))
    for position, result in enumerate((operation.res1, operation.res2)):
        column = rewriter.slice(both, (0, position), (count, 1))
        rewriter.set(result, rewriter.cast(column, collapsed(shape_of(result))))


def _from_elements(rewriter: VectorFlattener, operation: FromElementsOp) -> None:
    column = stacked(rewriter, [rewriter.one(value) for value in operation.elements])
    rewriter.set(operation.result, rewriter.cast(column, collapsed(shape_of(operation.result))))


def _to_elements(rewriter: VectorFlattener, operation: ToElementsOp) -> None:
    column = rewriter.cast(rewriter.single(operation.source), (len(operation.elements), 1))
    for position, result in enumerate(operation.elements):
        rewriter.set(result, rewriter.slice(column, (position, 0), (1, 1)), ONE)


def _bitcast(rewriter: VectorFlattener, operation: BitcastOp) -> None:
    source, result = operation.source.type, operation.result.type
    if shape_of_type(source) != shape_of_type(result):
        rewriter.fail("XT2352", f"vector.bitcast: {source} and {result} have elements of different sizes",
                      "cast to elements of the same size; xetile.tile_bitcast reads rows as narrower elements")
    element = get_element_type_or_self(result)
    type_ = VectorType(element, collapsed(shape_of_type(result)))
    rewriter.set(operation.result, rewriter.emit(arith.BitcastOp(rewriter.single(operation.source), type_)))


RULES: dict[type[Operation], Rule] = {
    arith.ConstantOp: _constant, ShapeCastOp: _shape_cast, BroadcastOp: _broadcast, PermuteOp: _transpose,
    TransposeOp: _transpose, ExtractOp: _extract, InsertOp: _insert, ExtractStridedSliceOp: _extract_slice,
    InsertStridedSliceOp: _insert_slice, ShuffleOp: _shuffle, InterleaveOp: _interleave,
    DeinterleaveOp: _deinterleave, FromElementsOp: _from_elements, ToElementsOp: _to_elements, BitcastOp: _bitcast,
}
