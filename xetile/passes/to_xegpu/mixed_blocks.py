"""Messages of several sizes for one tile, where its extents are no powers of two.

    %v = load_tile %t : tile<48x48xbf16, inner_blocks = [16, 16]> -> vector<3x3x16x16xbf16>
becomes loads of 32x16 x 2, 32x16, 16x16 x 2 and 16x16 elements, four messages instead of nine, with the nine blocks
extracted from them.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import SSAValue

from xegpu.dialect.block_io import ARRAYS, CreateNdTdescOp, LoadNdOp, UpdateNdOffsetOp, desc_of
from xegpu.dialect.hints import hints_of, with_hints
from xegpu.dialect.types import BlockTdesc, TensorDesc, TensorDescType
from xegpu.mlir.vector import ExtractOp, ExtractStridedSliceOp, values_of, vector_type
from xegpu.rewrite.rewriter import Rewriter
from xegpu.target.targets import Target
from xetile.dialect import tile_ops
from xetile.dialect.mma import TileMmaOp
from xetile.dialect.vector import TilePackOp, TileUnpackOp

_HEIGHTS = (32, 16, 8)
"""Rows of the messages that load operands."""


def load(rewriter: Rewriter, operation: tile_ops.LoadTileOp, target: Target) -> list[SSAValue] | None:
    """The blocks of an operand of DPAS by fewer messages than blocks of one size take; None where there are none."""
    parameters, desc = tile_ops.tile_of(operation.tile), rewriter.single(operation.tile).owner
    block, length = parameters.encoding.inner_blocks, parameters.encoding.array_length
    sides = set(_sides(operation.result))
    if block is None or operation.padding is not None or parameters.encoding.order != (1, 0) or len(sides) != 1 or \
            not isinstance(desc, CreateNdTdescOp) or desc_of(desc.result).block.memory_scope != "global":
        return None
    bits, shape = parameters.dtype.bits, parameters.shape
    kind = "read_transform" if sides == {1} and bits < 32 else "read"
    largest = target.largest_block(kind, bits, block[1], shape)
    if largest is None or (largest.rows, largest.blocks) != (block[0], length):
        return None  # the author asked for these blocks
    parts = list(_parts(target, kind, bits, shape, block))
    if sum(rows * columns for *_, rows, columns in parts) != shape[0] * shape[1] or \
            len(parts) >= shape[0] // block[0] * (shape[1] // block[1] // length):
        return None
    found: dict[tuple[int, int], SSAValue] = {}
    for row, column, rows, columns in parts:
        for at, value in _load_part(rewriter, operation, desc, (row, column), (rows, columns // block[1])):
            found[at] = value
    return [found[row, column] for row in range(0, shape[0], block[0]) for column in range(0, shape[1], block[1])]


def _sides(value: SSAValue) -> Iterator[int]:
    """Positions at which products take a vector as an operand; -1 for any other use."""
    for use in value.uses:
        if isinstance(use.operation, (TilePackOp, TileUnpackOp)):
            yield from _sides(use.operation.results[0])
        else:
            yield use.index if isinstance(use.operation, TileMmaOp) and use.index < 2 else -1


def _parts(target: Target, kind: str, bits: int, shape: tuple[int, int],
           block: tuple[int, int]) -> Iterator[tuple[int, int, int, int]]:
    """Row, column, rows and columns of messages that cover a tile, each as large as fits; they stop where none does."""
    row = 0
    while row < shape[0]:
        rows = next((size for size in _HEIGHTS if size % block[0] == 0 and row + size <= shape[0]
                     and target.has_block(kind, bits, size, block[1], 1)), 0)
        if not rows:
            return
        column = 0
        while column < shape[1]:
            count = next(count for count in reversed((1, *ARRAYS)) if column + count * block[1] <= shape[1]
                         and target.has_block(kind, bits, rows, block[1], count))
            yield row, column, rows, count * block[1]
            column += count * block[1]
        row += rows


def _load_part(rewriter: Rewriter, operation: tile_ops.LoadTileOp, maker: CreateNdTdescOp, at: tuple[int, int],
               size: tuple[int, int]) -> Iterator[tuple[tuple[int, int], SSAValue]]:
    """The blocks of one message, ``size`` rows and blocks side by side, each with its place in the tile."""
    parameters = tile_ops.tile_of(operation.tile)
    assert parameters.encoding.inner_blocks is not None
    (height, width), (rows, count), element = parameters.encoding.inner_blocks, size, parameters.element_type
    old = desc_of(maker.result).block
    type_ = TensorDescType(TensorDesc((rows, width), element, BlockTdesc("global", count,
                                                                        boundary_check=old.boundary_check)))

    def make() -> SSAValue:
        new = CreateNdTdescOp(maker.source, maker.offsets, maker.shape, maker.strides, type_)
        new.attributes.update(maker.attributes)
        return rewriter.emit(new)

    desc = rewriter.shared(("sized", maker.result, rows, count), make)
    if at != (0, 0):
        offsets = [rewriter.constant(offset) for offset in at]
        desc = rewriter.shared(("at", desc, *at), lambda: rewriter.emit(UpdateNdOffsetOp(desc, offsets)))
    loaded = rewriter.emit(with_hints(LoadNdOp(desc), hints_of(operation)))
    loaded.name_hint = operation.result.name_hint or operation.tile.name_hint
    for column in range(count):
        part = loaded if count == 1 else rewriter.emit(ExtractOp(loaded, [column], vector_type((rows, width), element)))
        for row in range(0, rows, height):
            value = part if rows == height else rewriter.emit(ExtractStridedSliceOp(part, (row, 0), (height, width)))
            yield (at[0] + row, at[1] + column * width), value


def slice_of(rewriter: Rewriter, value: SSAValue, offsets: tuple[int, int], sizes: tuple[int, int]) -> SSAValue:
    """A slice of a vector; of a slice, one of what that is taken from."""
    owner = value.owner
    if isinstance(owner, ExtractStridedSliceOp):
        row, column = values_of(owner.offsets)
        value, offsets = owner.operands[0], (offsets[0] + row, offsets[1] + column)
    return rewriter.emit(ExtractStridedSliceOp(value, offsets, sizes))
