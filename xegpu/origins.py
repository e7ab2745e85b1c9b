"""Follows a tile or descriptor back to the operation that made it."""

from __future__ import annotations

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import UnrealizedConversionCastOp
from xdsl.ir import BlockArgument, Operation, SSAValue

_MOVES = ("xetile.update_tile_offset", "xegpu.update_nd_offset", "xetile.update_scattered_tile", "xegpu.update_offset")
_STORES = ("xetile.store_tile", "xegpu.store_nd", "xetile.store_scatter", "xegpu.store_scatter",
           "xetile.atomic_rmw_tile", "xegpu.atomic_rmw")
"""Operations whose second operand is the tile or descriptor that they write."""


def origin(value: SSAValue) -> SSAValue:
    """The value that ``value`` was moved, carried and cast from: the result of its making, or a function argument."""
    while True:
        before = _before(value)
        if before is None:
            return value
        value = before


def _before(value: SSAValue) -> SSAValue | None:
    if isinstance(value, BlockArgument):
        loop = value.block.parent_op()
        return loop.iter_args[value.index - 1] if isinstance(loop, scf.ForOp) and value.index > 0 else None
    owner = value.owner
    assert isinstance(owner, Operation)
    if isinstance(owner, scf.ForOp):
        return owner.iter_args[owner.results.index(value)]  # type: ignore[arg-type]
    if isinstance(owner, UnrealizedConversionCastOp) or owner.name in _MOVES:
        return owner.operands[0]
    return None


def array_of(value: SSAValue) -> SSAValue:
    """The function argument that a tile or descriptor stands on."""
    made = origin(value)
    while isinstance(made.owner, Operation) and made.owner.operands:
        made = origin(made.owner.operands[0])
    return made


def written_arguments(function: func.FuncOp) -> tuple[int, ...]:
    """Positions of the arguments that a kernel writes to."""
    stores = (op for op in function.walk() if op.name in _STORES)
    found = {array_of(operation.operands[1]) for operation in stores}
    return tuple(position for position, argument in enumerate(function.body.block.args) if argument in found)
