"""Checks cache hints against a target: it takes few combinations of L1 and L3."""

from __future__ import annotations

from xdsl.dialects import func

from xegpu.cache import Pair
from xegpu.control_flow import place
from xegpu.dialect.hints import HintedOp, words
from xegpu.errors import TargetError
from xegpu.targets import Target


def check_cache_hints(function: func.FuncOp, target: Target) -> None:
    """Raise unless a target's messages take what the operations of a kernel say of the caches.

    Raises:
        TargetError: there is no such combination; the message lists the nearest.
    """
    for operation in function.walk():
        if isinstance(operation, HintedOp) and target.caches is not None:
            said = words(operation)
            l1, l3 = said.get("l1_hint"), said.get("l3_hint")
            if target.caches.code(operation.MESSAGE, l1, l3) is None:
                near = target.caches.nearest(operation.MESSAGE, l1, l3)
                raise TargetError("XT4106",
                                  f"{target.name} has no {operation.MESSAGE} with L1 {l1 or 'left open'} and L3 "
                                  f"{l3 or 'left open'}", f"use {' or '.join(map(_text, near))}", place(operation))


def _text(pair: Pair) -> str:
    return f"l1={pair[0]}, l3={pair[1]}"
