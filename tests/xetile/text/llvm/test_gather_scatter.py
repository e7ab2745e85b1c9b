"""LLVM's loads and stores of single elements, read: written by hand, and as ``xegpu_upstream`` prints them."""

from __future__ import annotations

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_device, require_ocloc

TEXT = """
gpu.module @m {{ gpu.func @pick(%A: memref<64x{t}>, %C: memref<64x{t}>) kernel {{
  %o = arith.constant dense<[60, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 0]> : vector<16xindex>
  %s = vector.step : vector<16xindex>
  %m = arith.constant dense<[true, true, true, true, true, true, true, true, true, true, true, true, true, true,
                             true, false]> : vector<16xi1>
  xegpu.prefetch %A[%o] : memref<64x{t}>, vector<16xindex>
  %v = xegpu.load %A[%o], %m <{{l1_hint = #xegpu.cache_hint<cached>}}>
      : memref<64x{t}>, vector<16xindex>, vector<16xi1> -> vector<16x{t}>
  %w = {add} %v, %v : vector<16x{t}>
  xegpu.store %w, %C[%s], %m : vector<16x{t}>, memref<64x{t}>, vector<16xindex>, vector<16xi1>
  gpu.return
}} }}
"""


@pytest.mark.execution("opencl:cpu", "pvc")
@pytest.mark.parametrize(("name", "dtype"), [("f32", np.float32), ("f16", np.float16), ("i32", np.int32)])
def test_a_kernel_written_for_llvm(name: str, dtype: type) -> None:
    require_device()
    kernel = xt.parse(TEXT.format(t=name, add="arith.addi" if name == "i32" else "arith.addf"))["pick"]
    a = np.random.default_rng(1).integers(-9, 9, 64).astype(dtype)
    for where in ("numpy", "numpy:xegpu", "opencl:cpu"):
        c = np.full(64, 7, dtype)
        kernel.on(where, target="pvc")[1](a, c)
        expected = np.full(64, 7, dtype)
        expected[:15] = 2 * a[[60, *range(4, 60, 4)]]
        np.testing.assert_array_equal(c, expected)


def test_its_machine_code_gathers() -> None:
    require_ocloc()
    kernel = xt.parse(TEXT.format(t="f32", add="arith.addf"))["pick"]
    text = str(kernel.lower(xt.Spec((64,), xt.f32), xt.Spec((64,), xt.f32), target="bmg").isa())
    assert text.count("load.ugm.d32.a64") == 2  # the load and the prefetch
    assert text.count("store.ugm.d32.a64") == 1


@xt.kernel
def gathered(A, AT, C):
    at = xt.load_tile(xt.init_tile(AT, (0, 0), (8, 16))).to(xt.index)
    xt.store_tile(xt.load_gather(xt.init_tile(A, offsets=at)) + 1.0, xt.init_tile(C, (0, 0), (8, 16)))


def test_what_is_printed_is_read_again() -> None:
    specs = xt.Spec((None, None), xt.f32), xt.Spec((None, None), xt.i32), xt.Spec((None, None), xt.f32)
    text = gathered.lower(*specs, target="pvc").xegpu_upstream
    assert "xegpu.load %" in text
    rng = np.random.default_rng(2)
    a, at = rng.integers(-9, 9, (32, 32)).astype(np.float32), rng.integers(0, 1024, (8, 16)).astype(np.int32)
    for where in ("numpy", "numpy:xegpu"):
        c = np.zeros((8, 16), np.float32)
        xt.parse(text)["gathered"].on(where, target="pvc")[1](a, at, c)
        np.testing.assert_array_equal(c, a.reshape(-1)[at] + 1)


@pytest.mark.parametrize(("old", "new", "message"), [
    ("<{{l1_hint = #xegpu.cache_hint<cached>}}>", "<{{chunk_size = 2 : i64}}>", "XT3628"),
    ("%C[%s], %m : vector<16x{t}>", "%C[%s], %o : vector<16x{t}>", "16xi1|vector"),
])
def test_what_is_not_read(old: str, new: str, message: str) -> None:
    with pytest.raises(xt.XeError, match=message):
        xt.parse(TEXT.replace(old, new).format(t="f32", add="arith.addf"))
