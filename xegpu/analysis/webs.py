"""Def-use webs: equivalence classes of values connected by loops, branches and updates (union-find)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from xdsl.dialects import func
from xdsl.ir import Operation, SSAValue, Use

from xegpu.ir.region_branch import LOOPS, TERMINATORS, incoming
from xegpu.ir.traits import moves_view
from xegpu.ir.traversal import operations

Links = Callable[[Operation], Iterable[SSAValue]]
Found = TypeVar("Found")

_FORWARDING = frozenset((*LOOPS, *TERMINATORS))


class Webs:
    """Def-use webs of a function.

    Loops join what they carry: initial value, block argument, yielded value and result; branches join what they yield
    with the result. Other operations join the values that ``links`` names for them.

    """

    def __init__(self, function: func.FuncOp, links: Links) -> None:
        self._parent: dict[SSAValue, SSAValue] = {}
        for operation in operations(function):
            if operation.regions:
                self._join_forwarded(operation)
            if values := list(links(operation)):
                self._join(values)
        self._noted: dict[tuple[str, SSAValue], Any] = {}
        self._members: dict[SSAValue, list[SSAValue]] = defaultdict(list)
        for value in self._parent:
            self._members[self.root(value)].append(value)

    def _join_forwarded(self, operation: Operation) -> None:
        arguments = [argument for region in operation.regions for block in region.blocks for argument in block.args]
        for value in (*arguments, *operation.results):
            if before := incoming(value):
                self._join([before[0], value, *before[1:]])

    def _join(self, values: list[SSAValue]) -> None:
        first = self.root(values[0])
        self._parent.setdefault(first, first)
        for value in values[1:]:
            self._parent[self.root(value)] = first

    def root(self, value: SSAValue) -> SSAValue:
        """Representative of the web of ``value``."""
        while (parent := self._parent.get(value, value)) is not value:
            value = parent
        return value

    def note(self, word: str, value: SSAValue, find: Callable[[SSAValue], Found]) -> Found:
        """Fact about the web of ``value``, computed by ``find`` once for each web and cached under ``word``."""
        key = word, self.root(value)
        if key not in self._noted:
            self._noted[key] = find(value)
        found: Found = self._noted[key]
        return found

    def members(self, value: SSAValue) -> list[SSAValue]:
        """Values of the web of ``value``."""
        return self._members.get(self.root(value), [value])

    def uses(self, value: SSAValue) -> list[Use]:
        """Uses of the web's members, without those by loops and by the terminators of loops and branches."""
        return [use for member in self.members(value) for use in member.uses
                if type(use.operation) not in _FORWARDING]


def view_webs(function: func.FuncOp) -> Webs:
    """Tiles and descriptors of a function, each with those that it is moved and carried into."""
    return Webs(function, _moved_views)


def _moved_views(operation: Operation) -> Iterable[SSAValue]:
    return (operation.operands[0], operation.results[0]) if moves_view(type(operation)) else ()
