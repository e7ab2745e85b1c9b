"""The text of SuperVector.md and of XeTile.md's Appendix 1, and what MLIR's vector dialect made of it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import LANES, NUMPY, Execution
from tests.xetile.lang.test_vector import numbers, slice_of, written
from xetile.compiler.pipeline import Options, stages

Array = np.ndarray[Any, Any]
HERE = [NUMPY, LANES[0]]
PVC, DG2, CPU = (Execution("opencl:cpu", target) for target in ("pvc", "dg2", "cpu"))

FIRST_READ = """
func.func @kernel(%A: memref<?x?x?xf32>, %C: memref<?x?x?xf32>) {
  %0 = dim %A, 0 : memref<?x?x?xf32>
  %1 = dim %A, 1 : memref<?x?x?xf32>
  %2 = dim %A, 2 : memref<?x?x?xf32>
// Read the slice `%A[%i0, %i1:%i1+256, %i2:%i2+32]` into vector<32x256xf32> and
// pad with %f0 to handle the boundary case:
%f0 = constant 0.0f : f32
for %i0 = 0 to %0 {
  for %i1 = 0 to %1 step 256 {
    for %i2 = 0 to %2 step 32 {
      %v = vector_transfer_read %A, %i0, %i1, %i2, %f0
           {permutation_map: (d0, d1, d2) -> (d2, d1)} :
           (memref<?x?x?xf32>, index, index, f32) -> vector<32x256xf32>
      vector_transfer_write %v, %C, %i0, %i2, %i1 {permutation_map: (d0, d1, d2) -> (d1, d2)} :
           vector<32x256xf32>, memref<?x?x?xf32>, index, index, index
}}}
return }
"""
SECOND_READ = """
func.func @kernel(%A: memref<?x?xf32>, %C: memref<?x?x?xf32>) {
  %0 = dim %A, 0 : memref<?x?xf32>
  %1 = dim %A, 1 : memref<?x?xf32>
  %c0 = constant 0 : index
for %i0 = 0 to %0 {
  for %i1 = 0 to %1 {
    %3 = vector_transfer_read %A, %i0, %i1
         {permutation_map: (d0, d1) -> (0)} :
         (memref<?x?xf32>, index, index) -> vector<128xf32>
    vector_transfer_write %3, %C, %i0, %i1, %c0 {permutation_map: (d0, d1, d2) -> (d2)} :
         vector<128xf32>, memref<?x?x?xf32>, index, index, index
  }
}
return }
"""
THIRD_READ = """
func.func @kernel(%A: memref<?x?x?x?xf32>, %C: memref<3x4x5xf32>, %expr1: index, %expr2: index, %expr3: index,
                  %expr4: index) {
%v = vector_transfer_read %A, %expr1, %expr2, %expr3, %expr4
  { permutation_map : (d0,d1,d2,d3) -> (d2,0,d0) } :
  (memref<?x?x?x?xf32>, index, index, index, index) -> vector<3x4x5xf32>
%c0 = constant 0 : index
vector_transfer_write %v, %C, %c0, %c0, %c0 {permutation_map: (d0, d1, d2) -> (d0, d1, d2)} :
  vector<3x4x5xf32>, memref<3x4x5xf32>, index, index, index
return }
"""
WRITE = """
func.func @kernel(%V: memref<16x32x64xf32>, %A: memref<?x?x?x?xf32>) {
  %0 = dim %A, 0 : memref<?x?x?x?xf32>
  %1 = dim %A, 1 : memref<?x?x?x?xf32>
  %2 = dim %A, 2 : memref<?x?x?x?xf32>
  %3 = dim %A, 3 : memref<?x?x?x?xf32>
  %c0 = constant 0 : index
  %one = vector_type_cast %V : memref<16x32x64xf32>, memref<1xvector<16x32x64xf32>>
// write vector<16x32x64xf32> into the slice `%A[%i0, %i1:%i1+32, %i2:%i2+64, %i3:%i3+16]`:
for %i0 = 0 to %0 {
  for %i1 = 0 to %1 step 32 {
    for %i2 = 0 to %2 step 64 {
      for %i3 = 0 to %3 step 16 {
        %val = load %one[%c0] : memref<1xvector<16x32x64xf32>>
        vector_transfer_write %val, %A, %i0, %i1, %i2, %i3
          {permutation_map: (d0, d1, d2, d3) -> (d3, d1, d2)} :
          vector<16x32x64xf32>, memref<?x?x?x?xf32>, index, index, index, index
}}}}
return }
"""
CAST = """
func.func @kernel(%V: memref<5x4x3xf32>, %C: memref<?x?x?xf32>) {
 %A  = alloc() : memref<5x4x3xf32>
 %VA = vector_type_cast %A : memref<5x4x3xf32>, memref<1xvector<5x4x3xf32>>
 %c0 = constant 0 : index
 %v = vector_transfer_read %V, %c0, %c0, %c0 {permutation_map: (d0, d1, d2) -> (d0, d1, d2)} :
   (memref<5x4x3xf32>, index, index, index) -> vector<5x4x3xf32>
 store %v, %VA[%c0] : memref<1xvector<5x4x3xf32>>
 gpu.barrier
 %w = load %VA[%c0] : memref<1xvector<5x4x3xf32>>
 vector_transfer_write %w, %C, %c0, %c0, %c0 {permutation_map: (d0, d1, d2) -> (d2, d1, d0)} :
   vector<5x4x3xf32>, memref<?x?x?xf32>, index, index, index
 return }
