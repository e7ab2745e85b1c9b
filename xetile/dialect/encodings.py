"""What a verifier demands of the maps and encodings that XeTile.md attaches to tiles and products."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, MemRefType
from xdsl.ir import Attribute

from xegpu.support.errors import Invalid
from xetile.dialect.attributes import TileParameters
from xetile.distribution import WgMap

_LANES = (1, 2, 4, 8, 16, 32)


def verify_memory_space(tile: TileParameters, source: Attribute) -> None:
    """Raise unless a tile that says its memory space stands on an array in that space."""
    said = tile.encoding.memory_space
    if said not in (0, 3):
        raise Invalid("XT2134", f"there is no memory space {said}\nuse 3 for shared local memory, 0 for global memory",
                      alone=True)
    if not said or not isinstance(source, MemRefType):
        return
    space = source.memory_space.value.data if isinstance(source.memory_space, IntegerAttr) else 0
    if space != said:
        raise Invalid("XT2135", f"the tile is in memory space {said}, and {source} is in {space}\n"
                      "drop memory_space from the tile, or give the memref the space 3")


def verify_lanes(tile: TileParameters) -> None:
    """Raise unless a tile's ``sg_map`` divides a subgroup's part of it evenly over lanes."""
    lanes, map_ = tile.encoding.sg_map, tile.encoding.wg_map
    if lanes is None:
        return
    if lanes.lanes not in _LANES:
        raise Invalid("XT2136", f"wi_layout = {list(lanes.wi_layout)} has {lanes.lanes} lanes\n"
                      "a subgroup has 8, 16 or 32: make their product a power of two, up to 32", alone=True)
    shape = map_.sg_data if map_ else tile.shape
    if any(size % unit for size, unit in zip(shape, lanes.unit, strict=True)):
        raise Invalid("XT2137", f"a subgroup's part of {shape[0]}x{shape[1]} does not divide into units of "
                      f"{lanes.unit[0]}x{lanes.unit[1]}, which is wi_layout x wi_data\n"
                      "make wi_layout x wi_data divide it", alone=True)


def verify_stored_map(value: WgMap | None, tile: TileParameters) -> None:
    """Raise unless a vector goes to a tile that is dealt out as the vector is; a map that is not known may be any."""
    if value is not None and value != tile.encoding.wg_map:
        raise Invalid("XT1401", f"the vector is dealt out as {value}, the tile as {tile.encoding.wg_map}\n"
                      "give both the same wg_map, or put a tile_conv_layout between")


def verify_same_subgroups(source: WgMap | None, result: WgMap) -> None:
    """Raise unless a vector and its transpose are dealt to as many subgroups."""
    if source is not None and source.subgroups != result.subgroups:
        raise Invalid("XT1070", f"{source} has {source.subgroups} subgroups, and {result} has {result.subgroups}\n"
                      f"both deal to the subgroups of one work-group, as {source.transposed()} does")


def verify_product_maps(a: WgMap | None, b: WgMap | None, acc: WgMap | None, result: WgMap | None, depth: int) -> None:
    """Raise unless each subgroup holds all that its part of a product needs (XeTile.md, ``tile_mma`` with ``wg_map``).

    Args:
        a, b, acc: maps of the operands, None where what makes them does not tell.
        result: the result's map.
        depth: columns of A, rows of B.
    """
    if result is None:
        if mapped := a or b:
            raise Invalid("XT1410", f"an operand is dealt out as {mapped}, and the result is not\n"
                          "give tile_mma a wg_map, or none of its operands")
        return
    if acc is not None and acc != result:
        raise Invalid("XT1411",
                      f"the accumulator is dealt out as {acc}, the result as {result}\ngive both the same map")
    for name, map_, axis in (("A", a, 0), ("B", b, 1)):
        data = (result.sg_data[0], depth) if axis == 0 else (depth, result.sg_data[1])
        if map_ is not None and not (map_.sg_layout == result.sg_layout and map_.sg_data[axis] == result.sg_data[axis]
                                     and map_.whole(1 - axis, depth)):
            raise Invalid("XT1412", f"{name} is dealt out as {map_}, but a result of {result} needs "
                          f"{WgMap(result.sg_layout, data)}\ngive {name}'s tile that map")
    if a is not None and b is not None and a.sg_data[1] != b.sg_data[0]:
        raise Invalid("XT1413", f"A is cut into blocks of {a.sg_data[1]} along K and B into blocks of {b.sg_data[0]}: "
                      f"{a} and {b}\nmake both {depth}, or both the same divisor of it")
