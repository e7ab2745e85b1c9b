"""Analysis of operands for :mod:`xetile.passes.cooperative_loads`: which ones a work-group may load in shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.dialects import func, gpu, scf
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from xegpu.analysis.memory_access import access_kind
from xegpu.dialect.sync import NbarrierOp
from xegpu.ir.dtypes import DType
from xegpu.ir.kernel_attributes import MAY_ALIAS
from xegpu.ir.region_branch import LOOPS
from xegpu.ir.traits import written_operand
from xegpu.ir.use_def import array_of
from xegpu.mlir.vector import shape_of
from xegpu.passes.distribute_lanes.operand_roles import is_copyable
from xegpu.passes.schedule.alias_analysis import AliasAnalysis
from xegpu.target.targets import Target
from xetile.dialect import tile_ops
from xetile.dialect.mma import TileMmaOp
from xetile.dialect.reduction import TileReduceOp
from xetile.dialect.types import TileParameters
from xetile.dialect.vector import TileConvLayoutOp, TileTransposeOp
from xetile.dialect.wg_map import Pair, WgMap
from xetile.passes.cooperative_loads.row_shares import pays_by_rows, row_shares
from xetile.passes.distribute_subgroups import slm_bytes
from xetile.passes.loops.swap_operands import SwapOperands

_LEAST = 2048
"""Least bytes of a 16-bit operand of a subgroup in a step: to transpose fewer in registers is faster than a barrier."""
_FEW = 64
"""Columns of C of a subgroup under which it transposes A alone, if it can: a barrier a step has too few products to
pay, and the share of A in what is loaded from shared local memory is largest where there are more."""
ROOM = 0.85
"""Part of the registers for the vectors of a step, up to which each has registers of its own: fitted on pvc (0.81 had,
1.0 had not)."""
_COLUMNS = "block-columns"
"""Access kind of a column-major array that 2D block messages can reach."""
_ROWS = "block"
"""Access kind of a row-major array that 2D block messages can reach."""
_UNALIGNED = "rows"
"""Access kind of a row-major array that they cannot, for its pitch or its base."""
COPIED = {8: {"a": (16, 32), "b": (64, 8)}, 16: {"a": (16, 16), "b": (32, 8)}, 32: {"a": (16, 8), "b": (16, 8)}}
"""Blocks of operands that are copied from such an array, by bits (:func:`xegpu.layout.lane_map.unaligned_copy`)."""
_WORDS = 16
"""The most columns of a block that is copied, as many as lanes: wider rows are several blocks."""
_JUST_IN_TIME = (16, 16)
"""Blocks in which an operand B of 32 bits is loaded: all of it has no registers beside the accumulators."""
EXCHANGES = (TileTransposeOp, TileConvLayoutOp, TileReduceOp)
"""Operations that may go through shared local memory, with barriers around them."""
_WAITS = (gpu.BarrierOp, NbarrierOp, *LOOPS, *EXCHANGES)
"""Operations with barriers; an inner loop may have cooperative loads, too."""


@dataclass(frozen=True, eq=False)
class Share:
    """An operand that a work-group loads in shares.

    Attributes:
        init: initializes its tile before the loop.
        load: its load in the loop.
        move: advances the tile to the next step.
        position: of the tile among the loop-carried values.
        is_transposed: whether the loop transposes the loaded value; else it is the operand itself.
        by_columns: whether memory has the operand's columns, so that shares are loaded of its transpose.
        shape: the operand's.
        map: distributes the operand for the product.
        shares: distributes the operand, or its transpose, for the loads.
        blocks: of a share that is copied as it lies, row-major; None of another.
        loaded: of an operand that is to be loaded in blocks of this shape, not in the largest ones.
    """

    init: tile_ops.InitTileOp
    load: tile_ops.LoadTileOp
    move: tile_ops.UpdateTileOffsetOp
    position: int
    is_transposed: bool
    by_columns: bool
    shape: Pair
    map: WgMap
    shares: WgMap
    blocks: Pair | None = None
    loaded: Pair | None = None

    @property
    def tile(self) -> TileParameters:
        """The tile of its load."""
        return tile_ops.tile_of(self.init.result)

    @property
    def bytes(self) -> int:
        """Size of the double buffer in shared local memory."""
        return 2 * prod(self.shape) * self.tile.dtype.bytes

    @property
    def is_large(self) -> bool:
        """Whether its share is large enough for a barrier in each step, though a subgroup could transpose it alone."""
        return not self.by_columns or prod(self.map.sg_data) * self.tile.dtype.bytes >= _LEAST

    @property
    def product(self) -> TileMmaOp:
        """A product of the operand."""
        users = [use.operation for use in self.load.result.uses]
        transposes = [user for user in users if isinstance(user, TileTransposeOp)]
        product = ([use.operation for each in transposes for use in each.result.uses] or users)[0]
        assert isinstance(product, TileMmaOp)
        return product

    @property
    def pays(self) -> bool:
        """Whether it is worth a barrier; 8-bit elements always, since registers transpose them one by one."""
        return self.is_large or self.tile.dtype.bits < 16

    def array(self, number: int) -> tuple[Pair, Attribute, int]:
        """Key of the SLM array of a loop's ``number``-th operand; loops with equal keys reuse the array."""
        return self.shape, self.tile.element_type, number


