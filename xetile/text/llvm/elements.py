"""Conversion of accesses to single elements, and of blocks that no tile covers, to gathers and scatters of XeTile.

    %v = xegpu.load %A[%o], %m <{chunk_size = 2 : i64}>
        : memref<?xf32>, vector<16xindex>, vector<16xi1> -> vector<16x2xf32>
becomes
    %p = tile_broadcast %o + xetile.iota {axis = 1}
    %t = xetile.init_scattered_tile %A, %p
    %v = xetile.load_gather %t, %mask

A block of an array of one dimension, or of several in its rows, is gathered, too: its rows are all dimensions but the
last, and what lies outside the array is masked off.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, VectorType, i1
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.type import get_element_type_or_self

from xegpu.interop.llvm.dialect.gather_scatter import LoadOp, PrefetchOp, StepOp, StoreOp
from xegpu.interop.llvm.dialect.matrix import flat_shape
from xegpu.interop.llvm.import_blocks import load_scalar, source_of
from xegpu.interop.llvm.importer import Described
from xegpu.ir.memref import static_form
from xegpu.mlir.arith import CmpIOp
from xegpu.mlir.vector import shape_of
from xegpu.rewrite.rewriter import Rule
from xetile.dialect import gather_scatter
from xetile.dialect.reduction import TileBroadcastOp
from xetile.dialect.types import TileEncoding, TileParameters, TileType, WgMapAttr
from xetile.dialect.vector import IotaOp
from xetile.dialect.wg_map import Pair, WgMap

BLOCK = "a block"
"""Encoding of a vector that is a block of two dimensions."""
INDEX = IndexType()


def splat(rewriter: Any, scalar: SSAValue, shape: Pair, map_: WgMap | None) -> SSAValue:
    """Block of one scalar."""
    new = BroadcastOp(scalar, VectorType(scalar.type, shape))
    if map_ is not None:
        new.attributes["wg_map"] = WgMapAttr(map_)
    return rewriter.emit(new)  # type: ignore[no-any-return]


def number(rewriter: Any, value: int, shape: Pair, map_: WgMap | None,
           type_: IntegerType | IndexType = INDEX) -> SSAValue:
    """Block of one integer."""
    scalar = rewriter.constant(value) if type_ == INDEX else rewriter.emit(arith.ConstantOp(IntegerAttr(value, type_)))
    return splat(rewriter, scalar, shape, map_)


def positions(rewriter: Any, shape: Pair, axis: int, map_: WgMap | None) -> SSAValue:
    """Row or column of each element of a block."""
    return rewriter.emit(IotaOp(VectorType(INDEX, shape), axis, None, map_))  # type: ignore[no-any-return]


def compared(rewriter: Any, left: SSAValue, right: SSAValue, predicate: str) -> SSAValue:
    """Comparison of two blocks."""
    return rewriter.emit(CmpIOp(left, right, predicate))  # type: ignore[no-any-return]


def both(rewriter: Any, first: SSAValue | None, second: SSAValue) -> SSAValue:
    """Conjunction of two masks."""
    return second if first is None else rewriter.emit(arith.AndIOp(first, second))


def spread(rewriter: Any, value: SSAValue, shape: Pair, map_: WgMap | None) -> SSAValue:
    """Block that repeats along the dimensions in which it has size 1."""
    small = shape_of(value)
    axes = [axis for axis in (0, 1) if small[axis] != shape[axis]]
    return rewriter.emit(TileBroadcastOp(value, shape, axes, map_)) if axes else value


# -- blocks that no tile covers ------------------------------------------------------------------------------------


def is_tile(form: Described) -> bool:
    """Whether a descriptor's block is a tile of its array's last two dimensions."""
    rank = len(form.sizes) or len(form.source.type.get_shape())  # type: ignore[attr-defined]
    return rank >= 2 and prod(form.desc.shape[:-2]) == 1


def scattered_block(rewriter: Any, form: Described, starts: Sequence[SSAValue],
                    map_: WgMap | None) -> tuple[SSAValue, SSAValue]:
    """Scattered tile of a block's elements, and the mask of those inside the array."""
    source, sizes, strides = rewriter.spelled_out(form)
    extents = (1,) * (len(starts) - len(form.desc.shape)) + form.desc.shape
    shape = flat_shape(form.desc.shape)
    row, column = (positions(rewriter, shape, axis, map_) for axis in (0, 1))
    offset: SSAValue | None = None
    mask: SSAValue | None = None
    if (length := form.desc.block.array_length) > 1:  # blocks below each other in the vector, side by side in memory
        rows, width = extents[-2], extents[-1]
        shape = rows * length, width
        row, column = (positions(rewriter, shape, axis, map_) for axis in (0, 1))
        block = rewriter.emit(arith.FloorDivSIOp(row, number(rewriter, rows, shape, map_)))
        row = rewriter.emit(arith.SubiOp(row, _times(rewriter, block, rows, map_)))
        column = rewriter.emit(arith.AddiOp(column, _times(rewriter, block, width, map_)))
    for axis, extent in enumerate(extents):
        start = splat(rewriter, starts[axis], shape, map_)
        at = start
        if extent > 1 and axis == len(extents) - 1:
            at = rewriter.emit(arith.AddiOp(start, column))
        elif extent > 1:
            inner = prod(extents[axis + 1:-1])
            digit = row if inner == 1 else \
                rewriter.emit(arith.FloorDivSIOp(row, number(rewriter, inner, shape, map_)))
            if prod(extents[:axis]) > 1:
                whole = rewriter.emit(arith.FloorDivSIOp(digit, number(rewriter, extent, shape, map_)))
                digit = rewriter.emit(arith.SubiOp(digit, _times(rewriter, whole, extent, map_)))
            at = rewriter.emit(arith.AddiOp(start, digit))
        step = rewriter.emit(arith.MuliOp(at, splat(rewriter, strides[axis], shape, map_)))
        offset = step if offset is None else rewriter.emit(arith.AddiOp(offset, step))
        if form.desc.block.boundary_check:
            mask = both(rewriter, mask, compared(rewriter, at, number(rewriter, 0, shape, map_), "sge"))
            mask = both(rewriter, mask, compared(rewriter, at, splat(rewriter, sizes[axis], shape, map_), "slt"))
    assert offset is not None
    inside = mask if mask is not None else number(rewriter, 1, shape, map_, i1)
    return scattered(rewriter, source, offset, form.desc.element_type, map_), inside


