"""The earlier generation to the present one.

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

Without a mode, fragments have the maps of the descriptors that they came through, and dpas gets those. A map of operand
A that the matrix engine does not take becomes the one that it takes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, Operation

from xegpu.dialect import gather_scatter
from xegpu.dialect.block_io import (
    CreateNdTdescOp,
    LoadNdOp,
    PrefetchNdOp,
    StoreNdOp,
    UpdateNdOffsetOp,
    desc_of,
    loaded_shape,
)
from xegpu.dialect.dpas import DpasOp
from xegpu.dialect.hints import hinted
from xegpu.dialect.sync import FenceOp
from xegpu.dialect.types import DescriptorType, TensorDescType
from xegpu.dialect.vector import ConvertLayoutOp
from xegpu.interop.v1 import dialect
from xegpu.interop.v1.types import present_map
from xegpu.ir.dtypes import of_mlir
from xegpu.layout import lane_map
from xegpu.layout.lane_map import LaneMap
from xegpu.mlir.vector import ShapeCastOp
from xegpu.rewrite.rewriter import Rebuilder, Rule
from xegpu.support.errors import TextError

SCOPES = {"local": "workgroup", "tile": "gpu"}
KINDS = {"ugm": "global", "slm": "shared"}


def converted(function: func.FuncOp) -> func.FuncOp:
    """A kernel of the earlier generation as one of the present.

    Raises:
        TextError: fragments are multiplied that lie in no map of the matrix engine; it points at the text's line.
    """
    return _Import(RULES).function(function, [_type(argument.type) for argument in function.body.block.args])


def _type(type_: Attribute) -> Attribute:
    """A type of the present generation: descriptors lose theirs, and get the map that the matrix engine takes."""
    if not isinstance(type_, DescriptorType):
        return type_
    desc = type_.data
    lanes = None if desc.sg_map is None else present_map(desc.sg_map, desc.dtype.bits)
    return TensorDescType(replace(desc, sg_map=lanes))


class _Import(Rebuilder):
    """One function's conversion; the form of a fragment is its map."""

    keeps_unused = True

    def copy(self, operation: Operation) -> None:
        """A copy; what is computed of fragments lies where they lie."""
        form = next((self.get(operand).form for operand in operation.operands
                     if isinstance(self.get(operand).form, LaneMap)), None)
        super().copy(operation)
        for result in operation.results:
            if isinstance(result.type, VectorType):
                self.set(result, self.get(result).values, form)

    def properties(self, operation: Operation, *drop: str) -> dict[str, Attribute]:
        """What the present operation takes over."""
        gone = ("mode", "operandSegmentSizes", *drop)
        return {name: value for name, value in operation.properties.items() if name not in gone}

    def same(self, kind: type[Operation], operation: Operation, *drop: str, form: Any = None) -> None:
        """The operation of the same name; hints that it does not declare stay beside it."""
        declared = kind.get_irdl_definition().properties  # type: ignore[attr-defined]
        given = self.properties(operation, *drop)
        made = kind.create(operands=[self.one(operand) for operand in operation.operands],
                           result_types=[_type(result.type) for result in operation.results],
                           properties={name: value for name, value in given.items() if name in declared},
                           attributes={**operation.attributes,
                                       **{name: value for name, value in given.items() if name not in declared}})
        self.emit(made)
        for before, after in zip(operation.results, made.results, strict=True):
            self.set(before, after, form)


def _like(kind: type[Operation], *drop: str) -> Rule:
    """The rule of an operation that is the same in both generations."""
    return lambda build, operation: build.same(kind, operation, *drop)


def _create_nd_tdesc(build: _Import, operation: dialect.CreateNdTdescOp) -> None:
    offsets, sizes, strides = ([build.one(value) for value in group]
                               for group in (operation.offsets, operation.shape, operation.strides))
    type_ = _type(operation.result.type)
    assert isinstance(type_, TensorDescType)
    build.set(operation.result,
              build.emit(CreateNdTdescOp(build.one(operation.source), offsets, sizes, strides, type_)))


