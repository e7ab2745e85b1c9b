"""Canonicalization of XeGPU text: the forms that XeGPU.md allows become the ones that the passes work on.

    %d = create_nd_tdesc %address, [%i] : i64 -> tensor_desc<16xf32, boundary_check = false>
    %v = load_nd %d : ... -> vector<16xf32>
    %a = vector.shape_cast %w : vector<8x16xf16> to vector<8x8x2xf16>
    %c = dpas %a, %b : vector<8x8x2xf16>, vector<8x16x2xf16> -> vector<8x16xf32>
becomes
    %d = create_nd_tdesc %address, [0, %i], [1, 2147483584], [2147483584, 1] : i64 -> tensor_desc<1x16xf32, ...>
    %v = load_nd %d : ... -> vector<1x16xf32>
    %c = dpas %w, %b : vector<8x16xf16>, vector<8x16x2xf16> -> vector<8x16xf32>

A descriptor of one dimension is one of a row that does not end: its bounds are the author's to keep. An address that is
known to be that of an array becomes the array. Vector constants whose elements differ are computed from the positions
of the elements, since no memory holds them:
    %c = arith.constant dense<[0, 4, 8, 12]> : vector<4xindex>
    %d = arith.constant dense<[1.0, 1.0, 2.0, 3.0]> : vector<4xf32>
becomes
    %c = %at * 4 + 0                                                     where %at is xegpu.iota, 0 to 3
    %d = arith.select(%at < 2, 1.0, arith.select(%at < 3, 2.0, 3.0))     one comparison for each run of equal elements

What is computed with blocks in VNNI form is computed with the blocks, since dpas packs what it needs:
    %v = load_nd %d {packed} : tensor_desc<16x16xf16> -> vector<8x16x2xf16>
    %w = arith.addf %v, %v : vector<8x16x2xf16>
becomes
    %v = load_nd %d : tensor_desc<16x16xf16> -> vector<16x16xf16>
    %w = arith.addf %v, %v : vector<16x16xf16>
and what a lane computes with words, with their elements: vector<8x2xf16> becomes vector<16x1xf16>.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, MemRefType, ModuleOp, VectorType
from xdsl.dialects.memref import ExtractAlignedPointerAsIndexOp, ExtractStridedMetaDataOp
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Attribute, Operation, SSAValue

from xegpu.dialect.block_io import CreateNdTdescOp, LoadNdOp, StoreNdOp, UpdateNdOffsetOp, desc_of, loaded_shape
from xegpu.dialect.dpas import DpasOp
from xegpu.dialect.gather_scatter import CreateTdescOp
from xegpu.dialect.types import TensorDescType
from xegpu.ir.memref import CASTS, array_at, is_shared, static_form
from xegpu.mlir.vector import ShapeCastOp, shape_of
from xegpu.rewrite.dense_constant import dense_constant
from xegpu.rewrite.rewriter import ConvertedValues, Rewriter, Rule, rewrite

ROW = "row"
"""The form of a vector of one dimension that became a row of two."""
BLOCK = "block"
"""The form of a block in VNNI form, of three dimensions, that became one of two."""
ELEMENTS = "elements"
"""The form of a lane's words that became their elements, one a word."""
ENDLESS = (1 << 31) - 64
"""Elements of a row whose end the author minds: a whole number of lines of memory, below the limit of an index."""


