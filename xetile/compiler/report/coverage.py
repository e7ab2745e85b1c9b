"""Coverage of arrays by tiles: whether a kernel with other constants still covers the same elements.

    m = group_id(0) * BM; init_tile %X, [%m, %0] : !tile<BMxBN>
covers all rows of X with any BM, and of its columns the first BN: BM is a tile size, and BN the length of a row, which
belongs to the problem. If ``m`` were ``group_id(0) * 64``, with BM=32 half of the rows would be left out. A loop in
steps of ``group`` that takes one row of scales in each needs twice as many scales with half of it. Work-groups that go
half as far along one array need to be twice as many, and then go twice as far along another, whose tiles stay.
What a work-group adds up at once, such as the columns of a head, is added up by no other.

Where tiles begin is evaluated for the first work-groups, subgroups and iterations, along each dimension by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects import func, gpu, memref, scf
from xdsl.dialects.builtin import IndexType, IntegerType, VectorType
from xdsl.ir import BlockArgument, Operation, SSAValue

from xegpu.ir.kernel_attributes import subgroup_count
from xegpu.ir.matchers import number
from xegpu.ir.use_def import root_definitions
from xegpu.mlir.elementwise import RECORDS
from xegpu.mlir.vector import shape_of
from xetile.dialect.gather_scatter import AtomicRMWTileOp
from xetile.dialect.mma import TileMmaOp
from xetile.dialect.reduction import TileReduceOp, axes_of
from xetile.dialect.tile_ops import InitTileOp, LoadTileOp, UpdateTileOffsetOp, tile_of

_GROUPS, _STEPS, _SUBGROUPS = 8, 4, 64
"""How many work-groups along a dimension, iterations of a loop, and subgroups are looked at, at most."""
_SIZE = 1 << 12
"""Elements along a dimension of an array whose size is not known, and an argument that is an integer."""
_Places = dict[tuple[int, int], "_Along"]
"""What is covered of each argument along each dimension, counted from the last."""


def covers_the_same(recorded: func.FuncOp, changed: func.FuncOp) -> bool:
    """Whether a kernel's tiles cover its arrays with other constants, too, as far as can be told.

    Args:
        recorded: the kernel, as recorded.
        changed: it with other constants.
    """
    before, after = _covered(recorded), _covered(changed)
    return before.keys() == after.keys() and all(after[key].agrees_with(before[key]) for key in before) and \
        all(len(set(factors)) < 2 for factors in _factors(before, after).values()) and \
        _adds_up_the_same(recorded, changed)


@dataclass
class _Along:
    """Coverage by tiles along a dimension of an array.

    Attributes:
        pieces: of each tile the elements at which it begins, and how many it has.
        ends: the last element of each tile in the last iteration, where loops alone decide it, and one more.
        varies: whether another work-group, subgroup or iteration has other elements.
        is_known: whether all tiles could be evaluated.
        strides: how far tiles of neighbouring work-groups are apart, by dimension of the grid.
    """

    strides: dict[object, set[int]] = field(default_factory=lambda: defaultdict(set))
    pieces: list[tuple[np.ndarray[Any, Any], int]] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    varies: bool = False
    is_known: bool = True

    def agrees_with(self, before: _Along) -> bool:
        """Whether nothing is left out that was covered before."""
        if not self.is_known or not before.is_known:
            return True
        if self.varies:
            return (not self._has_holes() or before._has_holes()) and self._ends_near(before)
        return before.varies or self._ends() == before._ends()

    def _ends_near(self, before: _Along) -> bool:
        """Whether loops go as far as before, but for a part of a tile."""
        if not self.ends or not before.ends:
            return True
        largest = max(size for _, size in (*self.pieces, *before.pieces))
        return abs(max(self.ends) - max(before.ends)) < max(largest, 2)

    def _ends(self) -> tuple[int, int]:
        return (min(int(starts.min()) for starts, _ in self.pieces),
                max(int(starts.max()) + size for starts, size in self.pieces))

    def _has_holes(self) -> bool:
        """Whether elements between the first and the last one lie in no tile."""
        starts = np.concatenate([starts.ravel() for starts, _ in self.pieces])
        ends = np.concatenate([starts.ravel() + size for starts, size in self.pieces])
        order = np.argsort(starts, kind="stable")
        return bool((starts[order][1:] > np.maximum.accumulate(ends[order])[:-1]).any())


def _covered(function: func.FuncOp) -> _Places:
    """Coverage of a function's arguments by its tiles, without scattered ones."""
    found: _Places = defaultdict(_Along)
    sample, last, moves = _Sample(function), _Sample(function, is_last=True), _moves(function)
    for tile in function.walk():
        if not isinstance(tile, InitTileOp) or len(tile.offsets) < 2 or not isinstance(tile.source, BlockArgument) \
                or tile.source.block is not function.body.block:
            continue
        shape = tile_of(tile.result).shape
        for dim, offset in enumerate(reversed(tile.offsets)):
            along = found[tile.source.index, dim]
            size = shape[-1 - dim] if dim < len(shape) else 1
            starts = sample.values(offset)
            steps = moves.get(tile.result, {}).get(dim, set())
            is_constant = starts is not None and starts.min() == starts.max()
            along.varies |= bool(steps) or varies(offset)
            if starts is None or None in steps or (is_constant and not steps and varies(offset)):
                along.is_known = False  # it varies beyond the sample, or by what is no index arithmetic
                continue
            far = [starts] + [starts + step * count for step in steps if step for count in range(1, _STEPS)]
            along.pieces += [(each, size) for each in far]
            for dimension, stride in sample.strides(starts):
                along.strides[dimension].add(stride)
            final = None if steps or _is_of_groups(offset) else last.values(offset)
            if final is not None:
                along.ends.append(int(final.max()) + size)
    return found


