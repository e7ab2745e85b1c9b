"""Mistakes: each gets an error at the author's line that says what would work, and nothing is written."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from conftest import require_dpnp

import xetile as xt
from xetile.frontend import tracer

SENTINEL = 77
BF16, F16, F32, F64 = ml_dtypes.bfloat16, np.float16, np.float32, np.float64


def fails(error: type[BaseException], call: Callable[[], Any], at: str, message: str, hint: str) -> xt.XeError:
    """Run ``call``, which must fail with ``error``, with its caret under ``at``, saying ``message`` and ``hint``."""
    with pytest.raises(xt.XeError) as caught:
        call()
    text = str(caught.value)
    assert isinstance(caught.value, error), text
    lines = text.splitlines()
    assert re.search(message, lines[0]), text
    assert re.search(hint, lines[-1]), text
    assert lines[-1].startswith("  help: "), text
    assert re.match(rf"  {re.escape(__file__)}:\d+", lines[1]), text
    source, caret = lines[2], lines[3]
    assert set(caret) == {" ", "^"}, text
    assert source[caret.index("^"):len(caret)].startswith(at), text
    return caught.value


def matrices(m: int = 32, n: int = 32, k: int = 64, dtype: Any = BF16, out: Any = F32) -> tuple[Any, Any, Any]:
    return np.ones((m, k), dtype), np.ones((k, n), dtype), np.full((m, n), SENTINEL, out)


@xt.kernel
def product(A, B, C, *, a=(16, 32), b=(32, 32), c=(16, 32), acc=xt.f32):
    total = xt.zeros(c, acc)
    ta, tb = xt.init_tile(A, (xt.group_id(0) * 16, 0), a), xt.init_tile(B, (0, 0), b)
    for _ in xt.range(0, A.shape[1], a[1]):
        total = xt.tile_mma(xt.load_tile(ta), xt.load_tile(tb), total)
        ta, tb = xt.update_tile_offset(ta, 0, a[1]), xt.update_tile_offset(tb, a[1], 0)
    xt.store_tile(total, xt.init_tile(C, (xt.group_id(0) * 16, 0), c))


@xt.kernel
def dealt(A, C, *, layout=(2, 2), data=(16, 16), shape=(32, 32)):
    map_ = xt.wg_map(sg_layout=layout, sg_data=data)
    value = xt.load_tile(xt.init_tile(A, (0, 0), shape, wg_map=map_))
    xt.store_tile(value, xt.init_tile(C, (0, 0), shape, wg_map=map_))


def works(where: str = "numpy", **options: Any) -> None:
    """The kernel of most of these tests is as good as new."""
    a, b, c = matrices()
    product.on(where, **options)[2](a, b, c)
    np.testing.assert_array_equal(c, 64)


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu"])
@pytest.mark.parametrize(("error", "constants", "at", "message", "hint"), [
    (ValueError, {"b": (16, 32)}, "xt.tile_mma", "A 16x32 and B 16x32: A has 32 columns and B 16 rows", "32x32"),
    (ValueError, {"c": (16, 16)}, "xt.tile_mma", "16x32 times B 32x32 is 16x32, and the accumulator is 16x16",
     r"xt\.zeros\(\(16, 32\), xt\.f32\)"),
    (TypeError, {"acc": xt.i32}, "xt.tile_mma", "bf16 by bf16 does not accumulate in i32", "bf16 or f32"),
    (ValueError, {"a": (16, 0)}, "xt.init_tile", "tile's shape must be two positive integers", r"\(32, 64\)"),
    (ValueError, {"a": (-16, 32)}, "xt.init_tile", "must be two positive integers, not", "for example"),
    (ValueError, {"a": (16, 32, 1)}, "xt.init_tile", "must be two positive integers, not", "for example"),
    (ValueError, {"c": (16.0, 32)}, "xt.zeros", "must be two positive integers, not", r"gives \(16, 32\)"),
    (TypeError, {"acc": "float33"}, "xt.zeros", "'float33' is not an element type", "f32"),
])
def test_constants(where: str, error: type, constants: dict[str, Any], at: str, message: str, hint: str) -> None:
    a, b, c = matrices()
    failure = fails(error, lambda: product.on(where)[2](a, b, c, **constants), at, message, hint)
    assert "in product" in str(failure)
    assert (c == SENTINEL).all()
    works(where)


@pytest.mark.parametrize(("dtype", "message"), [
    (F64, "no matrix engine multiplies f64 by f64"), (np.int16, "no matrix engine multiplies i16 by i16"),
    (np.bool_, "no matrix engine multiplies i1 by i1"),
])
def test_types_that_no_engine_multiplies(dtype: Any, message: str) -> None:
    a, b, c = matrices(dtype=dtype)
    fails(TypeError, lambda: product[2](a, b, c), "xt.tile_mma", message, "tile_mma takes .*bf16 x bf16.*xt.view")
    fails(TypeError, lambda: product[2](a.astype(F16), b.astype(BF16), c), "xt.tile_mma", "f16 by bf16", "f16 x f16")
    assert (c == SENTINEL).all()
    works()


def test_types_that_the_target_does_not_multiply() -> None:
    a, b, c = matrices(dtype=F32)
    views = xt.view(a, "tf32"), xt.view(b, "tf32")
    fails(ValueError, lambda: product.on("numpy:xegpu", target="dg2")[2](*views, c), "xt.tile_mma", "dg2", "")
    assert (c == SENTINEL).all()
    works("numpy:xegpu", target="dg2")


@pytest.mark.parametrize(("dtype", "depth", "message", "hint"), [
    (BF16, 24, "BK = 24 is not a multiple of 16, the DPAS depth for bf16 on pvc", "use 16 or 32"),
    (BF16, 8, "BK = 8 is not a multiple of 16", "use 16"),
    (np.int8, 48, "BK = 48 is not a multiple of 32, the DPAS depth for i8", "use 32 or 64"),
])
def test_depth(dtype: Any, depth: int, message: str, hint: str) -> None:
    integer = dtype is np.int8
    a, b, c = matrices(dtype=dtype, out=np.int32 if integer else F32)
    constants = {"a": (16, depth), "b": (depth, 32), "acc": xt.i32 if integer else xt.f32}
    launch = product.on("numpy:xegpu")[2]
    failure = fails(ValueError, lambda: launch(a, b, c, **constants), "xt.tile_mma", message, hint)
    assert "called from" in str(failure)
    assert (c == SENTINEL).all()
    works("numpy:xegpu")


def test_columns_of_a_subgroup() -> None:
    a, b, c = matrices()
    fails(ValueError, lambda: product.on("numpy:xegpu")[2](a, b, c, b=(32, 24), c=(16, 24)), "xt.tile_mma",
          "24 columns is not a multiple of 16", "use 16 or 32")
    assert (c == SENTINEL).all()


@pytest.mark.parametrize(("constants", "at", "message", "hint"), [
    ({"data": (12, 16)}, "xt.init_tile", "does not distribute a tile of 32x32: blocks of 12 rows do not divide 32",
     r"sg_data\[0\] = 16"),
    ({"layout": (3, 2), "data": (8, 16)}, "xt.init_tile", "neither a multiple nor a divisor", r"sg_data\[0\] = 32"),
    ({"layout": (0, 2)}, "xt.wg_map", "sg_layout must be two positive integers, not", r"sg_layout=\(8, 4\)"),
    ({"data": 16}, "xt.wg_map", "sg_data must be two positive integers, not 16", r"sg_data=\(16, 16\)"),
])
def test_maps(constants: dict[str, Any], at: str, message: str, hint: str) -> None:
    a, c = np.ones((32, 32), F32), np.full((32, 32), SENTINEL, F32)
    fails(ValueError, lambda: dealt.on("numpy")[1](a, c, **constants), at, message, hint)
    assert (c == SENTINEL).all()
    dealt.on("numpy:xegpu")[1](a, c)
    assert (c == 1).all()


def test_too_many_subgroups() -> None:
    a, c = np.ones((256, 256), F32), np.full((256, 256), SENTINEL, F32)
    fails(ValueError, lambda: dealt.on("numpy:xegpu", target="pvc")[1](a, c, layout=(16, 16), shape=(256, 256)),
          "xt.init_tile", "16 x 16 = 256 subgroups is more than the 64 that pvc has", "at most 64")
    fails(ValueError, lambda: product.on("numpy:xegpu", subgroups=(9, 9))[2](*matrices()), "product",
          "9 x 9 = 81 subgroups", "at most 64")
    assert (c == SENTINEL).all()


def test_maps_that_contradict_each_other() -> None:
    @xt.kernel
    def counts(A, C):
        a = xt.init_tile(A, (0, 0), (32, 32), wg_map=xt.wg_map((2, 2), (16, 16)))
        xt.prefetch_tile(xt.init_tile(A, (0, 0), (32, 32), wg_map=xt.wg_map((8, 1), (4, 32))))
        xt.store_tile(xt.load_tile(a), xt.init_tile(C, (0, 0), (32, 32), wg_map=xt.wg_map((2, 2), (16, 16))))

    @xt.kernel
    def sums(A, C):
        a = xt.load_tile(xt.init_tile(A, (0, 0), (32, 32), wg_map=xt.wg_map((2, 2), (16, 16))))
        b = xt.load_tile(xt.init_tile(A, (0, 0), (32, 32), wg_map=xt.wg_map((4, 1), (8, 32))))
        xt.store_tile(a + b, xt.init_tile(C, (0, 0), (32, 32)))

    @xt.kernel
    def stored(A, C):
        a = xt.load_tile(xt.init_tile(A, (0, 0), (32, 32), wg_map=xt.wg_map((2, 2), (16, 16))))
        xt.store_tile(a, xt.init_tile(C, (0, 0), (32, 32)))

    @xt.kernel
    def both(A, C):
        a = xt.load_tile(xt.init_tile(A, (0, 0), (32, 32), wg_map=xt.wg_map((2, 2), (16, 16))))
        xt.store_tile(a, xt.init_tile(C, (xt.subgroup_id(0), 0), (32, 32), wg_map=xt.wg_map((2, 2), (16, 16))))

    a, c = np.ones((32, 32), F32), np.full((32, 32), SENTINEL, F32)
    fails(ValueError, lambda: counts[1](a, c), "xt.init_tile", "8 subgroups, and one above has 4", "sg_layout 4")
    fails(ValueError, lambda: sums[1](a, c), "a + b", r"sides of \+ are distributed differently", "the same wg_map")
    fails(ValueError, lambda: stored[1](a, c), "xt.store_tile", "distributed as .* tile not distributed", "both a "
          "wg_map")
    fails(ValueError, lambda: both[1](a, c), "xt.subgroup_id(0)", "both wg_map and", "subgroups=")
    fails(ValueError, lambda: dealt.on("numpy", subgroups=(4, 2))[1](a, c), "xt.init_tile", "4 x 2", "subgroups=")
    assert (c == SENTINEL).all()


def _kernels_with_traced_values() -> dict[str, tuple[Any, str, str, str]]:
    @xt.kernel
    def branch(A, C):
        if xt.group_id(0):
            pass

    @xt.kernel
    def compare(A, C):
        if A.shape[0] == 16:
            pass

    @xt.kernel
    def order(A, C):
        tile = xt.init_tile(A, (0, 0), (8, 16))
        return tile < 3

    @xt.kernel
    def loop_while(A, C):
        k = xt.group_id(0)
        while k:
            k = k - 1

    @xt.kernel
    def unrolled(A, C):
        for _ in range(0, A.shape[0], 8):
            pass

    @xt.kernel
    def both(A, C):
        return xt.group_id(0) and 3

    @xt.kernel
    def negated(A, C):
        return not xt.group_id(0)

    @xt.kernel
    def integer(A, C):
        return int(A.shape[1])

    @xt.kernel
    def floating(A, C):
        return float(xt.group_id(0))

    @xt.kernel
    def indexed(A, C):
        return [1, 2, 3][xt.group_id(0)]

    @xt.kernel
    def element(A, C):
        return A[0, 0]

    @xt.kernel
    def assigned(A, C):
        C[0, 0] = 1

    @xt.kernel
    def iterated(A, C):
        for _ in xt.load_tile(xt.init_tile(A, (0, 0), (8, 16))):
            pass

    @xt.kernel
    def length(A, C):
        return len(A)

    @xt.kernel
    def array_sum(A, C):
        return A + 1

    @xt.kernel
    def tile_sum(A, C):
        return xt.full((8, 16), 1, xt.f32) + xt.init_tile(A, (0, 0), (8, 16))

    @xt.kernel
    def matmul(A, C):
        a = xt.load_tile(xt.init_tile(A, (0, 0), (8, 16)))
        return a @ a

    @xt.kernel
    def text_sum(A, C):
        return xt.full((8, 16), 1, xt.f32) + "1"

    @xt.kernel
    def shape(A, C):
        return xt.init_tile(A, (0, 0), (A.shape[0], 16))

    @xt.kernel
    def offsets(A, C):
        return xt.init_tile(A, (0.5, 0), (8, 16))

    @xt.kernel
    def one_offset(A, C):
        return xt.init_tile(A, 0, (8, 16))

    @xt.kernel
    def no_tile(A, C):
        return xt.load_tile(A)

    @xt.kernel
    def turned(A, C):
        xt.store_tile(xt.init_tile(C, (0, 0), (8, 16)), xt.zeros((8, 16), xt.f32))

    @xt.kernel
    def no_array(A, C):
        return xt.init_tile([1, 2], (0, 0), (8, 16))

    @xt.kernel
    def stored_shape(A, C):
        xt.store_tile(xt.zeros((8, 16), xt.f32), xt.init_tile(C, (0, 0), (16, 16)))

    @xt.kernel
    def stored_type(A, C):
        xt.store_tile(xt.zeros((8, 16), xt.f16), xt.init_tile(C, (0, 0), (8, 16)))

    @xt.kernel
    def summed_shapes(A, C):
        return xt.zeros((8, 16), xt.f32) + xt.zeros((16, 16), xt.f32)

    @xt.kernel
    def summed_types(A, C):
        return xt.zeros((8, 16), xt.f32) + xt.zeros((8, 16), xt.f16)

    @xt.kernel
    def divided(A, C):
        return xt.zeros((8, 16), xt.i32) / 2

    @xt.kernel
    def rounded(A, C):
        return xt.zeros((8, 16), xt.i32) * 1.5

    @xt.kernel
    def too_large(A, C):
        return xt.zeros((8, 16), xt.u8) + 256

    @xt.kernel
    def dimension(A, C):
        return xt.group_id(3)

    @xt.kernel
    def mixed(A, C):
        return xt.zeros((8, 16), xt.f32) * xt.group_id(0)

    @xt.kernel
    def padded(A, C):
        return xt.load_tile(xt.init_tile(A, (0, 0), (8, 16)), padding="edge")

    @xt.kernel
    def viewed(A, C):
        return xt.view(A, xt.bf16)

    @xt.kernel
    def map_of_pairs(A, C):
        return xt.init_tile(A, (0, 0), (8, 16), wg_map=((1, 1), (8, 16)))

    return {kernel.name: (kernel, at, message, hint) for kernel, at, message, hint in [
        (branch, "xt.group_id(0)", "Python cannot branch on it", "keyword-only parameter"),
        (compare, "A.shape[0] == 16", "run-time i1 .*Python cannot branch on it", r"xt\.where.*xt\.when"),
        (order, "tile < 3", "Python cannot compare it", "xt.load_tile"),
        (loop_while, "k", "Python cannot branch on it", "keyword-only"),
        (unrolled, "range(0, A.shape[0], 8)", "Python cannot count with it", r"xt\.range"),
        (both, "xt.group_id(0)", "cannot branch", "keyword-only"),
        (negated, "not xt.group_id(0)", "cannot branch", "keyword-only"),
        (integer, "int(A.shape[1])", r"int\(\) and float\(\) cannot", r"\.to\(xt\.i32\)"),
        (floating, "float(xt.group_id(0))", r"int\(\) and float\(\) cannot", r"\.to\(xt\.i32\)"),
        (indexed, "[1, 2, 3][xt.group_id(0)]", "cannot count", "compile-time"),
        (element, "A[0, 0]", "cannot be indexed", r"xt\.load_tile\(xt\.init_tile"),
        (assigned, "C[0, 0]", "cannot be set", r"xt\.store_tile"),
        (iterated, "xt.load_tile", "cannot iterate", r"xt\.range"),
        (length, "len(A)", "no len", r"\.shape"),
        (array_sum, "A + 1", "takes no part in arithmetic", r"xt\.load_tile"),
        (tile_sum, "xt.full((8, 16), 1, xt.f32) +", r"\+ takes vectors and numbers, not a tile", r"xt\.load_tile"),
        (matmul, "a @ a", "has no operator @", r"xt\.tile_mma"),
        (text_sum, "xt.full", "not a str", "only numbers take part"),
        (shape, "xt.init_tile", "holds a run-time value", "keyword-only"),
        (offsets, "xt.init_tile", "0.5 stands where an integer", "whole number"),
        (one_offset, "xt.init_tile", "takes two offsets, not 0", r"xt\.group_id"),
        (no_tile, "xt.load_tile", "load_tile takes a tile, not a 2-dimensional array", r"xt\.init_tile"),
        (turned, "xt.store_tile", "takes the value first, and got the tile first", "exchange the two"),
        (no_array, "xt.init_tile", r"not list \[1, 2\]", "the array itself"),
        (stored_shape, "xt.store_tile", "vector of 8x16 f32 cannot be stored to a tile of 16x16", r"\(8, 16\)"),
        (stored_type, "xt.store_tile", "vector of 8x16 f16 cannot be stored to a tile", r"\.to\(xt\.f32\)"),
        (summed_shapes, "xt.zeros", "the shapes differ", "8x16"),
        (summed_types, "xt.zeros", "the element types differ", r"\.to\(xt\.f32\)"),
        (divided, "xt.zeros((8, 16), xt.i32) / 2", "no operator /", r"use //, or convert with \.to\(xt\.f32\)"),
        (rounded, "xt.zeros", "1.5 stands where an integer", r"\.to\(xt\.f32\)"),
        (too_large, "xt.zeros", "256 does not fit u8", "0 to 255"),
        (dimension, "xt.group_id(3)", "dimensions 0, 1 and 2, not 3", r"xt\.group_id\(0\)"),
        (mixed, "xt.zeros", "run-time index stands where a number of type f32", r"\.to\(xt\.f32\)"),
        (padded, "xt.load_tile", "padding is str 'edge'", "give a Python number"),
        (viewed, "xt.view", "A holds f32 of 32 bits, and bf16 has 16", "tf32"),
        (map_of_pairs, "xt.init_tile", "wg_map is tuple", r"xt\.wg_map"),
    ]}


TRACED = _kernels_with_traced_values()


@pytest.mark.parametrize("name", TRACED)
def test_traced_values(name: str) -> None:
    kernel, at, message, hint = TRACED[name]
    a, c = np.ones((16, 16), F32), np.full((16, 16), SENTINEL, F32)
    error = fails(Exception, lambda: kernel.on("numpy")[1](a, c), at, message, hint)
    assert isinstance(error, (ValueError, TypeError, IndexError))
    assert (c == SENTINEL).all()


def test_traced_values_in_text() -> None:
    shown = []

    @xt.kernel
    def kernel(A):
        shown.append(f"{A} {A.shape[0]:>8} {xt.zeros((8, 16), xt.f32)!r}")

    kernel.on("numpy")[1](np.ones((8, 16), F32))
    assert shown == ["<2-dimensional array of f32> <run-time index> <vector of 8x16 f32>"]


def _kernels_with_loops() -> dict[str, tuple[Any, str, str, str]]:
    @xt.kernel
    def used_after(A, C):
        for k in xt.range(4):
            value = xt.full((8, 16), 1, xt.f32) * k.to(xt.f32)
        xt.store_tile(value, xt.init_tile(C, (0, 0), (8, 16)))

    @xt.kernel
    def index_after(A, C):
        for k in xt.range(4):
            xt.group_id(0) + k
        xt.store_tile(xt.zeros((8, 16), xt.f32), xt.init_tile(C, (k, 0), (8, 16)))

    @xt.kernel
    def grown(A, C):
        values = []
        for _ in xt.range(4):
            values.append(xt.zeros((8, 16), xt.f32))
        xt.store_tile(values[0], xt.init_tile(C, (0, 0), (8, 16)))

    @xt.kernel
    def broken(A, C):
        for _ in xt.range(4):
            xt.store_tile(xt.zeros((8, 16), xt.f32), xt.init_tile(C, (0, 0), (8, 16)))
            break

    @xt.kernel
    def broken_then_more(A, C):
        for _ in xt.range(4):
            break
        xt.store_tile(xt.zeros((8, 16), xt.f32), xt.init_tile(C, (0, 0), (8, 16)))

    @xt.kernel
    def returned(A, C):
        for _ in xt.range(A.shape[0]):
            return

    @xt.kernel
    def number(A, C):
        i = 0
        for _ in xt.range(4):
            xt.store_tile(xt.zeros((8, 16), xt.f32), xt.init_tile(C, (i, 0), (8, 16)))
            i += 8

    @xt.kernel
    def number_in_list(A, C):
        state = [0]
        for _ in xt.range(4):
            state[0] += 8

    @xt.kernel
    def first(A, C):
        total, is_first = xt.zeros((8, 16), xt.f32), True
        for _ in xt.range(4):
            total = total + (1 if is_first else 2)
            is_first = False

    @xt.kernel
    def none(A, C):
        total = None
        for _ in xt.range(4):
            total = xt.load_tile(xt.init_tile(A, (0, 0), (8, 16))) if total is None else total + 1

    @xt.kernel
    def last(A, C):
        i = 5
        for _ in xt.range(4):
            i = 7
        xt.store_tile(xt.zeros((8, 16), xt.f32), xt.init_tile(C, (i, 0), (8, 16)))

    @xt.kernel
    def shape(A, C):
        total = xt.zeros((8, 16), xt.f32)
        for _ in xt.range(4):
            xt.store_tile(total, xt.init_tile(C, (0, 0), (8, 16)))
            total = xt.zeros((16, 16), xt.f32)

    @xt.kernel
    def dtype(A, C):
        total = xt.zeros((8, 16), xt.f32)
        for _ in xt.range(4):
            total = total.to(xt.f16) + 1

    @xt.kernel
    def gone(A, C):
        total = xt.zeros((8, 16), xt.f32)
        for _ in xt.range(4):
            total = [total]

    @xt.kernel
    def enumerated(A, C):
        for _, _ in enumerate(xt.range(4)):
            pass

    @xt.kernel
    def listed(A, C):
        return [k for k in xt.range(4)]  # noqa: C416 - what authors write

    @xt.kernel
    def backwards(A, C):
        for _ in xt.range(4, 0, -1):
            pass

    @xt.kernel
    def standing(A, C):
        for _ in xt.range(0, 4, 0):
            pass

    @xt.kernel
    def real(A, C):
        for _ in xt.range(4.5):
            pass

    @xt.kernel
    def bounds(A, C):
        for _ in xt.range():
            pass

    @xt.kernel
    def split(A, C):
        x = y = [xt.zeros((8, 16), xt.f32)]
        for _ in xt.range(4):
            y = [x[0] + y[0]]

    return {kernel.name: (kernel, at, message, hint) for kernel, at, message, hint in [
        (used_after, "xt.store_tile", r"`value` is defined in a loop and is used after it",
         "before the loop"),
        (index_after, "xt.init_tile", "`k` is defined in a loop", r"last = xt\.scalar\(0\)"),
        (grown, "xt.range(4)", "`values` holds 0 items when the loop starts and 1", "keep its length: make all 1"),
        (broken, "xt.range(4)", "left before its end, by break, return", r"xt\.minimum"),
        (broken_then_more, "xt.range(4)", "left before its end, by break, return", r"xt\.minimum"),
        (returned, "xt.range(A.shape[0])", "left before its end, by break, return", r"xt\.minimum"),
        (number, "xt.range(4)", "`i` is the Python number 0 when the loop starts and the Python number 8",
         r"i = xt\.scalar\(0, xt\.index\)"),
        (number_in_list, "xt.range(4)", r"`state\[0\]` is the Python number 0", r"xt\.scalar\(0, xt\.index\)"),
        (first, "xt.range(4)", "`is_first` is True when the loop starts and False", "first iteration"),
        (none, "xt.range(4)", "`total` is None when the loop starts and a vector of 8x16 f32",
         r"total = xt\.zeros\(\(8, 16\), xt\.f32\)"),
        (last, "xt.range(4)", "`i` is the Python number 5", r"xt\.scalar"),
        (shape, "xt.range(4)", "`total` is a vector of 8x16 f32 before the loop and a vector of 16x16 f32", "shape"),
        (dtype, "xt.range(4)", "a vector of 8x16 f32 before .* 8x16 f16", r"total = total\.to\(xt\.f32\)"),
        (gone, "xt.range(4)", "before the loop and .* after its body", "another name"),
        (enumerated, "xt.range(4)", "somewhere else than in a for statement", "xt.scalar"),
        (listed, "xt.range(4)", "somewhere else than in a for statement", "for k in"),
        (backwards, "xt.range(4, 0, -1)", "the step of xt.range is -1", "n - k"),
        (standing, "xt.range(0, 4, 0)", "the step of xt.range is 0", "such as 1"),
        (real, "xt.range(4.5)", "4.5 stands where an integer", "such as 4"),
        (bounds, "xt.range()", "one to three bounds, not 0", r"xt\.range\(0, K, 32\)"),
        (split, "xt.range(4)", r"`x\[0\]` and `y\[0\]` are the same object", r"y = list\(y\)"),
    ]}


LOOPS = _kernels_with_loops()


@pytest.mark.parametrize("name", LOOPS)
def test_loops(name: str) -> None:
    kernel, at, message, hint = LOOPS[name]
    a, c = np.ones((16, 16), F32), np.full((16, 16), SENTINEL, F32)
    error = fails(Exception, lambda: kernel.on("numpy")[1](a, c), at, message, hint)
    assert isinstance(error, (ValueError, TypeError, IndexError))
    assert (c == SENTINEL).all()
    assert not tracer._recordings.stack, "the recording has ended"


@xt.kernel
def copied(A, C, offset, *, rows=8):
    row = xt.group_id(0) * rows + offset
    xt.store_tile(xt.load_tile(xt.init_tile(A, (row, 0), (rows, 16))), xt.init_tile(C, (row, 0), (rows, 16)))


def arrays() -> tuple[Any, Any]:
    return np.ones((16, 16), F32), np.full((16, 16), SENTINEL, F32)


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu"])
def test_calls(where: str) -> None:
    a, c = arrays()
    on = copied.on(where)
    read_only = c[:]
    read_only.flags.writeable = False
    fails(TypeError, lambda: on[2](a, c), "on[2](a, c)",
          r"copied takes 3 arguments \(A, C, offset\), and is called with 2", r"copied\[grid\]\(A, C, offset\)")
    fails(TypeError, lambda: on[2](a, c, offset=0), "on[2](a, c, offset=0)", "offset is a run-time argument",
          "call it as")
    fails(TypeError, lambda: on[2](a, c, 0, row=8), "on[2]", "no constant row", "did you mean rows")
    fails(ValueError, lambda: on(a, c, 0), "on(a, c, 0)", "without a grid",
          r"copied\[M // BM, N // BN\]\(A, C, offset\)")
    for grid in (-1, (1, 2, 3, 4), 1.5, "2", True, (), 2**31, None, (1, None)):
        fails(ValueError, lambda grid=grid: on[grid](a, c, 0), "on[grid]", "grid", "copied")
    fails(TypeError, lambda: on[2](a, read_only, 0), "on[2]", "copied writes C, and C is read-only", r"C\.copy\(\)")
    fails(TypeError, lambda: on[2](a, c, True), "on[2]", "offset is a bool", r"int\(offset\)")
    fails(TypeError, lambda: on[2](a, c, 2**64), "on[2]", "offset = 18446744073709551616 does not fit 64 bits", "")
    fails(TypeError, lambda: on[2](a, c, 2**31), "xt.group_id(0) * rows + offset", "run-time i64 stands where a", "to")
    fails(TypeError, lambda: on[2](a, c, "0"), "on[2]", "offset is a str", "compile-time constant")
    fails(TypeError, lambda: on[2](a, c, None), "on[2]", "offset is None", "compile-time constant")
    fails(TypeError, lambda: on[2](a.tolist(), c, 0), "on[2]", "A is a list", r"numpy\.asarray\(A")
    fails(TypeError, lambda: on[2](a.astype(complex), c, 0), "on[2]", "A holds complex128", r"A\.real\.copy\(\)")
    fails(TypeError, lambda: on[2](a.astype(">f4"), c, 0), "on[2]", "A holds >f4", r"astype\(numpy\.float32\)")
    fails(IndexError, lambda: on[2](a[0], c, 0), "xt.init_tile", "A has 1 dimension$", r"A\.reshape\(1, \*A\.shape\)")
    fails(IndexError, lambda: on[2](a, c[None], 0), "xt.init_tile", "C has 3 dimensions", r"C\[0\]")
    fails(TypeError, lambda: on[2](a, c, 0.5), "xt.group_id(0) * rows + offset", "run-time f32 stands where a",
          "to")
    fails(TypeError, lambda: on[2](a.astype(F16), c, 0), "xt.store_tile", "f16 cannot be stored to a tile", "to")
    assert (c == SENTINEL).all()
    on[2](a, c, 0)
    assert (c == 1).all()


def test_strides_that_are_not_whole_elements() -> None:
    _, c = arrays()
    odd = np.ones((16, 16), np.dtype([("x", F32), ("y", np.int8)]))["x"]
    fails(TypeError, lambda: copied[2](odd, c, 0), "copied[2]", "not whole elements of 4", r"ascontiguousarray\(A\)")
    assert (c == SENTINEL).all()


def test_where() -> None:
    a, c = arrays()
    fails(RuntimeError, lambda: copied.on("numpy:xetile"), 'copied.on("numpy:xetile")', "no execution", "numpy:xegpu")
    fails(ValueError, lambda: copied.on("numpy", target="gen9"), "copied.on", "gen9", "pvc")
    fails(ValueError, lambda: copied.lower(a, c, 0, target="gen9"), "copied.lower", "gen9", "pvc")
    fails(TypeError, lambda: copied.lower(a, c), "copied.lower(a, c)", "is called with 2", "call it as")
    fails(ValueError, lambda: copied.on("numpy", subgroups=3)[2](a, c, 0), "copied.on", "not 3", r"\(1, 3\)")
    fails(TypeError, lambda: copied.on("numpy")[2](xt.Spec((16, 16), xt.f32), c, 0), "copied.on",
          "A is a Spec, which describes", r"numpy.zeros\(\(16, 16\), numpy.float32\)")
    assert (c == SENTINEL).all()


def test_division_by_a_number_that_is_zero() -> None:
    def scalar(A: Any) -> None:
        xt.group_id(0) % 0

    def vector(A: Any) -> None:
        xt.iota((8, 16), 1) // np.int32(0)

    for body in (scalar, vector):
        with pytest.raises(xt.ArgumentError, match=r"(?s) 0 has no value.*xt.maximum\(d, 1\)"):
            xt.kernel(body).lower(xt.Spec((8, 16), "f32"))


def test_a_kernel_in_a_kernel() -> None:
    @xt.kernel
    def inner(A: Any) -> None:
        pass

    def outer(A: Any) -> None:
        inner[1](A)

    for launch in (lambda: xt.kernel(outer).lower(xt.Spec((8, 16), "f32")),
                   lambda: xt.kernel(outer).on("numpy:program")[1](np.zeros((8, 16), np.float32))):
        with pytest.raises(xt.TraceError, match=r"(?s)inner is a kernel.*inner\[1\]\(A\).*drop @xt.kernel above inner"):
            launch()


def test_a_missing_constant() -> None:
    @xt.kernel
    def kernel(A, *, rows):
        xt.init_tile(A, (0, 0), (rows, 16))

    fails(TypeError, lambda: kernel[1](arrays()[0]), "kernel[1]", "needs a value for its constant rows", "rows=")
    kernel[1](arrays()[0], rows=8)


def test_definitions() -> None:
    def starred(A, *rest):
        pass

    def named(A, **rest):
        pass

    def default(A, size=3):
        pass

    fails(TypeError, lambda: xt.kernel(starred), "starred", r"\*rest of starred", "name every parameter")
    fails(TypeError, lambda: xt.kernel(named), "named", r"\*\*rest of named", "name every parameter")
    fails(TypeError, lambda: xt.kernel(default), "default", "size of default has a default", r"bare \*")
    fails(TypeError, lambda: xt.kernel(3), "xt.kernel(3)", "not of 3", "def statement")
    fails(ValueError, lambda: xt.kernel(subgroups=(0, 4))(starred), "xt.kernel", "not \\(0, 4\\)", r"\(8, 4\)")


@pytest.mark.parametrize("call", [
    lambda: xt.group_id(0), lambda: xt.zeros((8, 16), xt.f32), lambda: xt.range(3),
    lambda: xt.load_tile(None), lambda: xt.init_tile(None, (0, 0), (8, 16)), lambda: xt.maximum(1, 2),
    lambda: xt.subgroup_id(), lambda: xt.scalar(3), lambda: xt.tile_mma(None, None),
])
def test_outside_a_kernel(call: Callable[[], Any]) -> None:
    fails(ValueError, call, "xt.", "works only inside a kernel", "@xt.kernel")


def test_views_and_specs() -> None:
    a = np.ones((4, 4), F32)
    fails(TypeError, lambda: xt.view(a, xt.bf16), "xt.view(a, xt.bf16)", "f32 of 32 bits, and bf16 has 16", "tf32")
    fails(TypeError, lambda: xt.view(a, "bf17"), "xt.view", "'bf17' is not an element type", "bf16")
    fails(TypeError, lambda: xt.view([1], xt.f32), "xt.view", "the array is a list", "pass an array")
    fails(ValueError, lambda: xt.Spec((4, 4), xt.f32, (1,)), "xt.Spec", "1 stride for 2", r"\(4, 1\)")
    fails(ValueError, lambda: xt.Spec(4, xt.f32), "xt.Spec", "not 4", "xt.Spec")
    fails(TypeError, lambda: xt.Spec((4, 4), "real"), "xt.Spec", "'real' is not an element type", "f32")


def test_maps_outside_a_kernel() -> None:
    assert xt.wg_map((2, 2), (8, 16)) == xt.WgMap((2, 2), (8, 16))
    fails(ValueError, lambda: xt.wg_map((2, 0), (8, 16)), "xt.wg_map", r"sg_layout must be two", r"\(8, 4\)")


def test_missing_device(monkeypatch: pytest.MonkeyPatch) -> None:
    a, c = arrays()
    fails(RuntimeError, lambda: copied.on("cuda:gpu")[2](a, c, 0), 'copied.on("cuda:gpu")', "cuda:gpu|dpctl", "")
    for name in [name for name in sys.modules if name.partition(".")[0] == "dpctl"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dpctl", None)
    monkeypatch.setattr("xetile.runtime.executors._devices", {})
    monkeypatch.setattr("codegen.runtime.devices._queue_of_filter", functools.cache(_uncached_queue))
    fails(RuntimeError, lambda: copied.on("opencl:cpu")[2](a, c, 0), 'copied.on("opencl:cpu")', "dpctl does not import",
          r"pip install .*xetile\[device\]")
    assert (c == SENTINEL).all()
    copied[2](a, c, 0)
    assert (c == 1).all()


def _uncached_queue(where: str) -> Any:
    from codegen.runtime import devices

    return devices.import_dpctl().SyclQueue(where)


def test_missing_ocloc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XETILE_OCLOC", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    lowered = copied.lower(xt.Spec((16, 16), xt.f32), xt.Spec((16, 16), xt.f32), 0)
    fails(RuntimeError, lowered.isa, "copied", "ocloc.* is not installed", "intel-ocloc.* XETILE_OCLOC")
    monkeypatch.setenv("XETILE_OCLOC", "/nowhere/ocloc")
    fails(RuntimeError, lowered.binary, "copied", "XETILE_OCLOC is '/nowhere/ocloc'", "intel-ocloc")
    assert "kernel" in lowered.opencl


def test_machine_code_of_a_target_without_any() -> None:
    lowered = copied.lower(xt.Spec((16, 16), xt.f32), xt.Spec((16, 16), xt.f32), 0, target="cpu")
    fails(ValueError, lowered.isa, "copied", "no machine code for cpu", "pvc")


def test_device_arrays(cpu_queue: Any) -> None:
    dpnp = require_dpnp()
    dpctl = pytest.importorskip("dpctl")
    a, c = arrays()
    one = dpnp.asarray(a, sycl_queue=cpu_queue)
    other = dpnp.asarray(c, sycl_queue=dpctl.SyclQueue("opencl:cpu", property="in_order"))
    fails(RuntimeError, lambda: copied[2](one, c, 0), "copied[2]", "A is on a device and C is a NumPy array",
          r"dpnp\.asarray\(C\)")
    fails(RuntimeError, lambda: copied[2](one, other, 0), "copied[2]", "A and C are on different queues",
          r"sycl_queue=A\.sycl_queue")
    fails(RuntimeError, lambda: copied.on(cpu_queue)[2](one, other, 0), "copied.on", "C is on another queue", "queue")
    fails(RuntimeError, lambda: copied.on("numpy")[2](one, c, 0), "copied.on", "A is in device memory", "asnumpy")
    assert (dpnp.asnumpy(other) == SENTINEL).all()
    assert (c == SENTINEL).all()
    out = dpnp.asarray(c, sycl_queue=cpu_queue)
    copied[2](one, out, 0)
    assert (dpnp.asnumpy(out) == 1).all()


def test_mistakes_on_a_device(cpu_queue: Any) -> None:
    a, c = arrays()
    read_only = c[:]
    read_only.flags.writeable = False
    on = copied.on(cpu_queue)
    fails(TypeError, lambda: on[2](a, read_only, 0), "on[2]", "C is read-only", r"C\.copy\(\)")
    fails(TypeError, lambda: on[2](a, c), "on[2](a, c)", "is called with 2", "call it as")
    fails(IndexError, lambda: on[2](a[0], c, 0), "xt.init_tile", "A has 1 dimension", "reshape")
    assert (c == SENTINEL).all()
    on[2](a, c, 0)
    assert (c == 1).all()


SOURCE = """
import xetile as xt

