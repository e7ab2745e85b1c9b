"""Lane maps, the lane of each element: the documents' tables, and the arithmetic against a loop over elements."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xegpu.ir import dtypes
from xegpu.layout import lane_map
from xegpu.layout.lane_map import LaneMap
from xegpu.layout.linear_layout import bits_of
from xegpu.support.errors import ShapeError

# XeGPU.md, "Rules of sg_map setting on PVC and ARC": lanes, operand, type, wi_layout, wi_data, block, fragment.
TABLE = """
16 a bf16 1x16 1x1 8x16  8x1
16 a f16  1x16 1x1 8x16  8x1
16 a tf32 2x8  1x1 8x8   4x1
16 a u8   1x16 1x2 8x32  8x2
16 a i8   1x16 1x2 8x32  8x2
16 b bf16 1x16 2x1 16x16 8x2
16 b f16  1x16 2x1 16x16 8x2
16 b tf32 1x16 1x1 8x16  8x1
16 b u8   1x16 4x1 32x16 8x4
16 b i8   1x16 4x1 32x16 8x4
16 c f32  1x16 1x1 8x16  8x1
16 c i32  1x16 1x1 8x16  8x1
8  a bf16 1x8  1x2 8x16  8x2
8  a f16  1x8  1x2 8x16  8x2
8  a tf32 1x8  1x1 8x8   8x1
8  a u8   1x8  1x4 8x32  8x4
8  a i8   1x8  1x4 8x32  8x4
8  b bf16 1x8  2x1 16x8  8x2
8  b f16  1x8  2x1 16x8  8x2
8  b tf32 1x8  1x1 8x8   8x1
8  b u8   1x8  4x1 32x8  8x4
8  b i8   1x8  4x1 32x8  8x4
8  c f32  1x8  1x1 8x8   8x1
8  c i32  1x8  1x1 8x8   8x1
"""


def pair(text: str) -> tuple[int, int]:
    first, second = text.split("x")
    return int(first), int(second)


@pytest.mark.parametrize("row", TABLE.strip().splitlines())
def test_the_tables_of_the_seed(row: str) -> None:
    lanes, operand, dtype, layout, data, block, fragment = row.split()
    size, bits = int(lanes), dtypes.of(dtype).bits
    maps = {"a": lambda: lane_map.operand_a(size, bits), "b": lambda: lane_map.operand_b(size, bits),
            "c": lambda: lane_map.default(size, pair(block)[1])}
    found = maps[operand]()
    assert (found.wi_layout, found.wi_data) == (pair(layout), pair(data))
    assert found.lanes == size
    assert found.fragment(pair(block)) == pair(fragment)
    assert found.block(pair(fragment), pair(block)[1]) == pair(block)


few = st.sampled_from([1, 2, 4])
lane_maps = st.builds(LaneMap, st.tuples(few, st.sampled_from([1, 2, 8])), st.tuples(few, few))


@given(lane_maps, few, few, st.integers(0, 2))
def test_gather_undoes_scatter_and_both_follow_the_rule(lanes: LaneMap, down: int, across: int, batch: int) -> None:
    shape = lanes.unit[0] * down, lanes.unit[1] * across
    block = np.arange(2**batch * shape[0] * shape[1]).reshape(*[2] * batch, *shape)
    fragments = lane_map.scatter(block, lanes)
    units, per_lane = lanes.fragment(shape)
    assert fragments.shape == (*[2] * batch, lanes.lanes, units, per_lane)
    np.testing.assert_array_equal(lane_map.gather(fragments, shape, lanes), block)
    rows, columns = np.broadcast_arrays(*lane_map.positions(shape, lanes))
    found = lane_map.holder(shape, lanes, rows, columns)
    np.testing.assert_array_equal(np.stack(found), np.indices((lanes.lanes, units * per_lane)).reshape(2, *rows.shape))
    for lane, unit, element in np.ndindex(lanes.lanes, units, per_lane):
        # XeGPU.md: distribution units row-major; in a unit, lanes row-major, each with wi_data adjacent elements.
        corner = unit // across * lanes.unit[0], unit % across * lanes.unit[1]
        at = lane // lanes.wi_layout[1] * lanes.wi_data[0], lane % lanes.wi_layout[1] * lanes.wi_data[1]
        inner = divmod(element, lanes.wi_data[1])
        row, column = (sum(parts) for parts in zip(corner, at, inner, strict=True))
        np.testing.assert_array_equal(fragments[..., lane, unit, element], block[..., row, column])


@given(st.sampled_from([8, 16]), st.integers(1, 64))
def test_plain_covers_rows_that_fit_the_lanes(size: int, columns: int) -> None:
    fits = columns % size == 0 or (columns < size and size % columns == 0)
    if fits:
        lanes = lane_map.default(size, columns)
        assert lanes.lanes == size
        assert columns % lanes.unit[1] == 0
        return
    with pytest.raises(ShapeError, match="XT3504"):
        lane_map.default(size, columns)


@given(st.sampled_from([(8, 1), (1, 8), (1, 1), (4, 2), (2, 4), (24, 1), (3, 1), (6, 4)]), st.sampled_from([8, 16]))
def test_a_map_of_few_lanes_repeats(shape: tuple[int, int], subgroup: int) -> None:
    lanes = lane_map.default(subgroup, shape[1], shape[0])
    block = np.arange(shape[0] * shape[1]).reshape(shape)
    fragments = lane_map.scatter(block, lanes, subgroup)
    assert fragments.shape == (subgroup, *lanes.fragment(shape))
    for lane in range(subgroup):
        np.testing.assert_array_equal(fragments[lane], fragments[lane % lanes.lanes])
    np.testing.assert_array_equal(lane_map.gather(fragments, shape, lanes), block)


def test_lanes_along_both_dimensions_have_no_transposed_map() -> None:
    assert LaneMap((1, 16)).transposed == LaneMap((16, 1))
    with pytest.raises(ShapeError, match="XT3502"):
        _ = LaneMap((2, 8)).transposed
    assert LaneMap((2, 8)).along_one((32, 8)) == LaneMap((16, 1))


SIZES = [(16, 16), (8, 16), (16, 8), (32, 4), (16, 1), (2, 32)]


@given(st.sampled_from(SIZES), st.sampled_from([(1, 16), (16, 1), (2, 8), (8, 2), (4, 4), (8, 1), (1, 4), (1, 1)]),
       st.sampled_from([16, 32]))
def test_bits_say_where_elements_lie(shape: tuple[int, int], layout: tuple[int, int], subgroup: int) -> None:
    lanes = LaneMap(layout)
    if shape[0] % layout[0] or shape[1] % layout[1]:
        return
    bits = bits_of(shape, lanes, subgroup)
    assert bits is not None
    rows, columns = lane_map.positions(shape, lanes, subgroup)
    assert rows.shape[1] == bits.units
    for lane, unit in np.ndindex(subgroup, bits.units):
        coordinates = [0, 0]
        for number, held in ((lane, bits.lane), (unit, bits.unit)):
            for position, bit in enumerate(held):
                if bit is not None:
                    coordinates[bit[0]] |= (number >> position & 1) << bit[1]
        assert (rows[lane, unit, 0], columns[lane, unit, 0]) == tuple(coordinates)


def test_only_powers_of_two_have_bits() -> None:
    assert bits_of((12, 16), LaneMap((1, 16)), 16) is None
    assert bits_of((8, 16), LaneMap((1, 8), (1, 2)), 8) is None


def test_a_block_of_broken_units_is_refused() -> None:
    with pytest.raises(ShapeError, match="XT3503"):
        LaneMap((1, 16), (2, 1)).fragment((3, 16))
