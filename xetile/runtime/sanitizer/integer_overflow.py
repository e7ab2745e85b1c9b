"""Integer checks: overflows of operations on in-range integers, whose results reach memory.

Signed integers and indices wrap around; so do conversions to narrower signed types, and floats saturate at an integer
type's limits. The result does not show it, so overflowed elements are tracked (taint): from the operation to the users
of its result, and to stores. Elements that ``xt.where`` or a mask excludes are no finding. Unsigned arithmetic wraps by
definition, and a conversion of equal width keeps the bits; neither is checked.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue

from xegpu.interpreter.gather_scatter import active_elements
from xegpu.interpreter.interpreter import BATCH, AcceptsLazy, Interpreter, Semantic, TileView
from xegpu.ir.dtypes import DType, NDArray, element_type
from xegpu.mlir.arith import FPToSIOp, FPToUIOp, TruncIOp
from xegpu.mlir.elementwise import RECORDS
from xegpu.support.errors import CheckError
from xegpu.support.location import Location, author_location
from xetile.dialect.gather_scatter import InitScatteredTileOp, UpdateScatteredTileOp
from xetile.dialect.reduction import TileReduceOp, axes_of
from xetile.dialect.tile_ops import tile_of
from xetile.runtime.sanitizer.findings import (
    Loops,
    array_name,
    by_instance,
    element_of,
    failed,
    instance,
    loops,
    reached,
)
from xetile.runtime.sanitizer.taint import Taint, of_active

_EXACT: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "<<": operator.lshift}
_WRAPPING = {kind: (symbol, _EXACT[symbol]) for kind, record in RECORDS.items() if record.wraps
             for symbol in record.operators}
_CONVERTING = (FPToSIOp, FPToUIOp, TruncIOp)


@dataclass(frozen=True)
class _Origin:
    """Origin: operation whose result overflowed.

    Attributes:
        operation: the operation.
        loops: the variables of the loops around it, and what they were.
        operands: what it took.
        lost: which elements of its result lost something.
    """

    operation: Operation
    loops: Loops
    operands: Sequence[Any]
    lost: NDArray


@dataclass
class Integers:
    """Checks of one launch: the overflowed elements of each value are tainted."""

    taint: Taint[_Origin] = field(default_factory=Taint)

    def watching(self, semantic: Semantic) -> Semantic:
        """Instrumented semantics: check the result, and propagate the operands' taint."""
        def watched(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Any:
            result = semantic(machine, operation, operands)
            if type(operation) in _LOOKS or self.taint:
                self._look(machine, operation, operands, result)
            return result

        return AcceptsLazy(watched) if isinstance(semantic, AcceptsLazy) else watched

    def store(self, machine: Interpreter, operation: Any, operands: Sequence[Any]) -> None:
        """Check a stored tile."""
        if self.taint:
            self._sink(machine, operation, operation.value, reached(machine, operation, operands[1]), operands[1])

    def single(self, machine: Interpreter, operation: Any, operands: Sequence[Any]) -> None:
        """Check scattered accesses."""
        if not self.taint:
            return
        rank = len(tile_of(operation.tile).blocked_shape())
        window = next((operand for operand in operands if isinstance(operand, TileView)), None)
        mask = np.asarray(operands[-1], bool) if getattr(operation, "mask", None) is not None else np.asarray(True)
        mask = active_elements(machine, mask.reshape(mask.shape or (1,) * (BATCH + rank)), rank)
        for value in operation.operands:
            self._sink(machine, operation, value, mask, window)

    def _look(self, machine: Interpreter, operation: Operation, operands: Sequence[Any], result: Any) -> None:
        if not operation.results:
            return
        look, value = _LOOKS.get(type(operation)), operation.results[0]
        lost = None if look is None else look(operation, operands, result)
        found = self.taint.passed_on(machine, operation, operands)
        if lost is not None and (lost := of_active(machine, lost)).any():
            found = [*found, (lost, _Origin(operation, loops(machine, operation), operands, lost))]
        if found and not isinstance(value.type, VectorType) and not _is_tile(operation):
            instances, birth = by_instance(machine, found[0][0]), found[0][1]
            if instances.any():  # a scalar, which is an index, a size or a bound of a loop
                raise _finding(machine, birth, birth.lost, "and goes on with it")
        self.taint.mark(machine, value, found)

    def _sink(self, machine: Interpreter, operation: Any, value: SSAValue, among: NDArray,
              window: TileView | None) -> None:
        for lost, birth in self.taint.of(machine, value):
            try:
                bad = lost & among
            except ValueError:  # in blocks, or of another shape
                bad = by_instance(machine, lost) & by_instance(machine, among)
            instances = by_instance(machine, bad)
            if instances.any():
                raise _finding(machine, birth, bad, _use(operation, value, window, bad, instances),
                               [("it is used here", author_location(operation))])


def _is_tile(operation: Operation) -> bool:
    return isinstance(operation, (InitScatteredTileOp, UpdateScatteredTileOp))


# --- overflow of an operation -----------------------------------------------------------------------------------------

def _limits(dtype: DType) -> tuple[int, int]:
    """Smallest and largest value; devices compute indices in 32 bits."""
    if dtype.kind == "x":
        return -2**31, 2**31 - 1
    info = np.iinfo(dtype.compute)
    return int(info.min), int(info.max)


def _wraps(operation: Operation, operands: Sequence[Any], result: Any) -> NDArray | None:
    dtype = element_type(operation.results[0].type)
    if dtype.kind not in "ix" or _is_in_remainder(operation):
        return None
    low, high = _limits(dtype)
    if isinstance(result, int):
        return None if low <= result <= high else np.ones((1,) * BATCH, bool)
    a, b = (np.asarray(operand) for operand in operands)
    if not a.size or not b.size:
        return None
    _, function = _WRAPPING[type(operation)]
    shifts = isinstance(operation, arith.ShLIOp)
    ends = [(int(side.min()), int(side.max())) for side in (a, b)]
    if shifts and (ends[1][0] < 0 or ends[1][1] >= 64):
        return np.asarray((b < 0) | (b >= dtype.bits) | np.zeros_like(a, bool))
    if all(low <= function(*corner) <= high for corner in product(*ends)):
        return None
    wide = object if dtype.bits == 64 and dtype.kind == "i" else np.int64
    exact = np.asarray(function(a.astype(wide), b.astype(wide)))
    return np.asarray((exact < low) | (exact > high), bool)


def _is_in_remainder(operation: Operation) -> bool:
    """Whether an operation is part of ``a - a // b * b``, which its type holds even where it does not the product."""
    if isinstance(operation, arith.MuliOp):
        uses = [use.operation for use in operation.result.uses]
        return bool(uses) and all(isinstance(use, arith.SubiOp) and _is_in_remainder(use) for use in uses)
    if not isinstance(operation, arith.SubiOp) or not isinstance(product_ := operation.rhs.owner, arith.MuliOp):
        return False
    quotient = product_.lhs.owner
    return isinstance(quotient, arith.FloorDivSIOp) and \
        (quotient.lhs, quotient.rhs) == (operation.lhs, product_.rhs)


def _does_not_fit(operation: Operation, operands: Sequence[Any], result: Any) -> NDArray | None:
    dtype, value = element_type(operation.results[0].type), np.asarray(operands[0])
    low, high = _limits(dtype)
    if not value.size or (dtype.kind == "u" and value.dtype.kind != "f") or _are_bits(operation):
        return None
    if low <= value.min() and value.max() < high:
        return None
    truncated = np.trunc(value) if value.dtype.kind == "f" else value
    return np.asarray(~((truncated >= low) & (truncated < high + 1 if value.dtype.kind == "f" else truncated <= high)),
                      bool)


def _are_bits(operation: Operation) -> bool:
    """Whether an operation makes the bits of floats, such as those of 8 bits."""
    uses = [use.operation for use in operation.results[0].uses]
    return bool(uses) and all(isinstance(use, arith.BitcastOp) and element_type(use.result.type).kind in "fs"
                              for use in uses)


def _magnitude(operation: Operation, operands: Sequence[Any], result: Any) -> NDArray | None:
    value = np.asarray(operands[0])
    low, _ = _limits(element_type(operation.results[0].type))
    return None if not value.size or value.min() != low else np.asarray(value == low)


def _sums(operation: Any, operands: Sequence[Any], result: Any) -> NDArray | None:
    dtype, value = element_type(operation.results[0].type), operands[0]
    if dtype.kind != "i" or operation.kind.data != "add" or not value.size:
        return None
    low, high = _limits(dtype)
    count = value[0, 0, 0, 0, 0].size // max(result[0, 0, 0, 0, 0].size, 1)
    if low <= int(value.min()) * count and int(value.max()) * count <= high:
        return None
    axes = tuple(axis - (value.ndim - BATCH) for axis in axes_of(operation))
    exact = np.sum(value, axis=axes, keepdims=True, dtype=object if dtype.bits == 64 else np.int64)
    return np.asarray((exact < low) | (exact > high), bool).reshape(result.shape)


_LOOKS: dict[type[Operation], Callable[[Any, Sequence[Any], Any], NDArray | None]] = {
    **dict.fromkeys(_WRAPPING, _wraps), **dict.fromkeys(_CONVERTING, _does_not_fit), math.AbsIOp: _magnitude,
    TileReduceOp: _sums}


# --- messages --------------------------------------------------------------------------------------------------------

def _finding(machine: Interpreter, birth: _Origin, bad: NDArray, use: str,
             others: Sequence[tuple[str, Location | None]] = ()) -> CheckError:
    instances = by_instance(machine, bad)
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(instances)), instances.shape))
    dtype = element_type(birth.operation.results[0].type)
    code = "XT6009" if isinstance(birth.operation, _CONVERTING) else "XT6008"
    return failed(machine, birth.operation, code, f"{instance(machine, at)} {_describe_overflow(birth, at, bad)} "
                  "here, which "
                  f"{dtype} does not hold, {use}", _hint(birth.operation, dtype), at, birth.loops, others)


