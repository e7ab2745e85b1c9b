"""Work-group tiles to subgroup tiles, by ``wg_map`` (XeTile.md, "Workgroup Level XeTile extension").

    %t = init_tile %A, [%m, %c0] : tile<256x32xbf16, wg_map<sg_layout = [8, 4], sg_data = [32, 32]>>
    %v = load_tile %t : -> vector<256x32xbf16>
becomes
    %s = gpu.subgroup_id ; %r = %s floordiv 4 ; %o = %m + %r * 32
    %t = init_tile %A, [%o, %c0] : tile<32x32xbf16>
    %v = load_tile %t : -> vector<32x32xbf16>

Where a subgroup owns several blocks (more data than one round deals out), each becomes a tile and a vector of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, func, gpu
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, VectorType, i64
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Attribute, Operation, SSAValue

from xegpu.errors import ShapeError, TargetError
from xegpu.rewriting import Rebuilder, Rule, placed, rewrite
from xegpu.targets import Target
from xetile.dialect import ops
from xetile.dialect.attributes import TileType, WgMapAttr
from xetile.distribution import Pair, WgMap


@dataclass(frozen=True)
class Dealt:
    """The form of a value that was dealt out: by which map, from which shape."""

    wg_map: WgMap
    shape: Pair

    def __str__(self) -> str:
        return f"{self.wg_map} of {ops.text(self.shape)}"


@dataclass(frozen=True)
class WorkgroupToSubgroup:
    """The pass.

    Attributes:
        target: how many subgroups a work-group may have.
    """

    target: Target

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with every work-group value replaced by a subgroup's share of it."""
        return rewrite(module, self._function)

    def _function(self, function: func.FuncOp) -> func.FuncOp:
        first = self._first_map(function)
        new = Rebuilder(RULES).function(function)
        if first is not None:
            new.attributes["xegpu.subgroups"] = ArrayAttr([IntegerAttr(size, i64) for size in first[0].sg_layout])
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
            if map_.subgroups != first[0].subgroups:
                raise placed(ShapeError(
                    f"{map_} has {map_.subgroups} subgroups, and {first[0]} above has {first[0].subgroups}",
                    f"all maps of a kernel share out one work-group: make the product of every sg_layout "
                    f"{first[0].subgroups}"), operation)
        return first

    def _check_count(self, function: func.FuncOp, cause: Operation) -> None:
        rows, columns = subgroups_of(function)
        most = self.target.subgroups[0]
        if rows * columns > most:
            raise placed(TargetError(
                f"a work-group of {rows} x {columns} = {rows * columns} subgroups is more than the {most} that "
                f"{self.target.name} has", f"make the product of sg_layout at most {most}"), cause)


def subgroups_of(function: func.FuncOp) -> Pair:
    """Subgroups of a work-group along two axes, as a function's attribute says."""
    attribute = function.attributes.get("xegpu.subgroups")
    if not isinstance(attribute, ArrayAttr):
        return 1, 1
    rows, columns = (size.value.data for size in attribute)
    return rows, columns


def is_dealt(function: func.FuncOp) -> bool:
    """Whether a ``wg_map`` deals tiles of a kernel to the subgroups of a work-group."""
    return any(_map_of(operation) is not None for operation in function.walk())


def _map_of(operation: Operation) -> WgMap | None:
    if isinstance(operation, ops.InitTileOp):
        return ops.tile_of(operation.result).encoding.wg_map
    attribute = operation.attributes.get("wg_map") or operation.properties.get("wg_map")
    return attribute.data if isinstance(attribute, WgMapAttr) else None


def _coordinate(build: Rebuilder, layout: Pair, axis: int) -> SSAValue:
    """Row or column of this subgroup in ``layout``; linear ids run row-major."""
    linear = build.shared("subgroup", lambda: build.emit(gpu.SubgroupIdOp()))  # type: ignore[no-untyped-call]
    linear.name_hint = "subgroup"
    rows, columns = layout
    if columns == 1:
        return linear if axis == 0 else build.constant(0)
    if rows == 1:
        return linear if axis == 1 else build.constant(0)
    if axis == 0:
        return build.index(arith.FloorDivSIOp, linear, build.constant(columns))
    return _modulo(build, linear, columns)


def _modulo(build: Rebuilder, value: SSAValue, size: int) -> SSAValue:
    if size == 1:
        return build.constant(0)
    if size & (size - 1) == 0:
        return build.index(arith.AndIOp, value, build.constant(size - 1))
    multiple = build.index(arith.MuliOp, build.index(arith.FloorDivSIOp, value, build.constant(size)),
                           build.constant(size))
    return build.index(arith.SubiOp, value, multiple)


