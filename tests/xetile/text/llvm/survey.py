"""Survey of MLIR files, such as LLVM's own tests: how many functions read.

``python -m tests.xetile.text.llvm.survey FILE...`` reads each function by itself, with the aliases of its part of the
file; parts are separated by ``// -----``. A function that is not read is listed with the error's code and message, and
an error that is no XeError as a crash.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import xetile as xt

_ALIAS = re.compile(r"[#!]\w+ *=")
_HEAD = re.compile(r"\s*(?:gpu|func)\.func(?: private)? @(\w+)")


def functions(text: str) -> Iterator[tuple[str, str]]:
    """Name and text of each function of a file, alone in a ``gpu.module``."""
    for part in text.split("// -----"):
        lines = part.splitlines()
        aliases, body, name, depth = [line for line in lines if _ALIAS.match(line)], [], "", 0
        for line in lines:
            if not body and (head := _HEAD.match(line)):
                name, depth = head[1], 0
            if not name:
                continue
            body.append(line)
            depth += line.count("{") - line.count("}")
            if depth == 0 and line.strip().startswith("}"):
                yield name, "\n".join([*aliases, "gpu.module @m {", *body, "}", ""])
                body, name = [], ""


def outcome(text: str) -> str:
    """Reason why a text does not read; "" if it does."""
    try:
        xt.parse(text)
    except xt.XeError as error:
        return f"{error.code} {str(error).splitlines()[0]}"
    except Exception as error:
        return f"crash: {type(error).__name__}: {error}"
    return ""


def main(files: list[str]) -> None:
    """Print what is not read, and the counts."""
    read = count = 0
    for file in files:
        for name, text in functions(Path(file).read_text(encoding="utf-8")):
            found = outcome(text)
            count, read = count + 1, read + (not found)
            if found:
                print(f"{file}: {name}: {found}")
    print(f"{read} of {count} functions read")


if __name__ == "__main__":
    main(sys.argv[1:])
