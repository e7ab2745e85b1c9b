"""Copies of unaligned operands through SLM: each subgroup copies rows of its own operand, and loads blocks.

    %t = init_tile %B, [%k, %n] : tile<32x64xbf16>                          B of 50257 columns
    %b = load_tile %t : -> vector<32x64xbf16>                               B of products
becomes
    %slm = memref.alloc() : memref<32x64xbf16, 3>                           as many rows for each subgroup
    %t = init_tile %B, [%k, %n] {inner_blocks = [32, 16]} : tile<32x64xbf16>
    %w = load_tile %t : -> vector<32x64xbf16>
    subgroup_barrier
    store_tile %w, (init_tile %slm, [%0, %0] {inner_blocks = [32, 16]} : tile<32x64xbf16>)
    subgroup_barrier
    %b = load_tile (init_tile %slm, [%0, %0] : tile<32x64xbf16>) : -> vector<32x64xbf16>

No block message takes rows that begin in the middle of a word. Elements one by one take a message and ten instructions
for each row of each block; a lane that reads its own rows by vectors of words selects halves of them, one instruction
for each 16 elements (:func:`xegpu.layout.lane_map.unaligned_copy`).

Where several subgroups need the operand, :mod:`xetile.passes.cooperative_loads` has taken the tile already, and each of
them copies a part of it: prefer that. Loads outside loops are unchanged, and those for which registers or shared local
memory do not suffice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, VectorType, i64
from xdsl.ir import Attribute, Operation, SSAValue

from xegpu.analysis.block_position import is_inside
from xegpu.dialect.hints import hinted
from xegpu.dialect.sync import SubgroupBarrierOp
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.kernel_attributes import matrix_sizes
from xegpu.ir.matchers import number
from xegpu.rewrite.rewriter import rewrite
from xegpu.target.targets import Target
from xetile.dialect import tile_ops
from xetile.dialect.types import TileParameters, TileType
from xetile.dialect.wg_map import Pair
from xetile.passes.blocking.unpack_blocks import BLOCKS
from xetile.passes.cooperative_loads.analysis import is_unaligned
from xetile.passes.cooperative_loads.subgroup_buffers import SubgroupBuffers

_BLOCKS = {8: {"a": (16, 32), "b": (64, 16)}, 16: {"a": (16, 16), "b": (32, 16)}, 32: {"a": (16, 16), "b": (16, 16)}}
"""Blocks of operands that are copied, by bits: a lane has a row, or two of B in 16 bits, four in 8."""

_SURFACE = 64
"""Least width of a surface of 2D block messages (hardware.md)."""
_ROOM = 0.9
"""Part of the registers that a loop with copies may take: fitted on pvc and bmg. Above 0.8 a few may be spilled, which
takes less than reading elements."""


@dataclass(frozen=True)
class SlmCopy:
    """Pass ``slm-copy``.

    Attributes:
        target: its block messages and its shared local memory.
        access: for each argument its access kind.
    """

    target: Target
    access: tuple[str, ...]

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with such operands copied; itself if there are none."""
        return rewrite(module, self._rewrite_function)

    def _rewrite_function(self, function: func.FuncOp) -> func.FuncOp:
        kinds = dict(zip(function.body.block.args, self.access, strict=True))
        inits = [operation for operation in function.walk() if isinstance(operation, tile_ops.InitTileOp)
                 and is_unaligned(operation, kinds)]
        if not inits:
            return function
        rewriter = _SlmCopyRewriter(self, function)
        rewriter.choose(inits)
        return rewriter.function(function) if any(rewriter.side(init.result) for init in inits) else function


