"""What the bytecode of a running function says of the ``for`` or ``with`` statement that it stands at.

Whether a variable may be read before it is written is followed along every way through the function, since a body that
ends a Python loop is followed by that loop's head. A Python loop counts as one that runs at least once.
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
_DROPS = ("POP_TOP", "POP_EXCEPT")
_ENDS = ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE")
_TAIL = 12
"""Instructions up to a return that two ways out of a statement are compared by."""


@dataclass(frozen=True)
class Statement:
    """A statement with a body that runs once while a kernel is recorded.

    Attributes:
        code: the function.
        head: offset of the instruction that starts the body: ``FOR_ITER``, or the one that enters a ``with``.
        rest: offset of what comes behind the statement.
    """

    code: CodeType
    head: int
    rest: int

    def reads_inside(self, name: str) -> bool:
        """Whether the body may read a local variable before it writes it."""
        first = _following(self.code, self.head)
        return first is not None and _may_read(self.code, first, name, {self.head, self.rest})

    def reads_after(self, name: str) -> bool:
        """Whether a local variable may be read behind the statement before it is written there."""
        return _may_read(self.code, self.rest, name, set())

    def is_left_at_its_end(self, frame: FrameType) -> bool:
        """Whether a ``with`` statement that is being left goes on with what comes behind it.

        ``return``, ``break`` and ``continue`` leave it too, and are told from its end by where they go.
        """
        after = _following(self.code, frame.f_lasti)
        return after is not None and (_settled(self.code, after) == _settled(self.code, self.rest)
                                      or _tail(self.code, after) == _tail(self.code, self.rest) != ())

    def leads_straight_to(self, other: Statement) -> bool:
        """Whether nothing comes between this statement and ``other`` but the making of what that enters."""
        offset: int | None = self.rest
        while offset is not None and offset != other.head:
            instruction = _instructions(self.code)[offset]
            if instruction.opname.startswith(("STORE_", "DELETE_", *_ENDS)) or _is_conditional(instruction):
                return False
            offset = _jump(instruction) if _jump(instruction) is not None else _following(self.code, offset)
        return offset is not None


def at_for_statement(frame: FrameType) -> bool:
    """Whether ``frame`` stands at the head of a ``for`` statement, about to take an iterator.

    A comprehension takes its iterator too, but does not start to iterate with its next instruction.
    """
    names = [instruction.opname for offset, instruction in _instructions(frame.f_code).items()
             if offset >= frame.f_lasti and instruction.opname not in _FILLERS]
    return names[:2] == ["GET_ITER", "FOR_ITER"]


def for_statement(frame: FrameType) -> Statement | None:
    """The loop at whose head ``frame`` stands, asking for an item; None if it stands somewhere else."""
    head, _ = _standing(frame.f_code, frame.f_lasti)
    return Statement(frame.f_code, head.offset, int(head.argval)) if head.opname == "FOR_ITER" else None


def with_statement(frame: FrameType) -> Statement | None:
    """The ``with`` statement that ``frame`` is about to enter; None if it stands somewhere else."""
    code = frame.f_code
    head, before = _standing(code, frame.f_lasti)
    if head.opname != "BEFORE_WITH" and before.opname != "LOAD_SPECIAL":
        return None
    first = _following(code, head.offset)
    entries: list[Any] = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]
    handler = next((entry.target for entry in entries if first is not None and entry.start <= first < entry.end), None)
    while handler is not None:  # where an exception is swallowed, the statement ends as if nothing had happened
        instruction = _instructions(code)[handler]
        if "IF_TRUE" in instruction.opname:
            return Statement(code, head.offset, _settled(code, int(instruction.argval)))
        handler = _following(code, handler)
    return None


def loop_variable(frame: FrameType) -> str | None:
    """The name of the variable of the loop at whose head ``frame`` stands, None if it is more than a name."""
    offset = _following(frame.f_code, frame.f_lasti)
    instruction = None if offset is None else _instructions(frame.f_code)[offset]
    stores = instruction is not None and instruction.opname.startswith("STORE_")
    return instruction.argval if stores and isinstance(instruction.argval, str) else None  # type: ignore[union-attr]


@lru_cache(maxsize=256)
def _instructions(code: CodeType) -> dict[int, dis.Instruction]:
    return {instruction.offset: instruction for instruction in dis.get_instructions(code)
            if instruction.opname not in _FILLERS}


@lru_cache(maxsize=256)
def _order(code: CodeType) -> dict[int, int]:
    """Each instruction's offset to that of the next one."""
    offsets = list(_instructions(code))
    return dict(pairwise(offsets))