def _hint(operation: Operation, dtype: DType) -> str:
    if dtype.kind == "x":
        return "devices have 32-bit integers: calculate larger values in xt.i64"
    if isinstance(operation, TruncIOp):
        return f"limit it first with xt.maximum and xt.minimum; for its low bits alone convert it to xt.u{dtype.bits}"
    if isinstance(operation, _CONVERTING):
        return "limit it first with xt.maximum and xt.minimum, and keep NaN out; or convert it to a wider type"
    wider = "limit what goes in" if dtype.bits == 64 else f"calculate in a wider type, as in x.to(xt.i{2 * dtype.bits})"
    return f"{wider}; where it shall wrap around, in xt.u{dtype.bits}, which does so by definition"


def _describe_overflow(birth: _Origin, at: tuple[int, ...], bad: NDArray) -> str:
    """Description of the computation, with the operands of one overflowed element."""
    lost = _at(birth.lost, at)
    if lost.shape[BATCH:] == bad.shape[BATCH:] and (both := lost & _at(bad, at)).any():
        lost = both
    element = [*at, *(int(i) for i in np.unravel_index(int(np.argmax(lost)), lost.shape)[BATCH:])]
    if isinstance(birth.operation, TileReduceOp):
        return "makes a sum"
    numbers = [_number_at(operand, element) for operand in birth.operands]
    if type(birth.operation) in _WRAPPING:
        symbol, function = _WRAPPING[type(birth.operation)]
        left, right = map(int, numbers)
        outcome = f" = {function(left, right)}" if symbol != "<<" or 0 <= right < 64 else ""
        return f"makes {left} {symbol} {f'({right})' if right < 0 else right}{outcome}"
    if isinstance(birth.operation, math.AbsIOp):
        return f"makes {abs(int(numbers[0]))} of {numbers[0]}"
    return f"converts {numbers[0]}"


