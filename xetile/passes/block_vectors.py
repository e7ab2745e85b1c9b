"""Blocking of operations on vectors: reductions, broadcasts and transpositions (XeTile.md, "Internal Operations").

    %r = tile_reduce <add> %v [1] : vector<32x64xf32> -> vector<32x1xf32>
    %b = tile_broadcast %r [1] : vector<32x1xf32> -> vector<32x64xf32>
    %t = tile_transpose %b : vector<32x64xf32> -> vector<64x32xf32>
becomes
    %r = tile_reduce <add> (pack (unpack %v)) [1, 3] : vector<2x4x16x16xf32> -> vector<2x1x16x1xf32>
    %b = tile_broadcast %r [1, 3] : vector<2x1x16x1xf32> -> vector<2x4x16x16xf32>
    %t = pack (tile_transpose (unpack %b)) : vector<64x32xf32> -> vector<8x2x8x16xf32>

Blocks of the matrix have the rows of the blocks of its column, or the columns of those of its row: then each of these
comes from, or goes to, whole blocks. A column has as many rows as the subgroup has lanes where they divide it, so that
what is computed with it fills a register.
"""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from xegpu.rewrite.rewriter import Rule
from xetile.dialect import ops
from xetile.dialect.vector_ops import TileBitcastOp, TileBroadcastOp, TileReduceOp, axes_of
from xetile.distribution import Pair


def _flat(value: SSAValue) -> Pair:
    rows, columns = ops.shape_of(value)
    return rows, columns


def _lined_up(build: Any, narrow: Pair, wide: Pair) -> tuple[Pair, Pair]:
    """Blocks of a vector of size 1 along some dimensions, and of the vector that it comes from or goes to."""
    small, large = build.sizes.compute_block(narrow), build.sizes.compute_block(wide)
    rows = small[0] if narrow[0] == wide[0] else large[0]
    columns = small[1] if narrow[1] == wide[1] else large[1]
    return small, (rows, columns)


def _paired(axes: tuple[int, ...]) -> list[int]:
    return sorted([*axes, *(axis + 2 for axis in axes)])


def _tile_reduce(build: Any, operation: TileReduceOp) -> None:
    if len(ops.shape_of(operation.source)) == 4:
        build.copy(operation)
        return
    small, large = _lined_up(build, _flat(operation.result), _flat(operation.source))
    source = build.reblock(build.one(operation.source), large)
    made = build.emit(TileReduceOp(operation.kind.data, source, _paired(axes_of(operation))))
    build.set(operation.result, build.reblock(made, small))


def _tile_broadcast(build: Any, operation: TileBroadcastOp) -> None:
    result = ops.shape_of(operation.result)
    if len(result) == 4:
        build.copy(operation)
        return
    small, large = _lined_up(build, _flat(operation.source), _flat(operation.result))
    source = build.reblock(build.one(operation.source), small)
    shape = (result[0] // large[0], result[1] // large[1], *large)
    made = build.emit(TileBroadcastOp(source, shape, _paired(axes_of(operation))))
    build.set(operation.result, build.reblock(made, build.sizes.compute_block(_flat(operation.result))))


def _tile_bitcast(build: Any, operation: TileBitcastOp) -> None:
    if len(ops.shape_of(operation.source)) == 4:
        build.copy(operation)
        return
    source = build.reblock(build.one(operation.source), build.sizes.compute_block(_flat(operation.source)))
    made = build.emit(TileBitcastOp(source, operation.result.type.element_type))  # type: ignore[attr-defined]
    build.set(operation.result, build.reblock(made, build.sizes.compute_block(_flat(operation.result))))


def _tile_transpose(build: Any, operation: ops.TileTransposeOp) -> None:
    flat = build.emit(ops.TileUnpackOp(build.one(operation.source)))
    turned = build.emit(ops.TileTransposeOp(flat))
    build.set(operation.result, build.emit(ops.TilePackOp(turned, build.sizes.compute_block(_flat(operation.result)))))


RULES: dict[type[Any], Rule] = {TileReduceOp: _tile_reduce, TileBroadcastOp: _tile_broadcast,
                                ops.TileTransposeOp: _tile_transpose,
                                TileBitcastOp: _tile_bitcast}
"""Rules of :mod:`xetile.passes.blocking`, whose rebuilder knows the block sizes."""

OPERATIONS = tuple(RULES)

