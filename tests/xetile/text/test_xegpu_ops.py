"""XeGPU's operations on blocks, one kernel for each form: descriptors, loads, products; and what they must refuse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import DEVICE, EXECUTIONS, LANES, Execution, integers
from tests.text_examples import Example
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType

Array = np.ndarray[Any, Any]
HEAD = """  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %c24 = arith.constant 24 : index
  %c32 = arith.constant 32 : index
"""


@dataclass(frozen=True)
class Case:
    """A kernel from one array to another.

    Attributes:
        dtype: of both.
        lines: from the descriptor of A to a vector %v.
        stored: the shape of %v.
        expected: what %v is, of the array A.
        messages: 2D block messages in the machine code: loads and stores.
    """

    dtype: DType
    lines: str
    stored: str
    expected: Any
    messages: tuple[int, int]

    def text(self) -> str:
        c = f"tensor_desc<{self.stored}x{self.dtype.mlir}>"
        return f"""
func.func @case(%A: memref<64x64x{self.dtype.mlir}>, %C: memref<32x64x{self.dtype.mlir}>) {{
{HEAD}{self.lines}
  %c = XeGPU.create_nd_tdesc %C, %c8, %c16 : memref<32x64x{self.dtype.mlir}>, index, index into {c}
  XeGPU.store_nd %v, %c : vector<{self.stored}x{self.dtype.mlir}>, {c}
  func.return
}}
"""


def _array(length: int) -> Case:
    type_ = f"tensor_desc<8x16xf16, array_length={length}>" if length > 1 else "tensor_desc<8x16xf16>"
    whole = f"vector<{length}x8x16xf16>" if length > 1 else "vector<8x16xf16>"
    last = f"  %v = vector.extract %w[{length - 1}] : vector<8x16xf16> from {whole}\n" if length > 1 else ""
    return Case(
        dtypes.f16, f"""  %a = XeGPU.create_nd_tdesc %A, %c24, %c0 : memref<64x64xf16>, index, index into {type_}
  {'%w' if last else '%v'} = XeGPU.load_nd %a : {type_} into {whole}
{last}""", "8x16", lambda a: a[24:32, 16 * length - 16:16 * length], (1 if length < 4 else 0, 1))


_AT = "XeGPU.create_nd_tdesc %A, %c16, %c8 : memref<64x64x"
CASES = {
    **{f"array_length {length}": _array(length) for length in (1, 2, 4)},
    "bounds promised": Case(dtypes.f32, f"""  #promise = !xegpu.tdesc_attr<boundary_check=false>
  %d = {_AT}f32>, index, index into tensor_desc<8x16xf32, #promise>
  %a = XeGpu.update_nd_offset %d, %c0, %c16 : tensor_desc<8x16xf32, #promise>, index, index into """
                            """tensor_desc<8x16xf32, #promise>
  %v = XeGPU.load_nd %a : tensor_desc<8x16xf32, #promise> into vector<8x16xf32>""", "8x16",
                            lambda a: a[16:24, 24:40], (1, 1)),
    "beyond the edge": Case(dtypes.f32, """  %d = XeGPU.create_nd_tdesc %A, %c32, %c32
    : memref<64x64xf32>, index, index into tensor_desc<8x16xf32>
  %a = XeGpu.update_nd_offset %d, %c24, %c24 : tensor_desc<8x16xf32>, index, index into tensor_desc<8x16xf32>
  %v = XeGPU.load_nd %a : tensor_desc<8x16xf32> into vector<8x16xf32>""", "8x16",
                            lambda a: np.pad(a, ((0, 16), (0, 16)))[56:64, 56:72], (1, 1)),
    "transposed": Case(dtypes.f32, f"""  %a = {_AT}f32>, index, index into tensor_desc<16x8xf32>
  %v = XeGPU.load_nd %a {{transpose = [1,0]}} : tensor_desc<16x8xf32> into vector<8x16xf32>""", "8x16",
                       lambda a: a[16:32, 8:16].T, (1, 1)),
    "pairs transposed": Case(dtypes.f16, f"""  %a = {_AT}f16>, index, index into tensor_desc<16x16xf16>
  %v = XeGPU.load_nd %a {{transpose = [1,0], transpose_bit_width = 32}} :
     tensor_desc<16x16xfp16> into vector<8x32xfp16>""", "8x32",
                             lambda a: a[16:32, 8:24].reshape(16, 8, 2).transpose(1, 0, 2).reshape(8, 32), (1, 0)),
    "packed": Case(dtypes.f16, f"""  %a = {_AT}f16>, index, index into tensor_desc<16x16xf16>
  %p = XeGPU.load_nd %a {{packed}} : tensor_desc<16x16xf16> into vector<8x16x2xf16>
  %v = vector.shape_cast %p : vector<8x16x2xf16> into vector<8x32xf16>""", "8x32",
                   lambda a: a[16:32, 8:24].reshape(8, 2, 16).transpose(0, 2, 1).reshape(8, 32), (1, 0)),
    "packed bytes": Case(dtypes.u8, """  %a = XeGPU.create_nd_tdesc %A, %c16, %c16
    : memref<64x64xui8>, index, index into tensor_desc<32x16xui8>
  %p = XeGPU.load_nd %a {packed} : tensor_desc<32x16xui8> into vector<8x16x4xui8>
  %v = vector.shape_cast %p : vector<8x16x4xui8> into vector<8x64xui8>""", "8x64",
                         lambda a: a[16:48, 16:32].reshape(8, 4, 16).transpose(0, 2, 1).reshape(8, 64), (1, 0)),
    "shared local memory": Case(dtypes.f32, f"""  %a = {_AT}f32>, index, index into tensor_desc<8x16xf32>
  %slm = memref.alloc() : memref<16x32xf32, slm>
  %p = memref.extract_aligned_pointer_as_index %slm : memref<16x32xf32, slm> -> index
  %addr = arith.index_cast %p : index to i64
  %s = XeGPU.create_nd_tdesc %addr, %c8, %c16, %c16, %c32, %c32, %c1
    : uint64, index, index, index, index, index, index into tensor_desc<8x16xf32, memory_scope=slm>
  %t = XeGPU.create_nd_tdesc %slm, %c8, %c16
    : memref<16x32xf32, slm>, index, index into tensor_desc<8x16xf32, memory_scope=slm>
  XeGPU.prefetch_nd %a {{L1_hint = cached, L3_hint = uncached}} : tensor_desc<8x16xf32>
  %w = XeGPU.load_nd %a : tensor_desc<8x16xf32> into vector<8x16xf32>
  XeGPU.store_nd %w, %s : vector<8x16xf32>, tensor_desc<8x16xf32, memory_scope=slm>
  %v = XeGPU.load_nd %t : tensor_desc<8x16xf32, memory_scope=slm> into vector<8x16xf32>""", "8x16",
                                lambda a: a[16:24, 8:24], (2, 1)),
}


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_blocks(case: str, execution: Execution) -> None:
    made = CASES[case]
    a, c = integers(np.random.default_rng(5), made.dtype, 64, 64), np.full((32, 64), 7, made.dtype.numpy)
    expected, block = c.copy(), made.expected(a)
    expected[8:8 + block.shape[0], 16:16 + block.shape[1]] = block[:, :48]
    execution.bind(xt.parse(made.text())["case"])[1,](a, c)
    np.testing.assert_array_equal(c.astype(np.float64), expected.astype(np.float64))


