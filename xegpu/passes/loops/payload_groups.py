"""Payload groups: descriptors of transposing loads in the form from which the emitter computes their addresses.

    %d0 = update_nd_offset %K, [%n, %0] ; %d1 = update_nd_offset %K, [%n16, %0]      %n16 = %n + 16
    %d2 = update_nd_offset %K, [%n, %16] ; %d3 = update_nd_offset %K, [%n16, %16]
becomes
    %a = set_nd_offsets %K, [%0, %0] ; %b = set_nd_offsets %K, [%16, %0]             before the loop
    %d0 = update_nd_offset %a, [%n, %0] ; %d1 = update_nd_offset %b, [%n, %0]
    %d2 = update_nd_offset %d0, [%0, %16] ; %d3 = update_nd_offset %d1, [%0, %16]

Loads of a group are on one array, and rows of it move all of them. They are listed in rows of the same length: those of
the first row have a place of their own each, and each further row is a constant distance from the row before it. They
are marked with the number of their group, from which the emitter makes their payloads, two by an addition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Operation, SSAValue

from xegpu.analysis.block_position import Position, Sum, Term, is_inside, position_of, surface_of
from xegpu.dialect.block_io import LoadNdOp, SetNdOffsetsOp, UpdateNdOffsetOp, desc_of
from xegpu.ir.matchers import number
from xegpu.rewrite.inserter import Inserter

LENGTHS = 4, 2
"""Loads of a row: an addition makes two payloads."""
_LEAST = 8
"""Loads of a group: fewer have a payload each that a step sets."""
_WORD = 32
"""Bits of the words that a message transposes."""
_DISTANCES = 2
"""Different distances between rows of a group, each of which takes a register."""
_Still = tuple[Sum, Sum]


@dataclass(frozen=True)
class PayloadGroup:
    """A group, as the pass that makes its addresses has marked it.

    Attributes:
        loads: all of them, in order.
        bases: descriptors of the loads of the first row, from before the loop.
        moving: index value of rows by which a step moves them.
        distances: of each further row from the one before it, rows and columns in elements.
    """

    loads: tuple[LoadNdOp, ...]
    bases: tuple[SSAValue, ...]
    moving: SSAValue
    distances: tuple[tuple[int, int], ...]


def is_candidate(load: LoadNdOp) -> bool:
    """Whether a load is a message that fills eight registers with columns of 32-bit words, and has no cache policy."""
    desc, hints = desc_of(load.desc), (load.l1_hint, load.l2_hint, load.l3_hint)
    return 0 < load.transposes <= _WORD and desc.shape == (16, 8 * _WORD // desc.dtype.bits) and \
        desc.block.array_length == 1 and not any(hints)


def length_of(positions: Sequence[_Still], multiple: int) -> int:
    """Length of the rows in which loads can be listed; 0 if there is none.

    Args:
        positions: row and column of each load's block, without what moves it.
        multiple: columns of a 32-bit word: payloads count such words.
    """
    for length in LENGTHS:
        if len(positions) < _LEAST or len(positions) % length:
            continue
        rows = [positions[i:i + length] for i in range(0, len(positions), length)]
        found = [{_distance(*pair) for pair in zip(*both, strict=True)} for both in pairwise(rows)]
        distances = set[tuple[int, int] | None]().union(*found)
        if all(len(each) == 1 for each in found) and len(distances) <= _DISTANCES and \
                not any(each is None or each[1] % multiple for each in distances):
            return length
    return 0


def _distance(one: _Still, other: _Still) -> tuple[int, int] | None:
    """Rows and columns from one position to another; None where they are no constants."""
    if any(a.terms != b.terms for a, b in zip(one, other, strict=True)):
        return None
    return other[0].constant - one[0].constant, other[1].constant - one[1].constant


def groups_of(loop: scf.ForOp) -> list[PayloadGroup]:
    """The groups that loads of a loop's steps are marked as (``payload_group``), where descriptors have that form."""
    found = dict[int, list[LoadNdOp]]()
    for operation in loop.body.block.ops:
        if isinstance(operation, LoadNdOp) and operation.payload_group is not None and is_candidate(operation):
            found.setdefault(operation.payload_group.value.data, []).append(operation)
    groups = (_group(loads, loop) for loads in found.values())
    return [group for group in groups if group is not None]


