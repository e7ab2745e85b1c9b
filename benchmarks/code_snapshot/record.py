"""Compiles the pairs of a snapshot, in processes of their own, and collects text and counts of each."""

from __future__ import annotations

import base64
import hashlib
import json
import multiprocessing
import re
import subprocess
import sys
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import xetile as xt
from benchmarks.code_snapshot.cases import ROOT, Pair, all_pairs

Entry = dict[str, Any]
"""Of one pair: ``sha`` and ``text`` (compressed) of the OpenCL C, ``counts`` of the machine code; ``error`` or
``machine_error`` is the code of the error where one of them could not be made."""

PROCESSES = 2
_LOCATION_LINE = re.compile(r"^[ \t]*// \S+:\d+\n", re.MULTILINE)
_LOCATION = re.compile(r"([\w-]+\.py):\d+(:\d+)?")
"""The author's line, as a comment of its own and in the messages of assertions: it changes with any edit of a file."""
_PAIRS_A_PROCESS = 60
"""Then a new process takes over: the compiler keeps every kernel that it made."""


def record(path: Path, *, opencl_only: bool = False, only: str = "", targets: Sequence[str] = (),
           processes: int = PROCESSES) -> dict[str, Any]:
    """Compile the pairs and write them to a file.

    Args:
        path: the JSON file that is written.
        opencl_only: stop at OpenCL C, without machine code.
        only: a regular expression that a pair's name matches somewhere.
        targets: the targets that are recorded; all if empty.
        processes: that compile at the same time.
    """
    keys = [key for key, pair in all_pairs().items()
            if re.search(only, key) and (not targets or pair.target in targets)]
    entries: dict[str, Entry] = {}
    started, tasks = time.monotonic(), [(key, not opencl_only) for key in keys]
    with multiprocessing.get_context("spawn").Pool(processes, maxtasksperchild=_PAIRS_A_PROCESS) as pool:
        for key, entry in pool.imap_unordered(_entry_of, tasks):
            entries[key] = entry
            print(f"{len(entries):4}/{len(keys)} {time.monotonic() - started:6.1f} s  {key}"
                  f"{_error(entry)}", file=sys.stderr, flush=True)
    document = {"commit": _commit(), "opencl_only": opencl_only, "filtered": bool(only or targets),
                "pairs": {key: entries[key] for key in keys}}
    path.write_text(json.dumps(document, indent=1) + "\n")
    return document


def text_of(entry: Mapping[str, Any]) -> str:
    """The OpenCL C of an entry; empty if it failed."""
    return zlib.decompress(base64.b64decode(entry["text"])).decode() if "text" in entry else ""


def without_locations(text: str) -> str:
    """OpenCL C without the author's lines."""
    return _LOCATION.sub(r"\1", _LOCATION_LINE.sub("", text))


def entry_of(pair: Pair, machine_code: bool) -> Entry:
    """Compile one pair."""
    try:
        lowered = pair.lower(pair.target)
        text = without_locations(lowered.opencl)
    except Exception as error:
        return {"error": _code(error)}
    entry: Entry = {"sha": hashlib.sha256(text.encode()).hexdigest(),
                    "text": base64.b64encode(zlib.compress(text.encode(), 9)).decode()}
    if machine_code and pair.target != "cpu":
        try:
            entry["counts"] = counts_of(lowered.report())
        except Exception as error:
            entry["machine_error"] = _code(error)
    return entry


def counts_of(report: Any) -> dict[str, Any]:
    """Counts of machine code: instructions by category, of the hot loop and of all, and the memory used.

    ``steps`` is how many K steps of the kernel one pass of the hot loop makes: the machine code's unrolling.
    """
    loop, whole = report.hot, report.mix.whole
    return {"registers": report.registers, "spill": report.spill_size, "private": report.private_size,
            "slm": report.slm_size, "steps": report.unrolled, "density": round(report.density, 4),
            "loop": _mix(loop), "whole": _mix(whole)}


def _mix(mix: Any) -> dict[str, int]:
    sends = sum(count for opcode, count in mix.opcodes.items() if opcode.startswith("send"))
    return {"instructions": mix.total, "sends": sends, **dict(sorted(mix.categories.items()))}


def _entry_of(task: tuple[str, bool]) -> tuple[str, Entry]:
    key, machine_code = task
    return key, entry_of(all_pairs()[key], machine_code)


def _code(error: Exception) -> str:
    """The code of an error that an author can cause; the type and message of any other."""
    return error.code if isinstance(error, xt.XeError) else f"{type(error).__name__}: {error}"[:300]


def _error(entry: Entry) -> str:
    found = entry.get("error") or entry.get("machine_error")
    return f"  failed: {found}" if found else ""


def _commit() -> str:
    run = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                         check=False)
    return run.stdout.strip()
