"""A stored by columns: a subgroup transposes its own tile of A in shared local memory."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

import numpy as np
import pytest

import xetile as xt
from benchmarks.gpu_code.generated_code import gemm
from tests.conftest import require_ocloc
from tests.kernels import Execution, Types, first_stages, integers, tiles
from tests.kernels import product as multiplied
from tests.xetile.passes.test_cooperative_loads import by_columns, check

NUMPY, PVC, BMG = Execution("numpy", "pvc"), Execution("numpy:xegpu", "pvc"), Execution("numpy:xegpu", "bmg")
DEVICE = [Execution("opencl:cpu", target) for target in ("pvc", "bmg", "dg2")]
BF16, F16, TF32 = Types(xt.bf16, xt.bf16, xt.f32), Types(xt.f16, xt.f16, xt.f32), Types(xt.tf32, xt.tf32, xt.f32)
I8, U8 = Types(xt.i8, xt.u8, xt.i32), Types(xt.u8, xt.u8, xt.i32)


@xt.kernel
def product(A, B, C, *, BM=32, BN=32, BK=32, acc=xt.f32, view=None):
    """C = A @ B of one subgroup, of arrays that are seen as another type where one is given."""
    A, B = (array if view is None else xt.view(array, view) for array in (A, B))
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    a, b = xt.init_tile(A, (m, 0), (BM, BK)), xt.init_tile(B, (0, n), (BK, BN))
    total = xt.zeros((BM, BN), acc)
    for _ in xt.range(0, A.shape[1], BK):
        total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(total, xt.init_tile(C, (m, n), (BM, BN)))


@xt.kernel(subgroups=(2, 2))
def several(A, A2, B, C, *, BM=16, BN=32, BK=32):
    """A sum of products by four subgroups: of A at two depths, of which one stays in registers, and of A2, twice."""
    sg, (matrix, M, N) = xt.subgroup_id(), (xt.group_id(2), xt.group_id(0), xt.group_id(1))
    m, n = (M * 2 + sg // 2) * BM, (N * 2 + sg % 2) * BN
    first = xt.load_tile(xt.init_tile(A, (matrix, m, 0), (BM, BK)))
    total = xt.zeros((BM, BN), xt.f32)
    for k in xt.range(0, B.shape[1], BK):
        b = xt.load_tile(xt.init_tile(B, (matrix, k, n), (BK, BN)))
        a, a2 = (xt.load_tile(xt.init_tile(array, (matrix, m, k), (BM, BK))) for array in (A, A2))
        narrow = xt.load_tile(xt.init_tile(A2, (matrix, m, k), (BM, 16)))
        total = xt.tile_mma(first, b, xt.tile_mma(a, b, xt.tile_mma(a2, b, total)))
        total = xt.tile_mma(narrow, xt.load_tile(xt.init_tile(B, (matrix, k, n), (16, BN))), total)
    xt.store_tile(total, xt.init_tile(C, (matrix, m, n), (BM, BN)))


def constants_of(types: Types, target: str = "") -> dict[str, Any]:
    """Constants of a product of these types: tf32 is a view of f32, which is multiplied as it is on dg2."""
    return {"acc": types.acc, "view": xt.tf32 if types.a is xt.tf32 and target != "dg2" else None}


def transposes(kernel: Any, *given: Any, **constants: Any) -> bool:
    """Whether the pass changed a kernel."""
    return "slm-transpose" in first_stages(kernel.lower(*given, **constants))


@pytest.mark.unoptimised
@pytest.mark.parametrize("types", [BF16, F16, I8, U8, TF32], ids=str)
@pytest.mark.parametrize("shape", [(32, 32, 32), (16, 64, 32), (8, 32, 64), (24, 16, 32), (48, 32, 32)], ids=str)
@pytest.mark.parametrize("execution", [NUMPY, PVC, BMG, *DEVICE], ids=str)
def test_the_result_is_right(types: Types, shape: tuple[int, int, int], execution: Execution) -> None:
    """Rows, columns and K that are no whole tiles; K of less than a step, of one, and of several and a part."""
    generator, (rows, columns, depth) = np.random.default_rng(1), shape
    for k in (8, 64, 136):
        a, b = by_columns(generator, types.a, 3 * rows - 5, k), integers(generator, types.b, k, 72)
        grid = tiles(3 * rows - 5, rows), tiles(72, columns)
        check(execution.bind(product), (a, b), grid, multiplied(a, b, types.acc), BM=rows, BN=columns, BK=depth,
              **constants_of(types, execution.target))


@pytest.mark.unoptimised
@pytest.mark.parametrize("execution", [NUMPY, PVC, BMG, *DEVICE], ids=str)
def test_several_operands_and_subgroups(execution: Execution) -> None:
    """Tiles that stay in registers while others go through the same part of shared local memory; a batch."""
    generator = np.random.default_rng(2)
    a, a2 = (by_columns(generator, xt.bf16, 2, 60, 96) for _ in range(2))
    b, c = integers(generator, xt.bf16, 2, 96, 72), np.full((2, 60, 80), 77, np.float32)
    execution.bind(several)[tiles(60, 32), tiles(72, 64), 2](a, a2, b, c[..., :72])
    for matrix in range(2):
        wanted = multiplied(a[matrix], b[matrix], xt.f32) + multiplied(a2[matrix], b[matrix], xt.f32)
        for k in range(0, 96, 32):
            part, half = b[matrix][k:k + 32], slice(k, k + 16)
            wanted += multiplied(a[matrix][:, :32], part, xt.f32) + multiplied(a2[matrix][:, half], part[:16], xt.f32)
        np.testing.assert_array_equal(c[matrix, :, :72], wanted)
    assert (c[..., 72:] == 77).all()


def test_what_is_transposed_so() -> None:
    """Operands of DPAS of arrays that block messages reach, if shared local memory suffices."""
    def specs(types: Types, *strides: int) -> list[xt.Spec]:
        return [xt.Spec((512, 512), types.a, strides), xt.Spec((512, 512), types.b), xt.Spec((512, 512), types.acc)]

    for types in (BF16, I8, TF32):
        assert transposes(product, *specs(types, 1, 512), target="pvc", acc=types.acc)
        assert not transposes(product, *specs(types, 1, 513), target="pvc", acc=types.acc)
        assert not transposes(product, *specs(types, 512, 1), target="pvc", acc=types.acc)
        assert types is TF32 or not transposes(product, *specs(types, 1, 512), target="dg2", acc=types.acc)
    assert not transposes(product, *specs(BF16, 1, 512), target="bmg", BK=2048)


@pytest.mark.unoptimised
@pytest.mark.parametrize("shape", [(128, 128), (64, 256)], ids=str)
@pytest.mark.parametrize("execution", [PVC, *DEVICE[:2]], ids=str)
def test_the_product_of_the_tutorial(shape: tuple[int, int], execution: Execution) -> None:
    """By 8 x 4 subgroups, each of which has little of A: prefetches of parts that are too narrow for any message."""
    generator, (rows, columns) = np.random.default_rng(3), shape
    a, b = by_columns(generator, xt.bf16, 100, 80), integers(generator, xt.bf16, 80, 72)
    assert transposes(gemm, a, b, np.zeros((100, 72), np.float32), target="pvc", BM=rows, BN=columns)
    check(execution.bind(gemm), (a, b), (tiles(100, rows), 1), multiplied(a, b, xt.f32), BM=rows, BN=columns)


@pytest.mark.parametrize(("shape", "target"), [
    ((256, 128), "pvc"), ((256, 128), "bmg"), ((64, 256), "bmg"), ((128, 64), "bmg"),
    *(pytest.param((128, 128), target, marks=pytest.mark.everything) for target in ("pvc", "bmg")),
    pytest.param((128, 256), "pvc", marks=pytest.mark.everything)], ids=str)
def test_the_machine_code(shape: tuple[int, int], target: str) -> None:
    """Within 1.5 times the instructions of the plain product by 8 x 4 subgroups, as it is prefetched; no spills."""
    require_ocloc()
    stored, plain = (gemm.lower(xt.Spec((4096, 4096), xt.bf16, strides), xt.Spec((4096, 4096), xt.bf16),
                                xt.Spec((4096, 4096), xt.f32), target=target, BM=shape[0], BN=shape[1]).report()
                     for strides in ((1, 4096), (4096, 1)))
    assert stored.spill_size + stored.private_size == 0
    assert stored.hot.total / stored.unrolled <= 1.5 * plain.hot.total / plain.unrolled


@pytest.mark.parametrize("execution", [BMG, Execution("machine:bmg", "bmg")], ids=str)
@pytest.mark.parametrize("types", [BF16, I8, TF32], ids=str)
def test_steps_by_twos(types: Types, execution: Execution) -> None:
    """Two steps of 16 x 16 load before either multiplies, but in i8, whose operands are two loads each: a main loop of
    eight steps, and steps that are left over."""
    generator, depth = np.random.default_rng(4), 512 // types.a.bits
    a, b = by_columns(generator, types.a, 80, 19 * depth + 4), integers(generator, types.b, 19 * depth + 4, 80)
    given = {"BM": 16, "BN": 16, "BK": depth, **constants_of(types)}
    check(execution.bind(product), (a, b), (5, 5), multiplied(a, b, types.acc), **given)
    lowered = product.lower(a, b, np.zeros((80, 80), types.acc.numpy), target="bmg", **given)
    main = lowered.opencl[lowered.opencl.index("kernel void"):]
    order = re.findall(r"block_read|  load_slm|8 total\d+ = ", main[main.index("for ("):])
    runs = [len(list(group)) for name, group in groupby(order, lambda name: "total" in name) if name]
    assert runs == ([4] * 9 if types is I8 else [8, 8, 8, 8, 4])


def test_addresses_stay_in_registers() -> None:
    """A step of 32 x 32 by 32 makes none: four messages store and four load, on Xe2 at distances from one register."""
    require_ocloc()
    specs = [xt.Spec((4096, 4096), xt.bf16, strides) for strides in ((1, 4096), (4096, 1))]
    for target, most in (("pvc", 41), ("bmg", 31)):
        report = product.lower(*specs, xt.Spec((4096, 4096), xt.f32), target=target).report()
        assert report.loop["slm"] == 8 * report.unrolled
        assert report.loop["vector"] == 1  # the comparison that ends the loop
        assert report.hot.total / report.unrolled <= most
        assert report.spill_size + report.private_size == 0
    few = product.lower(*specs, xt.Spec((4096, 4096), xt.f32), target="bmg", BM=8).report()
    assert few.loop["slm"] == 3 * few.unrolled  # 16 rows are stored, 8 are loaded by one message


@xt.kernel
def computed(A, B, *, rows=32, columns=48):
    """The transpose of a computed vector."""
    v = xt.load_tile(xt.init_tile(A, (0, 0), (rows, columns)))
    xt.store_tile(xt.tile_transpose(v * v), xt.init_tile(B, (0, 0), (columns, rows)))


@pytest.mark.unoptimised
@pytest.mark.parametrize("execution", [NUMPY, PVC, BMG, *DEVICE], ids=str)
def test_computed_vectors(execution: Execution) -> None:
    """Squares of 16 x 16 elements: of f32 and i32 in shared local memory, of other elements in registers."""
    generator = np.random.default_rng(6)
    for dtype in (xt.f32, xt.i32, xt.u32):
        a, whole = integers(generator, dtype, 32, 48), np.full((52, 32), 77, dtype.numpy)
        execution.bind(computed)[1,](a, whole[:48])
        np.testing.assert_array_equal(whole[:48], (a * a).T)
        assert (whole[48:] == 77).all()
        assert transposes(computed, a, whole, target="pvc") is (dtype is not xt.u32)


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_messages_of_computed_vectors(target: str) -> None:
    """Two messages store a square, and two load it: no element is moved between lanes."""
    require_ocloc()
    spec = xt.Spec((256, 256), xt.f32)
    report = computed.lower(spec, spec, target=target).report()
    assert report.loop["slm"] == 4 * 6
    assert report.loop["vector"] < 150  # where exchanges take 6 * 192
    assert report.spill_size + report.private_size == 0
