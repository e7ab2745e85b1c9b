"""Lowering of blocked XeTile to XeGPU: tiles to descriptors, blocked vectors to one vector a block.

    %v = load_tile %t : tile<32x64xbf16, inner_blocks = [32, 16], array_length = 2> -> vector<1x4x32x16xbf16>
becomes
    %0 = xegpu.load_nd %d : tensor_desc<32x16xbf16, array_length = 2> -> vector<2x32x16xbf16>
    %e = xegpu.update_nd_offset %d, [0, 32]
    %1 = xegpu.load_nd %e
with the four 32x16 blocks extracted from the two loads. A tile carried by a loop is one descriptor, however many blocks
it has: those of the others are at constant offsets from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import gcd

from xdsl.dialects import func, ub
from xdsl.dialects.builtin import ModuleOp, VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation, SSAValue

from xegpu.dialect.block_io import CreateNdTdescOp, LoadNdOp, PrefetchNdOp, StoreNdOp, UpdateNdOffsetOp
from xegpu.dialect.dpas import DpasOp, LoadMadOp, MadOp
from xegpu.dialect.hints import hints_of, of_locality, with_hints
from xegpu.dialect.types import BlockTdesc, TensorDesc, TensorDescType
from xegpu.dialect.vector import BitcastOp, PadOp
from xegpu.dialect.vector import IotaOp as XeGPUIotaOp
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.memref import ALIGNED, exchanged, is_shared
from xegpu.mlir.vector import ExtractOp, InsertStridedSliceOp, shape_of, vector_type
from xegpu.rewrite.memref_operands import spelled_out
from xegpu.rewrite.rewriter import ConvertedValues, Rewriter, Rule, rewrite
from xegpu.target.targets import Target
from xetile.dialect import tile_ops
from xetile.dialect.mma import LoadMmaOp, TileMmaOp, TileMmaScaledOp
from xetile.dialect.reduction import TileBroadcastOp, TileReduceOp
from xetile.dialect.types import TileParameters
from xetile.dialect.vector import IotaOp, TileBitcastOp, TilePackOp, TileTransposeOp, TileUnpackOp
from xetile.dialect.wg_map import Pair
from xetile.passes import gather_scatter, mma_scaled
from xetile.passes.to_xegpu import mixed_blocks, rearrange, vector


@dataclass(frozen=True)
class Blocks:
    """Encoding of a vector as row-major blocks: the vector's shape and the blocks'."""

    shape: Pair
    block: Pair

    def __str__(self) -> str:
        return f"{tile_ops.text(self.shape)} in blocks of {tile_ops.text(self.block)}"

    @property
    def across(self) -> int:
        """Blocks along a row."""
        return self.shape[1] // self.block[1]


@dataclass(frozen=True)
class ToXeGPU:
    """Pass ``to-xegpu``.

    Attributes:
        target: decides which products the matrix engine takes.
    """

    target: Target

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with XeGPU operations instead of XeTile operations."""
        return rewrite(module, self._rewrite_function)

    def _rewrite_function(self, function: func.FuncOp) -> func.FuncOp:
        rules: dict[type[Operation], Rule] = {
            tile_ops.LoadTileOp: partial(_load_operand, target=self.target),
            TileMmaOp: partial(_tile_mma, target=self.target),
            TileMmaScaledOp: lambda rewriter, op: mma_scaled.lower_tile_mma_scaled(rewriter, op, _blocks_of(op.result)),
            TileTransposeOp: partial(_tile_transpose, lanes=self.target.subgroup_size),
            **gather_scatter.xegpu_rules(self.target, _blocks_of)}
        return Rewriter({**RULES, **rules}).function(function)


def _parameters(value: SSAValue) -> tuple[TileParameters, Pair]:
    tile = tile_ops.tile_of(value)
    assert tile.encoding.inner_blocks is not None, "blocking comes before this pass"
    return tile, tile.encoding.inner_blocks


