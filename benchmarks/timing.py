"""Times of several things in one run, taken in turn, so that what disturbs the machine disturbs all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median

Times = Mapping[str, list[float]]


PAUSE = 0.1
"""Seconds after which the threads of a library that has just run wait without turning: OpenBLAS's take 30 to 60 ms."""


def interleaved(runs: Mapping[str, Callable[[], object]], rounds: int, pause: float = 0.0) -> Times:
    """Seconds of each run, ``rounds`` times in turn, after one of each that is not counted; before each a pause."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(rounds):
        for name, run in runs.items():
            time.sleep(pause)
            started = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - started)
    return times


def ratios(times: Times, ours: str, theirs: str) -> tuple[float, tuple[float, float]]:
    """How often ours runs while theirs runs once: the median over the rounds, and the extremes."""
    found = [other / own for own, other in zip(times[ours], times[theirs], strict=True)]
    return median(found), (min(found), max(found))
