"""Exporter to XeGPU version 1, the inverse of :mod:`xegpu.interop.v1.importer`.

    %a = load_nd %e : tensor_desc<8x16xbf16> -> vector<8x16xbf16>
    %c = dpas %a, %b : vector<8x16xbf16>, vector<8x16x2xbf16> -> vector<8x16xf32>
becomes
    %a = load_nd %e {mode = vc, vnni_axis = 1} : tensor_desc<8x16xbf16> -> vector<8x8x2xbf16>
    %c = dpas %a, %b {mode = vc} : vector<8x8x2xbf16>, vector<8x16x2xbf16> -> vector<8x16xf32>

Operations that only the present version has (``mad``, ``convert_layout`` ...) are unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr, StringAttr, VectorType, i64
from xdsl.ir import Attribute, Operation, SSAValue

from xegpu.analysis.webs import Webs, view_webs
from xegpu.dialect import gather_scatter
from xegpu.dialect.block_io import (
    LoadNdOp,
    desc_of,
    loaded_shape,
)
from xegpu.dialect.convert_layout import ConvertLayoutOp
from xegpu.dialect.dpas import DpasOp
from xegpu.dialect.sync import FenceOp
from xegpu.dialect.types import DescriptorType
from xegpu.dialect.vector import PackOp, PadOp
from xegpu.interop.v1 import dialect
from xegpu.interop.v1.importer import KINDS, SCOPES
from xegpu.interop.v1.types import VC, OlderDescType, earlier_map
from xegpu.ir.dtypes import of_mlir
from xegpu.mlir.vector import ShapeCastOp, shape_of
from xegpu.passes.distribute_lanes.operand_roles import sides
from xegpu.rewrite.rewriter import Rewriter, Rule
from xegpu.support.errors import TargetError

_WORDS = "words"
"""Encoding of a block whose columns are split into words of 32 bits."""


def exported(function: func.FuncOp) -> func.FuncOp:
    """Convert a kernel to version 1.

    Raises:
        TargetError: a SIMT kernel whose dpas has an operand A that was not loaded through a descriptor; a fence that
            the host sees; a padding other than zero.
    """
    rewriter = _Export(view_webs(function))
    return rewriter.function(function, [rewriter.typed(argument,
                                                       argument.type) for argument in function.body.block.args])


class _Export(Rewriter):
    """Conversion of one function to version 1.

    Args:
        webs: its descriptor webs.
    """

    def __init__(self, webs: Webs) -> None:
        super().__init__(RULES)
        self.webs = webs

    def typed(self, value: SSAValue, type_: Attribute) -> Attribute:
        """Convert a type to version 1, in which operand A of dpas has another lane map."""
        if not isinstance(type_, DescriptorType):
            return type_
        desc = type_.data
        if desc.sg_map is not None and sides(self.webs, value) == {"a"}:
            desc = replace(desc, sg_map=earlier_map(desc.sg_map, desc.dtype.bits))
        return OlderDescType(desc)

    def clone_as(self, kind: type[Operation], operation: Operation, result: Attribute | None = None,
             **more: Attribute | None) -> Operation:
        """Clone as the version 1 operation of the same name, with the mode of its descriptor."""
        mapped = any(desc_of(value).sg_map is not None for value in (*operation.operands, *operation.results)
                     if isinstance(value.type, DescriptorType))
        declared = kind.get_irdl_definition().properties  # type: ignore[attr-defined]
        attributes = {**operation.properties, **operation.attributes, **({} if mapped else {"mode": VC}), **more}
        new: Operation = kind.create(operands=[self.single(operand) for operand in operation.operands],
                                     result_types=[result] if result is not None else
                                     [self.typed(value, value.type) for value in operation.results],
                                     properties={name: value for name, value in attributes.items()
                                                 if name in declared and value is not None})
        self.emit(new)
        for before, after in zip(operation.results, new.results, strict=True):
            self.set(before, after)
        return new

    def words(self, value: SSAValue) -> SSAValue:
        """Block with its columns split into words of 32 bits."""
        parts, type_ = self.lookup(value), value.type
        assert isinstance(type_, VectorType)
        rows, *columns = type_.get_shape()
        together = 32 // of_mlir(type_.element_type).bits
        if parts.encoding == _WORDS or len(columns) == 2 or together == 1:
            return parts.values[0]
        return self.emit(ShapeCastOp(parts.values[0], (rows, columns[0] // together, together)))


def _same_form(kind: type[Operation]) -> Rule:
    """Rule of an operation with the same form in both versions."""
    return lambda rewriter, operation: rewriter.clone_as(kind, operation)


def _load_nd(rewriter: _Export, operation: LoadNdOp) -> None:
    axis = 0 if operation.packed is not None else 1 if _is_a(operation) else None
    desc, earlier = desc_of(operation.desc), desc_of(rewriter.single(operation.desc))
    result, words = operation.result.type, axis == 1 and desc.sg_map is None
    if words:
        result = VectorType(desc.element_type, _split(desc.shape, 32 // desc.dtype.bits))
    elif desc.sg_map != earlier.sg_map:
        result = VectorType(desc.element_type, loaded_shape(earlier, False))
    new = rewriter.clone_as(dialect.LoadNdOp, operation, result, packed=None,
                        vnni_axis=None if axis is None else IntegerAttr(axis, i64))
    rewriter.set(operation.result, new.results[0], _WORDS if words else None)


def _split(shape: Sequence[int], together: int) -> tuple[int, ...]:
    """Shape of a block with its columns split into words of several elements."""
    rows, columns = shape
    return rows, columns // together, together


def _is_a(operation: LoadNdOp) -> bool:
    """Whether a load is used only as operand A of products, in an element type with VNNI form."""
    desc = desc_of(operation.desc)
    if desc.dtype.bits >= 32 or operation.transpose is not None or desc.block.array_length > 1 or len(desc.shape) != 2:
        return False
    split = _split(desc.shape, 32 // desc.dtype.bits)
    uses = list(operation.result.uses)
    return bool(uses) and all(
        (isinstance(use.operation, DpasOp) and use.index == 0)
        or (isinstance(use.operation, ShapeCastOp) and shape_of(use.operation.result) == split) for use in uses)


def _shape_cast(rewriter: _Export, operation: ShapeCastOp) -> None:
    """Fold the shape cast of a block to words into a load with ``vnni_axis = 1``."""
    source = rewriter.lookup(operation.source)
    if source.encoding == _WORDS and shape_of(source.values[0]) == shape_of(operation.result):
        rewriter.set(operation.result, source.values[0])
    else:
        rewriter.copy(operation)


def _dpas(rewriter: _Export, operation: DpasOp) -> None:
    is_vc = operation.maps is None
    a = rewriter.words(operation.a) if is_vc else rewriter.single(operation.a)
    b = rewriter.single(operation.b)
    bits = of_mlir(operation.b.type.element_type).bits  # type: ignore[attr-defined]
    if is_vc and bits < 32 and len(shape_of(b)) == 2:
        b = rewriter.emit(PackOp(b))
    if not is_vc and not isinstance(operation.a.owner, (LoadNdOp, ConvertLayoutOp)):
        raise TargetError("XT3412",
                          "the earlier generation has no map on dpas, and operand A does not come from a descriptor",
                          "write the kernel for whole vectors", rewriter.where())
    acc = [] if operation.acc is None else [rewriter.single(operation.acc)]
    new = dialect.DpasOp.create(operands=[a, b, *acc], result_types=[operation.result.type],
                                properties={"mode": VC} if is_vc else {})
    rewriter.emit(new)
    rewriter.set(operation.result, new.results[0])


def _create_tdesc(rewriter: _Export, operation: gather_scatter.CreateTdescOp) -> None:
    chunk = gather_scatter.scatter_of(desc_of(operation.result)).chunk_size
    rewriter.clone_as(dialect.SAME_FORM[gather_scatter.CreateTdescOp], operation,
                  chunk_size_per_lane=IntegerAttr(chunk, i64) if chunk > 1 else None)


def _fence(rewriter: _Export, operation: FenceOp) -> None:
    if operation.scope.data == "system":
        raise TargetError("XT3414", "the earlier generation has no fence that the host sees",
                          'use the scope "gpu", and let the host wait for the kernel', rewriter.where())
    scopes, kinds = ({new: old for old, new in names.items()} for names in (SCOPES, KINDS))
    rewriter.emit(dialect.MfenceOp.create(properties={
        "memory_kind": StringAttr(kinds[operation.memory_kind.data]), "fence_op": StringAttr("none"),
        "fence_scope": StringAttr(scopes[operation.scope.data])}))


def _pad(rewriter: _Export, operation: PadOp) -> None:
    raise TargetError("XT3415", f"the earlier generation pads with zero, not with {operation.number}",
                      "leave the padding out, and select by position with xt.where", rewriter.where())


RULES: dict[type[Operation], Callable[[Any, Any], None]] = {
    **{present: _same_form(older) for present, older in dialect.SAME_FORM.items()},
    gather_scatter.CreateTdescOp: _create_tdesc, LoadNdOp: _load_nd, DpasOp: _dpas, FenceOp: _fence,
    PadOp: _pad,
    ShapeCastOp: _shape_cast,
}
