"""Names and numbers of NumPy in kernels: its numbers work, and its functions and methods are errors that name ours."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xetile as xt
from xetile.frontend import foreign_names

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
    (lambda A: np.sum(_x(A)), "NumPy's sum", 'write xt.tile_reduce("add", x, axis)'),
    (lambda A: np.spacing(_x(A)), "NumPy's spacing", "functions of the language"),
    (lambda A: _x(A).sum(), "a vector of 8x16 f32 has no .sum", 'xt.tile_reduce("add", x, axis)'),
    (lambda A: _x(A).astype(xt.f16), "has no .astype", "x.to(xt.f16)"),
    (lambda A: _x(A).shpe, "has no .shpe", "did you mean .shape?"),
    (lambda A: np.where(_x(A) > 0, _x(A), 0), "NumPy's where", "write xt.where(condition, a, b)"),
    (lambda A: max(A.shape[0], 3), "a run-time i1 has no value", "write xt.maximum(a, b)"),
    (lambda A: min(3, A.shape[0]), "a run-time i1 has no value", "write xt.minimum(a, b)"),
    (lambda A: any([_x(A) > 0, _x(A) < 0]), "a vector of 8x16 i1 has no value", "write a | b"),
    (lambda A: math.exp(_x(A)), "a vector of 8x16 f32 has no value", "write xt.exp(x)"),
    (lambda A: math.sqrt(A.shape[0]), "a run-time index has no value", "write xt.sqrt(x), of a float: x.to(xt.f32)"),
    (lambda A: float(A.shape[0]), "a run-time index has no value", "convert it with .to(xt.i32)"),
    (lambda A: A.reshape(4, -1), "a 2-dimensional array of f32 has no .reshape", "A.reshape(...) at the launch"),
    (lambda A: A.T, "a 2-dimensional array of f32 has no .T", "A.T at the launch"),
    (lambda A: xt.load(A), "xetile has no load", "write xt.load_tile(tile), of a tile = xt.init_tile(A,"),
    (lambda A: xt.dot(A, A), "xetile has no dot", "write xt.tile_mma(a, b, acc)"),
    (lambda A: xt.arange(0, 16), "xetile has no arange", "write xt.iota(shape, axis)"),
    (lambda A: xt.program_id(0), "xetile has no program_id", "write xt.group_id(d)"),
    (lambda A: xt.cdiv(A.shape[0], 8), "xetile has no cdiv", "write (a + b - 1) // b"),
    (lambda A: xt.float32, "xetile has no float32", "write xt.f32"),
    (lambda A: xt.tile_mm, "xetile has no tile_mm", "did you mean xt.tile_mma?"),
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


def test_functions_of_numpy_with_lists_work_where_values_are_there() -> None:
    a = np.arange(128, dtype=np.float32).reshape(8, 16)
    seen: list[Any] = []

    def looking(A: Any) -> None:
        seen.append(np.where(_x(A) > 50, _x(A), -1))
        seen.append(np.concatenate([_x(A), a], axis=1))

    xt.kernel(looking).on("numpy:program")[1](a)
    assert np.array_equal(seen[0], np.where(a > 50, a, -1))
    assert np.array_equal(seen[1], np.concatenate([a, a], axis=1))


def test_a_name_that_is_not_there_is_none_to_python() -> None:
    assert not hasattr(xt, "load")
    assert getattr(xt, "program_id", None) is None
    with pytest.raises(AttributeError, match="no attribute '_private'"):
        _ = xt._private  # type: ignore[attr-defined]


def test_the_package_lists_its_public_names_alone() -> None:
    assert sorted(name for name in dir(xt) if name != "__version__") == sorted(xt.__all__)
    assert all(hasattr(xt, name) for name in dir(xt))


def test_the_hints_name_what_there_is() -> None:
    assert all(callable(getattr(xt, name)) for name in foreign_names.SAME_NAME)
    tables = (foreign_names.REPLACEMENTS, foreign_names.METHODS, foreign_names.ARRAY_METHODS, foreign_names.MATH,
              foreign_names.BUILTINS, foreign_names.OTHER_TOOLS)
    named = re.findall(r"xt\.(\w+)", " ".join(text for table in tables for text in table.values()))
    assert len(named) > 100
    assert not [name for name in named if not hasattr(xt, name)]
