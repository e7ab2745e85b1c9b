"""``python -m tests.fuzz --seconds N [--seed S] [--count C] [--executions A,B]``, or ``--text`` for mutated texts."""

from __future__ import annotations

import argparse
import importlib
import os
import sys

from tests.fuzz import campaign
from tests.fuzz.cases import EVERY_LOWERED, Plan, program_of
from tests.fuzz.choices import Choices


def main() -> int:
    """The command; 1 if something failed."""
    parser = argparse.ArgumentParser("python -m tests.fuzz", description="Random kernels against plain NumPy.")
    parser.add_argument("--seconds", type=float, default=60, help="time to run")
    parser.add_argument("--seed", type=int, default=0, help="the first case")
    parser.add_argument("--count", type=int, help="cases to run")
    parser.add_argument("--executions", default="", help="for all cases, such as numpy,opencl:cpu/pvc,machine:bmg")
    parser.add_argument("--every", type=int, default=EVERY_LOWERED,
                        help="one of so many cases runs in another execution than NumPy's")
    parser.add_argument("--minimise", type=float, default=60, help="seconds to minimise a failure")
    parser.add_argument("--show", action="store_true", help="print the program of --seed, and run nothing")
    parser.add_argument("--text", action="store_true", help="mutated MLIR texts instead of kernels")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ.setdefault("XETILE_CACHE", "0")
    if options.text:
        return int(bool(importlib.import_module("tests.fuzz.mutate").run(options.seconds, options.seed)))
    plan = Plan(tuple(filter(None, options.executions.split(","))), options.every)
    if options.show:
        print(program_of(Choices(options.seed)).source())
        return 0
    if options.worker:
        campaign.work(options.seed, options.count, plan)
        return 0
    tally = campaign.run(options.seconds if options.count is None else 10**9, options.seed, plan, count=options.count,
                         minimise_for=options.minimise)
    print(tally)
    return int(bool(tally.failures))


if __name__ == "__main__":
    sys.exit(main())
