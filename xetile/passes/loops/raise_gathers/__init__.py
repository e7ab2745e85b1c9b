"""Raising of gathers to block loads: one load of rows at affine positions, one for each row of an index vector.

    %r = floordivsi (addi (iota {axis = 0}), (broadcast %k)), (broadcast %8) : vector<32x1xindex>  // 4 rows 8 times
    %t = init_scattered_tile %W, (muli %r, %stride) + %columns : tile<32x64xi32> ; %w = load_gather %t, %m
becomes
    %t = init_tile %W, [%k >> 3, %n] : tile<4x64xi32> ; %v = load_tile %t
    %w = insert_strided_slice (tile_broadcast (extract_strided_slice %v [0, 0] 1x64) [0] : 8x64), ... [0, 0]  // 4 times

A gather asks for each row by itself, and computes addresses and masks of each; a message loads a block of rows, and
knows what is in bounds. Rows that are repeated, left out or in another order are taken from the block in registers.
Rows and columns out of bounds are padding in both.

Without 2D block IO, rows that an index vector names are loaded by a tile each, which is what a block is read by there:
    %t = init_scattered_tile %A, (tile_broadcast (muli %rows, %stride0) [1]) + %columns : tile<16x32xbf16>
becomes
    %r3 = extract_scalar (extract_strided_slice %rows [3, 0])
    %v3 = load_tile (init_tile %A, [%r3, %k] : tile<1x32xbf16>) ; %w = insert_strided_slice %v3, ... [3, 0]  // each
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import scf
from xdsl.dialects.builtin import IndexType, ModuleOp
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import Pure

from xegpu.analysis.block_position import is_inside
from xegpu.analysis.dataflow.divisibility import multiple_of
from xegpu.analysis.dataflow.integer_range import Ranges
from xegpu.dialect.hints import hinted
from xegpu.dialect.vector import ExtractScalarOp
from xegpu.ir.dtypes import i32
from xegpu.ir.kernel_attributes import block_arguments, function_of
from xegpu.ir.matchers import number
from xegpu.mlir.arith import IndexCastOp
from xegpu.mlir.vector import ExtractStridedSliceOp, InsertStridedSliceOp, shape_of, vector_type
from xegpu.passes.licm import MAY_FAIL, put_before
from xegpu.rewrite.dce import erase
from xegpu.rewrite.inserter import Inserter, rewrite_in_place
from xegpu.target.block2d import COLUMN_ALIGNMENT
from xegpu.target.targets import Target
from xetile.dialect import tile_ops
from xetile.dialect.gather_scatter import InitScatteredTileOp, LoadGatherOp
from xetile.dialect.reduction import TileBroadcastOp
from xetile.dialect.types import TileType
from xetile.dialect.vector import element_of
from xetile.passes.loops.raise_gathers.affine_numbers import AffineNumbers, Numbers, total
from xetile.passes.loops.raise_gathers.positions import PositionAnalysis, Positions
from xetile.passes.loops.transpose_gathers.transposer import is_transposed

_MOST = 2
"""A block may have so many times the rows of the tile; the others stay in registers until some are taken."""


@dataclass(frozen=True)
class RaiseGathers:
    """Pass ``raise-gathers``.

    Attributes:
        target: its messages load blocks, or rows.
        access: for each argument its access kind.
    """

    target: Target
    access: tuple[str, ...]

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with such gathers raised; the module itself if there are none."""
        return rewrite_in_place(module, _gathers, self._plan, _raise, erases=True)

    def _plan(self, load: LoadGatherOp) -> Positions | None:
        function, has_blocks = function_of(load), self.target.block_io
        tile, columns = tile_ops.tile_of(load.tile), shape_of(load.result)[-1]
        init, arrays = load.tile.owner, block_arguments(function, self.access, "block" if has_blocks else "rows")
        if not isinstance(init, InitScatteredTileOp) or init.source not in arrays or \
                tile.dtype.bits not in (8, 16, 32) or columns % self.target.subgroup_size:
            return None
        found = PositionAnalysis(AffineNumbers(Ranges.of_function(function))).of(load)
        if found is None:
            return None
        if found.rows.named:
            return None if has_blocks or is_transposed(load) else found
        if has_blocks and (any(times * multiple_of(term) * tile.dtype.bytes % COLUMN_ALIGNMENT for term, times in
                               found.columns.terms.items()) or found.first[1] * tile.dtype.bytes % COLUMN_ALIGNMENT):
            return None
        rows = found.row_numbers
        return found if _height(rows) <= _MOST * len(rows) else None


def _gathers(around: Operation) -> Iterator[LoadGatherOp]:
    return (operation for operation in around.walk() if isinstance(operation, LoadGatherOp))


