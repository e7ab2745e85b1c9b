"""Kernels written for one lane (XeGPU.md, "Work Item Level semantics"): the tables of sg_map, and its rules."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import Execution, integers, wide
from xegpu.ir import dtypes
from xegpu.layout import lane_map
from xegpu.layout.lane_map import LaneMap
from xegpu.support.errors import TargetError, TextError

EXECUTIONS = [Execution("numpy", "pvc"), Execution("numpy:xegpu", "pvc"), Execution("numpy:xegpu", "dg2"),
              Execution("opencl:cpu", "pvc"),
              Execution("opencl:cpu", "dg2")]
# XeGPU.md, "Rules of sg_map setting": operand, wi_layout, wi_data, block, fragment, types.
TABLES = {16: """
a 1x16 1x1 8x16  8x1 bf16 f16
a 2x8  1x1 8x8   4x1 tf32
a 1x16 1x2 8x32  8x2 u8 i8
b 1x16 2x1 16x16 8x2 bf16 f16
b 1x16 1x1 8x16  8x1 tf32
b 1x16 4x1 32x16 8x4 u8 i8
c 1x16 1x1 8x16  8x1 f32 i32
t 16x1 1x1 16x8  8x1 tf32
""", 8: """
a 1x8  1x2 8x16  8x2 bf16 f16
a 1x8  1x1 8x8   8x1 tf32
a 1x8  1x4 8x32  8x4 u8 i8
b 1x8  2x1 16x8  8x2 bf16 f16
b 1x8  1x1 8x8   8x1 tf32
b 1x8  4x1 32x8  8x4 u8 i8
c 1x8  1x1 8x8   8x1 f32 i32
t 8x1  1x1 8x8   8x1 tf32
"""}
MLIR = {"u8": "ui8"}


def pair(text: str) -> tuple[int, int]:
    first, second = text.split("x")
    return int(first), int(second)


def sg_map(layout: Sequence[int], data: Sequence[int] = (1, 1)) -> str:
    return f"#xegpu.sg_map<wi_layout = {list(layout)}, wi_data = {list(data)}>"


def desc(shape: tuple[int, int], element: str, lanes: str) -> str:
    return f"!xegpu.tensor_desc<{shape[0]}x{shape[1]}x{element}, {lanes}>"


def create(name: str, array: str, shape: tuple[int, int], element: str, lanes: str) -> str:
    """A descriptor of an array's first block."""
    numbers = f"%{name}_m, %{name}_n, %{name}_s, %{name}_t"
    sizes, strides = f"[%{name}_m, %{name}_n]", f"[%{name}_s, %{name}_t]"
    return (f"  %{name}_b, %{name}_o, {numbers} = memref.extract_strided_metadata %{array} : memref<?x?x{element}> -> "
            f"memref<{element}>, index, index, index, index, index\n"
            f"  %{name} = xegpu.create_nd_tdesc %{array}, [%c0, %c0], {sizes}, {strides} : memref<?x?x{element}> -> "
            f"{desc(shape, element, lanes)}\n")


def kernel(body: str, arrays: dict[str, str]) -> str:
    arguments = ", ".join(f"%{name}: memref<?x?x{element}>" for name, element in arrays.items())
    constants = "".join(f"  %c{n} = arith.constant {n} : index\n" for n in (0, 1, 4, 8, 16, 32))
    return f"func.func @f({arguments}) {{\n{constants}{body}  func.return\n}}\n"


def rows(lanes: int) -> list[tuple[str, str, str, str, str, str]]:
    """A row of the table for each type that it names."""
    cut = [line.split() for line in TABLES[lanes].strip().splitlines()]
    return [(*line[:5], dtype) for line in cut for dtype in line[5:]]  # type: ignore[misc]


