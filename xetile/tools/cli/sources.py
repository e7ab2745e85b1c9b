"""Kernels from files: MLIR text, or Python with decorated functions."""

from __future__ import annotations

import difflib
import importlib.util
import sys
from pathlib import Path

from xegpu.support.errors import ArgumentError
from xetile.jit.base import BaseKernel
from xetile.jit.parsed import parse

_STANDARD_INPUT = "-"


def kernels_of(file: str, name: str | None) -> dict[str, BaseKernel]:
    """The kernels of a file, by name.

    Args:
        file: a path of MLIR text, ``-`` for standard input, or a path of Python ending in ``.py`` or ``.py:kernel``.
        name: the only kernel that is wanted.

    Raises:
        ArgumentError: there is no such file, or no such kernel in it.
        TextError: the text does not parse.
    """
    path, separator, behind = file.rpartition(":")
    if separator and path.endswith(".py"):
        if name not in (None, behind):
            raise ArgumentError("XT8011",
                                f"{file} names the kernel {behind}, and --kernel names {name}", "name it once")
        file, name = path, behind
    found = _of_python(file) if file.endswith(".py") else _of_text(file)
    if name is None:
        return found
    if name not in found:
        near = difflib.get_close_matches(name, found, 1)
        raise ArgumentError("XT8012", f"{file} has no kernel {name}",
                            f"did you mean {near[0]}?" if near else f"its kernels are {', '.join(found) or 'none'}")
    return {name: found[name]}


def kernel_of(file: str, name: str | None) -> BaseKernel:
    """The one kernel of a file, or that of a name.

    Raises:
        ArgumentError: as :func:`kernels_of`, or there are several and no name.
    """
    found = kernels_of(file, name)
    if len(found) != 1:
        raise ArgumentError("XT8013", f"{file} has {len(found)} kernels" + (f": {', '.join(found)}" if found else ""),
                            f"choose one: --kernel {next(iter(found))}" if found else "decorate one with @xt.kernel")
    return next(iter(found.values()))


def _of_text(file: str) -> dict[str, BaseKernel]:
    name = "<stdin>" if file == _STANDARD_INPUT else file
    return dict(parse(text_of(file), name))


def text_of(file: str) -> str:
    """The text in a file, or on standard input.

    Raises:
        ArgumentError: it cannot be read.
    """
    try:
        return sys.stdin.read() if file == _STANDARD_INPUT else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError("XT8014",
                            f"{file} cannot be read: {_reason(error)}", "give the path of MLIR text, or - for standard "
                            "input; of a Python file the name ends in .py") from None


def _of_python(file: str) -> dict[str, BaseKernel]:
    path = Path(file).resolve()
    if not path.is_file():
        raise ArgumentError("XT8014", f"{file} cannot be read: there is no such file", "give the path of a Python file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ArgumentError("XT8014", f"{file} is no Python file", "give the path of a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    sys.modules.setdefault(path.stem, module)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ArgumentError("XT8015", f"{file} fails when it is imported: {type(error).__name__}: {_reason(error)}",
                            f"run it by itself: python {file}") from error
    return {kernel.name: kernel for kernel in vars(module).values() if isinstance(kernel, BaseKernel)}


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error).partition("\n")[0]
