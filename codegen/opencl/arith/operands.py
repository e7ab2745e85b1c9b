"""Constants, operands and results of element-wise operations in OpenCL C."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation

from codegen.opencl.emitter import Emitter, atom
from xegpu.ir.dtypes import DType, bf16, f16, f64, i1, of_mlir
from xegpu.support.errors import BUG, XeError


def literal(number: float, dtype: DType) -> str:
    """OpenCL C literal of a constant."""
    if dtype is bf16:
        return f"(ushort){int(np.asarray(number, bf16.numpy).view(np.uint16)):#06x}"
    if not dtype.is_float:
        return _integer(int(number), dtype)
    value = float(np.float32(number)) if dtype.bits <= 32 else float(number)
    if not np.isfinite(value):
        text = "NAN" if np.isnan(value) else ("INFINITY" if value > 0 else "-INFINITY")
        return text if dtype.bits == 32 else f"({dtype.opencl}){text}"
    suffix = "" if dtype is f64 else "f"
    return f"(half){value!r}f" if dtype is f16 else f"{value!r}{suffix}"


def _integer(number: int, dtype: DType) -> str:
    if dtype is i1:
        return str(int(number != 0))  # MLIR's true is -1
    # C has no negative literals, and takes the magnitude of the smallest number for a wider type.
    if number in (-(1 << 31), -(1 << 63)):
        return f"({number + 1}{'L' if dtype.opencl == 'long' else ''} - 1)"
    return f"{number}ul" if number >= 1 << 63 else str(number)


def stored(expression: str, dtype: DType) -> str:
    """Fragment representation of a scalar; only predicates have another one."""
    if dtype is i1:
        return f"(short)-({expression})"
    return f"({dtype.opencl})({expression})" if dtype.kind == "i" and dtype.bits < 32 else expression


def operand_groups(emitter: Emitter, operation: Operation, *,
                   by_words: bool = True) -> tuple[DType, int, list[list[str]]]:
    """Element type, width, and for each variable the operands' expressions; a scalar counts as one variable.

    On a CPU a variable is a word (:meth:`codegen.opencl.emitter.Emitter.by_words`), unless ``by_words`` is false.
    """
    type_ = operation.operands[0].type
    if not isinstance(type_, VectorType):
        return of_mlir(type_), 1, [[atom(emitter.values[operand]) for operand in operation.operands]]
    of = emitter.by_words if by_words else emitter.fragment
    fragments = [of(operand) for operand in operation.operands]
    if any(fragment.per_lane != 1 for fragment in fragments):
        raise XeError("XT9401", f"{operation.name} on packed words is not supported", BUG)
    groups = [list(names) for names in zip(*(fragment.names for fragment in fragments), strict=True)]
    return fragments[0].dtype, fragments[0].width, groups


def finish(emitter: Emitter, operation: Operation, expressions: list[str]) -> None:
    """Declare an operation's result: one expression for each variable, or that of a scalar."""
    result = operation.results[0]
    if not isinstance(result.type, VectorType):
        emitter.define(result, of_mlir(result.type).opencl, expressions[0])
    elif emitter.target.is_cpu and len(expressions) == result.type.element_count():
        emitter.assign_words(result, expressions)
    else:
        emitter.assign(result, emitter.fresh(result), expressions)