def _times(rewriter: Any, value: SSAValue, factor: int, map_: WgMap | None) -> SSAValue:
    rows, columns = shape_of(value)
    return rewriter.emit(arith.MuliOp(value, number(rewriter, factor, (rows, columns), map_)))  # type: ignore


def scattered(rewriter: Any, source: SSAValue, offsets: SSAValue, element: Attribute, map_: WgMap | None) -> SSAValue:
    """Scattered tile of elements at offsets from the first one of an array."""
    encoding = TileEncoding(scatter=True, wg_map=map_)
    shape = shape_of(offsets)
    type_ = TileType(TileParameters((shape[0], shape[1]), element, encoding))
    return rewriter.emit(gather_scatter.InitScatteredTileOp(source, offsets, type_))  # type: ignore[no-any-return]


# -- single elements -----------------------------------------------------------------------------------------------


def _access(rewriter: Any, operation: LoadOp | StoreOp, moved: SSAValue,
            element: Attribute) -> tuple[SSAValue, SSAValue]:
    """Scattered tile and mask of the elements that an operation accesses."""
    chunk, map_ = operation.chunk, rewriter.map_at(operation, moved)
    shape = rewriter.block_of(moved)
    if not isinstance(operation.offsets.type, VectorType):
        scalar, kept = rewriter.single(operation.offsets), rewriter.single(operation.mask)
        offsets, mask = splat(rewriter, scalar, shape, map_), splat(rewriter, kept, shape, map_)
    else:
        offsets, mask = rewriter.single(operation.offsets), rewriter.single(operation.mask)
        if chunk == 1 and not rewriter.facts.of_lanes:
            offsets, mask = (rewriter.aligned(value, shape, map_) for value in (offsets, mask))
        if chunk > 1:
            offsets, mask = (_by_rows(rewriter, value, shape, map_) for value in (offsets, mask))
    if chunk > 1:
        offsets = rewriter.emit(arith.AddiOp(offsets, positions(rewriter, shape, 1, map_)))
    return scattered(rewriter, source_of(rewriter, operation), offsets, element, map_), mask


