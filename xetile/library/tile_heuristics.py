"""Tile-size selection: a table of tilings that fit each kind of device, and a cost model that chooses."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xegpu.ir.dtypes import DType, bf16, f32
from xegpu.target.targets import Target

_SUBGROUPS_A_CORE = 32
_LEAST_STEPS_A_PART = 8
_MOST_PARTS = 32

_STEP_BYTES = 64
"""Bytes of a row of A in a K step."""
_VECTOR_CLOCKS = 1 / 8
"""Clocks of a core's vector engines for one element of a tile and one step."""
LAUNCH_CLOCKS = 8192
"""Clocks for another launch, such as the one that adds up what several work-groups have of a tile: some
microseconds."""
DOUBT = 1.03
"""Least gain of sharing, or of a copy: less than this is within the model's errors."""
_LONELY = 4
"""A work-group alone on a core that could hold many is faster than in their company by no more than this."""
_L2_BYTES = 32
"""Bytes a clock that a core moves to or from L2, where these sums lie."""


@dataclass(frozen=True)
class Tiling:
    """Tile sizes of a product.

    Attributes:
        rows, columns: of the tile of C that a work-group makes.
        layout: subgroups of a work-group along rows and columns.
        rate: the share of the matrix engine's peak that full tiles reach, for choosing only.
        depth: K step.
        ahead: K steps that prefetches run ahead, 0 for none.
        parts: work-groups that share one tile of C, each with its part of K (split-K).
        shared: tiles, the first ones, whose steps along K are shared evenly (stream-K).
        sharers: the work-groups that share them.
    """

    rows: int
    columns: int
    layout: tuple[int, int]
    rate: float
    depth: int = 32
    ahead: int = 0
    parts: int = 1
    shared: int = 0
    sharers: int = 0

    @property
    def is_shared(self) -> bool:
        """Whether several work-groups share a tile."""
        return self.parts > 1 or self.shared > 0

    @property
    def constants(self) -> dict[str, object]:
        """Constants of the kernel ``product``."""
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

ROW_SHARES = (Tiling(256, 128, (8, 4), 0.85), Tiling(128, 128, (4, 4), 0.75), *NO_BLOCK_IO[1:])
"""For subgroups of 8 whose work-group loads both operands in shares (``cooperative-loads``): row-major ones that the
matrix engine takes as they are. A subgroup's 32 x 32 are half of all registers, as in Intel's own kernels."""

CPU = (
    Tiling(128, 128, (4, 2), 0.95), Tiling(64, 128, (2, 2), 0.92), Tiling(32, 128, (1, 2), 0.88),
    Tiling(128, 32, (4, 1), 0.80), Tiling(16, 128, (1, 2), 0.78), Tiling(8, 256, (1, 4), 0.45),
    Tiling(4, 256, (1, 2), 0.25), Tiling(1, 512, (1, 1), 0.10),
)
"""For CPUs: the rows of a subgroup share a copy of B. For up to four B is read as it is, in long rows. The driver
assigns work-groups in lumps, so that they are small: 24 groups of 256 x 256 on two cores went at two thirds of the
rate. A subgroup of 64 x 64 gains some percent more, and takes twice as long to compile, unless its product is only
stored (:func:`with_one_subgroup`)."""


def tilings(a: DType, b: DType, engine: DType, target: Target, *, by_rows: bool = False) -> Sequence[Tiling]:
    """Tilings of a product of two operands, the largest first.

    Where registers are 32 bytes long, the largest has no room for both operands as they are loaded and as they are
    multiplied.

    Args:
        a, b: element types of the operands.
        engine: the element type that they are multiplied as.
        target: the device that code is generated for.
        by_rows: whether both operands are stored by rows.
    """
    if target.fuses_loads or target.block_io:
        return CPU if target.fuses_loads else BLOCK_IO
    if by_rows and a is b is engine and target.mma_shape(a, b).engine == "dpas":
        return ROW_SHARES
    return NO_BLOCK_IO[1:] if engine.is_float and engine not in (a, b) else NO_BLOCK_IO


def with_one_subgroup(tiling: Tiling, rows: int, dtype: DType) -> Tiling:
    """Tiling for work-groups of one subgroup each.

    A micro-kernel that stores its sums by itself takes no longer to compile for a larger tile, packs B less often, and
    reads A from the memory behind L2 once: 128 x 128 instead of 32 x 64 gain 10 % in f32. 256 x 64 pack B half as often
    again, and gain 1 to 2 % more where A is multiplied as it lies in memory; a copy of it would be made twice as often.

    Args:
        tiling: the work-groups.
        rows: M of the product.
        dtype: element type of both operands.
    """
    if (tiling.rows, tiling.columns) == (128, 128) and rows > 128 and dtype in (f32, bf16):
        tiling = replace(tiling, rows=256, columns=64)
    return replace(tiling, layout=(1, 1))


def choose(rows: int, columns: int, depth: int, batch: int, dtype: DType, target: Target,
           among: Sequence[Tiling] = (), *, sharing: bool = False) -> Tiling:
    """Tiling with the least predicted time.

    Args:
        rows, columns, depth: M, N and K of one product.
        batch: how many products.
        dtype: the element type that the matrix engine reads.
        target: the device that code is generated for.
        among: other tilings than those of :func:`xetile.matmul`.
        sharing: whether work-groups may share tiles.
    """
    return choose_plan(rows, columns, depth, batch, dtype, target, among, sharing=sharing).tiling


