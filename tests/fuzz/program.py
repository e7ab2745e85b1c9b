"""Programs of the generator: a graph of statements, each with its Python text and what it does in NumPy.

All program instances run at once: the value of a vector has an axis for them in front, and control flow is a mask of
the instances that are active. An instance is a subgroup, or in a kernel with work-group maps a work-group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from tests.fuzz.numerics import Array

Shape = tuple[int, int]
Function = Callable[..., Any]


@dataclass(frozen=True)
class Map:
    """A work-group map, as the generator sees it."""

    layout: Shape
    data: Shape

    def __str__(self) -> str:
        return f"xt.wg_map({self.layout}, {self.data})"

    def distributes(self, shape: Shape) -> bool:
        """Whether blocks go evenly to the subgroups."""
        return all(size % data == 0 and (size % (data * count) == 0 or (data * count) % size == 0)
                   for size, data, count in zip(shape, self.data, self.layout, strict=True))

    def rounds(self, shape: Shape) -> int:
        """Blocks of one subgroup."""
        return prod(max(size // (data * count), 1) for size, data, count in
                    zip(shape, self.data, self.layout, strict=True))


@dataclass(eq=False)
class Value:
    """A traced value.

    Attributes:
        name: its Python variable.
        dtype: the element type; ``"tile"`` for a tile.
        shape: rows and columns, () for a number.
        map: how a work-group's vector is distributed.
        low, high: bounds of its integers; None for floats that may be anything.
        exact: whether it is compared bit by bit.
        zero_sign: whether the sign of a zero is defined.
        uniform: whether it is the same in all instances and loop steps (numbers only).
        array: the array of a tile.
    """

    name: str
    dtype: str
    shape: Shape | tuple[()]
    map: Map | None = None
    low: int | None = None
    high: int | None = None
    exact: bool = True
    zero_sign: bool = True
    uniform: bool = False
    array: ArrayArg | None = None

    @property
    def most(self) -> int | None:
        """The largest absolute value, None if it is not known to be an integer."""
        return None if self.low is None or self.high is None else max(-self.low, self.high)


@dataclass(eq=False)
class ArrayArg:
    """An array argument.

    Attributes:
        name: its parameter.
        dtype: element type.
        rows, columns: sizes as (a, b, c, d): a + b * instances along rows and columns of the grid, or c, d for both.
        low, high: bounds of its data.
        order: ``"C"`` or ``"F"``, how it is stored.
        step: distance of elements in a row, in elements.
        aligned: whether it starts at, and has a pitch of, multiples of 64 bytes.
        pad: elements between rows.
        written: whether the kernel writes it.
        promised: whether ``init_tile`` says the order.
        exact: whether what is written is compared bit by bit.
        rank: 1 for a flat array of ``columns`` elements, 2, or 3 for a batch of ``batch`` matrices.
    """

    name: str
    dtype: str
    rows: tuple[int, int]
    columns: tuple[int, int]
    low: int | None
    high: int | None
    order: str = "C"
    step: int = 1
    aligned: bool = False
    pad: int = 0
    written: bool = False
    rank: int = 2
    batch: int = 1
    promised: bool = False
    exact: bool = True

    def sizes(self, instances: Shape) -> tuple[int, ...]:
        """Its shape for a grid."""
        rows = max(1, self.rows[0] + self.rows[1] * instances[0])
        columns = max(1, self.columns[0] + self.columns[1] * instances[1])
        if self.rank == 1:
            return (max(1, self.columns[0] + self.columns[1] * instances[0] * instances[1]),)
        return (rows, columns) if self.rank == 2 else (self.batch, rows, columns)


@dataclass(eq=False)
class Number:
    """A number argument: an index (``int``), ``i64`` or ``f32``."""

    name: str
    dtype: str
    low: int
    high: int


class State:
    """State of the evaluation of a launch.

    Attributes:
        x, y: position of each instance along rows and columns of all instances.
        group: work-group of each instance.
        arrays: contents by name.
        numbers: values of number arguments by name.
        shared: shared local memory by name, with an axis for work-groups.
        values: what is computed so far.
    """

    def __init__(self, grid: Shape, subgroups: Shape, arrays: dict[str, Array], numbers: dict[str, Any]) -> None:
        count = grid[0] * subgroups[0], grid[1] * subgroups[1]
        self.grid, self.subgroups = grid, subgroups
        self.count = count[0] * count[1]
        self.x, self.y = (each.ravel() for each in np.indices(count))
        self.group = self.x // subgroups[0] * grid[1] + self.y // subgroups[1]
        self.subgroup = self.x % subgroups[0] * subgroups[1] + self.y % subgroups[1]
        self.groups = grid[0] * grid[1]
        self.arrays, self.numbers = arrays, numbers
        self.shared: dict[str, Array] = {}
        self.values: dict[Value, Any] = {}


class Node:
    """A statement of a program."""

    def results(self) -> Iterable[Value]:
        """The values that it defines."""
        return ()

    def uses(self) -> Iterable[Value]:
        """The values that it needs from outside."""
        raise NotImplementedError

    def has_effect(self) -> bool:
        """Whether it must stay if nothing uses its results."""
        return False

    def nodes(self) -> Sequence[Node]:
        """The statements inside."""
        return ()

    def text(self) -> Iterator[str]:
        """Its lines of Python."""
        raise NotImplementedError

    def run(self, state: State, active: Array) -> None:
        """Do it, for the active instances."""
        raise NotImplementedError


@dataclass(eq=False)
class Let(Node):
    """``value = expression``: a template of the operands' names, and a function of their values."""

    value: Value
    template: str
    operands: tuple[Value, ...]
    function: Function

    def results(self) -> Iterable[Value]:
        return (self.value,)

    def uses(self) -> Iterable[Value]:
        return self.operands

    def text(self) -> Iterator[str]:
        yield f"{self.value.name} = {self.template.format(*(each.name for each in self.operands))}"

    def run(self, state: State, active: Array) -> None:
        state.values[self.value] = self.function(state, *(state.values[each] for each in self.operands))


