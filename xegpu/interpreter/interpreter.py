"""NumPy interpreter of kernels, vectorized over program instances.

The instances of a launch lie along five leading *batch axes*: three of the grid, two of the subgroups. A value that is
uniform along an axis has size 1 there, and a scalar that is uniform over all instances is a Python number. A
distributed kernel has a sixth batch axis, the lanes. Instances run in lock step, so barriers are no-ops; divergent
waits at named barriers are the task of :mod:`xegpu.interpreter.subgroup_scheduler`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
from xdsl.dialects import func, scf
from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from xegpu.interpreter.memory import Surfaces
from xegpu.interpreter.memory.elements import Elements, identity
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.memref import is_shared
from xegpu.ir.region_branch import TERMINATORS
from xegpu.mlir.vector import ExtractOp, ExtractStridedSliceOp
from xegpu.support.errors import BUG, XeError
from xegpu.support.location import author_location

Semantic = Callable[["Interpreter", Any, Sequence[Any]], Any]
Semantics = Mapping[type[Operation], Semantic]
BATCH = 5
_CHUNK_BYTES = 16 << 20
"""Budget in bytes for the vectors of the instances that run together: they stay in cache between operations."""
_PRODUCT_BYTES = 128 << 20
"""The same budget for kernels with products, as large GEMMs are fastest."""


@dataclass(frozen=True)
class TileView:
    """Run-time value of a tile or a block descriptor: an array with row and column offsets.

    ``lead`` are the indices of the leading dimensions, which select a matrix. Where the instances' matrices differ in
    size, ``array`` is a :class:`xegpu.interpreter.memory.Surfaces`.
    """

    array: Any
    row: Any
    column: Any
    lead: tuple[Any, ...] = ()

    def moved(self, rows: Any, columns: Any) -> TileView:
        """View with updated offsets."""
        return replace(self, row=self.row + rows, column=self.column + columns)

    @property
    def surface(self) -> tuple[Any, ...]:
        """Identity of its array, equal for two views of one array."""
        return self.array.surface if isinstance(self.array, Surfaces) else identity(self.array)


DescriptorValue = TileView | Elements
"""Run-time value of a block or scattered descriptor."""


@dataclass(frozen=True)
class DivergentDescriptor:
    """Divergent descriptor: views of different arrays, each with the mask of its instances."""

    options: tuple[tuple[np.ndarray[Any, Any], DescriptorValue], ...]


class LazyValue(ABC):
    """Lazy value, evaluated at its first use."""

    @abstractmethod
    def value(self) -> Any:
        """Evaluate it, once."""


def force(value: Any) -> Any:
    """Force a lazy value; other values are returned as they are."""
    return value.value() if isinstance(value, LazyValue) else value


@dataclass(frozen=True)
class AcceptsLazy:
    """Semantics of an operation that accepts lazy operands."""

    semantics: Semantic

    def __call__(self, machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Any:
        return self.semantics(machine, operation, operands)


def narrow(number: Any) -> Any:
    """Squeeze the batch axes along which a run-time scalar is uniform, so that lattices stay lattices.

    A scalar uniform over all instances becomes a Python number; vectors are returned unchanged.
    """
    if not isinstance(number, np.ndarray) or number.ndim != BATCH:
        return number
    for axis, size in enumerate(number.shape):
        first = number.take([0], axis)
        if size > 1 and (number == first).all():
            number = first
    return number if number.size > 1 else number.reshape(-1)[0].item()


@dataclass
class Interpreter:
    """Interpreter state: the instances that are running, and the semantics of operations.

    Attributes:
        semantics: operation to its NumPy semantics; for ``scf.for``, which is run here, a check before it.
        groups: for each grid axis, the first group and the number of groups in the current chunk.
        grid: groups of the launch.
        subgroups: subgroups of a work-group along two axes.
        lanes: subgroup size of a distributed kernel, else None.
        origin: the first running subgroup.
        layout: all subgroups of a work-group, None where all of them run.
        active: mask of active instances in a divergent loop or branch, None for all.
    """

    semantics: Semantics
    groups: tuple[tuple[int, int], ...]
    grid: tuple[int, int, int]
    subgroups: tuple[int, int]
    lanes: int | None = None
    active: np.ndarray[Any, Any] | None = None
    values: dict[SSAValue, Any] = field(default_factory=dict)
    origin: tuple[int, int] = (0, 0)
    layout: tuple[int, int] | None = None

    @property
    def batch(self) -> int:
        """Number of batch axes of a vector."""
        return BATCH + (self.lanes is not None)

    @property
    def instances(self) -> tuple[int, ...]:
        """Number of running instances along each batch axis, the lanes excluded."""
        return (*(count for _, count in self.groups), *self.subgroups)

    @property
    def work_group(self) -> tuple[Any, ...]:
        """Indices of each instance's work-group in an SLM array, whose leading axes are the work-groups."""
        return tuple(self.along(axis, 0, count) for axis, (_, count) in enumerate(self.groups))

    def along(self, axis: int, first: int, count: int) -> Any:
        """Iota ``first ... first + count - 1`` along a batch axis."""
        if count == 1:
            return first
        shape = [1] * BATCH
        shape[axis] = count
        return np.arange(first, first + count, dtype=np.int64).reshape(shape)

    @property
    def subgroup(self) -> Any:
        """Subgroup id of each instance in its work-group."""
        rows, columns = (self.along(axis, first, count)
                         for axis, first, count in zip((3, 4), self.origin, self.subgroups, strict=True))
        return rows * (self.layout or self.subgroups)[1] + columns

    def as_vector(self, number: Any, rank: int) -> Any:
        """Reshape a scalar to broadcast with vectors: axes for the lanes and ``rank`` dimensions are appended."""
        if not isinstance(number, np.ndarray) or number.ndim == 0:
            return number
        return number.reshape(*number.shape, *[1] * (self.batch - BATCH + rank))

    def run(self, block: Block) -> list[Any]:
        """Run a block's operations and return the operands of its terminator."""
        values = self.values
        for operation in block.ops:
            if isinstance(operation, (*TERMINATORS, func.ReturnOp)):
                return [values[operand] for operand in operation.operands]
            operands = [values[operand] for operand in operation.operands]
            try:
                results = self.evaluate(operation, operands)
            except XeError as error:
                raise error.at(author_location(operation)) from error.__cause__
            if len(operation.results) == 1:
                values[operation.results[0]] = results
            elif operation.results:
                values.update(zip(operation.results, results, strict=True))
        return []

    def evaluate(self, operation: Operation, operands: Sequence[Any]) -> Any:
        """Evaluate one operation: one value, or a list where it has several results."""
        if isinstance(operation, scf.ForOp):
            if (check := self.semantics.get(scf.ForOp)) is not None:
                check(self, operation, operands)
            carried = self._loop(operation, operands)
            return carried[0] if len(carried) == 1 else carried
        if isinstance(operation, scf.WhileOp):
            carried = self._while(operation, operands)
            return carried[0] if len(carried) == 1 else carried
        if isinstance(operation, scf.IfOp):
            chosen = self._branches(operation, operands[0])
            return chosen[0] if len(chosen) == 1 else chosen
        if any(isinstance(operand, DivergentDescriptor) for operand in operands):
            return self._each_option(operation, operands)
        semantic = self.semantics.get(type(operation))
        if semantic is None:
            raise XeError("XT9402", f"NumPy has no semantics for {operation.name}", BUG)
        if not isinstance(semantic, AcceptsLazy):
            operands = [force(operand) for operand in operands]
        return semantic(self, operation, operands)

    def _loop(self, loop: scf.ForOp, operands: Sequence[Any]) -> list[Any]:
        """Run ``scf.for``: no iteration with a step that is not positive, as on devices."""
        start, stop, step, *carried = operands
        block = loop.body.block
        if any(isinstance(bound, np.ndarray) for bound in (start, stop, step)):
            return self._divergent_loop(block, start, stop, step, carried)
        for position in range(start, stop, step) if step > 0 else ():
            self.values.update(zip(block.args, [position, *carried], strict=True))
            carried = self.run(block)
        return carried

    def _divergent_loop(self, block: Block, start: Any, stop: Any, step: Any, carried: list[Any]) -> list[Any]:
        outer, position, counts_up = self.active, start, np.asarray(step) > 0
        while True:
            running = counts_up & (position < stop)
            running = running if outer is None else outer & running
            if not running.any():
                break
            self.active = running = running.reshape(running.shape or (1,) * BATCH)
            self.values.update(zip(block.args, [position, *carried], strict=True))
            carried = [self._select(running, new, old) for new, old in zip(self.run(block), carried, strict=True)]
            position = position + step
        self.active = outer
        return carried

    def _while(self, loop: scf.WhileOp, operands: Sequence[Any]) -> list[Any]:
        """Run ``scf.while``: an instance that leaves it keeps the values that its condition forwarded last."""
        outer, carried = self.active, list(operands)
        before, after = loop.before_region.block, loop.after_region.block
        results: list[Any] = []
        while True:
            self.values.update(zip(before.args, carried, strict=True))
            condition, *forwarded = self.run(before)
            results = forwarded if not results or self.active is outer else \
                [self._select(np.asarray(self.active), new, old) for new, old in zip(forwarded, results, strict=True)]
            holds = np.asarray(force(condition), bool)
            holds = holds.reshape(holds.shape or (1,) * BATCH)
            staying = holds if self.active is None else self.active & holds
            if not staying.any():
                break
            if not holds.all():
                self.active = staying
            self.values.update(zip(after.args, forwarded, strict=True))
            carried = self.run(after)
        self.active = outer
        return results

    def _branches(self, operation: scf.IfOp, condition: Any) -> list[Any]:
        """Run each branch for the instances that take it; a branch without instances is skipped."""
        outer, holds = self.active, np.asarray(condition, bool)
        holds = holds.reshape(holds.shape or (1,) * BATCH)
        masks = [side if outer is None else outer & side for side in (holds, ~holds)]
        taken = [bool(mask.any()) for mask in masks]
        results: list[Any] = []
        for region, mask, some in zip(operation.regions, masks, taken, strict=True):
            if some and region.blocks:
                self.active = mask if all(taken) else outer
                new = self.run(region.block)
                results = [self._select(mask, *pair) for pair in zip(new, results, strict=True)] if results else new
        self.active = outer
        return results

    def _each_option(self, operation: Operation, operands: Sequence[Any]) -> Any:
        """Evaluate an operation on a divergent descriptor, once for the instances of each array."""
        (choice,) = (operand for operand in operands if isinstance(operand, DivergentDescriptor))
        outer, result = self.active, None
        for instances, window in choice.options:
            self.active = instances if outer is None else outer & instances
            candidate = self.evaluate(operation, [window if operand is choice else operand for operand in operands])
            if result is not None and isinstance(candidate, list):
                result = [self._select(instances, *pair) for pair in zip(candidate, result, strict=True)]
            else:
                result = candidate if result is None else self._select(instances, candidate, result)
        self.active = outer
        return result

    def _select(self, running: np.ndarray[Any, Any], new: Any, old: Any) -> Any:
        if isinstance(new, (TileView, Elements, DivergentDescriptor)):
            return self._window(running, new, old)
        new, old = force(new), force(old)
        axes = max(getattr(new, "ndim", 0), getattr(old, "ndim", 0)) - running.ndim
        return np.where(running.reshape(*running.shape, *[1] * max(axes, 0)), new, old)

    def _window(self, running: np.ndarray[Any, Any], new: DescriptorValue | DivergentDescriptor,
                old: DescriptorValue | DivergentDescriptor) -> DescriptorValue | DivergentDescriptor:
        found: dict[Any, tuple[np.ndarray[Any, Any], DescriptorValue]] = {}
        for side, value in ((running, new), (~running, old)):
            for instances, window in value.options if isinstance(value, DivergentDescriptor) else ((np.True_, value),):
                mask = side & instances
                if (other := found.get(window.surface)) is not None:
                    window = self._moved(mask, window, other[1])
                    mask = mask | other[0]
                found[window.surface] = mask, window
        options = tuple((mask, window) for mask, window in found.values() if mask.any())
        return options[0][1] if len(options) == 1 else DivergentDescriptor(options)

    def _moved(self, running: np.ndarray[Any, Any], new: DescriptorValue, old: Any) -> DescriptorValue:
        if isinstance(new, Elements):
            return new.at(self._select(running, new.offsets, old.offsets))
        row, column = self._select(running, new.row, old.row), self._select(running, new.column, old.column)
        lead = tuple(self._select(running, *pair) for pair in zip(new.lead, old.lead, strict=True))
        return TileView(new.array, row, column, lead)


