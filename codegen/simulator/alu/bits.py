"""Integer functions on bits: shifts, rotations, bit counts, bit fields, truth tables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from codegen.simulator.alu.regions import Array


def _shift_count(a: Array, count: Array) -> Array:
    """Count of a shift: 5 bits, 6 for quadwords."""
    return np.asarray(count & np.array(63 if a.dtype.itemsize == 8 else 31, a.dtype))


def _shift_left(a: Array, count: Array) -> Array:
    return np.left_shift(a, _shift_count(a, count))


def _shift_right(a: Array, count: Array) -> Array:
    return np.right_shift(a, _shift_count(a, count))


def _rotate_left(a: Array, count: Array) -> Array:
    bits = 8 * a.dtype.itemsize
    unsigned = a.view(np.dtype(f"u{a.dtype.itemsize}"))
    by = (count & (bits - 1)).astype(unsigned.dtype)
    back = (bits - by) & (bits - 1)
    return np.asarray((unsigned << by) | np.where(by == 0, 0, unsigned >> back))


def _rotate_right(a: Array, count: Array) -> Array:
    return _rotate_left(a, -count)


def _bits_of(a: Array) -> Array:
    """Bits of 32-bit integers, lowest first: (..., 32)."""
    words = a.astype(np.uint32)
    return np.asarray((words[..., None] >> np.arange(32, dtype=np.uint32)) & np.uint32(1))


def _reverse(a: Array) -> Array:
    return np.asarray((_bits_of(a) << np.arange(31, -1, -1, dtype=np.uint32)).sum(-1)).astype(np.uint32)


def _count(a: Array) -> Array:
    return np.asarray(np.bitwise_count(a.view(np.dtype(f"u{a.dtype.itemsize}"))), np.uint32)


def _leading_zeros(a: Array) -> Array:
    bits = _bits_of(a)[..., ::-1]
    return np.where(bits.any(-1), bits.argmax(-1), 32).astype(np.uint32)


def _first_high(a: Array) -> Array:
    """Distance of the first bit, from the top, that differs from the sign (of unsigned: that is set); -1 if none."""
    flipped = np.where(a < 0, ~a, a)
    zeros = _leading_zeros(flipped)
    return np.where(zeros == 32, 0xFFFFFFFF, zeros).astype(np.uint32)


def _first_low(a: Array) -> Array:
    bits = _bits_of(a)
    return np.where(bits.any(-1), bits.argmax(-1), 0xFFFFFFFF).astype(np.uint32)


def _extract(width: Array, offset: Array, value: Array) -> Array:
    """``bfe``: bits of a field; signed types extend its sign."""
    width, offset = width & 31, offset & 31
    top = (value << ((32 - width - offset) & 31)).astype(value.dtype)
    return np.where(width == 0, 0, top >> ((32 - width) & 31)).astype(value.dtype)


def _field_mask(width: Array, offset: Array) -> Array:
    """``bfi1``: ones in a field."""
    return np.asarray(((1 << (width.astype(np.int64) & 31)) - 1) << (offset.astype(np.int64) & 31))


def _insert(mask: Array, value: Array, base: Array) -> Array:
    """``bfi2``: a field, shifted to where the mask's lowest bit is, in the place of those bits of ``base``."""
    low = _first_low(mask).astype(np.int64)
    shifted = value.astype(np.int64) << np.where(low > 31, 0, low)
    return np.asarray((shifted & mask) | (base & ~mask))


def _average(a: Array, b: Array) -> Array:
    return np.asarray((a.astype(np.int64) + b + 1) >> 1)


def _dot(c: Array, a: Array, b: Array) -> Array:
    """``dp4a`` of operands of one signedness: sum of the products of four bytes."""
    total = c.astype(np.int64)
    byte = np.int8 if a.dtype.kind == "i" else np.uint8
    for k in range(4):
        total = total + (a >> 8 * k).astype(byte).astype(np.int64) * (b >> 8 * k).astype(byte).astype(np.int64)
    return np.asarray(total)


INTEGER_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "shl": _shift_left, "shr": _shift_right, "asr": _shift_right, "rol": _rotate_left, "ror": _rotate_right,
    "bfrev": _reverse, "cbit": _count, "lzd": _leading_zeros, "fbh": _first_high, "fbl": _first_low,
    "bfe": _extract, "bfi1": _field_mask, "bfi2": _insert, "avg": _average, "dp4a": _dot,
}
"""Functions by mnemonic."""


def bfn(table: int) -> Callable[[Array, Array, Array], Array]:
    """Bitwise function of three operands: bit k of the table is its value where operand j has bit j of k."""
    def apply(first: Array, second: Array, third: Array) -> Array:
        result = np.zeros(np.broadcast_shapes(first.shape, second.shape, third.shape), first.dtype)
        for row in range(8):
            if table >> row & 1:
                terms = [each if row >> bit & 1 else ~each for bit, each in enumerate((first, second, third))]
                result |= terms[0] & terms[1] & terms[2]
        return result

    return apply
