"""Keys of captured values: two values have equal keys if a kernel that reads them is recorded alike.

1, 1.0 and True differ, as do 0.0 and -0.0; every NaN equals itself; a list is no tuple, and dicts differ by the order
of their items. Containers, arrays, and objects of the author's classes are compared by their items, elements and
attributes (and those of their class); functions, modules and objects of other packages by identity. The functions
that are found on the way are collected, since calls of the value run them.
"""

from __future__ import annotations

import functools
import os
import types
import weakref
from collections import deque
from collections.abc import Hashable, Iterable
from enum import Enum
from types import FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np

from xetile.frontend.control_flow.frames import attribute_names, is_opaque

NUMBERS = (float, complex, int, str, bytes)
"""Types whose ``repr`` is the value, sign and NaN included; their subclasses are compared by that of the base."""
_EXACT = frozenset({int, bool, str, bytes, type(None)})
"""Types whose values are equal only if they are the same to a kernel."""
SEQUENCES = (list, tuple, deque)
MAPPINGS = (dict, MappingProxyType, type(os.environ))
SETS = (set, frozenset)
_BUILTIN = frozenset({*NUMBERS, bool, *SEQUENCES, *MAPPINGS, *SETS, bytearray})
"""Types whose objects have no attributes."""
_BY_IDENTITY = (ModuleType, Enum, types.CodeType, types.BuiltinFunctionType, types.GeneratorType)
_DEPTH = 100
"""Nesting beyond which objects are compared by identity: a third of Python's own limit of 1000 calls."""
_COPIED_BYTES = 1 << 24
"""Bytes of an array, beyond which its key is a digest, which takes ten times as long, and not a copy."""