@pytest.mark.parametrize("target", ["pvc", "bmg"])
@pytest.mark.parametrize("case", ["array_length 2", "transposed", "pairs transposed", "packed", "shared local memory"])
def test_messages(case: str, target: str) -> None:
    require_ocloc()
    made = CASES[case]
    specs = [xt.Spec(shape, made.dtype) for shape in ((64, 64), (32, 64))]
    report = xt.parse(made.text())["case"].lower(*specs, target=target).report()
    found = report.mix.whole.categories
    assert (found.get("load_block2d", 0), found.get("store_block2d", 0)) == (1, made.messages[1])
    assert (report.spill_size, report.private_size) == (0, 0)


def product(a: DType, b: DType, c: DType, lanes: int) -> str:
    """Products of a pair of types in every form, each on eight rows of C: plain, packed, and A in words."""
    k, words = 256 // a.bits, 32 // a.bits
    ta, tb, tc = f"8x{k}x{a.mlir}", f"{k}x{lanes}x{b.mlir}", f"8x{lanes}x{c.mlir}"
    packed = f"vector<8x{lanes}x{words}x{b.mlir}>" if words > 1 else f"vector<{tb}>"
    in_words = f"vector<8x8x{words}x{a.mlir}>" if words > 1 else f"vector<{ta}>"
    cast = f"  %aw = vector.shape_cast %av : vector<{ta}> into {in_words}\n" if words > 1 else ""
    stores = "".join(f"""  %d{i} = XeGPU.create_nd_tdesc %C, %c{8 * i}, %c0
    : memref<24x{lanes}x{c.mlir}>, index, index into tensor_desc<{tc}>
  XeGPU.store_nd %r{i}, %d{i} : vector<{tc}>, tensor_desc<{tc}>
""" for i in range(3))
    return f"""
func.func @products(%A: memref<8x{k}x{a.mlir}>, %B: memref<{k}x{lanes}x{b.mlir}>, %C: memref<24x{lanes}x{c.mlir}>) {{
{HEAD}  %a = XeGPU.create_nd_tdesc %A, %c0, %c0 : memref<8x{k}x{a.mlir}>, index, index into tensor_desc<{ta}>
  %b = XeGPU.create_nd_tdesc %B, %c0, %c0 : memref<{k}x{lanes}x{b.mlir}>, index, index into tensor_desc<{tb}>
  %b2 = XeGPU.create_nd_tdesc %B, %c0, %c0 : memref<{k}x{lanes}x{b.mlir}>, index, index into tensor_desc<{tb}>
  %av = XeGPU.load_nd %a : tensor_desc<{ta}> into vector<{ta}>
  %bv = XeGPU.load_nd %b : tensor_desc<{tb}> into vector<{tb}>
  %bp = XeGPU.load_nd %b2 {'{packed}' if words > 1 else ''} : tensor_desc<{tb}> into {packed}
{cast}  %r0 = XeGPU.dpas %av, %bv : vector<{ta}>, vector<{tb}> into vector<{tc}>
  %r1 = XeGPU.dpas %av, %bp, %r0 : vector<{ta}>, {packed}, vector<{tc}> into vector<{tc}>
  %r2 = XeGPU.dpas %r1, {'%aw' if words > 1 else '%av'}, %bp : vector<{tc}>, {in_words}, {packed} into vector<{tc}>
{stores}  func.return
}}
"""


