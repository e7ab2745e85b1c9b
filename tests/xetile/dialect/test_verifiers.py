"""Constraints of XeTile.md: each broken once from Python and once in text, with its code.

What other files test closely (loops, conditions, addresses, atomic kinds, scattered tiles) stands here with one case.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xetile as xt

ROWS, QUARTERS = "sg_layout = [4, 1], sg_data = [8, 32]", "sg_layout = [2, 2], sg_data = [16, 16]"
MEMORY = "%A: memref<64x64xf32>"


def tile(encoding: str = "", shape: str = "32x32xf32") -> str:
    """A tile's type."""
    return f"!xetile.tile<{shape}{f', #xetile.tile_attr<{encoding}>' if encoding else ''}>"


def wg_tile(map_: str, shape: str = "32x32xf32") -> str:
    """The type of a tile with a map."""
    return tile(f"wg_map = #xetile.wg_map<{map_}>", shape)


def made(name: str, type_: str, memory: str = "memref<64x64xf32>", operands: str = "") -> str:
    """A line that makes a tile."""
    return f"%{name} = xetile.init_tile %A, [%c0, %c0]{operands} : {memory} -> {type_}\n  "


def loaded(name: str, map_: str, shape: str = "32x32xf32") -> str:
    """Lines that load a vector which is distributed."""
    type_ = wg_tile(map_, shape)
    return made(f"{name}_tile", type_) + f"%{name} = xetile.load_tile %{name}_tile : {type_} -> vector<{shape}>\n  "


def one(name: str, source: str, pieces: str, result: str) -> tuple[str, str]:
    """Arguments and line of an operation on one vector."""
    return f"%v: vector<{source}>", f"%r = xetile.{name} {pieces} : vector<{source}> -> vector<{result}>"


def product(a: str, b: str, c: str, acc: str = "") -> tuple[str, str]:
    """Arguments and line of a product."""
    arguments = f"%a: vector<{a}>, %b: vector<{b}>" + (f", %c: vector<{acc}>" if acc else "")
    third, type_ = (", %c", f", vector<{acc}>") if acc else ("", "")
    return arguments, f"%r = xetile.tile_mma %a, %b{third} : vector<{a}>, vector<{b}>{type_} -> vector<{c}>"


def scattered(pieces: str = "", indices: str = "1x64xindex", mask: str = "1x64xi1", element: str = "f32",
              ) -> tuple[str, str]:
    """Arguments and lines of a gather."""
    type_ = f"!xetile.tile<1x64x{element}, #xetile.tile_attr<scatter = true>>"
    return (f"%A: i64, %o: vector<{indices}>, %m: vector<{mask}>",
            f"%t = xetile.init_tile %A, %o : i64, vector<{indices}> -> {type_}\n  %r = xetile.load_gather %t, %m "
            f"{pieces} : {type_}, vector<{mask}> -> vector<1x64x{element}>")


def stored(value: str, tile_type: str, name: str = "store_tile", more: str = "") -> tuple[str, str]:
    """Arguments and lines of a store to a tile."""
    return (f"{MEMORY}, %v: vector<{value}>",
            made("t", tile_type) + f"xetile.{name} %v, %t {more}: vector<{value}>, {tile_type}")


