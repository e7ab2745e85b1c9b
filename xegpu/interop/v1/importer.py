"""Importer of XeGPU version 1.

    %b = load_nd %d {vnni_axis = 0, mode = vc} : tensor_desc<16x16xbf16> -> vector<8x16x2xbf16>
    %a = load_nd %e {vnni_axis = 1, mode = vc} : tensor_desc<8x16xbf16> -> vector<8x8x2xbf16>
    %c = dpas %a, %b {mode = vc} : vector<8x8x2xbf16>, vector<8x16x2xbf16> -> vector<8x16xf32>
    mfence {memory_kind = "ugm", fence_op = "none", fence_scope = "local"}
becomes
    %b = load_nd %d {packed} : tensor_desc<16x16xbf16> -> vector<8x16x2xbf16>
    %v = load_nd %e : tensor_desc<8x16xbf16> -> vector<8x16xbf16>
    %a = vector.shape_cast %v : vector<8x16xbf16> to vector<8x8x2xbf16>
    %c = dpas %a, %b : vector<8x8x2xbf16>, vector<8x16x2xbf16> -> vector<8x16xf32>
    fence {scope = "workgroup", memory_kind = "global"}

Without a mode, fragments have the lane maps of the descriptors that they were loaded through, and dpas gets those.
Version 1's lane map of operand A is converted to the one that DPAS requires.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import IndexType, VectorType
from xdsl.ir import Attribute, Block, Operation

from xegpu.dialect.block_io import (
    LoadNdOp,
    StoreNdOp,
    desc_of,
    loaded_shape,
)
from xegpu.dialect.convert_layout import ConvertLayoutOp
from xegpu.dialect.dpas import DpasOp
from xegpu.dialect.hints import hinted
from xegpu.dialect.sync import FenceOp
from xegpu.dialect.types import DescriptorType, TensorDescType, needed_by_dpas
from xegpu.interop.v1 import dialect
from xegpu.interop.v1.types import present_map
from xegpu.ir.dtypes import of_mlir
from xegpu.layout import lane_map
from xegpu.layout.lane_map import LaneMap
from xegpu.mlir.vector import ShapeCastOp, shape_of
from xegpu.rewrite.rewriter import ConvertedValues, Rewriter, Rule
from xegpu.support.errors import TextError

SCOPES = {"local": "workgroup", "tile": "gpu"}
KINDS = {"ugm": "global", "slm": "shared"}


def converted(function: func.FuncOp) -> func.FuncOp:
    """Convert a kernel of version 1 to the present version.

    Raises:
        TextError: operands of dpas with lane maps that DPAS does not support; it points at the text's line.
    """
    return _Import(RULES).function(function, [_present_type(argument.type) for argument in function.body.block.args])


def _present_type(type_: Attribute) -> Attribute:
    """Convert a type: version 1 descriptors become present ones, with the lane map that DPAS requires."""
    if not isinstance(type_, DescriptorType):
        return type_
    desc = type_.data
    lanes = None if desc.sg_map is None else present_map(desc.sg_map, desc.dtype.bits)
    return TensorDescType(replace(desc, sg_map=lanes))


class _Import(Rewriter):
    """Conversion of one function to the present version; the encoding of a fragment is its lane map."""

    keeps_unused = True

    def copy(self, operation: Operation) -> None:
        """Clone an operation; results computed from fragments have the fragments' lane map."""
        form = next((self.lookup(operand).encoding for operand in operation.operands
                     if isinstance(self.lookup(operand).encoding, LaneMap)), None)
        super().copy(operation)
        for result in operation.results:
            if isinstance(result.type, VectorType):
                self.set(result, self.lookup(result).values, form)

    def initial_values(self, loop: scf.ForOp) -> list[ConvertedValues]:
        """Look up initial values; a constant, the same in each lane, takes the layout that the body's value has."""
        carried, location = super().initial_values(loop), self.location
        while _has_fragments(loop) and any(parts.encoding is None and isinstance(value.type, VectorType)
                                           for parts, value in zip(carried, loop.iter_args, strict=True)):
            block = Block(arg_types=[IndexType(), *(parts.values[0].type for parts in carried)])
            self.set(loop.body.block.args[0], block.args[0], None)
            self.regroup(loop.body.block.args[1:], carried, block.args[1:])
            found = _with_lanes(carried, self.body(loop.body.block, block))  # the block is dropped
            self.location = location
            if found == carried:
                break
            carried = found
        return carried

    def joined_values(self, branches: Sequence[list[ConvertedValues]]) -> list[ConvertedValues]:
        """Choose the lane maps that one of the branches knows."""
        return _with_lanes(branches[-1], branches[0])

    def match(self, parts: ConvertedValues, like: ConvertedValues) -> ConvertedValues:
        """Convert a value of any layout to a fragment.

        Raises:
            TextError: both are fragments, of other lane maps.
        """
        if parts.encoding is None or like.encoding is None or parts.encoding == like.encoding:
            return parts
        before, after = (f"wi_layout = {list(form.wi_layout)}, wi_data = {list(form.wi_data)}"
                         for form in (like.encoding, parts.encoding))
        raise TextError("XT3515", f"a loop or a condition has a fragment in <{before}> before and in <{after}> after "
                        "its body", "load both through descriptors with one sg_map", self.where())

    def properties(self, operation: Operation, *drop: str) -> dict[str, Attribute]:
        """Properties that the present operation inherits, without ``drop``."""
        gone = ("mode", "chunk_size_per_lane", *drop)
        return {name: value for name, value in operation.properties.items() if name not in gone}

    def clone_as(self, kind: type[Operation], operation: Operation) -> None:
        """Clone as the present operation of the same name; undeclared hints become discardable attributes."""
        declared = kind.get_irdl_definition().properties  # type: ignore[attr-defined]
        properties = self.properties(operation)
        new = kind.create(operands=[self.single(operand) for operand in operation.operands],
                          result_types=[_present_type(result.type) for result in operation.results],
                          properties={name: value for name, value in properties.items() if name in declared},
                          attributes={**operation.attributes,
                                      **{name: value for name, value in properties.items() if name not in declared}})
        self.emit(new)
        for before, after in zip(operation.results, new.results, strict=True):
            self.set(before, after, None)


