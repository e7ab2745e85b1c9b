"""``xetile cache``: listing and clearing of the disk cache of compiled programs."""

from __future__ import annotations

import argparse
import time
from typing import Any

from codegen.toolchain import disk_cache
from xetile.compiler.report.table import Row, Table
from xetile.tools.cli.output import show

_MB = 2**20


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser("cache", help="show or clear the disk cache of compilers' output")
    parser.add_argument("--clear", action="store_true", help="remove everything")
    parser.set_defaults(command=command)


def command(args: argparse.Namespace) -> None:
    """Print the contents of the cache, or clear it.

    Raises:
        ToolError: XETILE_CACHE_SIZE is no number.
    """
    if args.clear:
        print(f"{disk_cache.clear()} entries removed from {disk_cache.folder()}")
        return
    found = disk_cache.entries()
    state = "" if disk_cache.is_on() else " (off: XETILE_CACHE=0)"
    kinds = sorted({entry.kind for entry in found})
    rows = [Row(kind, _summary([entry for entry in found if entry.kind == kind])) for kind in kinds]
    total = Row("in all", _summary(found))
    show(Table(f"{disk_cache.folder()}{state}", (*rows, total), ("entries", "size", "last used"), (),
               (f"the least recently used entries go beyond {disk_cache.bound() / _MB:,.0f} MB",)))


def _summary(entries: list[disk_cache.Entry]) -> tuple[int, str, str]:
    size = sum(entry.size for entry in entries) / _MB
    used = max((entry.used for entry in entries), default=None)
    when = "never" if used is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(used))
    return len(entries), f"{size:,.1f} MB", when
