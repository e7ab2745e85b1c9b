"""Captured variables: globals, closure cells and helper functions that the recording of a kernel depends on.

A kernel is recorded once for its types and constants; Python values that the function reads besides its parameters are
part of the recording. :class:`Captures` has the keys of these values as they were, and tells whether one differs now.

They are found in the bytecode (:mod:`xetile.jit.bytecode_reads`): each global or closure variable that the function,
the functions inside it and the author's functions that these call read, with the chain of attributes behind it
(``config.TILE``). Default arguments, and functions and objects that are a kernel's constants, are captured as well.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import is_
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from xetile.frontend.control_flow.frames import is_opaque
from xetile.jit.bytecode_reads import Absent, Chain, reads
from xetile.jit.value_keys import MAPPINGS, NUMBERS, SEQUENCES, SETS, Identity, KeyBuilder

_ARRAY_ATTRIBUTES = ("shape", "dtype", "ndim", "size", "itemsize", "nbytes", "strides")
"""Attributes of an array that can be read without its elements."""
_ENVIRONMENT = frozenset({id(os.environ), id(os.getenv)})
"""What Python's library has that reads the author's settings."""


@dataclass(frozen=True)
class _Items:
    """Shallow snapshot of a list or dict: keyword defaults of a kernel, which each launch looks at, take half a
    microsecond so, and a key of theirs takes twenty.

    Attributes:
        keys: of a dict.
        values: the items; none can change in place.
    """

    keys: tuple[Any, ...]
    values: tuple[Any, ...]

    @classmethod
    def of(cls, value: Any) -> _Items | None:
        """The snapshot of an object; None for those of other types, and if an item can change in place."""
        if type(value) not in (list, dict):
            return None
        keys, values = (tuple(value), tuple(value.values())) if type(value) is dict else ((), tuple(value))
        builder = KeyBuilder()
        builder.key((keys, values))
        return None if builder.is_mutable else cls(keys, values)

    def are_in(self, value: Any) -> bool:
        """Whether a list or dict has these very objects, in this order."""
        values = value.values() if type(value) is dict else value
        return len(value) == len(self.values) and all(map(is_, self.values, values)) \
            and (type(value) is not dict or all(map(is_, self.keys, value)))


@dataclass(frozen=True)
class _Read:
    """Captured variable.

    Attributes:
        name: as the author wrote it.
        get: returns its present value, :class:`Absent` if there is none.
        value: its object when the kernel was recorded.
        key: the key of that value.
        is_mutable: whether the object can change in place.
        items: of an object that can do so by other items alone.
    """

    name: str
    get: Callable[[], Any]
    value: Any
    key: Any
    is_mutable: bool
    items: _Items | None = None

    def is_changed(self) -> bool:
        """Whether the variable has another value now."""
        now = self.get()
        if now is self.value and (not self.is_mutable or (self.items is not None and self.items.are_in(now))):
            return False
        return bool(KeyBuilder().key(now) != self.key)


class Captures:
    """The captured variables of a kernel, with their values at its recording.

    Args:
        function: the kernel's function.
        constants: compile-time constants of its recordings, each with its name.
    """

    def __init__(self, function: FunctionType, constants: Iterable[tuple[str, Any]] = ()) -> None:
        self._reads: dict[tuple[Any, ...], _Read] = {}
        self._codes: list[tuple[FunctionType, CodeType, Any, Any]] = []
        self._seen: set[tuple[int, int]] = set()
        self._visit_function(function, {})
        for name, value in constants:
            self._add_read(name, functools.partial(_constant, value), (name, id(value)))

    def changed(self) -> str | None:
        """The name of a variable, or helper function, that differs from the recording; None if all are the same."""
        for read in self._reads.values():
            if read.is_changed():
                return read.name
        for function, code, defaults, keyword_defaults in self._codes:
            if function.__code__ is not code or function.__defaults__ is not defaults \
                    or function.__kwdefaults__ is not keyword_defaults:
                return function.__name__
        return None

    def _visit_function(self, function: FunctionType, bound: Mapping[str, Chain]) -> None:
        """Capture what a function reads; ``bound`` has the first parameter of a bound method."""
        objects = [chain.get() for chain in bound.values()]
        if (id(function), *map(id, objects)) in self._seen:
            return
        self._seen.add((id(function), *map(id, objects)))  # type: ignore[arg-type]
        self._codes.append((function, function.__code__, function.__defaults__, function.__kwdefaults__))
        for name in ("__defaults__", "__kwdefaults__"):
            if getattr(function, name):
                self._add_read(function.__name__, functools.partial(getattr, function, name), (id(function), name))
        for chain in reads(function, bound):
            self._visit_chain(chain)

    def _visit_chain(self, chain: Chain) -> None:
        """Capture ``variable.attribute...`` as far as modules and the author's objects go."""
        get, shown = chain.get, chain.shown
        key: tuple[Any, ...] = (_origin(chain.get),)
        for attribute in chain.attributes:
            value = get()
            if _is_language(value) and id(getattr(value, attribute, None)) not in _ENVIRONMENT:
                return
            if not _is_followed(value, attribute):
                break
            member = _member(get, attribute)
            if isinstance(member, property):
                self._add_read(f"{shown}.{attribute}", functools.partial(_member, get, attribute), (*key, attribute))
                if isinstance(member.fget, FunctionType):
                    self._visit_method(member.fget, get, f"{shown}.{attribute}")
                return
            get, shown = functools.partial(_attribute, get, attribute), f"{shown}.{attribute}"
            key = (*key, attribute)
        value = get()
        if value is os.getenv:
            get, shown, key = functools.partial(_constant, os.environ), "os.environ", ("os.environ",)
        elif _is_language(value):
            return
        if isinstance(value, MethodType) and isinstance(value.__func__, FunctionType):
            self._visit_method(value.__func__, functools.partial(_attribute, get, "__self__"), shown)
            # The method is another object at each access; its object's attributes are reads of their own.
            for part in ("__func__", "__self__"):
                get_part = functools.partial(_attribute, get, part)
                self._reads[*key, part] = _Read(shown, get_part, (now := get_part()), Identity(now), is_mutable=False)
            return
        self._add_read(shown, get, key)

    def _visit_method(self, function: FunctionType, get_self: Callable[[], Any], shown: str) -> None:
        if not is_opaque(function):
            if "super" in function.__code__.co_names:  # methods of bases, which no chain names
                self._add_read(shown, get_self, (_origin(get_self),))
            parameters = function.__code__.co_varnames[:function.__code__.co_argcount]
            self._visit_function(function, {name: Chain(get_self, f"{shown}: {name}") for name in parameters[:1]})

    def _add_read(self, name: str, get: Callable[[], Any], key: tuple[Any, ...]) -> None:
        if key in self._reads:
            return
        value, builder = get(), KeyBuilder()
        self._reads[key] = _Read(name, get, value, builder.key(value), builder.is_mutable, _Items.of(value))
        for function in builder.functions:
            self._visit_function(function, {})


