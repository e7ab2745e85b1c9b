"""``xt.range``: a loop on the device, recorded by running its body once.

The source is never rewritten. When the loop is entered, the traced values that the author's variables reach are
re-pointed at block arguments; when the body has run, those whose variable holds another object are what it carries.
"""

from __future__ import annotations

import sys
from types import FrameType, NoneType
from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Region, SSAValue

from xegpu.errors import ElementTypeError, TraceError
from xetile import frames
from xetile.arithmetic import constant_of
from xetile.frames import Path, Scope
from xetile.tiles import Tile
from xetile.tracer import current
from xetile.values import Arithmetic, Scalar, Value, Vector, scalar

_PLAIN = (int, float, complex, str, NoneType)
"""What a variable may hold that is no traced value, yet would change from one iteration to the next."""


class range:
    """``for k in xt.range(stop)`` or ``xt.range(start, stop, step)``: a loop on the device.

    The body is recorded once, with ``k`` a run-time index. Variables that the body rebinds are carried from one
    iteration to the next and out of the loop, also inside lists, tuples, dicts and objects; their shape and element
    type stay.

    Args:
        start, stop, step: Python integers or run-time indices. The step is positive; where it is known at run time
            only, that is the author's to see to.

    Raises:
        TraceError: the loop is left early, or a carried variable changes its type.
        ElementTypeError: a bound is not an integer.
    """

    def __init__(self, *bounds: Any) -> None:
        self._state = "new"
        self._tracer = current("xt.range")
        self._location = self._tracer.location()
        if not 1 <= len(bounds) <= 3:
            raise ElementTypeError(f"xt.range takes one to three bounds, not {len(bounds)}",
                                   "write xt.range(stop), or xt.range(start, stop, step) as in xt.range(0, K, 32)",
                                   self._location)
        start, stop, step = {1: (0, *bounds, 1), 2: (*bounds, 1), 3: bounds}[len(bounds)]
        self._start, self._stop, self._step = scalar(start), scalar(stop), scalar(step)
        size = constant_of(self._step)
        if size is not None and size <= 0:
            raise TraceError(f"the step of xt.range is {size}, and a loop on the device counts up",
                             f"use a positive step, such as {abs(size) or 1}; to count down from n, loop upwards "
                             "over k and use n - k", self._location)

    def __iter__(self) -> range:
        if self._state != "new" or not frames.at_for_statement(sys._getframe(1)):
            raise TraceError("xt.range stands somewhere else than in a for statement",
                             "write `for k in xt.range(...):`, with nothing like enumerate, zip or a comprehension "
                             "around it; to count iterations as well, carry i = xt.scalar(0)", self._location)
        return self

    def __next__(self) -> Scalar:
        if self._state == "open":
            self._state = "closed"
            self._close(sys._getframe(1))
        if self._state == "closed":
            raise StopIteration
        self._state = "open"
        return self._open(sys._getframe(1))

    def __del__(self) -> None:
        if self._state != "open" or self._tracer.broken:
            return
        self._tracer.broken = TraceError(
            "this loop on the device is left before its end, by break, return or an exception",
            "let it run to its end: put the condition into its bound, as in xt.range(0, xt.minimum(n, limit), step)",
            self._location,
        )

    def _open(self, frame: FrameType) -> Scalar:
        self._scope = Scope(frame, self._tracer.code)
        self._separate()
        self._before = {path: value for path, value in self._scope.reachable().items() if self._tracer.sees(value.ssa)}
        self._plain = self._scope.reachable(_PLAIN)
        self._sizes = self._lengths()
        self._block = Block(arg_types=[IndexType()])
        self._block.args[0].name_hint = frames.loop_variable(frame)
        self._objects = {id(value): value for value in self._before.values()}
        self._initial = {identity: value.ssa for identity, value in self._objects.items()}
        self._arguments = {identity: self._argument(value) for identity, value in self._objects.items()}
        self._tracer.blocks.append(self._block)
        return Scalar(self._block.args[0])

    def _argument(self, value: Value) -> SSAValue:
        argument = self._block.insert_arg(value.ssa.type, len(self._block.args))
        path = next(path for path, other in self._before.items() if other is value)
        argument.name_hint = path.hint or None
        value.ssa = argument
        return argument

    def _separate(self) -> None:
        """Give every variable an object of its own, so that each can be carried by itself."""
        seen: set[int] = set()
        for path, value in self._scope.reachable().items():
            if id(value) in seen:
                self._scope.place(path, value.clone())
            seen.add(id(value))

    def _lengths(self) -> dict[Path, int]:
        return {path: len(value) for path, value in self._scope.reachable((list, dict)).items()}

    def _close(self, frame: FrameType) -> None:
        after = self._scope.reachable()
        self._check_plain(after)
        self._check_lengths()
        carried = self._carried(after)
        yielded = [self._yielded(paths[0], after.get(paths[0])) for paths in carried]
        initial = [self._initial[id(self._before[paths[0]])] for paths in carried]
        self._tracer.emit(scf.YieldOp(*yielded))
        self._tracer.blocks.remove(self._block)
        self._drop_the_unchanged({id(self._before[paths[0]]) for paths in carried})
        loop = scf.ForOp(self._start, self._stop, self._step, initial, Region(self._block))
        self._tracer.emit(loop)
        for identity, value in self._objects.items():
            value.ssa = self._initial[identity]
        self._bring_out(carried, after, list(loop.res))

    def _carried(self, after: dict[Path, Any]) -> list[list[Path]]:
        """The paths that hold another object than before, together where they lead to one place."""
        groups: dict[int, list[Path]] = {}
        for path, old in self._before.items():
            if after.get(path) is not old and not self._is_temporary(path, after.get(path)):
                groups.setdefault(id(old), []).append(path)
        for identity, paths in groups.items():
            here = [p for p, old in self._before.items() if id(old) == identity and (p.depth == 0 or p in paths)]
            if any(after.get(path) is not after.get(paths[0]) for path in here):
                raise TraceError(
                    f"{_listed(here)} are one and the same before the loop, and differ after its body",
                    f"make a copy before the loop, as in {here[-1].root} = list({here[-1].root})", self._location)
        return list(groups.values())

    def _is_temporary(self, path: Path, new: Any) -> bool:
        """Whether the body uses the variable's name for something else, which nothing outside the body reads."""
        return not (self._fits(path, new) or self._scope.reads_first(path) or self._scope.reads_after(path))

    def _fits(self, path: Path, new: Any) -> bool:
        old: Any = self._before[path]
        return type(new) is type(old) and new.ssa.type == self._arguments[id(old)].type \
            and getattr(new, "wg_map", None) == getattr(old, "wg_map", None)

    def _yielded(self, path: Path, new: Any) -> SSAValue:
        old = self._before[path]
        if not isinstance(new, Value):
            now = _plainly(self._scope.get(path))
            raise TraceError(f"`{path}` is a {old.describe()} before the loop and {now} after its body",
                             "give what the body makes another name", self._location)
        self._tracer.check_visible(new.ssa, self._location)
        if not self._fits(path, new):
            before, now = _described(old, new)
            raise TraceError(f"`{path}` is a {before} before the loop and a {now} after its body",
                             _mend(path, old, new), self._location)
        return new.ssa

    def _drop_the_unchanged(self, carried: set[int]) -> None:
        for identity, argument in self._arguments.items():
            if identity not in carried:
                argument.replace_all_uses_with(self._initial[identity])
                self._block.erase_arg(argument)  # type: ignore[arg-type]

    def _bring_out(self, carried: list[list[Path]], after: dict[Path, Any], results: list[SSAValue]) -> None:
        """Let every carried variable stand for the loop's result, and nothing else stand for it."""
        every = {path for paths in carried for path in paths}
        taken = {*self._objects, *(id(value) for path, value in after.items() if path not in every)}
        for paths, result in zip(carried, results, strict=True):
            result.name_hint = paths[0].hint or None
            value = after[paths[0]]
            if id(value) in taken:
                value = value.clone()
                for path in paths:
                    self._scope.place(path, value)
            value.ssa = result
            taken.add(id(value))

    def _check_plain(self, after: dict[Path, Any]) -> None:
        plain = {**self._scope.reachable(_PLAIN), **after}
        for path, old in self._plain.items():
            new = plain.get(path, old)
            if new is old or (not isinstance(new, Value) and type(new) is type(old) and new == old):
                continue
            if self._scope.reads_first(path) or self._scope.reads_after(path):
                raise TraceError(f"`{path}` is {_plainly(old)} when the loop starts and {_plainly(new)} after its "
                                 "body, but the body is recorded only once",
                                 _start_with(path, old, new), self._location)

    def _check_lengths(self) -> None:
        now = self._lengths()
        for path, old in self._sizes.items():
            if now.get(path, old) != old and (self._scope.reads_first(path) or self._scope.reads_after(path)):
                raise TraceError(
                    f"`{path}` holds {old} items when the loop starts and {now[path]} after its body, but the body is "
                    "recorded only once",
                    f"let it keep its length: make all {max(old, now[path])} items before the loop, and replace them "
                    "inside", self._location)


