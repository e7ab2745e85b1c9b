"""Generator of programs: arguments, values in scope, and the order of statements.

What statements there are is in the modules of :mod:`tests.fuzz.statements`; each makes its text and its NumPy function
at once. Bounds of integers are followed, so that sums are exact and signed arithmetic does not overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from tests.fuzz.choices import Choices
from tests.fuzz.edits import Edits
from tests.fuzz.numerics import EXACT, FLOATS, HOLDS, SIGNED, UNSIGNED, is_float, limits
from tests.fuzz.program import ArrayArg, Effect, Function, Let, Map, Node, Number, Program, Shape, Value, live

ROWS = (8, 1, 2, 3, 4, 5, 7, 12, 16, 24, 32)
COLUMNS = (16, 1, 2, 3, 4, 7, 8, 15, 17, 24, 31, 32, 48, 64)
TYPES = ("f32", "i32", *FLOATS[1:], *SIGNED[1:], *UNSIGNED)
MOST_ELEMENTS = 512
MOST_ROUNDS = 6
"""Blocks of a subgroup, each of which is lowered separately: compiling more takes minutes."""


class Generator:
    """A program in the making: arguments, scope, statements.

    Attributes:
        choices: the source of all decisions.
        layouts: work-group layouts of the kernel's number of subgroups; empty for a kernel without maps.
        scope: values that later statements may use.
        depth: loops and conditions around.
        uniform: whether all instances come here equally often, so that shared memory may be exchanged.
        helpers: texts of functions that the kernel calls.
        position: index values of the instance along rows and columns.
    """

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.arrays: list[ArrayArg] = []
        self.numbers: list[Number] = []
        self.features: set[str] = set()
        self.scope: list[Value] = []
        self.body: list[Node] = []
        self.depth = 0
        self.uniform = True
        self.helpers: list[str] = []
        self.outputs = 0
        self._names = 0
        mapped = choices.chance(0.3)
        count = choices.pick((1, 2, 4, 8)) if mapped else 1
        self.layouts = [(n, count // n) for n in (1, 2, 4, 8) if n <= count] if mapped else []
        self.subgroups: Shape = (1, 1)
        if not mapped and choices.chance(0.3):
            self.subgroups = choices.pick(((2, 1), (1, 2), (2, 2), (4, 1), (1, 3)))
        self.types = [choices.pick(TYPES) for _ in range(2)]
        self.position = self._position(0), self._position(1)

    @property
    def mapped(self) -> bool:
        """Whether the kernel has work-group maps."""
        return bool(self.layouts)

    def _position(self, axis: int) -> Value:
        own = f" * {self.subgroups[axis]} + xt.subgroup_id({axis})" if self.subgroups != (1, 1) else ""
        return self.let(f"xt.group_id({axis}){own}", (), lambda state: (state.x, state.y)[axis].astype(np.int64),
                        "index", (), low=0, high=16)

    def name(self, letter: str) -> str:
        """A new Python name."""
        self._names += 1
        return f"{letter}{self._names}"

    def let(self, template: str, operands: Sequence[Value], function: Function, dtype: str,
            shape: Shape | tuple[()], map_: Map | None = None, *, low: int | None = None, high: int | None = None,
            exact: bool = True, zero_sign: bool = True, uniform: bool = False, array: ArrayArg | None = None) -> Value:
        """A new value: ``template`` of its operands' names, computed by ``function(state, *operands)``."""
        if low is not None and high is not None and is_float(dtype) and max(-low, high) > EXACT[dtype]:
            low = high = None
        letter = "t" if dtype == "tile" else "v" if shape else "s"
        value = Value(self.name(letter), dtype, shape, map_, low, high, exact, zero_sign, uniform, array)
        self.body.append(Let(value, template, tuple(operands), function))
        self.scope.append(value)
        return value

    def effect(self, template: str, operands: Sequence[Value], function: Function, *arrays: str) -> None:
        """A statement that writes memory."""
        self.body.append(Effect(template, tuple(operands), function, arrays))

    def array(self, dtype: str, rows: tuple[int, int], columns: tuple[int, int], low: int | None, high: int | None,
              *, written: bool = False, rank: int = 2) -> ArrayArg:
        """A new array argument; how it lies in memory is chosen."""
        choices, layout = self.choices, ArrayArg(self.name("O" if written else "A"), dtype, rows, columns, low, high,
                                                 written=written, rank=rank)
        if rank > 1 and choices.chance(0.25):
            layout.order = "F"
            layout.promised = choices.chance(0.4)
        if choices.chance(0.5):
            layout.aligned = True
        else:
            layout.pad = choices.below(9)
            layout.step = choices.pick((1, 1, 1, 1, 2, 3))
        if layout.promised:
            layout.step = 1
        if rank == 3:
            layout.batch = choices.between(1, 3)
        self.arrays.append(layout)
        return layout

    def number(self, dtype: str) -> Value:
        """A number argument as a value."""
        low, high = {"index": (0, 5), "f32": (-9, 9)}.get(dtype, (-9, 9))
        argument = Number(self.name("n"), dtype, low, high)
        self.numbers.append(argument)
        return self.let(argument.name, (), lambda state: np.full(state.count, state.numbers[argument.name],
                                                                 HOLDS[dtype]),
                        dtype, (), low=low, high=high, uniform=True)

    def data_range(self, dtype: str) -> tuple[int | None, int | None]:
        """Bounds of an array's data: small integers, all that the type holds, or for floats anything."""
        if dtype == "i1":
            return 0, 1
        choice = self.choices.below(8)
        if is_float(dtype):
            if choice == 7 and dtype in FLOATS:
                return None, None
            most = min((4, 4, 4, 1, 16, 100, 100, 4)[choice], EXACT[dtype])
            return -most, most
        low, high = limits(dtype)
        if choice == 7:
            return low, high
        most = (5, 5, 1, 20, 100, 100, 127)[choice]
        return max(low, -most), min(high, most)

    def shape(self) -> Shape:
        """The shape of a new vector."""
        if self.scope and self.choices.chance(0.6) and (known := [each.shape for each in self.scope if each.shape]):
            return self.choices.pick(known[::-1])  # type: ignore[return-value]
        if self.mapped:
            layout = self.choices.pick(self.layouts)
            rows, columns = self.choices.pick((8, 1, 4, 16, 3)), self.choices.pick((16, 32, 8, 1))
            times = self.choices.pick((1, 2, 3)), self.choices.pick((1, 2))
            return min(64, rows * layout[0] * times[0]), min(64, columns * layout[1] * times[1])
        rows, columns = self.choices.pick(ROWS), self.choices.pick(COLUMNS)
        while rows * columns > MOST_ELEMENTS:
            rows //= 2
        return rows, columns

    def map(self, shape: Shape) -> Map | None:
        """A map for a shape; None in a kernel without."""
        if not self.mapped:
            return None
        found = [each for layout in self.layouts for rows in (8, 16, 32, 1, 2, 3, 4, shape[0])
                 for columns in (16, 32, 8, 64, 1, shape[1])
                 if (each := Map(layout, (rows, columns))).distributes(shape)
                 and rows * columns <= MOST_ELEMENTS and each.rounds(shape) <= MOST_ROUNDS]
        return self.choices.pick(found)

    def vectors(self, wanted: Callable[[Value], bool] = lambda value: True) -> list[Value]:
        """Vectors in scope that may be computed with, the last first."""
        return [each for each in reversed(self.scope) if each.shape and each.exact
                and each.dtype not in ("tile", "index") and wanted(each)]

    def vector(self, wanted: Callable[[Value], bool] = lambda value: True) -> Value | None:
        """One of the vectors in scope, later ones more often."""
        found = self.vectors(wanted)
        return self.choices.pick(found[:8]) if found else None

    def scalars(self, wanted: Callable[[Value], bool]) -> list[Value]:
        """Numbers in scope, the last first."""
        return [each for each in reversed(self.scope) if each.shape == () and each.dtype != "tile" and wanted(each)]

    def dtype(self) -> str:
        """An element type for something new, mostly one of the program's two."""
        if self.choices.chance(0.25):
            return self.choices.pick(TYPES)
        return self.choices.pick(self.types)

    @contextmanager
    def nested(self, *, uniform: bool) -> Iterator[list[Node]]:
        """The body of a loop or a condition; what it defines is not in scope behind it."""
        outside, scope, was_uniform = self.body, list(self.scope), self.uniform
        self.body, self.depth, self.uniform = [], self.depth + 1, was_uniform and uniform
        yield self.body
        self.body, self.scope, self.depth, self.uniform = outside, scope, self.depth - 1, was_uniform


