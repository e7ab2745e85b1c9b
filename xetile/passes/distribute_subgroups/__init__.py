"""Distribution of work-group tiles over subgroups by ``wg_map`` (XeTile.md, "Workgroup Level XeTile extension").

    %t = init_tile %A, [%m, %c0] : tile<256x32xbf16, wg_map<sg_layout = [8, 4], sg_data = [32, 32]>>
    %v = load_tile %t : -> vector<256x32xbf16>
becomes
    %s = gpu.subgroup_id ; %r = %s floordiv 4 ; %o = %m + %r * 32
    %t = init_tile %A, [%o, %c0] : tile<32x32xbf16>
    %v = load_tile %t : -> vector<32x32xbf16>

Where a subgroup has several blocks (more data than one round distributes), each becomes a separate tile and vector.
A value that is only transposed is loaded by the subgroups that need its transpose, whatever the tile's map says: that
saves the exchange between subgroups (XeTile.md, Appendix 2.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, VectorType, i64
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Attribute, Operation, SSAValue

from xegpu.analysis.webs import view_webs
from xegpu.dialect.debug import AssertOp, DiagnosticOp, PrintOp
from xegpu.dialect.vector import ExtractScalarOp
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.kernel_attributes import SUBGROUPS
from xegpu.ir.memref import is_shared
from xegpu.mlir.arith import CmpIOp, ExtUIOp
from xegpu.mlir.vector import ExtractStridedSliceOp, InsertStridedSliceOp, ShapeCastOp, shape_of
from xegpu.rewrite.rewriter import Rewriter, Rule, rewrite
from xegpu.support.errors import Invalid, Note, ShapeError, TargetError, error_parts, located
from xegpu.support.location import author_location
from xegpu.target.targets import Target
from xetile.dialect import tile_ops
from xetile.dialect.gather_scatter import StoreScatterOp
from xetile.dialect.mma import TileMmaOp, TileMmaScaledOp
from xetile.dialect.reduction import TileBroadcastOp, TileReduceOp
from xetile.dialect.types import TileType, WgMapAttr, verify_same_subgroups
from xetile.dialect.vector import IotaOp, TileBitcastOp, TileConvLayoutOp, TileTransposeOp
from xetile.dialect.wg_map import Pair, WgMap
from xetile.passes import gather_scatter, mma_scaled
from xetile.passes.distribute_subgroups import slices, slm_exchange
from xetile.passes.distribute_subgroups.replicas import replicated_stores
from xetile.passes.distribute_subgroups.slm_exchange import DistributeSubgroupsRewriter, is_local
from xetile.passes.splat import splat
from xetile.passes.wg_offsets import Distributed, coordinate, offset


@dataclass(frozen=True)
class DistributeSubgroups:
    """Pass ``distribute-subgroups``.

    Attributes:
        target: how many subgroups a work-group may have.
    """

    target: Target

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with every work-group value replaced by a subgroup's share of it."""
        return rewrite(module, self._rewrite_function)

    def _rewrite_function(self, function: func.FuncOp) -> func.FuncOp:
        first = self._first_map(function)
        layout = None if first is None else first[0].sg_layout
        new = DistributeSubgroupsRewriter(RULES, self.target, view_webs(function), slm_bytes(function),
                                          layout, replicated_stores(function)).function(function)
        if first is not None:
            new.attributes[SUBGROUPS] = ArrayAttr([IntegerAttr(size, i64) for size in first[0].sg_layout])
        self._check_count(new, function if first is None else first[1])
        return new

    def _first_map(self, function: func.FuncOp) -> tuple[WgMap, Operation] | None:
        first: tuple[WgMap, Operation] | None = None
        for operation in function.walk():
            map_ = _map_of(operation)
            if map_ is None:
                continue
            if first is None:
                first = map_, operation
            try:
                verify_same_subgroups(first[0], map_)
            except Invalid as error:
                raise located(ShapeError(*error_parts(error), notes=_note_of_map(first[1])), operation) from None
        return first

    def _check_count(self, function: func.FuncOp, cause: Operation) -> None:
        rows, columns = subgroups_of(function)
        most = self.target.max_subgroups[0]
        if rows * columns > most:
            raise located(TargetError("XT2502",
                f"a work-group of {rows} x {columns} = {rows * columns} subgroups is more than the {most} that "
                f"{self.target.name} has", f"make the product of sg_layout at most {most}"), cause)


