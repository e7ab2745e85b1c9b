"""Private arrays that Intel's compiler leaves in memory: scratch memory, or a buffer with a part for each thread."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.simulator.zebin import read_kernels
from codegen.toolchain.ocloc import compile_device
from tests.codegen.simulator.run_opencl import SIMD, TARGETS, run_opencl

SOURCE = """
SIMD kernel void reversed(global int *x, int n)
{
  const int item = get_global_id(0);
  int own[96];
  for (int i = 0; i < n; ++i) own[x[item * 96 + i] & 127] = item * 1000 + i;
  for (int i = 0; i < n; ++i) x[item * 96 + i] = own[n - 1 - i];
}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_each_thread_has_its_own(target: str) -> None:
    items, n = 640, 96
    x = np.tile(np.arange(n, dtype=np.int32), (items, 1))
    run_opencl(SOURCE, "reversed", target, x, np.int32(n), items=items)
    np.testing.assert_array_equal(x, np.arange(items)[:, None] * 1000 + np.arange(n)[::-1])
    text = SOURCE.replace("SIMD", f"__attribute__((intel_reqd_sub_group_size({SIMD[target]})))")
    record = read_kernels(compile_device(text, target, "").data)["reversed"]
    assert bool(record.private_bytes) == (target == "dg2"), "the others have it in scratch memory"
