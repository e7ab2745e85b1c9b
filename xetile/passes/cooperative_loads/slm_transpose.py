"""Transposition of A through SLM: each subgroup stores rows of A's transpose, and loads rows of A.

    %t = init_tile %A, [%m, %k] : tile<32x32xbf16, order = [0, 1]>          A stored by columns
    %a = load_tile %t : -> vector<32x32xbf16>                               A of products
becomes
    %slm = memref.alloc() : memref<32x32xbf16, 3>                           as many rows for each subgroup
    %t = init_tile of A's transpose, [%k, %m] : tile<32x32xbf16>
    %w = load_tile %t : -> vector<32x32xbf16>
    subgroup_barrier
    store_tile %w, (init_tile of %slm's transpose : tile<32x32xbf16, order = [0, 1]>)
    subgroup_barrier
    %a = load_tile (init_tile %slm, [%0, %0] : tile<32x32xbf16>) : -> vector<32x32xbf16>

No message transposes elements of fewer than 32 bits. In registers, a tile of A takes a move for each register of 16
bits, and one for each element of 8. Loaded in VNNI format, as operand B is, a lane has words of a row of A, which it
stores side by side: a message that stores 512 bytes, and one that loads them, take the place of eight registers' moves.
A tile whose rows do not fill the lanes of a subgroup is loaded and stored with more of them.

Where several subgroups multiply the same rows by many columns, :mod:`xetile.passes.cooperative_loads` has taken the
tile already.
A tile is unchanged if its array is out of reach of 2D block messages, or if shared local memory does not suffice.

A computed vector of 32-bit elements that is transposed goes through shared local memory as well, in squares of as many
rows and columns as lanes: four messages take the place of some two hundred moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    FloatAttr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StridedLayoutAttr,
    VectorType,
)
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from xegpu.analysis.memory_access import access_kind
from xegpu.dialect.hints import hinted
from xegpu.dialect.sync import SubgroupBarrierOp
from xegpu.ir.dtypes import f32, i32, of_mlir
from xegpu.ir.memref import SHARED_SPACE, exchanged, is_shared
from xegpu.ir.use_def import array_of
from xegpu.layout.slm_panels import MESSAGE
from xegpu.mlir.vector import ExtractStridedSliceOp, InsertStridedSliceOp, shape_of, vector_type
from xegpu.rewrite.memref_operands import spelled_out
from xegpu.rewrite.rewriter import rewrite
from xegpu.target.targets import Target
from xetile.dialect import tile_ops
from xetile.dialect.types import TileParameters, TileType
from xetile.dialect.vector import TileTransposeOp, element_of
from xetile.dialect.wg_map import Pair
from xetile.passes.cooperative_loads.analysis import ROOM, has_words, rows_for_lanes
from xetile.passes.cooperative_loads.subgroup_buffers import SubgroupBuffers

_BITS = (8, 16, 32)
"""Element sizes that no message transposes into rows of operand A, but which one loads in words of one row or more."""
_MANY = 3
"""Messages of a step that store, from which on a prefetch behind them saves instructions."""


@dataclass(frozen=True)
class SlmTranspose:
    """Pass ``slm-transpose``.

    Attributes:
        target: its block messages and its shared local memory.
        access: for each argument its access kind; those of column-major arrays end in ``columns``.
    """

    target: Target
    access: tuple[str, ...]

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with such tiles of A transposed in shared local memory; itself if there are none."""
        return rewrite(module, self._rewrite_function)

    def _rewrite_function(self, function: func.FuncOp) -> func.FuncOp:
        inits = [operation for operation in function.walk() if isinstance(operation, tile_ops.InitTileOp)
                 and tile_ops.tile_of(operation.result).encoding.order == (0, 1)]
        transposes = [operation for operation in function.walk() if isinstance(operation, TileTransposeOp)]
        if not inits and not transposes:
            return function
        rewriter = _SlmTransposeRewriter(self, function)
        if not any(rewriter.padded(init.result) for init in inits) and not any(map(rewriter.has_squares, transposes)):
            return function
        new = rewriter.function(function)
        if not self.target.immediate_offsets:
            _prefetch_last(new, self.target)
        return new


