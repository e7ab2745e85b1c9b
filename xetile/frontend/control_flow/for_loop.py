"""``xt.range`` and ``xt.while_``: loops on the device (``scf.for``, ``scf.while``), recorded by running the body once.

The source is not rewritten. On entry, the traced values that the author's variables reach are re-pointed at block
arguments; after the body, those whose variable refers to another object are loop-carried.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, i64
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from xegpu.ir.matchers import BARRIER, UNROLL
from xegpu.mlir.scf import verify_step
from xegpu.support.errors import ElementTypeError, Invalid, ShapeError, TraceError, error_parts
from xetile.frontend.arith_rules import constant_of
from xetile.frontend.constants import scalar
from xetile.frontend.control_flow import bytecode
from xetile.frontend.control_flow.frames import Path, Scope
from xetile.frontend.control_flow.if_else import condition_of
from xetile.frontend.control_flow.loop_carried import Body, Construct, describe_object
from xetile.frontend.ssa_value import Value
from xetile.frontend.tracer import current, name_value
from xetile.frontend.values import Scalar

_LOOP = Construct(
    True, "the loop", "when the loop starts", "recorded only once", "what a loop carries", "a loop on the device",
    "Python's own range unrolls a loop, and its body may then depend on such a variable; take the first iteration out "
    "of the loop if it differs from the rest")


_MAX_STEPS = 64
"""Largest unroll factor, and longest interval of barriers: compile time grows with the unrolled text."""


class _Loop:
    """Base of the device loops: the iterator of a ``for`` statement, which records its body in one iteration."""

    _name: str
    _state = "refused"
    _condition: Callable[[], Any] | None = None

    def __init__(self) -> None:
        self._tracer = current(self._name)
        self._location = self._tracer.location()

    def __iter__(self) -> Iterator[Any]:
        if self._state != "new" or not bytecode.at_for_statement(sys._getframe(1)):
            raise self._misplaced()
        return self._run() if self._tracer.runs else self

    def _run(self) -> Iterator[Any]:
        """Iteration in eager execution."""
        raise NotImplementedError

    def _misplaced(self) -> TraceError:
        """Error for a loop outside a ``for`` statement."""
        written = {"xt.range": "for k in xt.range(...):", "xt.while_": "for _ in xt.while_(lambda: ...):"}[self._name]
        return TraceError("XT1334", f"{self._name} is used outside a for statement",
                          f"write `{written}`, with nothing like enumerate, zip or a comprehension "
                          "around it; to count iterations as well, carry i = xt.scalar(0)", self._location)

    def __next__(self) -> Any:
        if self._state == "open":
            self._state = "closed"
            self._close()
        if self._state == "closed":
            raise StopIteration
        frame = sys._getframe(1)  # CPython: the frame with the for statement
        statement = bytecode.for_statement(frame)
        if statement is None:
            raise self._misplaced()
        self._body = Body(self._tracer, self._location, Scope(frame, self._tracer.code, statement), _LOOP)
        index = self._start_recording(bytecode.loop_variable(frame))
        self._state = "open"
        return index

    def _start_recording(self, hint: str | None) -> Any:
        """Start recording the body; returns the loop variable, whose name is ``hint``."""
        raise NotImplementedError

    def _close(self) -> None:
        """Finish recording."""
        raise NotImplementedError

    def __del__(self) -> None:
        if self._state != "open" or self._tracer.broken:
            return
        self._tracer.broken = TraceError("XT1335",
            "this loop on the device is left before its end, by break, return or an exception",
            "let it run to its end: what ends it is in its bound, as in xt.range(0, xt.minimum(n, limit), step), or in "
            "its condition, as in xt.range(n, while_=lambda: error > limit) or xt.while_(lambda: error > limit)",
            self._location,
        )

    def _enter(self, block: Block) -> dict[int, SSAValue]:
        """Open a block with an argument for each value that may be carried; the values are re-pointed at them."""
        arguments: dict[int, SSAValue] = {}
        for identity, value in self._body.objects.items():
            argument = arguments[identity] = block.insert_arg(value.ssa.type, len(block.args))
            name_value(argument, self._body.hint(value))
            self._tracer.starts[argument] = value.ssa
            value.ssa = argument
        self._tracer.blocks.append(block)
        return arguments

    def _erase_invariant(self, carried: Sequence[list[Path]], arguments: dict[int, SSAValue]) -> None:
        """Erase the block arguments of values that the loop does not carry."""
        kept = {id(self._body.before[paths[0]]) for paths in carried}
        for identity, argument in arguments.items():
            if identity not in kept:
                assert isinstance(argument, BlockArgument)
                argument.replace_all_uses_with(self._body.initial[identity])
                argument.block.erase_arg(argument)

    def _leave(self, loop: Operation, carried: list[list[Path]], results: Sequence[SSAValue]) -> None:
        """Emit the loop, and re-point the variables at its results."""
        self._tracer.emit(loop)
        for identity, value in self._body.objects.items():
            value.ssa = self._body.initial[identity]
        self._body.rebind(carried, list(results))

    def _function(self, condition: Any, what: str) -> Callable[[], Any]:
        """A condition, checked to be a function.

        Raises:
            TraceError: it is something else.
        """
        if isinstance(condition, Value) or not callable(condition):
            raise TraceError("XT1336", f"{what} of {self._name} is {describe_object(condition)}, and not a function "
                             "that gives it anew for each iteration", "put a lambda in front of it, as in "
                             f"{'xt.while_(' if self._name == 'xt.while_' else 'xt.range(n, while_='}lambda: "
                             "error > limit)", self._location)
        return condition  # type: ignore[no-any-return]

    def _test(self) -> SSAValue:
        """Call the condition; returns the ``i1``."""
        assert self._condition is not None
        return condition_of(self._condition(), self._location, self._name)

    def _goes_on(self, index: SSAValue | None) -> SSAValue:
        """Record whether there is another iteration."""
        return self._test()

    def _next_index(self, index: SSAValue | None) -> list[SSAValue]:
        """Record the index of the next iteration, if the loop has one."""
        return []

    def _open_while(self, hint: str | None, start: SSAValue | None) -> SSAValue | None:
        """Record the first region of ``scf.while``, and open the second; returns the index, if there is a start."""
        self._before, self._after = Block(), Block()
        indices = [block.insert_arg(IndexType(), 0) for block in (self._before, self._after) if start is not None]
        for index in indices:
            name_value(index, hint)
        self._index_before = indices[0] if indices else None
        self._index = indices[1] if indices else None
        self._arguments_before = self._enter(self._before)
        self._holds = self._goes_on(self._index_before)
        self._check_unchanged()
        self._tracer.blocks.remove(self._before)
        self._arguments = self._enter(self._after)
        return self._index

    def _check_unchanged(self) -> None:
        """Check that the condition rebound no variable: it is recorded before the body that would carry it."""
        now = self._body.scope.reachable()
        for path, value in self._body.before.items():
            if now.get(path) is not value:
                raise TraceError("XT1337", f"the condition of {self._name} gives `{path}` another value",
                                 f"rebind `{path}` before the loop and at the end of its body; the condition only "
                                 "compares", self._location)

    def _close_while(self, start: SSAValue | None) -> None:
        """Finish recording: emit ``scf.while`` with the carried values, and re-point the variables at its results."""
        tracer, body = self._tracer, self._body
        carried = body.end()
        yielded = [body.new(paths) for paths in carried]
        tracer.emit(scf.YieldOp(*self._next_index(self._index), *yielded))
        tracer.blocks.remove(self._after)
        tracer.blocks.append(self._before)
        tracer.emit(scf.ConditionOp(self._holds, *([] if self._index_before is None else [self._index_before]), *(
            self._arguments_before[id(body.before[paths[0]])] for paths in carried)))
        tracer.blocks.remove(self._before)
        self._erase_invariant(carried, self._arguments)
        self._erase_invariant(carried, self._arguments_before)
        initial = [*([] if start is None else [start]), *(body.old(paths) for paths in carried)]
        loop = scf.WhileOp(initial, [value.type for value in initial], Region(self._before), Region(self._after))
        self._leave(loop, carried, loop.res[start is not None:])


class range(_Loop):
    """Device loop: ``for k in xt.range(stop)`` or ``xt.range(start, stop, step, unroll=4)``.

    The body is recorded once, with ``k`` a run-time index. Variables that the body rebinds are loop-carried, and live
    after the loop, also inside lists, tuples, dicts and objects; their shape and element
    type stay.

    Args:
        start, stop, step: Python integers or run-time indices. The step is positive; a run-time step is
            not checked.
        unroll: unroll factor; the remaining iterations get a remainder loop.
            By default loops that only load, prefetch and multiply are unrolled where that saves instructions. It does
            not change results.
        barrier: the subgroups of a work-group wait for each other in every so many steps (a split barrier: they arrive
            before the step and wait behind it), so that they stay together and share cache lines. It affects only
            speed and does not order memory; targets without 2D block IO ignore it, and so do the remaining iterations
            of an unrolled loop.

        while_: a function of no arguments that gives a run-time ``i1``, such as ``lambda: error > limit``: before each
            iteration it is called, and the loop ends early where it is false. It is called as well where the index
            has reached ``stop``.

    Raises:
        TraceError: the loop is left early, or a carried variable changes its type; a loop with ``barrier`` that not all
            subgroups of a work-group run alike; ``while_`` is not such a function.
        ElementTypeError: a bound, ``unroll`` or ``barrier`` is not an integer.
        ShapeError: ``unroll`` or ``barrier`` is not between 1 and 64.
    """

    _name = "xt.range"

    def __init__(self, *bounds: Any, unroll: int | None = None, barrier: int | None = None,
                 while_: Callable[[], Any] | None = None) -> None:
        super().__init__()
        if not 1 <= len(bounds) <= 3:
            raise ElementTypeError("XT1330", f"xt.range takes one to three bounds, not {len(bounds)}",
                                   "write xt.range(stop), or xt.range(start, stop, step) as in xt.range(0, K, 32)",
                                   self._location)
        start, stop, step = {1: (0, *bounds, 1), 2: (*bounds, 1), 3: bounds}[len(bounds)]
        self._start, self._stop, self._step = scalar(start), scalar(stop), scalar(step)
        size = constant_of(self._step)
        if size is not None:
            self._check_step(int(size))
        options = {UNROLL: ("unroll", unroll), BARRIER: ("barrier", barrier)}
        self._options = {key: self._count(name, value) for key, (name, value) in options.items() if value is not None}
        self._condition = None if while_ is None else self._function(while_, "while_")
        if self._options and while_ is not None:
            raise TraceError("XT1338", "xt.range takes unroll or barrier, or while_, not both",
                             "drop while_, or the option: the number of iterations is not known before the loop",
                             self._location)
        self._state = "new"

    def _count(self, name: str, value: Any) -> Attribute:
        """Attribute of a loop option, checked: an integer from 1 to ``_MAX_STEPS``."""
        if isinstance(value, (bool, Value)) or not hasattr(value, "__index__"):
            shown = f"a {value.describe()}" if isinstance(value, Value) else f"{value!r:.40}"
            raise ElementTypeError("XT1332", f"{name} of xt.range is {shown}, not an integer",
                                   f"give a compile-time number of steps, such as {name}=4", self._location)
        if not 1 <= int(value) <= _MAX_STEPS:
            raise ShapeError("XT1333", f"{name} of xt.range is {int(value)}, and must be between 1 and {_MAX_STEPS}",
                             f"use {name}={min(max(int(value), 1), _MAX_STEPS)}", self._location)
        return IntegerAttr(int(value), i64)

    def _run(self) -> Iterator[Scalar]:
        """Iteration in eager execution: the indices one after the other; none where the step is not positive."""
        start, stop, step = (self._tracer.evaluate(bound) for bound in (self._start, self._stop, self._step))
        if step <= 0:
            return
        if self._condition is None:
            for position in builtins.range(start, stop, step):
                yield Scalar(scalar(position))
            return
        while self._tracer.evaluate(self._test()) and start < stop:
            yield Scalar(scalar(start))
            start += step

    def _check_step(self, step: int) -> None:
        """Check that a constant step is positive.

        Raises:
            TraceError: it is not.
        """
        try:
            verify_step(step)
        except Invalid as error:
            raise TraceError(*error_parts(error), self._location) from None

    def _start_recording(self, hint: str | None) -> Scalar:
        if self._condition is not None:
            index = self._open_while(hint, self._start)
            assert index is not None
            return Scalar(index)
        self._block = Block(arg_types=[IndexType()])
        name_value(self._block.args[0], hint)
        self._arguments = self._enter(self._block)
        return Scalar(self._block.args[0])

    def _goes_on(self, index: SSAValue | None) -> SSAValue:
        """Whether there is another iteration: the index is below its bound, the step is positive, and the condition
        holds."""
        holds = self._test()
        assert index is not None
        both: Scalar = (Scalar(index) < Scalar(self._stop)) & Scalar(holds)
        if constant_of(self._step) is None:
            both = both & (Scalar(self._step) > 0)
        return both.ssa

    def _next_index(self, index: SSAValue | None) -> list[SSAValue]:
        return [] if index is None else [(Scalar(index) + Scalar(self._step)).ssa]

    def _close(self) -> None:
        """Finish recording: emit ``scf.for`` with the carried values, and re-point the variables at its results."""
        if self._condition is not None:
            self._close_while(self._start)
            return
        carried = self._body.end()
        yielded = [self._body.new(paths) for paths in carried]
        self._tracer.emit(scf.YieldOp(*yielded))
        self._tracer.blocks.remove(self._block)
        self._erase_invariant(carried, self._arguments)
        loop = scf.ForOp(self._start, self._stop, self._step, [self._body.old(paths) for paths in carried],
                         Region(self._block))
        loop.attributes.update(self._options)
        self._leave(loop, carried, loop.res)


class while_(_Loop):
    """Device loop with a condition: ``for _ in xt.while_(lambda: error > limit):``.

    The condition is called once while the kernel is recorded, and evaluated on the device before each iteration. What
    the body rebinds is loop-carried, as with :class:`range`, and the condition sees it.

    Args:
        condition: a function of no arguments that gives a run-time ``i1``, uniform in a subgroup. It rebinds nothing.

    Raises:
        TraceError: ``condition`` is not such a function; the loop is left early, or a carried variable changes its
            type.
        ElementTypeError: the condition is a number or a vector.
    """

    _name = "xt.while_"

    def __init__(self, condition: Callable[[], Any]) -> None:
        super().__init__()
        self._condition = self._function(condition, "the condition")
        self._state = "new"

    def _run(self) -> Iterator[None]:
        """Iteration in eager execution."""
        while self._tracer.evaluate(self._test()):
            yield None

    def _start_recording(self, hint: str | None) -> None:
        self._open_while(None, None)

    def _close(self) -> None:
        self._close_while(None)
