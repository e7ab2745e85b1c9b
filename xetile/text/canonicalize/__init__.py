"""Canonicalization of parsed functions to what the language records: splat constants, maps only where needed.

    %c = arith.constant {map = #m} dense<0.0> : vector<256x256xf32>
    %d = arith.addf %c, %v {map = #m} : vector<256x256xf32>
    %n = memref.dim %A, %c0 : memref<1024x512xf16>
becomes
    %z = arith.constant 0.0 : f32 ; %c = vector.broadcast %z {wg_map = #m} : f32 to vector<256x256xf32>
    %d = arith.addf %c, %v : vector<256x256xf32>
    %n = arith.constant 1024 : index

The map of an element-wise operation is that of its operands, so one in the text is only checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from xdsl.dialects import arith, func, memref, ub
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    VectorType,
)
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.type import get_element_type_or_self

from xegpu.analysis.webs import Webs
from xegpu.dialect.types import TensorDescType
from xegpu.interop.llvm.dialect.vector import MultiReductionOp
from xegpu.ir.matchers import number
from xegpu.ir.region_branch import REGION_BRANCHES, TERMINATORS
from xegpu.mlir.vector import (
    ExtractStridedSliceOp,
    InsertStridedSliceOp,
    ShapeCastOp,
    TransposeOp,
    integers,
    shape_of,
    values_of,
)
from xegpu.rewrite.dce import erase
from xegpu.support.errors import Invalid, error_parts
from xetile.dialect.mma import TileMmaOp
from xetile.dialect.reduction import TileBroadcastOp
from xetile.dialect.supervector import ContractOp
from xetile.dialect.types import TileType, WgMapAttr, not_a_map, verify_same_subgroups
from xetile.dialect.vector import TileTransposeOp
from xetile.dialect.wg_map import WgMap
from xetile.dialect.wg_map_inference import forget, map_of, sliced_map
from xetile.text.canonicalize.constants import expand_constant
from xetile.text.canonicalize.diagnostics import fail_at, no_dimension
from xetile.text.canonicalize.lines import has_lines, lines_to_tiles
from xetile.text.canonicalize.reshape import is_reshape, lower_reshape
from xetile.text.canonicalize.subviews import resolve_subviews
from xetile.text.canonicalize.vectors import flatten_vectors, needs_flattening
from xetile.text.operand_parser import RESULT_MAP
from xetile.text.types import guess


def canonicalize(function: func.FuncOp, *, any_rank: bool = False) -> None:
    """Canonicalize a function at the first stages to the form that the language records.

    Args:
        function: the function; it is changed.
        any_rank: whether vectors may have any number of dimensions, as they may beside transfers.

    Raises:
        TextError: maps contradict each other, or a vector constant has different elements.
    """
    resolve_subviews(function)
    for operation in list(function.walk()):
        if isinstance(operation, ub.PoisonOp):
            _poison(operation)
    if needs_flattening(function, any_rank=any_rank):
        flatten_vectors(function)
    elif not any_rank and has_lines(function):
        lines_to_tiles(function)
    _rewrite(function)
    for operation in function.walk():
        _check_operation(operation, any_rank)
    _check_subgroups(function)
    _Maps(function).settle()
    for operation in list(function.walk()):
        if isinstance(operation, arith.ConstantOp) and _varies(operation):
            expand_constant(operation)
        elif isinstance(operation, ShapeCastOp) and is_reshape(operation) and \
                not (any_rank and _is_subgroups(operation)):
            lower_reshape(function, operation)
    forget()


def complete_slices(module: ModuleOp) -> None:
    """Give ``vector.extract_strided_slice`` the numbers of all dimensions; MLIR takes the last ones whole."""
    for operation in module.walk():
        if not isinstance(operation, ExtractStridedSliceOp) or \
                not {"offsets", "sizes", "strides"} <= {*operation.properties}:  # it does not verify
            continue
        shape, known = shape_of(operation.source), len(operation.offsets)
        if known < len(shape) and known == len(operation.sizes) == len(operation.strides):
            for name, rest in (("offsets", [0] * len(shape)), ("sizes", list(shape)), ("strides", [1] * len(shape))):
                stated = values_of(getattr(operation, name))
                operation.properties[name] = integers([*stated, *rest[known:]])


_OF_TILES = (BroadcastOp, ExtractStridedSliceOp, InsertStridedSliceOp, ShapeCastOp)
"""Operations of the vector dialect that vectors of tiles have, too."""


def _is_subgroups(cast: ShapeCastOp) -> bool:
    """Whether a cast is of a subgroup's vector, which is lowered in registers."""
    return not any(name in cast.attributes for name in RESULT_MAP) and map_of(cast.source) is None


