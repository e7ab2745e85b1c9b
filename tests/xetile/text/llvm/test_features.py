"""Functions in LLVM's form, by feature: LLVM accepts them, they run as NumPy says, and are printed as that."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType

import xetile as xt
from tests.conftest import require_mlir_opt
from tests.kernels import Execution
from tests.references import read
from xegpu.ir.dtypes import of_mlir

pytestmark = pytest.mark.unoptimised

Array = np.ndarray[Any, Any]
_FOLDER = Path(__file__).parent / "features"
TEXTS = {path.stem: path.read_text() for path in sorted(_FOLDER.glob("*.mlir"))}
EXECUTIONS = [Execution("numpy", "pvc"), Execution("numpy:xegpu", "pvc"), Execution("opencl:cpu", "pvc")]


@cache
def module(name: str) -> Any:
    return xt.parse(TEXTS[name])

_CONSTANTS = np.array([1, -2, 3, 0, 5, -6, 7, -8], np.float32)


def _inside(array: Array, *slices: slice) -> Array:
    """A block of an array, with zeros for what lies outside."""
    padded = np.pad(array, [(0, 64)] * array.ndim)
    return padded[slices]


def _sums(a: Array) -> Array:
    block = a[8:16, 16:32]
    return (block.sum() + 7) * max(block.max(), 3)


def _three_dimensions(a: Array, b: Array) -> None:
    block = _inside(a, np.s_[1:3], np.s_[2:6], np.s_[16:32]) + 2 * _inside(a, np.s_[2:4], np.s_[7:11], np.s_[32:48])
    b[2:4, 3:7, 40:56] = block


def _chunks(a: Array, b: Array) -> None:
    for lane in range(11):
        b[9 * lane:9 * lane + 8] = 2 * a[9 * lane:9 * lane + 8]


def _chunks_beside_lines(a: Array, b: Array) -> None:
    for lane in range(13):
        b[20 * lane:20 * lane + 4], b[20 * lane + 5] = a[20 * lane:20 * lane + 4], a[lane]


def _transposed_columns(a: Array, b: Array) -> None:
    last = _inside(a, np.s_[56:72], np.s_[32:48])
    b[:16, :16], b[16:32, 32:48] = (a[40:56, 16:32] + last).T, last.T


def _two_dimensions(a: Array, b: Array) -> None:
    for start in (0, 100, 30):
        b[start:start + 9] = a[start:start + 9]


def _interleaved(a: Array, b: Array) -> None:
    b[:8, 16:48:2], b[:8, 17:48:2] = a[8:16, 16:32], a[16:24, 32:48]


def _masks(a: Array, b: Array) -> None:
    v = a[8:16, 16:32]
    w = np.where((np.arange(8)[:, None] < 5) & (np.arange(16) < 11), v, 0)
    b[:8, :16] = w
    b[32:40, :16] = np.where((np.arange(8)[:, None] < 7) & (np.arange(16) < 3), w, v)


def _conversion(a: Array, b: Array) -> None:
    b[32:64, 16:48] = 2 * a[16:48, 8:40].T


def _while(a: Array, b: Array) -> None:
    b[24:32, 16:32] = 1 + a[:24, 32:48].reshape(3, 8, 16).sum(0)


def _while_in_a_loop(a: Array, b: Array) -> None:
    for row in (0, 8, 16):
        b[row:row + 8, 40:56] = a[row:row + 8, :16] * 2 ** (5 - row // 8)


def _truth_argument(a: Array, b: Array) -> None:
    b[:8, :16], b[16:24, 8:24] = a[8:16, 16:32], a[24:32, 32:48]


def _divided_indices(b: Array) -> None:
    unsigned = 2 ** 32 - 7
    for row, quotient in enumerate([-2, -1, read(unsigned // 3, 32, "s"), unsigned % 3, -2, -2]):
        b[8 * row:8 * row + 8, 16:32] = quotient


def _lanes(a: Array, b: Array) -> None:
    block, lane = a[16:24, 32:48], np.arange(16)
    matrix = np.hstack([np.zeros((16, 8)), block.T, block.T])
    matrix[:, 20] = matrix[15 - lane, 8] * lane
    b[:8, 16:32] = matrix[15 - lane, 13:21].T


def _lanes_of_blocks(a: Array, b: Array) -> None:
    block = a[40:48, 8:24]
    b[:8, :16] = block - np.vstack([block, block])[:, :8].T


def _column_as_a_row(a: Array, b: Array) -> None:
    block = a[16:32, 32:48]
    b[:16, 16:32] = block.sum(0) + block.sum(1)


def _reduced_onto_ones(a: Array, b: Array) -> None:
    b[32:40, 24:40] = 1 + a[:, 8:16, 16:32].sum(0)


def _guarded_numbers(a: Array, b: Array) -> None:
    b[5], b[11] = a[11], a[:16].sum() + a[11]


def _indices(a: Array, b: Array) -> None:
    at = 3 * np.arange(128).reshape(8, 16)
    b[2:10, 3:19] = np.where(at < 300, a[at], 0)


EXPECTED: dict[str, Callable[..., Any]] = {
    "layout_on_accesses": lambda a, b: b.__setitem__(np.s_[:8, 32:48], a[8:16, 16:32]),
    "attributes": lambda a, b: b.__setitem__(np.s_[:8, :16], a[:8, :16] + a[8:16, :16]),
    "function_in_a_module": lambda a, b: b.__setitem__(np.s_[1:9, 3:19], a[40:48, 40:56]),
    "layout_at_the_store_alone": lambda a, b: b.__setitem__(np.s_[32:64, 16:48], a[16:48, 8:40] ** 2),
    "layout_at_a_conversion_alone": _conversion,
    "one_dimension": lambda a, b: b.__setitem__(np.s_[0, 8:24], a[40:56] + _inside(a, np.s_[48:64])),
    "three_dimensions": _three_dimensions,
    "leading_ones": lambda a, b: b.__setitem__(np.s_[3, :8, 48:], a[2, 5:13, 16:32]),
    "blocks_below_each_other": lambda a, b: b.__setitem__(np.s_[8:24, 8:24], np.vstack(
        [_inside(a, np.s_[60:68], np.s_[start:start + 16]) for start in (16, 32)])),
    "chunks": _chunks,
    "two_dimensions": _two_dimensions,
    "chunks_beside_lines": _chunks_beside_lines,
    "transposed_columns_of_tall_matrix": _transposed_columns,
    "scalar_offset": lambda a, b: b.__setitem__(np.s_[5:13], a[37:45] * _CONSTANTS),
    "lane_constants": lambda a, b: b.__setitem__(np.s_[8:16, 16:32], a[16:24, 32:48] * _CONSTANTS[:, None]),
    "distributed_by_results": lambda a, b: b.__setitem__(np.s_[:64], a[:320:5]),
    "slice_of_rows": lambda a, b: b.__setitem__(np.s_[:8, 16:32], a[24:32, 32:48]),
    "product_with_leading_ones": lambda a, b, c: c.__setitem__(
        (0, 0), a[1, 0].astype(np.float32) @ b[0, 2].astype(np.float32)),
    "distributed": lambda a, b: b.__setitem__(np.s_[:64], a[:192:3]),
    "number_of_an_array": lambda a, b: b.__setitem__(np.s_[a[3]:a[3] + 8, :16], 1),
    "bitcast": lambda a, b: b.__setitem__(np.s_[:8, 16:48], np.ascontiguousarray(a[8:16, 16:32]).view(np.int16)),
    "masks": _masks,
    "unequal_constants": lambda b: b.__setitem__(np.s_[3:5, 8:12], [[1, 1, 2, 3], [4, -5, 2, 2]]),
    "reduced_to_a_scalar": lambda a, b: b.__setitem__(np.s_[:8, :16], _sums(a)),
    "reduced_from_three_dimensions": lambda a, b: b.__setitem__(np.s_[24:40], a.sum((0, 1))),
    "reduced_onto_ones": lambda a, b: b.__setitem__(np.s_[24:32], a[8:16, 16:32].sum(1) + 1),
    "reduction_of_a_row": lambda a, b: b.__setitem__(np.s_[:16], a[24:40].sum() + 4),
    "interleaved": _interleaved,
    "loop_without_parentheses": lambda a, b: b.__setitem__(np.s_[:8, :16], a[:32, 16:32].reshape(4, 8, 16).sum(0)),
    "while_loop": _while,
    "while_in_a_loop": _while_in_a_loop,
    "truth_argument": _truth_argument,
    "divided_indices": _divided_indices,
    "guarded_numbers": _guarded_numbers,
    "cast_between_ranks": lambda a, b: b.__setitem__(np.s_[:, 16:48], a[8:16, 16:32].reshape(4, 32)),
    "column_as_a_row": _column_as_a_row,
    "repeated_block": lambda a, b: b.__setitem__(np.s_[:, 3:11, 40:56], a[8:16, 16:32]),
    "reduced_first_of_three": _reduced_onto_ones,
    "reduced_last_two_of_three": lambda a, b: b.__setitem__(np.s_[:], a[:, 8:16, 16:32].sum((1, 2))),
    "indices": _indices,
    "distributed_cast": lambda a, b: b.__setitem__(np.s_[:], 2 * a[16:48, 8:40].reshape(16, 64)),
    "lanes": _lanes,
    "lanes_of_blocks": _lanes_of_blocks,
    "subgroup": lambda a, b: b.__setitem__(np.s_[:8, :16], a[24:32, 32:48]),
    "stored_numbers": lambda a, b, c: (b.__setitem__((2, 5, 11), a[8:16, 16:32].sum()),
                                       c.__setitem__(11, a[11, 5])),
    "result": lambda a, b: b.__setitem__(np.s_[:], 2 * a[8:16, 16:32]),
    "two_results": lambda a, b, c: (b.__setitem__(np.s_[:], a[24:32, 32:48]),
                                    c.__setitem__(np.s_[:], a[24:32, 32:48].sum(0))),
    "gathered_result": lambda a, b: b.__setitem__(np.s_[:], a[:96:3]),
    "work_group_result": lambda a, b: b.__setitem__(np.s_[:], a[:, 16:48] ** 2),
    "descriptors": lambda a, b: b.__setitem__(np.s_[40:48, 16:32], a[8:16, 32:48]),
    "memory_space": lambda a, b: b.__setitem__(np.s_[:8, 48:], a[16:24, 16:32]),
    "reduced_beside_a_scatter": lambda a, b: b.__setitem__(np.s_[:48:3], 1 + a[24:32, 8:24].sum()),
    "many_lanes": lambda a, b: b.__setitem__(np.s_[:128], 2 * a[:256:2]),
    "reduced_to_a_line": lambda a, b: b.__setitem__(np.s_[:], a.sum(1)),
    "scattered_by_a_layout": lambda b: b.__setitem__(np.s_[:500:2], np.arange(0, 500, 2)),
    "chunks_by_a_layout": lambda a, b: b.__setitem__(np.s_[:], a.reshape(256, 4)[::-1].reshape(-1)),
    "work_group": lambda a, b: b.__setitem__(np.s_[:32, 8:40], a[16:48, 16:48].T),
}
"""Reference of each function: it changes the arrays in NumPy."""
NUMBERS: dict[str, Any] = {"masks": 11, "guarded_numbers": 11, "while_loop": 17, "divided_indices": -7,
                           "truth_argument": True}
"""The number that a function takes behind its arrays."""
_ONLY_READ = ("one_dimension_of_an_address", "dpas_mx", "dpas_mx_to_bf16")
_NOT_PRINTED = ("lanes", "lanes_of_blocks", "product_with_leading_ones", "cast_between_ranks", "repeated_block",
                "reduced_first_of_three", "reduced_last_two_of_three", "distributed_cast")
"""Gathers of shared local memory, which LLVM's form has at lane level alone; rows too short for block loads; casts
through a matrix that is stored in one shape and loaded in another."""
_PASSES = ((), ("--canonicalize", "--cse"), ("--loop-invariant-code-motion", "--convert-scf-to-cf", "--canonicalize"))
"""Passes of mlir-opt that change no meaning: a text's form as LLVM prints it, folded, and with branches."""
FUNCTIONS = [(file, name) for file, text in TEXTS.items() for name in re.findall(r"func @(\w+)\(", text)
             if name not in _ONLY_READ]


