"""Cases by their seeds: the program of a seed, where it runs, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.fuzz.choices import Choices
from tests.fuzz.edits import Edits
from tests.fuzz.execute import Mismatch, check
from tests.fuzz.generator import generate
from tests.fuzz.program import Program
from tests.fuzz.statements import STATEMENTS
from tests.fuzz.statements.memory import finish

LOWERED = ("opencl:cpu/cpu", "opencl:cpu/pvc", "numpy:xegpu/pvc", "opencl:cpu/dg2", "numpy:xegpu/dg2",
           "opencl:cpu/bmg", "numpy:program", "numpy:xegpu/cpu", "opencl:cpu/pvc")
"""Executions other than ``numpy``, which programs take in turn."""
MACHINE = ("machine:pvc", "machine:bmg")
"""Machine code, which few programs run as: it takes seconds."""
EVERY_LOWERED, EVERY_MACHINE = 8, 400
"""One of so many programs runs in another execution than NumPy's, and as machine code."""
EVERY_OPTIMISED = 16


@dataclass(frozen=True)
class Plan:
    """Plan of a run: the executions of cases.

    Attributes:
        executions: for all cases; empty for ``numpy`` always and the others in turn.
        every: one of so many cases runs in one of the others.
    """

    executions: tuple[str, ...] = ()
    every: int = EVERY_LOWERED

    def of(self, seed: int) -> tuple[str, ...]:
        """Executions of a seed's case."""
        if self.executions:
            return self.executions
        more: tuple[str, ...] = ()
        if seed % self.every == 0:
            more = (LOWERED[seed // self.every % len(LOWERED)],)
        if seed % EVERY_MACHINE == EVERY_MACHINE - 1:
            more = (MACHINE[seed // EVERY_MACHINE % len(MACHINE)],)
        return ("numpy", *more)


def program_of(choices: Choices, edits: Edits | None = None) -> Program:
    """The program of a sequence of choices."""
    return generate(choices, STATEMENTS, finish, edits)


def optimised(seed: int) -> bool:
    """Whether a device's compiler optimises the case: few, because that takes it ten times as long."""
    return seed // 7 % EVERY_OPTIMISED == 0


def repeated(program: Program, executions: Sequence[str], *, optimise: bool) -> Program:
    """The program with more data sets where a launch costs little beside the program.

    Arrays of other sizes may need another program: an optimiser, which takes seconds, sees those of one launch.
    """
    if optimise:
        return replace(program, launches=program.launches[:1])
    if not any(each.startswith("opencl") for each in executions):
        return program
    grids = [grid for grid, _ in program.launches] + [(1, 1), (2, 3), (3, 1), (4, 2)]
    return replace(program, launches=[(grid, number) for number, grid in enumerate(grids, program.launches[0][1])])


def run_case(seed: int, plan: Plan) -> tuple[Counter[str], Mismatch | None]:
    """Run the case of a seed; what was done, and what was wrong."""
    executions = plan.of(seed)
    optimise = optimised(seed)
    program = repeated(program_of(Choices(seed)), executions, optimise=optimise)
    try:
        return check(program, executions, f"fuzz-{seed}", optimise=optimise), None
    except Mismatch as found:
        return Counter(), found
