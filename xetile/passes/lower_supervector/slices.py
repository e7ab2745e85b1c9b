"""Slices of memory that transfers read or write, as values of the new kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    FloatAttr,
    IndexType,
    IntAttr,
    IntegerAttr,
    MemRefType,
    StridedLayoutAttr,
    UnitAttr,
    VectorType,
    i1,
)
from xdsl.dialects.memref import CastOp, ExtractStridedMetaDataOp
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Attribute, SSAValue

from xegpu.ir.matchers import number
from xegpu.ir.memref import is_shared, row_major, static_form
from xegpu.mlir.arith import CmpIOp, SelectOp
from xegpu.rewrite.rewriter import Rewriter
from xetile.dialect import tile_ops
from xetile.dialect.gather_scatter import InitScatteredTileOp, LoadGatherOp, StoreScatterOp
from xetile.dialect.permutation_map import Permutation
from xetile.dialect.reduction import TileBroadcastOp
from xetile.dialect.supervector import TransferReadOp, TransferWriteOp, collapsed
from xetile.dialect.types import TileEncoding, TileParameters, TileType, WgMapAttr
from xetile.dialect.vector import IotaOp, TileTransposeOp
from xetile.dialect.wg_map import Pair, WgMap
from xetile.dialect.wg_map_inference import map_of

Numbers = tuple[tuple[SSAValue, ...], tuple[SSAValue, ...]]
"""Sizes and strides."""


@dataclass(frozen=True)
class Slice:
    """A slice of memory, and the layout of a vector in it.

    Attributes:
        source: the memref.
        indices: of its first element, one for each dimension of memory.
        vector: the type of the vector, of any rank.
        permutation: for each dimension of the vector, the dimension of memory that it runs along.
        checked: whether some elements may be out of bounds.
        padding: of a read, the value of elements out of bounds.
        wg_map: distributes the vector, its rows collapsed, over the subgroups.
        numbers: sizes and strides that differ from those of ``source``'s type.
    """

    source: SSAValue
    indices: tuple[SSAValue, ...]
    vector: VectorType[Attribute]
    permutation: Permutation
    checked: bool
    padding: SSAValue | None = None
    wg_map: WgMap | None = None
    numbers: Numbers | None = None

    @classmethod
    def from_read(cls, rewriter: Rewriter, operation: TransferReadOp) -> Slice:
        """The slice of a ``transfer_read``."""
        padding = None if operation.padding is None else rewriter.single(operation.padding)
        map_ = None if operation.wg_map is None else operation.wg_map.data
        assert isinstance(operation.result.type, VectorType)
        slice_ = cls(rewriter.single(operation.source), tuple(rewriter.single(index) for index in operation.indices),
                     operation.result.type, operation.permutation, padding is not None, padding, map_)
        return slice_._as_matrix(rewriter)

    @classmethod
    def from_write(cls, rewriter: Rewriter, operation: TransferWriteOp) -> Slice:
        """The slice of a ``transfer_write``."""
        assert isinstance(operation.value.type, VectorType)
        slice_ = cls(rewriter.single(operation.source), tuple(rewriter.single(index) for index in operation.indices),
                     operation.value.type, operation.permutation, operation.in_bounds is None,
                     wg_map=map_of(operation.value))
        return slice_._as_matrix(rewriter)

    @property
    def flat(self) -> Pair:
        """Rows and columns of the vector, all but its last dimension collapsed."""
        return collapsed(self.vector.get_shape())

    @property
    def moving(self) -> Permutation:
        """The permutation, with None for dimensions of size 1."""
        return tuple(None if size == 1 else axis
                     for axis, size in zip(self.permutation, self.vector.get_shape(), strict=True))

    @property
    def constant_padding(self) -> FloatAttr | IntegerAttr | None:
        """The padding if it is a nonzero constant; else None."""
        owner = None if self.padding is None else self.padding.owner
        value = owner.value if isinstance(owner, arith.ConstantOp) else None
        return value if isinstance(value, (FloatAttr, IntegerAttr)) and value.value.data != 0 else None

    @property
    def run_time_padding(self) -> SSAValue | None:
        """The padding if it is not a constant; else None."""
        return None if self.padding is None or isinstance(self.padding.owner, arith.ConstantOp) else self.padding

    def memory(self, rewriter: Rewriter) -> Numbers:
        """Sizes and strides of memory, as values."""
        if self.numbers is not None:
            return self.numbers
        if (static := static_form(self.source.type)) is not None:
            sizes, strides = (tuple(rewriter.constant(number) for number in numbers) for numbers in static)
            return sizes, strides
        base = rewriter.shared(("metadata", self.source), lambda: rewriter.emit(ExtractStridedMetaDataOp(self.source)))
        operation = base.owner
        assert isinstance(operation, ExtractStridedMetaDataOp)
        return tuple(operation.sizes), tuple(operation.strides)

    def _as_matrix(self, rewriter: Rewriter) -> Slice:
        """1D memory of static shape as a matrix of one row, for tiles; other slices unchanged."""
        static = static_form(self.source.type)
        if static is None or len(static[0]) != 1:
            return self
        (size,), (stride,) = static
        indices = (rewriter.constant(0), *self.indices)
        permutation = tuple(None if axis is None else axis + 1 for axis in self.permutation)
        matrix, numbers = _matrix(rewriter, self.source, (1, size), (size * stride, stride))
        return replace(self, source=matrix, indices=indices, permutation=permutation, numbers=numbers)

    def splat(self, rewriter: Rewriter, value: SSAValue) -> SSAValue:
        """A scalar broadcast to the slice's rows and columns."""
        operation = BroadcastOp(value, VectorType(value.type, self.flat))
        if self.wg_map is not None:
            operation.attributes["wg_map"] = WgMapAttr(self.wg_map)
        return rewriter.shared(("splat", value, self.flat, self.wg_map), lambda: rewriter.emit(operation))

    def position(self, rewriter: Rewriter, dimension: int) -> SSAValue:
        """The index of every element along a dimension of the vector, as a 2D index vector."""
        *lead, _ = shape = self.vector.get_shape()
        type_ = VectorType(IndexType(), self.flat)
        axis = int(dimension == len(shape) - 1)
        count = rewriter.shared(("iota", axis, type_, self.wg_map),
                             lambda: rewriter.emit(IotaOp(type_, axis, None, self.wg_map)))
        if axis:
            return count
        inner, _ = collapsed((*lead[dimension + 1:], 1))
        outer, _ = collapsed((*lead[:dimension], 1))
        if inner > 1:
            count = self._with_constant(rewriter, arith.DivSIOp, count, inner)
        return self._with_constant(rewriter, arith.RemSIOp, count, lead[dimension]) if outer > 1 else count

    def _with_constant(self, rewriter: Rewriter, kind: type[arith.DivSIOp | arith.RemSIOp], vector: SSAValue,
                  number: int) -> SSAValue:
        divisor = self.splat(rewriter, rewriter.constant(number))
        return rewriter.shared((kind, vector, number), lambda: rewriter.emit(kind(vector, divisor)))

    def in_bounds_mask(self, rewriter: Rewriter) -> SSAValue:
        """The mask of the elements that are in bounds."""
        sizes, _ = self.memory(rewriter)
        mask: SSAValue | None = None
        for axis, (index, size) in enumerate(zip(self.indices, sizes, strict=True)):
            if axis in self.moving:
                along = self.position(rewriter, self.moving.index(axis))
                position = rewriter.emit(arith.AddiOp(along, self.splat(rewriter, index)))
                holds = rewriter.emit(CmpIOp(position, self.splat(rewriter, size), "ult"))
            else:
                holds = self.splat(rewriter, rewriter.emit(CmpIOp(index, size, "ult")))
            mask = holds if mask is None else rewriter.emit(arith.AndIOp(mask, holds))
        return self.all_true_mask(rewriter) if mask is None else mask

    def all_true_mask(self, rewriter: Rewriter) -> SSAValue:
        """A mask of all elements."""
        return self.splat(rewriter, rewriter.shared(("true",), lambda: rewriter.emit(arith.ConstantOp(IntegerAttr(1,
                                                                                                                   i1)))))


