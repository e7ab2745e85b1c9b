"""Prints and assertions, in NumPy and in OpenCL C.

On a device a print is ``printf``. An assertion that does not hold notes the first place where it does not in a small
buffer, which kernels with assertions get as an argument of their own; the launch looks at it when the kernel has run.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation

from codegen.devices import Queue, import_dpctl
from codegen.emitter import Emitter, Rule, atom
from codegen.fragments import Fragment
from codegen.interpreter import BATCH, Machine, Meanings
from xegpu.analysis.uniformity import place
from xegpu.dialect.debug import AssertOp, DiagnosticOp, PrintOp, printf_format
from xegpu.support.errors import CheckError
from xegpu.support.location import Location

FLAGS = 8
"""32-bit words of the buffer: the assertion's number from 1, its group, its subgroup, row and column, one to spare."""


@dataclass(frozen=True)
class Assertion:
    """An assertion of a kernel: what the author said, where, and whether it is about the elements of a vector."""

    message: str
    location: Location | None
    of_elements: bool

    def failed(self, group: Sequence[int], subgroup: int, row: int, column: int) -> CheckError:
        """The error for an instance, and an element."""
        element = f", element [{row}, {column}]" if self.of_elements else ""
        where = ", ".join(map(str, group))
        return CheckError("XT1710",
                          f"assertion failed: {self.message}: work-group ({where}), subgroup {subgroup}{element}",
                          "look at the values there: xt.device_print, or .on(\"numpy:program\") and breakpoint()",
                          self.location)


def assertion_of(operation: AssertOp) -> Assertion:
    """What an operation says."""
    return Assertion(operation.message.data, place(operation), operation.is_of_elements)


def assertions(function: func.FuncOp) -> tuple[Assertion, ...]:
    """The assertions of a kernel, in the order of their numbers."""
    found: dict[Assertion, None] = {assertion_of(op): None for op in function.walk() if isinstance(op, AssertOp)}
    return tuple(found)


def prints(function: func.FuncOp) -> bool:
    """Whether a kernel prints."""
    return any(isinstance(operation, PrintOp) for operation in function.walk())


def check(found: Sequence[Assertion], flags: Sequence[int]) -> None:
    """Raise if a kernel has noted an assertion that does not hold.

    Args:
        found: the kernel's assertions.
        flags: what its buffer holds.

    Raises:
        CheckError: an assertion does not hold.
    """
    if flags[0]:
        raise found[flags[0] - 1].failed(flags[1:4], *flags[4:7])


def watched(queue: Queue, found: Sequence[Assertion], start: Callable[[Sequence[Any]], Any]) -> None:
    """Start a kernel that prints or asserts, and wait for it.

    Args:
        queue: where it runs.
        found: its assertions.
        start: starts it with these arguments behind its own; gives the event.

    Raises:
        CheckError: an assertion does not hold.
    """
    buffer = import_dpctl("dpctl.memory").MemoryUSMShared(4 * FLAGS, queue=queue)
    flags = np.frombuffer(buffer, np.int32)
    flags[:] = 0
    sys.stdout.flush()
    start([buffer] if found else []).wait()
    ctypes.CDLL(None).fflush(None)  # what printf keeps back
    check(found, flags.tolist())


# --- NumPy -----------------------------------------------------------------------------------------------------------

def _speaking(machine: Machine, operation: DiagnosticOp, operands: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Every element, or instance, that speaks: its values, then group and subgroup."""
    rank = next((len(v.type.get_shape()) for v in operation.values if isinstance(v.type, VectorType)), 0)

    def spread(number: Any) -> Any:
        """A number with the axes of the vectors, or with those of the instances where there are none."""
        array = np.asarray(machine.as_vector(number, rank) if rank else number)
        return array if array.ndim else array.reshape((1,) * BATCH)

    whole = [value if isinstance(declared.type, VectorType) else spread(value)
             for value, declared in zip(operands, operation.values, strict=True)]
    where = [spread(machine.along(axis, first, count)) for axis, (first, count) in enumerate(machine.groups)]
    where.append(spread(machine.subgroup))
    instances = machine.instances + (1,) * (machine.batch - BATCH + rank) if rank else machine.instances
    shape = np.broadcast_shapes(instances, *(np.shape(value) for value in (*whole, *where)))
    speaks = np.ones(shape, bool)
    if machine.active is not None:
        speaks &= spread(machine.active)
    if rank and machine.lanes is not None and operation.lanes is not None:
        lane = np.arange(machine.lanes).reshape(-1, *[1] * rank)
        speaks &= np.broadcast_to(lane, shape) < operation.lanes.value.data
    chosen = [np.broadcast_to(value, shape)[speaks] for value in (*whole, *where)]
    return zip(*chosen, strict=True)


def _print(machine: Machine, operation: PrintOp, operands: Sequence[Any]) -> None:
    text, count = printf_format(operation), len(operation.said)
    for values in _speaking(machine, operation, operands):
        said, positions = values[:count], values[count:count + 2 * operation.is_of_elements]
        print(text % (*map(int, positions), *(value.item() for value in said)))


def _assert(machine: Machine, operation: AssertOp, operands: Sequence[Any]) -> None:
    if np.asarray(operands[0]).all():
        return
    for holds, *rest in _speaking(machine, operation, operands):
        if not holds:
            *position, x, y, z, subgroup = map(int, rest)
            row, column = position or (0, 0)
            raise assertion_of(operation).failed((x, y, z), subgroup, row, column)


MEANINGS: Meanings = {PrintOp: _print, AssertOp: _assert}


# --- OpenCL C --------------------------------------------------------------------------------------------------------

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


def parameter(emitter: Emitter, function: func.FuncOp) -> list[str]:
    """The parameter that a kernel with assertions has behind its own; its name is taken before theirs are."""
    emitter.assertions = assertions(function)
    return [f"global int *{emitter.name(ARGUMENT)}"] if emitter.assertions else []


def _each(emitter: Emitter, operation: DiagnosticOp) -> Iterator[list[str]]:
    """The values as expressions, for each word of the fragments."""
    values = [emitter.values[value] for value in operation.values]
    if not operation.is_of_elements:
        yield [atom(str(value)) for value in values]
        return
    words = [emitter.words(value) if isinstance(held, Fragment) else None
             for value, held in zip(operation.values, values, strict=True)]
    for number in range(max(len(each) for each in words if each is not None)):
        yield [atom(str(held)) if each is None else each[number] for each, held in zip(words, values, strict=True)]


def _guard(emitter: Emitter, operation: DiagnosticOp) -> str:
    """The lanes that speak: those that hold elements of their own, or the first."""
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
    """A text as a literal of C."""
    plain = text.encode().decode("latin-1")
    import json  # for what prints and asserts

    return json.dumps("".join(c if " " <= c <= "~" else f"\0{ord(c):03o}" for c in plain)).replace("\\u0000", "\\")


RULES: dict[type[Operation], Rule] = {PrintOp: _print_rule, AssertOp: _assert_rule}
