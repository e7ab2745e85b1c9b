"""Plot of predicted efficiency over ranks; imports matplotlib when it draws."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xegpu.support.errors import ToolError
from xegpu.support.files import picture_format, writing
from xetile.distributed.prediction import Prediction

_INCHES = (8.0, 5.0)


def plot(path: str | Path, predictions: Sequence[Prediction]) -> None:
    """Draw efficiency over ranks, with messages hidden and exposed.

    Args:
        path: the picture; its suffix (``.png``, ``.svg``, ``.pdf``) selects the format.
        predictions: of one product on one machine, for numbers of ranks.

    Raises:
        ToolError: matplotlib is not installed.
        ArgumentError: the file cannot be written, or does not end as an image file.
    """
    try:
        from matplotlib.backend_bases import FigureCanvasBase
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ToolError("XT7251", f"efficiency is drawn by matplotlib, which does not import ({error})",
                        'install it: pip install "xetile[plot]"') from None
    ending = picture_format(path, FigureCanvasBase.get_supported_filetypes())
    figure = Figure(figsize=_INCHES, layout="constrained")
    _draw(figure.add_subplot(), predictions)
    with writing(path):
        figure.savefig(path, format=ending, dpi=150)


def _draw(axes: Any, predictions: Sequence[Prediction]) -> None:
    ranks = [each.grid.ranks for each in predictions]
    axes.plot(ranks, [each.efficiency for each in predictions], "o-", label="messages hidden by products")
    axes.plot(ranks, [each.exposed for each in predictions], "s--", label="nothing hidden")
    grid, machine = predictions[0].grid, predictions[0].machine
    axes.set(xscale="log", xlabel="ranks", ylabel="predicted efficiency", ylim=(0, 1.05),
             title=f"{grid.m} x {grid.k} by {grid.k} x {grid.n}, {grid.dtype}: {machine.name}")
    axes.grid(alpha=0.3)
    axes.legend()
