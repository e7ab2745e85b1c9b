"""``xetile selftest``: whether kernels give right results on each device and in each execution of this machine."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from xegpu.support.errors import DeviceError
from xegpu.target.targets import DEFAULT_TARGET
from xetile.compiler.report.table import Row, Table
from xetile.runtime.executors import is_machine
from xetile.tools.cli.output import show


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser("selftest", help="whether kernels give right results here",
                                 description="Runs small kernels, one for each area of the language, on every device "
                                             "and in every execution of this machine, and compares the results with "
                                             "NumPy's.")
    parser.add_argument("--where", metavar="WHERE", action="append", default=[],
                        help="only there: numpy, machine:pvc, opencl:cpu, ...; may be repeated")
    parser.set_defaults(command=command)


def command(args: argparse.Namespace) -> None:
    """Run the self-test and print a table of its results.

    Raises:
        DeviceError: there is no such execution here, or something does not work.
    """
    from xetile.tools.selftest import PROBES, executions, outcome

    found = list(executions())
    chosen = [each for each in found if _is_chosen(each.where, args.where)]
    if missing := [where for where in args.where if not any(_is_chosen(each.where, [where]) for each in found)]:
        raise DeviceError("XT8070", f"this machine does not run kernels on {missing[0]}",
                          "without --where all that it has are run; xetile devices says what to install for others")
    rows, faults = [], []
    for execution in chosen:
        outcomes = [outcome(probe, execution) for probe in PROBES]
        faults += [f"{execution}, {probe.name}: {each.fault}"
                   for probe, each in zip(PROBES, outcomes, strict=True) if each.fault]
        seconds = sum(each.seconds for each in outcomes)
        rows.append(Row(str(execution), (*("FAILS" if each.fault else "ok" for each in outcomes), f"{seconds:.1f} s")))
    left_out = dict.fromkeys(each.where for each in found if each not in chosen)
    notes = (f"not run: {', '.join(left_out)}; --where runs them",) if left_out and not args.where else ()
    show(Table("self-test", tuple(rows), (*(probe.name for probe in PROBES), "time"), tuple(faults), notes))
    if faults:
        raise DeviceError("XT8071", f"{len(faults)} of {len(chosen) * len(PROBES)} self-tests fail",
                          "report it with the lines above, and what xetile devices prints")


def _is_chosen(where: str, named: Sequence[str]) -> bool:
    """Whether an execution is named, or runs if none is: of the simulated GPUs one, each of which takes seconds."""
    if named:
        return any(where == name or where.startswith(f"{name}:") for name in named)
    return not is_machine(where) or where == f"machine:{DEFAULT_TARGET}"