class _SlmTransposeRewriter(SubgroupBuffers):
    """Rewriter of one function."""

    def __init__(self, options: SlmTranspose, function: func.FuncOp) -> None:
        super().__init__({tile_ops.InitTileOp: _init_tile, tile_ops.UpdateTileOffsetOp: _update_tile_offset,
                          tile_ops.LoadTileOp: _load_tile, TileTransposeOp: _tile_transpose}, function,
                         options.target, options.access)
        self._tiles: dict[tuple[Pair, Pair, Attribute], tuple[SSAValue, SSAValue]] = {}

    def padded(self, tile: SSAValue) -> Pair | None:
        """Rows, as many as lanes hold, and columns of a tile that is transposed so; None of other tiles."""
        return self.sizes.tiles.note("padded", tile, self._padded)

    def _padded(self, tile: SSAValue) -> Pair | None:
        parameters = tile_ops.tile_of(tile)
        if parameters.encoding.order != (0, 1) or parameters.dtype.bits not in _BITS or \
                self.sizes.role(tile) != "a":
            return None
        inits = [init for value in self.sizes.tiles.members(tile)
                 if isinstance(init := value.owner, tile_ops.InitTileOp)]
        form, shape = self.sizes.mma_shape_of(tile), rows_for_lanes(parameters.shape, self.target)
        if form is None or form.engine != "dpas" or not has_words(shape, parameters.dtype, self.target) or \
                any(access_kind(init, self.kinds) != "block-columns" for init in inits):
            return None
        return shape if self.has_room(shape, parameters.dtype, "transposed") else None

    def has_squares(self, operation: TileTransposeOp) -> bool:
        """Whether a computed vector is transposed in squares, through shared local memory."""
        element, side = element_of(operation.source), self.target.subgroup_size
        return of_mlir(element) in (f32, i32) and not any(size % side for size in shape_of(operation.source)) and \
            not isinstance(operation.source.owner, tile_ops.LoadTileOp) and \
            self.has_room((side, side), of_mlir(element), "square")

    def through_memory(self, value: SSAValue, into: SSAValue, out_of: SSAValue) -> SSAValue:
        """Store a value to a tile on shared local memory, and load another tile there, with subgroup barriers."""
        self.emit(SubgroupBarrierOp())
        self.emit(tile_ops.StoreTileOp(value, into))
        self.emit(SubgroupBarrierOp())
        return self.emit(tile_ops.LoadTileOp(out_of))

    def buffer(self, padded: Pair, tile: TileParameters, purpose: str = "transposed") -> tuple[SSAValue, SSAValue]:
        """Tiles on this subgroup's part of shared local memory, to store the transpose and to load the original."""
        key = padded, tile.shape, tile.element_type
        if key not in self._tiles:
            array, first = self.array(padded, tile.element_type, purpose), self.first_row(padded[0])
            self._tiles[key] = self._stored(array, padded, first), self.in_bounds(tile_ops.InitTileOp(
                array, [first, self.constant(0)], [], [], TileType(TileParameters(tile.shape, tile.element_type))))
        return self._tiles[key]

    def _stored(self, array: SSAValue, padded: Pair, first: SSAValue) -> SSAValue:
        """The tile on the transpose of an array, from its column ``first`` on."""
        type_, (rows, columns) = array.type, padded
        assert isinstance(type_, MemRefType)
        dynamic = MemRefType(type_.element_type, [DYNAMIC_INDEX] * 2, StridedLayoutAttr([None] * 2), SHARED_SPACE)
        sizes, strides = ([self.constant(size) for size in pair] for pair in (type_.get_shape()[::-1], (1, columns)))
        offsets, cast = [self.constant(0), first], self.at_head(memref.CastOp.get(array, dynamic))
        tile = TileType(TileParameters((columns, rows), type_.element_type)).with_(order=(0, 1))
        return self.in_bounds(tile_ops.InitTileOp(cast, offsets, sizes, strides, tile))


def _init_tile(rewriter: _SlmTransposeRewriter, operation: tile_ops.InitTileOp) -> None:
    """A tile of A, or of its transpose."""
    padded = rewriter.padded(operation.result)
    if padded is None:
        rewriter.copy(operation)
        return
    source, sizes, strides = spelled_out(rewriter, operation)
    offsets = [rewriter.single(offset) for offset in operation.offsets]
    type_ = TileType(TileParameters(padded[::-1], tile_ops.tile_of(operation.result).element_type))
    init_tile = tile_ops.InitTileOp(source, exchanged(offsets), exchanged(sizes), exchanged(strides), type_)
    is_larger = padded != tile_ops.tile_of(operation.result).shape
    init_tile.attributes.update({name: value for name, value in operation.attributes.items()
                                 if name in tile_ops.PROMISES and not (is_larger and name == tile_ops.IN_BOUNDS)})
    rewriter.set(operation.result, rewriter.emit(init_tile), padded)


