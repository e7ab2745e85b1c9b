"""A stored by columns: subgroups load shares of it, and hand them to each other through shared local memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.memref import AllocOp

import xetile as xt
from benchmarks.gpu_code.generated_code import gemm
from tests.conftest import require_ocloc
from tests.kernels import Array, Execution, Types, gemm_shared, integers, tiles
from tests.kernels import product as multiplied
from xetile.compiler.pipeline import Options, stages

NUMPY, PVC, BMG = Execution("numpy", "pvc"), Execution("numpy:xegpu", "pvc"), Execution("numpy:xegpu", "bmg")
DEVICE = [Execution("opencl:cpu", target) for target in ("pvc", "bmg")]
BF16, F16 = Types(xt.bf16, xt.bf16, xt.f32), Types(xt.f16, xt.f16, xt.f32)
I8, U8 = Types(xt.i8, xt.u8, xt.i32), Types(xt.u8, xt.u8, xt.i32)
SG, BM, BN, BK = (2, 2), 64, 128, 32
MAPS = {"BM": BM, "BN": BN, "BK": BK, "sg": SG, "data_a": (32, BK), "data_b": (BK, 64), "data_c": (32, 64)}


def by_columns(generator: np.random.Generator, dtype: Any, *shape: int) -> Array:
    """Random integers, each matrix stored column by column, with numbers behind its columns that nobody may read."""
    *lead, rows, columns = shape
    start = np.full((*lead, columns, rows + -rows % 32 + 32), 101, dtype.numpy)
    start[..., :rows] = integers(generator, dtype, *lead, columns, rows)
    return np.swapaxes(start[..., :rows], -1, -2)


def bordered(rows: int, columns: int, dtype: Any) -> tuple[Array, Array]:
    """A prefilled array, and the part of it that a kernel writes."""
    whole = np.full((rows + 3, columns + -columns % 16 + 16), 77, dtype)
    return whole, whole[:rows, :columns]


def check(kernel: Any, arrays: Any, grid: tuple[int, ...], result: Array, **constants: Any) -> None:
    """Launch, and compare what was written and what was not."""
    whole, c = bordered(*result.shape, result.dtype)
    kernel[grid](*arrays, c, **constants)
    np.testing.assert_array_equal(c, result)
    c[...] = 77
    assert (whole == 77).all()


def specs(types: Types, stored: str = "columns") -> list[xt.Spec]:
    a = xt.Spec((512, 512), types.a, (1, 512) if stored == "columns" else (512, 1))
    return [a, xt.Spec((512, 512), types.b), xt.Spec((512, 512), types.acc)]


def is_shared(kernel: Any, *given: Any, target: str = "pvc", **constants: Any) -> bool:
    """Whether subgroups hand something to each other behind the stage that is for that."""
    low = kernel.lower(*given, target=target, **constants)
    found = stages(low.module, Options.of(low.module, low.target, low.access))
    module = next((module for name, module in found if name == "cooperative-loads"), None)
    return module is not None and any(isinstance(operation, AllocOp) and operation.memref.name_hint == "shared"
                                      for operation in module.walk())


@pytest.mark.unoptimised
@pytest.mark.parametrize(("types", "execution"), [(BF16, NUMPY), (BF16, PVC), (F16, BMG), (I8, PVC), (U8, BMG),
                                                  (BF16, DEVICE[0]), (F16, DEVICE[1]), (I8, DEVICE[1]),
                                                  (U8, DEVICE[0])], ids=str)
def test_the_result_is_right(types: Types, execution: Execution) -> None:
    """Rows, columns and K that are no whole tiles; K of less than a step, of one, two, three and a part."""
    generator, maps = np.random.default_rng(1), MAPS
    if types.a.bits == 8:  # a subgroup has as many bytes of A as of 16-bit elements
        maps = {**MAPS, "BK": 64, "data_a": (32, 64), "data_b": (64, 64)}
    for k in (8, 32, 64, 90) if execution.where != "numpy" else (90,):
        a, b = by_columns(generator, types.a, 100, k), integers(generator, types.b, k, 72)
        assert is_shared(gemm_shared, a, b, np.zeros((100, 72), types.acc.numpy), acc=types.acc, **maps)
        check(execution.bind(gemm_shared), (a, b), (tiles(100, BM), tiles(72, BN)), multiplied(a, b, types.acc),
              acc=types.acc, **maps)


@pytest.mark.unoptimised
@pytest.mark.parametrize("execution", [PVC, DEVICE[1]], ids=str)
def test_fewer_shares_than_subgroups(execution: Execution) -> None:
    """Of 8 bits there may be as few as that; then several subgroups hand over the same."""
    generator = np.random.default_rng(4)
    a, b = by_columns(generator, xt.i8, 72, 100), integers(generator, xt.i8, 100, 40)
    maps = {"BM": 64, "BN": 512, "BK": 64, "sg": (2, 8), "data_a": (32, 64), "data_b": (64, 64), "data_c": (32, 64)}
    assert is_shared(gemm_shared, a, b, np.zeros((72, 40), np.int32), acc=xt.i32, **maps)
    check(execution.bind(gemm_shared), (a, b), (2, 1), multiplied(a, b, xt.i32), acc=xt.i32, **maps)


@pytest.mark.parametrize("execution", [BMG, DEVICE[0]], ids=str)
def test_the_product_of_the_tutorial(execution: Execution) -> None:
    """256 x 256 by 8 x 4 subgroups, prefetching, as processors' compilers optimise it."""
    generator = np.random.default_rng(2)
    a, b = by_columns(generator, xt.bf16, 300, 80), integers(generator, xt.bf16, 80, 264)
    check(execution.bind(gemm), (a, b), (2, 2), multiplied(a, b, xt.f32))