def loads(lanes: int) -> tuple[str, list[tuple[str, tuple[int, int], bool]]]:
    """A kernel that loads every row of the table from an array of its own and stores it by rows."""
    body, arrays, outputs = "", {}, []
    for number, (use, layout, data, block, fragment, dtype) in enumerate(rows(lanes)):
        element, shape = MLIR.get(dtype, dtype), pair(block)
        held = "x".join((fragment, element))
        map_ = sg_map(pair(layout), pair(data))
        result = shape[::-1] if use == "t" else shape
        plain_map = lane_map.default(lanes, result[1], result[0])
        plain = sg_map(plain_map.wi_layout, plain_map.wi_data)
        arrays |= {f"A{number}": element, f"C{number}": element}
        body += create(f"in{number}", f"A{number}", shape, element, map_)
        body += create(f"out{number}", f"C{number}", result, element, plain)
        how = " {transpose = [1, 0]}" if use == "t" else " {packed}" if use == "b" and dtype != "tf32" else ""
        body += f"  %v{number} = xegpu.load_nd %in{number}{how} : {desc(shape, element, map_)} -> vector<{held}>\n"
        value, type_ = f"%v{number}", held
        if use != "t" and map_ != plain:
            units = plain_map.fragment(shape)
            type_ = f"{units[0]}x{units[1]}x{element}"
            body += (f"  %w{number} = xegpu.convert_layout %v{number} {{source_map = {map_}, target_map = {plain}, "
                     f"block = [{shape[0]} : i64, {shape[1]} : i64]}} : vector<{held}> -> vector<{type_}>\n")
            value = f"%w{number}"
        body += f"  xegpu.store_nd {value}, %out{number} : vector<{type_}>, {desc(result, element, plain)}\n"
        outputs.append((dtype, shape, use == "t"))
    return kernel(body, arrays), outputs


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_every_row_of_the_tables_loads_its_fragment(execution: Execution) -> None:
    """The fragment that ``load_nd`` gives has the table's shape, and holds what the map says it does."""
    text, outputs = loads(8 if execution.target == "dg2" else 16)
    rng = np.random.default_rng(1)
    arguments: list[Any] = []
    for dtype, shape, turned in outputs:
        element = dtypes.of(dtype)
        a = integers(rng, element, *shape, most=50)
        arguments += [a, np.full(shape[::-1] if turned else shape, 77, element.numpy)]
    views = [xt.view(x, xt.tf32) if dtype == "tf32" else x
             for (dtype, *_), both in zip(outputs, zip(arguments[::2], arguments[1::2], strict=True), strict=True)
             for x in both]
    execution.bind(xt.parse(text)["f"])[1,](*views)
    for (_, _, turned), a, c in zip(outputs, arguments[::2], arguments[1::2], strict=True):
        np.testing.assert_array_equal(wide(c), wide(a.T if turned else a))


TYPES = [("bf16", "f32"), ("f16", "f32"), ("tf32", "f32"), ("u8", "i32"), ("i8", "i32")]


def products(lanes: int) -> tuple[str, list[tuple[str, str, int]]]:
    """The "2d load" use case for each type of the engine: loads, a prefetch, dpas onto C, a store."""
    body, arrays, sizes = "", {}, []
    for dtype, acc in TYPES:
        if (dtype, lanes) == ("tf32", 8):
            continue  # there is a layout for it, but no instruction
        element, bits = MLIR.get(dtype, dtype), dtypes.of(dtype).bits
        depth = 256 // bits
        shapes = (8, depth), (depth, lanes), (8, lanes)
        maps = lane_map.operand_a(lanes, bits), lane_map.operand_b(lanes, bits), lane_map.default(lanes, lanes)
        held = [f"vector<{'x'.join(map(str, m.fragment(s)))}x{e}>"
                for m, s, e in zip(maps, shapes, (element, element, acc), strict=True)]
        spelled = [sg_map(m.wi_layout, m.wi_data) for m in maps]
        types = [desc(s, e, m) for s, e, m in zip(shapes, (element, element, acc), spelled, strict=True)]
        arrays |= {f"A_{dtype}": element, f"B_{dtype}": element, f"C_{dtype}": acc}
        for name, shape, e, m in zip("ABC", shapes, (element, element, acc), spelled, strict=True):
            body += create(f"{name}{dtype}", f"{name}_{dtype}", shape, e, m)
        body += f"""
  %x{dtype} = xegpu.load_nd %A{dtype} : {types[0]} -> {held[0]}
  xegpu.prefetch_nd %A{dtype} : {types[0]}
  %y{dtype} = xegpu.load_nd %B{dtype} {"" if dtype == "tf32" else "{packed} "}: {types[1]} -> {held[1]}
  %m{dtype} = xegpu.update_nd_offset %C{dtype}, [%c0, %c0] : {types[2]} -> {types[2]}
  %z{dtype} = xegpu.load_nd %m{dtype} : {types[2]} -> {held[2]}
  %r{dtype} = xegpu.dpas %x{dtype}, %y{dtype}, %z{dtype} {{sg_map_a = {spelled[0]}, sg_map_b = {spelled[1]},
    sg_map_c = {spelled[2]}}} : {held[0]}, {held[1]}, {held[2]} -> {held[2]}
  xegpu.store_nd %r{dtype}, %C{dtype} : {held[2]}, {types[2]}
"""
        sizes.append((dtype, acc, depth))
    return kernel(body, arrays), sizes


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_the_use_case_of_2d_loads(execution: Execution) -> None:
    lanes = 8 if execution.target == "dg2" else 16
    text, sizes = products(lanes)
    rng = np.random.default_rng(2)
    passed: list[Any] = []
    expected = []
    for dtype, acc, depth in sizes:
        a, b, c = integers(rng, dtype, 8, depth), integers(rng, dtype, depth, lanes), integers(rng, acc, 8, lanes)
        expected.append((c, wide(c) + wide(a) @ wide(b)))
        passed += [xt.view(x, xt.tf32) if dtype == "tf32" else x for x in (a, b)] + [c]
    execution.bind(xt.parse(text)["f"])[1,](*passed)
    for c, result in expected:
        np.testing.assert_array_equal(wide(c), result)


