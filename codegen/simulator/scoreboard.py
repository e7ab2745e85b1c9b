"""Scoreboard check: registers that are used before they are delivered, overwritten too early, or never written.

Hardware waits only where the compiler's annotations (SWSB) say so. Instructions of an in-order pipe deliver their
results some instructions later; messages and matrix products deliver theirs, and read their sources, at any time until
their token is waited for. What is pending depends on the path alone: it is a state machine over basic blocks, whose
transitions are computed once, and each thread has a state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codegen.simulator.alu.dpas import is_workaround
from codegen.simulator.alu.regions import Lanes
from codegen.simulator.control_flow import Block, is_branch
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


@dataclass(frozen=True)
class Footprint:
    """Registers that an instruction reads and writes, as bit masks of their bytes.

    Attributes:
        needs: of what it reads, what must be defined: of a message, the first register of each operand, since few lanes
            may run.
    """

    reads: tuple[int, ...] = ()
    writes: int = 0
    needs: tuple[int, ...] = ()


@dataclass(frozen=True)
class Delivery:
    """Result of an in-order pipe that is under way.

    Attributes:
        back: instructions of its pipe since, itself included.
        age: instructions since.
    """

    pipe: str
    bytes: int
    back: int
    age: int


@dataclass(frozen=True)
class Flight:
    """Message or matrix product whose result is under way.

    Attributes:
        token: None inside a chain of matrix products, whose last one has it.
        reads, writes: bytes; ``reads`` is 0 once the sources have been read.
        name: of the instruction.
    """

    token: int | None
    unit: str
    reads: int
    writes: int
    name: str


@dataclass(frozen=True)
class State:
    """What is under way in a thread, and which bytes of the registers anything has written."""

    deliveries: tuple[Delivery, ...]
    flights: tuple[Flight, ...]
    written: int


class ScoreboardChecker:
    """Checks the instructions that threads execute against their scoreboard annotations.

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
        self._footprint = lru_cache(maxsize=None)(self._find_footprint)

    def start(self, threads: int, registers: int) -> None:
        """Start threads: nothing is under way, and the first ``registers`` are filled."""
        self._current = np.full(threads, self._number(self.started(registers)))

    def started(self, registers: int) -> State:
        """The state of a thread that starts."""
        return State((), (), (1 << registers * self._width) - 1)

    def _number(self, state: State) -> int:
        if state not in self._numbers:
            self._numbers[state] = len(self._states)
            self._states.append(state)
        return self._numbers[state]

    def observe(self, block: Block, rows: NDArray[np.bool_]) -> None:
        """Check a block that the threads ``rows`` (T,) execute.

        Raises:
            Finding: an instruction that does not wait for what it needs, or reads what nothing wrote.
        """
        numbers = self._current[rows]
        first = int(numbers[0])
        if (numbers == first).all():
            self._current[rows] = self._after(first, block, rows)
            return
        for number in np.unique(numbers):
            mine = rows & (self._current == number)
            self._current[mine] = self._after(int(number), block, mine)

    def _after(self, number: int, block: Block, rows: NDArray[np.bool_]) -> int:
        key = number, block.start
        if key not in self._next:
            state = self._states[number]
            for instruction in self._instructions[block.start:block.end]:
                try:
                    state = self.execute(state, instruction)
                except Finding as finding:
                    finding.offset, finding.thread = instruction.offset, int(np.flatnonzero(rows)[0])
                    raise
            self._next[key] = self._number(state)
        return self._next[key]

    def execute(self, state: State, instruction: Instruction) -> State:
        """The state after an instruction.

        Raises:
            Finding: it does not wait for what it needs, or reads what nothing wrote.
        """
        pipe = in_order_pipe(instruction)
        state = _waited(state, instruction, pipe, bool(self._unit(instruction)))
        if is_branch(instruction):  # results are there before what follows it begins
            return replace(state, deliveries=())
        if instruction.op == "join":  # it takes a place in the integer pipe
            return replace(state, deliveries=_aged(state.deliveries, "I"))
        if instruction.op in ("sync", "nop", "illegal"):
            return state
        footprint = self._footprint(instruction)
        if not _discards(instruction):
            self._check_hazards(state, instruction, footprint, pipe)
            state = self._check_defined(state, instruction, footprint)
        return self._issued(state, instruction, footprint, pipe)

    def _check_hazards(self, state: State, instruction: Instruction, footprint: Footprint, pipe: str) -> None:
        read = 0
        for mask in footprint.reads:
            read |= mask
        for delivery in state.deliveries:
            if delivery.bytes & read:
                raise self._finding(instruction, f"reads {self._registers(delivery.bytes & read)} before the "
                                    f"{_PIPES[delivery.pipe]} pipe has delivered it")
            if delivery.bytes & footprint.writes and delivery.pipe != pipe:
                raise self._finding(instruction, f"writes {self._registers(delivery.bytes & footprint.writes)} before "
                                    f"the {_PIPES[delivery.pipe]} pipe has written it")
        unit = self._unit(instruction)
        for flight in state.flights:
            if unit == "dpas" and flight.unit == "dpas" and flight.token is None:
                continue  # links of one chain
            if flight.writes & read:
                raise self._finding(instruction, f"reads {self._registers(flight.writes & read)} before {flight.name} "
                                    "has delivered it")
            if flight.writes & footprint.writes:
                raise self._finding(instruction, f"writes {self._registers(flight.writes & footprint.writes)} before "
                                    f"{flight.name} has written it")
            if flight.reads & footprint.writes and unit != flight.unit:
                raise self._finding(instruction, f"writes {self._registers(flight.reads & footprint.writes)} before "
                                    f"{flight.name} has read it")

    def _check_defined(self, state: State, instruction: Instruction, footprint: Footprint) -> State:
        """The state with what the instruction defines; nothing where it copies what is undefined."""
        if isinstance(instruction.destination, IndirectOperand):  # may be any register: all count as written
            return replace(state, written=-1)
        undefined = [mask for mask in footprint.needs if mask and not mask & state.written]
        if not undefined:
            return replace(state, written=state.written | footprint.writes)
        if instruction.op in _COPIES:
            return state
        raise Finding("XT6120", f"{instruction.name} reads {self._registers(undefined[0])}, which nothing has written",
                      "write it on every path that leads here; in inline assembly, name it as an input")

    def _issued(self, state: State, instruction: Instruction, footprint: Footprint, pipe: str) -> State:
        """The state with the instruction's result under way."""
        deliveries = _aged(state.deliveries, pipe)
        unit = self._unit(instruction)
        if unit:
            token = instruction.scoreboard.token if instruction.scoreboard.token_use == "" else None
            read = 0
            for mask in footprint.reads:
                read |= mask
            flights = list(state.flights)
            if token is not None and unit == "dpas":  # the chain that ends here
                flights = [replace(each, token=token) if each.token is None else each for each in flights]
            flights.append(Flight(token, unit, read, footprint.writes, instruction.name))
            return replace(state, deliveries=deliveries, flights=tuple(flights))
        if footprint.writes:
            deliveries = (*(each for each in deliveries if each.bytes & ~footprint.writes),
                          Delivery(pipe, footprint.writes, 1, 1))
        return replace(state, deliveries=deliveries)

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

    def _find_footprint(self, instruction: Instruction) -> Footprint:
        message = self._messages.get(instruction.index)
        if message is not None:
            return Footprint(tuple(map(self._range, message.reads)), self._range(message.writes),
                             tuple(self._range(each[:1]) for each in message.reads))
        if instruction.op == "dpas":
            return self._matrix_footprint(instruction)
        reads = tuple(self._lanes(each, instruction) for each in instruction.sources)
        return Footprint(reads, self._lanes(instruction.destination, instruction), reads)

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
        return Footprint(tuple(masks[1:]), masks[0], tuple(masks[1:]))

    def _lanes(self, operand: Any, instruction: Instruction) -> int:
        """Bytes of a general register operand's lanes."""
        if not isinstance(operand, RegisterOperand) or operand.register.file != "r":
            return 0
        size = operand.type.bytes
        start = operand.register.number * self._width + operand.register.subregister * size
        lanes = Lanes.of(start, operand.region, instruction.execution_size, size, self._width)
        mask = 0
        for at in set((lanes.register * self._width + lanes.byte).tolist()):
            mask |= (1 << size) - 1 << at
        return mask


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


