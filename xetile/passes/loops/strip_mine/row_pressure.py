"""Register pressure of tiles: live bytes of a subgroup's vectors, as the scheduler will order operations."""

from __future__ import annotations

from itertools import accumulate
from math import prod

from xdsl.dialects.builtin import VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Block, Operation, SSAValue

from xegpu.ir.dtypes import of_mlir
from xegpu.ir.traits import written_operand
from xegpu.mlir.elementwise import RECORDS
from xetile.dialect.reduction import TileBroadcastOp, TileReduceOp
from xetile.dialect.tile_ops import LoadTileOp
from xetile.dialect.vector import IotaOp
from xetile.passes.loops.strip_mine.row_dependence import rows_of

_SPLATS = (TileBroadcastOp, BroadcastOp)
"""Operations whose result is made where it is used: registers of the operand, or a number."""
_NARROW = 8
"""Elements of 8 bits are 32 in registers: messages and arithmetic widen them."""


def live_row_bytes(block: Block, part: float, *, sinks: bool) -> float:
    """Peak of the live bytes in a block, of vectors whose rows are a part of what they are.

    Args:
        block: of operations on tiles.
        part: of the rows that are processed at once; values common to all rows count fully.
        sinks: whether loads move down to their first use, as they do where there is no block IO.
    """
    operations = list(block.ops)
    index = {operation: position for position, operation in enumerate(operations)}
    placed = _places(operations, index, sinks=sinks)
    values: dict[SSAValue, int] = dict.fromkeys(block.args, -1)
    for operation in operations:
        if not isinstance(operation, _SPLATS):
            values |= dict.fromkeys(operation.results, placed[operation])
    born, dying, through = ([0.0] * (len(operations) + 1) for _ in range(3))
    for value, start in values.items():
        end, size = _last_use(value, index, placed), _bytes(value, part)
        if start < end and size:
            born[start] += size  # what an argument adds at -1, the last place, is not asked for
            dying[end] += size
            through[start + 1] += size
            through[end] -= size
    at_once = [0.0] * len(operations)
    for operation in operations:
        if isinstance(operation, LoadTileOp):
            start = placed[operation]
            if operation.padding is not None or start == _last_use(operation.result, index, placed):
                at_once[start] += _bytes(operation.result, part)
    peak = 0.0
    for position, (operation, live) in enumerate(zip(operations, accumulate(through), strict=False)):
        within = max((live_row_bytes(inner, part, sinks=sinks) for region in operation.regions
                      for inner in region.blocks), default=0.0)
        if isinstance(operation, TileReduceOp) and _is_computed_for(operation):
            within = _bytes(operation.source, part)
        peak = max(peak, live + at_once[position] + max(dying[position], born[position] + within))
    return peak


def _is_computed_for(reduction: TileReduceOp) -> bool:
    """Whether the operand of a reduction takes several instructions, and has no other use.

    All its blocks are there before they are added up; the device's compiler computes a product right where it is added.
    """
    source = reduction.source
    return isinstance(source.owner, Operation) and source.owner.name.startswith("math.") and source.has_one_use()


def _bytes(value: SSAValue, part: float) -> float:
    """Bytes of a vector; of one of columns alone, which lanes share, none."""
    if not isinstance(value.type, VectorType) or value.type.get_shape()[-1] == 1:
        return 0.0
    rows, bits = rows_of(value), of_mlir(value.type.element_type).bits
    return prod(value.type.get_shape()) * (32 if bits == _NARROW else bits) / 8 * (1.0 if rows == 1 else part)


def _places(operations: list[Operation], index: dict[Operation, int], *, sinks: bool) -> dict[Operation, int]:
    """Position of each operation in program order; that of movable ones is their first use."""
    placed: dict[Operation, int] = {}
    writes = len(operations)
    for operation in reversed(operations):
        position = index[operation]
        if written_operand(type(operation)) is not None:
            writes = position
        moves = type(operation) in RECORDS or isinstance(operation, (*_SPLATS, IotaOp))
        if moves or (sinks and isinstance(operation, LoadTileOp)):
            used = [placed[user] for result in operation.results for use in result.uses
                    if (user := _within(use.operation, index)) is not None]
            last = min(used, default=position)
            placed[operation] = last if moves else min(last, writes)
        else:
            placed[operation] = position
    return placed


def _last_use(value: SSAValue, index: dict[Operation, int], placed: dict[Operation, int]) -> int:
    """Position of the last use of a value, including uses of operations that are sunk to their users."""
    last = -1
    for use in value.uses:
        user = _within(use.operation, index)
        if user is None:
            continue
        last = max(last, placed[user])
        if isinstance(user, _SPLATS):
            last = max(last, _last_use(user.results[0], index, placed))
    return last


def _within(operation: Operation, index: dict[Operation, int]) -> Operation | None:
    """The operation of a block that an operation is, or is in."""
    while operation not in index:
        above = operation.parent_op()
        if above is None:
            return None
        operation = above
    return operation
