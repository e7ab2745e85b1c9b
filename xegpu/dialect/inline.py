"""``xegpu.inline``: an element-wise operation whose text an author writes, in OpenCL C and in vISA.

    %c = xegpu.inline(%a, %b) {opencl = {default = "mad({0}, {1}, 1.0f)"}, visa = {pvc = "mad (M1, {lanes}) ..."}} :
        vector<8x16xf32>, vector<8x16xf32> -> vector<8x16xf32>

It is the same operation at every stage, as arithmetic is: vectors are split, distributed and blocked with the others.
A text has fields: ``{0}``, ``{1}`` ... are the operands, ``{r0}``, ``{r1}`` ... the results, ``{lanes}`` is the
subgroup size. It goes beyond the specification.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects.builtin import DictionaryAttr, StringAttr, VectorType
from xdsl.ir import Attribute, Data, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    opt_prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import Pure

from xegpu.ir.dtypes import DType, i1, of_mlir
from xegpu.ir.op_definition import operation_definition
from xegpu.ir.record import MOVED, Record
from xegpu.support.errors import ArgumentError, ElementTypeError, Invalid, TargetError, plural
from xegpu.support.location import author_location
from xegpu.target.targets import TARGETS, Target, find_target

DEFAULT = "default"
"""Key of the text for targets that have none of their own."""
FIELD = re.compile(r"\{(r?)(\d+)\}")
"""Field of an operand or a result; other braces are the text's own."""


@dataclass(frozen=True, eq=False)  # compared by identity: a function of an author's may have no hash
class NumpyFunction:
    """NumPy semantics of an inline operation.

    Attributes:
        label: the author's file and line of the function, which is all of it that text can hold.
        function: takes arrays of one shape, and gives one, or a tuple where there are several results; None where the
            operation was read from text.
    """

    label: str
    function: Callable[..., Any] | None = None


@irdl_attr_definition
class NumpyFunctionAttr(Data[NumpyFunction]):
    """Attribute of an author's function: ``#xegpu.numpy_function<"gelu.py:12">``."""

    name = "xegpu.numpy_function"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> NumpyFunction:
        with parser.in_angle_brackets():
            return NumpyFunction(parser.parse_str_literal())

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(self.data.label)


@operation_definition
class InlineOp(IRDLOperation):
    """Element-wise operation by an author's text, a function of its operands without side effects.

    Attributes:
        inputs: scalars, or vectors of one shape.
        opencl: target, or ``default``, to OpenCL C: an expression, or statements that assign to fields of results.
        visa: target, or ``default``, to instructions of Intel's virtual assembly, which assign to fields of results.
        declarations: OpenCL C of functions and macros that the text uses.
        numpy: the NumPy semantics.
        outputs: of the operands' shape.
    """

    name = "xegpu.inline"
    RECORD: ClassVar[Record] = MOVED
    inputs = var_operand_def()
    opencl = opt_prop_def(DictionaryAttr)
    visa = opt_prop_def(DictionaryAttr)
    declarations = opt_prop_def(StringAttr)
    numpy = opt_prop_def(NumpyFunctionAttr)
    outputs = var_result_def()
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "`(` $inputs `)` attr-dict `:` type($inputs) `->` type($outputs)"

    def __init__(self, inputs: Sequence[SSAValue], results: Sequence[Attribute], opencl: Mapping[str, str],
                 visa: Mapping[str, str], declarations: str, numpy: NumpyFunction) -> None:
        super().__init__(operands=[inputs], result_types=[results], properties={
            "opencl": _texts(opencl), "visa": _texts(visa), "numpy": NumpyFunctionAttr(numpy),
            "declarations": StringAttr(declarations) if declarations else None})

    def text(self, language: str, target: Target) -> str | None:
        """Text for a target in ``"opencl"`` or ``"visa"``: its own or the default; None without either."""
        texts = self.opencl if language == "opencl" else self.visa
        found = None if texts is None else texts.data.get(target.name, texts.data.get(DEFAULT))
        return found.data if isinstance(found, StringAttr) else None

    def languages(self, target: Target) -> dict[str, str]:
        """Texts that a target can run, by language; a target without machine code runs no vISA."""
        texts = {language: self.text(language, target) for language in ("opencl", "visa")
                 if language == "opencl" or target.ocloc}
        return {language: text for language, text in texts.items() if text is not None}

    def verify_(self) -> None:
        types = [value.type for value in (*self.inputs, *self.outputs)]
        shapes = {type_.get_shape() if isinstance(type_, VectorType) else None for type_ in types}
        if not self.inputs or not self.outputs or len(shapes) != 1:
            raise Invalid("XT1280", f"an inline text goes from {len(self.inputs)} operands to {len(self.outputs)} "
                          "results that are not one or more values of one shape\n"
                          "give operands and results of one shape: a number is repeated by vector.broadcast")
        for type_ in types:
            check_element_type(of_mlir(type_.element_type if isinstance(type_, VectorType) else type_))
        for name, texts in (("opencl", self.opencl), ("visa", self.visa)):
            for target, text in (texts.data if texts is not None else {}).items():
                if not isinstance(text, StringAttr):
                    raise Invalid("XT1280", f"{name} of {target} is {text}, not a text\n"
                                  f'write {{{DEFAULT} = "..."}}', alone=True, kind=ArgumentError)
                if target != DEFAULT and target not in TARGETS:
                    try:
                        find_target(target)
                    except TargetError as error:
                        raise Invalid.of(error, alone=True) from None
                check_fields(text.data, len(self.inputs), len(self.outputs), needs_results=name == "visa")
        if not self.opencl and not self.visa:
            raise Invalid("XT1280", "an inline operation has no text\n"
                          f'give one: opencl = {{{DEFAULT} = "..."}}', alone=True, kind=ArgumentError)


