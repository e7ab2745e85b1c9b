"""Operands whose pitch or base block messages do not take: subgroups copy shares of them into shared local memory."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import xetile as xt
from benchmarks.kernels import work_group_gemm
from codegen.perf.isa import hot_lines
from tests.conftest import require_ocloc
from tests.kernels import Array, Execution, Types, gemm_shared, integers, tiles, viewed
from tests.kernels import product as multiplied
from tests.xetile.passes.test_cooperative_loads import check, is_shared, without_places

NUMPY, XEGPU = Execution("numpy", "pvc"), Execution("numpy:xegpu", "bmg")
DEVICE = [Execution("opencl:cpu", target) for target in ("pvc", "bmg")]
MACHINE = Execution("machine:pvc", "pvc")
BF16, F16, TF32 = (Types(dtype, dtype, xt.f32) for dtype in (xt.bf16, xt.f16, xt.tf32))
I8, U8 = (Types(dtype, dtype, xt.i32) for dtype in (xt.i8, xt.u8))
BM, BN, BK = 64, 32, 32
MAPS = {"BM": BM, "BN": BN, "BK": BK, "sg": (2, 2), "data_a": (32, BK), "data_b": (BK, 16), "data_c": (32, 16)}
LARGE = {"BM": 256, "BN": 256, "sg": (8, 4)}


def unaligned(generator: np.random.Generator, dtype: Any, rows: int, columns: int, pitch: int, first: int,
              behind: int = 64) -> Array:
    """Random integers at a distance of ``pitch`` elements a row, among numbers that nobody may read, ``behind`` the
    last row, too."""
    whole = np.full(first + rows * pitch + behind, 101, dtype.numpy)
    view = np.lib.stride_tricks.as_strided(whole[first:], (rows, columns), (pitch * whole.itemsize, whole.itemsize))
    view[...] = integers(generator, dtype, rows, columns)
    return view


@pytest.mark.unoptimised
@pytest.mark.parametrize("odd", ["a", "b", "both"])
@pytest.mark.parametrize("first", [0, 1, 2, 3], ids=lambda first: f"base {first}")
@pytest.mark.parametrize(("types", "execution"), [
    (BF16, NUMPY), (BF16, XEGPU), (F16, DEVICE[0]), (BF16, DEVICE[1]), (TF32, XEGPU), (TF32, DEVICE[0]),
    (TF32, DEVICE[1]), (I8, NUMPY), (U8, XEGPU), (I8, DEVICE[0]), (U8, DEVICE[1])], ids=str)
@pytest.mark.parametrize("bn", [BN, 2 * BN, 4 * BN], ids=lambda bn: f"{bn // 4} columns a copy")
def test_the_result_is_right(types: Types, execution: Execution, first: int, odd: str, bn: int) -> None:
    """Rows, columns and K that are no whole tiles, of more tiles than one; pitches of odd and of even elements."""
    generator = np.random.default_rng(1)
    bk = BK if types.a.bits > 8 else 2 * BK
    maps: dict[str, Any] = {**MAPS, "BN": bn, "BK": bk, "data_a": (32, bk), "data_b": (bk, bn // 2),
                            "data_c": (32, bn // 2)}
    for (m, n, k), gap in (((37, 53, 7), 0), ((130, 141, 165), 0), ((130, 72, 97), 1), ((70, 143, 260), 2)):
        a = unaligned(generator, types.a, m, k, k + gap, first) if odd != "b" else \
            integers(generator, types.a, m, 272)[:, :k]
        b = unaligned(generator, types.b, k, n, n + gap, first) if odd != "a" else \
            integers(generator, types.b, k, 144)[:, :n]
        args = viewed(a, types.a), viewed(b, types.b)
        maps["acc"] = types.acc
        assert execution.target is None or is_shared(gemm_shared, *args, xt.Spec((m, n), types.acc), **maps)
        check(execution.bind(gemm_shared), args, (tiles(m, BM), tiles(n, bn)), multiplied(a, b, types.acc), **maps)


@pytest.mark.unoptimised
@pytest.mark.parametrize(("types", "execution"), [
    (BF16, NUMPY), (F16, XEGPU), (F16, DEVICE[0]), (BF16, DEVICE[1]), (TF32, DEVICE[0]), (I8, DEVICE[0]),
    (U8, DEVICE[1])], ids=str)
@pytest.mark.parametrize(("bm", "bn", "sg"), [(64, 64, (4, 4)), (128, 64, (8, 4))], ids=["16 subgroups", "32"])
def test_parts_of_blocks(types: Types, execution: Execution, bm: int, bn: int, sg: tuple[int, int]) -> None:
    """More subgroups than blocks copy parts of them, each one of its own: nobody waits for those who store the same."""
    generator, (m, n, k), bk = np.random.default_rng(3), (bm + 37, bn + 53, 101), BK if types.a.bits > 8 else 2 * BK
    maps = {"BM": bm, "BN": bn, "BK": bk, "sg": sg, "data_a": (bm // sg[0], bk), "data_b": (bk, bn // sg[1]),
            "data_c": (bm // sg[0], bn // sg[1])}
    a, b = unaligned(generator, types.a, m, k, k, 1), unaligned(generator, types.b, k, n, n + 1, 0)
    args = viewed(a, types.a), viewed(b, types.b)
    if execution.target is not None:
        low = gemm_shared.lower(*args, xt.Spec((m, n), types.acc), target="pvc", acc=types.acc, **maps)
        assert "gpu.barrier" not in str(low.stages["distribute-subgroups"])
        assert "peel-bounds" in low.stages
    check(execution.bind(gemm_shared), args, (tiles(m, bm), tiles(n, bn)), multiplied(a, b, types.acc), acc=types.acc,
          **maps)


def specs(types: Types, m: int, n: int, k: int) -> list[xt.Spec]:
    return [xt.Spec((m, k), types.a), xt.Spec((k, n), types.b), xt.Spec((m, n), types.acc)]


@xt.kernel
def copied_by_hand(A: Any, B: Any, C: Any, *, side: str, block: tuple[int, int]) -> None:
    """Product of 16 x 32 by 32 x 32, in 8 bits of 64, by one subgroup, which copies an operand to shared local memory
    in blocks."""
    depth = 512 // A.dtype.bits
    operand, shape = (A, (16, depth)) if side == "a" else (B, (depth, 32))
    shared = xt.alloc_slm(shape, operand.dtype)
    for column in range(0, shape[1], block[1]):
        part = xt.load_tile(xt.init_tile(operand, (0, column), block, inner_blocks=block))
        xt.store_tile(part, xt.init_tile(shared, (0, column), block, inner_blocks=block))
    xt.barrier()
    a = xt.load_tile(xt.init_tile(shared if side == "a" else A, (0, 0), (16, depth)))
    b = xt.load_tile(xt.init_tile(shared if side == "b" else B, (0, 0), (depth, 32)))
    xt.store_tile(xt.tile_mma(a, b), xt.init_tile(C, (0, 0), (16, 32)))


@pytest.mark.unoptimised
@pytest.mark.parametrize("gap", [0, 1], ids=["odd pitch", "even pitch"])
@pytest.mark.parametrize("first", [0, 1, 2, 3], ids=lambda first: f"base {first}")
@pytest.mark.parametrize("types", [BF16, I8], ids=str)
@pytest.mark.parametrize("words", [8, 4, 2, 1], ids=lambda words: f"{words} words")
@pytest.mark.parametrize(("side", "execution"), [("a", DEVICE[0]), ("b", DEVICE[1]), ("a", DEVICE[1]),
                                                 ("b", DEVICE[0])], ids=str)
def test_blocks_of_few_words(side: str, execution: Execution, types: Types, words: int, first: int, gap: int) -> None:
    """A lane's words of a row, of two, or in 8 bits of four, are any power of two up to eight."""
    generator, each = np.random.default_rng(2), 32 // types.a.bits
    depth = 16 * each
    rows, columns, block = (16, depth, (16, each * words)) if side == "a" else (depth, 32, (depth, words))
    odd = unaligned(generator, types.a, rows, columns, columns + 1 + gap, first)
    other = integers(generator, types.a, *((depth, 32) if side == "a" else (16, depth)))
    a, b = (odd, other) if side == "a" else (other, odd)
    low = copied_by_hand.lower(a, b, xt.Spec((16, 32), types.acc), target=execution.target, side=side, block=block)
    count = 1 if side == "a" else each
    assert f"words_of_{count}_rows_{'' if each == 2 else 'of_bytes_'}{words}(" in low.opencl
    check(execution.bind(copied_by_hand), (a, b), (1, 1), multiplied(a, b, types.acc), side=side, block=block)


