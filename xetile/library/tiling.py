"""Which tiles a product takes: a table of those that fit each kind of device, and a model that chooses among them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from xegpu.dtypes import DType
from xegpu.targets import Target

CORES = {"pvc": 64, "bmg": 20, "lnl": 8, "ptl": 12, "cri": 32, "dg2": 32, "arl": 8, "cpu": 2}
"""Xe cores of the largest usual device of a target: how many work-groups of 32 subgroups run at once."""

_SUBGROUPS_A_CORE = 32
_LEAST_STEPS_A_PART = 8
_MOST_PARTS = 32


@dataclass(frozen=True)
class Tiling:
    """How a product is cut.

    Attributes:
        rows, columns: of the tile of C that a work-group makes.
        layout: subgroups of a work-group along rows and columns.
        rate: the share of the matrix engine's peak that full tiles reach, for choosing only.
        depth: K step.
        ahead: K steps that prefetches run ahead, 0 for none.
        parts: work-groups that share one tile of C, each with its part of K.
    """

    rows: int
    columns: int
    layout: tuple[int, int]
    rate: float
    depth: int = 32
    ahead: int = 0
    parts: int = 1

    @property
    def constants(self) -> dict[str, object]:
        """The tile's constants for the kernel ``product``."""
        return {"BM": self.rows, "BN": self.columns, "BK": self.depth, "sg": self.layout}

    def groups(self, rows: int, columns: int) -> tuple[int, int]:
        """Work-groups along the rows and columns of C."""
        return -(-rows // self.rows), -(-columns // self.columns)


BLOCK_IO = (
    Tiling(256, 256, (8, 4), 0.90), Tiling(128, 256, (8, 4), 0.80), Tiling(256, 128, (8, 4), 0.80),
    Tiling(128, 128, (8, 4), 0.70), Tiling(64, 128, (4, 4), 0.55), Tiling(32, 128, (2, 4), 0.40),
    Tiling(32, 64, (2, 4), 0.30), Tiling(16, 128, (1, 4), 0.30), Tiling(8, 256, (1, 8), 0.20),
    Tiling(8, 128, (1, 4), 0.18),
)
"""For subgroups of 16 with 2D block IO: Intel's own kernels use such tiles (hardware.md), the last for decoding."""

NO_BLOCK_IO = (
    Tiling(128, 128, (8, 4), 0.60), Tiling(64, 64, (4, 4), 0.45), Tiling(32, 64, (2, 4), 0.35),
    Tiling(16, 64, (1, 4), 0.25), Tiling(8, 64, (1, 4), 0.15),
)
"""For subgroups of 8, whose registers hold a quarter."""

PROCESSOR = (
    Tiling(256, 256, (8, 4), 0.90), Tiling(64, 256, (2, 4), 0.85), Tiling(32, 128, (1, 2), 0.80),
    Tiling(128, 32, (4, 1), 0.60), Tiling(16, 128, (1, 2), 0.60), Tiling(8, 128, (1, 2), 0.40),
    Tiling(4, 256, (1, 2), 0.25), Tiling(1, 256, (1, 1), 0.10),
)
"""For CPUs: the rows of a subgroup share a copy of B, and one row is best read where it is."""


def choose(rows: int, columns: int, depth: int, batch: int, dtype: DType, target: Target,
           among: Sequence[Tiling] = ()) -> Tiling:
    """The tiling with the least predicted time.

    Args:
        rows, columns, depth: M, N and K of one product.
        batch: how many products.
        dtype: the element type that the matrix engine reads.
        target: the device that code is made for.
        among: other tilings than those of :func:`xetile.matmul`.
    """
    table = among or (PROCESSOR if target.loads_operands else BLOCK_IO if target.block_io else NO_BLOCK_IO)
    best = min(table, key=lambda tiling: _time(tiling, rows, columns, batch, target))
    if target.loads_operands:
        return best
    step = max(512 // dtype.bits, 16)  # 64 bytes of a row of A
    best = replace(best, depth=step, parts=_parts(best, rows, columns, depth // step, batch, target))
    prefetches = target.block_io and depth > 4 * step and best.rows * best.columns >= 128 * 128
    return replace(best, ahead=3) if prefetches else best


def _at_once(tiling: Tiling, target: Target) -> int:
    return CORES.get(target.name, 16) * max(_SUBGROUPS_A_CORE // math.prod(tiling.layout), 1)


def _time(tiling: Tiling, rows: int, columns: int, batch: int, target: Target) -> float:
    """Waves of work-groups, times what one costs: elements of its tile over the rate at which it makes them."""
    groups = math.prod(tiling.groups(rows, columns)) * batch
    resident = max(_SUBGROUPS_A_CORE // math.prod(tiling.layout), 1)
    waves = max(groups / _at_once(tiling, target), 1.0)
    return math.ceil(waves) * resident * tiling.rows * tiling.columns / tiling.rate


def _parts(tiling: Tiling, rows: int, columns: int, steps: int, batch: int, target: Target) -> int:
    """Parts of K that keep the device busy where there are too few tiles, each of eight steps at least."""
    groups = math.prod(tiling.groups(rows, columns)) * batch
    free = _at_once(tiling, target) // max(groups, 1)
    return max(min(free, steps // _LEAST_STEPS_A_PART, _MOST_PARTS), 1)
