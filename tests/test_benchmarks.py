"""The frame of the benchmarks: what is compared, what fails, what is written. No time is asserted."""

from __future__ import annotations

import importlib
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import __main__ as main
from benchmarks import plots, timing
from benchmarks.rows import Row
from benchmarks.run_time import numpy_execution


@pytest.mark.parametrize(("ratio", "verdict"), [(0.36, "met"), (0.35, "met"), (0.2, "missed"), (0.17, "failed")])
def test_only_less_than_half_of_a_goal_fails(ratio: float, verdict: str, monkeypatch: pytest.MonkeyPatch,
                                             tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = Row("NumPy execution", "64^3", 5, "GFLOP/s", ratio, "matmul", "numpy work-group", 64)
    assert row.verdict == verdict
    monkeypatch.setattr(main, "_measure", lambda names, quick, rows: rows.extend([row, Row("x", "y", 1, "s")]))
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--json", str(tmp_path / "rows.json")])
    assert main.main() == (verdict == "failed")
    out, error = capsys.readouterr()
    assert verdict in out
    assert ("under half of its goal: NumPy execution, 64^3" in error) == (verdict == "failed")
    written = json.loads((tmp_path / "rows.json").read_text())
    assert written["machine"]["cores"]
    assert [row["verdict"] for row in written["rows"]] == [verdict, ""]


def test_what_was_measured_before_ctrl_c_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                                                 capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(names, quick, rows) -> None:
        rows.append(Row("x", "measured", 1, "s"))
        raise KeyboardInterrupt

    file = tmp_path / "rows.json"
    monkeypatch.setattr(main, "_measure", interrupted)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--json", str(file)])
    assert main.main() == 130
    assert [row["name"] for row in json.loads(file.read_text())["rows"]] == ["measured"]
    assert "stopped" in capsys.readouterr().err


def test_what_cannot_be_written_or_measured_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                                                    capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--json", str(tmp_path / "missing" / "rows.json")])
    assert main.main() == 2
    assert "rows.json cannot be written: No such file or directory" in capsys.readouterr().err
    monkeypatch.setenv("XETILE_OCLOC", str(tmp_path / "ocloc"))
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--quick", "--only", "machine_code"])
    assert main.main() == 0
    assert "left out: machine code: ocloc is not installed" in capsys.readouterr().out


def test_times_are_taken_in_turn_and_compared_round_by_round() -> None:
    order: list[str] = []
    times = timing.interleaved({"ours": lambda: order.append("ours"), "theirs": lambda: order.append("theirs")}, 3)
    assert order == ["ours", "theirs"] * 4
    assert [len(found) for found in times.values()] == [3, 3]
    ratio, spread = timing.ratios({"ours": [1, 2, 4], "theirs": [2, 2, 2]}, "ours", "theirs")
    assert (ratio, spread) == (1, (0.5, 2))


def test_what_is_short_runs_several_times_in_a_turn() -> None:
    counts = {"short": 0, "long": 0}

    def run(name: str, seconds: float) -> None:
        counts[name] += 1
        time.sleep(seconds)

    timing.interleaved({"short": lambda: run("short", 0.001), "long": lambda: run("long", 0.03)}, 2, turn=0.02)
    assert counts["long"] == 1 + 1 + 2  # uncounted, to see how long it takes, and a turn each
    assert counts["short"] >= 1 + 1 + 2 * 2


def test_a_measure_checks_its_results_and_gives_rows() -> None:
    rows = numpy_execution._of_size(256, np.dtype(np.float32), 1)
    assert [row.name for row in rows] == ["256^3 float32, tiles of 128 x 128", "256^3 float32, tiles of 32 x 64"]
    assert all(row.value > 0 and row.ratio and row.ratio > 0 for row in rows)


@pytest.mark.parametrize("name", main.MEASURES)
def test_every_measure_is_there(name: str) -> None:
    assert callable(importlib.import_module(main.MEASURES[name]).measure)


def test_points_of_a_series_are_those_that_differ_in_size(tmp_path: Path) -> None:
    rows = [Row("CPU device", f"{size}^3 float32", size / 10, "GFLOP/s", x=size) for size in (512, 1024)]
    assert plots._series(rows) == {"CPU device: float32": {512: 51.2, 1024: 102.4}}

    assert plots._lines(tmp_path / "rate.png", rows, "size", "GFLOP/s").stat().st_size > 1000


def test_a_slow_host_is_allowed_for() -> None:
    row = Row("Launch", "x", 27, "us", 10 / 27, "10 us", "launch")
    assert row.verdict == "failed"
    assert replace(row, slower=24 / 5).verdict == "missed"


def test_a_goal_beyond_the_machine_is_judged_by_what_can_be() -> None:
    """Twice another's speed, where the processor could be 1.1 times as fast: half of that is what must be had."""
    row = Row("CPU device", "2048^3 float32", 180.0, "GFLOP/s", 0.9, "dpnp", "cpu f32 dpnp")
    assert row.verdict == "failed"
    assert replace(row, most=1.1).verdict == "missed"
    assert replace(row, most=1.1, ratio=0.5).verdict == "failed"
    assert replace(row, most=5.0).verdict == "failed"
