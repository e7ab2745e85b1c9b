"""Race detection: conflicting accesses of two instances to an element, and their report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from xegpu.interpreter.interpreter import BATCH, Interpreter
from xegpu.ir.dtypes import NDArray
from xegpu.ir.use_def import arrays_of
from xegpu.support.errors import CheckError
from xegpu.support.location import Location, author_location
from xetile.dialect.gather_scatter import AtomicRMWTileOp, LoadGatherOp, StoreScatterOp
from xetile.dialect.tile_ops import LoadTileOp, StoreTileOp
from xetile.runtime.sanitizer.findings import failed, instance, number, ran
from xetile.runtime.sanitizer.shadow_memory import AGAINST, READ, UPDATE, WRITE, Codes, Shadows, Span

KINDS: dict[type[Operation], str] = {LoadTileOp: READ, LoadGatherOp: READ, StoreTileOp: WRITE, StoreScatterOp: WRITE,
                                     AtomicRMWTileOp: UPDATE}
"""Memory access kinds of operations."""
Epoch = int | NDArray
"""A number of barriers, or one for each instance on the batch axes where not all passed the same."""
_VERBS = {READ: "reads", WRITE: "writes", UPDATE: "updates"}
_PARTICIPLES = {READ: "read", WRITE: "written", UPDATE: "updated"}


@dataclass(frozen=True)
class Access:
    """Access of one operation to the elements of a span.

    Attributes:
        kind: reading, writing or updating.
        span: the memory.
        shared: whether it is shared local memory.
        codes: for each element, the code of the accessing instance.
        several: whether some codes stand for several instances.
        form: the encoding of instances as codes.
        look: reads the elements' codes from those of the span.
        write: writes new codes of the elements, or of some of them.
        active: the mask of active elements.
        instance: index in ``codes`` to the instance's index on the batch axes.
        name: index in ``codes`` to the element's name.
        operand_notes: notes for an error.
    """

    kind: str
    span: Span
    shared: bool
    codes: NDArray
    several: bool
    form: Codes
    look: Callable[[NDArray], NDArray]
    write: Callable[..., None]
    active: Any
    instance: Callable[[tuple[int, ...]], tuple[int, ...]]
    name: Callable[[tuple[int, ...]], str]
    operand_notes: Callable[[tuple[int, ...]], list[tuple[str, Location | None]]]

    def surely_alone(self, before: NDArray) -> bool:
        """Whether no subgroup, or only the same one, accessed each element before."""
        return not before.any() or self.owns(before)

    def owns(self, before: NDArray) -> bool:
        """Whether the same subgroup accessed every element: then no other accesses it by this operation either."""
        return not self.several and bool((before == self.codes).all())

    def past(self, kind: str) -> NDArray | None:
        """Codes of the previous accesses of a kind; None if there were none."""
        return self.look(self.span.numbers[kind]) if kind in self.span.touched else None

    def note(self) -> None:
        """Record this access in the shadow memory."""
        numbers, before = self.span.numbers[self.kind], self.past(self.kind)
        self.span.touched.add(self.kind)
        if self.kind == WRITE:
            self.write(numbers, self.codes)
            return
        if before is not None and self.owns(before):
            return
        now = self.codes if before is None or self.surely_alone(before) else self.form.merged(before, self.codes)
        self.write(numbers, now)
        last = self.look(numbers)
        if (last == now).all():
            return
        others = (last != now) & (last > 0) & self.active  # instances of this same operation
        self.write(numbers, self.form.merged(last, now), others)


@dataclass
class RaceDetector:
    """Race detector of one launch.

    Attributes:
        names: the checks.
        distributed: whether a ``wg_map`` distributes the kernel's tiles over subgroups.
        in_step: whether all subgroups pass each barrier together.
        grid: work-groups of the launch.
        form: the encoding of instances as codes.
        replicated_stores: stores that wait for all subgroups.
    """

    names: frozenset[str]
    distributed: bool
    in_step: bool
    grid: tuple[int, int, int]
    form: Codes
    replicated_stores: frozenset[Operation]

    def __post_init__(self) -> None:
        self.shadows = Shadows(self.form)
        self._epochs: dict[Any, Epoch] = {}
        self._arrived: dict[SSAValue, int] = {}
        self._between: list[Callable[[], None]] = []

    def epoch(self, machine: Interpreter) -> Epoch:
        """Epoch: barriers that the active instances have passed."""
        return self._epochs.get(ran(machine), 0)

    def barrier(self, machine: Interpreter) -> None:
        """Record a work-group barrier."""
        passed = self.epoch(machine)
        self._epochs[ran(machine)] = passed + (1 if machine.active is None else machine.active.astype(np.int64))
        if self.in_step and machine.active is None:
            self.shadows.barrier()

    def arrive(self, machine: Interpreter, barrier: SSAValue) -> None:
        """Record an arrival at a named barrier."""
        if self.in_step and machine.active is None:
            self._arrived.setdefault(barrier, len(self._between))

    def between(self, replay: Callable[[], None]) -> None:
        """Defer an access between arrival and wait: it may come after the others' accesses after their wait.

        Args:
            replay: records it once more, as an access after the barrier.
        """
        if self._arrived:
            self._between.append(replay)

    def wait(self, machine: Interpreter, barrier: SSAValue) -> None:
        """Record a wait at a named barrier."""
        self.barrier(machine)
        if (start := self._arrived.pop(barrier, None)) is None:
            return
        for replay in self._between[start:]:
            replay()
        if not self._arrived:
            self._between.clear()

    def check(self, machine: Interpreter, operation: Operation, access: Access) -> None:
        """Check each element of an access for a race, and record the access.

        Raises:
            CheckError: another instance accessed an element, unordered with this access.
        """
        rewrites_own = False
        for past in AGAINST[access.kind]:
            if (before := access.past(past)) is not None:
                if access.owns(before):
                    rewrites_own = True
                else:
                    self._compare(machine, operation, access, before, past)
        access.note()
        if access.kind == WRITE and not rewrites_own:
            last = access.look(access.span.numbers[WRITE])
            if access.several or not (last == access.codes).all():  # two instances of this operation write it
                self._compare(machine, operation, access, np.where(last == access.codes, 0, last), WRITE)

    def _compare(self, machine: Interpreter, operation: Operation, access: Access, before: NDArray, past: str) -> None:
        if access.kind == READ and past == WRITE and access.several:  # replicas of which each reads what it has written
            before = np.where(before == access.codes, 0, before)
        if access.surely_alone(before):
            return
        bad = self.form.conflicts(before, access.codes, within=self.in_step, one_group=access.shared) & access.active
        if bad.any():
            at = first(bad)
            raise self._race(machine, operation, access, at, int(np.broadcast_to(before, bad.shape)[at]), past)

    def _race(self, machine: Interpreter, operation: Operation, access: Access, at: tuple[int, ...], other: int,
              past: str) -> CheckError:
        mine = self._another(machine, access, access.instance(at), other)
        who, same_group = self._other(machine, other, mine)
        atomically = " atomically"
        does = f"{_VERBS[access.kind]} {access.name(at)}{atomically if access.kind == UPDATE else ''}"
        done = f"{_PARTICIPLES[past]}{atomically if past == UPDATE else ''}"
        order = "since the last barrier" if same_group else "in the same launch"
        return failed(machine, operation, "XT6003" if same_group else "XT6002",
                      f"{instance(machine, mine)} {does}, which {who} {done} {order}",
                      _hint(access.kind, past, same_group=same_group), mine,
                      others=[*_others(operation, past), *access.operand_notes(mine)])

    def _another(self, machine: Interpreter, access: Access, position: tuple[int, ...], other: int) -> tuple[int, ...]:
        """Instance of a shared code, other than the one before."""
        if not access.several or access.codes.ndim < BATCH:
            return position
        choices = [(0, 1) if size == 1 < count else (i,)
                   for i, size, count in zip(position, access.codes.shape, machine.instances, strict=False)]
        group, subgroup = self.form.fields(other)
        for start in product(*choices):
            mine = self._group(machine, start)
            if mine != self._indices(group) or number(machine.subgroup, start) != subgroup:
                return (*start, *position[BATCH:])
        return position

    def _group(self, machine: Interpreter, position: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(number(machine.along(axis, *machine.groups[axis]), position) for axis in range(3))

    def _indices(self, group: int | None) -> tuple[int, ...]:
        """Position of a work-group in the grid; empty for several."""
        return () if group is None else (group % self.grid[0], group // self.grid[0] % self.grid[1],
                                         group // (self.grid[0] * self.grid[1]))

    def _other(self, machine: Interpreter, other: int, position: tuple[int, ...]) -> tuple[str, bool]:
        """Description of the previous instance, and whether it is of the same work-group."""
        group, subgroup = self.form.fields(other)
        if group is None:
            return "other work-groups have", False
        there = self._indices(group)
        if there != self._group(machine, position):
            return f"work-group ({', '.join(map(str, there))}) has", False
        return "another subgroup has" if subgroup is None or self.distributed else f"subgroup {subgroup} has", True


def _others(operation: Any, kind: str) -> list[tuple[str, Location | None]]:
    """Locations of the kernel's accesses to the arrays of an operation."""
    arrays, root = arrays_of(operation.tile), operation
    while (above := root.parent_op()) is not None:
        root = above
    accesses: list[Any] = [other for other in root.walk() if KINDS.get(type(other)) == kind and other is not operation
                        and arrays & arrays_of(other.tile)]
    surely = len(accesses) == 1 and KINDS.get(type(operation)) != kind  # else it may be this operation
    verb = "was" if surely else "may have been"
    return [(f"it {verb} {_PARTICIPLES[kind]} here", author_location(other)) for other in accesses[:3]]


def _hint(kind: str, past: str, *, same_group: bool) -> str:
    if UPDATE in (kind, past):
        return ("atomic updates race with other accesses: use xt.atomic_rmw_tile for both, whose result is the old "
                "value (an update with 0 and \"addi\" or \"addf\" reads), or " +
                ("put xt.barrier() between" if same_group else "use two launches"))
    if same_group:
        return "put xt.barrier() between the writes of one subgroup and the reads of another, and before the next ones"
    return ("let each work-group write elements of its own, or update them with xt.atomic_rmw_tile; nothing orders the "
            "work-groups of a launch")


def first(bad: NDArray) -> tuple[int, ...]:
    """Position of the first true element."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape))
