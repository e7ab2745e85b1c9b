"""What XeTile.md states as a must: each broken once from Python and once in text, with its message and its hint.

What other files test closely (loops, conditions, addresses, atomic kinds, scattered tiles) stands here with one case.
"""

from __future__ import annotations

import re
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


def dealt(map_: str, shape: str = "32x32xf32") -> str:
    """The type of a tile with a map."""
    return tile(f"wg_map = #xetile.wg_map<{map_}>", shape)


def made(name: str, type_: str, memory: str = "memref<64x64xf32>", operands: str = "") -> str:
    """A line that makes a tile."""
    return f"%{name} = xetile.init_tile %A, [%c0, %c0]{operands} : {memory} -> {type_}\n  "


def loaded(name: str, map_: str, shape: str = "32x32xf32") -> str:
    """Lines that load a vector which is distributed."""
    type_ = dealt(map_, shape)
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
TEXT: dict[str, tuple[tuple[str, str], str, str]] = {
    "a tile's element type": ((MEMORY, made("t", tile(shape="32x32xf16"))), "a tile of f16 cannot cover an array of "
                              "f32", "make the tile of f32"),
    "an element type that there is not": (("%A: memref<64x64xf80>", made("t", tile(shape="32x32xf80"),
                                                                        "memref<64x64xf80>")),
                                          "element type f80 is not supported", "use one of: f64 f32"),
    "a base of one dimension": (("%A: memref<64xf32>", f"%t = xetile.init_tile %A, [%c0] : memref<64xf32> -> {tile()}"),
                                "covers the last two dimensions of an array", "cast it to two dimensions"),
    "one offset": ((MEMORY, f"%t = xetile.init_tile %A, [%c0] : memref<64x64xf32> -> {tile()}"),
                   "takes 2 offsets, not 1", "row and column"),
    "a tile of one dimension": ((MEMORY, made("t", tile(shape="32xf32"))), "two static dimensions", "tile<64x32xbf16>"),
    "a tile of three dimensions": ((MEMORY, made("t", tile(shape="2x8x32xf32"))), "two static dimensions",
                                   "tile<64x32xbf16>"),
    "a tile of dynamic shape": ((MEMORY, made("t", tile(shape="?x32xf32"))), "two static dimensions",
                                "tile<64x32xbf16>"),
    "no order": ((MEMORY, made("t", tile("order = [0, 0]"))), "order must be [1, 0] or [0, 1], not [0, 0]",
                 "[0, 1] for columns"),
    "an order of one number": ((MEMORY, made("t", tile("order = 1"))), "1 stands where a list of integers must",
                               "[8, 16]"),
    "order against a memref's layout": ((MEMORY, made("t", tile("order = [0, 1]"))), "order [0, 1], and its memref is "
                                        "not stored column by column", "affine_map<(d0, d1) -> (d1, d0)>"),
    "columns' order against an address's strides": (
        ("%A: i64", made("t", tile("order = [0, 1]"), "i64", f", {ADDRESS}[%c64, %c1]")),
        "not stored column by column: its strides are [64, 1]", "strides [1, pitch]"),
    "order against the strides of a dynamic memref": (
        ("%A: memref<?x?xf32>", made("t", tile("order = [0, 1]"), "memref<?x?xf32>", f", {ADDRESS}[%c64, %c1]")),
        "its memref is not stored column by column: its strides are [64, 1]", "drop the order"),
    "a dynamic memref without operands": (("%A: memref<?x?xf32>", made("t", tile(), "memref<?x?xf32>")),
                                          "needs 2 sizes and 2 strides", "[%offsets], [%shape], [%strides]"),
    "an address without operands": (("%A: i64", made("t", tile(), "i64")), "two offsets, two sizes and two strides",
                                    "[%height, %width], [%pitch, %one]"),
    "an address of 32 bits": (("%A: i32", made("t", tile(), "i32", f", {ADDRESS}[%c64, %c1]")), "not on i32",
                              "64 bits"),
    "inner_blocks that do not divide": ((MEMORY, made("t", tile("inner_blocks = [12, 16]"))),
                                        "inner_blocks [12, 16] do not divide a tile of 32x32", "rows divide 32"),
    "three inner_blocks": ((MEMORY, made("t", tile("inner_blocks = [8, 8, 8]"))), "two positive integers",
                           "[8, 16]"),
    "inner_blocks of a subgroup's part": (
        (MEMORY, made("t", tile(f"wg_map = #xetile.wg_map<{ROWS}>, inner_blocks = [16, 16]"))),
        "of which a subgroup has 8x32", "rows divide 8"),
    "an uneven deal": ((MEMORY, made("t", dealt("sg_layout = [3, 1], sg_data = [8, 32]"))),
                       "neither a multiple nor a divisor of sg_layout x sg_data = 3 x 8 = 24", "sg_data[0] = 32"),
    "a map of three dimensions": ((MEMORY, made("t", dealt("sg_layout = [2, 1, 1], sg_data = [8, 32]"))),
                                  "sg_layout must be two positive integers", "rows and columns"),
    "a map without data": ((MEMORY, made("t", dealt("sg_layout = [2, 1]"))), "a wg_map needs sg_data", "sg_data = "),
    "maps of two work-groups": ((MEMORY, made("t", dealt(ROWS)) + made("u", dealt("sg_layout = [2, 1], "
                                                                                  "sg_data = [16, 32]"))),
                                "has 2 subgroups, and wg_map(sg_layout=[4, 1], sg_data=[8, 32]) above has 4",
                                "make the product of every sg_layout 4"),
    "a load of another shape": ((MEMORY, made("t", tile()) + f"%v = xetile.load_tile %t : {tile()} -> "
                                 "vector<32x16xf32>"), "gives a vector<32x32xf32>, not "
                               "vector<32x16xf32>", "as they are"),
    "a load of another type": ((MEMORY, made("t", tile()) + f"%v = xetile.load_tile %t : {tile()} -> "
                                "vector<32x32xf16>"), "gives a vector<32x32xf32>, not "
                               "vector<32x32xf16>", "as they are"),
    "a load of blocks in two dimensions": (
        (MEMORY, made("t", tile("inner_blocks = [8, 16]")) + "%v = xetile.load_tile %t : "
         f"{tile('inner_blocks = [8, 16]')} -> vector<32x32xf32>"), "gives a vector<4x2x8x16xf32>", "reshape"),
    "a padding that is no number": ((MEMORY, made("t", tile()) + f'%v = xetile.load_tile %t {{padding = "one"}} : '
                                     f"{tile()} -> vector<32x32xf32>"), 'padding is "one"', "padding = 1.0"),
    "a padding between integers": (scattered("{padding = 1.5}", element="i32"), "padding 1.5 does not fit i32",
                                   "a whole number"),
    "a padding out of range": (scattered("{padding = 300}", element="i8"), "padding 300 does not fit i8",
                               "a whole number that i8 holds"),
    "a padding of a store": (stored("32x32xf32", tile(), more="{padding = 1.0} "), "no attribute padding", "l1_hint"),
    "a store of another shape": (stored("16x32xf32", tile()), "a vector of 16x32 does not fit a tile of 32x32",
                                 "32x32"),
    "a store of another type": (stored("32x32xf16", tile()), "a vector of f16 does not fit a tile of f32",
                                ".to(xt.f32)"),
    "a store of blocks to a tile without": (stored("4x2x8x16xf32", tile()), "a vector of 4x2x8x16", "32x32"),
    "a store of what is distributed otherwise": (
        (MEMORY, loaded("v", ROWS) + made("t", dealt(QUARTERS)) + f"xetile.store_tile %v, %t : vector<32x32xf32>, "
         f"{dealt(QUARTERS)}"), "distributed as wg_map(sg_layout=[4, 1], sg_data=[8, 32]), the tile as "
         "wg_map(sg_layout="
        "[2, 2], sg_data=[16, 16])", "tile_conv_layout"),
    "a store of a work-group's vector to a subgroup's tile": (
        (MEMORY, loaded("v", ROWS) + made("t", tile()) + f"xetile.store_tile %v, %t : vector<32x32xf32>, {tile()}"),
        "the tile as None", "the same wg_map"),
    "a locality": ((MEMORY, made("t", tile()) + f"xetile.prefetch_tile %t locality<4> : {tile()}"),
                   "locality is 0, 1, 2 or 3, not 4", "use 3 to keep"),
    "a move by one offset": ((MEMORY, made("t", tile()) + f"%u = xetile.update_tile_offset %t, [%c0] : {tile()} -> "
                              f"{tile()}"), "a tile moves by two offsets", "[%rows, %columns]"),
    "a move to another type": ((MEMORY, made("t", tile()) + f"%u = xetile.update_tile_offset %t, [%c0, %c0] : {tile()} "
                                f"-> {tile(shape='16x32xf32')}"), "a tile that moves keeps its type", "drop the type"),
    "a product's depth": (product("32x16xf16", "32x32xf16", "32x32xf32"), "A has 16 columns and B 32 rows", "16x32"),
    "a product's result": (product("32x16xf16", "16x32xf16", "32x16xf32"), "is not 32x16", "32x32"),
    "a product of 2D and 4D": (product("32x16xf16", "1x2x16x16xf16", "32x32xf32"),
                               "must all have two dimensions, or all four", "tile_unpack"),
    "a product of blocks": (product("4x1x8x16xf16", "2x2x8x16xf16", "4x2x8x16xf32"), "A has 1 columns and B 2 rows",
                            "1x2"),
    "a product's accumulator": (product("32x16xf16", "16x32xf16", "32x32xf32", "32x32xf16"),
                                "the accumulator is vector<32x32xf16>, the result vector<32x32xf32>", "both the same"),
    "a product of two types": (product("32x16xf16", "16x32xbf16", "32x32xf32"), "no matrix engine multiplies f16 by "
                               "bf16", "bf16 x bf16"),
    "a product's sum": (product("32x32xi8", "32x32xi8", "32x32xf32"), "i8 by i8 does not accumulate in f32", "i32"),
    "a permutation": (one("tile_transpose", "32x16xf16", "[0, 1] %v", "32x16xf16"), "permutation is [1, 0], not "
                      "[0, 1]", "write [1, 0]"),
    "a transpose's shape": (one("tile_transpose", "32x16xf16", "[1, 0] %v", "32x16xf16"), "does not give "
                            "vector<32x16xf16>", "vector<16x32xf16>"),
    "a transpose's type": (one("tile_transpose", "32x16xf16", "[1, 0] %v", "16x32xf32"), "does not give "
                           "vector<16x32xf32>", "vector<16x32xf16>"),
    "a transpose of blocks": (one("tile_transpose", "4x1x8x16xf16", "[1, 0] %v", "16x8x1x4xf16"),
                              "takes a vector of two dimensions", "tile_unpack"),
    "a transpose to other subgroups": (
        (MEMORY, loaded("v", ROWS) + "%r = xetile.tile_transpose %v [1, 0] {wg_map = #xetile.wg_map<sg_layout = [2, 1],"
         " sg_data = [16, 32]>} : vector<32x32xf32> -> vector<32x32xf32>"),
        "wg_map(sg_layout=[4, 1], sg_data=[8, 32]) has 4 subgroups, and wg_map(sg_layout=[2, 1]", "sg_layout=[1, 4]"),
    "a dimension to reduce": (one("tile_reduce <add>", "32x16xf16", "%v [2]", "32x1xf16"), "[2] are no dimensions to "
                              "reduce", "[0] or [1] or [0, 1]"),
    "one dimension of blocks to reduce": (one("tile_reduce <add>", "4x1x8x16xf16", "%v [1]", "4x1x8x16xf16"),
                                          "no dimensions to reduce of a vector of rank 4", "[0, 2] or [1, 3]"),
    "what is reduced is 1": (one("tile_reduce <add>", "32x16xf16", "%v [1]", "32x16xf16"), "gives a vector<32x1xf16>",
                             "size 1"),
    "a reduction's type": (one("tile_reduce <add>", "32x16xf16", "%v [1]", "32x1xf32"), "gives a vector<32x1xf16>",
                           "the element type stays"),
    "a reduction's kind": (one("tile_reduce <xor>", "32x16xf16", "%v [1]", "32x1xf16"), "f16 has no reduction 'xor'",
                           "minnumf, maxnumf"),
    "a reduction's rank": (one("tile_reduce <add>", "32x16xf16", "%v [1]", "32xf16"), "takes a vector of two "
                           "dimensions", "1x32"),
    "a reduction's map": (
        (MEMORY, loaded("v", ROWS) + "%r = xetile.tile_reduce <add> %v [1] {wg_map = #xetile.wg_map<sg_layout = [4, 1],"
         " sg_data = [4, 1]>} : vector<32x32xf32> -> vector<32x1xf32>"),
        "distributed as wg_map(sg_layout=[4, 1], sg_data=[8, 32]) and reduced along [1] is not distributed as wg_map("
        "sg_layout=[4, 1], sg_data=[4, 1])", "sg_data=[8, 1]"),
    "what is broadcast is 1": (one("tile_broadcast", "32x16xf16", "%v [1]", "32x32xf16"), "has 16 elements: only one of"
                               " size 1 is broadcast", "reduce it first"),
    "a broadcast's type": (one("tile_broadcast", "1x16xf16", "%v [0]", "32x16xf32"), "does not give vector<32x16xf32>",
                           "the element type stay"),
    "a broadcast's other dimension": (one("tile_broadcast", "1x16xf16", "%v [0]", "32x32xf16"), "does not give "
                                      "vector<32x32xf16>", "the other dimensions"),
    "a broadcast of one dimension": (one("tile_broadcast", "16xf16", "%v [0]", "32x16xf16"), "takes a vector of two "
                                     "dimensions", "1x32"),
    "a broadcast's map": (
        (MEMORY, loaded("v", "sg_layout = [4, 1], sg_data = [8, 1]", "32x1xf32") + "%r = xetile.tile_broadcast %v [1] "
         f"{{wg_map = #xetile.wg_map<{QUARTERS}>}} : vector<32x1xf32> -> vector<32x32xf32>"),
        "distributed as wg_map(sg_layout=[4, 1], sg_data=[8, 1]) is not broadcast along [1] to one distributed as "
        "wg_map("
        "sg_layout=[2, 2], sg_data=[16, 16])", "sg_data=[16, 1]"),
    "a packed shape": (one("tile_pack", "64x32xf32", "%v {inner_blocks = [16, 16]}", "4x4x16x16xf32"),
                       "blocks of 16x16 make 4x4x16x16, which is not 64x32", "64x64 in two dimensions"),
    "a packed permutation": (one("tile_pack", "64x32xf32", "%v {inner_blocks = [16, 16]}", "2x4x16x16xf32"),
                             "which is not 64x32", "32x64 in two dimensions"),
    "blocks that do not divide": (one("tile_pack", "60x32xf32", "%v {inner_blocks = [16, 16]}", "3x2x16x16xf32"),
                                  "which is not 60x32", "48x32"),
    "other inner_blocks": (one("tile_pack", "64x32xf32", "%v {inner_blocks = [16, 8]}", "4x2x16x16xf32"),
                           "inner_blocks [16, 8] relate a 2D vector to a 4D one that ends in them", "4x4x16x8"),
    "a packed type": (one("tile_pack", "64x32xf32", "%v {inner_blocks = [16, 16]}", "4x2x16x16xf16"),
                      "have different elements", "convert them"),
    "a pack of three dimensions": (one("tile_pack", "2x64x32xf32", "%v {inner_blocks = [16, 16]}", "4x2x16x16xf32"),
                                   "2x64x32", "4x2x16x16"),
    "an unpacked shape": (one("tile_unpack", "4x2x16x16xf32", "%v {inner_blocks = [16, 16]}", "32x64xf32"),
                          "which is not 32x64", "64x32 in two dimensions"),
    "an unpacked type": (one("tile_unpack", "4x2x16x16xf32", "%v {inner_blocks = [16, 16]}", "64x32xf16"),
                         "have different elements", "convert them"),
    "an unpack of two dimensions": (one("tile_unpack", "64x32xf32", "%v {inner_blocks = [16, 16]}", "64x32xf32"),
                                    "relate a 2D vector to a 4D one", "4x2x16x16"),
    "an atomic kind": ((f"{MEMORY}, %v: vector<32x32xf32>", made("t", tile()) + "%r = xetile.atomic_rmw_tile <andi> "
                        f"%v, %t : vector<32x32xf32>, {tile()} -> vector<32x32xf32>"), "f32 has no atomic andi",
                       "addf"),
    "an atomic shape": ((f"{MEMORY}, %v: vector<32x16xf32>", made("t", tile()) + "%r = xetile.atomic_rmw_tile <addf> "
                         f"%v, %t : vector<32x16xf32>, {tile()} -> vector<32x16xf32>"), "the value of 32x16 does not "
                        "fit", "32x32"),
    "an atomic map": (
        (MEMORY, loaded("v", ROWS) + made("t", dealt(QUARTERS)) + "%r = xetile.atomic_rmw_tile <addf> %v, %t : "
         f"vector<32x32xf32>, {dealt(QUARTERS)} -> vector<32x32xf32>"),
        "distributed as wg_map(sg_layout=[4, 1], sg_data=[8, 32]), the tile as wg_map(sg_layout=[2, 2]", "same wg_map"),
    "a gather from a window": ((f"{MEMORY}, %m: vector<32x32xi1>", made("t", tile()) + "%r = xetile.load_gather %t, %m "
                                f": {tile()}, vector<32x32xi1> -> vector<32x32xf32>"), "takes a scattered tile",
                               "use load_tile"),
    "a mask's shape": (scattered(mask="1x32xi1"), "the mask of 1x32 does not fit a tile of 1x64", "make the mask 1x64"),
    "a mask's type": (scattered(mask="1x64xi32"), "the mask has elements of i32", "comparison"),
    "an index vector's shape": (scattered(indices="1x32xindex"), "the index vector of 1x32", "1x64"),
    "an index vector's type": (scattered(indices="1x64xi16"), "elements of i16, and index are needed",
                               ".to(xt.index)"),
    "another layout of another type": (
        (MEMORY, loaded("v", ROWS) + f"%r = xetile.tile_conv_layout %v {{wg_map = #xetile.wg_map<{QUARTERS}>}} : "
         "vector<32x32xf32> -> vector<32x32xf16>"), "another layout makes of vector<32x32xf32> the same type",
        "convert"),
    "another layout from what it is not": (
        (MEMORY, loaded("v", ROWS) + f"%r = xetile.tile_conv_layout %v {{wg_map = #xetile.wg_map<{QUARTERS}>, "
         "source_map = #xetile.wg_map<sg_layout = [1, 4], sg_data = [32, 8]>} : vector<32x32xf32> -> "
         "vector<32x32xf32>"),
        "distributed as wg_map(sg_layout=[4, 1], sg_data=[8, 32]), and the operation says wg_map(sg_layout=[1, 4], "
        "sg_data=[32, 8])", "leave the second map out"),
    "another layout without a map": ((MEMORY, loaded("v", ROWS) + "%r = xetile.tile_conv_layout %v : vector<32x32xf32> "
                                      "-> vector<32x32xf32>"), "it needs the map of its result", "wg_map = "),
}


