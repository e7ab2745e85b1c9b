"""Compile-time constants as parts of keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from xegpu.ir.dtypes import DType
from xegpu.support.errors import ElementTypeError

_PLAIN = frozenset({int, float, str, bool, DType, type(None)})


def hashable(value: Any, name: str) -> Any:
    """A constant as a part of a key, with its type: 1, 1.0 and True are equal, but not the same to a kernel.

    Args:
        value: the constant.
        name: its name, for messages.

    Raises:
        ElementTypeError: it has no hash, or holds what has none.
    """
    kind = type(value)
    if kind in _PLAIN:
        return kind, value
    if isinstance(value, (tuple, list)):
        return kind, tuple(hashable(item, name) for item in value)
    if isinstance(value, dict):
        return kind, tuple((hashable(key, name), hashable(item, name)) for key, item in value.items())
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return kind, value.dtype, value.shape, value.tobytes()
    try:
        hash(value)
    except TypeError:
        instead = f"pass a tuple, or {name}=frozenset(...)" if kind is set else \
            "pass numbers, texts, element types, functions, or tuples, lists and dicts of these; of a class of your " \
            "own make a @dataclass(frozen=True)"
        raise ElementTypeError("XT1014", f"the constant {name} is a {kind.__name__}, or holds one, which has no hash",
                               instead) from None
    return kind, value