def _waited(state: State, instruction: Instruction, pipe: str, out_of_order: bool) -> State:
    """The state after the waits of an instruction's annotation; a token that is taken again is waited for."""
    annotation: Scoreboard = instruction.scoreboard
    deliveries, flights = state.deliveries, state.flights
    if annotation.distance:
        waited = _waited_pipes(instruction, pipe)
        deliveries = tuple(each for each in deliveries
                           if each.pipe not in waited or each.back < annotation.distance)
    if annotation.token is not None and (annotation.token_use or out_of_order):
        flights = _token_waited(flights, annotation.token, annotation.token_use or "dst")
    if instruction.name in ("sync.allwr", "sync.allrd"):
        use = "dst" if instruction.subop == "allwr" else "src"
        source = instruction.sources[0] if instruction.sources else None
        tokens = source.bits if isinstance(source, ImmediateOperand) else ~0
        for token in {each.token for each in flights}:
            if token is not None and tokens >> token & 1:
                flights = _token_waited(flights, token, use)
    if deliveries == state.deliveries and flights == state.flights:
        return state
    return replace(state, deliveries=deliveries, flights=flights)


def _aged(deliveries: tuple[Delivery, ...], pipe: str) -> tuple[Delivery, ...]:
    """Results under way after one more instruction of a pipe."""
    return tuple(replace(each, age=each.age + 1, back=each.back + (each.pipe == pipe))
                 for each in deliveries if each.age < _LATENCY[each.pipe])


def _token_waited(flights: tuple[Flight, ...], token: int, use: str) -> tuple[Flight, ...]:
    """What is under way after a wait for a token's result, or for its sources to be read.

    A unit reads the sources of its messages in their order.
    """
    last = {each.unit: position for position, each in enumerate(flights) if each.token == token}
    read = tuple(replace(each, reads=0) if position <= last.get(each.unit, -1) else each
                 for position, each in enumerate(flights))
    return tuple(each for each in read if each.token != token) if use == "dst" else read
