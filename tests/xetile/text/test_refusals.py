"""Texts that no kernel has: each is refused with an XeError, at its line, in bounded time."""

from __future__ import annotations

import re

import pytest

import xetile as xt

HEAD = "func.func @f(%A: memref<64x64xf32>, %n: index, %x: f32, %p: i1) {\n  %c0 = arith.constant 0 : index\n" \
       "  %c1 = arith.constant 1 : index\n"
CASES = {
    "a value above its definition": ("%a = arith.addi %b, %c1 : index\n%b = arith.addi %n, %c1 : index", "XT2005"),
    "a value in its own definition": ("%a = arith.addi %a, %c1 : index", "XT2005"),
    "an iter_arg of itself": ("%r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %a) -> (index) "
                              "{ scf.yield %a : index }", "XT2005"),
    "a value of a branch outside": ("scf.if %p {\n %a = arith.addi %n, %c1 : index\n}\n"
                                    "%b = arith.addi %a, %c1 : index", "XT2005"),
    "a branch that yields nothing": ("%r = scf.if %p -> (f32) {\n scf.yield %x : f32\n} else {\n}", "XT2001"),
    "a vector without elements": ("%v = arith.constant dense<0.0> : vector<0x16xf32>", "XT2001"),
    "a constant that no memory holds": ("%v = arith.constant dense<0.0> : vector<99999999999999999999x16xf32>",
                                        "XT2001"),
    "a sum that no memory holds": ("%v = arith.constant dense<0.0> : vector<1000000x1000000xf32>\n"
                                   "%w = arith.addf %v, %v : vector<1000000x1000000xf32>", "XT2001"),
    "a position behind a vector": ("%v = arith.constant dense<0.0> : vector<4x8xf32>\n"
                                   "%w = vector.extract %v[4] : vector<8xf32> from vector<4x8xf32>", "XT2001"),
    "a cast of several values": ("%a = builtin.unrealized_conversion_cast %n, %n : index, index to index", "XT2011"),
    "a block without columns": ("%v = arith.constant dense<0.0> : vector<8x16xf32>\n%w = xetile.tile_pack %v "
                                "{inner_blocks = [8, 0]} : vector<8x16xf32> -> vector<1x2x8x8xf32>", "XT2121"),
    "shared memory of 4 TB": ("%s = memref.alloc() : memref<1000000x1000000xf32, 3>", "XT4107"),
    "an integer of very many bits": ("%a = arith.constant 1 : i99999999999", "XT2078"),
    "a constant of very many elements": ('%v = arith.constant dense<"0x00000000"> : vector<1000000x1000000xf32>',
                                         "XT2074"),
    "an attribute of another type": ('%a = "arith.cmpi"(%c0, %c0) <{predicate = "x"}> : (index, index) -> i1',
                                     "XT2001"),
    "a constant of another type": ('%a = "arith.constant"() {value = 1 : i32} : () -> index', "XT2001"),
    "an integer out of range": ("%a = arith.constant 300 : i8", "XT2002"),
    "an index out of range": ("%a = arith.constant 9223372036854775808 : index", "XT2068"),
    "panels that are no numbers": ("%s = memref.alloc() {xegpu.panels = [1, i64]} : memref<16x32xf32, 3>", "XT2001"),
    "an element out of range": ("%v = arith.constant dense<300> : vector<8x16xi8>", "XT2002"),
    "nested branches": ("scf.if %p {\n" * 2000 + "}\n" * 2000, "XT2002"),
    "a string that does not end": ('"' + "a" * 60, "XT2002"),
    "nested brackets": ("%v = arith.constant " + "[" * 3000 + "]" * 3000, "XT2002"),
    "an element type without numbers": ("%a = arith.constant 1.0 : f128", "XT2016"),
    "a loop without a body": ('"scf.while"(%p) : (i1) -> ()', "XT2001"),
    "a loop that yields too few": ("%r = scf.while (%k = %c0) : (index) -> index {\n scf.condition(%p) %k : index\n"
                                   "} do {\n^bb0(%k: index):\n scf.yield\n}", "XT1342"),
    "a loop that ends in a yield": ("%r = scf.while (%k = %c0) : (index) -> index {\n scf.yield %k : index\n"
                                    "} do {\n^bb0(%k: index):\n}", "XT1343"),
    "a block behind the return": ("func.return\n^bb0:", "XT2001"),
    "three dimensions in a tile of blocks": (
        "%t = xetile.init_tile %A, [%n, %n] : memref<64x64xf32> -> "
        "!xetile.tile<32x32xf32, #xetile.tile_attr<inner_blocks = [16, 16]>>\n"
        "%v = arith.constant dense<0.0> : vector<4x2x128xf32>\n"
        "xetile.store_tile %v, %t : vector<4x2x128xf32>, "
        "!xetile.tile<32x32xf32, #xetile.tile_attr<inner_blocks = [16, 16]>>", "XT1130"),
    "a slice without offsets": (
        "%v = arith.constant dense<1.0> : vector<16x16xf32>\n%s = vector.extract_strided_slice %v {sizes = [8, 8], "
        "strides = [1, 1]} : vector<16x16xf32> to vector<8x8xf32>", "XT2001"),
    "nested types": ("%v = arith.constant dense<0> : " + "vector<" * 3000, "XT2002"),
}


def test_a_text_that_begins_with_a_string_without_an_end() -> None:
    with pytest.raises(xt.XeError):
        xt.parse('"' + "a" * 60)


@pytest.mark.parametrize("case", CASES)
def test_refused(case: str) -> None:
    lines, code = CASES[case]
    with pytest.raises(xt.XeError) as raised:
        xt.parse(f"{HEAD}{lines}\nfunc.return\n}}\n")
    assert raised.value.code == code
    assert raised.value.location is not None
    assert raised.value.location.line > 0


