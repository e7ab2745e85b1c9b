"""Rows: a figure that was measured, and its goal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.goals import GOALS

Progress = Callable[[str], None]
"""Called with what is measured next."""


@dataclass(frozen=True)
class Row:
    """A figure.

    Attributes:
        group: what is measured, a heading.
        name: of this figure within it.
        value, unit: the median.
        ratio: how much better than ``against``: over one is better, whatever the unit.
        against: what the ratio compares with.
        goal: its line in the table of goals, "" for a figure that has none.
        x: where it stands in a plot of its group: a size, or a number of operations.
        spread: the smallest and the largest ratio, or value where there is no ratio.
        slower: how many times slower the host is just now than the one for which a goal in seconds was set; CI allows
            for it, the ratio does not.
        most: the ratio at which ours would be as fast as the machine can be; None where that is not known. A goal above
            it cannot be met here, and CI goes by what can.
    """

    group: str
    name: str
    value: float
    unit: str
    ratio: float | None = None
    against: str = ""
    goal: str = ""
    x: float | None = None
    spread: tuple[float, float] | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    slower: float = 1.0
    most: float | None = None

    @property
    def least(self) -> float | None:
        """The ratio that is asked for."""
        return GOALS[self.goal].least if self.goal else None

    @property
    def verdict(self) -> str:
        """``met``, ``missed``, or ``failed`` under half of what is asked for; "" for a figure without a goal."""
        if self.least is None or self.ratio is None:
            return ""
        if self.ratio >= self.least:
            return "met"
        reachable = self.least if self.most is None else min(self.least, self.most)
        return "missed" if self.ratio * self.slower >= reachable / 2 else "failed"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "least": self.least, "verdict": self.verdict}