def _pairs(target: str) -> list[tuple[DType, DType, DType]]:
    forms = xt_target(target).mma_shapes
    return [(form.a, form.b, c) for form in forms if form.engine == "dpas" and form.a.kind != "p"
            for c in form.accumulators]


def xt_target(name: str) -> Any:
    from xegpu.target.targets import find_target

    return find_target(name)


PAIRS = [pytest.param(pair, target, id=f"{'-'.join(map(str, pair))}-{target}")
         for target in ("pvc", "dg2") for pair in _pairs(target)]


@pytest.mark.parametrize(("pair", "target"), PAIRS)
def test_products(pair: tuple[DType, DType, DType], target: str) -> None:
    a_type, b_type, c_type = pair
    lanes, k = xt_target(target).subgroup_size, 256 // a_type.bits
    rng = np.random.default_rng(6)
    low = 0 if a_type is dtypes.u8 or b_type is dtypes.u8 else -2
    a, b = rng.integers(low, 3, (8, k)).astype(a_type.numpy), rng.integers(low, 3, (k, lanes)).astype(b_type.numpy)
    whole = a.astype(np.float64) @ b.astype(np.float64)
    typed = (xt.view(a, a_type), xt.view(b, b_type)) if a_type is dtypes.tf32 else (a, b)
    kernel = xt.parse(product(*pair, lanes))["products"]
    emulating = [Execution("numpy:xegpu", "cpu")] if target == "pvc" else []
    for execution in (*(execution for execution in (EXECUTIONS[0], *LANES, *DEVICE) if execution.target == target),
                      *emulating):
        c = np.full((24, lanes), 7, c_type.numpy)
        execution.bind(kernel)[1,](*typed, c)
        np.testing.assert_array_equal(c.astype(np.float64), np.concatenate([whole, 2 * whole, 3 * whole]),
                                      str(execution))


