"""XeTile operations of tiles (XeTile.md): ``init_tile``, loads, stores, prefetches, ``update_tile_offset``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    base,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure

from xegpu.dialect.hints import check_hints
from xegpu.ir.create import initialize
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.matchers import number
from xegpu.ir.memref import ALIGNED, DescribedOp, is_shared, static_form, verify_described
from xegpu.ir.op_definition import operation_definition
from xegpu.ir.record import MOVED, Record
from xegpu.ir.traits import InfersResultType, MovesView, ReadsMemory, WritesMemory
from xegpu.ir.use_def import arrays_of
from xegpu.mlir.vector import VECTOR, shape_of, vector_type
from xegpu.support.errors import ElementTypeError, Invalid, RankError, XeError
from xetile.dialect.types import (
    TileParameters,
    TileType,
    check_locality,
    check_order,
    verify_element,
    verify_lanes,
    verify_memory_space,
    verify_order,
    verify_padding,
    verify_same_map,
)
from xetile.dialect.wg_map import Pair, WgMap
from xetile.dialect.wg_map_inference import map_of

TILE = base(TileType)


OOB = "xetile.oob"
"""An attribute of loads and stores: ``"error"`` where the tile lies inside its array, as the author says."""

IN_BOUNDS = "in_bounds"
"""The attribute of an ``init_tile`` whose tile is promised to stay inside its array: nothing is compared then."""
PROMISES = (IN_BOUNDS, ALIGNED)
"""Promises of a tile, which tiles that it is moved to keep."""


def tile_of(value: SSAValue) -> TileParameters:
    """Tile parameters of the type of ``value``."""
    assert isinstance(value.type, TileType)
    return value.type.data


def loaded_type(tile: SSAValue) -> Attribute:
    """Type of a load through ``tile``: a vector of its elements, in its blocks."""
    parameters = tile_of(tile)
    return vector_type(parameters.blocked_shape(), parameters.element_type)


def flat_shape(shape: Sequence[int]) -> Pair:
    """Rows and columns of a 2D or a blocked vector."""
    rows, columns, *block = shape
    return (rows * block[0], columns * block[1]) if block else (rows, columns)


def text(shape: Sequence[int]) -> str:
    """Shape in MLIR's spelling: 64x32."""
    return "x".join(map(str, shape))


@operation_definition
class InitTileOp(DescribedOp):
    """Tile of the last two dimensions of an array: offsets, sizes and strides for each dimension, in elements.

    A memref of static shape says its sizes and strides itself; an address, an integer, needs them and has two of each.
    """

    name = "xetile.init_tile"
    RECORD: ClassVar[Record] = MOVED
    result = result_def(TILE)

    def verify_(self) -> None:
        tile, source = tile_of(self.result), self.source.type
        verify_described(self, "a tile")
        _check_window(tile, "this init_tile", "init_tile(array, offsets=index_vector)")
        check_covered(source, tile)
        verify_element(tile)
        verify_order(tile, "memref" if isinstance(source, MemRefType) else "matrix", *_static_matrix(self),
                     described=bool(self.shape))
        _verify_encoding(tile)
        verify_memory_space(tile, source)


def check_covered(source: Attribute, tile: TileParameters) -> None:
    """Verify that an array has the elements of a tile on it; an address has no element type."""
    if isinstance(source, MemRefType) and source.element_type != tile.element_type:
        raise Invalid("XT2112", f"a tile of {tile.element_type} cannot cover an array of {source.element_type}\n"
                      f"make the tile of {source.element_type}")


def _static_matrix(operation: InitTileOp) -> tuple[Sequence[int | None], Sequence[int | None]]:
    """Static sizes and strides of a tile's matrix, None for dynamic ones."""
    if operation.shape:
        return [number(size) for size in operation.shape][-2:], [number(stride) for stride in operation.strides][-2:]
    static = static_form(operation.source.type)
    return (static[0][-2:], static[1][-2:]) if static else ((None, None), (None, None))