def _init_tile(rewriter: Rewriter, operation: tile_ops.InitTileOp) -> None:
    tile, blocks = _parameters(operation.result)
    scope = "slm" if is_shared(operation.source.type) else "global"
    checked = tile_ops.IN_BOUNDS not in operation.attributes
    block = BlockTdesc(scope, tile.encoding.array_length, boundary_check=checked)
    column_major = tile.encoding.order == (0, 1)
    result = TensorDescType(TensorDesc(blocks[::-1] if column_major else blocks, tile.element_type, block))
    offsets, source = [rewriter.single(offset) for offset in operation.offsets], rewriter.single(operation.source)
    shape, strides = ([rewriter.single(value) for value in group] for group in (operation.shape, operation.strides))
    if column_major:  # a descriptor is row-major: it describes the transpose of the tile's array
        source, shape, strides = spelled_out(rewriter, operation)
        offsets, shape, strides = exchanged(offsets), exchanged(shape), exchanged(strides)
    desc = CreateNdTdescOp(source, offsets, shape, strides, result)
    if ALIGNED in operation.attributes:
        desc.attributes[ALIGNED] = operation.attributes[ALIGNED]
    rewriter.set(operation.result, rewriter.emit(desc))


def _update_tile_offset(rewriter: Rewriter, operation: tile_ops.UpdateTileOffsetOp) -> None:
    offsets = [rewriter.single(offset) for offset in operation.offsets]
    if tile_ops.tile_of(operation.tile).encoding.order == (0, 1):
        offsets = offsets[::-1]
    rewriter.set(operation.result, rewriter.emit(UpdateNdOffsetOp(rewriter.single(operation.tile), offsets)))


def _desc_at(rewriter: Rewriter, desc: SSAValue, row: int, column: int) -> SSAValue:
    if row == column == 0:
        return desc
    key = ("at", desc, row, column)
    offsets = [rewriter.constant(row), rewriter.constant(column)]
    return rewriter.shared(key, lambda: rewriter.emit(UpdateNdOffsetOp(desc, offsets)))


def _messages(rewriter: Rewriter, tile: SSAValue) -> list[SSAValue]:
    """Descriptors of a tile's messages, row-major."""
    parameters, (rows, columns) = _parameters(tile)
    desc, length = rewriter.single(tile), parameters.encoding.array_length
    if parameters.encoding.order == (0, 1):
        return [_desc_at(rewriter, desc, column, row) for row in range(0, parameters.shape[0], rows * length)
                for column in range(0, parameters.shape[1], columns)]
    width = columns * length
    return [_desc_at(rewriter, desc, row, column) for row in range(0, parameters.shape[0], rows)
            for column in range(0, parameters.shape[1], width)]


def _load_operand(rewriter: Rewriter, operation: tile_ops.LoadTileOp, target: Target) -> None:
    """A load by messages of several sizes where they are fewer, else by those of one."""
    if mixed := mixed_blocks.load(rewriter, operation, target):
        tile, blocks = _parameters(operation.tile)
        rewriter.set(operation.result, tuple(mixed), Blocks(tile.shape, blocks))
        return
    _load_tile(rewriter, operation)


def _load_tile(rewriter: Rewriter, operation: tile_ops.LoadTileOp) -> None:
    tile, blocks = _parameters(operation.tile)
    transpose = tile.encoding.order == (0, 1)
    hints = hints_of(operation)
    loads = [rewriter.emit(with_hints(LoadNdOp(desc, transpose=transpose), hints))
             for desc in _messages(rewriter, operation.tile)]
    for load in loads:
        load.name_hint = operation.result.name_hint or operation.tile.name_hint
    if tile.encoding.array_length > 1:
        part = vector_type(blocks, tile.element_type)
        across, length = tile.shape[1] // blocks[1], tile.encoding.array_length
        firsts = [first for _ in range(0, tile.shape[0], blocks[0]) for first in range(0, across, length)]
        loads = [rewriter.emit(ExtractOp(load, [position], part)) for load, first in zip(loads, firsts, strict=True)
                 for position in range(min(length, across - first))]  # of the last message perhaps not all
    if operation.padding is not None:
        desc = rewriter.single(operation.tile)
        offsets = [(row, column) for row in range(0, tile.shape[0], blocks[0])
                  for column in range(0, tile.shape[1], blocks[1])]
        loads = [rewriter.emit(PadOp(load, _desc_at(rewriter, desc, *offset), operation.padding))
                 for load, offset in zip(loads, offsets, strict=True)]
    rewriter.set(operation.result, tuple(loads), Blocks(tile.shape, blocks))


