"""Reductions, contractions and outer products of vectors of any rank."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import VectorType
from xdsl.dialects.vector import ReductionOp
from xdsl.ir import Attribute, Operation, SSAValue

from xegpu.interop.llvm.dialect.vector import MultiReductionOp
from xegpu.ir.dtypes import of_mlir
from xegpu.mlir.arith import ExtSIOp
from xegpu.mlir.combining_kind import combined
from xegpu.mlir.vector import shape_of, shape_of_type
from xegpu.rewrite.rewriter import Rule
from xetile.dialect.mma import TileMmaOp
from xetile.dialect.reduction import TileBroadcastOp, TileReduceOp
from xetile.dialect.supervector import collapsed
from xetile.dialect.types import verify_product_types
from xetile.text.canonicalize.vectors.flattener import ONE, VectorFlattener, element_of
from xetile.text.canonicalize.vectors.moves import permuted, stacked
from xetile.text.vector.ops import GeneralContractOp, OuterProductOp

_LANES = 16
"""Columns of the smallest product, and the numbers that it sums in steps, on devices with a matrix engine."""
_MOST_OUTER = 64
"""Numbers to sum, up to which a product that is no multiple of these is one of columns by rows."""


def _reduced(rewriter: VectorFlattener, kind: str, value: SSAValue, shape: Sequence[int],
             axes: Sequence[int]) -> SSAValue:
    """Reduction of a vector of ``shape`` along ``axes``; what is left has the collapsed shape of the other sizes."""
    rank, columns = len(shape), shape[-1]
    if set(axes) == set(range(rank)):
        return rewriter.emit(TileReduceOp(kind, value, (0, 1)))
    if rank - 1 in axes:
        value, columns = rewriter.emit(TileReduceOp(kind, value, (1,))), 1
    lead = sorted(axis for axis in axes if axis != rank - 1)
    kept = [axis for axis in range(rank - 1) if axis not in lead]
    if lead:
        value = permuted(rewriter, value, (*shape[:-1], columns), [*lead, *kept, rank - 1])
        rows, rest = prod(shape[axis] for axis in lead), prod(shape[axis] for axis in kept) * columns
        value = rewriter.emit(TileReduceOp(kind, rewriter.cast(value, (rows, rest)), (0,)))
    left = [shape[axis] for axis in range(rank) if axis not in axes]
    return rewriter.cast(value, collapsed(left))


def _multi_reduction(rewriter: VectorFlattener, operation: MultiReductionOp) -> None:
    kind, axes = str(operation.kind.data), operation.axes
    value = rewriter.single(operation.source)
    if axes:
        value = _reduced(rewriter, kind, value, shape_of(operation.source), axes)
    _accumulate(rewriter, kind, value, operation.acc, operation.result)


def _reduction(rewriter: VectorFlattener, operation: ReductionOp) -> None:
    kind = str(operation.kind.data)
    value = rewriter.emit(TileReduceOp(kind, rewriter.single(operation.vector), (0, 1)))
    _accumulate(rewriter, kind, value, operation.acc, operation.dest)


def _accumulate(rewriter: VectorFlattener, kind: str, value: SSAValue, acc: SSAValue | None,
                result: SSAValue) -> None:
    """Set a result, a vector or a scalar, of a value and an accumulator."""
    scalar = not isinstance(result.type, VectorType)
    if acc is not None:
        value = rewriter.emit(combined(kind, value, rewriter.one(acc) if scalar else rewriter.single(acc)))
    rewriter.set(result, value, ONE if scalar else None)


def _outer_product(rewriter: VectorFlattener, operation: OuterProductOp) -> None:
    lhs, shape = rewriter.single(operation.lhs), collapsed(shape_of(operation.result))
    if isinstance(operation.rhs.type, VectorType):
        rows = rewriter.transposed(lhs)
        first, second = (
            rewriter.emit(TileBroadcastOp(value, shape, [axis])) if shape_of(value) != shape else value
            for value, axis in ((rows, 1), (rewriter.single(operation.rhs), 0)))
    else:
        first, second = lhs, rewriter.splat(rewriter.single(operation.rhs), shape)
    is_float, kind = of_mlir(element_of(lhs)).is_float, str(operation.kind.data)
    if operation.acc is not None and is_float and kind == "add":
        rewriter.set(operation.result, rewriter.emit(math.FmaOp(first, second, rewriter.single(operation.acc))))
        return
    value = rewriter.emit(arith.MulfOp(first, second) if is_float else arith.MuliOp(first, second))
    if operation.acc is not None:
        value = rewriter.emit(combined(kind, rewriter.single(operation.acc), value))
    rewriter.set(operation.result, value)


def _contract(rewriter: VectorFlattener, operation: GeneralContractOp) -> None:
    """A product of two matrices for each element of the batch.

        vector.contract (b, m, k), (b, k, n) -> (b, m, n)
    becomes b times
        tile_mma (rows b * m ... of lhs), (rows b * k ... of rhs), (rows b * m ... of acc)
    """
    left, right, result = operation.axes
    batch = [axis for axis in result if axis in left and axis in right]
    rows, columns = ([axis for axis in result if axis in own and axis not in batch] for own in (left, right))
    summed = [axis for axis in left if axis in right and axis not in result]
    if lost := [axis for own, other in ((left, right), (right, left)) for axis in own
                if axis not in other and axis not in result]:
        rewriter.fail("XT2353", f"vector.contract sums d{lost[0]}, which only one operand has",
                      "reduce that operand along it first, with vector.multi_reduction")
    sizes: dict[int | None, int] = {}
    for axes, value in ((left, operation.lhs), (right, operation.rhs)):
        sizes.update(zip(axes, shape_of(value), strict=True))
    count, high, wide, deep = (prod(sizes[axis] for axis in axes) for axes in (batch, rows, columns, summed))
    a = _ordered(rewriter, operation.lhs, left, (*batch, *rows, *summed), (count * high, deep))
    b = _ordered(rewriter, operation.rhs, right, (*batch, *summed, *columns), (count * deep, wide))
    scalar = not isinstance(operation.result.type, VectorType)
    own = (*batch, *rows, *columns)
    acc = rewriter.one(operation.acc) if scalar else \
        _ordered(rewriter, operation.acc, result, own, (count * high, wide))
    parts = []
    for part in range(count):
        lhs, rhs = rewriter.slice(a, (part * high, 0), (high, deep)), rewriter.slice(b, (part * deep, 0), (deep, wide))
        start = rewriter.slice(acc, (part * high, 0), (high, wide))
        parts.append(_product(rewriter, lhs, rhs, start))
    value = stacked(rewriter, parts)
    if scalar:
        rewriter.set(operation.result, value, ONE)
        return
    shape = [sizes[axis] for axis in own]
    value = permuted(rewriter, rewriter.cast(value, collapsed(shape)), shape, [own.index(axis) for axis in result])
    rewriter.set(operation.result, rewriter.cast(value, collapsed(shape_of_type(operation.result.type))))


def _product(rewriter: VectorFlattener, a: SSAValue, b: SSAValue, acc: SSAValue) -> SSAValue:
    """Product of two matrices; of those that no instruction is small enough for, sums of products."""
    type_ = acc.type
    assert isinstance(type_, VectorType)
    deep, wide = shape_of(b)
    if wide > 1 and (deep > _MOST_OUTER or not (deep % _LANES or wide % _LANES)):
        return rewriter.emit(TileMmaOp(a, b, acc, type_))
    verify_product_types(a.type, b.type, type_)
    if wide > 1:
        return _outer_products(rewriter, a, b, acc)
    row = rewriter.transposed(b)
    if shape_of(a)[0] > 1:
        row = rewriter.emit(TileBroadcastOp(row, shape_of(a), [0]))
    left, right = (_widened(rewriter, value, type_.element_type) for value in (a, row))
    is_float = of_mlir(type_.element_type).is_float
    products = rewriter.emit(arith.MulfOp(left, right) if is_float else arith.MuliOp(left, right))
    sums = rewriter.emit(TileReduceOp("add", products, (1,)))
    return rewriter.emit(combined("add", sums, acc))


def _outer_products(rewriter: VectorFlattener, a: SSAValue, b: SSAValue, acc: SSAValue) -> SSAValue:
    """Sum of the products of each column of A by its row of B."""
    assert isinstance(acc.type, VectorType)
    element, (high, deep), wide = acc.type.element_type, shape_of(a), shape_of(b)[1]
    a, b = (_widened(rewriter, value, element) for value in (a, b))
    for k in range(deep):
        column, row = rewriter.slice(a, (0, k), (high, 1)), rewriter.slice(b, (k, 0), (1, wide))
        column = rewriter.emit(TileBroadcastOp(column, (high, wide), [1]))
        row = rewriter.emit(TileBroadcastOp(row, (high, wide), [0])) if high > 1 else row
        if of_mlir(element).is_float:
            acc = rewriter.emit(math.FmaOp(column, row, acc))
        else:
            acc = rewriter.emit(arith.AddiOp(rewriter.emit(arith.MuliOp(column, row)), acc))
    return acc


def _widened(rewriter: VectorFlattener, value: SSAValue, element: Attribute) -> SSAValue:
    """A vector with the elements of the sum."""
    if element_of(value) == element:
        return value
    kind = arith.ExtFOp if of_mlir(element).is_float else ExtSIOp
    return rewriter.emit(kind(value, VectorType(element, shape_of(value))))


def _ordered(rewriter: VectorFlattener, old: SSAValue, axes: Sequence[int | None], order: Sequence[int | None],
             shape: tuple[int, int]) -> SSAValue:
    """An operand with its iterators in another order, as a matrix."""
    value = permuted(rewriter, rewriter.single(old), shape_of(old), [axes.index(axis) for axis in order])
    return rewriter.cast(value, shape)


RULES: dict[type[Operation], Rule] = {
    MultiReductionOp: _multi_reduction, ReductionOp: _reduction, OuterProductOp: _outer_product,
    GeneralContractOp: _contract,
}