def _standing(code: CodeType, offset: int) -> tuple[dis.Instruction, dis.Instruction]:
    """The instruction that runs, and the one before it; a frame may stand on the caches behind an instruction."""
    before = [instruction for instruction in _instructions(code).values() if instruction.offset <= offset]
    return before[-1], before[-2]


def _following(code: CodeType, offset: int) -> int | None:
    standing = _standing(code, offset)[0].offset
    return _order(code).get(standing)


def _is_jump(instruction: dis.Instruction) -> bool:
    return instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs


def _is_conditional(instruction: dis.Instruction) -> bool:
    return _is_jump(instruction) and (not instruction.opname.startswith("JUMP_") or "_IF_" in instruction.opname)


def _jump(instruction: dis.Instruction) -> int | None:
    """Where an unconditional jump goes."""
    return int(instruction.argval) if _is_jump(instruction) and not _is_conditional(instruction) else None


def _target(code: CodeType, offset: int) -> int:
    """The first instruction at or behind an offset: a jump may lead to one that does nothing."""
    return next(found for found in _instructions(code) if found >= offset)


def _straight(code: CodeType, offset: int) -> Iterator[dis.Instruction]:
    """Instructions from an offset on, jumps followed, up to one that decides or ends."""
    for _ in range(len(_instructions(code))):
        instruction = _instructions(code)[_target(code, offset)]
        jump = _jump(instruction)
        if jump is None:
            yield instruction
            if _is_conditional(instruction) or instruction.opname in _ENDS:
                return
        offset = _order(code)[instruction.offset] if jump is None else jump


def _settled(code: CodeType, offset: int) -> int:
    """Where the way from an offset does something for the first time."""
    return next(instruction.offset for instruction in _straight(code, offset) if instruction.opname not in _DROPS)


def _tail(code: CodeType, offset: int) -> tuple[tuple[str, Any], ...]:
    """The few instructions up to a return, of which the compiler makes copies; empty if there are more."""
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
    ways, visits = [start], dict.fromkeys(_instructions(code), 0)
    while ways:
        offset = ways.pop()
        if offset in stops:
            continue
        instruction = _instructions(code)[_target(code, offset)]
        offset = instruction.offset
        visits[offset] += 1
        loops = instruction.opname == "FOR_ITER"
        touch = _touch(instruction, name)
        if touch == "read":
            return True
        if offset in stops or touch == "write" or visits[offset] > 1 + loops:
            continue
        ways += _ways(code, instruction, visits[offset])
    return False


def _ways(code: CodeType, instruction: dis.Instruction, visit: int) -> list[int]:
    """Where the function may go on; a loop ends when its head is met again."""
    follows = _order(code).get(instruction.offset)
    if instruction.opname in _ENDS or follows is None:
        return []
    if instruction.opname == "FOR_ITER":
        return [follows] if visit == 1 else [int(instruction.argval)]
    jump = _jump(instruction)
    if jump is not None:
        return [jump]
    return [follows, int(instruction.argval)] if _is_jump(instruction) else [follows]


def _touch(instruction: dis.Instruction, name: str) -> str:
    touched = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
    if name not in touched:
        return ""
    if instruction.opname.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_NAME")):
        return "read"
    if instruction.opname.startswith(("STORE_FAST", "STORE_DEREF", "STORE_NAME")):
        # STORE_FAST_LOAD_FAST (3.13) writes its first variable and reads its second.
        pair = instruction.opname == "STORE_FAST_LOAD_FAST"
        return "read" if pair and touched[0] != name else "write"
    return ""
