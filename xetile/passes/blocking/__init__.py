"""Blocking: 2D vectors to 4D vectors of blocks, tiles with ``inner_blocks`` (XeTile.md, "Internal Operations").

    %v = load_tile %t : tile<32x32xbf16> -> vector<32x32xbf16>
    %c = tile_mma %v, %w, %acc : -> vector<32x64xf32>
becomes
    %v = load_tile %t : tile<32x32xbf16, inner_blocks = [32, 16], array_length = 2> -> vector<1x2x32x16xbf16>
    %a = tile_pack (tile_unpack %v) {inner_blocks = [8, 16]} : -> vector<4x2x8x16xbf16>
    %c = tile_mma %a, %b, %acc : -> vector<4x4x8x16xf32>

Operands of products are loaded with the target's largest block messages; vectors of other operations have the blocks
of the accumulator. No inverse pair of unpack and pack is ever emitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Attribute, Operation, SSAValue

from xegpu.dialect.hints import hinted
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.memref import is_shared
from xegpu.ir.traversal import operations
from xegpu.ir.use_def import array_of, root_definitions
from xegpu.mlir.vector import shape_of
from xegpu.rewrite.memref_operands import spelled_out
from xegpu.rewrite.rewriter import ConvertedValues, Rewriter, rewrite
from xegpu.support.errors import TargetError, XeError, located
from xegpu.target.targets import MmaShape, Target
from xetile.dialect import tile_ops
from xetile.dialect.mma import LoadMmaOp, TileMmaOp, TileMmaScaledOp
from xetile.dialect.types import TileType
from xetile.dialect.vector import TilePackOp, TileUnpackOp
from xetile.dialect.wg_map import Pair
from xetile.passes import gather_scatter, mma_scaled
from xetile.passes.blocking import vector
from xetile.passes.blocking.block_sizes import BlockSizes
from xetile.passes.blocking.unpack_blocks import requested_blocks


@dataclass(frozen=True)
class Blocking:
    """Pass ``blocking``.

    Attributes:
        target: whose block messages and products decide the block sizes.
        access: for each argument its access kind.
    """

    target: Target
    access: tuple[str, ...] = ()

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with 4D vectors and blocked tiles; those that are blocked already stay."""
        return rewrite(module, self._rewrite_function)

    def _rewrite_function(self, function: func.FuncOp) -> func.FuncOp:
        _check_vectors(function)
        kinds = dict(zip(function.body.block.args, self.access, strict=False))
        return _BlockingRewriter(self.target, function, kinds).function(function)


_MOST_BYTES = 1 << 18
"""Bytes of the largest vector that is lowered: 16 times the largest register file of a subgroup (512 x 32 bytes)."""


