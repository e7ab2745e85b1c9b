"""Scoreboard check: registers that are used before they are delivered, overwritten too early, or never written.

Hardware waits only where the compiler's annotations (SWSB) say so. Instructions of an in-order pipe deliver their
results some instructions later; messages and matrix products deliver theirs, and read their sources, at any time until
their token is waited for. What is pending depends on the path alone: it is a state machine over basic blocks, whose
transitions are computed once, and each thread has a state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codegen.simulator.alu.dpas import is_workaround
from codegen.simulator.alu.regions import Lanes
from codegen.simulator.control_flow import Block, is_branch
from codegen.simulator.findings import Finding
from codegen.simulator.instruction import IndirectOperand, Instruction, RegisterOperand
from codegen.simulator.messages.descriptor import Message
from codegen.simulator.scoreboard_state import (
    PIPES,
    Flight,
    Footprint,
    Role,
    State,
    aged,
    discards,
    in_order_pipe,
    issued,
    leave,
    waited,
    waited_pipes,
)

_SHORT_REGISTER = 32  # bytes, of instruction sets whose math functions are out of order
_COPIES = ("mov", "sel", "csel")
"""Instructions that propagate undefined values: copies at joins of paths, selections of values that may not exist."""


class ScoreboardChecker:
    """State machine of a program: which states its instructions lead to, and which are faults.

    Args:
        instructions: the program.
        messages: its messages by the index of their instruction.
        register_bytes: bytes of a general register.
    """

    def __init__(self, instructions: Sequence[Instruction], messages: Mapping[int, Message],
                 register_bytes: int) -> None:
        self._instructions, self._messages, self._width = instructions, messages, register_bytes
        self._states: list[State] = []
        self._numbers: dict[State, int] = {}
        self._next: dict[tuple[int, int], int] = {}
        self._roles: dict[int, Role] = {}
        self._lock = Lock()

    def started(self, registers: int) -> State:
        """The state of a thread that starts: nothing is under way, and the first ``registers`` are filled."""
        return State((), (), (1 << registers * self._width) - 1)

    def number(self, state: State) -> int:
        """The number that stands for a state."""
        with self._lock:
            if state not in self._numbers:
                self._numbers[state] = len(self._states)
                self._states.append(state)
            return self._numbers[state]

    def after(self, number: int, block: Block, rows: NDArray[np.bool_]) -> int:
        """The number of the state after a block that the threads ``rows`` (T,) execute.

        Raises:
            Finding: an instruction that does not wait for what it needs, or reads what nothing wrote.
        """
        key = number, block.start
        if key not in self._next:
            state = self._states[number]
            for instruction in self._instructions[block.start:block.end]:
                try:
                    state = self.execute(state, instruction, block.start)
                except Finding as finding:
                    finding.offset, finding.thread = instruction.offset, int(np.flatnonzero(rows)[0])
                    raise
            self._next[key] = self.number(leave(state, block))
        return self._next[key]

    def execute(self, state: State, instruction: Instruction, block: int = 0) -> State:
        """The state after an instruction in the block that starts at ``block``.

        Raises:
            Finding: it does not wait for what it needs, or reads what nothing wrote.
        """
        role = self._roles.get(instruction.index)
        if role is None:
            role = self._roles[instruction.index] = self._role(instruction)
        state = waited(state, instruction, role)
        if is_branch(instruction):  # results are there before what follows it begins
            return State((), state.flights, state.written)
        if instruction.op == "join":  # it takes a place in the integer pipe
            return State(aged(state.deliveries, "I"), state.flights, state.written)
        if instruction.op in ("sync", "nop", "illegal"):
            return state
        written = state.written
        if not role.discards:
            self._check_hazards(state, instruction, role, block)
            written = self._defined(written, instruction, role.footprint)
        return issued(state, written, instruction, role, block)

    def _role(self, instruction: Instruction) -> Role:
        pipe = in_order_pipe(instruction)
        message = self._messages.get(instruction.index)
        element = 0
        if message is not None and message.result is not None and not instruction.no_mask and not message.transposed:
            element = message.slot_bytes
        return Role(pipe, self._unit(instruction), waited_pipes(instruction, pipe), self._footprint(instruction),
                    discards(instruction), element)

    def _check_hazards(self, state: State, instruction: Instruction, role: Role, block: int) -> None:
        pipe, unit, _, (read, writes, _), *_ = role
        for delivery in state.deliveries:
            if delivery.bytes & read:
                raise self._finding(instruction, f"reads {self._registers(delivery.bytes & read)} before the "
                                    f"{PIPES[delivery.pipe]} pipe has delivered it")
            if delivery.bytes & writes and delivery.pipe != pipe:
                raise self._finding(instruction, f"writes {self._registers(delivery.bytes & writes)} before "
                                    f"the {PIPES[delivery.pipe]} pipe has written it")
        for flight in state.flights:
            if unit == "dpas" and flight.unit == "dpas" and flight.token is None:
                continue  # links of one chain
            if flight.element and block not in flight.blocks and self._touches_own_lanes(instruction, flight):
                continue  # the lanes of the message are at another place, and wait before they go on
            if flight.writes & read:
                raise self._finding(instruction, f"reads {self._registers(flight.writes & read)} before {flight.name} "
                                    "has delivered it")
            if flight.writes & writes:
                raise self._finding(instruction, f"writes {self._registers(flight.writes & writes)} before "
                                    f"{flight.name} has written it")
            if flight.reads & writes and unit != flight.unit:
                raise self._finding(instruction, f"writes {self._registers(flight.reads & writes)} before "
                                    f"{flight.name} has read it")

    def _touches_own_lanes(self, instruction: Instruction, flight: Flight) -> bool:
        """Whether an instruction touches, of a message's result, the bytes of the lanes alone that run."""
        if instruction.no_mask or flight.reads & self._footprint(instruction).writes:
            return False
        message = self._messages.get(instruction.index)
        if message is not None:
            return not _union(map(self._range, message.reads)) & flight.writes and \
                message.slot_bytes == flight.element and not message.transposed
        for operand in (instruction.destination, *instruction.sources):
            if not isinstance(operand, RegisterOperand) or not self._lanes(operand, instruction) & flight.writes:
                continue
            lanes = self._positions(operand, instruction)
            own = (np.arange(len(lanes)) + instruction.first_lane) * flight.element
            # A result starts at a register's first byte, and its components take whole registers.
            aligned = (lanes - own) % self._width == 0
            if operand.type.bytes > flight.element or not aligned.all():
                return False
        return True

    def _defined(self, written: int, instruction: Instruction, footprint: Footprint) -> int:
        """Bytes of registers that are defined after an instruction; copies of undefined bytes stay undefined."""
        if isinstance(instruction.destination, IndirectOperand):  # may be any register: all count as written
            return -1
        undefined = [mask for mask in footprint.needs if mask and not mask & written]
        if not undefined or _compares_with_itself(instruction):
            return written | footprint.writes
        if instruction.op in _COPIES:
            return written
        raise Finding("XT6120", f"{instruction.name} reads {self._registers(undefined[0])}, which nothing has written",
                      "write it on every path that leads here; in inline assembly, name it as an input")

    def _unit(self, instruction: Instruction) -> str:
        """Out-of-order unit of an instruction; empty for in-order ones."""
        if instruction.op == "dpas":
            return "dpas"
        if self._width == _SHORT_REGISTER and (instruction.op == "math" or _is_long(instruction)):
            return "math"  # arl has no long pipe: f64 and conversions from it are out of order, as math functions are
        message = self._messages.get(instruction.index)
        return message.unit if message is not None else ""

    def _finding(self, instruction: Instruction, what: str) -> Finding:
        return Finding("XT6121", f"{instruction.name} {what}: its scoreboard annotation lacks a wait",
                       "the compiler sets these; in inline assembly, use operands that it knows")

    def _registers(self, mask: int) -> str:
        first = ((mask & -mask).bit_length() - 1) // self._width
        last = (mask.bit_length() - 1) // self._width
        return f"r{first}" if first == last else f"r{first} to r{last}"

    def _footprint(self, instruction: Instruction) -> Footprint:
        message = self._messages.get(instruction.index)
        if message is not None:
            return Footprint(_union(map(self._range, message.reads)), self._range(message.writes),
                             tuple(self._range(each[:1]) for each in message.reads))
        if instruction.op == "dpas":
            return self._matrix_footprint(instruction)
        reads = tuple(self._lanes(each, instruction) for each in instruction.sources)
        return Footprint(_union(reads), self._lanes(instruction.destination, instruction), reads)

    def _range(self, registers: range | None) -> int:
        if not registers:
            return 0
        return (1 << len(registers) * self._width) - 1 << registers.start * self._width

    def _matrix_footprint(self, instruction: Instruction) -> Footprint:
        if is_workaround(instruction):
            return Footprint()
        lanes = instruction.execution_size
        steps, repeats = (int(each) for each in instruction.subop.split("x"))
        sizes = [lanes * repeats, lanes * repeats, steps * lanes, steps * repeats]  # elements, and 32-bit words
        operands = (instruction.destination, *instruction.sources)
        masks = []
        for position, (operand, count) in enumerate(zip(operands, sizes, strict=True)):
            if not isinstance(operand, RegisterOperand) or operand.register.file != "r":
                masks.append(0)
                continue
            size = operand.type.bytes
            start = operand.register.number * self._width + operand.register.subregister * operand.type.bits // 8
            masks.append((1 << count * (size if position < 2 else 4)) - 1 << start)
        return Footprint(_union(masks[1:]), masks[0], tuple(masks[1:]))

    def _lanes(self, operand: Any, instruction: Instruction) -> int:
        """Bytes of a general register operand's lanes."""
        if not isinstance(operand, RegisterOperand) or operand.register.file != "r":
            return 0
        mask = 0
        for at in set(self._positions(operand, instruction).tolist()):
            mask |= (1 << operand.type.bytes) - 1 << at
        return mask

    def _positions(self, operand: RegisterOperand, instruction: Instruction) -> NDArray[np.int64]:
        """First byte of each lane (lanes,) of a general register operand."""
        size = operand.type.bytes
        start = operand.register.number * self._width + operand.register.subregister * size
        lanes = Lanes.of(start, operand.region, instruction.execution_size, size, self._width)
        return np.asarray(lanes.register * self._width + lanes.byte)


