"""SIMT kernels, written for one lane by ``sg_map`` (XeGPU.md, "Work Item Level semantics"): subgroup size and maps.

    func.func @f(...) {
      %d = create_nd_tdesc ... -> tensor_desc<8x16xbf16, sg_map<wi_layout = [1, 16], wi_data = [1, 1]>>
      %v = load_nd %d -> vector<8x1xbf16>
becomes
    func.func @f(...) attributes {xegpu.subgroup_size = 16 : i64} {
A function with that attribute may have maps of fewer lanes, which are replicated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import IntegerAttr, VectorType, i64
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation, SSAValue

from xegpu.dialect.block_io import CreateNdTdescOp, LoadNdOp, StoreNdOp, desc_of
from xegpu.dialect.convert_layout import ConvertLayoutOp, DequantizeOp, WidenOp
from xegpu.dialect.dpas import DpasOp, ProductOp
from xegpu.dialect.gather_scatter import CreateTdescOp
from xegpu.dialect.types import ENGINES, MAP_NAMES, TensorDescType, needed_by_dpas, spelled
from xegpu.dialect.vector import PackOp, PadOp
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.kernel_attributes import SUBGROUP_SIZE
from xegpu.ir.region_branch import incoming
from xegpu.layout.lane_map import LaneMap
from xegpu.mlir.vector import ExtractOp, ExtractStridedSliceOp, shape_of
from xegpu.support.errors import TextError
from xegpu.support.location import Location, author_location
from xegpu.support.notes import defined_at, definition_verb, notes_at
from xegpu.target.targets import listed


def settle(function: func.FuncOp) -> None:
    """Infer the subgroup size of a SIMT function, set its attribute, and check its maps against each other.

    Raises:
        TextError: maps of different subgroup sizes, operations without a map, or a fragment whose map differs from the
            one that its user requires.
    """
    mapped = [(operation, lanes) for operation in function.walk() for lanes in _maps(operation)]
    if not mapped:
        return
    declared = function.attributes.get(SUBGROUP_SIZE)
    if isinstance(declared, IntegerAttr):
        size = declared.value.data
        if wrong := next((pair for pair in mapped if size % pair[1].lanes), None):
            _refuse(wrong[0], "XT3510",
                    f"{spelled(wrong[1])} has {wrong[1].lanes} lanes, which do not divide the subgroup size {size}",
                    f"make wi_layout[0] x wi_layout[1] equal to {size}",
                    [(f"the kernel says {SUBGROUP_SIZE} = {size} here", author_location(function))])
    else:
        size = _agreed(mapped)
        function.attributes[SUBGROUP_SIZE] = IntegerAttr(size, i64)
    _check_all_have_maps(function, size, mapped[0][0])
    _check_fragments(function)


def other_map(actual: str, needed: str) -> tuple[str, str, str]:
    """Code, message and remedy of the error for a fragment that lies in another map than an operation needs."""
    return ("XT3515", f"this fragment lies in {actual}, and {needed}",
            "load it through a descriptor with that map, or put an xegpu.convert_layout between")


def _refuse(operation: Operation, code: str, message: str, hint: str,
            others: Iterable[tuple[str, Location | None]] = ()) -> NoReturn:
    location = author_location(operation)
    raise TextError(code, f"{operation.name}: {message}", hint, location, notes_at(location, others))


def _maps(operation: Operation) -> Iterator[LaneMap]:
    """Lane maps that an operation declares."""
    if isinstance(operation, (CreateNdTdescOp, CreateTdescOp)):
        lanes = desc_of(operation.result).sg_map
        yield from () if lanes is None else (lanes,)
    elif isinstance(operation, ProductOp):
        yield from operation.maps or ()


def _agreed(mapped: list[tuple[Operation, LaneMap]]) -> int:
    """Number of lanes common to all maps."""
    (first, lanes), size = mapped[0], mapped[0][1].lanes
    if size not in ENGINES:
        _refuse(first, "XT3511", f"{spelled(lanes)} has {size} lanes, as no target's subgroups",
                f"make wi_layout[0] x wi_layout[1] 16, or 8 for {listed(lambda target: target.subgroup_size == 8)}")
    for operation, other in mapped:
        if other.lanes != size:
            _refuse(operation, "XT3512",
                    f"{spelled(other)} has {other.lanes} lanes, and the first map of the kernel {size}",
                    f"make wi_layout[0] x wi_layout[1] equal to {size}, the lanes of a subgroup, everywhere",
                    [(f"the first map, {spelled(lanes)}, is here", author_location(first))])
    return size


def _check_all_have_maps(function: func.FuncOp, size: int, first: Operation) -> None:
    """Check that every descriptor and product has a map; ``first`` is an operation that has one."""
    other = [("a map of this kernel is here", author_location(first))]
    for operation in function.walk():
        if isinstance(operation, (CreateNdTdescOp, CreateTdescOp)) and desc_of(operation.result).sg_map is None:
            _refuse(operation, "XT3513", "the descriptor has no sg_map, and others of this kernel have one",
                    f"add one of {size} lanes here: a kernel is written for lanes, or for whole subgroups",
                    other)
        if isinstance(operation, PadOp) and operation.sg_map is None:
            _refuse(operation, "XT3513", "the padded fragment has no sg_map, and others of this kernel have one",
                    "give it the map of the descriptor: {padding = 1.0 : f32, sg_map = #xegpu.sg_map<...>}", other)
        if isinstance(operation, DpasOp) and operation.maps is None:
            bits = of_mlir(operation.a.type.element_type).bits  # type: ignore[attr-defined]
            needed = zip(MAP_NAMES, needed_by_dpas(size, bits, shape_of(operation.result)[0]), strict=True)
            _refuse(operation, "XT3514",
                    "fragments of a lane are multiplied, and nothing says how they lie over the lanes",
                    f"add {', '.join(f'{name} = #xegpu.{spelled(lanes)}' for name, lanes in needed)}", other)


def _check_fragments(function: func.FuncOp) -> None:
    """Check that the map of every fragment is the one that its user requires."""
    known: dict[SSAValue, LaneMap | None] = {}
    for operation in function.walk():
        if isinstance(operation, ProductOp) and (maps := operation.maps) is not None:
            operands = [operation.a, operation.b] + ([] if operation.acc is None else [operation.acc])
            for name, value, needed in zip(MAP_NAMES, operands, maps, strict=False):
                _check_fragment(operation, value, known.get(value), needed, f"{name} says")
        if isinstance(operation, StoreNdOp) and (lanes := desc_of(operation.desc).sg_map) is not None:
            _check_fragment(operation, operation.value, known.get(operation.value), lanes, "the descriptor has")
        if isinstance(operation, scf.ForOp):
            for values in (operation.body.block.args[1:], operation.results):
                known.update({inner: known.get(start)
                              for inner, start in zip(values, operation.iter_args, strict=True)})
        elif isinstance(operation, scf.WhileOp):
            for value in (*operation.before_region.block.args, *operation.after_region.block.args, *operation.results):
                known[value] = known.get(incoming(value)[0])
        else:
            known.update({result: _map_of(operation, known) for result in operation.results
                          if isinstance(result.type, VectorType)})


def _check_fragment(operation: Operation, value: SSAValue, actual: LaneMap | None, needed: LaneMap, says: str) -> None:
    if actual is None or actual == needed:
        return
    if 1 not in actual.wi_layout or actual.transposed != needed:  # lanes in a line: the transpose has the same words
        _refuse(operation, *other_map(spelled(actual), f"{says} {spelled(needed)}"),
                [(f"the fragment is {value.type}, {definition_verb(value)} here", defined_at(value))])


def _map_of(operation: Any, known: dict[SSAValue, LaneMap | None]) -> LaneMap | None:
    """Lane map of an operation's result vector, None if unknown."""
    if isinstance(operation, LoadNdOp):
        assert isinstance(operation.desc.type, TensorDescType)
        lanes = operation.desc.type.data.sg_map
        return lanes.transposed if lanes is not None and operation.transposes else lanes
    if isinstance(operation, (ConvertLayoutOp, WidenOp, PackOp, DequantizeOp)):
        attribute = operation.sg_map if isinstance(operation, (PackOp, DequantizeOp)) else operation.target_map
        return None if attribute is None else attribute.data
    if isinstance(operation, ProductOp):
        return None if operation.maps is None else operation.maps[2]
    same = operation.name.startswith(("arith.", "math.")) or isinstance(operation, (ExtractOp, ExtractStridedSliceOp))
    if not same or isinstance(operation, BroadcastOp):
        return None
    return next((lanes for value in operation.operands if (lanes := known.get(value)) is not None), None)
