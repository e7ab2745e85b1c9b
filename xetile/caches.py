"""Cache hints that an author gives: ``xt.load_tile(tile, l1="streaming", l3="cached")``."""

from __future__ import annotations

from typing import TypeVar

from xdsl.ir import Operation

from xegpu.support.errors import ElementTypeError
from xegpu.target.cache_policy import BY_KIND
from xetile.dialect.hints import CacheHintAttr
from xetile.tracer import current

_Made = TypeVar("_Made", bound=Operation)


def said(made: _Made, kind: str, l1: str | None, l3: str | None) -> _Made:
    """An operation with its cache hints.

    Args:
        made: the operation.
        kind: ``"load"``, ``"store"`` or ``"prefetch"``.
        l1, l3: a policy for each level, None where nothing is said.

    Raises:
        ElementTypeError: the kind of operation takes no such hint.
    """
    for name, policy in (("l1", l1), ("l3", l3)):
        if policy is None:
            continue
        if policy not in BY_KIND[kind]:
            raise ElementTypeError("XT1127", f"a {kind} takes no cache hint {name}={policy!r}",
                                   f"use {', '.join(map(repr, BY_KIND[kind]))}", current().location())
        made.attributes[f"{name}_hint"] = CacheHintAttr(policy)
    return made
