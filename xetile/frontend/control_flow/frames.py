"""Frame access: traced values in the local variables of running Python functions, and writes to these variables.

Recording a loop or a branch needs three things of the author's frames: every traced value that variables reach, a way
to assign another object, and whether a variable is read before it is written
(:mod:`xetile.frontend.control_flow.bytecode`).
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import CellType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

from xetile.frontend.control_flow.bytecode import Statement
from xetile.frontend.operators.sub_byte import SubByteTile, SubByteVector
from xetile.frontend.ssa_value import Value
from xetile.frontend.tiles import Array, RowTile, SubByteArray

_DEPTH = 8
"""Nesting of containers and objects that is searched for traced values."""
_OPAQUE = {"builtins", "numpy", "ml_dtypes", "xetile", "xegpu", "codegen", "xdsl", "dpctl", "dpnp"}
"""Packages whose objects contain no traced values of the author's, and are not searched."""

_OF_SEVERAL = (RowTile, SubByteTile, SubByteVector)
"""Objects of this package that are several values, or one under another type."""


@dataclass(frozen=True)
class Key:
    """Step of an access path: ``"local"`` variable, ``"item"`` of a container, ``"attribute"``, or ``"cell"``."""

    kind: str
    name: Any


@dataclass(frozen=True)
class Path:
    """Access path of an object: a variable of the frame ``depth`` calls up, then keys."""

    depth: int
    keys: tuple[Key, ...]

    @property
    def root(self) -> str:
        """Name of the variable."""
        return str(self.keys[0].name)

    def __str__(self) -> str:
        forms = {"local": "{}", "item": "[{!r}]", "attribute": ".{}", "cell": " (its variable {})"}
        return "".join(forms[key.kind].format(key.name) for key in self.keys)

    @property
    def hint(self) -> str:
        """Name hint in printed IR."""
        return "_".join(str(key.name) for key in self.keys if str(key.name).isalnum() or str(key.name).isidentifier())


class Scope:
    """Variables that a statement's body can reach: those of its function and of the callers up to the kernel.

    A caller's variables are not rebound while its callee runs, but shared lists and the variables that inner functions
    close over may be.

    Args:
        frame: frame of the function with the statement.
        stop: the code of the kernel, the last frame to look at.
        statement: the loop or the condition.
    """

    def __init__(self, frame: FrameType, stop: CodeType, statement: Statement) -> None:
        self.frames, self.statement = [frame], statement
        while self.frames[-1].f_code is not stop and self.frames[-1].f_back is not None:
            self.frames.append(self.frames[-1].f_back)

    def reachable(self, kinds: tuple[type, ...] = (Value,)) -> dict[Path, Any]:
        """Every object of ``kinds``, by its path.

        Lists, tuples, dicts, objects of the author's classes and closures are searched. Array
        arguments are left out: they are the same in every iteration.
        """
        found: dict[Path, Any] = {}
        for depth, frame in enumerate(self.frames):
            for name, value in list(frame.f_locals.items()):
                if depth and isinstance(value, kinds) and name not in _cells(frame.f_code):
                    continue  # no one can rebind it while this loop runs
                found.update(_search(Path(depth, (Key("local", name),)), value, kinds, (), set()))
        return found

    def get(self, path: Path) -> Any:
        """Object at ``path``, None if there is none."""
        try:
            value = self.frames[path.depth].f_locals[path.root]
            for key in path.keys[1:]:
                value = _child(value, key)
        except (LookupError, AttributeError, TypeError, ValueError):
            return None
        return value

    def is_assignable(self, path: Path) -> bool:
        """Whether ``path`` can be assigned: there is an object, or it is a variable."""
        return len(path.keys) == 1 or self.get(path) is not None

    def assign(self, path: Path, value: Any) -> None:
        """Assign ``value`` to ``path``: tuples on the path are rebuilt, other containers changed in place."""
        frame = self.frames[path.depth]
        old = frame.f_locals[path.root]
        new = _replaced(old, path.keys[1:], value)
        if new is not old:
            write_local(frame, path.root, new)

    def reads_first(self, path: Path) -> bool:
        """Whether the variable of ``path`` is live-in of the statement's body.

        A variable that other functions can access counts as read.
        """
        return self._is_shared(path) or self.statement.reads_inside(path.root)

    def reads_after(self, path: Path) -> bool:
        """Whether the variable of ``path`` is live-out of the statement."""
        return self._is_shared(path) or self.statement.reads_after(path.root)

    def _is_shared(self, path: Path) -> bool:
        """Whether other functions can access the variable of ``path``."""
        return path.depth > 0 or path.root in _cells(self.frames[0].f_code)


