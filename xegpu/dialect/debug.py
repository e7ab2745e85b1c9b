"""Debug operations ``xegpu.print`` and ``xegpu.assert``. They go beyond the specification.

They are the same operations at every stage; vector operands are split with the other vectors. The last two vector
operands are the row and column indices of the elements, so that each part knows the coordinates of its elements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import ClassVar

from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr, StringAttr, VectorType, i64
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, ParsePropInAttrDict, opt_prop_def, prop_def, var_operand_def

from xegpu.ir.dtypes import DType, i1, of_mlir
from xegpu.ir.op_definition import operation_definition
from xegpu.ir.record import MOVED, Record
from xegpu.ir.traversal import of_kind
from xegpu.support.errors import CheckError, Invalid, plural
from xegpu.support.location import Location, author_location

_SPEC = re.compile(r"[-+ 0]?\d*(\.\d+)?[dxefg]?")
_LETTERS = {"i": "d", "x": "d", "u": "u", "f": "g"}


class DiagnosticOp(IRDLOperation):
    """Base of print and assertion: a message with values.

    Attributes:
        message: the text.
        values: scalars and vectors. With vectors, the last two are the row and column indices of their elements.
        lanes: in a distributed kernel, the number of leading lanes that hold distinct elements.
    """

    message = prop_def(StringAttr)
    values = var_operand_def()
    lanes = opt_prop_def(IntegerAttr)
    irdl_options = (ParsePropInAttrDict(),)

    def __init__(self, message: str, values: list[SSAValue], lanes: int | None = None) -> None:
        super().__init__(operands=[values], properties={
            "message": StringAttr(message), "lanes": None if lanes is None else IntegerAttr(lanes, i64)})

    @property
    def is_of_elements(self) -> bool:
        """Whether it applies to each element of vectors."""
        return any(isinstance(value.type, VectorType) for value in self.values)

    @property
    def shown(self) -> tuple[SSAValue, ...]:
        """The values without the row and column indices."""
        return tuple(self.values)[:-2] if self.is_of_elements else tuple(self.values)

    def verify_(self) -> None:
        shapes = {value.type.get_shape() for value in self.values if isinstance(value.type, VectorType)}
        if len(shapes) > 1:
            shown = " and ".join(sorted("x".join(map(str, shape)) for shape in shapes))
            raise Invalid("XT1704", f"the vectors have different shapes: {shown}\ngive vectors of one shape, or print "
                          "each by itself")
        if shapes and (len(self.values) < 3 or not all(isinstance(v.type, VectorType) for v in self.values[-2:])):
            raise Invalid("XT1705", "the rows and the columns of the vectors' elements are missing\nput two vectors of "
                          "xetile.iota behind the values", alone=True)


@operation_definition
class PrintOp(DiagnosticOp):
    """Print of a formatted line; with vectors, a line for each element."""

    name = "xegpu.print"
    RECORD: ClassVar[Record] = MOVED
    assembly_format = "$message (`,` $values^ `:` type($values))? attr-dict"

    def verify_(self) -> None:
        super().verify_()
        try:
            count = sum(spec is not None for _, spec in fields(self.message.data))
        except ValueError as error:
            raise Invalid("XT1706", f"{error}\nwrite one {{}} for each value, such as {{:.3f}}; a brace itself is "
                          "{{ or }}", alone=True) from None
        if count != len(self.shown):
            raise Invalid("XT1707", f'"{self.message.data}" has {plural(count, "field")}, and there '
                          f"{'is' if len(self.shown) == 1 else 'are'} {plural(len(self.shown), 'value')}\n"
                          "write one {} for each value", alone=True)
        try:
            printf_format(self)
        except ValueError as error:
            raise Invalid("XT1708", f"{error}\nwrite {{}}, or convert the value with .to(...)") from None


@operation_definition
class AssertOp(DiagnosticOp):
    """Assertion that an integer, or each element of a vector, is not zero."""

    name = "xegpu.assert"
    RECORD: ClassVar[Record] = Record((i1,))
    assembly_format = "$message `,` $values `:` type($values) attr-dict"

    def verify_(self) -> None:
        super().verify_()
        if len(self.shown) != 1 or _dtype(self.shown[0]).is_float:
            raise Invalid("XT1709", f"an assertion has one condition, an integer, and not {self._operand_types()}\n"
                          "compare the value with something, for example by arith.cmpf")

    def _operand_types(self) -> str:
        return f"{len(self.shown)} values" if len(self.shown) != 1 else f"a value of {_dtype(self.shown[0])}"



def fields(text: str) -> Iterator[tuple[str, str | None]]:
    """Split a format into pairs of literal text and the specification of the following field, None at the end.

    Raises:
        ValueError: a brace without its partner, a field with a name, or a specification that C has not.
    """
    for literal, name, spec, conversion in Formatter().parse(text):
        if name:
            raise ValueError(f"the field {{{name}}} has a name, and values have none")
        if conversion or not _SPEC.fullmatch(spec or ""):
            raise ValueError(f"there is no format {spec or '!' + str(conversion)!r}: a width, a precision and one of "
                             "d x e f g make one")
        yield literal, spec if name is not None else None


def printf_format(operation: PrintOp) -> str:
    """Format string for C's ``printf`` and Python's ``%``, without a line end."""
    types = iter([_dtype(value) for value in operation.shown])
    pieces = []
    for literal, spec in fields(operation.message.data):
        pieces.append(literal.replace("%", "%%") + ("" if spec is None else _conversion(spec, next(types))))
    return "[%d, %d] " * operation.is_of_elements + "".join(pieces)


def hexadecimal_masks(operation: PrintOp) -> list[int | None]:
    """For each value the bits that C's ``%x`` shows, 32 or 64 of them; None for another conversion.

    Python's ``%x`` of a negative integer has a sign.
    """
    specs = [spec for _, spec in fields(operation.message.data) if spec is not None]
    return [(1 << (64 if dtype.kind in "iu" and dtype.bits == 64 else 32)) - 1 if spec.endswith("x") else None
            for spec, dtype in zip(specs, map(_dtype, operation.shown), strict=True)]


def _conversion(spec: str, dtype: DType) -> str:
    """``printf`` conversion of a value of an element type; 64-bit integers get the length modifier ``l``."""
    letter = spec[-1:] if spec[-1:].isalpha() else ""
    if letter and (letter in "efg") != dtype.is_float:
        raise ValueError(f"{dtype} has no format {letter!r}: floats have e f g, integers d x")
    wide = "l" if dtype.bits == 64 and dtype.kind in "iu" else ""
    chosen = letter if letter not in ("", "d") else _LETTERS[dtype.kind]
    return f"%{spec.removesuffix(letter)}{wide}{chosen}"


def _dtype(value: SSAValue) -> DType:
    return of_mlir(value.type.element_type if isinstance(value.type, VectorType) else value.type)


OPERATIONS = (PrintOp, AssertOp)


@dataclass(frozen=True)
class Assertion:
    """Assertion of a kernel: its message, its location, and whether it applies to the elements of a vector."""

    message: str
    location: Location | None
    of_elements: bool

    def failed(self, group: Sequence[int], subgroup: int, row: int, column: int) -> CheckError:
        """Error of a failed assertion, with its work-group, subgroup and element."""
        element = f", element [{row}, {column}]" if self.of_elements else ""
        where = ", ".join(map(str, group))
        return CheckError("XT1710",
                          f"assertion failed: {self.message}: work-group ({where}), subgroup {subgroup}{element}",
                          "look at the values there: xt.device_print, or .on(\"numpy:program\") and breakpoint()",
                          self.location)


def assertion_of(operation: AssertOp) -> Assertion:
    """Assertion record of an operation."""
    return Assertion(operation.message.data, author_location(operation), operation.is_of_elements)


def assertions(function: func.FuncOp) -> tuple[Assertion, ...]:
    """Assertions of a kernel, by their numbers."""
    found: dict[Assertion, None] = {assertion_of(op): None for op in of_kind(function, AssertOp)}
    return tuple(found)


def prints(function: func.FuncOp) -> bool:
    """Whether a kernel prints."""
    return bool(of_kind(function, PrintOp))


def check(found: Sequence[Assertion], flags: Sequence[int]) -> None:
    """Raise the first failed assertion of a launch.

    Args:
        found: the kernel's assertions.
        flags: contents of its assertion buffer.

    Raises:
        CheckError: an assertion failed.
    """
    if flags[0]:
        raise found[flags[0] - 1].failed(flags[1:4], *flags[4:7])
