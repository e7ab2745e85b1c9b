"""Captured variables: globals, closure cells and helper functions that the recording of a kernel depends on.

A kernel is recorded once for its types and constants; Python values that the function reads besides its parameters are
part of the recording. :class:`Captures` has these values as they were, and tells whether one differs now.

They are found in the bytecode: each global or closure variable that the function, the functions inside it and the
author's functions that these call read, with the chain of attributes behind it (``config.TILE``). Values inside other
objects (an item of a dict is one, the attribute of an argument is not) are compared where the object has an ``==`` of
its own.
"""

from __future__ import annotations

import builtins
import copy
import dis
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from xetile.frontend.frames import is_opaque

_IMMUTABLE = (int, float, complex, bool, str, bytes, type(None), type, ModuleType, BuiltinFunctionType)
"""Types whose objects never change: comparing identity first, then value, is enough."""
_CONTAINERS = (list, dict, set, bytearray, tuple, frozenset)
_DEPTH = 8
"""Nesting of containers that is looked at."""
_MOST_ITEMS = 1000
"""Items of a container, beyond which it is compared by identity alone: every launch compares."""
_MOST_BYTES = 1 << 16
"""Bytes of an array, likewise."""


class _Absent:
    """Value of a variable that is not defined."""


@dataclass(frozen=True)
class _Read:
    """One captured variable.

    Attributes:
        name: as the author wrote it.
        get: returns its present value, :class:`_Absent` if there is none.
        value: its object when the kernel was recorded.
        snapshot: a copy, if the object can change in place; else None.
    """

    name: str
    get: Callable[[], Any]
    value: Any
    snapshot: Any

    def is_changed(self) -> bool:
        """Whether the variable has another value now."""
        now = self.get()
        if now is self.value and self.snapshot is None:
            return False
        return not _same(now, self.value if self.snapshot is None else self.snapshot)


class Captures:
    """The captured variables of a kernel, with their values at its recording.

    Args:
        function: the kernel's function.
    """

    def __init__(self, function: FunctionType) -> None:
        self._reads: dict[str, _Read] = {}
        self._codes: list[tuple[FunctionType, CodeType, Any, Any]] = []
        self._visit_function(function, set())

    def changed(self) -> str | None:
        """The name of a variable, or helper function, that differs from the recording; None if all are the same."""
        for read in self._reads.values():
            if (read.get() is not read.value or read.snapshot is not None) and read.is_changed():
                return read.name
        for function, code, defaults, keyword_defaults in self._codes:
            if function.__code__ is not code or function.__defaults__ is not defaults \
                    or function.__kwdefaults__ is not keyword_defaults:
                return function.__name__
        return None

    def _visit_function(self, function: FunctionType, seen: set[int]) -> None:
        if id(function) in seen:
            return
        seen.add(id(function))
        self._codes.append((function, function.__code__, function.__defaults__, function.__kwdefaults__))
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        for names in _chains(function.__code__, frozenset(cells)):
            self._visit_variable(function, cells, names, seen)

    def _visit_variable(self, function: FunctionType, cells: dict[str, CellType], names: tuple[str, ...],
                        seen: set[int]) -> None:
        """Capture ``names[0].names[1]...`` as far as modules and the author's objects go."""
        root, *attributes = names
        get = functools.partial(_cell_value, cells[root]) if root in cells else \
            functools.partial(_global_value, function.__globals__, root)
        shown = root
        while True:
            value = get()
            if isinstance(value, (ModuleType, FunctionType, type)) and is_opaque(value):
                return  # the language itself, NumPy, Python's own
            key = f"{shown}@{id(cells.get(root, function.__globals__))}"
            if key not in self._reads:
                self._reads[key] = _Read(shown, get, value, _snapshot(value))
            if not attributes or value is _Absent or isinstance(value, _CONTAINERS) or is_opaque(value):
                break
            attribute = attributes.pop(0)
            get, shown = functools.partial(_attribute, get, attribute), f"{shown}.{attribute}"
        for helper in _helpers(value):
            if not is_opaque(helper):
                self._visit_function(helper, seen)


