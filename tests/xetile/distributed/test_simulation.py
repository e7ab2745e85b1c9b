"""Simulation of all ranks by SimGrid, against cases computed by hand and the clock."""

from __future__ import annotations

import pytest

import xetile as xt
from tests.conftest import unavailable
from xetile.distributed.grid import Grid
from xetile.distributed.prediction import Machine, predict
from xetile.distributed.prediction.simulation import find_python, simulate
from xetile.tools.cli import main

SIMPLE = Machine("simple", "a machine of round numbers", 1e12, 1 << 40, 1, 1e9, 1e9, 0.0, 0.0)


@pytest.fixture(autouse=True)
def _simgrid() -> None:
    try:
        find_python()
    except xt.ToolError as error:
        unavailable(f"needs SimGrid: {error}")


@pytest.mark.parametrize(("shape", "overlap", "milliseconds"), [
    # Three blocks of 0.5 ms; the last of four products of 0.125 ms is behind them.
    ((1, 4, 1), "chunked", 3 * 0.5 + 0.125),
    # Without overlap the four products stand behind each other, too.
    ((1, 4, 1), "none", 3 * 0.5 + 4 * 0.125),
    # A band is multiplied in 0.125 ms before the first of three messages of a million bytes.
    ((1, 1, 4), "chunked", 0.125 + 3 * 1.0),
    # Of ten pairs of panels of 0.1 ms each some rank receives both; the last product of 0.05 ms is behind them.
    ((2, 2, 1), "chunked", 10 * 0.2 + 0.05),
    ((2, 2, 1), "none", 10 * (0.2 + 0.05)),
])
def test_products_of_four_ranks(shape: tuple[int, int, int], overlap: str, milliseconds: float) -> None:
    grid = Grid(*shape, m=1000, n=1000, k=1000, dtype=xt.bf16)
    panel = 100 if shape == (2, 2, 1) else None
    assert simulate(grid, SIMPLE, panel=panel, overlap=overlap) == pytest.approx(milliseconds * 1e-3, rel=1e-4)
    assert predict(grid, SIMPLE, panel=panel, overlap=overlap).seconds == pytest.approx(milliseconds * 1e-3, rel=1e-4)


def test_a_node_of_aurora(capsys: pytest.CaptureFixture[str]) -> None:
    """Both wires of a rank, latencies, chains of broadcasts: slower than the clock, by less than a quarter."""
    words = ["scale", "16384", "16384", "16384"]
    assert main([*words, "--ranks", "12,24", "--simgrid"]) == 0
    clock, simulated = ([float(each.replace(",", "")) for each in line.split()[-2:]]
                        for line in capsys.readouterr().out.splitlines() if line.split()[:1] in (["predicted"], ["ms"])
                        if "efficiency" not in line)
    assert all(least <= found <= 1.25 * least for least, found in zip(clock, simulated, strict=True))
    assert main([*words, "--grid", "1,12,1", "--simgrid"]) == 0
    assert "ms by SimGrid" in capsys.readouterr().out
