"""Cooperative loads of a column-major A: each subgroup loads 1/N of the tile and publishes it in double-buffered SLM.

    for ... (%t = %tA, %c = %zero)               A stored by columns; each row of subgroups uses the same rows of A
      %a = load_tile %t : tile<256x32xbf16, wg_map<sg_layout = [8, 4], sg_data = [32, 32]>>
      %d = tile_mma %a, %b, %c
      %u = update_tile_offset %t, [%0, %32]
      yield %u, %d
becomes
    %q = init_tile of A's transpose : tile<32x256xbf16, wg_map<sg_layout = [2, 16], sg_data = [16, 16]>>
    store_tile (load_tile %q), first half of %slm's transpose ; nbarrier_arrive
    for ... (%p = %q moved by a step, %c = %zero, %half = 0)
      %next = load_tile %p
      nbarrier_wait
      %a = load_tile (init_tile %slm, [%half, %0])
      store_tile %next, the other half of %slm's transpose ; nbarrier_arrive
      %d = tile_mma %a, %b, %c
      yield %p moved by a step, %d, 256 - %half
    nbarrier_wait

The matrix engine takes rows of A, and memory has its columns: whoever loads a tile of A alone has to take it apart,
with a move for each register. A share is loaded as B's blocks are, words of two rows of the transpose in each lane, and
each lane's words are a row of A, which is stored as it is. So nobody takes anything apart, at the price of a barrier a
step; the loads run a step ahead, and subgroups may drift apart by as much. Prefetches in parts that are narrower than a
message become prefetches of the shares. What is stored by rows and transposed when it is loaded goes the same way. A
tile that is made anew in each step is carried first (:mod:`.carried_tiles`).

A loop stays as it is where the operand of a subgroup is small, where its body waits for something else, and where
shared local memory does not suffice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StridedLayoutAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Region, SSAValue

from xegpu.dialect.hints import hinted
from xegpu.dialect.sync import InitNbarrierOp, NbarrierArriveOp, NbarrierWaitOp
from xegpu.ir.matchers import BARRIER
from xegpu.ir.memref import exchanged
from xegpu.rewrite.memref_operands import spelled_out
from xegpu.rewrite.rewriter import ConvertedValues, Rewriter, follow, rewrite
from xegpu.target.targets import Target
from xetile.dialect import tile_ops
from xetile.dialect.types import TileParameters, TileType
from xetile.dialect.vector import TileTransposeOp
from xetile.dialect.wg_map import Pair
from xetile.passes.cooperative_loads.analysis import Share, cooperative_loops, narrow_prefetches
from xetile.passes.distribute_subgroups.slm_exchange import SLM


@dataclass(frozen=True)
class CooperativeLoads:
    """The pass.

    Attributes:
        target: its block messages and its shared local memory.
        access: for each argument how it may be reached; arrays stored column by column end in ``columns``.
    """

    target: Target
    access: tuple[str, ...]

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with such loops loading shares of A."""
        return rewrite(module, self._function)

    def _function(self, function: func.FuncOp) -> func.FuncOp:
        loops = cooperative_loops(function, self.access, self.target)
        if not loops:
            return function
        new = _CooperativeLoadsRewriter(self.target, loops).function(function)
        layout = next(reversed(loops.values()))[0].map.sg_layout  # how many subgroups take part in the barrier
        new.attributes["xegpu.subgroups"] = ArrayAttr([IntegerAttr(size, i64) for size in layout])
        return new


