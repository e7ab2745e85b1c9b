"""Structured arguments: tuples and dataclasses of arrays and numbers that are passed as one argument of a kernel.

A call with such an argument is one of a :class:`xetile.jit.kernel.FlatKernel`, whose arguments are their leaves; the
author's function gets them put together again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any

from xegpu.ir.dtypes import DType
from xetile.compiler.arguments import Argument
from xetile.frontend.constants import hashable

_STATIC = (str, bytes, type(None), type, DType, Enum)
"""Types of items that are constants: part of the structure, for which the kernel is compiled.

Fields of a dataclass with ``field(metadata={"static": True})`` are constants as well.
"""
_ARRAYS = ("__sycl_usm_array_interface__", "__array_interface__", "__dlpack__")


@dataclass(frozen=True)
class Structure:
    """The structure of one argument, as a tree.

    Attributes:
        kind: the tuple's or dataclass's type; None for a leaf and a constant.
        children: the structures of its items or fields.
        constant: of a constant, its value as a key and the value itself.
    """

    kind: Any = None
    children: tuple[Structure, ...] = ()
    constant: tuple[Any, Any] | None = None

    def constants(self) -> Iterator[tuple[str, Any]]:
        """The constants in the tree, each with the type that has it as its name."""
        if self.constant is not None:
            yield "constant", self.constant[1]
        for child in self.children:
            yield from child.constants()

    def build(self, leaves: Iterator[Any]) -> Any:
        """The argument with the next of ``leaves`` in it."""
        if self.constant is not None:
            return self.constant[1]
        if self.kind is None:
            return next(leaves)
        values = [child.build(leaves) for child in self.children]
        if issubclass(self.kind, tuple):
            return self.kind._make(values) if hasattr(self.kind, "_make") else tuple(values)
        built = object.__new__(self.kind)  # no __init__: it may look at arrays, and these are symbols while recording
        for field, value in zip(fields(self.kind), values, strict=True):
            object.__setattr__(built, field.name, value)
        return built


def is_structured(value: Any) -> bool:
    """Whether a call's argument is a tuple or a dataclass; an array may be one, too, and is none here."""
    return isinstance(value, tuple) or (is_dataclass(value) and not isinstance(value, (type, Argument, DType))
                                        and not any(hasattr(value, name) for name in _ARRAYS))


def flatten(name: str, value: Any) -> tuple[Structure, list[tuple[str, Any]]]:
    """The structure of an argument, and its leaves with their names (``tree.left``, ``pair[0]``)."""
    if not is_structured(value):
        return Structure(), [(name, value)]
    children, leaves = [], []
    for child_name, item, is_static in _items(name, value):
        if is_static or isinstance(item, _STATIC):
            children.append(Structure(constant=(hashable(item, child_name), item)))
        else:
            child, found = flatten(child_name, item)
            children.append(child)
            leaves += found
    return Structure(type(value), tuple(children)), leaves


def _items(name: str, value: Any) -> list[tuple[str, Any, bool]]:
    """The items of a tuple, or fields of a dataclass: each with its name, and whether it is declared static."""
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None)
        return [(f"{name}[{index}]" if names is None else f"{name}.{names[index]}", item, False)
                for index, item in enumerate(value)]
    return [(f"{name}.{field.name}", getattr(value, field.name), bool(field.metadata.get("static")))
            for field in fields(value)]
