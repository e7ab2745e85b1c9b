"""Simulation of all ranks' schedules by SimGrid, an independent witness of the clock.

The clock (:func:`xetile.distributed.prediction.clock`) follows one rank, whose messages come as fast as its wire takes
them. SimGrid follows all ranks: those that are late hold others up, and messages share wires.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from xegpu.support.errors import ArgumentError, ToolError
from xetile.compiler.arguments import AtTheCall
from xetile.distributed.grid import Grid
from xetile.distributed.prediction import Machine, find_machine
from xetile.distributed.schedule import schedule
from xetile.distributed.steps import Add, Broadcast, Multiply, Pack, Receive, Schedule, Send, Wait

VARIABLE = "XETILE_SIMGRID"
"""Names a Python that has SimGrid."""
MOST_RANKS = 1024
_SYSTEM = "/usr/bin/python3"
"""Debian's Python, for which its package python3-simgrid is."""


def find_python() -> str:
    """A Python that has SimGrid: that of ``XETILE_SIMGRID``, else this one, else the system's.

    Raises:
        ToolError: none has it.
    """
    named = os.environ.get(VARIABLE)
    for python in (named,) if named else (sys.executable, _SYSTEM):
        if Path(python).exists() and subprocess.run([python, "-c", "import simgrid"], capture_output=True,
                                                    check=False).returncode == 0:
            return python
    raise ToolError("XT7252", f"no Python has SimGrid: {named or f'{sys.executable}, {_SYSTEM}'}",
                    f"install it: apt-get install python3-simgrid, or pip install simgrid; {VARIABLE} names the Python "
                    "that has it")


def simulate(grid: Grid, machine: str | Machine, *, panel: int | None = None, overlap: str = "chunked") -> float:
    """Seconds of a product, by a simulation of all ranks; a prediction as well.

    Args:
        grid: the process grid, of at most 1024 ranks.
        machine: where.
        panel, overlap: as for :func:`xetile.distributed.plan`.

    Raises:
        ToolError: SimGrid is not installed, or it failed.
        ArgumentError: more ranks than are simulated, or no such machine.
    """
    with AtTheCall():
        found = find_machine(machine)
        if grid.ranks > MOST_RANKS:
            raise ArgumentError("XT7253", f"{grid.ranks} ranks are simulated one by one, {MOST_RANKS} at most",
                                "choose fewer: --ranks 12,96")
    problem = {"node": found.node, "inside": found.inside, "outside": found.outside, "latency": found.latency,
               "ranks": [_steps(schedule(grid, rank, panel=panel, overlap=overlap), found)
                         for rank in range(grid.ranks)]}
    program = Path(__file__).with_name("simgrid_actors.py")
    done = subprocess.run([find_python(), str(program)], input=json.dumps(problem), capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise ToolError("XT7252", f"SimGrid failed: {done.stderr.strip().splitlines()[-1]}",
                        "this is its own message; version 3.32 was tried")
    return float(done.stdout)


def _steps(plan: Schedule, machine: Machine) -> list[list[Any]]:
    """Steps as the simulation reads them: buffers, bytes and seconds."""
    steps: list[list[Any]] = []
    for step in plan.steps:
        match step:
            case Pack():
                steps.append(["pack", step.target])
            case Send():
                steps.append(["send", step.buffer, step.region.rows, step.peer, step.bytes])
            case Receive():
                steps.append(["receive", step.buffer, step.peer])
            case Broadcast():
                steps.append(["broadcast", step.buffer, step.root, step.ranks, step.bytes])
            case Multiply() if not step.is_empty:
                seconds = step.flops / machine.rate(plan.grid.dtype) + machine.launch
                steps.append(["multiply", step.a, step.b, step.region.rows, seconds])
            case Add():
                steps.append(["add", step.source, step.target, step.region.rows])
            case Wait():
                steps.append(["wait"])
    return steps
