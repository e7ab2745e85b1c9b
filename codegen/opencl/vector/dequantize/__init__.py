"""``xegpu.dequantize`` in OpenCL C: weights of 4 or 8 bits to operand B of DPAS, by a few instructions a register.

For f16, two rows of words become two of pairs, lower halves with lower halves and upper with upper, once for all
weights of a word. Both come before the first weight: the compiler spills if the words live as long as their weights are
used. This is virtual assembly (vISA), whose instructions have 32 lanes, two registers of words at a time; of OpenCL C
Intel's compiler makes a register for each 16-bit number, and moves the pairing to where the weights are. It needs
registers of 64 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from xdsl.dialects import scf
from xdsl.ir import Operation

from codegen.opencl.emitter import Emitter, Rule
from codegen.opencl.values import Fragment, vector_type, width_of
from codegen.opencl.vector.dequantize.bf16_arithmetic import Bf16Dequantization
from codegen.opencl.vector.dequantize.functions import BYTES, LAST_IN_MANTISSA, MANTISSA_SHIFT, Dequantization
from codegen.opencl.vector.dequantize.rows import hoist_rows, integer_of, powers, rows_of
from codegen.opencl.vector.weight_pairs import (
    BIAS,
    SIGN,
    TWICE,
    paired_fields_function,
    paired_nibbles_function,
    pairs_of_bytes_function,
    pairs_of_halves,
    shift_function,
)
from codegen.opencl.vector.word_columns import ColumnFunction, shifts
from xegpu.analysis.dataflow.integer_range import Range
from xegpu.analysis.dataflow.integral_floats import integral_range
from xegpu.dialect.convert_layout import MASK, SIGN_BIT, DequantizeOp, word_of
from xegpu.ir.dtypes import DType, bf16, f16, i8, i32, of_mlir
from xegpu.ir.traversal import operations
from xegpu.layout.word_columns import WordColumns
from xegpu.mlir.vector import shape_of
from xegpu.target.grf_mode import requested_registers

_EXACT_ZEROS: dict[DType, Range] = {f16: Range(-512, 1023), bf16: Range(-240, 255)}
"""Integers that are exact with a bias added to them, and whose differences from weights are exact."""

_ROOM = 1.5
"""Part of the registers that fragments may take, as they are written, beside floats of two operands: the compiler loads
later where registers run short. Fitted on pvc, where 1.4 spilled nothing and 2 two registers."""

_LONGEST = 16
"""Elements of the longest vector of OpenCL C."""


def _exact_zeros(operation: DequantizeOp, element: DType, word: DType) -> Range | None:
    """Range of zero points that are integers and so small that nothing is rounded but the product; None for others."""
    exact, found = _EXACT_ZEROS[element], integral_range(operation.zero)
    if operation.whole is not None:
        exact = Range(-512, 511) if element is f16 else Range(-SIGN, SIGN) if word is i8 else Range(0, 255)
    elif operation.signed is not None:
        exact = Range(exact.low, exact.high - SIGN_BIT)
    return found if found is not None and found.within(exact.low, exact.high) else None


def _unsigned(fragment: Fragment, start: int, units: int) -> str:
    """Rows of words as a vector of unsigned integers."""
    parts = fragment.slice(start, units).names
    part = parts[0] if len(parts) == 1 else f"({vector_type(fragment.dtype.register, units)})({', '.join(parts)})"
    kind = {i32: "uint", i8: "uchar"}.get(fragment.dtype)
    return part if kind is None else f"as_{vector_type(kind, units)}({part})"


def _all_of_words(emitter: Emitter, words: Fragment, called: Dequantization) -> Iterator[str]:
    """Arguments for the variables of a result whose rows are all weights of one word, then of the next."""
    count = 2 * called.width // called.fields
    for first in range(0, words.units, count):
        part = _unsigned(words, first, count)
        if called.result is f16:
            function = paired_nibbles_function if words.dtype in BYTES else paired_fields_function
            part = f"{function(emitter, count)}({part})"
        yield part


def _one_of_words(emitter: Emitter, operation: DequantizeOp, words: Fragment, called: Dequantization,
                  bits: int) -> Iterator[str]:
    """Arguments for the variables of a result whose rows are a weight of a word each, shifted by ``bits``."""
    width, block = called.width, operation.parent
    c_type = vector_type("uint", width)
    for first in range(0, words.units, 2 * width):
        a, b = (_unsigned(words, start, width) for start in (first, first + width))
        parts = [a, b]
        if called.result is f16 and called.whole is not None:
            parts = [f"{pairs_of_bytes_function(emitter, width, called.whole)}({a}, {b})"]
        elif called.result is f16 and words.dtype in BYTES:  # for each bit anew: as many registers as weights spill
            parts = [f"{pairs_of_bytes_function(emitter, width)}({a}, {b})"]
        elif called.result is f16:
            parts = [f"{pairs_of_halves(emitter, block, width, a, b)}[{operation.first_bit // 16}]"]
        if bits:
            function = shift_function(emitter, width, bits)
            parts = [emitter.common(block, "shifted", c_type, f"{function}({part})") for part in parts]
        yield ", ".join(parts)


def _blocks(columns: WordColumns, width: int) -> tuple[int, int]:
    """The number of blocks of columns that the same instructions shift, and the index of an operand's block."""
    step = columns.step
    if not step or columns.pitch % (2 * step) or columns.start % step or 2 * width > _LONGEST:
        return 1, 0
    return 2, columns.start // step % 2


