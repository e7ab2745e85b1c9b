"""Rules of scattered tiles and atomic updates: distribution over subgroups, blocking, and lowering to XeGPU.

    %t = init_scattered_tile %A, %i : memref<?x?xf32>, vector<1x64xindex> -> tile<1x64xf32, scatter = true>
    %v = load_gather %t, %m : -> vector<1x64xf32>
becomes, after distribution and blocking, for each register
    %d = xegpu.create_tdesc %A, %j : memref<?x?xf32>, vector<16xindex> -> tensor_desc<16xf32, #scatter>
    %w = xegpu.load_gather %d, %n : -> vector<16xf32>

An atomic update of a block tile takes descriptors of single elements from the block descriptor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import gcd
from typing import Any

from xdsl.dialects import arith, ub
from xdsl.dialects.builtin import IndexType, IntegerAttr, VectorType, i1
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Attribute, Operation, SSAValue

from xegpu.dialect import gather_scatter as xegpu
from xegpu.dialect.block_io import UpdateNdOffsetOp
from xegpu.dialect.hints import hinted, hints_of, with_hints
from xegpu.dialect.types import ScatterTdesc, TensorDesc, TensorDescType
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.memref import is_shared
from xegpu.layout import lane_map
from xegpu.mlir.vector import ExtractStridedSliceOp, InsertStridedSliceOp, ShapeCastOp, shape_of, vector_type
from xegpu.rewrite.rewriter import ConvertedValues, Rewriter, Rule
from xegpu.support.errors import XeError
from xegpu.target.targets import Target
from xetile.dialect.gather_scatter import (
    AtomicRMWTileOp,
    InitScatteredTileOp,
    LoadColumnsOp,
    LoadGatherOp,
    StoreScatterOp,
    UpdateScatteredTileOp,
)
from xetile.dialect.tile_ops import text, tile_of
from xetile.dialect.types import TileType
from xetile.dialect.wg_map import Pair


def _distribute_each_part(rewriter: Rewriter, operation: Operation) -> None:
    """An operation for each subgroup's part of its operands, which are all distributed alike."""
    forms = [rewriter.lookup(operand).encoding for operand in operation.operands]
    for other in forms[1:]:
        if other != forms[0]:
            rewriter.fail("XT1401", f"the operands are distributed as {forms[0]} and as {other}",
                          "give both the same wg_map",
                          **{f"operand {i + 1}": value for i, value in enumerate(operation.operands)})
    rewriter.each_part(operation)


def _distribute_init_scattered_tile(rewriter: Rewriter, operation: InitScatteredTileOp) -> None:
    indices = rewriter.lookup(operation.indices)
    result = TileType(tile_of(operation.result))
    if indices.encoding is not None:
        result = result.with_(shape=indices.encoding.wg_map.sg_data, wg_map=None)
    source = rewriter.single(operation.source)
    tiles = tuple(rewriter.emit(InitScatteredTileOp(source, part, result)) for part in indices.values)
    rewriter.set(operation.result, tiles, indices.encoding)


def _distribute_atomic_rmw_tile(rewriter: Rewriter, operation: AtomicRMWTileOp) -> None:
    """``atomic_rmw``: each subgroup updates its parts; a replicated part would be updated by each owner."""
    form = rewriter.lookup(operation.tile).encoding
    if form is not None and form.wg_map.replicates(form.shape):
        rewriter.fail("XT2522",
                   f"{form.wg_map} gives the same elements of a tile of {text(form.shape)} to several subgroups, and "
                   "each would update them", "choose a map whose sg_layout x sg_data is not more than the tile",
                   tile=operation.tile)
    _distribute_each_part(rewriter, operation)


SUBGROUP_RULES: dict[type[Operation], Rule] = {
    InitScatteredTileOp: _distribute_init_scattered_tile,
    UpdateScatteredTileOp: _distribute_each_part,
    LoadGatherOp: _distribute_each_part,
    StoreScatterOp: _distribute_each_part,
    AtomicRMWTileOp: _distribute_atomic_rmw_tile,
}
"""Work-group tiles to subgroup tiles."""


def _blocked(rewriter: Any, value: SSAValue, tile: SSAValue) -> SSAValue:
    """A vector in the ``inner_blocks`` of a tile."""
    blocked: SSAValue = rewriter.reblock(rewriter.single(value), tile_of(tile).encoding.inner_blocks)
    return blocked