@dataclass(eq=False)
class Effect(Node):
    """A statement that writes memory: a function of the state, the active instances and the operands' values.

    Attributes:
        arrays: names of the arguments that it writes.
        ordinal: its position among all effects of the program.
    """

    template: str
    operands: tuple[Value, ...]
    function: Function
    arrays: tuple[str, ...] = ()
    ordinal: int = -1

    def uses(self) -> Iterable[Value]:
        return self.operands

    def has_effect(self) -> bool:
        return True

    def text(self) -> Iterator[str]:
        yield from self.template.format(*(each.name for each in self.operands)).split("\n")

    def run(self, state: State, active: Array) -> None:
        self.function(state, active, *(state.values[each] for each in self.operands))


def merged(active: Array, new: Any, old: Any) -> Any:
    """New values of active instances, old ones of the others."""
    shape = (-1,) + (1,) * (np.ndim(new) - 1)
    return np.where(active.reshape(shape), new, old)


@dataclass(eq=False)
class Loop(Node):
    """``for index in xt.range(start, stop, step)`` with values that it carries: (before, inside, yielded, behind).

    Attributes:
        counted: by ``xt.range``; otherwise by ``xt.while_``, and the index is a number that the body adds to.
    """

    index: Value
    start: Value | int
    stop: Value | int
    step: int
    options: str
    body: list[Node] = field(default_factory=list)
    carried: list[tuple[Value, Value, Value, Value]] = field(default_factory=list)
    counted: bool = True

    def results(self) -> Iterable[Value]:
        return [behind for *_, behind in self.carried]

    def uses(self) -> Iterable[Value]:
        bounds = [each for each in (self.start, self.stop) if isinstance(each, Value)]
        return [*bounds, *(each for before, _, yielded, _ in self.carried for each in (before, yielded)),
                *(each for node in self.body for each in node.uses())]

    def has_effect(self) -> bool:
        return any(node.has_effect() for node in self.body)

    def nodes(self) -> Sequence[Node]:
        return self.body

    def text(self) -> Iterator[str]:
        for before, inside, _, _ in self.carried:
            yield f"{inside.name} = {before.name}"
        start, stop = (each.name if isinstance(each, Value) else str(each) for each in (self.start, self.stop))
        index = self.index.name
        lines = [line for node in self.body for line in node.text()]
        pairs = [(pair[1].name, pair[2].name) for pair in self.carried]
        if self.counted:
            yield f"for {index} in xt.range({start}, {stop}, {self.step}{self.options}):"
        else:
            yield f"{index} = xt.scalar({start})"
            yield f"for _ in xt.while_(lambda: {index} < {stop}):"
            pairs.append((index, f"{index} + {self.step}"))
        if pairs:
            lines.append(f"{', '.join(left for left, _ in pairs)} = {', '.join(right for _, right in pairs)}")
        yield from (f"    {line}" for line in lines or ["pass"])
        for _, inside, _, behind in self.carried:
            yield f"{behind.name} = {inside.name}"

    def run(self, state: State, active: Array) -> None:
        start, stop = (np.asarray(state.values[each] if isinstance(each, Value) else each) for each in
                       (self.start, self.stop))
        position = np.broadcast_to(start, (state.count,)).astype(np.int64)
        for before, inside, _, _ in self.carried:
            state.values[inside] = state.values[before]
        while (running := active & (position < stop)).any():
            state.values[self.index] = position
            for node in self.body:
                node.run(state, running)
            new = [state.values[yielded] for _, _, yielded, _ in self.carried]
            for (_, inside, _, _), value in zip(self.carried, new, strict=True):
                state.values[inside] = merged(running, value, state.values[inside])
            position = position + self.step
        for _, inside, _, behind in self.carried:
            state.values[behind] = state.values[inside]