def _store_tile(rewriter: Rewriter, operation: tile_ops.StoreTileOp) -> None:
    for value, desc in zip(rewriter.lookup(operation.value).values, _messages(rewriter, operation.tile), strict=True):
        rewriter.emit(with_hints(StoreNdOp(value, desc), hints_of(operation)))


def _prefetch_tile(rewriter: Rewriter, operation: tile_ops.PrefetchTileOp) -> None:
    hints = hints_of(operation) or of_locality(operation.locality.value.data)
    if tile_ops.tile_of(operation.tile).encoding.scatter:
        gather_scatter.prefetch(rewriter, operation.tile, hints)
        return
    for desc in _messages(rewriter, operation.tile):
        rewriter.emit(PrefetchNdOp(desc, hints))


def _tile_pack(rewriter: Rewriter, operation: TilePackOp) -> None:
    shape = shape_of(operation.result)
    blocks = _reblock(rewriter, rewriter.lookup(operation.source), (shape[2], shape[3]))
    rewriter.set(operation.result, blocks.values, blocks.encoding)


def _reblock(rewriter: Rewriter, source: ConvertedValues, block: Pair) -> ConvertedValues:
    """A blocked vector in blocks of another shape."""
    form = Blocks(source.encoding.shape, block)
    if isinstance(splat := source.values[0].owner, BroadcastOp) and len(set(source.values)) == 1:
        part = vector_type(block, splat.vector.type.element_type)
        value = rewriter.shared(("splat", splat.source, part), lambda: rewriter.emit(BroadcastOp(splat.source,
                                                                                                   part)))
        return ConvertedValues((value,) * (form.shape[0] // block[0] * form.across), form)
    rows, columns = (range(0, size, step) for size, step in zip(form.shape, form.block, strict=True))
    return ConvertedValues(tuple(_block(rewriter, source, form.block, row,
                                        column) for row in rows for column in columns), form)


def _blocks_of(value: SSAValue) -> Blocks:
    shape = shape_of(value)
    return Blocks((shape[0] * shape[2], shape[1] * shape[3]), (shape[2], shape[3]))


def _tile_reduce(rewriter: Rewriter, operation: TileReduceOp) -> None:
    rewriter.set(operation.result, vector.reduce(rewriter, operation), _blocks_of(operation.result))


def _tile_bitcast(rewriter: Rewriter, operation: TileBitcastOp) -> None:
    element = operation.result.type.element_type  # type: ignore[attr-defined]
    values = tuple(rewriter.emit(BitcastOp(value, element)) for value in rewriter.lookup(operation.source).values)
    rewriter.set(operation.result, values, _blocks_of(operation.result))


def _tile_broadcast(rewriter: Rewriter, operation: TileBroadcastOp) -> None:
    rewriter.set(operation.result, vector.broadcast(rewriter, operation), _blocks_of(operation.result))


def _tile_transpose(rewriter: Rewriter, operation: TileTransposeOp, lanes: int) -> None:
    values, block = vector.transpose(rewriter, rewriter.lookup(operation.source), lanes, _reblock)
    rows, columns = shape_of(operation.result)
    rewriter.set(operation.result, values, Blocks((rows, columns), block))


def _block(rewriter: Rewriter, source: ConvertedValues, block: Pair, row: int, column: int) -> SSAValue:
    """The block at (row, column) of a vector in blocks of another shape: a slice of one block, or slices of several."""
    old: Blocks = source.encoding
    height, width = old.block
    inner_row, inner_column = row % height, column % width
    if inner_row + block[0] <= height and inner_column + block[1] <= width:
        enclosing = source.values[row // height * old.across + column // width]
        if old.block == block:
            return enclosing
        return mixed_blocks.slice_of(rewriter, enclosing, (inner_row, inner_column), block)
    type_ = source.values[0].type
    assert isinstance(type_, VectorType)
    result: SSAValue = rewriter.emit(ub.PoisonOp(vector_type(block, type_.element_type)))
    step = gcd(height, block[0]), gcd(width, block[1])
    for r in range(0, block[0], step[0]):
        for c in range(0, block[1], step[1]):
            slice_ = _block(rewriter, source, step, row + r, column + c)
            result = rewriter.emit(InsertStridedSliceOp(slice_, result, (r, c)))
    return result


def _broadcast(rewriter: Rewriter, operation: BroadcastOp) -> None:
    shape = operation.vector.type.get_shape()
    if len(shape) != 4:
        rewriter.copy(operation)
        return
    part = vector_type(shape[2:], operation.vector.type.element_type)
    value = rewriter.emit(BroadcastOp(rewriter.single(operation.source), part))
    form = Blocks((shape[0] * shape[2], shape[1] * shape[3]), (shape[2], shape[3]))
    rewriter.set(operation.vector, (value,) * (shape[0] * shape[1]), form)


def _iota(rewriter: Rewriter, operation: IotaOp) -> None:
    """``iota``: one for each block along its axis, shared by blocks that differ along the other axis only."""
    rows, columns, *block = shape_of(operation.result)
    axis, start = operation.axis.value.data, None if operation.start is None else rewriter.single(operation.start)
    part = vector_type(block, operation.result.type.element_type)  # type: ignore[attr-defined]

    def at(*position: int) -> SSAValue:
        offset = rewriter.constant(position[axis] * block[axis])
        first = offset if start is None else rewriter.add(start, offset)
        return rewriter.shared(("iota", part, axis, first), lambda: rewriter.emit(XeGPUIotaOp(first, axis, part)))

    values = tuple(at(row, column) for row in range(rows) for column in range(columns))
    rewriter.set(operation.result, values, Blocks((rows * block[0], columns * block[1]), (block[0], block[1])))


def _tile_mma(rewriter: Rewriter, operation: TileMmaOp, target: Target) -> None:
    types = [of_mlir(value.type.element_type) for value in (operation.a, operation.b, operation.result)]  # type: ignore
    product = DpasOp if target.mma_shape(*types).engine == "dpas" else MadOp
    a, b = rewriter.lookup(operation.a).values, rewriter.lookup(operation.b).values
    rows, columns, *block = shape_of(operation.result)
    depth = shape_of(operation.a)[1]
    result: list[SSAValue | None] = [None] * (rows * columns)
    if operation.acc is not None:
        result = list(rewriter.lookup(operation.acc).values)
    part = vector_type(block, operation.result.type.element_type)  # type: ignore[attr-defined]
    for k in range(depth):
        for j in range(columns):
            for i in range(rows):
                position = i * columns + j
                factors = a[i * depth + k], b[k * columns + j], result[position]
                value = rewriter.shared(("product", *factors), lambda: rewriter.emit(product(*factors, part)))  # noqa: B023
                value.name_hint = operation.acc.name_hint if operation.acc is not None else operation.result.name_hint
                result[position] = value
    form = Blocks((rows * block[0], columns * block[1]), (block[0], block[1]))
    rewriter.set(operation.result, tuple(value for value in result if value is not None), form)


def _load_mma(rewriter: Rewriter, operation: LoadMmaOp) -> None:
    acc = rewriter.lookup(operation.acc)
    load_mad = LoadMadOp(rewriter.single(operation.a), rewriter.single(operation.b), acc.values)
    rewriter.emit(load_mad)
    for value in load_mad.results:
        value.name_hint = operation.acc.name_hint or operation.result.name_hint
    rewriter.set(operation.result, tuple(load_mad.results), _blocks_of(operation.result))


RULES: dict[type[Operation], Rule] = {
    tile_ops.InitTileOp: _init_tile,
    tile_ops.UpdateTileOffsetOp: _update_tile_offset,
    tile_ops.LoadTileOp: _load_tile,
    tile_ops.StoreTileOp: _store_tile,
    tile_ops.PrefetchTileOp: _prefetch_tile,
    TilePackOp: _tile_pack,
    TileUnpackOp: Rewriter.forward,
    BroadcastOp: _broadcast,
    TileReduceOp: _tile_reduce,
    TileBroadcastOp: _tile_broadcast,
    TileBitcastOp: _tile_bitcast,
    IotaOp: _iota,
    LoadMmaOp: _load_mma,
    **{kind: partial(rearrange.rearrange, numbers=numbers) for kind, numbers in rearrange.KINDS.items()},
}
