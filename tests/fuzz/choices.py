"""Choice sequences: every decision of the generator is a number that is recorded, so that a case can be replayed.

A case is the sequence of its choices. The minimiser changes the sequence (:mod:`tests.fuzz.minimise`) and the generator
makes a program of whatever is left; 0 is the simplest choice everywhere, and stands for what the sequence has no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """A source of choices, random or replayed.

    Args:
        seed: of random choices.
        replay: the choices to repeat instead.

    Attributes:
        record: the choices that were made.
        spans: (start, end) of the choices that belong together, such as those of one statement.
    """

    def __init__(self, seed: int | str = 0, replay: Sequence[int] | None = None) -> None:
        self._random = Random(seed)
        self._replay = None if replay is None else list(replay)
        self.record: list[int] = []
        self.spans: list[tuple[int, int]] = []

    def below(self, count: int) -> int:
        """A number from 0 to ``count - 1``."""
        if self._replay is None:
            value = self._random.randrange(count)
        else:
            position = len(self.record)
            value = min(self._replay[position], count - 1) if position < len(self._replay) else 0
        self.record.append(value)
        return value

    def between(self, low: int, high: int) -> int:
        """A number from ``low`` to ``high``, both included; ``low`` is the simplest."""
        return low + self.below(high - low + 1)

    def pick(self, options: Sequence[T]) -> T:
        """One of the options; the first is the simplest."""
        return options[self.below(len(options))]

    def chance(self, probability: float) -> bool:
        """True with a probability; False is the simplest."""
        return self.below(1000) >= round(1000 * (1 - probability))

    @contextmanager
    def span(self) -> Iterator[None]:
        """Choices that belong together, and are removed together."""
        start = len(self.record)
        yield
        self.spans.append((start, len(self.record)))
