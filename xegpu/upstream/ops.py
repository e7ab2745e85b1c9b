"""Operations of LLVM's XeGPU dialect, as LLVM 23 has them.

Descriptors stand on whole arrays; the operations that move data say where. Up to LLVM 22 a descriptor had offsets of
its own and was moved by ``update_nd_offset``; that spelling is read too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    MemRefType,
    UnitAttr,
    VectorType,
    i64,
)
from xdsl.dialects.utils.dynamic_index_list import (
    get_dynamic_index_list,
    parse_dynamic_index_list_without_types,
    print_dynamic_index_list,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    base,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from xegpu.dtypes import of_mlir
from xegpu.upstream.attributes import CacheHintAttr, Desc, DescType, LayoutAttr, SliceAttr

DESC = base(DescType)
VECTOR = base(VectorType)
LAYOUT = base(LayoutAttr) | base(SliceAttr)
HINTS = ("l1_hint", "l2_hint", "l3_hint")
Operands = list[SSAValue | Sequence[SSAValue]]
Mixed = Sequence[SSAValue | int]
"""Indices, some of them literal."""


def desc_of(value: SSAValue) -> Desc:
    """The parameters of the descriptor that ``value`` is."""
    assert isinstance(value.type, DescType)
    return value.type.data


def _shape(value: SSAValue) -> tuple[int, ...]:
    return value.type.get_shape()  # type: ignore[attr-defined,no-any-return]


def _split(values: Mixed) -> tuple[list[SSAValue], DenseArrayBase]:
    """The values among ``values``, and all of them as literals with a mark where a value stands."""
    literal = [value if isinstance(value, int) else DYNAMIC_INDEX for value in values]
    return [value for value in values if not isinstance(value, int)], DenseArrayBase.from_list(i64, literal)


def _joined(values: Sequence[SSAValue], literals: Any) -> list[SSAValue | int]:
    if literals is None:
        return list(values)
    return get_dynamic_index_list(literals.get_values(), values, DYNAMIC_INDEX)


def _parse_mixed(parser: Parser) -> tuple[Sequence[UnresolvedOperand], DenseArrayBase]:
    values, literals = parse_dynamic_index_list_without_types(parser, DYNAMIC_INDEX)
    return values, DenseArrayBase.from_list(i64, literals)


def _print_mixed(printer: Printer, values: Sequence[SSAValue], literals: Any) -> None:
    integers = [DYNAMIC_INDEX] * len(values) if literals is None else literals.get_values()
    print_dynamic_index_list(printer, DYNAMIC_INDEX, values, integers)


def _indices(parser: Parser, values: Sequence[UnresolvedOperand]) -> list[SSAValue]:
    return [parser.resolve_operand(value, IndexType()) for value in values]


def _parse_properties(parser: Parser) -> dict[str, Attribute]:
    """``<{packed}>``, or the same without angle brackets as older versions print it."""
    if parser.parse_optional_punctuation("<"):
        given = parser.parse_optional_attr_dict()
        parser.parse_punctuation(">")
        return dict(given)
    return dict(parser.parse_optional_attr_dict())


def _print_properties(printer: Printer, given: dict[str, Attribute]) -> None:
    if given:
        printer.print_string(" <{")
        printer.print_list(given.items(), lambda pair: _print_property(printer, *pair))
        printer.print_string("}>")


def _print_property(printer: Printer, name: str, value: Attribute) -> None:
    printer.print_string(name)
    if not isinstance(value, UnitAttr):
        printer.print_string(" = ")
        printer.print_attribute(value)


@irdl_op_definition
class CreateNdTdescOp(IRDLOperation):
    """A descriptor of blocks of an array, which may be a memref or an address with sizes and strides."""

    name = "xegpu.create_nd_tdesc"
    source = operand_def(Attribute)
    offsets = var_operand_def(IndexType)
    shape = var_operand_def(IndexType)
    strides = var_operand_def(IndexType)
    const_offsets = opt_prop_def(DenseArrayBase)
    const_shape = opt_prop_def(DenseArrayBase)
    const_strides = opt_prop_def(DenseArrayBase)
    result = result_def(DESC)
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    traits = traits_def(Pure())

    def __init__(self, source: SSAValue, shape: Mixed, strides: Mixed, result: DescType) -> None:
        (sizes, const_shape), (steps, const_strides) = _split(shape), _split(strides)
        super().__init__(operands=[source, [], sizes, steps], result_types=[result],
                         properties={"const_shape": const_shape, "const_strides": const_strides} if shape else {})

    @property
    def starts(self) -> list[SSAValue | int]:
        """The descriptor's own offsets, empty in the present form."""
        return _joined(self.offsets, self.const_offsets)

    @property
    def sizes(self) -> list[SSAValue | int]:
        """The array's sizes, empty if its type tells them."""
        return _joined(self.shape, self.const_shape)

    @property
    def steps(self) -> list[SSAValue | int]:
        """The array's strides, empty if its type tells them."""
        return _joined(self.strides, self.const_strides)

    @classmethod
    def parse(cls, parser: Parser) -> CreateNdTdescOp:
        source = parser.parse_unresolved_operand()
        groups: dict[str, tuple[Sequence[UnresolvedOperand], DenseArrayBase]] = {}
        if parser._current_token.text == "[":
            groups["offsets"] = _parse_mixed(parser)
        while parser.parse_optional_punctuation(","):
            word = parser.parse_optional_keyword("shape") or parser.parse_optional_keyword("strides")
            if word is not None:  # up to LLVM 20 both groups had no names
                parser.parse_punctuation(":")
            groups[word or ("strides" if "shape" in groups else "shape")] = _parse_mixed(parser)
        parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        source_type = parser.parse_type()
        parser.parse_punctuation("->")
        result = parser.parse_type()
        values = {name: _indices(parser, given) for name, (given, _) in groups.items()}
        return cls.build(
            operands=[parser.resolve_operand(source, source_type), *(values.get(name, []) for name in _GROUPS)],
            result_types=[result],
            properties={f"const_{name}": literals for name, (_, literals) in groups.items()})

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.source)
        if self.starts:
            _print_mixed(printer, self.offsets, self.const_offsets)
        for name, values, literals in (("shape", self.shape, self.const_shape),
                                       ("strides", self.strides, self.const_strides)):
            if values or literals is not None:
                printer.print_string(f", {name} : ")
                _print_mixed(printer, values, literals)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)

    def verify_(self) -> None:
        desc, source = desc_of(self.result), self.source.type
        if len(self.sizes) != len(self.steps):
            raise VerifyException(f"{len(self.sizes)} sizes and {len(self.steps)} strides\n"
                                  "give one of each a dimension")
        if not isinstance(source, MemRefType):
            if not self.sizes:
                raise VerifyException("an address says nothing of its array\ngive shape : [...], strides : [...]")
            return
        if source.element_type != desc.element_type:
            raise VerifyException(f"a tensor_desc of {desc.element_type} cannot describe a {source}\n"
                                  f"make it one of {source.element_type}")
        if len(desc.shape) > len(source.get_shape()):
            raise VerifyException(f"a tensor_desc of {len(desc.shape)} dimensions on a {source}\n"
                                  "it has at most as many dimensions as the array")
        if self.sizes and len(self.sizes) != len(source.get_shape()):
            raise VerifyException(f"{len(self.sizes)} sizes for a {source}\ngive one a dimension")


