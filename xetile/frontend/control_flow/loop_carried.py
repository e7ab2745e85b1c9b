"""Loop-carried variables: what the body of a loop or branch rebinds (``iter_args``), found by comparing variables.

The body is recorded by running it once. Traced values whose variable refers to another object afterwards are rebound:
a loop carries them, a branch selects between old and new.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from types import NoneType
from typing import Any

from xdsl.ir import SSAValue

from xegpu.support.errors import Note, TraceError
from xegpu.support.location import Location
from xetile.frontend.control_flow.frames import Path, Scope
from xetile.frontend.notes import definition_notes
from xetile.frontend.ssa_value import Arithmetic, Value
from xetile.frontend.tiles import Tile
from xetile.frontend.tracer import Tracer, name_value
from xetile.frontend.values import Scalar, Vector

PYTHON_TYPES = (int, float, complex, str, NoneType)
"""Types of Python objects that a body may not rebind, as its single recording would fix the first value."""


@dataclass(frozen=True)
class Construct:
    """Kind of statement with a recorded body, and its wording in messages.

    Attributes:
        repeats: whether its body may run again, and then reads the values that it wrote.
        name: the statement, as in "before the loop".
        start: when its body starts.
        recorded: why a Python number cannot change in it.
        carries: a value that it carries.
        owner: the statement as the subject of a sentence.
        instead: hint about Python's own statements.
    """

    repeats: bool
    name: str
    start: str
    recorded: str
    carries: str
    owner: str
    instead: str


class Body:
    """State of the variables around a recorded body.

    Attributes:
        scope: the variables.
        before: the traced values that they reach before the body, by path, each a distinct object.
        python_values: Python's numbers, texts and Nones that they reach.
        after: the traced values that they reach after the body.
        objects: the objects of ``before``, by identity.
        initial: the SSA values of these objects, by identity.
    """

    def __init__(self, tracer: Tracer, location: Location, scope: Scope, construct: Construct) -> None:
        self._tracer, self._location, self.scope, self._construct = tracer, location, scope, construct
        self._separate()
        self.before: dict[Path, Value] = {path: value for path, value in scope.reachable().items()
                                          if tracer.dominates(value.ssa)}
        self.python_values = scope.reachable(PYTHON_TYPES)
        self._sizes = self._lengths()
        self.objects = {id(value): value for value in self.before.values()}
        self.initial = {identity: value.ssa for identity, value in self.objects.items()}
        self.after: dict[Path, Any] = {}

    def hint(self, value: Value) -> str | None:
        """Name hint in printed IR for a value of ``before``."""
        return next(path for path, other in self.before.items() if other is value).hint or None

    def end(self, exempt: Container[Path] = ()) -> list[list[Path]]:
        """Compare the variables after the body: the rebound paths, grouped by the value that they had.

        Args:
            exempt: paths at which Python objects may have changed, as the caller checks those.

        Raises:
            TraceError: a variable that is live cannot be carried.
        """
        self.after = self.scope.reachable()
        self._check_python_objects(exempt)
        self._check_lengths()
        return self._carried()

    def old(self, paths: list[Path]) -> SSAValue:
        """SSA value at these paths before the body."""
        return self.initial[id(self.before[paths[0]])]

    def new(self, paths: list[Path]) -> SSAValue:
        """SSA value at these paths after the body.

        Raises:
            TraceError: its type differs.
        """
        path = paths[0]
        old, new, name = self.before[path], self.after.get(path), self._construct.name
        if not isinstance(new, Value):
            raise TraceError("XT1310",
                             f"`{path}` is a {old.describe()} before {name} and "
                             f"{describe_object(self.scope.get(path))} after "
                             "its body", "give what the body makes another name", self._location,
                             self._notes(path, old, new))
        self._tracer.check_visible(new.ssa, self._location)
        if not self._same_type(path, new):
            was, now = described(old, new)
            raise TraceError("XT1311", f"`{path}` is a {was} before {name} and a {now} after its body",
                             self._type_change_hint(path, old, new), self._location, self._notes(path, old, new))
        return new.ssa

    def _notes(self, path: Path, old: Value, new: Any) -> list[Note]:
        """Notes with the definitions of a variable's value before and after the body."""
        was, now = described(old, new) if isinstance(new, Value) else (old.describe(), "")
        values = [(f"before {self._construct.name} `{path}` is a {was}", old.like(self.initial[id(old)])),
                  *([(f"after its body it is a {now}", new)] if isinstance(new, Value) else [])]
        return definition_notes(self._location, values)

    def rebind(self, groups: list[list[Path]], results: list[SSAValue]) -> None:
        """Re-point every carried variable at the statement's result, in an object that no other variable refers to."""
        every = {path for paths in groups for path in paths}
        seen = {*self.objects, *(id(value) for path, value in self.after.items() if path not in every)}
        for paths, result in zip(groups, results, strict=True):
            name_value(result, paths[0].hint or None)
            value = self.after[paths[0]]
            if id(value) in seen:
                value = value.clone()
                for path in paths:
                    self.scope.assign(path, value)
            value.ssa = result
            seen.add(id(value))

    def reads(self, path: Path) -> bool:
        """Whether the variable of ``path`` is live after the body."""
        again = self._construct.repeats and self.scope.reads_first(path)
        return again or self.scope.reads_after(path)

    def _separate(self) -> None:
        """Give every variable a distinct object, so that each can be carried by itself."""
        seen: set[int] = set()
        for path, value in self.scope.reachable().items():
            if id(value) in seen:
                self.scope.assign(path, value.clone())
            seen.add(id(value))

    def _lengths(self) -> dict[Path, int]:
        """Lengths of the lists and dicts that variables reach."""
        return {path: len(value) for path, value in self.scope.reachable((list, dict)).items()}

    def _carried(self) -> list[list[Path]]:
        """Rebound paths, grouped by the value that they had."""
        groups: dict[int, list[Path]] = {}
        for path, old in self.before.items():
            if self.after.get(path) is not old and not self._is_temporary(path, self.after.get(path)):
                groups.setdefault(id(old), []).append(path)
        for identity, paths in groups.items():
            here = [p for p, old in self.before.items() if id(old) == identity and (p.depth == 0 or p in paths)]
            if any(self.after.get(path) is not self.after.get(paths[0]) for path in here):
                name = self._construct.name
                raise TraceError("XT1314",
                    f"{_path_list(here)} are the same object before {name}, and differ after its body",
                    f"make a copy before {name}, as in {here[-1].root} = list({here[-1].root})", self._location)
        return list(groups.values())

    def _is_temporary(self, path: Path, new: Any) -> bool:
        """Whether the body reuses the name of a variable that is dead after it."""
        return not (self._same_type(path, new) or self.reads(path))

    def _same_type(self, path: Path, new: Any) -> bool:
        """Whether a new value has the class, type and map of the old one."""
        old: Any = self.before[path]
        return type(new) is type(old) and new.ssa.type == self.initial[id(old)].type \
            and getattr(new, "wg_map", None) == getattr(old, "wg_map", None)

    def _check_python_objects(self, exempt: Container[Path]) -> None:
        """Check that no live variable with a Python number or text is rebound."""
        now = {**self.scope.reachable(PYTHON_TYPES), **self.after}
        for path, old in self.python_values.items():
            new = now.get(path, old)
            if new is old or (not isinstance(new, Value) and type(new) is type(old) and new == old):
                continue
            if path not in exempt and self.reads(path):
                raise TraceError("XT1312",
                                 f"`{path}` is {describe_object(old)} {self._construct.start} and "
                                 f"{describe_object(new)} after its "
                                 f"body, but the body is {self._construct.recorded}",
                                 self._initial_value_hint(path, old, new), self._location,
                                 definition_notes(self._location, [(f"after the body `{path}` is "
                                                                    f"{describe_object(new)}", new)]
                                      if isinstance(new, Value) else []))

    def _check_lengths(self) -> None:
        """Check that lists and dicts keep their lengths."""
        now = self._lengths()
        name, start, recorded = self._construct.name, self._construct.start, self._construct.recorded
        for path, old in self._sizes.items():
            if now.get(path, old) != old and self.reads(path):
                raise TraceError("XT1313",
                    f"`{path}` holds {old} items {start} and {now[path]} after its body, but the body is {recorded}",
                    f"let it keep its length: make all {max(old, now[path])} items before {name}, and replace them "
                    "inside", self._location)

    def _initial_value_hint(self, path: Path, old: Any, new: Any) -> str:
        """Hint for the initial value of a variable with a Python object."""
        if isinstance(new, (Vector, Tile)):
            example = f"xt.zeros({new.shape}, xt.{new.dtype})" if isinstance(new, Vector) else "xt.init_tile(...)"
            return f"give it its first value before {self._construct.name}: {path} = {example}"
        if isinstance(old, (int, float)) and not isinstance(old, bool):
            kind: Any = new.dtype if isinstance(new, Scalar) else "f32" if isinstance(old, float) else "index"
            owner = self._construct.owner
            return f"{owner} carries run-time values only: start with {path} = xt.scalar({old}, xt.{kind})"
        return self._construct.instead

    def _type_change_hint(self, path: Path, old: Any, new: Any) -> str:
        """Hint for a value whose type changes."""
        shapes = [getattr(value, "shape", ()) for value in (old, new)]
        calculated = isinstance(old, Arithmetic) and isinstance(new, Arithmetic) and shapes[0] == shapes[1]
        carries = self._construct.carries
        if calculated and old.dtype is not new.dtype:
            return f"{carries} keeps its type: end the body with {path} = {path}.to(xt.{old.dtype})"
        return f"{carries} keeps its shape, element type and wg_map: give what the body makes another name"


def _path_list(paths: list[Path]) -> str:
    """Paths joined with "and"."""
    return " and ".join(f"`{path}`" for path in paths)


def described(old: Value, new: Value) -> tuple[str, str]:
    """Descriptions of both values, with their maps if these differ."""
    maps = [getattr(value, "wg_map", None) for value in (old, new)]
    if maps[0] == maps[1]:
        return old.describe(), new.describe()
    shown = [str(map_ or "no wg_map") for map_ in maps]
    return f"{old.describe()} with {shown[0]}", f"{new.describe()} with {shown[1]}"


def describe_object(value: Any) -> str:
    """Description of any object in an error message."""
    if isinstance(value, Value):
        return f"a {value.describe()}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"the Python number {value}"
    shown = repr(value)
    return shown if len(shown) < 40 else f"a {type(value).__name__}"