def not_blocks(shown: str) -> Invalid:
    """Error for ``inner_blocks`` that are not rows and columns."""
    return Invalid("XT1232", f"inner_blocks are two positive compile-time integers, not {shown}\n"
                   "give rows and columns of a block, for example (8, 16)", alone=True)


def _verify_encoding(tile: TileParameters) -> None:
    """Verify map, blocks and flags of a tile."""
    blocks, order = tile.encoding.inner_blocks, tile.encoding.order
    check_order(order)
    subgroup_shape = tile.encoding.wg_map.sg_data if tile.encoding.wg_map else tile.shape
    if blocks and (len(blocks) != 2 or min(blocks) <= 0):
        raise not_blocks(str(list(blocks)))
    if blocks:
        check_blocks(blocks, "the tile", tile.shape, subgroup_shape)
    if tile.encoding.wg_map:
        check_map(tile.encoding.wg_map, tile.shape)
    verify_lanes(tile)


def check_blocks(blocks: Sequence[int], what: str, shape: Sequence[int], subgroup_shape: Sequence[int]) -> None:
    """Verify that blocks divide a tile or a vector (``what``) of ``shape``, and a subgroup's part of it."""
    for name, covered in ((what, shape), (f"what a subgroup has of {what}", subgroup_shape)):
        if any(size % block for size, block in zip(covered, blocks, strict=True)):
            nearest = [_nearest(block, size) for size, block in zip(covered, blocks, strict=True)]
            raise Invalid("XT1233", f"blocks of {text(blocks)} do not divide {name}, {text(covered)}\n"
                          f"use {nearest[0]} x {nearest[1]}, or others that divide {text(covered)}", alone=True)


def _nearest(size: int, extent: int) -> int:
    """Divisor of ``extent`` that is nearest to ``size``."""
    return min((each for each in range(1, extent + 1) if extent % each == 0), key=lambda each: abs(each - size))


def check_stored(value: SSAValue, tile: TileParameters) -> None:
    """Verify that a vector has the shape and the elements that a load of the tile gives."""
    shape, dtype = shape_of(value), of_mlir(value.type.element_type)  # type: ignore[attr-defined]
    message = f"a vector of {text(shape)} {dtype} cannot be stored to a tile of {text(tile.shape)} {tile.dtype}"
    blocks = tile.encoding.inner_blocks
    if blocks is not None:
        message += f" in blocks of {text(blocks)}"
    if shape != tile.blocked_shape():
        if len(shape) not in (2, 4):
            hint = "store a vector of two dimensions, or of four in blocks"
        elif flat_shape(shape) != tile.shape:
            hint = f"make a tile of {text(shape)}: xt.init_tile(array, offsets, {shape})"
        elif blocks is not None:
            hint = f"give it the tile's blocks: xt.tile_pack(v, {tuple(blocks)})"
        else:
            hint = f"make the tile with inner_blocks={shape[2:]}, or use xt.tile_unpack(v)"
        raise Invalid("XT1130", f"{message}\n{hint}")
    if dtype is not tile.dtype:
        raise Invalid("XT1131", f"{message}\nconvert it with .to(xt.{tile.dtype})", kind=ElementTypeError)


def _check_window(tile: TileParameters, operation: str, instead: str) -> None:
    """Verify that a tile is rectangular and not scattered."""
    if tile.encoding.scatter:
        raise Invalid("XT2114", f"{operation} takes a window on an array, and this tile is scattered\nuse {instead}")


def check_map(wg_map: WgMap, shape: tuple[int, ...]) -> None:
    """Verify that ``wg_map`` distributes ``shape`` evenly."""
    try:
        wg_map.check(shape)
    except XeError as error:
        raise Invalid.of(error, alone=True) from None


def check_moved(tile: Attribute, result: Attribute) -> None:
    """Verify that an updated tile keeps its type."""
    if tile != result:
        raise Invalid("XT2111", f"a tile that moves keeps its type, {tile}, and the result is {result}\n"
                      "write the tile's own type behind the arrow")


def check_move(offsets: int) -> None:
    """Verify that a tile moves by rows and columns."""
    if offsets != 2:
        raise Invalid("XT1129", f"a tile moves by two offsets, not {offsets}\n"
                      "give rows and columns: a tile moves within its matrix; make one on another matrix with "
                      "xt.init_tile", alone=True, kind=RankError)


