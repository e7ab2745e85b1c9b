"""Launches that are ready: what a repeated launch needs, without looking at types, shapes and checks once more."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from codegen.runtime.devices import asked_road
from codegen.runtime.launcher import start
from codegen.runtime.usm import address_of, signature
from xegpu.ir.dtypes import DType
from xetile.arguments import TypedView

_MAKERS: Mapping[type, Callable[[Any], Any]] = {ctypes.c_int: ctypes.c_int, ctypes.c_float: ctypes.c_float}
INT = range(-(2**31), 2**31)
"""The numbers that kernels get as 32 bits."""
MOST = 256
"""Launches that a place remembers; a kernel that meets more kinds of arrays than that begins anew."""


class Launch:
    """A built kernel with its grid; arrays of the same signatures and other numbers may follow each other.

    Args:
        queue, kernel: dpctl's.
        template: what the kernel gets, as dpctl takes it.
        places: for each argument of the author, where its pointer or number stands in the template.
        global_range, local_range: work-items, in SYCL's order of dimensions.
        written: positions of the arguments that the kernel writes.
    """

    __slots__ = ("global_range", "kernel", "local_range", "makers", "places", "queue", "template", "written")

    def __init__(self, queue: Any, kernel: Any, template: list[Any], places: Sequence[int], global_range: list[int],
                 local_range: list[int], written: Sequence[int]) -> None:
        self.queue, self.kernel, self.template, self.places = queue, kernel, template, places
        self.global_range, self.local_range, self.written = global_range, local_range, written
        self.makers = [_MAKERS.get(type(template[place]), address_of) for place in places]

    def spelled(self, args: Sequence[Any]) -> list[Any]:
        """The template with the pointers and numbers of ``args``, which have signatures like those it was made of."""
        values = self.template.copy()
        for place, make, value in zip(self.places, self.makers, args, strict=True):
            values[place] = make(value.array if type(value) is TypedView else value)
        return values

    def start(self, args: tuple[Any, ...]) -> None:
        """Start the kernel; the arguments are kept until it has run."""
        start(self.queue, self.kernel, self.spelled(args), self.global_range, self.local_range, args)

    def bound(self, args: tuple[Any, ...]) -> Callable[[], Any]:
        """What starts the kernel on these very arguments, again and again."""
        return partial(start, self.queue, self.kernel, self.spelled(args), self.global_range, self.local_range, args)


class Prepared:
    """A launch that is bound to its arguments: ``ready = kernel.prepare(grid, A, B, C)``, then ``ready()``.

    Checks, compilation and the choice of code are done. The arrays are the same at every launch, with what they hold by
    then; sizes and numbers are those of the preparation. It keeps the arrays alive.

    Attributes:
        name: the kernel's name.
        grid: work-groups.
    """

    __slots__ = ("_start", "grid", "name")

    def __init__(self, name: str, grid: tuple[int, int, int], start: Callable[[], Any]) -> None:
        self.name, self.grid, self._start = name, grid, start

    def __call__(self) -> None:
        """Launch, asynchronously in the order of the queue if the arrays are in device memory."""
        self._start()

    def __repr__(self) -> str:
        return f"<{self.name} prepared for {' x '.join(map(str, self.grid))} work-groups>"


class Launches:
    """The launches that one place has seen."""

    def __init__(self) -> None:
        self._ready: dict[Any, Launch] = {}

    def find(self, key: Any) -> Launch | None:
        """The launch of a key, None if there was none."""
        return None if key is None else self._ready.get(key)

    def keep(self, key: Any, launch: Launch) -> None:
        """Remember a launch."""
        if len(self._ready) >= MOST:
            self._ready.clear()
        self._ready[key] = launch


def key_of(args: Sequence[Any]) -> Any:
    """What code and checks depend on of a launch's arguments; None if they have to be looked at one by one.

    That is so for all arrays but dpnp's, and for numbers of 64 bits.
    """
    seen: list[Any] = [asked_road()]
    for value in args:
        kind = type(value)
        found: Any
        if kind is int:
            found = kind if value in INT else None
        elif kind is float:
            found = kind
        elif kind is TypedView:
            found = _viewed(value)
        else:
            found = signature(value)
        if found is None:
            return None
        seen.append(found)
    return tuple(seen)


def _viewed(view: TypedView) -> tuple[DType, Any] | None:
    inner = signature(view.array)
    return None if inner is None else (view.dtype, inner)
