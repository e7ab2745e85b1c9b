"""Iota vectors (row or column indices of a block): legal element types and NumPy semantics."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import Attribute

from xegpu.ir.dtypes import DType, NDArray, of_mlir, round_to
from xegpu.ir.record import COUNTED
from xegpu.layout import lane_map
from xegpu.layout.lane_map import LaneMap
from xegpu.support.errors import ElementTypeError

_EXACT = {"f64": 53, "f32": 24, "tf32": 11, "f16": 11, "bf16": 8}
"""Significand bits of each float: it represents integers of so many bits exactly."""


def check_type(element_type: Attribute, size: int) -> None:
    """Check that an element type represents the indices 0 to ``size - 1`` exactly.

    Raises:
        ElementTypeError: it does not.
    """
    dtype = of_mlir(element_type)
    last = 1 << _EXACT[dtype.name] if dtype.is_float else (1 << dtype.bits - dtype.signed) - 1
    if dtype not in COUNTED.elements or size - 1 > last:
        wide = "i32" if not dtype.is_float else "f32" if size <= 1 << _EXACT["f32"] else "f64"
        raise ElementTypeError("XT3264", f"{dtype} does not hold the positions 0 to {size - 1}",
                               f"count in xt.{wide}, and convert what you calculate from it with .to(xt.{dtype})")


def block_iota(shape: tuple[int, int], axis: int, start: Any, dtype: DType, batch: int) -> NDArray:
    """Iota of a block, ``[batch axes, rows, columns]``.

    Args:
        shape: rows and columns of the block.
        axis: 0 for rows, 1 for columns.
        start: the first value: a number, or an array over the first batch axes.
        dtype: the element type.
        batch: number of batch axes.
    """
    along = np.arange(shape[axis], dtype=np.int64)
    return _counted(np.broadcast_to(along[:, None] if axis == 0 else along, shape), start, dtype, batch)


def lane_iota(shape: tuple[int, int], axis: int, start: Any, dtype: DType, batch: int, lanes: LaneMap,
             subgroup: int) -> NDArray:
    """Iota of a block as the fragments of all lanes, ``[batch axes, lanes, units, elements a unit]``.

    A map of fewer lanes than the ``subgroup`` has repeats.
    """
    return _counted(lane_map.positions(shape, lanes, subgroup)[axis], start, dtype, batch)


def _counted(position: NDArray, start: Any, dtype: DType, batch: int) -> NDArray:
    first = np.asarray(start, np.int64)
    first = first.reshape(*first.shape, *[1] * (batch + 2 - first.ndim))
    return round_to(np.asarray(first + position), dtype)
