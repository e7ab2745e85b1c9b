"""Induction-variable rewriting: descriptors are computed from the loop counter instead of being carried.

    scf.for %k = %0 to %n step %32 iter_args(%a_1 = %a) {
      load_nd %a_1 ; %a_2 = update_nd_offset %a_1, [%0, %32] ; scf.yield %a_2 }
becomes
    scf.for %k = %0 to %n step %32 {
      %a_1 = update_nd_offset %a, [%0, %k] ; load_nd %a_1 }

One counter then serves all tiles of a product, where each would have taken a register and an addition a step.

A loop that starts at %s moves a descriptor by %k - %s. From one that starts at %s along that axis itself, or at a
distance from it, %s is taken away before the loop, and %k moves it:
    %a = create_nd_tdesc %A, [%m, %s + 96] ; scf.for %k = %s ... { update_nd_offset %a, [%0, %k - %s] }
becomes
    %a = create_nd_tdesc %A, [%m, 96] ; scf.for %k = %s ... { update_nd_offset %a, [%0, %k] }
So is it where the descriptor was moved in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from xegpu.dialect.block_io import CreateNdTdescOp, UpdateNdOffsetOp
from xegpu.dialect.types import TensorDescType
from xegpu.ir.create import for_loop
from xegpu.ir.matchers import number
from xegpu.passes.licm import terms
from xegpu.rewrite.rewriter import Rewriter, rewrite

Axes = tuple[bool, ...]
"""For each axis of a descriptor whether it moves by the loop's step; along the others it stays."""


@dataclass(frozen=True)
class InductionVariables:
    """Pass ``induction-variables``; it has no options."""

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with as few carried descriptors as may be."""
        return rewrite(module, lambda function: Rewriter({scf.ForOp: _loop}).function(function))


def _loop(rewriter: Rewriter, old: scf.ForOp) -> None:
    counted = {position: axes for position in range(len(old.iter_args)) if (axes := _axes(old, position))}
    kept = [position for position in range(len(old.iter_args)) if position not in counted]
    carried = [rewriter.lookup(old.iter_args[position]) for position in kept]
    block = Block(arg_types=[IndexType(), *(value.type for parts in carried for value in parts.values)])
    block.args[0].name_hint = old.body.block.args[0].name_hint
    rewriter.set(old.body.block.args[0], block.args[0])
    rewriter.regroup([old.body.block.args[position + 1] for position in kept], carried, block.args[1:])
    location = rewriter.location
    _from_counter(rewriter, old, block, counted)
    yielded, rewriter.location = rewriter.body(old.body.block, block), location
    rewriter.close(block, [yielded[position] for position in kept], carried)
    start, stop, step = (rewriter.single(value) for value in (old.lb, old.ub, old.step))
    new = for_loop(start, stop, step, [value for parts in carried for value in parts.values], block)
    new.attributes.update(old.attributes)
    rewriter.emit(new)
    rewriter.regroup([old.results[position] for position in kept], carried, new.res)


def _from_counter(rewriter: Rewriter, old: scf.ForOp, block: Block, counted: dict[int, Axes]) -> None:
    """Create each counted descriptor at the head of the body, from its initial value and the induction variable."""
    if not counted:
        return
    zero = number(old.lb) == 0
    shifted = {} if zero else {at: _without_start(rewriter, old, at, axes) for at, axes in counted.items()}
    rewriter.blocks.append(block)
    counter, start = block.args[0], rewriter.single(old.lb)
    since = counter if zero or None not in shifted.values() else rewriter.emit(arith.SubiOp(counter, start))
    for position, axes in counted.items():
        new = shifted.get(position)
        desc, distance = (rewriter.single(old.iter_args[position]), since) if new is None else (new, counter)
        moved = rewriter.emit(UpdateNdOffsetOp(desc, [distance if moves else rewriter.constant(0) for moves in axes]))
        rewriter.set(old.body.block.args[position + 1], moved)
    rewriter.blocks.pop()


def _without_start(rewriter: Rewriter, loop: scf.ForOp, position: int, axes: Axes) -> SSAValue | None:
    """A carried descriptor as it would be if the loop's counter had started at 0; None where that cannot be seen."""
    maker, moves = loop.iter_args[position].owner, list[UpdateNdOffsetOp]()
    while isinstance(maker, UpdateNdOffsetOp):  # such as a share of an operand, which is loaded a step ahead
        moves.append(maker)
        maker = maker.desc.owner
    if not isinstance(maker, CreateNdTdescOp) or sum(axes) != 1:
        return None
    axis = axes.index(True) - len(axes)
    sums = [[offset] for offset in maker.offsets]
    sums[axis] = terms(maker.offsets[axis])
    if sums[axis].count(loop.lb) != 1:
        return None
    sums[axis].remove(loop.lb)
    for move in moves:
        for at, offset in zip(range(-len(axes), 0), move.offsets, strict=True):
            sums[at] += [] if number(offset) == 0 else [offset]
    offsets = [reduce(lambda a, b: rewriter.emit(arith.AddiOp(a, b)), map(rewriter.single, added)) if added
               else rewriter.constant(0) for added in sums]
    kind = rewriter.single(maker.result).type
    assert isinstance(kind, TensorDescType)
    new = CreateNdTdescOp(rewriter.single(maker.source), offsets, [rewriter.single(size) for size in maker.shape],
                          [rewriter.single(stride) for stride in maker.strides], kind)
    new.attributes.update(maker.attributes)
    return rewriter.emit(new)


def _axes(loop: scf.ForOp, position: int) -> Axes | None:
    """Axes along which a carried descriptor moves by the step; None if it moves otherwise or is used afterwards."""
    argument, end = loop.body.block.args[position + 1], loop.body.block.last_op
    assert end is not None
    if loop.results[position].first_use is not None:
        return None
    moves: list[list[SSAValue]] = []
    value = end.operands[position]
    while value is not argument:
        owner = value.owner
        if not isinstance(owner, UpdateNdOffsetOp) or _is_carried_on(owner, loop):
            return None
        moves.append(list(owner.offsets))
        value = owner.desc
    axes = [_sums_to_step(loop, along) for along in zip(*moves, strict=True)]
    return tuple(axis is True for axis in axes) if axes and None not in axes else None


def _is_carried_on(operation: Operation, loop: scf.ForOp) -> bool:
    """Whether an operation is in another block than the loop's body."""
    return operation.parent is not loop.body.block


def _sums_to_step(loop: scf.ForOp, offsets: tuple[SSAValue, ...]) -> bool | None:
    """Whether offsets sum to the loop's step (True) or to zero (False); None otherwise."""
    numbers = [number(offset) for offset in offsets]
    if None in numbers:
        others = [offset for offset, known in zip(offsets, numbers, strict=True) if known != 0]
        return True if len(others) == 1 and others[0] is loop.step else None
    total = sum(value for value in numbers if value is not None)
    return False if total == 0 else True if total == number(loop.step) else None
