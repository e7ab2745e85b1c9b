"""Python's garbage collector, made to wait where many objects are made that all stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_waits() -> Iterator[None]:
    """Python's garbage collector waits: it would go through all operations of a kernel, again and again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@contextmanager
def all_stays() -> Iterator[None]:
    """The collector waits, and then takes what was made for old: classes and functions, which stay while Python runs.

    It would go through them as young objects, again and again, which takes a tenth of the time of an import.
    """
    with collection_waits():
        yield
        if not gc.get_freeze_count():  # a program that froze its own objects keeps them frozen
            gc.freeze()
            gc.unfreeze()  # puts them among the oldest, without looking at any
