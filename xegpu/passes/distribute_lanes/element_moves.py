"""Operations whose results are elements of their operands: slices, insertions, shuffles, broadcasts, layout changes.

What is known of the elements of a fragment is an array ``[planes, units, lanes]``, of any number of planes; those that
a source lacks are zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from xegpu.dialect.convert_layout import ConvertLayoutOp
from xegpu.dialect.reduction import BroadcastOp
from xegpu.dialect.vector import ShuffleOp
from xegpu.layout import lane_map
from xegpu.layout.lane_map import LaneMap
from xegpu.mlir.vector import ExtractStridedSliceOp, InsertStridedSliceOp, shape_of, values_of

Elements = np.ndarray[Any, np.dtype[np.int64]]
"""Results of an analysis for the elements of a fragment: ``[planes, units, lanes]``."""
LANES = 16
"""Lanes of a subgroup, on the targets that this is for."""


def has_elements(value: SSAValue) -> bool:
    """Whether a fragment has one column; others are not analysed."""
    return shape_of(value)[1:] == (1,)


def moved_elements(value: SSAValue, elements_of: Callable[[SSAValue], Elements]) -> Elements | None:
    """Facts of the elements of a value, from those of the elements that it copies; None for computed values."""
    owner = value.owner
    if isinstance(owner, ExtractStridedSliceOp):
        first = values_of(owner.offsets)[0]
        return elements_of(owner.source)[:, first:first + shape_of(value)[0]]
    if isinstance(owner, InsertStridedSliceOp):
        first, (rows, part) = values_of(owner.offsets)[0], _alike(elements_of(owner.dest), elements_of(owner.source))
        result = rows.copy()
        result[:, first:first + part.shape[1]] = part
        return result
    if isinstance(owner, ShuffleOp) and (maps := owner.lane_maps()) is not None:
        return _shuffled(owner, maps, elements_of)
    if isinstance(owner, BroadcastOp) and owner.maps is not None:
        row, column = _positions(owner.larger(value), owner.maps[1])
        small, axes = owner.smaller(value), owner.dimensions
        return _held(elements_of(owner.source), small, owner.maps[0], row * (0 not in axes), column * (1 not in axes))
    if isinstance(owner, ConvertLayoutOp) and owner.source_map is not None and owner.target_map is not None:
        shape = owner.block_shape()
        return _held(elements_of(owner.source), shape, owner.source_map.data, *_positions(shape, owner.target_map.data))
    return None


def _alike(*parts: Elements) -> list[Elements]:
    """Arrays of as many planes."""
    most = max(len(part) for part in parts)
    return [np.pad(part, ((0, most - len(part)), (0, 0), (0, 0))) for part in parts]


def _positions(shape: tuple[int, int], lanes: LaneMap) -> tuple[Elements, Elements]:
    """Row and column of every element of a fragment of a column, ``[units, lanes]``."""
    row, column = lane_map.positions(shape, lanes, LANES)
    return row[..., 0].T, column[..., 0].T


def _held(source: Elements, shape: tuple[int, int], lanes: LaneMap, row: Elements, column: Elements) -> Elements:
    """The elements at rows and columns of a block."""
    lane, unit = lane_map.holder(shape, lanes, row, column)
    return source[:, unit, lane]


def _shuffled(shuffle: ShuffleOp, maps: list[LaneMap], elements_of: Callable[[SSAValue], Elements]) -> Elements:
    *shapes, shape = shuffle.block_shapes()
    row, column = _positions(shape, maps[-1])
    taken = np.array(shuffle.mask.get_values())[row * shape[1] + column]
    parts = _alike(*(elements_of(source) for source in shuffle.sources))
    result = np.zeros((len(parts[0]), *taken.shape), np.int64)
    for part, block, lanes, first in zip(parts, shapes, maps, accumulate(map(prod, shapes), initial=0), strict=False):
        here = (taken >= first) & (taken < first + prod(block))
        result[:, here] = _held(part, block, lanes, *np.divmod(taken[here] - first, block[1]))
    return result