def _block_init_scattered_tile(rewriter: Any, operation: InitScatteredTileOp) -> None:
    tile = tile_of(operation.result)
    if tile.encoding.inner_blocks is not None:
        rewriter.copy(operation)
        return
    blocks: Pair = rewriter.sizes.compute_block(tile.shape)
    indices = rewriter.reblock(rewriter.single(operation.indices), blocks)
    result = TileType(tile).with_(inner_blocks=blocks)
    rewriter.set(operation.result, rewriter.emit(InitScatteredTileOp(rewriter.single(operation.source), indices,
                                                                     result)))


def _block_update_scattered_tile(rewriter: Any, operation: UpdateScatteredTileOp) -> None:
    tile = rewriter.single(operation.tile)
    rewriter.set(operation.result, rewriter.emit(UpdateScatteredTileOp(tile, _blocked(rewriter, operation.indices,
                                                                                      tile))))


def _block_load_gather(rewriter: Any, operation: LoadGatherOp) -> None:
    tile = rewriter.single(operation.tile)
    load = LoadGatherOp(tile, _blocked(rewriter, operation.mask, tile), operation.padding)
    rewriter.set(operation.result, rewriter.emit(hinted(load, operation)))


_COLUMN_WORDS = 32
"""Most words of a column that are loaded together: 32 registers."""