def _at(mask: NDArray, at: tuple[int, ...]) -> NDArray:
    """Mask of one instance, with all its axes."""
    return mask[tuple(slice(min(i, n - 1), min(i, n - 1) + 1) for i, n in zip(at, mask.shape, strict=False))]


def _number_at(operand: Any, element: Sequence[int]) -> Any:
    array = np.asarray(operand)
    if not array.ndim:
        return array.item()
    return array[tuple(min(int(i), n - 1) for i, n in zip(element, array.shape, strict=False))].reshape(-1)[0].item()


def _use(operation: Any, value: SSAValue, window: TileView | None, bad: NDArray, instances: NDArray) -> str:
    name = array_name(operation.tile)
    if value is operation.tile:
        return f"and uses what follows from it to find elements of {name}"
    if value is getattr(operation, "mask", None):
        return f"and uses what follows from it to choose elements of {name}"
    verb = "stores" if operation.name.endswith(("store_tile", "store_scatter")) else "updates with"
    end = f"what follows from it {'to ' if verb == 'stores' else 'in '}{name}"
    return f"and {verb} {end}{_element_phrase(window, bad, instances)}"


def _element_phrase(window: TileView | None, bad: NDArray, instances: NDArray) -> str:
    if window is None or bad.ndim != BATCH + 2:
        return ""
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(instances)), instances.shape))
    lost = bad[tuple(min(i, n - 1) for i, n in zip(at, bad.shape, strict=False))]
    row, column = np.unravel_index(int(np.argmax(lost)), lost.shape)
    return element_of(window, (*at, int(row), int(column)))
