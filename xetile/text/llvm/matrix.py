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

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IntegerAttr, MemRefType, VectorType, i64
from xdsl.ir import Operation, SSAValue

from xegpu.interop.llvm.matrix import CreateMemDescOp, LoadMatrixOp, MatrixOp, StoreMatrixOp, matrix_of
from xegpu.interop.llvm.scaled import DpasMxOp, TruncfOp
from xegpu.interop.llvm.types import LayoutAttr
from xegpu.rewrite.rewriter import Rule
from xetile.dialect import tile_ops
from xetile.dialect.mma import TileMmaOp, TileMmaScaledOp
from xetile.dialect.types import TileEncoding, TileParameters, TileType
from xetile.text.llvm.elements import BLOCK, flat_shape, splat

_SHARED = 3
"""Memory space of shared local memory."""


def _alloca(rewriter: Any, operation: memref.AllocaOp | memref.AllocOp) -> None:
    """Allocate an array in shared local memory, of the type of the matrices on it."""
    type_ = operation.memref.type
    assert isinstance(type_, MemRefType)
    uses = [use.operation for use in operation.memref.uses]
    matrices = [use.result for use in uses if isinstance(use, CreateMemDescOp)]
    if not matrices:
        _allocate(rewriter, operation.memref, type_)
        return
    if len({matrix.type for matrix in matrices}) > 1 or len(matrices) < len(uses):
        rewriter.refuse("XT2413", "this array is used as several types", "give each matrix an array of its own")
    matrix = matrix_of(matrices[0])
    _allocate(rewriter, operation.memref, MemRefType(matrix.element_type, flat_shape(matrix.shape),
                                                     memory_space=IntegerAttr(_SHARED, i64)))


def _allocate(rewriter: Any, old: SSAValue, type_: MemRefType[Any]) -> None:
    rewriter.set(old, rewriter.emit(memref.AllocOp([], [], type_)))


def _create_mem_desc(rewriter: Any, operation: CreateMemDescOp) -> None:
    if not isinstance(operation.source.owner, (memref.AllocaOp, memref.AllocOp)):
        rewriter.refuse("XT2413", "a matrix stands on an array that the kernel does not allocate",
                        "allocate it in the kernel: memref.alloca() : memref<2048xi8, 3>")
    rewriter.set(operation.result, rewriter.single(operation.source))


def _tile(rewriter: Any, operation: MatrixOp, moved: SSAValue) -> SSAValue:
    """Tile of the part of a matrix that an operation accesses."""
    matrix = matrix_of(operation.desc)
    type_ = moved.type
    shape = type_.get_shape() if isinstance(type_, VectorType) else (1,)
    if prod(shape[:-2]) != 1 or rewriter.facts.of_lanes or (len(shape) < len(matrix.shape) and prod(shape) > 1):
        rewriter.refuse("XT2413", f"{type_} of {operation.desc.type} is not read",
                        "move blocks of two dimensions, at subgroup or work-group level")
    starts = rewriter.mixed(operation.starts)
    row = starts[0] if len(starts) > 1 else rewriter.constant(0)
    for size, start in zip(matrix.shape[1:-1], starts[1:-1], strict=True):
        row = rewriter.add(rewriter.index(arith.MuliOp, row, rewriter.constant(size)), start)
    layout = operation.layout.data if isinstance(operation.layout, LayoutAttr) else None
    block = flat_shape(shape)
    encoding = TileEncoding(wg_map=rewriter.map_of(layout or rewriter.facts.layout(moved), block))
    tile = TileType(TileParameters(block, matrix.element_type, encoding))
    return rewriter.emit(tile_ops.InitTileOp(  # type: ignore[no-any-return]
        rewriter.single(operation.desc), [row, starts[-1]], [], [], tile))


def _load_matrix(rewriter: Any, operation: LoadMatrixOp) -> None:
    load = rewriter.emit(tile_ops.LoadTileOp(_tile(rewriter, operation, operation.result)))
    rewriter.set(operation.result, load, rewriter.encoding_of(operation.result))


def _store_matrix(rewriter: Any, operation: StoreMatrixOp) -> None:
    rewriter.emit(tile_ops.StoreTileOp(rewriter.as_block(operation.value),
                                       _tile(rewriter, operation, operation.value)))


def _dpas_mx(rewriter: Any, operation: DpasMxOp) -> None:
    """Convert ``dpas_mx`` to a product with scales, or without to ``tile_mma``."""
    a, b = rewriter.single(operation.a), rewriter.single(operation.b)
    shape = tile_ops.shape_of(a)[0], tile_ops.shape_of(b)[1]
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
    new = TileMmaScaledOp(a, b, acc, rewriter.single(operation.scale_a), rewriter.single(operation.scale_b), map_)
    rewriter.set(operation.result, rewriter.emit(new), BLOCK)


def _truncf(rewriter: Any, operation: TruncfOp) -> None:
    source = rewriter.single(operation.source)
    type_ = VectorType(operation.result.type.element_type, tile_ops.shape_of(source))  # type: ignore[attr-defined]
    rewriter.set(operation.result, rewriter.emit(arith.TruncFOp(source, type_)), BLOCK)


RULES: dict[type[Operation], Rule] = {
    memref.AllocaOp: _alloca,
    memref.AllocOp: _alloca,
    CreateMemDescOp: _create_mem_desc,
    LoadMatrixOp: _load_matrix,
    StoreMatrixOp: _store_matrix,
    DpasMxOp: _dpas_mx,
    TruncfOp: _truncf,
}
