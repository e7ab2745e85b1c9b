"""What the body of a loop or of a condition rebinds, found by looking at the author's variables before and after it.

The body is recorded by running it once. Values that variables reach before it, and whose variable holds another object
after it, are what it changes: a loop carries those, a condition chooses between old and new.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from types import NoneType
from typing import Any

from xdsl.ir import SSAValue

from xegpu.support.errors import Note, TraceError
from xegpu.support.location import Location
from xetile.frontend.frames import Path, Scope
from xetile.frontend.notes import told
from xetile.frontend.ssa_value import Arithmetic, Value
from xetile.frontend.tiles import Tile
from xetile.frontend.tracer import Tracer, name_value
from xetile.frontend.values import Scalar, Vector

PLAIN = (int, float, complex, str, NoneType)
"""What a variable may hold that is no traced value, yet would change from one run of a body to the next."""


@dataclass(frozen=True)
class Construct:
    """A kind of statement, and how messages speak of it.

    Attributes:
        repeats: whether its body may run again, and then reads what it wrote.
        name: the statement, as in "before the loop".
        start: when its body starts.
        recorded: why a Python number cannot change in it.
        carries: what it does with values.
        owner: who does that.
        instead: what may depend on Python's own objects.
    """

    repeats: bool
    name: str
    start: str
    recorded: str
    carries: str
    owner: str
    instead: str


class Body:
    """The variables around a body, as they are before it.

    Attributes:
        scope: the variables.
        before: the traced values that they reach, by their paths, each an object of its own.
        plain: Python's numbers, texts and Nones that they reach.
        after: what they reach when the body has ended.
        objects: the objects of ``before``, by identity.
        initial: the SSA values of these objects, by identity.
    """

    def __init__(self, tracer: Tracer, location: Location, scope: Scope, construct: Construct) -> None:
        self._tracer, self._location, self.scope, self._construct = tracer, location, scope, construct
        self._separate()
        self.before: dict[Path, Value] = {path: value for path, value in scope.reachable().items()
                                          if tracer.sees(value.ssa)}
        self.plain = scope.reachable(PLAIN)
        self._sizes = self._lengths()
        self.objects = {id(value): value for value in self.before.values()}
        self.initial = {identity: value.ssa for identity, value in self.objects.items()}
        self.after: dict[Path, Any] = {}

    def hint(self, value: Value) -> str | None:
        """A name for a value of ``before`` in printed IR."""
        return next(path for path, other in self.before.items() if other is value).hint or None

    def end(self, apart: Container[Path] = ()) -> list[list[Path]]:
        """Look at the variables again: the paths that hold another object, together where they lead to one place.

        Args:
            apart: paths at which Python's own objects may have changed, as somebody else looks at those.

        Raises:
            TraceError: a variable that is still read has become something that cannot be carried.
        """
        self.after = self.scope.reachable()
        self._check_plain(apart)
        self._check_lengths()
        return self._carried()

    def old(self, paths: list[Path]) -> SSAValue:
        """What stood at these paths before the body."""
        return self.initial[id(self.before[paths[0]])]

    def new(self, paths: list[Path]) -> SSAValue:
        """What stands at these paths after it.

        Raises:
            TraceError: it has another type.
        """
        path = paths[0]
        old, new, name = self.before[path], self.after.get(path), self._construct.name
        if not isinstance(new, Value):
            raise TraceError("XT1310",
                             f"`{path}` is a {old.describe()} before {name} and {plainly(self.scope.get(path))} after "
                             "its body", "give what the body makes another name", self._location,
                             self._notes(path, old, new))
        self._tracer.check_visible(new.ssa, self._location)
        if not self._fits(path, new):
            was, now = described(old, new)
            raise TraceError("XT1311", f"`{path}` is a {was} before {name} and a {now} after its body",
                             self._mend(path, old, new), self._location, self._notes(path, old, new))
        return new.ssa

    def _notes(self, path: Path, old: Value, new: Any) -> list[Note]:
        """Where a variable's value of before the body was made, and that of after it."""
        was, now = described(old, new) if isinstance(new, Value) else (old.describe(), "")
        values = [(f"before {self._construct.name} `{path}` is a {was}", old.like(self.initial[id(old)])),
                  *([(f"after its body it is a {now}", new)] if isinstance(new, Value) else [])]
        return told(self._location, values)

    def bring_out(self, groups: list[list[Path]], results: list[SSAValue]) -> None:
        """Let every carried variable stand for the statement's result, and nothing else stand for it."""
        every = {path for paths in groups for path in paths}
        taken = {*self.objects, *(id(value) for path, value in self.after.items() if path not in every)}
        for paths, result in zip(groups, results, strict=True):
            name_value(result, paths[0].hint or None)
            value = self.after[paths[0]]
            if id(value) in taken:
                value = value.clone()
                for path in paths:
                    self.scope.place(path, value)
            value.ssa = result
            taken.add(id(value))

    def reads(self, path: Path) -> bool:
        """Whether what the variable of ``path`` holds after the body may be read."""
        again = self._construct.repeats and self.scope.reads_first(path)
        return again or self.scope.reads_after(path)

    def _separate(self) -> None:
        """Give every variable an object of its own, so that each can be carried by itself."""
        seen: set[int] = set()
        for path, value in self.scope.reachable().items():
            if id(value) in seen:
                self.scope.place(path, value.clone())
            seen.add(id(value))

    def _lengths(self) -> dict[Path, int]:
        return {path: len(value) for path, value in self.scope.reachable((list, dict)).items()}

    def _carried(self) -> list[list[Path]]:
        groups: dict[int, list[Path]] = {}
        for path, old in self.before.items():
            if self.after.get(path) is not old and not self._is_temporary(path, self.after.get(path)):
                groups.setdefault(id(old), []).append(path)
        for identity, paths in groups.items():
            here = [p for p, old in self.before.items() if id(old) == identity and (p.depth == 0 or p in paths)]
            if any(self.after.get(path) is not self.after.get(paths[0]) for path in here):
                name = self._construct.name
                raise TraceError("XT1314",
                    f"{_listed(here)} are one and the same before {name}, and differ after its body",
                    f"make a copy before {name}, as in {here[-1].root} = list({here[-1].root})", self._location)
        return list(groups.values())

    def _is_temporary(self, path: Path, new: Any) -> bool:
        """Whether the body uses the variable's name for something else, which nothing else reads."""
        return not (self._fits(path, new) or self.reads(path))

    def _fits(self, path: Path, new: Any) -> bool:
        old: Any = self.before[path]
        return type(new) is type(old) and new.ssa.type == self.initial[id(old)].type \
            and getattr(new, "wg_map", None) == getattr(old, "wg_map", None)

    def _check_plain(self, apart: Container[Path]) -> None:
        now = {**self.scope.reachable(PLAIN), **self.after}
        for path, old in self.plain.items():
            new = now.get(path, old)
            if new is old or (not isinstance(new, Value) and type(new) is type(old) and new == old):
                continue
            if path not in apart and self.reads(path):
                raise TraceError("XT1312",
                                 f"`{path}` is {plainly(old)} {self._construct.start} and {plainly(new)} after its "
                                 f"body, but the body is {self._construct.recorded}",
                                 self._start_with(path, old, new), self._location,
                                 told(self._location, [(f"after the body `{path}` is {plainly(new)}", new)]
                                      if isinstance(new, Value) else []))

    def _check_lengths(self) -> None:
        now = self._lengths()
        name, start, recorded = self._construct.name, self._construct.start, self._construct.recorded
        for path, old in self._sizes.items():
            if now.get(path, old) != old and self.reads(path):
                raise TraceError("XT1313",
                    f"`{path}` holds {old} items {start} and {now[path]} after its body, but the body is {recorded}",
                    f"let it keep its length: make all {max(old, now[path])} items before {name}, and replace them "
                    "inside", self._location)

    def _start_with(self, path: Path, old: Any, new: Any) -> str:
        if isinstance(new, (Vector, Tile)):
            example = f"xt.zeros({new.shape}, xt.{new.dtype})" if isinstance(new, Vector) else "xt.init_tile(...)"
            return f"give it its first value before {self._construct.name}: {path} = {example}"
        if isinstance(old, (int, float)) and not isinstance(old, bool):
            kind: Any = new.dtype if isinstance(new, Scalar) else "f32" if isinstance(old, float) else "index"
            owner = self._construct.owner
            return f"{owner} carries run-time values only: start with {path} = xt.scalar({old}, xt.{kind})"
        return self._construct.instead

    def _mend(self, path: Path, old: Any, new: Any) -> str:
        shapes = [getattr(value, "shape", ()) for value in (old, new)]
        calculated = isinstance(old, Arithmetic) and isinstance(new, Arithmetic) and shapes[0] == shapes[1]
        carries = self._construct.carries
        if calculated and old.dtype is not new.dtype:
            return f"{carries} keeps its type: end the body with {path} = {path}.to(xt.{old.dtype})"
        return f"{carries} keeps its shape, element type and wg_map: give what the body makes another name"


def _listed(paths: list[Path]) -> str:
    return " and ".join(f"`{path}`" for path in paths)


def described(old: Value, new: Value) -> tuple[str, str]:
    """Both values in words, with their maps if these differ."""
    maps = [getattr(value, "wg_map", None) for value in (old, new)]
    if maps[0] == maps[1]:
        return old.describe(), new.describe()
    shown = [str(map_ or "no wg_map") for map_ in maps]
    return f"{old.describe()} with {shown[0]}", f"{new.describe()} with {shown[1]}"


def plainly(value: Any) -> str:
    """Any object in a few words."""
    if isinstance(value, Value):
        return f"a {value.describe()}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"the Python number {value}"
    shown = repr(value)
    return shown if len(shown) < 40 else f"a {type(value).__name__}"
