"""Importer of LLVM's XeGPU to XeTile: every descriptor's block becomes a tile, every ``dpas`` a ``tile_mma``.

    %d = xegpu.create_nd_tdesc %A : ... -> !xegpu.tensor_desc<256x32xbf16, #xegpu.layout<sg_layout = ...>>
    %v = xegpu.load_nd %d[%m, %k] : ... -> vector<256x32xbf16>
    %c = xegpu.dpas %v, %w, %acc
becomes
    %t = xetile.init_tile %A, [%m, %k] : ... -> !xetile.tile<256x32xbf16, #xetile.tile_attr<wg_map = ...>>
    %v = xetile.load_tile %t
    %c = xetile.tile_mma %v, %w, %acc

so that work-group, subgroup and lane level take the same passes, on every target. A lane's vector becomes the block
that it is a part of. Our passes choose VNNI form, array_length and layouts within a subgroup.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

from xdsl.dialects import func, memref, scf
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Attribute, Operation, SSAValue

from xegpu.dialect.hints import CacheHintAttr, words
from xegpu.interop.llvm.correspondence import imported_policies
from xegpu.interop.llvm.dialect import ops as upstream
from xegpu.interop.llvm.dialect.gather_scatter import StoreOp
from xegpu.interop.llvm.dialect.matrix import MatrixOp, flat_shape
from xegpu.interop.llvm.dialect.types import Layout, LayoutAttr, SliceAttr, desc_of
from xegpu.interop.llvm.importer import LANES, Described, Import
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.matchers import number
from xegpu.ir.memref import exchanged, static_form
from xegpu.mlir.vector import ExtractOp, TransposeOp, shape_of
from xegpu.rewrite.rewriter import ConvertedValues, Rule
from xegpu.support.errors import Invalid, error_parts
from xetile.dialect import gather_scatter, tile_ops
from xetile.dialect.mma import TileMmaOp
from xetile.dialect.types import CacheHintAttr as OurHint
from xetile.dialect.types import TileEncoding, TileParameters, TileType, WgMapAttr
from xetile.dialect.vector import TileConvLayoutOp, TileTransposeOp
from xetile.dialect.wg_map import Pair, WgMap
from xetile.text.llvm import elements, lanes, reshape
from xetile.text.llvm.lanes import LANE
from xetile.text.llvm.layout_facts import (
    Facts,
    divides_by_lanes,
    flat_layout,
    is_column_numbered,
    map_from,
    moved_value,
    transposed_layout,
)

_BLOCK, _SIDE_BY_SIDE = elements.BLOCK, "blocks side by side"
_OF_NUMBERS = ("arith.", "math.", "vector.", "scf.yield", "xegpu.store_matrix", "xegpu.convert_layout",
               "gpu.subgroup_reduce")
"""Operations that take a number as a block of one element."""
_NUMBERS: dict[Any, Pair] = {reshape.SCALAR: (1, 1), LANE: lanes.ROW}
"""Encodings of scalars as blocks, with the shape of the block."""
_CONVERTED = (LayoutAttr, SliceAttr, CacheHintAttr)


class Tiles(Import):
    """Rewriter of one kernel to XeTile."""

    def __init__(self, rules: Mapping[type[Operation], Rule], function: func.FuncOp, threads: int | None) -> None:
        super().__init__(rules, threads)
        self.facts = Facts(function)

    def copy(self, operation: Operation) -> None:
        """Clone an operation with converted operands, without LLVM's layouts."""
        if self._on_scalar_block(operation.operands):
            self._copy_as_block(operation)
            return
        before = dict(self._align(operation.operands))
        super().copy(operation)
        self.converted_values.update(before)
        for result in operation.results:
            new = self.single(result).owner
            if isinstance(new, Operation):
                self._clean(new)
            if isinstance(result.type, VectorType):
                self.set(result, self.single(result), _BLOCK)

    def visit(self, operation: Operation) -> None:
        """Rewrite one operation; one that needs a number does not take a block of one element."""
        operands = operation.operands[:3] if isinstance(operation, scf.ForOp) else operation.operands
        if any(self.lookup(operand).encoding == LANE for operand in operands) and not isinstance(operation, MatrixOp):
            if operation.name.startswith(("arith.", "math.")) and not divides_by_lanes(operation):
                self._copy_as_block(operation)
                return
            if not operation.name.startswith(("scf.yield", "vector.broadcast", "gpu.subgroup_reduce")):
                self.refuse("XT3637", f"{operation.name} takes a number that differs between lanes, and here it means "
                            "the subgroup", "compute it from numbers that all lanes of a subgroup have in common")
        if isinstance(operation, (StoreOp, memref.StoreOp)):
            operands = [operand for operand in operands if operand is not operation.value]
        if not operation.name.startswith(_OF_NUMBERS) and not isinstance(operation, MatrixOp) and \
                self._on_scalar_block(operands):
            self.refuse("XT2415", f"{operation.name} takes a number that a reduction left, and here it is a vector",
                        "store it as a vector, or compute with vectors")
        super().visit(operation)

    def match(self, parts: ConvertedValues, like: ConvertedValues) -> ConvertedValues:
        """Convert the value of a branch or a loop's body: a row to a column, or a column to a row."""
        parts = super().match(parts, like)
        if parts.encoding != _BLOCK or self.facts.of_lanes:
            return parts
        (value,), (other,) = parts.values, like.values
        return ConvertedValues((self.aligned(value, shape_of(other)),), _BLOCK)

    def aligned(self, value: SSAValue, shape: Sequence[int], map_: WgMap | None = None) -> SSAValue:
        """Block of one row or column, as the one of both that a shape is."""
        if 1 in shape and shape_of(value) == tuple(shape[::-1]):
            return reshape.reshaped(self, value, (shape[0], shape[1]), map_)
        return value

    def _align(self, operands: Sequence[SSAValue]) -> Iterator[tuple[SSAValue, Any]]:
        """Give vectors of one dimension one block for one operation; yields the replacements that they had."""
        lines = [operand for operand in operands if isinstance(operand.type, VectorType)
                 and len(operand.type.get_shape()) == 1 and self.lookup(operand).encoding == _BLOCK]
        for line in () if self.facts.of_lanes else lines[1:]:
            before, shape = self.lookup(line), shape_of(self.single(lines[0]))
            if (new := self.aligned(before.values[0], shape)) is not before.values[0]:
                yield line, before
                self.set(line, new, _BLOCK)

    def _on_scalar_block(self, operands: Sequence[SSAValue]) -> bool:
        """Whether one of the operands is a number that is a block of one element."""
        return any(self.lookup(operand).encoding in _NUMBERS for operand in operands)

    def _copy_as_block(self, operation: Operation) -> None:
        """Clone an operation on numbers as one on blocks of one element, or of one for each lane."""
        encoding = LANE if any(self.lookup(operand).encoding == LANE for operand in operation.operands) else \
            reshape.SCALAR
        shape = _NUMBERS[encoding]
        operands = [self.as_block(operand, shape) for operand in operation.operands]
        type_ = VectorType(operation.results[0].type, shape)
        self.set(operation.results[0], self.like(operation, operands, [type_]).results[0], encoding)

    def as_block(self, value: SSAValue, shape: Pair = (1, 1)) -> SSAValue:
        """Block of a vector, or of a number; one of a number takes a shape."""
        new = self.single(value)
        return new if isinstance(value.type, VectorType) else lanes.widened(self, new, shape)

    def encoding_of(self, value: SSAValue) -> str:
        """Encoding of a block: that of a vector, or of a number."""
        return _BLOCK if isinstance(value.type, VectorType) else reshape.SCALAR

    def block_of(self, value: SSAValue) -> Pair:
        """Rows and columns of the block that a vector is."""
        shape = self.facts.shape(value)
        if shape is None:
            self.refuse("XT2406",
                        f"nothing says which block {value.type} is a part of", "give it the block's two dimensions")
        return shape

    def map_at(self, operation: Operation | None, value: SSAValue) -> WgMap | None:
        """Work-group map of a vector: by the layout of the operation that moves it, or of the vector's web."""
        layout = getattr(operation, "layout", None)
        known = layout.data if isinstance(layout, LayoutAttr) else self.facts.layout(value)
        return self.map_of(known, self.block_of(value))

    @staticmethod
    def hints(operation: Operation) -> dict[str, Attribute]:
        """Cache hints of an access, as tiles have them."""
        return {level: OurHint(policy) for level, policy in imported_policies(operation).items()}

    @staticmethod
    def zero(element: Attribute) -> Attribute:
        """Zero of an element type."""
        return FloatAttr(0.0, element) if of_mlir(element).is_float else IntegerAttr(0, element)  # type: ignore

    @staticmethod
    def _clean(new: Operation) -> None:
        """Remove LLVM's layout attributes of an operation."""
        for name, value in list(new.attributes.items()):
            if isinstance(value, _CONVERTED) or name.startswith("layout_"):
                del new.attributes[name]

    def function(self, old: func.FuncOp, arguments: Sequence[Attribute] | None = None) -> func.FuncOp:
        """Kernel in XeTile."""
        flat = [VectorType(argument.type.element_type, self.block_of(argument))
                if isinstance(argument.type, VectorType) else argument.type for argument in old.body.block.args]
        new = super().function(old, arguments or flat)
        for operation in new.walk():
            self._clean(operation)
        return new

    def fill(self, scalar: SSAValue, old: SSAValue) -> None:
        """Splat a scalar to the block in which the value is used."""
        shape = self.block_of(old)
        new = BroadcastOp(scalar, VectorType(scalar.type, shape))
        map_ = self.map_of(self.facts.layout(old), shape)
        if map_ is not None:
            new.attributes["wg_map"] = WgMapAttr(map_)
        self.set(old, self.emit(new), _BLOCK)

    def map_of(self, layout: Layout | None, shape: Pair) -> WgMap | None:
        """Work-group map of a layout."""
        try:
            found = map_from(layout and flat_layout(layout, shape), shape)
            if found is not None and self.threads not in (None, found.subgroups * LANES):
                raise Invalid("XT2407", f"{found} has {found.subgroups} subgroups of {LANES} lanes, and a work-group "
                              f"has {self.threads} threads\nlaunch {found.subgroups * LANES} threads a work-group")
            return found
        except Invalid as error:
            self.refuse(*error_parts(error))

    def tile(self, operation: upstream.MovementOp, column: int = 0) -> tuple[SSAValue, bool]:
        """Tile that an operation accesses, ``column`` columns further, and whether it is transposed.

        Where subgroups are numbered along columns, the transpose on the transposed array has them along rows.
        """
        form = self.lookup(operation.desc).encoding
        assert isinstance(form, Described)
        shape = flat_shape(form.desc.shape)
        layout_attr = operation.layout or form.desc.layout
        layout = layout_attr.data if isinstance(layout_attr, LayoutAttr) else None
        if layout is None or layout.sg_layout is None:
            moved = moved_value(operation)
            layout = layout if moved is None else self.facts.layout(moved)
        layout = layout and flat_layout(layout, shape)
        *lead, last = self.starts(operation)
        offsets: Sequence[SSAValue] = [*lead, self.add(last, column)]
        source, sizes, strides = form.source, form.sizes, form.strides
        if flipped := is_column_numbered(layout, shape):
            assert layout is not None
            source, sizes, strides = self.spelled_out(form)  # type: ignore[assignment]
            offsets, sizes, strides = exchanged(offsets), exchanged(sizes), exchanged(strides)  # type: ignore
            shape, layout = shape[::-1], transposed_layout(layout)
        encoding = TileEncoding(order=_order(source, strides), wg_map=self.map_of(layout, shape))
        type_ = TileType(TileParameters(shape, form.desc.element_type, encoding))
        return self.emit(tile_ops.InitTileOp(source, offsets, sizes, strides, type_)), flipped

    def is_tile(self, operation: upstream.MovementOp) -> bool:
        """Whether the block that an operation accesses is a tile."""
        form = self.lookup(operation.desc).encoding
        assert isinstance(form, Described)
        return elements.is_tile(form)

    def gathered(self, operation: upstream.MovementOp) -> tuple[SSAValue, SSAValue]:
        """Scattered tile of the block that an operation accesses, and its in-bounds mask."""
        form = self.lookup(operation.desc).encoding
        assert isinstance(form, Described)
        if getattr(operation, "transpose", None) is not None:
            self.refuse("XT3633", f"a block of {operation.desc.type} is not transposed",
                        "describe blocks of two dimensions: !xegpu.tensor_desc<1x32xf32>")
        moved = moved_value(operation)
        assert moved is not None
        map_ = self.map_at(operation, moved)
        if map_ is not None and self.is_reduced_column(operation):
            map_ = map_.transposed()
        return elements.scattered_block(self, form, self.starts(operation), map_)

    def is_reduced_column(self, operation: upstream.MovementOp) -> bool:
        """Whether an operation moves a vector of one dimension that is a column here, as a reduction of rows leaves."""
        moved = moved_value(operation)
        return moved is not None and len(shape_of(moved)) == 1 and self.block_of(moved)[1] == 1

    def transposed(self, value: SSAValue, map_: WgMap | None = None) -> SSAValue:
        """Transpose of a vector; that of a transpose is its operand."""
        owner = value.owner
        return owner.source if isinstance(owner, TileTransposeOp) else \
            self.emit(TileTransposeOp(value, map_))


