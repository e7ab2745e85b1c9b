"""Transfers, gathers, masks and the numbers of positions, on vectors of any rank."""

from __future__ import annotations

from functools import reduce
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, VectorType, i1
from xdsl.dialects.memref import ExtractStridedMetaDataOp
from xdsl.dialects.vector import CreateMaskOp
from xdsl.ir import Operation, SSAValue

from xegpu.interop.llvm.dialect.vector import ConstantMaskOp
from xegpu.ir.memref import is_shared, static_form
from xegpu.mlir.arith import CmpIOp, IndexCastOp, SelectOp
from xegpu.mlir.vector import ShapeCastOp, shape_of, values_of
from xegpu.rewrite.rewriter import Rule
from xetile.dialect.gather_scatter import InitScatteredTileOp, LoadGatherOp, StoreScatterOp
from xetile.dialect.supervector import TransferReadOp, TransferWriteOp, collapsed
from xetile.dialect.types import TileEncoding, TileParameters, TileType
from xetile.text.canonicalize.vectors.flattener import ONE, VectorFlattener, element_of
from xetile.text.vector.ops import GatherOp, ScatterOp, StepOp


def _transfer_read(rewriter: VectorFlattener, operation: TransferReadOp) -> None:
    """The vector that is read has its own rank."""
    if any(rewriter.lookup(operand).encoding == ONE for operand in operation.operands):
        rewriter.refuse_scalar(operation)
    operands = [rewriter.single(operand) for operand in operation.operands]
    read = rewriter.like(operation, operands, [operation.result.type]).results[0]
    rewriter.set(operation.result, rewriter.cast(read, collapsed(shape_of(operation.result))))


def _transfer_write(rewriter: VectorFlattener, operation: TransferWriteOp) -> None:
    """The vector that is written, and its mask, have their own rank."""
    operands = []
    for operand in operation.operands:
        if rewriter.lookup(operand).encoding == ONE:
            rewriter.refuse_scalar(operation)
        value = rewriter.single(operand)
        if isinstance(operand.type, VectorType) and value.type != operand.type:
            value = rewriter.emit(ShapeCastOp(value, shape_of(operand)))
        operands.append(value)
    rewriter.like(operation, operands, [])


def _scattered_tile(rewriter: VectorFlattener, operation: GatherOp | ScatterOp) -> SSAValue:
    """Scattered tile of a gather: the offsets are along the last dimension, from the indices on."""
    source = rewriter.single(operation.base)
    assert isinstance(source.type, MemRefType)
    if is_shared(source.type):
        rewriter.fail("XT2525", f"{operation.name} takes single elements of {source.type} in shared local memory",
                      "gather from global memory; transfers read shared local memory")
    if (static := static_form(source.type)) is not None:
        strides = [rewriter.constant(number) for number in static[1]]
    else:
        metadata = ExtractStridedMetaDataOp(source)
        rewriter.emit(metadata)
        strides = list(metadata.strides)
    base = rewriter.constant(0)
    for index, stride in zip(operation.indices, strides, strict=True):
        if rewriter.lookup(index).encoding == ONE:
            rewriter.refuse_scalar(operation)
        base = rewriter.add(base, rewriter.index(arith.MuliOp, rewriter.single(index), stride))
    offsets = rewriter.single(operation.offsets)
    shape = shape_of(offsets)
    if not isinstance(element_of(offsets), IndexType):
        offsets = rewriter.emit(IndexCastOp(offsets, VectorType(IndexType(), shape)))
    scaled = rewriter.emit(arith.MuliOp(offsets, rewriter.splat(strides[-1], shape)))
    whole = rewriter.emit(arith.AddiOp(scaled, rewriter.splat(base, shape)))
    parameters = TileParameters((shape[0], shape[1]), source.type.element_type, TileEncoding(scatter=True))
    return rewriter.emit(InitScatteredTileOp(source, whole, TileType(parameters)))


def _gather(rewriter: VectorFlattener, operation: GatherOp) -> None:
    mask = rewriter.single(operation.mask)
    loaded = rewriter.emit(LoadGatherOp(_scattered_tile(rewriter, operation), mask))
    rewriter.set(operation.result, rewriter.emit(SelectOp(mask, loaded, rewriter.single(operation.pass_thru))))


def _scatter(rewriter: VectorFlattener, operation: ScatterOp) -> None:
    value, mask = rewriter.single(operation.value), rewriter.single(operation.mask)
    rewriter.emit(StoreScatterOp(value, _scattered_tile(rewriter, operation), mask))


def _position(rewriter: VectorFlattener, shape: tuple[int, ...], axis: int) -> SSAValue:
    """Index of each element along a dimension of a vector of any rank."""
    flat = collapsed(shape)
    if axis == len(shape) - 1:
        return rewriter.iota(1, flat)
    position, inner = rewriter.iota(0, flat), prod(shape[axis + 1:-1])
    if inner > 1:
        position = rewriter.emit(arith.DivSIOp(position, rewriter.splat(rewriter.constant(inner), flat)))
    if prod(shape[:axis]) > 1:
        position = rewriter.emit(arith.RemSIOp(position, rewriter.splat(rewriter.constant(shape[axis]), flat)))
    return position


def _create_mask(rewriter: VectorFlattener, operation: CreateMaskOp) -> None:
    for size in operation.mask_dim_sizes:
        if rewriter.lookup(size).encoding == ONE:
            rewriter.refuse_scalar(operation)
    sizes = [rewriter.single(size) for size in operation.mask_dim_sizes]
    _first_elements(rewriter, operation.mask_vector, sizes)


def _constant_mask(rewriter: VectorFlattener, operation: ConstantMaskOp) -> None:
    sizes = [rewriter.constant(size) for size in values_of(operation.mask_dim_sizes)]
    _first_elements(rewriter, operation.result, sizes)


def _first_elements(rewriter: VectorFlattener, result: SSAValue, sizes: list[SSAValue]) -> None:
    """Mask of the first elements along each dimension."""
    shape = shape_of(result)
    flat, holds = collapsed(shape), []
    for axis, size in enumerate(sizes):
        if shape[axis] == 1:
            holds.append(rewriter.splat(rewriter.emit(CmpIOp(rewriter.constant(0), size, "slt")), flat))
        else:
            holds.append(rewriter.emit(CmpIOp(_position(rewriter, shape, axis), rewriter.splat(size, flat), "slt")))
    if not holds:
        holds.append(rewriter.splat(rewriter.emit(arith.ConstantOp(IntegerAttr(1, i1))), flat))
    rewriter.set(result, reduce(lambda mask, more: rewriter.emit(arith.AndIOp(mask, more)), holds))


def _step(rewriter: VectorFlattener, operation: StepOp) -> None:
    rewriter.set(operation.result, rewriter.iota(1, collapsed(shape_of(operation.result))))


RULES: dict[type[Operation], Rule] = {
    TransferReadOp: _transfer_read, TransferWriteOp: _transfer_write, GatherOp: _gather, ScatterOp: _scatter,
    CreateMaskOp: _create_mask, ConstantMaskOp: _constant_mask, StepOp: _step,
}
