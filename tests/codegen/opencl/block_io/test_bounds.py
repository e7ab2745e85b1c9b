"""Products where memory is read row by row: a loop of its own for blocks inside their arrays, and steps one by one."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_device, require_ocloc
from tests.kernels import gemm, integers, wide
from xegpu.layout import lane_map
from xegpu.layout.lane_map import LaneMap


def lowered(dtype: str, acc: str, step: int, target: str = "dg2"):
    spec = xt.Spec((None, None), dtype)
    return gemm.lower(spec, spec, xt.Spec((None, None), acc), BM=32, BN=32, BK=step, acc=getattr(xt, acc),
                      target=target)


@pytest.mark.parametrize(("dtype", "acc", "step", "most"), [("bf16", "f32", 32, 620), ("i8", "i32", 64, 900)])
def test_the_hot_loop_asks_nothing_and_spills_nothing(dtype: str, acc: str, step: int, most: int) -> None:
    require_ocloc()
    report = lowered(dtype, acc, step).report()
    assert (report.spill_size, report.private_size) == (0, 0)
    assert report.loop["dpas"] == 32
    assert report.loop["branch"] <= 4
    assert sum(report.loop.values()) <= most


def test_the_text_has_two_loops_and_reads_at_the_last_moment() -> None:
    text = lowered("bf16", "f32", 32).opencl
    kernel = text[text.index("kernel void"):]
    first, rest = re.findall(r"\n  for \(.*?\n  \}", kernel, re.DOTALL)
    assert "load_block" not in first
    assert "read_block" not in rest
    assert "m >= 0" in kernel[:kernel.index("for (")]
    assert ">= 0" not in first
    for body in (first, rest):
        calls = re.findall(r"(?:load|read)_block_bf16_(\d+x\d+)|(matrix_mad)", body)
        assert [block or "mad" for block, _ in calls] == (["32x16", "16x32"] + ["mad"] * 16) * 2


def test_block_messages_need_one_loop() -> None:
    """Arrays whose rows are not a multiple of 16 bytes apart take two there, too."""
    assert "read_block" not in lowered("bf16", "f32", 32, "pvc").opencl
    apart = xt.Spec((512, 512), "bf16", (516, 1))
    text = gemm.lower(apart, apart, xt.Spec((512, 512), "f32"), BM=32, BN=32, BK=32, acc=xt.f32, target="pvc").opencl
    first, rest = re.findall(r"\n  for \(.*?\n  \}", text[text.index("kernel void"):], re.DOTALL)
    assert ("load_block" in first, "load_block" in rest) == (False, True)


@xt.kernel
def overwritten(A, B, C):
    """A is loaded, overwritten, and used only then."""
    tile = xt.init_tile(A, (0, 0), (16, 32))
    total = xt.zeros((16, 32), xt.f32)
    b = xt.init_tile(B, (0, 0), (32, 32))
    for _ in xt.range(0, B.shape[0], 32):
        a = xt.load_tile(tile)
        xt.store_tile(xt.zeros((16, 32), xt.bf16), tile)
        total = xt.tile_mma(a, xt.load_tile(b), total)
        tile, b = xt.update_tile_offset(tile, 0, 32), xt.update_tile_offset(b, 32, 0)
    xt.store_tile(total, xt.init_tile(C, (0, 0), (16, 32)))


@pytest.mark.parametrize("columns", [96, 95])
def test_a_load_stays_in_front_of_what_writes(columns: int) -> None:
    """Whole blocks on boundaries, and rows that are not: those are read by the second loop."""
    require_device()
    rng = np.random.default_rng(3)
    a, b = integers(rng, xt.bf16, 16, columns), integers(rng, xt.bf16, columns, 32)
    c, expected = np.full((16, 32), 7, np.float32), wide(a) @ wide(b)
    overwritten.on("opencl:cpu", target="dg2")[1](a, b, c)
    np.testing.assert_array_equal(c, expected)
    assert not wide(a).any()


def test_loops_with_barriers_stay_one_loop() -> None:
    """Subgroups that leave the first loop at different times would wait at different barriers."""
    @xt.kernel
    def waiting(A, B, C):
        total = xt.zeros((16, 32), xt.f32)
        a, b = xt.init_tile(A, (0, 0), (16, 32)), xt.init_tile(B, (0, 0), (32, 32))
        for _ in xt.range(0, 4):
            total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
            xt.barrier()
        xt.store_tile(total, xt.init_tile(C, (0, 0), (16, 32)))

    spec = xt.Spec((None, None), "bf16")
    text = waiting.lower(spec, spec, xt.Spec((None, None), "f32"), target="dg2").opencl
    assert len(re.findall(r"\n  for \(", text[text.index("kernel void"):])) == 1


def predicated_places(body: str) -> Iterator[tuple[str, str, str]]:
    """Rows and columns that the conditions of predicated messages ask for: those that their pointers have moved to."""
    row = down = 0
    for line in body.splitlines():
        if at := re.search(r"columns = \(uint\)\(row(?: \+ (\d+))?\) <", line):
            row = int(at[1] or 0)
        elif step := re.search(r"at \+= (?:(\d+) \* )?\(long\)pitch", line):
            down += int(step[1] or 1)
        elif message := re.search(r"Predicated\w+\(at(?: \+ (\S+?)(?: \* \(long\)step)?)?, .*"
                                  r"\(uint\)\(column(?: \+ (\d+))?\) < columns", line):
            assert down == row
            assert (message[1] or "0").strip("()") == (message[2] or "0")
            yield f"row + {row}", f"column + {message[2] or 0}", ""


@pytest.mark.parametrize("target", ["dg2", "pvc", "cpu"])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8", "tf32"])
def test_written_places_are_those_of_the_cooperative_matrix(dtype: str, target: str) -> None:
    """Rows and columns in the emitted functions, for every lane and word, against the formulas' own."""
    if (dtype, target) in (("tf32", "dg2"), ("tf32", "cpu")):
        dtype = "f32"
    spec, acc = xt.Spec((None, None), dtype, (500, 2)), "i32" if dtype == "i8" else "f32"
    text = gemm.lower(spec, spec, xt.Spec((None, None), acc), BM=32, BN=32, BK=64, acc=getattr(xt, acc),
                      target=target).opencl
    pattern = (r"(?:load|store)_\w+?_(\d+)x(\d+)_(?:rows|strided)(?:_promised)?_lanes_(\d+)x(\d+)_each_(\d+)x(\d+)"
               r"(?:_predicated)?\([^{]*\n\{(.*?)\n\}\n")
    functions = re.findall(pattern, text, re.DOTALL)
    assert functions
    for *sizes, body in functions:
        rows, columns, *map_ = map(int, sizes)
        lanes = LaneMap((map_[0], map_[1]), (map_[2], map_[3]))
        expected = np.broadcast_arrays(*lane_map.positions((rows, columns), lanes))
        head = re.search(r"const int row = (.*?), column = (.*?);", body)
        assert head
        inner = (body.partition("{")[2] or body).split("}")[0]
        looped = "for (" in inner
        places = list(predicated_places(inner)) if "Predicated" in inner else re.findall(
            r"base\[\((.*?)\) \* \(long\)pitch \+ (?:\((.*?)\) \* \(long\)step|([^\]]*?))\]", inner)
        units, per_lane = expected[0].shape[1:]
        for lane, unit, element in np.ndindex(lanes.lanes, units, per_lane):
            row, *column = places[element if looped else unit * per_lane + element]
            scope = {"lane": lane, "y": 0, "x": 0, "i": unit}
            scope |= {name: eval(text.replace("/", "//"), scope.copy())
                      for name, text in zip(("row", "column"), head.groups(), strict=True)}
            found = [eval(text.replace("/", "//"), scope.copy()) for text in (row, column[0] or column[1])]
            assert found == [expected[axis][lane, unit, element] for axis in (0, 1)]
