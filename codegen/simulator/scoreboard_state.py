"""State of the scoreboard: pending results of a thread, and how instructions and waits change them."""

from __future__ import annotations

from typing import NamedTuple

from codegen.simulator.control_flow import Block, successors
from codegen.simulator.instruction import (
    DataType,
    ImmediateOperand,
    Instruction,
    LabelOperand,
    RegisterOperand,
    Scoreboard,
)

_LATENCY = {"I": 10, "F": 10, "L": 15, "M": 18}
"""Instructions after which the result of an in-order pipe is there without a wait, by pipe; compilers rely on it."""


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
    """Instructions of a thread in flight, and the bytes of its registers that have been written."""

    deliveries: tuple[Delivery, ...]
    flights: tuple[Flight, ...]
    written: int


class Role(NamedTuple):
    """Scoreboard actions of an instruction, the same each time that it runs.

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


PIPES = {"I": "integer", "F": "float", "L": "long", "M": "math"}
"""Names of the in-order pipes."""


def in_order_pipe(instruction: Instruction) -> str:
    """In-order pipe of an instruction, by its destination: I, F, L, M; empty for others."""
    destination = instruction.destination
    if destination is None or instruction.op in ("dpas", "sync"):
        return ""
    if instruction.op == "math":
        return "M"
    return _type_pipe(destination.type)


def discards(instruction: Instruction) -> bool:
    """Whether it moves to the null register: such reads wait for others, and mean nothing."""
    destination = instruction.destination
    return instruction.op == "mov" and isinstance(destination, RegisterOperand) and destination.register.is_null


def waited_pipes(instruction: Instruction, pipe: str) -> frozenset[str]:
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


def waited(state: State, instruction: Instruction, role: Role) -> State:
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


def issued(state: State, written: int, instruction: Instruction, role: Role, block: int) -> State:
    """The state with an instruction's result under way."""
    deliveries, flights = aged(state.deliveries, role.pipe), state.flights
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


def aged(deliveries: tuple[Delivery, ...], pipe: str) -> tuple[Delivery, ...]:
    """Results under way after one more instruction of a pipe."""
    return tuple(Delivery(each.pipe, each.bytes, each.back + (each.pipe == pipe), each.age + 1)
                 for each in deliveries if each.age < _LATENCY[each.pipe])


def _token_waited(flights: tuple[Flight, ...], token: int, use: str) -> tuple[Flight, ...]:
    """Instructions in flight after a wait for a token's result, or for its sources to be read.

    A unit reads the sources of its messages in their order.
    """
    last = {each.unit: position for position, each in enumerate(flights) if each.token == token}
    read = tuple(each._replace(reads=0) if position <= last.get(each.unit, -1) else each
                 for position, each in enumerate(flights))
    return tuple(each for each in read if each.token != token) if use == "dst" else read