@pytest.mark.parametrize("target", ["pvc", "bmg", "dg2"])
def test_machine_code_of_2d_loads(target: str) -> None:
    require_ocloc()
    text, sizes = products(8 if target == "dg2" else 16)
    specs = [xt.Spec((512, 512), t) for dtype, acc, _ in sizes for t in (dtype, dtype, acc)]
    report = xt.parse(text)["f"].lower(*specs, target=target).report()
    assert report.mix.whole.categories["dpas"] == len(sizes)
    assert report.mix.whole.categories.get("load_block2d", 0) == (0 if target == "dg2" else 3 * len(sizes))
    assert report.spill_size == 0


CHUNK = f"!xegpu.tensor_desc<16x4xf32, #xegpu.scatter_tdesc_attr<chunk_size = 4>, {sg_map((16, 1))}>"
SINGLE = f"!xegpu.tensor_desc<16xf32, #xegpu.scatter_tdesc_attr<>, {sg_map((1, 16))}>"
LINE = f"!xegpu.tensor_desc<64xf32, #xegpu.block_tdesc_attr<boundary_check = false>, {sg_map((1, 16))}>"
REGULAR = kernel(create("at", "I", (1, 16), "i32", sg_map((1, 16))) + create("on", "M", (1, 16), "i1", sg_map((1, 16)))
                 + f"""
  %p = xegpu.load_nd %at : {desc((1, 16), "i32", sg_map((1, 16)))} -> vector<1x1xi32>
  %i = arith.index_cast %p : vector<1x1xi32> to vector<1x1xindex>
  %offsets = vector.shape_cast %i : vector<1x1xindex> to vector<1xindex>
  %n = xegpu.load_nd %on : {desc((1, 16), "i1", sg_map((1, 16)))} -> vector<1x1xi1>
  %mask = vector.shape_cast %n : vector<1x1xi1> to vector<1xi1>
  %d = xegpu.create_tdesc %A, %offsets : memref<?xf32>, vector<1xindex> -> {SINGLE}
  %v = xegpu.load_gather %d, %mask : {SINGLE}, vector<1xi1> -> vector<1xf32>
  xegpu.store_scatter %v, %d, %mask : vector<1xf32>, {SINGLE}, vector<1xi1>
  %chunk = xegpu.create_tdesc %A, %offsets : memref<?xf32>, vector<1xindex> -> {CHUNK}
  %w = xegpu.load_gather %chunk, %mask {{transpose = [1, 0]}} : {CHUNK}, vector<1xi1> -> vector<4x1xf32>
  %x = vector.shape_cast %w : vector<4x1xf32> to vector<4xf32>
  %line = xegpu.create_nd_tdesc %C, [%c1] : memref<?xf32> -> {LINE}
  xegpu.store_nd %x, %line : vector<4xf32>, {LINE}
""", {"I": "i32", "M": "i1"}).replace("func.func @f(", "func.func @f(%A: memref<?xf32>, %C: memref<?xf32>, ")


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_the_use_case_of_regular_loads(execution: Execution) -> None:
    """Four adjacent elements a lane, transposed on the way: lane by lane in memory, element by element in the line."""
    lanes = 8 if execution.target == "dg2" else 16
    text = re.sub(r"(?<![\d\w])16(?!\d)", "8", REGULAR).replace("64xf32", "32xf32").replace("1x16x", "1x8x").replace(
        "16x4x", "8x4x").replace("16xf32", "8xf32").replace("%c16", "%c8_") if lanes == 8 else REGULAR
    rng = np.random.default_rng(4)
    a, c = integers(rng, "f32", 400), np.full(4 * lanes + 2, 77, np.float32)
    at = 4 * rng.permutation(90)[:lanes].reshape(1, lanes).astype(np.int32)
    mask = rng.integers(0, 2, (1, lanes)) > 0
    expected, before = np.where(mask, a[at + np.arange(4)[:, None]], np.float32(0)), a.copy()
    execution.bind(xt.parse(text)["f"])[1,](a, c, at, mask)
    np.testing.assert_array_equal(c, [77, *expected.ravel(), 77])
    np.testing.assert_array_equal(a, before)


