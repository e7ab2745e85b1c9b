"""Structured arguments: tuples, named tuples and dataclasses of arrays and numbers; truth values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_dpnp
from tests.device import DEVICE_FILTER
from xegpu.support.errors import ArgumentError, ElementTypeError

WHERE = ["numpy", "numpy:program", "numpy:xegpu", DEVICE_FILTER]


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass(frozen=True)
class Layer:
    weights: Any
    bias: Any
    scale: float
    name: str = "layer"
    rounds: int = field(default=1, metadata={"static": True})


@dataclass(slots=True)
class Model:
    first: Layer
    rest: tuple[Any, ...]
    calls: list[int] | None = field(default=None)

    def __post_init__(self) -> None:
        assert self.first.weights.shape[0] >= 0  # symbols have no such number: it does not run again


@xt.kernel(grid=lambda model, X, out, *, flip: (-(-X.shape[0] // 8), -(-model.first.weights.shape[1] // 16)))
def layered(model: Any, X: Any, out: Any, *, flip: bool) -> None:
    here = (xt.group_id(0) * 8, xt.group_id(1) * 16)
    first: Layer = model.first
    total = xt.tile_mma(xt.load_tile(xt.init_tile(X, (here[0], 0), (8, 16))),
                        xt.load_tile(xt.init_tile(first.weights, (0, here[1]), (16, 16))))
    for _ in range(first.rounds):
        total = total * first.scale + xt.load_tile(xt.init_tile(first.bias, (0, here[1]), (1, 16)))
    if first.name == "negated":
        total = -total
    (shift, pair) = model.rest
    wanted = pair.right if flip else pair.left
    total = total + xt.load_tile(xt.init_tile(wanted, here, (8, 16)))
    xt.store_tile(total + shift, xt.init_tile(out[0], here, (8, 16)))


def integers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).integers(-5, 6, shape).astype(np.float32)


def model_of(convert: Any = lambda array: array, **more: Any) -> tuple[Model, np.ndarray[Any, Any], Any]:
    x, w, b, left, right = integers(19, 16), integers(16, 21), integers(1, 21), integers(19, 21), integers(19, 21) * 3

    def expected(flip: bool) -> np.ndarray[Any, Any]:
        total = x @ w
        for _ in range(more.get("rounds", 1)):
            total = total * 2.5 + b
        return (-total if more.get("name") == "negated" else total) + (right if flip else left) + 7.5

    layer = Layer(convert(w), convert(b), 2.5, **more)
    return Model(layer, (7.5, Pair(convert(left), convert(right)))), x, expected


@pytest.mark.parametrize("where", WHERE)
def test_results(where: str) -> None:
    """Fields that are no arrays or numbers are constants; the grid's function gets the structures, too."""
    if where == DEVICE_FILTER:
        pytest.importorskip("dpctl")
    for more in ({}, {"name": "negated", "rounds": 2}):
        model, x, expected = model_of(**more)
        for flip in (False, True):
            out = np.full((19, 21), 77, np.float32)
            layered.on(where)(model, x, (out,), flip=flip)
            np.testing.assert_array_equal(out, expected(flip))


def test_launches_repeat_on_device_arrays() -> None:
    dpnp = require_dpnp()
    model, x, expected = model_of(lambda array: dpnp.asarray(array, device=DEVICE_FILTER))
    x = dpnp.asarray(x, device=DEVICE_FILTER)
    for _ in range(4):
        out = dpnp.full((19, 21), 77, dtype="f4", device=DEVICE_FILTER)
        layered(model, x, (out,), flip=True)
        np.testing.assert_array_equal(dpnp.asnumpy(out), expected(True))
    ready = layered.prepare(None, model, x, (out,), flip=False)
    ready()
    np.testing.assert_array_equal(dpnp.asnumpy(out), expected(False))