def arrays(kernel: Any) -> list[Array]:
    """Random arrays of a kernel's memrefs, small enough that every sum is exact; words use all their bits."""
    rng, made = np.random.default_rng(7), []
    for type_ in kernel.argument_types:
        if isinstance(type_, MemRefType):
            dtype = of_mlir(type_.element_type)
            low, high = (-2 ** 31, 2 ** 31) if dtype.bits == 32 and len(type_.get_shape()) == 2 and \
                not dtype.is_float else (1, 9)
            made.append(rng.integers(low, high, _shape(type_)).astype(dtype.numpy))
    return made


def _shape(type_: MemRefType[Any]) -> tuple[int, ...]:
    """Sizes of an array; 64 where its type leaves them open."""
    return tuple(64 if size == DYNAMIC_INDEX else size for size in type_.get_shape())


def run(kernel: Any, name: str, execution: Execution) -> None:
    values = arrays(kernel)
    expected = [value.copy() for value in values]
    EXPECTED[name](*expected)
    execution.bind(kernel)[1](*values, *([NUMBERS[name]] if name in NUMBERS else []))
    for value, wanted in zip(values, expected, strict=True):
        np.testing.assert_array_equal(value, wanted)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize(("file", "name"), FUNCTIONS)
def test_it_runs(file: str, name: str, execution: Execution) -> None:
    run(module(file)[name], name, execution)


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu", "opencl:cpu"])
@pytest.mark.parametrize(("name", "dtype"), [("dpas_mx", xt.f32), ("dpas_mx_to_bf16", xt.bf16)])
def test_scales_are_bytes(where: str, name: str, dtype: Any) -> None:
    """A product with scales on the target that has it; LLVM's scales are floats of eight bits of exponent."""
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-4, 5, shape).astype(xt.e5m2.numpy) for shape in ((8, 64), (64, 16)))
    s, t = (rng.integers(124, 131, shape).astype(np.uint8) for shape in ((8, 2), (2, 16)))
    c = rng.integers(-9, 10, (8, 16)).astype(dtype.numpy)
    left = a.astype(np.float64) * np.repeat(2.0 ** (s.astype(int) - 127), 32, 1)
    expected = (c + left @ (b.astype(np.float64) * np.repeat(2.0 ** (t.astype(int) - 127), 32, 0))).astype(dtype.numpy)
    Execution(where, "cri").bind(module("scaled")[name])[1](a, b, s, t, c)
    np.testing.assert_array_equal(c, expected)


