"""Tuning results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from codegen.perf.performance_model import RESOLUTION
from xegpu.support.errors import TargetError
from xetile.compiler.report.table import Row, Table
from xetile.tools.tuner.space import Configuration, as_keywords

STAGES = {"tables": "not built: the kernel, or the target's tables, rule it out", "build": "not built: the compiler",
          "budget": "not built: the budget ended before",
          "spill": "built, and spills registers", "run": "built, and fails when it runs"}
"""Where configurations fail, and what that is called."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of one configuration: its time, or the reason of its failure.

    Attributes:
        configuration: its constants.
        seconds: the median time of a launch, or the predicted one; None if it failed.
        interval: a 95 % confidence interval of the median, in seconds; None for a prediction.
        samples: how many samples that rests on.
        how: ``"timed"``, ``"kept"`` (timed before, read from disk) or ``"predicted"``; empty if it failed.
        dropped: whether its timing was stopped early, as it cannot be the fastest.
        sequential: for a prediction, seconds without any overlap, which decide between times that it cannot tell apart.
        stage, reason: where it failed, a key of :data:`STAGES`, and why; empty if it did not.
    """

    configuration: Configuration
    seconds: float | None = None
    interval: tuple[float, float] | None = None
    samples: int = 0
    how: str = ""
    dropped: bool = False
    sequential: float = 0.0
    stage: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Result:
    """Result of tuning one kernel for one set of arguments and one device.

    Attributes:
        kernel: the kernel's name.
        device: what it was timed on, or the target that a prediction is for.
        by: ``"time"`` or ``"prediction"``.
        outcomes: every configuration, the fastest first, then those that failed. Of predictions that the model cannot
            tell from the shortest, the one first that leaves the limiting resource most room.
        seconds: how long it took.
    """

    kernel: str
    device: str
    by: str
    outcomes: tuple[Outcome, ...]
    seconds: float

    @property
    def best(self) -> Configuration:
        """Constants of the fastest configuration: ``kernel[grid](*args, **result.best)``.

        Raises:
            TargetError: every configuration failed; the message says why.
        """
        if self.outcomes and self.outcomes[0].seconds is not None:
            return dict(self.outcomes[0].configuration)
        reasons = "; ".join(f"{as_keywords(f.configuration)}: {f.reason.splitlines()[0]}" for f in self.failures[:8])
        more = f"; and {len(self.failures) - 8} more" if len(self.failures) > 8 else ""
        raise TargetError("XT7110",
                          f"none of the {len(self.outcomes)} configurations of {self.kernel} works on {self.device}: "
                          f"{reasons}{more}", "all reasons in full: xt.tune(..., final=False).failures")

    @property
    def failures(self) -> tuple[Outcome, ...]:
        """Configurations that failed, each with its reason."""
        return tuple(outcome for outcome in self.outcomes if outcome.seconds is None)

    @property
    def tied(self) -> tuple[Outcome, ...]:
        """Configurations that a prediction cannot tell from the best one, with it; of timings the best alone."""
        worked = [outcome for outcome in self.outcomes if outcome.seconds is not None]
        if self.by != "prediction":
            return tuple(worked[:1])
        return tuple(outcome for outcome in worked if is_tied(outcome, worked))

    def __str__(self) -> str:
        return str(self.table())

    def table(self) -> Table:
        """Table of every configuration with its time, for ``print``, a notebook and rich.

        Failures are counted by where they happened, and listed with the first line of their reasons.
        """
        names = list(dict.fromkeys(name for outcome in self.outcomes for name in outcome.configuration))
        worked = [outcome for outcome in self.outcomes if outcome.seconds is not None]
        rows = [_row(outcome, names, _shortest(worked)) for outcome in worked]
        counts = {stage: sum(f.stage == stage for f in self.failures) for stage in STAGES}
        notes = [f"{count} {STAGES[stage]}" for stage, count in counts.items() if count]
        notes += [f"{as_keywords(f.configuration)}: {f.reason.splitlines()[0]}" for f in self.failures]
        if self.by == "prediction":
            notes.insert(0, "ranked by a model's predictions, not by measurements")
            if len(self.tied) > 1:
                notes.insert(1, f"the first {len(self.tied)} are within {RESOLUTION:.0%}, which the model cannot tell "
                             "apart, in the order of what all resources take one after another: on a device, tune "
                             "with where= times them")
        title = f"{self.kernel} on {self.device}: {len(worked)} of {len(self.outcomes)} configurations"
        return Table(title, tuple(rows), ("time", "to the best", "spread", *names, "from"), (), tuple(notes))

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def to_decorator(self) -> str:
        """Line to paste above ``@xt.kernel``, so that the kernel uses the best configuration without tuning.

        Raises:
            TargetError: every configuration failed.
        """
        values = ", ".join(f"{name!r}: {value!r}" for name, value in self.best.items())
        return f"@xt.autotune([{{{values}}}])"


def _shortest(outcomes: Iterable[Outcome]) -> float:
    return min((outcome.seconds for outcome in outcomes if outcome.seconds is not None), default=0.0)


def is_tied(outcome: Outcome, outcomes: Iterable[Outcome]) -> bool:
    """Whether a prediction cannot tell a configuration from the fastest."""
    return outcome.seconds is not None and outcome.seconds <= _shortest(outcomes) * (1 + RESOLUTION)


def _row(outcome: Outcome, names: list[str], best: float) -> Row:
    assert outcome.seconds is not None
    low, high = outcome.interval or (outcome.seconds, outcome.seconds)
    spread = f"{(high - low) / 2 / outcome.seconds:.1%}" if high != float("inf") and outcome.samples > 1 else "-"
    how = f"{outcome.how}{', stopped early' if outcome.dropped else ''}"
    values: list[Any] = [_time(outcome.seconds), f"{outcome.seconds / best:.2f}", spread]
    values += [str(outcome.configuration.get(name, "-")) for name in names]
    return Row("", (*values, how))


def _time(seconds: float) -> str:
    unit, scale = ("us", 1e6) if seconds < 1e-3 else ("ms", 1e3) if seconds < 1 else ("s", 1.0)
    return f"{seconds * scale:.3g} {unit}"
