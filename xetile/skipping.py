"""Keeps the body of a ``with`` statement from running, for kernels that run themselves."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any


class _Skip(BaseException):
    """Leaves the body of a ``with`` statement before its first instruction."""


class BodySkip:
    """Keeps the body of the ``with`` statement that ``frame`` is entering from running.

    Python offers no way for a context manager to do so but a trace function that raises in the frame. One that a
    debugger has set is put back when the statement is left.
    """

    def __init__(self, frame: FrameType) -> None:
        self._frame, self._local, self._global = frame, frame.f_trace, sys.gettrace()
        self._opcodes = frame.f_trace_opcodes
        frame.f_trace, frame.f_trace_opcodes = self._raise, True
        sys.settrace(lambda *_: None)

    def _raise(self, frame: FrameType, event: str, argument: object) -> Any:
        self._restore()
        raise _Skip

    def _restore(self) -> None:
        self._frame.f_trace, self._frame.f_trace_opcodes = self._local, self._opcodes
        sys.settrace(self._global)

    def swallows(self, kind: type[BaseException] | None) -> bool:
        """Whether an exception that leaves the body is this one's; the trace functions are as they were then.

        It is the last thing that ``__exit__`` calls. A trace function in C, as coverage has, takes over again at the
        next call: were that one inside ``__exit__``, it would see a return whose call it has not seen, and lose count.
        """
        self._restore()
        return kind is _Skip
