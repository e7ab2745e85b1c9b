"""4-bit integers in memory: packed arrays, conversions, products and copies, against NumPy on integers of a byte."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.kernels import EAGER, EXECUTIONS, NUMPY, Array, Execution

pytestmark = pytest.mark.unoptimised

WHERE = [*EXECUTIONS, EAGER]
MACHINES = [Execution(f"machine:{gpu}", gpu) for gpu in ("pvc", "bmg", "dg2")]
MAPS = {"subgroups": (2, 2), "subgroup": None}
TYPES = (xt.i4, xt.u4)
FLOATS = (np.float16, ml_dtypes.bfloat16, np.float32)


def elements(dtype: Any, *shape: int) -> Array:
    """Every value of a type, in random order."""
    rng = np.random.default_rng(sum(shape) + dtype.bits)
    low, kind = (-8, np.int8) if dtype is xt.i4 else (0, np.uint8)
    return rng.permutation(np.resize(np.arange(low, low + 16), shape).ravel()).reshape(shape).astype(kind)


@xt.kernel
def product(A, B, C, *, BM=16, BN=32, BK=64, sg=None, to=None):
    layout = sg or (1, 1)
    m, n = xt.group_id(0) * BM * layout[0], xt.group_id(1) * BN * layout[1]
    rows, columns = BM * layout[0], BN * layout[1]
    maps = [xt.wg_map(sg, shape) if sg else None for shape in ((BM, BK), (BK, BN), (BM, BN))]
    a = xt.init_tile(A, (m, 0), (rows, BK), wg_map=maps[0])
    acc = xt.zeros((rows, columns), xt.i32 if to is None else xt.f32, wg_map=maps[2])
    for k in xt.range(0, A.shape[1], BK):
        b = xt.init_tile(B, (k, n), (BK, columns), wg_map=maps[1])
        xt.prefetch_tile(b)
        left, right = xt.load_tile(a), xt.load_tile(b)
        acc = xt.tile_mma(left, right if to is None else right.to(to), acc)
        a = xt.update_tile_offset(a, 0, BK)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (rows, columns), wg_map=maps[2]))


@xt.kernel
def converted(X, Y, Z, *, R=16, C=32):
    row, column = xt.group_id(0) * R, xt.group_id(1) * C
    v = xt.load_tile(xt.init_tile(X, (row, column), (R, C)))
    for _ in xt.range(3):
        v = v.to(v.dtype)
    y = xt.init_tile(Y, (row, column), (R, C))
    xt.store_tile(v.to(y.dtype), y)
    xt.store_tile((v.to(xt.i32) * 3).to(Z.dtype), xt.init_tile(Z, (row, column), (R, C)))


@xt.kernel
def copied(X, Y, *, R=16, C=32):
    at = xt.group_id(0) * R, xt.group_id(1) * C
    xt.store_tile(xt.load_tile(xt.init_tile(X, at, (R, C))), xt.init_tile(Y, at, (R, C)))


@pytest.mark.parametrize("execution", [*WHERE, *MACHINES], ids=str)
@pytest.mark.parametrize("axis", [-2, -1])
@pytest.mark.parametrize("types", [(a, b) for a in TYPES for b in TYPES], ids=str)
@pytest.mark.parametrize("sg", MAPS.values(), ids=MAPS)
def test_products(execution: Execution, axis: int, types: Any, sg: Any) -> None:
    a, b = elements(types[0], 21, 150), elements(types[1], 150, 46)
    c = np.full((25, 50), 7, np.int32)
    columns = 16 if execution.target == "dg2" else 32  # two blocks of DPAS; on dg2 their text is eight times as long
    execution.bind(product)[2, 3](xt.pack(a, types[0]), xt.pack(b, types[1], axis), c[2:23, 2:48], sg=sg, BN=columns)
    expected = np.full_like(c, 7)
    expected[2:23, 2:48] = a.astype(np.int32) @ b.astype(np.int32)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("execution", WHERE, ids=str)
@pytest.mark.parametrize("axis", [-2, -1])
def test_weights_that_become_floats(execution: Execution, axis: int) -> None:
    a = np.random.default_rng(3).integers(-3, 4, (21, 150)).astype(np.float16)
    b, c = elements(xt.i4, 150, 46), np.full((21, 46), 7, np.float32)
    execution.bind(product)[2, 2](a, xt.pack(b, xt.i4, axis), c, to=xt.f16, BK=32)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize("execution", [*WHERE, *MACHINES], ids=str)
@pytest.mark.parametrize("axes", [(-1, -1), (-2, -2), (-1, -2), (-2, -1)], ids=str)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_copies(execution: Execution, axes: tuple[int, int], dtype: Any) -> None:
    x = elements(dtype, 22, 46)
    y = xt.pack(np.full_like(x, 5), dtype, axes[1])
    execution.bind(copied)[2, 2](xt.pack(x, dtype, axes[0]), y)
    np.testing.assert_array_equal(xt.unpack(y), x)


@pytest.mark.parametrize("execution", WHERE, ids=str)
@pytest.mark.parametrize("to", [np.int8, np.int32, *FLOATS], ids=lambda to: to.__name__)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_conversions(execution: Execution, to: Any, dtype: Any) -> None:
    """To wider types exactly; of integers the lowest bits stay."""
    x, y = elements(dtype, 22, 46), np.full((22, 46), 7, to)
    z = xt.pack(np.full((22, 46), 5), xt.i4)
    execution.bind(converted)[2, 2](xt.pack(x, dtype), y, z)
    np.testing.assert_array_equal(y.astype(np.float32), x.astype(np.float32))
    np.testing.assert_array_equal(xt.unpack(z), ((x.astype(int) * 3 + 8) & 15) - 8)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("execution", [NUMPY, *WHERE[1:2]], ids=str)
def test_floats_saturate(execution: Execution, dtype: Any) -> None:
    @xt.kernel
    def narrowed(X, Y):
        xt.store_tile(xt.load_tile(xt.init_tile(X, (0, 0), (8, 32))).to(dtype), xt.init_tile(Y, (0, 0), (8, 32)))

    x = np.linspace(-40, 40, 8 * 32, dtype=np.float32).reshape(8, 32)
    y = xt.pack(np.zeros((8, 32), np.int8), dtype)
    execution.bind(narrowed)[1](x, y)
    low, high = (-8, 7) if dtype is xt.i4 else (0, 15)
    np.testing.assert_array_equal(xt.unpack(y), np.trunc(x).clip(low, high))


@pytest.mark.parametrize("target", ["pvc", "bmg", "cri", "dg2", "cpu", *(  # the others lower as bmg and dg2 do
    pytest.param(name, marks=pytest.mark.everything) for name in ("lnl", "ptl", "arl"))])
def test_texts_are_read_back(target: str) -> None:
    specs = xt.Spec((None, None), xt.i4), xt.Spec((None, None), xt.u4, (1, None)), xt.Spec((None, None), xt.i32)
    lowered = product.lower(*specs, target=target, sg=(2, 2))
    builtin = "intel_sub_group_i4_u4_matrix_mad_k64" in lowered.opencl
    assert builtin == (target != "cpu")
    assert builtin == ("intel_sub_group_i4_u4_matrix_mad_k64" in lowered.sycl)
    a, b = elements(xt.i4, 32, 64), elements(xt.u4, 64, 64)
    for name, text in lowered.stages.items():
        c = np.zeros((32, 64), np.int32)
        xt.parse(text)["product"].on("numpy")[1, 1](xt.pack(a, xt.i4), xt.pack(b, xt.u4, -2), c)
        np.testing.assert_array_equal(c, a.astype(np.int32) @ b.astype(np.int32), name)


def test_packed_arrays() -> None:
    """The first element is in the lower bits; a view of bytes is what pack makes."""
    x = np.array([[1, -2, 3], [-8, 7, 0]], np.int8)
    packed = xt.pack(x, xt.i4)
    np.testing.assert_array_equal(packed.array, [[0xE1, 0x03], [0x78, 0x00]])
    assert packed.shape == (2, 4)
    np.testing.assert_array_equal(xt.unpack(packed), [[1, -2, 3, 0], [-8, 7, 0, 0]])
    np.testing.assert_array_equal(xt.pack(x, xt.i4, 0).array, [[0x81, 0x7E, 0x03]])
    for axis in (-1, -2):
        again = xt.view(xt.pack(elements(xt.u4, 6, 8), xt.u4, axis).array.view(np.int8), xt.u4)
        np.testing.assert_array_equal(xt.unpack(again), elements(xt.u4, 6, 8))
    np.testing.assert_array_equal(xt.unpack(xt.pack(x.astype(ml_dtypes.int4), xt.i4))[:, :3], x)


@pytest.mark.parametrize(("wrong", "code"), [
    (lambda v, t: v + 1, "XT1226"),
    (lambda v, t: -v, "XT1226"),
    (lambda v, t: 2 * v, "XT1226"),
    (lambda v, t: v == v, "XT1226"),
    (lambda v, t: v[0], "XT1226"),
    (lambda v, t: xt.exp(v), "XT1226"),
    (lambda v, t: xt.tile_reduce("add", v, 0), "XT1226"),
    (lambda v, t: xt.store_tile(v.to(xt.i8), t), "XT1131"),
    (lambda v, t: xt.tile_transpose(t), "XT1225"),
    (lambda v, t: xt.store_tile(v.to(xt.f32).to(xt.u4), t), "XT1131"),
    (lambda v, t: xt.tile_mma(v, v.to(xt.i8)), "XT1251"),
    (lambda v, t: xt.load_tile(t, padding=1), "XT1125"),
    (lambda v, t: xt.update_tile_offset(t, 0, 3), "XT1133"),
    (lambda v, t: xt.update_tile_offset(t, 0, xt.group_id(0)), "XT1133"),
    (lambda v, t: xt.zeros((8, 16), xt.i4), "XT3271"),
])
def test_mistakes(wrong: Any, code: str) -> None:
    @xt.kernel
    def kernel(A):
        tile = xt.init_tile(A, (0, 0), (8, 16))
        wrong(xt.load_tile(tile), tile)

    with pytest.raises(xt.XeError, match=code) as caught:
        kernel.lower(xt.Spec((None, None), xt.i4))
    assert caught.value.hint
    assert caught.value.location.line
