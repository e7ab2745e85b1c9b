"""2D block IO takes columns at multiples of four bytes only; everything else must take another path, silently right."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import xetile as xt

RNG = np.random.default_rng(5)
SPEC = xt.Spec((64, 256), "bf16")


@xt.kernel
def shifted(A, C, start, *, first=0, step=2, scaled=1):
    """Adds up 8 x 16 tiles of A from column ``first + start * scaled``, every ``step`` columns."""
    a = xt.init_tile(A, (0, first + start * scaled), (8, 16))
    total = xt.zeros((8, 16), xt.f32)
    for _ in xt.range(3):
        total = total + xt.load_tile(a).to(xt.f32)
        a = xt.update_tile_offset(a, 0, step)
    xt.store_tile(total, xt.init_tile(C, (0, 0), (8, 16)))


CASES = [
    pytest.param({"first": 0, "step": 2, "scaled": 2}, True, id="even everywhere"),
    pytest.param({"first": 3, "step": 2, "scaled": 2}, False, id="odd start"),
    pytest.param({"first": 0, "step": 1, "scaled": 2}, False, id="odd step of the loop"),
    pytest.param({"first": 0, "step": 2, "scaled": 1}, False, id="run-time start that may be odd"),
    pytest.param({"first": 4, "step": 6, "scaled": 4}, True, id="multiples of two"),
]


@pytest.mark.parametrize(("constants", "block"), CASES)
@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_only_columns_that_are_surely_aligned_are_read_by_blocks(constants, block, target):
    text = shifted.lower(SPEC, xt.Spec((8, 16), "f32"), 1, target=target, **constants).opencl
    assert ("intel_sub_group_2d_block_read" in text) is block


@pytest.mark.parametrize(("constants", "block"), CASES)
@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu"])
def test_both_ways_give_the_same_sums(constants, block, where):
    a = RNG.integers(-9, 10, (64, 256)).astype(ml_dtypes.bfloat16)
    c = np.zeros((8, 16), np.float32)
    shifted.on(where)[1](a, c, 5, **constants)
    begin = constants["first"] + 5 * constants["scaled"]
    columns = [begin + i * constants["step"] for i in range(3)]
    assert np.array_equal(c, sum(a[:8, x:x + 16].astype(np.float32) for x in columns))


def test_a_tile_that_two_loops_move_is_followed_through_both():
    @xt.kernel
    def nested(A, C, *, inner=2):
        a = xt.init_tile(A, (0, 0), (8, 16))
        total = xt.zeros((8, 16), xt.f32)
        for _ in xt.range(2):
            for _ in xt.range(2):
                total = total + xt.load_tile(a).to(xt.f32)
                a = xt.update_tile_offset(a, 0, inner)
            a = xt.update_tile_offset(a, 0, 4)
        xt.store_tile(total, xt.init_tile(C, (0, 0), (8, 16)))

    def blocks(inner):
        return "2d_block_read" in nested.lower(SPEC, xt.Spec((8, 16), "f32"), target="pvc", inner=inner).opencl

    assert blocks(2)
    assert not blocks(3)