def _note_of_map(operation: Operation) -> list[Note]:
    location = author_location(operation)
    return [] if location is None else [Note("the other map is here", location)]


def slm_bytes(function: func.FuncOp) -> int:
    """Bytes of shared local memory that a kernel allocates."""
    total = 0
    for operation in function.walk():
        if isinstance(operation, memref.AllocOp) and is_shared(type_ := operation.memref.type):
            total += prod(type_.get_shape()) * of_mlir(type_.element_type).bytes  # type: ignore[attr-defined]
    return total


def subgroups_of(function: func.FuncOp) -> Pair:
    """Subgroups of a work-group along two axes, as a function's attribute says."""
    attribute = function.attributes.get(SUBGROUPS)
    if not isinstance(attribute, ArrayAttr):
        return 1, 1
    rows, columns = (size.value.data for size in attribute)
    return rows, columns


def is_distributed(function: func.FuncOp) -> bool:
    """Whether a ``wg_map`` distributes values of a kernel over the subgroups of a work-group."""
    return any(_map_of(operation) is not None for operation in function.walk())


def _map_of(operation: Operation) -> WgMap | None:
    if isinstance(operation, tile_ops.InitTileOp):
        return tile_ops.tile_of(operation.result).encoding.wg_map
    attribute = operation.attributes.get("wg_map") or operation.properties.get("wg_map")
    return attribute.data if isinstance(attribute, WgMapAttr) else None


def _init_tile(rewriter: DistributeSubgroupsRewriter, operation: tile_ops.InitTileOp) -> None:
    tile = tile_ops.tile_of(operation.result)
    if tile.encoding.wg_map is None:
        rewriter.copy(operation)
        return
    form = _transposed_form(rewriter, operation) or Distributed(tile.encoding.wg_map, tile.shape)
    step = -1 if form.transposed else 1
    result = TileType(tile).with_(shape=form.wg_map.sg_data[::step], wg_map=None)
    *lead, row, column = (rewriter.single(at) for at in operation.offsets)
    sizes = [rewriter.single(value) for value in operation.shape]
    strides = [rewriter.single(value) for value in operation.strides]
    tiles = []
    for i, j in form.rounds:
        down, right = (offset(rewriter, form, 0, i), offset(rewriter, form, 1, j))[::step]
        offsets = [*lead, rewriter.add(row, down), rewriter.add(column, right)]
        init_tile = tile_ops.InitTileOp(rewriter.single(operation.source), offsets, sizes, strides, result)
        init_tile.attributes.update(operation.attributes)
        tiles.append(rewriter.emit(init_tile))
    rewriter.set(operation.result, tuple(tiles), form)


def _transposed_form(rewriter: DistributeSubgroupsRewriter, operation: tile_ops.InitTileOp) -> Distributed | None:
    """The encoding of a tile that is only loaded to be transposed, if distributing the transpose saves an exchange."""
    tile, uses = tile_ops.tile_of(operation.result), rewriter.tiles.uses(operation.result)
    loads = [use.operation for use in uses if isinstance(use.operation, tile_ops.LoadTileOp)]
    users = [use.operation for load in loads for use in load.result.uses]
    if any(not isinstance(use.operation, (tile_ops.LoadTileOp, tile_ops.UpdateTileOffsetOp)) for use in uses) or \
            not users or not all(isinstance(user, TileTransposeOp) for user in users):
        return None
    maps = {_map_of(user) for user in users}
    if len(maps) != 1 or None in maps:
        return None
    own_form = Distributed(tile.encoding.wg_map, tile.shape)  # type: ignore[arg-type]
    wanted = Distributed(maps.pop(), tile.shape[::-1], transposed=True)  # type: ignore[arg-type]
    return None if is_local(own_form, wanted) else wanted


