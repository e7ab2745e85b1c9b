"""Row-major tiles, with transpositions folded into loads (XeTile.md, ``order`` and ``tile_transpose``).

    %t = init_tile %BT, [%n, %k] : tile<64x32xbf16>
    %v = load_tile %t : -> vector<64x32xbf16>
    %w = tile_transpose %v : -> vector<32x64xbf16>
becomes
    %t = init_tile %BT, [%k, %n] : tile<32x64xbf16, order = [0, 1]>      sizes and strides exchanged, too
    %w = load_tile %t : -> vector<32x64xbf16>

So do 8-bit elements that become operand B in 16 bits before they are transposed: both orders give the same.

After this pass ``order`` is the order of memory: ``[0, 1]`` where the tile's columns are contiguous. A tile on a
column-major array, such as a transposed view, gets that order.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, VectorType
from xdsl.ir import Operation, SSAValue

from xegpu.analysis.memory_access import access_kind
from xegpu.analysis.webs import view_webs
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.memref import exchanged
from xegpu.ir.traversal import of_kind, operations
from xegpu.mlir.vector import shape_of
from xegpu.passes.distribute_lanes.operand_roles import CONVERSIONS, is_widened
from xegpu.rewrite.memref_operands import spelled_out
from xegpu.rewrite.rewriter import Rewriter, rewrite
from xegpu.support.errors import ShapeError, located
from xegpu.target.targets import Target
from xetile.dialect import tile_ops
from xetile.dialect.gather_scatter import AtomicRMWTileOp
from xetile.dialect.mma import TileMmaOp
from xetile.dialect.types import TileType
from xetile.dialect.vector import TileTransposeOp


@dataclass(frozen=True)
class RowMajor:
    """Pass ``row-major``.

    Attributes:
        access: for each argument its access kind; those of column-major arrays end in ``columns``.
        target: has messages for 8-bit elements that are transposed, or has not.
    """

    access: tuple[str, ...]
    target: Target

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with tiles in the order of memory, and without transpositions of loads.

        It is the module itself if all tiles are in that order already.
        """
        return rewrite(module, self._rewrite_function)

    def _rewrite_function(self, function: func.FuncOp) -> func.FuncOp:
        check_orders(function, self.access)
        rewriter = _RowMajorRewriter(self.access, self.target, function)
        inits = (operation for operation in of_kind(function, tile_ops.InitTileOp))
        if not any(rewriter.is_transposed(init.result) or rewriter.result_type(init) != init.result.type
                   for init in inits):
            return function
        return rewriter.function(function)


def check_orders(function: func.FuncOp, access: tuple[str, ...]) -> None:
    """Raise unless every tile of order ``[0, 1]`` is on a column-major array.

    Args:
        function: the kernel as recorded or parsed.
        access: for each argument its access kind.

    Raises:
        ShapeError: at the author's line of the tile.
    """
    access_kinds = dict(zip(function.body.block.args, access, strict=True))
    for operation in operations(function):
        if not isinstance(operation, tile_ops.InitTileOp) or tile_ops.tile_of(operation.result).encoding.order == (1,
                                                                                                                   0):
            continue
        kind = access_kind(operation, access_kinds)
        if not kind.endswith("columns"):
            stored = "is not known to be stored column by column" if kind == "strided" else "is stored row by row"
            raise located(ShapeError("XT2131",
                f"the tile has order [0, 1], and its array {stored}",
                "drop the order, or pass the transposed view of a row-major array; an address takes "
                "base_strides=(1, pitch)"), operation)


class _RowMajorRewriter(Rewriter):
    """Rewriter of one function."""

    def __init__(self, access: tuple[str, ...], target: Target, function: func.FuncOp) -> None:
        super().__init__({tile_ops.InitTileOp: _init_tile, tile_ops.UpdateTileOffsetOp: _update_tile_offset,
                          TileTransposeOp: _tile_transpose})
        self.access_kinds = dict(zip(function.body.block.args, access, strict=True))
        self.target = target
        self.webs = view_webs(function)

    def result_type(self, operation: tile_ops.InitTileOp) -> TileType:
        """The type of a tile in the order of memory."""
        tile, transposed = tile_ops.tile_of(operation.result), self.is_transposed(operation.result)
        columns = access_kind(operation, self.access_kinds).endswith("columns")
        return TileType(tile).with_(shape=tile.shape[::-1] if transposed else tile.shape,
                                    order=(0, 1) if columns != transposed else (1, 0))

    def is_transposed(self, tile: SSAValue) -> bool:
        """Whether all loads of a tile's web are transposed, and it has no stores."""
        loads = [use.operation for use in self.webs.uses(tile) if isinstance(use.operation, tile_ops.LoadTileOp)]
        stores = any(isinstance(use.operation, (tile_ops.StoreTileOp, AtomicRMWTileOp)) for use in self.webs.uses(tile))
        users = [use.operation for load in loads for use in load.result.uses]
        return bool(users) and not stores and all(isinstance(user, TileTransposeOp) or self._is_widened(user)
                                                  for user in users)

    def _is_widened(self, conversion: Operation) -> bool:
        """Whether elements of 8 bits are converted, then transposed, and only ever operand B of products in 16 bits.

        The transpose has whole blocks of a product of 8-bit elements, 32 by a column for each lane.
        """
        if not isinstance(conversion, CONVERSIONS) or not isinstance(conversion.operands[0].type, VectorType) or \
                not self.target.block_io:
            return False
        transposes = [use.operation for use in conversion.results[0].uses]
        types = [of_mlir(value.type.element_type) for value in (conversion.operands[0], conversion.results[0])]  # type: ignore
        if not transposes or not is_widened(conversion, types[0], types[1]) or not all(
                isinstance(transpose, TileTransposeOp) and all(
                    isinstance(use.operation, TileMmaOp) and use.index == 1 for use in transpose.result.uses)
                for transpose in transposes):
            return False
        columns, depth = shape_of(conversion.operands[0])
        return depth % 32 == 0 and columns % self.target.subgroup_size == 0


def _init_tile(rewriter: _RowMajorRewriter, operation: tile_ops.InitTileOp) -> None:
    transposed = rewriter.is_transposed(operation.result)
    offsets, source = [rewriter.single(offset) for offset in operation.offsets], rewriter.single(operation.source)
    sizes, strides = ([rewriter.single(value) for value in group] for group in (operation.shape, operation.strides))
    if transposed:
        source, sizes, strides = spelled_out(rewriter, operation)
        offsets, sizes, strides = exchanged(offsets), exchanged(sizes), exchanged(strides)
    init_tile = tile_ops.InitTileOp(source, offsets, sizes, strides, rewriter.result_type(operation))
    init_tile.attributes.update({name: value for name, value in operation.attributes.items()
                            if not transposed or name in tile_ops.PROMISES})
    rewriter.set(operation.result, rewriter.emit(init_tile), transposed or None)


def _update_tile_offset(rewriter: _RowMajorRewriter, operation: tile_ops.UpdateTileOffsetOp) -> None:
    tile = rewriter.lookup(operation.tile)
    offsets = [rewriter.single(offset) for offset in operation.offsets]
    moved = tile_ops.UpdateTileOffsetOp(tile.values[0], offsets[::-1] if tile.encoding else offsets)
    rewriter.set(operation.result, rewriter.emit(moved), tile.encoding)


def _tile_transpose(rewriter: _RowMajorRewriter, operation: TileTransposeOp) -> None:
    source = rewriter.lookup(operation.source)
    if source.encoding:
        rewriter.set(operation.result, source.values[0])
        return
    rewriter.copy(operation)
