"""Rows of zero points and scales in the form that functions of :class:`Dequantization` take, once a block or a loop.

Each is made by one instruction of virtual assembly (vISA): of OpenCL C, bf16 becomes f32 by two.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects import scf
from xdsl.ir import Block, SSAValue
from xdsl.utils.type import get_element_type_or_self

from codegen.opencl.emitter import Emitter
from codegen.opencl.prelude.macros import NO_VISA
from codegen.opencl.vector.dequantize.functions import Dequantization
from codegen.opencl.vector.lane_exchange import number_table
from codegen.opencl.vector.weight_pairs import TWICE
from codegen.opencl.vector.word_columns import shifts
from xegpu.analysis.dataflow.integral_floats import integral_range
from xegpu.dialect.convert_layout import DequantizeOp
from xegpu.ir.dtypes import bf16, i32, of_mlir
from xegpu.layout.word_columns import WordColumns
from xegpu.mlir.arith import SIToFPOp

_FORMS: dict[str, tuple[str, str, str, str]] = {
    # vISA types of the result and the row; instruction; OpenCL C.
    "paired_row": ("ud", "uw", f"mul (M1_NM, 16) R(0,0)<1> B(0,0)<1;1,0> {TWICE:#x}:ud", f"(uint)row * {TWICE:#x}u"),
    "float_row": ("f", "bf", "mov (M1_NM, 16) R(0,0)<1> B(0,0)<1;1,0>", "(uint)row << 16")}
"""Functions of the bits of a row: to pairs of 16 bits, and from bf16 to f32."""


_LARGEST = 256
"""Integers up to this are exact in bf16."""


def rows_of(emitter: Emitter, operation: DequantizeOp, called: Dequantization) -> tuple[str, str]:
    """Arguments for the zero point and the scale of an operation."""
    assert operation.parent is not None
    zero, scale = (_row(emitter, operation.parent, value, *_form(emitter, called, value, is_zero=is_zero))
                   for value, is_zero in ((operation.zero, True), (operation.scale, False)))
    return zero, scale


def hoist_rows(emitter: Emitter, loop: scf.ForOp, operation: DequantizeOp, called: Dequantization) -> None:
    """Make rows of what is defined before a loop there: Intel's compiler would make them in each step, as it does not
    take virtual assembly out of a loop."""
    assert loop.parent is not None
    for value, is_zero in ((operation.zero, True), (operation.scale, False)):
        name, expression = _form(emitter, called, value, is_zero=is_zero) if value in emitter.values else ("", "")
        if name:
            _row(emitter, loop.parent, value, name, expression)


def integer_of(zero: SSAValue) -> SSAValue | None:
    """The signed integers of 32 bits of which a row of zero points in bf16 is made, if it has them all; else None."""
    made, found = zero.owner, integral_range(zero)
    if not isinstance(made, SIToFPOp) or found is None or not found.within(-_LARGEST, _LARGEST):
        return None
    return made.input if of_mlir(get_element_type_or_self(made.input.type)) is i32 else None


def _form(emitter: Emitter, called: Dequantization, value: SSAValue, *, is_zero: bool) -> tuple[str, str]:
    """The function that converts a row to its form, and its argument; no name if the row needs none."""
    (row,) = emitter.words(value)
    if called.result is bf16:
        if is_zero and called.float_zero:
            integer = integer_of(value)
            assert integer is not None
            (number,) = emitter.words(integer)
            return "", f"as_uint(convert_float({number}))"
        if is_zero:
            return "paired_row" if called.in_pairs and called.zero is None else "", row
        return "paired_row" if called.in_pairs else "float_row", row
    if (called.zero is not None) if is_zero else not called.scaled:
        return "", row
    if is_zero and called.bias_of_zero:
        row = f"(half)({row} + (half){called.bias_of_zero}.0f)"
    return "paired_row", f"as_ushort({row})"


def powers(emitter: Emitter, called: Dequantization, columns: WordColumns) -> tuple[str, ...]:
    """Further arguments where each lane's weights are too large by a power of two of its own: the power's inverse, and
    in f16 what is added then."""
    down = shifts(columns, "get_sub_group_local_id()")
    if called.floats:  # 127 is the exponent's bias, 23 the mantissa's bits, 7 of them those of bf16
        power = f"((127u - {down}) << 7) * {TWICE:#x}u" if called.in_pairs else f"(127u - {down}) << 23"
        return (emitter.lane_constant("powers", power),)
    if not called.lanes:
        return ()
    less = number_table([int(np.float16(-called.bias_at(bit)).view(np.uint16)) * TWICE for bit in columns.bits],
                        "get_sub_group_local_id()")
    assert less is not None, "bytes have two bits at which a weight begins"
    return (emitter.lane_constant("powers", f"((15u - {down}) << 10) * {TWICE:#x}u"),  # of exponent and mantissa of f16
            emitter.lane_constant("biases", less))


def _row(emitter: Emitter, block: Block, value: SSAValue, name: str, row: str) -> str:
    """The variable of a row in a form, which operations of a block and of those in it share; without a name the row."""
    if not name:
        return row
    to, of, instruction, portable = _FORMS[name]
    lines = "".join(f'    "{line}\\n"\n' for line in (
        "{", f".decl R v_type=G type={to} num_elts=16 align=GRF alias=<%0, 0>",
        f".decl B v_type=G type={of} num_elts=16 align=GRF alias=<%1, 0>", instruction, "}"))
    emitter.function(f"static uint {name}(ushort row)\n{{\n#ifdef {NO_VISA}\n  return {portable};\n#else\n"
                     f'  uint made;\n  __asm__(\n{lines}    : "=rw"(made) : "rw"(row));\n  return made;\n#endif\n}}\n')
    expression = f"{name}({row})"
    around: Block | None = block
    while around is not None:
        if (around, value, expression) in emitter.shared:
            return emitter.shared[around, value, expression]
        around = around.parent_block()
    made = emitter.shared[block, value, expression] = emitter.name("row")
    emitter.line(f"const uint {made} = {expression};")
    return made