def name_maps(module: ModuleOp) -> None:
    """Name the maps of vectors ``wg_map`` where a shape changes, before verifiers ask how vectors are distributed."""
    for operation in module.walk():
        if isinstance(operation, _RESHAPES):
            for name in RESULT_MAP[1:]:
                if name in operation.attributes and RESULT_MAP[0] not in operation.attributes:
                    operation.attributes[RESULT_MAP[0]] = operation.attributes.pop(name)


def rewrite(function: func.FuncOp) -> None:
    """Replace operations of other dialects by those that the passes know, at any stage of tiles.

    Raises:
        TextError: there is nothing for it: a vector constant has different elements.
    """
    _rewrite(function)
    for operation in function.walk():
        if isinstance(operation, arith.ConstantOp) and _varies(operation):
            fail_at(operation, "XT2072", "a vector constant whose elements differ cannot be lowered at this stage",
                    "pass the numbers as an array and load them, or compute them")


def _rewrite(function: func.FuncOp) -> None:
    """Apply :data:`_REWRITES`; constants whose elements differ remain."""
    for operation in list(function.walk()):
        if operation.parent is not None and (rule := _REWRITES.get(type(operation))) is not None:
            rule(operation)


def _check_subgroups(function: func.FuncOp) -> None:
    """Check that all maps distribute to as many subgroups: those of one work-group."""
    first: tuple[WgMap, Operation] | None = None
    for operation in function.walk():
        tiles = [value.type.data.encoding.wg_map for value in operation.results if isinstance(value.type, TileType)]
        map_attribute = operation.properties.get("wg_map")
        for map_ in (*tiles, map_attribute.data if isinstance(map_attribute, WgMapAttr) else None):
            if map_ is None:
                continue
            first = first or (map_, operation)
            try:
                verify_same_subgroups(first[0], map_)
            except Invalid as error:
                fail_at(operation, *error_parts(error), ("the other map is here", first[1]))


def _check_operation(operation: Operation, any_rank: bool) -> None:
    """Check that an operation's vectors are tiles' and its attributes known."""
    dialect = operation.name.partition(".")[0]
    if dialect == "vector" and not isinstance(operation, _OF_TILES):
        fail_at(operation, "XT2012", "it is for vectors in registers, and here a vector is a tile",
                "load the part as a tile of its own, or use tile_transpose, tile_reduce, tile_broadcast")
    types = [value.type for value in (*operation.operands, *operation.results)]
    if all(any(isinstance(type_, kind) for type_ in types) for kind in (TensorDescType, VectorType)):
        fail_at(operation, "XT2012", "it is for vectors in registers, and the function has others, which are tiles",
                "move all blocks with xegpu, or all with transfers (vector.transfer_read, vector.load) or xetile")
    for value in operation.results:
        if not any_rank and isinstance(value.type, VectorType) and len(value.type.get_shape()) not in (2, 4):
            fail_at(operation, "XT2070",
                    f"{value.type} has {len(value.type.get_shape())} dimensions", "use two: vector<1x32xf32>")
    if dialect in ("arith", "math", "vector"):
        unknown = [name for name in operation.attributes if name not in RESULT_MAP and "." not in name]
        if unknown:
            fail_at(operation, "XT2031", f"there is no attribute {unknown[0]}", guess(unknown[0], RESULT_MAP))


def _replace(old: Operation, *new: Operation) -> None:
    """Replace an operation by others; the result of the last one takes the name of the old one."""
    block = old.parent
    assert block is not None
    for operation in new:
        operation.location = old.location
        block.insert_op_before(operation, old)
    before, after = old.results[0], new[-1].results[0]
    after.name_hint = before.name_hint
    before.replace_all_uses_with(after)
    erase(old)


def _poison(operation: ub.PoisonOp) -> None:
    """Poison, which may be any value, to zeros."""
    type_ = operation.result.type
    element = get_element_type_or_self(type_)
    if not isinstance(element, IndexType | IntegerType | AnyFloat):
        return
    zero = FloatAttr(0.0, element) if isinstance(element, AnyFloat) else IntegerAttr(0, element)
    value = DenseIntOrFPElementsAttr.from_list(type_, [zero.value.data]) if isinstance(type_, VectorType) else zero
    _replace(operation, arith.ConstantOp(value))


