"""Launches that are ready: what a repeated launch needs, without looking at types, shapes and checks once more."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import ref

from codegen.runtime.devices import asked_road
from codegen.runtime.launcher import start
from codegen.runtime.usm import address_of, part_of, signature
from xegpu.ir.dtypes import DType
from xegpu.support.errors import ElementTypeError
from xetile.compiler.arguments import TypedView
from xetile.frontend.constants import hashable

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


# Launches on arrays that were seen before: what of them can have changed is looked at, and nothing else.


INTEGERS = {int}
"""The types of a grid's counts that need no look at each."""


@dataclass(eq=False, repr=False)
class _Repeat:
    """A launch with its arrays.

    Attributes:
        launch: the built kernel.
        grid: work-groups, as the author gave them.
        road: what asked_road() gave.
        count: arguments.
        arrays: of each the array if it still lives, its shape and strides, whether the kernel writes it, where it
            stands in the template, and the memory that a part of an array begins at (None for a whole one).
        numbers: of each its position, its type, what makes the kernel's argument, and where that stands.
    """

    launch: Launch
    grid: tuple[int, ...]
    road: object
    count: int
    arrays: Sequence[tuple[Callable[[], Any], tuple[int, ...], tuple[int, ...], bool, int, Any]]
    numbers: list[tuple[int, type, Callable[[Any], Any], int]]

    def spelled(self, grid: tuple[Any, ...], held: Sequence[Any], args: Sequence[Any]) -> list[Any] | None:
        """What the kernel gets; None if anything differs: another array in the old one's place, a shape that was set.

        What cannot change while an array lives is not looked at: its memory, its element type, its queue.
        """
        if len(args) != self.count or asked_road() != self.road or \
                (grid is not self.grid and {*map(type, grid)} != INTEGERS):
            return None
        values = self.launch.template.copy()
        for usm, (seen, shape, strides, is_written, place, part) in zip(held, self.arrays, strict=True):
            if usm is not seen() or usm.shape != shape or usm.strides != strides or \
                    (is_written and not usm.flags.writable):
                return None
            values[place] = usm.usm_data if part is None else part
        for position, kind, make, place in self.numbers:
            value = args[position]
            if type(value) is not kind or (kind is int and value not in INT):
                return None
            values[place] = make(value)
        return values


class Repeats:
    """The launches that one place has seen, by the arrays that they had. No array is kept alive.

    What is needed for the next launch is noted when the same arrays come for the second time: many come once.
    """

    def __init__(self) -> None:
        self._arrays: tuple[int, ...] = ()
        self._known: dict[Any, _Repeat | None] = {}

    def fit(self, args: Sequence[Any]) -> bool:
        """Whether :meth:`start` may find arguments, all of them: they are arrays where those were that are known."""
        return bool(self._arrays) and all(hasattr(args[position], "get_array") for position in self._arrays)

    def start(self, grid: Any, args: tuple[Any, ...], constants: Mapping[str, Any]) -> bool:
        """Launch once more what was launched on these arrays; False if that has to be looked up or checked."""
        arrays = self._arrays
        try:
            held = [args[position].get_array() for position in arrays]
            key = (grid, arrays, constants_key(constants), *map(id, held))
            known = self._known.get(key)
        except (AttributeError, IndexError, TypeError, ElementTypeError):
            return False  # arguments of other kinds, or none at all: they are looked at one by one
        if known is None:
            return False
        values = known.spelled(grid, held, args)
        if values is None:
            self._known.pop(key, None)
            return False
        launch = known.launch
        start(launch.queue, launch.kernel, values, launch.global_range, launch.local_range, args)
        return True

    def keep(self, grid: tuple[int, ...], args: tuple[Any, ...], constants: Mapping[str, Any], launch: Launch) -> None:
        """Remember a launch on arrays of dpnp's, and on numbers of 32 bits."""
        arrays = tuple([position for position, value in enumerate(args) if hasattr(value, "get_array")])
        held = [args[position].get_array() for position in arrays]
        key = (grid, arrays, constants_key(constants), *map(id, held))
        if len(self._known) >= MOST:
            self._known.clear()
        self._arrays = arrays
        if key not in self._known:
            self._known[key] = None
            return
        numbers = [(position, type(value), launch.makers[position], launch.places[position])
                   for position, value in enumerate(args) if position not in arrays]
        if any(kind not in (int, float) for _, kind, *_ in numbers):
            return
        seen = [(ref(usm), usm.shape, usm.strides, position in launch.written, launch.places[position], part_of(usm))
                for usm, position in zip(held, arrays, strict=True)]
        self._known[key] = _Repeat(launch, grid, asked_road(), len(args), seen, numbers)


def constants_key(constants: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """The constants of a call as a part of a key."""
    return tuple([(name, hashable(value, name)) for name, value in constants.items()]) if constants else ()