Statement = Callable[[Generator], object]


def mentioned_arrays(body: Sequence[Node], text: str) -> Callable[[str], bool]:
    """Whether a name is a word of the program's text."""
    words = set("".join(each if each.isalnum() else " " for each in text).split())
    return words.__contains__


def generate(choices: Choices, statements: Sequence[tuple[int, Statement]], finish: Statement,
             edits: Edits | None = None) -> Program:
    """A program.

    Args:
        choices: the decisions.
        statements: weights, and what makes a statement.
        finish: stores what is left over.
        edits: what the minimiser changes of it.
    """
    generator = Generator(choices)
    weighted = [statement for weight, statement in statements for _ in range(weight)]
    first = statements[0][1]
    with choices.span():
        first(generator)
    for _ in range(40):
        with choices.span():
            if not choices.chance(0.9):
                break
            choices.pick(weighted)(generator)
    with choices.span():
        finish(generator)
    launches = []
    for _ in range(choices.pick((2, 3, 4))):
        with choices.span():
            launches.append(((choices.pick((1, 2, 3)), choices.pick((1, 2, 3))), choices.below(2**31)))
    generator.body = (edits or Edits()).apply(generator.body)
    program = Program(generator.subgroups, generator.mapped, generator.arrays, generator.numbers, live(generator.body),
                      launches, generator.features, generator.helpers, choices.chance(0.1))
    used = mentioned_arrays(program.body, program.source().partition("):")[2])
    program.arrays = [each for each in program.arrays if used(each.name)]
    program.numbers = [each for each in program.numbers if used(each.name)]
    return program
