"""``with xt.when(condition):`` and ``with xt.otherwise():``: branches on the device (``scf.if``).

Each body is recorded by running it once. As with loops, the source is not rewritten: after a body, the variables that
it rebinds are results of the branch, the value before it or the value of the body.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any

import numpy as np
from xdsl.dialects import arith, scf
from xdsl.ir import Block, Region, SSAValue

from xegpu.ir import dtypes
from xegpu.support.errors import ElementTypeError, Note, TraceError, XeError
from xegpu.support.location import Location, SourceLocation
from xetile.frontend.control_flow.bytecode import Statement, with_statement
from xetile.frontend.control_flow.frames import Path, Scope
from xetile.frontend.control_flow.loop_carried import PYTHON_TYPES, Body, Construct, describe_object, described
from xetile.frontend.notes import definition_notes, notes
from xetile.frontend.ssa_value import Value
from xetile.frontend.tracer import Tracer, current
from xetile.frontend.values import Scalar, Vector


class _Skip(BaseException):
    """Exception that leaves the body of a ``with`` statement before its first instruction."""


class BodySkip:
    """Skips the body of the ``with`` statement that ``frame`` is entering, for eager execution.

    A context manager cannot skip its body but by a trace function that raises in the frame: ``sys.settrace`` enables
    tracing, ``f_trace_opcodes`` makes the next instruction an event. A debugger's trace functions are restored.
    """

    def __init__(self, frame: FrameType) -> None:
        self._frame, self._local, self._global = frame, frame.f_trace, sys.gettrace()
        self._opcodes = frame.f_trace_opcodes
        frame.f_trace, frame.f_trace_opcodes = self._raise, True
        sys.settrace(lambda *_: None)

    def _raise(self, frame: FrameType, event: str, argument: object) -> Any:
        """Trace function: leave the body at its first event."""
        self._restore()
        raise _Skip

    def _restore(self) -> None:
        """Restore the debugger's trace functions."""
        self._frame.f_trace, self._frame.f_trace_opcodes = self._local, self._opcodes
        sys.settrace(self._global)

    def suppresses(self, kind: type[BaseException] | None) -> bool:
        """Whether an exception that leaves the body is this one's; restores the trace functions.

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


class _Missing:
    """Marker for a variable, or an item of a list, that a body does not define."""

    def __repr__(self) -> str:
        return "missing"


_MISSING = _Missing()


class _Branch:
    """Base of both branches: a ``with`` statement whose body is recorded into a block."""

    construct: Construct
    _state = "refused"
    _skip: BodySkip | None = None

    def __init__(self) -> None:
        self._tracer: Tracer = current(self.construct.name)
        self._location: Location = self._tracer.location()

    def __enter__(self) -> None:
        frame = sys._getframe(1)  # CPython: the frame with the with statement
        statement = with_statement(frame)
        if statement is None or self._state != "new":
            raise TraceError("XT1320", f"{self.construct.name} is not in a with statement",
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
            return self._skip.suppresses(kind)  # last: nothing may be called after it, see there
        if kind is not None:
            self._tracer.broken = self._tracer.broken or self._early_exit("an exception")
        elif not self.statement.is_left_at_its_end(sys._getframe(1)):
            self._tracer.broken = self._early_exit("return, break or continue")
            raise self._tracer.broken
        elif self._tracer.runs:
            self._ran()
        else:
            self._finish()
        return False

    def _finish(self) -> None:
        """Finish recording; an error breaks the recording."""
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

    def _early_exit(self, how: str) -> TraceError:
        """Error for a body that is left early."""
        return TraceError("XT1321", f"the body of {self.construct.name} is left before its end, by {how}",
                          "let it run to its end: it is recorded whether the condition holds or not; move code that "
                          "does not depend on the condition after the body, and leave the kernel with "
                          "xt.return_if(condition)", self._location)

    def _runs_now(self) -> bool:
        """Whether the body runs, in eager execution."""
        raise NotImplementedError

    def _ran(self) -> None:
        """Bookkeeping after the statement, in eager execution."""

    def _start(self) -> None:
        """Hook before the body is recorded."""

    def _end(self) -> None:
        """Hook after the body is recorded."""

    def _emit_if(self, condition: SSAValue, blocks: tuple[Block, Block],
                  yielded: tuple[Sequence[SSAValue], Sequence[SSAValue]]) -> scf.IfOp:
        """Emit ``scf.if`` of two recorded blocks, each closed with the values that it yields."""
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
    """Device branch: ``with xt.when(condition):`` runs its body only where the condition is true.

    The body is recorded once. Variables that it rebinds, also inside lists, tuples, dicts and objects, have the value
    of the body where the condition is true, else the value before; their shape and element type are kept.

    Args:
        condition: a run-time ``i1``: the result of a comparison of run-time numbers. It is uniform in a subgroup.

    Raises:
        TraceError: the body is left early, or a variable changes its type; a Python ``bool`` as the condition.
        ElementTypeError: the condition is not a run-time ``i1``.
    """

    construct = _WHEN

    def __init__(self, condition: Any) -> None:
        super().__init__()
        self.condition = condition_of(condition, self._location)
        self._state = "new"

    def _runs_now(self) -> bool:
        """Whether the condition is true, in eager execution."""
        self.is_taken = bool(self._tracer.evaluate(self.condition))
        return self.is_taken

    def _ran(self) -> None:
        """Remember this statement for an ``xt.otherwise``."""
        self._tracer.condition = self

    def _end(self) -> None:
        """Emit ``scf.if`` with the rebound variables as results."""
        groups = self.body.end()
        new, old = [self.body.new(paths) for paths in groups], [self.body.old(paths) for paths in groups]
        self.changes = changes(self.body)
        self.operation = self._emit_if(self.condition, (self.block, Block()), (new, old))
        self.body.rebind(groups, list(self.operation.output))
        self._tracer.condition = self

    def undo(self) -> None:
        """Undo the branch for an ``xt.otherwise``: detach ``scf.if`` and restore the variables."""
        self.operation.detach()  # type: ignore[no-untyped-call]
        self.block = self.operation.true_region.detach_block(0)
        end = self.block.last_op
        assert end is not None
        self.block.erase_op(end)
        for path in self.changes:
            known = path in self.body.before or path in self.body.python_values
            if known and self.body.scope.is_assignable(path):
                self.body.scope.assign(path, self.body.before.get(path, self.body.python_values.get(path)))


class otherwise(_Branch):
    """Else branch: ``with xt.otherwise():``, right after the body of an ``xt.when``.

    Variables that either body rebinds have the value of the body that ran; one that both define needs no value
    before.

    Raises:
        TraceError: there is a statement between the two bodies; or the variables differ in more than their values.
    """

    construct = _OTHERWISE

    def __init__(self) -> None:
        super().__init__()
        self._state = "new"

    def _runs_now(self) -> bool:
        """Whether the condition of the ``xt.when`` is false, in eager execution."""
        return not self._preceding_when().is_taken

    def _start(self) -> None:
        """Undo the ``xt.when`` before this body is recorded."""
        self._when = self._preceding_when()
        self._tracer.condition = None
        self._when.undo()

    def _preceding_when(self) -> when:
        """The ``xt.when`` right before this statement."""
        condition = self._tracer.condition
        if not isinstance(condition, when) or not _follows(condition, self.frame, self.statement, self._tracer):
            last = [Note("the last xt.when is here", condition._location)] if isinstance(condition, when) else []
            raise TraceError("XT1322", "xt.otherwise does not follow an xt.when",
                             "write `with xt.otherwise():` right behind the body of `with xt.when(...):`, in the same "
                             "function", self._location, last)
        return condition

    def _end(self) -> None:
        """Emit ``scf.if`` with both blocks."""
        was, body = self._when.body, self.body
        first = {**was.python_values, **was.before, **self._when.changes}
        second = body.scope.reachable((Value, *PYTHON_TYPES))
        body.end(exempt=self._when.changes)
        groups = self._result_groups(first, second, [*self._when.changes, *changes(body)])
        new, old = ([left[paths[0]].ssa for paths in groups] for left in (first, second))
        operation = self._emit_if(self._when.condition, (self._when.block, self.block), (new, old))
        body.rebind(groups, list(operation.output))

    def _result_groups(self, first: dict[Path, Any], second: dict[Path, Any],
                       changed: Sequence[Path]) -> list[list[Path]]:
        """Paths whose values differ between the branches, grouped by the pair of values."""
        groups: dict[tuple[int, int], list[Path]] = {}
        for path in dict.fromkeys(changed):
            one, other = first.get(path, _MISSING), second.get(path, _MISSING)
            if self._is_result(path, one, other):
                groups.setdefault((id(one), id(other)), []).append(path)
        return list(groups.values())

    def _is_result(self, path: Path, one: Any, other: Any) -> bool:
        """Whether a path becomes a result of the branch.

        Raises:
            TraceError: it is read after the bodies, and their values have different types.
        """
        values = isinstance(one, Value) and isinstance(other, Value)
        if values and one.ssa is other.ssa:
            return False  # neither body changed it, or both to a value from before them
        if values and _same_type(one, other):
            return path in self.body.before or self.body.reads(path)
        if not self.body.reads(path) or (len(path.keys) == 1 and (one is _MISSING or other is _MISSING)):
            return False  # defined by one body alone, so not usable after it
        if not values and type(one) is type(other) and one == other:
            return False
        shown = [f"a {text}" for text in described(one, other)] if values else [describe_object(one),
                                                                                describe_object(other)]
        raise TraceError("XT1323",
                         f"`{path}` is {shown[0]} after the body of xt.when and {shown[1]} after that of xt.otherwise",
                         "let both bodies leave run-time values of one type (xt.scalar makes one of a Python number), "
                         "or give what they leave different names", self._location, definition_notes(self._location, [
                             (f"xt.{name} leaves {text}", value) for name, text, value in
                             (("when", shown[0], one), ("otherwise", shown[1], other)) if isinstance(value, Value)]))


def _follows(condition: when, frame: FrameType, statement: Statement, tracer: Tracer) -> bool:
    """Whether a statement follows the ``xt.when`` directly."""
    last = tracer.runs or condition.operation is tracer.blocks[-1].last_op
    return condition.frame is frame and last and condition.statement.leads_straight_to(statement)


def _same_type(one: Any, other: Any) -> bool:
    """Whether two values have one class, type and map."""
    return type(one) is type(other) and one.ssa.type == other.ssa.type \
        and getattr(one, "wg_map", None) == getattr(other, "wg_map", None)


def changes(body: Body) -> dict[Path, Any]:
    """Objects that variables refer to after a body and not before: Python objects, and copies of traced values."""
    copies: dict[int, Any] = {}
    found: dict[Path, Any] = {}
    for path, value in body.scope.reachable((Value, *PYTHON_TYPES)).items():
        if value is not body.before.get(path, body.python_values.get(path, body)):
            copy = value.clone() if isinstance(value, Value) else value
            found[path] = copies.setdefault(id(value), copy)
    return found


def condition_of(condition: Any, location: Location, name: str = "xt.when") -> SSAValue:
    """Condition as an i1 SSA value, checked."""
    if isinstance(condition, Scalar) and condition.dtype is dtypes.i1:
        return condition.ssa
    if isinstance(condition, (bool, int, float, np.bool_, np.number)):
        raise TraceError("XT1324", f"the condition of {name} is {condition!r}, known when the kernel is recorded",
                         "branch on it with Python's `if`", location)
    if isinstance(condition, Scalar):
        raise ElementTypeError("XT1325", f"the condition of {name} is a {condition.describe()}, and no truth value",
                               "compare it, as in x != 0", location, notes(location, it=condition))
    if isinstance(condition, Vector):
        raise ElementTypeError("XT1326", f"the condition of {name} is a {condition.describe()}, of many truth values",
                               "a condition is one value for the subgroup; select element by element with "
                               "xt.where(condition, a, b)", location, notes(location, it=condition))
    what = condition.describe() if isinstance(condition, Value) else f"{type(condition).__name__} {condition!r:.40}"
    raise ElementTypeError("XT1327", f"the condition of {name} is a {what}, which neither holds nor fails",
                           "compare run-time numbers, as in xt.group_id(0) == 0", location,
                           notes(location, it=condition))


class KernelExit(BaseException):
    """Exception that leaves the kernel, in eager execution."""


def return_if(condition: Any) -> None:
    """Leave the kernel where the condition is true: what follows runs only where it is false.

    It stands in the kernel itself or a helper, in no loop on the device and under no ``xt.when``. Code behind it meets
    a barrier only if all subgroups of a work-group get there.

    Args:
        condition: a run-time ``i1``, uniform in a subgroup.

    Raises:
        TraceError: it stands in the body of a loop on the device or of a condition; a Python ``bool`` as the condition.
        ElementTypeError: the condition is not a run-time ``i1``.
    """
    tracer = current("xt.return_if")
    location = tracer.location()
    leaves = condition_of(condition, location, "xt.return_if")
    if tracer.runs:
        if tracer.evaluate(leaves):
            raise KernelExit
        return
    if len(tracer.blocks) > 1 + len(tracer.exits):
        raise TraceError("XT1328", "xt.return_if stands in the body of a loop or of a condition on the device",
                         "end a loop by its condition, as in xt.range(n, while_=lambda: ...), and write xt.return_if "
                         "behind it", location)
    stays = tracer.emit(arith.XOrIOp(leaves, tracer.constant(True, dtypes.i1)))
    tracer.exits.append((stays, SourceLocation(location)))
    tracer.blocks.append(Block())
