"""Rules of XeTile operations: parse tree to operation, in the spellings of the specification and mlir-extensions."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntegerAttr, UnitAttr, VectorType, i1
from xdsl.ir import Attribute, Operation, SSAValue

from xegpu.dialect.hints import LEVELS
from xegpu.ir.dtypes import of_mlir
from xegpu.mlir.combining_kind import NNAN, bitwise_kind, kind_of
from xegpu.mlir.vector import integers
from xegpu.support.errors import XeError
from xetile.dialect import tile_ops
from xetile.dialect.gather_scatter import (
    AtomicRMWTileOp,
    InitScatteredTileOp,
    LoadGatherOp,
    StoreScatterOp,
    UpdateScatteredTileOp,
)
from xetile.dialect.mma import TileMmaOp
from xetile.dialect.reduction import TileBroadcastOp, TileReduceOp
from xetile.dialect.types import CacheHintAttr, TileType
from xetile.dialect.vector import TileConvLayoutOp, TilePackOp, TileTransposeOp, TileUnpackOp
from xetile.dialect.wg_map import WgMap
from xetile.dialect.wg_map_inference import map_of
from xetile.text.grammar import Sketch, read
from xetile.text.operand_parser import (
    RESULT_MAP,
    SOURCE_MAP,
    Rule,
    atomic_kind,
    axes_of,
    create,
    described_memory,
    group_of,
    hints_of,
    integers_of,
    kind_word,
    map_attribute,
    map_of_attribute,
    memory_operands,
    only,
    padding_of,
    result_map,
    result_of,
    values,
    verified,
)

_KINDS = {"addf": "add", "addi": "add", "mulf": "mul", "muli": "mul", "andi": "and", "ori": "or", "xori": "xor",
          "maxf": "maximumf", "minf": "minimumf"}


def _init_tile(sketch: Sketch) -> Operation:
    result = result_of(sketch)
    if not isinstance(result, TileType) or not sketch.operands:
        sketch.fail("XT2042", "it makes a tile of an array", "write %array[%row, %column] : memref<...> -> tile<...>")
    source, *rest = sketch.operands
    if rest and isinstance(rest[0].type, VectorType):
        sketch.finish()
        return InitScatteredTileOp(source, rest[0], result)
    offsets, sizes, strides = described_memory(sketch, 2)
    blocks = integers_of(sketch, "inner_blocks")  # what later stages print in the place of the tile's own
    flags = [name for name in tile_ops.PROMISES if sketch.take(name) is not None]
    sketch.finish("inner_blocks", *tile_ops.PROMISES)
    new = tile_ops.InitTileOp(source, offsets, sizes, strides, result)
    new.attributes.update(dict.fromkeys(flags, UnitAttr()))
    if blocks is not None:
        new.attributes["inner_blocks"] = integers(blocks)
    return new


def _is_tile(type_: Attribute) -> bool:
    return isinstance(type_, TileType)


def _access(kind: Any) -> Rule:
    """Rule of a load or store, which is read by its declaration."""
    def rule(sketch: Sketch) -> Operation:
        operands, definition = memory_operands(sketch, kind, _is_tile), kind.get_irdl_definition()
        tile = operands["tile"].type.data  # type: ignore[attr-defined]
        padding = {"padding": padding_of(sketch, tile.dtype)} if "padding" in definition.properties else {}
        hints = hints_of(sketch)
        if not definition.results:
            sketch.no_result()
        results = [result_of(sketch, tile.element_type)] if definition.results else []
        sketch.finish(*padding, *LEVELS)
        return create(kind, list(operands.values()), results, padding, hints)

    return rule


def _prefetch_tile(sketch: Sketch) -> Operation:
    (tile,) = only(sketch, "%tile", 1)
    sketch.no_result()
    hints, locality_attr = hints_of(sketch), sketch.take("locality")
    if locality_attr is not None and not isinstance(locality_attr, IntegerAttr):
        sketch.fail("XT1128", f"locality is {locality_attr}, which is not a number", "write {locality = 3}, or 0 to 2")
    locality = locality_attr.value.data if isinstance(locality_attr, IntegerAttr) else sketch.locality
    sketch.locality = None
    sketch.finish("locality", *LEVELS)
    new = tile_ops.PrefetchTileOp(tile, _locality(hints) if locality is None else locality)
    new.attributes.update(hints)
    return new


def _locality(hints: dict[str, Attribute]) -> int:
    """Locality of cache hints: one less for each level that is uncached, from the nearest on."""
    skipped = [isinstance(hint := hints.get(level), CacheHintAttr) and hint.data == "uncached" for level in LEVELS]
    return 3 - (skipped.index(False) if False in skipped else 3)


def _update_tile_offset(sketch: Sketch) -> Operation:
    if not sketch.operands:
        sketch.fail("XT2042", "it moves a tile", "write %tile, [%rows, %columns] : tile<...> -> tile<...>")
    tile, *rest = sketch.operands
    offsets = values(sketch, rest or group_of(sketch))
    for stated in sketch.results:
        verified(sketch, lambda stated=stated: tile_ops.check_moved(tile.type, stated))  # type: ignore[misc]
    sketch.finish()
    if offsets and isinstance(offsets[0].type, VectorType):
        return UpdateScatteredTileOp(tile, offsets[0])
    return tile_ops.UpdateTileOffsetOp(tile, offsets)


def _tile_mma(sketch: Sketch) -> Operation:
    a, b, *acc = only(sketch, "%a, %b or %a, %b, %acc", 2, 3)
    explicit_map = result_map(sketch, (a, ("wg_map_a",)), (b, ("wg_map_b",)))
    sketch.finish("wg_map", "wg_map_a", "wg_map_b", "wg_map_c")
    has = map_of(a), map_of(b)
    derived = WgMap(has[0].sg_layout, (has[0].sg_data[0], has[1].sg_data[1])) if has[0] and has[1] else None
    map_ = explicit_map or (map_of(acc[0]) if acc else None) or derived
    return TileMmaOp(a, b, acc[0] if acc else None, result_of(sketch), map_)


def _tile_transpose(sketch: Sketch) -> Operation:
    (source,) = only(sketch, "%v", 1)
    permutation = axes_of(sketch, "permutation") or [1, 0]
    map_ = result_map(sketch, (source, SOURCE_MAP))
    sketch.finish("permutation", "wg_map", "source_map")
    properties = {"permutation": integers(permutation), "wg_map": map_attribute(map_)}
    return create(TileTransposeOp, [source], [result_of(sketch)], properties)


def _tile_reduce(sketch: Sketch) -> Operation:
    (source,) = only(sketch, "<kind> %v [axis]", 1)
    name = kind_word(sketch, "<add> %v [1] : vector<...> -> vector<...>")
    if not isinstance(source.type, VectorType):
        sketch.fail("XT2042", f"it takes a vector, not {source.type}", "load one with xetile.load_tile")
    name = _KINDS.get(name, name)
    name = bitwise_kind(name) if source.type.element_type == i1 else name
    try:
        kind = kind_of(name, of_mlir(source.type.element_type))
    except XeError as error:
        sketch.fail(error.code, error.message, error.hint)
    new = TileReduceOp(kind, source, axes_of(sketch, "axes", "reduction_dims"))
    ignores_nan = sketch.take(NNAN) is not None
    reduced = _finished(sketch, new, source)
    if ignores_nan:
        reduced.attributes[NNAN] = UnitAttr()
    return reduced


def _tile_broadcast(sketch: Sketch) -> Operation:
    (source,) = only(sketch, "%v [axis]", 1)
    result, axes = result_of(sketch), axes_of(sketch, "axes", "broadcast_dims")
    if not isinstance(result, VectorType):
        sketch.fail("XT2067", f"its result is a vector, not {result}", "write the result's type behind ->")
    if not axes and isinstance(source.type, VectorType):
        pairs = zip(source.type.get_shape(), result.get_shape(), strict=False)
        axes = [axis for axis, (small, large) in enumerate(pairs) if small != large]
    return _finished(sketch, TileBroadcastOp(source, result.get_shape(), axes), source)


def _finished(sketch: Sketch, new: Any, source: SSAValue) -> Operation:
    """Reduction or broadcast with its map and the result type of the text."""
    map_ = result_map(sketch, (source, SOURCE_MAP))
    sketch.finish("axes", "wg_map", "source_map")
    properties = {**new.properties, "wg_map": map_attribute(map_)}
    return create(type(new), [source], [result_of(sketch, source.type.element_type)], properties)  # type: ignore


def _tile_conv_layout(sketch: Sketch) -> Operation:
    """``tile_conv_layout``: of two maps without names the first is the result's (XeTile.md's text), unless it is the
    source's."""
    (source,) = only(sketch, "%v", 1)
    bare, sketch.bare = [map_of_attribute(sketch, attribute) for attribute in sketch.bare], []
    target = map_of_attribute(sketch, sketch.take(*RESULT_MAP))
    source_map = map_of_attribute(sketch, sketch.take(*SOURCE_MAP))
    if bare:
        target, source_map = (*bare, None)[:2]
        if source_map is not None and map_of(source) == target:
            target, source_map = source_map, target
    if target is None:
        sketch.fail("XT2077", "it needs the map of its result", "write {wg_map = #xetile.wg_map<...>}")
    sketch.finish("wg_map", "source_map")
    properties = {"wg_map": map_attribute(target), "source_map": map_attribute(source_map)}
    return create(TileConvLayoutOp, [source], [result_of(sketch) if sketch.results else source.type],
                   properties)


