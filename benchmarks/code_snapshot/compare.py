"""Comparison of two records: counts of machine code, errors, and OpenCL C."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.code_snapshot.record import text_of

Entry = Mapping[str, Any]
Record = Mapping[str, Any]

_MESSAGES = ("load_block2d", "load", "store_block2d", "store", "prefetch", "atomic", "slm", "scratch", "sync", "sends")
"""Categories of the hot loop that shall not grow; the rest counts through the sum of all instructions."""
_MEMORY = ("spill", "private", "slm")
_WHOLE_TOLERANCE = 0.01
"""Growth of a kernel's instructions outside its hot loop that does not count: addresses computed in another order."""


@dataclass(frozen=True)
class Change:
    """Difference of one pair.

    Attributes:
        key: the pair's name.
        verdict: ``"worse"``, ``"better"``, or ``"changed"`` for what is neither.
        what: the count, as ``"loop dpas"``, or ``"error"``.
        before, after: its values.
    """

    key: str
    verdict: str
    what: str
    before: object
    after: object


def compare(before: Record, after: Record) -> list[Change]:
    """The changes in machine code and errors, in the order of the records.

    A pair that the second record lacks is worse, unless that was filtered; new pairs count as changed. OpenCL C alone
    is no change: see :func:`text_changes`.
    """
    changes: list[Change] = []
    for key, old in before["pairs"].items():
        new = after["pairs"].get(key)
        if new is not None:
            changes += _entry_changes(key, old, new)
        elif not after.get("filtered"):
            changes.append(Change(key, "worse", "pair", "recorded", "missing"))
    if not before.get("filtered"):
        changes += [Change(key, "changed", "pair", "missing", "recorded")
                    for key in after["pairs"] if key not in before["pairs"]]
    return changes


def text_changes(before: Record, after: Record) -> list[str]:
    """The pairs whose OpenCL C or error differs, and those that ``after`` lacks though it was not filtered."""
    lost = [] if after.get("filtered") else [key for key in before["pairs"] if key not in after["pairs"]]
    return lost + [key for key, old in before["pairs"].items() if (new := after["pairs"].get(key)) is not None
                   and (old.get("sha"), old.get("error")) != (new.get("sha"), new.get("error"))]


def diff(key: str, old: Entry, new: Entry) -> str:
    """A unified diff of the OpenCL C of one pair; empty if it is equal."""
    lines = (text_of(old).splitlines(keepends=True), text_of(new).splitlines(keepends=True))
    return "".join(difflib.unified_diff(*lines, f"before/{key}", f"after/{key}"))


def table(changes: list[Change], after: Record) -> str:
    """The changes as Markdown, worse ones first, and a line that counts them."""
    order = {"worse": 0, "changed": 1, "better": 2}
    rows = [f"| {change.verdict} | {change.key} | {change.what} | {change.before} | {change.after} |"
            for change in sorted(changes, key=lambda change: order[change.verdict])]
    counts = {verdict: len({change.key for change in changes if change.verdict == verdict}) for verdict in order}
    summary = f"{len(after['pairs'])} pairs: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    head = ["| verdict | pair | what | before | after |", "|---|---|---|---|---|"] if rows else []
    return "\n".join([*head, *rows, summary])


def _entry_changes(key: str, old: Entry, new: Entry) -> Iterator[Change]:
    for field in ("error", "machine_error"):
        was, now = old.get(field), new.get(field)
        if was != now and not (field == "machine_error" and ("error" in old or "error" in new)):
            yield Change(key, "better" if now is None else "worse" if was is None else "changed", field,
                         was or "none", now or "none")
    if "counts" in old and "counts" in new:
        yield from _count_changes(key, old["counts"], new["counts"])


def _count_changes(key: str, old: Entry, new: Entry) -> Iterator[Change]:
    yield from _loop_changes(key, old, new)
    for field in _MEMORY:
        yield from _less_is_better(key, f"{field} bytes", old[field], new[field])
    if old["registers"] != new["registers"]:
        yield Change(key, "worse", "registers", old["registers"], new["registers"])
    was, now = old["whole"], new["whole"]
    dpas = was.get("dpas", 0), now.get("dpas", 0)
    if old["steps"] == new["steps"] and dpas[0] != dpas[1]:
        yield Change(key, "worse", "dpas of the kernel", *dpas)
    total = was["instructions"], now["instructions"]
    if total[0] != total[1]:
        grown = total[1] > total[0] * (1 + _WHOLE_TOLERANCE)
        yield Change(key, "worse" if grown else "better" if total[1] < total[0] else "changed",
                     "instructions of the kernel", *total)


def _loop_changes(key: str, old: Entry, new: Entry) -> Iterator[Change]:
    """Changes of the hot loop, for one K step each, so that loops that are unrolled differently compare."""
    if old["steps"] != new["steps"]:
        yield Change(key, "changed", "steps a pass of the loop", old["steps"], new["steps"])

    def a_step(counts: Entry, category: str) -> float:
        count, steps = int(counts["loop"].get(category, 0)), int(counts["steps"])
        return round(count / steps, 3)

    if (was := a_step(old, "dpas")) != (now := a_step(new, "dpas")):
        yield Change(key, "worse", "loop dpas", was, now)
    for category in (*_MESSAGES, "instructions"):
        yield from _less_is_better(key, f"loop {category}", a_step(old, category), a_step(new, category))


def _less_is_better(key: str, what: str, was: float, now: float) -> Iterator[Change]:
    if was != now:
        yield Change(key, "worse" if now > was else "better", what, was, now)