class ThreadStates:
    """States of the threads of a launch.

    Args:
        checker: the program's state machine.
        threads, registers: the threads that start, with the first ``registers`` filled.
    """

    def __init__(self, checker: ScoreboardChecker, threads: int, registers: int) -> None:
        self._checker = checker
        self._current = np.full(threads, checker.number(checker.started(registers)))

    def observe(self, block: Block, rows: NDArray[np.bool_]) -> None:
        """Check a block that the threads ``rows`` (T,) execute.

        Raises:
            Finding: an instruction that does not wait for what it needs, or reads what nothing wrote.
        """
        numbers = self._current[rows]
        first = int(numbers[0])
        if (numbers == first).all():
            self._current[rows] = self._checker.after(first, block, rows)
            return
        for number in np.unique(numbers):
            mine = rows & (self._current == number)
            self._current[mine] = self._checker.after(int(number), block, mine)


def _union(masks: Iterable[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found


def _is_long(instruction: Instruction) -> bool:
    """Whether an operand of an instruction is f64."""
    operands = (instruction.destination, *instruction.sources)
    return any(isinstance(each, RegisterOperand) and each.type.name == "df" for each in operands)


def _compares_with_itself(instruction: Instruction) -> bool:
    """Whether an instruction compares integers with themselves, whatever they are: Intel's compiler finds the active
    lanes so, in the flags of such a comparison."""
    first, second = (*instruction.sources, None, None)[:2]
    return instruction.op == "cmp" and first == second and isinstance(first, RegisterOperand) and \
        not first.type.is_float
