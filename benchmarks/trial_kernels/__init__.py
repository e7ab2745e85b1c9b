"""Kernels as users write them, counted in the disassembly.

Each row has what the hot loop costs for a target: the part of dpas, instructions of the vector unit, bytes spilled;
and what is asked for.
"""

from __future__ import annotations

from benchmarks.rows import Progress, Row
from benchmarks.trial_kernels import (
    attention,
    converted_operands,
    gathered_rows,
    quantized_weights,
    small_products,
    unaligned_arrays,
)
from benchmarks.trial_kernels.trial import Trial
from codegen.toolchain.ocloc import has_ocloc

GROUP = "Users' kernels, machine code"
TRIALS: tuple[Trial, ...] = (*converted_operands.TRIALS, *quantized_weights.TRIALS, *attention.TRIALS,
                             *gathered_rows.TRIALS, *unaligned_arrays.TRIALS, *small_products.TRIALS)
"""All kernels of the trial."""


def measure(quick: bool, progress: Progress) -> list[Row]:
    """A row for each kernel and target, the first alone if quick; none where Intel's offline compiler is missing.

    Where registers are spilled, the ratio is 0.
    """
    if not has_ocloc():
        progress("users' kernels: ocloc is not installed")
        return []
    rows = []
    for trial in TRIALS[:1] if quick else TRIALS:
        for target in trial.targets:
            progress(f"machine code of {trial.name} for {target}")
            report = trial.report(target)
            facts = {"loop": dict(report.loop), "spill": report.spill_size, "private": report.private_size}
            unit = "dpas / instructions" if trial.dense else f"vector instructions for {trial.unit}"
            rows.append(Row(GROUP, f"{trial.name}, {target}", trial.value(report), unit, trial.ratio(report),
                            f"{trial.goal:g}", facts=facts))
    return rows
