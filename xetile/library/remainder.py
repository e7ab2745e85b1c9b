"""Remainder of a product's last tiles: a whole number of tiles, and narrow products of what is left over beside them.

    2048 x 2049 of C, tiles of 256 x 256        8 x 8 whole tiles    C[:, :2048] = A @ B[:, :2048]
                                                a column beside them C[:, 2048:] = A @ B[:, 2048:]

One column more than whole tiles takes a column of tiles more, and where the whole ones fill a device's work-groups, a
wave more, which takes as long as the one before. Sharing the steps of those (:mod:`xetile.library.streamk`) costs a
launch, as a remainder does, but operands of odd pitch have to be copied for it, which costs two. So the remainder is
launched by itself where the model says that all launches together take less time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from codegen.toolchain.logger import LOGGER
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.target.targets import Target
from xetile.library.array_operands import Operand
from xetile.library.padding import Memory, fastest
from xetile.library.tile_heuristics import DOUBT, LAUNCH_CLOCKS, plans

_TILES = (256, 128)
"""Rows and columns of tiles that fill a device; what remains of smaller ones costs less than a launch."""
_NARROW = 32
"""Most rows or columns of a remainder."""
_LEAST_CLOCKS = 4 * LAUNCH_CLOCKS
"""Clocks of a core below which no remainder pays for its launch, and for that of a copy of its operand."""


@dataclass(frozen=True)
class Part:
    """Rows and columns of C that one product makes."""

    rows: slice
    columns: slice

    def of(self, a: Operand, b: Operand, c: Operand, bias: Operand | None) -> \
            tuple[Operand, Operand, Operand, Operand | None]:
        """Views of the operands, of the result and of the bias that this part takes."""
        return (_cut(a, self.rows, slice(None)), _cut(b, slice(None), self.columns), _cut(c, self.rows, self.columns),
                bias and _cut(bias, *(part if size > 1 else slice(None) for part, size in
                                      zip((self.rows, self.columns), bias.shape[-2:], strict=True))))


ALL: tuple[Part, ...] = (Part(slice(None), slice(None)),)
"""All of C at once."""


def _cut(operand: Operand, rows: slice, columns: slice) -> Operand:
    return operand if rows == columns == slice(None) else replace(operand, array=operand.array[..., rows, columns])


def parts(a: Operand, b: Operand, c: Operand, engine: DType, target: Target, *, added: bool) -> tuple[Part, ...]:
    """Parts of a product that take the least time by the model, each a launch: all of it, or whole tiles first.

    Args:
        a, b, c: the operands and the result.
        engine: the element type that is multiplied.
        target: the device that code is generated for.
        added: whether old values of C are added.
    """
    if target.fuses_loads or not any(_cuts(size) for size in c.shape[-2:]):
        return ALL
    return divided(Memory.of(a), Memory.of(b), Memory.of(c), engine, target, added)


def _cuts(size: int) -> list[int]:
    """Positions where rows or columns may be cut: behind whole tiles, if little remains."""
    return sorted({size - size % tile for tile in _TILES if 0 < size % tile <= _NARROW and size > tile})


@lru_cache(maxsize=256)
def divided(a: Memory, b: Memory, c: Memory, engine: DType, target: Target, added: bool) -> tuple[Part, ...]:
    """:func:`parts`, once for arrays of the same sizes and alignments."""
    rows, columns = c.shape[-2:]

    def clocks(part: Part) -> float:
        piece = c.cut(part.rows, part.columns)
        found = plans(piece.shape[-2], piece.shape[-1], a.shape[-1], math.prod(c.shape[:-2]),
                      engine if engine.is_float else dtypes.i8, target)
        return fastest(a.cut(part.rows, slice(None)), b.cut(slice(None), part.columns), piece, found, engine, target,
                       added=added)[1].clocks

    at_once = clocks(*ALL)
    if at_once < _LEAST_CLOCKS:
        return ALL
    best, least = ALL, at_once
    for row, column in itertools.product((rows, *_cuts(rows)), (columns, *_cuts(columns))):
        split = tuple(_split(row, column, rows, columns))
        if len(split) > 1:
            taken = (sum(map(clocks, split)) + LAUNCH_CLOCKS * (len(split) - 1)) * DOUBT
            best, least = (split, taken) if taken < least else (best, least)
    if len(best) > 1:
        LOGGER.info("the product of %d x %d is launched in parts, %s: %.0f clocks of a core by the model, at once %.0f",
                    rows, columns, ", ".join(" x ".join(map(str, c.cut(part.rows, part.columns).shape[-2:]))
                                             for part in best), least, at_once)
    return best


def _split(row: int, column: int, rows: int, columns: int) -> Iterator[Part]:
    """Parts of C: up to a row and a column, what is right of that, and what is below all of it."""
    yield Part(slice(0, row), slice(0, column))
    if column < columns:
        yield Part(slice(0, row), slice(column, columns))
    if row < rows:
        yield Part(slice(row, rows), slice(0, columns))
