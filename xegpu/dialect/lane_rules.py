"""What a verifier demands of an ``sg_map`` (XeGPU.md, "Work Item Level semantics" and "Rules of sg_map setting").

Each function raises a verifier's error; the map that is needed stands in it.
"""

from __future__ import annotations

from xegpu import layouts
from xegpu.dialect.attributes import TensorDesc
from xegpu.errors import Invalid, ShapeError
from xegpu.layouts import LaneMap

MAP_NAMES = ("sg_map_a", "sg_map_b", "sg_map_c")
ENGINES = (8, 16)
"""Lanes of the subgroups that have a matrix engine."""


def spelled(lanes: LaneMap) -> str:
    """A map as an author writes it."""
    return f"sg_map<wi_layout = {list(lanes.wi_layout)}, wi_data = {list(lanes.wi_data)}>"


def check_division(desc: TensorDesc) -> None:
    """A block is a whole number of units of its map."""
    if desc.sg_map is None:
        return
    try:
        rows, columns = (1, *desc.shape)[-2:]  # a line is one row
        desc.sg_map.fragment((rows, columns))
    except ShapeError as error:
        raise Invalid.of(error) from None


def check_load(desc: TensorDesc, packed: bool, transposes: bool) -> None:
    """A packed load has the rows of a word in ``wi_data[0]``, a transposed one has its lanes along the rows."""
    lanes = desc.sg_map
    if lanes is None:
        return
    if packed and lanes != (needed := layouts.operand_b(lanes.lanes, desc.dtype.bits)):
        raise Invalid("XT3505",
                      f"a packed load needs wi_data = {list(needed.wi_data)}, the rows that 32 bits hold, and "
                      f"lanes along the columns\nuse {spelled(needed)}")
    if transposes and lanes.wi_layout[1] > 1:
        turned = LaneMap((lanes.lanes, 1), lanes.wi_data)
        raise Invalid("XT3506", "a transposed load needs its lanes along the rows, which become columns\n"
                      f"use {spelled(turned)}")


def needed_by_dpas(subgroup: int, bits: int) -> tuple[LaneMap, LaneMap, LaneMap]:
    """The maps of A, B and C of the matrix engine, for operands of an element size.

    Args:
        subgroup: lanes of a subgroup.
        bits: of an element of A and of B.
    """
    return layouts.operand_a(subgroup, bits), layouts.operand_b(subgroup, bits), layouts.plain(subgroup, subgroup)


def check_dpas(maps: tuple[LaneMap, LaneMap, LaneMap], bits: int) -> None:
    """The matrix engine reads and writes fragments in its own layout, and in no other."""
    subgroup = maps[2].lanes
    if subgroup not in ENGINES:
        raise Invalid("XT3507",
                      f"sg_map_c spreads C over {subgroup} lanes, and the matrix engine's subgroups have 8 or "
                      f"16\nuse {spelled(layouts.plain(16, 16))}, or [1, 8] on dg2 and arl",
                      alone=True)
    for name, given, needed in zip(MAP_NAMES, maps, needed_by_dpas(subgroup, bits), strict=True):
        if given != needed:
            raise Invalid("XT3508", f"{name} is {spelled(given)}, in which the matrix engine does not take elements of "
                          f"{bits if name != 'sg_map_c' else 32} bits over {subgroup} lanes\n"
                          f"use {spelled(needed)}")


def check_line(lanes: LaneMap, elements: int, chunk: int) -> None:
    """Single elements lie along the lanes, one each; chunks of them down the lanes."""
    needed = LaneMap((elements, 1) if chunk > 1 else (1, elements))
    if lanes != needed:
        what = f"chunks of {chunk}" if chunk > 1 else "single elements"
        raise Invalid("XT3509", f"a descriptor of {what} spreads them one a lane, and this has {spelled(lanes)}\n"
                      f"use {spelled(needed)}")


def two_sizes(shape: tuple[int, ...]) -> tuple[int, int]:
    """The shape of a fragment, which counts units of its map and the elements of a lane in each."""
    if len(shape) != 2:
        raise Invalid("XT3518", f"a fragment has two dimensions, and {list(shape)} has {len(shape)}\n"
                      "the first counts units of the map, the second the elements of a lane in each")
    return shape[0], shape[1]
