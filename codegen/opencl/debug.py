"""Device prints and assertions in OpenCL C.

On a device a print is ``printf``. An assertion that does not hold notes the first place where it does not in a small
buffer, which kernels with assertions get as an argument of their own; the launch looks at it when the kernel has run.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import func
from xdsl.ir import Operation

from codegen.opencl.emitter import Emitter, Rule, atom
from codegen.opencl.source import Parameter
from codegen.opencl.values import Fragment
from xegpu.dialect.debug import AssertOp, DiagnosticOp, PrintOp, assertion_of, assertions, printf_format
from xegpu.ir.dtypes import i32

ARGUMENT = "assertions"
_FAILED = f"""static void assertion_failed(global int *{ARGUMENT}, int number, int row, int column)
{{
  if (atomic_cmpxchg((volatile global int *){ARGUMENT}, 0, number) != 0) return;
  {ARGUMENT}[1] = (int)get_group_id(2);
  {ARGUMENT}[2] = (int)get_group_id(1);
  {ARGUMENT}[3] = (int)get_group_id(0);
  {ARGUMENT}[4] = (int)get_sub_group_id();
  {ARGUMENT}[5] = row;
  {ARGUMENT}[6] = column;
}}
"""


def parameter(emitter: Emitter, function: func.FuncOp) -> list[Parameter]:
    """Trailing kernel parameter, the assertion buffer; its name is reserved."""
    emitter.assertions = assertions(function)
    return [Parameter(ARGUMENT, i32.opencl, i32, pointer=True)] if emitter.assertions else []


def _each(emitter: Emitter, operation: DiagnosticOp) -> Iterator[list[str]]:
    """Expressions of the printed values, for each word of the fragments."""
    values = [emitter.values[value] for value in operation.values]
    if not operation.is_of_elements:
        yield [atom(str(value)) for value in values]
        return
    words = [emitter.words(value) if isinstance(operand, Fragment) else None
             for value, operand in zip(operation.values, values, strict=True)]
    for number in range(max(len(each) for each in words if each is not None)):
        yield [atom(str(operand)) if each is None else each[number]
               for each, operand in zip(words, values, strict=True)]


def _guard(emitter: Emitter, operation: DiagnosticOp) -> str:
    """C condition of the reporting lanes: those with unreplicated elements, or the first."""
    lanes = operation.lanes.value.data if operation.lanes is not None else 1
    return "" if lanes >= emitter.subgroup else f"if (get_sub_group_local_id() < {lanes}) "


def _print_rule(emitter: Emitter, operation: PrintOp) -> None:
    text, guard = quoted(printf_format(operation) + "\n"), _guard(emitter, operation)
    for values in _each(emitter, operation):
        if operation.is_of_elements:
            values = [*values[-2:], *values[:-2]]
        emitter.line(f"{guard}printf({', '.join([text, *values])});")


def _assert_rule(emitter: Emitter, operation: AssertOp) -> None:
    emitter.function(_FAILED)
    number = emitter.assertions.index(assertion_of(operation)) + 1
    for condition, *position in _each(emitter, operation):
        row, column = position or ("0", "0")
        emitter.line(f"if ({condition} == 0) assertion_failed({ARGUMENT}, {number}, {row}, {column});")


def quoted(text: str) -> str:
    """C string literal."""
    characters = text.encode().decode("latin-1")
    import json  # for what prints and asserts

    return json.dumps("".join(c if " " <= c <= "~" else f"\0{ord(c):03o}" for c in characters)).replace("\\u0000", "\\")


RULES: dict[type[Operation], Rule] = {PrintOp: _print_rule, AssertOp: _assert_rule}