def _order(source: SSAValue, strides: Sequence[SSAValue]) -> Pair:
    """Memory order: ``[0, 1]`` where the columns of the array are contiguous."""
    if strides:
        down, across = (number(stride) for stride in strides[-2:])
        return (0, 1) if down == 1 and across != 1 else (1, 0)
    static = static_form(source.type)
    return (0, 1) if static and static[1][-2] == 1 and static[1][-1] != 1 and static[0][-1] != 1 else (1, 0)


def _hints(rewriter: Tiles, new: Operation, old: upstream.MovementOp) -> Operation:
    """Copy LLVM's cache hints."""
    new.attributes.update(rewriter.hints(old))
    return new


def load_nd(rewriter: Tiles, operation: upstream.LoadNdOp) -> None:
    """Convert ``load_nd`` to ``load_tile``."""
    if operation.transpose_bit_width is not None:
        rewriter.refuse("XT2408", "a load that transposes words of several elements is not read",
                     "transpose elements: transpose = array<i64: 1, 0>, without transpose_bit_width")
    desc = desc_of(operation.desc)
    is_stacked = desc.block.array_length > 1 and len(operation.result.type.get_shape()) == len(desc.shape)
    if is_stacked or not rewriter.is_tile(operation):
        tile, mask = rewriter.gathered(operation)
        gather = gather_scatter.LoadGatherOp(tile, mask)
        gather.attributes.update(rewriter.hints(operation))
        rewriter.set(operation.result, rewriter.emit(gather), _BLOCK)
        return
    width = desc.shape[-1]
    loads: list[SSAValue] = []
    for column in range(0, width * desc.block.array_length, width):
        tile, flipped = rewriter.tile(operation, column)
        load = rewriter.emit(_hints(rewriter, tile_ops.LoadTileOp(tile), operation))
        loads.append(rewriter.transposed(load) if flipped != (operation.transpose is not None) else load)
    rewriter.set(operation.result, tuple(loads), _SIDE_BY_SIDE if len(loads) > 1 else _BLOCK)