def _search(path: Path, value: Any, kinds: tuple[type, ...], above: tuple[int, ...],
          seen: set[int]) -> Iterator[tuple[Path, Any]]:
    """Objects of ``kinds`` below a value, depth first."""
    if isinstance(value, (Array, SubByteArray)):
        return
    if isinstance(value, kinds):
        yield path, value
        if not isinstance(value, (list, dict)):
            return
    if id(value) in above or len(above) >= _DEPTH or (id(value) in seen and not isinstance(value, (list, tuple, dict))):
        return
    seen.add(id(value))
    for key, item in _items(value):
        yield from _search(Path(path.depth, (*path.keys, key)), item, kinds, (*above, id(value)), seen)


def _items(value: Any) -> list[tuple[Key, Any]]:
    """Keys and values of a container, closure or object."""
    if isinstance(value, (list, tuple)):
        return [(Key("item", position), item) for position, item in enumerate(value)]
    if isinstance(value, dict):
        return [(Key("item", key), item) for key, item in value.items()]
    if isinstance(value, FunctionType):
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        return [(Key("cell", name), cell.cell_contents) for name, cell in cells if _has_value(cell)]
    if isinstance(value, MethodType):
        return [(Key("attribute", "__self__"), value.__self__)]
    if isinstance(value, functools.partial):
        return [(Key("attribute", name), getattr(value, name)) for name in ("func", "args", "keywords")]
    if isinstance(value, (type, ModuleType)):
        return []
    if _package(type(value).__module__) in _OPAQUE and not isinstance(value, _OF_SEVERAL):
        return []
    return [(Key("attribute", name), getattr(value, name)) for name in attribute_names(value) if hasattr(value, name)]


def is_opaque(value: Any) -> bool:
    """Whether a value is code or an object of this package, of one that it is built on, or code of Python itself."""
    if isinstance(value, (ModuleType, type, FunctionType, MethodType)):
        return is_opaque_module(value.__name__ if isinstance(value, ModuleType) else value.__module__)
    return _package(type(value).__module__) in _OPAQUE


def is_opaque_module(module: str | None) -> bool:
    """Whether a module is of this package, of one that it is built on, or of Python itself."""
    return _package(module) in _OPAQUE or _package(module) in sys.stdlib_module_names


def _package(module: str | None) -> str:
    """Top-level package of a module."""
    return (module or "").partition(".")[0]


def attribute_names(value: Any) -> list[str]:
    """Names of an object's instance attributes and slots."""
    slots = [name for kind in type(value).__mro__ for name in _slots(kind)]
    return [*getattr(value, "__dict__", {}), *slots]


def _slots(kind: type) -> tuple[str, ...]:
    """Slots that a class declares."""
    slots = kind.__dict__.get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if not name.startswith("__"))


def _has_value(cell: CellType) -> bool:
    """Whether a closure cell has a value."""
    try:
        cell.cell_contents  # noqa: B018 - an empty cell raises
    except ValueError:
        return False
    return True


def _replaced(container: Any, keys: tuple[Key, ...], value: Any) -> Any:
    """Container with the object at ``keys`` replaced: a new tuple, or the container itself."""
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
    """Object at one step of a path."""
    if key.kind == "item":
        return container[key.name]
    return _cell(container, key.name).cell_contents if key.kind == "cell" else getattr(container, key.name)


def _cell(function: FunctionType, name: str) -> CellType:
    """Closure cell of a function, by variable name."""
    return (function.__closure__ or ())[function.__code__.co_freevars.index(name)]


def _cells(code: CodeType) -> tuple[str, ...]:
    """Variables of a function that it shares with inner or outer functions."""
    return (*code.co_cellvars, *code.co_freevars)


def write_local(frame: FrameType, name: str, value: Any) -> None:
    """Rebind a local variable of a running function."""
    frame.f_locals[name] = value
    # From 3.13 on, f_locals writes through (PEP 667). Before, it is a snapshot, and CPython's undocumented
    # PyFrame_LocalsToFast copies it back to the fast locals; 0 keeps the variables that it lacks.
    if sys.version_info < (3, 13):
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
