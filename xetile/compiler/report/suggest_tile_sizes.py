"""Suggestion of smaller tile sizes for a kernel that spills; each candidate is compiled and checked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from math import inf

from xdsl.dialects import func, gpu, scf
from xdsl.dialects.builtin import ShapedType
from xdsl.ir import BlockArgument, SSAValue

from xegpu.ir.matchers import number
from xegpu.support.errors import XeError
from xetile.compiler.origin import Origin, Variant
from xetile.dialect.tile_ops import InitTileOp, UpdateTileOffsetOp, tile_of

_SMALLEST = 2  # what halving leaves at least
_BUILDS = 4  # each takes Intel's compiler a second or more
_HALVINGS, _TOGETHER, _ALONE = 2, 4, 6
"""Halvings of which all are looked at before anything is built; most of several constants; most of one."""
_HOPELESS = 1.25
"""Where more than this part of all registers is alive at once, no compiler was seen to keep it there."""
SECONDS = 5.0
"""How long remedies are looked for, unless the caller has more time: no build begins later."""


@dataclass(frozen=True)
class Remedy:
    """Suggested constants, and the candidates that failed.

    Attributes:
        constants: what to change; None if nothing that was tried helps.
        tried: each change that did not help, with the bytes that stay in memory.
        cut_off: whether the time was up before all candidates were tried.
    """

    constants: Mapping[str, int] | None
    tried: tuple[tuple[Mapping[str, int], int], ...] = ()
    cut_off: bool = False

    def __str__(self) -> str:
        if self.constants is not None:
            return f"{_assignments(self.constants)} avoids it (built, and looked at)"
        more = "; the time for trying was up, report(remedies=60) takes a minute" if self.cut_off else ""
        if not self.tried:
            return f"lower the tile sizes: no constant of the kernel could be halved to see which{more}"
        return "lower the tile sizes: " + ", ".join(f"{_assignments(change)} still leaves {size} bytes in memory"
                                                    for change, size in self.tried) + more


def find_remedy(origin: Origin, recorded: func.FuncOp, live: int, room: float = inf, share: float = 1.0,
                seconds: float = SECONDS) -> Remedy:
    """Smallest change of constants without spills: tile sizes are halved, until an estimate says that they fit.

    Args:
        origin: the kernel.
        recorded: its function, as recorded.
        live: its own estimate of bytes that are alive.
        room: bytes that there are registers for.
        share: the part of them within which kernels mostly fit.
        seconds: after which no other candidate is tried; the first is tried in any case. Half of it is for estimates.
    """
    tried: list[tuple[Mapping[str, int], int]] = []
    candidates: list[_Candidate] = []
    start = time.monotonic()
    for halvings in range(1, _ALONE + 1):
        for change, variant in _variants(origin, recorded, halvings):
            if (size := variant.live_bytes()) < min(live, room * _HOPELESS):
                candidates.append((size, change, variant))
            if candidates and time.monotonic() > start + seconds / 2:
                break
        is_last = halvings == _ALONE or (bool(candidates) and time.monotonic() > start + seconds / 2)
        if halvings < _HALVINGS and not is_last:
            continue
        chosen = sorted((each for each in candidates if each[0] <= room * share), key=lambda each: -each[0])
        if is_last and not chosen:
            chosen = sorted(candidates, key=lambda each: each[0])
        for _, change, variant in (*chosen[:_BUILDS - 1], *chosen[_BUILDS - 1:][-1:])[:_BUILDS - len(tried)]:
            if tried and time.monotonic() > start + seconds:
                return Remedy(None, tuple(tried), cut_off=True)
            if not (left := variant.in_memory()):
                return Remedy(change, tuple(tried))
            tried.append((change, left))
        candidates = [each for each in candidates if each not in chosen]
        if is_last or len(tried) == _BUILDS:
            break
    return Remedy(None, tuple(tried), cut_off=time.monotonic() > start + seconds)


_Candidate = tuple[int, Mapping[str, int], Variant]
"""Estimated bytes that are alive, the changed constants, and the kernel with these."""


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
    names = [name for name, value in origin.constants.items()
             if type(value) is int and value > _SMALLEST and value % 4 == 0 and _is_extent(origin, recorded, name)]
    several = combinations_with_replacement(names, halvings) if halvings <= _TOGETHER else \
        ((name,) * halvings for name in names)
    for chosen in several:
        halved = {name: origin.constants[name] >> chosen.count(name) for name in dict.fromkeys(chosen)}
        if min(halved.values()) < _SMALLEST:
            continue
        try:
            variant = origin.again(halved)
            if not _same_problem(recorded, variant.function):
                continue
            variant.live_bytes()
        except XeError:
            continue
        yield halved, variant


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