def test_a_view_of_shared_memory_that_is_an_argument() -> None:
    with pytest.raises(xt.TextError) as raised:
        xt.parse("gpu.module @m {\n  gpu.func @f(%B: memref<1024xi8, 3>, %A: memref<64x64xf32>) kernel {\n"
                 "    %c0 = arith.constant 0 : index\n"
                 "    %v = memref.view %B[%c0][] : memref<1024xi8, 3> to memref<8x32xf32, 3>\n"
                 "    %m = xegpu.create_mem_desc %v : memref<8x32xf32, 3> -> !xegpu.mem_desc<8x32xf32>\n"
                 "    gpu.return\n  }\n}\n")
    assert raised.value.code == "XT2611"


@pytest.mark.parametrize("kind", ["func", "gpu"])
def test_a_kernel_with_results(kind: str) -> None:
    word = "gpu.return" if kind == "gpu" else "func.return"
    with pytest.raises(xt.TextError) as raised:
        xt.parse("gpu.module @m {\n" f"  {kind}.func @f(%A: memref<64x64xf32>) -> index {{\n"
                 f"    %0 = arith.constant 0 : index\n    {word} %0 : index\n  }}\n}}\n")
    assert raised.value.code == "XT3282"
    assert raised.value.location is not None
    assert raised.value.location.line == 2


@pytest.mark.parametrize("text", ["dense<1.5> : vector<1000000x1000000xf32>", "dense<-3> : vector<2000000x999999xi32>"])
def test_a_splat_costs_nothing_by_its_size(text: str) -> None:
    """Terabytes as elements: parsed, verified, printed and read back."""
    kernel = xt.parse(f"{HEAD}%v = arith.constant {text}\nfunc.return\n}}\n")["f"]
    printed = str(kernel)
    assert str(xt.parse(printed)["f"]) == printed


WHOLE = {
    "gpu.func without a body": ('"gpu.func"() : () -> ()', "XT2001"),
    "gpu.func with an empty body": ('"gpu.func"() <{sym_name = "f", function_type = () -> ()}> ({}) : () -> ()',
                                    "XT2001"),
    "func.func without a body": ('"func.func"() <{sym_name = "f", function_type = () -> ()}> : () -> ()', "XT2001"),
    "a block behind gpu.return": ("gpu.module @m {\n  gpu.func @f(%A: memref<64xf32>) kernel {\n    gpu.return\n"
                                  "  ^bb0:}\n}", "XT2001"),
    "an older load of a line, transposed": (
        "func.func @f(%b: tensor_desc<1024xf16>) {\n  %v = XeGPU.load_nd %b {transpose = [1, 0], "
        "transpose_bit_width = 32, mode = vc} : tile<1024xf16> into vector<8x64xf16>\n  func.return\n}", "XT3101"),
    "padding of a fragment without a map": (
        "func.func @f(%A: memref<64x64xf32>) {\n  %c0 = arith.constant 0 : index\n  %d = xegpu.create_nd_tdesc %A, "
        "[%c0, %c0] : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32, "
        "#xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>>\n  %v = xegpu.load_nd %d : !xegpu.tensor_desc<8x16xf32, "
        "#xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>> -> vector<8x1xf32>\n  %p = xegpu.pad %v, %d {padding = "
        "1.0 : f32} : vector<8x1xf32>, !xegpu.tensor_desc<8x16xf32, #xegpu.sg_map<wi_layout = [1, 16], wi_data = "
        "[1, 1]>> -> vector<8x1xf32>\n  func.return\n}", "XT3513"),
}


@pytest.mark.parametrize("case", WHOLE)
def test_a_function_is_refused(case: str) -> None:
    text, code = WHOLE[case]
    with pytest.raises(xt.XeError) as raised:
        xt.parse(text)
    assert raised.value.code == code


@pytest.mark.parametrize("sizes", ["blocks in (%large, %one, %one) threads in (%one, %one, %one)",
                                   "blocks in (%one, %one, %one) threads in (%one, %large, %one)"])
def test_a_launch_beyond_32_bits_is_refused(sizes: str) -> None:
    with pytest.raises(xt.TextError, match="XT2068") as caught:
        xt.parse(f"""func.func @main(%A: memref<8x16xf32>) {{
  %one = arith.constant 1 : index
  %large = arith.constant 9223372036854775807 : index
  gpu.launch_func @m::@f {sizes} args(%A : memref<8x16xf32>)
  return
}}
gpu.module @m {{
  gpu.func @f(%A: memref<8x16xf32>) kernel {{
    gpu.return
  }}
}}""", "kernel.mlir")
    assert "kernel.mlir:8" in str(caught.value)


@pytest.mark.parametrize(("line", "cure"), [
    ("gpu.launch blocks(%x, %y, %z) in (%a = %0, %b = %0, %c = %0) threads(%u, %v, %w) in (%d = %0, %e = %0, %f = %0) {"
     "gpu.terminator }", "--gpu-kernel-outlining"),
    ("scf.parallel (%i) = (%0) to (%0) step (%0) { }", "--convert-parallel-loops-to-gpu"),
    ("scf.forall (%i) in (8) { }", "--scf-forall-to-for"),
    ("%g = memref.get_global @t : memref<16xf32>", "dense<...>"),
    ("%i = affine.min affine_map<(d0) -> (d0, 8)>(%0)", "--lower-affine"),
])
def test_what_mlir_opt_makes_of_it(line: str, cure: str) -> None:
    """An operation that is not read, and is made others that are, names the pass that does so."""
    with pytest.raises(xt.TextError, match=re.escape(cure)):
        xt.parse(f"func.func @kernel() {{\n  %0 = arith.constant 8 : index\n  {line}\n  return\n}}")
