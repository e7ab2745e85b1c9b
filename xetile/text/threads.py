"""``gpu.thread_id``, which counts subgroups in texts of mlir-extensions, to ``gpu.subgroup_id``.

    %x = gpu.thread_id x ; %y = gpu.thread_id y ; %n = gpu.block_dim x          with 8 x 4 subgroups
becomes
    %s = gpu.subgroup_id ; %x = %s floordiv 4 ; %y = %s - %x * 4 ; %n = 8

x counts rows of subgroups, as the first number of ``sg_layout`` does, and y columns; subgroup ids run row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects import arith, func, gpu
from xdsl.ir import Operation, SSAValue

from xegpu.rewrite.rewriter import Rebuilder
from xegpu.support.errors import ShapeError
from xegpu.support.location import SourceLocation
from xetile.text.host import Counts

THREADS = (gpu.ThreadIdOp, gpu.BlockDimOp, gpu.GlobalIdOp, gpu.NumSubgroupsOp)
"""Operations that ask where a subgroup is, or how many there are."""


def counts_threads(function: func.FuncOp) -> Operation | None:
    """The first operation of a function that asks where its subgroup is, or how many there are."""
    return next((operation for operation in function.walk() if isinstance(operation, THREADS)), None)


def unknown(operation: Operation) -> ShapeError:
    """The error that nothing says how many subgroups a work-group has."""
    place = operation.location
    return ShapeError("XT2025", f"{operation.name} counts subgroups, and nothing says how many a work-group has",
                      "give the gpu.func the attribute known_block_size = array<i32: 8, 4, 1>, or launch it with "
                      ".on(where, subgroups=(8, 4))",
                      place.data if isinstance(place, SourceLocation) else None)  # type: ignore[unreachable]


def resolved(function: func.FuncOp, block: Counts) -> func.FuncOp:
    """A copy of a function for work-groups of ``block`` subgroups along x, y and z."""
    def rule(of: Callable[[Rebuilder, int, Counts], SSAValue]) -> Callable[[Rebuilder, Any], None]:
        def apply(build: Rebuilder, operation: Any) -> None:
            build.set(operation.result, of(build, "xyz".index(operation.dimension.data.value), block))
        return apply

    count = block[0] * block[1] * block[2]
    return Rebuilder({
        gpu.ThreadIdOp: rule(_thread), gpu.GlobalIdOp: rule(_global),
        gpu.BlockDimOp: rule(lambda build, axis, block: build.constant(block[axis])),
        gpu.NumSubgroupsOp: lambda build, operation: build.set(operation.result, build.constant(count)),
    }).function(function)


def _thread(build: Rebuilder, axis: int, block: Counts) -> SSAValue:
    linear = build.shared("subgroup", lambda: build.emit(gpu.SubgroupIdOp()))  # type: ignore[no-untyped-call]
    inner = (block[1] * block[2], block[2], 1)[axis]
    position = build.index(arith.FloorDivSIOp, linear, build.constant(inner))
    if block[axis] == 1:
        return build.constant(0)
    return position if axis == 0 else _modulo(build, position, block[axis])


def _modulo(build: Rebuilder, value: SSAValue, size: int) -> SSAValue:
    multiple = build.index(arith.MuliOp, build.index(arith.FloorDivSIOp, value, build.constant(size)),
                           build.constant(size))
    return build.index(arith.SubiOp, value, multiple)


def _global(build: Rebuilder, axis: int, block: Counts) -> SSAValue:
    dimension = gpu.DimensionAttr(tuple(gpu.DimensionEnum)[axis])
    group = build.shared(("group", axis), lambda: build.emit(gpu.BlockIdOp(dimension)))
    first = build.index(arith.MuliOp, group, build.constant(block[axis]))
    return build.index(arith.AddiOp, first, _thread(build, axis, block))
