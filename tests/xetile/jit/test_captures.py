"""Captured variables: a global, closure variable or helper that changed since a kernel was recorded."""

from __future__ import annotations

import copy
import dataclasses
import math
import os
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from decimal import Decimal
from enum import IntEnum
from functools import partial, reduce, singledispatch
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_dpnp
from tests.device import DEVICE_FILTER
from xetile.jit.captures import Captures
from xetile.jit.value_keys import KeyBuilder

SHAPE = (8, 16)
VALUE: Any = None
FACTOR = 2
LIST = [2, 5]
TABLE = {"a": 2}
CONFIG = SimpleNamespace(inner=SimpleNamespace(factor=2))
MODULE = ModuleType("settings")
MODULE.factor = 2  # type: ignore[attr-defined]
VECTOR = np.array([2, 5])


PUT: list[tuple[Any, int]] = []


def put(container: Any, index: int) -> None:
    """Set an item that is 2 to 3, until the end of the test."""
    PUT.append((container, index))
    container[index] = 3


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
    "list": (lambda v: v * LIST[0], lambda patch: put(LIST, 0)),
    "dict": (lambda v: v * TABLE["a"], lambda patch: patch.setitem(TABLE, "a", 3)),
    "array": (lambda v: v * VECTOR[0], lambda patch: put(VECTOR, 0)),
    "attribute": (lambda v: v * CONFIG.inner.factor, lambda patch: patch.setattr(CONFIG.inner, "factor", 3)),
    "module": (lambda v: v * MODULE.factor, lambda patch: patch.setattr(MODULE, "factor", 3)),
    "object": (lambda v: v * SCALE.by, lambda patch: patch.setattr(SCALE, "by", 3)),
    "code of a helper": (helper, lambda patch: patch.setattr(inner_helper, "__code__", (lambda v: v * 3).__code__)),
    "another helper": (helper, lambda patch: patch.setitem(globals(), "inner_helper", lambda v: v * 3)),
    "type alone": (lambda v: v * (3 if isinstance(FACTOR, float) else 2),
                   lambda patch: patch.setitem(globals(), "FACTOR", 2.0)),
}


class Factors:
    """A helper object whose methods, property and operator read its attributes, which tests change."""

    OF_CLASS = 2

    def __init__(self) -> None:
        self.by = 2
        self.items = [[2], inner_helper]

    def __call__(self, v: Any) -> Any:
        return v * self.by

    def apply(self, v: Any) -> Any:
        return self.in_lambda(v)

    def in_lambda(self, v: Any) -> Any:
        return (lambda w: w * self.by)(v)

    @property
    def tile_rows(self) -> int:
        return xt.i32.bits // 16 if self.by == 2 else self.by

    @classmethod
    def of_class(cls, v: Any) -> Any:
        return v * cls.OF_CLASS


class Derived(Factors):
    """A helper that inherits its methods."""


class BySuper(Factors):
    """A helper whose method calls that of its base."""

    def in_lambda(self, v: Any) -> Any:
        return super().in_lambda(v)


class Row(NamedTuple):
    """Values that extend a builtin type, whose methods read a global: a named tuple."""

    by: int = 1

    def apply(self, v: Any) -> Any:
        return v * FACTOR * self.by


class Mapped(dict[str, int]):
    """A dict that has all keys."""

    def __missing__(self, key: str) -> int:
        return FACTOR


class Kind(IntEnum):
    """An integer with a name."""

    ONE = 1

    @property
    def factor(self) -> int:
        return self.value * FACTOR


class Labelled(np.ndarray):
    """An array with an attribute."""

    by: int


class Counted:
    """An object whose constructor reads a global."""

    def __init__(self) -> None:
        self.by = FACTOR


def by_argument(factors: Any, v: Any) -> Any:
    return v * factors.by


def by_default(v: Any, table: list[int] = [2], *, call: Any = inner_helper) -> Any:  # noqa: B006 - what is tested
    return call(v) * table[0] // 2


def by_alias(v: Any) -> Any:
    first = second = OBJECT[0]
    third = second
    return v * third.by + 0 * first.by


def by_missing_global(v: Any) -> Any:
    try:
        return v * FACTOR_OF_A_TEST  # type: ignore[name-defined]
    except NameError:
        return v * 2


def by_local_import(v: Any) -> Any:
    import settings_of_a_test as settings  # type: ignore[import-not-found]
    return v * settings.factor


def by_import_from(v: Any) -> Any:
    from settings_of_a_test import factor
    return v * factor


def dispatcher() -> Any:
    """A function of Python's single dispatch, which doubles anything."""
    return singledispatch(lambda v: v * 2)