class _SlmCopyRewriter(SubgroupBuffers):
    """Rewriter of one function."""

    def __init__(self, options: SlmCopy, function: func.FuncOp) -> None:
        super().__init__({tile_ops.InitTileOp: _init_tile, tile_ops.UpdateTileOffsetOp: _update_tile_offset,
                          tile_ops.LoadTileOp: _load_tile}, function, options.target, options.access)
        self._chosen: set[SSAValue] = set()
        self._tiles: dict[tuple[str, Pair, Attribute, bool], tuple[list[SSAValue], SSAValue]] = {}

    def choose(self, inits: Sequence[tile_ops.InitTileOp]) -> None:
        """Choose the operands that are copied: all of a loop that has the registers, or none."""
        loads = [use.operation for init in inits for use in self.sizes.tiles.uses(init.result)
                 if isinstance(use.operation, tile_ops.LoadTileOp)]
        webs = {load: self.sizes.tiles.members(load.tile) for load in loads}
        chosen = [load for load in loads if self.sizes.tiles.note("copied", load.tile, self._side)]
        while True:
            short = {load.parent for load in loads if load not in chosen or not self._has_registers(load, chosen)}
            left_out = {value for load in loads if load.parent in short for value in webs[load]}
            kept = [load for load in chosen if left_out.isdisjoint(webs[load])]
            if kept == chosen:
                break
            chosen = kept
        self._chosen = {value for load in chosen for value in webs[load]}

    def _has_registers(self, load: tile_ops.LoadTileOp, chosen: Sequence[tile_ops.LoadTileOp]) -> bool:
        """Whether a load's loop has registers for its copies: for what it carries, operands A, and the largest part of
        a copy twice, as words in memory and as those of the operand. Blocks of B are loaded when they are needed."""
        part = max((self._part_bytes(copy.tile) for copy in chosen if copy.parent is load.parent), default=0)
        return self._fits_beside(load, 2 * part)

    def _fits_beside(self, load: tile_ops.LoadTileOp, taken: int) -> bool:
        """Whether bytes fit in registers beside the carried values of a load's loop, and its operands A."""
        block = load.parent
        assert block is not None
        lefts = [operation for operation in block.ops if isinstance(operation, tile_ops.LoadTileOp)
                 and self.sizes.role(operation.tile) == "a"]
        taken += sum(map(_bytes, block.args)) + sum(_bytes(left.result) for left in lefts)
        return taken <= _ROOM * max(self.target.registers) * self.target.register_bytes

    def _part_bytes(self, tile: SSAValue) -> int:
        parameters = tile_ops.tile_of(tile)
        return prod(_part_shape(self._side(tile), parameters)) * parameters.dtype.bytes

    def side(self, tile: SSAValue) -> str:
        """``a`` or ``b`` for a tile of an operand that is copied; empty for another."""
        return self.sizes.role(tile) if tile in self._chosen else ""

    def _side(self, tile: SSAValue) -> str:
        parameters, side = tile_ops.tile_of(tile), self.sizes.role(tile)
        block, form = _BLOCKS.get(parameters.dtype.bits, {}).get(side), self.sizes.mma_shape_of(tile)
        if block is None or form is None or form.engine != "dpas" or \
                parameters.encoding.order != (1, 0) or parameters.encoding.inner_blocks is not None:
            return ""
        (rows, columns), makers = parameters.shape, self.sizes.tiles.members(tile)
        inits = [init for value in makers if isinstance(init := value.owner, tile_ops.InitTileOp)]
        users = [use.operation for use in self.sizes.tiles.uses(tile)]
        fits = rows % block[0] == 0 and columns % block[1] == 0 and all(map(_is_moved_or_in_loop, users)) and \
            all(is_unaligned(init, self.kinds) and BLOCKS not in init.attributes for init in inits) and \
            not all(map(_is_narrow, inits))
        return side if fits and self.has_room(parameters.shape, parameters.dtype, side) else ""

    def buffer(self, side: str, load: tile_ops.LoadTileOp) -> tuple[list[SSAValue], SSAValue]:
        """Tiles on this subgroup's part of shared local memory: to store the parts of an operand, and to load it."""
        tile = tile_ops.tile_of(load.tile)
        by_blocks = side == "b" and not self._fits_beside(load, 2 * _bytes(load.result))
        key = side, tile.shape, tile.element_type, by_blocks
        if key not in self._tiles:
            array, first = self.array(tile.shape, tile.element_type, side), self.first_row(tile.shape[0])
            parts = [self.in_bounds(self._part(array, tile, side, [
                first if not down else self.at_head(arith.AddiOp(first, self.constant(down))), self.constant(across)]))
                     for down, across in _corners(side, tile)]
            out_of = tile_ops.InitTileOp(array, [first, self.constant(0)], [], [], TileType(
                TileParameters(tile.shape, tile.element_type)))
            if by_blocks:  # of which few are in registers at once
                out_of.attributes[BLOCKS] = _block("b", tile)
            self._tiles[key] = parts, self.in_bounds(out_of)
        return self._tiles[key]

    def _part(self, source: SSAValue, tile: TileParameters, side: str, offsets: list[SSAValue],
              sizes: Sequence[SSAValue] = (), strides: Sequence[SSAValue] = ()) -> tile_ops.InitTileOp:
        """A tile of a part of an operand, in blocks that are copied."""
        type_ = TileType(TileParameters(_part_shape(side, tile), tile.element_type))
        part = tile_ops.InitTileOp(source, offsets, list(sizes), list(strides), type_)
        part.attributes[BLOCKS] = _block(side, tile)
        return part

    def parts_of(self, init: tile_ops.InitTileOp, side: str) -> list[SSAValue]:
        """The parts of a tile in memory."""
        offsets, sizes, strides = ([self.single(value) for value in group]
                                   for group in (init.offsets, init.shape, init.strides))
        parts = []
        for down, across in _corners(side, tile_ops.tile_of(init.result)):
            here = [*offsets[:-2], self.add(offsets[-2], self.constant(down)),
                    self.add(offsets[-1], self.constant(across))]
            part = self._part(self.single(init.source), tile_ops.tile_of(init.result), side, here, sizes, strides)
            part.attributes.update(init.attributes)
            parts.append(self.emit(part))
            parts[-1].name_hint = init.result.name_hint
        return parts