def _has_fragments(loop: scf.ForOp) -> bool:
    """Whether a loop's body loads or multiplies what one lane has."""
    return any(isinstance(each, (dialect.LoadNdOp, dialect.DpasOp)) and not each.is_vc for each in loop.body.walk())


def _with_lanes(values: list[ConvertedValues], others: list[ConvertedValues]) -> list[ConvertedValues]:
    """Values with the lane maps of others where they have none."""
    return [ConvertedValues(parts.values, other.encoding if parts.encoding is None else parts.encoding)
            for parts, other in zip(values, others, strict=True)]


def _same_form(kind: type[Operation]) -> Rule:
    """Rule of an operation with the same form in both versions."""
    return lambda rewriter, operation: rewriter.clone_as(kind, operation)


def _load_nd(rewriter: _Import, operation: dialect.LoadNdOp) -> None:
    desc = rewriter.single(operation.desc)
    parameters, axis = desc_of(desc), operation.axis
    properties = rewriter.properties(operation, "vnni_axis")
    lanes = parameters.sg_map
    is_row_major = axis == 1 and lanes is None
    type_ = VectorType(parameters.element_type, parameters.shape) if is_row_major else operation.result.type
    if lanes is not None and lanes != desc_of(operation.desc).sg_map:
        type_ = VectorType(parameters.element_type, loaded_shape(parameters, False))
    new = LoadNdOp(desc, packed=axis == 0) if not properties else \
        LoadNdOp(desc, packed=axis == 0, transpose="transpose" in properties)
    declared = LoadNdOp.get_irdl_definition().properties
    loaded = LoadNdOp.create(
        operands=[desc], result_types=[type_],
        properties={**new.properties, **{name: value for name, value in properties.items() if name in declared}},
        attributes={name: value for name, value in properties.items() if name not in declared})
    value = rewriter.emit(loaded)
    if is_row_major:
        value = rewriter.emit(ShapeCastOp(value, operation.split_shape()))
    if lanes is not None and operation.transpose is not None:
        lanes = lanes.transposed
    rewriter.set(operation.result, value, lanes)


def _store_nd(rewriter: _Import, operation: Any) -> None:
    desc, value = rewriter.single(operation.desc), rewriter.lookup(operation.value)
    lanes, stored = desc_of(desc).sg_map, value.values[0]
    if lanes is not None and isinstance(value.encoding, LaneMap) and value.encoding != lanes:
        rows, columns = desc_of(desc).shape
        stored = rewriter.emit(ConvertLayoutOp(stored, value.encoding, lanes, (rows, columns)))
    rewriter.emit(hinted(StoreNdOp(stored, desc), operation))


def _dpas(rewriter: _Import, operation: dialect.DpasOp) -> None:
    a, b = rewriter.lookup(operation.a), rewriter.lookup(operation.b)
    acc = None if operation.acc is None else rewriter.single(operation.acc)
    maps = None
    if not operation.is_vc:
        if not isinstance(a.encoding, LaneMap) or not isinstance(b.encoding, LaneMap):
            raise TextError("XT3514",
                            "xegpu.dpas: fragments of a lane are multiplied, and nothing says how they lie over the "
                            "lanes", "load them through descriptors with an sg_map, or add {mode = vc} to the "
                            "operations on whole vectors", rewriter.where())
        maps = (a.encoding, b.encoding, lane_map.default(b.encoding.lanes, b.encoding.lanes))
        bits = of_mlir(a.values[0].type.element_type).bits  # type: ignore[attr-defined]
        needed = needed_by_dpas(b.encoding.lanes, bits, shape_of(operation.result)[0])
        if maps != needed:
            raise TextError("XT3508", "xegpu.dpas: the fragments lie in maps that the matrix engine does not take",
                            "use " + " and ".join(f"sg_map<wi_layout = {list(lanes.wi_layout)}, wi_data = "
                                                  f"{list(lanes.wi_data)}>" for lanes in needed[:2]), rewriter.where())
    new = DpasOp(a.values[0], b.values[0], acc, operation.result.type, maps)
    rewriter.set(operation.result, rewriter.emit(new), None if maps is None else maps[2])


def _mfence(rewriter: _Import, operation: dialect.MfenceOp) -> None:
    rewriter.emit(FenceOp(SCOPES[operation.fence_scope.data], KINDS[operation.memory_kind.data]))


RULES: dict[type[Operation], Callable[[Any, Any], None]] = {
    **{older: _same_form(present) for present, older in dialect.SAME_FORM.items()},
    dialect.SAME_FORM[StoreNdOp]: _store_nd, dialect.LoadNdOp: _load_nd, dialect.DpasOp: _dpas,
    dialect.MfenceOp: _mfence,
}
