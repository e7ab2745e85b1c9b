"""Which operands of a loop's products the subgroups of a work-group may load together (:mod:`.shared_operands`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.dialects import func, gpu, scf
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from xegpu.analysis.memory_access import access_kind
from xegpu.dialect.sync import NbarrierOp
from xegpu.ir.dtypes import DType
from xegpu.ir.use_def import array_of
from xegpu.target.targets import Target
from xetile.dialect import tile_ops
from xetile.dialect.mma import TileMmaOp
from xetile.dialect.reduction import TileReduceOp
from xetile.dialect.types import TileParameters
from xetile.dialect.vector import TileConvLayoutOp, TileTransposeOp
from xetile.dialect.wg_map import Pair, WgMap
from xetile.passes.distribute_subgroups import slm_bytes

_LEAST = 2048
"""Bytes of an operand of 16 bits that a subgroup multiplies in a step: fewer it takes apart sooner than it waits."""
_COLUMNS = "block-columns"
"""How an array may be reached that is stored column by column, by 2D block messages."""
_ROWS = "block"
"""The same of one that is stored row by row."""
EXCHANGES = (TileTransposeOp, TileConvLayoutOp, TileReduceOp)
"""What may go through shared local memory, with barriers around it."""
_WAITS = (gpu.BarrierOp, NbarrierOp, scf.ForOp, *EXCHANGES)
"""What may wait; a loop in a loop may share operands itself."""


@dataclass(frozen=True, eq=False)
class Share:
    """An operand that a loop loads.

    Attributes:
        init: what makes its tile before the loop.
        load: its load in the loop.
        move: what moves the tile to the next step.
        position: of the tile among what the loop carries.
        is_transposed: whether what is loaded is transposed in the loop; else it is the operand, stored by columns.
        shape: the operand's.
        map: how the operand is dealt out to be multiplied.
        shares: how its transpose is dealt out to be loaded.
    """

    init: tile_ops.InitTileOp
    load: tile_ops.LoadTileOp
    move: tile_ops.UpdateTileOffsetOp
    position: int
    is_transposed: bool
    shape: Pair
    map: WgMap
    shares: WgMap

    @property
    def tile(self) -> TileParameters:
        """The tile through which it is loaded."""
        return tile_ops.tile_of(self.init.result)

    @property
    def bytes(self) -> int:
        """Shared local memory for the operands of two steps."""
        return 2 * prod(self.shape) * self.tile.dtype.bytes

    def array(self, number: int) -> tuple[Pair, Attribute, int]:
        """What the array in shared local memory of the ``number``-th operand of a loop is known by."""
        return self.shape, self.tile.element_type, number


def cooperative_loops(function: func.FuncOp, access: Sequence[str], target: Target) -> dict[scf.ForOp, list[Share]]:
    """The loops of a kernel that load operands in shares, and the operands, as long as shared local memory lasts.

    Args:
        function: a kernel whose tiles are not dealt out yet.
        access: for each argument how it may be reached.
        target: its block messages and its shared local memory.
    """
    kinds = {type(operation) for operation in function.walk()}
    if any(issubclass(kind, NbarrierOp) for kind in kinds):  # one split barrier is open at a time
        return {}
    ways = dict(zip(function.body.block.args, access, strict=True))
    # What is exchanged elsewhere needs memory, too.
    free = target.slm_bytes // (1 if kinds.isdisjoint(EXCHANGES) else 2) - slm_bytes(function)
    found: dict[scf.ForOp, list[Share]] = {}
    arrays: set[tuple[Pair, Attribute, int]] = set()
    for loop in function.walk():
        if not isinstance(loop, scf.ForOp) or not (shares := shares_of(loop, ways, target)):
            continue
        new = {share.array(number): share.bytes for number, share in enumerate(shares)
               if share.array(number) not in arrays}  # what a loop before this one had serves again
        if sum(new.values()) <= free:
            free -= sum(new.values())
            arrays.update(new)
            found[loop] = shares
    return found


def shares_of(loop: scf.ForOp, ways: Mapping[Any, str], target: Target) -> list[Share]:
    """The operands of a loop that its subgroups may share; they are as high as each other.

    Args:
        loop: a loop of a kernel whose tiles are not dealt out yet.
        ways: for each array argument, how it may be reached.
        target: has the messages.
    """
    if any(isinstance(inner, _WAITS) and inner is not loop and not _is_of_load(inner) for inner in loop.walk()):
        return []
    found = (_share(loop, argument, ways, target) for argument in loop.body.block.args[1:])
    shares = [share for share in found if share is not None]
    return [share for share in shares if share.shape[0] == shares[0].shape[0]]


def _is_of_load(operation: Operation) -> bool:
    """Whether an operation transposes what is loaded, which goes into the load."""
    return isinstance(operation, TileTransposeOp) and isinstance(operation.source.owner, tile_ops.LoadTileOp)


def _share(loop: scf.ForOp, argument: BlockArgument, ways: Mapping[Any, str], target: Target) -> Share | None:
    """What is loaded through a tile that the loop carries, if it is such an operand and nothing else."""
    carried = _carried(loop, argument, tile_ops.LoadTileOp)
    if carried is None:
        return None
    init, load, move = carried
    if not isinstance(load, tile_ops.LoadTileOp) or load.padding is not None:
        return None
    transposes = [use.operation for use in load.result.uses if isinstance(use.operation, TileTransposeOp)]
    operands = [transpose.result for transpose in transposes] or [load.result]
    mixed = len(transposes) not in (0, len(list(load.result.uses)))
    if mixed or not all(_multiplies(operand, load) for operand in operands):
        return None
    maps = {transpose.wg_map for transpose in transposes}
    said = maps.pop() if len(maps) == 1 else None
    tile, is_transposed = tile_ops.tile_of(init.result), bool(transposes)
    map_ = tile.encoding.wg_map if not is_transposed else None if said is None else said.data
    shape = tile.shape[::-1] if is_transposed else tile.shape
    if map_ is None or access_kind(init, ways) != (_ROWS if is_transposed else _COLUMNS):
        return None
    shares = _shares(shape, map_, tile.dtype, target)
    return None if shares is None else Share(init, load, move, argument.index - 1, is_transposed, shape, map_, shares)


def _carried(loop: scf.ForOp, argument: BlockArgument, kind: type[Operation]) -> \
        tuple[tile_ops.InitTileOp, Operation, tile_ops.UpdateTileOffsetOp] | None:
    """What makes, what uses and what moves a tile that a loop carries for one use of a kind; None if it is another."""
    position, body = argument.index - 1, loop.body.block
    init, users = loop.iter_args[position].owner, [use.operation for use in argument.uses]
    moves = [user for user in users if isinstance(user, tile_ops.UpdateTileOffsetOp)]
    uses = [user for user in users if isinstance(user, kind)]
    if not isinstance(init, tile_ops.InitTileOp) or len(users) != 2 or len(moves) != 1 or len(uses) != 1:
        return None
    (move,), (use,), yielded = moves, uses, body.last_op
    assert yielded is not None
    ends = yielded.operands[position] is move.result and move.result.has_one_use() and not loop.results[position].uses
    steady = not any(is_made_in(offset, body) for offset in move.offsets)
    return (init, use, move) if ends and steady and use.parent is body else None


def _multiplies(value: SSAValue, load: tile_ops.LoadTileOp) -> bool:
    """Whether a value is the first operand of products of the body in which it is loaded, and nothing else."""
    return bool(value.uses) and all(isinstance(use.operation, TileMmaOp) and use.index == 0
                                    and use.operation.parent is load.parent for use in value.uses)


def _shares(shape: Pair, map_: WgMap, dtype: DType, target: Target) -> WgMap | None:
    """How the transpose of an operand is dealt out: the smallest messages of words of several rows, one a subgroup."""
    rows, columns = shape
    whole = map_.sg_layout[1] > 1 and map_.sg_data == (rows // map_.sg_layout[0], columns)
    if dtype.bits not in (8, 16) or not whole or (dtype.bits == 16 and prod(map_.sg_data) * dtype.bytes < _LEAST):
        return None
    blocks = {(block.rows, block.columns * block.blocks) for block in target.blocks
              if block.kind == "read_transform" and block.bits == dtype.bits}
    maps = (_dealt((columns, rows), block, map_.subgroups) for block in sorted(blocks))
    return next((found for found in maps if found is not None), None)


def _dealt(shape: Pair, block: Pair, subgroups: int) -> WgMap | None:
    """A map that deals a shape out in blocks, at most one a subgroup; None if it does not come out even."""
    (rows, columns), (height, width) = shape, block
    if rows % height or columns % width or subgroups % (down := rows // height):
        return None
    across = subgroups // down
    return None if across * width % columns else WgMap((down, across), block)


def narrow_prefetches(loop: scf.ForOp, share: Share, target: Target) -> list[int]:
    """Positions of tiles on an operand that a loop prefetches in parts that no message covers, as they lie in memory.

    Args:
        loop: the loop.
        share: the operand.
        target: has the messages.
    """
    return [argument.index - 1 for argument in loop.body.block.args[1:]
            if (carried := _carried(loop, argument, tile_ops.PrefetchTileOp)) is not None
            and _is_narrow(carried[0], share, target)]


def _is_narrow(init: tile_ops.InitTileOp, share: Share, target: Target) -> bool:
    tile = tile_ops.tile_of(init.result)
    if tile.shape != share.tile.shape or tile.encoding.wg_map is None or \
            array_of(init.source) is not array_of(share.init.source):
        return False
    rows, columns = tile.encoding.wg_map.sg_data
    data = (rows, columns) if share.is_transposed else (columns, rows)
    return not any(target.largest_block("prefetch", tile.dtype.bits, across, data) for across in (32, 16, 8))


def is_made_in(value: SSAValue, body: Block | Operation) -> bool:
    """Whether a value is made in the body of a loop."""
    owner = value.owner
    return owner is body or (isinstance(owner, Operation) and owner.parent is body)
