"""Named barrier analysis: pairing of arrivals and waits, participants, producers and consumers.

Every subgroup that arrives at a barrier also waits there before it arrives again: arrivals and waits alternate on every
path through a kernel. Then a barrier can be reused once all have passed it, on every device.

Or some subgroups only arrive (producers) and the others only wait (consumers): :func:`producer_consumer`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import func, scf
from xdsl.dialects.gpu import BarrierOp
from xdsl.ir import Block, Operation, SSAValue

from xegpu.analysis.uniformity import enclosing, per_subgroup
from xegpu.dialect.sync import AllocNbarrierOp, InitNbarrierOp, NbarrierArriveOp, NbarrierOp
from xegpu.ir.region_branch import is_loop
from xegpu.ir.traversal import of_kind
from xegpu.support.errors import Note, ShapeError, TargetError, TraceError, XeError, plural
from xegpu.support.location import author_location
from xegpu.support.notes import notes_at
from xegpu.target.targets import Target, listed


def init_of(operation: NbarrierOp) -> InitNbarrierOp:
    """Defining operation of the barrier that an arrival or wait uses."""
    owner = operation.nbarrier.owner
    assert isinstance(owner, InitNbarrierOp)
    return owner


def _key(init: InitNbarrierOp) -> object:
    """Identity of a barrier: its constant id, or the SSA value of a run-time id."""
    return init.nbarrier_id if init.id is None else init.id


def check_alike(init: InitNbarrierOp, other: InitNbarrierOp, subgroups: int) -> None:
    """Check that a named barrier agrees with the first one of its id and has at most ``subgroups`` participants.

    Raises:
        ShapeError: more participants than subgroups, or another number of participants or producers.
    """
    count, first = init.participants, other.participants
    if count > subgroups:
        raise ShapeError("XT1470",
                         f"{count} subgroups take part in this barrier, and the work-group has {subgroups}",
                         f"give at most {subgroups}" if subgroups > 1 else "say how many subgroups a work-group "
                         f"has, as in @xt.kernel(subgroups=({count}, 1))", author_location(init))
    if count != first:
        raise ShapeError("XT1471", f"{_titled(init)} has {count} participants here and {first} above",
                         f"give {first} in both places, or another id", author_location(init),
                         _above(other, init, f"{first} participants"))
    if init.declared_producers != other.declared_producers:
        here, there = (_producing(each) for each in (init, other))
        raise ShapeError("XT1472", f"{_titled(init)} has {here} here and {there} above",
                         "give one number in both places, or another id", author_location(init),
                         _above(other, init, there))


def check(function: func.FuncOp, subgroups: int, kind: type[XeError] = TraceError) -> None:
    """Check the named barriers of a kernel.

    Args:
        function: the kernel, at any stage.
        subgroups: subgroups of a work-group.
        kind: the error to raise where the order of the operations is wrong.

    Raises:
        ShapeError: more participants than subgroups, another number for the same id, or an id that is not allocated.
        XeError: an arrival without a wait, or a wait without an arrival.
    """
    inits = of_kind(function, InitNbarrierOp)
    most = next((op.count for op in of_kind(function, AllocNbarrierOp)), None)
    seen: dict[object, InitNbarrierOp] = {}
    for init in inits:
        check_alike(init, seen.setdefault(_key(init), init), subgroups)
        if most is not None and init.id is not None and init.id >= most:
            raise ShapeError("XT1473", f"barrier {init.id} is none of the {most} that are allocated",
                             f"write xegpu.alloc_nbarrier {init.id + 1}", author_location(init))
    if inits:
        walked(function, kind)
        _check_all_come_by(function, subgroups)
        _check_producers(function)


def _check_producers(function: func.FuncOp) -> None:
    """Check that barriers with producers are used by producers and consumers, under divergent conditions."""
    divergent = divergent_operations(function)
    for init in (init for init in _inits(function) if init.declared_producers is not None):
        steps = [use.operation for use in init.result.uses]
        together = next((step for step in steps if step not in divergent), None)
        if together is not None:
            raise ShapeError("XT1474",
                             "all subgroups of the work-group reach this barrier, which has producers and consumers",
                             "put what producers and consumers do under conditions on subgroup_id",
                             author_location(together),
                             _definition_note(init, together))
        if len({type(use.operation) for init_ in _inits(function) if _key(init_) == _key(init)
                for use in init_.result.uses}) != 2:
            used = {type(step) for step in steps}
            missing = "no producer arrives" if NbarrierArriveOp not in used else "no consumer waits"
            raise ShapeError("XT1475", "this barrier has producers and consumers, and only one side uses it: "
                             f"{missing}", "let the producers arrive, and the consumers wait", author_location(init))


def producer_consumer(function: func.FuncOp) -> dict[SSAValue, tuple[int, int]]:
    """Barriers with producers (which only arrive) and consumers (which only wait), with the number of each.

    The author gives the number of producers. Of two participants without it, one is a producer if no branch of a
    condition on the subgroup has both arrivals and waits.
    """
    inits = _inits(function)
    if not inits:
        return {}
    differing = per_subgroup(function)
    found: dict[SSAValue, tuple[int, int]] = {}
    for init in inits:
        steps = [use.operation for other in inits if _key(other) == _key(init) for use in other.result.uses]
        if init.declared_producers is not None:
            found[init.result] = (init.declared_producers, init.participants - init.declared_producers)
        elif init.participants == 2 and _are_sides(steps, differing):
            found[init.result] = (1, 1)
    return found


def _are_sides(steps: Sequence[Operation], differing: set[SSAValue]) -> bool:
    kinds: dict[Block | None, set[type[Operation]]] = {}
    for step in steps:
        kinds.setdefault(_side(step, differing), set()).add(type(step))
    both = len({type(step) for step in steps}) == 2
    return both and None not in kinds and all(len(kind) == 1 for kind in kinds.values())


def _side(step: Operation, differing: set[SSAValue]) -> Block | None:
    """Branch of the outermost divergent condition that contains an operation."""
    side, inner = None, step
    while (around := enclosing(inner, differing)) is not None:
        block = step.parent
        while block is not None and block.parent_op() is not around:
            above = block.parent_op()
            block = above.parent if above is not None else None
        side, inner = block, around
    return side


def _check_all_come_by(function: func.FuncOp, subgroups: int) -> None:
    """Check that a barrier in uniform control flow has all subgroups as participants.

    Only a run-time id can divide them into groups.
    """
    divergent = divergent_operations(function)
    for step in of_kind(function, NbarrierOp):
        init = init_of(step)
        if init.id is not None and step not in divergent and init.participants != subgroups:
            raise ShapeError("XT1476", f"all {subgroups} subgroups of the work-group reach this barrier, and it has "
                             f"{init.participants} participants", f"give {subgroups} participants, an id that differs "
                             "between groups, such as xt.subgroup_id() // 2, or put it under a condition on "
                             "subgroup_id",
                             author_location(step), _definition_note(init, step))


@dataclass
class _Walk:
    """Walk over the paths of a kernel, with the pending barriers: those with an arrival and no wait yet.

    Attributes:
        kind: the error to raise.
        producer_consumer: barriers with producers and consumers, where arrivals and waits do not alternate.
        overlapping: barriers that are pending while another one, or ``gpu.barrier``, is used.
    """

    kind: type[XeError]
    producer_consumer: Mapping[SSAValue, tuple[int, int]]
    overlapping: set[object] = field(default_factory=set)

    def function(self, function: func.FuncOp) -> None:
        left = self._block(function.body.block, {})
        if left:
            raise no_wait(next(iter(left.values())), self.kind)

    def _block(self, block: Block, state: Mapping[object, NbarrierOp]) -> dict[object, NbarrierOp]:
        """Barriers that are pending at the end of a block."""
        now = dict(state)
        for operation in block.ops:
            if isinstance(operation, scf.WhileOp):
                now = self._while(operation, now)
            elif isinstance(operation, (scf.ForOp, scf.IfOp)):
                ends = [self._block(region.block, now) for region in operation.regions if region.blocks]
                now = self._alike(operation, [*ends, now])
            elif isinstance(operation, BarrierOp):
                self.overlapping |= set(now)
            elif isinstance(operation, NbarrierOp):
                self._step(operation, now)
        return now

    def _step(self, operation: NbarrierOp, now: dict[object, NbarrierOp]) -> None:
        key = _key(init_of(operation))
        if operation.nbarrier in self.producer_consumer:
            self.overlapping |= {key, *now}
        elif isinstance(operation, NbarrierArriveOp):
            if key in now:
                raise second_arrival(operation, now[key], self.kind)
            self.overlapping |= {key, *now} if now else set()
            now[key] = operation
        elif now.pop(key, None) is None:
            raise no_arrival(operation, self.kind)

    def _while(self, loop: scf.WhileOp, now: dict[object, NbarrierOp]) -> dict[object, NbarrierOp]:
        tested = self._block(loop.before_region.block, now)
        self._alike(loop, [self._block(loop.after_region.block, tested), now])
        return tested

    def _alike(self, operation: Operation, ends: Sequence[dict[object, NbarrierOp]]) -> dict[object, NbarrierOp]:
        """The first of the ways to one point, of which two count, checked to leave the same barriers pending."""
        for one, other in ((ends[0], ends[1]), (ends[1], ends[0])):
            if stray := one.keys() - other.keys():
                key = next(iter(stray))
                what, than, around = ("the body of a loop", "it finds it", "loop") \
                    if is_loop(operation) else ("a branch", "the other one does", "condition")
                here = author_location(one[key])
                raise self.kind("XT1480", f"{what} leaves this barrier otherwise than {than}: on some paths a subgroup "
                                "has arrived and not waited",
                                "put arrival and wait into the same body, or give the number of producers, where some "
                                "subgroups only arrive and others only wait", here,
                                notes_at(here, [(f"the {around} is here", author_location(operation))]))
        return ends[0]


def no_wait(arrival: NbarrierOp, kind: type[XeError] = TraceError) -> XeError:
    """Error of an arrival that no wait follows."""
    return kind("XT1477", "nothing waits behind this arrival",
                "call .wait() on the barrier before the kernel ends, or give the number of producers, where some "
                "subgroups only arrive and others only wait", author_location(arrival),
                _definition_note(init_of(arrival), arrival))


def second_arrival(second: NbarrierOp, first: NbarrierOp, kind: type[XeError] = TraceError) -> XeError:
    """Error of two arrivals of a subgroup without a wait between them."""
    here = author_location(second)
    return kind("XT1478", "a subgroup arrives here a second time, and has not waited since the first",
                "call .wait() on the barrier between two arrivals", here,
                notes_at(here, [("the first arrival is here", author_location(first))]))


def no_arrival(wait: NbarrierOp, kind: type[XeError] = TraceError) -> XeError:
    """Error of a wait of a subgroup that has not arrived."""
    return kind("XT1479", "a subgroup waits here, and has not arrived at this barrier",
                "every subgroup that waits is one of those waited for: call .arrive() before it, or give the number of "
                "producers, where some subgroups only arrive and others only wait", author_location(wait),
                _definition_note(init_of(wait), wait))


def _titled(init: InitNbarrierOp) -> str:
    return "the barrier of this id" if init.id is None else f"barrier {init.id}"


def _producing(init: InitNbarrierOp) -> str:
    count = init.declared_producers
    return "no number of producers" if count is None else plural(count, "producer")


def _above(other: InitNbarrierOp, here: InitNbarrierOp, what: str) -> list[Note]:
    return notes_at(author_location(here), [(f"{_titled(other)} is made with {what} here", author_location(other))])


def _definition_note(init: InitNbarrierOp, step: Operation) -> list[Note]:
    """Note of the definition of the barrier that an arrival or wait uses."""
    text = f"{_titled(init)}, of {init.participants} participants, is made here"
    return notes_at(author_location(step), [(text, author_location(init))])


def walked(function: func.FuncOp, kind: type[XeError]) -> _Walk:
    """Walk over a kernel, with its findings."""
    walk = _Walk(kind, producer_consumer(function))
    walk.function(function)
    return walk


def divergent_operations(function: func.FuncOp) -> list[NbarrierOp]:
    """Operations on named barriers in divergent control flow, which not all subgroups of a work-group reach."""
    steps: Sequence[NbarrierOp] = of_kind(function, NbarrierOp)
    differing = per_subgroup(function) if steps else set()
    return [step for step in steps if enclosing(step, differing) is not None]


def workgroup_barriers(function: func.FuncOp, subgroups: int, target: Target) -> set[SSAValue]:
    """Named barriers that are lowered to the work-group's split barrier.

    All subgroups participate, in uniform control flow, and no other barrier is used between an arrival and its wait:
    the hardware has one work-group barrier. Without named barriers on the target that is every one
    (:func:`check_target`).
    """
    inits = _inits(function)
    if not inits:
        return set()
    walk = walked(function, TraceError)
    strays = {_key(init_of(step)) for step in divergent_operations(function)} | walk.overlapping
    return {init.result for init in inits if not target.named_barriers
            or (init.participants == subgroups and _key(init) not in strays)}


def _inits(function: func.FuncOp) -> list[InitNbarrierOp]:
    return of_kind(function, InitNbarrierOp)


def in_step(function: func.FuncOp, subgroups: int) -> bool:
    """Whether all subgroups of a work-group pass all named barriers together, so that they may run in lock step.

    A work-group level kernel, which counts as one subgroup, does so.
    """
    same = all(init.participants == subgroups for init in _inits(function))
    return subgroups == 1 or (same and not divergent_operations(function))


def check_target(function: func.FuncOp, target: Target) -> None:
    """Check that a target can implement every named barrier of a kernel.

    A target without named barriers uses the work-group barrier for those in uniform control flow.

    Raises:
        TargetError: divergent control flow, or two pending barriers, and the target has no named barriers.
    """
    if target.named_barriers or not (inits := _inits(function)):
        return
    having = listed(lambda other: other.named_barriers)
    advice = f"let all subgroups reach it, for example with the barrier behind the condition; {having} have named ones"
    if strays := divergent_operations(function):
        raise TargetError("XT1481", f"{target.name} has no named barriers, and not all subgroups of a work-group "
                          "reach this one", advice, author_location(strays[0]),
                          _definition_note(init_of(strays[0]), strays[0]))
    walk = walked(function, TraceError)
    first = next((init for init in inits if _key(init) in walk.overlapping), None)
    if first is not None:
        raise TargetError("XT1482", f"{target.name} has one barrier, and between an arrival at this one and its wait "
                          "there is another",
                          f"wait before the next barrier; {having} have named ones", author_location(first),
                          notes_at(author_location(first), [
                              (f"{_titled(init)} is another", author_location(init)) for init in inits
                              if init is not first and _key(init) in walk.overlapping]))
