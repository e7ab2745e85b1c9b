"""Cooperative loads of operands: each subgroup loads a share of the tile and publishes it in double-buffered SLM.

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

DPAS takes rows of A, and memory has its columns: a subgroup that loads its own tile of A has to transpose it in
registers, with a move for each register. A share is loaded in VNNI format, as blocks of B are: a lane's words of two
rows of the transpose are a row of A, which is stored unchanged. So there is no transposition in registers, at the price
of a barrier a step; the loads run a step ahead, and subgroups may drift by as much. Prefetches of parts that are
narrower than a message become prefetches of the shares. A row-major operand that is transposed after its load is
loaded in the same way. A tile that is initialized in each step is carried first
(:mod:`xetile.passes.cooperative_loads.carry_tiles`).

An operand in 8 or 16 bits or tf32, A or B, on an array that 2D block messages cannot reach, for its pitch or its base,
is loaded in shares too, row-major: a share is read by words of each lane's own rows, and stored as it lies. So each
element is brought from memory by one subgroup, and the others read it from shared local memory by blocks. Without 2D
block IO row-major operands go so (:mod:`xetile.passes.cooperative_loads.row_shares`), and are loaded from there next to
their products.

A loop is unchanged where the operand of a subgroup is small, where its body has other barriers or stores to the
operand's array, and where shared local memory does not suffice.
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
from xegpu.ir.kernel_attributes import SUBGROUPS
from xegpu.ir.matchers import BARRIER
from xegpu.ir.memref import SHARED_SPACE, exchanged
from xegpu.rewrite.memref_operands import spelled_out
from xegpu.rewrite.rewriter import ConvertedValues, Rewriter, rewrite
from xegpu.target.targets import Target
from xetile.dialect import tile_ops
from xetile.dialect.types import TileParameters, TileType
from xetile.dialect.vector import TileTransposeOp
from xetile.dialect.wg_map import Pair
from xetile.passes.blocking.unpack_blocks import BLOCKS
from xetile.passes.cooperative_loads.analysis import Share, Shares, cooperative_loops, narrow_prefetches


@dataclass(frozen=True)
class CooperativeLoads:
    """Pass ``cooperative-loads``.

    Attributes:
        target: its block messages and its shared local memory.
        access: for each argument its access kind; those of column-major arrays end in ``columns``.
    """

    target: Target
    access: tuple[str, ...]

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with cooperative loads in such loops."""
        return rewrite(module, self._rewrite_function)

    def _rewrite_function(self, function: func.FuncOp) -> func.FuncOp:
        loops, alone = cooperative_loops(function, self.access, self.target)
        if not loops and not any(narrow_prefetches(loop, share, self.target)
                                 for loop, shares in alone.items() for share in shares):
            return function
        new = _CooperativeLoadsRewriter(self.target, loops, alone).function(function)
        layout = [*(loops or alone).values()][-1][0].map.sg_layout  # the barrier counts these subgroups
        new.attributes[SUBGROUPS] = ArrayAttr([IntegerAttr(size, i64) for size in layout])
        return new