class Identity:
    """Identity key of an object, which it keeps alive, so that no other object gets its address."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


class KeyBuilder:
    """Builder of the key of one value.

    Attributes:
        functions: the author's functions in the value: items, attributes, methods of its classes, wrapped functions.
        is_mutable: whether something in the value can change in place.
    """

    def __init__(self) -> None:
        self.functions: list[FunctionType] = []
        self.is_mutable = False
        self._known: dict[int, tuple[Any, Hashable]] = {}  # by id, with the object, so that its address is not reused
        self._depth = 0

    def key(self, value: Any) -> Hashable:
        """The key of a value."""
        kind = type(value)
        if kind in _EXACT:
            return kind, value
        if isinstance(value, Identity):
            return value
        if id(value) in self._known:
            return self._known[id(value)][1]
        if self._depth == _DEPTH:
            return Identity(value)
        self._known[id(value)] = value, ("cycle", len(self._known))
        self._depth += 1
        key = self._compound_key(value)
        self._depth -= 1
        self._known[id(value)] = value, key
        return key

    def _compound_key(self, value: Any) -> Hashable:
        kind = type(value)
        if kind in (list, tuple, dict):
            return kind, self._items_key(value)
        if isinstance(value, _BY_IDENTITY):
            return Identity(value), self._kind_key(kind)
        if isinstance(value, FunctionType):
            self._add_function(value)
            return self._function_key(value)
        if isinstance(value, type):
            return Identity(value) if is_opaque(value) else (Identity(value), self._class_key(value))
        for base in NUMBERS:
            if isinstance(value, base):
                return self._kind_key(kind), base.__repr__(value), self._attributes_key(value)
        if isinstance(value, (np.generic, np.ndarray)):
            return self._array_key(value)
        if isinstance(value, np.dtype):
            return kind, value
        if isinstance(value, MethodType):
            return kind, self.key(value.__func__), self.key(value.__self__)
        if isinstance(value, memoryview):
            return kind, self._array_key(np.asarray(value))
        if isinstance(value, weakref.ref):
            self.is_mutable = True
            return kind, self.key(value())
        if isinstance(value, functools.partial):
            self.is_mutable = True
            return kind, self.key(value.func), self.key(value.args), self.key(value.keywords)
        if isinstance(value, (*SEQUENCES, *MAPPINGS, *SETS, bytearray)):
            return self._kind_key(kind), self._items_key(value), self._attributes_key(value)
        self.is_mutable = True
        if isinstance(wrapped := getattr(value, "__dict__", {}).get("__wrapped__"), FunctionType):
            self._add_function(wrapped)  # of functools.wraps, functools.cache, and kernels that are called as helpers
        if is_opaque(value):
            return Identity(value)
        if _has_c_state(kind):
            return self._reduced_key(value) if is_opaque(kind) else Identity(value)
        return self.key(kind), self._attributes_key(value)

    def _function_key(self, value: FunctionType) -> Hashable:
        """A function by identity; one of ``functools.singledispatch`` with the functions that are registered by now."""
        registry = value.__dict__.get("registry")
        if not isinstance(registry, MappingProxyType):
            return Identity(value)
        return Identity(value), self._items_key(registry)

    def _array_key(self, value: np.generic | np.ndarray) -> Hashable:
        self.is_mutable |= isinstance(value, np.ndarray)
        kind, attributes = self._kind_key(type(value)), () if is_opaque(type(value)) else self._attributes_key(value)
        if value.dtype.hasobject:
            return kind, value.shape, self.key(value.tolist()), attributes
        data = value.tobytes()
        if len(data) > _COPIED_BYTES:
            from hashlib import blake2b  # lazy import: few kernels capture arrays of that size

            data = blake2b(data).digest()
        return kind, value.dtype, value.shape, data, attributes

    def _kind_key(self, kind: type) -> Hashable:
        """The type of a value: that of a class of the author's has what its methods read."""
        return kind if kind in _BUILTIN or is_opaque(kind) else self.key(kind)

    def _items_key(self, value: Any) -> Hashable:
        self.is_mutable |= not isinstance(value, (tuple, frozenset))
        if isinstance(value, bytearray):
            return bytes(value)
        if isinstance(value, SETS):
            return frozenset(map(self.key, value))
        if isinstance(value, MAPPINGS):
            return self._items_key([*value]), self._items_key([*value.values()])
        kinds = tuple(map(type, value))
        return (kinds, tuple(value)) if _EXACT.issuperset(kinds) else tuple(map(self.key, value))

    def _attributes_key(self, value: Any) -> Hashable:
        """Attributes of an object: those in its ``__dict__`` and its slots."""
        names = () if type(value) in _BUILTIN else attribute_names(value)
        if not names:
            return ()
        self.is_mutable = True
        return self._members_key((name, getattr(value, name)) for name in names if hasattr(value, name))

    def _class_key(self, value: type) -> Hashable:
        """Members of a class and its bases, without what Python adds to each class."""
        self.is_mutable = True
        members: list[tuple[str, Any]] = []
        for kind in value.__mro__:
            if is_opaque(kind):
                continue
            for name, member in vars(kind).items():
                function = getattr(member, "__func__", getattr(member, "fget", member))  # of descriptors
                if isinstance(function, FunctionType):
                    members.append((name, function))
                elif not name.startswith(("__", "_abc_")):
                    members.append((name, member))
        return self._members_key(members)

    def _members_key(self, members: Iterable[tuple[str, Any]]) -> Hashable:
        return tuple((name, self.key(member)) for name, member in members)

    def _reduced_key(self, value: Any) -> Hashable:
        """An object of Python's library that is written in C (range, slice, Decimal), by what ``pickle`` would save."""
        try:
            reduced = value.__reduce_ex__(2)
        except Exception:  # a lock, a file: nothing that a kernel reads
            return Identity(value)
        return (type(value), self._items_key(reduced[1:])) if isinstance(reduced, tuple) else Identity(value)

    def _add_function(self, function: FunctionType) -> None:
        if not is_opaque(function):
            self.functions.append(function)


def _has_c_state(kind: type) -> bool:
    """Whether objects of a type have state that is in no attribute, as CPython's ``object.__reduce_ex__`` finds out."""
    slots = sum(isinstance(member, types.MemberDescriptorType)
                for base in kind.__mro__ for member in vars(base).values())
    # A dict, a list of weak references, and each slot are one pointer, of 8 bytes; a negative offset of the dict is
    # that of a managed one, which is not part of the size.
    pointers = (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0) + slots
    return kind.__itemsize__ != 0 or kind.__basicsize__ > object.__basicsize__ + 8 * pointers
