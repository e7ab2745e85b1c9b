"""The lane tables of layout conversions, evaluated lane by lane."""

from __future__ import annotations

import re

import numpy as np
import pytest

from codegen.opencl.vector.lane_exchange import index_table

RNG = np.random.default_rng(2)
TABLES = [[3] * 16, list(range(16)),
          [2 * lane % 16 for lane in range(16)], list(range(15, -1, -1)), [7, 6, 5, 4, 3, 2, 1, 0],
          *RNG.integers(0, 16, (5, 16)).tolist()]


@pytest.mark.parametrize("values", TABLES)
def test_a_table_gives_its_values(values: list[int]) -> None:
    expression = re.sub(r"\b(0x[0-9a-f]+|\d+)ul?\b", r"\1", index_table(values, "lane")).replace("(uint)", "")
    assert [eval(expression, {"lane": lane}) for lane in range(len(values))] == values
