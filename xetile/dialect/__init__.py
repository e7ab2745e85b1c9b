"""The XeTile dialect, declared with xDSL."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.ir import Dialect

import xegpu.dialect
from xetile.dialect import (
    attributes,
    hints,
    loaded_products,
    ops,
    positions,
    scaled_products,
    scattered,
    supervector,
    vector_ops,
)

XeTile = Dialect(
    "xetile",
    [ops.InitTileOp, ops.LoadTileOp, ops.StoreTileOp, ops.PrefetchTileOp, ops.UpdateTileOffsetOp, ops.TileMmaOp,
     ops.TileTransposeOp, ops.TilePackOp, ops.TileUnpackOp, loaded_products.LoadMmaOp, positions.IotaOp,
     vector_ops.TileReduceOp, vector_ops.TileBroadcastOp, vector_ops.TileConvLayoutOp,
     vector_ops.TileBitcastOp, scaled_products.TileMmaScaledOp, *scattered.OPERATIONS],
    [attributes.WgMapAttr, attributes.TileAttr, attributes.TileType, hints.CacheHintAttr],
)


def context() -> Context:
    """A context that reads and prints every stage of the way from XeTile to XeGPU."""
    return xegpu.dialect.context(XeTile, supervector.SuperVector)
