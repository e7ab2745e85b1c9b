"""Alias check of arguments: whether an array that a kernel writes shares elements with another, or with itself.

Work-groups of a device run at the same time, those of NumPy one after the other, and host arrays are copied to a device
one by one: what such a kernel reads, or leaves in an element that has several indices, depends on where it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from xegpu.ir.use_def import used_arguments, written_at
from xegpu.support.errors import ArgumentError, Note
from xetile.compiler.arguments import Argument

if TYPE_CHECKING:
    from xetile.compiler.compiled import CompiledKernel

_MAX_WORK = 100_000
"""Steps of NumPy's solver, which takes a few for views of two dimensions; beyond, arrays count as aliased."""
_ALLOWED = "declare the kernel @xt.kernel(may_alias=True)"


def check_aliasing(compiled: CompiledKernel, arguments: Sequence[Argument], name: str) -> None:
    """Raise if an array that the kernel writes shares elements with another argument, or has one at several indices.

    Raises:
        ArgumentError: it does; the message names both arrays.
    """
    aliasing = Aliasing(arguments, name)
    for position in used_arguments(compiled.function):
        aliasing.use(position)
    for position in compiled.written:
        try:
            aliasing.write(position)
        except ArgumentError as error:
            if store := written_at(compiled.function, position):
                error.notes.append(Note(f"{arguments[position].name} is written here", store))
            raise


@dataclass
class Aliasing:
    """The arrays that a kernel is known to use and to write; raises as soon as two of them are aliased.

    Attributes:
        arguments: of the call.
        name: the kernel's name.
    """

    arguments: Sequence[Argument]
    name: str
    _used: dict[int, np.ndarray[Any, Any]] = field(default_factory=dict)
    _written: dict[int, np.ndarray[Any, Any]] = field(default_factory=dict)

    def use(self, position: int) -> None:
        """Note that the kernel uses an argument.

        Raises:
            ArgumentError: it shares elements with an array that is written.
        """
        argument = self.arguments[position]
        if position in self._used or argument.kind not in ("numpy", "usm"):
            return
        self._used[position] = array = _addresses(argument)
        for written, other in self._written.items():
            self._check(written, other, position, array)

    def write(self, position: int) -> None:
        """Note that the kernel writes an argument.

        Raises:
            ArgumentError: it shares elements with another one that is used, or has an element at several indices.
        """
        if position in self._written or self.arguments[position].kind not in ("numpy", "usm"):
            return
        self.use(position)
        self._written[position] = array = self._used[position]
        if _overlaps_itself(array):
            output = self.arguments[position].name
            raise ArgumentError(
                "XT1039", f"{self.name} writes {output}, and elements of {output}, of shape {array.shape} and strides "
                f"of {array.strides} bytes, share their place in memory",
                f"pass an array with a place for each element, such as {output}.copy(); or, where no element is "
                f"written by two work-groups, or all of them by atomic updates, {_ALLOWED}")
        for other, used in self._used.items():
            self._check(position, array, other, used)

    def _check(self, written: int, output: np.ndarray[Any, Any], position: int, other: np.ndarray[Any, Any]) -> None:
        if written != position and _share_elements(output, other):
            names = [self.arguments[each].name for each in (written, position)]
            raise ArgumentError(
                "XT1049", f"{self.name} writes {names[0]}, which shares elements with {names[1]}",
                f"pass a copy, such as {names[1]}.copy(); or make both one argument; or, where each work-group reads "
                f"only elements that no other one writes, {_ALLOWED}")


def extent(argument: Argument) -> tuple[int, int] | None:
    """Bytes from an array's first element to its lowest one and to the end of its highest; None if there are none."""
    shape, size = argument.source.shape, argument.dtype.bytes
    if 0 in shape:
        return None
    reach = [stride * (count - 1) * size for stride, count in zip(argument.strides, shape, strict=True)
             if stride is not None]
    return sum(r for r in reach if r < 0), sum(r for r in reach if r > 0) + size


def overlaps_itself(argument: Argument) -> bool:
    """Whether two indices of an array reach one element."""
    return _overlaps_itself(_addresses(argument))


def _addresses(argument: Argument) -> np.ndarray[Any, Any]:
    """An array at the argument's addresses, which NumPy compares, and reads nothing."""
    if argument.kind == "numpy":
        array: np.ndarray[Any, Any] = argument.source
        return array
    size = argument.dtype.bytes
    return _span(argument.pointer, argument.shape, [stride * size for stride in argument.strides if stride is not None],
                 size)


def _span(address: int | None, shape: Sequence[int | None], strides: Sequence[int], size: int) -> np.ndarray[Any, Any]:
    """An array of elements of ``size`` bytes at an address; it must not be read."""

    memory = SimpleNamespace(__array_interface__={"data": (address, True), "shape": tuple(shape), "version": 3,
                                                  "strides": tuple(strides), "typestr": f"|V{size}"})
    return np.asarray(memory)


def _overlaps_itself(array: np.ndarray[Any, Any]) -> bool:
    """Whether two indices of an array reach one element."""
    axes = sorted((abs(stride), count) for stride, count in zip(array.strides, array.shape, strict=True) if count != 1)
    reach = array.itemsize  # of the dimensions so far; a larger stride than that keeps them apart
    for stride, count in axes:
        if stride < reach or count == 0:
            break
        reach += stride * (count - 1)
    else:
        return False
    return 0 not in array.shape and any(_meet(axes[at], axes[:at], array.itemsize) for at in range(len(axes)))


def _meet(axis: tuple[int, int], others: Sequence[tuple[int, int]], size: int) -> bool:
    """Whether one or more steps along an axis are undone by steps along others, each of them forwards or backwards."""
    stride, count = axis
    back = sum(other * (steps - 1) for other, steps in others)
    start = back + size  # any address that is not 0 will do, for nothing is read
    ahead = _span(start + stride, (count - 1,), (stride,), size)
    around = _span(start - back, [2 * steps - 1 for _, steps in others], [other for other, _ in others], size)
    return _share_elements(ahead, around)


def _share_elements(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> bool:
    if not np.may_share_memory(first, second):
        return False
    try:
        return np.shares_memory(first, second, max_work=_MAX_WORK)  # type: ignore[arg-type]  # typed as a flag alone
    except np.exceptions.TooHardError:
        return True