@dataclass(eq=False)
class When(Node):
    """``with xt.when(condition)`` and ``xt.otherwise()``, with values they choose: (then, otherwise, behind)."""

    condition: Value
    then: list[Node] = field(default_factory=list)
    otherwise: list[Node] | None = None
    chosen: list[tuple[Value, Value, Value]] = field(default_factory=list)

    def results(self) -> Iterable[Value]:
        return [behind for *_, behind in self.chosen]

    def uses(self) -> Iterable[Value]:
        return [self.condition, *(each for then, otherwise, _ in self.chosen for each in (then, otherwise)),
                *(each for node in self.nodes() for each in node.uses())]

    def has_effect(self) -> bool:
        return any(node.has_effect() for node in self.nodes())

    def nodes(self) -> Sequence[Node]:
        return [*self.then, *(self.otherwise or ())]

    def text(self) -> Iterator[str]:
        if self.otherwise is None:  # what stands behind is what was there before, or what the body rebinds it to
            yield from (f"{behind.name} = {before.name}" for _, before, behind in self.chosen)
        for header, body, side in ((f"with xt.when({self.condition.name}):", self.then, 0),
                                   ("with xt.otherwise():", self.otherwise, 1)):
            if body is None:
                continue
            yield header
            lines = [line for node in body for line in node.text()]
            lines += [f"{pair[2].name} = {pair[side].name}" for pair in self.chosen]
            yield from (f"    {line}" for line in lines or ["pass"])

    def run(self, state: State, active: Array) -> None:
        condition = state.values[self.condition]
        for body, mask in ((self.then, active & condition), (self.otherwise, active & ~condition)):
            for node in body or ():
                node.run(state, mask)
        for then, otherwise, behind in self.chosen:
            state.values[behind] = merged(condition, state.values[then], state.values[otherwise])


