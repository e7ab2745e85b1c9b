"""Processes of external programs: what they read and print, and that they are started by vfork."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from codegen.toolchain.process import run_program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="vfork")


def test_text_folder_output_and_status(tmp_path: Path) -> None:
    program = ["/bin/sh", "-c", "cat; pwd; echo no >&2; exit 3"]
    done = run_program(program, 60, folder=tmp_path, text=b"read\n")
    assert done.stdout.decode() == f"read\n{tmp_path.resolve()}\n"
    assert (done.stderr, done.returncode) == (b"no\n", 3)


def test_it_is_ended_when_it_takes_longer() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_program(["/bin/sleep", "60"], 0.05)


@pytest.mark.parametrize("switch", [False, True])
def test_vfork_whatever_other_packages_chose(monkeypatch: pytest.MonkeyPatch, switch: bool) -> None:
    """CPython passes ``allow_vfork`` on as the last argument; afterwards the switch has its old value."""
    passed: list[bool] = []
    start = subprocess._fork_exec  # type: ignore[attr-defined]

    def noted(*arguments: Any) -> Any:
        passed.append(arguments[-1])
        return start(*arguments)

    monkeypatch.setattr(subprocess, "_USE_VFORK", switch)
    monkeypatch.setattr(subprocess, "_fork_exec", noted)
    assert run_program(["/bin/echo", "a"], 60).stdout == b"a\n"
    with pytest.raises(FileNotFoundError):
        run_program(["/no/program"], 60)
    assert passed == [True, True]
    assert subprocess._USE_VFORK is switch  # type: ignore[attr-defined]
