"""Stages behind legalisation: loops unrolled, peeled, with payloads, and fused with stores. NumPy runs each of them."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from benchmarks.trial_kernels.attention_kernels import paged_cache
from tests.kernels import integers, wide
from xegpu.dialect.block_io import CreateNdTdescOp
from xegpu.dialect.bounds import InBoundsOp
from xegpu.dialect.fused_store import FusedStoreCheckOp
from xegpu.dialect.payload import PayloadSetOp
from xegpu.interpreter import dpas
from xegpu.interpreter.block_io import SEMANTICS, Payload
from xegpu.interpreter.interpreter import TileView
from xegpu.passes.loops import hoist_payloads

NEW = ("fuse-store", "grf-mode", "unroll", "peel-bounds", "hoist-payloads")


@xt.kernel
def prefetched(A, B, C, *, BM=32, BN=64, ahead=3, depth=None, unroll=None, barrier=None):
    """A product that fetches its operands some steps ahead."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    a, b = xt.init_tile(A, (m, 0), (BM, 32)), xt.init_tile(B, (0, n), (32, BN))
    pa, pb = xt.init_tile(A, (m, ahead * 32), (BM, 32)), xt.init_tile(B, (ahead * 32, n), (32, BN))
    acc = xt.zeros((BM, BN), xt.f32)
    for _ in xt.range(0, A.shape[1] if depth is None else depth, 32, unroll=unroll, barrier=barrier):
        xt.prefetch_tile(pa)
        xt.prefetch_tile(pb)
        acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
        a, pa = xt.update_tile_offset(a, 0, 32), xt.update_tile_offset(pa, 0, 32)
        b, pb = xt.update_tile_offset(b, 32, 0), xt.update_tile_offset(pb, 32, 0)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN)))


SPECS = xt.Spec((None, None), "bf16"), xt.Spec((None, None), "bf16"), xt.Spec((None, None), "f32")


def stages(target: str, kernel: Any = prefetched, **constants: Any) -> dict[str, str]:
    """The new stages of a kernel, as text."""
    texts = kernel.lower(*SPECS, target=target, **constants).stages
    return {name: texts[name] for name in NEW if name in texts}


SMALL = {"BM": 16, "BN": 32}
"""A tile that has several blocks of each operand, in less text."""


def run(read: Any, name: str, a: Any, b: Any, size: tuple[int, int], grid: tuple[int, int]) -> np.ndarray:
    """Results of a text that was read, in NumPy."""
    c = np.full(size, -77, np.float32)
    read[name].on("numpy")[grid](a, b, c)
    return c