@xt.kernel
def kernel(A):
    if xt.group_id(0):
        pass
"""


def test_source_without_a_file() -> None:
    names: dict[str, Any] = {"__name__": "typed_in"}
    exec(SOURCE, names)
    with pytest.raises(xt.TraceError) as caught:
        names["kernel"][1](np.ones((8, 16), F32))
    text = str(caught.value)
    assert "  <string>:6, in kernel" in text
    assert text.splitlines()[-1].startswith("  help: ")
    with pytest.raises(xt.XeError, match=r"takes 1 argument"):
        names["kernel"][1]()
    assert repr(names["kernel"]) == "<kernel kernel(A)>"


def test_source_of_a_notebook() -> None:
    import linecache

    linecache.cache["<cell>"] = (len(SOURCE), None, SOURCE.splitlines(keepends=True), "<cell>")
    names: dict[str, Any] = {"__name__": "notebook"}
    exec(compile(SOURCE, "<cell>", "exec"), names)
    with pytest.raises(xt.TraceError) as caught:
        names["kernel"][1](np.ones((8, 16), F32))
    assert "    if xt.group_id(0):\n       ^^^^^^^^^^^^^^\n" in str(caught.value)


def test_the_call_chain() -> None:
    def deep(value: Any) -> Any:
        return value + "x"

    def middle(value: Any) -> Any:
        return deep(value)

    @xt.kernel
    def kernel(A):
        middle(xt.zeros((8, 16), xt.f32))

    error = fails(TypeError, lambda: kernel[1](np.ones((8, 16), F32)), 'value + "x"', "not a str", "number")
    assert re.findall(r"called from .*, in (.+)", str(error)) == ["middle", "kernel", "<lambda>"]


def test_an_error_of_the_author_passes_through() -> None:
    @xt.kernel
    def kernel(A, *, fail):
        for _ in xt.range(3):
            if fail:
                raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        kernel[1](np.ones((8, 16), F32), fail=True)
    kernel[1](np.ones((8, 16), F32), fail=False)


def test_every_error_is_one_of_pythons_own() -> None:
    for error in (xt.ShapeError, xt.TargetError, xt.TextError, xt.TraceError):
        assert issubclass(error, ValueError)
    assert issubclass(xt.ElementTypeError, TypeError)
    assert issubclass(xt.RankError, IndexError)
    for error in (xt.DeviceError, xt.ToolError):
        assert issubclass(error, RuntimeError)


def test_importing_needs_no_device_package() -> None:
    code = ("import sys; sys.modules['dpctl'] = sys.modules['dpnp'] = None\n"
            "import numpy as np, xetile as xt\n"
            "print('dpctl' in sys.modules and sys.modules['dpctl'] is None)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.stdout.strip() == "True"


def test_constants_that_cannot_be_told_apart() -> None:
    a, c = arrays()
    fails(TypeError, lambda: copied[2](a, c, 0, rows={1, 2}), "copied[2]", "the constant rows is a set",
          "frozenset")
    assert (c == SENTINEL).all()