COUNTED = ("bf16-bf16-f32-pvc", "u8-i8-i32-pvc", "tf32-tf32-f32-pvc", "bf16-bf16-f32-dg2")


@pytest.mark.parametrize(("pair", "target"), [param for param in PAIRS if param.id in COUNTED])
def test_products_are_dpas(pair: tuple[DType, DType, DType], target: str) -> None:
    require_ocloc()
    lanes, k = xt_target(target).subgroup_size, 256 // pair[0].bits
    specs = [xt.Spec(shape, dtype) for shape, dtype in zip(((8, k), (k, lanes), (24, lanes)), pair, strict=True)]
    report = xt.parse(product(*pair, lanes))["products"].lower(*specs, target=target).report()
    assert report.mix.whole.categories["dpas"] == 3
    assert (report.spill_size, report.private_size) == (0, 0)


def test_shapes_that_no_engine_takes() -> None:
    text = product(dtypes.bf16, dtypes.bf16, dtypes.f32, 16)
    specs = [xt.Spec((8, 16), "bf16"), xt.Spec((16, 16), "bf16"), xt.Spec((24, 16), "f32")]
    with pytest.raises(xt.TargetError, match="XT4103") as caught:
        xt.parse(text)["products"].lower(*specs, target="dg2").opencl.strip()
    assert "write vector<8x16xbf16>, vector<16x8xbf16> -> vector<8x8xf32>, or 1, 2, 4 rows" in str(caught.value)
    assert caught.value.location is not None
    text = text.replace("24x16xf32", "24x16xf16").replace("8x16xf32", "8x16xf16")
    specs[2] = xt.Spec((24, 16), "f16")
    with pytest.raises(xt.TargetError, match="XT4102") as caught:
        xt.parse(text)["products"].lower(*specs, target="pvc").opencl.strip()
    assert "f32 or bf16" in str(caught.value)
    text = product(dtypes.f16, dtypes.f16, dtypes.f32, 16).replace("16x16xf16", "16x16xbf16").replace(
        "8x16x2xf16", "8x16x2xbf16")
    specs = [xt.Spec((8, 16), "f16"), xt.Spec((16, 16), "bf16"), xt.Spec((24, 16), "f32")]
    with pytest.raises(xt.TargetError, match="XT4101") as caught:
        xt.parse(text)["products"].lower(*specs, target="pvc").opencl.strip()
    assert "f16 x f16" in str(caught.value)


