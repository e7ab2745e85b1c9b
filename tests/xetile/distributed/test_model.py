"""Predictions of distributed products: the clock against cases computed by hand, and the command line."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

import xetile as xt
from xetile.distributed.grid import Grid
from xetile.distributed.prediction import MACHINES, Machine, predict, scaling
from xetile.tools.cli import main

SIMPLE = Machine("simple", "a machine of round numbers", 1e12, 1 << 40, 1, 1e9, 1e9, 0.0, 0.0)


def test_one_rank_multiplies_and_waits_for_nothing() -> None:
    found = predict(Grid(1, 1, 1, m=1000, n=1000, k=1000, dtype=xt.bf16), SIMPLE)
    assert (found.seconds, found.wire, found.efficiency) == (2e-3, 0.0, 1.0)


def test_a_ring_bound_by_the_wire() -> None:
    """Four ranks, three blocks of 1000 x 250 bf16 each: 0.5 ms a block; the last product is behind the last block."""
    found = predict(Grid(1, 4, 1, m=1000, n=1000, k=1000, dtype=xt.bf16), SIMPLE)
    assert found.wire == pytest.approx(3 * 0.5e-3)
    assert found.compute == pytest.approx(0.5e-3)
    assert found.seconds == pytest.approx(1.5e-3 + 0.125e-3)


def test_a_ring_bound_by_products() -> None:
    """With a fast wire all but nothing of the messages shows."""
    found = predict(Grid(1, 4, 1, m=1000, n=1000, k=1000, dtype=xt.bf16), replace(SIMPLE, inside=1e12, outside=1e12))
    assert found.seconds == pytest.approx(found.compute)
    assert found.hidden == pytest.approx(1)


@pytest.mark.parametrize("machine", MACHINES)
def test_predictions_are_monotone(machine: str) -> None:
    """More ranks are faster, though less efficient; nothing beats full overlap or is worse than none."""
    found = scaling(1 << 17, 1 << 17, 1 << 17, xt.bf16, machine, (1, 4, 16, 64, 256))
    assert all(more.seconds < less.seconds for less, more in pairwise(found))
    for each in found:
        assert max(each.compute, each.ideal) <= each.seconds * (1 + 1e-9)
        assert each.seconds <= (each.compute + each.wire) * (1 + 1e-9)
        assert each.exposed <= each.efficiency <= 1


def test_a_million_cubed_on_ten_thousand_ranks() -> None:
    found = predict(Grid(25, 25, 16, m=1 << 20, n=1 << 20, k=1 << 20, dtype=xt.bf16), "aurora", panel=4096)
    assert "171,523,813,933,056 bytes" in str(found)
    assert found.received == pytest.approx(17.15e9, rel=1e-3)
    assert found.memory < 64 << 30


def test_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "scaling.svg"
    assert main(["scale", "65536", "65536", "65536", "--ranks", "1,12", "--plot", str(picture)]) == 0
    out = capsys.readouterr().out
    assert "predicted efficiency" in out
    assert "Every figure is a prediction" in out
    assert "predicted efficiency" in picture.read_text() or picture.stat().st_size > 5000
    assert main(["scale", "8", "8", "8", "--ranks", "many"]) == 1
    assert main(["scale", "8", "8", "8", "--grid", "2,2"]) == 1
    assert main(["scale", "8", "8", "8", "--plot", str(tmp_path / "x.txt")]) == 1