class _CooperativeLoadsRewriter(Rewriter):
    """Rewriter of one function.

    Attributes:
        loops: those with cooperative loads, and their shared operands.
        alone: those where each subgroup transposes its own operands; only their prefetches change.
        values: operands loaded from shared local memory, by their old loads.
        arrays: allocations in shared local memory.
    """

    def __init__(self, target: Target, loops: Shares, alone: Shares) -> None:
        super().__init__({tile_ops.LoadTileOp: _load_tile, tile_ops.UpdateTileOffsetOp: _update_tile_offset,
                          TileTransposeOp: _tile_transpose})
        self.target, self.loops, self.alone = target, loops, alone
        self.values: dict[tile_ops.LoadTileOp, SSAValue] = {}
        self.arrays: dict[tuple[Pair, Attribute, int], SSAValue] = {}

    def loop(self, loop: scf.ForOp) -> None:
        """A loop; where it has shares, they are loaded a step ahead."""
        shares = self.loops.get(loop)
        if shares is None:
            for share in self.alone.get(loop, ()):
                for position in narrow_prefetches(loop, share, self.target):
                    self.set(loop.iter_args[position], self._widened_prefetch(loop.iter_args[position], share), "wider")
            super().loop(loop)
            return
        barrier = self.emit(InitNbarrierOp(self.constant(0), self.constant(shares[0].map.subgroups)))
        carried = [self.lookup(value) for value in loop.iter_args]
        for share in shares:
            for position in narrow_prefetches(loop, share, self.target):
                carried[position] = ConvertedValues((self._widened_prefetch(loop.iter_args[position], share),), "wider")
        for number, share in enumerate(shares):
            carried[share.position] = ConvertedValues((self._prologue(share, number),), share)
        self.emit(NbarrierArriveOp(barrier))
        halves = [ConvertedValues((self.constant(0),)) for _ in _heights(shares)]
        self._pipelined_loop(loop, [*carried, *halves], shares, barrier)
        self.emit(NbarrierWaitOp(barrier))

    def _array(self, share: Share, number: int) -> SSAValue:
        """The double buffer in SLM of a loop's ``number``-th shared operand, one half below the other."""
        key = share.array(number)
        if key not in self.arrays:
            rows, columns = share.shape
            type_ = MemRefType(share.tile.element_type, (2 * rows, columns), memory_space=SHARED_SPACE)
            alloc = memref.AllocOp([], [], type_)
            alloc.memref.name_hint = "shared"
            self._at_head(alloc)
            self.arrays[key] = alloc.memref
        return self.arrays[key]

    def _widened_prefetch(self, old: SSAValue, share: Share) -> SSAValue:
        """A tile to prefetch, distributed as the tile that is loaded."""
        init = old.owner
        assert isinstance(init, tile_ops.InitTileOp)
        offsets, sizes, strides = ([self.single(value) for value in group]
                                   for group in (init.offsets, init.shape, init.strides))
        map_ = share.shares if share.is_transposed else share.shares.transposed()
        type_ = TileType(tile_ops.tile_of(old)).with_(wg_map=map_)
        init_tile = tile_ops.InitTileOp(self.single(init.source), offsets, sizes, strides, type_)
        init_tile.attributes.update(init.attributes)
        return self.emit(init_tile)

    def _prologue(self, share: Share, number: int) -> SSAValue:
        """Publish the operand of the first step; the tile of the step after it."""
        init, type_ = share.init, TileType(share.tile).with_(wg_map=share.shares)
        offsets, sizes, strides = ([self.single(value) for value in group]
                                   for group in (init.offsets, init.shape, init.strides))
        source = self.single(init.source)
        if share.by_columns and not share.is_transposed:
            source, sizes, strides = spelled_out(self, init)
            offsets, sizes, strides = exchanged(offsets), exchanged(sizes), exchanged(strides)
            type_ = type_.with_(shape=share.shape[::-1], order=(1, 0))
        init_tile = tile_ops.InitTileOp(source, offsets, sizes, strides, type_)
        if not share.by_columns:
            init_tile.attributes[BLOCKS] = _blocks(share)
        # The tile after the last step may be out of bounds even if all the others are in bounds.
        init_tile.attributes.update({name: value for name, value in init.attributes.items()
                                if name in tile_ops.PROMISES and name != tile_ops.IN_BOUNDS})
        first = self.emit(init_tile)
        first.name_hint = init.result.name_hint
        self._store_share(share, number, self._load_share(share, first), self.constant(0))
        return self.advanced(share, first)

    def _load_share(self, share: Share, tile: SSAValue) -> SSAValue:
        """Load a subgroup's share of the operand."""
        value = self.emit(hinted(tile_ops.LoadTileOp(tile), share.load))
        value.name_hint = "share"
        return value

    def advanced(self, share: Share, tile: SSAValue) -> SSAValue:
        """The tile of the next step."""
        offsets = [self.single(offset) for offset in share.move.offsets]
        keeps = share.is_transposed or not share.by_columns
        return self.emit(tile_ops.UpdateTileOffsetOp(tile, offsets if keeps else exchanged(offsets)))

    def _store_share(self, share: Share, number: int, value: SSAValue, half: SSAValue) -> None:
        """Store a share to the rows of shared local memory from ``half`` on, transposed if it is of the transpose."""
        rows, columns = share.shape
        if not share.by_columns:
            type_ = TileType(TileParameters(share.shape, share.tile.element_type)).with_(wg_map=share.shares)
            init_tile = tile_ops.InitTileOp(self._array(share, number), [half, self.constant(0)], [], [], type_)
            init_tile.attributes[BLOCKS] = _blocks(share)
            self.emit(tile_ops.StoreTileOp(value, self._in_bounds(init_tile)))
            return
        array, sizes, strides = self._with_dynamic_shape(self._array(share, number))
        type_ = TileType(TileParameters((columns, rows), share.tile.element_type)).with_(wg_map=share.shares)
        init_tile = tile_ops.InitTileOp(array, [self.constant(0), half], exchanged(sizes), exchanged(strides), type_)
        self.emit(tile_ops.StoreTileOp(value, self._in_bounds(init_tile)))

    def _load_operands(self, shares: Sequence[Share], halves: Mapping[int, SSAValue]) -> None:
        """Load this step's operands."""
        for number, share in enumerate(shares):
            self.values[share.load] = self._load_operand(share, number, halves[share.shape[0]])

    def _load_operand(self, share: Share, number: int, half: SSAValue) -> SSAValue:
        """Load the operand from the rows of shared local memory from ``half`` on."""
        type_ = TileType(TileParameters(share.shape, share.tile.element_type)).with_(wg_map=share.map)
        init_tile = tile_ops.InitTileOp(self._array(share, number), [half, self.constant(0)], [], [], type_)
        if share.loaded is not None:
            init_tile.attributes[BLOCKS] = _array(share.loaded)
        value = self.emit(tile_ops.LoadTileOp(self._in_bounds(init_tile)))
        value.name_hint = share.load.result.name_hint
        return value

    def _in_bounds(self, init_tile: tile_ops.InitTileOp) -> SSAValue:
        """A tile that is known to be in bounds."""
        init_tile.attributes = {tile_ops.IN_BOUNDS: UnitAttr(), **init_tile.attributes}  # in the order of text
        return self.emit(init_tile)

    def _with_dynamic_shape(self, array: SSAValue) -> tuple[SSAValue, list[SSAValue], list[SSAValue]]:
        """An array cast to dynamic sizes and strides, its sizes, its strides."""
        type_ = array.type
        assert isinstance(type_, MemRefType)
        rows, columns = type_.get_shape()
        dynamic = MemRefType(type_.element_type, [DYNAMIC_INDEX] * 2, StridedLayoutAttr([None] * 2), SHARED_SPACE)
        cast = self.shared(("cast", array), lambda: self.emit(memref.CastOp.get(array, dynamic)))
        return cast, [self.constant(rows), self.constant(columns)], [self.constant(columns), self.constant(1)]

    def _pipelined_loop(self, loop: scf.ForOp, carried: list[ConvertedValues], shares: Sequence[Share],
                  barrier: SSAValue) -> None:
        """The loop, with more carried values: the first row of the buffer half that this step multiplies, for each
        number of rows that operands have."""
        block = Block(arg_types=[IndexType(), *(value.type for parts in carried for value in parts.values)])
        old, heights = loop.body.block, _heights(shares)
        count = len(heights)
        halves = dict(zip(heights, block.args[-count:], strict=True))
        self.set(old.args[0], block.args[0])
        for half in halves.values():
            half.name_hint = "half"
        self.regroup(old.args[1:], carried[:-count], block.args[1:-count])
        with self.inside(block):
            next_halves = self._exchange(shares, old, halves, barrier)
        yielded = self.body(old, block)
        if not self.target.block_io:  # operands are loaded next to their products, and all by then
            with self.inside(block):
                self.emit(NbarrierArriveOp(barrier))
        self.close(block, [*yielded, *(ConvertedValues((next_half,)) for next_half in next_halves)], carried)
        start, stop, step = (self.single(value) for value in (loop.lb, loop.ub, loop.step))
        new = scf.ForOp(start, stop, step, [value for parts in carried for value in parts.values], Region(block))
        # The named barrier of every step makes a separate barrier hint redundant.
        new.attributes.update({name: value for name, value in loop.attributes.items() if name != BARRIER})
        self.emit(new)
        self.regroup(loop.res, carried[:-count], new.res[:-count])

    def _exchange(self, shares: Sequence[Share], old: Block, halves: Mapping[int, SSAValue],
                  barrier: SSAValue) -> list[SSAValue]:
        """Load this step's operands from SLM, store the next step's; the first rows of the halves that have the
        latter."""
        nexts = [self._load_share(share, self.single(old.args[share.position + 1])) for share in shares]
        self.emit(NbarrierWaitOp(barrier))
        copies = not any(share.by_columns for share in shares)
        if not copies:
            self._load_operands(shares, halves)
        next_halves = {rows: self.index(arith.SubiOp, self.constant(rows), half) for rows, half in halves.items()}
        for number, (share, value) in enumerate(zip(shares, nexts, strict=True)):
            self._store_share(share, number, value, next_halves[share.shape[0]])
        if copies:  # whose words have left the registers then
            self._load_operands(shares, halves)
        if self.target.block_io:
            self.emit(NbarrierArriveOp(barrier))
        return [*next_halves.values()]


