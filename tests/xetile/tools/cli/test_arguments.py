"""Arguments from words of the command line."""

from __future__ import annotations

import numpy as np
import pytest

from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xetile.tools.cli.arguments import array_of, operand

FLOATS = [dtype for dtype in dtypes.ALL if dtype.kind in "fs"]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_random_floats_lie_between_minus_one_and_one(dtype: DType) -> None:
    """Of every type with a sign and an exponent, those that are only stored and multiplied included."""
    values = array_of(operand(f"random:64x64:{dtype}", 3))
    assert values.dtype == dtype.numpy
    numbers = values.astype(np.float64)
    assert np.isfinite(numbers).all()
    assert np.abs(numbers).max() <= 1
    assert numbers.min() < -0.9
    assert numbers.max() > 0.9
    assert len(np.unique(numbers)) > 60


def test_every_float_of_numpy_is_among_them() -> None:
    """The list above: element types that NumPy or ml_dtypes gives a fraction."""
    fractions = [dtype for dtype in dtypes.ALL if np.array(0.5).astype(dtype.numpy).astype(np.float64) == 0.5]
    assert fractions == FLOATS


@pytest.mark.parametrize("dtype", [dtype for dtype in dtypes.ALL if dtype.kind in "iu"], ids=str)
def test_random_integers_are_of_all_that_there_are(dtype: DType) -> None:
    values = array_of(operand(f"random:64x64:{dtype}", 3)).astype(np.float64)
    top = 1 if dtype is dtypes.i1 else 2.0 ** (dtype.bits - (dtype.kind == "i"))
    assert values.max() > 0.9 * top - 1
    assert values.min() < (-0.9 * top if dtype.kind == "i" else 0.1 * top)
