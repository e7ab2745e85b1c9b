"""The XeTile dialect, declared with xDSL."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.ir import Dialect

import xegpu.dialect
from xetile.dialect import (
    gather_scatter,
    mma,
    supervector,
    tile_ops,
    types,
    vector_ops,
)

XeTile = Dialect(
    "xetile",
    [tile_ops.InitTileOp, tile_ops.LoadTileOp, tile_ops.StoreTileOp, tile_ops.PrefetchTileOp,
     tile_ops.UpdateTileOffsetOp, tile_ops.TileMmaOp, tile_ops.TileTransposeOp, tile_ops.TilePackOp,
     tile_ops.TileUnpackOp, mma.LoadMmaOp, mma.TileMmaScaledOp, vector_ops.IotaOp, vector_ops.TileReduceOp,
     vector_ops.TileBroadcastOp, vector_ops.TileConvLayoutOp, vector_ops.TileBitcastOp, *gather_scatter.OPERATIONS],
    [types.WgMapAttr, types.TileAttr, types.TileType, types.CacheHintAttr],
)


def context() -> Context:
    """xDSL context with every dialect of the lowering from XeTile to XeGPU."""
    return xegpu.dialect.context(XeTile, supervector.SuperVector)
