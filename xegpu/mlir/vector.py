"""Operations of MLIR's vector dialect that xDSL does not define."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, ClassVar

from xdsl.dialects import vector as xdsl_vector
from xdsl.dialects.builtin import DYNAMIC_INDEX, ArrayAttr, DenseArrayBase, IndexType, IntegerAttr, VectorType, i64
from xdsl.dialects.utils import split_dynamic_index_list, verify_dynamic_index_list
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    base,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from xegpu.ir.create import initialize
from xegpu.ir.op_definition import operation_definition
from xegpu.ir.record import MOVED, Record
from xegpu.support.errors import Invalid

VECTOR = base(VectorType)
IntegersAttr = ArrayAttr[IntegerAttr]


def integers(values: Sequence[int]) -> IntegersAttr:
    """Uniqued array attribute of 64-bit integers: ``[8, 0]``; construction in xDSL is slow."""
    return _integers(tuple(values))


@lru_cache(maxsize=4096)
def _integers(values: tuple[int, ...]) -> IntegersAttr:
    return ArrayAttr([IntegerAttr(value, i64) for value in values])


@lru_cache(maxsize=4096)
def _positions(values: tuple[int, ...]) -> DenseArrayBase[Any]:
    return DenseArrayBase.from_list(i64, values)


def values_of(attribute: IntegersAttr) -> tuple[int, ...]:
    """Integers of an array attribute: the inverse of :func:`integers`."""
    return tuple(value.value.data for value in attribute)


def vector_type(shape: Sequence[int], element_type: Attribute) -> VectorType[Attribute]:
    """Uniqued vector type of a shape and an element type; construction in xDSL is slow."""
    return _vector_type(tuple(shape), element_type)


@lru_cache(maxsize=4096)
def _vector_type(shape: tuple[int, ...], element_type: Attribute) -> VectorType[Attribute]:
    return VectorType(element_type, shape)


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """Shape of a vector value."""
    assert isinstance(value.type, VectorType)
    return value.type.get_shape()


class UnaryVectorOp(IRDLOperation):
    """Base of operations that make one vector of another: operand, result and syntax."""

    source = operand_def(VECTOR)
    result = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"


def shape_of_type(type_: Attribute) -> tuple[int, ...]:
    """Shape of a vector type; that of any other type is ``()``."""
    return type_.get_shape() if isinstance(type_, VectorType) else ()


def _same_elements(source: SSAValue, result: SSAValue) -> None:
    if source.type.element_type != result.type.element_type:  # type: ignore[attr-defined]
        raise Invalid("XT3227", f"{source.type} and {result.type} hold different elements\n"
                      "convert them by an operation of arith, before or behind it")


def check_slice(sizes: Sequence[int], offsets: Sequence[int], shape: Sequence[int]) -> None:
    """Verify that a slice of ``sizes`` at ``offsets`` is inside a vector of ``shape``."""
    if any(start < 0 or start + size > extent for start, size, extent in zip(offsets, sizes, shape, strict=True)):
        raise Invalid("XT3220", f"a slice of {_by(sizes)} at {list(offsets)} leaves a vector of {_by(shape)}\n"
                      "offset and size together are at most the vector's size, in each dimension")


def _by(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


@irdl_op_definition
class ExtractOp(IRDLOperation):
    """``vector.extract``: a vector or an element at a position; xDSL's takes MLIR's numbers only, and no pairs."""

    name = "vector.extract"
    RECORD: ClassVar[Record] = MOVED
    static_position = prop_def(DenseArrayBase.constr(i64))
    vector = operand_def(VECTOR)
    dynamic_position = var_operand_def(IndexType)
    result = result_def(Attribute)
    traits = traits_def(Pure())
    assembly_format = xdsl_vector.ExtractOp.assembly_format
    custom_directives = xdsl_vector.ExtractOp.custom_directives

    def __init__(self, vector: SSAValue, positions: Sequence[SSAValue | int], result_type: Attribute) -> None:
        static, dynamic = split_dynamic_index_list(positions, DYNAMIC_INDEX)
        initialize(self, [vector, *dynamic], [result_type], {"static_position": _positions(tuple(static))})

    def verify_(self) -> None:
        source, result = self.vector.type, self.result.type
        assert isinstance(source, VectorType)
        static = self.static_position.get_values()
        verify_dynamic_index_list(static, self.dynamic_position, DYNAMIC_INDEX)
        rest = source.get_shape()[len(static):]
        wanted = vector_type(rest, source.element_type) if rest else source.element_type
        if (not static and source.get_shape()) or result != wanted:
            raise Invalid("XT3234", f"position {list(static)} of {source} holds no {result}\nwrite {wanted}")


@operation_definition
class ExtractStridedSliceOp(IRDLOperation):
    """``vector.extract_strided_slice``: a contiguous part of a vector, of the same rank."""

    name = "vector.extract_strided_slice"
    RECORD: ClassVar[Record] = MOVED
    source = operand_def(VECTOR)
    offsets = prop_def(IntegersAttr)
    sizes = prop_def(IntegersAttr)
    strides = prop_def(IntegersAttr)
    result = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"

    def __init__(self, source: SSAValue, offsets: Sequence[int], sizes: Sequence[int]) -> None:
        element: Attribute = source.type.element_type  # type: ignore[attr-defined]
        initialize(self, [source], [vector_type(sizes, element)], {
            "offsets": integers(offsets), "sizes": integers(sizes), "strides": integers([1] * len(sizes))})

    def verify_(self) -> None:
        offsets, sizes = values_of(self.offsets), values_of(self.sizes)
        shape = self.source.type.get_shape()  # type: ignore[attr-defined]
        if not len(offsets) == len(sizes) == len(values_of(self.strides)) == len(shape):
            raise Invalid("XT3225", f"offsets {list(offsets)}, sizes {list(sizes)} and strides "
                          f"{list(values_of(self.strides))} of a vector of {_by(shape)}\n"
                          f"give {len(shape)} of each, one a dimension")
        check_slice(sizes, offsets, shape)
        if any(stride != 1 for stride in values_of(self.strides)):
            raise Invalid("XT3221", f"strides = {list(values_of(self.strides))} take elements that are not adjacent\n"
                          f"write strides = {[1] * len(sizes)}", alone=True)
        if self.result.type != (expected := vector_type(sizes, self.source.type.element_type)):  # type: ignore[attr-defined]
            raise Invalid("XT3226", f"a slice of {_by(sizes)} of {self.source.type} is no {self.result.type}\n"
                          f"write {expected}")


@operation_definition
class ShapeCastOp(IRDLOperation):
    """``vector.shape_cast``: the same elements in the same order, in another shape."""

    name = "vector.shape_cast"
    RECORD: ClassVar[Record] = MOVED
    source = operand_def(VECTOR)
    result = result_def(VECTOR)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"

    def __init__(self, source: SSAValue, shape: Sequence[int]) -> None:
        element: Attribute = source.type.element_type  # type: ignore[attr-defined]
        super().__init__(operands=[source], result_types=[vector_type(shape, element)])

    def verify_(self) -> None:
        source, result = (value.type.get_shape() for value in (self.source, self.result))  # type: ignore[attr-defined]
        if prod(source) != prod(result):
            raise Invalid("XT3222",
                          f"a vector of {_by(source)} holds {prod(source)} elements, and one of {_by(result)} "
                          f"{prod(result)}\na cast moves no element: give it as many in another shape")
        _same_elements(self.source, self.result)


@operation_definition
class TransposeOp(IRDLOperation):
    """``vector.transpose`` of a 2D vector."""

    name = "vector.transpose"
    RECORD: ClassVar[Record] = MOVED
    source = operand_def(VECTOR)
    permutation = prop_def(IntegersAttr)
    result = result_def(VECTOR)
    traits = traits_def(Pure())

    def __init__(self, source: SSAValue) -> None:
        type_ = source.type
        assert isinstance(type_, VectorType)
        super().__init__(operands=[source], result_types=[VectorType(type_.element_type, type_.get_shape()[::-1])],
                         properties={"permutation": integers((1, 0))})

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.source)
        printer.print_string(f", {list(values_of(self.permutation))}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)
        printer.print_string(" to ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> TransposeOp:
        source = parser.parse_unresolved_operand()
        permutation: Sequence[int] = (1, 0)
        if parser.parse_optional_punctuation(","):  # XeTile.md, Appendix 1, leaves it out
            permutation = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        operand = parser.resolve_operand(source, parser.parse_type())
        parser.parse_keyword("to")
        return cls.create(operands=[operand], result_types=[parser.parse_type()], attributes=attributes,
                          properties={"permutation": integers(permutation)})

    def verify_(self) -> None:
        source, result = (value.type.get_shape() for value in (self.source, self.result))  # type: ignore[attr-defined]
        if values_of(self.permutation) != (1, 0) or len(source) != 2:
            raise Invalid("XT3223",
                          f"{list(values_of(self.permutation))} of {self.source.type} does not exchange two "
                          f"dimensions\n"
                          "take a vector of two dimensions, and the permutation [1, 0]")
        _same_elements(self.source, self.result)
        if result != source[::-1]:
            raise Invalid("XT3224", f"the transpose of {_by(source)} is {_by(source[::-1])}, not {_by(result)}\n"
                          f"write {vector_type(source[::-1], self.source.type.element_type)}")  # type: ignore[attr-defined]


@operation_definition
class InsertStridedSliceOp(IRDLOperation):
    """``vector.insert_strided_slice``: ``dest`` with a contiguous part replaced by ``source``, of the same rank."""

    name = "vector.insert_strided_slice"
    RECORD: ClassVar[Record] = MOVED
    source = operand_def(VECTOR)
    dest = operand_def(VECTOR)
    offsets = prop_def(IntegersAttr)
    strides = prop_def(IntegersAttr)
    result = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$source `,` $dest attr-dict `:` type($source) `into` type($dest) `to` type($result)"

    def __init__(self, source: SSAValue, dest: SSAValue, offsets: Sequence[int]) -> None:
        super().__init__(operands=[source, dest], result_types=[dest.type],
                         properties={"offsets": integers(offsets), "strides": integers([1] * len(offsets))})

    def verify_(self) -> None:
        source, dest = self.source.type.get_shape(), self.dest.type.get_shape()  # type: ignore[attr-defined]
        if not len(values_of(self.offsets)) == len(source) == len(dest):
            raise Invalid("XT3225", f"a part of {_by(source)} at offsets {list(values_of(self.offsets))} of a vector "
                          f"of {_by(dest)}\ngive part and offsets {len(dest)} dimensions, as the vector has")
        _same_elements(self.source, self.dest)
        if self.result.type != self.dest.type:
            raise Invalid("XT3226", f"a part put into {self.dest.type} gives no {self.result.type}\n"
                          f"write {self.dest.type}")
        check_slice(source, values_of(self.offsets), dest)
