"""What a compiler refused, told in terms of the author's lines: one error for all compilers, and their logs in files.

The emitted text names the line of the source that the lines below came from (``// gemm.py:34``), so that a compiler's
``12:5: error`` leads back to it.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from pathlib import Path

from xegpu.support.errors import ToolError

_POSITION = re.compile(r"(?::|^\s*)(\d+):(\d+): (?:fatal )?error:\s*(.*)")
_PLACE = re.compile(r"\s*// ([^\s:]+:\d+)\s*$")


def refusal(failure: str, log: str, text: str = "") -> ToolError:
    """The error for a program that a compiler did not take.

    Args:
        failure: who refused what, as in ``"ocloc refused gemm for pvc"``.
        log: what it printed.
        text: the source that it was given; empty for what is no text.
    """
    message, position = _complaint(log)
    place, quoted = _origin(text, position)
    came = f" (in the code of {place})" if place else ""
    path = _kept(log, text)
    hint = f"the compiler's line is `{quoted}`; " if quoted else ""
    hint += f"its whole log, and the text, are in {path}" if path else "its whole log is in .log of this error"
    return ToolError("XT5110", f"{failure}{came}: {message}", hint, log=log)


def first_error(log: str) -> str:
    """The line of a compiler's log that says what is wrong: the first with "error" in it, else the first at all."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    for pattern in (r"\berror:", r"(?i)\berror\b"):
        if found := next((line for line in lines if re.search(pattern, line)), None):
            return found
    return lines[0] if lines else "it printed nothing"


def _complaint(log: str) -> tuple[str, int | None]:
    """What is wrong, without the name of a temporary file; and on which line of the text."""
    line = first_error(log)
    found = _POSITION.search(line)
    return (found[3], int(found[1])) if found else (line, None)


def _origin(text: str, line: int | None) -> tuple[str, str]:
    """The author's file and line that a line of the text came from, and that line of the text."""
    lines = text.splitlines()
    if line is None or not 0 < line <= len(lines):
        return "", ""
    places = (found[1] for above in reversed(lines[:line]) if (found := _PLACE.match(above)))
    return next(places, ""), lines[line - 1].strip()


def _kept(log: str, text: str) -> Path | None:
    """A file with the log and the text; None where none can be written."""
    mark = hashlib.sha256((log + text).encode(errors="replace")).hexdigest()[:8]
    path = Path(tempfile.gettempdir()) / f"xetile-refused-{mark}.log"
    try:
        path.write_text(f"{log}\n{'-' * 40}\n{text}", errors="replace")
    except OSError:
        return None
    return path
