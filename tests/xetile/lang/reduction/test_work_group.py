"""Scans, reductions by a function, sorting, slices and shifts of vectors that are distributed over subgroups."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_device
from tests.kernels import FEW, Execution

pytestmark = pytest.mark.unoptimised  # networks are long texts

MAPS = {
    "rows": ((16, 16), (4, 1), (4, 16)),
    "blocks": ((16, 16), (2, 2), (8, 8)),
    "columns": ((16, 32), (1, 4), (16, 8)),
    "rounds": ((16, 16), (4, 1), (2, 16)),
    "shared rows": ((12, 10), (6, 1), (4, 10)),
    "odd": ((12, 10), (2, 2), (6, 5)),
}
"""Shapes, and the sg_layout and sg_data of maps that distribute them."""


def _store(result: Any, array: Any) -> None:
    """Store a vector to an array of its shape, by its own map."""
    xt.store_tile(result, xt.init_tile(array, (0, 0), result.shape, wg_map=result.wg_map))


@xt.kernel
def all_along(A, sums, products, ordered, positions, largest, *, shape, axis, map_, k):
    v = xt.load_tile(xt.init_tile(A, (0, 0), shape, wg_map=map_))
    _store(xt.cumsum(v, axis, exclusive=True), sums)
    _store(xt.reduce(v, axis, lambda a, b: a * b), products)
    _store(xt.sort(v, axis), ordered)
    values, order = xt.top_k(v, k, axis)
    _store(values, largest)
    _store(order, positions)


@pytest.mark.parametrize("execution", FEW, ids=str)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", MAPS)
def test_elements_are_combined_across_subgroups(name: str, axis: int, execution: Execution) -> None:
    shape, *map_ = MAPS[name]
    a = np.random.default_rng(31).integers(-2**31, 2**31, shape).astype(np.int32)
    few, one = (tuple(size if i == axis else n for i, n in enumerate(shape)) for size in (3, 1))
    sums, products, ordered, positions, largest = (np.zeros(size, np.int32) for size in (shape, one, shape, few, few))
    execution.bind(all_along)[1](a, sums, products, ordered, positions, largest, shape=shape, axis=axis,
                                 map_=xt.wg_map(*map_), k=3)
    assert (sums == np.cumsum(a, axis, dtype=np.int32) - a).all()
    assert (products == np.multiply.reduce(a, axis, dtype=np.int32, keepdims=True)).all()
    assert (ordered == np.sort(a, axis)).all()
    order = np.argsort(-a.astype(np.int64), axis, kind="stable").take(range(3), axis)
    assert (positions == order).all()
    assert (largest == np.take_along_axis(a, order, axis)).all()


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", MAPS)
def test_the_text_reads_back_and_means_the_same(name: str, axis: int) -> None:
    """Slices have maps of their own, which no attribute of ``vector.extract_strided_slice`` says."""
    shape, *map_ = MAPS[name]
    a = np.random.default_rng(32).integers(-2**31, 2**31, shape).astype(np.int32)
    extents = shape[axis], 1, shape[axis], 3, 3
    sizes = [tuple(extent if i == axis else n for i, n in enumerate(shape)) for extent in extents]
    got, want = ([np.zeros(size, np.int32) for size in sizes] for _ in range(2))
    constants = {"shape": shape, "axis": axis, "map_": xt.wg_map(*map_), "k": 3}
    all_along[1](a, *want, **constants)
    text = all_along.lower(a, *got, **constants).xetile
    module = xt.parse(text)
    assert str(module) == text
    module["all_along"][1](a, *got)
    for left, right in zip(got, want, strict=True):
        np.testing.assert_array_equal(left, right)


@xt.kernel
def rearranged(A, B, C, D, *, map_):
    v = xt.load_tile(xt.init_tile(A, (0, 0), (16, 12), wg_map=map_))
    _store(v[:, 3:8], B)
    _store(xt.concatenate([v[:, 7:], v[:, :7]], 1), C)
    _store(xt.shift(v, -2, fill=5), D)


@pytest.mark.parametrize("execution", FEW, ids=str)
@pytest.mark.parametrize("map_", [((4, 1), (4, 12)), ((2, 2), (4, 12))], ids=str)
def test_whole_dimensions_are_sliced_and_shifted(map_: Any, execution: Execution) -> None:
    a = np.random.default_rng(32).normal(size=(16, 12)).astype(np.float32)
    b, c, d = np.zeros((16, 5), np.float32), np.zeros_like(a), np.zeros_like(a)
    execution.bind(rearranged)[1](a, b, c, d, map_=xt.wg_map(*map_))
    assert (b == a[:, 3:8]).all()
    assert (c == np.roll(a, -7, 1)).all()
    assert (d == np.pad(a, ((0, 0), (0, 2)), constant_values=5)[:, 2:]).all()


@pytest.mark.parametrize("part", [lambda v: v[2:5], lambda v: xt.shift(v, 1, 0), lambda v: xt.concatenate([v, v], 0)],
                         ids=["slice", "shift", "concatenate"])
def test_parts_of_a_divided_dimension_are_refused(part: Any) -> None:
    @xt.kernel
    def divided(A, B):
        v = xt.load_tile(xt.init_tile(A, (0, 0), (16, 8), wg_map=xt.wg_map((4, 1), (4, 8))))
        _store(part(v), B)

    with pytest.raises(xt.ShapeError, match="XT1418") as error:
        divided[1](np.zeros((16, 8), np.float32), np.zeros((16, 8), np.float32))
    assert "xt.tile_conv_layout(v, xt.wg_map(sg_layout=[1, 4], sg_data=[16, 2]))" in str(error.value)


@pytest.mark.parametrize("reduced", [partial(xt.tile_reduce, "add"), xt.argmax], ids=["tile_reduce", "argmax"])
def test_a_divided_column_keeps_its_dimensions(reduced: Any) -> None:
    @xt.kernel
    def divided(A, B):
        v = xt.load_tile(xt.init_tile(A, (0, 0), (16, 8), wg_map=xt.wg_map((4, 1), (4, 8))))
        _store(reduced(v, 1, keepdims=False), B)

    with pytest.raises(xt.ShapeError, match=r"XT1418.*keepdims=False") as error:
        divided[1](np.zeros((16, 8), np.float32), np.zeros(16, np.float32))
    assert "leave out keepdims=False" in str(error.value)


TEXT = """
#map = #xetile.wg_map<sg_layout = [4, 1], sg_data = [4, 12]>
func.func @sliced(%A: memref<16x12xf32>) {{
  %0 = arith.constant 0 : index
  %t = xetile.init_tile %A[%0, %0] : memref<16x12xf32> -> !xetile.tile<16x12xf32, #xetile.tile_attr<wg_map = #map>>
  %v = xetile.load_tile %t : !xetile.tile<16x12xf32, #xetile.tile_attr<wg_map = #map>> -> vector<16x12xf32>
  %s = vector.extract_strided_slice %v {{offsets = {offsets}, sizes = {sizes}, strides = [1, 1]}}
      : vector<16x12xf32> to vector<{shape}xf32>
  %w = vector.insert_strided_slice %s, %v {{offsets = [0, 0], strides = [1, 1]}}
      : vector<{shape}xf32> into vector<16x12xf32> to vector<16x12xf32>
  xetile.store_tile %w, %t : vector<16x12xf32>, !xetile.tile<16x12xf32, #xetile.tile_attr<wg_map = #map>>
  return
}}
"""


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu", "opencl:cpu"])
def test_texts_with_slices(where: str) -> None:
    kernel = xt.parse(TEXT.format(offsets=[0, 7], sizes=[16, 5], shape="16x5"))["sliced"]
    a = np.random.default_rng(33).normal(size=(16, 12)).astype(np.float32)
    if where == "opencl:cpu":
        require_device()
    result = a.copy()
    kernel.on(where, target="pvc")[1](result)
    a[:, :5] = a[:, 7:].copy()
    assert (result == a).all()


def test_a_text_with_a_slice_of_a_divided_dimension() -> None:
    kernel = xt.parse(TEXT.format(offsets=[2, 0], sizes=[8, 12], shape="8x12"))["sliced"]
    with pytest.raises(xt.XeError, match="XT1418"):
        kernel.lower(np.zeros((16, 12), np.float32)).stages  # noqa: B018
