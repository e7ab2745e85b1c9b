"""Suggestion of smaller tile sizes for a kernel that spills; each candidate is compiled and checked."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement, product
from math import inf, prod
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import ShapedType

from xegpu.analysis.register_pressure import live_bytes
from xegpu.passes.grf_mode import fragment_share
from xegpu.support.errors import XeError
from xegpu.target.targets import Target
from xetile.compiler.origin import Origin, Variant
from xetile.compiler.report.coverage import covers_the_same
from xetile.compiler.report.largest_vector import largest_vector
from xetile.dialect.stage import only_function

_SMALLEST = 2  # what halving leaves at least
_BUILDS = 4  # each takes Intel's compiler a second or more
_HALVINGS, _MOST_HALVINGS = 2, 6
"""Most halvings where no compiler is asked; else."""
_AFTER_SPILLS = 0.75
"""The part of a variant that spilled that the next one may have alive."""
_SIZES = 6
"""Sizes between nothing and the limit that are told apart before the halvings are compared."""
_HOPELESS = 1.25
"""Where more than this part of all registers is alive at once, no compiler was seen to keep it there."""
SECONDS = 5.0
"""CPU time for which remedies are looked for, unless the caller has more: no build begins later."""
_LONG = 60.0
"""Seconds that are proposed where the time was up; ten times those that were asked for if these are more."""
_BUSY = 12
"""How many times as long it may take by the clock, on a machine that is busy with other things."""


@dataclass(frozen=True)
class Remedy:
    """Suggested constants, and the candidates that failed.

    Attributes:
        constants: what to change; None if nothing that was tried helps.
        tried: each change that did not help, with the bytes that stay in memory.
        cut_off: whether the time was up before all candidates were looked at.
        advice: what else may help, where none of the constants does.
        too_large: the smallest change that was looked at, where none seemed worth building, with the bytes a lane that
            it has alive by an estimate.
        room: bytes a lane of all registers.
        has_sizes: whether the kernel has a constant that is a tile size and can be halved.
        seconds: of processor time that the search had.
    """

    constants: Mapping[str, int] | None
    tried: tuple[tuple[Mapping[str, int], int], ...] = ()
    cut_off: bool = False
    advice: str = ""
    too_large: tuple[Mapping[str, int], int] | None = None
    room: float = 0.0
    has_sizes: bool = True
    seconds: float = 0.0

    def __str__(self) -> str:
        if self.constants is not None:
            return f"{_assignments(self.constants)} avoids it (built, and looked at)"
        found = [f"{_assignments(change)} still leaves {size} bytes in memory" for change, size in self.tried]
        if self.too_large is not None:
            change, size = self.too_large
            found.append(f"by an estimate {_assignments(change)} still has {size} bytes a lane alive, and all "
                         f"registers have {self.room:.0f}")
        if self.cut_off:
            longer = max(_LONG, 10 * self.seconds)
            more = f"the time for trying was up, report(remedies={longer:.0f}) has {longer:.0f} seconds"
        elif found:
            more = ""
        elif self.has_sizes:
            more = "no constant that is a tile size could be halved so that the kernel still covers its arrays"
        else:
            more = "no constant of the kernel is a tile size that could be halved"
        return "; ".join(each for each in ("lower the tile sizes: " + (", ".join(found) or more),
                                           more if found else "", self.advice) if each)


def find_remedy(origin: Origin, kernel: Variant, target: Target, seconds: float) -> Remedy:
    """Change of constants without spills: tile sizes are halved, until an estimate says that they fit.

    Each constant is halved by itself first. What that saves of the tiles of a subgroup, which are known soon after the
    variant is recorded, foretells what several halvings of several constants leave, so that the largest variants that
    should fit are lowered before all others.

    Args:
        origin: makes the kernel again with other constants.
        kernel: it, as it is.
        target: whose registers there are.
        seconds: of processor time, after which no other candidate is tried; the first is tried in any case. Half of
            it is for estimates.
    """
    search, live = _Search(origin, kernel, seconds), kernel.live_bytes()
    tried: list[tuple[Mapping[str, int], int]] = []
    room = max(target.registers) * target.register_bytes / target.subgroup_size
    share = fragment_share(only_function(kernel.legal))
    limit = room * share
    while len(tried) < _BUILDS:
        if tried and search.elapsed > seconds:
            search.cut_off = True
            break
        found = search.next_variant(limit, min(live, room * _HOPELESS))
        if found is None:
            break
        size, change, variant = found
        if not (left := variant.in_memory()):
            return Remedy(change, tuple(tried))
        tried.append((change, left))
        limit = min(limit, size * _AFTER_SPILLS)
    return Remedy(None, tuple(tried), search.cut_off, largest_vector(kernel.tiles(), target, share),
                  None if tried else search.smallest(), room, search.has_sizes, seconds)


class _Search:
    """Search for variants of a kernel in the order of what they should leave alive.

    Args:
        origin: makes the kernel again with other constants.
        kernel: it, as it is.
        seconds: of processor time, half of which is for estimates; the first is made in any case.

    Attributes:
        cut_off: whether the time was up before all variants were looked at.
        has_sizes: whether a constant is a tile size, as far as was seen.
    """

    def __init__(self, origin: Origin, kernel: Variant, seconds: float) -> None:
        self._origin, self._recorded, self._live = origin, kernel.function, kernel.live_bytes()
        self._start, self._start_by_clock = _processor_time(), time.monotonic()
        self._seconds, self.cut_off, self.has_sizes = seconds, False, False
        self._seen: dict[_Halvings, _Candidate | None] = {}
        self._built: set[_Halvings] = set()
        self._error = 1.0  # of what is foretold, in the last estimate
        self._savings: dict[str, float] = {}
        tiles = _tile_bytes(kernel)
        for name, half in _halves(origin, self._recorded):
            self.has_sizes = True
            if self._savings and self.elapsed > seconds / 4:
                self.cut_off = True
                break
            if (saved := _saving(half, tiles)) > 0:
                self._savings[name] = saved

    @property
    def elapsed(self) -> float:
        """Seconds of processor time since the search began; at least a part of those that have passed."""
        return max(_processor_time() - self._start, (time.monotonic() - self._start_by_clock) / _BUSY)

    def next_variant(self, limit: float, most: float) -> _Candidate | None:
        """The largest variant within a limit that was not given before; else the smallest that is known.

        Args:
            limit: bytes that may be alive.
            most: bytes above which no variant is given.
        """
        for halvings in self._promising(limit):
            is_known = any(found is not None and found[0] < most for found in self._seen.values())
            until = inf if not self._seen or self._built else self._seconds / 2 if is_known else \
                max(self._seconds, SECONDS)
            if self.elapsed > until:
                self.cut_off = True
                break
            self._estimate(halvings)
        known = {halvings: found for halvings, found in self._seen.items()
                 if found is not None and halvings not in self._built and found[0] < most}
        fitting = {halvings: found for halvings, found in known.items() if found[0] <= limit}
        if not known:
            return None
        chosen = max(fitting, key=lambda each: known[each][0]) if fitting else \
            min(known, key=lambda each: known[each][0])
        self._built.add(chosen)
        return known[chosen]

    def smallest(self) -> tuple[Mapping[str, int], int] | None:
        """Constants of the variant with the lowest estimate, and that; None where no variant has one."""
        found = [(change, size) for size, change, _ in filter(None, self._seen.values())]
        return min(found, key=lambda each: each[1], default=None)

    def _promising(self, limit: float) -> Iterator[_Halvings]:
        """Halvings that should fit, the largest first, then the smallest of the others, until one is seen to fit.

        What does not lower, or is another problem, does not with more halvings either.
        """
        while True:
            failed = [dict(halvings) for halvings, found in self._seen.items() if found is None]
            unseen = [(size * self._error, halvings) for size, halvings in self._foretold
                      if halvings not in self._seen and not any(
                          all(dict(halvings).get(name, 0) >= count for name, count in each.items()) for each in failed)]
            if not unseen:
                return
            fitting = [each for each in unseen if each[0] <= limit]
            chosen = max(fitting, key=_preference(limit)) if fitting else min(unseen)
            yield chosen[1]
            found = self._seen.get(chosen[1])
            if found is not None and (found[0] <= limit or not fitting):
                return

    @cached_property
    def _foretold(self) -> list[tuple[float, _Halvings]]:
        """All halvings of the constants that save something, and the bytes that they should leave."""
        counts = [range(min(_MOST_HALVINGS, _times_even(self._origin.constants[name])) + 1) for name in self._savings]
        found = [tuple((name, count) for name, count in zip(self._savings, each, strict=True) if count)
                 for each in product(*counts) if 0 < sum(each) <= _MOST_HALVINGS]
        return [(self._foretell(halvings), halvings) for halvings in found]

    def _foretell(self, halvings: _Halvings) -> float:
        """Bytes that halvings should leave: what each takes off is half of its constant's part."""
        return self._live * prod(1 - self._savings[name] * 2 * (1 - 0.5 ** count) for name, count in halvings)

    def _estimate(self, halvings: _Halvings) -> None:
        self._seen[halvings] = found = _candidate(
            self._origin, self._recorded, {name: self._origin.constants[name] >> count for name, count in halvings})
        if found is not None:
            self._error = found[0] / self._foretell(halvings)


