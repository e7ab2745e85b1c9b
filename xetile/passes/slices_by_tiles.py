"""Slices of memory that tiles reach: loaded and stored whole, transposed or broadcast where the vector wants it.

    %v = supervector.transfer_read %A[%i, %j] {permutation_map = affine_map<(d0, d1) -> (0, d1)>}
becomes
    %t = init_tile %A, [%i, %j] : -> tile<1x64xf32>
    %v = tile_broadcast (load_tile %t) [0] : vector<1x64xf32> -> vector<32x64xf32>
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import IntAttr, MemRefType, StridedLayoutAttr, UnitAttr
from xdsl.ir import SSAValue

from xegpu.ir.memref import static_form
from xegpu.mlir.arith import SelectOp
from xegpu.rewrite.rewriter import Rebuilder
from xetile.dialect import ops
from xetile.dialect.attributes import TileEncoding, TileParameters, TileType
from xetile.dialect.vector_ops import TileBroadcastOp
from xetile.distribution import Pair, WgMap
from xetile.passes.slices import Slice


@dataclass(frozen=True)
class _Window:
    """How a vector comes from a tile.

    Attributes:
        rows, columns: whether they run along memory; else the vector repeats along them.
        turned: whether the tile is the transpose of the vector.
    """

    rows: bool
    columns: bool
    turned: bool


def fits(slice_: Slice) -> bool:
    """Whether a tile reaches a slice."""
    return _window(slice_) is not None


def _window(slice_: Slice) -> _Window | None:
    """The tile of a slice; None if its rows or columns are not those of one matrix."""
    rank, shape = len(slice_.indices), slice_.vector.get_shape()
    *lead, columns = slice_.moving if shape else (None,)
    rows = [axis for axis in lead if axis is not None]
    if rank < 2 or len(rows) > 1 or (rows and slice_.flat[0] != shape[lead.index(rows[0])]):
        return None
    pair = (rows[0] if rows else None, columns)
    for turned, axes in ((False, (rank - 2, rank - 1)), (True, (rank - 1, rank - 2))):
        if all(axis in (None, own) for axis, own in zip(pair, axes, strict=True)):
            return _Window(pair[0] is not None, pair[1] is not None, turned)
    return None


def _order(slice_: Slice) -> Pair:
    """The order of tiles on memory, by what its type says: rows or columns are contiguous (XeTile.md, Appendix 1)."""
    if slice_.numbers is not None or not isinstance(slice_.source.type, MemRefType):
        return 1, 0
    if (static := static_form(slice_.source.type)) is not None:
        return (0, 1) if static[1][-2] == 1 and static[1][-1] != 1 else (1, 0)
    layout = slice_.source.type.layout
    if not isinstance(layout, StridedLayoutAttr):
        return 1, 0
    down, across = list(layout.strides)[-2:]
    return (0, 1) if down == IntAttr(1) and across != IntAttr(1) else (1, 0)


def _tile(build: Rebuilder, slice_: Slice, shape: Pair, map_: WgMap | None) -> SSAValue:
    numbers = slice_.numbers
    if numbers is None and static_form(slice_.source.type) is None:
        numbers = slice_.memory(build)
    sizes, strides = numbers or ((), ())
    assert isinstance(slice_.source.type, MemRefType)
    parameters = TileParameters(shape, slice_.source.type.element_type, TileEncoding(_order(slice_), map_))
    made = ops.InitTileOp(slice_.source, slice_.indices, sizes, strides, TileType(parameters))
    if not slice_.checked:
        made.attributes[ops.IN_BOUNDS] = UnitAttr()
    return build.emit(made)


def load(build: Rebuilder, slice_: Slice) -> SSAValue:
    """The vector of a slice that a tile reaches, its rows collapsed."""
    window = _window(slice_)
    assert window is not None
    axes = [axis for axis, runs in enumerate((window.rows, window.columns)) if not runs and slice_.flat[axis] > 1]
    rows, columns = (1 if axis in axes else size for axis, size in enumerate(slice_.flat))
    map_ = slice_.wg_map and slice_.wg_map.collapsed(axes)
    if window.turned:
        tile = _tile(build, slice_, (columns, rows), map_ and map_.transposed())
        loaded = build.emit(ops.LoadTileOp(tile, slice_.constant_padding))
        value = build.emit(ops.TileTransposeOp(loaded, map_))
    else:
        value = build.emit(ops.LoadTileOp(_tile(build, slice_, (rows, columns), map_), slice_.constant_padding))
    if axes:
        value = build.emit(TileBroadcastOp(value, slice_.flat, axes, slice_.wg_map))
    if slice_.run_time_padding is None:
        return value
    return build.emit(SelectOp(slice_.inside(build), value, slice_.spread(build, slice_.run_time_padding)))


def store(build: Rebuilder, slice_: Slice, value: SSAValue) -> None:
    """A vector, its rows collapsed, to a slice that a tile reaches."""
    window, map_ = _window(slice_), slice_.wg_map
    assert window is not None
    if window.turned:
        map_ = map_ and map_.transposed()
        value = build.emit(ops.TileTransposeOp(value, map_))
    shape = slice_.flat[::-1] if window.turned else slice_.flat
    build.emit(ops.StoreTileOp(value, _tile(build, slice_, shape, map_)))