@xt.kernel
def parts(A, A2, B, C, *, sg=SG):
    """For each matrix of a batch the sum of two products, of which each instance does some steps, at times none."""
    m, n, part = xt.group_id(0) * BM, xt.group_id(1) * BN, xt.group_id(2)
    map_a, map_b, map_c = xt.wg_map(sg, (32, BK)), xt.wg_map(sg, (BK, 64)), xt.wg_map(sg, (32, 64))
    for matrix in xt.range(A.shape[0]):
        start, stop = part * 64 * matrix, xt.minimum(part * 64 * matrix + 64 * part, A.shape[2])
        a = xt.init_tile(A, (matrix, m, start), (BM, BK), wg_map=map_a)
        a2 = xt.init_tile(A2, (matrix, m, start), (BM, BK), wg_map=map_a)
        b = xt.init_tile(B, (matrix, start, n), (BK, BN), wg_map=map_b)
        total = xt.zeros((BM, BN), xt.f32, wg_map=map_c)
        for _ in xt.range(start, stop, BK):
            x = xt.load_tile(b)
            total = xt.tile_mma(xt.load_tile(a), x, xt.tile_mma(xt.load_tile(a2), x, total))
            a, a2 = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(a2, 0, BK)
            b = xt.update_tile_offset(b, BK, 0)
        again = xt.init_tile(A, (matrix, m, 0), (BM, BK), wg_map=map_a)
        for k in xt.range(0, 32 * part, BK):
            x = xt.load_tile(xt.init_tile(B, (matrix, k, n), (BK, BN), wg_map=map_b))
            total = xt.tile_mma(xt.load_tile(again), x, total)
            again = xt.update_tile_offset(again, 0, BK)
        xt.store_tile(total, xt.init_tile(C, (part * A.shape[0] + matrix, m, n), (BM, BN), wg_map=map_c))


