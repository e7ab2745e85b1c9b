"""Arrays that a kernel writes and that share elements with another argument: refused unless the kernel allows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_dpnp
from tests.device import DEVICE_FILTER
from xegpu.support.errors import ArgumentError


def _shifted(X: xt.Array, Y: xt.Array) -> None:
    row = 8 * xt.group_id(0)
    values = xt.load_tile(xt.init_tile(X, (row, 0), (8, 16)))
    xt.store_tile(values * 2.0 + 1.0, xt.init_tile(Y, (row, 0), (8, 16)))


shifted = xt.kernel(_shifted)
in_place = xt.kernel(_shifted, may_alias=True)


def whole(rows: int = 32, columns: int = 48) -> np.ndarray[Any, Any]:
    return np.random.default_rng(4).integers(-9, 9, (rows, columns)).astype(np.float32)


ALIASED: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "the same array": lambda a: (a[:16, :16], a[:16, :16]),
    "rows": lambda a: (a[:16, :16], a[8:24, :16]),
    "one column": lambda a: (a[:16, :16], a[:16, 15:31]),
    "one element": lambda a: (a[:16, :16], a[15:31, 15:31]),
}
SEPARATE: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "columns side by side": lambda a: (a[:16, :16], a[:16, 16:32]),
    "rows one below the other": lambda a: (a[:16, :16], a[16:32, :16]),
    "even and odd rows": lambda a: (a[0:32:2, :16], a[1:32:2, :16]),
}


def copies(array: np.ndarray[Any, Any], where: str) -> tuple[Any, Callable[[Any], np.ndarray[Any, Any]]]:
    if where == "numpy":
        return array.copy(), lambda result: result
    dpnp = require_dpnp()
    return dpnp.asarray(array, device=DEVICE_FILTER), dpnp.asnumpy


@pytest.mark.parametrize("where", ["numpy", "usm"])
@pytest.mark.parametrize("views", ALIASED.values(), ids=ALIASED)
def test_shared_elements_are_refused_and_nothing_is_written(views: Callable[[Any], tuple[Any, Any]],
                                                            where: str) -> None:
    array, back = copies(whole(), where)
    with pytest.raises(ArgumentError, match=r"XT1049.*writes Y, which shares elements with X"):
        shifted[2](*views(array))
    with pytest.raises(ArgumentError, match="XT1049"):
        shifted.prepare((2,), *views(array))
    np.testing.assert_array_equal(back(array), whole())


@pytest.mark.parametrize("where", ["numpy", "usm"])
@pytest.mark.parametrize("views", SEPARATE.values(), ids=SEPARATE)
def test_disjoint_views_of_one_array_are_arguments(views: Callable[[Any], tuple[Any, Any]], where: str) -> None:
    array, back = copies(whole(), where)
    expected = whole()
    x, y = views(expected)
    y[...] = x * 2 + 1
    for _ in range(2):  # the second launch finds its plan
        shifted[2](*views(array))
    np.testing.assert_array_equal(back(array), expected)


def test_a_plan_of_other_arrays_looks_at_these() -> None:
    dpnp = require_dpnp()
    x = dpnp.asarray(whole(16, 16), device=DEVICE_FILTER)
    y = dpnp.zeros_like(x)
    for _ in range(4):  # checked, by signature, by identity
        shifted[2](x, y)
    with pytest.raises(ArgumentError, match="XT1049"):
        shifted[2](x, x)
    shifted[2](y, x)
    np.testing.assert_array_equal(dpnp.asnumpy(x), 2 * (2 * whole(16, 16) + 1) + 1)


def test_arrays_that_are_only_read_may_be_the_same() -> None:
    @xt.kernel
    def total(A, B, C):
        at = ((0, 0), (8, 16))
        xt.store_tile(xt.load_tile(xt.init_tile(A, *at)) + xt.load_tile(xt.init_tile(B, *at)), xt.init_tile(C, *at))

    a, c = whole(8, 16), np.zeros((8, 16), np.float32)
    total[1](a, a, c)
    np.testing.assert_array_equal(c, 2 * a)


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu", DEVICE_FILTER])
def test_a_kernel_that_allows_it_runs_in_place(where: str) -> None:
    if where == DEVICE_FILTER:
        pytest.importorskip("dpctl")
    array = whole()
    for k in (1, 2):
        in_place.on(where)[2](array[:16, :16], array[:16, :16])
        expected = whole()
        for _ in range(k):
            expected[:16, :16] = expected[:16, :16] * 2 + 1
        np.testing.assert_array_equal(array, expected)


def test_a_parsed_kernel_allows_it_by_its_attribute() -> None:
    matrix = xt.Spec((None, None), xt.f32)
    parsed = xt.parse(shifted.lower(matrix, matrix).xetile)["_shifted"]
    array = whole(16, 16)
    with pytest.raises(ArgumentError, match="XT1049"):
        parsed[2](array, array)
    parsed.may_alias = True
    parsed[2](array, array)
    np.testing.assert_array_equal(array, whole(16, 16) * 2 + 1)


def test_the_checks_find_work_groups_that_disturb_each_other() -> None:
    array = whole()
    with pytest.raises(xt.CheckError, match="XT6002"):
        in_place.on("numpy", check=True)[2](array[:16, :16], array[8:24, :16])


EVERYWHERE = ["numpy", "numpy:xegpu", "numpy:program", "opencl:cpu"]


def on(kernel: Any, where: str) -> Any:
    if where == "opencl:cpu":
        pytest.importorskip("dpctl")
    return kernel.on(where)


@pytest.mark.parametrize("where", EVERYWHERE)
@pytest.mark.parametrize("views", ALIASED.values(), ids=ALIASED)
def test_every_execution_refuses_shared_elements(views: Callable[[Any], tuple[Any, Any]], where: str) -> None:
    array = whole()
    with pytest.raises(ArgumentError, match=r"XT1049.*writes Y, which shares elements with X"):
        on(shifted, where)[2](*views(array))
    np.testing.assert_array_equal(array, whole())


@pytest.mark.parametrize("where", EVERYWHERE)
def test_an_output_with_several_indices_for_an_element_is_refused(where: str) -> None:
    row = np.zeros(16, np.float32)
    repeated = np.lib.stride_tricks.as_strided(row, (16, 16), (0, 4))
    with pytest.raises(ArgumentError, match=r"XT1039.*writes Y, and elements of Y"):
        on(shifted, where)[2](whole(16, 16), repeated)
    assert not row.any()
    result = np.zeros((16, 16), np.float32)
    on(shifted, where)[2](repeated, result)  # to be read, it may have
    assert (result == 1).all()
    on(in_place, where)[2](np.ones((16, 16), np.float32), repeated)
    assert (row == 3).all()


@pytest.mark.parametrize("strides", [(0, 1), (1, 1), (15, 1), (16, 1), (-16, -1), (1, 16), (3, 10), (32, 2), (17, -1)])
def test_indices_of_one_element_are_found_by_the_strides(strides: tuple[int, int]) -> None:
    places = [[i * strides[0] + j * strides[1] for j in range(16)] for i in range(16)]
    y = np.lib.stride_tricks.as_strided(np.zeros(2000, np.float32)[1000:], (16, 16), [4 * step for step in strides])
    if len({place for row in places for place in row}) == y.size:
        shifted[2](whole(16, 16), y)
        np.testing.assert_array_equal(y, 2 * whole(16, 16) + 1)
    else:
        with pytest.raises(ArgumentError, match="XT1039"):
            shifted[2](whole(16, 16), y)
