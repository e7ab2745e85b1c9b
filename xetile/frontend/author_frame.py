"""Author's frames: which running functions are the author's, and errors for their calls of the language."""

from __future__ import annotations

import inspect
import re
import sys
from types import FrameType

from xegpu.support.errors import ArgumentError, XeError
from xegpu.support.location import Location
from xetile.frontend.foreign_names import signature_text

_PACKAGE = __name__.partition(".")[0]
_OURS = f"{_PACKAGE}."
_LIBRARY = f"{_PACKAGE}.library"
"""Prefix of the library's modules, whose kernels count as authors' code."""


def author_frame() -> FrameType | None:
    """Innermost frame of the author's code."""
    frame: FrameType | None = sys._getframe(1)  # CPython: the frame of the caller
    while frame is not None and not is_authors(frame):
        frame = frame.f_back
    return frame


def is_authors(frame: FrameType) -> bool:
    """Whether a frame runs the author's code: a condition of a loop is called by this package."""
    return not _is_ours(frame.f_globals.get("__name__", ""))


def _is_ours(module: str) -> bool:
    """Whether a module is part of this package, the library excluded."""
    return module.startswith(_OURS) and not module.startswith(_LIBRARY)


def signature_error(error: TypeError) -> XeError | None:
    """Error for a call of a function of the language with wrong parameters; None for any other TypeError."""
    chain, innermost = [], error.__traceback__
    while innermost is not None:
        chain.append((innermost.tb_frame, innermost.tb_lasti))
        innermost = innermost.tb_next
    call = re.match(r"(\w+)\(\) (?:takes|got|missing)", str(error))
    public = sys.modules[_PACKAGE].__dict__.get(call[1]) if call else None
    if call is None or not inspect.isfunction(public) or not is_authors(chain[-1][0]):
        return None
    location = Location(tuple((frame.f_code, at) for frame, at in reversed(chain) if is_authors(frame)))
    masked = re.search(r"unexpected keyword argument '(mask|other)'$", str(error)) and "tile" in call[1]
    bounds = "; what lies outside an array needs no mask, and rows= and columns= of xt.init_tile are nearer bounds" \
        if masked else ""
    return ArgumentError("XT1084", str(error), f"call it as {signature_text(call[1], public)}{bounds}", location)
