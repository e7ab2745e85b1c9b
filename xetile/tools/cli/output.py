"""Output of commands: to a file or to standard output."""

from __future__ import annotations

import sys
from pathlib import Path

from xegpu.support.errors import ArgumentError
from xegpu.support.files import writing
from xetile.compiler.report.table import Table


def write_text(text: str, path: str | None) -> None:
    """Write text to a file, or to standard output without one; it ends with a line break."""
    text = text.rstrip("\n") + "\n"
    if path is None:
        sys.stdout.write(text)
    else:
        write_bytes(text.encode(), path)


def write_bytes(data: bytes, path: str | None) -> None:
    """Write bytes to a file, or to standard output without one.

    Raises:
        ArgumentError: the file cannot be written, or standard output is a terminal.
    """
    if path is None:
        if sys.stdout.isatty():
            raise ArgumentError("XT8003", "this is binary, not text for a terminal", "name a file: -o kernel.bin")
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    with writing(path):
        Path(path).write_bytes(data)


def show(table: Table) -> None:
    """Print a table, through rich if it is installed and standard output is a terminal."""
    try:
        from rich.console import Console
    except ImportError:
        print(table)
        return
    console = Console()
    if console.is_terminal:
        console.print(table)
    else:
        print(table)