def _splat_constant(constant: arith.ConstantOp) -> None:
    """Splat constant to a broadcast of a scalar."""
    dense, type_ = constant.value, constant.result.type
    if not isinstance(type_, VectorType):
        return
    if not isinstance(dense, DenseIntOrFPElementsAttr):
        fail_at(constant, "XT2071", f"{dense} is not a vector of numbers", "write dense<0.0> : vector<64x32xf32>")
    elements = list(dense.get_attrs())  # a splat that was parsed has one
    if any(element != elements[0] for element in elements):
        if len(type_.get_shape()) != 2:
            fail_at(constant, "XT2070", f"{type_} has {len(type_.get_shape())} dimensions, and its elements differ",
                    "use two: vector<1x32xf32>")
        return  # expanded when its map is known
    new = arith.ConstantOp(elements[0])  # type: ignore[arg-type]
    spread = BroadcastOp(new.result, type_)
    spread.attributes.update(constant.attributes)
    _replace(constant, new, spread)


def _dimension(operation: memref.DimOp) -> None:
    """``memref.dim`` to a constant, or to a size read from the array."""
    source, axis = operation.source, number(operation.index)
    if not isinstance(source.type, MemRefType) or axis is None or not 0 <= axis < len(source.type.get_shape()):
        no_dimension(operation)
    size = source.type.get_shape()[axis]
    if size != DYNAMIC_INDEX:
        _replace(operation, arith.ConstantOp(IntegerAttr(size, IndexType())))
        return
    metadata = memref.ExtractStridedMetaDataOp(source)
    metadata.location = operation.location
    block = operation.parent
    assert block is not None
    block.insert_op_before(metadata, operation)
    operation.result.replace_all_uses_with(metadata.sizes[axis])
    erase(operation)


def _negate(operation: arith.NegfOp) -> None:
    """``arith.negf`` to ``-0.0 - x``, which is exact for the signs of zeros."""
    type_ = operation.operand.type
    new: list[Operation] = [arith.ConstantOp(FloatAttr(-0.0, get_element_type_or_self(type_)))]  # type: ignore
    if isinstance(type_, VectorType):
        new.append(BroadcastOp(new[0].results[0], type_))
    negated = arith.SubfOp(new[-1].results[0], operation.operand)
    negated.attributes.update(operation.attributes)
    _replace(operation, *new, negated)


def _transpose(operation: TransposeOp) -> None:
    """``vector.transpose`` to ``tile_transpose``."""
    new = TileTransposeOp(operation.operands[0])
    new.attributes.update({name: value for name, value in operation.attributes.items() if name in RESULT_MAP})
    _replace(operation, new)


def _broadcast(operation: BroadcastOp) -> None:
    """``vector.broadcast`` of a vector to ``tile_broadcast``; those of scalars are unchanged."""
    source, result = operation.source, operation.vector.type
    if not isinstance(source.type, VectorType) or len(source.type.get_shape()) != len(result.get_shape()):
        return
    pairs = enumerate(zip(source.type.get_shape(), result.get_shape(), strict=True))
    axes = [axis for axis, (small, large) in pairs if small != large]
    map_ = _explicit_map(operation)
    if axes:
        _replace(operation, TileBroadcastOp(source, result.get_shape(), axes, map_))
    else:
        operation.vector.replace_all_uses_with(source)
        erase(operation)


def _shape_cast(operation: ShapeCastOp) -> None:
    """Fold a shape cast of a shape cast back to the source type, and erase dead ones."""
    source = operation.source
    while isinstance(source.owner, ShapeCastOp):
        source = source.owner.source
    if source.type != operation.result.type:
        return
    operation.result.replace_all_uses_with(source)
    cast: Operation | Block = operation
    while isinstance(cast, ShapeCastOp) and not list(cast.result.uses):
        before = cast.source.owner
        erase(cast)
        cast = before


_REWRITES: dict[type[Operation], Callable[[Any], None]] = {
    arith.ConstantOp: _splat_constant, arith.NegfOp: _negate, memref.DimOp: _dimension,
    TransposeOp: _transpose, BroadcastOp: _broadcast, ShapeCastOp: _shape_cast,
}
_HAS_MAP = ("xetile.", "supervector.")
"""Operations that carry a map of their own or take it from their tile."""
_RESHAPES = (BroadcastOp, ShapeCastOp, TransposeOp, MultiReductionOp)
"""Operations whose result has another map than their operand."""
_LINKS_NOTHING = (*REGION_BRANCHES, *TERMINATORS, ShapeCastOp, ExtractStridedSliceOp)
"""Operations whose vectors have different maps, or are joined by the webs themselves."""
_DERIVED = ("xetile.tile_transpose", "xetile.tile_reduce")
_SLICES = (ExtractStridedSliceOp, InsertStridedSliceOp)
"""Operations whose operand and result may have maps of different ``sg_data``."""


