"""``load_tile(tile, padding=...)``: what is read outside an array, in every execution."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_device, require_ocloc

pytestmark = pytest.mark.unoptimised

EXECUTIONS = [("numpy", None), ("numpy:xegpu", "pvc"), ("numpy:xegpu", "dg2"), ("opencl:cpu", "pvc"),
              ("opencl:cpu", "dg2"), ("opencl:cpu", "cpu")]
TYPES = [(np.float32, 1.5), (np.float32, float("-inf")), (np.float16, -3), (ml_dtypes.bfloat16, 0.1), (np.int32, -7),
         (np.int8, -128), (np.uint8, 255)]
RNG = np.random.default_rng(3)


@xt.kernel
def shifted(A, C, *, rows=8, columns=16, padding=0):
    """C[i, j] = A[i - 3, j - 5], padded outside A."""
    y, x = xt.group_id(0) * rows, xt.group_id(1) * columns
    value = xt.load_tile(xt.init_tile(A, (y - 3, x - 5), (rows, columns)), padding=padding)
    xt.store_tile(value, xt.init_tile(C, (y, x), (rows, columns)))


def execution(where: str, target: str | None) -> Any:
    if where == "opencl:cpu":
        require_device(where)
    return {"target": target}


@pytest.mark.parametrize(("where", "target"), EXECUTIONS)
@pytest.mark.parametrize(("dtype", "padding"), TYPES)
def test_all_four_edges(dtype, padding, where, target):
    kernel = shifted.on(where, **execution(where, target))
    a = RNG.integers(1, 100, (13, 50)).astype(dtype)
    c = np.zeros((24, 64), dtype)
    kernel[3, 4](a, c, padding=padding)
    expected = np.full((24, 64), padding, dtype)
    expected[3:16, 5:55] = a
    assert np.array_equal(c, expected)


@pytest.mark.parametrize(("where", "target"), EXECUTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_negative_zero_keeps_its_sign(dtype, where, target):
    a, c = np.ones((13, 50), dtype), np.ones((8, 16), dtype)
    shifted.on(where, **execution(where, target))[1, 1](a, c, padding=-0.0)
    assert np.signbit(c[:3].astype(np.float32)).all()
    assert (c[:3] == 0).all()


def test_negative_zero_is_read_back_from_text():
    lowered = shifted.lower(xt.Spec((13, 50), "f32"), xt.Spec((8, 16), "f32"), padding=-0.0)
    for text in (lowered.xetile, lowered.xegpu):
        c = np.ones((8, 16), np.float32)
        xt.parse(text)["shifted"][1, 1](np.ones((13, 50), np.float32), c)
        assert np.signbit(c[:3]).all()


@pytest.mark.parametrize(("where", "target"), EXECUTIONS)
def test_operands_of_a_product(where, target):
    @xt.kernel
    def product(A, B, C, *, padding=0):
        a = xt.load_tile(xt.init_tile(A, (0, 0), (16, 32)), padding=padding)
        b = xt.load_tile(xt.init_tile(B, (0, 0), (32, 32)), padding=padding)
        xt.store_tile(xt.tile_mma(a, b), xt.init_tile(C, (0, 0), (16, 32)))

    kernel = product.on(where, **execution(where, target))
    a = RNG.integers(-4, 5, (11, 27)).astype(ml_dtypes.bfloat16)
    b = RNG.integers(-4, 5, (27, 19)).astype(ml_dtypes.bfloat16)
    c = np.zeros((16, 32), np.float32)
    kernel[1](a, b, c, padding=2)
    whole_a, whole_b = np.full((16, 32), 2, np.float32), np.full((32, 32), 2, np.float32)
    whole_a[:11, :27], whole_b[:27, :19] = a, b
    assert np.array_equal(c, whole_a @ whole_b)


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu"])
def test_a_work_groups_tile(where):
    @xt.kernel
    def filled(A, C):
        map_ = xt.wg_map((2, 2), (8, 16))
        value = xt.load_tile(xt.init_tile(A, (0, 0), (32, 32), wg_map=map_), padding=9)
        xt.store_tile(value, xt.init_tile(C, (0, 0), (32, 32), wg_map=map_))

    a = RNG.integers(10, 100, (21, 17)).astype(np.float32)
    c = np.zeros((32, 32), np.float32)
    filled.on(where)[1](a, c)
    expected = np.full((32, 32), 9, np.float32)
    expected[:21, :17] = a
    assert np.array_equal(c, expected)


def test_text_keeps_the_padding():
    specs = xt.Spec((13, 50), "bf16"), xt.Spec((24, 64), "bf16")
    a = RNG.integers(1, 100, (13, 50)).astype(ml_dtypes.bfloat16)
    expected = np.full((24, 64), 0.1, ml_dtypes.bfloat16)
    expected[3:16, 5:55] = a
    for stage, text in shifted.lower(*specs, padding=0.1).stages.items():
        c = np.zeros((24, 64), ml_dtypes.bfloat16)
        xt.parse(text)["shifted"].on("numpy")[3, 4](a, c)
        assert np.array_equal(c, expected), stage
        assert str(xt.parse(text)) == text


@xt.kernel
def padded_twice(A, C, D):
    """A tile outside A with paddings whose exponents differ in their signs alone."""
    outside = xt.init_tile(A, (-8, 0), (8, 16))
    xt.store_tile(xt.load_tile(outside, padding=1e20), xt.init_tile(C, (0, 0), (8, 16)))
    xt.store_tile(xt.load_tile(outside, padding=1e-20), xt.init_tile(D, (0, 0), (8, 16)))


@pytest.mark.parametrize(("where", "target"), [("numpy", None), ("opencl:cpu", "pvc"), ("opencl:cpu", "cpu")])
def test_exponents_of_either_sign(where, target):
    c, d = np.zeros((8, 16)), np.zeros((8, 16))
    padded_twice.on(where, **execution(where, target))[1](np.zeros((8, 16)), c, d)
    assert (c == 1e20).all()
    assert (d == 1e-20).all()


def test_zero_costs_nothing():
    specs = xt.Spec((13, 50), "f32"), xt.Spec((24, 64), "f32")
    assert "xegpu.pad" not in shifted.lower(*specs, padding=0.0).xegpu
    assert "xegpu.pad" in shifted.lower(*specs, padding=1).xegpu


@pytest.mark.parametrize("target", ["pvc", "bmg", "dg2"])
def test_the_machine_code_needs_no_memory_of_its_own(target):
    require_ocloc()
    lowered = shifted.lower(xt.Spec((4096, 4096), "f32"), xt.Spec((4096, 4096), "f32"), target=target, padding=1.5)
    assert (lowered.report().spill_size, lowered.report().private_size) == (0, 0)


@pytest.mark.parametrize(("dtype", "padding"), [(np.int8, 128), (np.int8, 0.5), (np.uint8, -1), (np.float32, "x"),
                                                (np.float32, True)])
def test_what_is_no_padding(dtype, padding):
    a, c = np.ones((13, 50), dtype), np.full((24, 64), 7, dtype)
    with pytest.raises(xt.ElementTypeError, match="padding"):
        shifted[3, 4](a, c, padding=padding)
    assert (c == 7).all()
    shifted[3, 4](a, c)
    assert c[0, 0] == 0
    assert c[3, 5] == 1
