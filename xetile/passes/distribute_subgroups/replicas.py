"""Replicated stores: a block that several subgroups have is stored by each of them.

    %t = init_tile %C, ... : tile<16x16xf32, wg_map<sg_layout = [4, 1], sg_data = [8, 16]>>
    %c = load_tile %t ; store_tile (addf %a, %c), %t                     subgroups 0 and 2 have rows 0 to 7
becomes
    %c = load_tile %t ; gpu.barrier ; store_tile (addf %a, %c), %t

Where the kernel reads the array as well, all subgroups must have read what was there, and have stored what they had
before, when the first of them stores.
"""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.ir import Operation

from xegpu.ir.traits import read_operands
from xegpu.ir.use_def import arrays_of
from xetile.dialect.gather_scatter import StoreScatterOp
from xetile.dialect.tile_ops import StoreTileOp, tile_of


def replicated_stores(function: func.FuncOp) -> frozenset[Operation]:
    """The stores of replicated blocks to arrays that a kernel reads as well: each waits for all subgroups."""
    stores = [operation for operation in function.walk()
              if isinstance(operation, (StoreTileOp, StoreScatterOp)) and _is_replicated(operation)]
    if not stores:
        return frozenset()
    read = {array for operation in function.walk() for operand in read_operands(type(operation))
            for array in arrays_of(operation.operands[operand])}
    return frozenset(store for store in stores if not read.isdisjoint(arrays_of(store.tile)))


def _is_replicated(store: StoreTileOp | StoreScatterOp) -> bool:
    tile = tile_of(store.tile)
    return tile.encoding.wg_map is not None and tile.encoding.wg_map.replicates(tile.shape)
