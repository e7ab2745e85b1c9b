"""Recognition of natural loops that count: the counter of ``scf.for`` in a control-flow graph, its bound and step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, cf
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.traits import is_side_effect_free

from xegpu.ir.matchers import number, same_number
from xegpu.mlir.arith import CmpIOp
from xetile.text.canonicalize.control_flow.flow_graph import FlowGraph, successors, terminator
from xetile.text.canonicalize.diagnostics import fail_at


@dataclass(frozen=True)
class CountedLoop:
    """A loop that counts: ``position`` of the counter among the header's arguments, and its bound, step, predicate."""

    position: int
    bound: SSAValue
    step: SSAValue
    inclusive: bool
    unsigned: bool
    body: Block
    comparison: CmpIOp


def counted_loop(graph: FlowGraph, header: Block, inside: set[Block]) -> CountedLoop:
    """The counter of a loop.

    Raises:
        TextError: the loop has other exits than its header's, or no counter.
    """
    last = header.last_op
    exits = [block for block in graph.order if block in inside
             for after in successors(block) if after not in inside]
    if exits != [header] or not isinstance(last, cf.ConditionalBranchOp):
        other = next((block for block in exits if block is not header), header)
        fail_at(terminator(other), "XT2604", "a loop is left here, and not at its head",
                "decide at the head of the loop whether it goes on, as mlir-opt --convert-scf-to-cf prints scf.for; "
                "a loop that is left from its middle has no scf.for")
    for operation in header.ops:
        if operation is not last and not is_side_effect_free(operation):
            fail_at(operation, "XT2605", "it stands at the head of a loop, which runs once more than the body, and "
                    "accesses memory or waits", "move it into the body, behind the branch")
    found = _counter(graph, header, last, inside)
    if found is None:
        fail_at(last, "XT2606", "the loop counts nothing: it goes on by another condition than a counter below a "
                "bound", "compare an argument of the head, to which each turn adds the same step, with a bound from "
                "before the loop: arith.cmpi slt, %i, %n")
    return found


def _counter(graph: FlowGraph, header: Block, last: cf.ConditionalBranchOp, inside: set[Block]) -> CountedLoop | None:
    comparison = last.cond.owner
    if not isinstance(comparison, CmpIOp):
        return None
    body = last.then_block if last.then_block in inside else last.else_block
    predicate, sides = comparison.record, [comparison.lhs, comparison.rhs]
    if not (isinstance(sides[0], BlockArgument) and sides[0].owner is header):
        sides, predicate = sides[::-1], predicate.swapped()
    if body is last.else_block:
        predicate = predicate.inverse()
    counter, bound = sides
    if predicate.order not in ("<", "<=") or not isinstance(counter, BlockArgument) or \
            counter.owner is not header or block_of(bound) in inside:
        return None
    steps = [_counter_increment(block, counter) for block in graph.predecessors[header] if block in inside]
    first = steps[0]
    if first is None or any(step is None or not same_number(step, first) for step in steps) or \
            (block_of(first) in inside and number(first) is None):
        return None
    if (size := number(first)) is not None and size <= 0:
        return None
    return CountedLoop(counter.index, bound, first, predicate.order == "<=", predicate.operands == "u", body,
                       comparison)


def _counter_increment(block: Block, counter: BlockArgument) -> SSAValue | None:
    """Increment of the counter on a back edge; None if it is another computation than a sum."""
    last = block.last_op
    steps = []
    for target, arguments in edges_of(last):
        if target is counter.owner:
            sum_ = arguments[counter.index].owner
            if not isinstance(sum_, arith.AddiOp) or counter not in (sum_.lhs, sum_.rhs):
                return None
            steps.append(sum_.rhs if sum_.lhs is counter else sum_.lhs)
    return steps[0] if steps and all(same_number(step, steps[0]) for step in steps) else None


def edges_of(last: Operation | None) -> list[tuple[Block, Sequence[SSAValue]]]:
    """Successors of a branch, with the operands of each."""
    if isinstance(last, cf.BranchOp):
        return [(last.successor, last.arguments)]
    if isinstance(last, cf.ConditionalBranchOp):
        return [(last.then_block, last.then_arguments), (last.else_block, last.else_arguments)]
    return []


def block_of(value: SSAValue) -> Block | None:
    """Block of a function that a value is defined in."""
    return value.owner if isinstance(value.owner, Block) else value.owner.parent
