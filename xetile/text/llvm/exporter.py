"""A recorded XeTile kernel to LLVM's present form of XeGPU, at work-group level.

    %t = init_tile %A, [%m, %c0], ... : tile<256x32xbf16, wg_map<sg_layout = [8, 4], sg_data = [32, 32]>>
    %v = load_tile %t : -> vector<256x32xbf16>
    %c = tile_mma %v, %w, %acc {wg_map = ...}
becomes
    %d = xegpu.create_nd_tdesc %A, ... -> !xegpu.tensor_desc<256x32xbf16, #xegpu.layout<sg_layout = ..., sg_data = ...>>
    %v = xegpu.load_nd %d[%m, %c0] <{layout = ...}> : ... -> vector<256x32xbf16>
    %c = xegpu.dpas %v, %w, %acc {layout_a = ..., layout_b = ..., layout_cd = ...}

What computes element by element keeps its name and says its layout in ``layout_result_0``. How subgroups cut their
parts up (``inst_data``) is left to LLVM.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from xegpu.analysis.memory_access import way_of
from xegpu.analysis.webs import view_webs
from xegpu.dialect.hints import hints_of, with_hints
from xegpu.dialect.sync import NAMED, FenceOp
from xegpu.interop.llvm import ops as upstream
from xegpu.interop.llvm.export_blocks import RULES as SUBGROUP_RULES
from xegpu.interop.llvm.export_vector import RESULT, reduced
from xegpu.interop.llvm.exporter import Export, Moved, as_gpu_module, check_chip, desc_type
from xegpu.interop.llvm.types import Layout, LayoutAttr
from xegpu.ir.dtypes import of_mlir
from xegpu.mlir.vector import TransposeOp
from xegpu.rewrite.rewriter import Rule
from xegpu.support.errors import Invalid, TargetError, said
from xegpu.target.targets import Target
from xetile.dialect import tile_ops, vector_ops
from xetile.dialect.wg_map import Pair, WgMap
from xetile.dialect.wg_map_inference import map_of


def export(function: func.FuncOp, target: Target, access: Sequence[str]) -> ModuleOp:
    """A recorded kernel in LLVM's form, at work-group level.

    Args:
        function: the kernel as recorded.
        target: the device, one that LLVM knows.
        access: for each argument, how it may be reached.

    Raises:
        TargetError: the kernel has no ``wg_map``, or LLVM's dialect lacks something that it needs.
    """
    check_chip(target)
    maps = [map_of(result) for operation in function.walk() for result in operation.results]
    found = next((map_ for map_ in maps if map_ is not None), None)
    if found is None:
        raise TargetError("XT2400", f"{function.sym_name.data} has no wg_map: each line of it stands for one subgroup",
                          "print it at subgroup level: .xegpu_upstream")
    build = _Export(function, target, access)
    return as_gpu_module(build.function(function), found.subgroups, target.subgroup_size)


class _Export(Export):
    """The rewrite of one kernel."""

    def __init__(self, function: func.FuncOp, target: Target, access: Sequence[str]) -> None:
        super().__init__(RULES, target, dict(zip(function.body.block.args, access, strict=True)))
        self._webs = view_webs(function)

    def is_turned(self, tile: SSAValue) -> bool:
        """Whether something that is loaded through a tile's web is transposed."""
        loads = [use.operation for use in self._webs.uses(tile) if isinstance(use.operation, tile_ops.LoadTileOp)]
        return any(isinstance(use.operation, tile_ops.TileTransposeOp) for load in loads for use in load.result.uses)

    def copy(self, operation: Operation) -> None:
        """The operation on what its operands became; vectors say how they are dealt out."""
        super().copy(operation)
        for result in operation.results:
            made = self.one(result).owner
            if isinstance(result.type, VectorType) and isinstance(made, Operation):
                made.attributes.pop("wg_map", None)
                self.annotate(made, result)


    def layout(self, map_: WgMap | None, shape: Sequence[int], turned: bool = False) -> LayoutAttr | None:
        """:func:`layout_of`, with errors at the author's line."""
        try:
            return layout_of(map_, (shape[0], shape[1]), turned)
        except VerifyException as error:
            self.refuse(*said(error))

    def annotate(self, made: Operation, old: SSAValue) -> None:
        """Say on a new operation how its result is dealt out: as the old value was."""
        layout = self.layout(map_of(old), tile_ops.shape_of(old))
        if layout is not None:
            made.attributes[RESULT] = layout


