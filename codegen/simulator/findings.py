"""Findings: faults of a kernel that hardware does not report, with the instruction and the thread that made them."""

from __future__ import annotations

from xegpu.support.errors import valid_code


class Finding(Exception):
    """A fault of a kernel that ran as machine code.

    Args:
        code: its code in the catalogue of errors.
        message: what is wrong, without the thread.
        hint: what would work.
        thread: index of the thread among those that run, None for none in particular.

    Attributes:
        offset: byte offset of the instruction in the kernel's code; the one who steps through the code sets it.
        where: the work-group and subgroup, in words; set with ``offset``.
    """

    def __init__(self, code: str, message: str, hint: str, thread: int | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.thread = valid_code(code), message, hint, thread
        self.offset: int | None = None
        self.where = ""

    def __str__(self) -> str:
        at = "" if self.offset is None else f" (instruction at {self.offset:#x})"
        return f"[{self.code}] {self.where}{': ' if self.where else ''}{self.message}{at}; {self.hint}"
