"""Unsigned integers in LLVM's form: signless, but for operands of products."""

from __future__ import annotations

import numpy as np
import pytest

import xetile as xt
from tests.xegpu.interop.llvm.test_exporter import mlir_opt


@xt.kernel
def of_integers(A, WHERE, C, R, *, dtype):
    at = xt.load_tile(xt.init_tile(WHERE, (0, 0), (8, 16)))
    a = xt.load_tile(xt.init_tile(A, (0, 0), (8, 16)))
    picked = xt.load_gather(xt.init_tile(A, at.to(xt.index)), at > 3, padding=5)
    positions = xt.iota((8, 16), 1, dtype) + xt.full((8, 16), xt.load_scalar(WHERE, (0, 0)), xt.i32).to(dtype)
    c = xt.where(a > picked, a // 3, a >> 1) + positions * 7
    for _ in xt.range(2):
        c = c * 3 + picked
    xt.store_tile(c, xt.init_tile(C, (0, 0), (8, 16)))
    for row, kind in enumerate(("add", "min", "max", "and", "or")):
        xt.store_tile(xt.tile_reduce(kind, c, 0), xt.init_tile(R, (row, 0), (1, 16)))


@pytest.mark.parametrize("dtype", ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"])
def test_integers_of_each_type_verify_and_keep_their_meaning(dtype: str) -> None:
    """MLIR's arithmetic takes signless integers; which operations it has says how bits are read."""
    rng, type_ = np.random.default_rng(7), np.dtype({"i": "int", "u": "uint"}[dtype[0]] + dtype[1:])
    table = xt.Spec((None, None), dtype)
    text = of_integers.lower(table, xt.Spec((None, None), "i32"), table, table, dtype=dtype).xegpu_upstream
    mlir_opt(text)
    assert f"xu{dtype}" not in text
    a = rng.integers(np.iinfo(type_).min, np.iinfo(type_).max, (8, 16), type_, endpoint=True)
    where = rng.integers(-50, 128, (8, 16)).astype(np.int32)
    c, r = np.zeros((8, 16), type_), np.zeros((5, 16), type_)
    of_integers[1](a, where, c, r, dtype=dtype)
    signed = type_.str.replace("u", "i")
    read, reduced = np.zeros((8, 16), signed), np.zeros((5, 16), signed)
    xt.parse(text)["of_integers"].on("numpy:xegpu")[1](a.view(signed), where, read, reduced)
    np.testing.assert_array_equal(read.view(type_), c)
    np.testing.assert_array_equal(reduced.view(type_), r)


@xt.kernel
def masked(A, C):
    at = xt.iota((8, 16), 1, xt.index)
    xt.store_tile(xt.load_gather(xt.init_tile(A, at), at > 3, padding=200), xt.init_tile(C, (0, 0), (8, 16)))


def test_what_a_mask_leaves_out_is_a_signless_constant() -> None:
    text = masked.lower(xt.Spec((None,), "u8"), xt.Spec((None, None), "u8")).xegpu_upstream
    mlir_opt(text)
    assert "arith.constant -56 : i8" in text


@xt.kernel
def positions_of(C, *, dtype):
    xt.store_tile(xt.iota((8, 16), 0, dtype) + xt.iota((8, 16), 1, dtype), xt.init_tile(C, (0, 0), (8, 16)))


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_positions_in_floats_verify(dtype: str) -> None:
    text = positions_of.lower(xt.Spec((None, None), dtype), dtype=dtype).xegpu_upstream
    mlir_opt(text)
    got, want = (np.zeros((8, 16), xt.Spec((1,), dtype).dtype.numpy) for _ in range(2))
    positions_of[1](want, dtype=dtype)
    xt.parse(text)["positions_of"][1](got)
    np.testing.assert_array_equal(got, want)
    assert want[3, 5] == 8


@xt.kernel
def multiplied_and_summed(A, B, C, S):
    a = xt.load_tile(xt.init_tile(A, (0, 0), (8, 32)))
    xt.store_tile(xt.tile_mma(a, xt.load_tile(xt.init_tile(B, (0, 0), (32, 16)))), xt.init_tile(C, (0, 0), (8, 16)))
    xt.store_tile(a + 1, xt.init_tile(S, (0, 0), (8, 32)))


def test_products_keep_unsigned_operands_which_arithmetic_does_not_take() -> None:
    """The type tells LLVM's ``dpas`` how operands are read."""
    u8, i32 = xt.Spec((None, None), "u8"), xt.Spec((None, None), "i32")
    with pytest.raises(xt.TargetError) as caught:
        multiplied_and_summed.lower(u8, u8, i32, u8).xegpu_upstream  # noqa: B018
    assert caught.value.code == "XT3659"
    assert "a + 1" in str(caught.value)
