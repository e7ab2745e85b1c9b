"""Compile errors of device compilers, mapped to the author's lines; their logs are kept in files.

The emitted text has the author's line of the statements below in comments (``// gemm.py:34``), to which a compiler's
``12:5: error`` is mapped.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from pathlib import Path

from xegpu.support.errors import ToolError

_POSITION = re.compile(r"(?::|^\s*)(\d+):(\d+): (?:fatal )?error:\s*(.*)")
_LINE_MARK = re.compile(r"\s*// ([^\s:]+:\d+)\s*$")


def refusal(failure: str, log: str, text: str = "") -> ToolError:
    """Error of a program that a compiler rejected.

    Args:
        failure: compiler and program, as in ``"ocloc refused gemm for pvc"``.
        log: the compiler's log.
        text: the source; empty for binary input.
    """
    message, position = _complaint(log)
    origin, quoted = author_line(text, position), _line(text, position)
    if position is None and "vISA inline assembly" in message:  # the line is one of the program's vISA, seen by nobody
        origin = " or ".join(_lines_with_visa(text))
    came = f" (in the code of {origin})" if origin else ""
    path = _kept(log, text)
    hint = f"the compiler's line is `{quoted}`; " if quoted else ""
    hint += f"its whole log, and the text, are in {path}" if path else "its whole log is in .log of this error"
    return ToolError("XT5110", f"{failure}{came}: {message}", hint, log=log)


def first_error(log: str) -> str:
    """First error line of a compiler's log: the first that contains "error", else the first line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    for pattern in (r"\berror:", r"(?i)\berror\b"):
        if found := next((line for line in lines if re.search(pattern, line)), None):
            return found
    return lines[0] if lines else "it printed nothing"


def _complaint(log: str) -> tuple[str, int | None]:
    """First error without the name of a temporary file, and its line number in the text."""
    line = first_error(log)
    if line.endswith(":"):  # the message is on the next line
        line = " ".join([line, *log.partition(line)[2].split("\n")[1:2]])
    found = _POSITION.search(line)
    return (found[3], int(found[1])) if found else (line, None)


def author_line(text: str, line: int | None) -> str:
    """Author's file and line that a line of an emitted text was made for, as in its comments; empty for none."""
    if not _line(text, line):
        return ""
    lines = text.splitlines()[:line]
    return next((found[1] for above in reversed(lines) if (found := _LINE_MARK.match(above))), "")


def _lines_with_visa(text: str) -> list[str]:
    """Author's files and lines of inline vISA, in functions that are called ``xetile_inline_...``."""
    marks = re.findall(r"^static [^\n]*\bxetile_inline_\w+\([^\n]*\n\{\n *// ([^\s:]+:\d+)\n(?:(?!^\}).*\n)*? *__asm__",
                       text, re.MULTILINE)
    return list(dict.fromkeys(marks))


def _line(text: str, line: int | None) -> str:
    lines = text.splitlines()
    return lines[line - 1].strip() if line is not None and 0 < line <= len(lines) else ""


def _kept(log: str, text: str) -> Path | None:
    """Write log and text to a temporary file; None where that fails."""
    mark = hashlib.sha256((log + text).encode(errors="replace")).hexdigest()[:8]
    path = Path(tempfile.gettempdir()) / f"xetile-refused-{mark}.log"
    try:
        path.write_text(f"{log}\n{'-' * 40}\n{text}", errors="replace")
    except OSError:
        return None
    return path
