"""Unpacking of the author's ``inner_blocks``: 4D vectors to 2D vectors (XeTile.md, ``inner_blocks``).

    %t = init_tile %A, [%m, %c0] : tile<64x32xbf16, inner_blocks = [16, 16]>
    %v = load_tile %t : -> vector<4x2x16x16xbf16>
    %w = tile_unpack %v : -> vector<64x32xbf16>
becomes
    %t = init_tile %A, [%m, %c0] {inner_blocks = [16, 16]} : tile<64x32xbf16>
    %w = load_tile %t : -> vector<64x32xbf16>

A 4D vector has the elements of the 2D vector, so packs and unpacks are replaced by their sources. The attribute names
the block of a message; :mod:`xetile.passes.blocking` follows it where the target has such a message, and chooses all
other blocks for the target.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, VectorType, i64
from xdsl.ir import Attribute, Operation

from xegpu.mlir.vector import shape_of
from xegpu.rewrite.rewriter import Rewriter, rewrite
from xetile.dialect import tile_ops
from xetile.dialect.reduction import TileBroadcastOp, TileReduceOp, axes_of
from xetile.dialect.types import TileType
from xetile.dialect.vector import TilePackOp, TileUnpackOp
from xetile.dialect.wg_map import Pair

BLOCKS = "inner_blocks"
"""The attribute of ``init_tile`` that replaces ``inner_blocks`` of the tile type."""


@dataclass(frozen=True)
class UnpackBlocks:
    """Pass ``unpack-blocks``; it has no options."""

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with 2D vectors instead of 4D vectors; itself if there are none."""
        return rewrite(module, _rewrite_function)


def _rewrite_function(function: func.FuncOp) -> func.FuncOp:
    if not any(_is_blocked(operation) for operation in function.walk()):
        return function
    return _UnpackBlocksRewriter().function(function)


def requested_blocks(operation: tile_ops.InitTileOp) -> Pair | None:
    """The blocks that the author requested for a tile's messages, if any."""
    attribute =  operation.attributes.get(BLOCKS)
    if not isinstance(attribute, ArrayAttr):
        return None
    rows, columns = (number.value.data for number in attribute)
    return rows, columns


def _is_blocked(operation: Operation) -> bool:
    if isinstance(operation, tile_ops.InitTileOp):
        return tile_ops.tile_of(operation.result).encoding.inner_blocks is not None
    return any(_flat(result.type) is not result.type for result in operation.results)


def _flat(type_: Attribute) -> Attribute:
    """A vector type without blocks; any other type unchanged."""
    if not isinstance(type_, VectorType) or len(type_.get_shape()) != 4:
        return type_
    return VectorType(type_.element_type, tile_ops.flat_shape(type_.get_shape()))


class _UnpackBlocksRewriter(Rewriter):
    """Rewriter of one function."""

    def __init__(self) -> None:
        super().__init__({tile_ops.InitTileOp: _init_tile,
                          TilePackOp: Rewriter.forward, TileUnpackOp: Rewriter.forward,
                          TileReduceOp: _tile_reduce, TileBroadcastOp: _tile_broadcast})

    def copy(self, operation: Operation) -> None:
        """A copy of an operation with 2D vectors."""
        if all(_flat(result.type) is result.type for result in operation.results):
            super().copy(operation)
            return
        operands, types = map(self.single, operation.operands), [_flat(result.type) for result in operation.results]
        copied = self.like(operation, list(operands), types)
        for before, after in zip(operation.results, copied.results, strict=True):
            self.set(before, after)


def _init_tile(rewriter: _UnpackBlocksRewriter, operation: tile_ops.InitTileOp) -> None:
    tile = tile_ops.tile_of(operation.result)
    blocks = tile.encoding.inner_blocks
    if blocks is None:
        rewriter.copy(operation)
        return
    rewriter.retyped(operation, TileType(tile).with_(inner_blocks=None, array_length=1))
    init_tile = rewriter.single(operation.result).owner
    assert isinstance(init_tile, Operation)
    init_tile.attributes[BLOCKS] = ArrayAttr([IntegerAttr(size, i64) for size in blocks])


def _flat_axes(operation: TileReduceOp | TileBroadcastOp) -> list[int]:
    """The 2D axes of a blocked operation: dimensions [0, 2] are rows, [1, 3] are columns."""
    return sorted({axis % 2 for axis in axes_of(operation)})


def _tile_reduce(rewriter: _UnpackBlocksRewriter, operation: TileReduceOp) -> None:
    map_ = operation.wg_map.data if operation.wg_map else None
    flat = TileReduceOp(operation.kind.data, rewriter.single(operation.source), _flat_axes(operation), map_)
    rewriter.set(operation.result, rewriter.emit(flat))


def _tile_broadcast(rewriter: _UnpackBlocksRewriter, operation: TileBroadcastOp) -> None:
    map_ = operation.wg_map.data if operation.wg_map else None
    shape = tile_ops.flat_shape(shape_of(operation.result))
    rewriter.set(operation.result, rewriter.emit(TileBroadcastOp(rewriter.single(operation.source), shape,
                                                                 _flat_axes(operation),
                                                           map_)))