_GROUPS = ("offsets", "shape", "strides")


@irdl_op_definition
class UpdateNdOffsetOp(IRDLOperation):
    """The descriptor moved; up to LLVM 22."""

    name = "xegpu.update_nd_offset"
    desc = operand_def(DESC)
    offsets = var_operand_def(IndexType)
    const_offsets = opt_prop_def(DenseArrayBase)
    result = result_def(DESC)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())

    @property
    def starts(self) -> list[SSAValue | int]:
        """By how much it is moved."""
        return _joined(self.offsets, self.const_offsets)

    @classmethod
    def parse(cls, parser: Parser) -> UpdateNdOffsetOp:
        desc = parser.parse_unresolved_operand()
        parser.parse_optional_punctuation(",")
        values, literals = _parse_mixed(parser)
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        if parser.parse_optional_punctuation("->"):
            parser.parse_type()
        return cls.build(operands=[parser.resolve_operand(desc, type_), _indices(parser, values)],
                         result_types=[type_], properties={"const_offsets": literals})

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.desc)
        printer.print_string(", ")
        _print_mixed(printer, self.offsets, self.const_offsets)
        printer.print_string(" : ")
        printer.print_attribute(self.desc.type)

    def verify_(self) -> None:
        if len(self.starts) != len(desc_of(self.desc).shape):
            raise VerifyException(f"{len(self.starts)} offsets for {self.desc.type}\ngive one a dimension")