def _factors(before: _Places, after: _Places) -> dict[object, list[float]]:
    """Ratios of the strides of work-groups after and before, for each grid dimension, where tiles have one stride."""
    found: dict[object, list[float]] = defaultdict(list)
    for key, along in before.items():
        for dimension, strides in along.strides.items():
            others = after[key].strides[dimension]
            if len(strides) == len(others) == 1:
                found[dimension].append(min(others) / min(strides))
    return found


def _adds_up_the_same(recorded: func.FuncOp, changed: func.FuncOp) -> bool:
    """Whether reductions of what no loop goes along, and atomic updates do not add to, are of as many elements."""
    before, after = map(_whole_extents, (recorded, changed))
    return set(before) == set(after) or sum(before) == sum(after) or \
        any(isinstance(operation, AtomicRMWTileOp) for operation in recorded.walk())


def _whole_extents(function: func.FuncOp) -> list[int]:
    """Elements of each reduction and product that are loaded at one place, which work-groups alone decide on."""
    moves, found = _moves(function), []
    for operation in function.walk():
        if isinstance(operation, TileReduceOp):
            reduced = [(operation.source, axis) for axis in axes_of(operation)]
        else:
            reduced = [(operation.a, 1)] if isinstance(operation, TileMmaOp) else []
        found += [shape_of(value)[axis] for value, axis in reduced if len(shape_of(value)) == 2 and
                  any(_is_whole(tile, 1 - axis, moves) for tile in _tiles_of(value))]
    return found


def _tiles_of(value: SSAValue) -> Iterator[InitTileOp]:
    """Tiles that a vector was computed from, element by element."""
    waiting, seen = [value], {value}
    while waiting:
        owner = waiting.pop().owner
        if isinstance(owner, LoadTileOp):
            yield from (root.owner for root in root_definitions(owner.tile) if isinstance(root.owner, InitTileOp))
        elif isinstance(owner, Operation) and type(owner) in RECORDS:
            alike = [each for each in owner.operands if isinstance(each.type, VectorType) and each not in seen and
                     each.type.get_shape() == tuple(shape_of(owner.results[0]))]
            waiting += alike
            seen.update(alike)


def _is_whole(tile: InitTileOp, dim: int, moves: Mapping[SSAValue, Mapping[int, object]]) -> bool:
    """Whether a tile has all that is added up along a dimension, counted from the last."""
    if len(tile.offsets) < 2 or moves.get(tile.result, {}).get(dim):
        return False
    return not any(isinstance(each, BlockArgument) or isinstance(each.owner, gpu.SubgroupIdOp)
                   for each in _origins(tile.offsets[-1 - dim]))


def _moves(function: func.FuncOp) -> dict[SSAValue, dict[int, set[int | None]]]:
    """Step of each tile along each dimension, None if it is no constant."""
    found: dict[SSAValue, dict[int, set[int | None]]] = defaultdict(lambda: defaultdict(set))
    for update in function.walk():
        if isinstance(update, UpdateTileOffsetOp) and len(update.offsets) > 1:
            for root in root_definitions(update.tile):
                for dim, offset in enumerate(reversed(update.offsets)):
                    if number(offset) != 0:
                        found[root][dim].add(number(offset))
    return found


