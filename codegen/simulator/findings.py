"""Findings: faults of a kernel that hardware does not report, with the instruction and the thread that made them."""

from __future__ import annotations

from xegpu.support.errors import valid_code

ACCESSES = ("reads", "writes", "updates", "prefetches", "waits")


class Finding(Exception):
    """A fault of a kernel that ran as machine code.

    Args:
        code: its code in the catalogue of errors.
        message: what is wrong, without the thread.
        hint: what would work.
        thread: index of the thread among those that run, None for none in particular.

    Attributes:
        offset: byte offset of the instruction in the kernel's code; the one who steps through the code sets it.
        group, subgroup: coordinates x, y, z of the work-group, and the number in it; set with ``offset``.
        access: what the instruction does, the message's first word: ``reads``, ``writes``, ``updates``, ``prefetches``
            or ``waits``; empty for anything else.
    """

    def __init__(self, code: str, message: str, hint: str, thread: int | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.thread = valid_code(code), message, hint, thread
        self.offset: int | None = None
        self.group: tuple[int, int, int] | None = None
        self.subgroup = 0

    @property
    def access(self) -> str:
        """Kind of access of the instruction, by the first word of the message."""
        first = self.message.partition(" ")[0]
        return first if first in ACCESSES else ""

    @property
    def in_shared_memory(self) -> bool:
        """Whether it is about shared local memory."""
        return "shared local memory" in self.message

    @property
    def where(self) -> str:
        """The subgroup and work-group, in words."""
        return "" if self.group is None else f"subgroup {self.subgroup} of work-group {self.group}"

    def __str__(self) -> str:
        at = "" if self.offset is None else f" (instruction at {self.offset:#x})"
        return f"[{self.code}] {self.where}{': ' if self.where else ''}{self.message}{at}; {self.hint}"