"""


def _first(rng: np.random.Generator) -> tuple[list[Any], Array]:
    a, c = numbers(rng, 2, 300, 40), np.full((2, 44, 310), 7, np.float32)
    expected = np.zeros_like(c)
    expected[:, :40, :300] = a.transpose(0, 2, 1)
    return [a, c], expected


def _second(rng: np.random.Generator) -> tuple[list[Any], Array]:
    a = numbers(rng, 3, 2)
    return [a, np.full((3, 2, 128), 7, np.float32)], np.broadcast_to(a[:, :, None], (3, 2, 128))


def _third(rng: np.random.Generator) -> tuple[list[Any], Array]:
    a = numbers(rng, 7, 3, 6, 2)
    return [a, np.full((3, 4, 5), 7, np.float32), 1, 2, 3, 1], slice_of(a, (1, 2, 3, 1), (3, 4, 5), (2, None, 0), 0)


def _write(rng: np.random.Generator) -> tuple[list[Any], Array]:
    v, a = numbers(rng, 16, 32, 64), np.full((1, 33, 70, 20), 7, np.float32)
    expected = a.copy()
    for first in np.ndindex(1, 2, 2, 2):
        expected = written(expected, v, tuple(np.multiply(first, (1, 32, 64, 16)).tolist()), (3, 1, 2))
    return [v, a], expected


def _cast(rng: np.random.Generator) -> tuple[list[Any], Array]:
    v, c = numbers(rng, 5, 4, 3), np.full((4, 4, 6), 7, np.float32)
    expected = c.copy()
    expected[:3, :, :5] = v.T
    return [v, c], expected


EXAMPLES: dict[str, tuple[str, Callable[[np.random.Generator], tuple[list[Any], Array]]]] = {
    "read of a padded slice": (FIRST_READ, _first), "read of one element": (SECOND_READ, _second),
    "read along three of four dimensions": (THIRD_READ, _third), "write": (WRITE, _write), "type_cast": (CAST, _cast),
}


def check_example(name: str, execution: Execution) -> None:
    text, make = EXAMPLES[name]
    arguments, expected = make(np.random.default_rng(1))
    execution.bind(xt.parse(text)["kernel"])[1,](*arguments)
    np.testing.assert_array_equal(arguments[1], expected)


@pytest.mark.parametrize(("name", "execution"), [(name, execution) for name in EXAMPLES for execution in
                                                 ([*HERE, LANES[2]] if name != "write" else HERE)], ids=str)
def test_examples(name: str, execution: Execution) -> None:
    check_example(name, execution)


@pytest.mark.parametrize(("name", "execution"), [
    ("read of a padded slice", PVC), ("read of one element", CPU), ("write", CPU),
    ("read along three of four dimensions", DG2), ("type_cast", PVC)], ids=str)
def test_examples_on_the_device(name: str, execution: Execution) -> None:
    check_example(name, execution)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_go_round(name: str) -> None:
    module = xt.parse(EXAMPLES[name][0])
    assert str(xt.parse(str(module))) == str(module)
    arguments, _ = EXAMPLES[name][1](np.random.default_rng(1))
    lowered = module["kernel"].lower(*arguments, target="bmg")
    found = {name: str(stage) for name, stage in stages(lowered.module, Options(lowered.target, lowered.access))}
    recorded, tiles = found["supervector"], found["lower-supervector"]
    assert "supervector." in recorded
    assert "supervector." not in tiles
    assert str(xt.parse(tiles)) == tiles


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_examples_compile(target: str) -> None:
    """Large vectors lie in the registers of their work-group."""
    require_ocloc()
    spec = xt.Spec((None, None, None), "f32")
    report = xt.parse(FIRST_READ)["kernel"].lower(spec, spec, target=target).report()
    assert (report.spill_size, report.private_size) == (0, 0)
    assert report.mix.whole.categories["store_block2d"] > 0


def test_large_vectors_are_dealt_out() -> None:
    for shape, dealt_out in (("16x32x64", True), ("2x16x16", False)):
        sizes = tuple(map(int, shape.split("x")))
        kernel = xt.parse(WRITE.replace("16x32x64", shape))["kernel"]
        lowered = kernel.lower(xt.Spec(sizes, "f32"), xt.Spec((None,) * 4, "f32"), target="pvc")
        recorded, tiles = (str(module) for _, module in
                           itertools.islice(stages(lowered.module, Options(lowered.target, lowered.access)), 2))
        assert "wg_map" not in recorded
        assert ("sg_layout = [16, 2], sg_data = [32, 32]" in tiles) == dealt_out


APPENDIX = """
func.func @kernel(%REFA: memref<{m}x{k}xbf16>, %REFB: memref<{b}>, %REFC: memref<{m}x{n}x{c}>) {{
  %c0 = arith.constant 0 : index
  %M = arith.constant {m} : index
  %N = arith.constant {n} : index
  %K = arith.constant {k} : index
  %M_tile = arith.constant {bm} : index
  %N_tile = arith.constant {bn} : index
  %K_tile = arith.constant 32 : index
  %zero = arith.constant dense<0.0> : vector<{bm}x{bn}x{c}>
  scf.for %i = %c0 to %M step %M_tile {{
    scf.for %j = %c0 to %N step %N_tile {{
      %sum = scf.for %k = %c0 to %K step %K_tile iter_args(%s = %zero) -> (vector<{bm}x{bn}x{c}>) {{
        %a = memref.subview %REFA, [%i, %k] : memref<{m}x{k}xbf16> to memref<{bm}x32xbf16>
        %va = vector.transfer_read %a : vector<{bm}x32xbf16>
{read_b}
        %vc = vector.contract %va, %vb, %s : vector<{bm}x32xbf16>, vector<32x{bn}xbf16> into vector<{bm}x{bn}x{c}>
        scf.yield %vc : vector<{bm}x{bn}x{c}>
      }}
      %c = memref.subview %REFC, [%i, %j] : memref<{m}x{n}x{c}> to memref<{bm}x{bn}x{c}>
      vector.transfer_write %sum, %c : vector<{bm}x{bn}x{c}>, memref<{bm}x{bn}x{c}>
    }}
  }}
  return
}}
"""
BY_COLUMNS = """\
        %b = memref.subview %REFB, [%k, %j]: memref<{b}> to memref<32x{bn}xbf16>
        %vb = vector.transfer_read %b : vector<32x{bn}xbf16>"""
AS_IT_LIES = """\
        %bt = memref.subview %REFB, [%j, %k] : memref<{b}> to memref<{bn}x32xbf16>
        %vbt = vector.transfer_read %bt : vector<{bn}x32xbf16>
        %vb = vector.transpose %vbt : vector<{bn}x32xbf16> to vector<32x{bn}xbf16>"""
LAYOUTS = {
    "strided": ("{k}x{n}xbf16, strided<[1, {k}]>", BY_COLUMNS),
    "affine_map": ("{k}x{n}xbf16, affine_map=<(d0, d1)->(d1, d0)>", BY_COLUMNS),
    "as it lies": ("{n}x{k}xbf16", AS_IT_LIES),
}


def appendix(layout: str, sizes: tuple[int, int, int], tile: tuple[int, int], c: str) -> xt.Kernel:
    memory, read_b = LAYOUTS[layout]
    names = {**dict(zip("mnk", sizes, strict=True)), "bm": tile[0], "bn": tile[1], "c": c}
    names["b"] = memory.format(**names)
    return xt.parse(APPENDIX.format(**names, read_b=read_b.format(**names)))["kernel"]  # type: ignore[return-value]


def operands(layout: str, sizes: tuple[int, int, int], c: Any) -> tuple[list[Array], Array]:
    rng, (m, n, k) = np.random.default_rng(2), sizes
    a, b = (rng.integers(-1, 2, shape).astype(xt.bf16.numpy) for shape in ((m, k), (n, k)))
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    return [a, b if layout == "as it lies" else b.T, np.full((m, n), 7, c.numpy)], expected


def check_appendix(layout: str, execution: Execution, sizes: tuple[int, int, int], tile: tuple[int, int],
                   c: Any) -> None:
    arguments, expected = operands(layout, sizes, c)
    execution.bind(appendix(layout, sizes, tile, c.name))[1,](*arguments)
    np.testing.assert_array_equal(arguments[2].astype(np.float32), expected)


@pytest.mark.parametrize("execution", HERE, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_appendix_at_the_sizes_of_the_seed(layout: str, execution: Execution) -> None:
    check_appendix(layout, execution, (128, 128, 64), (64, 64), xt.bf16)


@pytest.mark.parametrize(("layout", "execution"),
                         [*((layout, execution) for layout in LAYOUTS for execution in LANES[1:]),
                          ("strided", PVC), ("affine_map", CPU),
                          *(("as it lies", execution) for execution in (PVC, DG2, CPU))],
                         ids=str)
def test_appendix_everywhere(layout: str, execution: Execution) -> None:
    check_appendix(layout, execution, (32, 64, 96), (16, 32), xt.f32)


@pytest.mark.parametrize("target", ["pvc", "bmg"])
@pytest.mark.parametrize("layout", ["strided", "as it lies"])
def test_appendix_in_machine_code(layout: str, target: str) -> None:
    require_ocloc()
    sizes = 512, 512, 4096  # so long that IGC does not unroll the loop as a whole
    arguments, _ = operands(layout, sizes, xt.f32)
    lowered = appendix(layout, sizes, (32, 64), "f32").lower(*arguments, target=target)
    report = lowered.report()
    assert report.loop["dpas"]
    assert report.loop["dpas"] % (4 * 4 * 2) == 0  # IGC unrolls a loop whose bounds it knows
    assert report.loop["load_block2d"] > 0
    assert (report.spill_size, report.private_size) == (0, 0)


def test_the_order_of_a_tile_is_that_of_its_memref() -> None:
    for layout, order in (("strided", True), ("affine_map", True), ("as it lies", False)):
        arguments, _ = operands(layout, (128, 128, 64), xt.f32)
        lowered = appendix(layout, (128, 128, 64), (16, 32), "f32").lower(*arguments, target="pvc")
        stage = lowered.stages["lower-supervector"]
        assert len(re.findall(r"init_tile %REFB.*order = \[0, 1\]", stage)) == order
        assert not re.findall(r"init_tile %REF[AC].*order", stage)


MODERN = """
#minor = affine_map<(d0, d1, d2) -> (d1, d2)>
#trait = {{indexing_maps = [affine_map<(i, j, k) -> ({a})>, affine_map<(i, j, k) -> ({b})>,
                           affine_map<(i, j, k) -> ({c})>],
          iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}}
