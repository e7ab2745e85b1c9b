"""A case of the sweep: a construct of the language, and what plain NumPy makes of its operands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import xetile as xt
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.target.targets import Target

Array = np.ndarray[Any, Any]
ROWS, COLUMNS = 40, 64
"""Shape of the operands in memory."""
STARTS = (8, 16), (24, 32), (16, 0)
"""Where the loaded blocks ``a``, ``b`` and ``c`` begin, of A, B and C."""
SHAPE = (8, 16)
"""Shape of the loaded blocks."""
MOST = 2
"""Largest of the small integers: sums of a block are exact in every element type but 8-bit floats."""


@dataclass(frozen=True)
class Operands:
    """Operands of a case as the kernel sees them.

    Attributes:
        A, B: arrays of random bits and of numbers that hurt.
        C: array of small integers.
        out: the output array.
    """

    A: Any
    B: Any
    C: Any
    out: Any

    @property
    def a(self) -> Any:
        """Block of A; each use loads it."""
        return xt.load_tile(xt.init_tile(self.A, STARTS[0], SHAPE))

    @property
    def b(self) -> Any:
        """Block of B."""
        return xt.load_tile(xt.init_tile(self.B, STARTS[1], SHAPE))

    @property
    def c(self) -> Any:
        """Block of C."""
        return xt.load_tile(xt.init_tile(self.C, STARTS[2], SHAPE))


def _everywhere(where: str, target: Target) -> bool:
    return True


@dataclass(frozen=True)
class Case:
    """One construct.

    Attributes:
        name: names it in a failure.
        build: traced in the kernel; the vector that it returns is stored.
        expected: the output array in the end.
        element: element type of the output.
        start: the output array before the launch; None for zeros.
        signed_zeros: whether 0.0 and -0.0 differ; operations that choose one of them say no.
        runs: whether a target has the operation, and the place of the execution, as in ``kernel.on``, runs it.
    """

    name: str
    build: Callable[[Operands], Any]
    expected: Array
    element: DType
    start: Array | None = None
    signed_zeros: bool = True
    runs: Callable[[str, Target], bool] = _everywhere

    def output(self) -> Array:
        """A new output array."""
        return np.zeros(self.expected.shape, self.element.numpy) if self.start is None else self.start.copy()

    def check(self, found: Array) -> None:
        """Compare the output with what is expected: all bits, but those of NaN."""
        expected = np.ascontiguousarray(self.expected, self.element.numpy)
        compared: Any = slice(None)
        if self.element.kind in "fs":
            with np.errstate(invalid="ignore"):
                found_nan, nan = (np.isnan(array.astype(np.float64)) for array in (found, expected))
            np.testing.assert_array_equal(found_nan, nan, self.name)
            compared = ~nan
        if self.element.kind in "fs" and self.signed_zeros:
            word = f"u{self.element.bytes}"
            found, expected = found.view(word), expected.view(word)
        np.testing.assert_array_equal(found[compared], expected[compared], self.name)


def special(dtype: DType) -> Array:
    """Numbers that hurt: ends of the range, signed zeros, infinities, NaN, the smallest subnormal."""
    if dtype is dtypes.i1:
        return np.array([False, True])
    if dtype.kind in "fs":
        numbers = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0], np.float32).astype(dtype.numpy)
        return np.concatenate((numbers, np.array([1, 2], f"u{dtype.bytes}").view(dtype.numpy)))
    info = np.iinfo(dtype.numpy)
    return np.array([0, 1, 2, info.min, info.max, info.max - 1, info.max // 2 + 1], dtype.numpy)


def operands(dtype: DType) -> tuple[Array, Array, Array]:
    """A and B: random bits, with numbers that hurt in rows and columns of the loaded blocks; C: small integers."""
    rng, hurt = np.random.default_rng(dtype.bits + ord(dtype.kind)), special(dtype)
    if dtype is dtypes.i1:
        a, b, c = (rng.integers(0, 2, (ROWS, COLUMNS)).astype(bool) for _ in range(3))
        return a, b, c
    a, b = (np.frombuffer(rng.bytes(ROWS * COLUMNS * dtype.bytes), dtype.numpy).reshape(ROWS, COLUMNS).copy()
            for _ in range(2))
    (row, column), (low, left), _ = STARTS
    a[row, column:column + len(hurt)] = hurt
    b[low:low + SHAPE[0], left] = np.resize(hurt[::-1], SHAPE[0])
    least = 0 if dtype.kind == "u" else -MOST
    return a, b, rng.integers(least, MOST + 1, a.shape).astype(dtype.numpy)


def blocks(dtype: DType) -> tuple[Array, Array, Array]:
    """The loaded blocks ``a``, ``b`` and ``c``."""
    a, b, c = (array[row:row + SHAPE[0], column:column + SHAPE[1]]
               for array, (row, column) in zip(operands(dtype), STARTS, strict=True))
    return a, b, c


def quiet(floats: Array) -> Array:
    """Floats as float64 with quiet NaN: some loops of NumPy's ``fmin`` and ``fmax`` give signalling ones."""
    with np.errstate(invalid="ignore"):
        wide = floats.astype(np.float64)
    return np.where(np.isnan(wide), np.nan, wide)
