"""Tiles that reports propose: ``python -m benchmarks.trial_kernels.tile_proposals [TARGET ...] [-k PART]``.

Each kernel of the trial is built with its default tiles for a target, by default dg2 and arl, whose registers are half
as long. Where it keeps values in memory, its report looks for smaller tiles, for the seconds that it takes by default;
the kernel is then lowered again with what was proposed, and built. Bytes in memory are counted in both.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.arguments import targets_and_part
from benchmarks.trial_kernels import TRIALS
from benchmarks.trial_kernels.trial import Trial
from xegpu.support.errors import TargetError, ToolError
from xetile.compiler.report import Report
from xetile.compiler.report.suggest_tile_sizes import Remedy

TARGETS = ("dg2", "arl")
_HEADS = ("kernel", "target", "bytes in memory", "proposed", "bytes with that", "dpas, density", "seconds")


@dataclass(frozen=True)
class Proposal:
    """What a report proposes for a kernel that keeps values in memory, built.

    Attributes:
        name, target: the kernel, and where it was built.
        in_memory: bytes of a thread that are spilled or private with its default tiles.
        remedy: what its report says; None where nothing is in memory.
        built: the report of the kernel with the proposed constants, or as it is where nothing is in memory; None where
            none were proposed.
        seconds: of processor time that the search took.
    """

    name: str
    target: str
    in_memory: int
    remedy: Remedy | None
    built: Report | None
    seconds: float

    @property
    def fits(self) -> bool:
        """Whether nothing is in memory, by its default tiles or by those that were proposed."""
        return self.built is not None and not _in_memory(self.built)

    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        constants = self.remedy.constants if self.remedy else {}
        proposed = str(self.remedy) if constants is None else \
            ", ".join(f"{name}={value}" for name, value in constants.items())
        built = ("", "") if self.built is None else \
            (str(_in_memory(self.built)), f"{self.built.loop.get('dpas', 0)}, {self.built.density:.3f}")
        return self.name, self.target, str(self.in_memory), proposed, *built, f"{self.seconds:.1f}"


def proposal(trial: Trial, target: str) -> Proposal:
    """Proposal for a kernel of the trial."""
    report = trial.lower(target).report()
    start = _processor_time()
    remedy = report.remedy
    seconds = _processor_time() - start
    if remedy is None:
        built: Report | None = report
    elif remedy.constants is None:
        built = None
    else:
        built = trial.lower(target, **remedy.constants).report(remedies=False)
    return Proposal(trial.name, target, _in_memory(report), remedy, built, seconds)


def _in_memory(report: Report) -> int:
    return report.spill_size + report.private_size


def _processor_time() -> float:
    """Seconds of this process, and of the compilers that it has run."""
    return sum(os.times()[:4])


def _proposals(targets: list[str], part: str) -> Iterator[Proposal | tuple[str, ...]]:
    """Proposals for kernels with part of a name, and the cells of those that a target or its compiler does not take."""
    for target in targets:
        for trial in TRIALS:
            if part in trial.name:
                try:
                    yield proposal(trial, target)
                except (TargetError, ToolError) as error:
                    yield trial.name, target, "", error.message, "", "", ""


def main() -> None:
    """Print the table, as Markdown, and how many kernels fit."""
    targets, part = targets_and_part("Tiles that reports propose for the kernels of the trial, built.", TARGETS)
    print("| " + " | ".join(_HEADS) + " |", "|" + "---|" * len(_HEADS), sep="\n")
    count = fitting = 0
    for found in _proposals(targets, part):
        if isinstance(found, Proposal):
            count, fitting = count + 1, fitting + found.fits
        print("| " + " | ".join(found.cells() if isinstance(found, Proposal) else found) + " |", flush=True)
    print(f"\n{fitting} of {count} kernels fit, as they are or with the tiles that are proposed")


if __name__ == "__main__":
    main()