def _saving(half: Variant, tiles: int) -> float:
    """The part of a subgroup's tiles that the halving of a constant saves; 0 where it saves none, or does not lower."""
    try:
        return min(max(1 - _tile_bytes(half) / tiles, 0.0), 0.5)
    except XeError:
        return 0.0


def _tile_bytes(variant: Variant) -> int:
    """Estimated peak of live bytes of a subgroup's tiles, without the passes that take them apart."""
    return live_bytes(variant.tiles(), grouped=False)


def _processor_time() -> float:
    """Seconds of this thread, and of the compilers that the process has run."""
    children = os.times()
    return time.thread_time() + children.children_user + children.children_system


def _preference(limit: float) -> Callable[[tuple[float, _Halvings]], Any]:
    """Order of variants that should fit: larger ones, and of about the same size those with more even halvings."""
    def key(each: tuple[float, _Halvings]) -> Any:
        size, halvings = each
        return int(size / limit * _SIZES), -max(count for _, count in halvings), size

    return key


def _candidate(origin: Origin, recorded: func.FuncOp, change: Mapping[str, int]) -> _Candidate | None:
    """Variant with other constants, and its estimate; None if it does not lower, or computes something else."""
    variant = _variant(origin, recorded, change)
    try:
        return None if variant is None else (variant.live_bytes(), change, variant)
    except XeError:
        return None


