"""Rules of ``tile_mma_scaled``: distribution over subgroups, blocking, and lowering to ``xegpu.dpas_scaled``.

    %d = tile_mma_scaled %a, %b, %c, %sa, %sb : vector<16x64xf8E5M2>, vector<64x32xf8E5M2>, ..., vector<16x2xui8>, ...
becomes 2 x 2 x 2 of
    %d = xegpu.dpas_scaled %a, %b, %c, %sa, %sb : vector<8x32xf8E5M2>, vector<32x16xf8E5M2>, ..., vector<8x1xui8>, ...
"""

from __future__ import annotations

from typing import Any

from xegpu.dialect.dpas import DEPTH, ROWS, DpasScaledOp
from xegpu.mlir.vector import shape_of
from xegpu.support.errors import ShapeError, TargetError, located
from xegpu.target.targets import TARGETS, Target
from xetile.dialect.mma import TileMmaScaledOp
from xetile.passes.wg_offsets import Distributed


def distribute_tile_mma_scaled(rewriter: Any, operation: TileMmaScaledOp) -> None:
    """Distribution: each subgroup multiplies its block of A by its block of B."""
    parts = [rewriter.lookup(operand) for operand in operation.operands]
    if parts[0].encoding is None:
        rewriter.copy(operation)
        return
    if any(len(part.values) != 1 for part in parts):
        raise located(ShapeError("XT1263", "a subgroup has several blocks of an operand of tile_mma_scaled",
                                "choose sg_layout x sg_data equal to the tile for each of the five"), operation)
    product = rewriter.emit(TileMmaScaledOp(*(part.values[0] for part in parts)))
    assert operation.wg_map is not None
    rewriter.set(operation.result, (product,), Distributed(operation.wg_map.data, shape_of(operation.result)))  # type: ignore[arg-type]


def check_target(operation: TileMmaScaledOp, target: Target) -> None:
    """Raise unless a target's engine takes scales.

    Raises:
        TargetError: it does not.
    """
    if not target.block_scales:
        supporting = ", ".join(each.name for each in TARGETS.values() if each.block_scales)
        raise located(TargetError("XT4108", f"the matrix engine of {target.name} takes no scales",
                                 f"widen A and B with .to(xt.f16) and multiply products of {DEPTH} of K by their "
                                 f"scales; {supporting} takes scales"), operation)


def block_tile_mma_scaled(rewriter: Any, operation: TileMmaScaledOp) -> None:
    """Blocking: operands in blocks of DPAS; the scales of A as columns, those of B as rows of blocks."""
    if len(shape_of(operation.result)) == 4:
        rewriter.copy(operation)
        return
    (m, _), n = shape_of(operation.a), shape_of(operation.b)[1]
    lanes = rewriter.target.subgroup_size
    if m % ROWS or n % lanes:
        raise located(ShapeError("XT4109", f"{m}x{n} is not a block-scaled product of a subgroup",
                                f"make its rows a multiple of {ROWS} and its columns one of {lanes}"), operation)
    blocks = (ROWS, DEPTH), (DEPTH, lanes), (ROWS, lanes), (ROWS, 1), (1, lanes)
    operands = [rewriter.single(operand) for operand in operation.operands]
    values = [rewriter.reblock(value, block) for value, block in zip(operands, blocks, strict=True)]
    rewriter.set(operation.result, rewriter.reblock(rewriter.emit(TileMmaScaledOp(*values)),
                                                    rewriter.sizes.compute_block((m, n))))


def lower_tile_mma_scaled(rewriter: Any, operation: TileMmaScaledOp, form: Any) -> None:
    """Lowering: one ``dpas_scaled`` for each block of the result and 32 of K."""
    a, b, acc, scale_a, scale_b = (rewriter.lookup(operand).values for operand in operation.operands)
    rows, columns, *_ = shape_of(operation.result)
    depth, result = shape_of(operation.a)[1], list(acc)
    for k in range(depth):
        for j in range(columns):
            for i in range(rows):
                x, y, z = i * depth + k, k * columns + j, i * columns + j
                result[z] = rewriter.emit(DpasScaledOp(a[x], b[y], result[z], scale_a[x], scale_b[y]))
    rewriter.set(operation.result, tuple(result), form)
