"""Operation definitions: xDSL's ``irdl_op_definition`` with assembly formats that are parsed lazily.

Named operands and results, and the verification of the declared constraints, take less time than xDSL's own; they are
asked for some thousand times in a kernel's lowering.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from xdsl.dialects.builtin import i32
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, OpDef, irdl_op_definition
from xdsl.irdl.declarative_assembly_format import FormatProgram
from xdsl.irdl.operations import (
    BeforeVariadicSingleAccessor,
    SingleAttrAccessor,
    VariadicAttrAccessor,
    VarIRConstruct,
    get_op_constructs,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import OpTrait
from xdsl.utils.exceptions import VerifyException

from xegpu.support.errors import error_parts, misread

Kind = TypeVar("Kind", bound=IRDLOperation)


def operation_definition(kind: type[Kind]) -> type[Kind]:
    """Class decorator: ``irdl_op_definition`` with an assembly format that is parsed at its first use.

    Most programs read and print no IR, and those that do use a part of all operations.
    """
    text, verify = kind.__dict__.get("assembly_format"), kind.verify_
    if text is not None:
        del kind.assembly_format
    definition = irdl_op_definition(kind)
    for name, accessor in [*vars(definition).items()]:
        if type(accessor) in _ACCESSORS:
            setattr(definition, name, _ACCESSORS[type(accessor)](**vars(accessor)))
    definition.verify_ = _verifier(definition.get_irdl_definition(), verify)  # type: ignore[method-assign, assignment]
    if text is None:
        return definition
    definition.get_irdl_definition().assembly_format = text
    definition.parse = classmethod(_parse)  # type: ignore[assignment]
    definition.print = _print  # type: ignore[method-assign, assignment]
    return definition


def _verifier(declared: OpDef, verify: Callable[[Any], None]) -> Callable[[Any], None]:
    """The verifier of a class: its declared constraints, then its own ``verify_``."""
    depends_on_place = any(type(trait).verify is not OpTrait.verify for trait in declared.traits) or \
        declared.regions or declared.successors

    def verify_(operation: IRDLOperation) -> None:
        if depends_on_place:
            declared.verify(operation)
        else:
            _verify_declared(operation, declared)
        verify(operation)

    return verify_


_MOST_FORMS = 4096
_forms: dict[tuple[Any, ...], tuple[Any, ...]] = {}
"""Forms of operations that fit their declarations: classes, types and attributes, which are immutable, by identity."""


def _verify_declared(operation: IRDLOperation, declared: OpDef) -> None:
    """Verify the constraints on types, properties and attributes, once for each form."""
    parts = (type(operation), *[operand.type for operand in operation._operands], None,
             *[result.type for result in operation.results], None, *operation.properties.values(), None,
             *operation.attributes.values())
    form = (*map(id, parts), *operation.properties, *operation.attributes)
    if form in _forms:
        return
    declared.verify(operation)
    if len(_forms) >= _MOST_FORMS:
        _forms.clear()
    _forms[form] = parts  # keeps them alive: no other object may take their place in memory


class _SingleAccessor(BeforeVariadicSingleAccessor):
    """A named operand or result in front of all variadic ones."""

    def __get__(self, obj: Operation, objtype: Any = None) -> Any:
        if self.construct is VarIRConstruct.OPERAND:
            return tuple.__getitem__(obj._operands, self.idx)
        if self.construct is VarIRConstruct.RESULT:
            return tuple.__getitem__(obj.results, self.idx)
        return super().__get__(obj, objtype)


class _SegmentAccessor(VariadicAttrAccessor):
    """Named operands or results whose number is in an attribute."""

    def __get__(self, obj: Operation, objtype: Any = None) -> Any:
        sizes = self.option.container(obj)[self.option.attribute_name]
        return self.index(_segments(sizes.data.data), get_op_constructs(obj, self.construct))  # type: ignore[attr-defined]


class _SingleSegmentAccessor(SingleAttrAccessor):
    """A named operand or result of an operation with several variadic ones, whose numbers are in an attribute."""

    __get__ = _SegmentAccessor.__get__  # type: ignore[assignment]


@cache
def _segments(data: bytes) -> tuple[int, ...]:
    """Sizes of segments, of the bytes of an array of i32."""
    return i32.unpack(data, len(data) // 4)


_ACCESSORS: dict[type[Any], type[Any]] = {
    BeforeVariadicSingleAccessor: _SingleAccessor, VariadicAttrAccessor: _SegmentAccessor,
    SingleAttrAccessor: _SingleSegmentAccessor}


@cache
def format_of(kind: type[IRDLOperation]) -> FormatProgram:
    """Parsed assembly format of an operation.

    Raises:
        ParseError: the operation's format string is malformed.
    """
    definition = kind.get_irdl_definition()
    assert definition.assembly_format is not None
    from xegpu.ir.assembly_format import PropDictParser  # on first use, as xDSL imports its own

    return PropDictParser(definition.assembly_format, definition).parse_format()


def _parse(kind: type[Kind], parser: Parser) -> Kind:
    try:
        return format_of(kind).parse(parser, kind)
    except VerifyException as error:  # a type that is not of the operation's declaration
        code, message, hint = error_parts(error)
        misread(parser, code, f"{kind.name}: {message}\n{hint}")


def _print(operation: IRDLOperation, printer: Printer) -> None:
    format_of(type(operation)).print(printer, operation)
