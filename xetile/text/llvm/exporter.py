"""Exporter of a recorded XeTile kernel to LLVM's XeGPU, at work-group level.

    %t = init_tile %A, [%m, %c0], ... : tile<256x32xbf16, wg_map<sg_layout = [8, 4], sg_data = [32, 32]>>
    %v = load_tile %t : -> vector<256x32xbf16>
    %c = tile_mma %v, %w, %acc {wg_map = ...}
becomes
    %d = xegpu.create_nd_tdesc %A, ... -> !xegpu.tensor_desc<256x32xbf16, #xegpu.layout<sg_layout = ..., sg_data = ...>>
    %v = xegpu.load_nd %d[%m, %c0] <{layout = ...}> : ... -> vector<256x32xbf16>
    %c = xegpu.dpas %v, %w, %acc {layout_a = ..., layout_b = ..., layout_cd = ...}

Element-wise operations keep their name and have their layout in ``layout_result_0``. ``inst_data``, the blocks of a
subgroup's part, is LLVM's choice.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from xegpu.analysis.memory_access import access_kind
from xegpu.dialect.hints import with_hints
from xegpu.interop.llvm.correspondence import exported_hints
from xegpu.interop.llvm.dialect import ops as upstream
from xegpu.interop.llvm.dialect.types import Layout, LayoutAttr
from xegpu.interop.llvm.export_vector import RESULT, reduced
from xegpu.interop.llvm.exporter import DescWithOffsets, Export, desc_type
from xegpu.ir.dtypes import of_mlir
from xegpu.mlir.vector import TransposeOp, shape_of
from xegpu.support.errors import Invalid, error_parts
from xetile.dialect import tile_ops
from xetile.dialect.mma import TileMmaOp
from xetile.dialect.reduction import TileBroadcastOp, TileReduceOp, axes_of
from xetile.dialect.vector import TileConvLayoutOp, TileTransposeOp
from xetile.dialect.wg_map import Pair, WgMap
from xetile.dialect.wg_map_inference import map_of


class TileExport(Export):
    """Rewriter of one kernel to LLVM's form."""

    def is_transposed(self, tile: SSAValue) -> bool:
        """Whether a load through a tile's web is transposed."""
        loads = [use.operation for use in self.webs.uses(tile) if isinstance(use.operation, tile_ops.LoadTileOp)]
        return any(isinstance(use.operation, TileTransposeOp) for load in loads for use in load.result.uses)

    def copy(self, operation: Operation) -> None:
        """Clone an operation with converted operands; vectors get their layout attribute."""
        super().copy(operation)
        for result in operation.results:
            new = self.single(result).owner
            if isinstance(result.type, VectorType) and isinstance(new, Operation):
                new.attributes.pop("wg_map", None)
                self.annotate(new, result)

    def layout(self, map_: WgMap | None, shape: Sequence[int], transposed: bool = False) -> LayoutAttr | None:
        """:func:`layout_of`, with errors at the author's line."""
        try:
            return layout_of(map_, (shape[0], shape[1]), transposed)
        except VerifyException as error:
            self.refuse(*error_parts(error))

    def annotate(self, new: Operation, old: SSAValue) -> None:
        """Attach the layout of the old result to a new operation."""
        layout = self.layout(map_of(old), shape_of(old))
        if layout is not None:
            new.attributes[RESULT] = layout