def _is_language(value: Any) -> bool:
    """Whether a value is code of the language itself, of NumPy, or of Python's library."""
    return value is not Absent and isinstance(value, (ModuleType, FunctionType, type)) and is_opaque(value)


def _is_followed(value: Any, attribute: str) -> bool:
    """Whether an attribute is captured alone, instead of the object that has it."""
    if isinstance(value, (np.ndarray, np.generic)):
        return attribute in _ARRAY_ATTRIBUTES
    if value is Absent or isinstance(value, (*NUMBERS, *SEQUENCES, *MAPPINGS, *SETS, bytearray)):
        return False
    return isinstance(value, (ModuleType, type)) or not is_opaque(value)


def _origin(get: Any) -> tuple[Any, ...]:
    """Identity of a variable: that of the namespace or cell, and the name in it."""
    return tuple(each if isinstance(each, str) else _origin(each) if isinstance(each, functools.partial) else id(each)
                 for each in (get.func, *get.args))


def _constant(value: Any) -> Any:
    return value


def _member(get: Callable[[], Any], name: str) -> Any:
    """Attribute of an object's class, None if it has none of the name."""
    return next((vars(kind)[name] for kind in type(get()).__mro__ if name in vars(kind)), None)


def _attribute(get: Callable[[], Any], name: str) -> Any:
    return getattr(get(), name, Absent)