def _offset(build: Rebuilder, form: Dealt, axis: int, round_: int) -> SSAValue:
    """Where the block of this subgroup's round starts along ``axis``: ((round * layout + s) * data) mod size."""
    layout, data, size = form.wg_map.sg_layout[axis], form.wg_map.sg_data[axis], form.shape[axis]
    subgroup = _coordinate(build, form.wg_map.sg_layout, axis)
    if layout * data > size:
        subgroup = _modulo(build, subgroup, size // data)
    start = build.index(arith.MuliOp, subgroup, build.constant(data))
    return build.add(start, round_ * layout * data)


def _init(build: Rebuilder, operation: ops.InitTileOp) -> None:
    tile = ops.tile_of(operation.result)
    if tile.encoding.wg_map is None:
        build.copy(operation)
        return
    form = Dealt(tile.encoding.wg_map, tile.shape)
    result = TileType(tile).with_(shape=form.wg_map.sg_data, wg_map=None)
    *lead, row, column = (build.one(offset) for offset in operation.offsets)
    sizes = [build.one(value) for value in operation.shape]
    strides = [build.one(value) for value in operation.strides]
    tiles = tuple(
        build.emit(ops.InitTileOp(build.one(operation.source),
                                  [*lead, build.add(row, _offset(build, form, 0, i)),
                                   build.add(column, _offset(build, form, 1, j))], sizes, strides, result))
        for i, j in form.wg_map.blocks(form.shape)
    )
    build.set(operation.result, tiles, form)


def _load(build: Rebuilder, operation: ops.LoadTileOp) -> None:
    tiles = build.get(operation.tile)
    loaded = tuple(build.emit(ops.LoadTileOp(tile, operation.padding)) for tile in tiles.values)
    build.set(operation.result, loaded, tiles.form)


def _store(build: Rebuilder, operation: ops.StoreTileOp) -> None:
    value, tiles = build.get(operation.value), build.get(operation.tile)
    if value.form != tiles.form:
        build.fail(f"the vector is dealt out as {value.form}, the tile as {tiles.form}", "give both the same wg_map")
    for part, tile in zip(value.values, tiles.values, strict=True):
        build.emit(ops.StoreTileOp(part, tile))


def _prefetch(build: Rebuilder, operation: ops.PrefetchTileOp) -> None:
    for tile in build.get(operation.tile).values:
        build.emit(ops.PrefetchTileOp(tile, operation.locality.value.data))


def _update(build: Rebuilder, operation: ops.UpdateTileOffsetOp) -> None:
    tiles = build.get(operation.tile)
    offsets = [build.one(offset) for offset in operation.offsets]
    moved = tuple(build.emit(ops.UpdateTileOffsetOp(tile, offsets)) for tile in tiles.values)
    build.set(operation.result, moved, tiles.form)


def _spread(build: Rebuilder, operation: BroadcastOp) -> None:
    map_ = _map_of(operation)
    if map_ is None:
        build.copy(operation)
        return
    shape = operation.vector.type.get_shape()
    try:
        map_.check(shape)
    except ShapeError as error:
        raise placed(error, operation) from None
    form = Dealt(map_, (shape[0], shape[1]))
    part = VectorType(operation.vector.type.element_type, map_.sg_data)
    value = build.emit(BroadcastOp(build.one(operation.source), part))
    build.set(operation.vector, (value,) * len(list(map_.blocks(form.shape))), form)


def _mma(build: Rebuilder, operation: ops.TileMmaOp) -> None:
    a, b = build.get(operation.a), build.get(operation.b)
    if a.form is None:
        build.copy(operation)
        return
    assert operation.wg_map is not None
    map_ = operation.wg_map.data
    form = Dealt(map_, ops.shape_of(operation.result))  # type: ignore[arg-type]
    rows, columns = map_.rounds(form.shape)
    depth = len(a.values) // rows
    if len(b.values) != depth * columns:
        build.fail(f"{a.form.wg_map} cuts A's K into {depth} and {b.form.wg_map} cuts B's into "
                   f"{len(b.values) // columns}",
                   "make sg_data of A along its columns equal to sg_data of B along its rows")
    accumulators: list[SSAValue | None] = [None] * (rows * columns)
    if operation.acc is not None:
        accumulators = list(build.get(operation.acc).values)
    part: Attribute = VectorType(operation.result.type.element_type, map_.sg_data)  # type: ignore[attr-defined]
    for i in range(rows):
        for j in range(columns):
            for k in range(depth):
                accumulators[i * columns + j] = build.emit(ops.TileMmaOp(
                    a.values[i * depth + k], b.values[k * columns + j], accumulators[i * columns + j], part))
    build.set(operation.result, tuple(value for value in accumulators if value is not None), form)



def _transpose(build: Rebuilder, operation: ops.TileTransposeOp) -> None:
    """Each subgroup transposes its own blocks, if the maps give it the right ones."""
    source = build.get(operation.source)
    if source.form is None or operation.wg_map is None:
        build.copy(operation)
        return
    form = Dealt(operation.wg_map.data, ops.shape_of(operation.result))  # type: ignore[arg-type]
    mine = _held(source.form)
    chosen = []
    for part, origins in enumerate(zip(*_held(form).values(), strict=True)):
        found = {_position(mine[linear], origin[::-1]) for linear, origin in enumerate(origins)}
        if len(found) != 1 or None in found or source.form.wg_map.sg_data != form.wg_map.sg_data[::-1]:
            build.fail(f"{source.form.wg_map} transposed is not {form.wg_map}: subgroups would have to exchange block "
                       f"{part}, which is not implemented yet",
                       "load with a map that gives each subgroup the rows that it needs as columns")
        chosen.append(found.pop())
    values = tuple(build.emit(ops.TileTransposeOp(source.values[index])) for index in chosen)  # type: ignore[index]
    build.set(operation.result, values, form)


def _held(form: Dealt) -> dict[int, list[Pair]]:
    """For each subgroup, where its blocks start, in the order of its rounds."""
    map_, (height, width) = form.wg_map, form.shape
    rounds = list(map_.blocks(form.shape))
    return {linear: [(map_.offset(0, linear // map_.sg_layout[1], i, height),
                      map_.offset(1, linear % map_.sg_layout[1], j, width)) for i, j in rounds]
            for linear in range(map_.subgroups)}


def _position(origins: list[Pair], origin: Pair) -> int | None:
    return origins.index(origin) if origin in origins else None


RULES: dict[type[Operation], Rule] = {
    ops.InitTileOp: _init,
    ops.LoadTileOp: _load,
    ops.StoreTileOp: _store,
    ops.PrefetchTileOp: _prefetch,
    ops.UpdateTileOffsetOp: _update,
    ops.TileMmaOp: _mma,
    ops.TileTransposeOp: _transpose,
    BroadcastOp: _spread,
}