D, MEMORY = "%d: tensor_desc<16x16xf16>", "%m: memref<64x64xf16>"
LOAD = "%v = XeGPU.load_nd %d "
REFUSED = {
    "packed and transposed": (Example(LOAD + "{packed, transpose = [1, 0]} : tensor_desc<16x16xf16> into "
                                      "vector<8x16x2xf16>", D), "XT3103"),
    "another permutation": (Example(LOAD + "{transpose = [0, 1]} : tensor_desc<16x16xf16> into vector<16x16xf16>", D),
                            "XT3102"),
    "a width without a transpose": (Example(LOAD + "{transpose_bit_width = 32} : tensor_desc<16x16xf16> into "
                                            "vector<8x32xf16>", D), "XT3104"),
    "packed words": (Example("%v = XeGPU.load_nd %e {packed} : tensor_desc<8x16xf32> into vector<8x16xf32>",
                             "%e: tensor_desc<8x16xf32>"), "XT3106"),
    "another shape": (Example(LOAD + ": tensor_desc<16x16xf16> into vector<8x16xf16>", D), "XT3107"),
    "a vnni_axis": (Example(LOAD + "{axis = 0} : tensor_desc<16x16xf16> into vector<8x16x2xf16>", D), "XT2031"),
    "bounds of a line": (Example("%e = XeGPU.create_nd_tdesc %p, %i : uint64, index into "
                                 "tensor_desc<16xf16, boundary_check=true>", "%p: uint64"),
                         "XT3006"),
    "a line packed": (Example("%v = XeGPU.load_nd %e {packed} : tensor_desc<16xf16> into vector<8x2xf16>",
                              "%e: tensor_desc<16xf16>"), "XT3101"),
    "a line of a matrix": (Example(f"%e = XeGPU.create_nd_tdesc %m, %i : {MEMORY[4:]}, index into tensor_desc<16xf16>",
                                   MEMORY), "XT3026"),
    "three blocks": (Example(f"%e = XeGPU.create_nd_tdesc %m, %i, %j : {MEMORY[4:]}, index, index into "
                             "tensor_desc<8x16xf16, array_length=3>", MEMORY), "XT3003"),
    "the wrong scope": (Example(f"%e = XeGPU.create_nd_tdesc %m, %i, %j : {MEMORY[4:]}, index, index into "
                                "tensor_desc<8x16xf16, memory_scope=slm>", MEMORY), "XT3005"),
    "an address in slm": (Example("%e = XeGPU.create_nd_tdesc %p, %i : uint64, index into "
                                  "tensor_desc<16xf16, memory_scope=slm>", "%p: uint64"),
                          "XT3005"),
    "another element type": (Example(f"%e = XeGPU.create_nd_tdesc %m, %i, %j : {MEMORY[4:]}, index, index into "
                                     "tensor_desc<8x16xbf16>", MEMORY), "XT3009"),
    "one offset of two": (Example("%e = XeGpu.update_nd_offset %d, %i : tensor_desc<16x16xf16>, index", D), "XT3010"),
    "three dimensions": (Example(f"%e = XeGPU.create_nd_tdesc %m, %i, %j : {MEMORY[4:]}, index, index into "
                                 "tensor_desc<2x8x16xf16>", MEMORY), "XT3002"),
    "A in words, B not": (Example("%c = XeGPU.dpas %a, %b : vector<8x8x2xf16>, vector<16x16xf16> into vector<8x16xf32>",
                                  "%a: vector<8x8x2xf16>, %b: vector<16x16xf16>"), "XT3204"),
    "half words": (Example("%c = XeGPU.dpas %a, %b : vector<8x16xf16>, vector<4x16x4xf16> into vector<8x16xf32>",
                           "%a: vector<8x16xf16>, %b: vector<4x16x4xf16>"), "XT3203"),
    "a product of other sizes": (Example("%c = XeGPU.dpas %a, %b : vector<8x16xf16>, vector<8x16xf16> into "
                                         "vector<8x16xf32>", "%a: vector<8x16xf16>, %b: vector<8x16xf16>"),
                                 "XT3202"),
    "a hint that there is not": (Example(LOAD + "{L1_hint = fast} : tensor_desc<16x16xf16> into vector<16x16xf16>", D),
                                 "XT2050"),
    "a value with another shape": (Example("XeGPU.store_nd %v, %d : vector<8x16xf16>, tensor_desc<16x16xf16>",
                                           f"{D}, %v: vector<8x16xf16>"), "XT3108"),
}


@pytest.mark.parametrize("rule", REFUSED)
def test_what_is_refused(rule: str) -> None:
    example, code = REFUSED[rule]
    with pytest.raises(xt.XeError) as caught:
        xt.parse(example.text())
    assert caught.value.code == code
    assert caught.value.location is not None
    assert caught.value.location.line == 2


