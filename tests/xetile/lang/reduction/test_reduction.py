"""Reductions, broadcasts and transpositions of a subgroup's vectors, in every execution and in machine code."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

import xetile as xt
from benchmarks.code_snapshot.kernels import broadcasts
from tests.conftest import require_ocloc
from tests.kernels import DEVICE, EXECUTIONS, LANES, Execution
from tests.xetile.dialect.test_vector import exact, wanted
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.mlir.combining_kind import kinds_of
from xegpu.target.targets import find_target

pytestmark = pytest.mark.unoptimised

RNG = np.random.default_rng(41)
TYPES = [dtypes.f32, dtypes.f16, dtypes.bf16, dtypes.f64, dtypes.i8, dtypes.i16, dtypes.i32, dtypes.i64, dtypes.u8,
         dtypes.u32]


def has(execution: Execution, dtype: DType) -> bool:
    """Whether an execution supports arithmetic of an element type; dg2 has no 64-bit floats."""
    return execution.where == "numpy" or dtype not in find_target(execution.target).unsupported_types


SHAPES = [(16, 32), (24, 48), (3, 16), (2, 4), (5, 7), (1, 20), (32, 1), (40, 8)]


@xt.kernel
def all_kinds(A, ROWS, COLUMNS, ALL, *, kinds=(), rows=16, columns=32):
    """Every kind along rows, columns and both; results stand below each other."""
    v = xt.load_tile(xt.init_tile(A, (0, 0), (rows, columns)))
    for i, kind in enumerate(kinds):
        xt.store_tile(xt.tile_reduce(kind, v, 1), xt.init_tile(ROWS, (i * rows, 0), (rows, 1)))
        xt.store_tile(xt.tile_reduce(kind, v, 0), xt.init_tile(COLUMNS, (i, 0), (1, columns)))
        xt.store_tile(xt.tile_reduce(kind, v, (0, 1)), xt.init_tile(ALL, (i, 0), (1, 1)))


@pytest.mark.parametrize(("dtype", "execution"), [
    (dtype, execution) for i, dtype in enumerate(TYPES) for execution in (LANES[0], LANES[2], DEVICE[i % len(DEVICE)])
    if has(execution, dtype)], ids=str)
def test_every_kind_of_every_type(dtype: DType, execution: Execution) -> None:
    rows, columns = (24, 48) if dtype.bits == 32 else (16, 32)
    for kinds in ([kind for kind in kinds_of(dtype) if kind != "mul"], ["mul"]):
        a = exact(dtype, (rows, columns), kinds[0])
        found = [np.zeros(shape, dtype.numpy) for shape in ((len(kinds) * rows, 1), (len(kinds), columns),
                                                            (len(kinds), 1))]
        execution.bind(all_kinds)[1,](a, *found, kinds=tuple(kinds), rows=rows, columns=columns)
        for axis, result in zip((1, 0, (0, 1)), found, strict=True):
            expected = np.concatenate([wanted(kind, a, axis, dtype) for kind in kinds])
            np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("dtype", [dtypes.i64, dtypes.u64], ids=str)
@pytest.mark.parametrize("execution", DEVICE, ids=str)
def test_bits_of_64_bit_words_across_all_lanes(dtype: DType, execution: Execution) -> None:
    """Fewer rows than lanes: lanes are combined that hold no other row, which Intel's compiler has lost."""
    a = RNG.integers(np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max, (3, 32), dtype.numpy, endpoint=True)
    kinds = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "add": np.add}
    a[:, :30] |= dtype.numpy.type(-1 if dtype.signed else 2**64 - 1) << dtype.numpy.type(7)  # "and" is not zero
    found = [np.zeros(shape, dtype.numpy) for shape in ((len(kinds) * 3, 1), (len(kinds), 32), (len(kinds), 1))]
    execution.bind(all_kinds)[1,](a, *found, kinds=tuple(kinds), rows=3, columns=32)
    for axis, result in zip((1, 0, (0, 1)), found, strict=True):
        expected = np.concatenate([ufunc.reduce(a, axis, keepdims=True, dtype=a.dtype) for ufunc in kinds.values()])
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_they_compose_with_operators(shape: tuple[int, int], execution: Execution) -> None:
    dtype = TYPES[SHAPES.index(shape) % 3]
    a, r, c, s = (exact(dtype, size, "add") for size in (shape, (1, shape[1]), (shape[0], 1), (1, 1)))
    b = np.zeros(shape[::-1], dtype.numpy)
    execution.bind(broadcasts)[1,](a, r, c, s, b, rows=shape[0], columns=shape[1])
    av, rv, cv, sv = (x.astype(np.float64) for x in (a, r, c, s))
    e = av * rv + cv - sv * (rv + cv) - av.max(1, keepdims=True) + av.min(0, keepdims=True)
    if shape[0] != 1 and shape[1] != 1:
        np.testing.assert_array_equal(b, (e.T + 2 * cv.T).astype(dtype.numpy))
    else:
        np.testing.assert_array_equal(b.astype(np.float64), e.T + 2 * cv.T)