Shares = Mapping[scf.ForOp, list["Share"]]
"""Loops, each with its operands that several subgroups need."""


def cooperative_loops(function: func.FuncOp, access: Sequence[str], target: Target) -> tuple[Shares, Shares]:
    """The loops with cooperative loads, as far as shared local memory suffices, and those with private ones.

    In the latter each subgroup loads and transposes its own operands
    (:mod:`xetile.passes.cooperative_loads.slm_transpose`), or their products
    (:mod:`xetile.passes.loops.swap_operands`).

    Args:
        function: a kernel whose tiles are not distributed yet.
        access: for each argument its access kind.
        target: its block messages and its shared local memory.
    """
    kinds = {type(operation) for operation in function.walk()}
    if any(issubclass(kind, NbarrierOp) for kind in kinds):  # one split barrier is open at a time
        return {}, {}
    access_kinds = dict(zip(function.body.block.args, access, strict=True))
    # Leaves half for layout conversions elsewhere in the kernel.
    free = target.slm_bytes // (1 if kinds.isdisjoint(EXCHANGES) else 2) - slm_bytes(function)
    swap = SwapOperands(target, tuple(access))
    found: dict[scf.ForOp, list[Share]] = {}
    alone: dict[scf.ForOp, list[Share]] = {}
    arrays: set[tuple[Pair, Attribute, int]] = set()
    for loop in function.walk():
        if not isinstance(loop, scf.ForOp) or not (shares := loop_shares(loop, access_kinds, target)):
            continue
        if swap.plan(loop) or _transpose_alone(shares, target, free):
            alone[loop] = shares
            continue
        stale = _written_operands(loop, function)
        shares, taken = _fitting([share for share in shares if share.pays and share.load not in stale], arrays, free)
        if shares and (target.block_io or pays_by_rows([share.product for share in shares], target)):
            free -= taken
            arrays.update(share.array(number) for number, share in enumerate(shares))
            found[loop] = shares
    return found, alone


def _written_operands(loop: scf.ForOp, function: func.FuncOp) -> set[Operation]:
    """Loads of a loop whose memory the loop may write: a load a step ahead would miss what the step stores."""
    aliases = AliasAnalysis(may_alias=MAY_ALIAS in function.attributes)
    stores = [operation for operation in loop.walk() if written_operand(type(operation)) is not None]
    written = aliases.written(stores)
    return {load for load in loop.walk() if stores and isinstance(load, tile_ops.LoadTileOp)
            and aliases.may_alias(load, written)}


def _fitting(shares: Sequence[Share], arrays: Set[tuple[Pair, Attribute, int]], free: int) -> tuple[list[Share], int]:
    """The first shares for which ``free`` bytes of shared local memory suffice, arrays of earlier loops reused, and the
    bytes that they take."""
    fitting, taken = list[Share](), 0
    for number, share in enumerate(shares):
        more = 0 if share.array(number) in arrays else share.bytes
        if taken + more > free:
            break
        fitting.append(share)
        taken += more
    return fitting, taken


def loop_shares(loop: scf.ForOp, kinds: Mapping[Any, str], target: Target) -> list[Share]:
    """The operands of a loop that its subgroups may load in shares.

    Args:
        loop: a loop of a kernel whose tiles are not distributed yet.
        kinds: for each array argument its access kind.
        target: its block messages.
    """
    if any(isinstance(inner, _WAITS) and inner is not loop and not _is_folded(inner) for inner in loop.walk()):
        return []
    found = (_share(loop, argument, kinds, target) for argument in loop.body.block.args[1:])
    return [share for share in found if share is not None]


def _transpose_alone(shares: Sequence[Share], target: Target, free: int) -> bool:
    """Whether each subgroup of a loop is to transpose its own operands."""
    own = {(rows_for_lanes(share.map.sg_data, target), share.tile.dtype) for share in shares}
    return all(share.by_columns and (not share.is_large or (_columns(share) < _FEW and _has_registers(share, target)))
               for share in shares) and all(has_words(shape, dtype, target) for shape, dtype in own) and \
        sum(shares[0].map.subgroups * prod(shape) * dtype.bytes for shape, dtype in own) <= free