TWO_USES = f"""
func.func @uses(%A: memref<64x64xf16>, %C: memref<8x16xf32>) {{
{HEAD}  %d = XeGPU.create_nd_tdesc %A, %c16, %c0 : memref<64x64xf16>, index, index into tensor_desc<16x16xf16>
  %e = XeGPU.create_nd_tdesc %A, %c0, %c0 : memref<64x64xf16>, index, index into tensor_desc<8x16xf16>
  %c = XeGPU.create_nd_tdesc %C, %c0, %c0 : memref<8x16xf32>, index, index into tensor_desc<8x16xf32>
  %a = XeGPU.load_nd %e : tensor_desc<8x16xf16> into vector<8x16xf16>
  %b = XeGPU.load_nd %d {{packed}} : tensor_desc<16x16xf16> into vector<8x16x2xf16>
  %p = XeGPU.load_nd %d : tensor_desc<16x16xf16> into vector<16x16xf16>
  %q = arith.addf %p, %p : vector<16x16xf16>
  %r = XeGPU.dpas %a, %b : vector<8x16xf16>, vector<8x16x2xf16> into vector<8x16xf32>
  %s = XeGPU.dpas %a, %q, %r : vector<8x16xf16>, vector<16x16xf16>, vector<8x16xf32> into vector<8x16xf32>
  XeGPU.store_nd %s, %c : vector<8x16xf32>, tensor_desc<8x16xf32>
  func.return
}}
"""


def test_one_descriptor_loads_in_words_and_plain() -> None:
    a = np.random.default_rng(11).integers(-4, 5, (64, 64)).astype(np.float16)
    expected = 3 * (a[:8, :16].astype(np.float32) @ a[16:32, :16].astype(np.float32))
    for execution in EXECUTIONS:
        if execution.target != "dg2":
            c = np.full((8, 16), 7, np.float32)
            execution.bind(xt.parse(TWO_USES)["uses"])[1,](a, c)
            np.testing.assert_array_equal(c, expected, str(execution))


@pytest.mark.parametrize("execution", [each for each in EXECUTIONS if each.target != "dg2"], ids=str)
def test_arithmetic_in_vnni_form(execution: Execution) -> None:
    """Arithmetic runs on the unpacked block; in a constant, the elements of a word are in consecutive rows."""
    added = np.random.default_rng(12).integers(-4, 5, (8, 1, 2)).repeat(16, 1)
    text = TWO_USES.replace("%r = XeGPU.dpas %a, %b", f"""%k = arith.constant dense<{added.astype(float).tolist()}>
    : vector<8x16x2xf16>
  %x = arith.addf %b, %k : vector<8x16x2xf16>
  %w = scf.for %i = %c0 to %c16 step %c16 iter_args(%v = %x) -> (vector<8x16x2xf16>) {{
    %y = arith.mulf %v, %b : vector<8x16x2xf16>
    scf.yield %y : vector<8x16x2xf16>
  }}
  %r = XeGPU.dpas %a, %w""")
    a = np.random.default_rng(11).integers(-4, 5, (64, 64)).astype(np.float16)
    left, b = (each.astype(np.float32) for each in (a[:8, :16], a[16:32, :16]))
    c = np.full((8, 16), 7, np.float32)
    execution.bind(xt.parse(text)["uses"])[1,](a, c)
    np.testing.assert_array_equal(c, left @ ((b + added.transpose(0, 2, 1).reshape(16, 16)) * b) + left @ (2 * b))


def test_words_of_another_form_are_not_computed_with() -> None:
    cast = "%cast = vector.shape_cast %w : vector<8x16x2xf16> to vector<8x32xf16>\n  %r = XeGPU.dpas %a, %b"
    text = TWO_USES.replace("%r = XeGPU.dpas %a, %b", f"%w = arith.addf %b, %b : vector<8x16x2xf16>\n  {cast}")
    specs = [xt.Spec((64, 64), "f16"), xt.Spec((8, 16), "f32")]
    with pytest.raises(xt.ShapeError, match="XT3520") as caught:
        xt.parse(text)["uses"].lower(*specs).opencl.strip()
    assert "dpas packs what it needs" in str(caught.value)
