"""Loops on the device: what ``xt.range`` carries, compared with the same Python run by NumPy."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import xetile as xt

SHAPE = (8, 16)
TRIPS = (0, 1, 3)
Body = Callable[[Any, Any, Any, Any], Any]


class NumPyLanguage:
    """The few functions of the language that the bodies below use, on NumPy arrays."""

    range = staticmethod(range)

    @staticmethod
    def zeros(shape: tuple[int, int], dtype: Any) -> Any:
        return np.zeros(shape, np.float32)

    @staticmethod
    def full(shape: tuple[int, int], value: float, dtype: Any) -> Any:
        return np.full(shape, value, np.float32)

    @staticmethod
    def scalar(value: int) -> int:
        return value


def number(language: Any, k: Any) -> Any:
    """A loop's index as a number that vectors can be multiplied by."""
    return k if language is NumPyLanguage else k.to(xt.f32)


def plain(x: Any, a: Any, b: Any, n: Any) -> Any:
    acc = x.zeros(SHAPE, xt.f32)
    for k in x.range(n):
        acc = acc + a * number(x, k)
    return acc + b


def swapped(x: Any, a: Any, b: Any, n: Any) -> Any:
    for _ in x.range(n):
        a, b = b, a
    return a - b * 2


def rotated(x: Any, a: Any, b: Any, n: Any) -> Any:
    c = a + b
    for _ in x.range(n):
        a, b, c = b, c, a
    return a - b * 2 + c * 3


def fibonacci(x: Any, a: Any, b: Any, n: Any) -> Any:
    for _ in x.range(n):
        a, b = b, a + b
    return a * 2 - b


def in_tuple(x: Any, a: Any, b: Any, n: Any) -> Any:
    state = (a, (b, a))
    for _ in x.range(n):
        state = (state[1][0] + 1, (state[0], state[1][1] + state[0]))
    return state[0] + state[1][0] * 2 + state[1][1] * 3


def aliased_list(x: Any, a: Any, b: Any, n: Any) -> Any:
    accs = [x.zeros(SHAPE, xt.f32)] * 4
    for _ in x.range(n):
        for i in range(4):
            accs[i] = accs[i] + a * (i + 1)
        accs[2] = accs[2] + accs[0] + b
    return accs[0] + accs[1] * 2 + accs[2] * 3 + accs[3] * 5


def rebuilt_list(x: Any, a: Any, b: Any, n: Any) -> Any:
    accs = [a, b]
    for _ in x.range(n):
        accs = [acc + a for acc in reversed(accs)]
    return accs[0] - accs[1] * 2


def two_names_for_a_list(x: Any, a: Any, b: Any, n: Any) -> Any:
    first = second = [a]
    for _ in x.range(n):
        first[0] = second[0] + b
    return second[0] + first[0]


def in_dict(x: Any, a: Any, b: Any, n: Any) -> Any:
    state = {"sum": a, "rest": {"last": b}}
    for _ in x.range(n):
        state["sum"] = state["sum"] + state["rest"]["last"]
        state["rest"]["last"] = state["rest"]["last"] - 1
    return state["sum"] - state["rest"]["last"]


