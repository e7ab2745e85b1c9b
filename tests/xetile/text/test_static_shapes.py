"""Memrefs of static shape: they describe themselves, in text of every stage and in every execution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, Execution, integers, product

pytestmark = pytest.mark.unoptimised

ROWS = "memref<64x128xbf16>"
COLUMNS = "memref<128x96xbf16, affine_map<(d0, d1) -> (d1, d0)>>"
STRIDED = "memref<128x96xbf16, strided<[1, 128]>>"


def gemm(b_type: str, encoding: str = ", #xetile.tile_attr<order = [0, 1]>", operands: str = "") -> str:
    """A 64x96x128 product by tiles of 16x32, B of the given type."""
    return f"""
func.func @gemm(%A : {ROWS}, %B : {b_type}, %C : memref<64x96xf32>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  %c96 = arith.constant 96 : index
  %c128 = arith.constant 128 : index
  %x = "gpu.block_id"() <{{dimension = #gpu<dim x>}}> : () -> index
  %y = "gpu.block_id"() <{{dimension = #gpu<dim y>}}> : () -> index
  %m = arith.muli %x, %c16 : index
  %n = arith.muli %y, %c32 : index
  %zero = arith.constant 0.0 : f32
  %start = vector.broadcast %zero : f32 to vector<16x32xf32>
  %a0 = xetile.init_tile %A, [%m, %c0] : {ROWS} -> !xetile.tile<16x32xbf16>
  %b0 = xetile.init_tile %B, [%c0, %n]{operands} : {b_type} -> !xetile.tile<32x32xbf16{encoding}>
  %r:3 = scf.for %k = %c0 to %c128 step %c32 iter_args(%acc = %start, %a = %a0, %b = %b0)
      -> (vector<16x32xf32>, !xetile.tile<16x32xbf16>, !xetile.tile<32x32xbf16{encoding}>) {{
    %va = xetile.load_tile %a : !xetile.tile<16x32xbf16> -> vector<16x32xbf16>
    %vb = xetile.load_tile %b : !xetile.tile<32x32xbf16{encoding}> -> vector<32x32xbf16>
    %d = xetile.tile_mma %va, %vb, %acc : vector<16x32xbf16>, vector<32x32xbf16>, vector<16x32xf32> -> vector<16x32xf32>
    %a2 = xetile.update_tile_offset %a, [%c0, %c32] : !xetile.tile<16x32xbf16> -> !xetile.tile<16x32xbf16>
    %b2 = xetile.update_tile_offset %b, [%c32, %c0] : !xetile.tile<32x32xbf16{encoding}> -> \
!xetile.tile<32x32xbf16{encoding}>
    scf.yield %d, %a2, %b2 : vector<16x32xf32>, !xetile.tile<16x32xbf16>, !xetile.tile<32x32xbf16{encoding}>
  }}
  %c = xetile.init_tile %C, [%m, %n] : memref<64x96xf32> -> !xetile.tile<16x32xf32>
  xetile.store_tile %r#0, %c : vector<16x32xf32>, !xetile.tile<16x32xf32>
  func.return
}}
"""


def data(*, by_columns: bool) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(1)
    a, b = integers(rng, xt.bf16, 64, 128), integers(rng, xt.bf16, 128, 96)
    return a, b.T.copy().T if by_columns else b, np.full((64, 96), 7, np.float32)


PROGRAMS = {"row-major": (gemm("memref<128x96xbf16>", ""), False), "affine map": (gemm(COLUMNS), True),
            "strides": (gemm(STRIDED), True)}


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_static_shapes_run_everywhere(name: str, execution: Execution) -> None:
    text, by_columns = PROGRAMS[name]
    a, b, c = data(by_columns=by_columns)
    execution.bind(xt.parse(text)["gemm"])[4, 3](a, b, c)
    np.testing.assert_array_equal(c, product(a, b, xt.f32))


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("target", ["pvc", "dg2"])
def test_every_stage_goes_round(name: str, target: str) -> None:
    text, by_columns = PROGRAMS[name]
    a, b, c = data(by_columns=by_columns)
    for stage, printed in xt.parse(text)["gemm"].lower(a, b, c, target=target).stages.items():
        read = xt.parse(printed)  # once: reading takes longer than running
        assert str(read) == printed, stage
        c[...] = 7
        read["gemm"].on("numpy", target=target)[4, 3](a, b, c)
        np.testing.assert_array_equal(c, product(a, b, xt.f32), err_msg=stage)


def test_the_machine_code_reads_blocks() -> None:
    require_ocloc()
    for name, message in (("row-major", "load_block2d"), ("affine map", "load_block2d")):
        text, by_columns = PROGRAMS[name]
        specs = [xt.Spec((64, 128), "bf16"),
                 xt.Spec((128, 96), "bf16", (1, 128) if by_columns else None), xt.Spec((64, 96), "f32")]
        report = xt.parse(text)["gemm"].lower(*specs, target="pvc").report()
        assert report.spill_size == 0
        assert report.loop[message] >= 2


def test_a_transposed_use_of_a_static_array_is_folded() -> None:
    text = gemm("memref<128x96xbf16>", "").replace("%B : memref<128x96xbf16>", "%B : memref<96x128xbf16>") \
        .replace("init_tile %B, [%c0, %n] : memref<128x96xbf16>", "init_tile %B, [%n, %c0] : memref<96x128xbf16>") \
        .replace("%vb = xetile.load_tile %b : !xetile.tile<32x32xbf16> -> vector<32x32xbf16>",
                 "%vt = xetile.load_tile %b : !xetile.tile<32x32xbf16> -> vector<32x32xbf16>\n    %vb = xetile."
                 "tile_transpose %vt {permutation = [1, 0]} : vector<32x32xbf16> -> vector<32x32xbf16>") \
        .replace("%b, [%c32, %c0]", "%b, [%c0, %c32]")
    a, b, c = data(by_columns=False)
    turned = np.ascontiguousarray(b.T)
    for execution in ("numpy", "numpy:xegpu"):
        c[...] = 7
        xt.parse(text)["gemm"].on(execution)[4, 3](a, turned, c)
        np.testing.assert_array_equal(c, product(a, b, xt.f32))
    lowered = xt.parse(text)["gemm"].lower(a, turned, c)
    assert "memref.cast" in lowered.stages["row-major"]
    assert "read_transpose" in lowered.opencl


WRONG = {
    "row-major order on columns": (gemm(COLUMNS, ", #xetile.tile_attr<order = [1, 0]>"), "XT2130"),
    "no order on columns": (gemm(COLUMNS, ""), "XT2130"),
    "columns' order on rows": (gemm("memref<128x96xbf16>"), "XT2131"),
    "dynamic without operands": (gemm("memref<?x?xbf16>", ""), "XT3023"),
    "strides missing": (gemm("memref<?x?xbf16>", "", ", [%c128, %c96], []"), "XT3024"),
    "another size": (gemm("memref<128x96xbf16>", "", ", [%c128, %c128], [%c96, %c1]"), "XT3025"),
    "another stride": (gemm("memref<128x96xbf16>", "", ", [%c128, %c96], [%c128, %c1]"), "XT3025"),
    "an offset too many": (gemm("memref<128x96xbf16>", "").replace("[%c0, %n]", "[%c0, %n, %n]"), "XT3022"),
}


@pytest.mark.parametrize("name", WRONG)
def test_contradictions_are_verifier_errors(name: str) -> None:
    text, code = WRONG[name]
    with pytest.raises(xt.TextError) as caught:
        xt.parse(text)
    assert caught.value.code == code


def test_operands_that_agree_are_taken() -> None:
    text = gemm("memref<128x96xbf16>", "", ", [%c128, %c96], [%c96, %c1]")
    a, b, c = data(by_columns=False)
    xt.parse(text)["gemm"][4, 3](a, b, c)
    np.testing.assert_array_equal(c, product(a, b, xt.f32))
    assert "read_transform" in xt.parse(text)["gemm"].lower(
        xt.Spec((64, 128), "bf16"), xt.Spec((128, 96), "bf16"), xt.Spec((64, 96), "f32")).opencl


def test_an_array_of_another_shape_is_refused() -> None:
    kernel = xt.parse(PROGRAMS["affine map"][0])["gemm"]
    a, b, c = data(by_columns=True)
    with pytest.raises(xt.ShapeError, match="XT2029"):
        kernel[4, 3](np.ascontiguousarray(a[:, :64]), b, c)
    with pytest.raises(xt.ShapeError, match="XT2029"):
        kernel[4, 3](a, np.ascontiguousarray(b), c)
    assert (c == 7).all()


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu"])
def test_the_order_of_a_run_time_array_is_checked_before_anything_runs(where: str) -> None:
    @xt.kernel
    def copied(A, C, *, order=(1, 0)):
        xt.store_tile(xt.load_tile(xt.init_tile(A, (0, 0), (16, 32), order=order)), xt.init_tile(C, (0, 0), (16, 32)))

    a = integers(np.random.default_rng(2), xt.f32, 16, 32)
    by_columns, c = a.T.copy().T, np.full((16, 32), 7, np.float32)
    with pytest.raises(xt.ShapeError, match="XT2131"):
        copied.on(where)[1](a, c, order=(0, 1))
    assert (c == 7).all()
    for array, order in ((a, (1, 0)), (by_columns, (0, 1)), (by_columns, (1, 0))):
        c[...] = 7
        copied.on(where)[1](array, c, order=order)
        np.testing.assert_array_equal(c, a)


LINES = """
func.func @lines(%A: memref<50xf32>, %B: memref<16x32xf32>, %C: memref<64xf32>, %D: memref<24xf32>) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %nine = arith.constant 9.0 : f32
  %v = vector.transfer_read %A[%c3], %nine : memref<50xf32>, vector<64xf32>
  vector.transfer_write %v, %C[%c2] : vector<64xf32>, memref<64xf32>
  %w = vector.transfer_read %B[%c2, %c3], %nine {permutation_map = affine_map<(d0, d1) -> (d0)>} : memref<16x32xf32>, vector<16xf32>
  vector.transfer_write %w, %D[%c3] : vector<16xf32>, memref<24xf32>
  return
}
"""  # noqa: E501


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_transfers_of_arrays_of_one_dimension(execution: Execution) -> None:
    rng = np.random.default_rng(3)
    a, b, c, d = (integers(rng, xt.f32, *shape) for shape in ((50,), (16, 32), (64,), (24,)))
    line, column = np.full(64, 9, np.float32), np.full(16, 9, np.float32)
    line[:47], column[:14] = a[3:], b[2:, 3]
    want = np.concatenate([c[:2], line[:62]]), np.concatenate([d[:3], column, d[19:]])
    execution.bind(xt.parse(LINES)["lines"])[1](a, b, c, d)
    np.testing.assert_array_equal(c, want[0])
    np.testing.assert_array_equal(d, want[1])