def test_scales_that_are_constants() -> None:
    line = "%u = xegpu.load_nd %s[0, 0] : !xegpu.tensor_desc<8x2xf8E8M0FNU> -> vector<8x2xf8E8M0FNU>"
    assert TEXTS["scaled"].count(line) == 2
    constant = "%u = arith.constant dense<4.0> : vector<8x2xf8E8M0FNU>"
    kernel = xt.parse(TEXTS["scaled"].replace(line, constant))["dpas_mx"]
    rng = np.random.default_rng(9)
    a, b = (rng.integers(-4, 5, shape).astype(xt.e5m2.numpy) for shape in ((8, 64), (64, 16)))
    s, t = np.zeros((8, 2), np.uint8), np.full((2, 16), 126, np.uint8)
    c = rng.integers(-9, 10, (8, 16)).astype(np.float32)
    expected = c + 2 * (a.astype(np.float32) @ b.astype(np.float32))
    Execution("numpy", "cri").bind(kernel)[1](a, b, s, t, c)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("kind", ["sum", "reduction"])
def test_scales_are_no_numbers(kind: str) -> None:
    line = {"sum": "%q = arith.addf %u, %u : vector<8x2xf8E8M0FNU>",
            "reduction": "%q = vector.multi_reduction <mul>, %u, %u [] : vector<8x2xf8E8M0FNU> to "
                         "vector<8x2xf8E8M0FNU>"}[kind]
    text = TEXTS["scaled"].replace("    %z =", f"    {line}\n    %z =")
    assert text != TEXTS["scaled"]
    with pytest.raises(xt.XeError) as caught:
        xt.parse(text)
    assert caught.value.code == "XT3272"


