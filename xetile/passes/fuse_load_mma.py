"""Fuses loads into the products that they serve, on processors, whose instructions read memory themselves.

    %a = load_tile %ta : tile<32x32xbf16> -> vector<32x32xbf16>
    %b = load_tile %tb : tile<32x64xbf16> -> vector<32x64xbf16>
    %c = tile_mma %a, %b, %acc : -> vector<32x64xf32>
becomes
    %c = load_mma %ta, %tb, %acc : tile<32x32xbf16>, tile<32x64xbf16> -> vector<32x64xf32>

A CPU multiplies a number in memory by a vector in one instruction. Loaded into the lanes of a subgroup first, A would
have to be handed from lane to lane, a shuffle for each multiply-add. Loads only move past what writes no memory and
waits for nothing; a tile that is stored to, or read in another way, keeps its loads.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, ModuleOp, VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import SSAValue
from xdsl.traits import Pure

from xegpu.analysis.webs import view_webs
from xegpu.ir.memref import is_shared
from xegpu.ir.use_def import arrays_of
from xegpu.rewrite.rewriter import Rewriter, rewrite
from xetile.dialect import tile_ops
from xetile.dialect.mma import LoadMmaOp, TileMmaOp

_HARMLESS = (tile_ops.LoadTileOp, tile_ops.PrefetchTileOp)


@dataclass(frozen=True)
class FuseLoadMma:
    """The pass; it has no options."""

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with ``load_mma`` where both operands are loaded for products alone; itself without such."""
        return rewrite(module, _function)


def _function(function: func.FuncOp) -> func.FuncOp:
    fuser = _FuseLoadMmaRewriter(function)
    return fuser.function(function) if fuser.products else function


class _FuseLoadMmaRewriter(Rewriter):
    """One function's rewrite."""

    def __init__(self, function: func.FuncOp) -> None:
        super().__init__({tile_ops.LoadTileOp: _load_tile, TileMmaOp: _tile_mma})
        self.tiles = view_webs(function)
        products = [op for op in function.walk() if isinstance(op, TileMmaOp) and _reads_both(op)]
        while True:  # a tile that one product cannot read by itself is loaded for all others, too
            loads = {load for product in products for load in (product.a.owner, product.b.owner)
                     if isinstance(load, tile_ops.LoadTileOp)}
            kept = [p for p in products if all(self._only_for(value, loads, products) for value in (p.a, p.b))]
            if len(kept) == len(products):
                break
            products = kept
        self.products, self.loads = set(products), loads

    def _only_for(self, value: SSAValue, loads: set[tile_ops.LoadTileOp], products: list[TileMmaOp]) -> bool:
        """Whether all that is read through the tile of a loaded value is read by products."""
        assert isinstance(value.owner, tile_ops.LoadTileOp)
        if any(use.operation not in products for use in value.uses):
            return False
        uses = [use.operation for use in self.tiles.uses(value.owner.tile)]
        return all(isinstance(use, (tile_ops.PrefetchTileOp,
                                    tile_ops.UpdateTileOffsetOp)) or use in loads for use in uses)


def _reads_both(product: TileMmaOp) -> bool:
    return len(tile_ops.shape_of(product.result)) == 2 and product.a is not product.b \
        and all(_is_loaded_for(value, product) for value in (product.a, product.b))


def _is_loaded_for(value: SSAValue, product: TileMmaOp) -> bool:
    """Whether a value is loaded from global memory in the block of a product, and might be loaded there."""
    load = value.owner
    if not isinstance(load, tile_ops.LoadTileOp) or load.padding is not None:
        return False
    if load.parent is not product.parent or any(is_shared(array.type) for array in arrays_of(load.tile)):
        return False
    following = load.next_op
    while following is not product:
        if following is None or not (isinstance(following, _HARMLESS) or following.has_trait(Pure)):
            return False
        following = following.next_op
    return True


def _load_tile(rewriter: _FuseLoadMmaRewriter, operation: tile_ops.LoadTileOp) -> None:
    if operation not in rewriter.loads:
        rewriter.copy(operation)


def _tile_mma(rewriter: _FuseLoadMmaRewriter, operation: TileMmaOp) -> None:
    if operation not in rewriter.products:
        rewriter.copy(operation)
        return
    a, b = (rewriter.single(value.owner.tile) for value in (operation.a, operation.b))  # type: ignore[union-attr]
    acc = _zeros(rewriter, operation) if operation.acc is None else rewriter.single(operation.acc)
    rewriter.set(operation.result, rewriter.emit(LoadMmaOp(a, b, acc)))


def _zeros(rewriter: _FuseLoadMmaRewriter, operation: TileMmaOp) -> SSAValue:
    type_ = operation.result.type
    assert isinstance(type_, VectorType)
    floats = isinstance(type_.element_type, AnyFloat)
    zero = FloatAttr(0.0, type_.element_type) if floats else IntegerAttr(0, type_.element_type)  # type: ignore
    return rewriter.emit(BroadcastOp(rewriter.emit(arith.ConstantOp(zero)), type_))
