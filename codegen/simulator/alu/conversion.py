"""Immediates as values of lanes, and conversions of results to the type of the destination."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from codegen.simulator.alu.regions import Array
from codegen.simulator.alu.rounding import round_to
from codegen.simulator.instruction import DataType, ImmediateOperand


def immediate_lanes(operand: ImmediateOperand, count: int) -> Array:
    """Values of an immediate for ``count`` lanes."""
    lane = np.arange(count)
    if operand.type.name in ("v", "uv"):
        nibble = operand.bits >> 4 * (lane % 8) & 15
        return nibble.astype(np.uint16) if operand.type.name == "uv" else ((nibble ^ 8) - 8).astype(np.int16)
    if operand.type.name == "vf":  # sign, 3 bits of exponent with bias 3, 4 bits of mantissa; 0 is zero
        byte = operand.bits >> 8 * (lane % 4) & 255
        size = (1 + (byte & 15) / 16) * 2.0 ** ((byte >> 4 & 7) - 3)
        return np.where(byte & 127 == 0, 0, np.where(byte & 128, -size, size)).astype(np.float32)
    raw = operand.bits.to_bytes(operand.type.bytes, "little")
    return np.full(count, np.frombuffer(raw, operand.type.storage)[0])


def convert(value: Array, kind: DataType, saturate: bool, rounding: int) -> Array:
    """Convert to a type: floats round by ``rounding``, to integers towards zero and clamped; integers wrap."""
    is_float = value.dtype.kind == "f" or value.dtype == ml_dtypes.bfloat16
    if kind.is_float:
        if saturate:
            value = np.where(np.isnan(value), 0, np.clip(value, 0, 1)).astype(value.dtype if is_float else np.float64)
        if value.dtype == kind.storage:
            return value
        return round_to(value, kind.storage, rounding)
    if is_float:
        return _float_to_integer(value, kind)
    if saturate:
        limits = np.iinfo(kind.storage)
        value = np.clip(value, limits.min, limits.max)
    return value if value.dtype == kind.storage else value.astype(kind.storage)


def _float_to_integer(value: Array, kind: DataType) -> Array:
    limits = np.iinfo(kind.storage)
    wide = value.astype(np.float64)
    inside = np.where(np.isnan(wide), 0, np.clip(np.trunc(wide), float(limits.min), float(limits.max)))
    result = inside.astype(kind.storage)
    if kind.bytes == 8:  # the largest integers are no float64
        result = np.where(inside >= float(limits.max), np.array(limits.max, kind.storage), result)
    return result
