"""Coverage of arrays by tiles: whether a kernel with other constants still covers what it did.

    m = group_id(0) * BM; init_tile %X, [%m, %0] : !tile<BMxBN>
covers all rows of X with any BM, and of its columns the first BN: BM is a tile size, and BN the length of a row, which
belongs to the problem. If ``m`` were ``group_id(0) * 64``, with BM=32 half of the rows would be left out. A loop in
steps of ``group`` that takes one row of scales in each needs twice as many scales with half of it.

Where tiles begin is evaluated for the first work-groups, subgroups and iterations, along each dimension by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects import func, gpu, memref, scf
from xdsl.dialects.builtin import IndexType, IntegerType
from xdsl.ir import BlockArgument, SSAValue

from xegpu.ir.kernel_attributes import subgroup_count
from xegpu.ir.matchers import number
from xegpu.ir.use_def import root_definitions
from xegpu.mlir.elementwise import RECORDS
from xetile.dialect.tile_ops import InitTileOp, UpdateTileOffsetOp, tile_of

_GROUPS, _STEPS, _SUBGROUPS = 8, 4, 64
"""How many work-groups along a dimension, iterations of a loop, and subgroups are looked at, at most."""
_SIZE = 1 << 12
"""Elements along a dimension of an array whose size is not known."""
_Places = dict[tuple[int, int], "_Along"]
"""What is covered of each argument along each dimension, counted from the last."""


def covers_the_same(recorded: func.FuncOp, changed: func.FuncOp) -> bool:
    """Whether a kernel's tiles cover its arrays with other constants, too, as far as can be told.

    Args:
        recorded: the kernel, as recorded.
        changed: it with other constants.
    """
    before, after = _covered(recorded), _covered(changed)
    return before.keys() == after.keys() and all(after[key].agrees_with(before[key]) for key in before)


@dataclass
class _Along:
    """What tiles cover along a dimension of an array.

    Attributes:
        pieces: of each tile the elements at which it begins, and how many it has.
        ends: the last element of each tile in the last iteration, where loops alone decide it, and one more.
        varies: whether another work-group, subgroup or iteration has other elements.
        is_known: whether all tiles could be evaluated.
    """

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
    """What the tiles of a function cover of its arguments, without those of single elements."""
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
            final = None if steps or _is_of_groups(offset) else last.values(offset)
            if final is not None:
                along.ends.append(int(final.max()) + size)
    return found


def _moves(function: func.FuncOp) -> dict[SSAValue, dict[int, set[int | None]]]:
    """How far each tile is moved at once along each dimension, None if that is no constant."""
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

    def _evaluate(self, value: SSAValue) -> np.ndarray[Any, Any] | None:
        if not isinstance(value.type, (IndexType, IntegerType)):
            return None
        if isinstance(value, BlockArgument):
            loop = value.block.parent_op()
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