def of_bytes(bn: int) -> dict[str, Any]:
    """Constants of a product in 8 bits by four subgroups."""
    return {**MAPS, "BN": bn, "BK": 64, "data_a": (32, 64), "data_b": (64, bn // 2), "data_c": (32, bn // 2),
            "acc": xt.i32}


@pytest.mark.unoptimised
@pytest.mark.parametrize("pitch", [34, 33, 31, 17, 16, 9, 8, 7, 3, 0], ids=lambda pitch: f"pitch {pitch}")
@pytest.mark.parametrize(("types", "bn"), [(BF16, BN), (I8, BN), (I8, 2 * BN)], ids=str)
def test_one_vector_of_a_row_ends_in_the_array(types: Types, bn: int, pitch: int) -> None:
    """A vector of words that has a row's columns wherever they begin goes on behind them; not in an array's last row,
    nor where rows overlap so far that an earlier one is as near to its end."""
    generator, k = np.random.default_rng(7), 160 if types is BF16 else 320
    a, b = integers(generator, types.a, 64, k), unaligned(generator, types.b, k, bn, pitch, 1, behind=bn - pitch)
    args, maps = (viewed(a, types.a), viewed(b, types.b)), MAPS if types is BF16 else of_bytes(bn)
    low = gemm_shared.lower(*args, xt.Spec((64, bn), types.acc), target="pvc", **maps)
    name = "by_parity_of_one_vector" if types is BF16 else f"words_of_4_rows_of_bytes_{bn // 4}_by_place"
    assert f"{name}(" in low.opencl
    check(MACHINE.bind(gemm_shared), args, (1, 1), multiplied(a, b, types.acc), **maps)


@pytest.mark.unoptimised
@pytest.mark.parametrize("bn", [BN, 2 * BN], ids=lambda bn: f"{bn // 4} columns a copy")
@pytest.mark.parametrize(("types", "execution"), [
    (I8, MACHINE), (U8, Execution("machine:bmg", "bmg")), (Types(xt.u8, xt.i8, xt.i32), DEVICE[0])], ids=str)
def test_bytes_of_rows_that_begin_anywhere(types: Types, execution: Execution, bn: int) -> None:
    """Rows of B that begin with each byte of a word, a multiple of four bytes apart and one, two and three more."""
    generator, m, k = np.random.default_rng(8), 64, 320  # of which two steps are in one
    a = integers(generator, types.a, m, k)
    for first in range(4):
        for pitch in range(bn, bn + 4):
            b = unaligned(generator, types.b, k, bn, pitch, first)
            check(execution.bind(gemm_shared), (a, b), (1, 1), multiplied(a, b, types.acc), **of_bytes(bn))


@pytest.mark.unoptimised
@pytest.mark.parametrize("words", [1, 2])
def test_nothing_is_read_behind_an_array(words: int) -> None:
    """The last of one or two bytes that a lane takes of a row may be an array's last: it has no next word."""
    generator = np.random.default_rng(words)
    a, b = integers(generator, xt.i8, 16, 64), unaligned(generator, xt.i8, 64, 32, 33, 0, behind=-1)
    check(MACHINE.bind(copied_by_hand), (a, b), (1, 1), multiplied(a, b, xt.i32), side="b", block=(64, words))


def test_where_it_applies() -> None:
    """Operands in 8 or 16 bits or tf32 of subgroups that share them, on GPUs."""
    odd, one = specs(BF16, 130, 141, 165), {"sg": (1, 1), "data_a": (BM, BK), "data_b": (BK, BN), "data_c": (BM, BN)}
    assert is_shared(gemm_shared, *odd, **MAPS)
    assert is_shared(gemm_shared, *specs(TF32, 130, 141, 165), **MAPS)
    assert not is_shared(gemm_shared, *specs(Types(xt.f32, xt.f32, xt.f32), 130, 141, 165), **MAPS)
    assert not is_shared(gemm_shared, *specs(BF16, 128, 144, 160), **MAPS)
    assert not is_shared(gemm_shared, *odd, **{**MAPS, **one})
    deep = {**MAPS, "BK": 64, "data_a": (32, 64), "data_b": (64, 16)}
    for types in (I8, U8, Types(xt.i8, xt.u8, xt.i32)):
        low = gemm_shared.lower(*specs(types, 130, 141, 165), target="pvc", acc=xt.i32, **deep)
        assert str(low.stages["cooperative-loads"]).count("memref.alloc()") == 2
        low = gemm_shared.lower(*specs(types, 130, 141, 165), target="pvc", acc=xt.i32, **MAPS)
        assert str(low.stages["cooperative-loads"]).count("memref.alloc()") == 1  # four rows a lane are 64 of B
    assert is_shared(gemm_shared, *odd, target="dg2", **MAPS)
    assert not is_shared(gemm_shared, *odd, target="cpu", **MAPS)


def test_two_steps_where_they_have_the_registers() -> None:
    """Both halves of the buffer in a step, on pvc where less than 0.92 of the registers is carried and loaded,
    or 0.94 where a step copies one block, but 0.9 where it reads a row by one vector."""
    odd, small = specs(BF16, 4096, 50257, 4096), {"BM": 128, "BN": 128, "sg": (4, 2)}
    assert "unroll" not in work_group_gemm.lower(*odd, target="pvc", **LARGE).stages
    assert "unroll" in work_group_gemm.lower(*specs(BF16, 4096, 4096, 4097), target="pvc", **LARGE).stages
    assert "unroll" in work_group_gemm.lower(*odd, target="pvc", **small).stages
    assert "unroll" not in work_group_gemm.lower(*specs(BF16, 4096, 50257, 4097), target="pvc", **small).stages
    assert "unroll" in work_group_gemm.lower(*odd, target="bmg", **small).stages
    low = work_group_gemm.lower(*odd, target="bmg", **LARGE)
    main = low.opencl.split("  for (;")[1]
    assert main.count("intel_work_group_barrier_wait(") == 2
    assert "XETILE_ROLLED" not in low.opencl  # a CPU runs both loops


@pytest.mark.unoptimised
@pytest.mark.parametrize("execution", [MACHINE, Execution("machine:bmg", "bmg"), DEVICE[0]], ids=str)
@pytest.mark.parametrize(("types", "depths"), [(BF16, (37, 133, 165)), (I8, (325,)), (TF32, (101,))], ids=str)
def test_addresses_that_flip(types: Types, depths: tuple[int, ...], execution: Execution) -> None:
    """Where a step alone takes the registers, it stores to one half of the buffers and loads from the other, at
    addresses that each step changes; even and odd numbers of steps, which the loop of the last one goes on from. Where
    messages take distances, those of an array have one in common."""
    generator = np.random.default_rng(6)
    deep = execution.target == "bmg" and types is not TF32  # two of its steps of 64 bytes would have the registers
    maps: dict[str, Any] = {"BM": 128, "BN": 128, "BK": (64 if types.a.bits == 8 else 32) * (1 + deep), "sg": (4, 2),
                            "acc": types.acc}
    for k in depths:
        a = unaligned(generator, types.a, 128, k, k, 1) if types is not TF32 else \
            integers(generator, types.a, 128, k + -k % 16)[:, :k]
        b = unaligned(generator, types.b, k, 128, 129, 0)
        args = viewed(a, types.a), viewed(b, types.b)
        text = work_group_gemm.lower(*args, xt.Spec((128, 128), types.acc), target=execution.target, **maps).opencl
        flip = 1 if execution.target == "bmg" else 2
        assert f"flip{flip}(&at" in text
        assert f"flip{flip}_back(&at" in text
        assert "const uint at" not in text  # C++ refuses a constant where it flips
        check(execution.bind(work_group_gemm), args, (1, 1), multiplied(a, b, types.acc), **maps)


def test_a_subgroup_arrives_behind_its_loads() -> None:
    """An operand B of tf32 is loaded block by block between products; others may only then write where it was."""
    low = work_group_gemm.lower(*specs(TF32, 4096, 1001, 4096), target="pvc", **LARGE)
    assert "reorder-dpas" in low.stages
    main = low.opencl.split("  for (;")[1]
    steps = main.split("intel_work_group_barrier_wait(")[1:]
    for step in steps:
        assert step.count("load_slm_") == 8
        assert step.rindex("load_slm_") < step.index("intel_work_group_barrier_arrive(") < step.rindex("matrix_mad")


def test_one_operand_where_there_is_no_memory_for_two() -> None:
    """Two halves of 32 KB for each operand are too much for bmg."""
    low = work_group_gemm.lower(*specs(TF32, 4096, 1001, 4097), target="bmg", **LARGE)
    stage = str(low.stages["cooperative-loads"])
    assert stage.count("memref.alloc()") == 1


def test_stages_read_back() -> None:
    low = gemm_shared.lower(*specs(BF16, 130, 141, 165), target="bmg", **MAPS)
    for stage in ("cooperative-loads", "blocking", "distribute-lanes", "peel-bounds"):
        again = xt.parse(low.stages[stage])["gemm_shared"].lower(*specs(BF16, 130, 141, 165), target="bmg")
        assert without_places(again.opencl) == without_places(low.opencl), stage
    odd = specs(I8, 4096, 4097, 4097)
    low = work_group_gemm.lower(*odd, target="pvc", acc=xt.i32, BK=64, **LARGE)
    for stage in ("cooperative-loads", "blocking", "distribute-lanes", "interleave-columns"):
        again = xt.parse(low.stages[stage])["work_group_gemm"].lower(*odd, target="pvc")
        assert without_places(again.opencl) == without_places(low.opencl), stage


@pytest.mark.everything
@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_instructions(target: str) -> None:
    """A subgroup reads its share of A or B by two messages, and stores it by one; nothing is spilled.

    The subgroups leave the loop without checks together: their barrier is that of the whole work-group. In the loop, no
    pointer is multiplied by a pitch; halves of words of two registers are selected by an instruction. Two steps each
    have a half of the buffer in shared local memory, where they have the registers.
    """
    require_ocloc()
    for columns, inner, messages, least in ((50257, 4096, 9, 0.38), (4096, 4097, 5, 0.41)):
        low = work_group_gemm.lower(*specs(BF16, 4096, columns, inner), target=target, **LARGE)
        report, steps = low.report(remedies=False), 1 if (target, inner) == ("pvc", 4096) else 2
        assert (report.spill_size, report.private_size, report.loop["dpas"]) == (0, 0, steps * 32)
        assert (report.loop["load"], report.loop["slm"]) == (steps * 2, steps * messages)
        assert report.density >= least
        hot = next(iter(low.isa().kernels.values())).asm.splitlines()
        hot = [hot[number] for number in hot_lines("\n".join(hot))]
        assert not any(" mul " in line for line in hot)
        assert sum(" sel " in line for line in hot) == steps * 8
        assert "intel_work_group_barrier_arrive" in low.opencl


@pytest.mark.everything
def test_instructions_where_addresses_flip() -> None:
    """An addition flips two addresses, or one; no scalar makes any, and no message's register is waited for."""
    require_ocloc()
    for types, step, least in ((BF16, 32, 0.30), (I8, 64, 0.26)):
        for constants, count in ((LARGE, (14, 8)), ({"BM": 128, "BN": 128, "sg": (4, 2)}, (16, 8))):
            low = work_group_gemm.lower(*specs(types, 4096, 50257, 4097), target="pvc", acc=types.acc, BK=step,
                                        **constants)
            report = low.report(remedies=False)
            assert (report.spill_size, report.private_size, report.loop["dpas"]) == (0, 0, 32)
            assert (report.loop["slm"], report.loop["scalar"] <= 13) == (count[0], True)
            assert report.density >= (least if constants is LARGE else 0.15)
            hot = next(iter(low.isa().kernels.values())).asm.splitlines()
            hot = [hot[number] for number in hot_lines("\n".join(hot))]
            assert sum(re.search(r" add \((16|32)\|M0\) .*:d +r\d+\.0<1;1,0>:d +-?r\S+<0;1,0>:d", line) is not None
                       for line in hot) == count[1]
            assert sum("fence.slm" in line for line in hot) == 1


@pytest.mark.everything
@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_instructions_of_bytes(target: str) -> None:
    """Two registers of A are shifted by three instructions, and bytes of four rows of B moved by four for each word of
    two, from where they are."""
    require_ocloc()
    for columns, inner, loads, messages, least in ((50257, 4096, 4, 9, 0.33), (4096, 4097, 2, 5, 0.36)):
        low = work_group_gemm.lower(*specs(I8, 4096, columns, inner), target=target, acc=xt.i32, BK=64, **LARGE)
        report = low.report(remedies=False)
        assert (report.spill_size, report.private_size, report.loop["dpas"]) == (0, 0, 2 * 32)
        assert (report.loop["load"], report.loop["slm"]) == (2 * loads, 2 * messages)
        assert report.density >= least
        hot = next(iter(low.isa().kernels.values())).asm.splitlines()
        hot = [hot[number] for number in hot_lines("\n".join(hot))]
        assert sum(" mov (32|M0)" in line and ":ub" in line for line in hot) == (2 * 16 if inner == 4096 else 0)
        assert sum(" or (32|M0)" in line for line in hot) == (0 if inner == 4096 else 2 * 4)
