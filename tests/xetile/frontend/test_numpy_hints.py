"""What authors bring along from NumPy: its numbers work, and its functions and methods are errors that name ours."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xetile as xt
from xetile.frontend import numpy_hints

matrix = xt.Spec((None, None), "f32")


def _x(A: Any) -> Any:
    return xt.load_tile(xt.init_tile(A, (0, 0), (8, 16)))


@xt.kernel
def numbers(A: Any, C: Any, n: Any) -> None:
    x = _x(A)
    y = np.float32(2) * x + np.float32(1) - x * np.float32(0.5)
    y = xt.where(np.float32(3) < y, np.float32(100) - y, np.add(y, y))
    m = np.int64(20) // (n + 1) + np.int32(7) - n
    xt.store_tile(y + m.to(xt.f32), xt.init_tile(C, (0, 0), (8, 16)))


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu", "numpy:program"])
def test_numbers_of_numpy_take_part_in_arithmetic(where: str) -> None:
    a = np.arange(128, dtype=np.float32).reshape(8, 16)
    y = 2 * a + 1 - a * 0.5
    c = np.full((8, 16), -1, np.float32)
    numbers.on(where)[1](a, c, 2)
    assert np.array_equal(c, np.where(y > 3, 100 - y, y + y) + 20 // 3 + 7 - 2)


def test_functions_of_numpy_work_where_values_are_there() -> None:
    a = np.arange(128, dtype=np.float32).reshape(8, 16)
    seen: list[Any] = []

    def looking(A: Any) -> None:
        seen.append(np.sqrt(_x(A)))

    xt.kernel(looking).on("numpy:program")[1](a)
    assert np.array_equal(seen[0], np.sqrt(a))


@pytest.mark.parametrize(("body", "message", "hint"), [
    (lambda A: np.exp(_x(A)), "NumPy's exp does not work on it", "write xt.exp(x)"),
    (lambda A: np.absolute(_x(A)), "NumPy's absolute", "write xt.abs(x)"),
    (lambda A: np.maximum(_x(A), 0), "NumPy's maximum", "write xt.maximum(a, b)"),
    (lambda A: np.sum(_x(A)), "NumPy's add", 'write xt.tile_reduce("add", x, axis)'),
    (lambda A: np.spacing(_x(A)), "NumPy's spacing", "functions of the language"),
    (lambda A: _x(A).sum(), "a vector of 8x16 f32 has no .sum", 'xt.tile_reduce("add", x, axis)'),
    (lambda A: _x(A).astype(xt.f16), "has no .astype", "x.to(xt.f16)"),
    (lambda A: _x(A).shpe, "has no .shpe", "did you mean .shape?"),
    (lambda A: A.ndim, "a 2-dimensional array of f32 has no .ndim", "it has .shape, .strides, .dtype"),
])
def test_what_numpy_alone_has(body: Callable[[Any], Any], message: str, hint: str) -> None:
    with pytest.raises(xt.XeError) as caught:
        xt.kernel(body).lower(matrix)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert f"{__file__}:" in str(caught.value)


def test_an_attribute_that_is_not_there_is_none_to_python() -> None:
    def asking(A: Any) -> None:
        assert not hasattr(A, "sum")
        assert getattr(_x(A), "sum", None) is None

    xt.kernel(asking).lower(matrix)


def test_the_hints_name_what_there_is() -> None:
    assert all(callable(getattr(xt, name)) for name in numpy_hints.SAME_NAME)
    named = re.findall(r"xt\.(\w+)", " ".join((*numpy_hints.REPLACEMENTS.values(), *numpy_hints.METHODS.values())))
    assert named
    assert not [name for name in named if not hasattr(xt, name)]
