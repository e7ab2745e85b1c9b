"""Looks into and writes to the local variables of running Python functions.

Recording a loop or a condition needs three things of the author's frames: every traced value that variables reach, a
way to put another object in the place of one, and whether a variable is read before it is written.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import CellType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

from xetile.frontend.bytecode import Statement
from xetile.frontend.ssa_value import Value
from xetile.frontend.tiles import Array

_DEPTH = 8
_CLOSED = {"builtins", "numpy", "ml_dtypes", "xetile", "xegpu", "codegen", "xdsl", "dpctl", "dpnp"}
"""Packages whose objects hold no values of the author's."""


@dataclass(frozen=True)
class Key:
    """One step of a path: ``"local"`` variable, ``"item"`` of a container, ``"attribute"``, or ``"cell"``."""

    kind: str
    name: Any


@dataclass(frozen=True)
class Path:
    """A way to an object: from a variable of the frame that is ``depth`` calls up, step by step."""

    depth: int
    keys: tuple[Key, ...]

    @property
    def root(self) -> str:
        """The variable."""
        return str(self.keys[0].name)

    def __str__(self) -> str:
        forms = {"local": "{}", "item": "[{!r}]", "attribute": ".{}", "cell": " (its variable {})"}
        return "".join(forms[key.kind].format(key.name) for key in self.keys)

    @property
    def hint(self) -> str:
        """The path as a name for printed IR."""
        return "_".join(str(key.name) for key in self.keys if str(key.name).isalnum() or str(key.name).isidentifier())


class Scope:
    """The variables that a statement's body can reach: those of its function and of the callers up to the kernel.

    A caller's variables stand still while its callee runs, but lists that they share, and variables that inner
    functions close over, do not.

    Args:
        frame: the function that the statement stands in.
        stop: the code of the kernel, the last frame to look at.
        statement: the loop or the condition.
    """

    def __init__(self, frame: FrameType, stop: CodeType, statement: Statement) -> None:
        self.frames, self.statement = [frame], statement
        while self.frames[-1].f_code is not stop and self.frames[-1].f_back is not None:
            self.frames.append(self.frames[-1].f_back)

    def reachable(self, kinds: tuple[type, ...] = (Value,)) -> dict[Path, Any]:
        """Every object of ``kinds``, by its path.

        Lists, tuples, dicts, objects of the author's classes and what functions close over are looked into. Array
        arguments are left out: they are the same in every iteration.
        """
        found: dict[Path, Any] = {}
        for depth, frame in enumerate(self.frames):
            for name, value in list(frame.f_locals.items()):
                if depth and isinstance(value, kinds) and name not in _cells(frame.f_code):
                    continue  # no one can rebind it while this loop runs
                found.update(_walk(Path(depth, (Key("local", name),)), value, kinds, (), set()))
        return found

    def get(self, path: Path) -> Any:
        """What stands at ``path``, None if there is nothing."""
        try:
            value = self.frames[path.depth].f_locals[path.root]
            for key in path.keys[1:]:
                value = _child(value, key)
        except (LookupError, AttributeError, TypeError, ValueError):
            return None
        return value

    def holds(self, path: Path) -> bool:
        """Whether there is something at ``path``, or it is a variable, so that something can be placed there."""
        return len(path.keys) == 1 or self.get(path) is not None

    def place(self, path: Path, value: Any) -> None:
        """Put ``value`` at ``path``, rebuilding the tuples on the way and changing other containers in place."""
        frame = self.frames[path.depth]
        old = frame.f_locals[path.root]
        new = _replaced(old, path.keys[1:], value)
        if new is not old:
            write_local(frame, path.root, new)

    def reads_first(self, path: Path) -> bool:
        """Whether the statement's body may read the variable of ``path`` before it writes it.

        A variable that other functions can touch counts as read.
        """
        return self._is_shared(path) or self.statement.reads_inside(path.root)

    def reads_after(self, path: Path) -> bool:
        """Whether the variable of ``path`` may be read behind the statement before it is written there."""
        return self._is_shared(path) or self.statement.reads_after(path.root)

    def _is_shared(self, path: Path) -> bool:
        return path.depth > 0 or path.root in _cells(self.frames[0].f_code)


def _walk(path: Path, value: Any, kinds: tuple[type, ...], above: tuple[int, ...],
          seen: set[int]) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, Array):
        return
    if isinstance(value, kinds):
        yield path, value
        if not isinstance(value, (list, dict)):
            return
    if id(value) in above or len(above) >= _DEPTH or (id(value) in seen and not isinstance(value, (list, tuple, dict))):
        return
    seen.add(id(value))
    for key, item in _items(value):
        yield from _walk(Path(path.depth, (*path.keys, key)), item, kinds, (*above, id(value)), seen)


def _items(value: Any) -> list[tuple[Key, Any]]:
    if isinstance(value, (list, tuple)):
        return [(Key("item", position), item) for position, item in enumerate(value)]
    if isinstance(value, dict):
        return [(Key("item", key), item) for key, item in value.items()]
    if isinstance(value, FunctionType):
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        return [(Key("cell", name), cell.cell_contents) for name, cell in cells if _filled(cell)]
    if isinstance(value, MethodType):
        return [(Key("attribute", "__self__"), value.__self__)]
    if isinstance(value, functools.partial):
        return [(Key("attribute", name), getattr(value, name)) for name in ("func", "args", "keywords")]
    if isinstance(value, (type, ModuleType)) or (type(value).__module__.partition(".")[0] in _CLOSED):
        return []
    return [(Key("attribute", name), getattr(value, name)) for name in _attributes(value) if hasattr(value, name)]


def _attributes(value: Any) -> list[str]:
    slots = [name for kind in type(value).__mro__ for name in _slots(kind)]
    return [*getattr(value, "__dict__", {}), *slots]


def _slots(kind: type) -> tuple[str, ...]:
    slots = kind.__dict__.get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if not name.startswith("__"))


def _filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty cell raises
    except ValueError:
        return False
    return True


def _replaced(container: Any, keys: tuple[Key, ...], value: Any) -> Any:
    if not keys:
        return value
    key, rest = keys[0], keys[1:]
    old = _child(container, key)
    new = _replaced(old, rest, value)
    if new is old:
        return container
    if isinstance(container, tuple):
        items = [*container[:key.name], new, *container[key.name + 1:]]
        return type(container)(*items) if hasattr(container, "_fields") else tuple(items)
    if key.kind == "item":
        container[key.name] = new
    elif key.kind == "cell":
        _cell(container, key.name).cell_contents = new
    elif not isinstance(container, functools.partial):  # whose tuple of arguments cannot change
        object.__setattr__(container, key.name, new)
    return container


def _child(container: Any, key: Key) -> Any:
    if key.kind == "item":
        return container[key.name]
    return _cell(container, key.name).cell_contents if key.kind == "cell" else getattr(container, key.name)


def _cell(function: FunctionType, name: str) -> CellType:
    return (function.__closure__ or ())[function.__code__.co_freevars.index(name)]


def _cells(code: CodeType) -> tuple[str, ...]:
    return (*code.co_cellvars, *code.co_freevars)


def write_local(frame: FrameType, name: str, value: Any) -> None:
    """Rebind a local variable of a running function."""
    frame.f_locals[name] = value
    if sys.version_info < (3, 13):  # from 3.13 on, f_locals of a function writes through (PEP 667)
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