@pytest.mark.unoptimised
@pytest.mark.parametrize("execution", [NUMPY, PVC, *DEVICE], ids=str)
def test_several_loops_and_operands(execution: Execution) -> None:
    """Two operands in one loop, two loops in a loop over a batch, and loops of no step and of one."""
    generator = np.random.default_rng(3)
    a, a2 = (by_columns(generator, xt.bf16, 3, 100, 160) for _ in range(2))
    b, c = integers(generator, xt.bf16, 3, 160, 80), np.full((9, 100, 80), 77, np.float32)
    execution.bind(parts)[tiles(100, BM), tiles(80, BN), 3](a, a2, b, c)
    for part in range(3):
        for matrix in range(3):
            start = part * 64 * matrix
            k, first = slice(start, max(start, min(start + 64 * part, 160))), slice(0, 32 * part)
            steps = -(-(k.stop - k.start) // BK)
            k = slice(start, start + steps * BK)  # whole steps
            wanted = sum(multiplied(left[matrix][:, part_of], b[matrix][part_of], xt.f32)
                         for left, part_of in ((a, k), (a2, k), (a, first)))
            np.testing.assert_array_equal(c[part * 3 + matrix], wanted, err_msg=f"{part}, {matrix}")
    text = parts.lower(a, a2, b, c).stages["cooperative-loads"]
    assert text.count("nbarrier_wait") == 4
    assert text.count("memref.alloc()") == 2  # the second loop has what the first one had


@xt.kernel
def transposed_product(AT, B, C):
    """An operand A that is stored row by row, and transposed when it is loaded."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    map_a, map_b, map_c = xt.wg_map(SG, (32, BK)), xt.wg_map(SG, (BK, 64)), xt.wg_map(SG, (32, 64))
    a = xt.init_tile(AT, (0, m), (BK, BM), wg_map=map_a.transposed())
    b = xt.init_tile(B, (0, n), (BK, BN), wg_map=map_b)
    ahead = xt.init_tile(AT, (BK, m), (BK, BM), wg_map=xt.wg_map((1, 4), (BK, BM // 4)))
    total = xt.zeros((BM, BN), xt.f32, wg_map=map_c)
    for _ in xt.range(0, AT.shape[0], BK):
        xt.prefetch_tile(ahead)
        x = xt.tile_transpose(xt.load_tile(a), wg_map=map_a)
        total = xt.tile_mma(x, xt.load_tile(b), total)
        a, ahead = xt.update_tile_offset(a, BK, 0), xt.update_tile_offset(ahead, BK, 0)
        b = xt.update_tile_offset(b, BK, 0)
    xt.store_tile(total, xt.init_tile(C, (m, n), (BM, BN), wg_map=map_c))


@pytest.mark.unoptimised
@pytest.mark.parametrize("execution", [NUMPY, PVC, BMG, DEVICE[0]], ids=str)
def test_transposed_when_loaded(execution: Execution) -> None:
    generator = np.random.default_rng(5)
    at, b = by_columns(generator, xt.bf16, 100, 80).T, integers(generator, xt.bf16, 80, 72)
    assert is_shared(transposed_product, at, b, np.zeros((100, 72), np.float32))
    check(execution.bind(transposed_product), (at, b), (2, 1), multiplied(at.T, b, xt.f32))


@xt.kernel
def anew(A, B, C, *, ahead=1):
    """Tiles made in each step, at the loop's counter."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    map_c = xt.wg_map(SG, (32, 64))
    total = xt.zeros((BM, BN), xt.f32, wg_map=map_c)
    for k in xt.range(0, A.shape[1], BK):
        xt.prefetch_tile(xt.init_tile(A, (m, k + ahead * BK), (BM, BK), wg_map=xt.wg_map((4, 1), (BM // 4, BK))))
        a = xt.load_tile(xt.init_tile(A, (m, k), (BM, BK), wg_map=xt.wg_map(SG, (32, BK))))
        b = xt.load_tile(xt.init_tile(B, (k, n), (BK, BN), wg_map=xt.wg_map(SG, (BK, 64))))
        total = xt.tile_mma(a, b, total)
    xt.store_tile(total, xt.init_tile(C, (m, n), (BM, BN), wg_map=map_c))


@pytest.mark.unoptimised
@pytest.mark.parametrize("execution", [NUMPY, PVC, DEVICE[1]], ids=str)
def test_tiles_made_in_each_step(execution: Execution) -> None:
    generator = np.random.default_rng(6)
    a, b = by_columns(generator, xt.bf16, 100, 80), integers(generator, xt.bf16, 80, 72)
    assert is_shared(anew, a, b, np.zeros((100, 72), np.float32))
    check(execution.bind(anew), (a, b), (2, 1), multiplied(a, b, xt.f32))


@xt.kernel
def described(A, B, C, *, rows, depth):
    """Memory of which the kernel says that it holds columns."""
    map_a, map_b, map_c = xt.wg_map(SG, (32, BK)), xt.wg_map(SG, (BK, 64)), xt.wg_map(SG, (32, 64))
    a = xt.init_tile(A, (0, 0), (BM, BK), wg_map=map_a, base_shape=(rows, depth), base_strides=(1, 128), aligned=True)
    b = xt.init_tile(B, (0, 0), (BK, BN), wg_map=map_b)
    total = xt.zeros((BM, BN), xt.f32, wg_map=map_c)
    for _ in xt.range(0, depth, BK):
        total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(total, xt.init_tile(C, (0, 0), (BM, BN), wg_map=map_c))


@pytest.mark.unoptimised
@pytest.mark.parametrize("execution", [PVC, DEVICE[0]], ids=str)
def test_memory_that_a_kernel_describes(execution: Execution) -> None:
    generator = np.random.default_rng(7)
    memory = np.zeros(2 * 80 * 128 + 64, np.uint8)
    rows = memory[-memory.ctypes.data % 64:][:2 * 80 * 128].view(xt.bf16.numpy).reshape(80, 128)
    rows[...] = integers(generator, xt.bf16, 80, 128)
    b, sizes = integers(generator, xt.bf16, 80, 64), {"rows": 60, "depth": 80}
    assert is_shared(described, rows, b, np.zeros((64, 64), np.float32), **sizes)
    a = np.where(np.arange(64)[:, None] < 60, rows.T[:64], 0)  # rows behind the last one read as zeros
    check(execution.bind(described), (rows, b), (1, 1), multiplied(a, b, xt.f32), **sizes)


@xt.kernel
def variants(A, B, C, *, way="", rows=32, across=2):
    sg = (2, across)
    map_a, map_b = xt.wg_map(sg, (rows, BK)), xt.wg_map(sg, (BK, 64))
    map_c = xt.wg_map(sg, (rows, 64))
    shape = (2 * rows, BN // 2 * across)
    if way == "memory":
        taken = xt.init_tile(xt.alloc_slm((8, 64, 128), xt.u8), (0, 0, 0), (2, 16), wg_map=xt.wg_map(sg, (1, 16)))
        xt.store_tile(xt.zeros((2, 16), xt.u8, wg_map=xt.wg_map(sg, (1, 16))), taken)
    a = xt.init_tile(A, (0, 0), (shape[0], BK), wg_map=map_a)
    b = xt.init_tile(B, (0, 0), (BK, shape[1]), wg_map=map_b)
    total = xt.zeros(shape, xt.f32, wg_map=map_c)
    split = xt.nbarrier(0, 2 * across) if way == "split barrier" else None
    for k in xt.range(0, A.shape[1], BK, **({"barrier": 2} if way == "option" else {})):
        if way == "condition":
            with xt.when(k < 64):
                total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
        elif way == "padded":
            total = xt.tile_mma(xt.load_tile(a, padding=1), xt.load_tile(b), total)
        elif way == "computed":
            total = xt.tile_mma(xt.load_tile(a) * 2.0, xt.load_tile(b), total)
        else:
            total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
        if way == "barrier":
            xt.barrier()
        if split is not None:
            split.arrive()
            split.wait()
        a, b = xt.update_tile_offset(a, 0, k if way == "unsteady" else BK), xt.update_tile_offset(b, BK, 0)
    if way == "behind":
        total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
    xt.store_tile(total, xt.init_tile(C, (0, 0), shape, wg_map=map_c))


def test_where_it_applies() -> None:
    given = specs(BF16)
    for constants in ({}, {"way": "option"}, {"across": 4}):
        assert is_shared(variants, *given, **constants)
    for way in ("condition", "padded", "computed", "barrier", "split barrier", "unsteady", "behind"):
        assert not is_shared(variants, *given, way=way), way
    for constants in ({"rows": 16}, {"across": 1}):  # little to multiply; nobody to share with
        assert not is_shared(variants, *given, **constants)
    assert not is_shared(variants, *specs(BF16, "rows"))
    for target in ("dg2", "cpu"):
        assert not is_shared(variants, *given, target=target)
    assert [is_shared(variants, *given, target=target, way="memory") for target in ("pvc", "bmg")] == [True, False]
    assert "xegpu.barrier" not in variants.lower(*given, way="option").stages["cooperative-loads"]


def test_forms_in_which_it_cannot_be_said() -> None:
    """LLVM's descriptors do not stand on shared local memory: its form has every subgroup load for itself."""
    low = gemm_shared.lower(*specs(BF16), **MAPS)
    assert "nbarrier" in low.xegpu_older
    assert "barrier" not in low.xegpu_upstream
    assert "transpose" in low.xegpu_upstream


def without_places(text: str) -> list[str]:
    """The lines of a text that are code."""
    return [line for line in text.splitlines() if not line.lstrip().startswith("//")]


def test_stages_read_back() -> None:
    low = gemm_shared.lower(*specs(BF16), target="bmg", **MAPS)
    for stage in ("cooperative-loads", "blocking", "distribute-lanes"):
        again = xt.parse(low.stages[stage])["gemm_shared"].lower(*specs(BF16), target="bmg")
        assert without_places(again.opencl) == without_places(low.opencl), stage


@pytest.mark.parametrize("types", [BF16, I8], ids=str)
@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_instructions(target: str, types: Types) -> None:
    """Within 1.5 times the plain product; a step reads 2 KB by four messages and stores a share by one."""
    require_ocloc()
    shared, plain = (gemm.lower(*specs(types, stored), target=target, acc=types.acc, BK=32 * 16 // types.a.bits)
                     .report() for stored in ("columns", "rows"))
    assert (shared.spill_size, shared.private_size, shared.slm_size) == (0, 0, 2 * 256 * 64)
    steps = shared.loop["dpas"] // 32
    assert shared.loop["dpas"] == 32 * steps
    assert shared.loop["slm"] == 5 * steps
    assert shared.loop["load_block2d"] == 3 * steps
    assert shared.loop["prefetch"] == 2 * steps
    most = 1.5 if types is BF16 else 1.55
    assert shared.hot.total / shared.unrolled <= most * plain.hot.total / plain.unrolled
