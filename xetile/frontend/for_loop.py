"""``xt.range``: loops on the device (``scf.for``), recorded by running the body once.

The source is not rewritten. On entry, the traced values that the author's variables reach are re-pointed at block
arguments; after the body, those whose variable refers to another object are loop-carried.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, i64
from xdsl.ir import Attribute, Block, Region, SSAValue

from xegpu.ir.matchers import BARRIER, UNROLL
from xegpu.support.errors import ElementTypeError, ShapeError, TraceError
from xetile.frontend import bytecode
from xetile.frontend.arith_rules import constant_of
from xetile.frontend.constants import scalar
from xetile.frontend.frames import Scope
from xetile.frontend.loop_carried import Body, Construct
from xetile.frontend.ssa_value import Value
from xetile.frontend.tracer import current, name_value
from xetile.frontend.values import Scalar

_LOOP = Construct(
    True, "the loop", "when the loop starts", "recorded only once", "what a loop carries", "a loop on the device",
    "Python's own range unrolls a loop, and its body may then depend on such a variable; take the first iteration out "
    "of the loop if it differs from the rest")


_MAX_STEPS = 64
"""Largest unroll factor, and longest interval of barriers: compile time grows with the unrolled text."""


class range:
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

    Raises:
        TraceError: the loop is left early, or a carried variable changes its type; a loop with ``barrier`` that not all
            subgroups of a work-group run alike.
        ElementTypeError: a bound, ``unroll`` or ``barrier`` is not an integer.
        ShapeError: ``unroll`` or ``barrier`` is not between 1 and 64.
    """

    def __init__(self, *bounds: Any, unroll: int | None = None, barrier: int | None = None) -> None:
        self._state = "new"
        self._tracer = current("xt.range")
        self._location = self._tracer.location()
        if not 1 <= len(bounds) <= 3:
            raise ElementTypeError("XT1330", f"xt.range takes one to three bounds, not {len(bounds)}",
                                   "write xt.range(stop), or xt.range(start, stop, step) as in xt.range(0, K, 32)",
                                   self._location)
        start, stop, step = {1: (0, *bounds, 1), 2: (*bounds, 1), 3: bounds}[len(bounds)]
        self._start, self._stop, self._step = scalar(start), scalar(stop), scalar(step)
        size = constant_of(self._step)
        if size is not None and size <= 0:
            raise self._counts_down(int(size))
        options = {UNROLL: ("unroll", unroll), BARRIER: ("barrier", barrier)}
        self._options = {key: self._count(name, value) for key, (name, value) in options.items() if value is not None}

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

    def __iter__(self) -> Iterator[Scalar]:
        if self._state != "new" or not bytecode.at_for_statement(sys._getframe(1)):
            raise self._misplaced()
        return self._run() if self._tracer.runs else self

    def _run(self) -> Iterator[Scalar]:
        """Iteration in eager execution: the indices one after the other."""
        start, stop, step = (self._tracer.evaluate(bound) for bound in (self._start, self._stop, self._step))
        if step <= 0:
            raise self._counts_down(step)
        for position in builtins.range(start, stop, step):
            yield Scalar(scalar(position))

    def _counts_down(self, step: int) -> TraceError:
        """Error for a step that is not positive."""
        return TraceError("XT1331", f"the step of xt.range is {step}, and a loop on the device counts up",
                          f"use a positive step, such as {abs(step) or 1}; to count down from n, loop upwards "
                          "over k and use n - k", self._location)

    def _misplaced(self) -> TraceError:
        """Error for a range outside a ``for`` statement."""
        return TraceError("XT1334", "xt.range is used outside a for statement",
                          "write `for k in xt.range(...):`, with nothing like enumerate, zip or a comprehension "
                          "around it; to count iterations as well, carry i = xt.scalar(0)", self._location)

    def __next__(self) -> Scalar:
        if self._state == "open":
            self._state = "closed"
            self._close()
        if self._state == "closed":
            raise StopIteration
        index = self._open(sys._getframe(1))
        self._state = "open"
        return index

    def __del__(self) -> None:
        if self._state != "open" or self._tracer.broken:
            return
        self._tracer.broken = TraceError("XT1335",
            "this loop on the device is left before its end, by break, return or an exception",
            "let it run to its end: put the condition into its bound, as in xt.range(0, xt.minimum(n, limit), step)",
            self._location,
        )

    def _open(self, frame: FrameType) -> Scalar:
        """Start recording the body: a block with the index and the values that may be carried."""
        statement = bytecode.for_statement(frame)
        if statement is None:
            raise self._misplaced()
        scope = Scope(frame, self._tracer.code, statement)
        self._body = Body(self._tracer, self._location, scope, _LOOP)
        self._block = Block(arg_types=[IndexType()])
        name_value(self._block.args[0], bytecode.loop_variable(frame))
        self._arguments = {identity: self._argument(value) for identity, value in self._body.objects.items()}
        self._tracer.blocks.append(self._block)
        return Scalar(self._block.args[0])

    def _argument(self, value: Value) -> SSAValue:
        """Block argument for a value that may be carried; the value is re-pointed at it."""
        argument = self._block.insert_arg(value.ssa.type, len(self._block.args))
        name_value(argument, self._body.hint(value))
        self._tracer.starts[argument] = value.ssa
        value.ssa = argument
        return argument

    def _close(self) -> None:
        """Finish recording: emit ``scf.for`` with the carried values, and re-point the variables at its results."""
        body = self._body
        carried = body.end()
        yielded, initial = [body.new(paths) for paths in carried], [body.old(paths) for paths in carried]
        self._tracer.emit(scf.YieldOp(*yielded))
        self._tracer.blocks.remove(self._block)
        self._erase_invariant({id(body.before[paths[0]]) for paths in carried})
        loop = scf.ForOp(self._start, self._stop, self._step, initial, Region(self._block))
        loop.attributes.update(self._options)
        self._tracer.emit(loop)
        for identity, value in body.objects.items():
            value.ssa = body.initial[identity]
        body.rebind(carried, list(loop.res))

    def _erase_invariant(self, carried: set[int]) -> None:
        """Erase the block arguments of values that the loop does not carry."""
        for identity, argument in self._arguments.items():
            if identity not in carried:
                argument.replace_all_uses_with(self._body.initial[identity])
                self._block.erase_arg(argument)  # type: ignore[arg-type]
