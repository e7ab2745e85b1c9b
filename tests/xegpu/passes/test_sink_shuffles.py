"""Shuffles below element-wise operations: columns of fields that are put together move words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.kernels import EXECUTIONS, Execution


@xt.kernel
def columns_of_fields(W: Any, C: Any) -> None:
    """The lowest field is not shifted, and the highest is not masked."""
    words, bits = xt.load_tile(xt.init_tile(W, (0, 0), (8, 8))), W.dtype.bits
    fields = [words & 15, *((words >> shift) & 15 for shift in range(4, bits - 4, 4)), words >> bits - 4]
    columns = xt.concatenate([field[:, i:i + 1] for i in range(8) for field in fields], 1)
    xt.store_tile(columns, xt.init_tile(C, (0, 0), columns.shape))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("name", ["uint8", "int16", "uint16", "int32", "uint32"])
def test_columns_of_fields(name: str, execution: Execution) -> None:
    """Each field is as it was, its sign, too."""
    dtype, limits = np.dtype(name).type, np.iinfo(name)
    words = np.random.default_rng(1).integers(limits.min, limits.max, (8, 8), dtype, endpoint=True)
    words[0], words[1] = limits.min, limits.max
    fields = [words & dtype(15), *((words >> dtype(shift)) & dtype(15) for shift in range(4, limits.bits - 4, 4)),
              words >> dtype(limits.bits - 4)]
    expected = np.stack(fields, -1).reshape(8, -1)
    c = np.full_like(expected, 99)
    execution.bind(columns_of_fields)[1](words, c)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("target", ["dg2", "cpu", "pvc"])
def test_words_are_moved(target: str) -> None:
    """One shuffle for a register of columns, and no lane selects among several."""
    lowered = columns_of_fields.lower(xt.Spec((8, 8), xt.u32), xt.Spec((8, 64), xt.u32), target=target)
    kernel = lowered.opencl[lowered.opencl.index("kernel void"):]
    assert "select(" not in kernel
    lanes = 8 if target == "dg2" else 16
    assert kernel.count("shuffle(") + kernel.count("broadcast(") <= 8 * 64 // lanes
