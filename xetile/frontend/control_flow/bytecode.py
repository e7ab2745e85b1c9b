"""Bytecode liveness: the ``for`` or ``with`` statement of a running frame, and reads of locals in and after it.

Liveness follows every control-flow path of the function, since a body that ends a Python loop is followed by that
loop's header. A Python loop counts as one that runs at least once. All of this reads CPython's bytecode, which is
private to each version: opcode names below are those of 3.10 to 3.13, and the comments say which version has what.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from types import CodeType, FrameType
from typing import Any

_FILLERS = ("CACHE", "EXTENDED_ARG", "NOP")
"""Instructions without an effect: inline caches (from 3.11 on), prefixes of large arguments, padding."""
_DROPS = ("POP_TOP", "POP_EXCEPT")
"""Instructions that clean the stack up where a statement is left."""
_ENDS = ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE")
"""Terminators without a successor; RETURN_CONST is there from 3.12 on."""
_TAIL = 12
"""Longest epilogue, in instructions, that :func:`_tail` compares: the compiler copies short ones only."""


@dataclass(frozen=True)
class Statement:
    """Statement whose body runs once while a kernel is recorded.

    Attributes:
        code: code object of the function.
        head: offset of the instruction that starts the body: ``FOR_ITER``, or the one that enters a ``with``.
        rest: offset of the first instruction after the statement.
    """

    code: CodeType
    head: int
    rest: int

    def reads_inside(self, name: str) -> bool:
        """Whether a local is live-in of the body: it may be read before it is written there."""
        first = _following(self.code, self.head)
        return first is not None and _may_read(self.code, first, name, {self.head, self.rest})

    def reads_after(self, name: str) -> bool:
        """Whether a local is live-out of the statement: it may be read after it before it is written."""
        return _may_read(self.code, self.rest, name, set())

    def is_left_at_its_end(self, frame: FrameType) -> bool:
        """Whether a ``with`` statement that is being left falls through to the next statement.

        ``return``, ``break`` and ``continue`` leave it too, to other targets.
        """
        after = _following(self.code, frame.f_lasti)
        return after is not None and (_settled(self.code, after) == _settled(self.code, self.rest)
                                      or _tail(self.code, after) == _tail(self.code, self.rest) != ())

    def leads_straight_to(self, other: Statement) -> bool:
        """Whether ``other`` follows without a store, deletion or branch in between."""
        offset: int | None = self.rest
        while offset is not None and offset != other.head:
            instruction = _instructions(self.code)[offset]
            if instruction.opname.startswith(("STORE_", "DELETE_", *_ENDS)) or _is_conditional(instruction):
                return False
            offset = _jump(instruction) if _jump(instruction) is not None else _following(self.code, offset)
        return offset is not None


def at_for_statement(frame: FrameType) -> bool:
    """Whether ``frame`` is at a ``for`` statement, calling ``__iter__``.

    A comprehension calls ``__iter__`` too, but its next instruction is not FOR_ITER.
    """
    names = [instruction.opname for offset, instruction in _instructions(frame.f_code).items()
             if offset >= frame.f_lasti and instruction.opname not in _FILLERS]
    return names[:2] == ["GET_ITER", "FOR_ITER"]


def for_statement(frame: FrameType) -> Statement | None:
    """``for`` statement whose header ``frame`` executes, calling ``__next__``; None elsewhere."""
    head, _ = _instruction_at(frame.f_code, frame.f_lasti)
    return Statement(frame.f_code, head.offset, int(head.argval)) if head.opname == "FOR_ITER" else None


def with_statement(frame: FrameType) -> Statement | None:
    """``with`` statement that ``frame`` is about to enter; None elsewhere."""
    code = frame.f_code
    head, before = _instruction_at(code, frame.f_lasti)
    # BEFORE_WITH up to 3.13; 3.14 loads __enter__ with LOAD_SPECIAL, and a call follows.
    if head.opname != "BEFORE_WITH" and before.opname != "LOAD_SPECIAL":
        return None
    first = _following(code, head.offset)
    # The exception table, which dis decodes but does not document; it is there from 3.11 on.
    entries: list[Any] = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]
    handler = next((entry.target for entry in entries if first is not None and entry.start <= first < entry.end), None)
    while handler is not None:  # a suppressed exception continues after the statement
        instruction = _instructions(code)[handler]
        if "IF_TRUE" in instruction.opname:  # jumps where __exit__ returned true
            return Statement(code, head.offset, _settled(code, int(instruction.argval)))
        handler = _following(code, handler)
    return None


def loop_variable(frame: FrameType) -> str | None:
    """Name of the loop variable at whose header ``frame`` is; None if the target is not a single name."""
    offset = _following(frame.f_code, frame.f_lasti)
    instruction = None if offset is None else _instructions(frame.f_code)[offset]
    stores = instruction is not None and instruction.opname.startswith("STORE_")
    return instruction.argval if stores and isinstance(instruction.argval, str) else None  # type: ignore[union-attr]


@lru_cache(maxsize=256)
def _instructions(code: CodeType) -> dict[int, dis.Instruction]:
    """Instructions of a code object by offset, without fillers."""
    return {instruction.offset: instruction for instruction in dis.get_instructions(code)
            if instruction.opname not in _FILLERS}


@lru_cache(maxsize=256)
def _order(code: CodeType) -> dict[int, int]:
    """Offset of each instruction to that of the next one."""
    offsets = list(_instructions(code))
    return dict(pairwise(offsets))


def _instruction_at(code: CodeType, offset: int) -> tuple[dis.Instruction, dis.Instruction]:
    """Instruction that executes at an offset, and the one before it; ``f_lasti`` may be in the inline caches behind
    it."""
    before = [instruction for instruction in _instructions(code).values() if instruction.offset <= offset]
    return before[-1], before[-2]


def _following(code: CodeType, offset: int) -> int | None:
    """Offset of the instruction after the one at an offset."""
    offset_here = _instruction_at(code, offset)[0].offset
    return _order(code).get(offset_here)


def _is_jump(instruction: dis.Instruction) -> bool:
    """Whether an instruction has a jump target."""
    return instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs


def _is_conditional(instruction: dis.Instruction) -> bool:
    """Whether an instruction is a conditional branch."""
    return _is_jump(instruction) and (not instruction.opname.startswith("JUMP_") or "_IF_" in instruction.opname)


def _jump(instruction: dis.Instruction) -> int | None:
    """Target of an unconditional jump; None for other instructions."""
    return int(instruction.argval) if _is_jump(instruction) and not _is_conditional(instruction) else None


def _target(code: CodeType, offset: int) -> int:
    """First instruction at or after an offset: a jump may lead to a filler."""
    return next(found for found in _instructions(code) if found >= offset)


def _straight(code: CodeType, offset: int) -> Iterator[dis.Instruction]:
    """Straight-line instructions from an offset, unconditional jumps followed, up to a branch or a terminator."""
    for _ in range(len(_instructions(code))):
        instruction = _instructions(code)[_target(code, offset)]
        jump = _jump(instruction)
        if jump is None:
            yield instruction
            if _is_conditional(instruction) or instruction.opname in _ENDS:
                return
        offset = _order(code)[instruction.offset] if jump is None else jump


def _settled(code: CodeType, offset: int) -> int:
    """Offset of the first instruction on the path from an offset that is not cleanup."""
    return next(instruction.offset for instruction in _straight(code, offset) if instruction.opname not in _DROPS)


def _tail(code: CodeType, offset: int) -> tuple[tuple[str, Any], ...]:
    """Epilogue: the few instructions up to a return, which the compiler duplicates; empty if it is longer."""
    found = []
    for instruction in _straight(code, offset):
        if instruction.opname not in _DROPS:
            found.append((instruction.opname, instruction.argval))
        if instruction.opname.startswith("RETURN_"):
            return tuple(found)
        if len(found) == _TAIL:
            break
    return ()


def _may_read(code: CodeType, start: int, name: str, stops: set[int]) -> bool:
    """Whether a local may be read before it is written on some path from an offset (backward liveness, by search)."""
    worklist, visits = [start], dict.fromkeys(_instructions(code), 0)
    while worklist:
        offset = worklist.pop()
        if offset in stops:
            continue
        instruction = _instructions(code)[_target(code, offset)]
        offset = instruction.offset
        visits[offset] += 1
        loops = instruction.opname == "FOR_ITER"
        use = _local_use(instruction, name)
        if use == "read":
            return True
        if offset in stops or use == "write" or visits[offset] > 1 + loops:
            continue
        worklist += _successors(code, instruction, visits[offset])
    return False


def _successors(code: CodeType, instruction: dis.Instruction, visit: int) -> list[int]:
    """Successors of an instruction; the second visit of a loop header leaves the loop."""
    follows = _order(code).get(instruction.offset)
    if instruction.opname in _ENDS or follows is None:
        return []
    if instruction.opname == "FOR_ITER":
        return [follows] if visit == 1 else [int(instruction.argval)]
    jump = _jump(instruction)
    if jump is not None:
        return [jump]
    return [follows, int(instruction.argval)] if _is_jump(instruction) else [follows]


def _local_use(instruction: dis.Instruction, name: str) -> str:
    """Use of a local by an instruction: ``"read"``, ``"write"`` or ``""``."""
    names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
    if name not in names:
        return ""
    if instruction.opname.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_NAME")):
        return "read"
    if instruction.opname.startswith(("STORE_FAST", "STORE_DEREF", "STORE_NAME")):
        # STORE_FAST_LOAD_FAST (3.13) writes its first variable and reads its second.
        pair = instruction.opname == "STORE_FAST_LOAD_FAST"
        return "read" if pair and names[0] != name else "write"
    return ""
