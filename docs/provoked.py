"""Errors of the catalogue that take a fault of a device, a tool or a file, by their codes.

Each function makes the fault, often by putting something broken in the place of a part of the package, and calls what
an author calls. Only pages marked ``provoked`` are made so; where a few lines of an author's own make an error, the
page has them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import xetile as xt
from xetile import executors

BY_CODE: dict[str, Callable[[], object]] = {}


def provokes(code: str) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Put a function down as the one that makes the error of a code."""
    def put(act: Callable[[], object]) -> Callable[[], object]:
        BY_CODE[code] = act
        return act
    return put


@xt.kernel
def clear(C):
    xt.store_tile(xt.zeros((8, 16), xt.f32), xt.init_tile(C, (0, 0), (8, 16)))


MATRIX = xt.Spec((None, None), "f32")


def edited(old: str, new: str) -> Path:
    """A file with the subgroup stage of :func:`clear`, edited."""
    path = Path("subgroup.mlir")
    path.write_text(clear.lower(MATRIX).stages["subgroup"].replace(old, new), encoding="utf-8")
    return path


@contextlib.contextmanager
def asked(**variables: str) -> Iterator[None]:
    """Environment variables, set for a while."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@provokes("XT1612")
def another_stage() -> None:
    clear.override("xegpu", edited("", ""))


@provokes("XT1613")
def another_kernel() -> None:
    clear.override("subgroup", edited("@clear", "@cleared"))


@provokes("XT1614")
def other_arguments() -> None:
    clear.override("subgroup", edited("@clear(", "@clear(%n: index, "))


@provokes("XT1620")
def another_debugging() -> None:
    clear.forget()
    with asked(XETILE_DEBUG="trace"):
        _ = clear.lower(MATRIX).opencl


@provokes("XT1621")
def dumps_into_a_file() -> None:
    clear.forget()
    Path("taken").write_text("a file stands where the folder should be", encoding="utf-8")
    with asked(XETILE_DEBUG="dump", XETILE_DEBUG_DIR="taken"):
        _ = clear.lower(MATRIX).opencl


@provokes("XT4000")
def another_gpu() -> None:
    with mock.patch.object(executors, "device_target", return_value="dg2"):
        clear.on("opencl:cpu", target="pvc")
