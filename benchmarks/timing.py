"""Times of several things in one run, taken in turn, so that what disturbs the machine disturbs all of them."""

from __future__ import annotations

import importlib.util
import math
import os
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

Times = Mapping[str, list[float]]


PAUSE = 0.1
"""Seconds after which the threads of a library that has just run wait without turning: OpenBLAS's take 30 to 60 ms."""


TURN = 0.03
"""Seconds that a turn lasts at least, where what runs takes less: threads that slept take up to 2 ms to be there."""


def interleaved(runs: Mapping[str, Callable[[], object]], rounds: int, pause: float = 0.0,
                turn: float = 0.0, clock: Callable[[], float] = time.perf_counter) -> Times:
    """Seconds of a run of each, ``rounds`` times in turn, after one of each that is not counted.

    Args:
        runs: what runs, by name.
        rounds: turns of each.
        pause: seconds before each turn.
        turn: seconds that a turn lasts at least: what takes less runs several times, and the time is that of one.
        clock: gives the seconds; ``time.process_time`` those of all cores, which other programs disturb less.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    repeats = {name: max(math.ceil(turn / _seconds(run, 1)), 1) if turn else 1 for name, run in runs.items()}
    for _ in range(rounds):
        for name, run in runs.items():
            time.sleep(pause)
            times[name].append(_seconds(run, repeats[name], clock))
    return times


def _seconds(run: Callable[[], object], repeats: int, clock: Callable[[], float] = time.perf_counter) -> float:
    started = clock()
    for _ in range(repeats):
        run()
    return (clock() - started) / repeats


def ratios(times: Times, ours: str, theirs: str) -> tuple[float, tuple[float, float]]:
    """Speedup, runs of ours while theirs runs once: the median over the rounds, and the extremes."""
    found = [other / own for own, other in zip(times[ours], times[theirs], strict=True)]
    return median(found), (min(found), max(found))


_ASLEEP = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}
"""What lets threads of OpenMP (GNU's and Intel's) sleep where they wait: else those of torch keep all cores busy for a
fifth of a second behind each call, which is longer than a pause, and halve what runs next."""


def import_torch() -> Any:
    """torch, whose threads sleep between its calls; None if it is not installed. An environment that says otherwise
    stays."""
    if importlib.util.find_spec("torch") is None:
        return None
    for name, value in _ASLEEP.items():
        os.environ.setdefault(name, value)
    import torch

    return torch
