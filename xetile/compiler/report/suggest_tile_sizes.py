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

from xdsl.dialects import func, gpu, scf
from xdsl.dialects.builtin import ShapedType
from xdsl.ir import BlockArgument, SSAValue

from xegpu.analysis.register_pressure import live_bytes
from xegpu.ir.matchers import number
from xegpu.passes.grf_mode import fragment_share
from xegpu.support.errors import XeError
from xegpu.target.targets import Target
from xetile.compiler.origin import Origin, Variant
from xetile.compiler.report.largest_vector import largest_vector
from xetile.dialect.stage import only_function
from xetile.dialect.tile_ops import InitTileOp, UpdateTileOffsetOp, tile_of

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
"""Processor time for which remedies are looked for, unless the caller has more: no build begins later."""
_BUSY = 4
"""How many times as long it may take by the clock, on a machine that is busy with other things."""


@dataclass(frozen=True)
class Remedy:
    """Suggested constants, and the candidates that failed.

    Attributes:
        constants: what to change; None if nothing that was tried helps.
        tried: each change that did not help, with the bytes that stay in memory.
        cut_off: whether the time was up before all candidates were tried.
        advice: what else may help, where none of the constants does.
    """

    constants: Mapping[str, int] | None
    tried: tuple[tuple[Mapping[str, int], int], ...] = ()
    cut_off: bool = False
    advice: str = ""

    def __str__(self) -> str:
        if self.constants is not None:
            return f"{_assignments(self.constants)} avoids it (built, and looked at)"
        more = "; the time for trying was up, report(remedies=60) takes a minute" if self.cut_off else ""
        more += f"; {self.advice}" if self.advice else ""
        if not self.tried:
            return f"lower the tile sizes: no constant of the kernel could be halved to see which{more}"
        return "lower the tile sizes: " + ", ".join(f"{_assignments(change)} still leaves {size} bytes in memory"
                                                    for change, size in self.tried) + more


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
    search, live = _Search(origin, kernel), kernel.live_bytes()
    tried: list[tuple[Mapping[str, int], int]] = []
    room = max(target.registers) * target.register_bytes / target.subgroup_size
    limit = room * fragment_share(only_function(kernel.legal))
    while len(tried) < _BUILDS and (not tried or search.elapsed <= seconds):
        found = search.next_variant(limit, min(live, room * _HOPELESS), inf if tried else seconds)
        if found is None:
            break
        size, change, variant = found
        if not (left := variant.in_memory()):
            return Remedy(change, tuple(tried))
        tried.append((change, left))
        limit = min(limit, size * _AFTER_SPILLS)
    return Remedy(None, tuple(tried), search.elapsed > seconds, largest_vector(kernel.tiles(), target))