@pytest.mark.parametrize("file", TEXTS)
def test_llvm_accepts_it(file: str) -> None:
    _accepted(TEXTS[file])


def _accepted(text: str, *passes: str) -> str:
    """Output of mlir-opt's passes for a text; the test fails with its message if it refuses the text."""
    done = subprocess.run([require_mlir_opt(), *passes], input=text.encode(), capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()[:2000]
    return done.stdout.decode()


@pytest.mark.parametrize(("file", "name"), [each for each in FUNCTIONS if each[1] not in _NOT_PRINTED])
def test_what_is_printed_means_the_same(file: str, name: str) -> None:
    """LLVM accepts what is printed, and it runs here as before, also as LLVM's passes rewrite it."""
    kernel = module(file)[name]
    specs = [xt.Spec(_shape(type_), of_mlir(type_.element_type).name) if isinstance(type_, MemRefType) else
             NUMBERS[name] for type_ in kernel.argument_types]
    printed = kernel.lower(*specs, target="pvc").xegpu_upstream
    for where in ("numpy", "numpy:xegpu"):
        run(xt.parse(printed)[name], name, Execution(where, "pvc"))
    for passes in _PASSES:
        run(xt.parse(_accepted(printed, *passes))[name], name, Execution("numpy", "pvc"))


def test_what_is_printed_for_the_work_group_means_the_same() -> None:
    """A tile whose subgroups are numbered along columns, on an array of static sizes."""
    name = "layout_at_a_conversion_alone"
    kernel = module("blocks")[name]
    specs = [xt.Spec(type_.get_shape(), "f32") for type_ in kernel.argument_types]
    printed = kernel.lower(*specs, target="pvc").xegpu_upstream_workgroup
    for text in (printed, *(_accepted(printed, *passes) for passes in _PASSES)):
        run(xt.parse(text)[name], name, Execution("numpy", "pvc"))


_BLOCK = "%d = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> {0}\n"
_PAIR = "!xegpu.tensor_desc<8x16xf32, #xegpu.block_tdesc_attr<array_length = 2 : i64>>"
_LAID_OUT = "!xegpu.tensor_desc<8x16xf32, #xegpu.layout<lane_layout = [1, 16], lane_data = [1, 1]>>"
_PLAIN = "!xegpu.tensor_desc<8x16xf32>"
REFUSED = {
    "a store of two blocks": (
        _BLOCK.format(_PAIR) + "%v = arith.constant dense<1.0> : vector<2x8x16xf32>\n"
        f"xegpu.store_nd %v, %d[0, 0] : vector<2x8x16xf32>, {_PAIR}", "XT3108"),
    "a lane's part of a layout": (
        _BLOCK.format(_LAID_OUT) + f"%v = xegpu.load_nd %d[0, 0] : {_LAID_OUT} -> vector<8xf32>", "XT3107"),
    "a store that streams": (
        _BLOCK.format(_PLAIN) + "%v = arith.constant dense<1.0> : vector<8x16xf32>\n"
        f"xegpu.store_nd %v, %d[0, 0] <{{l1_hint = #xegpu.cache_hint<streaming>}}> : vector<8x16xf32>, {_PLAIN}",
        "XT3111"),
    "a prefetch of two dimensions": (
        "%o = arith.constant dense<0> : vector<16xindex>\nxegpu.prefetch %A[%o] : memref<64x64xf32>, vector<16xindex>",
        "XT3627"),
    "an alignment of an array": (
        "%o = arith.constant dense<0> : vector<16xindex>\n"
        "xegpu.prefetch %L[%o] <{offset_align_byte = 4 : i64}> : memref<64xf32>, vector<16xindex>", "XT3627"),
    "dimensions that repeat": (
        "%c = arith.constant {l = #xegpu.slice<#xegpu.layout<sg_layout = [2, 2], sg_data = [2, 2]>, dims = [1, 1]>} "
        "0 : index", "XT3608"),
    "lists of different ranks": (
        "%c = arith.constant {l = #xegpu.layout<sg_layout = [2, 2], sg_data = [2, 2, 2]>} 0 : index", "XT3610"),
    "subgroups without their parts": (
        "%c = arith.constant {l = #xegpu.layout<sg_layout = [2, 2]>} 0 : index", "XT3615"),
    "an order alone": (_BLOCK.format(_PLAIN[:-1] + ", #xegpu.layout<order = [1, 0]>>"), "XT3611"),
    "offsets of another rank": (
        _BLOCK.format(_PLAIN) + f"%v = xegpu.load_nd %d[0, 0, 0] : {_PLAIN} -> vector<8x16xf32>", "XT3605"),
    "results": ("", "XT3282"),
}
"""Lines that LLVM refuses, and so does the reader."""


@pytest.mark.parametrize("name", REFUSED)
def test_what_llvm_refuses_is_refused(name: str) -> None:
    body, code = REFUSED[name]
    results = " -> f32" if name == "results" else ""
    text = f"gpu.module @m {{\n gpu.func @f(%A: memref<64x64xf32>, %L: memref<64xf32>){results} kernel {{\n" \
           f"{_BLOCK.format('!xegpu.tensor_desc<16x16xf32>').replace('%d', '%s')}{body}\n gpu.return\n }}\n}}"
    done = subprocess.run([require_mlir_opt()], input=text.encode(), capture_output=True, timeout=300)
    assert done.returncode != 0
    with pytest.raises(xt.TextError) as caught:
        xt.parse(text)
    assert caught.value.code == code


@xt.kernel
def copied(A: Any, B: Any) -> None:
    xt.store_tile(xt.load_tile(xt.init_tile(A, (8, 16), (16, 32))), xt.init_tile(B, (0, 0), (16, 32)))


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_an_array_by_columns_is_printed_as_it_lies(dtype: str) -> None:
    """LLVM's lowering takes the first stride for the pitch: it cannot be the 1."""
    columns, rows = xt.Spec((None, None), dtype, (1, None)), xt.Spec((None, None), dtype)
    printed = copied.lower(columns, rows, target="pvc").xegpu_upstream
    assert "strides : [1, " not in printed
    _accepted(printed)
    a, b = (np.random.default_rng(seed).integers(-9, 9, (64, 64)).astype(getattr(xt, dtype).numpy) for seed in (1, 2))
    expected = b.copy()
    expected[:16, :32] = a.T[8:24, 16:48]
    xt.parse(printed)["copied"].on("numpy")[1](a.T, b)
    np.testing.assert_array_equal(b, expected)
