"""``xt.bitcast``: words as rows of narrower elements, in the order that the matrix engine holds B."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, Execution
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType

Array = np.ndarray[Any, Any]


@xt.kernel
def cut(W, C, D, *, R, N, narrow, sg=(1, 1)):
    """The rows of W + W as narrower ones, and the same once more after a loop that carries them."""
    map_ = None if sg == (1, 1) else xt.wg_map(sg, (R // sg[0], N // sg[1]))
    words = xt.load_tile(xt.init_tile(W, (0, 0), (R, N), wg_map=map_))
    cut = xt.bitcast(words + words, narrow)
    for _ in xt.range(0, 1, 1):
        cut = xt.bitcast(words + words, narrow)
    xt.store_tile(cut, xt.init_tile(C, (1, 2), cut.shape, wg_map=cut.wg_map))
    xt.store_tile(xt.bitcast(cut, f"u{cut.dtype.bits}"), xt.init_tile(D, (0, 0), cut.shape, wg_map=cut.wg_map))


def rows_of(words: Array, narrow: DType) -> Array:
    parts = np.moveaxis(words[..., None].view(f"u{narrow.bytes}"), -1, -2)
    return parts.reshape(-1, words.shape[1])


CASES = [(dtypes.u32, dtypes.f16, 16, 64, (1, 1)), (dtypes.i32, dtypes.bf16, 16, 64, (2, 2)),
         (dtypes.f32, dtypes.u8, 8, 32, (1, 2)), (dtypes.u64, dtypes.i16, 8, 16, (1, 1)),
         (dtypes.u16, dtypes.i8, 8, 16, (1, 1)), (dtypes.u32, dtypes.u16, 3, 4, (1, 1))]


@pytest.mark.unoptimised
@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def test_rows_of_words(case: Any, execution: Execution) -> None:
    wide, narrow, rows, columns, sg = case
    factor = wide.bits // narrow.bits
    if wide.is_float:
        words = np.random.default_rng(1).standard_normal((rows, columns)).astype(wide.numpy)
    else:  # no NaN of f16 or bf16 comes of doubling these, whose bits some executions change
        words = sum((np.random.default_rng(i).integers(1, 0x3A00 if narrow.bits == 16 else 0x40, (rows, columns))
                     << (narrow.bits * i) for i in range(factor)), np.zeros((), np.int64)).astype(wide.numpy)
    bordered = np.full((rows * factor + 3, columns + 4), 7, narrow.numpy)
    plain = np.zeros((rows * factor, columns), f"u{narrow.bytes}")
    execution.bind(cut)[1,](words, bordered, plain, R=rows, N=columns, narrow=narrow, sg=sg)
    expected = rows_of(words + words, narrow)
    np.testing.assert_array_equal(bordered[1:-2, 2:-2].view(plain.dtype), expected)
    np.testing.assert_array_equal(plain, expected)
    bordered[1:-2, 2:-2] = 7
    assert (bordered == 7).all()


def test_the_text_of_each_stage_reads_back() -> None:
    low = cut.lower(xt.Spec((None, None), xt.u32), xt.Spec((None, None), xt.f16), xt.Spec((None, None), xt.u16),
                    target="pvc", R=16, N=64, narrow=xt.f16, sg=(2, 2))
    words = np.random.default_rng(2).integers(0, 0x3A00, (16, 64)).astype(np.uint32)
    assert "xetile.tile_bitcast %" in low.xetile
    assert "wg_map" in low.xetile.split("xetile.tile_bitcast", 1)[1].splitlines()[0]
    for text in low.stages.values():
        c, d = np.zeros((40, 70), np.float16), np.zeros((32, 64), np.uint16)
        xt.parse(text)["cut"].on("numpy")[1,](words, c, d)
        np.testing.assert_array_equal(d, rows_of(words + words, dtypes.u16))


@pytest.mark.parametrize(("text", "said"), [
    ("vector<8x16xui32> -> vector<8x16xf16>", "XT3212"),
    ("vector<8x16xf16> -> vector<4x16xf32>", "XT2293"),
    ("vector<128xui32> -> vector<256xf16>", "XT2291")])
def test_what_is_no_bitcast(text: str, said: str) -> None:
    source = text.split(" -> ", maxsplit=1)[0]
    with pytest.raises(xt.XeError, match=said):
        xt.parse(f"func.func @f(%a: {source}) {{\n  %b = xetile.tile_bitcast %a : {text}\n  return\n}}")


@xt.kernel
def widens(W, *, dtype=xt.u64):
    xt.bitcast(xt.load_tile(xt.init_tile(W, (0, 0), (8, 16))), dtype)


@pytest.mark.parametrize("dtype", [xt.u64, xt.i1])
def test_bits_that_cannot_be_read(dtype: DType) -> None:
    with pytest.raises(xt.XeError, match="XT1213") as caught:
        widens.lower(xt.Spec((None, None), xt.u32), target="pvc", dtype=dtype)
    assert "or of narrower ones, here f32, f16, bf16" in str(caught.value).replace("tf32, ", "")


@xt.kernel
def times_words(A, W, C):
    b = xt.bitcast((xt.load_tile(xt.init_tile(W, (0, 0), (16, 16))) & 0x03C003C0) | 0x4C004C00, xt.f16)
    xt.store_tile(xt.tile_mma(xt.load_tile(xt.init_tile(A, (0, 0), (8, 32))), b), xt.init_tile(C, (0, 0), (8, 16)))


def test_words_become_an_operand_where_they_are() -> None:
    require_ocloc()
    specs = [xt.Spec((None, None), dtype) for dtype in (xt.f16, xt.u32, xt.f32)]
    low = times_words.lower(*specs, target="pvc")
    lines = [line.split("//", maxsplit=1)[0] for line in str(low.isa()).splitlines()]
    assert sum("dpas." in line for line in lines) == 2
    assert sum("bfn." in line and "(16|M0)" in line for line in lines) == 16  # one for each register of B, no more
    assert not [line for line in lines if "(16|M0)" in line and line.split()[0] == "mov" and ":hf" in line]
