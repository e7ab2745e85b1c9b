"""Loops along rows on a processor: first the steps all of whose blocks are in bounds, without a check."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_device

COLUMNS = 32


@xt.kernel
def shifted(X, Y, Z, *, rows: int, start: int, step: int, ahead: int):
    """Y gets the tiles of X, Z the sum of each and of the one ``ahead`` of it, both padded by 3."""
    row = xt.group_id(0) * rows - 1
    at = (rows, COLUMNS)
    for n in xt.range(start, X.shape[1], step):
        x = xt.load_tile(xt.init_tile(X, (row, n), at), padding=3)
        other = xt.load_tile(xt.init_tile(X, (row + 1, n + ahead), at), padding=3)
        xt.store_tile(x, xt.init_tile(Y, (row, n), at))
        xt.store_tile(x + other, xt.init_tile(Z, (row, n + 1), at))


@xt.kernel
def softmax(X, Y):
    """Softmax of rows: maxima and sums are carried from the steps in bounds to those that are not."""
    row, at = xt.group_id(0), (1, COLUMNS)
    highest, total = xt.full(at, -math.inf, xt.f32), xt.zeros(at, xt.f32)
    for n in xt.range(0, X.shape[1], COLUMNS):
        highest = xt.maxnum(highest, xt.load_tile(xt.init_tile(X, (row, n), at), padding=-math.inf))
    top = xt.tile_reduce("maxnumf", highest, 1)
    for n in xt.range(0, X.shape[1], COLUMNS):
        power = xt.exp(xt.load_tile(xt.init_tile(X, (row, n), at), padding=-math.inf) - top)
        total = total + power
        xt.store_tile(power, xt.init_tile(Y, (row, n), at))
    total = xt.tile_reduce("add", total, 1)
    for n in xt.range(0, X.shape[1], COLUMNS):
        xt.store_tile(xt.load_tile(xt.init_tile(Y, (row, n), at)) / total, xt.init_tile(Y, (row, n), at))


def test_steps_in_bounds_have_no_check() -> None:
    spec = xt.Spec((None, None), "f32")
    lowered = softmax.lower(spec, spec, target="cpu")
    assert "peel-bounds" in lowered.stages
    bodies = re.findall(r"for \(; n\d* < inside_end.*?\n  }", lowered.opencl, re.DOTALL)
    assert len(bodies) == 3
    assert not any(word in body for body in bodies for word in ("if (", "_masked", "pad_"))


@pytest.mark.execution("opencl:cpu", "cpu")
@pytest.mark.parametrize("widths", [(64, 64, 64), (97, 64, 200), (200, 97, 40), (31, 64, 64), (65, 128, 66)])
@pytest.mark.parametrize(("rows", "start", "step", "ahead"), [(1, 0, 32, 0), (1, -3, 32, 1), (2, -32, 17, -5),
                                                              (4, 1, 32, 40)])
@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.uint8])
def test_arrays_of_different_widths(dtype: type, rows: int, start: int, step: int, ahead: int,
                                    widths: tuple[int, int, int]) -> None:
    """Of three arrays, each may be the one that the steps leave first; borders stay as they are."""
    require_device()
    rng = np.random.default_rng(widths)
    frames = {}
    x = rng.integers(0, 100, (7, widths[0] + 3)).astype(dtype)[:, 1:-2]
    for execution in ("numpy", "opencl:cpu"):
        y, z = frames[execution] = [np.full((height + 2, width + 3), 7, dtype) for height, width in
                                    zip((6, 9), widths[1:], strict=True)]
        shifted.on(execution, target="cpu")[-(-9 // rows),](
            x, y[1:-1, 1:-2], z[1:-1, 2:-1], rows=rows, start=start, step=step, ahead=ahead)
    for expected, got in zip(*frames.values(), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_a_step_that_ends_one_element_outside() -> None:
    test_arrays_of_different_widths(np.float32, 1, 0, 32, 0, (95, 97, 96))


@pytest.mark.execution("opencl:cpu", "cpu")
@pytest.mark.parametrize("columns", [1, 31, 32, 33, 64, 100])
def test_carried_values_go_on(columns: int) -> None:
    require_device()
    x = np.random.default_rng(columns).standard_normal((5, columns)).astype(np.float32)
    y = np.full_like(x, 7)
    softmax.on("opencl:cpu", target="cpu")[5,](x, y)
    powers = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, powers / powers.sum(1, keepdims=True), rtol=1e-5)


def test_a_loop_that_branches_stays() -> None:
    @xt.kernel
    def some(X, Y):
        for n in xt.range(0, X.shape[1], COLUMNS):
            x = xt.load_tile(xt.init_tile(X, (0, n), (1, COLUMNS)))
            with xt.when(n > 64):
                xt.store_tile(x, xt.init_tile(Y, (0, n), (1, COLUMNS)))

    spec = xt.Spec((None, None), "f32")
    assert "peel-bounds" not in some.lower(spec, spec, target="cpu").stages