ADDRESS = "[%c64, %c64], "
TEXT: dict[str, tuple[tuple[str, str], str]] = {
    "a tile's element type": ((MEMORY, made("t", tile(shape="32x32xf16"))), "XT2112"),
    "an element type that there is not": (("%A: memref<64x64xf80>", made("t", tile(shape="32x32xf80"),
                                                                        "memref<64x64xf80>")),
                                          "XT2016"),
    "a base without dimensions": (("%A: memref<f32>",
                                   f"%t = xetile.init_tile %A, %c0, %c0 : memref<f32>, index, index -> {tile()}"),
                                  "XT2043"),
    "a base of one dimension": (("%A: memref<64xf32>", f"%t = xetile.init_tile %A, [%c0] : memref<64xf32> -> {tile()}"),
                                "XT3021"),
    "one offset": ((MEMORY, f"%t = xetile.init_tile %A, [%c0] : memref<64x64xf32> -> {tile()}"), "XT3022"),
    "a tile of one dimension": ((MEMORY, made("t", tile(shape="32xf32"))), "XT2057"),
    "a tile of three dimensions": ((MEMORY, made("t", tile(shape="2x8x32xf32"))), "XT2057"),
    "a tile of dynamic shape": ((MEMORY, made("t", tile(shape="?x32xf32"))), "XT2057"),
    "no order": ((MEMORY, made("t", tile("order = [0, 0]"))), "XT1107"),
    "an order of one number": ((MEMORY, made("t", tile("order = 1"))), "XT2048"),
    "order against a memref's layout": ((MEMORY, made("t", tile("order = [0, 1]"))), "XT2131"),
    "columns' order against an address's strides": (
        ("%A: i64", made("t", tile("order = [0, 1]"), "i64", f", {ADDRESS}[%c64, %c1]")),
        "XT2131"),
    "order against the strides of a dynamic memref": (
        ("%A: memref<?x?xf32>", made("t", tile("order = [0, 1]"), "memref<?x?xf32>", f", {ADDRESS}[%c64, %c1]")),
        "XT2131"),
    "a dynamic memref without operands": (("%A: memref<?x?xf32>", made("t", tile(), "memref<?x?xf32>")), "XT3023"),
    "an address without operands": (("%A: i64", made("t", tile(), "i64")), "XT3030"),
    "an address of 32 bits": (("%A: i32", made("t", tile(), "i32", f", {ADDRESS}[%c64, %c1]")), "XT3027"),
    "inner_blocks that do not divide": ((MEMORY, made("t", tile("inner_blocks = [12, 16]"))), "XT1233"),
    "three inner_blocks": ((MEMORY, made("t", tile("inner_blocks = [8, 8, 8]"))), "XT1232"),
    "inner_blocks of a subgroup's part": (
        (MEMORY, made("t", tile(f"wg_map = #xetile.wg_map<{ROWS}>, inner_blocks = [16, 16]"))),
        "XT1233"),
    "an uneven map": ((MEMORY, made("t", wg_tile("sg_layout = [3, 1], sg_data = [8, 32]"))), "XT1153"),
    "a map of three dimensions": ((MEMORY, made("t", wg_tile("sg_layout = [2, 1, 1], sg_data = [8, 32]"))), "XT1151"),
    "a map without data": ((MEMORY, made("t", wg_tile("sg_layout = [2, 1]"))), "XT2056"),
    "maps of two work-groups": ((MEMORY, made("t", wg_tile(ROWS)) + made("u", wg_tile("sg_layout = [2, 1], "
                                                                                  "sg_data = [16, 32]"))),
                                "XT1070"),
    "a load of another shape": ((MEMORY, made("t", tile()) + f"%v = xetile.load_tile %t : {tile()} -> "
                                 "vector<32x16xf32>"), "XT2117"),
    "a load of another type": ((MEMORY, made("t", tile()) + f"%v = xetile.load_tile %t : {tile()} -> "
                                "vector<32x32xf16>"), "XT2117"),
    "a load of blocks in two dimensions": (
        (MEMORY, made("t", tile("inner_blocks = [8, 16]")) + "%v = xetile.load_tile %t : "
         f"{tile('inner_blocks = [8, 16]')} -> vector<32x32xf32>"), "XT2117"),
    "a padding that is no number": ((MEMORY, made("t", tile()) + f'%v = xetile.load_tile %t {{padding = "one"}} : '
                                     f"{tile()} -> vector<32x32xf32>"), "XT2132"),
    "a padding between integers": (scattered("{padding = 1.5}", element="i32"), "XT1125"),
    "a padding out of range": (scattered("{padding = 300}", element="i8"), "XT1125"),
    "a padding of a store": (stored("32x32xf32", tile(), more="{padding = 1.0} "), "XT2031"),
    "a store of another shape": (stored("16x32xf32", tile()), "XT1130"),
    "a store of another type": (stored("32x32xf16", tile()), "XT1131"),
    "a store of blocks to a tile without": (stored("4x2x8x16xf32", tile()), "XT1130"),
    "a store of what is distributed otherwise": (
        (MEMORY, loaded("v", ROWS) + made("t", wg_tile(QUARTERS)) + f"xetile.store_tile %v, %t : vector<32x32xf32>, "
         f"{wg_tile(QUARTERS)}"), "XT1401"),
    "a store of a work-group's vector to a subgroup's tile": (
        (MEMORY, loaded("v", ROWS) + made("t", tile()) + f"xetile.store_tile %v, %t : vector<32x32xf32>, {tile()}"),
        "XT1401"),
    "a locality": ((MEMORY, made("t", tile()) + f"xetile.prefetch_tile %t locality<4> : {tile()}"), "XT1128"),
    "a move by one offset": ((MEMORY, made("t", tile()) + f"%u = xetile.update_tile_offset %t, [%c0] : {tile()} -> "
                              f"{tile()}"), "XT1129"),
    "a move to another type": ((MEMORY, made("t", tile()) + f"%u = xetile.update_tile_offset %t, [%c0, %c0] : {tile()} "
                                f"-> {tile(shape='16x32xf32')}"), "XT2111"),
    "a product's depth": (product("32x16xf16", "32x32xf16", "32x32xf32"), "XT1250"),
    "a product's result": (product("32x16xf16", "16x32xf16", "32x16xf32"), "XT1253"),
    "a product of 2D and 4D": (product("32x16xf16", "1x2x16x16xf16", "32x32xf32"), "XT1254"),
    "a product of blocks": (product("4x1x8x16xf16", "2x2x8x16xf16", "4x2x8x16xf32"), "XT1255"),
    "a product's accumulator": (product("32x16xf16", "16x32xf16", "32x32xf32", "32x32xf16"), "XT3201"),
    "a product of two types": (product("32x16xf16", "16x32xbf16", "32x32xf32"), "XT1251"),
    "a product's sum": (product("32x32xi8", "32x32xi8", "32x32xf32"), "XT1252"),
    "a permutation": (one("tile_transpose", "32x16xf16", "[0, 1] %v", "32x16xf16"), "XT2118"),
    "a transpose's shape": (one("tile_transpose", "32x16xf16", "[1, 0] %v", "32x16xf16"), "XT2119"),
    "a transpose's type": (one("tile_transpose", "32x16xf16", "[1, 0] %v", "16x32xf32"), "XT2119"),
    "a transpose of blocks": (one("tile_transpose", "4x1x8x16xf16", "[1, 0] %v", "16x8x1x4xf16"), "XT1122"),
    "a transpose to other subgroups": (
        (MEMORY, loaded("v", ROWS) + "%r = xetile.tile_transpose %v [1, 0] {wg_map = #xetile.wg_map<sg_layout = [2, 1],"
         " sg_data = [16, 32]>} : vector<32x32xf32> -> vector<32x32xf32>"),
        "XT1070"),
    "a dimension to reduce": (one("tile_reduce <add>", "32x16xf16", "%v [2]", "32x1xf16"), "XT1224"),
    "one dimension of blocks to reduce": (one("tile_reduce <add>", "4x1x8x16xf16", "%v [1]", "4x1x8x16xf16"), "XT1224"),
    "what is reduced is 1": (one("tile_reduce <add>", "32x16xf16", "%v [1]", "32x16xf16"), "XT2163"),
    "a reduction's type": (one("tile_reduce <add>", "32x16xf16", "%v [1]", "32x1xf32"), "XT2163"),
    "a reduction's kind": (one("tile_reduce <xor>", "32x16xf16", "%v [1]", "32x1xf16"), "XT3256"),
    "a reduction's rank": (one("tile_reduce <add>", "32x16xf16", "%v [1]", "32xf16"), "XT2160"),
    "a reduction's map": (
        (MEMORY, loaded("v", ROWS) + "%r = xetile.tile_reduce <add> %v [1] {wg_map = #xetile.wg_map<sg_layout = [4, 1],"
         " sg_data = [4, 1]>} : vector<32x32xf32> -> vector<32x1xf32>"),
        "XT1414"),
    "what is broadcast is 1": (one("tile_broadcast", "32x16xf16", "%v [1]", "32x32xf16"), "XT1220"),
    "a broadcast's type": (one("tile_broadcast", "1x16xf16", "%v [0]", "32x16xf32"), "XT2165"),
    "a broadcast's other dimension": (one("tile_broadcast", "1x16xf16", "%v [0]", "32x32xf16"), "XT2165"),
    "a broadcast of one dimension": (one("tile_broadcast", "16xf16", "%v [0]", "32x16xf16"), "XT2160"),
    "a broadcast's map": (
        (MEMORY, loaded("v", "sg_layout = [4, 1], sg_data = [8, 1]", "32x1xf32") + "%r = xetile.tile_broadcast %v [1] "
         f"{{wg_map = #xetile.wg_map<{QUARTERS}>}} : vector<32x1xf32> -> vector<32x32xf32>"),
        "XT1417"),
    "a packed shape": (one("tile_pack", "64x32xf32", "%v {inner_blocks = [16, 16]}", "4x4x16x16xf32"), "XT2121"),
    "a packed permutation": (one("tile_pack", "64x32xf32", "%v {inner_blocks = [16, 16]}", "2x4x16x16xf32"), "XT2121"),
    "blocks that do not divide": (one("tile_pack", "60x32xf32", "%v {inner_blocks = [16, 16]}", "3x2x16x16xf32"),
                                  "XT2121"),
    "other inner_blocks": (one("tile_pack", "64x32xf32", "%v {inner_blocks = [16, 8]}", "4x2x16x16xf32"), "XT2121"),
    "a packed type": (one("tile_pack", "64x32xf32", "%v {inner_blocks = [16, 16]}", "4x2x16x16xf16"), "XT2122"),
    "a pack of three dimensions": (one("tile_pack", "2x64x32xf32", "%v {inner_blocks = [16, 16]}", "4x2x16x16xf32"),
                                   "XT2121"),
    "an unpacked shape": (one("tile_unpack", "4x2x16x16xf32", "%v {inner_blocks = [16, 16]}", "32x64xf32"), "XT2121"),
    "an unpacked type": (one("tile_unpack", "4x2x16x16xf32", "%v {inner_blocks = [16, 16]}", "64x32xf16"), "XT2122"),
    "an unpack of two dimensions": (one("tile_unpack", "64x32xf32", "%v {inner_blocks = [16, 16]}", "64x32xf32"),
                                    "XT2121"),
    "an atomic kind": ((f"{MEMORY}, %v: vector<32x32xf32>", made("t", tile()) + "%r = xetile.atomic_rmw_tile <andi> "
                        f"%v, %t : vector<32x32xf32>, {tile()} -> vector<32x32xf32>"), "XT1450"),
    "an atomic shape": ((f"{MEMORY}, %v: vector<32x16xf32>", made("t", tile()) + "%r = xetile.atomic_rmw_tile <addf> "
                         f"%v, %t : vector<32x16xf32>, {tile()} -> vector<32x16xf32>"), "XT2153"),
    "an atomic map": (
        (MEMORY, loaded("v", ROWS) + made("t", wg_tile(QUARTERS)) + "%r = xetile.atomic_rmw_tile <addf> %v, %t : "
         f"vector<32x32xf32>, {wg_tile(QUARTERS)} -> vector<32x32xf32>"),
        "XT1401"),
    "a gather from a window": ((f"{MEMORY}, %m: vector<32x32xi1>", made("t", tile()) + "%r = xetile.load_gather %t, %m "
                                f": {tile()}, vector<32x32xi1> -> vector<32x32xf32>"), "XT2115"),
    "a mask's shape": (scattered(mask="1x32xi1"), "XT2153"),
    "a mask's type": (scattered(mask="1x64xi32"), "XT1449"),
    "an index vector's shape": (scattered(indices="1x32xindex"), "XT2153"),
    "an index vector's type": (scattered(indices="1x64xi16"), "XT1446"),
    "another layout of another type": (
        (MEMORY, loaded("v", ROWS) + f"%r = xetile.tile_conv_layout %v {{wg_map = #xetile.wg_map<{QUARTERS}>}} : "
         "vector<32x32xf32> -> vector<32x32xf16>"), "XT2166"),
    "another layout from what it is not": (
        (MEMORY, loaded("v", ROWS) + f"%r = xetile.tile_conv_layout %v {{wg_map = #xetile.wg_map<{QUARTERS}>, "
         "source_map = #xetile.wg_map<sg_layout = [1, 4], sg_data = [32, 8]>} : vector<32x32xf32> -> "
         "vector<32x32xf32>"),
        "XT2076"),
    "another layout without a map": ((MEMORY, loaded("v", ROWS) + "%r = xetile.tile_conv_layout %v : vector<32x32xf32> "
                                      "-> vector<32x32xf32>"), "XT2077"),
}


