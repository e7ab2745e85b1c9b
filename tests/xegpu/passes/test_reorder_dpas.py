"""Operands that follow each other through the registers, sums made where a part is loaded, and the register mode."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from codegen.opencl.kernel import LARGE_GRF
from tests.conftest import require_ocloc
from tests.kernels import Execution, gemm
from xetile.compiler.compiled import CompiledKernel

pytestmark = pytest.mark.unoptimised


@xt.kernel
def update(A, B, C, alpha, *, BM=16, BN=64, BK=32, kind=None):
    """C = alpha A B + C; A and B as another type of elements if one is named."""
    A, B = (A, B) if kind is None else (xt.view(A, kind), xt.view(B, kind))
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    a, b, c = xt.init_tile(A, (m, 0), (BM, BK)), xt.init_tile(B, (0, n), (BK, BN)), xt.init_tile(C, (m, n), (BM, BN))
    acc = xt.zeros((BM, BN), xt.f32)
    for _ in xt.range(0, A.shape[1], BK):
        acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(alpha * acc + xt.load_tile(c), c)


def lowered(kernel, target: str, kind: str, *more: object, tile: tuple[int, int, int]) -> CompiledKernel:
    rows, columns, step = tile
    matrices = [xt.Spec((None, None), dtype) for dtype in (kind, kind, "f32")]
    return kernel.lower(*matrices, *more, target=target, BM=rows, BN=columns, BK=step)


def memory(low: CompiledKernel) -> tuple[int, int]:
    require_ocloc()
    report = low.report()
    return report.spill_size, report.private_size


def loop_of(low: CompiledKernel) -> list[str]:
    """The loads and products of the loop, in order."""
    (body,) = low.stages.get("reorder-dpas", low.stages["schedule"]).split("scf.for")[1:]
    return re.findall(r"xegpu\.(load_nd|dpas)\b", body.split("scf.yield")[0])


@pytest.mark.parametrize("execution", [Execution("numpy:xegpu", "bmg"), Execution("opencl:cpu", "pvc")], ids=str)
@pytest.mark.parametrize(("kind", "tile"), [(ml_dtypes.bfloat16, (16, 64, 32)), (ml_dtypes.bfloat16, (64, 16, 64)),
                                            (np.float32, (32, 64, 32))], ids=str)
def test_another_order_changes_no_result(execution: Execution, kind, tile: tuple[int, int, int]) -> None:
    generator = np.random.default_rng(11)
    a, b = (generator.integers(-8, 9, shape).astype(kind) for shape in ((71, 80), (80, 136)))
    c = generator.integers(-8, 9, (71, 136)).astype(np.float32)
    wanted = 3 * (a.astype(np.float32) @ b.astype(np.float32)) + c
    rows, columns, step = tile
    view = xt.tf32 if kind is np.float32 else None
    execution.bind(update)[-(-71 // rows), -(-136 // columns)](a, b, c, 3.0, BM=rows, BN=columns, BK=step, kind=view)
    np.testing.assert_array_equal(c, wanted)


@xt.kernel
def converted(A, B, C, *, BM=128, BN=16, BK=32, to=xt.bf16):
    """C = A @ B, both converted to one type where they have another."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    acc = xt.zeros((BM, BN), xt.f32)
    for k in xt.range(0, A.shape[1], BK):
        a, b = xt.load_tile(xt.init_tile(A, (m, k), (BM, BK))), xt.load_tile(xt.init_tile(B, (k, n), (BK, BN)))
        acc = xt.tile_mma(a.to(to), b.to(to), acc)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN)))


@pytest.mark.parametrize("execution", [Execution("numpy:xegpu", "bmg"), Execution("opencl:cpu", "pvc")], ids=str)
@pytest.mark.parametrize(("types", "to", "tile"), [
    ((np.float16, np.int8), xt.f16, (128, 16)), ((ml_dtypes.bfloat16, np.int8), xt.bf16, (128, 16)),
    ((np.int8, ml_dtypes.bfloat16), xt.bf16, (16, 128))], ids=str)
def test_products_of_converted_operands_in_another_order(execution: Execution, types, to, tile) -> None:
    generator = np.random.default_rng(12)
    a, b = (generator.integers(-128 if kind is np.int8 else -8, 128 if kind is np.int8 else 9, shape).astype(kind)
            for kind, shape in zip(types, ((150, 80), (80, 144)), strict=True))
    c = np.full((150, 144), 7, np.float32)
    execution.bind(converted)[-(-150 // tile[0]), -(-144 // tile[1])](a, b, c, BM=tile[0], BN=tile[1], to=to)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize(("target", "types", "to", "tile"), [
    ("pvc", ("f16", "i8"), xt.f16, (128, 16)), ("bmg", ("bf16", "i8"), xt.bf16, (128, 16)),
    ("pvc", ("i8", "bf16"), xt.bf16, (16, 128)), ("bmg", ("i8", "f16"), xt.f16, (16, 128))], ids=str)
