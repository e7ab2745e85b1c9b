"""Export of positions, gathers and scatters of a work-group's vectors.

    %i = xetile.iota {axis = 1, wg_map = #m} : vector<1x64xindex>
    %t = xetile.init_scattered_tile %A, %i : memref<64xf32>, ... -> !xetile.tile<1x64xf32, ...>
    %v = xetile.load_gather %t, %mask : ... -> vector<1x64xf32>
becomes
    %s = vector.step {layout_result_0 = #xegpu.slice<#l, dims = [0]>} : vector<64xindex>
    %i = vector.broadcast %s {layout_result_0 = #l} : vector<64xindex> to vector<1x64xindex>
    %w = xegpu.load %A[%i], %mask <{layout = #l}> : memref<64xf32>, ... -> vector<1x64xf32>
    %v = arith.select %mask, %w, %zero {layout_result_0 = #l} : ...
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerType, VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Attribute, Operation, SSAValue

from xegpu.dialect.hints import with_hints
from xegpu.interop.llvm.correspondence import exported_hints
from xegpu.interop.llvm.dialect.gather_scatter import LoadOp, StepOp, StoreOp
from xegpu.interop.llvm.dialect.types import LayoutAttr, Slice, SliceAttr
from xegpu.interop.llvm.export_blocks import ELEMENTS, base_of_elements, padding
from xegpu.interop.llvm.export_vector import RESULT
from xegpu.mlir.arith import IndexCastOp, SelectOp
from xegpu.mlir.vector import ShapeCastOp, shape_of, vector_type
from xetile.dialect import gather_scatter
from xetile.dialect.tile_ops import tile_of
from xetile.dialect.vector import IotaOp
from xetile.dialect.wg_map_inference import map_of


def iota(rewriter: Any, operation: IotaOp) -> None:
    """Convert to a broadcast ``vector.step``, plus the start."""
    shape, axis = shape_of(operation.result), operation.axis.value.data
    element = operation.result.type.element_type  # type: ignore[attr-defined]
    if not isinstance(element, (IndexType, IntegerType)):
        rewriter.refuse("XT3654", f"LLVM's dialect counts positions as index, not as {element}",
                        "count integers and convert them: xt.iota(shape, axis, xt.i32).to(...)")
    layout = rewriter.layout(map_of(operation.result), shape)
    steps = _with(rewriter, StepOp(shape[axis]), layout and SliceAttr(Slice(layout, (1 - axis,))))
    if axis == 0:
        column = layout and LayoutAttr(replace(layout.data, sg_data=(layout.data.sg_data[0], 1)))
        steps = _with(rewriter, ShapeCastOp(steps, (shape[0], 1)), column)
    value = _laid_out(rewriter, operation.result, BroadcastOp(steps, vector_type(shape, IndexType())))
    if operation.start is not None:
        start = BroadcastOp(rewriter.single(operation.start), vector_type(shape, IndexType()))
        value = _laid_out(rewriter, operation.result,
                          arith.AddiOp(value, _laid_out(rewriter, operation.result, start)))
    if element != IndexType():
        value = _laid_out(rewriter, operation.result, IndexCastOp(value, vector_type(shape, element)))
    rewriter.set(operation.result, value)


def _with(rewriter: Any, new: Operation, layout: Attribute | None) -> SSAValue:
    """Emit an operation with a layout."""
    if layout is not None:
        new.attributes[RESULT] = layout
    return rewriter.emit(new)  # type: ignore[no-any-return]


def _laid_out(rewriter: Any, old: SSAValue, new: Operation) -> SSAValue:
    """Emit an operation with the layout of the old value."""
    rewriter.annotate(new, old)
    return rewriter.emit(new)  # type: ignore[no-any-return]


def init_scattered_tile(rewriter: Any, operation: gather_scatter.InitScatteredTileOp) -> None:
    """Replace a scattered tile by its base and its offsets."""
    base = base_of_elements(rewriter, operation.source)
    rewriter.set(operation.result, (base, rewriter.single(operation.indices)), ELEMENTS)


def update_scattered_tile(rewriter: Any, operation: gather_scatter.UpdateScatteredTileOp) -> None:
    """Add to the offsets."""
    source, offsets = rewriter.lookup(operation.tile).values
    moved = _laid_out(rewriter, operation.indices, arith.AddiOp(offsets, rewriter.single(operation.indices)))
    rewriter.set(operation.result, (source, moved), ELEMENTS)


def load_gather(rewriter: Any, operation: gather_scatter.LoadGatherOp) -> None:
    """Convert to ``load``; LLVM leaves masked-off elements undefined, hence the select."""
    tile, (source, offsets) = tile_of(operation.tile), rewriter.lookup(operation.tile).values
    mask, type_ = rewriter.single(operation.mask), VectorType(tile.element_type, tile.shape)
    new = LoadOp(source, offsets, mask, type_, 1)
    new.layout = rewriter.layout(tile.encoding.wg_map, tile.shape)
    loaded = rewriter.emit(with_hints(new, exported_hints(operation)))
    number = 0 if operation.padding is None else operation.padding.value.data  # type: ignore[attr-defined]
    other = padding(rewriter, number, type_)
    rewriter.annotate(other.owner, operation.result)
    rewriter.set(operation.result, _laid_out(rewriter, operation.result, SelectOp(mask, loaded, other)))


def store_scatter(rewriter: Any, operation: gather_scatter.StoreScatterOp) -> None:
    """Convert to ``store``."""
    tile, (source, offsets) = tile_of(operation.tile), rewriter.lookup(operation.tile).values
    new = StoreOp(rewriter.single(operation.value), source, offsets, rewriter.single(operation.mask), 1)
    new.layout = rewriter.layout(tile.encoding.wg_map, tile.shape)
    rewriter.emit(with_hints(new, exported_hints(operation)))
