"""``python -m benchmarks [--quick] [--only NAME] [--json FILE] [--plots FOLDER]``: see docs/benchmarks.md."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.rows import Row

MEASURES = {
    **{name: f"benchmarks.run_time.{name}" for name in ("numpy_execution", "checks", "device", "attention", "library",
                                                        "compile_time", "launches", "memory")},
    **{name: f"benchmarks.gpu_code.{name}" for name in ("generated_code", "machine_code")},
    "trial_kernels": "benchmarks.trial_kernels",
}
"""The module of each measure, in the order in which they are taken."""
_TRIES = 3
"""How often a measure is taken where a ratio is under half of its goal: a machine may be busy for a moment."""
_LACKS = "is not installed"
"""How a measure ends what it says where something that it needs is missing."""
_STOPPED = 130
"""What a program gives that Ctrl-C ended."""
_NEEDS = 'the benchmarks print with rich and draw with matplotlib: pip install "xetile[bench]"'


def main() -> int:
    """Measure, print, write; 1 if a ratio is under half of its goal, 2 if nothing can be measured or written."""
    options = _options()
    missing = [name for name in ("rich", "matplotlib") if importlib.util.find_spec(name) is None]
    if missing:
        print(_NEEDS, file=sys.stderr)
        return 2
    if fault := _unwritable(options.json, options.plots):
        print(fault, file=sys.stderr)
        return 2
    rows: list[Row] = []
    facts, stopped = machine.describe(), False
    try:
        _measure(options.only or [*MEASURES], options.quick, rows)
    except KeyboardInterrupt:
        stopped = True
    _show(facts, rows)
    if stopped:
        print("stopped: what was measured until then", file=sys.stderr)
    if options.json:
        Path(options.json).write_text(json.dumps(_as_json(facts, rows, options.quick), indent=1) + "\n")
    if options.plots:
        from benchmarks.plots import draw

        print(*draw(Path(options.plots), rows, options.quick), sep="\n")
    failed = [row for row in rows if row.verdict == "failed"]
    for row in failed:
        print(f"under half of its goal: {row.group}, {row.name}: {row.ratio:.2f} of {row.least:g}", file=sys.stderr)
    return _STOPPED if stopped else bool(failed)


def _unwritable(file: str | None, folder: str | None) -> str:
    """Reason for which figures or plots cannot be written, known before minutes are spent; empty if they can."""
    try:
        if file:
            Path(file).open("a").close()
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return f"{error.filename} cannot be written: {error.strerror}"
    return ""


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="What xetile's speed is, beside others'.")
    parser.add_argument("--quick", action="store_true", help="one size of each, in about a minute")
    parser.add_argument("--only", action="append", choices=MEASURES, help="one of the measures; may be repeated")
    parser.add_argument("--json", metavar="FILE", help="write all figures")
    parser.add_argument("--plots", metavar="FOLDER", help="draw rate over size, compile time and the roofline")
    return parser.parse_args()


def _measure(names: Sequence[str], quick: bool, rows: list[Row]) -> None:
    """Take measures one by one, and add their rows to those there are."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, transient=True) as bar:
        task = bar.add_task("", total=len(names))
        def say(text: str) -> None:
            bar.update(task, description=text)
            if text.endswith(_LACKS):
                bar.console.print(f"left out: {text}", highlight=False)

        for name in names:
            measure: Any = importlib.import_module(MEASURES[name]).measure
            rows += _tried(partial(measure, quick, say))
            bar.advance(task)


def _tried(measure: Callable[[], list[Row]]) -> list[Row]:
    """The rows of a measure; those of the last try where all have a ratio under half of its goal."""
    for _ in range(_TRIES):
        rows = measure()
        if all(row.verdict != "failed" for row in rows):
            break
    return rows


def _as_json(facts: Mapping[str, str], rows: Sequence[Row], quick: bool) -> dict[str, Any]:
    return {"machine": dict(facts), "quick": quick, "rows": [row.as_dict() for row in rows]}


def _show(facts: Mapping[str, str], rows: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    console, table = Console(width=None if sys.stdout.isatty() else 140), Table(box=None)
    console.print(*(f"{name} {fact}" for name, fact in facts.items()), sep="\n", highlight=False)
    for heading in ("", "figure", "median", "", "ratio", "to", "goal", ""):
        table.add_column(heading, justify="right" if heading in ("median", "ratio", "goal") else "left")
    group = ""
    for row in rows:
        table.add_row(row.group if row.group != group else "", row.name, f"{row.value:.3g}", row.unit,
                      "" if row.ratio is None else f"{row.ratio:.2f}", row.against,
                      "" if row.least is None else f"{row.least:g}", _judged(row))
        group = row.group
    console.print(table)


def _judged(row: Row) -> str:
    """The verdict; where the goal is beyond the machine, what it could reach at most."""
    beyond = row.most is not None and row.least is not None and row.most < row.least
    return f"{row.verdict}, at most {row.most:.2f} here" if beyond else row.verdict


if __name__ == "__main__":
    sys.exit(main())