@pytest.mark.parametrize(("target", "constants", "expected"), [
    ("pvc", {}, ("grf-mode", "hoist-payloads")),
    ("pvc", {"unroll": 3, "barrier": 2, **SMALL}, ("unroll", "hoist-payloads")),
    ("bmg", {"BM": 16}, ("unroll", "hoist-payloads")),
    ("dg2", SMALL, ("grf-mode", "peel-bounds")),
    ("dg2", {"unroll": 2, **SMALL}, ("grf-mode", "unroll", "peel-bounds")),
    ("cpu", SMALL, ("fuse-store",)),
    ("cpu", {"unroll": 2, **SMALL}, ("fuse-store", "unroll")),
])
def test_each_stage_reads_back_and_runs(target: str, constants: dict[str, int], expected: tuple[str, ...]) -> None:
    texts = stages(target, **constants)
    assert tuple(texts) == expected
    read = {stage: xt.parse(text) for stage, text in texts.items()}  # once: reading takes longer than running
    assert {stage: str(module) for stage, module in read.items()} == texts
    rng = np.random.default_rng(3)
    m, n = constants.get("BM", 32), constants.get("BN", 64)
    for rows, columns, depth in ((2 * m, 2 * n, 320), (m + 5, 2 * n + 2, 333), (2 * m, n, 30), (m + 1, n, 0)):
        a, b = integers(rng, xt.bf16, rows, depth), integers(rng, xt.bf16, depth, columns)
        for stage, module in read.items():
            c = run(module, "prefetched", a, b, (rows, columns), (-(-rows // m), -(-columns // n)))
            np.testing.assert_array_equal(c, wide(a) @ wide(b), f"{stage} {rows}x{columns}x{depth}")


def test_an_unrolled_loop_says_what_is_left_to_the_next() -> None:
    text = stages("pvc", unroll=4, barrier=2)["unroll"]
    loops = re.findall(r"scf\.for (%\w+) = (%\w+) to (%\w+) step (%\w+)", text)
    assert len(loops) == 2
    assert re.search(rf"{loops[1][1]} = scf\.for", text)  # the last result of the first is where the second begins
    assert (text.count("xegpu.main_loop"), text.count("xegpu.skip_if_rolled")) == (1, 0)
    assert (text.count("control_barrier_arrive"), text.count("control_barrier_wait")) == (2, 2)
    assert "xegpu.unroll" not in text
    assert "xegpu.barrier" not in text
    assert stages("bmg")["unroll"].count("xegpu.skip_if_rolled") == 1


def test_blocks_of_a_main_loop_are_in_bounds() -> None:
    text = stages("dg2", unroll=2)["peel-bounds"]
    main, rest = (body.partition("\n    }")[0] for body in text.split("scf.for")[1:])
    assert main.count("xegpu.load_nd") == main.count("in_bounds") == 2 * rest.count("xegpu.load_nd") > 0
    assert "in_bounds" not in rest
    boxes = re.findall(r"xegpu\.in_bounds %\w+ \[(.*?)\]", text)  # one for all blocks of A, and one for those of B
    assert [box.replace(" : i64", "") for box in boxes] == ["0, 0, 32, 64", "0, 0, 64, 64"]


def test_a_loop_is_peeled_where_one_operand_alone_is_read_by_rows() -> None:
    """A's rows of 26 elements are too short for a 2D block message, those of B are not."""
    specs = xt.Spec((None, 26), "bf16", (26, 1)), xt.Spec((26, 64), "bf16"), xt.Spec((None, 64), "f32")
    texts = prefetched.lower(*specs, target="pvc", BM=16, ahead=1).stages
    main, rest = (body.partition("\n    }")[0] for body in texts["peel-bounds"].split("scf.for")[1:])
    assert 0 < main.count("in_bounds") < main.count("xegpu.load_nd") == rest.count("xegpu.load_nd")
    assert "in_bounds" not in rest
    rng = np.random.default_rng(5)
    a, b = integers(rng, xt.bf16, 37, 26), integers(rng, xt.bf16, 26, 64)
    for stage in ("peel-bounds", "hoist-payloads"):
        c = run(xt.parse(texts[stage]), "prefetched", a, b, (37, 64), (3, 1))
        np.testing.assert_array_equal(c, wide(a) @ wide(b), stage)


@xt.kernel
def rescaled(A, B, C):
    """A product of a transposed operand whose sums are halved in every step."""
    a, b = xt.init_tile(A, (0, 0), (16, 32)), xt.init_tile(B, (0, 0), (64, 32))
    acc = xt.zeros((16, 64), xt.f32)
    for _ in xt.range(0, A.shape[1], 32):
        acc = xt.tile_mma(xt.load_tile(a), xt.tile_transpose(xt.load_tile(b)), acc * 0.5)
        a, b = xt.update_tile_offset(a, 0, 32), xt.update_tile_offset(b, 0, 32)
    xt.store_tile(acc, xt.init_tile(C, (0, 0), (16, 64)))


def test_loops_that_compute_with_their_sums_and_branch_are_not_rotated() -> None:
    """Remainder loops, that is: the main loop reads a transposed B by words of each lane's row, unchecked."""
    lowered = rescaled.lower(*SPECS, target="dg2")
    main, rest = lowered.stages["peel-bounds"].split("scf.for")[1:]
    assert main.count("in_bounds") == main.count("xegpu.load_nd")
    assert ("xegpu.disable_rotate" in main, "xegpu.disable_rotate" in rest) == (False, True)
    assert re.findall(r"for \(.*(sub_group_broadcast\(.*, 0\) > 0|sub_group_broadcast\(.*, 0\)); ", lowered.opencl) == [
        "sub_group_broadcast(trips, 0) > 0"]
    assert "xegpu.disable_rotate" not in stages("dg2")["peel-bounds"]


@pytest.mark.parametrize("pitch", [64, 65])
@pytest.mark.parametrize("first", [0, 1])
def test_what_lies_inside_and_on_boundaries(first: int, pitch: int) -> None:
    """Against every element of the box, for boxes all around an array of 16-bit elements."""
    module = prefetched.lower(*SPECS, target="dg2").final
    check = InBoundsOp(next(op.result for op in module.walk() if isinstance(op, CreateNdTdescOp)), (0, 0, 32, 32))
    array = np.zeros((40, pitch), np.uint16)[:, first:45]
    for row in range(-2, 12):
        for column in range(-2, 16):
            inside, rows, columns = SEMANTICS[InBoundsOp](None, check, [TileView(array, row, column)])
            aligned = pitch % 2 == 0 and array.ctypes.data % 4 == 0 and column % 2 == 0  # each of them, as emitted
            assert bool(inside) == (aligned and row >= 0 and column >= 0 and row <= 8 and column <= 44 - first - 31)
            assert (rows, columns) == (8 - row, 45 - first - 32 - column)


def test_payloads_are_made_once_and_set_where_they_move() -> None:
    text = stages("pvc", BN=32)["hoist-payloads"]
    before, body = text.split("scf.for")
    assert (before.count("payload_create"), body.count("payload_create")) == (2, 0)
    assert re.findall(r"payload_set %\w+, %\w+ \{(\w+)\}", body) == ["columns", "rows"]
    assert "prefetch_nd" not in text
    unrolled = stages("bmg", BN=32)["hoist-payloads"].split("scf.for")[1]
    distances = re.findall(r"payload_prefetch %payload\w*, \[(\d+) : i64, (\d+) : i64\]", unrolled)
    assert distances == [pair for i in range(8) for pair in (("0", str(32 * i)), (str(32 * i), "0"))]
    assert unrolled.count("payload_set") == 2
    assert "xegpu.disable_unroll" not in text
    assert "xegpu.disable_unroll" in stages("pvc", depth=64)["hoist-payloads"]


def test_blocks_on_several_pages_have_addresses_of_their_own() -> None:
    """Four columns of blocks of K on each of four pages: those on the first page differ from each other already."""
    heads, cache = xt.Spec((None, None, None, 64), "bf16"), xt.Spec((None, 64), "bf16")
    tables = xt.Spec((None, None), "i32"), xt.Spec((None,), "i32")

    def lanes(target: str, page: int) -> list[str]:
        lowered = paged_cache.lower(heads, cache, cache, heads, *tables, target=target, page=page)
        return re.findall(r"subgroup_broadcast %\w+ {lane = (\d+)", lowered.stages.get("hoist-payloads", ""))

    for loop in (found := lanes("pvc", 16))[:12], found[12:]:  # with a mask and without
        assert len(loop) == 12
        assert max(Counter(loop).values()) == 4  # one for each column
    assert len(lanes("pvc", 64)) == 4  # the lower blocks of V, in both loops: those of K are a payload group
    assert not lanes("bmg", 16)


def test_a_payload_keeps_what_is_not_set() -> None:
    module = prefetched.lower(*SPECS, target="pvc").modules["hoist-payloads"]
    rows, columns = (next(op for op in module.walk() if isinstance(op, PayloadSetOp) and getattr(op, side) is not None)
                     for side in ("rows", "columns"))
    array = np.zeros((8, 8))
    held = Payload(TileView(array, 1, 2))
    SEMANTICS[PayloadSetOp](None, rows, [held, TileView(array, 5, 6)])
    assert (held.window.row, held.window.column) == (5, 2)
    SEMANTICS[PayloadSetOp](None, columns, [held, TileView(array, 7, 3)])
    assert (held.window.row, held.window.column) == (5, 3)


@xt.kernel
def two_products(A, B, C):
    """A product and its double: behind the first one's stores there is more to do."""
    for part in range(2):
        a, b = xt.init_tile(A, (0, 0), (16, 32)), xt.init_tile(B, (0, 0), (32, 64))
        acc = xt.zeros((16, 64), xt.f32)
        for _ in xt.range(0, A.shape[1], 32):
            acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
            a, b = xt.update_tile_offset(a, 0, 32), xt.update_tile_offset(b, 32, 0)
        xt.store_tile(acc, xt.init_tile(C, (16 * part, 0), (16, 64)))


def test_a_fused_store_says_whether_it_is_the_last() -> None:
    text = stages("cpu", two_products)["fuse-store"]
    heads = [line for line in text.splitlines() if "xegpu.load_mad_store" in line]
    assert ["ends_kernel" in line for line in heads] == [False, True]
    rng = np.random.default_rng(4)
    a, b = rng.integers(-4, 5, (16, 70)).astype(ml_dtypes.bfloat16), integers(rng, xt.bf16, 70, 64)
    c = run(xt.parse(text), "two_products", a, b, (32, 64), (1, 1))
    np.testing.assert_array_equal(c, np.tile(wide(a) @ wide(b), (2, 1)))


def test_a_fused_store_is_legal_inside_and_without_aliases() -> None:
    """Against sets of addresses, for blocks all around their arrays, and for C in the memory of A."""
    module = two_products.lower(*SPECS, target="cpu").final
    check = next(op for op in module.walk() if isinstance(op, FusedStoreCheckOp))
    m, n, step = check.sizes
    rng = np.random.default_rng(5)
    memory = np.zeros(40000, np.uint16)
    found = set()
    for _ in range(400):
        (height, depth, width), first = rng.integers(1, 90, 3), int(rng.integers(0, 3)) * step
        start = int(rng.integers(0, 20000))
        a, b = memory[start:start + height * depth].reshape(height, depth), np.zeros((depth, width), np.uint16)
        c = memory[20000 - 2 * int(rng.integers(0, 9)) * height:].view(np.float32)[:height * width]
        c = c.reshape(height, width)
        row, column = int(rng.integers(-2, height + 2)), int(rng.integers(-2, width + 2))
        views = TileView(a, row, 0), TileView(b, 0, column), TileView(c, row, column)
        legal, rows, columns, k = dpas.SEMANTICS[FusedStoreCheckOp](None, check, [*views, first, int(depth)])
        assert (rows, columns) == (min(height - row, m), min(width - column, n))
        assert k == min(-(-(depth - first) // step) * step, depth - first)
        expected = min(row, column) >= 0 and min(rows, columns, k) > 0
        if expected:
            blocks = a[row:row + rows, first:first + k], c[row:row + rows, column:column + columns]
            expected = not np.may_share_memory(*blocks)  # ranges of addresses, as in the generated code
        assert bool(legal) == expected, (views, first)
        found.add((expected, bool(np.may_share_memory(a, c))))
    assert found >= {(True, False), (False, False), (False, True)}


@xt.kernel
def moved_alone(A, C):
    """A loop whose blocks lie where only its counter says."""
    total = xt.zeros((16, 16), xt.f32)
    for k in xt.range(0, A.shape[1], 16):
        total = total + xt.load_tile(xt.init_tile(A, (0, k), (16, 16)))
    xt.store_tile(total, xt.init_tile(C, (0, 0), (16, 16)))


def test_a_module_without_invariant_parts_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered = moved_alone.lower(xt.Spec((None, None), "f32"), xt.Spec((None, None), "f32"), target="pvc")
    monkeypatch.setattr(hoist_payloads, "copy_module", lambda module: pytest.fail("a copy"))
    assert "load_nd" in lowered.xegpu
    assert "hoist-payloads" not in lowered.modules
    prefetched.forget()  # what another test lowered
    with pytest.raises(pytest.fail.Exception):
        assert prefetched.lower(*SPECS, target="pvc").modules
