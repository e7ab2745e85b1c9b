"""Suggestion of smaller tile sizes for a kernel that spills; each candidate is compiled and checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from math import inf

from xegpu.support.errors import XeError
from xetile.compiler.origin import Origin, Variant

_SMALLEST = 16  # a constant at or under this is no tile size that is worth halving
_BUILDS = 4  # each takes Intel's compiler a second or more
_HALVINGS = 2
_ALONE = 6
"""How often a constant is halved where no two halvings help."""
_HOPELESS = 1.25
"""Where more than this part of all registers is alive at once, no compiler was seen to keep it there."""


@dataclass(frozen=True)
class Remedy:
    """Suggested constants, and the candidates that failed.

    Attributes:
        constants: what to change; None if nothing that was tried helps.
        tried: each change that did not help, with the bytes that stay in memory.
    """

    constants: Mapping[str, int] | None
    tried: tuple[tuple[Mapping[str, int], int], ...] = ()

    def __str__(self) -> str:
        if self.constants is not None:
            return f"{_text(self.constants)} avoids it (built, and looked at)"
        if not self.tried:
            return "lower the tile sizes: no constant of the kernel could be halved to see which"
        return "lower the tile sizes: " + ", ".join(f"{_text(change)} still leaves {size} bytes in memory"
                                                    for change, size in self.tried)


def find_remedy(origin: Origin, live: int, room: float = inf) -> Remedy:
    """Smallest change of constants without spills: halved once or twice, or one more often.

    Args:
        origin: the kernel.
        live: its own estimate of bytes that are alive.
        room: bytes that there are registers for.
    """
    tried: list[tuple[Mapping[str, int], int]] = []
    for variants in (_variants(origin, _pairs), _variants(origin, _alone)):
        found = [(variant.live_bytes(), change, variant) for change, variant in variants]
        most = min(live, room * _HOPELESS)
        smaller = sorted((entry for entry in found if entry[0] < most), key=lambda entry: -entry[0])
        for _, change, variant in smaller[:_BUILDS - 1] + smaller[_BUILDS - 1:][-1:]:  # the last is the smallest of all
            if not (left := variant.in_memory()):
                return Remedy(change, tuple(tried))
            tried.append((change, left))
    return Remedy(None, tuple(tried))


def first_change(origin: Origin, fits: Callable[[Variant], bool]) -> Mapping[str, int] | None:
    """First change of constants, halved once or twice, the largest first, with which a kernel fits.

    Args:
        origin: the kernel.
        fits: whether a kernel does, to be told without a compiler.

    Returns:
        the new values; None if nothing helps.
    """
    ordered = sorted(origin.constants.items(), key=lambda entry: -entry[1] if type(entry[1]) is int else 0)
    changes = _variants(replace(origin, constants=dict(ordered)), _pairs)
    return next((change for change, variant in changes if fits(variant)), None)


def _variants(origin: Origin, halvings: Callable[[list[str]], Iterable[tuple[str, ...]]]
              ) -> Iterator[tuple[Mapping[str, int], Variant]]:
    """Candidates that lower."""
    names = [name for name, value in origin.constants.items()
             if type(value) is int and value > _SMALLEST and value % 4 == 0]
    for chosen in halvings(names):
        halved = {name: origin.constants[name] >> chosen.count(name) for name in dict.fromkeys(chosen)}
        if min(halved.values()) < _SMALLEST:
            continue
        try:
            variant = origin.again(halved)
            variant.live_bytes()
        except XeError:
            continue
        yield halved, variant


def _pairs(names: list[str]) -> Iterator[tuple[str, ...]]:
    """One of the names, two of them, or one twice."""
    return (chosen for count in range(1, _HALVINGS + 1) for chosen in combinations_with_replacement(names, count))


def _alone(names: list[str]) -> Iterator[tuple[str, ...]]:
    """Each of the names, more often than twice."""
    return ((name,) * count for name in names for count in range(_HALVINGS + 1, _ALONE + 1))


def _text(change: Mapping[str, int]) -> str:
    """Change of constants as text."""
    return ", ".join(f"{name}={value}" for name, value in change.items())
