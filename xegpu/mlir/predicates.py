"""Records of the predicates of ``arith.cmpi`` and ``arith.cmpf``: order, signedness, and the result on NaN."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Order = Literal["==", "!=", "<", "<=", ">", ">=", "true", "false"]
ORDERS: dict[Order, Callable[[Any, Any], Any]] = {
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
    "true": lambda a, b: np.equal(a, b) | True, "false": lambda a, b: np.equal(a, b) & False,
}
"""NumPy semantics of each order on numbers, NaN aside."""
_INVERSE: dict[Order, Order] = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">",
                                "true": "false", "false": "true"}
_SWAPPED: dict[Order, Order] = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


@dataclass(frozen=True)
class Predicate:
    """Record of a predicate.

    Attributes:
        order: the relation of two numbers.
        operands: signedness in which integers are read: ``"i"``, ``"u"``, or ``""`` where both give the same.
        unordered: the result where an operand is NaN; None for integers.
    """

    order: Order
    operands: Literal["i", "u", ""] = ""
    unordered: bool | None = None

    def inverse(self) -> Predicate:
        """Predicate that is true exactly where this one is not."""
        unordered = None if self.unordered is None else not self.unordered
        return Predicate(_INVERSE[self.order], self.operands, unordered)

    def swapped(self) -> Predicate:
        """Predicate that gives the same on exchanged operands."""
        return Predicate(_SWAPPED.get(self.order, self.order), self.operands, self.unordered)


_SIGNS: dict[str, Literal["i", "u"]] = {"s": "i", "u": "u"}
_NAMES: dict[str, Order] = {"eq": "==", "gt": ">", "ge": ">=", "lt": "<", "le": "<=", "ne": "!="}

INTEGERS: dict[str, Predicate] = {
    "eq": Predicate("=="), "ne": Predicate("!="),
    **{f"{letter}{name}": Predicate(_NAMES[name], sign)
       for letter, sign in _SIGNS.items() for name in ("lt", "le", "gt", "ge")},
}
"""Predicates of ``arith.cmpi``, in the order of their numbers."""
FLOATS: dict[str, Predicate] = {
    "false": Predicate("false", unordered=False),
    **{f"o{name}": Predicate(order, unordered=False) for name, order in _NAMES.items()},
    "ord": Predicate("true", unordered=False),
    **{f"u{name}": Predicate(order, unordered=True) for name, order in _NAMES.items()},
    "uno": Predicate("false", unordered=True), "true": Predicate("true", unordered=True),
}
"""Predicates of ``arith.cmpf``, in the order of their numbers."""


def predicate_of(symbol: str, kind: str) -> str:
    """Name of the predicate of an author's operator (``<``, ``!=``) on a kind of element types.

    Floats are compared as in Python: NaN is unequal to everything, and in no order to anything.
    """
    table = FLOATS if kind == "f" else INTEGERS
    unordered = symbol == "!=" if kind == "f" else None
    signs = ("", "u" if kind == "u" else "i")
    return next(name for name, each in table.items()
                if each.order == symbol and each.unordered == unordered and each.operands in signs)


def name_of(predicate: Predicate) -> str:
    """Name of a predicate in text: the inverse of the tables."""
    table = INTEGERS if predicate.unordered is None else FLOATS
    return next(name for name, each in table.items() if each == predicate)