def layout_of(map_: WgMap | None, shape: Pair, transposed: bool = False) -> LayoutAttr | None:
    """LLVM layout of a map: the same subgroups own the same blocks.

    Where there are fewer blocks than subgroups, our distribution wraps around. In LLVM's layouts that has to be
    a dimension of subgroups of its own, along which all hold the same.

    Args:
        map_: the map; None gives None.
        shape: the tile that it distributes.
        transposed: whether the layout is to be that of the transposed tile.

    Raises:
        VerifyException: LLVM's layouts cannot say it.
    """
    if map_ is None:
        return None
    (rows, columns), data, order = map_.sg_layout, map_.sg_data, None
    distinct = min(rows, shape[0] // data[0]), min(columns, shape[1] // data[1])
    if 1 < distinct[0] < rows or 1 < distinct[1] < columns:
        if rows > 1 and columns > 1:
            raise Invalid("XT2401",
                          f"LLVM's layouts cannot say that {map_} distributes the blocks of a {shape[0]}x{shape[1]} "
                          "tile several times\nprint the kernel at subgroup level: .xegpu_upstream")
        order = (0, 1) if columns == 1 else None  # subgroups that follow each other own different blocks
        rows, columns = (distinct[0], rows // distinct[0]) if columns == 1 else (columns // distinct[1], distinct[1])
    if transposed:
        order = None if order else (0, 1)
        return LayoutAttr(Layout(sg_layout=(columns, rows), sg_data=data[::-1], order=order))
    return LayoutAttr(Layout(sg_layout=(rows, columns), sg_data=data, order=order))


def init_tile(rewriter: TileExport, operation: tile_ops.InitTileOp) -> None:
    """Convert ``init_tile`` to ``create_nd_tdesc``."""
    tile = tile_ops.tile_of(operation.result)
    transposed = tile.encoding.order == (0, 1) or access_kind(operation, rewriter.access_kinds) == "block-columns"
    layout = rewriter.layout(tile.encoding.wg_map, tile.shape, transposed)
    shape = tile.shape[::-1] if transposed else tile.shape
    # LLVM's lowering folds the transposition into the load.
    by_address = transposed or rewriter.is_transposed(operation.result)
    rewriter.create_descriptor(operation, desc_type(shape, tile.element_type, layout), by_address, transposed)


def load_tile(rewriter: TileExport, operation: tile_ops.LoadTileOp) -> None:
    """Convert ``load_tile`` to ``load_nd``."""
    if operation.padding is not None:
        rewriter.refuse("XT2402",
                     "LLVM's loads pad with zero only", "load without padding, or print the kernel in our own form")
    tile, form = tile_ops.tile_of(operation.tile), rewriter.lookup(operation.tile).encoding
    assert isinstance(form, DescWithOffsets)
    type_ = VectorType(tile.element_type, tile.shape[::-1] if form.transposed else tile.shape)
    layout = rewriter.layout(tile.encoding.wg_map, tile.shape, form.transposed)
    new = rewriter.load_block(*rewriter.block_at(operation.tile), type_, layout)
    value = rewriter.emit(with_hints(new, exported_hints(operation)))
    rewriter.set(operation.result, _transpose_loaded(rewriter, value, operation.result) if form.transposed else value)


def _transpose_loaded(rewriter: TileExport, value: SSAValue, old: SSAValue) -> SSAValue:
    """Transpose a loaded vector."""
    operation = TransposeOp(value)
    rewriter.annotate(operation, old)
    return rewriter.emit(operation)


def store_tile(rewriter: TileExport, operation: tile_ops.StoreTileOp) -> None:
    """Convert ``store_tile`` to ``store_nd``."""
    rewriter.check_store(operation.tile)
    value = rewriter.single(operation.value)
    tile = tile_ops.tile_of(operation.tile)
    layout = rewriter.layout(tile.encoding.wg_map, tile.shape)
    new = rewriter.store_block(value, *rewriter.block_at(operation.tile), layout)
    rewriter.emit(with_hints(new, exported_hints(operation)))


def prefetch_tile(rewriter: TileExport, operation: tile_ops.PrefetchTileOp) -> None:
    """Convert ``prefetch_tile`` to ``prefetch_nd``."""
    tile = tile_ops.tile_of(operation.tile)
    layout = rewriter.layout(tile.encoding.wg_map, tile.shape, rewriter.lookup(operation.tile).encoding.transposed)
    new = upstream.PrefetchNdOp(*rewriter.block_at(operation.tile), layout=layout)
    rewriter.emit(with_hints(new, exported_hints(operation)))


def tile_mma(rewriter: TileExport, operation: TileMmaOp) -> None:
    """Convert ``tile_mma`` to ``dpas``."""
    types = [of_mlir(value.type.element_type) for value in (operation.a, operation.b, operation.result)]  # type: ignore
    if rewriter.target.mma_shape(*types).engine != "dpas":
        rewriter.refuse("XT2404", f"LLVM's dialect has no product of {types[0]} and {types[1]}",
                     "multiply bf16, f16, tf32 or integers of 8 bits, or print the kernel in our own form")
    values = operation.a, operation.b, operation.result
    layouts = [rewriter.layout(map_of(value), shape_of(value)) for value in values]
    acc = None if operation.acc is None else rewriter.single(operation.acc)
    new = upstream.DpasOp(rewriter.single(operation.a), rewriter.single(operation.b), acc, operation.result.type,
                          [layout for layout in layouts if layout is not None])
    rewriter.set(operation.result, rewriter.emit(new))


def tile_transpose(rewriter: TileExport, operation: TileTransposeOp) -> None:
    """Convert ``tile_transpose`` to ``vector.transpose``."""
    rewriter.set(operation.result, _transpose_loaded(rewriter, rewriter.single(operation.source), operation.result))


def tile_reduce(rewriter: TileExport, operation: TileReduceOp) -> None:
    """Convert ``tile_reduce`` to ``vector.multi_reduction``."""
    result = operation.result.type
    assert isinstance(result, VectorType)
    layout = rewriter.layout(map_of(operation.source), shape_of(operation.source))
    rewriter.set(operation.result, reduced(rewriter, operation.kind.data, [rewriter.single(operation.source)],
                                        axes_of(operation), result, layout))


def tile_broadcast(rewriter: TileExport, operation: TileBroadcastOp) -> None:
    """Convert ``tile_broadcast`` to ``vector.broadcast``."""
    result = operation.result.type
    assert isinstance(result, VectorType)
    new = BroadcastOp(rewriter.single(operation.source), result)
    rewriter.annotate(new, operation.result)
    rewriter.set(operation.result, rewriter.emit(new))


def tile_conv_layout(rewriter: TileExport, operation: TileConvLayoutOp) -> None:
    """Convert ``tile_conv_layout`` to ``convert_layout``."""
    shape = shape_of(operation.source)
    before, after = rewriter.layout(map_of(operation.source), shape), rewriter.layout(operation.wg_map.data, shape)
    assert after is not None
    rewriter.set(operation.result, rewriter.emit(upstream.ConvertLayoutOp(rewriter.single(operation.source), before,
                                                                          after)))
