"""Whole vectors to the fragments of one lane (XeGPU.md, "Attributes to support Work Item Level semantics").

    %d = create_nd_tdesc ... -> tensor_desc<32x16xbf16, array_length = 2>
    %v = load_nd %d -> vector<2x32x16xbf16>
    %a = vector.extract_strided_slice (%v[0]) {offsets = [8, 0], sizes = [8, 16]}
becomes
    %d = create_nd_tdesc ... -> tensor_desc<32x16xbf16, array_length = 2, sg_map<wi_layout = [1, 16], wi_data = [1, 1]>>
    %v = load_nd %d -> vector<2x32x1xbf16>
    %a = vector.extract_strided_slice (%v[0]) {offsets = [8, 0], sizes = [8, 1]}

Operands that come straight from memory are loaded in the layout that DPAS reads. Everything else lies one element a
lane along its rows; ``convert_layout`` goes from there to a layout of A that differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import func, ub
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, VectorType, i64
from xdsl.dialects.vector import BroadcastOp, ExtractOp
from xdsl.ir import Attribute, SSAValue

from xegpu import layouts
from xegpu.dialect.attributes import TensorDescType
from xegpu.dialect.block_io import LoadNdOp, StoreNdOp
from xegpu.dialect.descriptors import CreateNdTdescOp, UpdateNdOffsetOp, desc_of
from xegpu.dialect.diagnostics import AssertOp, DiagnosticOp, PrintOp
from xegpu.dialect.hints import hinted
from xegpu.dialect.lane_layouts import ConvertLayoutOp
from xegpu.dialect.loaded_products import LoadMadOp
from xegpu.dialect.padding import PadOp
from xegpu.dialect.positions import IotaOp
from xegpu.dialect.products import DpasOp, MadOp, ProductOp
from xegpu.dialect.scaled_products import SCALE_MAPS, DpasScaledOp
from xegpu.dialect.vectors import ExtractStridedSliceOp, InsertStridedSliceOp, ShapeCastOp, shape_of, values_of, vector
from xegpu.dialect.words import BitcastOp, PackOp
from xegpu.dtypes import of_mlir
from xegpu.errors import XeError
from xegpu.layouts import LaneMap
from xegpu.passes import distribute_blocks, lines, scattered
from xegpu.passes.engine import check_product
from xegpu.passes.operands import descriptor_webs, sides
from xegpu.rewriting import Parts, Rebuilder, follow, rewrite
from xegpu.targets import Target
from xegpu.webs import Webs

Shape = tuple[int, int]


@dataclass(frozen=True)
class Distributed:
    """The form of a value that became a fragment: the block's shape and its lane map."""

    shape: Shape
    lanes: LaneMap
    packed: bool = False

    def of_rank(self, rank: int) -> Distributed:
        """The form of the same fragment where words are seen as elements (2), or elements as words (3)."""
        (rows, columns), (down, across) = self.shape, self.lanes.wi_data
        if rank == 2 and self.packed:
            return Distributed((rows // down, columns * down), LaneMap(self.lanes.wi_layout, (1, down)))
        if rank == 3 and not self.packed:
            return Distributed((rows * across, columns // across), LaneMap(self.lanes.wi_layout, (across, 1)), True)
        return self


@dataclass(frozen=True)
class Distribute:
    """The pass.

    Attributes:
        target: its subgroup size is the number of lanes.
    """

    target: Target

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with a lane's fragments in the place of whole blocks."""
        return rewrite(module, self._function)

    def _function(self, function: func.FuncOp) -> func.FuncOp:
        if "xegpu.subgroup_size" in function.attributes:
            return _Distributor(self.target, Webs(function, lambda _: ())).copied(function)
        function = lines.cut(function, self.target.subgroup)
        new = _Distributor(self.target, descriptor_webs(function)).function(function)
        new.attributes["xegpu.subgroup_size"] = IntegerAttr(self.target.subgroup, i64)
        return new


class _Distributor(Rebuilder):
    """One function's rewrite."""

    def __init__(self, target: Target, webs: Webs) -> None:
        super().__init__({CreateNdTdescOp: _create, UpdateNdOffsetOp: follow, LoadNdOp: _load, StoreNdOp: _store,
                          ExtractOp: _extract, ExtractStridedSliceOp: _slice, InsertStridedSliceOp: _insert,
                          DpasOp: _product, MadOp: _product, PackOp: _pack, DpasScaledOp: _scaled,
                          BitcastOp: _bitcast, PadOp: _pad, BroadcastOp: _spread, ub.PoisonOp: _poison,
                          ShapeCastOp: _cast, IotaOp: _iota, LoadMadOp: _load_mad,
                          PrintOp: _diagnostic, AssertOp: _diagnostic,
                          **distribute_blocks.RULES, **scattered.RULES})
        self.target, self.webs = target, webs

    def copied(self, function: func.FuncOp) -> func.FuncOp:
        """A copy of a function that is distributed already."""
        return Rebuilder({}).function(function)

    def plain(self, shape: Shape) -> LaneMap:
        """The lane map of what is computed with."""
        try:
            return layouts.plain(self.target.subgroup, shape[1], shape[0])
        except XeError as error:
            raise error.at(self.where()) from None

    def common_map(self, forms: Sequence[Distributed]) -> LaneMap:
        """The map in which blocks of one shape meet: their own if they share one, else that for computing."""
        lanes = {form.lanes for form in forms}
        if len(lanes) == 1 and forms[0].lanes.per_lane == 1:
            return forms[0].lanes
        return self.plain(forms[0].shape)

    def form(self, shape: Shape, lanes: LaneMap) -> Distributed:
        """The form of a fragment of a block."""
        return Distributed((shape[0], shape[1]), lanes)

    def lanes_of(self, desc: SSAValue) -> LaneMap:
        """The lane map of a descriptor, from what is loaded through it; transposed if the loads transpose."""
        loads = [use.operation for use in self.webs.uses(desc) if isinstance(use.operation, LoadNdOp)]
        bits = desc_of(desc).dtype.bits
        if (together := max((load.transposes for load in loads), default=0) // bits) > 1:
            return LaneMap((self.target.subgroup, 1), (1, together))
        if any(load.packed is not None for load in loads):
            return layouts.operand_b(self.target.subgroup, bits)
        if together:
            rows, columns = desc_of(desc).shape
            try:
                return self._lanes_of_block(desc, (columns, rows)).transposed
            except XeError as error:
                raise error.at(self.where()) from None
        return self._lanes_of_block(desc, (desc_of(desc).shape[0], desc_of(desc).shape[1]))

    def _lanes_of_block(self, desc: SSAValue, shape: Shape) -> LaneMap:
        parameters, used = desc_of(desc), sides(self.webs, desc)
        if used == {"a"}:
            return layouts.operand_a(self.target.subgroup, parameters.dtype.bits)
        if used == {"b"} and parameters.dtype.bits < 32:
            return layouts.operand_b(self.target.subgroup, parameters.dtype.bits)
        return self.plain(shape)

    def line(self, lanes: int) -> Distributed:
        """The form of a vector of one dimension, an element a lane; a shorter one repeats over the subgroup.

        Raises:
            ShapeError: the lanes of a subgroup are no multiple of its elements.
        """
        subgroup = self.target.subgroup
        if subgroup % lanes:
            self.fail("XT3521",
                      f"a vector of {lanes} elements does not spread over the {subgroup} lanes of a subgroup on "
                      f"{self.target.name}", f"use vectors of a multiple of {subgroup} elements, or of a divisor")
        return Distributed((1, lanes), LaneMap((1, lanes)))

    def fragment(self, shape: Shape, lanes: LaneMap, element: Attribute) -> VectorType[Attribute]:
        """The vector type of a lane's share of a block."""
        try:
            return vector(lanes.fragment(shape), element)
        except XeError as error:
            raise error.at(self.where()) from None

    def match(self, parts: Parts, like: Parts) -> Parts:
        """A yielded fragment in the layout that the loop carries."""
        if parts.form == like.form or not isinstance(like.form, Distributed):
            return parts
        return Parts((self.converted(parts, like.form.lanes),), like.form)

    def converted(self, parts: Parts, lanes: LaneMap) -> SSAValue:
        """A fragment in another layout."""
        form: Distributed = parts.form
        (value,) = parts.values
        if form.lanes == lanes or (_is_splat(value) and shape_of(value) == lanes.fragment(form.shape)):
            return value
        if lanes.per_lane > 1 and form.lanes not in ((plain := self.plain(form.shape)), lanes):
            return self.converted(Parts((self.converted(parts, plain),), self.form(form.shape, plain)), lanes)
        return self.shared(("convert", value, lanes),
                           lambda: self.emit(ConvertLayoutOp(value, form.lanes, lanes, form.shape)))

    def copy(self, operation) -> None:  # type: ignore[no-untyped-def]
        """A copy; a vector result has the form of the vector operands."""
        form = next((self.get(o).form for o in operation.operands if isinstance(self.get(o).form, Distributed)), None)
        if form is None or not operation.results:
            super().copy(operation)
            return
        parts = [self.get(operand) for operand in operation.operands]
        forms = [part.form for part in parts if isinstance(part.form, Distributed)]
        moving = [part.form for part in parts if isinstance(part.form, Distributed) and not _is_splat(part.values[0])]
        if any(each.packed for each in forms):
            self.fail("XT3520", f"vectors in VNNI form are for dpas alone, and this is {operation.name}",
                      "load the block without packed to compute with it; dpas packs what it needs",
                      **{f"operand {i}": value for i, value in enumerate(operation.operands)})
        if any(each.lanes.per_lane > 1 for each in moving):  # as operands of dpas lie; nothing else computes with words
            form = self.form(form.shape, self.plain(form.shape))
        elif len({form.lanes for form in moving or forms}) > 1:
            form = self.form(form.shape, self.common_map(moving))
        elif moving:
            form = moving[0]
        operands = [self.converted(part, form.lanes) if isinstance(part.form, Distributed) else part.values[0]
                    for part in parts]
        like = next(o.type for o in operands if isinstance(o.type, VectorType))
        types = [self.part_type(result.type, like) for result in operation.results]
        copied = self._like(operation, operands, types)
        for before, after in zip(operation.results, copied.results, strict=True):
            self.set(before, after, form)


def _is_splat(value: SSAValue) -> bool:
    """Whether every element of a fragment is the same, so that it looks alike under all maps of one element a lane."""
    return isinstance(value.owner, BroadcastOp)


def _create(build: _Distributor, operation: CreateNdTdescOp) -> None:
    result = operation.result.type
    assert isinstance(result, TensorDescType)
    typed = result if result.data.sg_map else result.with_(sg_map=build.lanes_of(operation.result))
    assert typed.data.sg_map is not None
    build.fragment((typed.data.shape[0], typed.data.shape[1]), typed.data.sg_map, typed.data.element_type)
    build.retyped(operation, typed)


def _load(build: _Distributor, operation: LoadNdOp) -> None:
    desc, packed = build.one(operation.desc), operation.packed is not None
    parameters = desc_of(desc)
    assert parameters.sg_map is not None
    width = None if operation.transpose_bit_width is None else operation.transposes
    made = LoadNdOp(desc, packed=packed, transpose=bool(operation.transposes), transpose_bit_width=width)
    value = build.emit(hinted(made, operation))
    shape, lanes = (parameters.shape[0], parameters.shape[1]), parameters.sg_map
    if not operation.transposes:
        build.set(operation.result, value, Distributed(shape, lanes, packed))
        return
    value = _exchanged_units(build, value, shape, lanes)
    form = Distributed(shape[::-1], lanes.transposed, width is not None)
    build.set(operation.result, value, form.of_rank(2))


def _exchanged_units(build: _Distributor, value: SSAValue, shape: Shape, lanes: LaneMap) -> SSAValue:
    """A fragment with its units in the order of the transposed block, where they lie in several rows and columns."""
    rows, columns = shape[0] // lanes.unit[0], shape[1] // lanes.unit[1]
    if 1 in (rows, columns):
        return value
    result = build.emit(ub.PoisonOp(value.type))
    for column in range(columns):
        for row in range(rows):
            unit = build.emit(ExtractStridedSliceOp(value, (row * columns + column, 0), (1, lanes.per_lane)))
            result = build.emit(InsertStridedSliceOp(unit, result, (column * rows + row, 0)))
    return result


def _cast(build: _Distributor, operation: ShapeCastOp) -> None:
    """Words seen as elements, or elements as words: a lane's fragment has them that way already.

    So it has a register seen as a line.
    """
    source, result = (shape_of(value) for value in (operation.source, operation.result))
    parts = build.get(operation.source)
    form: Distributed = parts.form
    ranks = len(source), len(result)
    if 1 in ranks:
        scattered.cast(build, operation)
    elif source == result or (ranks == (3, 2) and form.packed and result == form.of_rank(2).shape):
        build.set(operation.result, parts.values, form.of_rank(len(result)))
    elif ranks == (2, 3) and result == (source[0], source[1] // result[2], result[2]):
        lanes = LaneMap((1, build.target.subgroup), (1, result[2]))
        build.fragment(form.shape, lanes, operation.source.type.element_type)  # type: ignore[attr-defined]
        value, words = build.converted(parts, lanes), Distributed(form.shape, lanes)
        build.set(operation.result, value, words.of_rank(3))
    else:
        build.fail("XT3522", f"a cast of {list(source)} to {list(result)} moves elements from lane to lane",
                   "store the vector, and load it in its other shape; vector.extract takes blocks that lie side by "
                   "side apart", **{"the vector": operation.source})


def _store(build: _Distributor, operation: StoreNdOp) -> None:
    desc = build.one(operation.desc)
    lanes = desc_of(desc).sg_map
    assert lanes is not None
    build.emit(hinted(StoreNdOp(build.converted(build.get(operation.value), lanes), desc), operation))


def _extract(build: _Distributor, operation: ExtractOp) -> None:
    """One of the blocks that lie side by side in a message."""
    source = build.get(operation.vector)
    position = list(operation.static_position.get_values())
    form: Distributed = source.form
    element = operation.vector.type.element_type  # type: ignore[attr-defined]
    part = build.fragment(form.shape, form.lanes, element)
    build.set(operation.result, build.emit(ExtractOp(source.values[0], position, part)), form)  # type: ignore


def _slice(build: _Distributor, operation: ExtractStridedSliceOp) -> None:
    source = build.get(operation.source)
    form: Distributed = source.form
    factor = form.lanes.wi_data[0] if form.packed else 1
    (row, column, *_), (rows, columns, *_) = values_of(operation.offsets), values_of(operation.sizes)
    shape = (rows * factor, columns)
    whole = not any(size % unit for size, unit in zip((row * factor, column, *shape), form.lanes.unit * 2, strict=True))
    lanes = form.lanes if form.packed or whole else build.plain(shape)
    value, block = build.converted(source, lanes), Distributed(form.shape, lanes, form.packed)
    result = Distributed(shape, lanes, form.packed)
    build.set(operation.result, _units(build, value, block, result, (row * factor, column), operation.source), result)


def _units(build: _Distributor, value: SSAValue, source: Distributed, part: Distributed, at: Shape,
           block: SSAValue) -> SSAValue:
    """The fragment of a part of a block, which may be whole units only: a run of them, or several put together."""
    height, width = source.lanes.unit
    if at[0] % height or at[1] % width or part.shape[0] % height:
        build.fail("XT3523",
                   f"a slice of {part.shape[0]}x{part.shape[1]} at {list(at)} of a "
                   f"{source.shape[0]}x{source.shape[1]} block "
                   f"does not fall on whole registers ({height}x{width} elements each)",
                   f"start at a row that is a multiple of {height} and a column that is one of {width}, and take whole "
                   f"registers; or store the block, and load the part", **{"the block": block})
    across, count = source.shape[1] // width, part.shape[1] // width
    first = at[0] // height * across + at[1] // width
    rows = part.shape[0] // height
    if count == across or rows == 1:
        return build.emit(ExtractStridedSliceOp(value, (first, 0), (rows * count, source.lanes.per_lane)))
    runs = [build.emit(ExtractStridedSliceOp(value, (first + i * across, 0), (count, source.lanes.per_lane)))
            for i in range(rows)]
    result: SSAValue = build.emit(ub.PoisonOp(build.fragment(part.shape, part.lanes, value.type.element_type)))  # type: ignore
    for i, run in enumerate(runs):
        result = build.emit(InsertStridedSliceOp(run, result, (i * count, 0)))
    return result


def _insert(build: _Distributor, operation: InsertStridedSliceOp) -> None:
    source, dest = build.get(operation.source), build.get(operation.dest)
    form: Distributed = dest.form
    part: Distributed = source.form
    row, column = values_of(operation.offsets)
    if part.lanes != form.lanes:
        source, dest = _assembled(build, source, dest)
        form, part = dest.form, source.form
    height, width = form.lanes.unit
    if part.lanes != form.lanes or row % height or column % width:
        build.fail("XT3523",
                   f"blocks of {part.shape[0]}x{part.shape[1]} do not assemble into {form.shape[0]}x{form.shape[1]} on "
                   f"whole registers ({height}x{width} elements each)",
                   f"put them at rows that are multiples of {height} and columns that are multiples of {width}, or "
                   f"store "
                   "the parts, and load the whole", **{"the part": operation.source, "the whole": operation.dest})
    across, count = form.shape[1] // width, part.shape[1] // width
    first, rows = row // height * across + column // width, part.shape[0] // height
    if count == across:
        rows, count = 1, rows * count
    result = dest.values[0]
    for i in range(rows):
        run = source.values[0] if rows == 1 else \
            build.emit(ExtractStridedSliceOp(source.values[0], (i * count, 0), (count, form.lanes.per_lane)))
        result = build.emit(InsertStridedSliceOp(run, result, (first + i * across, 0)))
    build.set(operation.result, result, form)


def _assembled(build: _Distributor, source: Parts, dest: Parts) -> tuple[Parts, Parts]:
    """A part and the block that it goes into under one map, that of the block if the part is whole units of it."""
    block: Distributed = dest.form
    part: Distributed = source.form
    if not any(size % unit for size, unit in zip(part.shape, block.lanes.unit, strict=True)):
        return Parts((build.converted(source, block.lanes),), build.form(part.shape, block.lanes)), dest
    if isinstance(dest.values[0].owner, ub.PoisonOp):  # nothing is in it yet
        element = dest.values[0].type.element_type  # type: ignore[attr-defined]
        fragment = build.fragment(block.shape, part.lanes, element)
        return source, Parts((build.emit(ub.PoisonOp(fragment)),), build.form(block.shape, part.lanes))
    return source, Parts((build.converted(dest, part.lanes),), build.form(block.shape, part.lanes))


def _poison(build: _Distributor, operation: ub.PoisonOp) -> None:
    shape, element = shape_of(operation.result), operation.result.type.element_type  # type: ignore[attr-defined]
    form = Distributed((shape[0], shape[1]), build.plain((shape[0], shape[1])))
    fragment = build.fragment(form.shape, form.lanes, element)
    made = ub.PoisonOp.create(result_types=[fragment], properties=dict(operation.properties))
    build.set(operation.result, build.emit(made), form)


def _spread(build: _Distributor, operation: BroadcastOp) -> None:
    shape = operation.vector.type.get_shape()
    if len(shape) == 1:
        line = VectorType(operation.vector.type.element_type, (1,))
        value = build.emit(BroadcastOp(build.one(operation.source), line))
        build.set(operation.vector, value, build.line(shape[0]))
        return
    form = Distributed((shape[0], shape[1]), build.plain((shape[0], shape[1])))
    fragment = build.fragment(form.shape, form.lanes, operation.vector.type.element_type)
    build.set(operation.vector, build.emit(BroadcastOp(build.one(operation.source), fragment)), form)


def _iota(build: _Distributor, operation: IotaOp) -> None:
    shape = operation.block_shape()
    form = Distributed(shape, build.plain(shape))
    fragment = build.fragment(shape, form.lanes, operation.result.type.element_type)  # type: ignore[attr-defined]
    made = IotaOp(build.one(operation.start), operation.axis.value.data, fragment, shape, form.lanes)
    build.set(operation.result, build.emit(made), form)


def _pack(build: _Distributor, operation: PackOp) -> None:
    source = build.get(operation.source)
    form: Distributed = source.form
    bits = of_mlir(operation.source.type.element_type).bits  # type: ignore[attr-defined]
    value = build.converted(source, build.plain(form.shape))
    lanes = layouts.operand_b(build.target.subgroup, bits)
    build.set(operation.result, build.emit(PackOp(value, lanes)), Distributed(form.shape, lanes, True))


def _bitcast(build: _Distributor, operation: BitcastOp) -> None:
    source = build.get(operation.source)
    form: Distributed = source.form
    rows, columns = shape_of(operation.result)
    lanes = build.plain(form.shape)  # raises for columns that do not spread over the lanes
    lanes = LaneMap((1, lanes.wi_layout[1]))  # each lane has whole columns, so that no row goes to another
    made = BitcastOp(build.converted(source, lanes), operation.result.type.element_type)  # type: ignore[attr-defined]
    build.set(operation.result, build.emit(made), Distributed((rows, columns), lanes))


def _pad(build: _Distributor, operation: PadOp) -> None:
    source, desc = build.get(operation.value), build.one(operation.desc)
    lanes = build.plain(source.form.shape)
    form = Distributed(source.form.shape, lanes)
    build.set(operation.result, build.emit(PadOp(build.converted(source, lanes), desc, operation.padding, lanes)), form)


def _product(build: _Distributor, operation: ProductOp) -> None:
    a, b = build.get(operation.a), build.get(operation.b)
    form: Distributed = a.form
    bits = of_mlir(operation.a.type.element_type).bits  # type: ignore[attr-defined]
    engine = isinstance(operation, DpasOp)
    if isinstance(operation, DpasOp):
        try:
            check_product(operation, build.target)
        except XeError as error:
            raise error.at(build.where()) from None
    a_map = layouts.operand_a(build.target.subgroup, bits) if engine else build.plain(form.shape)
    shape = shape_of(operation.result)
    c = Distributed((shape[0], shape[1]), build.plain((shape[0], shape[1])))
    acc = None if operation.acc is None else build.converted(build.get(operation.acc), c.lanes)
    b_map = b.form.lanes if b.form.packed else build.plain(b.form.shape)
    b_value = b.values[0] if b.form.packed else build.converted(b, b_map)
    result = build.fragment(c.shape, c.lanes, operation.result.type.element_type)  # type: ignore[attr-defined]
    made = type(operation)(build.converted(a, a_map), b_value, acc, result, (a_map, b_map, c.lanes))
    build.set(operation.result, build.emit(made), c)


def _scaled(build: _Distributor, operation: DpasScaledOp) -> None:
    lanes = build.target.subgroup
    a, b, acc, scale_a, scale_b = (build.get(operand) for operand in operation.operands)
    c = Distributed(acc.form.shape, build.plain(acc.form.shape))
    b_value = b.values[0] if b.form.packed else build.converted(b, layouts.operand_b(lanes, 8))
    made = DpasScaledOp(build.converted(a, layouts.operand_a(lanes, 8)), b_value, build.converted(acc, c.lanes),
                        build.converted(scale_a, SCALE_MAPS[0]), build.converted(scale_b, SCALE_MAPS[1]), lanes)
    build.set(operation.result, build.emit(made), c)


def _load_mad(build: _Distributor, operation: LoadMadOp) -> None:
    form = Distributed(operation.block, build.plain(operation.block))
    acc = [build.converted(build.get(value), form.lanes) for value in operation.acc]
    made = LoadMadOp(build.one(operation.a), build.one(operation.b), acc, form.lanes)
    build.emit(made)
    for before, after in zip(operation.results, made.results, strict=True):
        build.set(before, after, form)


def _diagnostic(build: _Distributor, operation: DiagnosticOp) -> None:
    """Vectors one element a lane; where the lanes repeat what they hold, the first ones speak."""
    form = next((f for value in operation.values if isinstance(f := build.get(value).form, Distributed)), None)
    if form is None:
        build.copy(operation)
        return
    lanes = build.plain(form.shape)
    parts = [build.get(value) for value in operation.values]
    values = [build.converted(part, lanes) if isinstance(part.form, Distributed) else part.values[0] for part in parts]
    build.emit(type(operation)(operation.message.data, values, lanes.lanes))
