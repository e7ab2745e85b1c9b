"""Unpacking of a row of 4-bit integers from the words along it: each lane shifts the word that has its column.

    %f = fields of %w, each in all lanes; %r = xegpu.shuffle %f0, %f1, ... %f7
becomes
    %s = xegpu.shuffle %w, the word of each lane
    %r = arith.andi (arith.shrui %s, the bits of each lane), 15

Put together of fields, a row takes a shuffle and a select for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr, i32
from xdsl.dialects.vector import BroadcastOp as SplatOp
from xdsl.ir import Operation, SSAValue

from xegpu.dialect.convert_layout import MASK
from xegpu.dialect.vector import IotaOp, ShuffleOp
from xegpu.layout.lane_map import LaneMap
from xegpu.mlir.vector import ExtractStridedSliceOp, shape_of, vector_type

PERIOD = 8
"""Lanes after which bits repeat, so that a word has a table of them."""


def unpack_row(words: SSAValue, unit: int, lanes: Sequence[int], bits: Sequence[int],
               add: Callable[[Operation], SSAValue]) -> SSAValue:
    """A row of integers, one a lane.

    Args:
        words: fragment of 32-bit words.
        unit: the unit of it that has them.
        lanes: for each lane the lane that has its word.
        bits: for each lane the lowest bit of its integer, alike after :data:`PERIOD`.
        add: inserts an operation, and gives its result.
    """
    row, line = vector_type((1, 1), i32), LaneMap((1, len(lanes)))
    shape = (1, len(lanes))

    def splat(number: int) -> SSAValue:
        return add(SplatOp(add(arith.ConstantOp(IntegerAttr(number, i32))), row))

    if shape_of(words)[0] > 1:
        words = add(ExtractStridedSliceOp(words, (unit, 0), (1, 1)))
    if words.type != row:
        words = add(arith.BitcastOp(words, row))
    spread = add(ShuffleOp([words], list(lanes), row, [shape, shape], [line, line]))
    table = sum(bit // 4 << 4 * lane for lane, bit in enumerate(bits[:PERIOD]))
    start = add(arith.ConstantOp(IntegerAttr(0, IndexType())))
    lane = add(arith.AndIOp(add(IotaOp(start, 1, row, shape, line)), splat(PERIOD - 1)))
    entry = add(arith.ShRUIOp(splat(table), add(arith.ShLIOp(lane, splat(2)))))
    shifts = add(arith.ShLIOp(add(arith.AndIOp(entry, splat(MASK))), splat(2)))
    return add(arith.AndIOp(add(arith.ShRUIOp(spread, shifts)), splat(MASK)))