def _matrix(rewriter: Rewriter, source: SSAValue, sizes: Pair, strides: Pair) -> tuple[SSAValue, Numbers]:
    """Memory as a matrix, with its sizes and strides."""
    type_ = source.type
    assert isinstance(type_, MemRefType)
    dynamic = MemRefType(type_.element_type, [DYNAMIC_INDEX] * 2, StridedLayoutAttr([None] * 2), type_.memory_space)
    cast = rewriter.shared(("matrix", source, sizes), lambda: rewriter.emit(CastOp.get(source, dynamic)))
    return cast, (_constants(rewriter, sizes), _constants(rewriter, strides))


def _constants(rewriter: Rewriter, numbers: Sequence[int]) -> tuple[SSAValue, ...]:
    return tuple(rewriter.constant(number) for number in numbers)


def type_cast(rewriter: Rewriter, array: SSAValue, vector: Attribute, map_: WgMap | None) -> Slice:
    """The slice of a complete array, as the single vector of a ``vector_type_cast``.

    Args:
        array: the memref, in the old kernel.
        vector: the type of the vector.
        map_: distributes the vector, its rows collapsed, over the subgroups.
    """
    assert isinstance(vector, VectorType)
    source, shape = rewriter.single(array), vector.get_shape()
    static, flat = static_form(source.type), collapsed(shape)
    if len(shape) == 2 or (not is_shared(source.type) and (static is None or static[1] != row_major(shape))):
        zeros = tuple(rewriter.constant(0) for _ in shape)
        return Slice(source, zeros, vector, tuple(range(len(shape))), checked=False, wg_map=map_)
    source, numbers = _matrix(rewriter, source, flat, (flat[1], 1))
    zero = rewriter.constant(0)
    return Slice(source, (zero, zero), VectorType(vector.element_type, flat), (0, 1), checked=False, wg_map=map_,
                 numbers=numbers)