GOOD = {"a": sg_map((1, 16)), "b": sg_map((1, 16), (2, 1)), "c": sg_map((1, 16))}


def product_text(a: str = "", b: str = "", c: str = "", **dpas: str) -> str:
    """One product of bf16 with maps of descriptors and, by other names, of dpas."""
    maps = {"a": a or GOOD["a"], "b": b or GOOD["b"], "c": c or GOOD["c"]}
    says = {f"sg_map_{name}": dpas.get(f"dpas_{name}", maps[name]) for name in "abc"}
    given = ", ".join(f"{name} = {value}" for name, value in says.items() if value)
    body = "".join(create(name, name.upper(), shape, element, maps[name]) for name, shape, element in
                   (("a", (8, 16), "bf16"), ("b", (16, 16), "bf16"), ("c", (8, 16), "f32")))
    body += f"""
  %x = xegpu.load_nd %a : {desc((8, 16), "bf16", maps["a"])} -> vector<8x1xbf16>
  %y = xegpu.load_nd %b {{packed}} : {desc((16, 16), "bf16", maps["b"])} -> vector<8x2xbf16>
  %r = xegpu.dpas %x, %y {{{given}}} : vector<8x1xbf16>, vector<8x2xbf16> -> vector<8x1xf32>
  xegpu.store_nd %r, %c : vector<8x1xf32>, {desc((8, 16), "f32", maps["c"])}
"""
    return kernel(body, {"A": "bf16", "B": "bf16", "C": "f32"})


def single(map_: str, chunk: int = 1) -> str:
    shape, attribute = ("16", "") if chunk == 1 else (f"16x{chunk}", f"chunk_size = {chunk}")
    return kernel(f"""
  %p = xegpu.iota %c0 {{axis = 1 : i64, shape = [1 : i64, 16 : i64], sg_map = {GOOD["a"]}}} : vector<1x1xi32>
  %i = arith.index_cast %p : vector<1x1xi32> to vector<1x1xindex>
  %o = vector.shape_cast %i : vector<1x1xindex> to vector<1xindex>
  %d = xegpu.create_tdesc %A, %o : memref<?x?xf32>, vector<1xindex>
    -> !xegpu.tensor_desc<{shape}xf32, #xegpu.scatter_tdesc_attr<{attribute}>, {map_}>
""", {"A": "f32"})


def load_of(shape: tuple[int, int], element: str, map_: str, how: str, held: str) -> str:
    return kernel(create("d", "A", shape, element, map_) +
                  f"  %v = xegpu.load_nd %d {how}: {desc(shape, element, map_)} -> vector<{held}x{element}>\n",
                  {"A": element})


def line_of(map_: str) -> str:
    type_ = LINE.replace(sg_map((1, 16)), map_)
    return kernel(f"  %d = xegpu.create_nd_tdesc %A, [%c0] : memref<?xf32> -> {type_}\n", {"A": "f32"}).replace(
        "memref<?x?xf32>", "memref<?xf32>")


