"""Arrays, tiles and vectors of one dimension: a tile of them is one row."""

from __future__ import annotations

from typing import Any

from xegpu.support.errors import RankError
from xetile.frontend.broadcast import cast
from xetile.frontend.constants import scalar
from xetile.frontend.tiles import Array, LineTile
from xetile.frontend.tracer import current
from xetile.frontend.values import Vector
from xetile.lang.memory import Memory, SharedArray, refuse_type


def line_memory(base: Array, shape: Any, dtype: Any) -> Memory:
    """An array of one dimension as a matrix of one row."""
    if shape is not None:
        raise RankError("XT1114", f"base_shape describes {base.name}, which has one dimension",
                        "bound the tile instead: xt.init_tile(A, (n,), (64,), columns=size)", current().location())
    if dtype is not None:
        refuse_type(base, dtype)
    if isinstance(base, SharedArray):  # whose memref is that matrix
        return Memory(base.ssa, 2, base.dtype, base.metadata)
    size, step = (numbers[0].ssa for numbers in (base.shape, base.strides))
    return Memory(base.ssa, 2, base.dtype, lambda: ([scalar(1), size], [size, step]))


def line_offsets(base: Array, offsets: Any) -> tuple[Any, Any]:
    """Offset in an array of one dimension as row and column.

    Raises:
        RankError: not one offset.
    """
    (offset, *more) = offsets if isinstance(offsets, (tuple, list)) and offsets else (offsets,)
    if more:
        raise RankError("XT1103", f"{base.name} has one dimension, and there are {1 + len(more)} offsets",
                        "give that of the tile's first element, for example (xt.group_id(0) * 64,)",
                        current().location())
    return 0, offset


def as_row(value: Any, tile: Any) -> Any:
    """A vector of one dimension as the row that a tile of one dimension takes; anything else unchanged."""
    if isinstance(value, Vector) and isinstance(tile, LineTile) and len(value.shape) == 1:
        return cast(value, (1, value.shape[0]))
    return value


def like_tile(value: Vector, tile: Any) -> Vector:
    """Vector loaded through a tile, in the tile's dimensions."""
    return cast(value, tile.shape) if isinstance(tile, LineTile) else value