func.func @kernel(%A: memref<?x?x?xbf16>, %B: memref<?x?xbf16>, %C: memref<?x?xf32>, %g: index) {{
  %c0 = arith.constant 0 : index
  %p = arith.constant 1.0 : bf16
  %a = vector.transfer_read %A[%g, %c0, %c0], %p {{in_bounds = [true, false], permutation_map = #minor}}
     : memref<?x?x?xbf16>, vector<32x32xbf16>
  %b = vector.transfer_read %B[%c0, %c0], %p {{in_bounds = [true, true]}} : memref<?x?xbf16>, vector<32x32xbf16>
  %z = arith.constant dense<2.0> : vector<32x32xf32>
  %r = vector.contract #trait %a, %b, %z : vector<32x32xbf16>, vector<32x32xbf16> into vector<32x32xf32>
  vector.transfer_write %r, %C[%c0, %c0] {{in_bounds = [false, true]}} : vector<32x32xf32>, memref<?x?xf32>
  return
}}
"""


@pytest.mark.parametrize("execution", HERE, ids=str)
@pytest.mark.parametrize("maps", ["i,k k,j i,j", "k,i k,j i,j", "i,k j,k i,j", "k,i j,k j,i", "j,k k,i i,j"])
def test_contractions_of_transposed_operands(maps: str, execution: Execution) -> None:
    a, b, c = (axes.replace(",", "") for axes in maps.split())
    rng = np.random.default_rng(3)
    left, right = rng.integers(-3, 4, (2, 32, 20)).astype(xt.bf16.numpy), \
        rng.integers(-3, 4, (32, 40)).astype(xt.bf16.numpy)
    padded = np.ones((32, 32), np.float32)
    padded[:, :20] = left[1].astype(np.float32)
    expected = np.einsum(f"{a},{b}->{c}", padded, right[:, :32].astype(np.float32)) + 2
    out = np.full((30, 32), 7, np.float32)
    text = MODERN.format(a=maps.split()[0], b=maps.split()[1], c=maps.split()[2])
    execution.bind(xt.parse(text)["kernel"])[1,](left, right, out, 1)
    np.testing.assert_array_equal(out, expected[:30])


@pytest.mark.parametrize("execution", HERE, ids=str)
@pytest.mark.parametrize("maps", [((0, 2), (2, 1), (0, 1)), ((2, 0), (1, 2), (0, 1)), ((1, 2), (2, 0), (0, 1))],
                         ids=str)
def test_contract_in_python(maps: Any, execution: Execution) -> None:
    @xt.kernel
    def product(A, B, C):
        a, b = (xt.vector.transfer_read(x, (0, 0), (32, 32), padding=0) for x in (A, B))
        xt.vector.transfer_write(xt.vector.contract(a, b, indexing_maps=maps), C, (0, 0))

    rng = np.random.default_rng(4)
    a, b = (rng.integers(-3, 4, (30, 30)).astype(np.float16) for _ in range(2))
    out, names = np.full((33, 32), 7, np.float32), ["".join("ijk"[axis] for axis in axes) for axes in maps]
    expected = np.einsum(f"{names[0]},{names[1]}->{names[2]}", a.astype(np.float32), b.astype(np.float32))
    execution.bind(product)[1,](a, b, out)
    np.testing.assert_array_equal(out[:30, :30], expected)
    assert (out[30:32] == 0).all()
    assert (out[32] == 7).all()


@xt.kernel
def distributed(A, B, C):
    """A work-group's contraction, B read transposed."""
    acc = xt.vector.broadcast(0, (32, 64), xt.f32, wg_map=xt.wg_map((2, 2), (16, 32)))
    for k in xt.range(0, A.shape[1], 32):
        a = xt.vector.transfer_read(A, (0, k), (32, 32), padding=0, wg_map=xt.wg_map((2, 2), (16, 32)))
        b = xt.vector.transfer_read(B, (0, k), (32, 64), permutation=(1, 0), padding=0,
                                    wg_map=xt.wg_map((2, 2), (32, 32)))
        acc = xt.vector.contract(a, b, acc)
    xt.vector.transfer_write(acc, C, (0, 0))


@pytest.mark.parametrize("execution", [*HERE, DG2], ids=str)
def test_a_work_groups_contraction(execution: Execution) -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-3, 4, shape).astype(xt.bf16.numpy) for shape in ((30, 50), (60, 50)))
    out = np.full((31, 70), 7, np.float32)
    expected = out.copy()
    expected[:, :64] = 0
    expected[:30, :60] = a.astype(np.float32) @ b.astype(np.float32).T
    execution.bind(distributed)[1,](a, b, out)
    np.testing.assert_array_equal(out, expected)