def _update_tile_offset(rewriter: _SlmTransposeRewriter, operation: tile_ops.UpdateTileOffsetOp) -> None:
    tile = rewriter.lookup(operation.tile)
    offsets = [rewriter.single(offset) for offset in operation.offsets]
    moved = tile_ops.UpdateTileOffsetOp(tile.values[0], exchanged(offsets) if tile.encoding else offsets)
    rewriter.set(operation.result, rewriter.emit(moved), tile.encoding)


def _load_tile(rewriter: _SlmTransposeRewriter, operation: tile_ops.LoadTileOp) -> None:
    tile = rewriter.lookup(operation.tile)
    if not tile.encoding:
        rewriter.copy(operation)
        return
    words = rewriter.emit(hinted(tile_ops.LoadTileOp(tile.values[0]), operation))
    words.name_hint = operation.result.name_hint
    buffers = rewriter.buffer(tile.encoding, tile_ops.tile_of(operation.tile))
    rewriter.set(operation.result, rewriter.through_memory(words, *buffers))


def _tile_transpose(rewriter: _SlmTransposeRewriter, operation: TileTransposeOp) -> None:
    """A computed vector, square by square."""
    if not rewriter.has_squares(operation):
        rewriter.copy(operation)
        return
    source, side = rewriter.single(operation.source), rewriter.target.subgroup_size
    element, (rows, columns) = element_of(source), shape_of(source)
    buffers = rewriter.buffer((side, side), TileParameters((side, side), element), "square")
    if rows == columns == side:
        rewriter.set(operation.result, rewriter.through_memory(source, *buffers))
        return
    zero = FloatAttr(0.0, 32) if of_mlir(element) is f32 else IntegerAttr(0, 32)
    result = rewriter.emit(BroadcastOp(rewriter.emit(arith.ConstantOp(zero)), vector_type((columns, rows), element)))
    for row in range(0, rows, side):
        for column in range(0, columns, side):
            square = rewriter.emit(ExtractStridedSliceOp(source, (row, column), (side, side)))
            transposed = rewriter.through_memory(square, *buffers)
            result = rewriter.emit(InsertStridedSliceOp(transposed, result, (column, row)))
    rewriter.set(operation.result, result)


def _prefetch_last(function: func.FuncOp, target: Target) -> None:
    """Put prefetches behind all other messages of a loop that stores to shared local memory, in place.

    On Xe-HPC the registers of a message that stores may not be written again before it has read them, for which Intel's
    compiler takes three instructions for each store of a step, but for the last message of a step if nobody waits for
    it: then four for all. So where there are many stores, and no prefetches, the next tile of A is prefetched; unless
    registers are scarce, and written again before the end of a step.
    """
    for loop in [operation for operation in function.walk() if isinstance(operation, scf.ForOp)]:
        block = loop.body.block
        stores = [operation for operation in block.ops if isinstance(operation, tile_ops.StoreTileOp) and is_shared(
            array_of(operation.tile).type) and isinstance(operation.value.owner, tile_ops.LoadTileOp)]
        prefetches: list[Operation] = [operation for operation in block.ops
                                       if isinstance(operation, tile_ops.PrefetchTileOp)]
        for prefetch in prefetches if stores else ():
            prefetch.detach()  # type: ignore[no-untyped-call]
        if not prefetches and sum(map(_messages, stores)) >= _MANY and _bytes(block) <= ROOM * max(
                target.registers) * target.register_bytes:
            moved = _next_tile(stores[-1])
            prefetches = [] if moved is None else [tile_ops.PrefetchTileOp(moved)]
        end = block.last_op
        assert end is not None
        if stores:
            block.insert_ops_before(prefetches, end)


def _bytes(block: Block) -> int:
    """Bytes that the vectors of a step take, loaded, stored and carried."""
    vectors = [*block.args, *(operation.results[0] for operation in block.ops
                              if isinstance(operation, tile_ops.LoadTileOp))]
    return sum(prod(type_.get_shape()) * of_mlir(type_.element_type).bytes for value in vectors
               if isinstance(type_ := value.type, VectorType))


def _messages(store: tile_ops.StoreTileOp) -> int:
    """Messages of 512 bytes that a store takes."""
    tile = tile_ops.tile_of(store.tile)
    return prod(tile.shape) * tile.dtype.bytes // MESSAGE


def _next_tile(store: tile_ops.StoreTileOp) -> SSAValue | None:
    """The tile of the step behind the one that a store's value is loaded from, where a loop carries it."""
    load = store.value.owner
    assert isinstance(load, tile_ops.LoadTileOp)
    moves = [use.operation for use in load.tile.uses if isinstance(use.operation, tile_ops.UpdateTileOffsetOp)]
    return moves[0].result if isinstance(load.tile, BlockArgument) and len(moves) == 1 else None