def _blocked(kind: type[Operation], position: int) -> Rule:
    """Rule of ``tile_pack`` (whose result is blocked) and ``tile_unpack`` (whose source is)."""
    def rule(sketch: Sketch) -> Operation:
        (source,) = only(sketch, "%v", 1)
        result = result_of(sketch)
        blocks = integers_of(sketch, "inner_blocks")
        if blocks is None:
            blocked = (source.type, result)[position]
            blocks = list(blocked.get_shape()[2:]) if isinstance(blocked, VectorType) else []
        sketch.finish("inner_blocks")
        return create(kind, [source], [result], {"inner_blocks": integers(blocks)})

    return rule


def _atomic_rmw_tile(sketch: Sketch) -> Operation:
    operands = memory_operands(sketch, AtomicRMWTileOp, _is_tile)
    tile, value = operands["tile"], operands["value"]
    name = kind_word(sketch, "<addf> %value, %tile : vector<...>, tile<...> -> vector<...>")
    dtype, result = tile.type.data.dtype, result_of(sketch, tile.type.data.element_type)  # type: ignore[attr-defined]
    sketch.finish()
    return _of_stated_type(sketch, AtomicRMWTileOp(atomic_kind(sketch, name, dtype), value, tile,
                                                   operands.get("mask")), result)


