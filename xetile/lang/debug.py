"""``xt.device_print`` and ``xt.device_assert``: output and assertions of a running kernel, in every execution."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import VectorType
from xdsl.ir import SSAValue

from xegpu.dialect.debug import AssertOp, PrintOp
from xegpu.ir import dtypes
from xegpu.support.errors import ArgumentError, ElementTypeError, ShapeError
from xetile.dialect.vector import IotaOp
from xetile.frontend.constants import python_number
from xetile.frontend.notes import notes
from xetile.frontend.ssa_value import Arithmetic
from xetile.frontend.tracer import Tracer, current
from xetile.frontend.values import Scalar, Vector
from xetile.lang.checks import describe_value


def device_print(format: str, *values: Any) -> None:
    """Print a line wherever the kernel runs: ``xt.device_print("group {}: {:.3f}", xt.group_id(0), x)``.

    Of numbers, each instance prints one line: a work-group, or a subgroup in a kernel without ``wg_map``. Of vectors,
    which all have one shape, each element has a line, with its row and column in front: ``[3, 5] group 0: 1.250``.
    Lines of different instances and elements come in any order. A launch on a device waits for a kernel that prints.

    Args:
        format: text with one ``{}`` for each value, with a width, a precision and one of ``d x e f g`` behind a colon
            if need be. It is known when the kernel is compiled.
        values: run-time numbers and vectors; Python's own numbers go into the text.

    Raises:
        ArgumentError: the format is no text.
        ElementTypeError: a value is neither a number nor a vector.
        ShapeError: vectors of different shapes, another number of fields than values, or a format that C has not.
    """
    tracer = current("xt.device_print")
    if type(format) is not str:
        raise ArgumentError("XT1700", f"xt.device_print takes a text first, not {describe_value(format)}",
                            'write xt.device_print("x = {}", x)', tracer.location())
    shown = [_printf_operand(tracer, "xt.device_print", value) for value in values]
    tracer.emit(PrintOp(format, [*(value.ssa for value in shown), *_element_indices(tracer, shown)]))


def device_assert(condition: Any, message: str = "the condition is false") -> None:
    """Assertion: where the condition is false, the launch raises a :class:`CheckError` with the author's line.

    NumPy stops there. On a device the kernel runs to its end and the launch, which waits for it, raises then; the error
    names one instance, and one element, of those where the condition does not hold.

    Args:
        condition: a comparison of vectors or of run-time numbers.
        message: text of the error.

    Raises:
        ArgumentError: the message is no text.
        ElementTypeError: the condition is no truth value, or known when the kernel is compiled.
    """
    tracer = current("xt.device_assert")
    if type(message) is not str:
        raise ArgumentError("XT1700", f"xt.device_assert takes a text as its message, not {describe_value(message)}",
                            'write xt.device_assert(x >= 0.0, "x is negative")', tracer.location())
    if isinstance(condition, Arithmetic) and condition.dtype is dtypes.i1:
        shown = _printf_operand(tracer, "xt.device_assert", condition)
        tracer.emit(AssertOp(message, [shown.ssa, *_element_indices(tracer, [shown])]))
        return
    raise ElementTypeError("XT1701",
                           f"the condition of xt.device_assert is {describe_value(condition)}, not a run-time i1",
                           "compare vectors or run-time numbers, as in x >= 0.0; use Python's assert for "
                           "compile-time conditions", tracer.location())


def _printf_operand(tracer: Tracer, what: str, value: Any) -> Arithmetic:
    """Operand of ``printf``: a value widened to 32 or 64 bits."""
    number = python_number(value)
    if type(number) in (int, float, bool):
        dtype = dtypes.f32 if type(number) is float else dtypes.i32 if abs(number) < 2**31 else dtypes.i64
        return Scalar(tracer.constant(number if type(number) is float else int(number), dtype))
    if not isinstance(value, (Scalar, Vector)):
        raise ElementTypeError("XT1702", f"{what} cannot show {describe_value(value)}",
                               "give vectors and run-time numbers: xt.load_tile(tile) gives a vector; write "
                               "compile-time values into the text",
                               tracer.location(), notes(tracer.location(), it=value))
    dtype = value.dtype
    if dtype is dtypes.index or (dtype.bits >= 32 and dtype is not dtypes.tf32):
        return value
    wide = dtypes.f32 if dtype.is_float else dtypes.u32 if dtype.kind == "u" and dtype is not dtypes.i1 else dtypes.i32
    return value.to(wide)


def _element_indices(tracer: Tracer, shown: list[Arithmetic]) -> list[SSAValue]:
    """Row and column indices of the elements of printed vectors."""
    vector = next((value for value in shown if isinstance(value, Vector)), None)
    if vector is None:
        return []
    if len(vector.shape) != 2:
        raise ShapeError("XT1703", f"a {vector.describe()} is not a matrix, whose elements have a row and a column",
                         "show it before it is packed, or after xt.tile_unpack(v)", tracer.location(),
                         notes(tracer.location(), it=vector))
    type_ = VectorType(dtypes.i32.mlir, vector.shape)
    return [tracer.emit(IotaOp(type_, axis, wg_map=vector.wg_map)) for axis in (0, 1)]
