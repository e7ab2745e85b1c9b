"""Element types in OpenCL C: unsigned words, conversions to and from what they compute in, names in DPAS builtins.

Which C type holds an element, and in which it computes, are facts of its record (:class:`xegpu.ir.dtypes.DType`); the
tables here are those that an element type beside them has to choose its row of.
"""

from __future__ import annotations

from xegpu.ir.dtypes import DType, bf16, f16, tf32

UNSIGNED = {8: "uchar", 16: "ushort", 32: "uint", 64: "ulong"}
"""The unsigned integer of so many bits."""
ACCUMULATORS = {"f32": "float", "f16": "half", "bf16": "short", "i32": "int"}
"""The C type in which DPAS builtins take and give sums."""
SCALED = {"e4m3": "hf8", "e5m2": "bf8"}
"""The names of the element types that DPAS takes with scales."""


def block_word(kind: str, bits: int, columns: int) -> str:
    """The C type of the private buffer of a 2D block builtin, ``intel_sub_group_2d_block_<kind>_<bits>b_...``.

    Args:
        kind: ``"read"``, ``"read_transform"``, ``"read_transpose"`` or ``"write"``; a prefetch has no buffer.
        bits: of an element.
        columns: of one block. A lane has two bytes of a row of 32, and so a word of 16 bits.
    """
    if bits == 32 or kind in ("read_transform", "read_transpose"):
        return UNSIGNED[32]
    return UNSIGNED[8] if bits == 8 and columns == 16 else UNSIGNED[16]


def computed(expression: str, dtype: DType, width: int) -> str:
    """``width`` elements as the C type that they compute in (``DType.opencl_compute``)."""
    if dtype is not bf16:
        return expression
    number = "" if width == 1 else str(width)
    return f"intel_convert_as_bfloat16{number}_float{number}({expression})"


def rounded(expression: str, dtype: DType, width: int) -> str:
    """A computed value as it is stored."""
    if dtype is bf16:
        number = "" if width == 1 else str(width)
        return f"intel_convert_bfloat16{number}_as_ushort{number}({expression})"
    if width == 1 and dtype.bits < 32 and not dtype.is_float:
        return f"({dtype.opencl})({expression})"  # C computes narrow scalars as int
    return expression


def widened(expression: str, dtype: DType, width: int, total: str) -> str:
    """``width`` operands of a product as the C type of its sums, ``total``; tf32 as the matrix engine reads it."""
    if dtype is bf16:
        return computed(expression, dtype, width)
    if dtype is tf32:
        number = "" if width == 1 else str(width)
        return f"as_float{number}(as_uint{number}({expression}) & 0xffffe000u)"
    return expression if total.startswith(dtype.opencl) else f"convert_{total}({expression})"


def narrowed(expression: str, dtype: DType, width: int) -> str:
    """``width`` sums in float or int, rounded to an accumulator's element type."""
    if dtype is f16:
        return f"convert_half{'' if width == 1 else width}({expression})"
    return rounded(expression, dtype, width) if dtype is bf16 else expression


def inline_float(expression: str, dtype: DType) -> str:
    """An element as a float without a call: on a CPU the functions of OpenCL C and of the prelude are calls."""
    if dtype is bf16:
        return f"as_float((uint){expression} << 16)"
    return expression if dtype.opencl == "float" else f"(float)({expression})"


def inline_floats(expression: str, dtype: DType) -> str:
    """16 elements as floats without a call; ``__builtin_convertvector`` is clang's."""
    if dtype is bf16:
        return f"as_float16(convert_uint16({expression}) << 16)"
    return expression if dtype.opencl == "float" else f"__builtin_convertvector({expression}, float16)"