def _group(loads: list[LoadNdOp], loop: scf.ForOp) -> PayloadGroup | None:
    updates = [update for load in loads if isinstance(update := load.desc.owner, UpdateNdOffsetOp)]
    first = [update for update in updates if isinstance(update.desc.owner, SetNdOffsetsOp)]
    length, further = len(first), updates[len(first):]
    if len(updates) < len(loads) or length not in LENGTHS or len(loads) % length:
        return None
    distances = [(number(update.offsets[0]), number(update.offsets[1])) for update in further]
    follow = all(update.desc is before.result for before, update in zip(updates, further, strict=False))
    alike = all(each == distances[i - i % length] for i, each in enumerate(distances))
    moved = {(update.offsets[0], number(update.offsets[1])) for update in first}
    if not (follow and alike and len(moved) == 1) or any(is_inside(update.desc, loop) for update in first):
        return None
    (moving, column), multiple = moved.pop(), _WORD // desc_of(loads[0].desc).dtype.bits
    rows = [(down, across) for down, across in distances[::length] if down is not None and across is not None]
    if column != 0 or len(rows) < len(loads) // length - 1 or any(across % multiple for _, across in rows):
        return None
    return PayloadGroup(tuple(loads), tuple(update.desc for update in first), moving, tuple(rows))


@dataclass(frozen=True)
class PayloadGroups:
    """The groups of one loop.

    Attributes:
        inserter: for the function.
        loop: the loop.
        stays: whether a term has the same value all through the loop.
        surface: a descriptor on the array of another one, from before the loop; None where the loop changes it.
        before: a descriptor on such an array at a row and a column, before the loop.
        total: a sum in front of an operation.
    """

    inserter: Inserter
    loop: scf.ForOp
    stays: Callable[[Term], bool]
    surface: Callable[[SSAValue], SSAValue | None]
    before: Callable[[SSAValue, Sum, Sum], SSAValue]
    total: Callable[[Operation, Sum], SSAValue]

    def chain(self, messages: Sequence[Operation], known: dict[SSAValue, Position]) -> set[Operation]:
        """Rewrite the loads that make up groups, and give them.

        Args:
            messages: of the loop, in order.
            known: positions of descriptors, as :func:`position_of` takes them.
        """
        groups = defaultdict[Any, list[tuple[LoadNdOp, Position]]](list)
        for message in messages:
            if isinstance(message, LoadNdOp) and message.parent is self.loop.body.block and is_candidate(message):
                at = position_of(message.desc, known)
                moving = at.row.divided(self.stays)[1]
                if moving and not at.column.divided(self.stays)[1]:
                    groups[surface_of(at.root) or at.root, message.desc.type, moving].append((message, at))
        found = set[Operation]()
        for mark, ((*_, moving), group) in enumerate(groups.items()):
            positions = [(Sum(at.row.divided(self.stays)[0], at.row.constant), at.column) for _, at in group]
            loads = [load for load, _ in group]
            length = length_of(positions, 32 // desc_of(loads[0].desc).dtype.bits)
            if length and (surface := self.surface(group[0][1].root)) is not None:
                self._first_row(loads[:length], positions, surface, Sum(moving))
                self._further_rows(loads, positions, length)
                for load in loads:
                    load.payload_group = IntegerAttr(mark, i64)
                found |= {*loads}
        return found

    def _first_row(self, loads: list[LoadNdOp], positions: list[_Still], surface: SSAValue, moving: Sum) -> None:
        for load, position in zip(loads, positions, strict=False):
            offsets = [self.total(load, moving), self.inserter.constant(0)]
            self._move(load, UpdateNdOffsetOp(self.before(surface, *position), offsets))

    def _further_rows(self, loads: list[LoadNdOp], positions: list[_Still], length: int) -> None:
        for i in range(length, len(loads)):
            distances = (here.constant - there.constant
                         for here, there in zip(positions[i], positions[i - length], strict=True))
            self._move(loads[i], UpdateNdOffsetOp(loads[i - length].desc, [*map(self.inserter.constant, distances)]))

    def _move(self, load: LoadNdOp, update: UpdateNdOffsetOp) -> None:
        load.operands = [self.inserter.before(load, update, load.desc.name_hint)]
