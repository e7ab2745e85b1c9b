"""``python -m benchmarks.trial_kernels [NAME...]``: the table of all kernels, or of those with parts of a name."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from benchmarks.trial_kernels import TRIALS

_HEADS = ("kernel", "target", "dpas", "density", "vector instructions", "a unit", "spilled", "goal")


def _lines(names: list[str]) -> Iterator[str]:
    for trial in TRIALS:
        if names and not any(name in trial.name for name in names):
            continue
        for target in trial.targets:
            report = trial.report(target)
            goal = f"density {trial.goal:.2f}" if trial.dense else f"{trial.goal:g} for {trial.unit}"
            cells = (trial.name, target, report.loop.get("dpas", 0), f"{report.density:.3f}",
                     report.loop.get("vector", 0), f"{trial.vector(report):.0f}",
                     f"{report.spill_size}, {report.private_size}", goal)
            yield "| " + " | ".join(map(str, cells)) + " |"


def main() -> None:
    """Print the table, as Markdown; arguments are parts of the names of kernels."""
    print("| " + " | ".join(_HEADS) + " |", "|" + "---|" * len(_HEADS), sep="\n")
    for line in _lines(sys.argv[1:]):
        print(line, flush=True)


if __name__ == "__main__":
    main()