class MovementOp(IRDLOperation):
    """What load, store and prefetch have in common: a descriptor, where on it, cache hints, a layout."""

    desc = operand_def(DESC)
    offsets = var_operand_def(IndexType)
    const_offsets = opt_prop_def(DenseArrayBase)
    l1_hint = opt_prop_def(CacheHintAttr)
    l2_hint = opt_prop_def(CacheHintAttr)
    l3_hint = opt_prop_def(CacheHintAttr)
    layout = opt_prop_def(LAYOUT)
    irdl_options = (ParsePropInAttrDict(),)

    @property
    def starts(self) -> list[SSAValue | int]:
        """Where on the array the block stands; empty up to LLVM 22, where the descriptor says it."""
        return _joined(self.offsets, self.const_offsets)

    def _words(self) -> dict[str, Attribute]:
        return {name: value for name, value in self.properties.items() if name != "const_offsets"}

    def _print_place(self, printer: Printer) -> None:
        printer.print_operand(self.desc)
        if self.starts:
            _print_mixed(printer, self.offsets, self.const_offsets)
        _print_properties(printer, self._words())
        printer.print_string(" : ")

    def verify_(self) -> None:
        desc = desc_of(self.desc)
        if self.starts and len(self.starts) < len(desc.shape):
            raise VerifyException(f"{len(self.starts)} offsets for {self.desc.type}\ngive one a dimension")
        if isinstance(self.layout, LayoutAttr):
            self.layout.data.check(desc.shape)


def _parse_place(parser: Parser) -> tuple[UnresolvedOperand, Sequence[UnresolvedOperand], dict[str, Attribute]]:
    """``%d[%i, 8] <{...}> :``: the descriptor, its offsets, the properties."""
    desc = parser.parse_unresolved_operand()
    values: Sequence[UnresolvedOperand] = ()
    properties: dict[str, Attribute] = {}
    if parser._current_token.text == "[":
        values, properties["const_offsets"] = _parse_mixed(parser)
    properties |= _parse_properties(parser)
    parser.parse_punctuation(":")
    return desc, values, properties