def _same_map(operation: Operation) -> Iterator[SSAValue]:
    """Vectors of an operation that have one map: those of element-wise ones, accumulator and result."""
    if isinstance(operation, (TileMmaOp, ContractOp)):
        yield from (value for value in (operation.acc, operation.result) if value is not None)
    elif isinstance(operation, InsertStridedSliceOp):
        yield from (operation.dest, operation.result)
    elif not operation.name.startswith(_HAS_MAP) and not isinstance(operation, _LINKS_NOTHING):
        values = (*operation.operands, *operation.results)
        yield from (value for value in values if isinstance(value.type, VectorType))


class _Maps:
    """Work-group maps of one function's vectors, by web."""

    def __init__(self, function: func.FuncOp) -> None:
        self._function = function
        self._webs = Webs(function, _same_map)
        self._known: dict[SSAValue, tuple[WgMap, Operation]] = {}

    def settle(self) -> None:
        """Check the map of each web, and attach it to broadcasts of scalars, which have none otherwise."""
        for operation in self._function.walk():
            self._note_results(operation, _explicit_map(operation))
        for operation in self._function.walk():
            if operation.name in _DERIVED and "wg_map" not in operation.properties:
                self._note_results(operation, map_of(operation.results[0]))
            elif isinstance(operation, _SLICES) and (known := self._known.get(self._webs.root(operation.source))):
                self._note_results(operation, sliced_map(operation, known[0]))
        for operation in self._function.walk():
            self._write(operation)

    def _note_results(self, operation: Operation, map_: WgMap | None) -> None:
        for value in operation.results if map_ is not None else ():
            if isinstance(value.type, VectorType):
                self._note(value, map_, operation)  # type: ignore[arg-type]

    def _note(self, value: SSAValue, map_: WgMap, operation: Operation) -> None:
        known, cause = self._known.setdefault(self._webs.root(value), (map_, operation))
        if known != map_:
            fail_at(operation, "XT2075",
                    f"its result is distributed as {map_}, and what it is computed with as {known}",
                    "give both the same map, or put a tile_conv_layout between",
                    (f"{cause.name} says the other map", cause))

    def _write(self, operation: Operation) -> None:
        if operation.name in _DERIVED and "wg_map" not in operation.properties:
            self._set_map(operation, map_of(operation.results[0]))
        elif isinstance(operation, (TileMmaOp, ContractOp)) and operation.wg_map is None:
            self._set_map(operation, self._known.get(self._webs.root(operation.result), (None,))[0])
        if operation.name.startswith(_HAS_MAP):
            return
        for name in RESULT_MAP:
            operation.attributes.pop(name, None)
        if isinstance(operation, (BroadcastOp, arith.ConstantOp, ShapeCastOp)):
            known = self._known.get(self._webs.root(operation.results[0]))
            if known is not None:
                operation.attributes["wg_map"] = WgMapAttr(known[0])
                forget()

    @staticmethod
    def _set_map(operation: Operation, map_: WgMap | None) -> None:
        if map_ is not None:
            operation.properties["wg_map"] = WgMapAttr(map_)
            forget()


def _varies(constant: arith.ConstantOp) -> bool:
    """Whether a constant is a vector of two dimensions, whose elements differ."""
    return isinstance(constant.result.type, VectorType) and len(constant.result.type.get_shape()) == 2


def _explicit_map(operation: Operation) -> WgMap | None:
    """Explicit map of an operation's result."""
    tile = next((operand.type for operand in operation.operands if isinstance(operand.type, TileType)), None)
    if tile is not None and operation.name.startswith(_HAS_MAP):  # what is loaded is distributed as the tile is
        return tile.data.encoding.wg_map
    attributes: Iterable[Attribute | None] = (*(operation.attributes.get(name) for name in RESULT_MAP),
                                              operation.properties.get("wg_map"))
    found = next((attribute for attribute in attributes if attribute is not None), None)
    if found is not None and not isinstance(found, WgMapAttr):
        not_a_map(found, partial(fail_at, operation))
    return None if found is None else found.data
