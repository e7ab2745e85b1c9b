"""Vector constants whose elements differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_device

EXECUTIONS = [("numpy", "pvc"), ("numpy:xegpu", "pvc"), ("numpy:xegpu", "dg2"), ("opencl:cpu", "pvc"),
              ("opencl:cpu", "dg2"), ("opencl:cpu", "cpu")]
RNG = np.random.default_rng(21)
TEXT = """
#map = #xetile.wg_map<sg_layout = LAYOUT, sg_data = DATA>
#t = #xetile.tile_attr<wg_map = #map>
gpu.module @m {
  gpu.func @add(%A: memref<SHAPE>, %C: memref<SHAPE>) kernel {
    %ta = xetile.init_tile %A[0, 0] : memref<SHAPE> -> !xetile.tile<SHAPE, #t>
    %a = xetile.load_tile %ta : !xetile.tile<SHAPE, #t> -> vector<SHAPE>
    %k = arith.constant dense<VALUES> : vector<SHAPE>
    %c = arith.ADD %a, %k {map = #map} : vector<SHAPE>
    %tc = xetile.init_tile %C[0, 0] : memref<SHAPE> -> !xetile.tile<SHAPE, #t>
    xetile.store_tile %c, %tc : vector<SHAPE>, !xetile.tile<SHAPE, #t>
    gpu.return
  }
}
"""
rows, columns = np.indices((16, 32))
CASES: dict[str, tuple[str, Any]] = {
    "columns": ("i32", 3 * columns - 40), "rows": ("i32", 7 - 2 * rows), "wide": ("i64", columns * 100_000 - 5),
    "narrow": ("i16", rows * 3 - 20), "bytes": ("i8", columns * 4 - 64), "steps": ("f32", columns // 5 - 0.5),
    "alternating": ("f32", (columns % 2) * 2.0 - 1), "halves": ("f16", rows // 3 * 0.25),
    "random row": ("f32", np.broadcast_to(RNG.integers(-99, 99, 32), (16, 32)) * 0.5),
    "random column": ("i32", np.broadcast_to(RNG.integers(-2**31, 2**31, (16, 1)), (16, 32))),
    "random": ("i32", RNG.integers(-2**31, 2**31, (16, 32))), "blocks": ("f32", (rows // 7 * 3 + columns // 11) * 1.0),
}


def dense(values: Any) -> str:
    return str([list(row) for row in values.tolist()])


def text_of(kind: str, values: Any, layout: str, data: str) -> str:
    words = {"LAYOUT": layout, "DATA": data, "SHAPE": f"{values.shape[0]}x{values.shape[1]}x{kind}",
             "VALUES": dense(values), "ADD": "addf" if kind[0] == "f" else "addi"}
    text = TEXT
    for name, word in words.items():
        text = text.replace(name, word)
    if layout == "none":
        text = text.replace(", #t", "").replace(" {map = #map}", "").partition("gpu.module")[1:]
        return "".join(text)
    return text


@pytest.mark.parametrize(("name", "layout", "data"), [
    (name, *map_) for name in CASES for map_ in [("none", ""), ("[2, 2]", "[8, 16]"), ("[4, 1]", "[2, 32]")]
    if name != "random" or map_ == ("[2, 2]", "[8, 16]")])  # 512 selections, whose text takes drivers ten seconds
@pytest.mark.parametrize(("where", "target"), EXECUTIONS)
def test_constants(where: str, target: str, layout: str, data: str, name: str) -> None:
    if where == "opencl:cpu":
        require_device(where)
    kind, values = CASES[name]
    dtype = np.dtype({"f32": "f4", "f16": "f2"}.get(kind) or f"i{int(kind[1:]) // 8}")
    values = np.asarray(values).astype(dtype)
    a = RNG.integers(-8, 8, values.shape).astype(dtype)
    c = np.zeros_like(a)
    xt.parse(text_of(kind, values, layout, data))["add"].on(where, target=target)[1](a, c)
    np.testing.assert_array_equal(c, a + values)


@pytest.mark.parametrize(("where", "target"), EXECUTIONS)
def test_a_mask(where: str, target: str) -> None:
    if where == "opencl:cpu":
        require_device(where)
    mask = RNG.random((8, 16)) < 0.5
    values = str([[bool(bit) for bit in row] for row in mask.tolist()]).lower()
    text = f"""func.func @f(%A: memref<8x16xf32>, %C: memref<8x16xf32>) {{
  %c0 = arith.constant 0 : index
  %ta = xetile.init_tile %A[%c0, %c0] : memref<8x16xf32> -> !xetile.tile<8x16xf32>
  %a = xetile.load_tile %ta : !xetile.tile<8x16xf32> -> vector<8x16xf32>
  %m = arith.constant dense<{values}> : vector<8x16xi1>
  %z = arith.constant dense<0.0> : vector<8x16xf32>
  %s = arith.select %m, %a, %z : vector<8x16xi1>, vector<8x16xf32>
  %tc = xetile.init_tile %C[%c0, %c0] : memref<8x16xf32> -> !xetile.tile<8x16xf32>
  xetile.store_tile %s, %tc : vector<8x16xf32>, !xetile.tile<8x16xf32>
  return
}}"""
    a, c = RNG.integers(1, 9, (8, 16)).astype(np.float32), np.zeros((8, 16), np.float32)
    xt.parse(text)["f"].on(where, target=target)[1](a, c)
    np.testing.assert_array_equal(c, np.where(mask, a, 0))


def test_too_many() -> None:
    values = RNG.integers(0, 1000, (64, 128)).astype(np.int32)
    with pytest.raises(xt.TextError, match="XT2072"):
        xt.parse(text_of("i32", values, "none", ""))


@pytest.mark.parametrize(("where", "target"), EXECUTIONS)
def test_poison_that_nothing_selects(where: str, target: str) -> None:
    """``ub.poison`` as a tile and as a vector of one dimension."""
    if where == "opencl:cpu":
        require_device(where)
    tile, vector = "!xetile.tile<8x16xf32>", "vector<8x16xf32>"
    kernel = xt.parse(f"""func.func @f(%A: memref<8x16xf32>, %C: memref<8x16xf32>) {{
  %ta = xetile.init_tile %A[0, 0] : memref<8x16xf32> -> {tile}
  %tc = xetile.init_tile %C[0, 0] : memref<8x16xf32> -> {tile}
  %a = xetile.load_tile %ta : {tile} -> {vector}
  %zero = arith.constant dense<0.0> : {vector}
  %less = arith.cmpf olt, %a, %zero : {vector}
  %more = arith.cmpf oge, %a, %zero : {vector}
  %none = ub.poison : {vector}
  %line = ub.poison : vector<16xf32>
  %lines = vector.broadcast %line : vector<16xf32> to {vector}
  %x = arith.select %less, %a, %none : vector<8x16xi1>, {vector}
  %y = arith.select %more, %a, %lines : vector<8x16xi1>, {vector}
  %c = arith.select %less, %x, %y : vector<8x16xi1>, {vector}
  xetile.store_tile %c, %tc : {vector}, {tile}
  func.return
}}""")["f"].on(where, target=target)
    a, c = np.random.default_rng(3).integers(-9, 9, (8, 16)).astype(np.float32), np.zeros((8, 16), np.float32)
    kernel[1](a, c)
    np.testing.assert_array_equal(c, a)