@irdl_op_definition
class LoadNdOp(MovementOp):
    """``load_nd %d[%i, %j] <{packed}> : !xegpu.tensor_desc<16x16xbf16> -> vector<8x16x2xbf16>``."""

    name = "xegpu.load_nd"
    packed = opt_prop_def(UnitAttr)
    transpose = opt_prop_def(DenseArrayBase)
    transpose_bit_width = opt_prop_def(IntegerAttr)
    result = result_def(VECTOR)

    def __init__(self, desc: SSAValue, offsets: Mixed, result: Attribute, transpose: bool = False,
                 layout: Attribute | None = None) -> None:
        values, literals = _split(offsets)
        turned = DenseArrayBase.from_list(i64, [1, 0]) if transpose else None
        super().__init__(operands=[desc, values], result_types=[result],
                         properties={"const_offsets": literals, "transpose": turned, "layout": layout})

    @classmethod
    def parse(cls, parser: Parser) -> LoadNdOp:
        desc, values, properties = _parse_place(parser)
        type_ = parser.parse_type()
        parser.parse_punctuation("->")
        result = parser.parse_type()
        return cls.build(operands=[parser.resolve_operand(desc, type_), _indices(parser, values)],
                         result_types=[result], properties=properties)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        self._print_place(printer)
        printer.print_attribute(self.desc.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)

    def verify_(self) -> None:
        super().verify_()
        desc = desc_of(self.desc)
        if self.packed is not None and self.transpose is not None:
            raise VerifyException("a load cannot be packed and transposed\nchoose one")
        if self.transpose is not None and tuple(self.transpose.get_values()) != (1, 0):
            raise VerifyException("transpose exchanges the two dimensions\nwrite transpose = array<i64: 1, 0>")
        if self.packed is not None and (desc.dtype.bits >= 32 or len(desc.shape) != 2):
            raise VerifyException(f"a block of {self.desc.type} cannot be packed in words of 32 bits\n"
                                  "packed is for two dimensions of a type of 8 or 16 bits")
        shape = desc.loaded(self.packed is not None)
        if self.transpose is not None:
            shape = (*shape[:-2], *reversed(shape[-2:]))
        if len(_shape(self.result)) > 1 and _shape(self.result) != shape:
            raise VerifyException(f"this load gives {list(shape)}, not {list(_shape(self.result))}\n"
                                  "change the type of the result, or of the tensor_desc")
        if self.result.type.element_type != desc.element_type:  # type: ignore[attr-defined]
            raise VerifyException(f"{self.desc.type} does not give {self.result.type}\nelement types must agree")


@irdl_op_definition
class StoreNdOp(MovementOp):
    """``store_nd %v, %d[%i, %j] : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>``."""

    name = "xegpu.store_nd"
    value = operand_def(VECTOR)

    def __init__(self, value: SSAValue, desc: SSAValue, offsets: Mixed, layout: Attribute | None = None) -> None:
        values, literals = _split(offsets)
        super().__init__(operands=[value, desc, values], properties={"const_offsets": literals, "layout": layout})

    @classmethod
    def parse(cls, parser: Parser) -> StoreNdOp:
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        desc, values, properties = _parse_place(parser)
        value_type = parser.parse_type()
        parser.parse_punctuation(",")
        type_ = parser.parse_type()
        operands: Operands = [parser.resolve_operand(value, value_type), parser.resolve_operand(desc, type_),
                    _indices(parser, values)]
        return cls.build(operands=operands, properties=properties)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.value)
        printer.print_string(", ")
        self._print_place(printer)
        printer.print_attribute(self.value.type)
        printer.print_string(", ")
        printer.print_attribute(self.desc.type)

    def verify_(self) -> None:
        super().verify_()
        desc = desc_of(self.desc)
        if len(_shape(self.value)) > 1 and _shape(self.value) != desc.loaded():
            raise VerifyException(f"{self.desc.type} stores {list(desc.loaded())}, not {list(_shape(self.value))}\n"
                                  "change the type of the vector, or of the tensor_desc")
        if self.value.type.element_type != desc.element_type:  # type: ignore[attr-defined]
            raise VerifyException(f"{self.desc.type} does not store {self.value.type}\nelement types must agree")


@irdl_op_definition
class PrefetchNdOp(MovementOp):
    """``prefetch_nd %d[%i, %j] <{l1_hint = #xegpu.cache_hint<cached>}> : !xegpu.tensor_desc<...>``."""

    name = "xegpu.prefetch_nd"

    def __init__(self, desc: SSAValue, offsets: Mixed, layout: Attribute | None = None) -> None:
        values, literals = _split(offsets)
        cached = CacheHintAttr("cached")
        super().__init__(operands=[desc, values], properties={"const_offsets": literals, "l1_hint": cached,
                                                              "l2_hint": cached, "layout": layout})

    @classmethod
    def parse(cls, parser: Parser) -> PrefetchNdOp:
        desc, values, properties = _parse_place(parser)
        operands: Operands = [parser.resolve_operand(desc, parser.parse_type()), _indices(parser, values)]
        return cls.build(operands=operands, properties=properties)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        self._print_place(printer)
        printer.print_attribute(self.desc.type)