def _load_nd(build: _Import, operation: dialect.LoadNdOp) -> None:
    desc = build.one(operation.desc)
    parameters, axis = desc_of(desc), operation.axis
    given = build.properties(operation, "vnni_axis")
    lanes = parameters.sg_map
    plain = axis == 1 and lanes is None
    type_ = VectorType(parameters.element_type, parameters.shape) if plain else operation.result.type
    if lanes is not None and lanes != desc_of(operation.desc).sg_map:
        type_ = VectorType(parameters.element_type, loaded_shape(parameters, False))
    made = LoadNdOp(desc, packed=axis == 0) if not given else \
        LoadNdOp(desc, packed=axis == 0, transpose="transpose" in given)
    declared = LoadNdOp.get_irdl_definition().properties
    loaded = LoadNdOp.create(
        operands=[desc], result_types=[type_],
        properties={**made.properties, **{name: value for name, value in given.items() if name in declared}},
        attributes={name: value for name, value in given.items() if name not in declared})
    value = build.emit(loaded)
    if plain:
        value = build.emit(ShapeCastOp(value, operation.split_shape()))
    if lanes is not None and operation.transpose is not None:
        lanes = lanes.transposed
    build.set(operation.result, value, lanes)


def _store_nd(build: _Import, operation: dialect.StoreNdOp) -> None:
    desc, value = build.one(operation.desc), build.get(operation.value)
    lanes, stored = desc_of(desc).sg_map, value.values[0]
    if lanes is not None and isinstance(value.form, LaneMap) and value.form != lanes:
        rows, columns = desc_of(desc).shape
        stored = build.emit(ConvertLayoutOp(stored, value.form, lanes, (rows, columns)))
    build.emit(hinted(StoreNdOp(stored, desc), operation))


def _dpas(build: _Import, operation: dialect.DpasOp) -> None:
    a, b = build.get(operation.a), build.get(operation.b)
    acc = None if operation.acc is None else build.one(operation.acc)
    maps = None
    if not operation.is_vc:
        if not isinstance(a.form, LaneMap) or not isinstance(b.form, LaneMap):
            raise TextError("XT3514",
                            "xegpu.dpas: fragments of a lane are multiplied, and nothing says how they lie over the "
                            "lanes", "load them through descriptors with an sg_map, or add {mode = vc} to the "
                            "operations on whole vectors", build.where())
        maps = (a.form, b.form, lane_map.plain(b.form.lanes, b.form.lanes))
        bits = of_mlir(a.values[0].type.element_type).bits  # type: ignore[attr-defined]
        needed = lane_map.operand_a(b.form.lanes, bits), lane_map.operand_b(b.form.lanes, bits)
        if maps[:2] != needed:
            raise TextError("XT3508", "xegpu.dpas: the fragments lie in maps that the matrix engine does not take",
                            "use " + " and ".join(f"sg_map<wi_layout = {list(lanes.wi_layout)}, wi_data = "
                                                  f"{list(lanes.wi_data)}>" for lanes in needed), build.where())
    made = DpasOp(a.values[0], b.values[0], acc, operation.result.type, maps)
    build.set(operation.result, build.emit(made), None if maps is None else maps[2])


def _mfence(build: _Import, operation: dialect.MfenceOp) -> None:
    build.emit(FenceOp(SCOPES[operation.fence_scope.data], KINDS[operation.memory_kind.data]))


RULES: dict[type[Operation], Callable[[Any, Any], None]] = {
    dialect.CreateNdTdescOp: _create_nd_tdesc, dialect.UpdateNdOffsetOp: _like(UpdateNdOffsetOp),
    dialect.LoadNdOp: _load_nd,
    dialect.StoreNdOp: _store_nd, dialect.PrefetchNdOp: _like(PrefetchNdOp), dialect.DpasOp: _dpas,
    dialect.CreateTdescOp: _like(gather_scatter.CreateTdescOp, "chunk_size_per_lane"),
    dialect.UpdateOffsetOp: _like(gather_scatter.UpdateOffsetOp),
    dialect.LoadGatherOp: _like(gather_scatter.LoadGatherOp),
    dialect.StoreScatterOp: _like(gather_scatter.StoreScatterOp), dialect.PrefetchOp: _like(gather_scatter.PrefetchOp),
    dialect.AtomicRMWOp: _like(gather_scatter.AtomicRMWOp), dialect.MfenceOp: _mfence,
}
