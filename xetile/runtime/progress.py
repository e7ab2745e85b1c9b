"""Progress bar of a long product, by rich."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(name: str, flops: int) -> Iterator[Callable[[int], None]]:
    """Progress bar on standard error; without rich, or where nobody reads along, there is none.

    Args:
        name: what is shown before the bar.
        flops: operations in all.

    Yields:
        a function that advances the bar by so many operations.
    """
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        yield _ignore
        return
    console = Console(file=sys.stderr)
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"), \
        TextColumn("{task.fields[done]} of {task.fields[whole]} TFLOP"), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(name, total=flops, done="0.0", whole=f"{flops / 1e12:.1f}")
        finished = 0

        def advance(more: int) -> None:
            nonlocal finished
            finished += more
            progress.update(task, completed=finished, done=f"{finished / 1e12:.1f}")

        yield advance


def _ignore(flops: int) -> None:
    """No bar."""