@dataclasses.dataclass
class State:
    total: Any
    last: list[Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    total: Any


class Accumulator:
    def __init__(self, value: Any) -> None:
        self.value = value

    def add(self, other: Any) -> None:
        self.value = self.value + other


def in_dataclass(x: Any, a: Any, b: Any, n: Any) -> Any:
    state = State(a, [b])
    for _ in x.range(n):
        state.total, state.last[0] = state.last[0] + 1, state.total
    return state.total - state.last[0] * 2


def in_frozen_dataclass(x: Any, a: Any, b: Any, n: Any) -> Any:
    state = Frozen(a)
    for _ in x.range(n):
        state = dataclasses.replace(state, total=state.total + b)
    return state.total


def in_namespace(x: Any, a: Any, b: Any, n: Any) -> Any:
    state = SimpleNamespace(v=a)
    for _ in x.range(n):
        state.v = state.v + b
    return state.v


def in_object(x: Any, a: Any, b: Any, n: Any) -> Any:
    state = Accumulator(a)
    add = state.add
    for _ in x.range(n):
        add(b)
        state.add(a)
    return state.value


def closed_over(x: Any, a: Any, b: Any, n: Any) -> Any:
    acc = a

    def step() -> None:
        nonlocal acc
        acc = acc + b

    for _ in x.range(n):
        step()
    return acc


def _loop(x: Any, n: Any, step: Callable[[], None]) -> None:
    for _ in x.range(n):
        step()


def loop_in_helper(x: Any, a: Any, b: Any, n: Any) -> Any:
    acc, items = a, [b]

    def step() -> None:
        nonlocal acc
        acc = acc + items[0]
        items[0] = items[0] + 1

    _loop(x, n, step)
    return acc - items[0] * 2


def _summed(x: Any, acc: Any, values: list[Any], n: Any) -> Any:
    for _ in x.range(n):
        acc = acc + values[0]
        values = [values[1], values[0] + 1]
    return acc + values[0]


def passed_to_helper(x: Any, a: Any, b: Any, n: Any) -> Any:
    values = [a, b]
    first = _summed(x, a, values, n)
    return first + _summed(x, first, values, n) * 2 + values[0]


def nested(x: Any, a: Any, b: Any, n: Any) -> Any:
    acc = a
    for _ in x.range(n):
        row = b
        for k in x.range(n + 1):
            row = row + number(x, k)
            acc, row = acc + row, row - 1
        acc = acc - row
    return acc


def nested_same_name(x: Any, a: Any, b: Any, n: Any) -> Any:
    acc = a
    for k in x.range(n):
        acc = acc + b * number(x, k)
        for k in x.range(2):
            acc = acc + number(x, k)
    return acc


def in_a_row(x: Any, a: Any, b: Any, n: Any) -> Any:
    acc = a
    for k in x.range(n):
        value = b + number(x, k)
        acc = acc + value
    for k in x.range(1, n + 2):
        value = acc * 2
        acc = value - number(x, k)
    for k in x.range(0, 5, 2):
        value = b
        acc = acc + value * number(x, k)
    return acc


def untouched(x: Any, a: Any, b: Any, n: Any) -> Any:
    kept = a
    for _ in x.range(n):
        a = a + kept
    return a - kept


def one_value_twice(x: Any, a: Any, b: Any, n: Any) -> Any:
    c = a
    for _ in x.range(n):
        a = b = a + 1
    return a + b * 2 + c


def unrolled_inside(x: Any, a: Any, b: Any, n: Any) -> Any:
    i, acc = 7, a
    for _ in x.range(n):
        for i in range(3):
            acc = acc + b * i
    for i in range(2):
        acc = acc + i
    return acc


def unrolled_outside(x: Any, a: Any, b: Any, n: Any) -> Any:
    acc = a
    for i in range(3):
        for _ in x.range(n):
            acc = acc + b * (i + 1)
    return acc


def skipped(x: Any, a: Any, b: Any, n: Any) -> Any:
    acc = a
    for k in x.range(n):
        acc = acc + number(x, k)
        if n is not None:
            continue
        acc = acc * 0
    else:
        acc = acc + b
    return acc


def counted(x: Any, a: Any, b: Any, n: Any) -> Any:
    count = x.scalar(3)
    acc = a
    for _ in x.range(n):
        acc = acc + number(x, count)
        count = count * 2 - 1
    return acc * number(x, count)


BODIES: tuple[Body, ...] = (
    plain, swapped, rotated, fibonacci, in_tuple, aliased_list, rebuilt_list, two_names_for_a_list, in_dict,
    in_dataclass, in_frozen_dataclass, in_namespace, in_object, closed_over, loop_in_helper, passed_to_helper, nested,
    nested_same_name, in_a_row, untouched, one_value_twice, unrolled_inside, unrolled_outside, skipped, counted,
)


@xt.kernel
def run_constant(A, B, C, *, body, trips):
    a, b = (xt.load_tile(xt.init_tile(array, (0, 0), SHAPE)) for array in (A, B))
    xt.store_tile(body(xt, a, b, trips), xt.init_tile(C, (0, 0), SHAPE))


@xt.kernel
def run_argument(A, B, C, trips, *, body):
    a, b = (xt.load_tile(xt.init_tile(array, (0, 0), SHAPE)) for array in (A, B))
    xt.store_tile(body(xt, a, b, trips), xt.init_tile(C, (0, 0), SHAPE))


@xt.kernel
def run_differing(A, B, C, *, body):
    row = xt.group_id(0)
    a, b = (xt.load_tile(xt.init_tile(array, (0, 0), SHAPE)) for array in (A, B))
    xt.store_tile(body(xt, a, b, row), xt.init_tile(C, (row * SHAPE[0], 0), SHAPE))


def inputs(rng: np.random.Generator) -> tuple[Any, Any]:
    a, b = (rng.integers(-8, 9, SHAPE).astype(np.float32) for _ in range(2))
    return a, b


def expected(body: Body, a: Any, b: Any, trips: int) -> Any:
    return body(NumPyLanguage, a.copy(), b.copy(), trips)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    return np.random.default_rng(sum(map(ord, request.node.name)))


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu"])
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_compile_time_trips(body: Body, where: str, rng: np.random.Generator) -> None:
    a, b = inputs(rng)
    for trips in TRIPS:
        c = np.zeros(SHAPE, np.float32)
        run_constant.on(where)[1](a, b, c, body=body, trips=trips)
        np.testing.assert_array_equal(c, expected(body, a, b, trips))


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu"])
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_trips_from_an_argument(body: Body, where: str, rng: np.random.Generator) -> None:
    a, b = inputs(rng)
    for trips in TRIPS:
        c = np.zeros(SHAPE, np.float32)
        run_argument.on(where)[1](a, b, c, trips, body=body)
        np.testing.assert_array_equal(c, expected(body, a, b, trips))


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu"])
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_trips_that_differ_between_instances(body: Body, where: str, rng: np.random.Generator) -> None:
    a, b = inputs(rng)
    c = np.zeros((4 * SHAPE[0], SHAPE[1]), np.float32)
    run_differing.on(where)[4](a, b, c, body=body)
    np.testing.assert_array_equal(c, np.concatenate([expected(body, a, b, trips) for trips in range(4)]))


@pytest.mark.execution("opencl:cpu")
@pytest.mark.parametrize("target", ["pvc", "dg2", "cpu"])
@pytest.mark.parametrize("body", [aliased_list, nested, swapped], ids=lambda body: body.__name__)
def test_on_a_device(body: Body, target: str, rng: np.random.Generator, cpu_queue: Any) -> None:
    a, b = inputs(rng)
    c = np.zeros((4 * SHAPE[0], SHAPE[1]), np.float32)
    run_differing.on(cpu_queue, target=target)[4](a, b, c, body=body)
    np.testing.assert_array_equal(c, np.concatenate([expected(body, a, b, trips) for trips in range(4)]))


@xt.kernel
def moving(A, C, *, rows=8):
    """Sums up the tiles of a column of tiles, with tiles in lists that move."""
    tiles = [xt.init_tile(A, (0, column * 16), (rows, 16)) for column in range(2)]
    accs = [xt.zeros((rows, 16), xt.f32) for _ in tiles]
    for _ in xt.range(0, A.shape[0], rows):
        for i, tile in enumerate(tiles):
            accs[i] = accs[i] + xt.load_tile(tile)
            tiles[i] = xt.update_tile_offset(tile, rows, 0)
    for i, acc in enumerate(accs):
        xt.store_tile(acc, xt.init_tile(C, (0, i * 16), (rows, 16)))


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu"])
@pytest.mark.parametrize("height", [8, 24, 37])
def test_tiles_in_a_list(where: str, height: int, rng: np.random.Generator) -> None:
    a = rng.integers(-8, 9, (height, 32)).astype(np.float32)
    c = np.zeros((8, 32), np.float32)
    moving.on(where)[1](a, c)
    padded = np.zeros((-(-height // 8) * 8, 32), np.float32)
    padded[:height] = a
    np.testing.assert_array_equal(c, padded.reshape(-1, 8, 32).sum(0))


@xt.kernel
def stepped(C, start, stop, *, step):
    acc = xt.zeros(SHAPE, xt.f32)
    for k in xt.range(start, stop, step):
        acc = acc + (k + 1).to(xt.f32)
    xt.store_tile(acc, xt.init_tile(C, (0, 0), SHAPE))


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu"])
@pytest.mark.parametrize(("start", "stop", "step"), [(0, 7, 3), (-5, 5, 4), (3, 3, 1), (5, 2, 1), (-9, -2, 2)])
def test_bounds(where: str, start: int, stop: int, step: int) -> None:
    c = np.zeros(SHAPE, np.float32)
    stepped.on(where)[1](c, start, stop, step=step)
    np.testing.assert_array_equal(c, np.full(SHAPE, sum(k + 1 for k in range(start, stop, step)), np.float32))


def test_a_loop_carries_only_what_changes() -> None:
    text = run_constant.lower(*[xt.Spec(SHAPE, xt.f32)] * 3, body=untouched, trips=3).xetile
    assert text.count("iter_args") == 1
    assert "iter_args(%a_1 = %" in text
    assert "-> (vector<8x16xf32>)" in text
