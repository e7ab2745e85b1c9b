"""``with xt.when(condition):`` and ``with xt.otherwise():``: branches on the device.

Each body is recorded by running it once. As with loops, the source is not rewritten: variables that a body rebinds
stand, behind it, for the choice between what they were before and what the body made of them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any

import numpy as np
from xdsl.dialects import scf
from xdsl.ir import Block, Region, SSAValue

from xegpu.ir import dtypes
from xegpu.support.errors import ElementTypeError, Note, TraceError, XeError
from xegpu.support.location import Location
from xetile.frontend.bytecode import Statement, with_statement
from xetile.frontend.frames import Path, Scope
from xetile.frontend.loop_carried import PLAIN, Body, Construct, described, plainly
from xetile.frontend.notes import notes, told
from xetile.frontend.ssa_value import Value
from xetile.frontend.tracer import Tracer, current
from xetile.frontend.values import Scalar, Vector

# Keeps the body of a ``with`` statement from running, for kernels that run themselves.


class _Skip(BaseException):
    """Leaves the body of a ``with`` statement before its first instruction."""


class BodySkip:
    """Keeps the body of the ``with`` statement that ``frame`` is entering from running.

    Python offers no way for a context manager to do so but a trace function that raises in the frame. One that a
    debugger has set is put back when the statement is left.
    """

    def __init__(self, frame: FrameType) -> None:
        self._frame, self._local, self._global = frame, frame.f_trace, sys.gettrace()
        self._opcodes = frame.f_trace_opcodes
        frame.f_trace, frame.f_trace_opcodes = self._raise, True
        sys.settrace(lambda *_: None)

    def _raise(self, frame: FrameType, event: str, argument: object) -> Any:
        self._restore()
        raise _Skip

    def _restore(self) -> None:
        self._frame.f_trace, self._frame.f_trace_opcodes = self._local, self._opcodes
        sys.settrace(self._global)

    def swallows(self, kind: type[BaseException] | None) -> bool:
        """Whether an exception that leaves the body is this one's; the trace functions are as they were then.

        It is the last thing that ``__exit__`` calls. A trace function in C, as coverage has, takes over again at the
        next call: were that one inside ``__exit__``, it would see a return whose call it has not seen, and lose count.
        """
        self._restore()
        return kind is _Skip


_INSTEAD = "Python's own `if` takes compile-time conditions, and its body may change such a variable"
_RECORDED = "recorded whether the condition holds or not"
_WHEN = Construct(False, "xt.when", "before xt.when", _RECORDED, "what xt.when changes", "xt.when", _INSTEAD)
_OTHERWISE = Construct(False, "xt.otherwise", "before xt.otherwise", _RECORDED, "what xt.otherwise changes",
                       "xt.otherwise", _INSTEAD)


class _Nothing:
    """What a body leaves where a variable, or an item of a list, is not there."""

    def __repr__(self) -> str:
        return "missing"


_NOTHING = _Nothing()


class _Branch:
    """What both branches share: a ``with`` statement whose body is recorded into a block of its own."""

    construct: Construct
    _state = "refused"
    _skip: BodySkip | None = None

    def __init__(self) -> None:
        self._tracer: Tracer = current(self.construct.name)
        self._location: Location = self._tracer.location()

    def __enter__(self) -> None:
        frame = sys._getframe(1)
        statement = with_statement(frame)
        if statement is None or self._state != "new":
            raise TraceError("XT1320", f"{self.construct.name} stands somewhere else than in a with statement",
                             f"write `with {self.construct.name}(...):` around what depends on the condition",
                             self._location)
        self._state = "open"
        self.frame, self.statement = frame, statement
        if self._tracer.runs:
            self._skip = None if self._runs_now() else BodySkip(frame)
            return
        self._start()
        self.body = Body(self._tracer, self._location, Scope(frame, self._tracer.code, statement), self.construct)
        self.block = Block()
        self._tracer.blocks.append(self.block)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> bool:
        self._state = "closed"
        if self._skip is not None:
            self._ran()
            return self._skip.swallows(kind)  # last: behind it nothing may be called, see there
        if kind is not None:
            self._tracer.broken = self._tracer.broken or self._left("an exception")
        elif not self.statement.is_left_at_its_end(sys._getframe(1)):
            self._tracer.broken = self._left("return, break or continue")
            raise self._tracer.broken
        elif self._tracer.runs:
            self._ran()
        else:
            self._finish()
        return False

    def _finish(self) -> None:
        try:
            self._end()
        except XeError as error:
            self._tracer.broken = error  # caught or not, the block that was open is lost
            raise

    def __del__(self) -> None:
        if self._state == "new" and not self._tracer.broken:
            self._tracer.broken = TraceError(
                "XT1320", f"{self.construct.name} is called outside a with statement, where it does nothing",
                f"write `with {self.construct.name}(...):`", self._location)

    def _left(self, how: str) -> TraceError:
        return TraceError("XT1321", f"the body of {self.construct.name} is left before its end, by {how}",
                          "let it run to its end: it is recorded whether the condition holds or not, so put what "
                          "depends on it into the body, and the rest behind it", self._location)

    def _runs_now(self) -> bool:
        """Whether the body runs, in a kernel that runs itself."""
        raise NotImplementedError

    def _ran(self) -> None:
        """What comes behind a body that ran, or did not, in a kernel that runs itself."""

    def _start(self) -> None:
        """What comes before the body is recorded."""

    def _end(self) -> None:
        """What comes after it."""

    def _branches(self, condition: SSAValue, blocks: tuple[Block, Block],
                  yielded: tuple[Sequence[SSAValue], Sequence[SSAValue]]) -> scf.IfOp:
        """Close the two blocks with what they yield, and record the operation that holds them."""
        for block, values in zip(blocks, yielded, strict=True):
            if block not in self._tracer.blocks:
                self._tracer.blocks.append(block)
            self._tracer.emit(scf.YieldOp(*values))
            self._tracer.blocks.remove(block)
        needed = bool(yielded[1]) or any(not isinstance(inner, scf.YieldOp) for inner in blocks[1].ops)
        operation = scf.IfOp(condition, [value.type for value in yielded[0]], Region(blocks[0]),
                             Region(blocks[1]) if needed else None)
        self._tracer.emit(operation)
        return operation


class when(_Branch):
    """``with xt.when(condition):`` runs its body on the device only where the condition holds.

    The body is recorded once. Variables that it rebinds, also inside lists, tuples, dicts and objects, are what the
    body made of them where the condition holds, and what they were before elsewhere; their shape and element type stay.

    Args:
        condition: a run-time ``i1``: the result of a comparison of run-time numbers. It is one for a whole subgroup.

    Raises:
        TraceError: the body is left early, or a variable changes its type; a Python ``bool`` as the condition.
        ElementTypeError: the condition is not a run-time ``i1``.
    """

    construct = _WHEN

    def __init__(self, condition: Any) -> None:
        super().__init__()
        self.condition = _condition(condition, self._location)
        self._state = "new"

    def _runs_now(self) -> bool:
        self.held = bool(self._tracer.held(self.condition))
        return self.held

    def _ran(self) -> None:
        self._tracer.condition = self

    def _end(self) -> None:
        groups = self.body.end()
        new, old = [self.body.new(paths) for paths in groups], [self.body.old(paths) for paths in groups]
        self.changes = changes(self.body)
        self.operation = self._branches(self.condition, (self.block, Block()), (new, old))
        self.body.bring_out(groups, list(self.operation.output))
        self._tracer.condition = self

    def take_back(self) -> None:
        """Take the operation out again, and let every variable stand for what it was before the body."""
        self.operation.detach()  # type: ignore[no-untyped-call]
        self.block = self.operation.true_region.detach_block(0)
        end = self.block.last_op
        assert end is not None
        self.block.erase_op(end)
        for path in self.changes:
            known = path in self.body.before or path in self.body.plain
            if known and self.body.scope.holds(path):
                self.body.scope.place(path, self.body.before.get(path, self.body.plain.get(path)))


class otherwise(_Branch):
    """``with xt.otherwise():``, right behind the body of an ``xt.when``, runs where its condition does not hold.

    Variables that either body rebinds stand, behind both, for the choice between the two; one that both give its first
    value needs none before.

    Raises:
        TraceError: something stands between the two bodies; or the variables differ in more than their values.
    """

    construct = _OTHERWISE

    def __init__(self) -> None:
        super().__init__()
        self._state = "new"

    def _runs_now(self) -> bool:
        return not self._followed().held

    def _start(self) -> None:
        self._when = self._followed()
        self._tracer.condition = None
        self._when.take_back()

    def _followed(self) -> when:
        condition = self._tracer.condition
        if not isinstance(condition, when) or not _follows(condition, self.frame, self.statement, self._tracer):
            last = [Note("the last xt.when is here", condition._location)] if isinstance(condition, when) else []
            raise TraceError("XT1322", "xt.otherwise does not follow an xt.when",
                             "write `with xt.otherwise():` right behind the body of `with xt.when(...):`, in the same "
                             "function", self._location, last)
        return condition

    def _end(self) -> None:
        was, body = self._when.body, self.body
        first = {**was.plain, **was.before, **self._when.changes}
        second = body.scope.reachable((Value, *PLAIN))
        body.end(apart=self._when.changes)
        groups = self._joined(first, second, [*self._when.changes, *changes(body)])
        new, old = ([left[paths[0]].ssa for paths in groups] for left in (first, second))
        operation = self._branches(self._when.condition, (self._when.block, self.block), (new, old))
        body.bring_out(groups, list(operation.output))

    def _joined(self, first: dict[Path, Any], second: dict[Path, Any], changed: Sequence[Path]) -> list[list[Path]]:
        """The paths where the two bodies leave different things, together where both lead to one place."""
        groups: dict[tuple[int, int], list[Path]] = {}
        for path in dict.fromkeys(changed):
            one, other = first.get(path, _NOTHING), second.get(path, _NOTHING)
            if self._is_joined(path, one, other):
                groups.setdefault((id(one), id(other)), []).append(path)
        return list(groups.values())

    def _is_joined(self, path: Path, one: Any, other: Any) -> bool:
        """Whether a variable becomes a choice between two values.

        Raises:
            TraceError: it is read behind the bodies, and they leave things of different types.
        """
        values = isinstance(one, Value) and isinstance(other, Value)
        if values and _alike(one, other):
            return path in self.body.before or self.body.reads(path)
        if not self.body.reads(path) or (len(path.keys) == 1 and (one is _NOTHING or other is _NOTHING)):
            return False  # what one body alone gives its first value cannot be used behind it
        if not values and type(one) is type(other) and one == other:
            return False
        shown = [f"a {text}" for text in described(one, other)] if values else [plainly(one), plainly(other)]
        raise TraceError("XT1323",
                         f"`{path}` is {shown[0]} after the body of xt.when and {shown[1]} after that of xt.otherwise",
                         "let both bodies leave run-time values of one type (xt.scalar makes one of a Python number), "
                         "or give what they leave different names", self._location, told(self._location, [
                             (f"xt.{name} leaves {text}", value) for name, text, value in
                             (("when", shown[0], one), ("otherwise", shown[1], other)) if isinstance(value, Value)]))


def _follows(condition: when, frame: FrameType, statement: Statement, tracer: Tracer) -> bool:
    last = tracer.runs or condition.operation is tracer.blocks[-1].last_op
    return condition.frame is frame and last and condition.statement.leads_straight_to(statement)


def _alike(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one.ssa.type == other.ssa.type \
        and getattr(one, "wg_map", None) == getattr(other, "wg_map", None)


def changes(body: Body) -> dict[Path, Any]:
    """What variables hold after a body and did not before: Python's own objects, and copies of traced values."""
    copies: dict[int, Any] = {}
    found: dict[Path, Any] = {}
    for path, value in body.scope.reachable((Value, *PLAIN)).items():
        if value is not body.before.get(path, body.plain.get(path, body)):
            copy = value.clone() if isinstance(value, Value) else value
            found[path] = copies.setdefault(id(value), copy)
    return found


def _condition(condition: Any, location: Location) -> SSAValue:
    if isinstance(condition, Scalar) and condition.dtype is dtypes.i1:
        return condition.ssa
    if isinstance(condition, (bool, int, float, np.bool_, np.number)):
        raise TraceError("XT1324", f"the condition of xt.when is {condition!r}, known when the kernel is recorded",
                         "branch on it with a plain `if`", location)
    if isinstance(condition, Scalar):
        raise ElementTypeError("XT1325", f"the condition of xt.when is a {condition.describe()}, and no truth value",
                               "compare it, as in xt.when(x != 0)", location, notes(location, it=condition))
    if isinstance(condition, Vector):
        raise ElementTypeError("XT1326", f"the condition of xt.when is a {condition.describe()}, of many truth values",
                               "a condition is one for a whole subgroup; choose element by element with "
                               "xt.where(condition, a, b)", location, notes(location, it=condition))
    what = condition.describe() if isinstance(condition, Value) else f"{type(condition).__name__} {condition!r:.40}"
    raise ElementTypeError("XT1327", f"the condition of xt.when is a {what}, which neither holds nor fails",
                           "compare run-time numbers, as in xt.when(xt.group_id(0) == 0)", location,
                           notes(location, it=condition))
