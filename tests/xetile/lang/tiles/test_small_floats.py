"""8-bit floats (E4M3, E5M2): loaded, stored, widened on every target, multiplied as they are on cri."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_dpnp, require_ocloc
from tests.kernels import DEVICE, LANES, NUMPY, Execution, gemm, gemm_shared, integers
from xegpu.ir.dtypes import DType
from xetile.library.scaled_matmul import scaled_product
from xetile.library.tile_heuristics import BLOCK_IO

CRI = [NUMPY, Execution("numpy:xegpu", "cri"), Execution("opencl:cpu", "cri")]
PAIRS = [(a, b) for a in (xt.e4m3, xt.e5m2) for b in (xt.e4m3, xt.e5m2)]


def bordered(rows: int, columns: int) -> np.ndarray[Any, Any]:
    return np.full((rows + 2, columns + 3), 7, np.float32)


@pytest.mark.parametrize(("a_type", "b_type", "execution"), [
    (a, b,
     execution) for a, b in PAIRS for execution in CRI if execution.where.startswith("numpy") or a is not b], ids=str)
def test_products_as_they_are(a_type: DType, b_type: DType, execution: Execution) -> None:
    rng = np.random.default_rng(3)
    a, b = integers(rng, a_type, 21, 96, most=4), integers(rng, b_type, 96, 43, most=4)
    c = bordered(21, 43)
    execution.bind(gemm)[2, 2](a, b, c[1:-1, 1:-2], BM=16, BN=32, BK=32)
    np.testing.assert_array_equal(c[1:-1, 1:-2], a.astype(np.float32) @ b.astype(np.float32))
    c[1:-1, 1:-2] = 7
    assert (c == 7).all()


@pytest.mark.parametrize("execution", CRI, ids=str)
def test_products_of_a_work_group_and_of_transposed_views(execution: Execution) -> None:
    rng = np.random.default_rng(4)
    a, b = integers(rng, xt.e4m3, 64, 128, most=4), integers(rng, xt.e5m2, 64, 128, most=4).T
    c = bordered(64, 64)
    execution.bind(gemm_shared)[1, 1](a, b, c[1:-1, 1:-2], BM=64, BN=64, BK=64, sg=(2, 2), data_a=(32, 64),
                                      data_b=(64, 32),
                                      data_c=(32, 32))
    np.testing.assert_array_equal(c[1:-1, 1:-2], a.astype(np.float32) @ b.astype(np.float32))


@xt.kernel
def widened(A, C, D, E):
    v = xt.load_tile(xt.init_tile(A, (0, 0), (16, 32)))
    for out in (C, D, E):
        xt.store_tile(v.to(out.dtype), xt.init_tile(out, (0, 0), (16, 32)))


def nan_bits(code: int, source: DType, target: np.dtype[Any]) -> int:
    """The bits of a NaN of 8 bits as a wider type: sign, quiet bit (not of E5M2 in f16), the other bits of E5M2."""
    bits, mantissa = {"float16": (16, 10), "bfloat16": (16, 7), "float32": (32, 23)}[target.name]
    infinity = (1 << (bits - 1)) - (1 << mantissa)
    fraction = 2 if source is xt.e4m3 else code & 3 | (0 if target == np.float16 else 2)
    return code >> 7 << (bits - 1) | infinity | fraction << (mantissa - 2)


@pytest.mark.unoptimised
@pytest.mark.parametrize("execution", [NUMPY, *LANES, *DEVICE], ids=str)
@pytest.mark.parametrize("dtype", [xt.e4m3, xt.e5m2], ids=str)
def test_every_number_is_widened_exactly(dtype: DType, execution: Execution) -> None:
    every = np.tile(np.arange(256, dtype=np.uint8).reshape(16, 16), 2)[:, :31].view(dtype.numpy)
    outs = [np.full((16, 32), 7, kind) for kind in (np.float16, np.float32, ml_dtypes.bfloat16)]
    execution.bind(widened)[1,](every, *(out[:, :31] for out in outs))
    for out in outs:
        np.testing.assert_array_equal(out[:, :31].astype(np.float32), every.astype(np.float32))
        assert (out[:, 31] == 7).all()
        nan = np.isnan(every)
        words = {2: np.uint16, 4: np.uint32}[out.itemsize]
        expected = [nan_bits(int(code), dtype, out.dtype) for code in every[nan].view(np.uint8)]
        np.testing.assert_array_equal(out[:, :31][nan].view(words), np.array(expected, words))


@xt.kernel
def moved(A, C):
    xt.store_tile(xt.tile_transpose(xt.load_tile(xt.init_tile(A, (1, 0), (16, 16)))), xt.init_tile(C, (0, 0), (16, 16)))


@pytest.mark.unoptimised
@pytest.mark.parametrize("execution", [NUMPY, *DEVICE], ids=str)
def test_what_is_stored_is_what_was_loaded(execution: Execution) -> None:
    a = integers(np.random.default_rng(5), xt.e5m2, 16, 16)
    c = np.full((16, 16), 7, a.dtype)
    execution.bind(moved)[1,](a, c)
    np.testing.assert_array_equal(c[:, :15].view(np.uint8), a[1:].T.view(np.uint8))
    assert (c[:, 15].view(np.uint8) == 0).all()


def test_the_text_of_each_stage_reads_back() -> None:
    specs = [xt.Spec((None, None), dtype) for dtype in (xt.e4m3, xt.e5m2, xt.f32)]
    low = gemm.lower(*specs, target="cri", BM=16, BN=32, BK=32)
    assert "f8E4M3FN" in low.xetile
    assert "f8E5M2" in low.xegpu
    rng = np.random.default_rng(6)
    a, b = integers(rng, xt.e4m3, 16, 64, most=4), integers(rng, xt.e5m2, 64, 32, most=4)
    for text in low.stages.values():
        c = np.zeros((16, 32), np.float32)
        xt.parse(text)["gemm"].on("numpy")[1, 1](a, b, c)
        np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize(("a_type", "b_type"), PAIRS, ids=str)
def test_the_engine_takes_them_in_machine_code(a_type: DType, b_type: DType) -> None:
    require_ocloc()
    tile = BLOCK_IO[1]
    specs = [xt.Spec((None, None), dtype) for dtype in (a_type, b_type, *[xt.f32] * 4)]
    low = scaled_product.lower(*specs, target="cri", **{**tile.constants, "BK": 64}, widen=False, by_row=True,
                               by_column=True, biased=False, activation=None)
    report = low.report()
    assert (report.spill_size, report.private_size) == (0, 0)
    assert report.loop["dpas"] == 128 * 256 // 32 * 64 // (8 * 16 * 32) * report.unrolled
    assert report.loop["dpas"] > 0.7 * sum(report.loop.values())
    names = {xt.e4m3: "hf8", xt.e5m2: "bf8"}
    engine = [line.split("{")[0].split() for line in str(low.isa()).splitlines() if "dpas." in line]
    assert {(parts[-1].split(":")[1], parts[-2].split(":")[1]) for parts in engine} == {(names[a_type], names[b_type])}


def test_scaled_products_take_the_engine() -> None:
    dpnp, rng = require_dpnp(), np.random.default_rng(7)
    a, b = integers(rng, xt.e4m3, 9, 96, most=4), integers(rng, xt.e5m2, 96, 33, most=4)
    scale = rng.random(33).astype(np.float32)
    got = xt.scaled_matmul(*(dpnp.asarray(x.view(np.uint8)) for x in (a, b)), 0.5, dpnp.asarray(scale),
                           formats=("e4m3", "e5m2"), target="cri")
    expected = a.astype(np.float64) @ b.astype(np.float64) * 0.5 * scale
    np.testing.assert_allclose(dpnp.asnumpy(got), expected, rtol=3e-7)


@xt.kernel
def with_one(A, *, what):
    what(xt.load_tile(xt.init_tile(A, (0, 0), (16, 16))))


MISTAKES: list[tuple[Callable[[Any], Any], str, str]] = [
    (lambda v: v + v, "vectors of e4m3 have no operator +", "convert with .to(xt.f16)"),
    (xt.exp, "xt.exp takes floats", ".to(xt.f32)"),
    (lambda v: v.to(xt.f64).to(xt.e4m3), "f64 is not rounded to e4m3 in one step", ".to(xt.f32).to(xt.e4m3)"),
    (lambda v: xt.tile_reduce("add", v, 1), "e4m3 has no reduction 'add'", "convert the vector"),
    (lambda v: xt.zeros((16, 16), xt.e4m3), "the number 0 stands where one of it is needed", "calculate in f16"),
    (lambda v: xt.tile_mma(v.to(xt.f16), v), "no matrix engine multiplies f16 by e4m3", "convert with .to"),
]


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_what_they_cannot_do(number: int) -> None:
    what, said, hint = MISTAKES[number]
    with pytest.raises(xt.XeError) as caught:
        with_one.lower(xt.Spec((None, None), xt.e4m3), target="cri", what=what)
    assert said in str(caught.value)
    assert hint in str(caught.value)


@xt.kernel
def padded(A, C, *, padding):
    v = xt.load_tile(xt.init_tile(A, (0, 0), (16, 16)), padding=padding)
    xt.store_tile(v.to(xt.f32), xt.init_tile(C, (0, 0), (16, 16)))


def test_padding_is_zero() -> None:
    specs = [xt.Spec((None, None), dtype) for dtype in (xt.e4m3, xt.f32)]
    with pytest.raises(xt.ElementTypeError, match="XT1125"):
        padded.lower(*specs, target="cri", padding=1)


@pytest.mark.parametrize("target", ["pvc", "dg2", "cpu"])
def test_other_engines_say_what_to_do(target: str) -> None:
    specs = [xt.Spec((None, None), dtype) for dtype in (xt.e4m3, xt.e4m3, xt.f32)]
    with pytest.raises(xt.TargetError, match="XT4101") as caught:
        _ = gemm.lower(*specs, target=target).opencl
    assert "convert 8-bit floats with .to(xt.f16), which holds them exactly" in str(caught.value)


@xt.kernel
def rounds(A, C, *, to, map_):
    at = (xt.group_id(0) * 16, 0), (16, 32)
    v = xt.load_tile(xt.init_tile(A, *at, wg_map=map_))
    xt.store_tile(v.to(to), xt.init_tile(C, *at, wg_map=map_))


def hard_to_round(dtype: DType, to: DType) -> np.ndarray[Any, Any]:
    """All numbers of 16-bit types; of float32 those around every boundary between two results; of integers any."""
    rng = np.random.default_rng(31)
    if dtype.bits == 16 and dtype.is_float:
        return np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
    if not dtype.is_float:
        return rng.integers(-70000, 70000, 2048).astype(dtype.numpy)
    codes = np.arange(128, dtype=np.uint8).view(to.numpy).astype(np.float32)
    largest = float(ml_dtypes.finfo(to.numpy).max)
    finite = np.sort(np.append(codes[np.isfinite(codes)], [largest * 1.0625, largest * 1.125]).astype(np.float32))
    middle = (finite[1:] + finite[:-1]) / 2
    exact = np.concatenate([finite, middle, [np.inf, np.nan, 1e-40]]).astype(np.float32)
    near = np.concatenate([exact, np.nextafter(exact, np.float32(np.inf)), np.nextafter(exact, np.float32(0))])
    both = np.concatenate([near, -near])
    return np.resize(both, -(-len(both) // 512) * 512)


@pytest.mark.parametrize("execution", [NUMPY, *LANES, *DEVICE], ids=str)
@pytest.mark.parametrize("to", [xt.e4m3, xt.e5m2], ids=str)
@pytest.mark.parametrize("dtype", [xt.f32, xt.f16, xt.bf16, xt.i32], ids=str)
def test_rounded_as_ml_dtypes_does(dtype: DType, to: DType, execution: Execution) -> None:
    a = hard_to_round(dtype, to).reshape(-1, 32)
    c = np.zeros(a.shape, to.numpy)
    map_ = None if dtype.bits == 16 else xt.WgMap((2, 1), (8, 32))
    execution.bind(rounds)[len(a) // 16](a, c, to=to, map_=map_)
    with np.errstate(all="ignore"):
        expected = a.astype(np.float32).astype(to.numpy)
    np.testing.assert_array_equal(c.view(np.uint8), expected.view(np.uint8))
