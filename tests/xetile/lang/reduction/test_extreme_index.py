"""``argmax`` and ``argmin`` against NumPy's: ties, NaN, zeros of both signs, rows of a work-group's subgroups."""

from __future__ import annotations

import numpy as np
import pytest

import xetile as xt
from tests.kernels import DEVICE, NUMPY, Array, Execution
from xegpu.ir.dtypes import DType

EXECUTIONS = [NUMPY, Execution("numpy:xegpu", "pvc"), Execution("numpy:program", "pvc"), *DEVICE]


def data(dtype: DType, shape: tuple[int, int]) -> Array:
    """Few different numbers, so that there are ties; of floats zeros of both signs, infinities and NaN."""
    rng = np.random.default_rng(7)
    if not dtype.is_float:
        limits = np.iinfo(dtype.numpy)
        return rng.choice(np.array([limits.min, limits.max, 0, 1, 2], dtype.numpy), shape)
    found = rng.choice(np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf], dtype.numpy), shape)
    found[1, ::3] = found[2, 5:9] = found[5, -1] = np.nan
    found[3], found[4] = -0.0, -np.inf
    found[3, 1::2] = 0.0
    return found


@xt.kernel
def positions(A, C, D, *, shape, map_):
    v = xt.load_tile(xt.init_tile(A, (0, 0), shape, wg_map=map_))
    for i, find in enumerate((xt.argmax, xt.argmin)):
        xt.store_tile(find(v, 1), xt.init_tile(C, (0, i), (shape[0], 1), wg_map=map_ and map_.collapsed((1,))))
        xt.store_tile(find(v, 0), xt.init_tile(D, (i, 0), (1, shape[1]), wg_map=map_ and map_.collapsed((0,))))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("map_", [None, ((2, 2), (8, 32))], ids=["subgroup", "work-group"])
@pytest.mark.parametrize("dtype", [xt.f32, xt.f16, xt.bf16, xt.i32, xt.u8, xt.i64], ids=str)
def test_first_position_of_the_extreme(dtype: DType, map_: tuple[tuple[int, int], tuple[int, int]] | None,
                                       execution: Execution) -> None:
    shape = (16, 64) if map_ else (8, 32)
    a = data(dtype, shape)
    c, d = np.zeros((shape[0], 2), np.int32), np.zeros((2, shape[1]), np.int32)
    execution.bind(positions)[1](a, c, d, shape=shape, map_=map_ and xt.wg_map(sg_layout=map_[0], sg_data=map_[1]))
    wide = a.astype(np.float64) if dtype.is_float else a
    assert (c == np.stack([wide.argmax(1), wide.argmin(1)], 1)).all()
    assert (d == np.stack([wide.argmax(0), wide.argmin(0)])).all()


@xt.kernel
def lines(A, C, D):
    v = xt.load_tile(xt.init_tile(A, (0, 0), (8, 32)))
    for i, find in enumerate((xt.argmax, xt.argmin)):
        xt.store_tile(find(v, 1, keepdims=False), xt.init_tile(C, (i, 0), (8,)))
        xt.store_tile(find(v, 0, keepdims=False), xt.init_tile(D, (i, 0), (32,)))
        row = xt.load_tile(xt.init_tile(A, (4, 0), (32,)))
        xt.store_tile(find(v[2], 0), xt.init_tile(C, (i + 2, 0), (1,)))
        xt.store_tile(find(row, -1), xt.init_tile(C, (i + 2, 1), (1,)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("dtype", [xt.f32, xt.i32, xt.u8], ids=str)
def test_vectors_of_one_dimension(dtype: DType, execution: Execution) -> None:
    a, c, d = data(dtype, (8, 32)), np.full((4, 8), -7, np.int32), np.zeros((2, 32), np.int32)
    execution.bind(lines)[1](a, c, d)
    expected = np.full((4, 8), -7)
    expected[:2] = a.argmax(1), a.argmin(1)
    expected[2, :2], expected[3, :2] = a[[2, 4]].argmax(1), a[[2, 4]].argmin(1)
    assert (c == expected).all()
    assert (d == np.stack([a.argmax(0), a.argmin(0)])).all()


def test_an_axis_is_0_or_1() -> None:
    with pytest.raises(xt.RankError) as caught:
        (lambda kernel: kernel[1](np.zeros((8, 16), np.float32)))(
            xt.kernel(lambda A: xt.argmax(xt.load_tile(xt.init_tile(A, (0, 0), (8, 16))), 2)))
    assert caught.value.code == "XT1224"
    with pytest.raises(xt.RankError) as caught:
        (lambda kernel: kernel[1](np.zeros(16, np.float32)))(
            xt.kernel(lambda A: xt.argmin(xt.load_tile(xt.init_tile(A, (0,), (16,))), 1)))
    assert caught.value.code == "XT1224"
