"""What stands for elements outside an array: a Python number in the compiled kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute

from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.support.errors import ElementTypeError
from xetile.given import what
from xetile.numbers import limits, plain
from xetile.tracer import current


def padding_of(padding: Any, dtype: DType) -> Attribute | None:
    """The attribute for a padding; none for zero, with which everything pads by itself.

    Args:
        padding: a Python number.
        dtype: the type of the elements that it stands for.

    Raises:
        ElementTypeError: it is no number, or the type does not hold it.
    """
    number = plain(padding)
    if dtype is dtypes.i1 and isinstance(number, bool):
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise ElementTypeError("XT1124", f"padding is {what(padding)}, and stands in the compiled kernel",
                               "give a Python number, such as padding=0 or a keyword-only parameter; to choose by a "
                               "run-time value use xt.where", current().location())
    if dtype.kind == "s" and number != 0:
        raise ElementTypeError("XT1125", f"padding {number} does not fit {dtype}, which is padded with zeros",
                               "widen what is loaded, and choose by position: xt.where(inside, v.to(xt.f16), padding)",
                               current().location())
    held = dtypes.round_to(np.asarray(number), dtype) if dtype.is_float else np.asarray(number)
    if not dtype.is_float and (number != int(number) or not _holds(dtype, int(number))):
        raise ElementTypeError("XT1125",
                               f"padding {number} does not fit {dtype}",
                               "give a whole number from {} to {}".format(*limits(dtype)), current().location())
    if held == 0:
        return None
    return FloatAttr(float(held), dtype.mlir) if dtype.is_float else IntegerAttr(int(number), dtype.mlir)  # type: ignore


def _holds(dtype: DType, number: int) -> bool:
    low, high = limits(dtype)
    return low <= number <= high
