"""Stream-K: the sizes for which it is chosen, and the gain that the library's model expects. Nothing here is measured.

Sizes of C in tiles of 256 x 256 that fill a device's cores a little more, and a little less, than a whole number of
times; K = 4096, bf16.
"""

from __future__ import annotations

from benchmarks.rows import Row
from xegpu.ir.dtypes import bf16
from xegpu.target.targets import TARGETS
from xetile.library.tile_heuristics import Plan, choose, plans

_DEPTH = 4096
SIZES = {"pvc": ((2560, 1792), (2560, 2816), (4352, 4096), (4096, 4096)), "bmg": ((1536, 3584), (2304, 2816))}


def predicted() -> list[Row]:
    """A row for each size: clocks of a core of the best plan with tiles that are shared, beside whole tiles only."""
    return [_row(target, *size) for target, sizes in SIZES.items() for size in sizes]


def _row(target: str, rows: int, columns: int) -> Row:
    found = plans(rows, columns, _DEPTH, 1, bf16, TARGETS[target])
    chosen = choose(rows, columns, _DEPTH, 1, bf16, TARGETS[target], sharing=True)
    shared, whole = (min((plan for plan in found if plan.tiling.is_shared is sharing), key=_clocks, default=None)
                     for sharing in (True, False))
    assert whole is not None
    waves = -(-rows // 256) * -(-columns // 256) / TARGETS[target].cores
    name = f"{rows} x {columns} on {target}, {waves:.2f} waves: {'taken' if chosen.shared else 'not taken'}"
    best = shared or whole
    return Row("stream-K, predicted", name, best.clocks / 1000, "1000 clocks", whole.clocks / best.clocks,
               "whole tiles")


def _clocks(plan: Plan) -> float:
    return plan.clocks