def _has_registers(share: Share, target: Target) -> bool:
    """Whether A, its transpose, B and C of a subgroup have registers of their own, where a register that a message
    stores costs instructions before it is written again."""
    (rows, depth), columns = share.map.sg_data, _columns(share)
    taken = (2 * rows + columns) * depth * share.tile.dtype.bytes + rows * columns * 4
    return target.immediate_offsets or taken <= ROOM * max(target.registers) * target.register_bytes


def _columns(share: Share) -> int:
    """Columns of products of an operand A that a subgroup has."""
    return shape_of(share.product.result)[1] // share.map.sg_layout[1]


def rows_for_lanes(shape: Pair, target: Target) -> Pair:
    """The shape of a tile of A with as many rows as whole subgroups have lanes."""
    return -(-shape[0] // target.subgroup_size) * target.subgroup_size, shape[1]


def has_words(shape: Pair, dtype: DType, target: Target) -> bool:
    """Whether messages load the transpose of a tile of A in words of several rows, or of one of 32 bits."""
    kind = "read" if dtype.bits == 32 else "read_transform"
    return target.largest_block(kind, dtype.bits, target.subgroup_size, shape[::-1]) is not None


def _is_folded(operation: Operation) -> bool:
    """Whether an operation transposes a loaded value; such a transpose is folded into the load."""
    return isinstance(operation, TileTransposeOp) and isinstance(operation.source.owner, tile_ops.LoadTileOp)


def _share(loop: scf.ForOp, argument: BlockArgument, kinds: Mapping[Any, str], target: Target) -> Share | None:
    """The share that a loop-carried tile loads, if its only uses are products that take it as one operand."""
    carried = _carried(loop, argument, tile_ops.LoadTileOp)
    if carried is None:
        return None
    init, load, move = carried
    if not isinstance(load, tile_ops.LoadTileOp) or load.padding is not None:
        return None
    tile, position = tile_ops.tile_of(init.result), argument.index - 1
    if is_unaligned(init, kinds):
        side, map_ = _copied_side(load, tile), tile.encoding.wg_map
        if not target.block_io:
            rows = row_shares(tile.shape, tile.dtype, side, map_, target) if side and map_ is not None else None
            return None if rows is None or map_ is None else Share(
                init, load, move, position, False, False, tile.shape, map_, rows, rows.sg_data)
        block = COPIED.get(tile.dtype.bits, {}).get(side)
        copies = None if block is None or map_ is None else _copies(tile.shape, block, map_)
        if block is None or map_ is None or copies is None:
            return None
        widest = block[0], min(copies.sg_data[1], max(block[1], _WORDS))
        loaded = _JUST_IN_TIME if tile.dtype.bits == 32 and block == COPIED[32]["b"] and \
            _multiplies(load.result, load, 1) else None
        return Share(init, load, move, position, False, False, tile.shape, map_, copies, widest, loaded)
    transposes = [use.operation for use in load.result.uses if isinstance(use.operation, TileTransposeOp)]
    operands = [transpose.result for transpose in transposes] or [load.result]
    mixed = len(transposes) not in (0, len(list(load.result.uses)))
    if mixed or not all(_multiplies(operand, load) for operand in operands):
        return None
    maps = {transpose.wg_map for transpose in transposes}
    result_map = maps.pop() if len(maps) == 1 else None
    is_transposed = bool(transposes)
    map_ = tile.encoding.wg_map if not is_transposed else None if result_map is None else result_map.data
    shape = tile.shape[::-1] if is_transposed else tile.shape
    if map_ is None or access_kind(init, kinds) != (_ROWS if is_transposed else _COLUMNS):
        return None
    shares = _shares(shape, map_, tile.dtype, target)
    return None if shares is None else Share(init, load, move, position, is_transposed, True, shape, map_, shares)


def is_unaligned(init: tile_ops.InitTileOp, kinds: Mapping[Any, str]) -> bool:
    """Whether a tile's array is not aligned for 2D block messages."""
    return kinds.get(array_of(init.source)) == _UNALIGNED and access_kind(init, kinds) == _UNALIGNED


def _copied_side(load: tile_ops.LoadTileOp, tile: TileParameters) -> str:
    """``a`` or ``b`` for an operand of 16 bits or tf32 that several subgroups need, and nothing else does, or empty."""
    map_, (rows, columns) = tile.encoding.wg_map, tile.shape
    if map_ is None or not is_copyable(tile.dtype) or tile.encoding.order != (1, 0):
        return ""
    down, across = map_.sg_layout
    if across > 1 and _multiplies(load.result, load) and map_.sg_data == (rows // down, columns):
        return "a"
    return "b" if down > 1 and _multiplies(load.result, load, 1) and map_.sg_data == (rows, columns // across) else ""


def _copies(shape: Pair, block: Pair, map_: WgMap) -> WgMap | None:
    """The map in which subgroups copy a row-major operand: as few blocks each as there are, or parts of blocks where
    there are more subgroups; None if they do not fit."""
    parts = ((block[0], block[1] // part) for part in (4, 2))
    wholes = ((block[0] * down, block[1] * across) for down in (1, 2, 4) for across in (1, 2, 4))
    sizes = sorted((*parts, *wholes), key=prod)
    maps = (_even_map(shape, size, map_.subgroups) for size in sizes)
    return next((found for found in maps if found is not None), None)


def _carried(loop: scf.ForOp, argument: BlockArgument, kind: type[Operation]) -> \
        tuple[tile_ops.InitTileOp, Operation, tile_ops.UpdateTileOffsetOp] | None:
    """(init, use, advance) of a loop-carried tile with exactly one use of type ``kind``; None otherwise."""
    position, body = argument.index - 1, loop.body.block
    init, users = loop.iter_args[position].owner, [use.operation for use in argument.uses]
    moves = [user for user in users if isinstance(user, tile_ops.UpdateTileOffsetOp)]
    uses = [user for user in users if isinstance(user, kind)]
    if not isinstance(init, tile_ops.InitTileOp) or len(users) != 2 or len(moves) != 1 or len(uses) != 1:
        return None
    (move,), (use,), yielded = moves, uses, body.last_op
    assert yielded is not None
    ends = yielded.operands[position] is move.result and move.result.has_one_use() and not loop.results[position].uses
    steady = not any(is_defined_in(offset, body) for offset in move.offsets)
    return (init, use, move) if ends and steady and use.parent is body else None


def _multiplies(value: SSAValue, load: tile_ops.LoadTileOp, index: int = 0) -> bool:
    """Whether a value is operand A (``index`` 0) or B (1) of products in the block of its load, and nothing else."""
    return bool(value.uses) and all(isinstance(use.operation, TileMmaOp) and use.index == index
                                    and use.operation.parent is load.parent for use in value.uses)


def _shares(shape: Pair, map_: WgMap, dtype: DType, target: Target) -> WgMap | None:
    """The map of an operand's transpose for cooperative loads: the smallest VNNI-transforming message each."""
    rows, columns = shape
    covers_k = map_.sg_layout[1] > 1 and map_.sg_data == (rows // map_.sg_layout[0], columns)
    if dtype.bits not in (8, 16) or not covers_k:
        return None
    blocks = {(block.rows, block.columns * block.blocks) for block in target.blocks
              if block.kind == "read_transform" and block.bits == dtype.bits}
    maps = (_even_map((columns, rows), block, map_.subgroups) for block in sorted(blocks))
    return next((found for found in maps if found is not None), None)


def _even_map(shape: Pair, block: Pair, subgroups: int) -> WgMap | None:
    """A map that gives each subgroup at most one block of a shape; None if the blocks do not divide it evenly."""
    (rows, columns), (height, width) = shape, block
    if rows % height or columns % width or subgroups % (down := rows // height):
        return None
    across = subgroups // down
    return None if across * width % columns else WgMap((down, across), block)


def narrow_prefetches(loop: scf.ForOp, share: Share, target: Target) -> list[int]:
    """Positions of loop-carried tiles that prefetch an operand in parts narrower than any prefetch message.

    Args:
        loop: the loop.
        share: the operand.
        target: its block messages.
    """
    return [argument.index - 1 for argument in loop.body.block.args[1:]
            if share.by_columns and (carried := _carried(loop, argument, tile_ops.PrefetchTileOp)) is not None
            and _is_narrow(carried[0], share, target)]


def _is_narrow(init: tile_ops.InitTileOp, share: Share, target: Target) -> bool:
    tile = tile_ops.tile_of(init.result)
    if tile.shape != share.tile.shape or tile.encoding.wg_map is None or \
            array_of(init.source) is not array_of(share.init.source):
        return False
    rows, columns = tile.encoding.wg_map.sg_data
    data = (rows, columns) if share.is_transposed else (columns, rows)
    return not any(target.largest_block("prefetch", tile.dtype.bits, across, data) for across in (32, 16, 8))


def is_defined_in(value: SSAValue, body: Block | Operation) -> bool:
    """Whether a value is defined in the body of a loop."""
    owner = value.owner
    return owner is body or (isinstance(owner, Operation) and owner.parent is body)