def _listed(paths: list[Path]) -> str:
    return " and ".join(f"`{path}`" for path in paths)


def _described(old: Value, new: Value) -> tuple[str, str]:
    """Both values in words, with their maps if these differ."""
    maps = [getattr(value, "wg_map", None) for value in (old, new)]
    if maps[0] == maps[1]:
        return old.describe(), new.describe()
    shown = [str(map_ or "no wg_map") for map_ in maps]
    return f"{old.describe()} with {shown[0]}", f"{new.describe()} with {shown[1]}"


def _plainly(value: Any) -> str:
    if isinstance(value, Value):
        return f"a {value.describe()}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"the Python number {value}"
    shown = repr(value)
    return shown if len(shown) < 40 else f"a {type(value).__name__}"


def _start_with(path: Path, old: Any, new: Any) -> str:
    if isinstance(new, (Vector, Tile)):
        example = f"xt.zeros({new.shape}, xt.{new.dtype})" if isinstance(new, Vector) else "xt.init_tile(...)"
        return f"give it its first value before the loop: {path} = {example}"
    if isinstance(old, (int, float)) and not isinstance(old, bool):
        kind: Any = new.dtype if isinstance(new, Scalar) else "f32" if isinstance(old, float) else "index"
        return f"a loop on the device carries run-time values only: start with {path} = xt.scalar({old}, xt.{kind})"
    return "Python's own range unrolls a loop, and its body may then depend on such a variable; take the first " \
           "iteration out of the loop if it differs from the rest"


def _mend(path: Path, old: Any, new: Any) -> str:
    shapes = [getattr(value, "shape", ()) for value in (old, new)]
    calculated = isinstance(old, Arithmetic) and isinstance(new, Arithmetic) and shapes[0] == shapes[1]
    if calculated and old.dtype is not new.dtype:
        return f"what a loop carries keeps its type: end the body with {path} = {path}.to(xt.{old.dtype})"
    return "what a loop carries keeps its shape, element type and wg_map: give what the body makes another name"