def test_what_is_compiled_once() -> None:
    model, x, _ = model_of()
    lowered = [layered.lower(model_of()[0], x, (x,), flip=True) for _ in range(2)]
    assert lowered[0] is lowered[1]
    assert "model_first_weights" in lowered[0].opencl
    assert layered.lower(model_of(name="negated")[0], x, (x,), flip=True) is not lowered[0]
    layered.forget()
    assert layered.lower(model, x, (x,), flip=True) is not lowered[0]


def test_errors_name_the_field() -> None:
    model, x, _ = model_of()
    with pytest.raises(ElementTypeError, match=r"XT1030.*out\[0\] is a list"):
        layered.on("numpy")(model, x, ([1.0],), flip=True)
    shared = r"XT1049.*writes out\[0\], which shares elements with model\.rest\[1\]\.left"
    with pytest.raises(ArgumentError, match=shared):
        layered.on("numpy")(model, x, (model.rest[1].left,), flip=False)


def test_the_tuner_takes_structures() -> None:
    @xt.kernel(grid=lambda data, Y, **constants: (1,))
    def scaled(data: Any, Y: Any, *, factor: float) -> None:
        x = xt.load_tile(xt.init_tile(data.left, (0, 0), (8, 16)))
        xt.store_tile(x * factor + data.right, xt.init_tile(Y, (0, 0), (8, 16)))

    x, y = integers(8, 16), np.zeros((8, 16), np.float32)
    result = xt.tune(scaled, (Pair(x, 0.5), y), {"factor": [3.0]}, where="numpy", budget="10ms")
    assert result.best == {"factor": 3.0}
    np.testing.assert_array_equal(y, 3 * x + 0.5)
    tuned = xt.autotune([{"factor": 3.0}, {"factor": 3.0 + 2**-20}], key=["data"], budget="10ms")(scaled)
    for number in (1, 2):
        tuned.on("numpy")[1](Pair(x, float(number)), y)
        np.testing.assert_allclose(y, 3 * x + number, rtol=1e-5, atol=1e-4)
    assert len(tuned.results) == 2


@xt.kernel
def flagged(X: Any, Y: Any, negate: Any) -> None:
    x = xt.load_tile(xt.init_tile(X, (0, 0), (8, 16)))
    xt.store_tile(xt.where(negate, -x, x), xt.init_tile(Y, (0, 0), (8, 16)))
    row = 6 + negate.to(xt.index)
    with xt.when(negate):
        xt.store_tile(xt.full((1, 1), 99, xt.f32), xt.init_tile(Y, (row, 15), (1, 1)))


@pytest.mark.parametrize("where", [*WHERE, "machine:pvc"])
def test_truth_values_are_run_time_arguments(where: str, request: pytest.FixtureRequest) -> None:
    if where == DEVICE_FILTER:
        pytest.importorskip("dpctl")
    if where.startswith("machine"):
        from xetile.runtime.executors import check_simulator
        try:
            check_simulator()
        except xt.ToolError:
            pytest.skip("no compiler of machine code")
    x = integers(8, 16)
    for negate in (True, False, np.True_):
        y = np.zeros_like(x)
        flagged.on(where)[1](x, y, negate)
        expected = -x if negate else x.copy()
        if negate:
            expected[7, 15] = 99
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint32], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("where", ["numpy", DEVICE_FILTER])
def test_pythons_abs_is_that_of_the_language(where: str, dtype: Any) -> None:
    if where == DEVICE_FILTER:
        pytest.importorskip("dpctl")

    @xt.kernel
    def positive(X, Y, n):
        xt.store_tile(abs(xt.load_tile(xt.init_tile(X, (0, 0), (8, 16)))), xt.init_tile(Y, (abs(n), 0), (8, 16)))

    x = integers(8, 16).astype(dtype)
    y = np.zeros((9, 16), dtype)
    positive.on(where)[1](x, y, -1)
    np.testing.assert_array_equal(y[1:], x if dtype is np.uint32 else abs(x))
    assert not y[0].any()
