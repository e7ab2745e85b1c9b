"""Errors of the catalogue that take a fault of a device, a tool or a file, by their codes.

Each function makes the fault, often by putting something broken in the place of a part of the package, and calls what
an author calls. Only pages marked ``provoked`` are made so; where a few lines of an author's own make an error, the
page has them.
"""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

import xetile as xt
from xegpu.rewriting import Parts
from xetile.dialect.ops import LoadTileOp
from xetile.distribution import WgMap
from xetile.passes import workgroup_to_subgroup
from xetile.passes.dealing import Dealt
from xetile.passes.exchange import Dealer

BY_CODE: dict[str, Callable[[], object]] = {}


def provokes(code: str) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Put a function down as the one that makes the error of a code."""
    def put(act: Callable[[], object]) -> Callable[[], object]:
        BY_CODE[code] = act
        return act
    return put


def _dealt_otherwise(change: Callable[[Parts], Parts]) -> None:
    """Deal the second of a kernel's loads out in another way than a rule of the pass does, and lower the kernel."""
    rule, seen = workgroup_to_subgroup.RULES[LoadTileOp], []

    def other(build: Dealer, operation: LoadTileOp) -> None:
        rule(build, operation)
        seen.append(operation)
        if len(seen) == 2:
            build.parts[operation.result] = change(build.get(operation.result))

    @xt.kernel
    def rows(X, Y):
        share = xt.wg_map((4, 1), (8, 32))
        x, y = (xt.init_tile(array, (0, 0), (64, 32), wg_map=share) for array in (X, Y))
        total = xt.load_tile(x)
        for _ in xt.range(0, 4):
            total = xt.load_tile(x) + total
        xt.store_tile(total, y)

    matrix = xt.Spec((64, 64), "f32")
    with mock.patch.dict(workgroup_to_subgroup.RULES, {LoadTileOp: other}):
        _ = rows.lower(matrix, matrix).xegpu


@provokes("XT9301")
def _another_form() -> None:
    _dealt_otherwise(lambda parts: Parts(parts.values, Dealt(WgMap((4, 1), (16, 32)), (64, 32))))


@provokes("XT9302")
def _another_number() -> None:
    _dealt_otherwise(lambda parts: Parts((*parts.values, parts.values[0]), parts.form))
