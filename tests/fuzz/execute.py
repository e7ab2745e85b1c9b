"""Executions of a program: data in memory with borders, launches everywhere, and the comparison with the evaluation."""

from __future__ import annotations

import linecache
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import xetile as xt
from tests.fuzz.numerics import HOLDS, Array, is_float, limits
from tests.fuzz.program import ArrayArg, Number, Program, Shape
from xegpu.support.errors import XeError

BORDER = 3
"""Rows before and behind an array in its buffer."""
REFUSALS: dict[str, str] = {
    "XT4101": "the target has no such product", "XT4102": "the target does not accumulate so",
    "XT4105": "the target does not calculate in the type",
    "XT2521": "what subgroups exchange does not fit into the target's shared local memory",
}
"""Errors that a valid program may get, for what a target lacks."""


@dataclass
class Buffer:
    """An array inside a buffer, whose other elements must stay as they are."""

    whole: Array
    view: Array

    def argument(self, dtype: str) -> Any:
        """The kernel's argument."""
        return xt.view(self.view, xt.tf32) if dtype == "tf32" else self.view


@dataclass
class Mismatch(Exception):
    """Difference between an execution and the evaluation, or its error."""

    execution: str
    message: str
    launch: tuple[Shape, int] | None = None

    def __str__(self) -> str:
        return f"{self.execution}: {self.message}"

    @property
    def kind(self) -> str:
        """Key of failures that may have one cause: the execution, and an error's code or a few words."""
        head = self.message.partition(":")[0] if ":" in self.message.partition("\n")[0] else "differs"
        return f"{self.execution} {'outside' if 'outside' in self.message else 'differs' if '[' in head else head}"


class Refused(Exception):
    """An execution that a target does not take, by the error's code."""


