"""Launches on arrays that were seen before: what of them can have changed is looked at, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import ref

from codegen.runtime.devices import asked_road
from codegen.runtime.launcher import start
from codegen.runtime.usm import part_of
from xegpu.support.errors import ElementTypeError
from xetile.constants import hashable
from xetile.launches import INT, MOST, Launch

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