def store_nd(rewriter: Tiles, operation: upstream.StoreNdOp) -> None:
    """Convert ``store_nd`` to ``store_tile``."""
    value = rewriter.single(operation.value)
    if not rewriter.is_tile(operation):
        if rewriter.is_reduced_column(operation):
            map_ = rewriter.map_at(operation, operation.value)
            value = rewriter.transposed(value, map_ and map_.transposed())
        store = gather_scatter.StoreScatterOp(value, *rewriter.gathered(operation))
        store.attributes.update(rewriter.hints(operation))
        rewriter.emit(store)
        return
    tile, flipped = rewriter.tile(operation)
    new = tile_ops.StoreTileOp(rewriter.transposed(value) if flipped else value, tile)
    rewriter.emit(_hints(rewriter, new, operation))


def prefetch_nd(rewriter: Tiles, operation: upstream.PrefetchNdOp) -> None:
    """Convert ``prefetch_nd`` to ``prefetch_tile``."""
    desc = desc_of(operation.desc)
    if not rewriter.is_tile(operation):
        return  # gathers have no prefetch, which changes no result
    skipped = list(words(operation).values()).count("uncached")
    for column in range(0, desc.shape[-1] * desc.block.array_length, desc.shape[-1]):
        new = tile_ops.PrefetchTileOp(rewriter.tile(operation, column)[0], 3 - skipped)
        rewriter.emit(_hints(rewriter, new, operation))


