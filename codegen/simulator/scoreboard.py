"""Scoreboard check: registers that are used before they are delivered, overwritten too early, or never written.

Hardware waits only where the compiler's annotations (SWSB) say so. Instructions of an in-order pipe deliver their
results some instructions later; messages and matrix products deliver theirs, and read their sources, at any time until
their token is waited for. What is pending depends on the path alone: it is a state machine over basic blocks, whose
transitions are computed once, and each thread has a state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from codegen.simulator.alu.dpas import is_workaround
from codegen.simulator.alu.regions import Lanes
from codegen.simulator.control_flow import Block, is_branch, successors
from codegen.simulator.findings import Finding
from codegen.simulator.instruction import (
    DataType,
    ImmediateOperand,
    IndirectOperand,
    Instruction,
    LabelOperand,
    RegisterOperand,
    Scoreboard,
)
from codegen.simulator.messages.descriptor import Message

_LATENCY = {"I": 10, "F": 10, "L": 15, "M": 18}
"""Instructions after which the result of an in-order pipe is there without a wait, by pipe; compilers rely on it."""
_SHORT_REGISTER = 32  # bytes, of instruction sets whose math functions are out of order
_COPIES = ("mov", "sel", "csel")
"""Instructions that pass on what is undefined: copies at joins of paths, selections among values that may not exist."""


class Footprint(NamedTuple):
    """Registers that an instruction reads and writes, as bit masks of their bytes.

    Attributes:
        reads: of all its operands.
        needs: of each operand what must be defined: of a message its first register, since few lanes may run.
    """

    reads: int = 0
    writes: int = 0
    needs: tuple[int, ...] = ()


class Delivery(NamedTuple):
    """Result of an in-order pipe that is under way.

    Attributes:
        back: instructions of its pipe since, itself included.
        age: instructions since.
    """

    pipe: str
    bytes: int
    back: int
    age: int


class Flight(NamedTuple):
    """Message or matrix product whose result is under way.

    Attributes:
        token: None inside a chain of matrix products, whose last one has it.
        reads, writes: bytes; ``reads`` is 0 once the sources have been read.
        name: of the instruction.
        element: bytes of a lane's element in its result's registers, if it obeys the execution mask; else 0.
        blocks: of such a message the blocks that its lanes may run next, or run now.
    """

    token: int | None
    unit: str
    reads: int
    writes: int
    name: str
    element: int = 0
    blocks: frozenset[int] = frozenset()


class State(NamedTuple):
    """What is under way in a thread, and which bytes of the registers anything has written."""

    deliveries: tuple[Delivery, ...]
    flights: tuple[Flight, ...]
    written: int


class Role(NamedTuple):
    """What the scoreboard does with an instruction; the same each time that it runs.

    Attributes:
        pipe: its in-order pipe, or empty.
        unit: its out-of-order unit, or empty.
        waited: pipes that its distance counts in.
        discards: whether it moves to the null register: such reads wait for others, and mean nothing.
        element: bytes of a lane's element in the registers of its result, of a message that obeys the execution mask.
    """

    pipe: str
    unit: str
    waited: frozenset[str]
    footprint: Footprint
    discards: bool
    element: int


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
        state = _waited(state, instruction, role)
        if is_branch(instruction):  # results are there before what follows it begins
            return State((), state.flights, state.written)
        if instruction.op == "join":  # it takes a place in the integer pipe
            return State(_aged(state.deliveries, "I"), state.flights, state.written)
        if instruction.op in ("sync", "nop", "illegal"):
            return state
        written = state.written
        if not role.discards:
            self._check_hazards(state, instruction, role, block)
            written = self._defined(written, instruction, role.footprint)
        return _issued(state, written, instruction, role, block)

    def _role(self, instruction: Instruction) -> Role:
        pipe = in_order_pipe(instruction)
        message = self._messages.get(instruction.index)
        element = 0
        if message is not None and message.result is not None and not instruction.no_mask and not message.transposed:
            element = message.slot_bytes
        return Role(pipe, self._unit(instruction), _waited_pipes(instruction, pipe), self._footprint(instruction),
                    _discards(instruction), element)

    def _check_hazards(self, state: State, instruction: Instruction, role: Role, block: int) -> None:
        pipe, unit, _, (read, writes, _), *_ = role
        for delivery in state.deliveries:
            if delivery.bytes & read:
                raise self._finding(instruction, f"reads {self._registers(delivery.bytes & read)} before the "
                                    f"{_PIPES[delivery.pipe]} pipe has delivered it")
            if delivery.bytes & writes and delivery.pipe != pipe:
                raise self._finding(instruction, f"writes {self._registers(delivery.bytes & writes)} before "
                                    f"the {_PIPES[delivery.pipe]} pipe has written it")
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
        """Bytes of registers that are defined after an instruction; it adds none where it copies what is undefined."""
        if isinstance(instruction.destination, IndirectOperand):  # may be any register: all count as written
            return -1
        undefined = [mask for mask in footprint.needs if mask and not mask & written]
        if not undefined:
            return written | footprint.writes
        if instruction.op in _COPIES:
            return written
        raise Finding("XT6120", f"{instruction.name} reads {self._registers(undefined[0])}, which nothing has written",
                      "write it on every path that leads here; in inline assembly, name it as an input")

    def _unit(self, instruction: Instruction) -> str:
        """Out-of-order unit of an instruction; empty for in-order ones."""
        if instruction.op == "dpas":
            return "dpas"
        if instruction.op == "math" and self._width == _SHORT_REGISTER:
            return "math"
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


_PIPES = {"I": "integer", "F": "float", "L": "long", "M": "math"}


def in_order_pipe(instruction: Instruction) -> str:
    """In-order pipe of an instruction, by its destination: I, F, L, M; empty for others."""
    destination = instruction.destination
    if destination is None or instruction.op in ("dpas", "sync"):
        return ""
    if instruction.op == "math":
        return "M"
    return _type_pipe(destination.type)


def _discards(instruction: Instruction) -> bool:
    """Whether it moves to the null register: such reads wait for others, and mean nothing."""
    destination = instruction.destination
    return instruction.op == "mov" and isinstance(destination, RegisterOperand) and destination.register.is_null


def _waited_pipes(instruction: Instruction, pipe: str) -> frozenset[str]:
    """Pipes that the distance of an annotation counts in; without one, those of the instruction and its sources."""
    named = instruction.scoreboard.pipe
    if named and named != "A":
        return frozenset(named)
    if named or not pipe:
        return frozenset(_LATENCY)
    types = [each.type for each in instruction.sources if not isinstance(each, LabelOperand)]
    return frozenset({pipe} | {_type_pipe(each) for each in types})


def _type_pipe(kind: DataType) -> str:
    """In-order pipe of values of a type."""
    return "L" if kind.name == "df" else "F" if kind.is_float else "I"


def _waited(state: State, instruction: Instruction, role: Role) -> State:
    """The state after the waits of an instruction's annotation; a token that is taken again is waited for."""
    annotation: Scoreboard = instruction.scoreboard
    deliveries, flights, written = state
    if annotation.distance and deliveries:
        deliveries = tuple(each for each in deliveries
                           if each.pipe not in role.waited or each.back < annotation.distance)
    if not flights:
        return State(deliveries, flights, written)
    if annotation.token is not None and (annotation.token_use or role.unit):
        flights = _token_waited(flights, annotation.token, annotation.token_use or "dst")
    if instruction.op == "sync" and instruction.subop in ("allwr", "allrd"):
        use = "dst" if instruction.subop == "allwr" else "src"
        source = instruction.sources[0] if instruction.sources else None
        tokens = source.bits if isinstance(source, ImmediateOperand) else ~0
        for token in {each.token for each in flights}:
            if token is not None and tokens >> token & 1:
                flights = _token_waited(flights, token, use)
    return State(deliveries, flights, written)


