"""Captured variables: a global, closure variable or helper that changed since a kernel was recorded."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_dpnp
from tests.device import DEVICE_FILTER

SHAPE = (8, 16)
FACTOR = 2
LIST = [2, 5]
TABLE = {"a": 2}
CONFIG = SimpleNamespace(inner=SimpleNamespace(factor=2))
MODULE = ModuleType("settings")
MODULE.factor = 2  # type: ignore[attr-defined]
VECTOR = np.array([2, 5])


class Scale:
    """A helper with state, and a method that reads a global."""

    def __init__(self, by: int) -> None:
        self.by = by

    def apply(self, v: Any) -> Any:
        return v * FACTOR


SCALE = Scale(2)


def helper(v: Any) -> Any:
    return inner_helper(v)


def inner_helper(v: Any) -> Any:
    return v * FACTOR


def by_global(v: Any) -> Any:
    return v * FACTOR


def by_lambda(v: Any) -> Any:
    return sum(((lambda w: w * FACTOR)(v) for _ in range(1)), 0 * v)


BODIES: dict[str, tuple[Callable[[Any], Any], Callable[[pytest.MonkeyPatch], Any]]] = {
    "global": (by_global, lambda patch: patch.setitem(globals(), "FACTOR", 3)),
    "in a lambda": (by_lambda, lambda patch: patch.setitem(globals(), "FACTOR", 3)),
    "in a helper's helper": (helper, lambda patch: patch.setitem(globals(), "FACTOR", 3)),
    "in a method": (lambda v: SCALE.apply(v), lambda patch: patch.setitem(globals(), "FACTOR", 3)),
    "list": (lambda v: v * LIST[0], lambda patch: LIST.__setitem__(0, 3)),
    "dict": (lambda v: v * TABLE["a"], lambda patch: patch.setitem(TABLE, "a", 3)),
    "array": (lambda v: v * VECTOR[0], lambda patch: VECTOR.__setitem__(0, 3)),
    "attribute": (lambda v: v * CONFIG.inner.factor, lambda patch: patch.setattr(CONFIG.inner, "factor", 3)),
    "module": (lambda v: v * MODULE.factor, lambda patch: patch.setattr(MODULE, "factor", 3)),
    "object": (lambda v: v * SCALE.by, lambda patch: patch.setattr(SCALE, "by", 3)),
    "code of a helper": (helper, lambda patch: patch.setattr(inner_helper, "__code__", (lambda v: v * 3).__code__)),
    "another helper": (helper, lambda patch: patch.setitem(globals(), "inner_helper", lambda v: v * 3)),
    "type alone": (lambda v: v * (3 if isinstance(FACTOR, float) else 2),
                   lambda patch: patch.setitem(globals(), "FACTOR", 2.0)),
}


def kernel_of(body: Callable[[Any], Any]) -> Any:
    @xt.kernel
    def scaled(A, B):
        xt.store_tile(body(xt.load_tile(xt.init_tile(A, (0, 0), SHAPE))), xt.init_tile(B, (0, 0), SHAPE))
    return scaled


def numbers() -> tuple[Any, Any]:
    a = np.random.default_rng(1).integers(-99, 99, SHAPE).astype(np.int32)
    return a, np.zeros_like(a)


@pytest.fixture
def restored() -> Iterator[None]:
    """The list and the array that tests change in place, as they were."""
    yield
    LIST[:], VECTOR[:] = [2, 5], [2, 5]


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("where", ["numpy", "opencl:cpu"])
def test_a_change_is_found(name: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body, change = BODIES[name]
    kernel, (a, b) = kernel_of(body), numbers()
    kernel.on(where)[1](a, b)
    np.testing.assert_array_equal(b, a * 2)
    change(monkeypatch)
    kernel.on(where)[1](a, b)
    np.testing.assert_array_equal(b, a * 3)


def test_a_closure_that_is_rebound() -> None:
    factor = 2

    def body(v: Any) -> Any:
        return v * factor

    kernel, (a, b) = kernel_of(body), numbers()
    kernel.on("numpy")[1](a, b)
    factor = 3
    kernel.on("numpy")[1](a, b)
    np.testing.assert_array_equal(b, a * 3)


@pytest.mark.parametrize("launches", [1, 2, 3, 4])
def test_repeated_launches_on_device_arrays(launches: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dpnp = require_dpnp()
    kernel, (a, b) = kernel_of(by_global), numbers()
    x, y = (dpnp.asarray(each, device=DEVICE_FILTER) for each in (a, b))
    for _ in range(launches):
        kernel[1, 1, 1](x, y)
    monkeypatch.setitem(globals(), "FACTOR", 3)
    kernel[1, 1, 1](x, y)
    np.testing.assert_array_equal(dpnp.asnumpy(y), a * 3)


def test_nothing_changed_records_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, (a, b) = kernel_of(lambda v: SCALE.apply(helper(v)) * LIST[0] + round(math.pi)), numbers()
    first = kernel.lower(a, b)
    assert kernel.lower(a, b) is first
    monkeypatch.setattr(CONFIG.inner, "factor", 7)  # which it does not read
    assert kernel.lower(a, b) is first
    monkeypatch.setitem(globals(), "FACTOR", 5)
    assert kernel.lower(a, b) is not first


@dataclasses.dataclass(frozen=True)
class Factor:
    by: Any


@pytest.mark.parametrize(("first", "second"), [
    (0.0, -0.0), (1, True), (Factor(0.0), Factor(-0.0)), (np.float32(0.0), np.float32(-0.0)), ((0.0,), (-0.0,)),
], ids=repr)
def test_equal_constants_that_differ(first: Any, second: Any) -> None:
    @xt.kernel
    def k(A, B, *, c):
        number = c.by if isinstance(c, Factor) else c[0] if isinstance(c, tuple) else c
        v = xt.load_tile(xt.init_tile(A, (0, 0), SHAPE))
        xt.store_tile(v * (7.0 if number is True else number), xt.init_tile(B, (0, 0), SHAPE))

    a = np.random.default_rng(1).integers(1, 99, SHAPE).astype(np.float32)
    results = []
    for c in (first, second, first):
        b = np.ones_like(a)
        k.on("numpy")[1](a, b, c=c)
        results.append(b.tobytes())
    assert results[0] == results[2] != results[1]


def test_a_nan_is_one_constant() -> None:
    @xt.kernel
    def k(A, B, *, c):
        xt.store_tile(xt.load_tile(xt.init_tile(A, (0, 0), SHAPE)) * c, xt.init_tile(B, (0, 0), SHAPE))

    specs = [xt.Spec(SHAPE, xt.f32)] * 2
    assert k.lower(*specs, c=float("nan")) is k.lower(*specs, c=float("nan"))