def _height(rows: Numbers) -> int:
    """Rows of the block that has some: a power of two, or a multiple of 8, which messages load at once."""
    count = int(rows.max() - rows.min()) + 1
    return 1 << (count - 1).bit_length() if count <= 8 else -(-count // 8) * 8


def _raise(inserter: Inserter, load: LoadGatherOp, found: Positions) -> None:
    """Load a block, and take the rows of the tile from it; or a row after the other, where they are named."""
    if found.rows.named:
        _load_rows(inserter, load, found)
        return
    rows, metadata = found.row_numbers, found.metadata
    height, columns = _height(rows), shape_of(load.result)[1]
    at = [total(inserter, load, each.terms, first) for each, first in
          zip((found.rows, found.columns), found.first, strict=True)]
    type_ = TileType(tile_ops.tile_of(load.tile)).with_(shape=(height, columns), scatter=False)
    tile = inserter.before(load, tile_ops.InitTileOp(metadata.source, at, metadata.sizes, metadata.strides, type_))
    block = inserter.before(load, hinted(tile_ops.LoadTileOp(tile, load.padding), load), load.result.name_hint)
    load.result.replace_all_uses_with(_rows_of(inserter, load, block, rows - rows.min()))
    erase(load)


def _load_rows(inserter: Inserter, load: LoadGatherOp, found: Positions) -> None:
    """Load a tile for each row."""
    metadata, (height, columns) = found.metadata, shape_of(load.result)
    type_ = TileType(tile_ops.tile_of(load.tile)).with_(shape=(1, columns), scatter=False)

    def insert(operation: Operation) -> SSAValue:
        return inserter.before(load, operation)

    named = [_elements(inserter, vector) for vector in found.rows.named]
    common, column = (total(inserter, load, each.terms, first) for each, first in
                      ((found.rows, 0), (found.columns, found.first[1])))
    result: SSAValue | None = None
    for row, known in enumerate(found.row_numbers.tolist()):
        at = inserter.add(load, common, known)
        for elements in named:
            at = inserter.add(load, at, elements[row % len(elements)])
        tile = insert(tile_ops.InitTileOp(metadata.source, [at, column], metadata.sizes, metadata.strides, type_))
        part = insert(hinted(tile_ops.LoadTileOp(tile, load.padding), load))
        result = result or insert(TileBroadcastOp(part, (height, columns), (0,)))
        result = insert(InsertStridedSliceOp(part, result, (row, 0)))
    assert result is not None
    load.result.replace_all_uses_with(result)
    erase(load)


def _elements(inserter: Inserter, column: SSAValue) -> list[SSAValue]:
    """Elements of a column as indices, extracted at its definition: in front of loops in which it is invariant."""
    while isinstance(loop := _block_of(column).parent_op(), scf.ForOp) and \
            (fixed := _invariants(column, loop)) is not None and fixed:
        for operation in fixed:
            put_before(loop, operation)
    owner = column.owner
    anchor = owner.first_op if isinstance(owner, Block) else owner.next_op
    assert anchor is not None

    def insert(operation: Operation) -> SSAValue:
        return inserter.before(anchor, operation)

    if element_of(column) != i32.mlir:
        column = insert(IndexCastOp(column, vector_type(shape_of(column), i32.mlir)))
    count = shape_of(column)[0]
    parts = [insert(ExtractStridedSliceOp(column, (row, 0), (1, 1))) for row in range(count)] if count > 1 else [column]
    return [insert(IndexCastOp(insert(ExtractScalarOp(part)), IndexType())) for part in parts]


def _block_of(value: SSAValue) -> Block:
    """The block that a value is made in."""
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.parent
    assert block is not None
    return block


def _invariants(value: SSAValue, loop: scf.ForOp) -> dict[Operation, None] | None:
    """Operations of a loop that compute a loop-invariant value, in order; None if it is not invariant, or may fail."""
    if not is_inside(value, loop):
        return {}
    owner, found = value.owner, dict[Operation, None]()
    if isinstance(owner, Block) or owner.parent is not loop.body.block or owner.regions or \
            not owner.has_trait(Pure) or (isinstance(owner, MAY_FAIL) and not _is_divisor(owner.operands[1])):
        return None
    for operand in owner.operands:
        if (before := _invariants(operand, loop)) is None:
            return None
        found |= before
    return {**found, owner: None}


def _is_divisor(value: SSAValue) -> bool:
    """Whether all elements of a divisor are one number that is known, and not 0."""
    owner = value.owner
    return isinstance(owner, BroadcastOp) and number(owner.source) not in (None, 0)


def _rows_of(inserter: Inserter, load: LoadGatherOp, block: SSAValue, rows: Numbers) -> SSAValue:
    """Rows of a block, assembled from runs of consecutive rows, and of repeated ones."""
    height, columns = shape_of(block)
    if len(rows) == height and (rows == np.arange(height)).all():
        return block

    def insert(operation: Operation) -> SSAValue:
        return inserter.before(load, operation)

    def taken(row: int, count: int) -> SSAValue:
        return insert(ExtractStridedSliceOp(block, (row, 0), (count, columns)))

    def repeated(row: int, times: int) -> SSAValue:
        return insert(TileBroadcastOp(taken(row, 1), (times, columns), (0,)))

    result, first = repeated(int(rows[0]), len(rows)), 0
    if (same := _run(rows, 0)) > 1:
        first = same
    while first < len(rows):
        row, same, next_ = int(rows[first]), _run(rows[first:], 0), _run(rows[first:], 1)
        part = repeated(row, same) if same > 1 else taken(row, next_)
        result = insert(InsertStridedSliceOp(part, result, (first, 0)))
        first += max(same, next_)
    return result


def _run(rows: Numbers, step: int) -> int:
    """Number of the first rows with this distance."""
    others = np.flatnonzero(np.diff(rows) != step)
    return int(others[0]) + 1 if len(others) else len(rows)