def _block(side: str, tile: TileParameters) -> ArrayAttr[IntegerAttr]:
    return ArrayAttr([IntegerAttr(size, i64) for size in _BLOCKS[tile.dtype.bits][side]])


def _corners(side: str, tile: TileParameters) -> list[Pair]:
    """Row and column of each part of an operand."""
    (rows, columns), shape = _part_shape(side, tile), tile.shape
    return [(down, across) for down in range(0, shape[0], rows) for across in range(0, shape[1], columns)]


def _part_shape(side: str, tile: TileParameters) -> Pair:
    """Shape of a part: a block, or two of A in 8 or 16 bits: a lane's words then lie in the same cache line."""
    rows, columns = _BLOCKS[tile.dtype.bits][side]
    return rows, gcd(tile.shape[1], columns * min(32 // tile.dtype.bits, 2)) if side == "a" else columns


def _init_tile(rewriter: _SlmCopyRewriter, operation: tile_ops.InitTileOp) -> None:
    if side := rewriter.side(operation.result):
        rewriter.set(operation.result, tuple(rewriter.parts_of(operation, side)), side)
    else:
        rewriter.copy(operation)


def _update_tile_offset(rewriter: _SlmCopyRewriter, operation: tile_ops.UpdateTileOffsetOp) -> None:
    tile, offsets = rewriter.lookup(operation.tile), [rewriter.single(offset) for offset in operation.offsets]
    moved = tuple(rewriter.emit(tile_ops.UpdateTileOffsetOp(part, offsets)) for part in tile.values)
    rewriter.set(operation.result, moved, tile.encoding)


def _load_tile(rewriter: _SlmCopyRewriter, operation: tile_ops.LoadTileOp) -> None:
    tile = rewriter.lookup(operation.tile)
    if not tile.encoding:
        rewriter.copy(operation)
        return
    parts, out_of = rewriter.buffer(tile.encoding, operation)
    rewriter.emit(SubgroupBarrierOp())
    for part, into in zip(tile.values, parts, strict=True):
        words = rewriter.emit(hinted(tile_ops.LoadTileOp(part), operation))
        words.name_hint = operation.result.name_hint
        rewriter.emit(tile_ops.StoreTileOp(words, into))
    rewriter.emit(SubgroupBarrierOp())
    rewriter.set(operation.result, rewriter.emit(tile_ops.LoadTileOp(out_of)))


def _is_moved_or_in_loop(user: Operation) -> bool:
    """Whether a tile's user moves it, or loads it in the body of a loop itself."""
    return isinstance(user, tile_ops.UpdateTileOffsetOp) or \
        (isinstance(user, tile_ops.LoadTileOp) and isinstance(user.parent_op(), scf.ForOp))


def _is_narrow(init: tile_ops.InitTileOp) -> bool:
    """Whether a loop goes over the matrices of a batch with rows too short for block messages: where these lie behind
    each other, ``collapse-batch`` reads several at once, with no copies."""
    loop, tile = init.parent_op(), tile_ops.tile_of(init.result)
    is_narrow = tile.shape[1] * tile.dtype.bytes < _SURFACE or matrix_sizes(init.source) is not None
    return is_narrow and number(init.offsets[-1]) == 0 and \
        isinstance(loop, scf.ForOp) and any(is_inside(offset, loop) for offset in init.offsets[:-2])


def _bytes(value: SSAValue) -> int:
    """Bytes of a vector; 0 for other values."""
    type_ = value.type
    return prod(type_.get_shape()) * of_mlir(type_.element_type).bytes if isinstance(type_, VectorType) else 0
