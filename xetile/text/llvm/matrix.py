"""Conversion of matrices in shared local memory, and of products with scales, to XeTile.

    %s = memref.alloca() : memref<2048xi8, 3>
    %d = xegpu.create_mem_desc %s : memref<2048xi8, 3> -> !xegpu.mem_desc<16x32xf32>
    %v = xegpu.load_matrix %d[%i, 16] : !xegpu.mem_desc<16x32xf32> -> vector<8x16xf32>
becomes
    %s = memref.alloc() : memref<16x32xf32, 3>
    %t = xetile.init_tile %s, [%i, %c16]
    %v = xetile.load_tile %t

All matrices on one array have one type: what order its elements have in memory then cannot be seen.
"""

from __future__ import annotations

from math import prod
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import VectorType, f32
from xdsl.ir import Operation, SSAValue

from xegpu.interop.llvm.dialect.matrix import LoadMatrixOp, MatrixOp, StoreMatrixOp, flat_shape, matrix_of
from xegpu.interop.llvm.dialect.scaled import DpasMxOp, TruncfOp
from xegpu.interop.llvm.dialect.types import LayoutAttr
from xegpu.interop.llvm.import_matrix import refuse_part, starts_of, view_of
from xegpu.mlir.vector import shape_of
from xegpu.rewrite.rewriter import Rule
from xetile.dialect import tile_ops
from xetile.dialect.gather_scatter import LoadGatherOp, StoreScatterOp
from xetile.dialect.mma import TileMmaOp, TileMmaScaledOp
from xetile.dialect.types import TileEncoding, TileParameters, TileType
from xetile.text.llvm import lanes
from xetile.text.llvm.elements import BLOCK, splat


def _tile(rewriter: Any, operation: MatrixOp, moved: SSAValue) -> SSAValue:
    """Tile of the part of a matrix that an operation accesses."""
    matrix = matrix_of(operation.desc)
    type_ = moved.type
    shape = type_.get_shape() if isinstance(type_, VectorType) else (1,)
    if prod(shape[:-2]) != 1:
        refuse_part(rewriter, operation, moved)
    layout = operation.layout.data if isinstance(operation.layout, LayoutAttr) else None
    block = flat_shape(shape)
    source, sizes, strides = view_of(rewriter, operation)
    map_ = rewriter.map_of(layout or rewriter.facts.layout(moved), block)
    encoding = TileEncoding(order=(0, 1) if strides else (1, 0), wg_map=map_)
    tile = TileType(TileParameters(block, matrix.element_type, encoding))
    return rewriter.emit(tile_ops.InitTileOp(  # type: ignore[no-any-return]
        source, starts_of(rewriter, operation), sizes, strides, tile))


def _load_matrix(rewriter: Any, operation: LoadMatrixOp) -> None:
    if lanes.is_fragment(rewriter, operation):
        gathered = rewriter.emit(LoadGatherOp(*lanes.fragment(rewriter, operation, operation.result)))
        is_vector = isinstance(operation.result.type, VectorType)
        rewriter.set(operation.result, gathered, BLOCK if is_vector else lanes.LANE)
        return
    load = rewriter.emit(tile_ops.LoadTileOp(_tile(rewriter, operation, operation.result)))
    rewriter.set(operation.result, load, rewriter.encoding_of(operation.result))


def _store_matrix(rewriter: Any, operation: StoreMatrixOp) -> None:
    if lanes.is_fragment(rewriter, operation):
        tile, mask = lanes.fragment(rewriter, operation, operation.value)
        value = rewriter.as_block(operation.value, tile_ops.tile_of(tile).shape)
        rewriter.emit(StoreScatterOp(value, tile, mask))
        return
    rewriter.emit(tile_ops.StoreTileOp(rewriter.as_block(operation.value),
                                       _tile(rewriter, operation, operation.value)))


def _dpas_mx(rewriter: Any, operation: DpasMxOp) -> None:
    """Convert ``dpas_mx`` to a product with scales, or without to ``tile_mma``."""
    a, b = rewriter.single(operation.a), rewriter.single(operation.b)
    shape = shape_of(a)[0], shape_of(b)[1]
    result = VectorType(operation.result.type.element_type, shape)  # type: ignore[attr-defined]
    layout = operation.layout_cd.data if isinstance(operation.layout_cd, LayoutAttr) else None
    map_ = rewriter.map_of(layout or rewriter.facts.layout(operation.result), shape)
    acc = None if operation.acc is None else rewriter.single(operation.acc)
    if operation.scale_a is None and operation.scale_b is None:
        rewriter.set(operation.result, rewriter.emit(TileMmaOp(a, b, acc, result, map_)), BLOCK)
        return
    if operation.scale_a is None or operation.scale_b is None:
        rewriter.refuse("XT2414", "only one side of this product has scales", "give scales of 1 to the other")
    if acc is None:
        zero = arith.ConstantOp(rewriter.zero(result.element_type))
        acc = splat(rewriter, rewriter.emit(zero), shape, map_)
    exact: Any = VectorType(f32, shape)
    if acc.type != exact:  # of 16-bit floats, which are rounded once, when all is added up
        acc = rewriter.emit(arith.ExtFOp(acc, exact))
    new = rewriter.emit(TileMmaScaledOp(a, b, acc, rewriter.single(operation.scale_a),
                                        rewriter.single(operation.scale_b), map_))
    if result != exact:
        new = rewriter.emit(arith.TruncFOp(new, result))
    rewriter.set(operation.result, new, BLOCK)


def _truncf(rewriter: Any, operation: TruncfOp) -> None:
    source = rewriter.single(operation.source)
    type_ = VectorType(operation.result.type.element_type, shape_of(source))  # type: ignore[attr-defined]
    rewriter.set(operation.result, rewriter.emit(arith.TruncFOp(source, type_)), BLOCK)


RULES: dict[type[Operation], Rule] = {
    LoadMatrixOp: _load_matrix,
    StoreMatrixOp: _store_matrix,
    DpasMxOp: _dpas_mx,
    TruncfOp: _truncf,
}
