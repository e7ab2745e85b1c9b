"""Verifiers of LLVM's form of XeGPU: what they refuse is refused here too, with a code at the text's line."""

from __future__ import annotations

import re
import subprocess
from bisect import bisect_left
from functools import cache

import pytest

import xetile as xt
from tests.conftest import require_mlir_opt
from xegpu.support.errors import TextError

HEAD = """gpu.module @m {
  gpu.func @f(%A: memref<64x64xf16>, %B: memref<64x64xf32>, %P: i64, %L: memref<64xf32>) kernel {
    %c8 = arith.constant 8 : index
    %a = arith.constant dense<1.0> : vector<8x16xf16>
    %b = arith.constant dense<1.0> : vector<16x16xf16>
    %c = arith.constant dense<1.0> : vector<8x16xf32>
    %w = arith.constant dense<1.0> : vector<64x64xf32>
    %t = xegpu.create_nd_tdesc %A : memref<64x64xf16> -> !xegpu.tensor_desc<8x16xf16>
    %q = xegpu.create_nd_tdesc %A : memref<64x64xf16> -> !xegpu.tensor_desc<16x16xf16>
    %u = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>
"""
TAIL = """
    gpu.return
  }
}
"""
T, Q, U = (f"!xegpu.tensor_desc<{block}>" for block in ("8x16xf16", "16x16xf16", "8x16xf32"))
AB = "vector<8x16xf16>, vector<16x16xf16>"
SHARED = "%S = memref.alloc() : memref<64x64xf16, 3>\n    "


def made(source: str, desc: str) -> str:
    return f"%x = xegpu.create_nd_tdesc {source} -> !xegpu.tensor_desc<{desc}>"


def with_layout(layout: str, block: str = "8x16xf16") -> str:
    return made("%A : memref<64x64xf16>", f"{block}, #xegpu.layout<{layout}>")


def load(desc: str, result: str, says: str = "", at: str = "[0, 0]") -> str:
    name = {T: "%t", Q: "%q", U: "%u"}[desc]
    return f"%x = xegpu.load_nd {name}{at} {f'<{{{says}}}> ' if says else ''}: {desc} -> vector<{result}>"


def hint(name: str, policy: str) -> str:
    return f"{name} = #xegpu.cache_hint<{policy}>"


def converted(*layouts: str) -> str:
    names = ("input_layout", "target_layout")
    given = ", ".join(f"{name} = #xegpu.layout<{layout}>" for name, layout in zip(names, layouts, strict=False))
    return f"%x = xegpu.convert_layout %w <{{{given}}}> : vector<64x64xf32>"


