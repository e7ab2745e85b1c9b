"""Float checks: operations that create infinities or NaNs from finite numbers, whose results reach memory.

Masked-off and dropped elements are no finding: the origin is recorded with its instances, and reported when one of
these stores such a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.ir import Operation

from xegpu.interpreter.gather_scatter import active_elements
from xegpu.interpreter.interpreter import BATCH, Interpreter, LazyValue, TileView, force
from xegpu.support.errors import CheckError
from xegpu.support.location import author_location
from xetile.dialect.gather_scatter import AtomicRMWTileOp
from xetile.dialect.tile_ops import tile_of
from xetile.interpreter.gather_scatter import updated_elements
from xetile.interpreter.vector import unpack
from xetile.runtime.sanitizer.findings import (
    array_name,
    by_instance,
    element_of,
    failed,
    instance,
    loops,
    ran,
    reached,
)

Array = np.ndarray[Any, Any]
_MOST = 4096
"""Births that are remembered; the first ones are those to tell of."""


@dataclass
class _Origin:
    """Origin: operation and instances that created an infinity or a NaN.

    Attributes:
        operation: the operation.
        loops: the variables of the loops around it, and what they were.
        ran: the work-groups, and the subgroups, that ran then.
        nan, infinite: for each instance, whether it produced one.
    """

    operation: Operation
    loops: list[tuple[str, Any]]
    ran: Any
    nan: Array
    infinite: Array


class Product(LazyValue):
    """Lazy product that is checked when it is computed.

    Attributes:
        inner: the product.
        clean: whether all that went into it was finite.
    """

    def __init__(self, numbers: Numbers, machine: Interpreter, operation: Operation, inner: LazyValue,
                 clean: bool) -> None:
        self._numbers, self._machine, self._operation = numbers, machine, operation
        self.inner, self.clean, self._seen = inner, clean, False

    def value(self) -> Any:
        """Value, checked once."""
        found = self.inner.value()
        if not self._seen:
            self._seen = True
            if self.clean and not is_finite(found):
                self._numbers.born(self._machine, self._operation, np.isnan(found), np.isinf(found))
                self.clean = False
        return found


@dataclass
class Numbers:
    """Origins of one launch."""

    births: list[_Origin] = field(default_factory=list)

    def look(self, machine: Interpreter, operation: Operation, operands: Sequence[Any], result: Any) -> None:
        """Check the result of an operation against its operands."""
        if not isinstance(result, np.ndarray) or result.dtype.kind != "f" or is_finite(result):
            return
        sides = [side for side in operands if isinstance(side, np.ndarray) and side.dtype.kind == "f"]
        nans, others = np.isnan(result), np.isinf(result)
        for side in sides:
            nans = nans & ~_known(np.isnan(side), result)
            others = others & ~_known(~np.isfinite(side), result)
        self.born(machine, operation, nans, others)

    def product(self, machine: Interpreter, operation: Operation, operands: Sequence[Any], result: Any,
                acc: Any) -> Any:
        """Product of finite matrices, evaluated lazily."""
        clean = all(is_finite(force(side)) for side in operands[:2])
        if isinstance(acc, Product):
            clean = clean and acc.clean
        elif acc is not None:
            clean = clean and is_finite(force(acc))
        waits = Product(self, machine, operation, result, clean) if isinstance(result, LazyValue) else None
        if waits is None and clean and not is_finite(result):
            self.born(machine, operation, np.isnan(result), np.isinf(result))
        return result if waits is None else waits

    def born(self, machine: Interpreter, operation: Operation, nans: Array, others: Array) -> None:
        """Record an origin."""
        nan, infinite = (by_instance(machine, each) for each in (nans, others))
        if len(self.births) < _MOST and (nan.any() or infinite.any()):
            self.births.append(_Origin(operation, loops(machine, operation), ran(machine), nan, infinite))

    def store(self, machine: Interpreter, operation: Any, operands: Sequence[Any]) -> None:
        """Check a stored tile."""
        value, window = operands
        if not self.births or value.dtype.kind != "f" or is_finite(value):
            return
        value = unpack(value) if tile_of(operation.tile).encoding.inner_blocks is not None else value
        self._stored(machine, operation, value, reached(machine, operation, window), window)

    def scatter(self, machine: Interpreter, operation: Any, operands: Sequence[Any]) -> None:
        """Check scattered elements."""
        value, _, mask = operands
        if self.births and value.dtype.kind == "f" and not is_finite(value):
            rank = len(tile_of(operation.tile).blocked_shape())
            self._stored(machine, operation, value, active_elements(machine, np.asarray(mask, bool), rank), None)

    def update(self, machine: Interpreter, operation: Any, operands: Sequence[Any]) -> None:
        """Check the operands of an atomic update."""
        value, index = operands[:2]
        if self.births and value.dtype.kind == "f" and not is_finite(value):
            _, mask = updated_elements(machine, operation, operands)
            mask = active_elements(machine, mask, len(tile_of(operation.tile).blocked_shape()))
            self._stored(machine, operation, value, mask, index if isinstance(index, TileView) else None)

    def _stored(self, machine: Interpreter, operation: Any, value: Array, written: Array,
                window: TileView | None) -> None:
        for nan in (True, False):
            bad = (np.isnan(value) if nan else np.isinf(value)) & written
            instances = by_instance(machine, bad)
            for birth in self.births:
                produced = birth.nan | birth.infinite if nan else birth.infinite
                if birth.ran == ran(machine) and (both := produced & instances).any():
                    raise self._finding(machine, operation, birth, both, bad, window)

    def _finding(self, machine: Interpreter, operation: Any, birth: _Origin, both: Array, bad: Array,
                 window: TileView | None) -> CheckError:
        at = tuple(int(i) for i in np.unravel_index(int(np.argmax(both)), both.shape))
        is_nan = birth.nan[tuple(min(i, n - 1) for i, n in zip(at, birth.nan.shape, strict=True))]
        result = "a NaN of operands without NaNs" if is_nan else "an infinity of finite numbers"
        mine = np.broadcast_to(bad, np.broadcast_shapes(bad.shape, (*both.shape, *[1] * (bad.ndim - BATCH))))[at]
        index = np.unravel_index(int(np.argmax(mine)), mine.shape)
        element = "" if window is None or len(index) != 2 else element_of(window, (*at, int(index[0]), int(index[1])))
        name = f"{array_name(operation.tile)}{element}"
        goal, where = f"stores what follows from it to {name}", "it is stored here"
        if isinstance(operation, AtomicRMWTileOp):
            goal, where = f"updates {name} with what follows from it", "it is updated here"
        return failed(machine, birth.operation, "XT6005",
                      f"{instance(machine, at)} produces {result} here, and {goal}",
                      "keep what goes into the operation in range: look at it with xt.device_print, and limit it with "
                      "xt.maximum, xt.minimum or xt.where, or calculate in a wider type", at, birth.loops,
                      [(where, author_location(operation))])


def is_finite(value: Any) -> bool:
    """Whether all elements are finite: by their sum, unless that overflows."""
    with np.errstate(all="ignore"):
        return bool(np.isfinite(np.sum(value))) or bool(np.isfinite(value).all())


def _known(bad: Array, result: Array) -> Array:
    """Mask of results whose operands were not finite: element by element, or by instance where shapes differ."""
    try:
        if np.broadcast_shapes(bad.shape, result.shape) == result.shape:
            return bad
    except ValueError:
        pass
    per_instance = bad.any(axis=tuple(range(BATCH, bad.ndim)))
    return per_instance.reshape(*per_instance.shape, *[1] * (result.ndim - BATCH))
