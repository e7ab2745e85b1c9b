"""Aliasing of arguments: an array that a kernel writes shares elements with another of its arguments.

Work-groups of a device run at the same time, those of NumPy one after the other, and host arrays are copied to a device
one by one: what such a kernel reads depends on where it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xegpu.ir.use_def import used_arguments, written_at
from xegpu.support.errors import ArgumentError, Note
from xetile.compiler.arguments import Argument

if TYPE_CHECKING:
    from xetile.compiler.compiled import CompiledKernel

_MAX_WORK = 100_000
"""Steps of NumPy's solver, which takes a few for views of two dimensions; beyond, arrays count as aliased."""


def check_aliasing(compiled: CompiledKernel, arguments: Sequence[Argument], name: str) -> None:
    """Raise if an array that the kernel writes shares elements with another argument.

    Raises:
        ArgumentError: two do; the message names both.
    """
    arrays = {position: _addresses(arguments[position]) for position in used_arguments(compiled.function)
              if arguments[position].kind in ("numpy", "usm")}
    for written in compiled.written:
        for other, array in arrays.items():
            if other != written and written in arrays and _share_elements(arrays[written], array):
                raise _aliased(compiled, arguments[written].name, arguments[other].name, written, name)


def _aliased(compiled: CompiledKernel, output: str, other: str, position: int, name: str) -> ArgumentError:
    store = written_at(compiled.function, position)
    return ArgumentError(
        "XT1049", f"{name} writes {output}, which shares elements with {other}",
        f"pass a copy, such as {other}.copy(); or make both one argument; or, where each work-group reads only "
        "elements that no other one writes, declare the kernel @xt.kernel(may_alias=True)",
        notes=[Note(f"{output} is written here", store)] if store else [])


def extent(argument: Argument) -> tuple[int, int] | None:
    """Bytes from an array's first element to its lowest one and to the end of its highest; None if there are none."""
    shape, size = argument.source.shape, argument.dtype.bytes
    if 0 in shape:
        return None
    reach = [stride * (count - 1) * size for stride, count in zip(argument.strides, shape, strict=True)
             if stride is not None]
    return sum(r for r in reach if r < 0), sum(r for r in reach if r > 0) + size


class _Span:
    """An array's addresses as ``__array_interface__``; NumPy compares them and reads nothing."""

    def __init__(self, argument: Argument) -> None:
        size = argument.dtype.bytes
        self.__array_interface__ = {
            "data": (argument.pointer, True), "shape": argument.shape, "typestr": f"|V{size}", "version": 3,
            "strides": tuple([stride * size for stride in argument.strides if stride is not None])}


def _addresses(argument: Argument) -> np.ndarray[Any, Any]:
    return argument.source if argument.kind == "numpy" else np.asarray(_Span(argument))


def _share_elements(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> bool:
    if not np.may_share_memory(first, second):
        return False
    try:
        return np.shares_memory(first, second, max_work=_MAX_WORK)  # type: ignore[arg-type]  # typed as a flag alone
    except np.exceptions.TooHardError:
        return True
