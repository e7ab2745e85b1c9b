"""Lowering of SuperVector to XeTile: transfers to tiles, or else to gathers and scatters (SuperVector.md).

    %v = supervector.transfer_read %A[%i, %j], %zero {permutation_map = affine_map<(d0, d1) -> (d1, d0)>}
           : memref<?x?xf32>, f32 -> vector<32x256xf32>
becomes
    %t = init_tile %A, [%i, %j] : -> tile<256x32xf32>
    %w = load_tile %t : -> vector<256x32xf32>
    %v = tile_transpose %w : -> vector<32x256xf32>

A vector of another rank than two becomes 2D, all dimensions but the last collapsed to rows: vector<16x32x64xf32>
becomes vector<512x64xf32>, vector<128xf32> becomes vector<1x128xf32>. A transfer becomes a tile if its rows and its
columns each run along one of the last two dimensions of memory, or are broadcast.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import ModuleOp, VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from xegpu.mlir.vector import ShapeCastOp
from xegpu.rewrite.rewriter import Rewriter, Rule, rewrite
from xetile.dialect import tile_ops
from xetile.dialect.mma import TileMmaOp
from xetile.dialect.supervector import ContractOp, TransferReadOp, TransferWriteOp, TypeCastOp, collapsed
from xetile.dialect.vector import TilePackOp, TileTransposeOp, TileUnpackOp
from xetile.dialect.wg_map_inference import map_of
from xetile.passes.lower_supervector.slices import Slice, fits, gather, load, masked_scatter, store, type_cast


@dataclass(frozen=True)
class LowerSupervector:
    """Pass ``lower-supervector``."""

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with XeTile operations instead of SuperVector operations; all vectors are 2D."""
        return rewrite(module, _rewrite_function)


def _rewrite_function(function: func.FuncOp) -> func.FuncOp:
    return _LowerSupervectorRewriter(function).function(function)


class _LowerSupervectorRewriter(Rewriter):
    """Rewriter of one function."""

    def __init__(self, function: func.FuncOp) -> None:
        super().__init__(RULES)
        self.blocked = any(isinstance(operation, (TilePackOp, TileUnpackOp)) or _has_blocks(operation)
                           for operation in function.walk())

    def copy(self, operation: Operation) -> None:
        """A copy of an operation with 2D vectors."""
        types = [self.flat(result.type) for result in operation.results]
        if all(new is old.type for new, old in zip(types, operation.results, strict=True)):
            super().copy(operation)
            return
        copied = self.like(operation, [self.single(operand) for operand in operation.operands], types)
        for before, after in zip(operation.results, copied.results, strict=True):
            self.set(before, after)

    def flat(self, type_: Attribute) -> Attribute:
        """A vector type with its rows collapsed; any other type, and blocked vectors, unchanged."""
        if not isinstance(type_, VectorType) or len(type_.get_shape()) == 2:
            return type_
        if len(type_.get_shape()) == 4 and self.blocked:
            return type_
        return VectorType(type_.element_type, collapsed(type_.get_shape()))


def _has_blocks(operation: Operation) -> bool:
    return isinstance(operation, tile_ops.InitTileOp) and \
        tile_ops.tile_of(operation.result).encoding.inner_blocks is not None


def _check_blocks(rewriter: _LowerSupervectorRewriter, shape: tuple[int, ...]) -> None:
    if len(shape) == 4 and rewriter.blocked:
        rewriter.fail("XT2526",
                   "this kernel has vectors in blocks, which have four dimensions, and a transfer of a vector of four",
                   "leave inner_blocks, tile_pack and tile_unpack out of kernels with such transfers")


def _transfer_read(rewriter: _LowerSupervectorRewriter, operation: TransferReadOp) -> None:
    slice_ = Slice.from_read(rewriter, operation)
    _check_blocks(rewriter, slice_.vector.get_shape())
    rewriter.set(operation.result, load(rewriter, slice_) if fits(slice_) else gather(rewriter, slice_))


def _transfer_write(rewriter: _LowerSupervectorRewriter, operation: TransferWriteOp) -> None:
    slice_ = Slice.from_write(rewriter, operation)
    _check_blocks(rewriter, slice_.vector.get_shape())
    value = rewriter.single(operation.value)
    if operation.mask is not None:
        masked_scatter(rewriter, slice_, value, rewriter.single(operation.mask))
    else:
        (store if fits(slice_) else masked_scatter)(rewriter, slice_, value)


def _memref_load(rewriter: _LowerSupervectorRewriter, operation: memref.LoadOp) -> None:
    slice_ = type_cast(rewriter, operation.memref, operation.res.type, map_of(operation.res))
    rewriter.set(operation.res, load(rewriter, slice_) if fits(slice_) else gather(rewriter, slice_))


def _memref_store(rewriter: _LowerSupervectorRewriter, operation: memref.StoreOp) -> None:
    slice_ = type_cast(rewriter, operation.memref, operation.value.type, map_of(operation.value))
    (store if fits(slice_) else masked_scatter)(rewriter, slice_, rewriter.single(operation.value))


def _contract(rewriter: _LowerSupervectorRewriter, operation: ContractOp) -> None:
    """``tile_mma``, its operands ordered by the indexing maps: A has the result's rows, B its columns."""
    lhs, rhs, (left, right, result) = operation.lhs, operation.rhs, operation.axes
    if result[0] not in left:
        lhs, rhs, left, right = rhs, lhs, right, left
    a = rewriter.single(lhs) if left[0] == result[0] else _transposed(rewriter, lhs)
    b = rewriter.single(rhs) if right[1] == result[1] else _transposed(rewriter, rhs)
    acc = None if operation.acc is None else rewriter.single(operation.acc)
    map_ = None if operation.wg_map is None else operation.wg_map.data
    type_ = operation.result.type
    assert isinstance(type_, VectorType)
    rewriter.set(operation.result, rewriter.emit(TileMmaOp(a, b, acc, type_, map_)))


def _shape_cast(rewriter: _LowerSupervectorRewriter, operation: ShapeCastOp) -> None:
    """A vector of one dimension is a row already."""
    source, result = rewriter.single(operation.source), rewriter.flat(operation.result.type)
    assert isinstance(result, VectorType)
    rewriter.set(operation.result, source if source.type == result else
                 rewriter.emit(ShapeCastOp(source, result.get_shape())))


def _transposed(rewriter: _LowerSupervectorRewriter, value: SSAValue) -> SSAValue:
    map_ = map_of(value)
    return rewriter.emit(TileTransposeOp(rewriter.single(value), map_ and map_.transposed()))


RULES: dict[type[Operation], Rule] = {
    TransferReadOp: _transfer_read, TransferWriteOp: _transfer_write, TypeCastOp: Rewriter.forward,
    memref.LoadOp: _memref_load, memref.StoreOp: _memref_store, ContractOp: _contract,
    ShapeCastOp: _shape_cast,
}
