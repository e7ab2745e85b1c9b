"""Float checks: operations that create infinities or NaNs from finite numbers, whose results reach memory.

Elements that ``xt.where`` or a mask excludes and dropped elements are no finding: what an operation creates is followed
from value to value (taint) up to stores. Infinities of memory, and constants, are the author's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.ir import Operation

from xegpu.interpreter.gather_scatter import active_elements
from xegpu.interpreter.interpreter import BATCH, AcceptsLazy, Interpreter, LazyValue, Semantic, TileView, force
from xegpu.ir.dtypes import NDArray
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
    reached,
)
from xetile.runtime.sanitizer.taint import Marks, Taint, of_active


@dataclass
class _Origin:
    """Origin: operation that created infinities or NaNs.

    Attributes:
        operation: the operation.
        loops: the variables of the loops around it, and what they were.
        nan: whether it created NaNs, of operands without one.
    """

    operation: Operation
    loops: list[tuple[str, Any]]
    nan: bool


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
                self._numbers.created(self._machine, self._operation, found)
                self.clean = False
        return found


@dataclass
class Numbers:
    """Checks of one launch: infinities and NaNs that operations created are tainted."""

    taint: Taint[_Origin] = field(default_factory=Taint)

    def watching(self, semantic: Semantic, creates: bool) -> Semantic:
        """Instrumented semantics.

        Args:
            semantic: of the operation.
            creates: whether its result is checked; the operands' taint is passed on in any case.
        """
        def watched(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Any:
            result = semantic(machine, operation, operands)
            if operation.results and (creates or self.taint):
                self._look(machine, operation, operands, result, creates)
            return result

        return AcceptsLazy(watched) if isinstance(semantic, AcceptsLazy) else watched

    def _look(self, machine: Interpreter, operation: Operation, operands: Sequence[Any], result: Any,
              creates: bool) -> None:
        """Taint of a result: propagated from its operands, and created by the operation."""
        if not isinstance(result, np.ndarray) or result.dtype.kind != "f" or is_finite(result):
            self.taint.mark(machine, operation.results[0], [])
            return
        bad = ~np.isfinite(result)
        marks = [(_common(machine, mask, bad), origin)
                 for mask, origin in self.taint.passed_on(machine, operation, operands)]
        if creates:
            marks += self._created(machine, operation, operands, result)
        self.taint.mark(machine, operation.results[0], [(mask, origin) for mask, origin in marks if mask.any()])

    def _created(self, machine: Interpreter, operation: Operation, operands: Sequence[Any],
                 result: NDArray) -> Marks[_Origin]:
        nans, others = np.isnan(result), np.isinf(result)
        for side in operands:
            if isinstance(side, np.ndarray) and side.dtype.kind == "f":
                nans = nans & ~_mask_of_results(np.isnan(side), result)
                others = others & ~_mask_of_results(~np.isfinite(side), result)
        around = loops(machine, operation)
        return [(of_active(machine, mask), _Origin(operation, around, nan))
                for mask, nan in ((nans, True), (others, False))]

    def created(self, machine: Interpreter, operation: Operation, result: NDArray) -> None:
        """Mark the result of a product of finite matrices."""
        marks = self._created(machine, operation, (), result)
        self.taint.mark(machine, operation.results[0], [(mask, origin) for mask, origin in marks if mask.any()])

    def product(self, machine: Interpreter, operation: Operation, operands: Sequence[Any], result: Any,
                acc: Any) -> Any:
        """Product of finite matrices, evaluated lazily."""
        clean = all(is_finite(force(side)) for side in operands[:2])
        if isinstance(acc, Product):
            clean = clean and acc.clean
        elif acc is not None:
            clean = clean and is_finite(force(acc))
        if isinstance(result, LazyValue):
            if self.taint:
                passed = self.taint.passed_on(machine, operation, operands)
                self.taint.mark(machine, operation.results[0], passed)
            return Product(self, machine, operation, result, clean)
        if clean and not is_finite(result):
            self.created(machine, operation, result)
        else:
            self._look(machine, operation, operands, result, creates=False)
        return result

    def store(self, machine: Interpreter, operation: Any, operands: Sequence[Any]) -> None:
        """Check a stored tile."""
        value, window = operands
        if not self.taint or value.dtype.kind != "f" or is_finite(value):
            return
        value = unpack(value) if tile_of(operation.tile).encoding.inner_blocks is not None else value
        self._stored(machine, operation, value, reached(machine, operation, window), window)

    def scatter(self, machine: Interpreter, operation: Any, operands: Sequence[Any]) -> None:
        """Check scattered elements."""
        value, _, mask = operands
        if self.taint and value.dtype.kind == "f" and not is_finite(value):
            rank = len(tile_of(operation.tile).blocked_shape())
            self._stored(machine, operation, value, active_elements(machine, np.asarray(mask, bool), rank), None)

    def update(self, machine: Interpreter, operation: Any, operands: Sequence[Any]) -> None:
        """Check the operands of an atomic update."""
        value, index = operands[:2]
        if self.taint and value.dtype.kind == "f" and not is_finite(value):
            _, mask = updated_elements(machine, operation, operands)
            mask = active_elements(machine, mask, len(tile_of(operation.tile).blocked_shape()))
            self._stored(machine, operation, value, mask, index if isinstance(index, TileView) else None)

    def _stored(self, machine: Interpreter, operation: Any, value: NDArray, written: NDArray,
                window: TileView | None) -> None:
        """Raise if what an operation created is among the elements written."""
        bad = ~np.isfinite(value) & written
        for mask, origin in self.taint.of(machine, operation.value):
            found = _common(machine, mask, bad)
            if found.any():
                raise self._finding(machine, operation, origin, found, window)

    def _finding(self, machine: Interpreter, operation: Any, origin: _Origin, bad: NDArray,
                 window: TileView | None) -> CheckError:
        instances = by_instance(machine, bad)
        at = tuple(int(i) for i in np.unravel_index(int(np.argmax(instances)), instances.shape))
        result = "a NaN of operands without NaNs" if origin.nan else "an infinity of finite numbers"
        mine = np.broadcast_to(bad, np.broadcast_shapes(bad.shape, (*instances.shape, *[1] * (bad.ndim - BATCH))))[at]
        index = np.unravel_index(int(np.argmax(mine)), mine.shape)
        element = "" if window is None or len(index) != 2 else element_of(window, (*at, int(index[0]), int(index[1])))
        name = f"{array_name(operation.tile)}{element}"
        goal, where = f"stores what follows from it to {name}", "it is stored here"
        if isinstance(operation, AtomicRMWTileOp):
            goal, where = f"updates {name} with what follows from it", "it is updated here"
        return failed(machine, origin.operation, "XT6005",
                      f"{instance(machine, at)} produces {result} here, and {goal}",
                      "keep what goes into the operation in range: look at it with xt.device_print, and limit it with "
                      "xt.maximum, xt.minimum or xt.where, or calculate in a wider type", at, origin.loops,
                      [(where, author_location(operation))])


def _common(machine: Interpreter, mask: NDArray, bad: NDArray) -> NDArray:
    """Marked elements among ``bad`` ones; by instance where shapes differ, as in a tile of blocks."""
    try:
        if np.broadcast_shapes(mask.shape, bad.shape) == bad.shape:
            return np.asarray(mask & bad)
    except ValueError:
        pass
    per_instance = by_instance(machine, mask)
    return np.asarray(per_instance.reshape(*per_instance.shape, *[1] * (bad.ndim - BATCH)) & bad)


def is_finite(value: Any) -> bool:
    """Whether all elements are finite: by their sum, unless that overflows."""
    with np.errstate(all="ignore"):
        return bool(np.isfinite(np.sum(value))) or bool(np.isfinite(value).all())


def _mask_of_results(bad: NDArray, result: NDArray) -> NDArray:
    """Mask of results whose operands were not finite: element by element, or by instance where shapes differ."""
    try:
        if np.broadcast_shapes(bad.shape, result.shape) == result.shape:
            return bad
    except ValueError:
        pass
    per_instance = bad.any(axis=tuple(range(BATCH, bad.ndim)))
    return per_instance.reshape(*per_instance.shape, *[1] * (result.ndim - BATCH))