RULES = {
    "lanes of no subgroup": (load_of((8, 16), "f32", sg_map((1, 4)), "", "32x1"), "XT3511"),
    "maps of two subgroups": (kernel(create("d", "A", (8, 16), "f32", sg_map((1, 8))) +
                                     create("e", "A", (8, 16), "f32", sg_map((1, 16))), {"A": "f32"}),
                              "XT3512"),
    "rows that do not divide": (load_of((8, 16), "f32", sg_map((16, 1)), "", "8x1"), "XT3503"),
    "columns that do not divide": (load_of((8, 16), "bf16", sg_map((1, 16), (1, 2)), "", "4x2"), "XT3503"),
    "another fragment": (load_of((8, 16), "bf16", sg_map((1, 16)), "", "16x1"), "XT3107"),
    "packed without the rows of a word": (load_of((16, 16), "bf16", sg_map((1, 16)), "{packed} ", "16x1"), "XT3505"),
    "packed with too many rows": (load_of((16, 16), "bf16", sg_map((1, 16), (4, 1)), "{packed} ", "4x4"), "XT3505"),
    "packed over rows": (load_of((32, 16), "bf16", sg_map((16, 1), (2, 1)), "{packed} ", "16x2"), "XT3505"),
    "transposed with lanes along columns": (load_of((16, 16), "f32", sg_map((1, 16)), "{transpose = [1, 0]} ", "16x1"),
                                            "XT3506"),
    "A of another layout": (product_text(dpas_a=sg_map((1, 16), (1, 2))), "XT3508"),
    "B that is not packed": (product_text(dpas_b=sg_map((1, 16))), "XT3508"),
    "C over rows": (product_text(dpas_c=sg_map((16, 1))), "XT3508"),
    "C over 32 lanes": (product_text(dpas_c=sg_map((1, 32))), "XT3507"),
    "a map of dpas missing": (product_text(dpas_b=""), "XT3516"),
    "no map of dpas": (product_text(dpas_a="", dpas_b="", dpas_c=""), "XT3202"),
    "whole blocks multiplied": (
        product_text().replace("  %r =", """  %z = arith.constant 0.0 : bf16
  %u = vector.broadcast %z : bf16 to vector<8x16xbf16>
  %w = vector.broadcast %z : bf16 to vector<16x16xbf16>
  %q = xegpu.dpas %u, %w : vector<8x16xbf16>, vector<16x16xbf16> -> vector<8x16xf32>
  %r ="""), "XT3514"),
    "a fragment loaded in another map": (product_text(a=sg_map((2, 8)), dpas_a=GOOD["a"]), "XT3515"),
    "stored in another map": (product_text(c=sg_map((2, 8)), dpas_c=GOOD["c"]), "XT3515"),
    "no map on one descriptor": (product_text().replace(f"tensor_desc<8x16xf32, {GOOD['c']}>", "tensor_desc<8x16xf32>")
                                 .replace("xegpu.store_nd %r, %c : vector<8x1xf32>, !xegpu.tensor_desc<8x16xf32>", ""),
                                 "XT3513"),
    "single elements over rows": (single(sg_map((16, 1))), "XT3509"),
    "single elements in pairs": (single(sg_map((1, 16), (2, 1))), "XT3509"),
    "chunks over columns": (single(sg_map((1, 16)), 4), "XT3509"),
    "a line over rows": (line_of(sg_map((16, 1))), "XT3008"),
    "a line in pairs of rows": (line_of(sg_map((1, 16), (2, 1))), "XT3008"),
    "a line that does not divide": (line_of(sg_map((1, 16), (1, 8))), "XT3503"),
    "three numbers": (load_of((8, 16), "f32", sg_map((1, 1, 16)), "", "8x1"), "XT3501"),
    "no lanes": (load_of((8, 16), "f32", sg_map((0, 16)), "", "8x1"), "XT3501"),
}


@pytest.mark.parametrize("name", RULES)
def test_rules(name: str) -> None:
    text, code = RULES[name]
    with pytest.raises(TextError) as caught:
        xt.parse(text)
    assert caught.value.location is not None
    assert caught.value.location.line > 0
    assert caught.value.code == code
    assert caught.value.hint


def test_what_the_rules_allow() -> None:
    assert xt.parse(product_text())["f"]
    assert xt.parse(single(sg_map((1, 16))))["f"]
    assert xt.parse(single(sg_map((16, 1)), 4))["f"]


def test_lanes_of_another_target() -> None:
    matrix = xt.Spec((8, 16), "bf16")
    with pytest.raises(TargetError, match="XT2021") as caught:
        xt.parse(product_text())["f"].lower(matrix, xt.Spec((16, 16), "bf16"), xt.Spec((8, 16), "f32"), target="dg2")
    assert "choose one of pvc" in caught.value.hint


def test_maps_need_no_function_attribute_twice() -> None:
    kernel_ = xt.parse(product_text())
    assert "xegpu.subgroup_size = 16" in str(kernel_)
    assert LaneMap((1, 16)).lanes == 16
    assert str(xt.parse(str(kernel_))) == str(kernel_)