@pytest.mark.parametrize("name", TEXT)
def test_in_text(name: str) -> None:
    (arguments, body), message, hint = TEXT[name]
    constants = "".join(f"  %c{value} = arith.constant {value} : index\n" for value in (0, 1, 64))
    with pytest.raises(xt.TextError, match=re.escape(message)) as caught:
        xt.parse(f"func.func @wrong({arguments}) {{\n{constants}  {body}\n  func.return\n}}")
    assert hint in caught.value.hint


Q, R = xt.wg_map((2, 2), (16, 16)), xt.wg_map((4, 1), (8, 32))


def window(A: Any, **options: Any) -> Any:
    """A tile of 32 x 32."""
    return xt.init_tile(A, (0, 0), (32, 32), **options)


def vector(A: Any, **options: Any) -> Any:
    """What is in it."""
    return xt.load_tile(window(A, **options))


def gather(A: Any, mask: Any, **options: Any) -> Any:
    """Four elements of an array."""
    return xt.load_gather(xt.init_tile(A, offsets=xt.iota((1, 4), 1, xt.index)), mask, **options)


PYTHON: dict[str, tuple[Callable[..., Any], str, str]] = {
    "a tile of one dimension": (lambda A, at: xt.init_tile(A, (0, 0), (32,)), "two positive integers", "(32, 64)"),
    "a tile of run-time shape": (lambda A, at: xt.init_tile(A, (0, 0), (A.shape[0], 32)), "holds a run-time value",
                                 "keyword-only"),
    "one offset": (lambda A, at: xt.init_tile(A, (0,), (32, 32)), "two offsets", "row and column"),
    "no order": (lambda A, at: window(A, order=(0, 0)), "is no order", "(0, 1) for columns"),
    "columns' order against an address's strides": (
        lambda A, at: xt.init_tile(at, (0, 0), (8, 16), base_shape=(8, 16), base_strides=(16, 1), dtype=xt.f32,
                                   order=(0, 1)), "strides are [16, 1]", "[1, pitch]"),
    "an address without strides": (lambda A, at: xt.init_tile(at, (0, 0), (8, 16), base_shape=(8, 16), dtype=xt.f32),
                                   "needs base_strides", "in elements"),
    "inner_blocks that do not divide": (lambda A, at: window(A, inner_blocks=(12, 16)), "do not divide the tile", ""),
    "an uneven deal": (lambda A, at: window(A, wg_map=xt.wg_map((3, 1), (8, 32))), "neither a multiple nor a divisor",
                       "sg_data[0]"),
    "maps of two work-groups": (lambda A, at: (window(A, wg_map=R), window(A, wg_map=xt.wg_map((2, 1), (16, 32)))),
                                "has 2 subgroups", "make the product of every sg_layout 4"),
    "a padding that is no number": (lambda A, at: xt.load_tile(window(A), padding="one"), "padding is str",
                                    "a Python number"),
    "a padding between integers": (lambda A, at: xt.load_tile(xt.init_tile(xt.view(A, xt.i32), (0, 0), (8, 16)),
                                                              padding=1.5), "padding 1.5 does not fit", "whole number"),
    "a store of another shape": (lambda A, at: xt.store_tile(xt.zeros((16, 32), xt.f32), window(A)), "cannot be "
                                 "stored to",
                                 "make a tile of 16x32"),
    "a store of another type": (lambda A, at: xt.store_tile(xt.zeros((32, 32), xt.f16), window(A)), "cannot be stored "
                                "to",
                                ".to(xt.f32)"),
    "a store of blocks to a tile without": (lambda A, at: xt.store_tile(vector(A, inner_blocks=(8, 16)), window(A)),
                                            "cannot be stored to", "tile_unpack"),
    "a store of what is distributed otherwise": (
        lambda A, at: xt.store_tile(vector(A, wg_map=R), window(A, wg_map=Q)),
        "distributed as wg_map(sg_layout=[4, 1], sg_data=[8, 32]), the tile distributed as wg_map(sg_layout=[2, 2]",
        "same wg_map"),
    "a locality": (lambda A, at: xt.prefetch_tile(window(A), locality=4), "locality is 0, 1, 2 or 3", "use 3"),
    "a product's depth": (lambda A, at: xt.tile_mma(xt.zeros((32, 16), xt.f16), xt.zeros((32, 32), xt.f16)),
                          "A has 16 columns and B 32 rows", "16x32"),
    "a product's accumulator": (lambda A, at: xt.tile_mma(xt.zeros((32, 16), xt.f16), xt.zeros((16, 32), xt.f16),
                                                          xt.zeros((16, 16), xt.f32)), "accumulator is 16x16", "32x32"),
    "a product of 2D and 4D": (lambda A, at: xt.tile_mma(xt.tile_pack(xt.zeros((32, 16), xt.f16), (8, 16)),
                                                         xt.zeros((16, 32), xt.f16)), "some are not", "tile_unpack"),
    "a product of two types": (lambda A, at: xt.tile_mma(xt.zeros((32, 16), xt.f16), xt.zeros((16, 32), xt.bf16)),
                               "no matrix engine multiplies f16 by bf16", "bf16 x bf16"),
    "a product's sum": (lambda A, at: xt.tile_mma(xt.zeros((32, 32), xt.i8), xt.zeros((32, 32), xt.i8),
                                                  xt.zeros((32, 32), xt.f32)), "does not accumulate in f32", "i32"),
    "a product's maps": (lambda A, at: xt.tile_mma(vector(A, wg_map=Q), vector(A, wg_map=R)),
                         "sg_layout=[2, 2], sg_data=[16, 16]", "map"),
    "a transpose of blocks": (lambda A, at: xt.tile_transpose(vector(A, inner_blocks=(8, 16))), "two dimensions",
                              "tile_unpack"),
    "a transpose to other subgroups": (lambda A, at: xt.tile_transpose(vector(A, wg_map=R),
                                                                       wg_map=xt.wg_map((2, 1), (16, 32))),
                                       "has 2 subgroups", "sg_layout 4"),
    "a dimension to reduce": (lambda A, at: xt.tile_reduce("add", vector(A), 2), "dimensions 0 and 1, not 2", "use 0"),
    "a broadcast of blocks": (lambda A, at: xt.tile_broadcast(vector(A, inner_blocks=(8, 16)), (32, 64)),
                              "the vector is in blocks: 4x2x8x16", "tile_unpack"),
    "a reduction's kind": (lambda A, at: xt.tile_reduce("xor", vector(A), 1), "f32 has no reduction 'xor'", "minnumf"),
    "a reduction's map": (lambda A, at: xt.tile_reduce("add", vector(A, wg_map=R), 1,
                                                       wg_map=xt.wg_map((4, 1), (4, 1))),
                          "sg_data=[8, 32]) and reduced along [1] is not distributed as wg_map(sg_layout=[4, 1], "
                          "sg_data=[4, 1])", "sg_data=[8, 1]"),
    "what is broadcast is 1": (lambda A, at: xt.tile_broadcast(vector(A), (64, 32)), "32", ""),
    "a broadcast's map": (lambda A, at: xt.tile_broadcast(xt.tile_reduce("add", vector(A, wg_map=R), 1), (32, 32),
                                                          wg_map=Q), "sg_layout=[2, 2], sg_data=[16, 16]", "sg_data"),
    "blocks that do not divide": (lambda A, at: xt.tile_pack(vector(A), (12, 16)), "do not divide", ""),
    "an unpack of two dimensions": (lambda A, at: xt.tile_unpack(vector(A)), "32x32", ""),
    "an atomic kind": (lambda A, at: xt.atomic_rmw_tile("andi", vector(A), window(A)), "f32 has no atomic andi",
                       "addf"),
    "an atomic map": (lambda A, at: xt.atomic_rmw_tile("addf", vector(A, wg_map=R), window(A, wg_map=Q)),
                      "wg_map(sg_layout=[4, 1], sg_data=[8, 32])", "wg_map"),
    "a gather from a window": (lambda A, at: xt.load_gather(window(A), vector(A) > 0), "scattered", "load_tile"),
    "a mask's shape": (lambda A, at: gather(A, xt.full((1, 8), True, xt.i1)), "the mask", "1x4"),
    "a mask's type": (lambda A, at: gather(A, xt.full((1, 4), 1, xt.i32)), "the mask of load_gather",
                      "compare vectors"),
    "another layout for other subgroups": (
        lambda A, at: xt.tile_conv_layout(vector(A, wg_map=R), xt.wg_map((2, 1), (16, 32))), "2 subgroups", "4"),
    "another layout of a subgroup's vector": (lambda A, at: xt.tile_conv_layout(vector(A), R), "has no map",
                                              "both a wg_map"),
    "element-wise on two maps": (lambda A, at: vector(A, wg_map=R) + vector(A, wg_map=Q),
                                 "sg_layout=[4, 1], sg_data=[8, 32]", "wg_map"),
}


@pytest.mark.parametrize("name", PYTHON)
def test_from_python(name: str) -> None:
    make, message, hint = PYTHON[name]

    @xt.kernel
    def wrong(A, at):
        make(A, at)

    array = np.full((64, 64), 7, np.float32)
    with pytest.raises(xt.XeError, match=re.escape(message)) as caught:
        wrong[1](array, np.uint64(0))
    assert caught.value.hint
    assert hint in caught.value.hint
    assert caught.value.location is not None
    assert (array == 7).all()
