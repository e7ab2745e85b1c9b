"""Lowering of ``sg_map``, the spelling of lane layouts until LLVM 20, to the layouts and the fragments of LLVM 23.

    #m = #xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>
    %v = xegpu.load_nd %d : !xegpu.tensor_desc<8x16xf16, #m> -> vector<8x16xf16>       a whole block
    %w = xegpu.load_nd %e : !xegpu.tensor_desc<8x16xf16, #m> -> vector<8x1xf16>        a lane's fragment
becomes
    %v = xegpu.load_nd %d : !xegpu.tensor_desc<8x16xf16, #xegpu.layout<lane_layout = [1, 16], ...>> -> vector<8x16xf16>
    %w = xegpu.load_nd %e : !xegpu.tensor_desc<8x16xf16> -> vector<8xf16>

In a function with a fragment all vectors are fragments. They become parts of blocks, so the fragments that are computed
together must lie in one map.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FunctionType, ModuleOp, VectorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter

from xegpu.analysis.simt import other_map
from xegpu.analysis.webs import Webs
from xegpu.dialect.types import SgMapAttr
from xegpu.interop.llvm.dialect.ops import ConvertLayoutOp, DpasOp, LoadNdOp, StoreNdOp
from xegpu.interop.llvm.dialect.types import DescType, Layout, LayoutAttr, desc_of, shape_of
from xegpu.interop.llvm.importer import LANES
from xegpu.layout.lane_map import LaneMap
from xegpu.mlir.gpu import GpuFuncOp
from xegpu.support.errors import Invalid, ShapeError
from xetile.text.canonicalize.diagnostics import fail_at

Function = func.FuncOp | GpuFuncOp
_CONVERSION = {"srcMap": "input_layout", "resMap": "target_layout"}
"""Attributes of ``convert_layout`` in LLVM 20, and what they are now."""


def lower_sg_maps(module: ModuleOp) -> None:
    """Lower the ``sg_map`` of all functions of a module.

    Raises:
        TextError: fragments in different maps are computed together, or a map does not divide its block.
    """
    for function in [operation for operation in module.walk() if isinstance(operation, (func.FuncOp, GpuFuncOp))]:
        of_lanes = any(_fragment(operation) is not None for operation in function.walk())
        if of_lanes:
            _check_maps(function)
        for operation in list(function.walk()):
            _lower(operation, of_lanes)


def _moved(operation: Operation) -> SSAValue | None:
    """Vector of a block access."""
    if isinstance(operation, LoadNdOp):
        return operation.result
    return operation.value if isinstance(operation, StoreNdOp) else None


def _fragment(operation: Operation) -> LaneMap | None:
    """Lane map of the fragment that an operation loads or stores; None of a whole block."""
    moved = _moved(operation)
    if moved is None or not isinstance(moved.type, VectorType):
        return None
    desc = desc_of(operation.desc)  # type: ignore[attr-defined]
    if not isinstance(desc.layout, SgMapAttr) or prod(shape_of(moved)) >= prod(desc.loaded()):
        return None
    lanes = desc.layout.data
    try:
        rows, columns = lanes.fragment((desc.shape[0], desc.shape[-1]))
    except ShapeError as error:
        fail_at(operation, error.code, error.message, error.hint)
    if prod(shape_of(moved)) != rows * columns * desc.block.array_length:
        fail_at(operation, "XT3107", f"a lane has {rows}x{columns} elements of {operation.desc.type}, not "  # type: ignore
                f"{moved.type}", f"write vector<{rows}x{columns}x{desc.dtype}>")
    turned = isinstance(operation, LoadNdOp) and operation.transpose is not None and 1 in lanes.wi_layout
    return lanes.transposed if turned else lanes


def _links(operation: Operation) -> Iterator[SSAValue]:
    """Vectors that lie in one map: those that are computed together."""
    if operation.name.startswith(("arith.", "math.")):
        yield from (value for value in (*operation.operands, *operation.results) if isinstance(value.type, VectorType))
    elif isinstance(operation, DpasOp):
        yield from (value for value in (operation.acc, operation.result) if value is not None)


def _stated(operation: Operation) -> Iterator[tuple[SSAValue, LaneMap]]:
    """Fragments of an operation whose maps it says."""
    moved, lanes = _moved(operation), _fragment(operation)
    if moved is not None and lanes is not None:
        yield moved, lanes
    elif isinstance(operation, DpasOp):
        yield operation.result, LaneMap((1, LANES))
    elif isinstance(operation, ConvertLayoutOp):
        for name, value in (("srcMap", operation.source), ("resMap", operation.result)):
            if isinstance(map_ := operation.attributes.get(name), SgMapAttr):
                yield value, map_.data


def _check_maps(function: Function) -> None:
    """Check that fragments that are computed together lie in one map."""
    webs, known = Webs(function, _links), dict[SSAValue, tuple[LaneMap, Operation]]()  # type: ignore[arg-type]
    for operation in function.walk():
        for value, lanes in _stated(operation):
            before, origin = known.setdefault(webs.root(value), (lanes, operation))
            if before != lanes:
                lies, said = (str(SgMapAttr(each)).removeprefix("#xegpu.") for each in (before, lanes))
                fail_at(operation, *other_map(lies, f"here in {said}"), (f"{origin.name} has the first", origin))


def _lower(operation: Operation, of_lanes: bool) -> None:
    """Lower the maps of one operation, and the types of its values."""
    if isinstance(operation, ConvertLayoutOp) and of_lanes:  # of whole blocks it changes nothing
        Rewriter.replace_op(operation, [], [operation.source])
        return
    if isinstance(operation, ConvertLayoutOp):
        for old, new in _CONVERSION.items():
            if isinstance(map_ := operation.attributes.get(old), SgMapAttr):
                operation.properties[new] = _layout(map_.data)
    for dictionary in (operation.attributes, operation.properties):
        for name in [name for name, value in dictionary.items() if isinstance(value, SgMapAttr)]:
            del dictionary[name]
    arguments = [argument for region in operation.regions for block in region.blocks for argument in block.args]
    for value in (*operation.results, *arguments):
        try:
            type_ = _lowered(value.type, of_lanes)
        except Invalid as error:
            message, _, hint = str(error).partition("\n")
            fail_at(operation, error.code, message, hint)
        if type_ != value.type:
            Rewriter.replace_value_with_new_type(value, type_)
    if isinstance(operation, arith.ConstantOp) and isinstance(operation.value, DenseIntOrFPElementsAttr):
        operation.properties["value"] = DenseIntOrFPElementsAttr(operation.result.type, operation.value.data)  # type: ignore
    if isinstance(operation, (func.FuncOp, GpuFuncOp)):
        inputs, outputs = ([_lowered(type_, of_lanes) for type_ in types] for types in
                           (operation.function_type.inputs, operation.function_type.outputs))
        operation.function_type = FunctionType.from_lists(inputs, outputs)


def _lowered(type_: Attribute, of_lanes: bool) -> Attribute:
    """Type of a descriptor with a layout, or without one beside fragments; of a fragment in one dimension."""
    if isinstance(type_, DescType) and isinstance(type_.data.layout, SgMapAttr):
        layout = None if of_lanes or len(type_.data.shape) == 1 else _layout(type_.data.layout.data)
        if layout is not None:
            layout.data.check(type_.data.shape)
        return DescType(replace(type_.data, layout=layout))
    if of_lanes and isinstance(type_, VectorType) and len(type_.get_shape()) > 1:
        return VectorType(type_.element_type, [prod(type_.get_shape())])
    return type_


def _layout(lanes: LaneMap) -> LayoutAttr:
    return LayoutAttr(Layout(lane_layout=lanes.wi_layout, lane_data=lanes.wi_data))
