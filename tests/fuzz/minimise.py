"""Delta debugging of a failing case: stores that go away, values that others stand for, simpler choices."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tests.fuzz.cases import program_of
from tests.fuzz.choices import Choices
from tests.fuzz.edits import Edits
from tests.fuzz.execute import Mismatch, check
from tests.fuzz.program import Effect, Let, Loop, Node, Program, Value, When

Fails = Callable[[Program], bool]


def fails_like(found: Mismatch, *, optimise: bool) -> Fails:
    """Whether a program fails in the execution of a failure, on its data, in the same way."""

    def fails(program: Program) -> bool:
        if found.launch is not None:
            program = replace(program, launches=[found.launch])
        try:
            check(program, [found.execution], optimise=optimise)
        except Mismatch as other:
            return other.kind == found.kind
        except KeyError:  # shared memory whose store went away cannot be evaluated
            return False
        return False

    return fails


@dataclass
class _Search:
    record: list[int]
    fails: Fails
    end: float
    edits: Edits = field(default_factory=Edits)

    def __post_init__(self) -> None:
        self.program = program_of(Choices(replay=self.record), self.edits)

    def attempt(self, record: Sequence[int] | None = None, edits: Edits | None = None) -> bool:
        """Keep other choices or edits, if their program still fails."""
        record, edits = self.record if record is None else list(record), edits or self.edits
        if time.monotonic() > self.end:
            return False
        try:
            program = program_of(Choices(replay=record), edits)
        except (IndexError, AssertionError, KeyError):  # the generator cannot go on with these choices
            return False
        if _size(program) > _size(self.program) or not self.fails(program):
            return False
        self.record, self.edits, self.program = record, edits, program
        return True


def minimised(choices: Sequence[int], fails: Fails, seconds: float = 120) -> Program:
    """The smallest failing program that is found in time.

    Args:
        choices: of a failing case.
        fails: whether a program still fails.
        seconds: the time to search.
    """
    search = _Search(list(choices), fails, time.monotonic() + seconds)
    _drop_effects(search)
    while time.monotonic() < search.end and _substitute(search):
        pass
    _drop_effects(search)
    for position, value in enumerate(search.record):
        if value and not search.attempt([*search.record[:position], 0, *search.record[position + 1:]]) and value > 1:
            search.attempt([*search.record[:position], 1, *search.record[position + 1:]])
    _drop_effects(search)
    _substitute(search)
    return search.program


def _size(program: Program) -> int:
    return len(program.source().splitlines())


def _drop_effects(search: _Search) -> None:
    effects = [node.ordinal for node in _walk(search.program.body) if isinstance(node, Effect)]
    stores = [node.ordinal for node in _walk(search.program.body) if isinstance(node, Effect) and node.arrays]
    for kept in stores if len(stores) > 1 else ():
        if search.attempt(edits=search.edits.without(each for each in stores if each != kept)):
            break
    for each in reversed(effects):
        search.attempt(edits=search.edits.without([each]))


def _substitute(search: _Search) -> bool:
    """Let an earlier value stand for a later one, wherever the program still fails; whether there was any."""
    found = False
    for value, others in list(_substitutes(search.program.body, []))[::-1]:
        for other in others:
            if search.attempt(edits=search.edits.renaming(value.name, other.name)):
                found = True
                break
    return found


def _walk(nodes: Iterable[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        yield from _walk(node.nodes())


def _substitutes(nodes: Iterable[Node], scope: list[Value]) -> Iterator[tuple[Value, list[Value]]]:
    """Each vector and tile with those in scope that may stand for it: what it is made of first.

    Numbers and positions stay: instances must not write to each other's elements.
    """
    for node in nodes:
        if isinstance(node, Loop):
            yield from _substitutes(node.body, [*scope, node.index, *(inside for _, inside, _, _ in node.carried)])
        elif isinstance(node, When):
            yield from _substitutes(node.then, list(scope))
            yield from _substitutes(node.otherwise or (), list(scope))
        first = list(node.operands) if isinstance(node, Let) else [each for each in node.uses() if each in scope]
        for value in node.results():
            others = [each for each in (*first, *scope[::-1]) if _may_stand_for(each, value)]
            if others and value.shape and value.dtype != "index":
                yield value, list(dict.fromkeys(others))[:4]
        scope.extend(node.results())


def _may_stand_for(other: Value, value: Value) -> bool:
    return (other.dtype, other.shape, other.map, other.array) == (value.dtype, value.shape, value.map, value.array)