def buffer(array: ArrayArg, sizes: Sequence[int]) -> Buffer:
    """An empty array in a buffer, by its layout."""
    element = HOLDS[array.dtype]
    *batch, rows, columns = (1, *sizes) if array.rank == 1 else sizes
    if array.order == "F":
        rows, columns = columns, rows
    pitch = columns * array.step + array.pad + (0 if array.aligned else 5)
    if array.aligned:
        unit = 64 // element.itemsize
        pitch = max(-(-pitch // unit) * unit, unit)
    matrices, rows_of = batch[0] if batch else 1, rows + BORDER
    count = (matrices * rows_of + BORDER) * pitch
    raw = np.zeros(count * element.itemsize + 64, np.uint8)
    skip = -raw.ctypes.data % 64
    flat = raw[skip:skip + count * element.itemsize].view(element)
    first = 0 if array.aligned else 2
    whole = flat.reshape(-1, pitch)
    inner = np.lib.stride_tricks.as_strided(
        whole[BORDER:, first:], (matrices, rows, columns),
        (rows_of * pitch * element.itemsize, pitch * element.itemsize, array.step * element.itemsize))
    if array.order == "F":
        inner = np.swapaxes(inner, 1, 2)
    view = inner if array.rank == 3 else inner[0] if array.rank == 2 else inner[0, 0]
    return Buffer(flat, view)


def random_values(rng: np.random.Generator, dtype: str, low: int | None, high: int | None, shape: Any) -> Array:
    """Random data of a type within bounds; with the bounds of the type its ends too; floats of any kind without."""
    if low is None or high is None:
        values = rng.standard_normal(shape) * 2.0 ** rng.integers(-6, 7, shape)
        return values.astype(np.float32 if dtype == "bf16" else HOLDS[dtype]).astype(HOLDS[dtype])
    if is_float(dtype):
        return rng.integers(low, high, shape, endpoint=True).astype(np.float32).astype(HOLDS[dtype])
    kind = np.uint64 if dtype == "u64" else np.int64
    values = rng.integers(low, high, shape, dtype=kind, endpoint=True)
    if dtype != "i1" and (low, high) == limits(dtype):
        ends = np.array([low, high, 0, 1], kind)
        values = np.where(rng.random(shape) < 0.2, ends[rng.integers(0, 4, shape)], values)
    return values.astype(HOLDS[dtype])


class Launch:
    """One launch: data, and what the evaluation makes of them.

    Args:
        program: the program.
        grid: work-groups along rows and columns.
        seed: of the data.
    """

    def __init__(self, program: Program, grid: Shape, seed: int) -> None:
        self.program, self.grid, self.seed = program, grid, seed
        rng = np.random.default_rng(seed)
        instances = program.instances(grid)
        self.sizes = [array.sizes(instances) for array in program.arrays]
        self._seeds = [int(each) for each in rng.integers(0, 2**31, len(program.arrays))]
        self.numbers = {each.name: _number(rng, each) for each in program.numbers}
        self.expected = self.buffers()
        program.evaluate(grid, {array.name: each.view for array, each in zip(program.arrays, self.expected,
                                                                             strict=True)}, self.numbers)

    def buffers(self) -> list[Buffer]:
        """The arguments, as they are before the launch."""
        made = []
        for array, sizes, seed in zip(self.program.arrays, self.sizes, self._seeds, strict=True):
            each, rng = buffer(array, sizes), np.random.default_rng(seed)
            flat = each.whole.view(np.uint8)
            flat[...] = rng.integers(0, 256, flat.shape, np.uint8) if array.dtype != "i1" else 1
            each.view[...] = random_values(rng, array.dtype, array.low, array.high, sizes) if not array.written else \
                rng.integers(0, 2, sizes).astype(HOLDS[array.dtype])
            made.append(each)
        return made

    def run(self, kernel: Any, execution: str) -> None:
        """Launch it somewhere, and compare all memory with the evaluation.

        Raises:
            Mismatch: something differs, or what was raised is no refusal.
            Refused: the target does not take the program.
        """
        where, _, target = execution.partition("/")
        buffers = self.buffers()
        for each, array in zip(buffers, self.program.arrays, strict=True):
            if not array.written:
                each.view.flags.writeable = False
        arguments = [each.argument(array.dtype) for each, array in zip(buffers, self.program.arrays, strict=True)]
        numbers = [self.numbers[each.name] for each in self.program.numbers]
        try:
            with np.errstate(all="ignore"):
                kernel.on(where, target=target or None)[self.grid](*self.program.call(arguments, numbers))
        except XeError as error:
            if error.code in REFUSALS:
                raise Refused(error.code) from None
            raise Mismatch(execution, f"{error.code}: {error}") from error
        except Exception as error:
            raise Mismatch(execution, f"{type(error).__name__}: {error}") from error
        for array, got, expected in zip(self.program.arrays, buffers, self.expected, strict=True):
            self._compare(execution, array, got, expected)

    def _compare(self, execution: str, array: ArrayArg, got: Buffer, expected: Buffer) -> None:
        inner = np.zeros(got.whole.shape, bool)
        _inner_of(inner, got)[...] = True
        outside = (got.whole.view(f"u{got.whole.itemsize}") != expected.whole.view(f"u{got.whole.itemsize}")) & ~inner
        if outside.any():
            raise Mismatch(execution, f"{array.name}: {outside.sum()} elements outside the array changed")
        wrong = differing(got.view, expected.view, exact=array.exact)
        if wrong.any():
            at = tuple(int(each[0]) for each in np.nonzero(wrong))
            raise Mismatch(execution, f"{array.name}{list(at)} is {got.view[at]}, not {expected.view[at]}; "
                                      f"{wrong.sum()} of {wrong.size} differ (grid {self.grid})")


def differing(got: Array, expected: Array, *, exact: bool) -> Array:
    """Mask of the elements that differ: NaN equals NaN, 0 equals -0; functions within some units in the last place."""
    if got.dtype.kind in "iub":
        return got.view(f"u{got.itemsize}") != expected.view(f"u{got.itemsize}")
    with np.errstate(all="ignore"):
        a, b = got.astype(np.float64), expected.astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if exact:
            return ~same
        unit = {2: 2.0**-10 if got.dtype == np.float16 else 2.0**-7, 4: 2.0**-18, 8: 2.0**-18}[got.itemsize]
        return ~same & ~(np.abs(a - b) <= unit * np.maximum(np.abs(b), 2.0**-6) * 2)


def _inner_of(mask: Array, each: Buffer) -> Array:
    """The view of a mask that lies as an array lies in its buffer."""
    offset = (each.view.ctypes.data - each.whole.ctypes.data) // each.whole.itemsize
    strides = tuple(step // each.whole.itemsize for step in each.view.strides)
    return np.lib.stride_tricks.as_strided(mask[offset:], each.view.shape, strides)


def _number(rng: np.random.Generator, number: Number) -> Any:
    value = int(rng.integers(number.low, number.high, endpoint=True))
    return {"index": value, "i64": np.int64(value), "f32": float(value)}[number.dtype]


def kernel_of(source: str, name: str) -> Any:
    """The kernel of a source text, which the tracer finds its lines in."""
    file = f"<{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope: dict[str, Any] = {}
    exec(compile(source, file, "exec"), scope)  # the kernel is text: this is what is tested
    return scope["kernel"]


def check(program: Program, executions: Sequence[str], name: str = "fuzz", *, optimise: bool = False) -> Counter[str]:
    """Run a program everywhere, on each of its data sets.

    Args:
        program: the program.
        executions: where; with a target behind a slash.
        name: of its source, in errors.
        optimise: whether devices' compilers optimise.

    Returns:
        launches by execution; a refusal counts as ``refused`` with its execution.

    Raises:
        Mismatch: an execution differs from the evaluation.
    """
    os.environ["XETILE_BUILD_OPTIONS"] = "" if optimise else "-cl-opt-disable"
    source = program.source()
    kernel = kernel_of(source, name)
    done: Counter[str] = Counter()
    try:
        launches = [Launch(program, grid, seed) for grid, seed in program.launches]
        for execution in executions:
            for launch in launches:
                try:
                    launch.run(kernel, execution)
                except Mismatch as found:
                    found.launch = launch.grid, launch.seed
                    raise
                except Refused as refused:
                    done[f"{execution} refused {refused}"] += 1
                    break
                done[execution] += 1
    finally:
        kernel.forget()
        linecache.cache.pop(f"<{name}>", None)
    return done
