"""Control flow: basic blocks, and where each lane goes after a branch.

Each lane has a program counter of its own. A thread runs its lanes with the smallest one; lanes that a branch sends
ahead wait there for the others. That is what ``goto`` and ``join`` do with their masks, as long as code is laid out so
that lanes meet at larger addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from codegen.simulator.alu.execution import UnknownInstruction
from codegen.simulator.alu.operands import Binding
from codegen.simulator.instruction import Instruction, LabelOperand

_BRANCHES = {"goto": 1, "jmpi": 0, "if": 0, "else": 0, "while": 0, "break": 1, "cont": 1, "halt": 1}
"""Branches, and which of their labels lanes go to: 0 JIP, 1 UIP."""
NO_OPERATION = ("nop", "join", "endif")
"""Instructions without effect where each lane has its own program counter."""
BARRIER = "sync.bar"
END_OF_THREAD = "EOT"


@dataclass(frozen=True)
class Block:
    """Basic block: instructions ``start`` to ``end`` (exclusive); ``branch`` is its last one if that is a branch."""

    start: int
    end: int
    branch: Instruction | None = None
    waits: bool = False
    ends_thread: bool = False


def is_branch(instruction: Instruction) -> bool:
    """Whether lanes may go elsewhere after an instruction."""
    return instruction.op in _BRANCHES


def basic_blocks(instructions: Sequence[Instruction], entry: int) -> dict[int, Block]:
    """Basic blocks by the index of their first instruction; a barrier's wait is a block of its own."""
    leaders = {entry, len(instructions)}
    for instruction in instructions:
        leaders |= {each.target for each in instruction.sources if isinstance(each, LabelOperand)}
        if is_branch(instruction) or instruction.name == BARRIER or END_OF_THREAD in instruction.options:
            leaders.add(instruction.index + 1)
        if instruction.name == BARRIER:
            leaders.add(instruction.index)
    ordered = sorted(leaders)
    blocks = {}
    for start, end in pairwise(ordered):
        last = instructions[end - 1]
        blocks[start] = Block(start, end, last if is_branch(last) else None, last.name == BARRIER,
                              END_OF_THREAD in last.options)
    return blocks


def target(instruction: Instruction) -> int:
    """Index of the instruction that a branch's lanes go to."""
    labels = [each.target for each in instruction.sources if isinstance(each, LabelOperand)]
    which = _BRANCHES[instruction.op]
    if len(labels) <= which:
        raise UnknownInstruction(f"{instruction.name} without a label")
    return labels[which]


def successors(block: Block) -> frozenset[int]:
    """First instructions of the blocks that the lanes of a block go on to."""
    if block.ends_thread:
        return frozenset()
    if block.branch is None:
        return frozenset({block.end})
    follows = {target(block.branch)}
    return frozenset(follows if block.branch.predicate is None else {*follows, block.end})


def taken(binding: Binding) -> Callable[[], NDArray[np.bool_] | None]:
    """Reader of the lanes (T, 32 or 1) that follow a branch, of those that run; None for all."""
    instruction = binding.instruction
    if instruction.predicate is None:
        if instruction.op == "if":
            raise UnknownInstruction("if without a predicate")
        return lambda: None
    if instruction.op == "jmpi":
        bits, inverted = binding.condition_bits(), instruction.predicate.inverted
        if instruction.predicate.function:
            raise UnknownInstruction(f"jmpi with predicate {instruction.predicate.function}")
        return lambda: ~bits[:, :1] if inverted else bits[:, :1]
    predicate, count, width = binding.predicate(), instruction.execution_size, binding.execution.lanes.shape[1]
    first, last = instruction.first_lane, instruction.first_lane + count

    def lanes() -> NDArray[np.bool_]:
        found = np.zeros((len(binding.threads), width), np.bool_)
        follows = predicate().reshape(-1, count)
        found[:, first:last] = ~follows if instruction.op == "if" else follows
        return found

    return lanes
