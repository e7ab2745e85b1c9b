"""Plots: rate over size, compile time over operations, and the roofline with the products on it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.gpu_code import generated_code
from benchmarks.rows import Row
from codegen.toolchain.ocloc import has_ocloc
from xetile.compiler.report import roofline

_SIZE, _DPI = (8.0, 5.0), 150


def draw(folder: Path, rows: Sequence[Row], quick: bool) -> list[Path]:
    """Draw what the rows give; the files that were written."""
    compiled = [row for row in rows if row.group == "Compile time"]
    made = [_lines(folder / "rate.png", [row for row in rows if row.unit == "GFLOP/s"], "size", "GFLOP/s"),
            _lines(folder / "compile_time.png", compiled, "operations", "ms")]
    if has_ocloc():
        types = ("bf16",) if quick else ("bf16", "i8")
        reports = [generated_code.report_of(target, dtype) for target in ("pvc", "bmg") for dtype in types]
        roofline.plot(folder / "roofline.png", [(report, report.predict((4096, 4096, 4096))) for report in reports])
        made.append(folder / "roofline.png")
    return made


def _lines(file: Path, rows: Sequence[Row], along: str, unit: str) -> Path:
    """A line for each series: rows that differ in ``x`` only."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE, layout="constrained")
    axes, series = figure.add_subplot(), _series(rows)
    for name, points in series.items():
        axes.plot(*zip(*sorted(points.items()), strict=True), marker="o", label=name)
    axes.set(xlabel=along, ylabel=unit, xscale="log", yscale="log")
    axes.grid(visible=True, alpha=0.3)
    if series:
        axes.legend(fontsize="small")
    figure.savefig(file, dpi=_DPI)
    return file


def _series(rows: Sequence[Row]) -> dict[str, dict[float, float]]:
    found: dict[str, dict[float, float]] = {}
    for row in rows:
        if row.x is not None:
            what = row.name.partition(" ")[2]  # the name begins with the size
            found.setdefault(f"{row.group}: {what}", {})[row.x] = row.value
    return found
