"""Payload hoisting: loop-invariant parts of block addresses, and payloads of prefetches, are hoisted out of loops.

    scf.for %k = %0 to %n step %32 {
      %p = update_nd_offset %a, [%0, %k] ; prefetch_nd %p
      %d = update_nd_offset %b, [%k, %32] ; %v = load_nd %d ; ... }
becomes
    %at = set_nd_offsets %a, [%m, %0] ; %payload = payload_create %at
    %start = subgroup_broadcast %n1 ; %b1 = set_nd_offsets %b, [%0, %start]     with %n1 = %n + 32
    scf.for %k = %0 to %n step %32 {
      %p = update_nd_offset %at, [%0, %k] ; payload_set %payload, %p {columns} ; payload_prefetch %payload, [0, 0]
      %d = update_nd_offset %b1, [%k, %0] ; %v = load_nd %d ; ... }

Intel's compiler keeps the address of a 2D block message in a register that each step changes in one place. How often it
must be copied or made anew depends on how the text says where a block lies:

- a distance that the loop leaves as it is is computed before the loop, and broadcast, so that the compiler cannot see
  how it came about; else it is computed again at every step, or the address of a neighbouring block is copied and
  changed;
- where fragments take nearly all registers, blocks share addresses: with messages that take distances, they lie off
  one value that the compiler cannot see through, elsewhere one address is set several times a step. With distances,
  those of a loop that stores to several columns share them anyway: each has its own otherwise, in which a step sets
  the row;
- a prefetch gets a *payload*: an address made before the loop, changed right before each use. Only ``set`` is used for
  that. ``add`` after a read is miscompiled: the read moves past it.

Devices whose block messages take constant distances (``Target.immediate_offsets``) share an address between blocks that
lie a constant apart. A loop with payloads and a known number of steps is not to be unrolled by the compiler
(``xegpu.disable_unroll``), which would copy its payloads until registers run out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation, SSAValue

from xegpu.analysis.block_position import Position, Sum, Term, is_inside, position_of, surface_of
from xegpu.analysis.gemm_loops import is_gemm_loop
from xegpu.analysis.register_pressure import bytes_of, ops_of_iteration, root
from xegpu.dialect.block_io import (
    CreateNdTdescOp,
    LoadNdOp,
    PrefetchNdOp,
    SetNdOffsetsOp,
    StoreNdOp,
    UpdateNdOffsetOp,
    desc_of,
)
from xegpu.dialect.hints import hinted
from xegpu.dialect.payload import (
    DISTANCE,
    PayloadCreateOp,
    PayloadPrefetchOp,
    PayloadSetOp,
    SubgroupBroadcastOp,
)
from xegpu.dialect.types import TensorDescType
from xegpu.ir.kernel_attributes import function_of
from xegpu.ir.matchers import DISABLE_UNROLL
from xegpu.ir.region_branch import for_loops
from xegpu.ir.traversal import operations
from xegpu.ir.use_def import root_definitions
from xegpu.passes.loops.payload_groups import PayloadGroups
from xegpu.passes.loops.unroll import trips_of
from xegpu.rewrite.dce import erase, erase_dead
from xegpu.rewrite.inserter import Inserter, copy_module
from xegpu.rewrite.offsets import index_of
from xegpu.rewrite.verifier import verify_inserted
from xegpu.target.grf_mode import requested_registers
from xegpu.target.targets import Target

_MOST = 8
"""Payloads a loop, and stores of which each has an address of its own: each takes a register."""
_KEPT = 0.85
"""Part of the registers for what a loop keeps and for the addresses of its messages, where each has its own: fitted,
between loops of attention on pvc (155 of 256 registers spilled nothing, 220 did)."""
_Message = LoadNdOp | StoreNdOp | PrefetchNdOp
_MESSAGES = frozenset((LoadNdOp, StoreNdOp, PrefetchNdOp))


@dataclass(frozen=True)
class HoistPayloads:
    """Pass ``hoist-payloads``.

    Attributes:
        target: whether its block messages take distances.
    """

    target: Target

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with hoisted addresses; itself where there is nothing to hoist."""
        if not any(_has_invariant_parts(loop, self.target.immediate_offsets) for loop in for_loops(module)) and \
                not any(_may_share(loop, self.target) for loop in for_loops(module)):
            return module
        new = copy_module(module)
        changed = False
        for function in new.body.block.ops:
            assert isinstance(function, func.FuncOp)
            inserter = Inserter(function)
            for loop in for_loops(function):
                if messages := _messages(loop):
                    room = not _may_share(loop, self.target) and _has_room(loop, self.target)
                    apart = sum(isinstance(message, StoreNdOp) for message in messages) <= _MOST
                    _LoopAddresses(inserter, loop, self.target.immediate_offsets, room, apart).hoist(messages)
            if inserter.inserted:
                verify_inserted(function, inserter.inserted)
                erase_dead(function.body.block)
                changed = True
        return new if changed else module


