"""Roofline plot of machines with kernels; imports matplotlib when it draws."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from codegen.perf.performance_model import Prediction
from xegpu.support.errors import ArgumentError, ToolError
from xegpu.support.files import picture_format, writing
from xetile.compiler.report import Report

_INCHES = (8.0, 5.0)
_DECADES = 4  # octaves shown on both sides of a roof's corner


def plot(path: str | Path, points: Sequence[tuple[Report, Prediction]]) -> None:
    """Draw the roofline of every machine and a point for every prediction.

    Args:
        path: the picture; its suffix (``.png``, ``.svg``, ``.pdf``) selects the format.
        points: reports with predictions that have operations and memory traffic, as of a product and its shape.

    Raises:
        ToolError: matplotlib is not installed.
        ArgumentError: a prediction has no point on a roofline, or the file cannot be written.
    """
    figure_type, suffixes = _matplotlib()
    for report, prediction in points:
        if not prediction.flops or not prediction.bytes:
            raise ArgumentError("XT7160",
                                f"{report.name} has no products or no memory traffic, and so no point on a roofline",
                                "predict a matrix product with its shape: predict((4096, 4096, 4096))")
    ending = picture_format(path, suffixes)
    figure = figure_type(figsize=_INCHES, layout="constrained")
    _draw(figure.add_subplot(), points)
    with writing(path):
        figure.savefig(path, format=ending, dpi=150)


def peak_of(report: Report, prediction: Prediction) -> float:
    """Peak operations per second of the machine's engines for the kernel's element types."""
    if report.dpas_rows and report.work is not None:
        return prediction.machine.matrix_peak(report.lanes, 256 // report.work.depth)
    return prediction.machine.vector_peak(report.target.register_bytes)


def _matplotlib() -> tuple[Any, frozenset[str]]:
    try:
        from matplotlib.backend_bases import FigureCanvasBase
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ToolError("XT7162", f"a roofline is drawn by matplotlib, which does not import ({error})",
                        'install it: pip install "xetile[plot]"') from None
    return Figure, frozenset(FigureCanvasBase.get_supported_filetypes())


def _draw(axes: Any, points: Sequence[tuple[Report, Prediction]]) -> None:
    roofs = {(p.machine.name, peak_of(r, p)): p.machine for r, p in points}
    corners = [peak / machine.bandwidth for (_, peak), machine in roofs.items()]
    intensities = [*corners, *(p.intensity for _, p in points)]
    low, high = min(intensities) / 2**_DECADES, max(intensities) * 2**_DECADES
    for ((_, peak), machine), corner in zip(roofs.items(), corners, strict=True):
        axes.plot((low, corner, high), (low * machine.bandwidth / 1e12, peak / 1e12, peak / 1e12),
                  label=f"{machine.description}: {peak / 1e12:.0f} TFLOP/s, {machine.bandwidth / 1e9:.0f} GB/s")
    for report, prediction in points:
        label = f"{report.name} for {report.target.name}, {prediction.shape}: {prediction.tflops:.3g} TFLOP/s"
        axes.plot((prediction.intensity,), (prediction.tflops,), "o", label=label)
    axes.set(xscale="log", yscale="log", xlabel="operations for each byte of memory traffic", ylabel="TFLOP/s",
             title="roofline; the points are predictions, not measurements")
    axes.grid(True, which="both", alpha=0.3)
    axes.legend(fontsize="small", loc="lower right")