def dpas(rewriter: Tiles, operation: upstream.DpasOp) -> None:
    """Convert ``dpas`` to ``tile_mma``."""
    a, b = rewriter.single(operation.a), rewriter.single(operation.b)
    if prod(operation.result.type.get_shape()[:-2]) > 1 and operation.result.uses:  # type: ignore[attr-defined]
        rewriter.refuse("XT3203", f"a batch of products, {operation.result.type}, is not read",
                        "write a dpas of two dimensions for each")
    shape = shape_of(a)[0], shape_of(b)[1]
    result = VectorType(operation.result.type.element_type, shape)  # type: ignore[attr-defined]
    acc = None if operation.acc is None else rewriter.single(operation.acc)
    map_ = rewriter.map_of(rewriter.facts.layout(operation.result), shape)
    rewriter.set(operation.result, rewriter.emit(TileMmaOp(a, b, acc, result, map_)), _BLOCK)


def broadcast(rewriter: Tiles, operation: BroadcastOp) -> None:
    """Convert ``vector.broadcast`` to ``tile_broadcast`` or a splat."""
    if rewriter.lookup(operation.source).encoding in _NUMBERS:
        shape = rewriter.block_of(operation.vector)
        map_ = rewriter.map_at(None, operation.vector)
        spread = elements.spread(rewriter, rewriter.single(operation.source), shape, map_)
        rewriter.set(operation.vector, spread, _BLOCK)
    elif isinstance(operation.source.type, VectorType):
        reshape.broadcast(rewriter, operation)
    else:
        rewriter.fill(rewriter.single(operation.source), operation.vector)


