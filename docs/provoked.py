"""Errors of the catalogue that take a fault of a device, a tool or a file, by their codes.

Each function makes the fault, often by putting something broken in the place of a part of the package, and calls what
an author calls. Only pages marked ``provoked`` are made so; where a few lines of an author's own make an error, the
page has them.
"""

from __future__ import annotations

import builtins
import contextlib
import io
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from xetile import roofline
from xetile.commands.output import write_bytes

BY_CODE: dict[str, Callable[[], object]] = {}


def provokes(code: str) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Put a function down as the one that makes the error of a code."""
    def put(act: Callable[[], object]) -> Callable[[], object]:
        BY_CODE[code] = act
        return act
    return put


@contextlib.contextmanager
def without_module(name: str) -> Iterator[None]:
    """Imports of a package fail, as they do where it is not installed."""
    real = builtins.__import__

    def refuse(wanted: str, *rest: Any, **more: Any) -> Any:
        if wanted.partition(".")[0] == name:
            raise ImportError(f"No module named {name!r}")
        return real(wanted, *rest, **more)

    with mock.patch.object(builtins, "__import__", refuse):
        yield


@provokes("XT8003")
def machine_code_on_a_terminal() -> object:
    """Standard output is a terminal, as it is for somebody who forgets ``-o``."""
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    with contextlib.redirect_stdout(Terminal()):
        return write_bytes(b"\x7fELF", None)


@provokes("XT7162")
def no_matplotlib() -> object:
    """matplotlib does not import."""
    with without_module("matplotlib"):
        return roofline.plot("roofline.png", [])
