"""Delta debugging: the shortest sequence of choices whose program still fails in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from tests.fuzz.cases import optimised, program_of, repeated
from tests.fuzz.choices import Choices
from tests.fuzz.execute import Mismatch, check
from tests.fuzz.program import Program

Fails = Callable[[Program], bool]


def fails_like(found: Mismatch, seed: int) -> Fails:
    """Whether a program fails in the execution of a failure, in the same way."""

    def fails(program: Program) -> bool:
        try:
            check(repeated(program, [found.execution]), [found.execution], optimise=optimised(seed))
        except Mismatch as other:
            return other.kind == found.kind
        return False

    return fails


def minimised(choices: Sequence[int], fails: Fails, seconds: float = 120) -> tuple[list[int], Program]:
    """The smallest failing case that is found in time.

    Args:
        choices: of a failing case.
        fails: whether a program still fails.
        seconds: the time to search.

    Returns:
        the choices, and their program.
    """
    end = time.monotonic() + seconds
    best = Choices(replay=choices)
    program = program_of(best)
    tried: set[str] = set()
    progress = True
    while progress and time.monotonic() < end:
        progress = False
        for candidate in _candidates(best):
            if time.monotonic() > end:
                break
            trial = Choices(replay=candidate)
            smaller = _attempt(trial)
            if smaller is None or _size(trial, smaller) >= _size(best, program):
                continue
            text = f"{smaller.source()}{smaller.arrays}{smaller.launches}"
            if text in tried:
                continue
            tried.add(text)
            if fails(smaller):
                best, program, progress = trial, smaller, True
                break
    return best.record, program


def _attempt(choices: Choices) -> Program | None:
    """The program of changed choices; None where the generator cannot go on with them."""
    try:
        return program_of(choices)
    except (IndexError, AssertionError):
        return None


def _size(choices: Choices, program: Program) -> tuple[int, int, int]:
    return len(program.source().splitlines()), len(choices.record), sum(choices.record)


def _candidates(best: Choices) -> Iterator[list[int]]:
    """Choices without a span, the longest first; then with smaller numbers."""
    record = best.record
    for start, end in sorted(set(best.spans), key=lambda span: span[0] - span[1]):
        if start < end:
            yield record[:start] + record[end:]
    for start, end in sorted(set(best.spans), key=lambda span: span[0] - span[1]):
        if end - start < 40 and any(record[start:end]):
            yield record[:start] + [0] * (end - start) + record[end:]
    for position, value in enumerate(record):
        if value:
            yield [*record[:position], 0, *record[position + 1:]]
    for position, value in enumerate(record):
        if 1 < value < 100:
            yield [*record[:position], value // 2, *record[position + 1:]]
