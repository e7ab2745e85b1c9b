"""``xt.inline``: an element-wise operation by a text of the author's, in OpenCL C and in vISA."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os.path import basename
from typing import Any

from xdsl.dialects.builtin import VectorType

from xegpu.dialect.inline import DEFAULT, InlineOp, NumpyFunction, check_element_type
from xegpu.ir.dtypes import DType
from xegpu.support.errors import ArgumentError, ElementTypeError, Invalid, error_class, error_parts
from xegpu.support.location import Location
from xetile.frontend.broadcast import broadcast_operands, check_alike
from xetile.frontend.constants import python_number, scalar_of_element
from xetile.frontend.notes import notes
from xetile.frontend.operators import splat
from xetile.frontend.ssa_value import Arithmetic
from xetile.frontend.tracer import current
from xetile.frontend.values import Scalar, Vector, element_type

Text = str | Mapping[str, str]


def inline(text: Text | None, *operands: Any, numpy: Callable[..., Any], dtype: Any = None, visa: Text | None = None,
           declarations: str = "") -> Any:
    """Element-wise operation that is written in OpenCL C, in Intel's virtual assembly (vISA), or in both.

    The text is of one element: it stands in a function of its own, which is called for each. Fields ``{0}``, ``{1}``
    ... are the operands, ``{r0}``, ``{r1}`` ... the results, ``{lanes}`` is the number of lanes of a subgroup. It
    depends on its operands alone and has no side effects: compilers drop, repeat and move it.

    OpenCL C is an expression, ``"native_exp2({0}) * {1}"``, or statements that assign to each ``{r0}``. Operands have
    the C types of OpenCL: ``float``, ``half``, ``double``, ``char`` to ``ulong``; bf16 is its bits, a ``ushort``, an
    8-bit float a ``uchar``. vISA is instructions of a whole subgroup; a field is a variable with an element of each
    lane, ``{r0}(0,0)<1>`` as a destination and ``{0}(0,0)<1;1,0>`` as a source. GPUs run it where it is there, other
    devices and compilers the OpenCL C.

    NumPy executions call ``numpy`` with read-only arrays of one shape, in NumPy's and ml_dtypes' types of the operands;
    its result has that shape and the type of ``dtype``. The shape is any: all instances are computed at once.

    Args:
        text: OpenCL C for all targets, or a mapping of targets (``"pvc"``, ``"cpu"``, or ``"default"``) to it; None for
            vISA alone.
        operands: vectors, which are broadcast to one shape, run-time numbers, and Python numbers, which get the type of
            the first vector, else of the first run-time number. They may be of different element types.
        numpy: what the text computes, of arrays.
        dtype: element type of the result, or a tuple of those of several; by default that of the
            first vector, else of the first run-time number.
        visa: vISA, as ``text`` is OpenCL C.
        declarations: OpenCL C before the functions: functions and macros that ``text`` uses. Their names are global.

    Returns:
        a vector, or a run-time number if no operand is a vector; a tuple of them where ``dtype`` is one.

    Raises:
        ArgumentError: a text, a field or the function is none.
        ElementTypeError: ``i1``, an index, or something else that has no C type.
        ShapeError: shapes or work-group maps differ.
        TargetError: when it is lowered, for a target that has no text.
    """
    tracer = current("xt.inline")
    location = tracer.location()
    opencl, assembly = _texts(text, "text", location), _texts(visa, "visa", location)
    if not opencl and not assembly:
        raise ArgumentError("XT1280", "xt.inline has neither OpenCL C nor vISA", 'write xt.inline("{0} + 1.0f", v, '
                            "numpy=lambda v: v + 1)", location)
    if not callable(numpy):
        raise ArgumentError("XT1280", f"numpy= of xt.inline is a {type(numpy).__name__}, not a function",
                            "give what the text computes, as in numpy=lambda a, b: a + b", location)
    if not isinstance(declarations, str):
        raise ArgumentError("XT1280", f"declarations= of xt.inline is a {type(declarations).__name__}, not a text",
                            "give OpenCL C of functions and macros", location)
    like, values = _checked_operands(operands, location)
    chosen = dtype if isinstance(dtype, tuple) else (like.dtype if dtype is None else dtype,)
    types = [element_type(each) for each in chosen]
    shape = like.ssa.type
    results = [VectorType(each.mlir, shape.get_shape()) if isinstance(shape, VectorType) else each.mlir
               for each in types]
    operation = InlineOp(values, results, opencl, assembly, declarations, NumpyFunction(_label(numpy), numpy))
    try:
        operation.verify_()
    except Invalid as error:
        code, message, hint = error_parts(error)
        raise error_class(error)(code, message, hint, location) from None
    tracer.emit(operation)
    found = tuple(like.like(value) for value in operation.outputs)
    return found if isinstance(dtype, tuple) else found[0]


def _texts(text: Any, name: str, location: Location) -> Mapping[str, str]:
    """Texts by target."""
    if text is None:
        return {}
    texts = {DEFAULT: text} if isinstance(text, str) else text
    if not isinstance(texts, Mapping) or not texts or \
            not all(isinstance(side, str) and side.strip() for pair in texts.items() for side in pair):
        raise ArgumentError("XT1280", f"{name}= of xt.inline is neither a text nor a mapping of targets to texts",
                            'write "{0} + 1.0f", or {"pvc": "...", "default": "..."}', location)
    return texts


def _checked_operands(sides: Sequence[Any], location: Location) -> tuple[Vector | Scalar, list[Any]]:
    """Operands in one shape, each of its own element type, and the one that determines shape and default type."""
    numbers = broadcast_operands([python_number(side) for side in sides])
    for side in numbers:
        if not isinstance(side, (Arithmetic, int, float)):
            raise ElementTypeError("XT1280", f"an operand of xt.inline is a {type(side).__name__}",
                                   "give vectors and numbers: xt.load_tile(tile) gives a vector", location,
                                   notes(location, it=side))
    first = next((side for side in numbers if isinstance(side, (Vector, Scalar))), None)
    if first is None:
        raise ArgumentError("XT1280", "no operand of xt.inline is a vector or a run-time number",
                            "make one: xt.full(shape, number, xt.f32) or xt.scalar(2.0, xt.f32)", location)
    like = next((side for side in numbers if isinstance(side, Vector)), first)
    values = []
    for side in numbers:
        own: DType = side.dtype if isinstance(side, Arithmetic) else like.dtype
        if isinstance(side, Vector) and isinstance(like, Vector):
            check_alike(like, side, f"xt.inline of a {like.describe()} and a {side.describe()}",
                        ("the first", "the second"), "the operands of xt.inline", types=False)
        _check_dtype(own, location)
        values.append(side.ssa if isinstance(side, Vector) else splat(side, like, own) if isinstance(like, Vector) else
                      scalar_of_element(side, own))
    return like, values


def _check_dtype(dtype: DType, location: Location) -> None:
    try:
        check_element_type(dtype)
    except Invalid as error:
        code, message, hint = error_parts(error)
        raise error_class(error)(code, message, hint, location) from None


def _label(function: Callable[..., Any]) -> str:
    """File and line of a function, for messages and text; its name if it is not of Python."""
    code = getattr(function, "__code__", None)
    return getattr(function, "__name__", type(function).__name__) if code is None else \
        f"{basename(code.co_filename)}:{code.co_firstlineno}"
