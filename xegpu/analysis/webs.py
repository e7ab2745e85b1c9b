"""Groups the values of a kernel that must be treated alike: a *web* is a value with all that it is carried into."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from xdsl.dialects import func, scf
from xdsl.ir import Operation, SSAValue, Use

from xegpu.ir.traits import MovesView

Links = Callable[[Operation], Iterable[SSAValue]]
Found = TypeVar("Found")


class Webs:
    """The webs of a function.

    Loops join what they carry: initial value, block argument, yielded value and result; branches join what they yield
    with the result. Other operations join the values that ``links`` names for them.

    """

    def __init__(self, function: func.FuncOp, links: Links) -> None:
        self._parent: dict[SSAValue, SSAValue] = {}
        for operation in function.walk():
            if isinstance(operation, scf.ForOp):
                self._join_loop(operation)
            if isinstance(operation, scf.IfOp):
                self._join_branches(operation)
            self._join(list(links(operation)))
        self._noted: dict[tuple[str, SSAValue], Any] = {}
        self._members: dict[SSAValue, list[SSAValue]] = defaultdict(list)
        for value in self._parent:
            self._members[self.root(value)].append(value)

    def _join_loop(self, loop: scf.ForOp) -> None:
        block = loop.body.block
        assert block.last_op is not None
        for group in zip(loop.iter_args, block.args[1:], block.last_op.operands, loop.results, strict=True):
            self._join(list(group))

    def _join_branches(self, branches: scf.IfOp) -> None:
        ends = [region.block.last_op for region in branches.regions if branches.results and region.blocks]
        for group in zip(branches.results, *(end.operands for end in ends if end is not None), strict=True):
            self._join(list(group))

    def _join(self, values: list[SSAValue]) -> None:
        for value in values:
            first, other = self.root(values[0]), self.root(value)
            self._parent.setdefault(first, first)
            self._parent[other] = first

    def root(self, value: SSAValue) -> SSAValue:
        """The value that stands for the web of ``value``."""
        while (parent := self._parent.get(value, value)) is not value:
            value = parent
        return value

    def note(self, word: str, value: SSAValue, find: Callable[[SSAValue], Found]) -> Found:
        """What is true of the whole web of ``value``, found out once: webs are as long as a kernel that is unrolled."""
        key = word, self.root(value)
        if key not in self._noted:
            self._noted[key] = find(value)
        found: Found = self._noted[key]
        return found

    def members(self, value: SSAValue) -> list[SSAValue]:
        """Every value of the web of ``value``."""
        return self._members.get(self.root(value), [value])

    def uses(self, value: SSAValue) -> list[Use]:
        """Every use of a member of the web, other than by loops, and by the terminators of loops and branches."""
        return [use for member in self.members(value) for use in member.uses
                if not isinstance(use.operation, (scf.ForOp, scf.YieldOp))]


def view_webs(function: func.FuncOp) -> Webs:
    """Tiles and descriptors of a function, each with those that it is moved and carried into."""
    return Webs(function, _moved_views)


def _moved_views(operation: Operation) -> Iterable[SSAValue]:
    return (operation.operands[0], operation.results[0]) if operation.has_trait(MovesView) else ()