class _Sample:
    """Values of index arithmetic for some work-groups, subgroups and iterations, each along an axis of its own.

    Args:
        function: the kernel.
        is_last: whether it is the last iteration of each loop, not the first ones.
    """

    def __init__(self, function: func.FuncOp, *, is_last: bool = False) -> None:
        self._is_last = is_last
        self._subgroups = min(subgroup_count(function), _SUBGROUPS)
        self._axes: dict[object, int] = {}
        self._known: dict[SSAValue, np.ndarray[Any, Any] | None] = {}

    def values(self, value: SSAValue) -> np.ndarray[Any, Any] | None:
        """The values; None where they follow from something else."""
        if value not in self._known:
            self._known[value] = self._evaluate(value)
        return self._known[value]

    def strides(self, starts: np.ndarray[Any, Any]) -> Iterator[tuple[object, int]]:
        """Distances of what neighbouring work-groups have, where all along a dimension of the grid have the same."""
        for of, axis in self._axes.items():
            if isinstance(of, gpu.DimensionAttr) and starts.ndim > axis and starts.shape[-1 - axis] > 1:
                distances = np.unique(np.diff(starts, axis=-1 - axis))
                if distances.size == 1 and distances[0]:
                    yield of, int(distances[0])

    def _evaluate(self, value: SSAValue) -> np.ndarray[Any, Any] | None:
        if not isinstance(value.type, (IndexType, IntegerType)):
            return None
        if isinstance(value, BlockArgument):
            loop = value.block.parent_op()
            if isinstance(loop, func.FuncOp):
                return np.array(_SIZE)
            return self._iterations(loop) if isinstance(loop, scf.ForOp) and value.index == 0 else None
        constant, owner = number(value), value.owner
        if constant is not None:
            return np.array(constant)
        if isinstance(owner, memref.ExtractStridedMetaDataOp):
            return np.array(_SIZE)
        if isinstance(owner, gpu.BlockIdOp):
            return self._axis(owner.dimension, _GROUPS)
        if isinstance(owner, gpu.SubgroupIdOp):
            return self._axis(gpu.SubgroupIdOp, self._subgroups)
        record = RECORDS.get(type(owner))  # type: ignore[arg-type]
        if record is None or (record.numpy is None and record.family != "conversion"):
            return None
        operands = [self.values(operand) for operand in owner.operands]  # type: ignore[union-attr]
        known = [operand for operand in operands if operand is not None]
        if len(known) < len(operands) or (record.defined and not known[1].all() and record.defined == "divisor"):
            return None
        return known[0] if record.numpy is None else np.asarray(record.numpy(*known))

    def _iterations(self, loop: scf.ForOp) -> np.ndarray[Any, Any] | None:
        first, end, step = map(self.values, (loop.lb, loop.ub, loop.step))
        if first is None or end is None or step is None or not step.all():
            return None
        steps = -((first - end) // step)
        if self._is_last:
            return np.asarray(first + step * (np.maximum(steps, 1) - 1))
        count = int(np.clip(steps, 1, _STEPS).min())
        return np.asarray(first + step * self._axis(loop, count))

    def _axis(self, of: object, count: int) -> np.ndarray[Any, Any]:
        """The numbers from 0 on, along an axis of its own."""
        axis = self._axes.setdefault(of, len(self._axes))
        return np.arange(count).reshape(-1, *[1] * axis)


def varies(offset: SSAValue) -> bool:
    """Whether an offset differs between work-groups, subgroups or iterations."""
    return any(isinstance(each, BlockArgument) or isinstance(each.owner, (gpu.BlockIdOp, gpu.SubgroupIdOp))
               for each in _origins(offset))


def _is_of_groups(offset: SSAValue) -> bool:
    """Whether work-groups or subgroups decide on an offset, or on a loop that it counts."""
    return any(isinstance(each.owner, (gpu.BlockIdOp, gpu.SubgroupIdOp)) for each in _origins(offset))


def _origins(offset: SSAValue) -> Iterator[SSAValue]:
    """Arguments of loops, and results of operations, that a value is computed from."""
    waiting, seen = [offset], set()
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        if not isinstance(value, BlockArgument):
            waiting += value.owner.operands  # type: ignore[union-attr]
            yield value
        elif isinstance(loop := value.block.parent_op(), scf.ForOp):
            waiting += (loop.lb, loop.ub, loop.step)
            yield value