@irdl_op_definition
class DpasOp(IRDLOperation):
    """``dpas %a, %b, %c {layout_a = ..., layout_b = ..., layout_cd = ...} : ... -> vector<8x16xf32>``."""

    name = "xegpu.dpas"
    a = operand_def(VECTOR)
    b = operand_def(VECTOR)
    acc = opt_operand_def(VECTOR)
    layout_a = opt_prop_def(LAYOUT)
    layout_b = opt_prop_def(LAYOUT)
    layout_cd = opt_prop_def(LAYOUT)
    result = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = (
        "$a `,` $b (`,` $acc^)? attr-dict `:` type($a) `,` type($b) (`,` type($acc)^)? `->` type($result)"
    )

    def __init__(self, a: SSAValue, b: SSAValue, acc: SSAValue | None, result: Attribute,
                 layouts: Sequence[LayoutAttr] = ()) -> None:
        names = ("layout_a", "layout_b", "layout_cd")
        super().__init__(operands=[a, b, [] if acc is None else [acc]], result_types=[result],
                         properties=dict(zip(names, layouts, strict=False)))

    def verify_(self) -> None:
        if self.acc is not None and self.acc.type != self.result.type:
            raise VerifyException(f"the accumulator is {self.acc.type} and the result {self.result.type}\n"
                                  "make them equal")
        if self.a.type.element_type != self.b.type.element_type:  # type: ignore[attr-defined]
            raise VerifyException(f"A is {self.a.type} and B {self.b.type}\nLLVM's dpas takes two operands of one type")
        a, b, c = _shape(self.a), _shape(self.b), _shape(self.result)
        if len(c) == 1:  # a lane's fragments say nothing of the block
            return
        if len(a) != 2 or len(b) not in (2, 3) or len(c) != 2:
            raise VerifyException("A and the result have two dimensions, B two, or three in VNNI form\n"
                                  "cast the operands")
        depth = b[0] * (b[2] if len(b) == 3 else 1)
        if (a[0], b[1]) != c or a[1] != depth:
            raise VerifyException(f"{self.a.type} times {self.b.type} is not {self.result.type}\n"
                                  f"with this A and this B it has {a[0]} rows and {b[1]} columns, and A has "
                                  f"{depth} columns")


@irdl_op_definition
class ConvertLayoutOp(IRDLOperation):
    """``convert_layout %v <{input_layout = ..., target_layout = ...}> : vector<256x256xf32>``."""

    name = "xegpu.convert_layout"
    source = operand_def(VECTOR)
    input_layout = opt_prop_def(LAYOUT)
    target_layout = prop_def(LAYOUT)
    result = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> ConvertLayoutOp:
        source = parser.parse_unresolved_operand()
        properties = _parse_properties(parser)
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        return cls.build(operands=[parser.resolve_operand(source, type_)], result_types=[type_],
                         properties=properties)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.source)
        _print_properties(printer, dict(self.properties))
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)

    def __init__(self, source: SSAValue, source_layout: LayoutAttr | None, target_layout: LayoutAttr) -> None:
        super().__init__(operands=[source], result_types=[source.type],
                         properties={"input_layout": source_layout, "target_layout": target_layout})


def bits_of(value: SSAValue) -> int:
    """Bits of an element of the vector that ``value`` is."""
    return of_mlir(value.type.element_type).bits  # type: ignore[attr-defined]


OPERATIONS: list[type[Operation]] = [CreateNdTdescOp, UpdateNdOffsetOp, LoadNdOp, StoreNdOp, PrefetchNdOp, DpasOp,
                                     ConvertLayoutOp]
