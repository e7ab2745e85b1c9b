"""Fusion of the loads of A and B into their products, on CPUs, whose instructions have memory operands.

    %a = load_tile %ta : tile<32x32xbf16> -> vector<32x32xbf16>
    %b = load_tile %tb : tile<32x64xbf16> -> vector<32x64xbf16>
    %c = tile_mma %a, %b, %acc : -> vector<32x64xf32>
becomes
    %c = load_mma %ta, %tb, %acc : tile<32x32xbf16>, tile<32x64xbf16> -> vector<32x64xf32>

A CPU multiplies an element in memory by a vector in one instruction. If A were loaded into the lanes of a subgroup,
each multiply-add would need a shuffle. Loads are moved only past operations without memory effects or barriers; a tile
that is stored to, or loaded for another use, keeps its loads.
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
from xegpu.mlir.vector import shape_of
from xegpu.rewrite.rewriter import Rewriter, rewrite
from xetile.dialect import tile_ops
from xetile.dialect.mma import LoadMmaOp, TileMmaOp

_READ_ONLY = (tile_ops.LoadTileOp, tile_ops.PrefetchTileOp)


@dataclass(frozen=True)
class FuseLoadMma:
    """Pass ``fuse-load-mma``; it has no options."""

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with ``load_mma`` where A and B are loaded for products alone; itself without such products."""
        return rewrite(module, _rewrite_function)


def _rewrite_function(function: func.FuncOp) -> func.FuncOp:
    rewriter = _FuseLoadMmaRewriter(function)
    return rewriter.function(function) if rewriter.products else function


class _FuseLoadMmaRewriter(Rewriter):
    """Rewriter of one function."""

    def __init__(self, function: func.FuncOp) -> None:
        super().__init__({tile_ops.LoadTileOp: _load_tile, TileMmaOp: _tile_mma})
        self.tiles = view_webs(function)
        products = [op for op in function.walk() if isinstance(op, TileMmaOp) and _has_loaded_operands(op)]
        while True:  # to a fixed point: a tile that one product cannot fuse keeps its loads for all products
            loads = {load for product in products for load in (product.a.owner, product.b.owner)
                     if isinstance(load, tile_ops.LoadTileOp)}
            fusible = [p for p in products if all(self._only_for(value, loads, products) for value in (p.a, p.b))]
            if len(fusible) == len(products):
                break
            products = fusible
        self.products, self.loads = set(products), loads

    def _only_for(self, value: SSAValue, loads: set[tile_ops.LoadTileOp], products: list[TileMmaOp]) -> bool:
        """Whether all loads of a loaded value's tile are A or B of ``products``."""
        assert isinstance(value.owner, tile_ops.LoadTileOp)
        if any(use.operation not in products or value is use.operation.acc for use in value.uses):
            return False
        uses = [use.operation for use in self.tiles.uses(value.owner.tile)]
        return all(isinstance(use, (tile_ops.PrefetchTileOp,
                                    tile_ops.UpdateTileOffsetOp)) or use in loads for use in uses)


def _has_loaded_operands(product: TileMmaOp) -> bool:
    return len(shape_of(product.result)) == 2 and product.a is not product.b \
        and all(_is_fusible_load(value, product) for value in (product.a, product.b))


def _is_fusible_load(value: SSAValue, product: TileMmaOp) -> bool:
    """Whether a value is loaded from global memory in the block of a product, and the load may move to the product."""
    load = value.owner
    if not isinstance(load, tile_ops.LoadTileOp) or load.padding is not None:
        return False
    if load.parent is not product.parent or any(is_shared(array.type) for array in arrays_of(load.tile)):
        return False
    following = load.next_op
    while following is not product:
        if following is None or not (isinstance(following, _READ_ONLY) or following.has_trait(Pure)):
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