def _chains(code: CodeType, cells: frozenset[str]) -> Iterator[tuple[str, ...]]:
    """Globals and captured variables that a function reads, with the attributes read from them, inner functions too."""
    chain: list[str] = []
    for instruction in dis.get_instructions(code):
        # LOAD_METHOD is there up to 3.11; 3.12 and later load methods with LOAD_ATTR.
        if chain and instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            chain.append(str(instruction.argval))
            continue
        if instruction.opname in ("CACHE", "EXTENDED_ARG"):
            continue
        if chain:
            yield tuple(chain)
            chain = []
        is_global = instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME")
        if is_global or (instruction.opname in ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
                         and instruction.argval in cells):
            chain = [str(instruction.argval)]
    if chain:
        yield tuple(chain)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _chains(constant, cells & frozenset(constant.co_freevars))


def _helpers(value: Any) -> Iterator[FunctionType]:
    """Python functions that a call of ``value`` runs: itself, a method, a partial application, wrapped ones."""
    if isinstance(value, FunctionType):
        yield value
    elif isinstance(value, MethodType):
        yield from _helpers(value.__func__)
    elif isinstance(value, type) and not is_opaque(value):
        yield from (member for member in vars(value).values() if isinstance(member, FunctionType))
    elif isinstance(value, functools.partial):
        yield from _helpers(value.func)
    elif isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            if not isinstance(item, _CONTAINERS):
                yield from _helpers(item)
    if isinstance(wrapped := getattr(value, "__dict__", {}).get("__wrapped__"), FunctionType):
        yield wrapped  # of functools.wraps and functools.cache


def _global_value(namespace: dict[str, Any], name: str) -> Any:
    value = namespace.get(name, _Absent)
    return getattr(builtins, name, _Absent) if value is _Absent else value


def _cell_value(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the variable has no value yet
        return _Absent


def _attribute(get: Callable[[], Any], name: str) -> Any:
    return getattr(get(), name, _Absent)


def _snapshot(value: Any) -> Any:
    """A copy of containers and arrays, down to items that are neither; None if nothing of it can change in place."""
    if isinstance(value, np.ndarray):
        return value.copy() if value.nbytes <= _MOST_BYTES else None
    if not isinstance(value, _CONTAINERS) or _is_constant(value) or len(value) > _MOST_ITEMS:
        return None
    return _copied(value, _DEPTH)


def _is_constant(value: Any) -> bool:
    return isinstance(value, (tuple, frozenset)) and all(isinstance(item, _IMMUTABLE) or _is_constant(item)
                                                         for item in value)


def _copied(value: Any, depth: int) -> Any:
    """Containers are copied, other items are the same objects."""
    if depth == 0 or not isinstance(value, (list, tuple, dict)):
        return copy.copy(value) if isinstance(value, (set, bytearray)) else _snapshot_item(value)
    if isinstance(value, dict):
        return {key: _copied(item, depth - 1) for key, item in value.items()}
    return [_copied(item, depth - 1) for item in value]


def _snapshot_item(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) and value.nbytes <= _MOST_BYTES else value


def _same(now: Any, then: Any) -> bool:
    """Whether two values are the same to a kernel: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    if now is then:
        return True
    if isinstance(then, list) and isinstance(now, (list, tuple)):  # a snapshot's lists stand for tuples, too
        return len(now) == len(then) and all(map(_same, now, then))
    if type(now) is not type(then):
        return isinstance(now, dict) and type(then) is dict and _same(dict(now), then)
    if isinstance(then, np.ndarray):
        return bool(now.dtype == then.dtype and now.shape == then.shape and now.tobytes() == then.tobytes())
    if isinstance(then, tuple):
        return len(now) == len(then) and all(map(_same, now, then))
    if isinstance(then, dict):
        return now.keys() == then.keys() and all(_same(now[key], then[key]) for key in then)
    if isinstance(then, float):
        return bool(then.hex() == now.hex())
    try:
        return bool(now == then)
    except Exception:  # an author's == that fails
        return False
