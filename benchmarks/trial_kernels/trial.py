"""Kernels of the trial: what is counted of each, and the goal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import xetile as xt
from xetile.compiler.compiled import CompiledKernel
from xetile.compiler.report import Report

_TARGETS = ("pvc", "bmg")

Lowering = Callable[..., CompiledKernel]
"""Lowering of a kernel for a target, whose name comes first; keywords are constants other than those of the trial."""


@dataclass(frozen=True)
class Trial:
    """A kernel of the trial.

    Attributes:
        name: what it computes.
        lower: lowers it for a target, with constants other than its own where they are given.
        goal: what is asked for: a density, or instructions of the vector unit a unit of work.
        dense: whether the goal is a density.
        per: how many dpas are a unit of work, for instructions of the vector unit.
        unit: what the unit of work is.
        targets: where it is counted.
    """

    name: str
    lower: Lowering
    goal: float
    dense: bool = True
    per: int = 32
    unit: str = "32 dpas"
    targets: tuple[str, ...] = _TARGETS

    def report(self, target: str) -> Report:
        """Report for a target, without a search for tiles that fit."""
        return self.lower(target).report(remedies=False)

    def value(self, report: Report) -> float:
        """The figure that the goal is for."""
        return report.density if self.dense else self.vector(report)

    def vector(self, report: Report) -> float:
        """Instructions of the vector unit a unit of work."""
        return report.loop.get("vector", 0) * self.per / max(report.loop.get("dpas", 0), 1)

    def ratio(self, report: Report) -> float:
        """Ratio to the goal; over one is better. No spill is ever within a goal."""
        if report.spill_size + report.private_size:
            return 0.0
        return report.density / self.goal if self.dense else self.goal / max(self.vector(report), 1)


def lowering(kernel: Any, *arguments: Any, **constants: Any) -> Lowering:
    """Lowering of a kernel for arguments and constants, of which a caller may change some."""
    return lambda target, **changed: kernel.lower(*arguments, target=target, **{**constants, **changed})


def matrix(dtype: Any) -> xt.Spec:
    """Specification of a matrix of 4096 x 4096 elements."""
    return xt.Spec((4096, 4096), dtype)
