"""Run-time bounds of the array of a tile: ``init_tile(..., rows=, columns=)``."""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from xegpu.ir.matchers import number
from xegpu.ir.memref import row_major
from xegpu.support.errors import ShapeError
from xetile.frontend.constants import scalar
from xetile.frontend.tracer import current
from xetile.frontend.values import Scalar
from xetile.lang.math import maximum, minimum, where
from xetile.lang.memory import Memory, SharedArray, dynamic_base

_BEYOND = 1 << 28
"""Offset that no surface reaches (at most 2**24), and that a tile may leave by far without leaving 32 bits."""
Numbers = tuple[list[SSAValue], list[SSAValue]]
"""Sizes and strides."""


def bounded(base: Any, memory: Memory, offsets: list[SSAValue], bounds: tuple[Any, Any], *,
            aligned: bool) -> tuple[SSAValue, list[SSAValue], Numbers]:
    """Source, offsets, sizes and strides of a tile whose array ends at bounds for rows and columns, None for its own.

    A surface of block messages has one row at least. Where a bound leaves none, the size is one all the same, and the
    tile lies beyond it.

    Raises:
        ShapeError: a bound along the contiguous dimension with ``aligned``, whose length messages must take.
        ElementTypeError: a bound is no index.
    """
    source, (sizes, strides) = memory.source, memory.description()
    along = 0 if aligned and number(strides[-2]) == 1 and number(strides[-1]) != 1 else 1
    if aligned and bounds[along] is not None:
        name = ("rows", "columns")[along]
        raise ShapeError("XT1117", f"{name}= is passed with aligned=True, and messages take lines of 64 bytes "
                         "or more that are a multiple of 4 bytes",
                         f"if {name} is such a number, give it in base_shape; else drop aligned=True",
                         current().location())
    if not sizes and isinstance(base, SharedArray):
        source = dynamic_base(base)
        sizes, strides = ([scalar(each) for each in numbers] for numbers in (base.sizes, row_major(base.sizes)))
    sizes, offsets = [*sizes], [*offsets]
    for axis, bound in zip((-2, -1), bounds, strict=True):
        if bound is not None:
            size = minimum(Scalar(scalar(bound)), Scalar(sizes[axis]))
            offsets[axis] = where(size > 0, Scalar(offsets[axis]), _BEYOND).ssa
            sizes[axis] = maximum(size, 1).ssa
    return source, offsets, (sizes, strides)