LANES = "lane_layout = [1, 16], lane_data = [1, 1]"
SUBGROUPS = "sg_layout = [2, 2], sg_data = [32, 32]"
REFUSED = {  # the class of error: a wrong line, what is said, what is advised
    # descriptors
    "rank over the array's": (made("%L : memref<64xf32>", "8x16xf32"), "XT3603"),
    "three dimensions": (made("%A : memref<64x64xf16>", "2x8x16xf16"), "XT3603"),
    "rank over the shape's": (made("%P, shape : [64], strides : [1] : i64", "8x16xf16"), "XT3603"),
    "no dimension": (made("%A : memref<64x64xf16>", "f16"), "XT3620"),
    "element mismatch": (made("%A : memref<64x64xf16>", "8x16xf32"), "XT3009"),
    "shared array, global descriptor": (SHARED + made("%S : memref<64x64xf16, 3>", "8x16xf16"), "XT3005"),
    "global array, shared descriptor": (
        made("%L : memref<64xf32>", "16xf32, #xegpu.block_tdesc_attr<memory_space = slm>"), "XT3005"),
    "no such memory": (made("%A : memref<64x64xf16>", "8x16xf16, #xegpu.block_tdesc_attr<memory_space = local>"),
                       "XT3619"),
    "no such field": (made("%A : memref<64x64xf16>", "8x16xf16, #xegpu.block_tdesc_attr<blocks = 2 : i64>"), "XT3013"),
    "an address alone": (made("%P : i64", "8x16xf16"), "XT3602"),
    "shape without strides": (made("%P, shape : [64, 64] : i64", "8x16xf16"), "XT3601"),
    "strides of another rank": (made("%P, shape : [64, 64], strides : [1] : i64", "8x16xf16"), "XT3601"),
    "a vector described": (made("%c : vector<8x16xf32>", "8x16xf32"), "XT3602"),
    # layouts
    "lanes that do not divide columns": (with_layout("lane_layout = [1, 16], lane_data = [1, 2]"), "XT3612"),
    "lanes that do not divide rows": (with_layout("lane_layout = [16, 1], lane_data = [1, 1]"), "XT3612"),
    "subgroups that do not divide": (with_layout("sg_layout = [3, 2], sg_data = [8, 16]", "64x64xf16"), "XT3612"),
    "subgroups with too much": (with_layout("sg_layout = [2, 2], sg_data = [16, 24]", "64x64xf16"), "XT3612"),
    "instructions that do not divide": (with_layout("inst_data = [3, 16]"), "XT3612"),
    "lanes that do not divide an instruction": (
        with_layout("inst_data = [8, 16], lane_layout = [1, 32], lane_data = [1, 1]", "8x32xf16"), "XT3612"),
    "layout of rank 1": (with_layout("lane_layout = [16], lane_data = [1]"), "XT3610"),
    "layout of rank 3": (with_layout("lane_layout = [1, 1, 16], lane_data = [1, 1, 1]"), "XT3610"),
    "lane_data of another rank": (with_layout("lane_layout = [1, 16], lane_data = [1]"), "XT3610"),
    "sg_data of another rank": (with_layout("sg_layout = [1, 2], sg_data = [8]"), "XT3610"),
    "order of another rank": (with_layout(f"{LANES}, order = [0]"), "XT3610"),
    "lane_data alone": (with_layout("lane_data = [1, 1]"), "XT3616"),
    "lane_layout alone": (with_layout("lane_layout = [1, 16]"), "XT3616"),
    "sg_data alone": (with_layout("sg_data = [8, 16]"), "XT3615"),
    "order alone": (with_layout("order = [1, 0]"), "XT3611"),
    "empty layout": (with_layout(""), "XT3611"),
    "no such field of a layout": (with_layout("lanes = [1, 16]"), "XT3013"),
    "a number for a list": (with_layout("lane_layout = 16, lane_data = [1, 1]"), "XT3614"),
    # loads
    "result of another shape": (load(T, "16x8xf16"), "XT3107"),
    "result of another rank": (load(T, "2x8x8xf16"), "XT3107"),
    "result of other elements": (load(T, "8x16xf32"), "XT3107"),
    "packed words of 32 bits": (load(U, "8x16xf32", "packed"), "XT3106"),
    "packed, and not in the result": (load(Q, "16x16xf16", "packed"), "XT3107"),
    "not packed, but in the result": (load(Q, "8x16x2xf16"), "XT3107"),
    "transposed, and not in the result": (load(T, "8x16xf16", "transpose = array<i64: 1, 0>"), "XT3107"),
    "a load that writes back": (load(T, "8x16xf16", hint("l1_hint", "write_back")), "XT3111"),
    "a load that writes through": (load(T, "8x16xf16", hint("l3_hint", "write_through")), "XT3111"),
    "no such hint": (load(T, "8x16xf16", hint("l1_hint", "kept")), "XT3110"),
    "too few offsets": (load(T, "8x16xf16", at="[0]"), "XT3605"),
    "too many offsets": (load(T, "8x16xf16", at="[0, 0, 0]"), "XT3605"),
    "a layout that does not divide": (
        load(T, "8x16xf16", "layout = #xegpu.layout<lane_layout = [16, 1], lane_data = [1, 1]>"), "XT3612"),
    "no layout": (load(T, "8x16xf16", "layout = 3 : i64"), "XT2001"),
    "a vector loaded from": ("%x = xegpu.load_nd %a[0, 0] : vector<8x16xf16> -> vector<8x16xf16>", "XT2001"),
    "another type than defined": ("%x = xegpu.load_nd %t[0, 0] : !xegpu.tensor_desc<16x16xf16> -> vector<16x16xf16>",
                                  "XT2039"),
    "offsets that are no index": ("%o = arith.constant 1 : i32\n    " + load(T, "8x16xf16", at="[%o, 0]"), "XT2039"),
    # stores and prefetches
    "a store of another shape": (f"xegpu.store_nd %b, %t[0, 0] : vector<16x16xf16>, {T}", "XT3108"),
    "a store of other elements": (f"xegpu.store_nd %c, %t[0, 0] : vector<8x16xf32>, {T}", "XT3108"),
    "a store that reads": (
        f"xegpu.store_nd %a, %t[0, 0] <{{{hint('l1_hint', 'read_invalidate')}}}> : vector<8x16xf16>, {T}",
        "XT3111"),
    "a store with too few offsets": (f"xegpu.store_nd %a, %t[0] : vector<8x16xf16>, {T}", "XT3605"),
    "a prefetch that writes": (f"xegpu.prefetch_nd %t[0, 0] <{{{hint('l2_hint', 'write_back')}}}> : {T}", "XT3111"),
    "a prefetch with too few offsets": (f"xegpu.prefetch_nd %t[0] : {T}", "XT3605"),
    # products
    "another K": ("%x = xegpu.dpas %a, %a : vector<8x16xf16>, vector<8x16xf16> -> vector<8x16xf32>", "XT3202"),
    "another M": (f"%x = xegpu.dpas %a, %b : {AB} -> vector<16x16xf32>", "XT3202"),
    "another N": (f"%x = xegpu.dpas %a, %b : {AB} -> vector<8x8xf32>", "XT3202"),
    "another accumulator": (f"%x = xegpu.dpas %a, %b, %a : {AB}, vector<8x16xf16> -> vector<8x16xf32>", "XT3201"),
    "another rank of A": ("%p = arith.constant dense<1.0> : vector<8x16x2xf16>\n    "
                          "%x = xegpu.dpas %p, %b : vector<8x16x2xf16>, vector<16x16xf16> -> vector<8x16xf32>",
                          "XT3203"),
    "another rank of the result": (f"%x = xegpu.dpas %a, %b : {AB} -> vector<8x16x1xf32>", "XT3203"),
    "two element types": ("%x = xegpu.dpas %a, %c : vector<8x16xf16>, vector<8x16xf32> -> vector<8x16xf32>", "XT3606"),
    "no layout of A": (f"%x = xegpu.dpas %a, %b {{layout_a = 3 : i64}} : {AB} -> vector<8x16xf32>", "XT2001"),
    # layouts changed, fences, names
    "from subgroups to lanes": (converted(SUBGROUPS, LANES), "XT3607"),
    "to what does not divide": (converted(SUBGROUPS, "sg_layout = [5, 2], sg_data = [32, 32]"), "XT3612"),
    "to nothing": (converted(SUBGROUPS), "XT2001"),
    "no such scope": ("xegpu.fence memory_kind = global, fence_scope = tile", "XT3642"),
    "no such kind of memory": ("xegpu.fence memory_kind = local, fence_scope = gpu", "XT3642"),
    "a fence without a scope": ("xegpu.fence memory_kind = global", "XT2002"),
    "no such operation": (f"xegpu.load_block %t[0, 0] : {T}", "XT2006"),
}
ONLY_HERE = {  # LLVM says nothing against these, and drops what it cannot do; XeGPU.md forbids them
    "no such attribute": (made("%A : memref<64x64xf16>", "8x16xf16, #xegpu.cache_hint<cached>"), "XT3012"),
    "packed and transposed": (load(Q, "8x16x2xf16", "packed, transpose = array<i64: 1, 0>"), "XT3103"),
    "transposed into itself": (load(Q, "16x16xf16", "transpose = array<i64: 0, 1>"), "XT3102"),
    "transposed thrice": (load(Q, "16x16xf16", "transpose = array<i64: 2, 1, 0>"), "XT3102"),
    "no blocks": (made("%A : memref<64x64xf16>", "8x16xf16, #xegpu.block_tdesc_attr<array_length = 0 : i64>"),
                  "XT3619"),
    "an order that repeats": (with_layout(f"{LANES}, order = [1, 1]"), "XT3617"),
    "no such property": (load(T, "8x16xf16", "stride = 2 : i64"), "XT2001"),
}


