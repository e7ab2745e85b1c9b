"""The vector of a kernel that takes most registers, as a hint where no smaller tile size helps."""

from __future__ import annotations

from math import prod

from xdsl.dialects import func
from xdsl.dialects.builtin import VectorType
from xdsl.dialects.vector import BroadcastOp

from xegpu.ir.dtypes import of_mlir
from xegpu.support.location import author_location
from xegpu.target.targets import Target


def largest_vector(function: func.FuncOp, target: Target, share: float) -> str:
    """The vector that takes most registers, and what makes it smaller; empty without vectors.

    Args:
        function: a kernel of one subgroup, in tiles.
        target: whose registers they are.
        share: the part of them that vectors may take; addresses and temporary values have the others.
    """
    found = [(_bytes_of(result.type), result.type, operation) for operation in function.walk()
             for result in operation.results if isinstance(result.type, VectorType)
             and not isinstance(operation, BroadcastOp)]
    if not found:
        return ""
    size, largest, operation = max(found, key=lambda each: each[0])
    shape, where = "x".join(map(str, largest.get_shape())), author_location(operation)
    name = f"{shape} {of_mlir(largest.element_type)}" + (f" of line {where.line}" if where else "")
    return f"the largest vector of a subgroup, {name}, " \
           f"takes {-(-size // target.register_bytes)} registers, where about {max(target.registers) * share:.0f} of " \
           f"{max(target.registers)} hold all vectors that are alive at once, those that it is computed from among " \
           "them: distribute it to more subgroups by a wg_map, or go over it in steps of a loop"


def _bytes_of(type_: VectorType) -> int:
    return prod(type_.get_shape()) * of_mlir(type_.element_type).bits // 8