def _may_share(loop: scf.ForOp, target: Target) -> bool:
    """Whether blocks of a loop shall share addresses, and messages take distances between them: to save registers, or
    as it stores to several columns."""
    messages = _messages(loop) if target.immediate_offsets else []
    columns = {position_of(message.desc).column.constant for message in messages if isinstance(message, StoreNdOp)}
    return len(columns) > 1 or (bool(messages) and not _has_room(loop, target))


def _has_room(loop: scf.ForOp, target: Target) -> bool:
    """Whether the registers of a loop leave room for a separate address payload for each message.

    In a pure GEMM loop the compiler moves loads, so that it does.
    """
    registers = requested_registers(function_of(loop)) or max(target.registers)
    if is_gemm_loop(loop) or not registers:
        return True
    outer = {root(value) for operation in operations(loop)[1:] for value in operation.operands
             if not is_inside(value, loop) and not isinstance(value.owner, BroadcastOp)}
    kept = sum(map(bytes_of, (*loop.iter_args, *outer))) * target.subgroup_size / target.register_bytes
    return kept + len(_messages(loop)) <= _KEPT * registers


def _messages(loop: scf.ForOp) -> list[_Message]:
    """The block messages of a loop's steps, branches in them included, without those of inner loops."""
    return [operation for operation in ops_of_iteration(loop.body.block)
            if type(operation) in _MESSAGES and isinstance(operation, _Message)
            and desc_of(operation.desc).block.memory_scope == "global"
            and desc_of(operation.desc).block.access == "block"]


def _stays(term: Term, loop: scf.ForOp) -> bool:
    """Whether a term has the same value all through a loop."""
    return not is_inside(term if isinstance(term, SSAValue) else term.desc, loop)


def _place(message: _Message, at: Position, still: Sum) -> tuple[Any, ...]:
    """Key of blocks of one kind, on one array, in the same place along an axis: the compiler lets them share an
    address."""
    return surface_of(at.root) or at.root, message.name, message.desc.type, still


def _has_invariant_parts(loop: scf.ForOp, distances: bool) -> bool:
    """Whether a loop has prefetches, or an address of which it leaves a part as it is."""
    known: dict[SSAValue, Position] = {}

    def is_mixed(along: Sum) -> bool:
        still, moving = along.divided(lambda term: _stays(term, loop))
        return bool(still and (moving or (along.constant and not distances)))

    places = dict[Any, tuple[Term, ...]]()

    def moving(along: Sum) -> tuple[Term, ...]:
        return along.divided(lambda term: _stays(term, loop))[1]

    def is_shared(message: _Message, at: Position) -> bool:
        """Whether blocks at the same position along one axis move along the other, by constants or by other terms."""
        pairs = (at.row, at.column), (at.column, at.row)
        return any(moving(along) and not moving(other) and (along.constant or places.setdefault(
            _place(message, at, other), moving(along)) != moving(along)) for along, other in pairs)

    for message in _messages(loop):
        if isinstance(message, PrefetchNdOp):
            return True
        at = position_of(message.desc, known)
        if is_mixed(at.row) or is_mixed(at.column) or (not distances and is_shared(message, at)):
            return True
    return False


@dataclass(frozen=True)
class _Payload:
    """A payload before a loop.

    Attributes:
        value: the SSA value that holds it.
        kind: the array, the blocks, and the block of operations that it is set in.
        origin: row and column that it is set to.
    """

    value: SSAValue
    kind: Any
    origin: tuple[Sum, Sum]


