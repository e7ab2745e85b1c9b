"""A long run: cases in worker processes that are replaced now and then, failures minimised and printed.

A worker ends after some hundred cases, because the SYCL runtime keeps each program that it built. What kills a worker,
or takes longer than five minutes, is a failure of the case that it began last.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.fuzz.cases import Plan, optimised, program_of, run_case
from tests.fuzz.choices import Choices
from tests.fuzz.execute import Mismatch
from tests.fuzz.minimise import fails_like, minimised

CASES_OF_A_WORKER = 400
SECONDS_OF_A_CASE = 300
MINIMISED_OF_A_KIND = 2
"""Failures of one kind that are minimised; the others are counted."""


@dataclass
class Tally:
    """Counts of a run: programs, launches, failures."""

    programs: int = 0
    launches: Counter[str] = field(default_factory=Counter)
    failures: dict[str, list[int]] = field(default_factory=dict)
    seconds: float = 0.0

    def __str__(self) -> str:
        compared = sum(count for name, count in self.launches.items() if "refused" not in name)
        lines = [f"{self.programs} programs, {compared} launches compared, in {self.seconds:.0f} s"]
        lines += [f"  {count:8d}  {name}" for name, count in sorted(self.launches.items())]
        lines += [f"  FAILED {len(seeds)} x {kind}: seeds {' '.join(map(str, seeds[:20]))}"
                  for kind, seeds in self.failures.items()]
        return "\n".join(lines)


def work(seed: int, count: int, plan: Plan) -> None:
    """A worker: cases from a seed on, a line of JSON before and behind each."""
    for number in range(seed, seed + count):
        print(json.dumps({"begins": number}), flush=True)
        try:
            done, found = run_case(number, plan)
        except Exception as error:  # the generator or the evaluation failed: that is a fault of the tests
            done, found = Counter(), Mismatch("generator", f"{type(error).__name__}: {error}")
        print(json.dumps({"done": done, "found": found and [found.execution, found.message, found.launch]}), flush=True)


def _lines(worker: subprocess.Popen[str]) -> Iterator[dict[str, Any] | None]:
    """A worker's messages; None where it died or took too long."""
    messages: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        assert worker.stdout is not None
        for line in worker.stdout:
            messages.put(line)
        messages.put(None)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = messages.get(timeout=SECONDS_OF_A_CASE)
        except queue.Empty:
            worker.kill()
            line = None
        if line is None:
            yield None
            return
        if line.startswith("{"):
            yield json.loads(line)


def _minimise(seed: int, found: Mismatch, seconds: float) -> str:
    if found.execution in ("generator", "process"):
        return program_of(Choices(seed)).source() if found.execution == "process" else ""
    original = Choices(seed)
    program_of(original)
    program = minimised(original.record, fails_like(found, optimise=optimised(seed)), seconds)
    arrays = "\n".join(f"# {each}" for each in program.arrays)
    return f"{program.source()}\n{arrays}\n# launch (grid, seed of the data): {found.launch}"


def run(seconds: float, seed: int, plan: Plan, *, count: int | None = None, minimise_for: float = 60) -> Tally:
    """Run cases from a seed on, until the time is over or so many are done.

    Args:
        seconds: the time to run.
        seed: the first case.
        plan: where cases run.
        count: the most cases.
        minimise_for: seconds to minimise a failure.
    """
    tally, started, following = Tally(), time.monotonic(), seed
    said = started
    while time.monotonic() - started < seconds and (count is None or following < seed + count):
        most = CASES_OF_A_WORKER if count is None else min(CASES_OF_A_WORKER, seed + count - following)
        command = [sys.executable, "-m", "tests.fuzz", "--worker", "--seed", str(following), "--count", str(most),
                   "--every", str(plan.every), "--executions", ",".join(plan.executions)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}) as worker:
            current = following
            for message in _lines(worker):
                if message is None:
                    if current < following + most and worker.wait() != 0:
                        found = Mismatch("process", f"ended with {worker.returncode}: a crash or no end")
                        _report(tally, current, found, minimise_for)
                        current += 1
                    break
                if "begins" in message:
                    current = message["begins"]
                    continue
                tally.programs += 1
                tally.launches.update(message["done"])
                if message["found"]:
                    _report(tally, current, Mismatch(*message["found"]), minimise_for)
                current += 1
                tally.seconds = time.monotonic() - started
                if time.monotonic() - said > 60:
                    said = time.monotonic()
                    print(f"... {tally.programs} programs, {sum(tally.launches.values())} launches, "
                          f"{sum(map(len, tally.failures.values()))} failures, {tally.seconds:.0f} s", flush=True)
                if tally.seconds > seconds:
                    worker.kill()
                    break
            following = current
    tally.seconds = time.monotonic() - started
    return tally


def _report(tally: Tally, seed: int, found: Mismatch, minimise_for: float) -> None:
    seeds = tally.failures.setdefault(found.kind, [])
    seeds.append(seed)
    print(f"FAILED seed {seed}: {found}", flush=True)
    if len(seeds) <= MINIMISED_OF_A_KIND:
        print(_minimise(seed, found, minimise_for), flush=True)