OPERATIONS = (InlineOp,)


def _texts(texts: Mapping[str, str]) -> DictionaryAttr | None:
    return DictionaryAttr({target: StringAttr(text) for target, text in texts.items()}) if texts else None


def check_element_type(dtype: DType) -> None:
    """Raise for an element type of which no C or vISA type holds one element of a vector and one number alike."""
    if dtype.kind == "x" or dtype is i1 or dtype.bits < 8:
        raise Invalid("XT1282", f"an inline text takes and gives no {dtype}\n"
                      f"convert it with .to(xt.{'i8' if dtype.bits < 8 else 'i32'})", kind=ElementTypeError)


def check_fields(text: str, operands: int, results: int, *, needs_results: bool) -> None:
    """Raise unless the fields of a text are of operands and results that there are.

    Args:
        text: the author's.
        operands, results: how many there are.
        needs_results: whether each result must be assigned to: in vISA, and with several results.
    """
    fields = {(letter, int(number)) for letter, number in FIELD.findall(text)}
    unknown = sorted((letter, number) for letter, number in fields if number >= (results if letter else operands))
    if unknown:
        letter, number = unknown[0]
        there = [f"{{{i}}}" for i in range(operands)] + [f"{{r{i}}}" for i in range(results)]
        raise Invalid("XT1281", f"the text has a field {{{letter}{number}}}, and the operation has "
                      f"{plural(operands, 'operand')} and {plural(results, 'result')}\n"
                      f"the fields are {', '.join(there)} and {{lanes}}; a brace of C that would look like one takes a "
                      "space: { 0 }", alone=True, kind=ArgumentError)
    missing = [f"{{r{i}}}" for i in range(results) if ("r", i) not in fields]
    if missing and (needs_results or results > 1 or len(missing) < results):
        raise Invalid("XT1281", f"the text assigns nothing to {', '.join(missing)}\n"
                      "vISA, and OpenCL C with several results, are statements that assign to each result: {r0} = ...;",
                      alone=True, kind=ArgumentError)



def check_target(operation: InlineOp, target: Target) -> None:
    """Raise where an inline operation has no text for a target.

    Raises:
        TargetError: at the author's line.
    """
    if operation.languages(target):
        return
    names = [name for name, other in TARGETS.items() if operation.languages(other)]
    raise TargetError("XT4114", f"this inline text is not for {target.name}, but for {', '.join(names) or 'none'}",
                      'give OpenCL C for the rest: xt.inline("...", ...), or {"default": "..."}; vISA is for GPUs',
                      author_location(operation))