def _block_load_columns(rewriter: Any, operation: LoadColumnsOp) -> None:
    """Blocks of as many columns as lanes, and of rows as a descriptor has elements a lane."""
    shape, element = shape_of(operation.result), operation.result.type.element_type  # type: ignore[attr-defined]
    if len(shape) == 4:
        rewriter.copy(operation)
        return
    lanes = rewriter.target.subgroup_size
    if shape[1] % lanes:
        rewriter.fail("XT2511", f"{shape[1]} columns are not a multiple of {lanes}, the lanes of a subgroup on "
                      f"{rewriter.target.name}", f"load a multiple of {lanes} columns", offsets=operation.offsets)
    together = gcd(shape[0], _COLUMN_WORDS * 32 // of_mlir(element).bits, 64)
    offsets, lengths = (rewriter.reblock(rewriter.single(line), (1, lanes))
                        for line in (operation.offsets, operation.lengths))
    blocked = vector_type((shape[0] // together, shape[1] // lanes, together, lanes), element)
    rewriter.set(operation.result, rewriter.emit(LoadColumnsOp(rewriter.single(operation.source), offsets, lengths,
                                                               blocked, whole=operation.whole is not None,
                                                               unaligned=operation.unaligned is not None)))


def _block_store_scatter(rewriter: Any, operation: StoreScatterOp) -> None:
    tile = rewriter.single(operation.tile)
    store = StoreScatterOp(_blocked(rewriter, operation.value, tile), tile, _blocked(rewriter, operation.mask, tile))
    rewriter.emit(hinted(store, operation))


def _block_atomic_rmw_tile(rewriter: Any, operation: AtomicRMWTileOp) -> None:
    tile = rewriter.single(operation.tile)
    mask = None if operation.mask is None else _blocked(rewriter, operation.mask, tile)
    update = rewriter.emit(AtomicRMWTileOp(operation.kind.data, _blocked(rewriter, operation.value, tile), tile, mask))
    flat = shape_of(operation.result)
    rewriter.set(operation.result, update if len(flat) == 4 else rewriter.reblock(update,
                                                                                rewriter.sizes.compute_block(flat)))


BLOCKING_RULES: dict[type[Operation], Rule] = {
    InitScatteredTileOp: _block_init_scattered_tile,
    UpdateScatteredTileOp: _block_update_scattered_tile,
    LoadGatherOp: _block_load_gather,
    LoadColumnsOp: _block_load_columns,
    StoreScatterOp: _block_store_scatter,
    AtomicRMWTileOp: _block_atomic_rmw_tile,
}
"""2D vectors to vectors in the blocks of the accumulator."""


def _register_shape(rewriter: Rewriter, block: Pair, lanes: int) -> Pair:
    """Shape of the part of a block that has one element for each lane of a subgroup.

    A block of fewer elements is replicated over the lanes.
    """
    try:
        unit = lane_map.default(lanes, block[1], block[0]).unit
    except XeError as error:
        raise error.at(rewriter.where()) from None
    return unit


def _offsets(block: Pair, register: Pair) -> Iterable[Pair]:
    return [(row, column) for row in range(0, block[0], register[0]) for column in range(0, block[1], register[1])]


def _registers(rewriter: Rewriter, parts: ConvertedValues, lanes: int) -> list[SSAValue]:
    """The registers of a vector, each a 1D vector of an element a lane: block by block, row-major in each."""
    block: Pair = parts.encoding.block
    register = _register_shape(rewriter, block, lanes)
    registers = []
    for value in parts.values:
        for offset in _offsets(block, register):
            slice_ = value if block == register else rewriter.emit(ExtractStridedSliceOp(value, offset, register))
            registers.append(rewriter.emit(ShapeCastOp(slice_, (register[0] * register[1],))))
    return registers


def _from_registers(rewriter: Rewriter, registers: list[SSAValue], form: Any,
                    element: Attribute) -> tuple[SSAValue, ...]:
    """The blocks of a vector from its registers, the inverse of :func:`_registers`."""
    (lanes,) = shape_of(registers[0])
    register = _register_shape(rewriter, form.block, lanes)
    slices = iter([rewriter.emit(ShapeCastOp(line, register)) for line in registers])
    if form.block == register:
        return tuple(slices)
    blocks = []
    for _ in range(len(registers) * lanes // (form.block[0] * form.block[1])):
        result: SSAValue = rewriter.emit(ub.PoisonOp(VectorType(element, form.block)))
        for offset in _offsets(form.block, register):
            result = rewriter.emit(InsertStridedSliceOp(next(slices), result, offset))
        blocks.append(result)
    return tuple(blocks)


def _lower_init_scattered_tile(rewriter: Rewriter, operation: InitScatteredTileOp, lanes: int) -> None:
    indices, source = rewriter.lookup(operation.indices), rewriter.single(operation.source)
    lines = _registers(rewriter, indices, lanes)
    scope = ScatterTdesc("slm" if is_shared(source.type) else "global")
    desc = TensorDesc(shape_of(lines[0]), tile_of(operation.result).element_type, scatter=scope)
    descs = tuple(rewriter.emit(xegpu.CreateTdescOp(source, line, TensorDescType(desc))) for line in lines)
    rewriter.set(operation.result, descs, indices.encoding)


def _lower_update_scattered_tile(rewriter: Rewriter, operation: UpdateScatteredTileOp, lanes: int) -> None:
    tile = rewriter.lookup(operation.tile)
    lines = _registers(rewriter, rewriter.lookup(operation.indices), lanes)
    moved = tuple(rewriter.emit(xegpu.UpdateOffsetOp(desc, line)) for desc, line in zip(tile.values, lines,
                                                                                        strict=True))
    rewriter.set(operation.result, moved, tile.encoding)


def _lower_load_gather(rewriter: Rewriter, operation: LoadGatherOp, lanes: int) -> None:
    tile, masks = rewriter.lookup(operation.tile), _registers(rewriter, rewriter.lookup(operation.mask), lanes)
    loads = [rewriter.emit(with_hints(xegpu.LoadGatherOp(desc, mask, operation.padding), hints_of(operation)))
             for desc, mask in zip(tile.values, masks, strict=True)]
    for load in loads:
        load.name_hint = operation.result.name_hint
    element = tile_of(operation.tile).element_type
    rewriter.set(operation.result, _from_registers(rewriter, loads, tile.encoding, element), tile.encoding)


def _lower_load_columns(rewriter: Rewriter, operation: LoadColumnsOp, lanes: int,
                        blocks_of: Callable[[SSAValue], Any]) -> None:
    down, _, height, _ = shape_of(operation.result)
    source, values = rewriter.single(operation.source), list[SSAValue]()
    offsets, lengths = (_registers(rewriter, rewriter.lookup(line), lanes) for line in (operation.offsets,
                                                                                        operation.lengths))
    for row in range(0, down * height, height):
        for offset, length in zip(offsets, lengths, strict=True):
            if row:
                moved = rewriter.emit(BroadcastOp(rewriter.constant(row), VectorType(IndexType(), (lanes,))))
                offset, length = (rewriter.emit(kind(line, moved)) for kind, line in (
                    (arith.AddiOp, offset), (arith.SubiOp, length)))
            values.append(rewriter.emit(xegpu.LoadColumnsOp(source, offset, length, height,
                                                            whole=operation.whole is not None,
                                                            unaligned=operation.unaligned is not None)))
            values[-1].name_hint = operation.result.name_hint
    rewriter.set(operation.result, tuple(values), blocks_of(operation.result))


def _lower_store_scatter(rewriter: Rewriter, operation: StoreScatterOp, lanes: int) -> None:
    values, masks = (_registers(rewriter, rewriter.lookup(vector), lanes) for vector in (operation.value,
                                                                                         operation.mask))
    for value, desc, mask in zip(values, rewriter.lookup(operation.tile).values, masks, strict=True):
        rewriter.emit(with_hints(xegpu.StoreScatterOp(value, desc, mask), hints_of(operation)))


def _all_true_mask(rewriter: Rewriter, lanes: int) -> SSAValue:
    """A mask of all lanes."""
    true = arith.ConstantOp(IntegerAttr(1, i1))
    rewriter.emit(true)
    return rewriter.emit(BroadcastOp(true.result, VectorType(i1, (lanes,))))


def prefetch(rewriter: Rewriter, tile: SSAValue, hints: Mapping[str, Attribute]) -> None:
    """Prefetch the elements of a scattered tile."""
    for desc in rewriter.lookup(tile).values:
        rewriter.emit(with_hints(xegpu.PrefetchOp(desc), hints))


def _lower_atomic_rmw_tile(rewriter: Rewriter, operation: AtomicRMWTileOp, lanes: int) -> None:
    value, tile = rewriter.lookup(operation.value), tile_of(operation.tile)
    lines = _registers(rewriter, value, lanes)
    if tile.encoding.scatter:
        descs: list[SSAValue] = list(rewriter.lookup(operation.tile).values)
        masks = [_all_true_mask(rewriter, shape_of(lines[0])[0])] * len(descs) if operation.mask is None else \
            _registers(rewriter, rewriter.lookup(operation.mask), lanes)
    else:
        descs, masks = _block_elements(rewriter, operation, lanes)
    updates = [rewriter.emit(xegpu.AtomicRMWOp(operation.kind.data, line, desc, mask)) for line, desc, mask in
               zip(lines, descs, masks, strict=True)]
    result = _from_registers(rewriter, updates, value.encoding, tile.element_type)
    rewriter.set(operation.result, result, value.encoding)


def _block_elements(rewriter: Rewriter, operation: AtomicRMWTileOp,
                    lanes: int) -> tuple[list[SSAValue], list[SSAValue]]:
    """Scattered descriptors of the elements of a block tile, one a register, with the masks of those in bounds."""
    tile, desc = tile_of(operation.tile), rewriter.single(operation.tile)
    block = tile.encoding.inner_blocks
    assert block is not None, "blocking comes before this pass"
    if tile.encoding.order != (1, 0):
        rewriter.fail("XT2524", f"an atomic update takes row-major blocks, and those of "
                   f"{text(block)} here are column-major", "drop order = [0, 1], or inner_blocks",
                   tile=operation.tile)
    register = _register_shape(rewriter, block, lanes)
    descs: list[SSAValue] = []
    masks: list[SSAValue] = []
    for offset in _offsets(tile.shape, block):
        moved = desc if offset == (0, 0) else rewriter.emit(UpdateNdOffsetOp(desc,
                                                                            [rewriter.constant(n) for n in offset]))
        for inner in _offsets(block, register):
            elements = xegpu.BlockElementsOp(moved, inner, register)
            rewriter.emit(elements)
            descs.append(elements.result)
            masks.append(elements.inside)
    return descs, masks


def xegpu_rules(target: Target, blocks_of: Callable[[SSAValue], Any]) -> dict[type[Operation], Rule]:
    """Blocked XeTile to XeGPU, for the lanes of a target.

    Args:
        target: the device.
        blocks_of: the encoding of a blocked vector.
    """
    rules: dict[type[Operation], Callable[..., None]] = {
        InitScatteredTileOp: _lower_init_scattered_tile, UpdateScatteredTileOp: _lower_update_scattered_tile,
        LoadGatherOp: _lower_load_gather, StoreScatterOp: _lower_store_scatter,
        AtomicRMWTileOp: _lower_atomic_rmw_tile, LoadColumnsOp: partial(_lower_load_columns, blocks_of=blocks_of)}
    return {kind: partial(rule, lanes=target.subgroup_size) for kind, rule in rules.items()}
