"""Progress bars, and the worker processes whose builds they count."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from codegen.runtime import build_worker
from codegen.runtime.progress import progress_bar


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress_bar("building", 3) as advance:
        advance(2)
        with progress_bar("inner", 7) as other:  # one bar at a time
            other(1)
    shown = terminal.getvalue()
    assert "building" in shown
    assert "2 of 3" in shown
    assert "inner" not in shown


@pytest.mark.parametrize("is_wanted", [True, False])
def test_no_bar_without_a_terminal_or_where_none_is_wanted(is_wanted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO() if is_wanted else _Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress_bar("building", 3, is_wanted=is_wanted) as advance:
        advance(1)
    assert stream.getvalue() == ""


@pytest.mark.parametrize(("end", "timeout", "reason"), [
    ("sys.stderr.write('no memory\\n'); os._exit(9)", None, "the process that built it ended with 9: no memory"),
    ("time.sleep(60)", 3.0, None),
])
def test_a_worker_that_ends_early_fails_what_it_had_not_built(end: str, timeout: float | None, reason: str | None,
                                                              tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = tmp_path / "worker"
    worker.write_text(f"#!{sys.executable}\nimport os, pickle, sys, time\npickle.load(sys.stdin.buffer)\n"
                      f"for answer in ('', 'refused'):\n    pickle.dump(answer, sys.stdout.buffer)\n"
                      f"sys.stdout.flush()\n{end}\n")
    worker.chmod(0o755)
    monkeypatch.setattr(build_worker.sys, "executable", str(worker))
    jobs = [("opencl:cpu", "", "", name) for name in "abcd"]
    assert build_worker.build_all(jobs, 1, timeout) == ["", "refused", reason, reason]
