"""Conversion of numbers that differ between lanes, and of a lane's accesses to matrices in shared local memory.

    %t = gpu.thread_id x
    %v = xegpu.load_matrix %m[%i, %t] : !xegpu.mem_desc<32x64xf16>, index, index -> vector<4xf16>
becomes
    %t = xetile.iota {axis = 1} : vector<1x16xindex>
    %v = xetile.load_gather (xetile.init_scattered_tile %s, %i * 64 + %t + iota {axis = 0}) : vector<4x16xf16>

A number of each lane is a block of one row with a column for each lane; a lane's vector is a column of a block.
"""

from __future__ import annotations

from math import prod
from typing import Any

from xdsl.dialects import arith, gpu
from xdsl.dialects.builtin import VectorType, i1
from xdsl.ir import Operation, SSAValue

from xegpu.interop.llvm.dialect.matrix import MatrixOp, matrix_of
from xegpu.interop.llvm.import_matrix import starts_of, view_of
from xegpu.interop.llvm.importer import LANES
from xegpu.mlir.gpu import SubgroupReduceOp
from xegpu.mlir.vector import shape_of
from xegpu.rewrite.rewriter import Rule
from xetile.dialect.reduction import TileReduceOp
from xetile.dialect.tile_ops import text
from xetile.text.llvm import elements
from xetile.text.llvm.elements import BLOCK, positions, scattered, spread
from xetile.text.llvm.layout_facts import divides_by_lanes

LANE = "a number of each lane, as a block of one row"
"""Encoding of a scalar that differs between lanes."""
ROW = (1, LANES)


def _thread_id(rewriter: Any, operation: gpu.ThreadIdOp) -> None:
    """Convert a thread's number along x: 16 times that of its subgroup, plus its lane."""
    if all(divides_by_lanes(use.operation) for use in operation.result.uses):
        rewriter.set(operation.result, rewriter.constant(0))  # the division looks for the operation itself
        return
    _check_lanes(rewriter, operation)
    if operation.dimension.data.value != "x":
        rewriter.set(operation.result, rewriter.constant(0))  # work-groups have one dimension here
        return
    lane = positions(rewriter, ROW, 1, None)
    if rewriter.threads not in (None, LANES):
        subgroup = rewriter.shared("subgroup", lambda: rewriter.emit(gpu.SubgroupIdOp()))  # type: ignore
        first = rewriter.index(arith.MuliOp, subgroup, rewriter.constant(LANES))
        lane = rewriter.emit(arith.AddiOp(lane, elements.splat(rewriter, first, ROW, None)))
    rewriter.set(operation.result, lane, LANE)


def _lane_id(rewriter: Any, operation: gpu.LaneIdOp) -> None:
    _check_lanes(rewriter, operation)
    rewriter.set(operation.result, positions(rewriter, ROW, 1, None), LANE)


def _check_lanes(rewriter: Any, operation: Operation) -> None:
    """Refuse numbers of lanes in a kernel whose tiles are distributed to subgroups."""
    if rewriter.facts.is_distributed:
        rewriter.refuse("XT3637", f"{operation.name} counts lanes, and this kernel is a program of the work-group",
                        f"divide it by {LANES}, or ask for gpu.subgroup_id")


def is_fragment(rewriter: Any, operation: MatrixOp) -> bool:
    """Whether each lane accesses elements of its own."""
    return rewriter.facts.of_lanes  # type: ignore[no-any-return]


def fragment(rewriter: Any, operation: MatrixOp, moved: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Scattered tile of the elements of all lanes, and the mask that has them all.

    A lane's elements are neighbours in memory; of a block access they are a column of a contiguous block.
    """
    matrix = matrix_of(operation.desc)
    if len(matrix.shape) != 2:
        rewriter.refuse("XT2413", f"a lane's elements of {operation.desc.type} are not read",
                        "access matrices of two dimensions")
    layout = None if matrix.layout is None else matrix.layout.data
    shape = (prod(moved.type.get_shape()) if isinstance(moved.type, VectorType) else 1, LANES)
    by_columns = layout is not None and layout.stride is not None and layout.stride[0] == 1
    steps = [None, positions(rewriter, shape, 0, None)]
    if operation.subgroup_block_io is not None:
        steps = [positions(rewriter, shape, axis, None) for axis in (0, 1)]
        stored = matrix.shape if layout is None or layout.block is None else layout.block
        if stored[0 if by_columns else 1] != LANES:
            rewriter.refuse("XT2413", f"blocks of {operation.desc.type} are not contiguous in rows of {LANES} elements",
                            f"give it blocks of {LANES}: #xegpu.mem_layout<block = [16, {LANES}]>")
    if by_columns:
        steps.reverse()
    source, _, strides = view_of(rewriter, operation)
    strides = strides or [rewriter.constant(matrix.shape[1]), rewriter.constant(1)]
    offset: SSAValue | None = None
    for start, step, stride in zip(starts_of(rewriter, operation), steps, strides, strict=True):
        at = widened(rewriter, start, shape)
        at = at if step is None else rewriter.emit(arith.AddiOp(at, step))
        at = rewriter.emit(arith.MuliOp(at, elements.splat(rewriter, stride, shape, None)))
        offset = at if offset is None else rewriter.emit(arith.AddiOp(offset, at))
    assert offset is not None
    return scattered(rewriter, source, offset, matrix.element_type, None), \
        elements.number(rewriter, 1, shape, None, i1)


def widened(rewriter: Any, value: SSAValue, shape: tuple[int, int]) -> SSAValue:
    """Block of a shape of a number, or of a block of a row or of one element."""
    if not isinstance(value.type, VectorType):
        return elements.splat(rewriter, value, shape, None)
    return spread(rewriter, value, shape, None)


def _subgroup_reduce(rewriter: Any, operation: SubgroupReduceOp) -> None:
    """Convert a reduction over lanes: along the columns of a block of one column a lane, over which it repeats."""
    if not rewriter.facts.of_lanes:
        rewriter.refuse("XT3639", f"{operation.source.type} is not the part of a lane",
                        "reduce the columns of a block with vector.multi_reduction")
    value = rewriter.as_block(operation.source, ROW)
    shape: Any = shape_of(value)
    if shape[1] == 1:  # a number that all lanes have in common
        value, shape = spread(rewriter, value, ROW, None), ROW
    if shape[1] != LANES:
        rewriter.refuse("XT3639", f"lanes do not have a column each of this block of {text(shape)}",
                        f"reduce blocks of {LANES} columns")
    reduced = rewriter.emit(TileReduceOp(operation.kind.data, value, (1,)))
    encoding = rewriter.encoding_of(operation.source)
    rewriter.set(operation.result, spread(rewriter, reduced, shape, None), LANE if encoding != BLOCK else BLOCK)


RULES: dict[type[Operation], Rule] = {gpu.ThreadIdOp: _thread_id, gpu.LaneIdOp: _lane_id,
                                      SubgroupReduceOp: _subgroup_reduce}