def _store_tile(rewriter: DistributeSubgroupsRewriter, operation: tile_ops.StoreTileOp) -> None:
    value, tiles = rewriter.lookup(operation.value), rewriter.lookup(operation.tile)
    if value.encoding != tiles.encoding:
        how = "has no wg_map, and the tile is" if value.encoding is None else \
            f"is distributed as {value.encoding}, the tile as"
        rewriter.fail("XT1401", f"the vector {how} {tiles.encoding or 'has none'}", "give both the same wg_map",
                   **{"the vector": operation.value, "the tile": operation.tile})
    if operation in rewriter.replicated_stores:
        slm_exchange.barrier(rewriter)
    rewriter.each_part(operation)


def _store_scatter(rewriter: DistributeSubgroupsRewriter, operation: StoreScatterOp) -> None:
    if operation in rewriter.replicated_stores:
        slm_exchange.barrier(rewriter)
    gather_scatter.SUBGROUP_RULES[StoreScatterOp](rewriter, operation)


def _broadcast(rewriter: Rewriter, operation: BroadcastOp) -> None:
    map_ = _map_of(operation)
    if map_ is None:
        rewriter.copy(operation)
        return
    shape = operation.vector.type.get_shape()
    try:
        map_.check(shape)
    except ShapeError as error:
        raise located(error, operation) from None
    form = Distributed(map_, (shape[0], shape[1]))
    part = VectorType(operation.vector.type.element_type, map_.sg_data)
    value = rewriter.emit(BroadcastOp(rewriter.single(operation.source), part))
    rewriter.set(operation.vector, (value,) * len(list(map_.blocks(form.shape))), form)


def _iota(rewriter: Rewriter, operation: IotaOp) -> None:
    """``iota``: each block begins at its offset in the work-group's vector."""
    if operation.wg_map is None:
        rewriter.copy(operation)
        return
    form = Distributed(operation.wg_map.data, shape_of(operation.result))  # type: ignore[arg-type]
    axis = operation.axis.value.data
    part = VectorType(operation.result.type.element_type, form.wg_map.sg_data)  # type: ignore[attr-defined]
    starts = [offset(rewriter, form, axis, position[axis]) for position in form.wg_map.blocks(form.shape)]
    if operation.start is not None:
        starts = [rewriter.add(rewriter.single(operation.start), start) for start in starts]
    rewriter.set(operation.result, tuple(_iota_part(rewriter, part, axis, start) for start in starts), form)


def _iota_part(rewriter: Rewriter, part: VectorType, axis: int, start: SSAValue) -> SSAValue:  # type: ignore[type-arg]
    return rewriter.shared(("iota", part, axis, start), lambda: rewriter.emit(IotaOp(part, axis, start)))


def _tile_mma(rewriter: Rewriter, operation: TileMmaOp) -> None:
    a, b = rewriter.lookup(operation.a), rewriter.lookup(operation.b)
    if operation.wg_map is None:
        rewriter.copy(operation)
        return
    _check_distributed(rewriter, operation)
    assert a.encoding is not None
    map_ = operation.wg_map.data
    form = Distributed(map_, shape_of(operation.result))  # type: ignore[arg-type]
    rows, columns = map_.rounds(form.shape)
    depth = len(a.values) // rows
    assert len(b.values) == depth * columns, "the verifier compares the maps of A and B"
    accumulators: list[SSAValue | None] = [None] * (rows * columns)
    if operation.acc is not None:
        accumulators = list(rewriter.lookup(operation.acc).values)
    part: Attribute = VectorType(operation.result.type.element_type, map_.sg_data)  # type: ignore[attr-defined]
    for i in range(rows):
        for j in range(columns):
            for k in range(depth):
                accumulators[i * columns + j] = rewriter.emit(TileMmaOp(
                    a.values[i * depth + k], b.values[k * columns + j], accumulators[i * columns + j], part))
    rewriter.set(operation.result, tuple(value for value in accumulators if value is not None), form)