def oversized_vectors(function: func.FuncOp) -> Iterator[tuple[Operation, VectorType, int]]:
    """Vectors so large that a subgroup could never hold them, with the operations that make them and their bytes."""
    for operation in operations(function):
        for result in operation.results:
            if not _is_flat(result.type):
                continue
            assert isinstance(result.type, VectorType)
            if (size := prod(result.type.get_shape()) * of_mlir(result.type.element_type).bits // 8) > _MOST_BYTES:
                yield operation, result.type, size


def _check_vectors(function: func.FuncOp) -> None:
    """Check that no vector is oversized: each block of it is lowered by itself.

    Raises:
        TargetError: at the author's line of the vector.
    """
    for operation, type_, size in oversized_vectors(function):
        raise located(TargetError(
            "XT4113", f"a subgroup would hold {'x'.join(map(str, type_.get_shape()))} elements of "
            f"{of_mlir(type_.element_type)}, {size} bytes, in its registers",
            "use smaller tiles, and more work-groups or a loop; or distribute the tile "
            f"over subgroups by a wg_map, of at most {_MOST_BYTES} bytes each"), operation)


class _BlockingRewriter(Rewriter):
    """Rewriter of one function.

    Attributes:
        target: whose block messages and products there are.
        sizes: the blocks of its tiles and vectors.
    """

    def __init__(self, target: Target, function: func.FuncOp, kinds: Mapping[Any, str]) -> None:
        super().__init__({tile_ops.InitTileOp: _init_tile, tile_ops.LoadTileOp: _load_tile,
                          tile_ops.StoreTileOp: _store_tile,
                          TileMmaOp: _tile_mma,
                          tile_ops.PrefetchTileOp: _prefetch_tile,
                          TileMmaScaledOp: mma_scaled.block_tile_mma_scaled,
                          LoadMmaOp: _load_mma,
                          BroadcastOp: _broadcast, **vector.RULES, **gather_scatter.BLOCKING_RULES})
        self.target, self.sizes = target, BlockSizes(function, target, kinds)

    def copy(self, operation: Operation) -> None:
        """A copy of an operation, its vectors in the blocks of their web."""
        if not any(_is_flat(result.type) for result in operation.results):
            super().copy(operation)
            return
        operands = [self.single(operand) for operand in operation.operands]
        if blocks := self._widened_blocks(operation):
            operands = [self.reblock(operands[0], blocks)]
            rows, columns, *_ = shape_of(operands[0])
            element = operation.results[0].type.element_type  # type: ignore[attr-defined]
            result = self.like(operation, operands, [VectorType(element, (rows, columns, *blocks))])
            self.set(operation.results[0], result.results[0])
            return
        types = [self.blocked(result) for result in operation.results]
        copied = self.like(operation, operands, types)
        for before, after in zip(operation.results, copied.results, strict=True):
            self.set(before, after)

    def _widened_blocks(self, operation: Operation) -> Pair | None:
        """Blocks of a conversion of an operand that is loaded in 8 bits: those of the product; None for all else."""
        source = operation.operands[0].owner if operation.operands else None
        if not isinstance(source, tile_ops.LoadTileOp) or not self.sizes.widened_tile(source.tile):
            return None
        (use, *_), side = operation.results[0].uses, self.sizes.widens(operation)
        form = self.sizes.mma_shape(use.operation) if isinstance(use.operation, TileMmaOp) else \
            self.sizes.published_form(use.operation.operands[1])
        assert form is not None
        depth = form.k
        rows = shape_of(operation.results[0])[0]
        return (self.target.repeat(rows), depth) if side == "a" else (depth, self.target.subgroup_size)

    def blocked(self, value: SSAValue) -> Attribute:
        """The 4D type of a vector in the blocks of the accumulator."""
        type_ = value.type
        assert isinstance(type_, VectorType)
        rows, columns = type_.get_shape()
        height, width = self.sizes.compute_block((rows, columns))
        return VectorType(type_.element_type, (rows // height, columns // width, height, width))

    def reblock(self, value: SSAValue, blocks: Pair) -> SSAValue:
        """A 4D vector in other blocks, by unpack and pack unless its blocks are these."""
        if shape_of(value)[2:] == blocks:
            return value
        flat = self.shared(("unpack", value), lambda: self.emit(TileUnpackOp(value)))
        return self.shared(("pack", flat, blocks), lambda: self.emit(TilePackOp(flat, blocks)))

    def match(self, parts: ConvertedValues, like: ConvertedValues) -> ConvertedValues:
        """A yielded vector in the blocks that the loop carries."""
        (value,), (target,) = parts.values, like.values
        if isinstance(value.type, VectorType) and value.type != target.type:
            return ConvertedValues((self.reblock(value, shape_of(target)[2:]),))  # type: ignore[arg-type]
        return parts


def _is_flat(type_: Attribute) -> bool:
    return type(type_) is VectorType and len(type_.get_shape()) == 2


def _init_tile(rewriter: _BlockingRewriter, operation: tile_ops.InitTileOp) -> None:
    tile = tile_ops.tile_of(operation.result)
    if tile.encoding.inner_blocks is not None:
        rewriter.copy(operation)
        return
    blocks, length = rewriter.sizes.tile_blocks(operation.result)
    requested = requested_blocks(operation)
    if requested is not None and (rewriter.sizes.has_message(operation.result, requested)
                                  or _is_copy(rewriter.sizes, operation, requested)):
        blocks, length = requested, 1
    result = TileType(tile).with_(inner_blocks=blocks, array_length=length)
    if tile.encoding.order == (1, 0) or rewriter.sizes.reads_transposed(operation.result, blocks, length):
        offsets, shape, strides = ([rewriter.single(value) for value in group]
                                   for group in (operation.offsets, operation.shape, operation.strides))
        init_tile = tile_ops.InitTileOp(rewriter.single(operation.source), offsets, shape, strides, result)
        rewriter.set(operation.result, _emit_with_assumptions(rewriter, init_tile, operation))
        return
    # element accesses, with the array's strides
    offsets = [rewriter.single(offset) for offset in operation.offsets]
    source, shape, strides = spelled_out(rewriter, operation)
    init_tile = tile_ops.InitTileOp(source, offsets, shape, strides, result.with_(order=(1, 0)))
    rewriter.set(operation.result, _emit_with_assumptions(rewriter, init_tile, operation))


def _emit_with_assumptions(rewriter: _BlockingRewriter, init_tile: tile_ops.InitTileOp,
                           old: tile_ops.InitTileOp) -> SSAValue:
    """Emit a new tile with the assumptions that the old one carries."""
    init_tile.attributes.update({name: old.attributes[name] for name in tile_ops.PROMISES if name in old.attributes})
    return rewriter.emit(init_tile)


def _load_tile(rewriter: _BlockingRewriter, operation: tile_ops.LoadTileOp) -> None:
    value = rewriter.emit(hinted(tile_ops.LoadTileOp(rewriter.single(operation.tile), operation.padding), operation))
    flat = shape_of(operation.result)
    if len(flat) == 2 and not rewriter.sizes.side(operation.result) and \
            not rewriter.sizes.widened_tile(operation.tile) and rewriter.sizes.words(operation.tile) is None and \
            not _is_copied(operation):
        value = rewriter.reblock(value, rewriter.sizes.compute_block((flat[0], flat[1])))
    rewriter.set(operation.result, value)


def _is_copied(load: tile_ops.LoadTileOp) -> bool:
    """Whether a value is only stored, in the blocks that were asked for where it is loaded."""
    asked = _asked(load.tile)
    return asked is not None and all(isinstance(use.operation, tile_ops.StoreTileOp)
                                     and _asked(use.operation.tile) == asked for use in load.result.uses)


def _is_copy(sizes: BlockSizes, operation: tile_ops.InitTileOp, blocks: Pair) -> bool:
    """Whether a tile is one end of a copy to shared local memory, in ``blocks`` that were asked for, of 8-bit elements
    or without 2D block IO: rows are read as words, and no 2D block message has the form of the blocks.

    Rows of a power of two elements spread over the lanes, and over their words.
    """
    if (tile_ops.tile_of(operation.result).dtype.bits != 8 and sizes.target.block_io) or blocks[1] & (blocks[1] - 1):
        return False
    users = [use.operation for use in sizes.tiles.uses(operation.result)]
    accesses = [user for user in users if not isinstance(user, tile_ops.UpdateTileOffsetOp)]
    loads = [access if isinstance(access, tile_ops.LoadTileOp) else access.value.owner
             if isinstance(access, tile_ops.StoreTileOp) else None for access in accesses]
    return bool(loads) and all(
        isinstance(load, tile_ops.LoadTileOp) and not is_shared(array_of(load.tile).type) and _is_copied(load) and all(
            is_shared(array_of(use.operation.tile).type) for use in load.result.uses) for load in loads)  # type: ignore


def _asked(tile: SSAValue) -> Pair | None:
    """The blocks that are asked for where a tile is initialized; None if nowhere, or differently."""
    found = {requested_blocks(root.owner) if isinstance(root.owner, tile_ops.InitTileOp) else None
             for root in root_definitions(tile)}
    return found.pop() if len(found) == 1 else None


def _store_tile(rewriter: _BlockingRewriter, operation: tile_ops.StoreTileOp) -> None:
    tile = rewriter.single(operation.tile)
    blocks = tile_ops.tile_of(tile).encoding.inner_blocks
    assert blocks is not None
    rewriter.emit(hinted(tile_ops.StoreTileOp(rewriter.reblock(rewriter.single(operation.value), blocks), tile),
                         operation))


def _prefetch_tile(rewriter: _BlockingRewriter, operation: tile_ops.PrefetchTileOp) -> None:
    """A prefetch stays only where a message covers the tile; elsewhere it would have no effect."""
    tile = rewriter.single(operation.tile)
    parameters = tile_ops.tile_of(tile)
    (rows, columns), length = parameters.encoding.inner_blocks or (0, 0), parameters.encoding.array_length
    if parameters.encoding.scatter or rewriter.target.has_block("prefetch", parameters.dtype.bits, rows, columns,
                                                                length):
        rewriter.emit(hinted(tile_ops.PrefetchTileOp(tile, operation.locality.value.data), operation))


def _broadcast(rewriter: _BlockingRewriter, operation: BroadcastOp) -> None:
    blocked = rewriter.blocked(operation.vector) if _is_flat(operation.vector.type) else operation.vector.type
    rewriter.set(operation.vector, rewriter.emit(BroadcastOp(rewriter.single(operation.source), blocked)))  # type: ignore[arg-type]


def _tile_mma(rewriter: _BlockingRewriter, operation: TileMmaOp) -> None:
    if len(shape_of(operation.result)) == 4:
        rewriter.copy(operation)
        return
    form = rewriter.sizes.mma_shape(operation)
    (m, k), n = shape_of(operation.a), shape_of(operation.b)[1]
    _check_depth(rewriter, operation, form, k, n)
    repeat, lanes = rewriter.target.repeat(m), rewriter.target.subgroup_size
    a = rewriter.reblock(rewriter.single(operation.a), (repeat, form.k))
    b = rewriter.reblock(rewriter.single(operation.b), (form.k, lanes))
    acc = None if operation.acc is None else rewriter.reblock(rewriter.single(operation.acc), (repeat, lanes))
    result = VectorType(operation.result.type.element_type, (m // repeat, n // lanes, repeat, lanes))  # type: ignore
    rewriter.set(operation.result, rewriter.emit(TileMmaOp(a, b, acc, result)))


def _load_mma(rewriter: _BlockingRewriter, operation: LoadMmaOp) -> None:
    """The accumulator in its blocks; the operands stay unblocked, since no message moves them."""
    a, b = tile_ops.tile_of(operation.a), tile_ops.tile_of(operation.b)
    accumulator = of_mlir(operation.result.type.element_type)  # type: ignore[attr-defined]
    try:
        form = rewriter.target.mma_shape(a.dtype, b.dtype, accumulator)
    except XeError as error:
        raise located(error, operation) from None
    _check_depth(rewriter, operation, form, a.shape[1], b.shape[1])
    acc = rewriter.reblock(rewriter.single(operation.acc), rewriter.sizes.compute_block((a.shape[0], b.shape[1])))
    rewriter.set(operation.result, rewriter.emit(LoadMmaOp(rewriter.single(operation.a), rewriter.single(operation.b),
                                                           acc)))


def _check_depth(rewriter: _BlockingRewriter, operation: Operation, form: MmaShape, k: int, n: int) -> None:
    engine = "the DPAS depth" if form.engine == "dpas" else "the lanes of a subgroup"
    if k % form.k:
        each = 2 if form.a.kind == "p" else 1  # elements of a pair
        k, deep = k * each, form.k * each
        below = k // deep * deep
        options = " or ".join(str(size) for size in (below, below + deep) if size)
        rewriter.fail("XT2510",
                   f"K = {k} is not a multiple of {deep}, {engine} for {form.a} on "
                   f"{rewriter.target.name}", f"use {options}", A=operation.operands[0], B=operation.operands[1])
    lanes = rewriter.target.subgroup_size
    if n % lanes:
        below = n // lanes * lanes
        options = " or ".join(str(size) for size in (below, below + lanes) if size)
        rewriter.fail("XT2511",
                   f"a subgroup's tile of {n} columns is not a multiple of {lanes}, the lanes of a subgroup on "
                   f"{rewriter.target.name}", f"use {options} columns a subgroup", B=operation.operands[1])
