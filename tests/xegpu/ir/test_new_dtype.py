"""A new element type is one record and its widening in C: one is added, lowered, printed, read, emitted and run."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects import builtin

import xetile as xt
from codegen.opencl.arith import conversion
from tests.conftest import require_device
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType

RECORD = DType("e3m4", 8, "s", np.dtype(ml_dtypes.float8_e3m4), builtin.f8E3M4, "uchar", np.dtype(np.float32), "uchar")
IN_C = ("const {word} bits = as_{word}(convert_{wide}(as_{signed}(v))) << ({word})(6);",
        "return as_{half}(({word})(bits & ({word})(0x9fff))) * ({half})(4096.0f);")
"""Its exponent has bias 3 where that of f16 has 15; infinities and NaN are left out here."""


@pytest.fixture
def e3m4(monkeypatch: pytest.MonkeyPatch) -> DType:
    """The record where ``dtypes.py`` finds the others, and its statements where the emitter does."""
    for index, key in ((dtypes.BY_NAME, RECORD.name), (dtypes._BY_MLIR, RECORD.mlir),
                       (dtypes._BY_NUMPY, RECORD.numpy)):
        monkeypatch.setitem(index, key, RECORD)
    monkeypatch.setitem(conversion.WIDENED, RECORD, IN_C)
    return RECORD


@xt.kernel
def scaled_product(A, B, C, D, *, BM=16, BN=32, BK=32):
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    a, b = xt.init_tile(A, (m, 0), (BM, BK)), xt.init_tile(B, (0, n), (BK, BN))
    acc = xt.zeros((BM, BN), xt.f32)
    for _ in xt.range(0, A.shape[1], BK):
        acc = xt.tile_mma(xt.load_tile(a).to(xt.f16), xt.load_tile(b), acc)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN)))
    copied = xt.load_tile(xt.init_tile(A, (m, n), (BM, BN)))
    xt.store_tile(copied, xt.init_tile(D, (m, n), (BM, BN)))


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu", "opencl:cpu", "pvc", "dg2"])
def test_it_runs(e3m4: DType, where: str) -> None:
    """Every finite number of the type, in a product and copied; subnormal ones and both signs are among them."""
    on = scaled_product.on("opencl:cpu", target=where) if where in xt.TARGETS else scaled_product.on(where)
    if not where.startswith("numpy"):
        require_device()
    rng = np.random.default_rng(5)
    finite = np.arange(256, dtype=np.uint8)
    finite = finite[np.isfinite(finite.view(e3m4.numpy).astype(np.float32))]
    a = rng.permutation(np.resize(finite, 23 * 44)).reshape(23, 44).view(e3m4.numpy)
    b = rng.integers(-3, 4, (44, 40)).astype(np.float16)
    c, d = np.full((23, 40), 77, np.float32), np.full((23, 40), 1, e3m4.numpy)
    on[2, 2](a, b, c, d)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
    np.testing.assert_array_equal(d.view(np.uint8), a[:, :40].view(np.uint8))


@pytest.mark.parametrize("target", xt.TARGETS)
def test_it_is_lowered_and_read_back(e3m4: DType, target: str) -> None:
    specs = [xt.Spec((None, None), dtype) for dtype in ("e3m4", "f16", "f32", "e3m4")]
    low = scaled_product.lower(*specs, target=target)
    assert "xf8E3M4>" in low.xetile
    texts = list(low.stages.values())
    for text in texts if target in ("pvc", "cpu") else texts[-1:]:
        assert "e3m4_to_half" in xt.parse(text)["scaled_product"].lower(*specs, target=target).opencl