@pytest.mark.parametrize("name", TEXT)
def test_in_text(name: str) -> None:
    (arguments, body), code = TEXT[name]
    constants = "".join(f"  %c{value} = arith.constant {value} : index\n" for value in (0, 1, 64))
    with pytest.raises(xt.TextError) as caught:
        xt.parse(f"func.func @wrong({arguments}) {{\n{constants}  {body}\n  func.return\n}}")
    assert caught.value.code == code
    assert caught.value.hint


Q, R = xt.wg_map((2, 2), (16, 16)), xt.wg_map((4, 1), (8, 32))


def window(A: Any, **options: Any) -> Any:
    """A tile of 32 x 32."""
    return xt.init_tile(A, (0, 0), (32, 32), **options)


def vector(A: Any, **options: Any) -> Any:
    """Its contents."""
    return xt.load_tile(window(A, **options))


def gather(A: Any, mask: Any, **options: Any) -> Any:
    """Four elements of an array."""
    return xt.load_gather(xt.init_tile(A, offsets=xt.iota((1, 4), 1, xt.index)), mask, **options)


PYTHON: dict[str, tuple[Callable[..., Any], str]] = {
    "a tile of three dimensions": (lambda A, at: xt.init_tile(A, (0, 0), (2, 8, 32)), "XT1106"),
    "a tile of run-time shape": (lambda A, at: xt.init_tile(A, (0, 0), (A.shape[0], 32)), "XT1105"),
    "one offset": (lambda A, at: xt.init_tile(A, (0,), (32, 32)), "XT1103"),
    "no order": (lambda A, at: window(A, order=(0, 0)), "XT1107"),
    "columns' order against an address's strides": (
        lambda A, at: xt.init_tile(at, (0, 0), (8, 16), base_shape=(8, 16), base_strides=(16, 1), dtype=xt.f32,
                                   order=(0, 1)), "XT2131"),
    "an address without strides": (lambda A, at: xt.init_tile(at, (0, 0), (8, 16), base_shape=(8, 16), dtype=xt.f32),
                                   "XT1112"),
    "inner_blocks that do not divide": (lambda A, at: window(A, inner_blocks=(12, 16)), "XT1233"),
    "an uneven map": (lambda A, at: window(A, wg_map=xt.wg_map((3, 1), (8, 32))), "XT1153"),
    "maps of two work-groups": (lambda A, at: (window(A, wg_map=R), window(A, wg_map=xt.wg_map((2, 1), (16, 32)))),
                                "XT1070"),
    "a padding that is no number": (lambda A, at: xt.load_tile(window(A), padding="one"), "XT1124"),
    "a padding between integers": (lambda A, at: xt.load_tile(xt.init_tile(xt.view(A, xt.i32), (0, 0), (8, 16)),
                                                              padding=1.5), "XT1125"),
    "a store of another shape": (lambda A, at: xt.store_tile(xt.zeros((16, 32), xt.f32), window(A)), "XT1130"),
    "a store of another type": (lambda A, at: xt.store_tile(xt.zeros((32, 32), xt.f16), window(A)), "XT1131"),
    "a store of blocks to a tile without": (lambda A, at: xt.store_tile(vector(A, inner_blocks=(8, 16)), window(A)),
                                            "XT1130"),
    "a store of what is distributed otherwise": (
        lambda A, at: xt.store_tile(vector(A, wg_map=R), window(A, wg_map=Q)),
        "XT1401"),
    "a locality": (lambda A, at: xt.prefetch_tile(window(A), locality=4), "XT1128"),
    "a product's depth": (lambda A, at: xt.tile_mma(xt.zeros((32, 16), xt.f16), xt.zeros((32, 32), xt.f16)), "XT1250"),
    "a product's accumulator": (lambda A, at: xt.tile_mma(xt.zeros((32, 16), xt.f16), xt.zeros((16, 32), xt.f16),
                                                          xt.zeros((16, 16), xt.f32)), "XT1253"),
    "a product of 2D and 4D": (lambda A, at: xt.tile_mma(xt.tile_pack(xt.zeros((32, 16), xt.f16), (8, 16)),
                                                         xt.zeros((16, 32), xt.f16)), "XT1254"),
    "a product of two types": (lambda A, at: xt.tile_mma(xt.zeros((32, 16), xt.f16), xt.zeros((16, 32), xt.bf16)),
                               "XT1251"),
    "a product's sum": (lambda A, at: xt.tile_mma(xt.zeros((32, 32), xt.i8), xt.zeros((32, 32), xt.i8),
                                                  xt.zeros((32, 32), xt.f32)), "XT1252"),
    "a product's maps": (lambda A, at: xt.tile_mma(vector(A, wg_map=Q), vector(A, wg_map=R)), "XT1412"),
    "a transpose of blocks": (lambda A, at: xt.tile_transpose(vector(A, inner_blocks=(8, 16))), "XT1122"),
    "a transpose to other subgroups": (lambda A, at: xt.tile_transpose(vector(A, wg_map=R),
                                                                       wg_map=xt.wg_map((2, 1), (16, 32))),
                                       "XT1070"),
    "a dimension to reduce": (lambda A, at: xt.tile_reduce("add", vector(A), 2), "XT1224"),
    "a broadcast of blocks": (lambda A, at: xt.tile_broadcast(vector(A, inner_blocks=(8, 16)), (32, 64)), "XT1222"),
    "a reduction's kind": (lambda A, at: xt.tile_reduce("xor", vector(A), 1), "XT3256"),
    "a reduction's map": (lambda A, at: xt.tile_reduce("add", vector(A, wg_map=R), 1,
                                                       wg_map=xt.wg_map((4, 1), (4, 1))),
                          "XT1414"),
    "what is broadcast is 1": (lambda A, at: xt.tile_broadcast(vector(A), (64, 32)), "XT1220"),
    "a broadcast's map": (lambda A, at: xt.tile_broadcast(xt.tile_reduce("add", vector(A, wg_map=R), 1), (32, 32),
                                                          wg_map=Q), "XT1417"),
    "blocks that do not divide": (lambda A, at: xt.tile_pack(vector(A), (12, 16)), "XT1233"),
    "an unpack of two dimensions": (lambda A, at: xt.tile_unpack(vector(A)), "XT1231"),
    "an atomic kind": (lambda A, at: xt.atomic_rmw_tile("andi", vector(A), window(A)), "XT1450"),
    "an atomic map": (lambda A, at: xt.atomic_rmw_tile("addf", vector(A, wg_map=R), window(A, wg_map=Q)), "XT1401"),
    "a gather from a window": (lambda A, at: xt.load_gather(window(A), vector(A) > 0), "XT2115"),
    "a mask's shape": (lambda A, at: gather(A, xt.full((1, 8), True, xt.i1)), "XT2153"),
    "a mask's type": (lambda A, at: gather(A, xt.full((1, 4), 1, xt.i32)), "XT1449"),
    "another layout for other subgroups": (
        lambda A, at: xt.tile_conv_layout(vector(A, wg_map=R), xt.wg_map((2, 1), (16, 32))), "XT1070"),
    "another layout of a subgroup's vector": (lambda A, at: xt.tile_conv_layout(vector(A), R), "XT1416"),
    "element-wise on two maps": (lambda A, at: vector(A, wg_map=R) + vector(A, wg_map=Q), "XT1400"),
}


@pytest.mark.parametrize("name", PYTHON)
def test_from_python(name: str) -> None:
    make, code = PYTHON[name]

    @xt.kernel
    def wrong(A, at):
        make(A, at)

    array = np.full((64, 64), 7, np.float32)
    with pytest.raises(xt.XeError) as caught:
        wrong[1](array, np.uint64(0))
    assert caught.value.code == code
    assert caught.value.hint
    assert caught.value.location is not None
    assert (array == 7).all()
