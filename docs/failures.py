"""Failures on the pages: programs, texts and commands that end in an error, and the message that they give.

Each takes the block's text, the argument of its mark and a folder for its files, and gives the message.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import IndexType, MemRefType, ModuleOp

import xetile as xt
from codegen.runtime.devices import find_queue
from xegpu.ir.dtypes import of_mlir
from xetile.tools.cli import main

sys.path.insert(0, str(Path(__file__).parent))
import provoked


def raises(text: str, _argument: str, folder: Path) -> str:
    """A program, as a file ``kernel.py`` of its own, with NumPy, ml_dtypes and xetile imported."""
    file = folder / "kernel.py"
    file.write_text(text + "\n", encoding="utf-8")
    linecache.checkcache(str(file))  # a page may have several programs
    namespace = {"xt": xt, "np": np, "ml_dtypes": ml_dtypes, "__name__": "kernel"}
    with inside(folder):
        return _message(lambda: exec(compile(text, str(file), "exec"), namespace))


def reads(text: str, target: str, _folder: Path) -> str:
    """A text of MLIR; if it reads and a target is named, its kernels are lowered for arrays as they say."""
    def read() -> None:
        for kernel in xt.parse(text, "kernel.mlir").values():
            if target:
                _ = kernel.lower(*_described(kernel.module), target=target).opencl
    return _message(read)


def _described(module: ModuleOp) -> Iterator[Any]:
    """Arguments of a kernel's text: arrays and numbers of their types."""
    function = next(operation for operation in module.walk() if isinstance(operation, func.FuncOp))
    for type_ in function.function_type.inputs:
        if isinstance(type_, MemRefType):
            yield xt.Spec(tuple(None if size < 0 else size for size in type_.get_shape()), of_mlir(type_.element_type))
        else:
            yield 0 if isinstance(type_, IndexType) else of_mlir(type_).numpy.type(0)


def command(text: str, _argument: str, folder: Path) -> str:
    """A line for the command line, in the folder of the page's files."""
    words = shlex.split(text)
    assert words[0] == "xetile", text
    with inside(folder), contextlib.redirect_stderr(io.StringIO()) as said, contextlib.redirect_stdout(io.StringIO()):
        assert main(words[1:]) == 1, f"{text}: it does not fail"
    return said.getvalue().rstrip("\n")


def by_hand(_text: str, code: str, folder: Path) -> str:
    """Provocation of a code, of docs/provoked.py."""
    with inside(folder):
        return _message(provoked.BY_CODE[code])


FAILING: dict[str, Callable[[str, str, Path], str]] = {
    "raises": raises, "reads": reads, "command": command, "provoked": by_hand}


def plain(message: str, folder: Path) -> str:
    """A message without what differs between machines and runs."""
    message = message.replace(f"{folder}/", "")
    message = re.sub(r"(the devices here are ).*", r"\1opencl:cpu:0 (...)", message)
    message = re.sub(r"(xetile-refused-)\w+", r"\1...", message)
    message = re.sub(r"/[\w/.-]*/(?=xetile-refused)", "/tmp/", message)
    message = re.sub(r"\n  called from .*(failures|provoked)\.py:.*", "", message)
    message = re.sub(r"\n +\S*provoked\.py:\d+.*\n.*\n *\^+", "", message)
    message = re.sub(r" at 0x[0-9a-f]+>", " at 0x...>", message)
    for name in _devices():
        message = message.replace(name, "THE DEVICE")
    return message


def _devices() -> Iterator[str]:
    with contextlib.suppress(xt.XeError):
        yield find_queue("opencl:cpu").sycl_device.name.strip()


def _message(act: Callable[[], object]) -> str:
    try:
        act()
    except xt.XeError as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError("this raises no XeError")


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """The current folder is another one."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