def text_of(line: str) -> str:
    return f"{HEAD}    {line}{TAIL}"


@cache
def messages() -> dict[str, str]:
    """Diagnostics of mlir-opt for each wrong line, "" where it takes it; one call for all."""
    names = [*REFUSED, *ONLY_HERE]
    pieces = [text_of((REFUSED | ONLY_HERE)[name][0]) for name in names]
    whole = "// -----\n".join(pieces)
    done = subprocess.run([require_mlir_opt(), "--split-input-file"], input=whole.encode(), capture_output=True,
                          timeout=300)
    said = dict.fromkeys(names, "")
    ends = [whole.count("\n", 0, whole.index(piece) + len(piece)) for piece in pieces]
    for line, message in re.findall(r"^<stdin>:(\d+):\d+: error: (.*)$", done.stderr.decode(), re.MULTILINE):
        said[names[bisect_left(ends, int(line))]] += message
    return said


@pytest.mark.parametrize("name", REFUSED)
def test_llvm_refuses_it(name: str) -> None:
    assert messages()[name]


@pytest.mark.parametrize("name", ONLY_HERE)
def test_llvm_says_nothing_against_it(name: str) -> None:
    """If it does not any more, it belongs to the others."""
    assert not messages()[name]


@pytest.mark.parametrize("name", [*REFUSED, *ONLY_HERE])
def test_it_is_refused_here(name: str) -> None:
    line, code = (REFUSED | ONLY_HERE)[name]
    with pytest.raises(TextError) as caught:
        xt.parse(text_of(line))
    assert caught.value.code == code
    assert caught.value.location is not None
    assert caught.value.location.line == HEAD.count("\n") + line.count("\n") + 1
    assert caught.value.hint


def test_the_head_is_right() -> None:
    assert xt.parse(text_of(load(T, "8x16xf16")))["f"]


def test_slices_of_one_dimension() -> None:
    """Slices of one dimension are refused: they would cross the lanes of a register."""
    line = "%x = arith.constant dense<1.0> : vector<16xf32>\n    %y = vector.extract_strided_slice %x " \
           "{offsets = [8], sizes = [8], strides = [1]} : vector<16xf32> to vector<8xf32>"
    with pytest.raises(TextError) as caught:
        xt.parse(f"{HEAD}    {line}{TAIL}")
    assert caught.value.code == "XT3633"
    assert "extract_strided_slice" in str(caught.value)
