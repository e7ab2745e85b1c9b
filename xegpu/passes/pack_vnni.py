"""VNNI packing of the B operands of DPAS (XeGPU.md, ``packed``).

    %b = load_nd %d : tensor_desc<16x16xbf16> -> vector<16x16xbf16>
    %c = dpas %a, %b, %acc : vector<8x16xbf16>, vector<16x16xbf16>, ...
becomes
    %b = load_nd %d {packed} : tensor_desc<16x16xbf16> -> vector<8x16x2xbf16>
    %c = dpas %a, %b, %acc : vector<8x16xbf16>, vector<8x16x2xbf16>, ...

A transposed load of 32-bit words gives that form by itself: the pairs along K stay together.

A value that serves something else too, or that was computed, is packed in registers by ``pack``.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from xegpu.analysis.webs import view_webs
from xegpu.dialect.block_io import LoadNdOp, desc_of
from xegpu.dialect.dpas import DpasOp, DpasScaledOp
from xegpu.dialect.gather_scatter import WORD_BITS, LoadColumnsOp
from xegpu.dialect.hints import hinted
from xegpu.dialect.vector import PackOp
from xegpu.ir.dtypes import of_mlir
from xegpu.mlir.vector import ExtractOp, ExtractStridedSliceOp, ShapeCastOp, shape_of, values_of, vector_type
from xegpu.passes.distribute_lanes.operand_roles import sides
from xegpu.rewrite.rewriter import Rewriter, Rule, rewrite

_PACKED = "packed"


@dataclass(frozen=True)
class PackVnni:
    """Pass ``pack-vnni``; it has no options."""

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with every DPAS operand B of less than 32 bits in VNNI form."""
        return rewrite(module, self._rewrite_function)

    def _rewrite_function(self, function: func.FuncOp) -> func.FuncOp:
        webs = view_webs(function)

        def load(rewriter: Rewriter, operation: LoadNdOp) -> None:
            desc = desc_of(operation.desc)
            packs = desc.dtype.bits < 32 and desc.sg_map is None and sides(webs, operation.desc) == {"b"}
            if operation.packed is not None or operation.transpose_bit_width is not None or not packs:
                rewriter.copy(operation)
                return
            if operation.transposes:
                words = rewriter.emit(hinted(LoadNdOp(rewriter.single(operation.desc), transpose=True,
                                                      transpose_bit_width=32),
                                          operation))
                factor, (rows, columns) = 32 // desc.dtype.bits, shape_of(words)
                cast = ShapeCastOp(words, (rows, columns // factor, factor))
                rewriter.set(operation.result, rewriter.emit(cast), _PACKED)
                return
            new_op = hinted(LoadNdOp(rewriter.single(operation.desc), packed=True), operation)
            rewriter.set(operation.result, rewriter.emit(new_op), _PACKED)

        rules: dict[type[Operation], Rule] = {
            LoadNdOp: load, LoadColumnsOp: _load_columns, ExtractOp: _extract,
            ExtractStridedSliceOp: _extract_strided_slice, DpasOp: _dpas, DpasScaledOp: _dpas_scaled}
        return Rewriter(rules).function(function)


def _load_columns(rewriter: Rewriter, operation: LoadColumnsOp) -> None:
    """Columns of operand B: the words that a lane loads are its VNNI form."""
    bits = of_mlir(operation.result.type.element_type).bits  # type: ignore[attr-defined]
    if operation.packed is not None or bits == WORD_BITS or not _is_b(operation.result):
        rewriter.copy(operation)
        return
    source, offsets, lengths = (rewriter.single(operand) for operand in operation.operands)
    new_op = LoadColumnsOp(source, offsets, lengths, operation.rows, whole=operation.whole is not None,
                           unaligned=operation.unaligned is not None, packed=True)
    rewriter.set(operation.result, rewriter.emit(new_op), _PACKED)


def _is_b(value: SSAValue) -> bool:
    """Whether slices of a value are operand B of products, and it has no other uses."""
    return all(use.index == 1 if isinstance(use.operation, DpasOp) else
               isinstance(use.operation, ExtractStridedSliceOp) and _is_b(use.operation.result)
               for use in value.uses)


def _extract(rewriter: Rewriter, operation: ExtractOp) -> None:
    source = rewriter.lookup(operation.vector)
    if source.encoding != _PACKED:
        rewriter.copy(operation)
        return
    position = list(operation.static_position.get_values())
    type_ = source.values[0].type
    part = vector_type(type_.get_shape()[len(position):], type_.element_type)  # type: ignore[attr-defined]
    rewriter.set(operation.result, rewriter.emit(ExtractOp(source.values[0], position, part)), _PACKED)  # type: ignore


def _extract_strided_slice(rewriter: Rewriter, operation: ExtractStridedSliceOp) -> None:
    source = rewriter.lookup(operation.source)
    if source.encoding != _PACKED:
        rewriter.copy(operation)
        return
    factor = shape_of(source.values[0])[-1]
    (row, column), (rows, columns) = values_of(operation.offsets), values_of(operation.sizes)
    slice_ = ExtractStridedSliceOp(source.values[0], (row // factor, column, 0), (rows // factor, columns, factor))
    rewriter.set(operation.result, rewriter.emit(slice_), _PACKED)


def _dpas_scaled(rewriter: Rewriter, operation: DpasScaledOp) -> None:
    a, b, *rest = (rewriter.lookup(operand) for operand in operation.operands)
    value: SSAValue = b.values[0]
    if operation.lanes is None and b.encoding != _PACKED and len(shape_of(value)) == 2:
        value = rewriter.shared(("pack", value), lambda: rewriter.emit(PackOp(value)))
    lanes = None if operation.lanes is None else operation.lanes.value.data
    operands = (part.values[0] for part in (a, *rest))
    first, acc, scale_a, scale_b = operands
    rewriter.set(operation.result, rewriter.emit(DpasScaledOp(first, value, acc, scale_a, scale_b, lanes)))


def _dpas(rewriter: Rewriter, operation: DpasOp) -> None:
    a, b = rewriter.single(operation.a), rewriter.lookup(operation.b)
    value: SSAValue = b.values[0]
    bits = of_mlir(operation.b.type.element_type).bits  # type: ignore[attr-defined]
    if operation.maps is None and bits < 32 and b.encoding != _PACKED and len(shape_of(value)) == 2:
        value = rewriter.shared(("pack", value), lambda: rewriter.emit(PackOp(value)))
    acc = None if operation.acc is None else rewriter.single(operation.acc)
    rewriter.set(operation.result, rewriter.emit(DpasOp(a, value, acc, operation.result.type, operation.maps)))