def run(
    function: func.FuncOp, arguments: Sequence[Any], grid: tuple[int, int, int], subgroups: tuple[int, int],
    semantics: Semantics, lanes: int | None = None,
) -> None:
    """Run a kernel on NumPy arrays; outputs are written in place.

    Args:
        function: the kernel, at any stage.
        arguments: one value for each of its arguments: NumPy arrays (as the element type of the memref) and numbers.
        grid: groups along three axes.
        subgroups: subgroups of a work-group along two axes.
        semantics: operation to its NumPy semantics.
        lanes: subgroup size if the kernel is distributed.
    """
    block = function.body.block
    instance_bytes = _bytes_of(block) * subgroups[0] * subgroups[1] * (lanes or 1)
    multiplies = any(isinstance(semantics.get(type(operation)), AcceptsLazy) for operation in block.walk())
    chunk_bytes = _PRODUCT_BYTES if multiplies else _CHUNK_BYTES
    with np.errstate(all="ignore"):
        for groups in _chunks(grid, max(chunk_bytes // max(instance_bytes, 1), 1)):
            machine = Interpreter(semantics, groups, grid, subgroups, lanes)
            machine.values.update(zip(block.args, arguments, strict=True))
            machine.run(block)


def _bytes_of(block: Block) -> int:
    """Bytes of vectors of one instance; a value is kept until its operation runs again."""
    total = 0
    for operation in block.walk():
        blocks = (block for region in operation.regions for block in region.blocks)
        values = (*operation.results, *(argument for block in blocks for argument in block.args))
        if not isinstance(operation, (ExtractOp, ExtractStridedSliceOp)):  # parts are views
            total += sum(_size(value.type) for value in values)
    return total


def _size(type_: Attribute) -> int:
    if not isinstance(type_, VectorType) and not is_shared(type_):
        return 0
    assert isinstance(type_, (VectorType, MemRefType))
    if isinstance(type_.element_type, VectorType):  # a view of an array that is counted already
        return 0
    return math.prod(type_.get_shape()) * of_mlir(type_.element_type).compute.itemsize


def _chunks(grid: tuple[int, int, int], most: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Partition the grid into boxes of at most ``most`` groups, nearly cubic."""
    if not math.prod(grid):
        return
    sizes = list(grid)
    while math.prod(sizes) > most:
        axis = sizes.index(max(sizes))
        sizes[axis] = -(-sizes[axis] // 2)
    starts = [range(0, count, size) for count, size in zip(grid, sizes, strict=True)]
    for origin in product(*starts):
        yield tuple((first, min(size, count - first)) for first, size, count in zip(origin, sizes, grid, strict=True))