@xt.kernel
def transposed(A, B, *, rows=16, columns=32):
    v = xt.load_tile(xt.init_tile(A, (0, 0), (rows, columns)))
    xt.store_tile(xt.tile_transpose(v + v), xt.init_tile(B, (0, 0), (columns, rows)))


TURNED = [(shape, dtype) for shape in [(32, 32), (24, 48), (16, 2), (2, 16), (12, 20)]
          for dtype in (dtypes.f32, dtypes.bf16, dtypes.i8, dtypes.f64)]


@pytest.mark.parametrize(("shape", "dtype", "execution"), [
    (*case, execution) for i, case in enumerate(TURNED) for execution in (LANES[0], LANES[2], DEVICE[i % len(DEVICE)])
    if has(execution, case[1])], ids=str)
def test_what_is_computed_is_transposed(shape: tuple[int, int], dtype: DType, execution: Execution) -> None:
    a = np.arange(shape[0] * shape[1]).reshape(shape) % 120
    b = np.zeros(shape[::-1], dtype.numpy)
    execution.bind(transposed)[1,](a.astype(dtype.numpy), b, rows=shape[0], columns=shape[1])
    np.testing.assert_array_equal(b, (2 * a.T).astype(dtype.numpy))


@xt.kernel
def turned_product(A, B, C, *, M=8, N=16, K=32):
    """Both operands are computed, then transposed."""
    a = xt.load_tile(xt.init_tile(A, (0, 0), (K, M)))
    b = xt.load_tile(xt.init_tile(B, (0, 0), (N, K)))
    product = xt.tile_mma(xt.tile_transpose(a + xt.full((K, M), 1, A.dtype)), xt.tile_transpose(b + b))
    xt.store_tile(product, xt.init_tile(C, (0, 0), (M, N)))


@pytest.mark.parametrize(("name", "execution"), [
    (name, execution) for name in ("bf16", "f16", "i8", "f32", "tf32") for execution in EXECUTIONS
    if (name, execution.target) != ("tf32", "dg2")  # whose matrix engine does not take it
], ids=str)
def test_operands_may_be_transposed_after_they_are_computed(name: str, execution: Execution) -> None:
    dtype = dtypes.of(name)
    a, b = (RNG.integers(-3, 4, shape).astype(dtype.numpy) for shape in ((32, 8), (16, 32)))
    c = np.zeros((8, 16), np.float32 if dtype.is_float else np.int32)
    execution.bind(turned_product)[1,](xt.view(a, dtype), xt.view(b, dtype), c)
    np.testing.assert_array_equal(c, (a.astype(np.float64) + 1).T @ (2 * b.astype(np.float64)).T)


