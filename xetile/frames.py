"""Looks into and writes to the local variables of a running Python function.

The loop tracer needs three things of the author's frame: every traced value that its variables reach, a way to put
another object in the place of one, and whether the loop's body reads a variable before it writes it.
"""

from __future__ import annotations

import ctypes
import dataclasses
import dis
import sys
from collections.abc import Iterator
from types import CodeType, FrameType, SimpleNamespace
from typing import Any

from xetile.values import Array, Value

Path = tuple[Any, ...]
_LIMIT = 6


def reachable(frame: FrameType, kinds: tuple[type, ...] = (Value,)) -> dict[Path, Any]:
    """Every object of ``kinds`` that the locals of ``frame`` reach, by its path: variable, then keys.

    Lists, tuples, dicts, dataclasses and namespaces are looked into. Array arguments are left out: they are the same
    in every iteration.
    """
    found: dict[Path, Any] = {}
    for name, value in frame.f_locals.items():
        found.update(_walk((name,), value, kinds, ()))
    return found


def _walk(path: Path, value: Any, kinds: tuple[type, ...], above: tuple[int, ...]) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, Array):
        return
    if isinstance(value, kinds) and not isinstance(value, bool):
        yield path, value
        return
    if id(value) in above or len(above) >= _LIMIT:
        return
    for key, item in _items(value):
        yield from _walk((*path, key), item, kinds, (*above, id(value)))


def _items(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, (list, tuple)):
        return list(enumerate(value))
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, SimpleNamespace) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        return list(getattr(value, "__dict__", {}).items())
    return []


def place(frame: FrameType, path: Path, value: Any) -> None:
    """Put ``value`` at ``path``, rebuilding the tuples on the way and changing the other containers in place."""
    name, *keys = path
    write_local(frame, name, _replaced(frame.f_locals[name], keys, value))


def _replaced(container: Any, keys: list[Any], value: Any) -> Any:
    if not keys:
        return value
    key, *rest = keys
    if isinstance(container, tuple):
        items = list(container)
        items[key] = _replaced(items[key], rest, value)
        return type(container)(*items) if hasattr(container, "_fields") else tuple(items)
    if isinstance(container, (list, dict)):
        container[key] = _replaced(container[key], rest, value)
    else:
        object.__setattr__(container, key, _replaced(getattr(container, key), rest, value))
    return container


def write_local(frame: FrameType, name: str, value: Any) -> None:
    """Rebind a local variable of a running function."""
    frame.f_locals[name] = value
    if sys.version_info < (3, 13):  # from 3.13 on, f_locals of a function writes through (PEP 667)
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


def at_for_loop(frame: FrameType) -> bool:
    """Whether ``frame`` stands at the head of a ``for`` statement, about to take an iterator."""
    return _opname(frame.f_code, frame.f_lasti) == "GET_ITER"


def _opname(code: CodeType, offset: int) -> str:
    return dis.opname[code.co_code[offset]] if 0 <= offset < len(code.co_code) else ""


def reads_before_write(frame: FrameType, name: str) -> bool:
    """Whether the body of the loop at whose head ``frame`` stands reads ``name`` before it rebinds it.

    The first instruction of the body that touches the variable decides; branches are taken as they stand.
    """
    inside = False
    end = None
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset == frame.f_lasti:
            inside, end = True, instruction.argval
        elif inside and instruction.offset == end:
            return False
        elif inside and _touches(instruction, name):
            return not instruction.opname.startswith("STORE")
    return False


def _touches(instruction: dis.Instruction, name: str) -> bool:
    touched = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
    return name in touched and instruction.opname.startswith(("LOAD_FAST", "STORE_FAST", "LOAD_DEREF", "STORE_DEREF"))
