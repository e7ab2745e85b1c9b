"""``xt.range``: a loop on the device, recorded by running its body once.

The source is never rewritten. When the loop is entered, the traced values that the caller's variables reach are
re-pointed at block arguments; when the body has run, those whose variable holds another object are what it carries.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Region, SSAValue

from xegpu.errors import ElementTypeError, TraceError
from xetile import frames
from xetile.tracer import current
from xetile.values import Scalar, Value, constant_of, scalar


class range:  # noqa: A001 - the language's own name
    """``for k in xt.range(stop)`` or ``xt.range(start, stop, step)``: a loop on the device.

    The body is recorded once, with ``k`` a run-time index. Variables that the body rebinds are carried from one
    iteration to the next and out of the loop, also inside lists, tuples and dicts; their shape and element type stay.

    Args:
        start, stop, step: Python integers or run-time indices; the step is positive.

    Raises:
        TraceError: the loop is left early, or a carried variable changes its type.
        ElementTypeError: a bound is not an integer.
    """

    def __init__(self, *bounds: Any) -> None:
        self._tracer = current("xt.range")
        self._location = self._tracer.location()
        if not 1 <= len(bounds) <= 3:
            raise ElementTypeError("xt.range takes a stop, or a start, a stop and a step", "xt.range(0, K, 32)",
                                   self._location)
        start, stop, step = {1: (0, *bounds, 1), 2: (*bounds, 1), 3: bounds}[len(bounds)]
        self._bounds = [scalar(bound) for bound in (start, stop, step)]
        size = constant_of(self._bounds[2])
        if size is not None and size <= 0:
            raise TraceError(f"the step of xt.range is {size}", "a loop on the device counts up: use a positive step",
                             self._location)
        self._state = "new"

    def __iter__(self) -> range:
        if self._state != "new" or not frames.at_for_loop(sys._getframe(1)):
            raise TraceError("xt.range must stand directly in a for statement",
                             "write `for k in xt.range(...):`, without enumerate, zip or list around it",
                             self._location)
        return self

    def __next__(self) -> Scalar:
        frame = sys._getframe(1)
        if self._state == "open":
            self._state = "closed"
            self._close(frame)
            raise StopIteration
        if self._state == "closed":
            raise StopIteration
        self._state = "open"
        return self._open(frame)

    def __del__(self) -> None:
        if getattr(self, "_state", "") != "open" or sys.exc_info()[0] is not None or self._tracer.broken:
            return
        self._tracer.broken = TraceError(
            "this loop on the device is left by break or return",
            "let it run to its end: compute the bound before the loop, or mask what it does",
            self._location,
        )

    def _open(self, frame: FrameType) -> Scalar:
        _separate(frame, frames.reachable(frame))
        self._before = {path: value for path, value in frames.reachable(frame).items()
                        if self._tracer.sees(value.ssa)}
        self._numbers = frames.reachable(frame, (int, float))
        self._initial: dict[int, SSAValue] = {}
        self._block = Block(arg_types=[IndexType()])
        self._arguments: dict[int, SSAValue] = {}
        for path, value in self._before.items():
            argument = self._block.insert_arg(value.ssa.type, len(self._block.args))
            argument.name_hint = _hint(path)
            self._initial[id(value)], self._arguments[id(value)] = value.ssa, argument
            value.ssa = argument
        self._tracer.blocks.append(self._block)
        return Scalar(self._block.args[0])

    def _close(self, frame: FrameType) -> None:
        after = frames.reachable(frame)
        self._check_numbers(frame, after)
        carried = [path for path, value in self._before.items() if after.get(path) is not value]
        yielded = [self._yielded(frame, path, after.get(path)) for path in carried]
        initial = [self._initial[id(self._before[path])] for path in carried]
        self._tracer.emit(scf.YieldOp(*yielded))
        self._tracer.blocks.remove(self._block)
        self._drop_the_unchanged({id(self._before[path]) for path in carried})
        loop = scf.ForOp(*self._bounds, initial, Region(self._block))
        self._tracer.emit(loop)
        for value in self._before.values():
            value.ssa = self._initial[id(value)]
        for path, result in zip(carried, loop.res, strict=True):
            result.name_hint = _hint(path)
            self._bring_out(frame, path, after[path], result, {id(after[p]) for p in after if p not in carried})

    def _yielded(self, frame: FrameType, path: tuple[Any, ...], new: Any) -> SSAValue:
        old = self._before[path]
        name = _name(path)
        if not isinstance(new, Value):
            what = "gone" if new is None and path[0] not in frame.f_locals else "no longer a traced value"
            raise TraceError(f"`{name}` is a {old.describe()} before the loop and {what} after its body",
                             "give it another name inside the loop", self._location)
        self._tracer.check_visible(new.ssa, self._location)
        if new.ssa.type != self._arguments[id(old)].type or getattr(new, "wg_map", None) != getattr(old, "wg_map", None):
            raise TraceError(
                f"`{name}` is a {old.describe()} before the loop and a {new.describe()} after its body",
                "what a loop carries keeps its shape, element type and wg_map: convert with .to(...), or give it "
                "another name", self._location,
            )
        return new.ssa

    def _drop_the_unchanged(self, carried: set[int]) -> None:
        for identity, argument in self._arguments.items():
            if identity not in carried:
                argument.replace_all_uses_with(self._initial[identity])
                self._block.erase_arg(argument)  # type: ignore[arg-type]

    def _bring_out(self, frame: FrameType, path: tuple[Any, ...], value: Value, result: SSAValue,
                   kept: set[int]) -> None:
        if id(value) in kept or id(value) in self._initial:
            value = value.clone()  # the object stands for something else too: this variable gets one of its own
            frames.place(frame, path, value)
        value.ssa = result

    def _check_numbers(self, frame: FrameType, after: dict[tuple[Any, ...], Any]) -> None:
        numbers = frames.reachable(frame, (int, float))
        for path, old in self._numbers.items():
            new = after.get(path, numbers.get(path, old))
            if new is old or (not isinstance(new, Value) and new == old):
                continue
            if len(path) > 1 or frames.reads_before_write(frame, path[0]):
                raise TraceError(
                    f"`{_name(path)}` is the Python number {old} when the loop starts and another value after its body",
                    f"a loop on the device carries run-time values only: start with "
                    f"{_name(path)} = xt.scalar({old}, {'xt.f32' if isinstance(old, float) else 'xt.index'})",
                    self._location,
                )


def _separate(frame: FrameType, values: dict[tuple[Any, ...], Value]) -> None:
    """Give every variable an object of its own, so that each can be carried by itself."""
    seen: set[int] = set()
    for path, value in values.items():
        if id(value) in seen:
            frames.place(frame, path, value.clone())
        seen.add(id(value))


def _name(path: tuple[Any, ...]) -> str:
    head, *keys = path
    return str(head) + "".join(f".{key}" if isinstance(key, str) else f"[{key}]" for key in keys)


def _hint(path: tuple[Any, ...]) -> str:
    return "_".join(str(key) for key in path if str(key).isidentifier() or isinstance(key, int))