class _CooperativeLoadsRewriter(Rewriter):
    """One function's rewrite.

    Attributes:
        loops: those whose operands are loaded in shares, and these.
        values: operands that were taken from shared local memory, by their old loads.
        arrays: what was allocated there.
    """

    def __init__(self, target: Target, loops: Mapping[scf.ForOp, list[Share]]) -> None:
        super().__init__({tile_ops.LoadTileOp: _load_tile, tile_ops.UpdateTileOffsetOp: _update_tile_offset,
                          TileTransposeOp: _tile_transpose})
        self.target, self.loops = target, loops
        self.values: dict[tile_ops.LoadTileOp, SSAValue] = {}
        self.arrays: dict[tuple[Pair, Attribute, int], SSAValue] = {}

    def loop(self, loop: scf.ForOp) -> None:
        """A loop; where it has such operands, they are loaded in shares, a step ahead."""
        shares = self.loops.get(loop)
        if shares is None:
            super().loop(loop)
            return
        barrier = self.emit(InitNbarrierOp(self.constant(0), self.constant(shares[0].map.subgroups)))
        carried = [self.lookup(value) for value in loop.iter_args]
        for share in shares:
            for position in narrow_prefetches(loop, share, self.target):
                carried[position] = ConvertedValues((self._wider(loop.iter_args[position], share),), "wider")
        for number, share in enumerate(shares):
            carried[share.position] = ConvertedValues((self._started(share, number),), share)
        self.emit(NbarrierArriveOp(barrier))
        self._stepping(loop, [*carried, ConvertedValues((self.constant(0),))], shares, barrier)
        self.emit(NbarrierWaitOp(barrier))

    def _array(self, share: Share, number: int) -> SSAValue:
        """Shared local memory for two of a loop's operands, the ``number``-th, one below the other."""
        key = share.array(number)
        if key not in self.arrays:
            rows, columns = share.shape
            made = memref.AllocOp([], [], MemRefType(share.tile.element_type, (2 * rows, columns), memory_space=SLM))
            made.memref.name_hint = "shared"
            self._at_head(made)
            self.arrays[key] = made.memref
        return self.arrays[key]

    def _wider(self, old: SSAValue, share: Share) -> SSAValue:
        """A tile to prefetch, dealt out as what is loaded."""
        init = old.owner
        assert isinstance(init, tile_ops.InitTileOp)
        offsets, sizes, strides = ([self.single(value) for value in group]
                                   for group in (init.offsets, init.shape, init.strides))
        map_ = share.shares if share.is_transposed else share.shares.transposed()
        type_ = TileType(tile_ops.tile_of(old)).with_(wg_map=map_)
        made = tile_ops.InitTileOp(self.single(init.source), offsets, sizes, strides, type_)
        made.attributes.update(init.attributes)
        return self.emit(made)

    def _started(self, share: Share, number: int) -> SSAValue:
        """Hand over what the first step multiplies; the tile of the step after it."""
        init, type_ = share.init, TileType(share.tile).with_(wg_map=share.shares)
        offsets, sizes, strides = ([self.single(value) for value in group]
                                   for group in (init.offsets, init.shape, init.strides))
        source = self.single(init.source)
        if not share.is_transposed:
            source, sizes, strides = spelled_out(self, init)
            offsets, sizes, strides = exchanged(offsets), exchanged(sizes), exchanged(strides)
            type_ = type_.with_(shape=share.shape[::-1], order=(1, 0))
        made = tile_ops.InitTileOp(source, offsets, sizes, strides, type_)
        # The step after the last one may lie outside, whatever was promised of the others.
        made.attributes.update({name: value for name, value in init.attributes.items()
                                if name in tile_ops.PROMISES and name != tile_ops.IN_BOUNDS})
        first = self.emit(made)
        first.name_hint = init.result.name_hint
        self._hand_over(share, number, self._loaded(share, first), self.constant(0))
        return self.moved(share, first)

    def _loaded(self, share: Share, tile: SSAValue) -> SSAValue:
        """A subgroup's share of the operand."""
        value = self.emit(hinted(tile_ops.LoadTileOp(tile), share.load))
        value.name_hint = "share"
        return value

    def moved(self, share: Share, tile: SSAValue) -> SSAValue:
        """The tile of the next step."""
        offsets = [self.single(offset) for offset in share.move.offsets]
        return self.emit(tile_ops.UpdateTileOffsetOp(tile, offsets if share.is_transposed else exchanged(offsets)))

    def _hand_over(self, share: Share, number: int, value: SSAValue, half: SSAValue) -> None:
        """Store a share to shared local memory, from the row ``half`` on, transposed."""
        rows, columns = share.shape
        array, sizes, strides = self._described(self._array(share, number))
        type_ = TileType(TileParameters((columns, rows), share.tile.element_type)).with_(wg_map=share.shares)
        made = tile_ops.InitTileOp(array, [self.constant(0), half], exchanged(sizes), exchanged(strides), type_)
        self.emit(tile_ops.StoreTileOp(value, self._promised(made)))

    def _taken(self, share: Share, number: int, half: SSAValue) -> SSAValue:
        """The operand from shared local memory, from the row ``half`` on."""
        type_ = TileType(TileParameters(share.shape, share.tile.element_type)).with_(wg_map=share.map)
        made = tile_ops.InitTileOp(self._array(share, number), [half, self.constant(0)], [], [], type_)
        value = self.emit(tile_ops.LoadTileOp(self._promised(made)))
        value.name_hint = share.load.result.name_hint
        return value

    def _promised(self, made: tile_ops.InitTileOp) -> SSAValue:
        """A tile that lies inside its array."""
        made.attributes[tile_ops.IN_BOUNDS] = UnitAttr()
        return self.emit(made)

    def _described(self, array: SSAValue) -> tuple[SSAValue, list[SSAValue], list[SSAValue]]:
        """An array as one whose sizes and strides are operands, and these."""
        type_ = array.type
        assert isinstance(type_, MemRefType)
        rows, columns = type_.get_shape()
        dynamic = MemRefType(type_.element_type, [DYNAMIC_INDEX] * 2, StridedLayoutAttr([None] * 2), SLM)
        cast = self.shared(("cast", array), lambda: self.emit(memref.CastOp.get(array, dynamic)))
        return cast, [self.constant(rows), self.constant(columns)], [self.constant(columns), self.constant(1)]

    def _stepping(self, loop: scf.ForOp, carried: list[ConvertedValues], shares: Sequence[Share],
                  barrier: SSAValue) -> None:
        """The loop: it carries what it carried, and last the first row of the half that this step multiplies."""
        block = Block(arg_types=[IndexType(), *(value.type for parts in carried for value in parts.values)])
        old, half = loop.body.block, block.args[-1]
        self.set(old.args[0], block.args[0])
        half.name_hint = "half"
        self.regroup(old.args[1:], carried[:-1], block.args[1:-1])
        with self.inside(block):
            other = self._exchanged(shares, old, half, barrier)
        yielded = self.body(old, block)
        self.close(block, [*yielded, ConvertedValues((other,))], carried)
        start, stop, step = (self.single(value) for value in (loop.lb, loop.ub, loop.step))
        new = scf.ForOp(start, stop, step, [value for parts in carried for value in parts.values], Region(block))
        # Subgroups that wait for each other in every step stay together without being asked to.
        new.attributes.update({name: value for name, value in loop.attributes.items() if name != BARRIER})
        self.emit(new)
        self.regroup(loop.res, carried[:-1], new.res[:-1])

    def _exchanged(self, shares: Sequence[Share], old: Block, half: SSAValue, barrier: SSAValue) -> SSAValue:
        """Take this step's operands, and hand over the next step's; the first row of the half that they are in."""
        nexts = [self._loaded(share, self.single(old.args[share.position + 1])) for share in shares]
        self.emit(NbarrierWaitOp(barrier))
        for number, share in enumerate(shares):
            self.values[share.load] = self._taken(share, number, half)
        other = self.index(arith.SubiOp, self.constant(shares[0].shape[0]), half)
        for number, (share, value) in enumerate(zip(shares, nexts, strict=True)):
            self._hand_over(share, number, value, other)
        self.emit(NbarrierArriveOp(barrier))
        return other


def _load_tile(rewriter: _CooperativeLoadsRewriter, operation: tile_ops.LoadTileOp) -> None:
    if operation in rewriter.values:
        rewriter.set(operation.result, rewriter.values[operation])
    else:
        rewriter.copy(operation)


def _tile_transpose(rewriter: _CooperativeLoadsRewriter, operation: TileTransposeOp) -> None:
    """What is taken from shared local memory lies there as the operand does."""
    if operation.source.owner in rewriter.values:
        rewriter.set(operation.result, rewriter.single(operation.source))
    else:
        rewriter.copy(operation)


def _update_tile_offset(rewriter: _CooperativeLoadsRewriter, operation: tile_ops.UpdateTileOffsetOp) -> None:
    tile = rewriter.lookup(operation.tile)
    if isinstance(tile.encoding, Share):
        rewriter.set(operation.result, rewriter.moved(tile.encoding, tile.values[0]), tile.encoding)
    else:
        follow(rewriter, operation)
