"""Functions whose instructions err by up to a unit in the last place, as hardware's do, in machine code."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xetile as xt
from codegen.simulator.alu.transcendental import VARIABLE
from tests.conftest import require_ocloc
from xegpu.mlir.elementwise import RECORDS

Array = np.ndarray[Any, Any]
Function = Callable[[Array, Array], Array]
POSITIVE: dict[str, Function] = {
    "sqrt": lambda a, _: np.sqrt(a), "rsqrt": lambda a, _: 1 / np.sqrt(a), "log": lambda a, _: np.log(a),
    "log2": lambda a, _: np.log2(a),
}
"""What functions of a positive number and of any one compute."""
ANY: dict[str, Function] = {
    "exp": lambda _, b: np.exp(b), "exp2": lambda _, b: np.exp2(b), "tanh": lambda _, b: np.tanh(b),
    "expm1": lambda _, b: np.expm1(b),
}
QUOTIENTS: dict[str, Function] = {"quotient": lambda a, b: b / a, "inverse": lambda a, _: 1 / a}
BOUNDS = {operation.name.removeprefix("math."): record.ulp for operation, record in RECORDS.items()
          if operation.name.startswith("math.")}
"""Declared bounds of errors, in units of the last place."""
FAST: dict[str, tuple[Function, Function]] = {
    "exp": (lambda _, b: np.exp(b), lambda b, y: (4 + abs(b)) * y), "tanh": (lambda _, b: np.tanh(b), lambda b, y: 4),
    "erf": (lambda _, b: np.vectorize(math.erf)(b), lambda b, _: 4e-5 * 2.0**23),
}
"""Approximate ones, with the bounds in units of 2^-23."""


@xt.kernel
def functions(A, B, C):
    at = xt.group_id(0) * 8
    a, b = (xt.load_tile(xt.init_tile(array, (at, 0), (8, 16))) for array in (A, B))
    values = [b / a, 1.0 / a, *(getattr(xt, name)(a) for name in POSITIVE),
              *(getattr(xt, name)(b) for name in ANY), *(getattr(xt, name)(b, fast=True) for name in FAST)]
    for row, value in enumerate(values):
        xt.store_tile(value, xt.init_tile(C, (row, at, 0), (8, 16)))


@pytest.mark.parametrize("target", ["pvc", "dg2"])
def test_bounds_hold(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require_ocloc()
    rng = np.random.default_rng(21)
    a, b = rng.uniform(0.5, 2, (64, 16)).astype(np.float32), (3 * rng.standard_normal((64, 16))).astype(np.float32)
    a[:32] = (np.uint32(0x40000000) - rng.integers(1, 64, (32, 16), dtype=np.uint32)).view(np.float32)
    a[32:48] = (np.uint32(0x3f800000) + rng.integers(1, 64, (16, 16), dtype=np.uint32)).view(np.float32)
    wide = a.astype(np.float64), b.astype(np.float64)
    found = set()
    for seed in ("", "first", "second"):
        monkeypatch.setenv(VARIABLE, seed)
        c = np.zeros((13, 64, 16), np.float32)
        functions.on(f"machine:{target}")[8](a, b, c)
        found.add(c.tobytes())
        results = iter(c.astype(np.float64))
        for name, function in (QUOTIENTS | POSITIVE | ANY).items():
            result, exact, bound = next(results), function(*wide), BOUNDS.get(name, 0)
            rounded = exact.astype(np.float32)
            assert ((result == rounded) | (abs(result - exact) <= bound * np.spacing(abs(rounded)))).all(), (seed, name)
        for name, (function, error) in FAST.items():
            result, exact = next(results), function(*wide)
            assert (abs(result - exact) <= error(wide[1], exact) * 2.0**-23).all(), (seed, f"fast {name}")
    assert len(found) == 3  # each seed has errors of its own