def leave(state: State, block: Block) -> State:
    """The state at the end of a block, whose lanes go on to its successors."""
    flights = tuple(
        each._replace(blocks=(each.blocks - {block.start}) | successors(block)) if block.start in each.blocks else each
        for each in state.flights)
    return State(state.deliveries, flights, state.written)


def _issued(state: State, written: int, instruction: Instruction, role: Role, block: int) -> State:
    """The state with an instruction's result under way."""
    deliveries, flights = _aged(state.deliveries, role.pipe), state.flights
    reads, writes, _ = role.footprint
    if role.unit:
        token = instruction.scoreboard.token if instruction.scoreboard.token_use == "" else None
        if token is not None and role.unit == "dpas":  # the chain that ends here
            flights = tuple(each._replace(token=token) if each.token is None else each for each in flights)
        flight = Flight(token, role.unit, reads, writes, instruction.name, role.element,
                        frozenset({block}) if role.element else frozenset())
        return State(deliveries, (*flights, flight), written)
    if writes:
        deliveries = (*(each for each in deliveries if each.bytes & ~writes), Delivery(role.pipe, writes, 1, 1))
    return State(deliveries, flights, written)


def _aged(deliveries: tuple[Delivery, ...], pipe: str) -> tuple[Delivery, ...]:
    """Results under way after one more instruction of a pipe."""
    return tuple(Delivery(each.pipe, each.bytes, each.back + (each.pipe == pipe), each.age + 1)
                 for each in deliveries if each.age < _LATENCY[each.pipe])


def _token_waited(flights: tuple[Flight, ...], token: int, use: str) -> tuple[Flight, ...]:
    """What is under way after a wait for a token's result, or for its sources to be read.

    A unit reads the sources of its messages in their order.
    """
    last = {each.unit: position for position, each in enumerate(flights) if each.token == token}
    read = tuple(each._replace(reads=0) if position <= last.get(each.unit, -1) else each
                 for position, each in enumerate(flights))
    return tuple(each for each in read if each.token != token) if use == "dst" else read