def _of_stated_type(sketch: Sketch, new: Operation, result: Attribute) -> Operation:
    """Operation whose result type agrees with the text."""
    if new.results[0].type != result:
        sketch.fail("XT2040", f"its result is {new.results[0].type}, and the text says {result}",
                    f"write {new.results[0].type} behind the arrow")
    return new


_SEED: dict[str, Rule] = {
    "init_tile": _init_tile, "load_tile": _access(tile_ops.LoadTileOp),
    "store_tile": _access(tile_ops.StoreTileOp), "prefetch_tile": _prefetch_tile,
    "update_tile_offset": _update_tile_offset, "tile_mma": _tile_mma, "tile_transpose": _tile_transpose,
    "tile_reduce": _tile_reduce,
    "tile_broadcast": _tile_broadcast, "tile_conv_layout": _tile_conv_layout, "conv_layout": _tile_conv_layout,
    "tile_pack": _blocked(TilePackOp, 1), "tile_unpack": _blocked(TileUnpackOp, 0),
    "tile_upack": _blocked(TileUnpackOp, 0), "atomic_rmw_tile": _atomic_rmw_tile, "load_gather": _access(LoadGatherOp),
    "store_scatter": _access(StoreScatterOp),
}
_EXTENSIONS: dict[str, Rule] = {
    "transpose": _tile_transpose, "reduction": _tile_reduce, "broadcast": _tile_broadcast,
    "convert_layout": _tile_conv_layout,
    "atomic_rmw": _atomic_rmw_tile, "load": _access(LoadGatherOp), "store": _access(StoreScatterOp),
}
RULES: dict[str, Rule] = {**_SEED, **{f"xetile.{name}": rule for name, rule in (_SEED | _EXTENSIONS).items()}}
"""Names of operations in the text, with and without the prefix where the specification writes them without."""


def read_operation(parser: Any, name: str, span: Any) -> Operation:
    """Parse an XeTile operation after its name."""
    return RULES[name](read(parser, name, span))
