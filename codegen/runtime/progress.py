"""Progress bars on standard error, by rich; without rich, or where standard error is no terminal, there are none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

_shown: list[str] = []
"""The bar that is shown: a terminal has room for one, so that a build within a search for configurations has none."""


class Advance(Protocol):
    """Function that moves a bar on."""

    def __call__(self, more: float, /) -> None: ...


@contextmanager
def progress_bar(name: str, total: float, describe: Callable[[float], str] | None = None, *,
                 is_wanted: bool = True) -> Iterator[Advance]:
    """Progress bar, which disappears at the end.

    Args:
        name: text in front of the bar.
        total: the count when all is done.
        describe: text behind the bar for what is done; by default ``3 of 12``. A ``total`` of 0 has no bar, only that.
        is_wanted: False for none.

    Yields:
        a function that advances the bar.
    """
    if not is_wanted or _shown or not sys.stderr.isatty():
        yield _ignore
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        yield _ignore
        return
    text = describe or (lambda done: f"{done:.0f} of {total:.0f}")
    columns = TextColumn("{task.description}"), *((BarColumn(),) if total else ()), \
        TextColumn("{task.fields[text]}"), *((TimeRemainingColumn(),) if total else ())
    _shown.append(name)
    try:
        with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
            task, done = progress.add_task(name, total=total or None, text=text(0)), 0.0

            def advance(more: float, /) -> None:
                nonlocal done
                done += more
                progress.update(task, completed=done, text=text(done))

            progress.refresh()  # a compiler that holds Python's lock lets nothing be drawn later
            yield advance
    finally:
        _shown.clear()


def _ignore(more: float, /) -> None:
    """Progress callback that draws nothing."""