def _in_kernel(line: str) -> str:
    return ("func.func @kernel(%A: memref<?x?xf32>, %S: memref<4x8xf32>, %i: index, %p: f32, %q: f16) {\n"
            "  %v = vector.transfer_read %A[%i, %i], %p : memref<?x?xf32>, vector<8x16xf32>\n"
            "  %x = vector.transfer_read %A[%i, %i], %p : memref<?x?xf32>, vector<16x16xf32>\n"
            f"  {line}\n  return\n}}")


READ = "%w = vector_transfer_read %A, %i, %i, %p {permutation_map: (d0, d1) -> (d0, d1)} : " \
       "(memref<?x?xf32>, index, index, f32) -> vector<8x16xf32>"
TRANSFER_WRITE = "vector_transfer_write %v, %A, %i, %i {permutation_map: (d0, d1) -> (d0, d1)} : " \
                 "vector<8x16xf32>, memref<?x?xf32>, index, index"
CONTRACT = '%w = vector.contract {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, ' \
           'affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} %v, %v : ' \
           'vector<8x16xf32>, vector<8x16xf32> into vector<8x16xf32>'
MISTAKES: dict[str, tuple[str, str]] = {
    "other elements": (READ.replace("vector<8x16xf32>", "vector<8x16xf16>"), "XT2345"),
    "too few indices": (READ.replace("%i, %i, %p", "%i").replace(", f32)", ")"), "XT1508"),
    "a sum in the map": (READ.replace("(d0, d1)}", "(d0 + d1, d1)}"), "XT2340"),
    "a constant in the map": (READ.replace("(d0, d1)}", "(1, d1)}"), "XT2340"),
    "twice": (READ.replace("(d0, d1)}", "(d1, d1)}"), "XT2343"),
    "a map of another rank": (READ.replace("(d0, d1) -> (d0, d1)", "(d0) -> (d0, 0)"), "XT2304"),
    "too few results": (READ.replace("(d0, d1)}", "(d1)}"), "XT1511"),
    "padding of another type": (READ.replace("%p", "%q").replace("index, f32", "index, f16"), "XT2346"),
    "a mask that is none": (READ.replace("%p {", "%p, %q {"), "XT2348"),
    "two masks": (READ.replace("%p {", "%p, %q, %q {"), "XT2308"),
    "no vector": (READ.replace("-> vector<8x16xf32>", "-> f32"), "XT2306"),
    "a write that repeats": (TRANSFER_WRITE.replace("(d0, d1)}", "(0, d1)}"), "XT2347"),
    "a write of two vectors": (TRANSFER_WRITE.replace("%v, %A", "%v, %v, %v, %A"), "XT2042"),
    "a write under a vector of numbers": (TRANSFER_WRITE.replace("%v, %A", "%v, %v, %A"), "XT2348"),
    "in_bounds too short": ("vector.transfer_write %v, %A[%i, %i] {in_bounds = [true]} : vector<8x16xf32>, "
                            "memref<?x?xf32>", "XT2305"),
    "an unknown attribute": (READ.replace("{perm", "{mask = 1, perm"), "XT2031"),
    "cast to another shape": ("%w = vector_type_cast %S : memref<4x8xf32>, memref<1xvector<8x4xf32>>", "XT2313"),
    "cast to two vectors": ("%w = vector_type_cast %S : memref<4x8xf32>, memref<2xvector<4x8xf32>>", "XT2311"),
    "cast without sizes": ("%w = vector_type_cast %A : memref<?x?xf32>, memref<1xvector<4x8xf32>>", "XT2312"),
    "a scalar load": ("%w = load %S[%i, %i] : memref<4x8xf32>", "XT2331"),
    "sizes of a contraction": (CONTRACT, "XT2326"),
    "iterators": (CONTRACT.replace('"parallel", "reduction"', '"reduction", "reduction"').replace("8x16", "16x16")
                  .replace("%v, %v", "%x, %x"), "XT2327"),
    "an unknown iterator": (CONTRACT.replace('"reduction"', '"window"'), "XT2323"),
    "a batch": ('%w = vector.contract {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, '
                'affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} %v, %v : vector<8x16xf32>, '
                'vector<8x16xf32> into vector<8xf32>', "XT2328"),
    "another kind": (CONTRACT.replace("iterator_types", "kind = #vector.kind<mul>, iterator_types"), "XT2322"),
    "a loop that stands still": ("for %j = 0 to 4 step 0 { }", "XT1331"),
    "a view that is left": ("%s = memref.subview %A[%i, 0] [4, 8] [1, 1] : memref<?x?xf32> to memref<4x8xf32>\n"
                            "  %w = vector.transfer_read %s[%i, %i], %p : memref<4x8xf32>, vector<4x8xf32>",
                            "XT1512"),
    "a view with strides": ("%s = memref.subview %A[%i, 0] [4, 8] [1, 2] : memref<?x?xf32> to memref<4x8xf32>\n"
                            "  %w = vector.transfer_read %s : vector<4x8xf32>", "XT2081"),
    "the address of a view": ("%s = memref.subview %S[%i, 0] [4, 8] [1, 1] : memref<4x8xf32> to memref<4x8xf32>\n"
                              "  %t = memref.extract_aligned_pointer_as_index %s : memref<4x8xf32> -> index",
                              "XT2080"),
    "sizes of a view": ("%s = memref.subview %A[%i, 0] [4, 9] [1, 1] : memref<?x?xf32> to memref<4x8xf32>\n"
                        "  %w = vector.transfer_read %s : vector<4x8xf32>", "XT2082"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str) -> None:
    line, code = MISTAKES[name]
    with pytest.raises(xt.TextError) as error:
        xt.parse(_in_kernel(line))
    assert error.value.code == code
    assert error.value.location is not None
    assert 4 <= error.value.location.line <= 5


def test_the_same_lines_without_a_mistake() -> None:
    for line in (READ, TRANSFER_WRITE, CONTRACT.replace("%v, %v : vector<8x16xf32>, vector<8x16xf32>",
                                                        "%v, %x : vector<8x16xf32>, vector<16x16xf32>")):
        assert "kernel" in xt.parse(_in_kernel(line))


def test_a_view_may_drop_dimensions_of_one_element() -> None:
    text = """
func.func @kernel(%A: memref<?x?x?xf32>, %C: memref<?x?xf32>, %g: index) {
  %c0 = arith.constant 0 : index
  %p = arith.constant 5.0 : f32
  %s = memref.subview %A[%g, 2, 4] [1, 16, 32] [1, 1, 1] : memref<?x?x?xf32> to memref<16x32xf32, strided<[?, 1]>>
  %r = memref.subview %s[8, 0] [8, 16] [1, 1] : memref<16x32xf32, strided<[?, 1]>> to memref<8x16xf32>
  %v = vector.transfer_read %r[%c0, %c0], %p {permutation_map = affine_map<(d0, d1) -> (d1, d0)>}
     : memref<8x16xf32>, vector<16x8xf32>
  vector.transfer_write %v, %C[%c0, %c0] : vector<16x8xf32>, memref<?x?xf32>
  return
}"""
    a, out = numbers(np.random.default_rng(6), 2, 17, 40), np.full((16, 9), 7, np.float32)
    xt.parse(text)["kernel"].on("numpy:xegpu")[1,](a, out, 1)
    np.testing.assert_array_equal(out[:, :8], slice_of(a, (1, 10, 4), (16, 8), (2, 1), 5))
    assert (out[:, 8] == 7).all()


BESIDE_LLVM = """
gpu.module @m {
  gpu.func @kernel(%A: memref<64x64xf32>, %C: memref<64x64xf32>, %p: f32) kernel {
    %c2 = arith.constant 2 : index
    %c60 = arith.constant 60 : index
    %d = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>
    %v = vector.transfer_read %A[%c2, %c60], %p {permutation_map = affine_map<(d0, d1) -> (d1, d0)>}
       : memref<64x64xf32>, vector<8x16xf32>
    %w = xegpu.load_nd %d[0, 0] : !xegpu.tensor_desc<8x16xf32> -> vector<8x16xf32>
    %x = arith.addf %v, %w : vector<8x16xf32>
    %e = xegpu.create_nd_tdesc %C : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>
    xegpu.store_nd %x, %e[0, 0] : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>
    gpu.return
  }
}"""


@pytest.mark.parametrize("execution", HERE, ids=str)
def test_beside_the_xegpu_of_llvm(execution: Execution) -> None:
    a, out = numbers(np.random.default_rng(7), 64, 64), np.full((64, 64), 7, np.float32)
    expected = out.copy()
    expected[:8, :16] = a[:8, :16] + slice_of(a, (2, 60), (8, 16), (1, 0), 9)
    execution.bind(xt.parse(BESIDE_LLVM)["kernel"])[1,](a, out, np.float32(9))
    np.testing.assert_array_equal(out, expected)