@xt.kernel
def _line(A: Any, C: Any) -> None:
    column = xt.load_tile(xt.init_tile(A, (3, 5), (16, 1)))
    xt.store_tile(xt.tile_transpose(column * 2.0), xt.init_tile(C, (1, 2), (1, 16)))


@pytest.mark.parametrize("target", ["pvc", "dg2"])
def test_stages_in_which_a_line_is_transposed_read_back(target: str) -> None:
    """Lanes in a line hold the same words of a block and of its transpose, which no stage moves."""
    array = np.arange(24 * 24, dtype=np.float32).reshape(24, 24)
    spec = xt.Spec((24, 24), "f32")
    for stage, module in _line.lower(spec, spec, target=target).stages.items():
        out = np.zeros((24, 24), np.float32)
        expected = out.copy()
        expected[1, 2:18] = 2 * array[3:19, 5]
        xt.parse(str(module))["_line"].on("numpy", target=target)[1](array, out)
        np.testing.assert_array_equal(out, expected, err_msg=stage)



WORDS = """  %c3 = arith.constant 3 : index
  %added = arith.constant dense<{added}> : vector<8x{n}x{element}>
  %zero = arith.constant dense<{zero}> : vector<8x{n}x{element}>
  %va = xegpu.load_nd %a : {desc_a} -> vector<8x{m}x{element}>
  %vb = xegpu.load_nd %b {{packed}} : {desc_b} -> vector<8x{n}x{element}>
  %sum = scf.for %i = %c0 to %c3 step %c1 iter_args(%w = %vb) -> (vector<8x{n}x{element}>) {{
    %more = arith.add{kind} %w, %added : vector<8x{n}x{element}>
    %small = arith.cmp{kind} {less}, %more, %zero : vector<8x{n}x{element}>
    %chosen = arith.select %small, %zero, %more : vector<8x{n}xi1>, vector<8x{n}x{element}>
    scf.yield %chosen : vector<8x{n}x{element}>
  }}
  %r = xegpu.dpas %va, %sum {{sg_map_a = {map_a}, sg_map_b = {map_b}, sg_map_c = {map_c}}}
    : vector<8x{m}x{element}>, vector<8x{n}x{element}> -> vector<8x1x{result}>
  xegpu.store_nd %r, %c : vector<8x1x{result}>, {desc_c}
"""


@pytest.mark.parametrize("execution", [each for each in EXECUTIONS if each.target == "pvc"], ids=str)
@pytest.mark.parametrize("element", ["f16", "bf16", "i8"])
def test_constants_whose_elements_differ_and_arithmetic_in_words(element: str, execution: Execution) -> None:
    """A lane's words are computed with as their elements, in loops and comparisons too."""
    per_lane, integer = (4, True) if element == "i8" else (2, False)
    k, columns = 8 * per_lane, per_lane // 2  # of B; A has half as many elements a lane
    result, less, kind, number = ("i32", "slt", "i", int) if integer else ("f32", "olt", "f", float)
    maps = {"a": sg_map((1, 16), (1, columns)), "b": sg_map((1, 16), (per_lane, 1)), "c": sg_map((1, 16))}
    shapes = {"a": ((8, k), element), "b": ((k, 16), element), "c": ((8, 16), result)}
    added = np.random.default_rng(5).integers(-9, 10, (8, per_lane))
    text = WORDS.format(element=element, result=result, n=per_lane, m=columns, kind=kind, less=less, zero=number(0),
                        added=[[number(each) for each in word] for word in added],
                        **{f"map_{name}": map_ for name, map_ in maps.items()},
                        **{f"desc_{name}": desc(*shapes[name], map_) for name, map_ in maps.items()})
    descs = "".join(create(name, name.upper(), *shapes[name], map_) for name, map_ in maps.items())
    rng = np.random.default_rng(6)
    a, b = integers(rng, element, 8, k), integers(rng, element, k, 16)
    total = wide(b)
    for _ in range(3):  # row r of B is element r % per_lane of a lane's word r // per_lane
        total = np.maximum(total + added.reshape(k, 1), 0)
    c = np.full((8, 16), 7, np.int32 if integer else np.float32)
    arrays = {name.upper(): each for name, (_, each) in shapes.items()}
    execution.bind(xt.parse(kernel(descs + text, arrays))["f"])[1,](a, b, c)
    np.testing.assert_array_equal(c, wide(a) @ total)