# Slices that no tile can describe: gathers and scatters.
#
#     %v = supervector.transfer_read %A[%i, %j, %k], %p {permutation_map = affine_map<(d0, d1, d2) -> (d2, d0)>}
# becomes
#     %o = base + iota(0) * stride2 + iota(1) * stride0
#     %m = (%k + iota(0) < size2) & (%i + iota(1) < size0) & (%j < size1)
#     %v = load_gather (init_scattered_tile %A, %o), %m
#
# A transfer that is in_bounds has a mask of all elements.


def _scattered_tile(rewriter: Rewriter, slice_: Slice) -> SSAValue:
    """The scattered tile of a slice."""
    assert isinstance(slice_.source.type, MemRefType)
    if is_shared(slice_.source.type):
        rewriter.fail("XT2525",
                   f"this slice of {slice_.source.type} in shared local memory takes single elements, which cannot be "
                   "gathered there", "let the last two dimensions of the vector run along the last two of memory")
    _, strides = slice_.memory(rewriter)
    products = [rewriter.index(arith.MuliOp, index, stride)
                for index, stride in zip(slice_.indices, strides, strict=True)]
    base = reduce(rewriter.add, products, rewriter.constant(0))
    offsets = slice_.splat(rewriter, base)
    for dimension, axis in enumerate(slice_.moving):
        if axis is not None:
            along, stride = slice_.position(rewriter, dimension), strides[axis]
            if number(stride) != 1:
                along = rewriter.emit(arith.MuliOp(along, slice_.splat(rewriter, stride)))
            offsets = rewriter.emit(arith.AddiOp(offsets, along))
    encoding = TileEncoding(wg_map=slice_.wg_map, scatter=True)
    parameters = TileParameters(slice_.flat, slice_.source.type.element_type, encoding)
    return rewriter.emit(InitScatteredTileOp(slice_.source, offsets, TileType(parameters)))


def _mask(rewriter: Rewriter, slice_: Slice) -> SSAValue:
    return slice_.in_bounds_mask(rewriter) if slice_.checked else slice_.all_true_mask(rewriter)


def gather(rewriter: Rewriter, slice_: Slice) -> SSAValue:
    """Gather the vector of a slice, its rows collapsed."""
    tile, mask = _scattered_tile(rewriter, slice_), _mask(rewriter, slice_)
    value = rewriter.emit(LoadGatherOp(tile, mask, slice_.constant_padding))
    if slice_.run_time_padding is None:
        return value
    return rewriter.emit(SelectOp(mask, value, slice_.splat(rewriter, slice_.run_time_padding)))


def masked_scatter(rewriter: Rewriter, slice_: Slice, value: SSAValue, chosen: SSAValue | None = None) -> None:
    """Scatter a vector, its rows collapsed, to a slice; of its elements those that are ``chosen``, by default all."""
    if chosen is None:
        mask = _mask(rewriter, slice_)
    elif slice_.checked:
        mask = rewriter.emit(arith.AndIOp(slice_.in_bounds_mask(rewriter), chosen))
    else:
        mask = chosen
    rewriter.emit(StoreScatterOp(value, _scattered_tile(rewriter, slice_), mask))


# Slices that a tile can describe: loads and stores of tiles, with a transpose or broadcast for the vector's dimensions.
#
#     %v = supervector.transfer_read %A[%i, %j] {permutation_map = affine_map<(d0, d1) -> (0, d1)>}
# becomes
#     %t = init_tile %A, [%i, %j] : -> tile<1x64xf32>
#     %v = tile_broadcast (load_tile %t) [0] : vector<1x64xf32> -> vector<32x64xf32>


