"""Suggestion of smaller tile sizes for a kernel that spills; each candidate is compiled and checked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from math import inf

from xdsl.dialects import func, gpu, scf
from xdsl.ir import BlockArgument, SSAValue

from xegpu.ir.matchers import number
from xegpu.support.errors import XeError
from xetile.compiler.origin import Origin, Variant
from xetile.dialect.tile_ops import InitTileOp, UpdateTileOffsetOp, tile_of

_SMALLEST = 2  # what halving leaves at least
_BUILDS = 4  # each takes Intel's compiler a second or more
_HALVINGS = 2
_ALONE = 6
"""How often a constant is halved where no two halvings help."""
_HOPELESS = 1.25
"""Where more than this part of all registers is alive at once, no compiler was seen to keep it there."""
_COMFORTABLE = 0.9
"""What takes this part of all registers or less is built first, since it mostly fits."""
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
            return f"{_text(self.constants)} avoids it (built, and looked at)"
        more = "; the time for trying was up, report(remedies=60) takes a minute" if self.cut_off else ""
        if not self.tried:
            return f"lower the tile sizes: no constant of the kernel could be halved to see which{more}"
        return "lower the tile sizes: " + ", ".join(f"{_text(change)} still leaves {size} bytes in memory"
                                                    for change, size in self.tried) + more


def find_remedy(origin: Origin, recorded: func.FuncOp, live: int, room: float = inf, seconds: float = SECONDS
                ) -> Remedy:
    """Smallest change of constants without spills: halved once or twice, or one more often.

    Args:
        origin: the kernel.
        recorded: its function, as recorded.
        live: its own estimate of bytes that are alive.
        room: bytes that there are registers for.
        seconds: after which no other candidate is tried; the first is tried in any case.
    """
    tried: list[tuple[Mapping[str, int], int]] = []
    end = time.monotonic() + seconds
    for halvings in (_pairs, _alone):
        found = []
        for change, variant in _variants(origin, recorded, halvings):
            found.append((variant.live_bytes(), change, variant))
            if time.monotonic() > end:
                break
        most = min(live, room * _HOPELESS)
        smaller = sorted((entry for entry in found if entry[0] < most),
                         key=lambda entry: (entry[0] > room * _COMFORTABLE, -entry[0]))
        for _, change, variant in smaller[:_BUILDS - 1] + smaller[_BUILDS - 1:][-1:]:  # the last is the smallest of all
            if tried and time.monotonic() > end:
                return Remedy(None, tuple(tried), cut_off=True)
            if not (left := variant.in_memory()):
                return Remedy(change, tuple(tried))
            tried.append((change, left))
    return Remedy(None, tuple(tried), cut_off=time.monotonic() > end)


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
    changes = _variants(replace(origin, constants=dict(ordered)), recorded, _pairs)
    return next((change for change, variant in changes if fits(variant)), None)


def _variants(origin: Origin, recorded: func.FuncOp, halvings: Callable[[list[str]], Iterable[tuple[str, ...]]]
              ) -> Iterator[tuple[Mapping[str, int], Variant]]:
    """Candidates that lower, and compute the same in smaller tiles."""
    names = [name for name, value in origin.constants.items()
             if type(value) is int and value > _SMALLEST and value % 4 == 0]
    for chosen in halvings(names):
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
            if old != new and not moves.get(shape, (False, False))[dim] and not _moves(after.offsets[dim - 2]):
                return False
    return True


def _moves(offset: SSAValue) -> bool:
    """Whether an offset differs between work-groups, subgroups or iterations."""
    if isinstance(offset, BlockArgument):
        return isinstance(offset.block.parent_op(), scf.ForOp)
    owner = offset.owner
    if isinstance(owner, (gpu.BlockIdOp, gpu.SubgroupIdOp)):
        return True
    return not isinstance(owner, BlockArgument) and any(map(_moves, getattr(owner, "operands", ())))


def _pairs(names: list[str]) -> Iterator[tuple[str, ...]]:
    """Combinations of at most two halvings of named constants."""
    return (chosen for count in range(1, _HALVINGS + 1) for chosen in combinations_with_replacement(names, count))


def _alone(names: list[str]) -> Iterator[tuple[str, ...]]:
    """More than two halvings of one named constant."""
    return ((name,) * count for name in names for count in range(_HALVINGS + 1, _ALONE + 1))


def _text(change: Mapping[str, int]) -> str:
    """Change of constants as text."""
    return ", ".join(f"{name}={value}" for name, value in change.items())