def live(nodes: Sequence[Node]) -> list[Node]:
    """The statements that something written depends on, inside of loops and conditions too."""
    return _live(nodes, set())


def _live(nodes: Sequence[Node], needed: set[Value]) -> list[Node]:
    kept: list[Node] = []
    for node in reversed(nodes):
        if isinstance(node, Loop):
            node.carried = _needed_carried(node, needed)
            node.body = _live(node.body, needed | {yielded for _, _, yielded, _ in node.carried})
        elif isinstance(node, When):
            node.chosen = [each for each in node.chosen if each[2] in needed]
            node.then = _live(node.then, needed | {then for then, _, _ in node.chosen})
            if node.otherwise is not None:
                node.otherwise = _live(node.otherwise, needed | {other for _, other, _ in node.chosen})
        if node.has_effect() or any(result in needed for result in node.results()):
            kept.append(node)
            needed.update(node.uses())
    return kept[::-1]


def _needed_carried(loop: Loop, needed: set[Value]) -> list[tuple[Value, Value, Value, Value]]:
    """Loop-carried values that are used behind the loop, or in its body for those."""
    carried = [each for each in loop.carried if each[3] in needed]
    while True:
        inside = set(needed) | {yielded for _, _, yielded, _ in carried}
        for node in reversed(loop.body):
            if node.has_effect() or any(result in inside for result in node.results()):
                inside.update(node.uses())
        more = [each for each in loop.carried if each in carried or each[1] in inside]
        if len(more) == len(carried):
            return more
        carried = more


@dataclass
class Program:
    """A kernel: its arguments and statements.

    Attributes:
        subgroups: subgroups of a work-group.
        mapped: whether work-group maps distribute its vectors, so that an instance is a work-group.
        launches: (grid, seed of the data) of each launch.
        features: names of what it has, for statistics.
        helpers: the texts of functions that the kernel calls.
        packed: whether the arguments come in one nested tuple.
    """

    subgroups: Shape
    mapped: bool
    arrays: list[ArrayArg]
    numbers: list[Number]
    body: list[Node]
    launches: list[tuple[Shape, int]]
    features: set[str] = field(default_factory=set)
    helpers: list[str] = field(default_factory=list)
    packed: bool = False

    def source(self) -> str:
        """The kernel in Python."""
        decorator = "@xt.kernel" if self.mapped or self.subgroups == (1, 1) else \
            f"@xt.kernel(subgroups={self.subgroups})"
        parameters = ", ".join(each.name for each in (*self.arrays, *self.numbers))
        lines = [line for node in self.body for line in node.text()] or ["pass"]
        if self.packed:
            arrays, numbers = ("".join(f"{each.name}, " for each in group) for group in (self.arrays, self.numbers))
            lines.insert(0, f"({arrays}), ({numbers}) = packed")
            parameters = "packed"
        body = "\n".join(lines)
        called = [each for each in self.helpers if f"{each.partition('def ')[2].partition('(')[0]}(" in body]
        return "\n".join(["import xetile as xt", "", "", *called, decorator, f"def kernel({parameters}):",
                          *(f"    {line}" for line in lines), ""])

    def call(self, arrays: list[Any], numbers: list[Any]) -> tuple[Any, ...]:
        """The arguments of a call."""
        return ((tuple(arrays), tuple(numbers)),) if self.packed else (*arrays, *numbers)

    def instances(self, grid: Shape) -> Shape:
        """Instances along rows and columns."""
        return grid if self.mapped else (grid[0] * self.subgroups[0], grid[1] * self.subgroups[1])

    def evaluate(self, grid: Shape, arrays: dict[str, Array], numbers: dict[str, Any]) -> State:
        """Run it in NumPy; what it writes is in ``arrays``."""
        state = State(grid, (1, 1) if self.mapped else self.subgroups, arrays, numbers)
        with np.errstate(all="ignore"):
            for node in self.body:
                node.run(state, np.ones(state.count, bool))
        return state