def _check_distributed(rewriter: Rewriter, operation: TileMmaOp) -> None:
    """Raise unless all operands of a product with a map are distributed; the verifier sees only those with a map."""
    operands = {"A": operation.a, "B": operation.b, **({"acc": operation.acc} if operation.acc is not None else {})}
    bare = [name for name, value in operands.items() if rewriter.lookup(value).encoding is None]
    if bare:
        assert operation.wg_map is not None
        rewriter.fail("XT1410", f"the result of tile_mma is distributed as {operation.wg_map.data}, and {bare[0]} has "
                      "no wg_map", f"set wg_map on what computes {bare[0]}, or drop that of the product", **operands)


def _tile_bitcast(rewriter: DistributeSubgroupsRewriter, operation: TileBitcastOp) -> None:
    source = rewriter.lookup(operation.source)
    values = tuple(_bitcast(rewriter, operation, value) for value in source.values)
    if source.encoding is None:
        rewriter.set(operation.result, values[0])
        return
    form = Distributed(operation.distributed(source.encoding.wg_map), shape_of(operation.result))  # type: ignore[arg-type]
    rewriter.set(operation.result, values, form)


def _bitcast(rewriter: Rewriter, operation: TileBitcastOp, value: SSAValue) -> SSAValue:
    """A subgroup's part: along columns it is transposed twice; words are of bytes from halves of longer rows."""
    element = operation.result.type.element_type  # type: ignore[attr-defined]
    if operation.along:
        value = rewriter.emit(TileTransposeOp(value))
    if operation.merges:
        rows, columns = shape_of(value)
        lines = rewriter.emit(ShapeCastOp(value, (rows // 2, 2 * columns)))
        low, high = (rewriter.emit(ExtUIOp(rewriter.emit(ExtractStridedSliceOp(
            lines, (0, start), (rows // 2, columns))), VectorType(element, (rows // 2, columns))))
            for start in (0, columns))
        eight = splat(rewriter, 8, VectorType(element, (rows // 2, columns)))
        value = rewriter.emit(arith.OrIOp(low, rewriter.emit(arith.ShLIOp(high, eight))))
    else:
        value = rewriter.emit(TileBitcastOp(value, element))
    return rewriter.emit(TileTransposeOp(value)) if operation.along else value


def _print_or_assert(rewriter: DistributeSubgroupsRewriter, operation: DiagnosticOp) -> None:
    """Print or assertion of each block by one of its owners, of scalars by the first subgroup."""
    forms = (rewriter.lookup(value).encoding for value in operation.values)
    form = next((form for form in forms if form is not None), None)
    layout = form.wg_map.sg_layout if form is not None else rewriter.layout
    if layout is None:
        rewriter.copy(operation)
        return
    owners = (1, 1) if form is None else (form.owners(0), form.owners(1))
    conditions = [rewriter.emit(CmpIOp(coordinate(rewriter, layout, axis), rewriter.constant(owners[axis]), "ult"))
                  for axis in (0, 1) if owners[axis] < layout[axis]]
    rewriter.only_if(conditions, lambda: rewriter.each_part(operation))


def _extract_scalar(rewriter: DistributeSubgroupsRewriter, operation: ExtractScalarOp) -> None:
    """``extract_scalar`` of a vector of one element, which every subgroup has."""
    rewriter.set(operation.result, rewriter.emit(ExtractScalarOp(rewriter.single(operation.vector))))


RULES: dict[type[Operation], Rule] = {
    ExtractScalarOp: _extract_scalar,
    ExtractStridedSliceOp: slices.extract_slice,
    InsertStridedSliceOp: slices.insert_slice,
    PrintOp: _print_or_assert,
    AssertOp: _print_or_assert,
    tile_ops.InitTileOp: _init_tile,
    tile_ops.StoreTileOp: _store_tile,
    TileMmaOp: _tile_mma,
    TileMmaScaledOp: mma_scaled.distribute_tile_mma_scaled,
    TileTransposeOp: slm_exchange.transpose,
    TileConvLayoutOp: slm_exchange.conv_layout,
    TileReduceOp: slm_exchange.reduce,
    TileBroadcastOp: slm_exchange.broadcast,
    TileBitcastOp: _tile_bitcast,
    BroadcastOp: _broadcast,
    **gather_scatter.SUBGROUP_RULES,
    StoreScatterOp: _store_scatter,
    IotaOp: _iota,
}