@operation_definition
class LoadTileOp(IRDLOperation):
    """Load of a tile; out-of-bounds elements are ``padding``."""

    name = "xetile.load_tile"
    RECORD: ClassVar[Record] = MOVED
    tile = operand_def(TILE)
    padding = opt_prop_def(Attribute)
    result = result_def(VECTOR)
    traits = traits_def(ReadsMemory((0,)), InfersResultType(lambda op, operands: loaded_type(operands[0])))
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$tile attr-dict `:` type($tile) `->` type($result)"

    def __init__(self, tile: SSAValue, padding: Attribute | None = None) -> None:
        initialize(self, [tile], [loaded_type(tile)], {"padding": padding})

    def verify_(self) -> None:
        check_hints(self, "load")
        tile = tile_of(self.tile)
        _check_window(tile, "load_tile", "load_gather(tile, mask)")
        if shape_of(self.result) != tile.blocked_shape() or self.result.type.element_type != tile.element_type:  # type: ignore
            raise Invalid("XT2117",
                f"loading {self.tile.type} gives a vector<{text(tile.blocked_shape())}x{tile.element_type}>, "
                f"not {self.result.type}\na load gives the elements as they are: convert or reshape what it gives"
            )
        if self.padding is not None:
            verify_padding(self.padding, tile)


@operation_definition
class StoreTileOp(IRDLOperation):
    """Store of a vector to a tile; out-of-bounds elements are dropped."""

    name = "xetile.store_tile"
    RECORD: ClassVar[Record] = MOVED
    value = operand_def(VECTOR)
    tile = operand_def(TILE)
    traits = traits_def(WritesMemory(1))
    assembly_format = "$value `,` $tile attr-dict `:` type($value) `,` type($tile)"

    def __init__(self, value: SSAValue, tile: SSAValue) -> None:
        initialize(self, [value, tile], [], {})

    def verify_(self) -> None:
        check_hints(self, "store")
        tile = tile_of(self.tile)
        _check_window(tile, "store_tile", "store_scatter(value, tile, mask)")
        check_stored(self.value, tile)
        if (known := map_of(self.value)) is not None:
            verify_same_map(known, tile.encoding.wg_map)


@operation_definition
class PrefetchTileOp(IRDLOperation):
    """Prefetch of a tile; ``locality`` from 0 (none) to 3 (keep close)."""

    name = "xetile.prefetch_tile"
    RECORD: ClassVar[Record] = MOVED
    tile = operand_def(TILE)
    locality = prop_def(IntegerAttr)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$tile attr-dict `:` type($tile)"

    def __init__(self, tile: SSAValue, locality: int = 3) -> None:
        super().__init__(operands=[tile], properties={"locality": IntegerAttr(locality, i64)})

    def verify_(self) -> None:
        check_hints(self, "prefetch")
        if any(is_shared(array.type) for array in arrays_of(self.tile)):
            raise Invalid("XT2138", "a tile in shared local memory cannot be prefetched: there is no cache before it\n"
                          "drop the prefetch, or prefetch what is stored there from its own array")
        check_locality(self.locality.value.data)


@operation_definition
class UpdateTileOffsetOp(IRDLOperation):
    """Tile advanced by two offsets, in elements."""

    name = "xetile.update_tile_offset"
    RECORD: ClassVar[Record] = MOVED
    tile = operand_def(TILE)
    offsets = var_operand_def(IndexType)
    result = result_def(TILE)
    traits = traits_def(Pure(), MovesView())
    assembly_format = "$tile `,` `[` $offsets `]` attr-dict `:` type($tile) `->` type($result)"

    def __init__(self, tile: SSAValue, offsets: Sequence[SSAValue]) -> None:
        initialize(self, [tile, *offsets], [tile.type], {})

    def verify_(self) -> None:
        _check_window(tile_of(self.tile), "moving by rows and columns", "update_tile_offset(tile, index_vector)")
        check_move(len(self.offsets))
        check_moved(self.tile.type, self.result.type)