class _Search:
    """Search for variants of a kernel in the order of what they should leave alive.

    Args:
        origin: makes the kernel again with other constants.
        kernel: it, as it is.
    """

    def __init__(self, origin: Origin, kernel: Variant) -> None:
        self._origin, self._recorded, self._live = origin, kernel.function, kernel.live_bytes()
        self._start, self._start_by_clock = _processor_time(), time.monotonic()
        self._seen: dict[_Halvings, _Candidate | None] = {}
        self._built: set[_Halvings] = set()
        self._error = 1.0  # of what is foretold, in the last estimate
        tiles = _tile_bytes(kernel)
        self._savings = {name: saved for name in _extent_constants(origin, self._recorded)
                         if (saved := self._saving(name, tiles))}

    @property
    def elapsed(self) -> float:
        """Seconds of processor time since the search began; at least a part of those that have passed."""
        return max(_processor_time() - self._start, (time.monotonic() - self._start_by_clock) / _BUSY)

    def next_variant(self, limit: float, most: float, seconds: float) -> _Candidate | None:
        """The largest variant within a limit that was not given before; else the smallest that is known.

        Args:
            limit: bytes that may be alive.
            most: bytes above which no variant is given.
            seconds: since the search began, after half of which no other variant is estimated if there is one.
        """
        for halvings in self._promising(limit):
            is_known = any(found is not None and found[0] < most for found in self._seen.values())
            if self.elapsed > (seconds / 2 if is_known else max(seconds, SECONDS)):
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
        counts = [range(min(_MOST_HALVINGS, (self._origin.constants[name] // _SMALLEST).bit_length() - 1) + 1)
                  for name in self._savings]
        found = [tuple((name, count) for name, count in zip(self._savings, each, strict=True) if count)
                 for each in product(*counts) if 0 < sum(each) <= _MOST_HALVINGS]
        return [(self._foretell(halvings), halvings) for halvings in found]

    def _foretell(self, halvings: _Halvings) -> float:
        """Bytes that halvings should leave: what each takes off is half of its constant's part."""
        return self._live * prod(1 - self._savings[name] * 2 * (1 - 0.5 ** count) for name, count in halvings)

    def _saving(self, name: str, tiles: int) -> float:
        """The part of a subgroup's tiles that a constant's halving saves; 0 where it saves none, or is no variant."""
        variant = _variant(self._origin, self._recorded, {name: self._origin.constants[name] >> 1})
        try:
            return 0.0 if variant is None else min(max(1 - _tile_bytes(variant) / tiles, 0.0), 0.5)
        except XeError:
            return 0.0

    def _estimate(self, halvings: _Halvings) -> None:
        self._seen[halvings] = found = _candidate(
            self._origin, self._recorded, {name: self._origin.constants[name] >> count for name, count in halvings})
        if found is not None:
            self._error = found[0] / self._foretell(halvings)


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
        return variant if _same_problem(recorded, variant.function) else None
    except XeError:
        return None


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
    for chosen in combinations_with_replacement(_extent_constants(origin, recorded), halvings):
        halved = {name: origin.constants[name] >> chosen.count(name) for name in dict.fromkeys(chosen)}
        if min(halved.values()) >= _SMALLEST and (found := _candidate(origin, recorded, halved)) is not None:
            yield found[1:]


def _extent_constants(origin: Origin, recorded: func.FuncOp) -> list[str]:
    """Names of the constants that may be tile sizes, and can be halved."""
    return [name for name, value in origin.constants.items()
            if type(value) is int and value > _SMALLEST and value % 4 == 0 and _is_extent(origin, recorded, name)]


def _is_extent(origin: Origin, recorded: func.FuncOp, name: str) -> bool:
    """Whether a constant determines extents of tiles or vectors, as far as can be told: a number of subgroups, of
    parts or of rows that share a scale does not."""
    try:
        return _extents(origin.again({name: origin.constants[name] // 2}).function) != _extents(recorded)
    except XeError:
        return True


def _extents(function: func.FuncOp) -> list[tuple[int, ...]]:
    return [result.type.get_shape() for op in function.walk() for result in op.results
            if isinstance(result.type, ShapedType)]


def _same_problem(recorded: func.FuncOp, changed: func.FuncOp) -> bool:
    """Whether smaller tiles still cover the arrays: a tile that does not move along a dimension covers all of it.

    A head size, or the length of a row that is normalised, is an extent of the problem and no tile size.
    """
    pairs = list(zip(*([op for op in function.walk() if isinstance(op, InitTileOp)]
                       for function in (recorded, changed)), strict=False))
    moves = {tuple(tile_of(op.tile).shape): [number(offset) != 0 for offset in op.offsets]
             for op in changed.walk() if isinstance(op, UpdateTileOffsetOp) and len(op.offsets) == 2}
    for before, after in pairs:
        if len(after.offsets) < 2:  # a tile of single elements
            continue
        shape = tuple(tile_of(after.result).shape)
        for dim, (old, new) in enumerate(zip(tile_of(before.result).shape, shape, strict=True)):
            if old != new and not moves.get(shape, (False, False))[dim] and not _varies(after.offsets[dim - 2]):
                return False
    return True


def _varies(offset: SSAValue) -> bool:
    """Whether an offset differs between work-groups, subgroups or iterations."""
    if isinstance(offset, BlockArgument):
        return isinstance(offset.block.parent_op(), scf.ForOp)
    owner = offset.owner
    if isinstance(owner, (gpu.BlockIdOp, gpu.SubgroupIdOp)):
        return True
    return not isinstance(owner, BlockArgument) and any(map(_varies, getattr(owner, "operands", ())))


def _assignments(change: Mapping[str, int]) -> str:
    """Change of constants as text."""
    return ", ".join(f"{name}={value}" for name, value in change.items())
