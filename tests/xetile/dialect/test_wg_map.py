"""Work-group maps: distribution of a tile to the subgroups of a work-group."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xetile as xt
from xetile.dialect.wg_map import WgMap


def test_the_seeds_table() -> None:
    """A tile of 128x128, sg_layout = [2, 2], sg_data = [32, 128]: two rounds along the rows, shared along a row."""
    owners = WgMap((2, 2), (32, 128)).owners((128, 128))
    assert owners == {(0, 0): [0, 1], (32, 0): [2, 3], (64, 0): [0, 1], (96, 0): [2, 3]}


def test_one_block_each() -> None:
    assert WgMap((2, 2), (64, 64)).owners((128, 128)) == {(0, 0): [0], (0, 64): [1], (64, 0): [2], (64, 64): [3]}


def test_several_rounds_both_ways() -> None:
    owners = WgMap((2, 2), (32, 32)).owners((128, 128))
    assert len(owners) == 16
    assert all(owners[i * 32, j * 32] == [i % 2 * 2 + j % 2] for i in range(4) for j in range(4))


def test_more_subgroups_than_blocks() -> None:
    assert WgMap((4, 2), (16, 16)).owners((16, 16)) == {(0, 0): list(range(8))}
    owners = WgMap((4, 2), (16, 16)).owners((32, 32))
    assert owners == {(0, 0): [0, 4], (0, 16): [1, 5], (16, 0): [2, 6], (16, 16): [3, 7]}


SIZES = st.sampled_from([1, 2, 3, 4, 8])
PAIRS = st.tuples(SIZES, SIZES)


@given(PAIRS, st.tuples(st.sampled_from([4, 8]), st.sampled_from([4, 8])), PAIRS)
def test_every_element_is_dealt(layout: tuple[int, int], data: tuple[int, int], times: tuple[int, int]) -> None:
    shape = data[0] * times[0], data[1] * times[1]
    map_ = WgMap(layout, data)
    try:
        owners = map_.owners(shape)
    except xt.ShapeError:
        assert any(t % n and n % t for t, n in zip(times, layout, strict=True))
        return
    covered = np.zeros(shape, int)
    counts = np.zeros(map_.subgroups, int)
    for (row, column), subgroups in owners.items():
        covered[row:row + data[0], column:column + data[1]] += 1
        counts[subgroups] += 1
    assert (covered == 1).all(), "each element lies in one block"
    rounds = map_.rounds(shape)
    assert (counts == rounds[0] * rounds[1]).all(), "each subgroup owns as many blocks"


@pytest.mark.parametrize("bad", [0, (1,), (1, 2, 3), (0, 1), (1, -1), (1.0, 2), (True, 1), "ab", None, {1: 2, 3: 4}])
def test_pairs(bad: object) -> None:
    for arguments in ((bad, (8, 16)), ((1, 1), bad)):
        with pytest.raises(xt.ShapeError, match="XT1151") as caught:
            WgMap(*arguments)  # type: ignore[arg-type]
        assert "help: " in str(caught.value)


def test_pairs_are_tuples_of_integers() -> None:
    assert WgMap([np.int64(2), 4], [8, np.int32(16)]) == WgMap((2, 4), (8, 16))  # type: ignore[arg-type,list-item]
    assert hash(WgMap([2, 4], [8, 16])) == hash(WgMap((2, 4), (8, 16)))  # type: ignore[arg-type]
    assert str(WgMap((2, 4), (8, 16))) == "wg_map(sg_layout=[2, 4], sg_data=[8, 16])"


@pytest.mark.parametrize(("layout", "data", "shape"), [
    ((3, 1), (8, 16), (32, 16)), ((2, 2), (12, 16), (32, 32)), ((1, 4), (8, 16), (8, 48)), ((5, 1), (4, 4), (8, 4)),
])
def test_uneven_deals_name_a_block_that_fits(layout: tuple[int, int], data: tuple[int, int],
                                             shape: tuple[int, int]) -> None:
    with pytest.raises(xt.ShapeError) as caught:
        WgMap(layout, data).check(shape)
    assert "does not distribute a tile of" in caught.value.message
    axis, size = caught.value.hint[8:caught.value.hint.index("]")], caught.value.hint.split(" = ")[1].split()[0]
    fixed = [*data]
    fixed[int(axis)] = int(size)
    WgMap(layout, (fixed[0], fixed[1])).check(shape)
