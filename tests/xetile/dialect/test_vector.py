"""Reductions, broadcasts and other layouts of vectors: what they mean, how they print, what they refuse."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import xetile as xt
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.mlir.combining_kind import kinds_of

RNG = np.random.default_rng(29)
FUNCTIONS: dict[str, Any] = {
    "add": np.add, "mul": np.multiply, "minnumf": np.fmin, "maxnumf": np.fmax, "minimumf": np.minimum,
    "maximumf": np.maximum, "minsi": np.minimum, "maxsi": np.maximum, "minui": np.minimum, "maxui": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}
AXES = [0, 1, (0, 1)]


@xt.kernel
def reduced(A, B, *, kind="add", axis=1, rows=16, columns=32):
    v = xt.load_tile(xt.init_tile(A, (0, 0), (rows, columns)))
    r = xt.tile_reduce(kind, v, axis)
    xt.store_tile(r, xt.init_tile(B, (0, 0), r.shape))


@xt.kernel
def normalised(A, B, *, rows=16, columns=32, sg=None):
    """Rows without their largest element, times the sums of the columns: broadcast by operators both ways."""
    map_ = xt.wg_map(sg, (rows // sg[0], columns // sg[1])) if sg else None
    v = xt.load_tile(xt.init_tile(A, (0, 0), (rows, columns), wg_map=map_))
    e = v - xt.tile_reduce("max", v, 1)
    xt.store_tile(e * xt.tile_reduce("add", e, 0), xt.init_tile(B, (0, 0), (rows, columns), wg_map=map_))


def exact(dtype: DType, shape: tuple[int, int], kind: str) -> np.ndarray:
    """Random integers whose sums, and whose products for ``mul``, are exact in the type."""
    if kind == "mul":
        ones = np.ones(shape, dtype.numpy)
        ones.reshape(-1)[RNG.integers(0, ones.size, 6)] = 2
        return ones
    low, high = (0, 4) if dtype.kind == "u" else (-3, 4)
    return RNG.integers(low, high, shape).astype(dtype.numpy)


def wanted(kind: str, a: np.ndarray, axis: Any, dtype: DType) -> np.ndarray:
    """Reference in NumPy, on upcast inputs."""
    upcast = np.float64 if dtype.is_float else np.int64
    values = a.astype(upcast)
    if kind in ("minui", "maxui"):
        values = a.view(f"u{dtype.bytes}")
    return FUNCTIONS[kind].reduce(values, axis=axis, keepdims=True).astype(dtype.numpy)


def size(axis: Any, rows: int, columns: int) -> tuple[int, int]:
    return {0: (1, columns), 1: (rows, 1)}.get(axis, (1, 1))


TYPES = [dtypes.f32, dtypes.f16, dtypes.bf16, dtypes.f64, dtypes.i8, dtypes.i16, dtypes.i32, dtypes.u8, dtypes.u32]


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize(("dtype", "kind"), [(dtype, kind) for dtype in TYPES for kind in kinds_of(dtype)])
def test_every_kind_of_every_type(dtype: DType, kind: str, axis: Any) -> None:
    a = exact(dtype, (16, 32), kind)
    b = np.zeros(size(axis, 16, 32), dtype.numpy)
    reduced.on("numpy")[1,](a, b, kind=kind, axis=axis)
    np.testing.assert_array_equal(b, wanted(kind, a, axis, dtype))


@pytest.mark.parametrize("sg", [None, (2, 2), (4, 1)])
def test_operators_broadcast(sg: Any) -> None:
    a, b = exact(dtypes.f32, (16, 32), "add"), np.zeros((16, 32), np.float32)
    normalised.on("numpy")[1,](a, b, sg=sg)
    e = a - a.max(1, keepdims=True)
    np.testing.assert_array_equal(b, e * e.sum(0, keepdims=True))


def test_sums_of_narrow_floats_are_rounded_once() -> None:
    a = np.full((1, 4096), 1, np.float16)
    a[0, 0] = 2048  # in f16 itself, 2048 + 1 is 2048
    b = np.zeros((1, 1), np.float16)
    reduced.on("numpy")[1,](a, b, axis=1, rows=1, columns=4096)
    assert b[0, 0] == np.float16(2048 + 4095)


def test_nan_and_kinds_by_short_names() -> None:
    a = np.array([[1, np.nan, 3, -2], [np.nan] * 4], np.float32)
    for kind, first in (("max", np.nan), ("maxnumf", 3), ("min", np.nan), ("minnumf", -2), ("maximumf", np.nan)):
        b = np.zeros((2, 1), np.float32)
        reduced.on("numpy")[1,](a, b, kind=kind, rows=2, columns=4)
        np.testing.assert_array_equal(b, [[first], [np.nan]])
    c, d = np.array([[3, -5, 4, 1]], np.int32), np.zeros((1, 1), np.int32)
    reduced.on("numpy")[1,](c, d, kind="minui", rows=1, columns=4)
    assert d[0, 0] == 1
    reduced.on("numpy")[1,](c, d, kind="min", rows=1, columns=4)
    assert d[0, 0] == -5


@xt.kernel
def remapped(A, B, *, layout=(2, 2)):
    first, second = xt.wg_map((2, 2), (8, 16)), xt.wg_map((4, 1), (4, 32))
    v = xt.load_tile(xt.init_tile(A, (0, 0), (16, 32), wg_map=first))
    w = xt.tile_conv_layout(v + 1, second)
    s = xt.tile_transpose(xt.tile_broadcast(xt.tile_reduce("add", w, 1), (16, 32), wg_map=second))
    xt.store_tile(s, xt.init_tile(B, (0, 0), (32, 16), wg_map=second.transposed()))


def test_remapped() -> None:
    a, b = exact(dtypes.i32, (16, 32), "add"), np.zeros((32, 16), np.int32)
    remapped.on("numpy")[1,](a, b)
    np.testing.assert_array_equal(b, np.broadcast_to((a + 1).sum(1), (32, 16)))


def recorded() -> str:
    spec = xt.Spec((16, 32), xt.i32)
    return remapped.lower(spec, spec, target="pvc").xetile


def test_text_goes_round() -> None:
    text = recorded()
    assert "xetile.tile_reduce <add> %" in text
    assert ("[1] {wg_map = #xetile.wg_map<sg_layout = [4, 1], sg_data = [4, 1]>} : "
            "vector<16x32xi32> -> vector<16x1xi32>") in text
    assert "xetile.tile_broadcast %" in text
    parsed = xt.parse(text)["remapped"]
    a, b = exact(dtypes.i32, (16, 32), "add"), np.zeros((32, 16), np.int32)
    parsed.on("numpy")[1,](a, b)
    np.testing.assert_array_equal(b, np.broadcast_to((a + 1).sum(1), (32, 16)))
    assert parsed.lower(a, b).xetile == text


BROKEN = [
    (" [1] {wg_map = #xetile.wg_map<sg_layout = [4, 1], sg_data = [4, 1]>}", " [2]", "not dimensions to reduce"),
    ("<add>", "<minnumf>", "i32 has no reduction 'minnumf'"),
    ("sg_data = [4, 1]>} : vector<16x32", "sg_data = [2, 1]>} : vector<16x32", "is not distributed as"),
    ("[1] {wg_map = #xetile.wg_map<sg_layout = [4, 1], sg_data = [4, 32]>}", "[1]", "its broadcast not distributed"),
    ("[1] {wg_map = #xetile.wg_map<sg_layout = [4, 1], sg_data = [4, 32]>}",
     "[1] {wg_map = #xetile.wg_map<sg_layout = [2, 2], sg_data = [8, 16]>}", "is not broadcast to one distributed as"),
    ("source_map = #xetile.wg_map<sg_layout = [2, 2]", "source_map = #xetile.wg_map<sg_layout = [1, 4]",
     "the operation says wg_map(sg_layout=[1, 4]"),
    ("vector<16x32xi32> -> vector<16x1xi32>", "vector<16x32xi32> -> vector<1x32xi32>", "vector<16x1xi32>"),
]


@pytest.mark.parametrize(("old", "new", "message"), BROKEN)
def test_broken_text(old: str, new: str, message: str) -> None:
    text = recorded()
    assert text.count(old) == 1
    with pytest.raises(xt.XeError, match=re.escape(message)) as caught:
        xt.parse(text.replace(old, new))
    assert caught.value.hint


@xt.kernel
def wrong(A, *, case=""):
    v = xt.load_tile(xt.init_tile(A, (0, 0), (16, 32)))
    m = xt.wg_map((2, 2), (8, 16))
    w = xt.load_tile(xt.init_tile(A, (0, 0), (16, 32), wg_map=m)) if case in WITH_MAPS else None
    exec(WRONG[case][0], {"xt": xt, "v": v, "w": w, "m": m, "A": A})


WITH_MAPS = ("map", "underivable", "operand", "conv")
WRONG = {
    "kind": ("xt.tile_reduce('minsi', v, 1)", "XT3256"),
    "axis": ("xt.tile_reduce('add', v, 2)", "XT1224"),
    "vector": ("xt.tile_reduce('add', A, 1)", "XT1225"),
    "unmapped": ("xt.tile_reduce('add', v, 1, wg_map=m)", "XT1416"),
    "wide": ("xt.tile_broadcast(v, (16, 64))", "XT1220"),
    "shape": ("xt.tile_broadcast(v, 16)", "XT1223"),
    "differ": ("v + xt.tile_reduce('add', xt.zeros((8, 32), xt.f32), 1)", "XT1208"),
    "flat": ("xt.tile_conv_layout(v, m)", "XT1416"),
    "none": ("xt.tile_conv_layout(v, None)", "XT1402"),
    "turn": ("xt.tile_transpose(v, wg_map=m)", "XT1416"),
    "map": ("xt.tile_reduce('add', w, 1, wg_map=xt.wg_map((4, 1), (4, 1)))", "XT1414"),
    "underivable": ("xt.tile_broadcast(xt.tile_reduce('add', w, 1), (16, 32))", "XT1415"),
    "operand": ("w + xt.tile_reduce('add', xt.tile_conv_layout(w, xt.wg_map((4, 1), (4, 32))), 1)", "XT1417"),
    "conv": ("xt.tile_conv_layout(w, xt.wg_map((2, 2), (8, 5)))", "XT1153"),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors(case: str) -> None:
    with pytest.raises(xt.XeError) as caught:
        _ = wrong.lower(xt.Spec((16, 32), xt.f32), target="pvc", case=case).xetile
    assert caught.value.code == WRONG[case][1]