def layout_of(map_: WgMap | None, shape: Pair, turned: bool = False) -> LayoutAttr | None:
    """The layout of a map: the same subgroups own the same blocks.

    Where blocks run out before the subgroups do, ours deal from the first one again. In LLVM's layouts that has to be
    a dimension of subgroups of its own, along which all hold the same.

    Args:
        map_: the map; None gives None.
        shape: the tile that it deals out.
        turned: whether the layout is to be that of the transposed tile.

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
                          f"LLVM's layouts cannot say that {map_} deals the blocks of a {shape[0]}x{shape[1]} "
                          "tile out several times\nprint the kernel at subgroup level: .xegpu_upstream")
        order = (0, 1) if columns == 1 else None  # subgroups that follow each other own different blocks
        rows, columns = (distinct[0], rows // distinct[0]) if columns == 1 else (columns // distinct[1], distinct[1])
    if turned:
        turned_order = None if order else (0, 1)
        return LayoutAttr(Layout(sg_layout=(columns, rows), sg_data=data[::-1], order=turned_order))
    return LayoutAttr(Layout(sg_layout=(rows, columns), sg_data=data, order=order))


def _init(build: _Export, operation: tile_ops.InitTileOp) -> None:
    tile = tile_ops.tile_of(operation.result)
    turned = tile.encoding.order == (0, 1) or way_of(operation, build.ways) == "block-columns"
    layout = build.layout(tile.encoding.wg_map, tile.shape, turned)
    shape = tile.shape[::-1] if turned else tile.shape
    by_address = turned or build.is_turned(operation.result)  # LLVM's lowering folds the transposition into the load
    build.put(operation, desc_type(shape, tile.element_type, layout), by_address, turned)


def _load(build: _Export, operation: tile_ops.LoadTileOp) -> None:
    if operation.padding is not None:
        build.refuse("XT2402",
                     "LLVM's loads pad with zero only", "load without padding, or print the kernel in our own form")
    tile, form = tile_ops.tile_of(operation.tile), build.get(operation.tile).form
    assert isinstance(form, Moved)
    type_ = VectorType(tile.element_type, tile.shape[::-1] if form.turned else tile.shape)
    layout = build.layout(tile.encoding.wg_map, tile.shape, form.turned)
    made = upstream.LoadNdOp(*build.standing(operation.tile), type_, layout=layout)
    value = build.emit(with_hints(made, hints_of(operation)))
    build.set(operation.result, _turn(build, value, operation.result) if form.turned else value)


def _turn(build: _Export, value: SSAValue, old: SSAValue) -> SSAValue:
    operation = TransposeOp(value)
    build.annotate(operation, old)
    return build.emit(operation)


def _store(build: _Export, operation: tile_ops.StoreTileOp) -> None:
    value, form = build.one(operation.value), build.get(operation.tile).form
    if form.turned:
        build.refuse("XT2403", "LLVM's stores do not transpose", "pass an output whose rows are contiguous")
    tile = tile_ops.tile_of(operation.tile)
    layout = build.layout(tile.encoding.wg_map, tile.shape)
    made = upstream.StoreNdOp(value, *build.standing(operation.tile), layout=layout)
    build.emit(with_hints(made, hints_of(operation)))


def _prefetch(build: _Export, operation: tile_ops.PrefetchTileOp) -> None:
    tile = tile_ops.tile_of(operation.tile)
    layout = build.layout(tile.encoding.wg_map, tile.shape, build.get(operation.tile).form.turned)
    made = upstream.PrefetchNdOp(*build.standing(operation.tile), layout=layout)
    build.emit(with_hints(made, hints_of(operation)))


def _mma(build: _Export, operation: tile_ops.TileMmaOp) -> None:
    types = [of_mlir(value.type.element_type) for value in (operation.a, operation.b, operation.result)]  # type: ignore
    if build.target.mma_shape(*types).engine != "dpas":
        build.refuse("XT2404", f"LLVM's dialect has no product of {types[0]} and {types[1]}",
                     "multiply bf16, f16, tf32 or integers of 8 bits, or print the kernel in our own form")
    values = operation.a, operation.b, operation.result
    layouts = [build.layout(map_of(value), tile_ops.shape_of(value)) for value in values]
    acc = None if operation.acc is None else build.one(operation.acc)
    made = upstream.DpasOp(build.one(operation.a), build.one(operation.b), acc, operation.result.type,
                           [layout for layout in layouts if layout is not None])
    build.set(operation.result, build.emit(made))


def _transpose(build: _Export, operation: tile_ops.TileTransposeOp) -> None:
    build.set(operation.result, _turn(build, build.one(operation.source), operation.result))


def _reduce(build: _Export, operation: vector_ops.TileReduceOp) -> None:
    result = operation.result.type
    assert isinstance(result, VectorType)
    layout = build.layout(map_of(operation.source), tile_ops.shape_of(operation.source))
    build.set(operation.result, reduced(build, operation.kind.data, [build.one(operation.source)],
                                        vector_ops.axes_of(operation), result, layout))


def _repeat(build: _Export, operation: vector_ops.TileBroadcastOp) -> None:
    result = operation.result.type
    assert isinstance(result, VectorType)
    made = BroadcastOp(build.one(operation.source), result)
    build.annotate(made, operation.result)
    build.set(operation.result, build.emit(made))


def _convert(build: _Export, operation: vector_ops.TileConvLayoutOp) -> None:
    shape = tile_ops.shape_of(operation.source)
    before, after = build.layout(map_of(operation.source), shape), build.layout(operation.wg_map.data, shape)
    assert after is not None
    build.set(operation.result, build.emit(upstream.ConvertLayoutOp(build.one(operation.source), before, after)))


RULES: dict[type[Operation], Rule] = {
    tile_ops.InitTileOp: _init,
    tile_ops.UpdateTileOffsetOp: Export.move,
    tile_ops.LoadTileOp: _load,
    tile_ops.StoreTileOp: _store,
    tile_ops.PrefetchTileOp: _prefetch,
    tile_ops.TileMmaOp: _mma,
    tile_ops.TileTransposeOp: _transpose,
    vector_ops.TileReduceOp: _reduce,
    vector_ops.TileBroadcastOp: _repeat,
    vector_ops.TileConvLayoutOp: _convert,
    **{kind: SUBGROUP_RULES[kind] for kind in (FenceOp, *NAMED)},
}
