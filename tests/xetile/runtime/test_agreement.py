"""Any size, tile, element type, work-group map and grid: every execution gives what NumPy gives.

On the device each kernel takes about a second to build, so there hypothesis draws from a short list of kernels and
varies what costs nothing: sizes, grids and data.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.device import SOFTWARE_GPU
from tests.kernels import (
    DEVICE,
    LANES,
    NUMPY,
    TYPES,
    Array,
    Bordered,
    Execution,
    Types,
    gemm,
    gemm_shared,
    operands,
    product,
    tiles,
    viewed,
)
from xegpu.target.targets import TARGETS, find_target

BY_NAME = {str(types): types for types in TYPES}
sizes = st.sampled_from([1, 7, 13, 100]) | st.integers(1, 300)
overhang = st.sampled_from([(0, 0), (1, 0), (0, 2)])
seeds = st.integers(0, 2**32 - 1)
step_counts = st.integers(1, 3)


def check(execution: Execution, types: Types, size: tuple[int, int, int], beyond: tuple[int, int], seed: int,
          kernel: Any,
          tile: tuple[int, int, int], **constants: Any) -> None:
    """The product of random integers, on a grid that may reach beyond the result, inside a border that must stay."""
    (m, n, k), rng = size, np.random.default_rng(seed)
    k = min(k, 256)  # so that every sum is exact
    a, b = operands(rng, types, m, n, k)
    c = Bordered(types.acc, (m, n))
    grid = tiles(m, tile[0]) + beyond[0], tiles(n, tile[1]) + beyond[1]
    execution.bind(kernel)[grid](viewed(a, types.a), viewed(b, types.b), c.array, BM=tile[0], BN=tile[1], BK=tile[2],
                                 acc=types.acc, **constants)
    c.check(product(a, b, types.acc))


@st.composite
def subgroup_tiles(draw: st.DrawFn, types: Types) -> tuple[int, int, int]:
    return draw(st.sampled_from([2, 6, 8, 16, 24, 32])), 16 * draw(st.integers(1, 4)), types.step * draw(step_counts)


@pytest.mark.parametrize("types", TYPES, ids=str)
@given(data=st.data(), size=st.tuples(sizes, sizes, sizes), beyond=overhang, seed=seeds)
def test_subgroup_kernels_agree(types: Types, data: st.DataObject, size: tuple[int, int, int],
                                beyond: tuple[int, int], seed: int) -> None:
    tile = data.draw(subgroup_tiles(types))
    target = data.draw(st.sampled_from([target for target in TARGETS if types.on(Execution("numpy:xegpu", target))]))
    for execution in (NUMPY, Execution("numpy:xegpu", target)):
        check(execution, types, size, beyond, seed, gemm, tile)


Deal = dict[str, tuple[int, int]]


@st.composite
def deals(draw: st.DrawFn, types: Types) -> tuple[tuple[int, int, int], Deal]:
    """A work-group's tile, and maps that distribute A, B and C of it: in rounds, or shared."""
    layout = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    rows, columns = draw(st.sampled_from([8, 16])), draw(st.sampled_from([16, 32]))
    times = [draw(st.sampled_from(["shared", 1, 2])) for _ in range(2)]
    shape = [data if time == "shared" else data * count * time
             for data, count, time in zip((rows, columns), layout, times, strict=True)]
    depth = types.step * draw(step_counts)
    cut = layout == (1, 1) and draw(st.booleans())
    k = types.step if cut else depth
    maps: Deal = {"sg": layout, "data_a": (rows, k), "data_b": (k, columns), "data_c": (rows, columns)}
    return (shape[0], shape[1], depth), maps


@pytest.mark.parametrize("name", ["bf16-bf16-f32", "tf32-tf32-f32", "u8-i8-i32"])
@given(data=st.data(), size=st.tuples(sizes, sizes, sizes), beyond=overhang, seed=seeds)
def test_work_group_kernels_agree(name: str, data: st.DataObject, size: tuple[int, int, int],
                                  beyond: tuple[int, int], seed: int) -> None:
    types = BY_NAME[name]
    tile, maps = data.draw(deals(types))
    target = data.draw(st.sampled_from([target for target in TARGETS if types.on(Execution("numpy:xegpu", target))]))
    for execution in (NUMPY, Execution("numpy:xegpu", target)):
        check(execution, types, size, beyond, seed, gemm_shared, tile, **maps)


BUILT: dict[str, tuple[str, Any, tuple[int, int, int], Deal]] = {
    "bf16": ("bf16-bf16-f32", gemm, (24, 32, 32), {}),
    "i8 in rounds": ("i8-u8-i32", gemm_shared, (64, 32, 32),
                     {"sg": (2, 2), "data_a": (16, 32), "data_b": (32, 16), "data_c": (16, 16)}),
    "f16 shared": ("f16-f16-f32", gemm_shared, (32, 32, 32),
                   {"sg": (2, 4), "data_a": (16, 32), "data_b": (32, 16), "data_c": (16, 16)}),
}


@pytest.mark.parametrize("execution", [*DEVICE, *([] if SOFTWARE_GPU else [Execution("opencl:cpu", "bmg")])], ids=str)
@pytest.mark.parametrize("name", [pytest.param("bf16", marks=pytest.mark.launches), "i8 in rounds", "f16 shared"])
@given(size=st.tuples(sizes, sizes, sizes), beyond=overhang, seed=seeds)
@example((1016, 100, 13), (0, 0), 0)
@example((128, 256, 64), (1, 1), 1)
@settings(max_examples=min(15, settings.default.max_examples))
def test_the_device_agrees(execution: Execution, name: str, size: tuple[int, int, int], beyond: tuple[int, int],
                           seed: int) -> None:
    types, kernel, tile, maps = BUILT[name]
    check(execution, BY_NAME[types], size, beyond, seed, kernel, tile, **maps)


def distance(execution: Execution, types: Types, a: Array, b: Array) -> Array:
    c = np.zeros((a.shape[0], b.shape[1]), types.acc.numpy)
    execution.bind(gemm)[tiles(len(a), 16), tiles(c.shape[1], 16)](a, b, c, BM=16, BN=16, BK=16, acc=types.acc)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    scale = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    return np.abs(c.astype(np.float64) - exact) / np.maximum(scale, 1e-30)


@pytest.mark.parametrize("execution", [NUMPY, *LANES, *DEVICE], ids=str)
@given(size=st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(1, 300)), seed=seeds,
       spread=st.integers(0, 6))
@settings(max_examples=min(10, settings.default.max_examples))
def test_random_floats_agree_within_rounding(execution: Execution, size: tuple[int, int, int], seed: int,
                                             spread: int) -> None:
    """k products summed in float32 in any order: at most k roundings, each of half a unit in the last place."""
    m, n, k = size
    types, rng = BY_NAME["bf16-bf16-f32"], np.random.default_rng(seed)
    a, b = ((rng.standard_normal(shape) * 2.0 ** rng.integers(-spread, spread + 1, shape)).astype(types.a.numpy)
            for shape in ((m, k), (k, n)))
    assert distance(execution, types, a, b).max() <= (k + 1) * 2.0**-24


def test_every_target_has_a_type_to_test() -> None:
    for target in TARGETS:
        assert any(types.on(Execution("numpy:xegpu", target)) for types in TYPES)
        assert find_target(target).name == target
