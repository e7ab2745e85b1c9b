"""Rows of zero points and scales, in the form that functions of :class:`Dequantization` take, once for a block.

Each is made by one instruction of virtual assembly (vISA): of OpenCL C, bf16 becomes f32 by two.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import Block

from codegen.opencl.emitter import Emitter
from codegen.opencl.prelude.macros import NO_VISA
from codegen.opencl.vector.dequantize.functions import Dequantization
from codegen.opencl.vector.lane_exchange import number_table
from codegen.opencl.vector.weight_pairs import TWICE
from codegen.opencl.vector.word_columns import shifts
from xegpu.ir.dtypes import bf16
from xegpu.layout.word_columns import WordColumns

_FORMS: dict[str, tuple[str, str, str, str]] = {
    # vISA types of the result and the row; instruction; OpenCL C.
    "paired_row": ("ud", "uw", f"mul (M1_NM, 16) R(0,0)<1> B(0,0)<1;1,0> {TWICE:#x}:ud", f"(uint)row * {TWICE:#x}u"),
    "float_row": ("f", "bf", "mov (M1_NM, 16) R(0,0)<1> B(0,0)<1;1,0>", "(uint)row << 16")}
"""Functions of the bits of a row: to pairs of 16 bits, and from bf16 to f32."""


def rows_of(emitter: Emitter, block: Block | None, called: Dequantization, zero: str, scale: str) -> tuple[str, str]:
    """Arguments for the zero point and the scale, of a row's expressions."""
    if called.result is bf16:
        if called.in_pairs and called.zero is None:
            zero = _row(emitter, block, "paired_row", zero)
        return zero, _row(emitter, block, "paired_row" if called.in_pairs else "float_row", scale)
    if called.zero is None:
        zero = f"(half)({zero} + (half){called.bias_of_zero}.0f)" if called.bias_of_zero else zero
        zero = _row(emitter, block, "paired_row", f"as_ushort({zero})")
    return zero, _row(emitter, block, "paired_row", f"as_ushort({scale})") if called.scaled else scale


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


def _row(emitter: Emitter, block: Block | None, name: str, row: str) -> str:
    """The variable of a row in a form, which a block's operations share."""
    to, of, instruction, portable = _FORMS[name]
    lines = "".join(f'    "{line}\\n"\n' for line in (
        "{", f".decl R v_type=G type={to} num_elts=16 align=GRF alias=<%0, 0>",
        f".decl B v_type=G type={of} num_elts=16 align=GRF alias=<%1, 0>", instruction, "}"))
    emitter.function(f"static uint {name}(ushort row)\n{{\n#ifdef {NO_VISA}\n  return {portable};\n#else\n"
                     f'  uint made;\n  __asm__(\n{lines}    : "=rw"(made) : "rw"(row));\n  return made;\n#endif\n}}\n')
    return emitter.common(block, "row", "uint", f"{name}({row})")