def _blocks(share: Share) -> ArrayAttr[IntegerAttr]:
    """The blocks of a share that is copied as it lies."""
    assert share.blocks is not None
    return _array(share.blocks)


def _array(numbers: Pair) -> ArrayAttr[IntegerAttr]:
    return ArrayAttr([IntegerAttr(number, i64) for number in numbers])


def _heights(shares: Sequence[Share]) -> list[int]:
    """The numbers of rows that operands have, each once."""
    return [*dict.fromkeys(share.shape[0] for share in shares)]


def _load_tile(rewriter: _CooperativeLoadsRewriter, operation: tile_ops.LoadTileOp) -> None:
    if operation in rewriter.values:
        rewriter.set(operation.result, rewriter.values[operation])
    else:
        rewriter.copy(operation)


def _tile_transpose(rewriter: _CooperativeLoadsRewriter, operation: TileTransposeOp) -> None:
    """A transpose of a load; an operand in shared local memory is stored transposed already."""
    if operation.source.owner in rewriter.values:
        rewriter.set(operation.result, rewriter.single(operation.source))
    else:
        rewriter.copy(operation)


def _update_tile_offset(rewriter: _CooperativeLoadsRewriter, operation: tile_ops.UpdateTileOffsetOp) -> None:
    tile = rewriter.lookup(operation.tile)
    if isinstance(tile.encoding, Share):
        rewriter.set(operation.result, rewriter.advanced(tile.encoding, tile.values[0]), tile.encoding)
    else:
        rewriter.copy(operation)