@xt.kernel
def softmax_sums(A, M, L, *, rows=16, step=32):
    """The largest of each row and the sum of powers of two from it, found in one sweep: both are carried."""
    a = xt.init_tile(A, (0, 0), (rows, step))
    largest, total = xt.full((rows, 1), -1e30, xt.f32), xt.zeros((rows, 1), xt.f32)
    for _ in xt.range(0, A.shape[1], step):
        v = xt.load_tile(a, padding=-1e30)
        new = xt.maximum(largest, xt.tile_reduce("maxnumf", v, 1))
        total = total * xt.exp2(largest - new) + xt.tile_reduce("add", xt.exp2(v - new), 1)
        largest, a = new, xt.update_tile_offset(a, 0, step)
    xt.store_tile(largest, xt.init_tile(M, (0, 0), (rows, 1)))
    xt.store_tile(total, xt.init_tile(L, (0, 0), (rows, 1)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("rows", [16, 8, 24, 5])
def test_columns_are_carried_by_loops(rows: int, execution: Execution) -> None:
    a = RNG.integers(-9, 9, (rows, 100)).astype(np.float32)
    largest, total = np.zeros((2, rows, 1), np.float32)
    execution.bind(softmax_sums)[1,](a, largest, total, rows=rows)
    np.testing.assert_array_equal(largest, a.max(1, keepdims=True))
    np.testing.assert_allclose(total, np.exp2(a - a.max(1, keepdims=True)).sum(1, keepdims=True), rtol=1e-6)


NAN_KINDS = ("minnumf", "maxnumf", "minimumf", "maximumf")


@pytest.mark.parametrize(("dtype", "execution"), [(dtype, execution) for dtype in TYPES[:4] for execution in EXECUTIONS
                                                  if has(execution, dtype)], ids=str)
def test_nan(dtype: DType, execution: Execution) -> None:
    a = RNG.integers(-9, 9, (16, 32)).astype(dtype.numpy)
    a[3, 5] = a[3, 21] = a[7, 0] = a[8, 31] = np.nan
    a[7, 1], a[3, 4], a[12, 9], a[12, 30] = -np.inf, np.inf, np.inf, -np.inf
    a[5] = np.nan
    found = [np.zeros(shape, dtype.numpy) for shape in ((4 * 16, 1), (4, 32), (4, 1))]
    execution.bind(all_kinds)[1,](a, *found, kinds=NAN_KINDS)
    for axis, result in zip((1, 0, (0, 1)), found, strict=True):
        expected = np.concatenate([wanted(kind, a, axis, dtype) for kind in NAN_KINDS])
        np.testing.assert_array_equal(result.astype(np.float64), expected.astype(np.float64))


@xt.kernel
def rows_of_kinds(A, ROWS, *, kinds=(), rows=16, columns=32):
    v = xt.load_tile(xt.init_tile(A, (0, 0), (rows, columns)))
    for i, kind in enumerate(kinds):
        xt.store_tile(xt.tile_reduce(kind, v, 1), xt.init_tile(ROWS, (i * rows, 0), (rows, 1)))


@pytest.mark.parametrize(("gpu", "dtype", "rows"), [("pvc", dtypes.f32, 24), ("bmg", dtypes.bf16, 16)], ids=str)
def test_rows_by_register_regions_in_machine_code(gpu: str, dtype: DType, rows: int) -> None:
    """Regions in vISA are machine code alone: other executions run the portable text."""
    require_ocloc()
    for kinds in (NAN_KINDS, ("add", "mul")):
        a = exact(dtype, (rows, 32), kinds[-1])
        if kinds is NAN_KINDS:
            a[3, 5] = a[3, 11] = a[7, 0] = a[5, 15] = a[6] = np.nan
            a[7, 1], a[3, 4], a[2, 9], a[rows - 1, 13] = -np.inf, np.inf, np.inf, -np.inf
        found = np.zeros((len(kinds) * rows, 1), dtype.numpy)
        rows_of_kinds.on(f"machine:{gpu}")[1,](a, found, kinds=kinds, rows=rows, columns=a.shape[1])
        expected = np.concatenate([wanted(kind, a, 1, dtype) for kind in kinds])
        np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("dtype", TYPES[1:3], ids=str)
def test_sums_are_rounded_once(dtype: DType, execution: Execution) -> None:
    a = RNG.integers(-64, 65, (16, 64)).astype(dtype.numpy)
    a[:, ::16] *= 32
    found = [np.zeros(shape, dtype.numpy) for shape in ((16, 1), (1, 64), (1, 1))]
    execution.bind(all_kinds)[1,](a, *found, kinds=("add",), columns=64)
    for axis, result in zip((1, 0, (0, 1)), found, strict=True):
        np.testing.assert_array_equal(result, a.astype(np.float64).sum(axis, keepdims=True).astype(dtype.numpy))


@xt.kernel
def row_sums(A, B):
    v = xt.load_tile(xt.init_tile(A, (0, 0), (16, 16)))
    xt.store_tile(xt.tile_reduce("add", v, 1), xt.init_tile(B, (0, 0), (16, 1)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_sums_of_tf32_are_those_of_f32(execution: Execution) -> None:
    """Only a conversion rounds to tf32, as in all arithmetic on it."""
    a = (RNG.integers(-(1 << 14), 1 << 14, (16, 16)) / 4096).astype(np.float32)
    sums = np.zeros((16, 1), np.float32)
    execution.bind(row_sums)[1](xt.view(a, xt.tf32), xt.view(sums, xt.tf32))
    np.testing.assert_array_equal(sums, a.sum(1, keepdims=True))


@pytest.mark.parametrize("target", ["pvc", "dg2"])
def test_text_of_every_stage_reads_back_and_means_the_same(target: str) -> None:
    a, r, c, s = (exact(dtypes.f32, size, "add") for size in ((24, 48), (1, 48), (24, 1), (1, 1)))
    wanted_, found = np.zeros((2, 48, 24), np.float32)
    options = {"rows": 24, "columns": 48}
    broadcasts.on("numpy")[1,](a, r, c, s, wanted_, **options)
    for text in broadcasts.lower(a, r, c, s, found, target=target, **options).stages.values():
        parsed = xt.parse(text)
        assert str(parsed) == text
        found[:] = 0
        parsed["broadcasts"].on("numpy:xegpu", target=target)[1,](a, r, c, s, found)
        np.testing.assert_array_equal(found, wanted_)


BROKEN = [
    ("to-xegpu", "axes = [1 : i64]} : vector<8x16xf32>", "axes = [2 : i64]} : vector<8x16xf32>", "XT3251"),
    ("to-xegpu", 'kind = "maximumf"', 'kind = "maxsi"', "XT3256"),
    ("to-xegpu", 'kind = "maximumf"', 'kind = "max"', "XT3255"),
    ("to-xegpu", ", [1, 0] :", ", [0, 1] :", "XT3223"),
    ("distribute-lanes", "block = [8 : i64, 16 : i64]", "block = [4 : i64, 16 : i64]", "XT3253"),
]


@pytest.mark.parametrize(("stage", "old", "new", "message"), BROKEN)
def test_broken_blocks(stage: str, old: str, new: str, message: str) -> None:
    shapes = (24, 48), (1, 48), (24, 1), (1, 1), (48, 24)
    specs = [xt.Spec(shape, xt.f32) for shape in shapes]
    text = broadcasts.lower(*specs, target="pvc", rows=24, columns=48).stages[stage]
    assert old in text
    with pytest.raises(xt.XeError, match=message):
        _ = xt.parse(text.replace(old, new, 1))


@xt.kernel
def centred(A, B, *, rows=8, columns=64, kind="add"):
    """Rows without their sums."""
    v = xt.load_tile(xt.init_tile(A, (0, 0), (rows, columns)))
    xt.store_tile(v - xt.tile_reduce(kind, v, 1), xt.init_tile(B, (0, 0), (rows, columns)))


@xt.kernel
def centred_columns(A, B, *, rows=8, columns=64, kind="add"):
    """Columns without their sums."""
    v = xt.load_tile(xt.init_tile(A, (0, 0), (rows, columns)))
    xt.store_tile(v - xt.tile_reduce(kind, v, 0), xt.init_tile(B, (0, 0), (rows, columns)))


def mix(kernel: Any, target: str, dtype: DType, shape: tuple[int, int], **options: Any) -> Counter[str]:
    """Counts of instructions in the machine code of a kernel; all is done in registers."""
    require_ocloc()
    spec = xt.Spec((256, 256), dtype)
    lowered = kernel.lower(spec, spec, target=target, rows=shape[0], columns=shape[1], **options)
    report, text = lowered.report(), str(lowered.isa())
    assert (report.spill_size, report.private_size, report.slm_size) == (0, 0, 0)
    assert "send.slm" not in text
    return Counter(re.findall(r"^(?:\([^)]*\))?\s+([a-z][\w.]*) \(", text, re.MULTILINE))


@xt.kernel
def doubled(A, B, *, rows=8, columns=64):
    v = xt.load_tile(xt.init_tile(A, (0, 0), (rows, columns)))
    xt.store_tile(v + v, xt.init_tile(B, (0, 0), (rows, columns)))


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_rows_are_reduced_by_regions_and_go_back_as_regions(target: str) -> None:
    more = mix(centred, target, dtypes.f32, (8, 64))
    more.subtract(mix(doubled, target, dtypes.f32, (8, 64)))
    combinations = 4 + 2 + 1
    assert more["sel"] <= 0
    assert more["add"] <= 3 * 8 + combinations + 1  # blocks, registers, and the last one with itself
    assert more["mov"] <= 2 * (combinations + 1) + 4  # the broadcasts are regions of one register
    assert not +Counter({name: more[name] for name in ("goto", "jmpi", "send.ugm")})


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_columns_are_reduced_without_moving(target: str) -> None:
    more = mix(centred_columns, target, dtypes.f32, (8, 64))
    more.subtract(mix(doubled, target, dtypes.f32, (8, 64)))
    assert +more == Counter({"add": 4 * 7})


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_sixteen_rows_fill_the_lanes(target: str) -> None:
    found = mix(centred, target, dtypes.f32, (16, 16), kind="maxnumf")
    assert found["sel"] <= 8 + 4 + 2 + 1  # the maxima, which are selects themselves


@pytest.mark.parametrize(("target", "dtype", "shape", "selects"), [
    ("pvc", dtypes.u32, (16, 16), 4 * 8 * 3), ("bmg", dtypes.u32, (16, 16), 4 * 8 * 3),
    ("pvc", dtypes.bf16, (32, 32), 2 * 4 * 8 * 3), ("bmg", dtypes.f16, (32, 32), 2 * 4 * 8 * 3),
    ("pvc", dtypes.i8, (64, 64), 4 * 4 * 8 * 3)], ids=str)
def test_squares_are_transposed_by_four_exchanges(target: str, dtype: DType, shape: tuple[int, int],
                                                  selects: int) -> None:
    assert mix(transposed, target, dtype, shape)["sel"] == selects


SPILLS = pytest.mark.xfail(strict=True, reason="dg2 spills 288 bytes here")


@pytest.mark.parametrize(("kernel", "dtype"), [
    pytest.param(kernel, dtype, marks=[SPILLS] if dtype is dtypes.f32 and kernel is not centred_columns else [])
    for kernel in (centred, centred_columns, transposed) for dtype in (dtypes.f32, dtypes.bf16, dtypes.i32)])
def test_dg2_keeps_them_in_registers(kernel: Any, dtype: DType) -> None:
    mix(kernel, "dg2", dtype, (16, 32))


@xt.kernel
def centred_in_blocks(A, C, R, *, blocks=(8, 16)):
    """Rows reduced in the author's blocks, and subtracted from every row."""
    a = xt.load_tile(xt.init_tile(A, (0, 0), (32, 32), inner_blocks=blocks))
    rows = xt.tile_unpack(xt.tile_reduce("add", a, 1))
    xt.store_tile(rows, xt.init_tile(R, (0, 0), (32, 1)))
    xt.store_tile(a - xt.tile_pack(xt.tile_broadcast(rows, (32, 32)), blocks),
                  xt.init_tile(C, (0, 0), (32, 32), inner_blocks=blocks))


BLOCKED = "!xetile.tile<32x32xf32, #xetile.tile_attr<inner_blocks = [8, 16]>>"
IN_BLOCKS = f"""func.func @spread(%A: memref<32x32xf32>, %C: memref<32x32xf32>, %R: memref<1x32xf32>) {{
  %c0 = arith.constant 0 : index
  %a = xetile.init_tile %A, [%c0, %c0] : memref<32x32xf32> -> {BLOCKED}
  %v = xetile.load_tile %a : {BLOCKED} -> vector<4x2x8x16xf32>
  %r = xetile.tile_reduce <add> %v [0, 2] : vector<4x2x8x16xf32> -> vector<1x2x1x16xf32>
  %u = xetile.tile_unpack %r {{inner_blocks = [1, 16]}} : vector<1x2x1x16xf32> -> vector<1x32xf32>
  %s = xetile.init_tile %R, [%c0, %c0] : memref<1x32xf32> -> !xetile.tile<1x32xf32>
  xetile.store_tile %u, %s : vector<1x32xf32>, !xetile.tile<1x32xf32>
  %b = xetile.tile_broadcast %r [0, 2] : vector<1x2x1x16xf32> -> vector<4x2x8x16xf32>
  %c = xetile.init_tile %C, [%c0, %c0] : memref<32x32xf32> -> {BLOCKED}
  xetile.store_tile %b, %c : vector<4x2x8x16xf32>, {BLOCKED}
  func.return
}}"""


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_the_authors_blocks_are_reduced_and_repeated(execution: Execution) -> None:
    a = RNG.integers(-9, 9, (32, 32)).astype(np.float32)
    c, rows, columns = np.zeros((32, 32), np.float32), np.zeros((32, 1), np.float32), np.zeros((1, 32), np.float32)
    execution.bind(centred_in_blocks)[1,](a, c, rows)
    np.testing.assert_array_equal(rows, a.sum(1, keepdims=True))
    np.testing.assert_array_equal(c, a - rows)
    execution.bind(xt.parse(IN_BLOCKS)["spread"])[1,](a, c, columns)
    np.testing.assert_array_equal(columns, a.sum(0, keepdims=True))
    np.testing.assert_array_equal(c, np.broadcast_to(columns, (32, 32)))


def test_a_broadcast_to_blocks_says_what_to_do() -> None:
    @xt.kernel
    def wrong(A):
        xt.tile_broadcast(xt.load_tile(xt.init_tile(A, (0, 0), (32, 32), inner_blocks=(8, 16))), (32, 64))

    with pytest.raises(xt.ShapeError, match="XT1222") as caught:
        wrong[1](np.zeros((32, 32), np.float32))
    assert "xt.tile_unpack(v)" in caught.value.hint