OBJECT: list[Any] = [Factors()]
DISPATCHED = {"f": dispatcher()}
NESTED = [[[[[[[[[[2]]]]]]]]]]
LONG = [2] * 3000
LARGE = np.full(70000, 2, np.int64)
OBJECTS = np.empty(1, object)
QUEUE = deque([2])
PROXIED = {"a": 2}
PROXY = MappingProxyType(PROXIED)
ROW, ROWS, KINDS, MAPPED = Row(), [Row()], [Kind.ONE], Mapped()
LABELLED = np.ones(2).view(Labelled)
LABELLED.by = 2
PARTIAL = partial(lambda table, v: v * table[0], [2])
MEMORY = memoryview(bytearray([2, 5]))
FROZEN = SimpleNamespace(inner=(SimpleNamespace(by=2),))

OBJECT_BODIES: dict[str, tuple[Callable[[Any], Any], Callable[[pytest.MonkeyPatch], Any]]] = {
    "attribute in a method": (lambda v: THE.apply(v), lambda patch: patch.setattr(THE, "by", 3)),
    "method of a derived class": (lambda v: DERIVED.apply(v), lambda patch: patch.setattr(DERIVED, "by", 3)),
    "called object": (lambda v: THE(v), lambda patch: patch.setattr(THE, "by", 3)),
    "method under another name": (lambda v: [m := THE.in_lambda, m(v)][1], lambda patch: patch.setattr(THE, "by", 3)),
    "property": (lambda v: v * THE.tile_rows, lambda patch: patch.setattr(THE, "by", 3)),
    "method of a class": (lambda v: Factors.of_class(v), lambda patch: patch.setattr(Factors, "OF_CLASS", 3)),
    "method that is replaced": (lambda v: THE.apply(v),
                                lambda patch: patch.setattr(Factors, "in_lambda", lambda self, v: v * 3)),
    "object as an argument": (lambda v: by_argument(THE, v), lambda patch: patch.setattr(THE, "by", 3)),
    "getattr": (lambda v: v * getattr(THE, "by"), lambda patch: patch.setattr(THE, "by", 3)),  # noqa: B009
    "item of a list": (by_alias, lambda patch: patch.setattr(OBJECT[0], "by", 3)),
    "comprehension": (lambda v: v * sum(each.by for each in OBJECT), lambda patch: patch.setattr(OBJECT[0], "by", 3)),
    "list of an object": (lambda v: v * THE.items[0][0], lambda patch: put(THE.items[0], 0)),
    "function of an object": (lambda v: THE.items[1](v), lambda patch: patch.setitem(globals(), "FACTOR", 3)),
    "constructor": (lambda v: v * Counted().by, lambda patch: patch.setitem(globals(), "FACTOR", 3)),
    "default value": (lambda v: by_default(v), lambda patch: put(by_default.__defaults__[0], 0)),
    "default function": (lambda v: by_default(v), lambda patch: patch.setitem(globals(), "FACTOR", 3)),
    "default by keyword": (lambda v: by_default(v),
                           lambda patch: patch.setitem(by_default.__kwdefaults__, "call", lambda v: v * 3)),
    "partial": (lambda v: PARTIAL(v), lambda patch: put(PARTIAL.args[0], 0)),
    "ten lists": (lambda v: v * NESTED[0][0][0][0][0][0][0][0][0][0],
                  lambda patch: put(NESTED[0][0][0][0][0][0][0][0][0], 0)),
    "long list": (lambda v: v * LONG[-1], lambda patch: put(LONG, -1)),
    "large array": (lambda v: v * int(LARGE[-1]), lambda patch: put(LARGE, -1)),
    "array of objects": (lambda v: v * OBJECTS[0][0], lambda patch: put(OBJECTS[0], 0)),
    "deque": (lambda v: v * QUEUE[0], lambda patch: put(QUEUE, 0)),
    "proxy": (lambda v: v * PROXY["a"], lambda patch: patch.setitem(PROXIED, "a", 3)),
    "object in a tuple": (lambda v: v * FROZEN.inner[0].by, lambda patch: patch.setattr(FROZEN.inner[0], "by", 3)),
    "property that is replaced": (lambda v: v * THE.tile_rows,
                                  lambda patch: patch.setattr(Factors, "tile_rows", property(lambda self: 3))),
    "method of a base": (lambda v: BY_SUPER.apply(v), lambda patch: patch.setattr(BY_SUPER, "by", 3)),
    "method of a base that is replaced": (lambda v: BY_SUPER.apply(v),
                                          lambda patch: patch.setattr(Factors, "in_lambda", lambda self, v: v * 3)),
    "method of a named tuple": (lambda v: ROW.apply(v), lambda patch: patch.setitem(globals(), "FACTOR", 3)),
    "named tuple in a list": (lambda v: max(ROWS).apply(v),
                              lambda patch: patch.setitem(globals(), "FACTOR", 3)),
    "method of a dict": (lambda v: v * MAPPED["rows"], lambda patch: patch.setitem(globals(), "FACTOR", 3)),
    "property of an enumerator": (lambda v: v * Kind.ONE.factor, lambda patch: patch.setitem(globals(), "FACTOR", 3)),
    "enumerator in a list": (lambda v: v * KINDS[0].factor, lambda patch: patch.setitem(globals(), "FACTOR", 3)),
    "attribute of an array": (lambda v: v * LABELLED.by, lambda patch: patch.setattr(LABELLED, "by", 3)),
    "environment": (lambda v: v * int(os.environ.get("XETILE_TEST_FACTOR", "2")),
                    lambda patch: patch.setenv("XETILE_TEST_FACTOR", "3")),
    "environment by getenv": (lambda v: v * int(os.getenv("XETILE_TEST_FACTOR", "2")),
                              lambda patch: patch.setenv("XETILE_TEST_FACTOR", "3")),
    "memory view": (lambda v: v * MEMORY[0], lambda patch: put(MEMORY, 0)),
    "weak reference": (lambda v: v * WEAK().by, lambda patch: patch.setattr(THE, "by", 3)),
    "weak reference in a list": (lambda v: v * WEAK_LIST[0]().by, lambda patch: patch.setattr(THE, "by", 3)),
    "function that is registered later": (lambda v: DISPATCHED["f"](v),
                                          lambda patch: DISPATCHED["f"].register(xt.Vector, lambda v: v * 3)),
    "variable that is there later": (by_missing_global,
                                     lambda patch: patch.setitem(globals(), "FACTOR_OF_A_TEST", 3)),
    "local import": (by_local_import, lambda patch: patch.setattr(MODULE, "factor", 3)),
    "import from": (by_import_from, lambda patch: patch.setattr(MODULE, "factor", 3)),
}
THE, DERIVED, BY_SUPER = Factors(), Derived(), BySuper()
WEAK = weakref.ref(THE)
WEAK_LIST = [WEAK]


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
    """The containers that tests change in place, as they were."""
    yield
    while PUT:
        container, index = PUT.pop()
        container[index] = 2


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


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("name", OBJECT_BODIES)
def test_a_change_inside_an_object_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    OBJECTS[0], DISPATCHED["f"] = [2], dispatcher()
    monkeypatch.setitem(sys.modules, "settings_of_a_test", MODULE)
    body, change = OBJECT_BODIES[name]
    kernel, (a, b) = kernel_of(body), numbers()
    for _ in range(3):
        kernel.on("numpy")[1](a, b)
        np.testing.assert_array_equal(b, a * 2)
        recorded = [*kernel.cache.modules.values()]
    kernel.on("numpy")[1](a, b)
    assert [*kernel.cache.modules.values()] == recorded, "recorded again, and nothing changed"
    change(monkeypatch)
    kernel.on("numpy")[1](a, b)
    np.testing.assert_array_equal(b, a * 3)