def _by_rows(rewriter: Any, value: SSAValue, shape: Pair, map_: WgMap | None) -> SSAValue:
    """Vector of a number for each row, repeated along the columns."""
    if shape_of(value) != (shape[0], 1):
        rewriter.refuse("XT3643", "the offsets of chunks lie along a row here",
                        "compute them with vectors of a row for each chunk alone")
    return spread(rewriter, value, shape, map_)


def _one(rewriter: Any, operation: LoadOp | StoreOp, element: Attribute) -> tuple[SSAValue, SSAValue]:
    """Scattered tile and mask of the one element of an access to a number."""
    offset, kept = (splat(rewriter, rewriter.single(value), (1, 1), None) for value in
                    (operation.offsets, operation.mask))
    return scattered(rewriter, source_of(rewriter, operation), offset, element, None), kept


def _load_scattered(rewriter: Any, operation: LoadOp) -> None:
    is_vector = isinstance(operation.result.type, VectorType)
    tile, mask = _access(rewriter, operation, operation.result, get_element_type_or_self(operation.result.type)) \
        if is_vector else _one(rewriter, operation, operation.result.type)
    new = gather_scatter.LoadGatherOp(tile, mask)
    new.attributes.update(rewriter.hints(operation))
    rewriter.set(operation.result, rewriter.emit(new), rewriter.encoding_of(operation.result))


def _store_scattered(rewriter: Any, operation: StoreOp) -> None:
    tile, mask = _access(rewriter, operation, operation.value, get_element_type_or_self(operation.value.type)) \
        if isinstance(operation.value.type, VectorType) else _one(rewriter, operation, operation.value.type)
    value = rewriter.aligned(rewriter.as_block(operation.value), shape_of(mask))
    new = gather_scatter.StoreScatterOp(value, tile, mask)
    new.attributes.update(rewriter.hints(operation))
    rewriter.emit(new)


def _prefetch_scattered(rewriter: Any, operation: PrefetchOp) -> None:
    """Drop a scattered prefetch, which tiles do not have and which changes no result."""


def _step(rewriter: Any, operation: StepOp) -> None:
    shape = rewriter.block_of(operation.result)
    map_ = rewriter.map_at(operation, operation.result)
    axis = 0 if shape[1] == 1 else 1
    rewriter.set(operation.result, positions(rewriter, shape, axis, map_), BLOCK)


def _store_scalar(rewriter: Any, operation: memref.StoreOp) -> None:
    """Convert ``memref.store`` of a number to a scatter of one element."""
    if isinstance(operation.value.type, VectorType):
        rewriter.copy(operation)
        return
    array = rewriter.single(operation.memref)
    static = static_form(array.type)
    if static is None:
        metadata = memref.ExtractStridedMetaDataOp(array)
        rewriter.emit(metadata)
        strides = list(metadata.strides)
    else:
        strides = [rewriter.constant(stride) for stride in static[1]]
    offset = rewriter.constant(0)
    for index, stride in zip(operation.indices, strides, strict=True):
        offset = rewriter.add(offset, rewriter.index(arith.MuliOp, rewriter.single(index), stride))
    kept = splat(rewriter, rewriter.emit(arith.ConstantOp(IntegerAttr(1, i1))), (1, 1), None)
    tile = scattered(rewriter, array, splat(rewriter, offset, (1, 1), None), operation.value.type, None)
    rewriter.emit(gather_scatter.StoreScatterOp(rewriter.as_block(operation.value), tile, kept))


RULES: dict[type[Operation], Rule] = {
    LoadOp: _load_scattered,
    StoreOp: _store_scattered,
    PrefetchOp: _prefetch_scattered,
    StepOp: _step,
    memref.LoadOp: load_scalar,
    memref.StoreOp: _store_scalar,
}
