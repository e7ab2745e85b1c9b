"""Processes of external programs, started by vfork."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


def run_program(command: Sequence[str], timeout: float, *, folder: Path | None = None,
                text: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run a program to its end and keep what it prints.

    Args:
        command: the program and its arguments.
        timeout: seconds.
        folder: working directory, by default this process's.
        text: standard input, by default this process's.

    Raises:
        OSError: the program cannot be started.
        TimeoutExpired: it takes longer.
    """
    with _vfork():
        return subprocess.run(command, cwd=folder, input=text, capture_output=True, timeout=timeout, check=False)


@contextmanager
def _vfork() -> Iterator[None]:
    """Let Python start processes by vfork, as it does by itself, and fork only where it has none.

    dpctl turns that off for all of Python, in favour of posix_spawn, which takes no working directory. What remains is
    fork: it copies the page tables of a process with a device's libraries, 20 ms, and frees them again, 20 ms.
    """
    # private: the switch that dpctl sets; nothing public chooses how a process is started
    before = getattr(subprocess, "_USE_VFORK", True)
    subprocess._USE_VFORK = True  # type: ignore[attr-defined,misc]
    try:
        yield
    finally:
        subprocess._USE_VFORK = before  # type: ignore[attr-defined,misc]
