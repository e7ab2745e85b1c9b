"""The grid of a launch: one to three counts of work-groups."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from xegpu.support.errors import Note, ShapeError
from xetile.frontend.ssa_value import Value

Grid = tuple[int, int, int]
"""Work-groups along each of the three dimensions."""

_MAX_GROUPS = 2**31 - 1
"""Group ids are values of the C type ``int``."""


def normalize_grid(grid: Any, kernel: str, notes: list[Note]) -> Grid:
    """Work-groups along each of the three dimensions.

    Args:
        grid: an integer, or one to three of them.
        kernel: the kernel's name, for messages.
        notes: the definition of the grid function.

    Raises:
        ShapeError: it is something else, or a count is negative or too large.
    """
    counts = grid if isinstance(grid, (tuple, list)) else (grid,)
    if not 1 <= len(counts) <= 3 or not all(_is_count(count) for count in counts):
        raise ShapeError("XT1021", f"a grid is one to three integers from 0 to {_MAX_GROUPS}, not {grid!r}",
                         _hint_for_grid(counts, kernel), notes=notes)
    x, y, z = (*(int(count) for count in counts), 1, 1)[:3]
    return x, y, z


def _is_count(count: Any) -> bool:
    return isinstance(count, SupportsIndex) and not isinstance(count, (bool, Value, np.ndarray)) \
        and 0 <= operator.index(count) <= _MAX_GROUPS


def _hint_for_grid(counts: Sequence[Any], kernel: str) -> str:
    if len(counts) > 3:
        return f"fold two dimensions into one, as in {kernel}[a, b, c * d](...): they are xt.group_id(2) // d and % d"
    if any(isinstance(count, (float, np.floating)) for count in counts):
        return f"divide with //, as in {kernel}[M // BM, N // BN](...); to round up, -(-M // BM)"
    return f"for example {kernel}[M // BM, N // BN](...); to round up, -(-M // BM)"
