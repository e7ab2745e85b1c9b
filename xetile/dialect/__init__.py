"""The XeTile dialect, declared with xDSL."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects import cf
from xdsl.ir import Dialect

import xegpu.dialect
from xetile.dialect import (
    gather_scatter,
    mma,
    reduction,
    supervector,
    tile_ops,
    types,
    vector,
)

XeTile = Dialect(
    "xetile",
    [tile_ops.InitTileOp, tile_ops.LoadTileOp, tile_ops.StoreTileOp, tile_ops.PrefetchTileOp,
     tile_ops.UpdateTileOffsetOp, mma.TileMmaOp, vector.TileTransposeOp, vector.TilePackOp,
     vector.TileUnpackOp, mma.LoadMmaOp, mma.TileMmaScaledOp, vector.IotaOp, reduction.TileReduceOp,
     reduction.TileBroadcastOp, vector.TileConvLayoutOp, vector.TileBitcastOp, *gather_scatter.OPERATIONS],
    [types.WgMapAttr, types.TileAttr, types.TileType, types.CacheHintAttr],
)


def context() -> Context:
    """xDSL context with every dialect of the lowering from XeTile to XeGPU."""
    return xegpu.dialect.context(XeTile, supervector.SuperVector, cf.Cf)
