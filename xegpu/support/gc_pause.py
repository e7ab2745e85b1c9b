"""Pauses of Python's cyclic garbage collector while many long-lived objects are built."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the cyclic GC: IR objects are long-lived, and every collection would rescan them."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@contextmanager
def gc_paused_for_import() -> Iterator[None]:
    """Pause the cyclic GC, then move the new objects to its oldest generation: classes and functions of an import.

    They live as long as Python; as young objects they would be rescanned, a tenth of the time of an import.
    """
    with gc_paused():
        yield
        if not gc.get_freeze_count():  # a program that froze its own objects keeps them frozen
            gc.freeze()
            gc.unfreeze()  # moves them to the oldest generation without scanning any
