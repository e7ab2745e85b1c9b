"""Benchmarking of several candidates in turns, until the fastest is significant."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from codegen.runtime.progress import Advance, progress_bar

Run = Callable[[int], None]
"""Does something a number of times, and returns when it is done."""

_ROUND_SECONDS = 0.002
"""The least time of one sample: shorter runs are repeated within it."""
_FEWEST, _MOST = 5, 200
_HOPELESS = 1.5
"""A first sample this many times the best one's is enough to drop a candidate."""


@dataclass
class Series:
    """Samples of one candidate, in seconds of one run.

    Attributes:
        run: the candidate.
        samples: seconds of one run, sample by sample.
        repeats: runs of a sample.
        dropped: whether it was stopped early, as it cannot be the fastest.
    """

    run: Run
    samples: list[float] = field(default_factory=list)
    repeats: int = 1
    dropped: bool = False

    @property
    def median(self) -> float:
        """Median in seconds."""
        return statistics.median(self.samples) if self.samples else math.inf

    @property
    def interval(self) -> tuple[float, float]:
        """95 % confidence interval of the median, by order statistics (no shape of noise is assumed)."""
        ordered, count = sorted(self.samples), len(self.samples)
        if count < _FEWEST:
            return 0.0, math.inf
        reach = 0.98 * math.sqrt(count)
        low, high = math.floor(count / 2 - reach), math.ceil(count / 2 + reach)
        return ordered[max(low, 0)], ordered[min(high, count - 1)]


def compare(runs: Sequence[Run], budget: float, *, precision: float = 0.02,
            clock: Callable[[], float] = time.perf_counter, progress: bool = False) -> list[Series]:
    """Time candidates in turns, so that disturbances of the machine affect all of them.

    A candidate is dropped when its interval lies above the best one's, or its first sample is half as slow again. It
    ends when one is left, or the interval of the best is within ``precision`` and nothing else can be told from it
    within the budget.

    Args:
        runs: the candidates, each with everything warm.
        budget: seconds after which no further round is begun; every candidate is sampled once at least.
        precision: half the width of the best one's interval, relative to its median, that is narrow enough.
        clock: gives seconds.
        progress: whether a progress bar is shown.
    """
    with progress_bar("timing", budget, lambda done: f"{done:.0f} of at most {budget:.0f} s",
                      is_wanted=progress) as advance:
        return _compared(runs, budget, precision, clock, advance)


def _compared(runs: Sequence[Run], budget: float, precision: float, clock: Callable[[], float],
              advance: Advance) -> list[Series]:
    series = [Series(run) for run in runs]
    end = clock() + budget
    for one in series:
        one.repeats = _repeats(one, clock)
    best = min(series, key=lambda one: one.median, default=None)
    if best is None:
        return series
    for one in series:
        one.dropped = one.median > _HOPELESS * best.median
    while clock() < end and any(len(one.samples) < _MOST for one in series if not one.dropped):
        alive = [one for one in series if not one.dropped]
        begin = clock()
        for one in alive:
            one.samples.append(_sample(one, clock))
        advance(clock() - begin)
        best = min(alive, key=lambda one: one.median)
        for one in series:  # what was dropped comes back where the best one's first samples were luck
            late = one.dropped and one.median >= best.median
            one.dropped = late or (one is not best and one.interval[0] > best.interval[1])
        if _is_settled([one for one in series if not one.dropped], best, precision):
            break
    return series


def _is_settled(alive: Sequence[Series], best: Series, precision: float) -> bool:
    low, high = best.interval
    narrow = (high - low) / 2 <= precision * best.median
    return narrow and all((one.interval[1] - one.interval[0]) / 2 <= precision * one.median for one in alive)


def _repeats(one: Series, clock: Callable[[], float]) -> int:
    """Runs per sample, from the first sample, which is kept."""
    one.samples.append(_sample(one, clock))
    return max(math.ceil(_ROUND_SECONDS / max(one.samples[0], 1e-9)), 1)


def _sample(one: Series, clock: Callable[[], float]) -> float:
    start = clock()
    one.run(one.repeats)
    return (clock() - start) / one.repeats
