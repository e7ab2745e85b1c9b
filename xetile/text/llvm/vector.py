"""Conversion of MLIR's vector operations on whole vectors to XeTile: masks, constants, reductions, bit casts.

    %m = vector.create_mask %r, %c : vector<8x16xi1>
    %w = vector.bitcast %v : vector<8x16xi32> to vector<8x32xi16>
becomes
    %m = arith.andi (xetile.iota {axis = 0} < %r), (xetile.iota {axis = 1} < %c)
    %w = tile_transpose (xetile.tile_bitcast (tile_transpose %v))
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects import vector as xdsl_vector
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    VectorType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from xegpu.interop.llvm.dialect.vector import ConstantMaskOp, CreateMaskOp, DeinterleaveOp, InterleaveOp
from xegpu.interop.llvm.importer import LANES
from xegpu.ir.dtypes import of_mlir
from xegpu.mlir.arith import ExtUIOp, SelectOp
from xegpu.mlir.combining_kind import combined
from xegpu.mlir.vector import shape_of
from xegpu.rewrite.dense_constant import MOST_RUNS, too_many_elements
from xegpu.rewrite.rewriter import Rule
from xetile.dialect.reduction import TileReduceOp
from xetile.dialect.tile_ops import text
from xetile.dialect.vector import TileBitcastOp
from xetile.dialect.wg_map import Pair, WgMap
from xetile.text.llvm.elements import BLOCK, both, compared, number, positions, splat
from xetile.text.llvm.reshape import SCALAR


def _mask(rewriter: Any, result: SSAValue, sizes: Sequence[SSAValue | int]) -> None:
    """Set a mask of the first elements along each dimension of a vector of at most two."""
    shape, rank = rewriter.block_of(result), len(sizes)
    map_ = rewriter.map_at(None, result)
    if rank > 2:
        rewriter.refuse("XT2411", f"a mask of {rank} dimensions is not read", "mask two dimensions")
    mask = None
    for axis, size in zip((0, 1) if rank == 2 else (0 if shape[1] == 1 else 1,), sizes, strict=True):
        bound = rewriter.constant(size) if isinstance(size, int) else rewriter.single(size)
        at = positions(rewriter, shape, axis, map_)
        mask = both(rewriter, mask, compared(rewriter, at, splat(rewriter, bound, shape, map_), "slt"))
    rewriter.set(result, mask, BLOCK)


def _constant_mask(rewriter: Any, operation: ConstantMaskOp) -> None:
    sizes = [size.value.data for size in operation.mask_dim_sizes]
    _mask(rewriter, operation.result, sizes if all(sizes) else [0] * len(sizes))


def _create_mask(rewriter: Any, operation: CreateMaskOp) -> None:
    _mask(rewriter, operation.result, list(operation.sizes))


def varied_constant(rewriter: Any, result: SSAValue, elements: Sequence[IntegerAttr[Any] | FloatAttr[Any]]) -> None:
    """Set a constant whose elements differ, computed from the position of each element.

    Arithmetic sequences of indices are multiples of the position; anything else is one selection for each run of equal
    elements. In a kernel of lanes a vector is a column of the block, the same in all of them.
    """
    shape, map_ = rewriter.block_of(result), rewriter.map_at(None, result)
    at = positions(rewriter, shape, 0, map_)
    if len(elements) == shape[0] * shape[1]:
        at = rewriter.emit(arith.AddiOp(rewriter.emit(arith.MuliOp(at, number(rewriter, shape[1], shape, map_))),
                                        positions(rewriter, shape, 1, map_)))
    elif (len(elements), LANES) != shape:
        rewriter.refuse("XT3290", f"the elements of this constant differ, and {result.type} is a lane's part of a "
                        f"block of {text(shape)}", "load the numbers from an array")
    values = [element.value.data for element in elements]
    steps = {after - before for before, after in pairwise(values)}
    if isinstance(elements[0].type, IndexType) and len(steps) == 1:
        scaled = rewriter.emit(arith.MuliOp(at, number(rewriter, int(steps.pop()), shape, map_)))
        new = rewriter.emit(arith.AddiOp(scaled, number(rewriter, int(values[0]), shape, map_)))
        rewriter.set(result, new, BLOCK)
        return
    runs = [(element, len(list(run))) for element, run in groupby(elements)]
    if len(runs) > MOST_RUNS:
        rewriter.refuse(*too_many_elements(str(result.type)))
    value, end = _filled(rewriter, runs[-1][0], shape, map_), len(elements)
    for (_, length), (element, _) in zip(runs[:0:-1], runs[-2::-1], strict=True):
        end -= length
        before = compared(rewriter, at, number(rewriter, end, shape, map_), "slt")
        value = rewriter.emit(SelectOp(before, _filled(rewriter, element, shape, map_), value))
    rewriter.set(result, value, BLOCK)


def _filled(rewriter: Any, element: Any, shape: Pair, map_: WgMap | None) -> SSAValue:
    return splat(rewriter, rewriter.emit(arith.ConstantOp(element)), shape, map_)


def _constant(rewriter: Any, operation: arith.ConstantOp) -> None:
    """Lower a vector constant to a broadcast, or to what its elements' positions give."""
    dense = operation.value
    if not isinstance(operation.result.type, VectorType) or not isinstance(dense, DenseIntOrFPElementsAttr):
        rewriter.copy(operation)
    elif dense.is_splat():
        rewriter.fill(rewriter.emit(arith.ConstantOp(next(iter(dense.iter_attrs())))),  # type: ignore[arg-type]
                      operation.result)
    else:
        varied_constant(rewriter, operation.result, list(dense.iter_attrs()))


