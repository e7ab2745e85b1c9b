"""Edits of a generated program: effects that are left out, and values that others stand for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.fuzz.program import Effect, Let, Loop, Node, Value, When


@dataclass(frozen=True)
class Edits:
    """Changes by the minimiser.

    Attributes:
        dropped: effects that are left out, by their position among all.
        renamed: values that stand for others, by name.
    """

    dropped: frozenset[int] = frozenset()
    renamed: dict[str, str] = field(default_factory=dict)

    def without(self, effects: Iterable[int]) -> Edits:
        """With more effects left out."""
        return Edits(self.dropped | frozenset(effects), self.renamed)

    def renaming(self, name: str, other: str) -> Edits:
        """With a value that stands for one more."""
        return Edits(self.dropped, {**self.renamed, name: other})

    def apply(self, nodes: Sequence[Node]) -> list[Node]:
        """The edited statements; effects are numbered."""
        self._number(nodes, 0)
        values = {value.name: value for value in _defined(nodes)}
        return self._edited(nodes, {values[name]: values[self._last(name)] for name in self.renamed if name in values
                                    and self._last(name) in values})

    def _last(self, name: str) -> str:
        while name in self.renamed:
            name = self.renamed[name]
        return name

    def _number(self, nodes: Sequence[Node], next_: int) -> int:
        for node in nodes:
            if isinstance(node, Effect):
                node.ordinal = next_
                next_ += 1
            next_ = self._number(node.nodes(), next_)
        return next_

    def _edited(self, nodes: Sequence[Node], stands: dict[Value, Value]) -> list[Node]:
        kept = [node for node in nodes if not (isinstance(node, Effect) and node.ordinal in self.dropped)]

        def of(value: Value) -> Value:
            return stands.get(value, value)

        for node in kept:
            if isinstance(node, (Let, Effect)):
                node.operands = tuple(map(of, node.operands))
            elif isinstance(node, Loop):
                node.body = self._edited(node.body, stands)
                node.start, node.stop = (of(each) if isinstance(each, Value) else each for each in
                                         (node.start, node.stop))
                node.carried = [(of(before), inside, of(yielded), behind)
                                for before, inside, yielded, behind in node.carried]
            elif isinstance(node, When):
                node.then = self._edited(node.then, stands)
                node.otherwise = None if node.otherwise is None else self._edited(node.otherwise, stands)
                node.condition = of(node.condition)
                node.chosen = [(of(then), of(other), behind) for then, other, behind in node.chosen]
        return kept


def _defined(nodes: Iterable[Node]) -> Iterable[Value]:
    for node in nodes:
        if isinstance(node, Loop):
            yield node.index
            yield from (inside for _, inside, _, _ in node.carried)
        yield from _defined(node.nodes())
        yield from node.results()
