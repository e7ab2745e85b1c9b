"""Rewriting of MLIR's vector dialect to operations on tiles, where a text has more of it than tiles do.

See :mod:`xetile.text.canonicalize.vectors.flattener`.
"""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.dialects.builtin import VectorType
from xdsl.dialects.vector import BitcastOp, BroadcastOp, CreateMaskOp, InsertOp, ReductionOp, ShuffleOp
from xdsl.ir import Operation

from xegpu.interop.llvm.dialect.vector import ConstantMaskOp, DeinterleaveOp, InterleaveOp, MultiReductionOp
from xegpu.mlir.vector import ExtractOp, ExtractStridedSliceOp, InsertStridedSliceOp, TransposeOp, shape_of_type
from xetile.dialect.tile_ops import InitTileOp, tile_of
from xetile.dialect.vector import TilePackOp, TileUnpackOp
from xetile.text.canonicalize.vectors import memory, moves, products
from xetile.text.canonicalize.vectors.flattener import VectorFlattener
from xetile.text.vector.ops import (
    FromElementsOp,
    GatherOp,
    GeneralContractOp,
    OuterProductOp,
    PermuteOp,
    ScatterOp,
    StepOp,
    ToElementsOp,
)

_RULES = {**moves.RULES, **memory.RULES, **products.RULES}
_ALWAYS = (ExtractOp, InsertOp, ReductionOp, ShuffleOp, BitcastOp, CreateMaskOp, ConstantMaskOp, InterleaveOp,
           DeinterleaveOp, FromElementsOp, GatherOp, GeneralContractOp, OuterProductOp, PermuteOp, ScatterOp, StepOp,
           ToElementsOp)
"""Operations that no tile has."""
_BESIDE_TRANSFERS = (MultiReductionOp, TransposeOp, BroadcastOp, ExtractStridedSliceOp, InsertStridedSliceOp)
"""Operations on vectors of other ranks than two that tiles have of two dimensions."""


def needs_flattening(function: func.FuncOp, *, any_rank: bool) -> bool:
    """Whether a function has operations on vectors that tiles lack.

    Args:
        function: as it was read.
        any_rank: whether it has transfers, beside which vectors have any rank.
    """
    operations = list(function.walk())
    return not any(map(_has_blocks, operations)) and any(
        isinstance(operation, _ALWAYS) or (any_rank and _is_of_rank(operation)) for operation in operations)


def _is_of_rank(operation: Operation) -> bool:
    if isinstance(operation, MultiReductionOp):
        return True
    vectors = [value.type for value in (*operation.operands, *operation.results) if isinstance(value.type, VectorType)]
    moves_vectors = isinstance(operation, _BESIDE_TRANSFERS) and isinstance(operation.operands[0].type, VectorType)
    return moves_vectors and any(len(shape_of_type(type_)) != 2 for type_ in vectors)


def _has_blocks(operation: Operation) -> bool:
    return isinstance(operation, (TilePackOp, TileUnpackOp)) or (
        isinstance(operation, InitTileOp) and tile_of(operation.result).encoding.inner_blocks is not None)


def flatten_vectors(function: func.FuncOp) -> None:
    """Rewrite the vectors of a function to tiles of two dimensions, in place.

    Raises:
        ShapeError: a scalar of a vector is used where only a scalar can be.
    """
    new = VectorFlattener(_RULES, function).function(function)
    body, old = new.body, function.detach_region(function.body)
    new.detach_region(body)
    function.add_region(body)
    old.drop_all_references()