def _narrowed(rewriter: Any, value: SSAValue, element: Attribute) -> SSAValue:
    """Bit cast to narrower elements along the rows: each element becomes several columns, the lowest bits first."""
    columns = rewriter.transposed(value)
    return rewriter.transposed(rewriter.emit(TileBitcastOp(columns, element)))  # type: ignore[no-any-return]


def _as_bits(rewriter: Any, value: SSAValue, element: Attribute) -> SSAValue:
    """Block whose elements have the same bits, as another type of their size."""
    type_ = value.type
    assert isinstance(type_, VectorType)
    if type_.element_type == element:
        return value
    return rewriter.emit(arith.BitcastOp(value, VectorType(element, type_.get_shape())))  # type: ignore[no-any-return]


def _bitcast(rewriter: Any, operation: xdsl_vector.BitcastOp) -> None:
    """Convert a bit cast to elements of the same size or smaller."""
    source, result = operation.source.type, operation.result.type
    assert isinstance(source, VectorType)
    assert isinstance(result, VectorType)
    before, after = (of_mlir(type_.element_type).bits for type_ in (source, result))
    if after > before:
        rewriter.refuse("XT2412", f"{source} is not read as wider elements, {result}",
                        "load the array's elements as the wider type: take its address, and describe it by that")
    value = rewriter.single(operation.source)
    new = _as_bits(rewriter, value, result.element_type) if after == before else \
        _narrowed(rewriter, value, result.element_type)
    rewriter.set(operation.result, new, BLOCK)


def _interleave(rewriter: Any, operation: InterleaveOp) -> None:
    """Convert an interleaving: both elements in the halves of a word, whose bit cast has them side by side."""
    type_ = operation.lhs.type
    assert isinstance(type_, VectorType)
    bits = of_mlir(type_.element_type).bits
    if bits not in (8, 16, 32):
        rewriter.refuse("XT2412", f"elements of {bits} bits are not interleaved", "use elements of 8, 16 or 32 bits")
    small, wide = IntegerType(bits), IntegerType(2 * bits)
    shape = shape_of(rewriter.single(operation.lhs))
    widened: Any = VectorType(wide, shape)
    low, high = (rewriter.emit(ExtUIOp(_as_bits(rewriter, rewriter.single(value), small), widened))
                 for value in (operation.lhs, operation.rhs))
    map_ = rewriter.map_at(None, operation.lhs)
    shift = number(rewriter, bits, (shape[0], shape[1]), map_, wide)
    words = rewriter.emit(arith.OrIOp(rewriter.emit(arith.ShLIOp(high, shift)), low))
    rewriter.set(operation.result, _narrowed(rewriter, words, type_.element_type), BLOCK)


def _deinterleave(rewriter: Any, operation: DeinterleaveOp) -> None:
    rewriter.refuse("XT2412", f"every other element of {operation.source.type} is not taken out of its block",
                    "load each half by an xegpu.load of its own, with offsets of every other element")


def _reduction(rewriter: Any, operation: xdsl_vector.ReductionOp) -> None:
    """Convert ``vector.reduction`` of a vector of one dimension."""
    source = rewriter.single(operation.vector)
    kind = operation.kind.data.value
    axis = 0 if shape_of(source)[1] == 1 else 1
    result = rewriter.emit(TileReduceOp(kind, source, (axis,)))
    if operation.acc is not None:
        result = rewriter.emit(combined(kind, result, rewriter.as_block(operation.acc)))
    rewriter.set(operation.dest, result, SCALAR)


RULES: dict[type[Operation], Rule] = {
    arith.ConstantOp: _constant,
    ConstantMaskOp: _constant_mask,
    CreateMaskOp: _create_mask,
    xdsl_vector.BitcastOp: _bitcast,
    xdsl_vector.ReductionOp: _reduction,
    InterleaveOp: _interleave,
    DeinterleaveOp: _deinterleave,
}