def test_the_operand_that_is_not_converted_streams(target: str, types: tuple[str, str], to, tile) -> None:
    """Two instructions for 32 integers that become f16, three for bf16: the smaller operand is the converted one."""
    require_ocloc()
    matrices = [xt.Spec((None, None), dtype) for dtype in (*types, "f32")]
    low = converted.lower(*matrices, target=target, BM=tile[0], BN=tile[1], to=to)
    assert loop_of(low) == ["load_nd"] * 2 + ["dpas"] * 8 + (["load_nd"] + ["dpas"] * 8) * 3
    report = low.report()
    assert (report.spill_size, report.private_size) == (0, 0)
    assert report.loop["dpas"] == 32 * report.unrolled
    assert report.loop["vector"] <= (33 if to is xt.f16 else 49) * report.unrolled
    assert report.loop["load_block2d"] == 5 * report.unrolled
    assert report.density >= 0.30


def test_where_the_order_changes() -> None:
    """Only where operands do not fit side by side, and do one after the other."""
    load, dpas = ["load_nd"], ["dpas"]
    side_by_side, streamed = load * 3 + dpas * 16, load * 2 + dpas * 8 + load + dpas * 8
    assert loop_of(lowered(gemm, "pvc", "bf16", tile=(16, 64, 32))) == streamed
    assert loop_of(lowered(gemm, "pvc", "bf16", tile=(16, 32, 32))) == load * 2 + dpas * 8
    assert loop_of(lowered(gemm, "pvc", "bf16", tile=(32, 64, 32))) == load * 3 + dpas * 32  # fits in 256
    assert loop_of(lowered(gemm, "pvc", "bf16", tile=(32, 32, 32))) == load * 2 + dpas * 16  # no order helps
    assert "reorder-dpas" not in lowered(gemm, "pvc", "bf16", tile=(32, 32, 32)).stages
    large = xt.kernel(gemm.function, registers=256)
    assert loop_of(lowered(large, "pvc", "bf16", tile=(16, 64, 32))) == side_by_side


@pytest.mark.parametrize("target", ["pvc", "bmg"])
@pytest.mark.parametrize(("kind", "tile"), [("bf16", (16, 48, 32)), ("bf16", (16, 64, 32)), ("bf16", (64, 16, 64)),
                                            ("tf32", (16, 64, 16))], ids=str)
def test_tiles_that_128_registers_hold(target: str, kind: str, tile: tuple[int, int, int]) -> None:
    low = lowered(gemm, target, kind, tile=tile)
    assert low.emitted.options == ""
    assert memory(low) == (0, 0)


@pytest.mark.parametrize("tile", [(16, 64, 32), (16, 48, 32)])
def test_blocks_of_c_count_too(tile: tuple[int, int, int]) -> None:
    """The compiler loads all of C before it adds the first block."""
    low = lowered(update, "pvc", "bf16", 3.0, tile=tile)
    assert (low.emitted.options, memory(low)) == (LARGE_GRF if tile[1] == 64 else "", (0, 0))


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_tiles_that_256_registers_hold(target: str) -> None:
    """An f32 step of 32, whose operands take 192 registers beside the 128 of the sums; and C read and written."""
    for low in (lowered(gemm, target, "tf32", tile=(32, 64, 32)),
                lowered(update, target, "bf16", 3.0, tile=(32, 64, 32))):
        assert low.emitted.options == LARGE_GRF
        assert memory(low) == (0, 0)


def test_a_sum_stands_behind_the_load_of_its_part() -> None:
    text = lowered(update, "pvc", "bf16", 3.0, tile=(16, 32, 32)).stages["schedule"].split("scf.yield")[1]
    kinds = [kind for line in text.splitlines() for kind in ("load_nd", "arith.addf", "store_nd") if f"{kind} " in line]
    assert kinds == ["load_nd", "arith.addf"] * 4 + ["store_nd"] * 4


def test_more_subgroups_than_large_registers_allow() -> None:
    """64 subgroups of 32x32: a step of 16 fits in 128 registers, one of 32 does not."""
    many = xt.kernel(gemm.function, subgroups=(8, 8))
    assert lowered(many, "pvc", "bf16", tile=(32, 32, 16)).emitted.options == ""
    with pytest.raises(ValueError, match="XT4050") as raised:
        _ = lowered(many, "pvc", "bf16", tile=(32, 32, 32)).emitted
    assert str(raised.value).endswith("or make the subgroup's tile or its step along K smaller")