def transpose(rewriter: Tiles, operation: TransposeOp) -> None:
    """Convert ``vector.transpose`` to ``tile_transpose``."""
    source = rewriter.single(operation.source)
    rows, columns = shape_of(source)
    map_ = rewriter.map_of(rewriter.facts.layout(operation.result), (columns, rows))
    rewriter.set(operation.result, rewriter.transposed(source, map_), _BLOCK)


def extract(rewriter: Tiles, operation: ExtractOp) -> None:
    """Convert ``vector.extract`` of a reduced vector."""
    source, position = rewriter.lookup(operation.vector), list(operation.static_position.get_values())
    if source.encoding != _SIDE_BY_SIDE or len(position) != 1:
        rewriter.refuse("XT2410",
                     "only whole blocks are extracted, from several side by side", "load the block that is needed")
    rewriter.set(operation.result, source.values[position[0]], _BLOCK)


def convert_layout(rewriter: Tiles, operation: upstream.ConvertLayoutOp) -> None:
    """Convert ``convert_layout`` to ``tile_conv_layout``."""
    source, target = rewriter.single(operation.source), operation.target_layout
    if not isinstance(source.type, VectorType):
        rewriter.set(operation.result, source)
        return
    shape = shape_of(source)
    map_ = rewriter.map_of(target.data, (shape[0], shape[1])) if isinstance(target, LayoutAttr) else None
    new = source if map_ is None else rewriter.emit(TileConvLayoutOp(source, map_))
    rewriter.set(operation.result, new, rewriter.encoding_of(operation.result))