def _blocks_of_floats(emitter: Emitter, operation: DequantizeOp, columns: WordColumns, width: int, *,
                      is_exact: bool) -> tuple[int, int]:
    """For bf16, how many blocks the same instructions mask, and which an operand is; (0, 0) where a bias is better: it
    inverts bits, and alone takes fewer instructions than a power of two for each lane if differences are exact."""
    if operation.signed is not None or operation.flipped:
        return 0, 0
    blocks, block = _blocks(columns, width)
    if blocks > 1:
        assert emitter.kernel is not None
        registers = requested_registers(emitter.kernel) or max(emitter.target.registers)
        if emitter.live_registers + 2 * width * blocks > _ROOM * registers:
            blocks, block = 1, 0
    return (0, 0) if blocks == 1 and is_exact else (blocks, block)


def _of_columns(emitter: Emitter, operation: DequantizeOp, words: Fragment, columns: WordColumns,
                called: Dequantization) -> Iterator[str]:
    """Arguments for the variables of a result whose weights are in words along rows."""
    block, is_bytes, rows = operation.parent, words.dtype in BYTES, 2 * called.width
    masked = called.mask_and_bias() if called.result is f16 else None
    down = shifts(columns, "get_sub_group_local_id()")
    name, each = ("masks", f"{MASK}u << {down}") if called.floats else \
        ("masks", f"({BIAS:#x}u | {MASK}u << {down}) * {TWICE:#x}u") if called.lanes else ("shifts", down)
    each = emitter.lane_constant(name, each)
    whole = replace(columns, start=columns.start - called.block * columns.step)

    def argument(row: int, rows: int) -> str:
        unit, units = row * columns.pitch // emitter.subgroup, columns.units(rows)
        start = whole.start + row * columns.pitch % emitter.subgroup
        function = ColumnFunction(replace(whole, start=start), units, rows, max(called.blocks, 1), is_bytes, masked,
                                  called.floats)
        name, part = function.define(emitter), _unsigned(words, unit, units)
        return emitter.common(block, "columns", vector_type("uint", function.width), f"{name}({part}, {each})")

    for first in range(0, 2 * shape_of(operation.result)[0], rows):
        halves = (first,) if masked else (first, first + called.width)
        yield ", ".join(argument(row, rows // len(halves)) for row in halves)


def _function_of(emitter: Emitter, operation: DequantizeOp) -> tuple[Dequantization, int]:
    """The function of an operation, and by how many bits its words are shifted before."""
    dtype, word = of_mlir(operation.result.type.element_type), word_of(operation.words)
    width, is_bytes = width_of(shape_of(operation.result)[0]), word in BYTES
    zeros, fields, bit = _exact_zeros(operation, dtype, word), operation.rows_of_word, operation.first_bit
    constant = zeros.low if zeros is not None and zeros.low == zeros.high else None
    computes_bf16 = dtype is bf16 and emitter.target.bf16_arithmetic
    dequantization = partial(Bf16Dequantization if computes_bf16 else Dequantization, flip=operation.flipped,
                             signed=operation.signed is not None,
                             scaled=dtype is not f16 or integral_range(operation.scale) != Range(1, 1),
                             float_zero=dtype is bf16 and not computes_bf16 and constant is None and
                             integer_of(operation.zero) is not None)
    if (columns := operation.columns) is not None:
        blocks, block = _blocks(columns, width) if dtype is f16 else \
            _blocks_of_floats(emitter, operation, columns, width, is_exact=zeros is not None)
        is_exact, constant = (False, None) if dtype is bf16 and blocks else (zeros is not None, constant)
        return dequantization(dtype, 0, width, is_exact, constant, blocks=blocks, block=block,
                              lanes=dtype is f16 and is_bytes), 0
    if dtype is f16:
        bits, bit = bit % 16 // 8 * 8, bit % 16  # that pairs are shifted by
    else:  # of words at once, for all weights; with zero points in registers as well the compiler spills
        bits = MANTISSA_SHIFT if constant is not None and bit > LAST_IN_MANTISSA and not computes_bf16 else 0
    ordered = 0 if fields == 1 or (is_bytes and dtype is f16) else 2 * width // fields
    whole = word if operation.whole else None
    return dequantization(dtype, bit - bits, width, zeros is not None, constant, ordered, fields,
                          is_bytes and dtype is bf16, blocks=int(whole is not None and dtype is f16), whole=whole), bits


def _dequantize(emitter: Emitter, operation: DequantizeOp) -> None:
    words, result = emitter.fragment(operation.words), emitter.fresh(operation.result)
    words = replace(words, dtype=word_of(operation.words), per_lane=1)
    called, bits = _function_of(emitter, operation)
    name = called.function(emitter)
    row: tuple[str, ...] = rows_of(emitter, operation, called)
    if (columns := operation.columns) is not None:
        row = (*row, *powers(emitter, called, columns))
        parts = _of_columns(emitter, operation, words, columns, called)
    else:
        parts = _one_of_words(emitter, operation, words, called, bits) if operation.rows_of_word == 1 else \
            _all_of_words(emitter, words, called)
    emitter.assign(operation.result, result, [f"{name}({', '.join((part, *row))})" for part in parts])


def hoist_invariant_rows(emitter: Emitter, loop: scf.ForOp) -> None:
    """Make rows of zero points and scales that a loop's weights take, and that stay in it, in front of the loop."""
    for operation in operations(loop):
        if isinstance(operation, DequantizeOp):
            hoist_rows(emitter, loop, operation, _function_of(emitter, operation)[0])


RULES: dict[type[Operation], Rule] = {DequantizeOp: _dequantize}