@dataclass
class _LoopAddresses:
    """The addresses of one loop's messages.

    Attributes:
        inserter: for the function.
        loop: the loop.
        distances: whether messages take constant distances.
        room: whether each message shall have an address, and there are registers for them; if not, blocks share them
            where they can.
        apart: whether the compiler shall keep an address for each store, and not copy a neighbour's in each step. What
            it copies to is a register that another store reads, and protected by four instructions.
    """

    inserter: Inserter
    loop: scf.ForOp
    distances: bool
    room: bool
    apart: bool
    _payloads: list[_Payload] = field(default_factory=list)
    _starts: dict[Any, SSAValue] = field(default_factory=dict)
    _descs: dict[Any, SSAValue] = field(default_factory=dict)
    _surfaces: dict[Any, SSAValue] = field(default_factory=dict)
    _totals: dict[Any, SSAValue] = field(default_factory=dict)
    _known: dict[SSAValue, Position] = field(default_factory=dict)
    _places: dict[Any, Sum] = field(default_factory=dict)
    _grouped: set[Operation] = field(default_factory=set)

    def hoist(self, messages: list[_Message]) -> None:
        """Rewrite the loop's messages."""
        groups = PayloadGroups(self.inserter, self.loop, self._stays, self._matrix, self._before, self._total)
        if self.room and not self.distances:
            self._grouped |= groups.chain(messages, self._known)
        for message in messages:
            if message in self._grouped:
                continue
            at = position_of(message.desc, self._known)
            if isinstance(message, PrefetchNdOp) and self._prefetch(message, at):
                continue
            row, column = self._origin(message, at)
            if (row, column) != (at.row, at.column):
                message.operands = [*message.operands[:-1], self._moved(message, at.root, row, column)]
        if self._payloads and trips_of(self.loop) is not None:
            self.loop.attributes[DISABLE_UNROLL] = UnitAttr()

    def _stays(self, term: Term) -> bool:
        """Whether a term has the same value all through the loop."""
        return _stays(term, self.loop)

    def _start(self, still: Sum, use: Any = None, *, lane: int = 0) -> Sum:
        """Loop-invariant sum in a value of its own for each use, opaque to the device's compiler.

        Those that are broadcast from the same lane may become one: the compiler sees that they are the same.
        """
        key = still, use
        if key not in self._starts:
            total = index_of(self.inserter, self.loop, still)
            self._starts[key] = self.inserter.before(self.loop, SubgroupBroadcastOp(total, lane), "start")
        return Sum((self._starts[key],))

    def _steady(self, along: Sum) -> Sum:
        """A coordinate whose loop-invariant terms are one value."""
        still, moving = along.divided(self._stays)
        constant = 0 if self.distances else along.constant
        if self.distances and not self.room and not still and not moving:  # else it is part of the address
            return Sum(self._start(Sum()).terms, along.constant)
        if not still or not (moving or constant):
            return along
        start = self._start(Sum(still, constant))
        return Sum((*moving, *start.terms), along.constant - constant)

    def _origin(self, message: _Message, at: Position) -> tuple[Sum, Sum]:
        """Row and column of a block that is loaded or stored."""
        row, column = self._steady(at.row), self._steady(at.column)
        if self.distances or not self.room:
            return row, column
        return (self._distinct(row, column, _place(message, at, row)),
                self._distinct(column, row, _place(message, at, column)))

    def _distinct(self, here: Sum, other: Sum, place: tuple[Any, ...]) -> Sum:
        """A loop-invariant coordinate; in a value of its own if the other one moves, at a constant distance from a
        neighbour's or by other terms, as pages of a table do.

        Otherwise blocks with the same invariant coordinate would share an address, which would have to be changed twice
        a step, each time behind the message that still reads it.
        """
        still = here.divided(self._stays)[1] == ()
        moving = other.divided(self._stays)[1]
        if not (still and moving):
            return here
        first = self._places.setdefault(place, other)
        is_alike, is_store = first.divided(self._stays)[1] == moving, StoreNdOp.name in place
        if other == first or (is_alike and not other.constant and not self._grouped):
            return here
        if self._grouped or not is_alike or (is_store and self.apart):
            return self._start(here, other, lane=1 + sum(each == here for each, _ in self._starts))
        return self._start(here, other)

    def _moved(self, message: Operation, root: SSAValue, row: Sum, column: Sum) -> SSAValue:
        """A descriptor at a row and a column, in front of a message: what stays is set before the loop."""
        if (surface := self._surface(root)) is None:
            values = [index_of(self.inserter, message, along) for along in (row, column)]
            return self.inserter.before(message, SetNdOffsetsOp(root, *values), root.name_hint)
        moves = [along.divided(self._stays)[1] != () for along in (row, column)]
        before = self._before(surface, *(Sum() if moving else along
                                         for moving, along in zip(moves, (row, column), strict=True)))
        if not any(moves):
            return before
        offsets = [self._total(message, along) if moving else self.inserter.constant(0)
                   for moving, along in zip(moves, (row, column), strict=True)]
        return self.inserter.before(message, UpdateNdOffsetOp(before, offsets), root.name_hint)

    def _total(self, message: Operation, along: Sum) -> SSAValue:
        """A sum that moves, in front of a message; without its constant it is made once in a block of operations."""
        key = message.parent, along.terms
        if key not in self._totals:
            self._totals[key] = index_of(self.inserter, message, Sum(along.terms))
        return self.inserter.add(message, self._totals[key], along.constant)

    def _before(self, surface: SSAValue, row: Sum, column: Sum) -> SSAValue:
        """A descriptor on an array before the loop, one for each place."""
        key = surface, row, column
        if key not in self._descs:
            values = [index_of(self.inserter, self.loop, along) for along in (row, column)]
            new_op = SetNdOffsetsOp(surface, *values)
            self._descs[key] = self.inserter.before(self.loop, new_op, surface.name_hint)
        return self._descs[key]

    def _surface(self, root: SSAValue) -> SSAValue | None:
        """A descriptor on the same array from before the loop, or made there; None where the loop changes the array, or
        chooses a matrix of a batch."""
        if self._stays(root):
            return root
        owner = next(iter(root_definitions(root))).owner
        return None if isinstance(owner, CreateNdTdescOp) and len(owner.offsets) > 2 else self._matrix(root)

    def _matrix(self, root: SSAValue) -> SSAValue | None:
        """The same, where a step chooses a matrix of a batch as well, if all steps choose the same one."""
        if self._stays(root):
            return root
        definitions = root_definitions(root)
        owner = next(iter(definitions)).owner
        if len(definitions) > 1 or not isinstance(owner, CreateNdTdescOp):
            return None
        if self._stays(owner.result):
            return owner.result
        described = [owner.source, *owner.offsets[:-2], *owner.shape, *owner.strides]
        if not all(self._stays(value) for value in described):
            return None
        key = owner.result.type, *described
        if key not in self._surfaces:
            zero, kind = self.inserter.constant(0), owner.result.type
            assert isinstance(kind, TensorDescType)
            offsets = [*owner.offsets[:-2], zero, zero]
            new = CreateNdTdescOp(owner.source, offsets, list(owner.shape), list(owner.strides), kind)
            new.attributes.update(owner.attributes)
            self._surfaces[key] = self.inserter.before(self.loop, new, owner.result.name_hint)
        return self._surfaces[key]

    def _prefetch(self, message: PrefetchNdOp, at: Position) -> bool:
        """Prefetch a block through a payload; False where the loop allows none, and nothing is changed."""
        if (surface := self._surface(at.root)) is None:
            return False
        origin = self._steady(at.row), self._steady(at.column)
        kind = surface_of(at.root) or surface, message.desc.type, origin[0].terms, origin[1].terms, message.parent
        payload, distance = self._near(kind, origin) if self.distances else (None, (0, 0))
        if payload is None:
            if len(self._payloads) >= _MOST:
                return False
            payload = self._payload(message, surface, at.root, origin)
            self._payloads.append(_Payload(payload, kind, origin))
        new_op = hinted(PayloadPrefetchOp(payload, distance), message)
        self.inserter.before(message, new_op)
        erase(message)
        return True

    def _near(self, kind: Any, origin: tuple[Sum, Sum]) -> tuple[SSAValue | None, tuple[int, int]]:
        """A payload for the same blocks, set to at most so far in front of a place that a message reaches it."""
        for payload in self._payloads:
            row, column = (here.constant - there.constant for here, there in zip(origin, payload.origin, strict=True))
            if payload.kind == kind and 0 <= row < DISTANCE and 0 <= column < DISTANCE:
                return payload.value, (row, column)
        return None, (0, 0)

    def _payload(self, message: PrefetchNdOp, surface: SSAValue, root: SSAValue, origin: tuple[Sum, Sum]) -> SSAValue:
        """A payload that is made before the loop, and set in front of a prefetch to what moves."""
        moves = [along.divided(self._stays)[1] != () for along in origin]
        fixed = (Sum() if moving else along for moving, along in zip(moves, origin, strict=True))
        start = self._before(surface, *fixed)
        payload = self.inserter.before(self.loop, PayloadCreateOp(start), "payload")
        if any(moves):
            desc = self._moved(message, root, *origin)
            self.inserter.before(message, PayloadSetOp(payload, desc, rows=moves[0], columns=moves[1]))
        return payload