@dataclass(frozen=True)
class Normalize:
    """Pass ``normalize``; it has no options. Text in XeGPU goes through it when it is read."""

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module in the form that the passes work on; itself if it has that form.

        Raises:
            ShapeError: it computes with vectors in VNNI form; it points at the text's line.
        """
        return rewrite(module, _normalized)


def is_elementwise(operation: Operation) -> bool:
    """Whether an operation computes element by element."""
    return operation.name.partition(".")[0] in ("arith", "math") and bool(operation.operands)


def _normalized(function: func.FuncOp) -> func.FuncOp:
    new = _NormalizeRewriter(function).function(function)
    return function if new.is_structurally_equivalent(function) else new


class _NormalizeRewriter(Rewriter):
    """Rewriter of one function.

    Attributes:
        of_lanes: whether its vectors are the fragments of one lane.
        unpacks: whether it computes with blocks in VNNI form.
    """

    def __init__(self, function: func.FuncOp) -> None:
        super().__init__(_RULES)
        self.of_lanes = any(desc_of(value).sg_map is not None for operation in function.walk()
                            for value in operation.results if isinstance(value.type, TensorDescType))
        self.unpacks = not self.of_lanes and any(
            is_elementwise(operation) and isinstance(value.type, VectorType) and len(value.type.get_shape()) == 3
            for operation in function.walk() for value in operation.operands)

    def in_shape(self, value: SSAValue, shape: tuple[int, ...]) -> SSAValue:
        """A vector of one dimension in the shape of a row, or words in that of their elements."""
        new = self.single(value)
        return new if shape_of(new) == shape else self._shaped(new, shape)

    def _shaped(self, value: SSAValue, shape: tuple[int, ...]) -> SSAValue:
        """A vector in another shape; one of equal elements is made so."""
        owner = value.owner
        if isinstance(owner, BroadcastOp) and not isinstance(owner.source.type, VectorType):
            return self.emit(BroadcastOp(owner.source, VectorType(value.type.element_type, shape)))  # type: ignore
        return self.emit(ShapeCastOp(value, shape))

    def line(self, old: SSAValue) -> SSAValue:
        """A value that became a row or elements, in the shape that it had."""
        parts = self.lookup(old)
        (value,) = parts.values
        if parts.encoding == BLOCK:
            self.fail("XT3520", "vectors in VNNI form are for arithmetic and dpas",
                      "load the block without packed; dpas packs what it needs", operand=old)
        return value if parts.encoding is None else self._shaped(value, shape_of(old))

    def fill(self, old: SSAValue, scalar: SSAValue) -> None:
        """Make a vector of one number of an old one, in the form that is computed with."""
        shape, form = self.computing(shape_of(old))
        element: Attribute = old.type.element_type  # type: ignore[attr-defined]
        self.set(old, self.emit(BroadcastOp(scalar, VectorType(element, shape))), form)

    def computing(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], str | None]:
        """The shape, and its form, in which vectors of a shape are computed with."""
        if self.of_lanes:
            *before, units, per_lane = (1, 1, *shape)[-max(len(shape), 2):]
            return (shape, None) if len(shape) == 1 or per_lane == 1 else ((*before, units * per_lane, 1), ELEMENTS)
        if len(shape) == 3:
            return (shape[0] * shape[2], shape[1]), BLOCK
        return ((1, *shape), ROW) if len(shape) == 1 else (shape, None)

    def match(self, parts: ConvertedValues, like: ConvertedValues) -> ConvertedValues:
        """Yielded values of a loop or branch, in the form of its result."""
        if parts.encoding == like.encoding:
            return parts
        return ConvertedValues((self._shaped(parts.values[0], shape_of(like.values[0])),), like.encoding)

    def copy(self, operation: Operation) -> None:
        """A copy; operations element by element take the form that is computed with, others what was there before."""
        formed = [operand for operand in operation.operands if self.lookup(operand).encoding is not None]
        form = None
        if is_elementwise(operation) and (vectors := [operand for operand in operation.operands
                                                      if isinstance(operand.type, VectorType)]):
            shape, form = self.computing(shape_of(vectors[0]))
        if form is None or (form == ROW and not formed):
            if not formed:
                super().copy(operation)
                return
            operands, types = list(map(self.line, operation.operands)), [result.type for result in operation.results]
        else:
            self._check_blocks(operation, vectors, form)
            operands = [self.in_shape(operand, shape) if operand in vectors else self.single(operand)
                        for operand in operation.operands]
            like = operands[operation.operands.index(vectors[0])].type
            types = [self.part_type(result.type, like) for result in operation.results]
        new_op = self.like(operation, operands, types)
        for before, after in zip(operation.results, new_op.results, strict=True):
            self.set(before, after, form)

    def _check_blocks(self, operation: Operation, vectors: Sequence[SSAValue], form: str) -> None:
        """Refuse words that are no block which is loaded, or put together from such."""
        for value in vectors:
            if form == BLOCK and self.lookup(value).encoding != BLOCK:
                self.fail("XT3520", f"{operation.name} takes words that are not loaded from a block",
                          "compute with two dimensions; dpas packs what it needs", operand=value)


def _create_nd_tdesc(rewriter: _NormalizeRewriter, operation: CreateNdTdescOp) -> None:
    desc, array = desc_of(operation.result), array_at(operation.source)
    source = rewriter.single(operation.source if array is None else array)
    if len(desc.shape) == 2:
        offsets, sizes, strides = ([rewriter.single(value) for value in group] for group in
                                   (operation.offsets, operation.shape, operation.strides))
        type_ = operation.result.type
    else:
        offsets = [rewriter.constant(0), rewriter.single(operation.offsets[0])]
        sizes, strides = _endless(rewriter, source)
        type_ = TensorDescType(replace(desc, shape=(1, *desc.shape)))
    assert isinstance(type_, TensorDescType)
    new_op = CreateNdTdescOp(source, offsets, sizes, strides, type_)
    new_op.attributes.update(operation.attributes)
    rewriter.set(operation.result, rewriter.emit(new_op))


def _endless(rewriter: _NormalizeRewriter, source: SSAValue) -> tuple[list[SSAValue], list[SSAValue]]:
    """Sizes and strides of memory seen as one row: without an end, but for shared local memory."""
    length = ENDLESS
    step = rewriter.constant(1)
    if isinstance(source.type, MemRefType):
        static = static_form(source.type)
        if is_shared(source.type) and static is not None:
            length = prod(static[0])
        elif static is None:
            metadata = ExtractStridedMetaDataOp(source)
            rewriter.emit(metadata)
            step = metadata.strides[0]
        else:
            step = rewriter.constant(static[1][0])
    return [rewriter.constant(1), rewriter.constant(length)], [rewriter.constant(length), step]


def _create_tdesc(rewriter: _NormalizeRewriter, operation: CreateTdescOp) -> None:
    array = array_at(operation.source)
    source = rewriter.single(operation.source if array is None else array)
    new_op = CreateTdescOp(source, rewriter.line(operation.offsets), operation.result.type)  # type: ignore
    rewriter.set(operation.result, rewriter.emit(new_op))


def _extract_aligned_pointer_as_index(rewriter: _NormalizeRewriter, operation: ExtractAlignedPointerAsIndexOp) -> None:
    """The address of an array: descriptors on it stand on the array itself, and nothing else has a use for it."""
    waiting = [operation.aligned_pointer]
    while waiting:
        for use in waiting.pop().uses:
            if use.operation.name in CASTS:
                waiting += use.operation.results
            elif not isinstance(use.operation, (CreateNdTdescOp, CreateTdescOp)):
                rewriter.fail("XT3033",
                           f"the address of an array is for descriptors on it, and not for {use.operation.name}",
                           "give the distance as offsets of the descriptor, in elements")
    rewriter.set(operation.aligned_pointer, rewriter.constant(0))


def _update_nd_offset(rewriter: _NormalizeRewriter, operation: UpdateNdOffsetOp) -> None:
    offsets = [rewriter.single(offset) for offset in operation.offsets]
    if len(offsets) == 1:
        offsets = [rewriter.constant(0), *offsets]
    new_op = UpdateNdOffsetOp(rewriter.single(operation.desc), offsets)
    new_op.attributes.update(operation.attributes)
    rewriter.set(operation.result, rewriter.emit(new_op))


def _load_nd(rewriter: _NormalizeRewriter, operation: LoadNdOp) -> None:
    desc = rewriter.single(operation.desc)
    if len(desc_of(operation.desc).shape) == 1:
        shape = loaded_shape(desc_of(desc), False)
        rewriter.retyped(operation, VectorType(desc_of(desc).element_type, shape), ROW)
    elif rewriter.unpacks and operation.packed is not None and len(shape_of(operation.result)) == 3:
        shape, form = rewriter.computing(shape_of(operation.result))
        new_op = LoadNdOp.create(operands=[desc], result_types=[VectorType(desc_of(desc).element_type, shape)],
                                 properties={name: value for name, value in operation.properties.items()
                                             if name != "packed"}, attributes=dict(operation.attributes))
        rewriter.emit(new_op)
        rewriter.set(operation.result, new_op.result, form)
    else:
        rewriter.copy(operation)


def _store_nd(rewriter: _NormalizeRewriter, operation: StoreNdOp) -> None:
    desc = rewriter.single(operation.desc)
    value = rewriter.line(operation.value)
    if len(desc_of(operation.desc).shape) == 1:
        value = rewriter.in_shape(operation.value, loaded_shape(desc_of(desc), False))
    new_op = StoreNdOp.create(operands=[value, desc], properties=dict(operation.properties),
                              attributes=dict(operation.attributes))
    rewriter.emit(new_op)


def _shape_cast(rewriter: _NormalizeRewriter, operation: ShapeCastOp) -> None:
    """A cast between a line and a row of two dimensions is nothing."""
    source, shape = rewriter.lookup(operation.source), shape_of(operation.result)
    if not rewriter.of_lanes and source.encoding is None and (1, *shape) == shape_of(source.values[0]):
        rewriter.set(operation.result, source.values[0], ROW)
        return
    if source.encoding == ROW and shape_of(source.values[0]) == shape:
        rewriter.set(operation.result, source.values[0])
        return
    rewriter.set(operation.result, rewriter.emit(ShapeCastOp(rewriter.line(operation.source), shape)))


def _dpas(rewriter: _NormalizeRewriter, operation: DpasOp) -> None:
    a, shape = rewriter.line(operation.a), shape_of(operation.a)
    if len(shape) == 3:
        flat, owner = (shape[0], shape[1] * shape[2]), a.owner
        a = owner.source if isinstance(owner, ShapeCastOp) and shape_of(owner.source) == flat else \
            rewriter.emit(ShapeCastOp(a, flat))
    acc = None if operation.acc is None else rewriter.line(operation.acc)
    b = rewriter.single(operation.b) if rewriter.lookup(operation.b).encoding == BLOCK else rewriter.line(operation.b)
    new_op = DpasOp(a, b, acc, operation.result.type, operation.maps)
    rewriter.set(operation.result, rewriter.emit(new_op))


def _broadcast(rewriter: _NormalizeRewriter, operation: BroadcastOp) -> None:
    if isinstance(operation.source.type, VectorType):
        rewriter.copy(operation)
        return
    rewriter.fill(operation.vector, rewriter.single(operation.source))


def _constant(rewriter: _NormalizeRewriter, operation: arith.ConstantOp) -> None:
    """A vector of one number as a broadcast of it."""
    dense = operation.value
    if not isinstance(operation.result.type, VectorType) or not isinstance(dense, DenseIntOrFPElementsAttr):
        rewriter.copy(operation)
        return
    elements = list(dense.get_attrs())
    if len(set(elements)) != 1:
        _differing(rewriter, operation, elements)
        return
    rewriter.fill(operation.result, rewriter.emit(arith.ConstantOp(elements[0])))  # type: ignore[arg-type]


def _differing(rewriter: _NormalizeRewriter, operation: arith.ConstantOp, elements: list[Any]) -> None:
    old = shape_of(operation.result)
    shape, form = rewriter.computing(old)
    if rewriter.of_lanes:  # registers of a lane
        type_ = VectorType(elements[0].type, shape)
        rewriter.set(operation.result, rewriter.emit(arith.ConstantOp(
            DenseIntOrFPElementsAttr.from_list(type_, [each.value.data for each in elements]))), form)
        return
    rows, columns = shape
    if form == BLOCK:  # the elements of a word are one below the other
        *_, depth = old
        elements = [elements[(row // depth * columns + column) * depth + row % depth]
                    for row in range(rows) for column in range(columns)]
    rewriter.set(operation.result, dense_constant(rewriter, (rows, columns), elements), form)


_RULES: dict[type[Operation], Rule] = {
    CreateNdTdescOp: _create_nd_tdesc, UpdateNdOffsetOp: _update_nd_offset, LoadNdOp: _load_nd, StoreNdOp: _store_nd,
    ShapeCastOp: _shape_cast,
    DpasOp: _dpas, BroadcastOp: _broadcast, arith.ConstantOp: _constant,
    CreateTdescOp: _create_tdesc, ExtractAlignedPointerAsIndexOp: _extract_aligned_pointer_as_index,
}