def choose_plan(rows: int, columns: int, depth: int, batch: int, dtype: DType, target: Target,
                among: Sequence[Tiling] = (), *, sharing: bool = False) -> Plan:
    """Plan with the least predicted time; arguments as for :func:`choose`."""
    found = plans(rows, columns, depth, batch, dtype, target, among, sharing=sharing)
    return min(found, key=lambda plan: plan.clocks * plan.doubt)


def choose_for_all(sizes: Sequence[tuple[int, int, int]], dtype: DType, target: Target) -> Tiling:
    """Tiling with the least total predicted time for products of different sizes, M, N and K each."""
    found = []
    for case, steps in _cases(sizes, dtype, target):
        at_once = case.cores * case.resident
        counts = [math.prod(case.tiling.groups(m, n)) for m, n, _ in sizes]
        work = sum(count * each for count, each in zip(counts, steps, strict=True))
        found.append(case.plan(case.tiling, sum(counts), max(-(-work // at_once), *steps), 0))
    best = min(found, key=lambda plan: plan.clocks).tiling
    return _prefetching(best, sum(depth for *_, depth in sizes) // len(sizes), target)


def _prefetching(tiling: Tiling, depth: int, target: Target) -> Tiling:
    prefetches = target.block_io and depth > 4 * tiling.depth and tiling.rows * tiling.columns >= 128 * 128
    return replace(tiling, ahead=3) if prefetches else tiling


@dataclass(frozen=True)
class Plan:
    """Execution plan of a product: tiling, split-K parts or stream-K groups.

    Attributes:
        tiling: the tiles, and how they are shared.
        groups: work-groups.
        clocks: predicted, of a core.
        step_clocks: clocks of a core for one step along K of a tile, those of arithmetic.
    """

    tiling: Tiling
    groups: int
    clocks: float
    step_clocks: float

    @property
    def doubt(self) -> float:
        """Factor of the time with which it is compared with others."""
        return DOUBT if self.tiling.is_shared else 1


def plans(rows: int, columns: int, depth: int, batch: int, dtype: DType, target: Target,
          among: Sequence[Tiling] = (), *, sharing: bool = True) -> list[Plan]:
    """Candidates of :func:`choose`: each tiling with full tiles, with split-K, and with stream-K.

    A wave of whole tiles takes as long as a full one, however few they are; shared ones cost a second launch, which
    adds up sums that go through L2.
    """
    found = []
    for case, _ in _cases([(rows, columns, depth)], dtype, target, among, batch):
        found += [case.data_parallel(), *(case.shared() if sharing and not target.fuses_loads else ())]
    return [replace(plan, tiling=_prefetching(plan.tiling, depth, target)) for plan in found]


def _cases(sizes: Sequence[tuple[int, int, int]], dtype: DType, target: Target, among: Sequence[Tiling] = (),
           batch: int = 1) -> Iterator[tuple[_Case, list[int]]]:
    """First product of each tile size, with the steps along K of all products of that size."""
    table = among or (CPU if target.fuses_loads else BLOCK_IO if target.block_io else NO_BLOCK_IO)
    step = max(_STEP_BYTES * 8 // dtype.bits, 16)
    steps = [max(-(-depth // step), 1) for *_, depth in sizes]
    vector = target.mma_shape(dtype, dtype).engine == "vector"
    clocks = _VECTOR_CLOCKS if vector else target.clocks_per_element
    for tiling in table:
        tiles = math.prod(tiling.groups(*sizes[0][:2])) * batch
        yield _Case(tiling if target.fuses_loads else replace(tiling, depth=step), target.cores, tiles,
                    steps[0], clocks, target.fuses_loads), steps


@dataclass(frozen=True)
class _Case:
    """Product with one tile size: number of tiles, steps along K, cost of a step."""

    tiling: Tiling
    cores: int
    tiles: int
    steps: int
    clocks: float
    is_processor: bool

    @property
    def resident(self) -> int:
        """Concurrent work-groups on a core; 1 on a CPU."""
        return 1 if self.is_processor else max(_SUBGROUPS_A_CORE // math.prod(self.tiling.layout), 1)

    def plan(self, tiling: Tiling, groups: int, steps: int, sums: int) -> Plan:
        """Plan in which ``groups`` work-groups take as long as ``steps`` one after another, and write ``sums`` partial
        sums."""
        elements = tiling.rows * tiling.columns
        busy = max(min(-(-groups // self.cores), self.resident), self.resident / _LONELY)
        step = elements / tiling.rate * self.clocks
        computing = busy * step * steps
        adding = LAUNCH_CLOCKS + sums * elements * 4 * 2 / (self.cores * _L2_BYTES) if sums else 0
        return Plan(tiling, groups, computing + adding, step)

    def data_parallel(self) -> Plan:
        """Plan with one work-group per tile."""
        waves = -(-self.tiles // (self.cores * self.resident))
        return self.plan(self.tiling, self.tiles, max(waves, 1) * self.steps, 0)

    def shared(self) -> Iterator[Plan]:
        """Plans with several work-groups per tile, if there are enough steps: split-K and stream-K."""
        at_once = self.cores * self.resident
        parts = min(at_once // max(self.tiles, 1), self.steps // _LEAST_STEPS_A_PART, _MOST_PARTS)
        if parts > 1:
            tiling, groups = replace(self.tiling, parts=parts), self.tiles * parts
            yield self.plan(tiling, groups, -(-self.steps // parts), groups)
        full, shared = divmod(self.tiles, at_once)
        sharers = min(at_once, shared * self.steps // _LEAST_STEPS_A_PART)
        if sharers > shared:
            tiling, steps = replace(self.tiling, shared=shared, sharers=sharers), -(-shared * self.steps // sharers)
            yield self.plan(tiling, full * at_once + sharers, full * self.steps + steps, sharers + shared)
