"""Arguments of ``python -m benchmarks.code_snapshot``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import xetile as xt
from benchmarks.code_snapshot.compare import compare, diff, table, text_changes
from benchmarks.code_snapshot.record import PROCESSES, record


def main(arguments: Sequence[str] | None = None) -> None:
    """Record or compare; the exit status of a comparison is 1 if anything got worse (with ``--text``: changed)."""
    options = _parser().parse_args(arguments)
    if options.command == "record":
        document = record(options.file, opencl_only=options.opencl_only, only=options.only, targets=options.target,
                          processes=options.processes)
        pairs = document["pairs"].values()
        failed = sum("error" in entry or "machine_error" in entry for entry in pairs)
        print(f"{len(pairs)} pairs, {failed} failed, in {options.file}")
        return
    before, after = _read(options.before), _read(options.after)
    if options.diff:
        if missing := [key for key in options.diff if key not in before["pairs"] or key not in after["pairs"]]:
            sys.exit(f"not in both records: {', '.join(missing)}")
        print("".join(diff(key, before["pairs"][key], after["pairs"][key]) for key in options.diff), end="")
        return
    if options.text:
        changed = text_changes(before, after)
        print("\n".join([*changed, f"{len(changed)} texts changed"]))
        sys.exit(bool(changed))
    changes = compare(before, after)
    print(table(changes, after))
    sys.exit(any(change.verdict == "worse" for change in changes))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.code_snapshot")
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="compile the kernels, and write text and counts to a file")
    recording.add_argument("file", type=Path)
    recording.add_argument("--opencl-only", action="store_true", help="no machine code: minutes less")
    recording.add_argument("--only", default="", metavar="REGEX", help="pairs whose name matches, as gemm.bf16@pvc")
    recording.add_argument("--target", action="append", default=[], choices=xt.TARGETS, help="may be repeated")
    recording.add_argument("--processes", type=int, default=PROCESSES)
    comparing = commands.add_parser("compare", help="what changed from one file to another")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--text", action="store_true", help="list the pairs whose OpenCL C changed")
    comparing.add_argument("--diff", action="append", default=[], metavar="PAIR", help="unified diff of a pair's text")
    return parser


def _read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text())
    return document