def _variant(origin: Origin, recorded: func.FuncOp, change: Mapping[str, int]) -> Variant | None:
    """Variant with other constants, as recorded; None if there is none, or it computes something else."""
    try:
        variant = origin.again(change)
    except Exception:  # the author's Python runs with constants that it was not written for
        return None
    return variant if covers_the_same(recorded, variant.function) else None


_Candidate = tuple[int, Mapping[str, int], Variant]
"""Estimated bytes that are alive, the changed constants, and the kernel with these."""
_Halvings = tuple[tuple[str, int], ...]
"""Constants, and how often each is halved."""


def first_change(origin: Origin, recorded: func.FuncOp, fits: Callable[[Variant], bool]) -> Mapping[str, int] | None:
    """First change of constants, halved once or twice, the largest first, with which a kernel fits.

    Args:
        origin: the kernel.
        recorded: its function, as recorded.
        fits: whether a kernel does, to be told without a compiler.

    Returns:
        the new values; None if nothing helps.
    """
    ordered = sorted(origin.constants.items(), key=lambda entry: -entry[1] if type(entry[1]) is int else 0)
    sorted_origin = replace(origin, constants=dict(ordered))
    return next((change for halvings in range(1, _HALVINGS + 1)
                 for change, variant in _variants(sorted_origin, recorded, halvings) if fits(variant)), None)


def _variants(origin: Origin, recorded: func.FuncOp, halvings: int) -> Iterator[tuple[Mapping[str, int], Variant]]:
    """Candidates that lower, and compute the same in smaller tiles, with so many halvings."""
    names = [name for name in _even_constants(origin) if _is_extent(origin, recorded, name)]
    for chosen in combinations_with_replacement(names, halvings):
        halved = {name: origin.constants[name] >> chosen.count(name) for name in dict.fromkeys(chosen)}
        if all(chosen.count(name) <= _times_even(origin.constants[name]) for name in halved) and \
                (found := _candidate(origin, recorded, halved)) is not None:
            yield found[1:]


def _halves(origin: Origin, recorded: func.FuncOp) -> list[tuple[str, Variant]]:
    """Constants that are tile sizes, and the kernel with half of each; first those that make most elements fewer."""
    found = []
    for name in _even_constants(origin):
        half = _variant(origin, recorded, {name: origin.constants[name] >> 1})
        if half is not None and _extents(half.function) != _extents(recorded):
            found.append((sum(map(prod, _extents(half.function))), name, half))
    return [(name, half) for _, name, half in sorted(found, key=lambda each: each[0])]


def _even_constants(origin: Origin) -> list[str]:
    """Names of the constants that may be halved, at least once."""
    return [name for name, value in origin.constants.items()
            if type(value) is int and value > _SMALLEST and value % 4 == 0]


def _times_even(value: int) -> int:
    """Number of times that a number can be halved and stay a whole number of at least :data:`_SMALLEST`."""
    return min((value & -value).bit_length(), (value // _SMALLEST).bit_length()) - 1


def _is_extent(origin: Origin, recorded: func.FuncOp, name: str) -> bool:
    """Whether a constant determines extents of tiles or vectors, as far as can be told: a number of subgroups, of
    parts or of rows that share a scale does not."""
    try:
        return _extents(origin.again({name: origin.constants[name] // 2}).function) != _extents(recorded)
    except Exception:  # as above
        return True


def _extents(function: func.FuncOp) -> list[tuple[int, ...]]:
    return [result.type.get_shape() for op in function.walk() for result in op.results
            if isinstance(result.type, ShapedType)]


def _assignments(change: Mapping[str, int]) -> str:
    """Change of constants as text."""
    return ", ".join(f"{name}={value}" for name, value in change.items())
