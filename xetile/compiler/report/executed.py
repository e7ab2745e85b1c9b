"""Instruction and traffic counts of a launch on a simulated GPU, as rows of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.perf.isa import CATEGORIES
from xetile.compiler.report.table import Row

if TYPE_CHECKING:
    from codegen.simulator.launch import Execution

MOVED = {
    "load_block2d": "2D block loads", "store_block2d": "2D block stores", "load": "loads", "store": "stores",
    "atomic": "atomic operations", "prefetch": "2D block prefetches", "slm_load": "shared local memory, read",
    "slm_store": "shared local memory, written", "slm_atomic": "shared local memory, atomic operations",
    "scratch_load": "scratch memory, read", "scratch_store": "scratch memory, written",
    "arguments": "arguments, each subgroup",
}
"""Labels of the kinds of traffic."""


def executed_rows(execution: Execution) -> list[Row]:
    """Instructions by kind and bytes by kind of message, of a work-group on average.

    Args:
        execution: the counts of the launch.
    """
    groups = max(execution.groups, 1)
    instructions = {kind: execution.instructions.get(kind, 0) for kind in CATEGORIES}
    rows = [_row("instructions executed a work-group", sum(instructions.values()), groups)]
    rows += [_row(f"  {kind}", count, groups) for kind, count in instructions.items() if count]
    moved = {label: execution.traffic.get(kind, 0) for kind, label in MOVED.items()}
    rows.append(_row("moved a work-group", sum(moved.values()), groups, " bytes"))
    return rows + [_row(f"  {label}", count, groups, " bytes") for label, count in moved.items() if count]


def _row(label: str, count: int, groups: int, unit: str = "") -> Row:
    """A row with a whole number, or with a mean where the work-groups differ."""
    return Row(label, (count // groups,), unit=unit) if count % groups == 0 else Row(label, (count / groups,), ",.1f",
                                                                                      unit)
