"""Scattered tiles and atomic updates (XeTile.md, "support for load_gather and store_scatter", ``atomic_rmw_tile``)."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IndexType, IntegerType, MemRefType, UnitAttr, VectorType, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from xegpu.dialect.gather_scatter import WORD_BITS, AtomicKindAttr, check_elements, check_kind
from xegpu.dialect.hints import check_hints
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.memref import verify_address_width
from xegpu.ir.op_definition import operation_definition
from xegpu.ir.record import GATHERED, WORDS, Record
from xegpu.ir.traits import InfersResultType, MovesView, ReadsMemory, WritesMemory
from xegpu.mlir.atomic_kind import UPDATED
from xegpu.mlir.vector import VECTOR, shape_of, vector_type
from xegpu.support.errors import ElementTypeError, Invalid
from xetile.dialect.tile_ops import TILE, check_covered, check_map, check_moved, loaded_type, text, tile_of
from xetile.dialect.types import TileParameters, TileType, verify_padding, verify_same_map
from xetile.dialect.wg_map_inference import map_of

_ELEMENTS = {"index vector": "XT1446", "mask": "XT1449", "value": "XT1131", "result": "XT2040"}
"""Codes of vectors that have other elements than they must have."""


def _check_scattered(tile: TileParameters, operation: str, instead: str) -> None:
    """Verify that a tile is scattered."""
    if not tile.encoding.scatter:
        raise Invalid("XT2115", f"{operation} takes a scattered tile, and this one is a window on an array\n"
                      f"use {instead}, or make a scattered tile with init_tile(array, offsets=index_vector)")


def _check_vector(name: str, value: SSAValue, tile: TileParameters, element: Attribute, hint: str) -> None:
    """Verify that a vector has one element of the given type for each element of a tile."""
    shape = tile.blocked_shape()
    assert isinstance(value.type, VectorType)
    if shape_of(value) != shape:
        raise Invalid("XT2153", f"the {name} of {text(shape_of(value))} does not fit a tile of {text(shape)}\n"
                      f"make the {name} {text(shape)}")
    if value.type.element_type != element:
        raise Invalid(_ELEMENTS[name],
                      f"the {name} has elements of {of_mlir(value.type.element_type)}, not {of_mlir(element)}\n{hint}",
                      kind=ElementTypeError, about=("indices" if name == "index vector" else name,))


@operation_definition
class InitScatteredTileOp(IRDLOperation):
    """``init_tile`` of a scattered tile: each element at its own offset from the base, in elements.

    The base is an array, whose first element counts as 0, or an address.
    """

    name = "xetile.init_scattered_tile"
    RECORD: ClassVar[Record] = GATHERED
    source = operand_def(MemRefType | IntegerType)
    indices = operand_def(VECTOR)
    result = result_def(TILE)
    traits = traits_def(Pure())
    assembly_format = "$source `,` $indices attr-dict `:` type($source) `,` type($indices) `->` type($result)"

    def __init__(self, source: SSAValue, indices: SSAValue, result: TileType) -> None:
        super().__init__(operands=[source, indices], result_types=[result])

    def verify_(self) -> None:
        tile, source = tile_of(self.result), self.source.type
        _check_scattered(tile, "this", "init_tile(array, offsets, shape)")
        if tile.encoding.order != (1, 0):
            raise Invalid("XT1441", "a scattered tile has no order: each element has an offset of its own\ndrop order",
                          alone=True)
        _check_vector("index vector", self.indices, tile, IndexType(), "convert it with .to(xt.index)")
        check_elements(tile.dtype)
        check_covered(source, tile)
        verify_address_width(source, "XT1111")
        if tile.encoding.wg_map is not None:
            check_map(tile.encoding.wg_map, tile.shape)


@operation_definition
class UpdateScatteredTileOp(IRDLOperation):
    """``update_tile_offset`` by an index vector: each element advances by its own offset."""

    name = "xetile.update_scattered_tile"
    RECORD: ClassVar[Record] = GATHERED
    tile = operand_def(TILE)
    indices = operand_def(VECTOR)
    result = result_def(TILE)
    traits = traits_def(Pure(), MovesView())
    assembly_format = "$tile `,` $indices attr-dict `:` type($tile) `,` type($indices) `->` type($result)"

    def __init__(self, tile: SSAValue, indices: SSAValue) -> None:
        super().__init__(operands=[tile, indices], result_types=[tile.type])

    def verify_(self) -> None:
        tile = tile_of(self.tile)
        _check_scattered(tile, "moving by an index vector", "update_tile_offset(tile, rows, columns)")
        _check_vector("index vector", self.indices, tile, IndexType(), "convert it with .to(xt.index)")
        check_moved(self.tile.type, self.result.type)


@operation_definition
class LoadGatherOp(IRDLOperation):
    """Gather: the elements of a scattered tile; masked-off elements are ``padding`` and access no memory."""

    name = "xetile.load_gather"
    RECORD: ClassVar[Record] = GATHERED
    tile = operand_def(TILE)
    mask = operand_def(VECTOR)
    padding = opt_prop_def(Attribute)
    result = result_def(VECTOR)
    traits = traits_def(ReadsMemory((0,)), InfersResultType(lambda op, operands: loaded_type(operands[0])))
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$tile `,` $mask attr-dict `:` type($tile) `,` type($mask) `->` type($result)"

    def __init__(self, tile: SSAValue, mask: SSAValue, padding: Attribute | None = None) -> None:
        super().__init__(operands=[tile, mask], result_types=[loaded_type(tile)], properties={"padding": padding})

    def verify_(self) -> None:
        check_hints(self, "load")
        tile = tile_of(self.tile)
        _check_scattered(tile, "load_gather", "load_tile")
        _check_vector("mask", self.mask, tile, i1, "make it with a comparison, or load it from an array of bool")
        _check_vector("result", self.result, tile, tile.element_type, "a load gives the elements as they are")
        if self.padding is not None:
            verify_padding(self.padding, tile)


@operation_definition
class LoadColumnsOp(IRDLOperation):
    """Gather of columns, each contiguous in memory from its offset on (beyond XeTile.md).

    It is the transpose of a tile of rows that an index vector names, ``64x16`` of 16 rows of 64. Of each column the
    first ``lengths`` elements are loaded, the others are zero; with ``whole`` these are all or none. Each column begins
    at a multiple of 4 bytes, is a multiple of them, and so are the lengths; ``unaligned`` both may be any.
    """

    name = "xetile.load_columns"
    RECORD: ClassVar[Record] = WORDS
    source = operand_def(MemRefType)
    offsets = operand_def(VECTOR)
    lengths = operand_def(VECTOR)
    whole = opt_prop_def(UnitAttr)
    unaligned = opt_prop_def(UnitAttr)
    result = result_def(VECTOR)
    traits = traits_def(ReadsMemory((0,)))
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = ("$source `,` $offsets `,` $lengths attr-dict `:` type($source) `,` type($offsets) `,` "
                       "type($lengths) `->` type($result)")

    def __init__(self, source: SSAValue, offsets: SSAValue, lengths: SSAValue, result: VectorType,  # type: ignore[type-arg]
                 *, whole: bool, unaligned: bool = False) -> None:
        super().__init__(operands=[source, offsets, lengths], result_types=[result],
                         properties={"whole": UnitAttr() if whole else None,
                                     "unaligned": UnitAttr() if unaligned else None})

    def verify_(self) -> None:
        assert isinstance(self.source.type, MemRefType)
        shape, dtype = shape_of(self.result), of_mlir(self.source.type.element_type)
        line = vector_type((1, *shape[1:]) if len(shape) == 2 else (1, shape[1], 1, shape[-1]), IndexType())
        for name, value in (("offsets", self.offsets), ("lengths", self.lengths)):
            if value.type != line:
                raise Invalid("XT2154", f"the {name} of columns of {text(shape)} are {value.type}, not {line}\n"
                              "give one for each column")
        if self.result.type != vector_type(shape, self.source.type.element_type) or dtype.bits > WORD_BITS or \
                shape[-2] * dtype.bits % WORD_BITS:
            raise Invalid("XT2154", f"columns of {self.source.type} are no {self.result.type}\nload its elements, of "
                          "32 bits or fewer, in whole words of 32 bits")


@operation_definition
class StoreScatterOp(IRDLOperation):
    """Scatter: a vector to the elements of a scattered tile; masked-off elements access no memory."""

    name = "xetile.store_scatter"
    RECORD: ClassVar[Record] = GATHERED
    value = operand_def(VECTOR)
    tile = operand_def(TILE)
    mask = operand_def(VECTOR)
    traits = traits_def(WritesMemory(1))
    assembly_format = "$value `,` $tile `,` $mask attr-dict `:` type($value) `,` type($tile) `,` type($mask)"

    def __init__(self, value: SSAValue, tile: SSAValue, mask: SSAValue) -> None:
        super().__init__(operands=[value, tile, mask])

    def verify_(self) -> None:
        check_hints(self, "store")
        tile = tile_of(self.tile)
        _check_scattered(tile, "store_scatter", "store_tile")
        _check_vector("value", self.value, tile, tile.element_type, f"convert it with .to(xt.{tile.dtype})")
        if (known := map_of(self.value)) is not None:
            verify_same_map(known, tile.encoding.wg_map)
        _check_vector("mask", self.mask, tile, i1, "make it with a comparison, or load it from an array of bool")


@operation_definition
class AtomicRMWTileOp(IRDLOperation):
    """Atomic read-modify-write of each element of a tile; the result has the old values.

    Elements outside the array, or masked off, are not touched, and 0 stands for what was found there.
    """

    name = "xetile.atomic_rmw_tile"
    RECORD: ClassVar[Record] = UPDATED
    kind = prop_def(AtomicKindAttr)
    value = operand_def(VECTOR)
    tile = operand_def(TILE)
    mask = opt_operand_def(VECTOR)
    result = result_def(VECTOR)
    traits = traits_def(ReadsMemory((1,)), WritesMemory(1), InfersResultType(lambda op, operands: operands[0].type))
    irdl_options = (ParsePropInAttrDict(), AttrSizedOperandSegments(as_property=True))
    assembly_format = ("$kind $value `,` $tile (`,` $mask^)? attr-dict `:` type($value) `,` type($tile) "
                       "(`,` type($mask)^)? `->` type($result)")

    def __init__(self, kind: str, value: SSAValue, tile: SSAValue, mask: SSAValue | None = None) -> None:
        super().__init__(operands=[value, tile, [] if mask is None else [mask]], result_types=[value.type],
                         properties={"kind": AtomicKindAttr(kind)})

    def verify_(self) -> None:
        tile = tile_of(self.tile)
        check_kind(self.kind.data, tile.dtype)
        if self.mask is not None:
            _check_scattered(tile, "a mask", "the tile's array, whose edges mask by themselves")
            _check_vector("mask", self.mask, tile, i1, "make it with a comparison, or load it from an array of bool")
        for name, value in (("value", self.value), ("result", self.result)):
            _check_vector(name, value, tile, tile.element_type, f"convert it with .to(xt.{tile.dtype})")
        if (known := map_of(self.value)) is not None:
            verify_same_map(known, tile.encoding.wg_map)


OPERATIONS = (InitScatteredTileOp, UpdateScatteredTileOp, LoadGatherOp, LoadColumnsOp, StoreScatterOp, AtomicRMWTileOp)