def composed(*functions: Any) -> Any:
    return lambda v: reduce(lambda value, function: function(value), functions, v)


@dataclasses.dataclass
class Applied:
    """An argument with a function that is a constant."""

    x: Any
    op: Any = dataclasses.field(metadata={"static": True})


@pytest.mark.parametrize("where", ["numpy", "opencl:cpu"])
def test_a_constant_whose_code_or_state_changed(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    @xt.kernel
    def by_constant(A, B, *, ops):
        v = xt.load_tile(xt.init_tile(A, (0, 0), SHAPE))
        for op in ops if isinstance(ops, tuple) else (ops,):
            v = op(v)
        xt.store_tile(v, xt.init_tile(B, (0, 0), SHAPE))

    @xt.kernel
    def by_field(P, B):
        xt.store_tile(P.op(xt.load_tile(xt.init_tile(P.x, (0, 0), SHAPE))), xt.init_tile(B, (0, 0), SHAPE))

    (a, b), factors, scale = numbers(), Factors(), Scale(2)
    constants = [inner_helper, composed(inner_helper), partial(inner_helper), (inner_helper,), factors, factors.apply,
                 scale.apply]
    for factor in (2, 3):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        factors.by = factor
        for constant in constants:
            by_constant.on(where)[1](a, b, ops=constant)
            np.testing.assert_array_equal(b, a * factor, str(constant))
        by_field.on(where)[1](Applied(a, inner_helper), b)
        np.testing.assert_array_equal(b, a * factor)


def test_a_default_of_a_constant_that_changed_in_place() -> None:
    dpnp = require_dpnp()

    @xt.kernel
    def k(A, B, *, table=[2]):  # noqa: B006 - what is tested
        xt.store_tile(xt.load_tile(xt.init_tile(A, (0, 0), SHAPE)) * table[0], xt.init_tile(B, (0, 0), SHAPE))

    a, b = numbers()
    x, y = (dpnp.asarray(each, device=DEVICE_FILTER) for each in (a, b))
    for _ in range(3):  # the third is repeated by the identity of its arrays
        k[1, 1, 1](x, y)
    k.function.__kwdefaults__["table"][0] = 3
    k[1, 1, 1](x, y)
    np.testing.assert_array_equal(dpnp.asnumpy(y), a * 3)


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


class DerivedFactor(Factor):
    """A dataclass whose comparison is inherited."""


class Number(float):
    """A number of the author's."""


@pytest.mark.parametrize(("first", "second"), [
    (0.0, -0.0), (1, True), (1, 1.0), (Factor(0.0), Factor(-0.0)), (Factor(1), Factor(True)), ((0.0,), (-0.0,)),
    (DerivedFactor(0.0), DerivedFactor(-0.0)), (np.float32(0.0), np.float32(-0.0)), (np.int8(1), np.int16(1)),
    (Number(0.0), Number(-0.0)), (complex(0.0, 0.0), complex(0.0, -0.0)), (Decimal("0.0"), Decimal("-0.0")),
    (range(0), range(1, 1)), ({1: 2}, {True: 2}), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ([1], (1,)),
    (frozenset({0.0}), frozenset({-0.0})),
], ids=repr)
def test_equal_values_that_differ(first: Any, second: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    @xt.kernel
    def by_constant(A, B, *, c):
        xt.store_tile(xt.load_tile(xt.init_tile(A, (0, 0), SHAPE)), xt.init_tile(B, (0, 0), SHAPE))

    by_captured, specs = kernel_of(lambda v: [v, VALUE][0]), [xt.Spec(SHAPE, xt.f32)] * 2
    captured, constant = [], []
    for value in (first, first, second, second):
        monkeypatch.setitem(globals(), "VALUE", value)
        captured.append(by_captured.lower(*specs))
        constant.append(by_constant.lower(*specs, c=value))
    assert captured[0] is captured[1] is not captured[2] is captured[3]
    assert constant[0] is constant[1] is not constant[2] is constant[3]
    assert by_constant.lower(*specs, c=first) is constant[0]


@pytest.mark.parametrize("of", [float, np.float32, Decimal, Number, lambda text: (float(text),),
                                lambda text: Factor(float(text)), lambda text: np.array([float(text)])])
def test_a_captured_nan_is_one_value(of: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, specs = kernel_of(lambda v: [v, VALUE][0]), [xt.Spec(SHAPE, xt.f32)] * 2
    monkeypatch.setitem(globals(), "VALUE", of("nan"))
    first = kernel.lower(*specs)
    monkeypatch.setitem(globals(), "VALUE", of("nan"))
    assert kernel.lower(*specs) is first


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


def test_pytests_assertions_are_not_captured() -> None:
    """pytest rewrites a kernel's ``assert`` to call pytest's own functions, and with them reach all of pytest."""
    def body(A):
        assert A.shape[0] < A.shape[1]

    assert any("@" in name for name in body.__code__.co_names)
    captures = Captures(body)
    assert not [read.name for read in captures._reads.values() if "@" in read.name]
    assert {function for function, *_ in captures._codes} == {body}


CONTAINERS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "an item": ({"a": 2, "b": 3}, lambda it: it.update(a=4)),
    "another type": ({"a": 1, "b": 3}, lambda it: it.update(a=True)),
    "a sign": ([0.0, 1.0], lambda it: it.__setitem__(0, -0.0)),
    "an order": ({"a": 2, "b": 2}, lambda it: it.update(a=it.pop("a"))),
    "another key": ({1: 2}, lambda it: it.update({True: it.pop(1)})),
    "one less": ([2, 3], list.pop),
    "one more": ([2], lambda it: it.append(3)),
    "a list in it": ({"a": [2]}, lambda it: it["a"].append(3)),
    "a list in a tuple": ([([2],)], lambda it: it[0][0].append(3)),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_items_of_a_container_that_changed_in_place(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unchanged items are found by identity, and need no key if they are immutable."""
    container, change = copy.deepcopy(CONTAINERS[name])
    seen: list[Any] = []

    def body(v: Any) -> Any:
        seen.append(container)
        return v

    captures = Captures(body)  # type: ignore[arg-type]
    built: list[Any] = []
    key = KeyBuilder.key
    monkeypatch.setattr(KeyBuilder, "key", lambda self, value: (built.append(value), key(self, value))[1])
    assert captures.changed() is None
    assert not any(value is container for value in built) or "a list" in name
    change(container)
    assert captures.changed() == "container"