@dataclass(frozen=True)
class _TileAccess:
    """The relation of a vector to the tile of its slice.

    Attributes:
        rows, columns: whether they run along memory; else the vector is broadcast along them.
        transposed: whether the tile is the transpose of the vector.
    """

    rows: bool
    columns: bool
    transposed: bool


def fits(slice_: Slice) -> bool:
    """Whether a tile can describe a slice."""
    return _tile_access(slice_) is not None


def _tile_access(slice_: Slice) -> _TileAccess | None:
    """The tile of a slice; None if its rows or columns are not those of one matrix."""
    rank, shape = len(slice_.indices), slice_.vector.get_shape()
    *lead, columns = slice_.moving if shape else (None,)
    rows = [axis for axis in lead if axis is not None]
    if rank < 2 or len(rows) > 1 or (rows and slice_.flat[0] != shape[lead.index(rows[0])]):
        return None
    pair = (rows[0] if rows else None, columns)
    for transposed, axes in ((False, (rank - 2, rank - 1)), (True, (rank - 1, rank - 2))):
        if all(axis in (None, expected) for axis, expected in zip(pair, axes, strict=True)):
            return _TileAccess(pair[0] is not None, pair[1] is not None, transposed)
    return None


def _order(slice_: Slice) -> Pair:
    """The ``order`` of tiles on memory by its type: rows or columns are contiguous (XeTile.md, Appendix 1)."""
    if slice_.numbers is not None or not isinstance(slice_.source.type, MemRefType):
        return 1, 0
    if (static := static_form(slice_.source.type)) is not None:
        return (0, 1) if static[1][-2] == 1 and static[1][-1] != 1 else (1, 0)
    layout = slice_.source.type.layout
    if not isinstance(layout, StridedLayoutAttr):
        return 1, 0
    down, across = list(layout.strides)[-2:]
    return (0, 1) if down == IntAttr(1) and across != IntAttr(1) else (1, 0)


def _tile(rewriter: Rewriter, slice_: Slice, shape: Pair, map_: WgMap | None) -> SSAValue:
    numbers = slice_.numbers
    if numbers is None and static_form(slice_.source.type) is None:
        numbers = slice_.memory(rewriter)
    sizes, strides = numbers or ((), ())
    assert isinstance(slice_.source.type, MemRefType)
    parameters = TileParameters(shape, slice_.source.type.element_type, TileEncoding(_order(slice_), map_))
    init_tile = tile_ops.InitTileOp(slice_.source, slice_.indices, sizes, strides, TileType(parameters))
    if not slice_.checked:
        init_tile.attributes[tile_ops.IN_BOUNDS] = UnitAttr()
    return rewriter.emit(init_tile)


def load(rewriter: Rewriter, slice_: Slice) -> SSAValue:
    """Load the vector of a slice through a tile, its rows collapsed."""
    access = _tile_access(slice_)
    assert access is not None
    axes = [axis for axis, runs in enumerate((access.rows, access.columns)) if not runs and slice_.flat[axis] > 1]
    rows, columns = (1 if axis in axes else size for axis, size in enumerate(slice_.flat))
    map_ = slice_.wg_map and slice_.wg_map.collapsed(axes)
    if access.transposed:
        tile = _tile(rewriter, slice_, (columns, rows), map_ and map_.transposed())
        loaded = rewriter.emit(tile_ops.LoadTileOp(tile, slice_.constant_padding))
        value = rewriter.emit(TileTransposeOp(loaded, map_))
    else:
        tile = _tile(rewriter, slice_, (rows, columns), map_)
        value = rewriter.emit(tile_ops.LoadTileOp(tile, slice_.constant_padding))
    if axes:
        value = rewriter.emit(TileBroadcastOp(value, slice_.flat, axes, slice_.wg_map))
    if slice_.run_time_padding is None:
        return value
    padding = slice_.splat(rewriter, slice_.run_time_padding)
    return rewriter.emit(SelectOp(slice_.in_bounds_mask(rewriter), value, padding))


def store(rewriter: Rewriter, slice_: Slice, value: SSAValue) -> None:
    """Store a vector, its rows collapsed, to a slice through a tile."""
    access, map_ = _tile_access(slice_), slice_.wg_map
    assert access is not None
    if access.transposed:
        map_ = map_ and map_.transposed()
        value = rewriter.emit(TileTransposeOp(value, map_))
    shape = slice_.flat[::-1] if access.transposed else slice_.flat
    rewriter.emit(tile_ops.StoreTileOp(value, _tile(rewriter, slice_, shape, map_)))
