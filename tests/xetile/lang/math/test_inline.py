"""``xt.inline``: which text runs where, element types, shapes, MLIR text and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_device, require_ocloc, require_sycl_compiler
from tests.kernels import DEVICE, EAGER, NUMPY, Array, Execution
from xegpu.ir.dtypes import DType

pytestmark = pytest.mark.unoptimised

MACHINES = [Execution("machine:pvc", "pvc"), Execution("machine:bmg", "bmg")]
EXECUTIONS = [NUMPY, EAGER, Execution("numpy:xegpu", "pvc"), *DEVICE, *MACHINES]
DESTINATION, SOURCES = "{r0}(0,0)<1>", ("{0}(0,0)<1;1,0>", "{1}(0,0)<1;1,0>")
MAP = xt.wg_map((2, 2), (8, 16))
RANDOM = np.random.default_rng(11)


def run(execution: Execution, function: Any, result: Any, *arrays: Array) -> Array:
    """The result of ``function`` of the arrays' vectors, in the first array's shape."""
    shapes, element = [array.shape for array in arrays], np.dtype(result)

    @xt.kernel
    def kernel(A, B, C):
        vectors = [xt.load_tile(xt.init_tile(array, (0,) * len(shape), shape))
                   for array, shape in zip((A, B), shapes, strict=False)]
        xt.store_tile(function(*vectors), xt.init_tile(C, (0,) * len(shapes[0]), shapes[0]))

    c = np.zeros(shapes[0], element)
    execution.bind(kernel)[1](*arrays, *(arrays[:1] if len(arrays) == 1 else ()), c)
    return c


def visa(instruction: str, last: str = SOURCES[1]) -> str:
    """One instruction of a subgroup, from the first operand and ``last``."""
    return f"{instruction} (M1, {{lanes}}) {DESTINATION} {SOURCES[0]} {last}"


@pytest.mark.on_devices_only  # the texts differ on purpose
@pytest.mark.parametrize(("execution", "added"), [
    (NUMPY, 5), (EAGER, 5), (Execution("numpy:xegpu", "pvc"), 5), (Execution("opencl:cpu", "pvc"), 1),
    (Execution("opencl:cpu", "cpu"), 4), (Execution("machine:pvc", "pvc"), 2), (Execution("machine:bmg", "bmg"), 3),
], ids=str)
def test_each_execution_runs_its_own_text(execution: Execution, added: int) -> None:
    """Texts that differ, as no author's may."""
    texts = {"default": "{0} + 1", "cpu": "{0} + 4"}
    assembly = {"default": visa("add", "2:d"), "bmg": visa("add", "3:d")}
    a = RANDOM.integers(-99, 99, (24, 48)).astype(np.int32)
    found = run(execution, lambda v: xt.inline(texts, v, visa=assembly, numpy=lambda v: v + v.dtype.type(5)),
                np.int32, a)
    np.testing.assert_array_equal(found, a + added)


TYPES = (xt.f64, xt.f32, xt.f16, xt.i64, xt.i32, xt.i16, xt.i8, xt.u64, xt.u32, xt.u16, xt.u8)


@xt.kernel
def differences(As, Bs, Cs):
    """A - B - 3 for each element type; a Python number has the type of the vector."""
    for A, B, C in zip(As, Bs, Cs, strict=True):
        a, b = (xt.load_tile(xt.init_tile(array, (0, 0), (8, 32))) for array in (A, B))
        for subtrahend in (b, 3):
            a = xt.inline("{0} - {1}", a, subtrahend, numpy=np.subtract, visa=visa("add", f"(-){SOURCES[1]}"))
        xt.store_tile(a, xt.init_tile(C, (0, 0), (8, 32)))


def values(dtype: DType) -> Array:
    """All integers of a type, or quarters that its sums hold."""
    if dtype.kind == "f":
        return RANDOM.integers(-500, 500, (8, 32)).astype(dtype.numpy) / dtype.numpy.type(4)
    limits = np.iinfo(dtype.numpy)
    return RANDOM.integers(limits.min, limits.max, (8, 32), dtype.numpy, endpoint=True)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_element_types(execution: Execution) -> None:
    """Integers wrap around."""
    types = TYPES[execution.target == "dg2":]  # dg2 does not calculate in f64
    a, b = (tuple(values(dtype) for dtype in types) for _ in range(2))
    c = tuple(np.zeros_like(array) for array in a)
    execution.bind(differences)[1](a, b, c)
    for dtype, left, right, found in zip(types, a, b, c, strict=True):
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(found, left - right - dtype.numpy.type(3))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("dtype", [xt.u8, xt.u16, xt.u32, xt.u64, xt.i8, xt.i16, xt.i32, xt.i64], ids=lambda t: t.name)
def test_integers_keep_their_sign_in_visa(dtype: DType, execution: Execution) -> None:
    """Comparisons by the sign of both operands, and of a result that only the text names."""
    a, b = values(dtype), values(dtype)
    np.testing.assert_array_equal(run(execution, _larger, dtype.numpy, a, b), np.maximum(a, b))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_unsigned_results_saturate_in_visa(execution: Execution) -> None:
    a = np.linspace(-90, 600, 256, dtype=np.float32).reshape(8, 32)
    found = run(execution, lambda v: xt.inline("convert_uchar_sat({0})", v, dtype=xt.u8, visa=visa("mov.sat", ""),
                                               numpy=lambda v: v.clip(0, 255).astype(np.uint8)), np.uint8, a)
    np.testing.assert_array_equal(found, a.clip(0, 255).astype(np.uint8))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize(("dtype", "sign"), [(ml_dtypes.bfloat16, 0x8000), (ml_dtypes.float8_e5m2, 0x80)], ids=str)
def test_small_floats_are_their_bits(dtype: Any, sign: int, execution: Execution) -> None:
    a = RANDOM.integers(-8, 9, (16, 32)).astype(np.float32).astype(dtype)
    assembly = visa("xor", f"{sign}:uw") if sign == 0x8000 else None
    found = run(execution, lambda v: xt.inline(f"{{0}} ^ {sign:#x}", v, numpy=lambda v: -v, visa=assembly), dtype, a)
    bits = np.dtype(f"u{a.itemsize}")
    np.testing.assert_array_equal(found.view(bits), a.view(bits) ^ bits.type(sign))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_several_results_of_operands_of_several_types_and_shapes(execution: Execution) -> None:
    """In a work-group's tile: a matrix, a row that is repeated, and functions of the author's."""
    @xt.kernel
    def kernel(A, B, C, D):
        a = xt.load_tile(xt.init_tile(A, (0, 0), (32, 64), wg_map=MAP))
        row = xt.load_tile(xt.init_tile(B, (0, 0), (1, 64), wg_map=xt.wg_map((2, 2), (1, 16))))
        quotient, rest = xt.inline(
            "int found = parted({0}, {1}, &{r1}); {r0} = (half)found;", a, row, dtype=(xt.f16, xt.i32),
            declarations="static int parted(int a, short b, private int *rest)\n{\n  int both[] = { a / b, a % b };\n"
            "  *rest = both[1];\n  return both[0];\n}", numpy=lambda a, b: (
                np.trunc(a / b).astype(np.float16), np.fmod(a, b).astype(np.int32)))
        xt.store_tile(quotient, xt.init_tile(C, (0, 0), (32, 64), wg_map=MAP))
        xt.store_tile(rest, xt.init_tile(D, (0, 0), (32, 64), wg_map=MAP))

    a = RANDOM.integers(-2000, 2000, (32, 64)).astype(np.int32)
    b = RANDOM.integers(1, 50, (1, 64)).astype(np.int16)
    c, d = np.zeros((32, 64), np.float16), np.zeros((32, 64), np.int32)
    execution.bind(kernel)[1](a, b, c, d)
    rest = np.sign(a) * (np.abs(a) % b)
    np.testing.assert_array_equal(d, rest)
    np.testing.assert_array_equal(c, (a - rest) // b)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_run_time_numbers_bound_loops_and_meet_vectors(execution: Execution) -> None:
    @xt.kernel
    def kernel(A, C, n, x: xt.f32):
        v = xt.load_tile(xt.init_tile(A, (0,), (64,)))
        count = xt.inline("{0} + {1}", n.to(xt.i32), 2, numpy=np.add, visa=visa("add"))
        step, less = xt.inline("{r0} = {0} * 2.0f; {r1} = {0} - 1.0f;", x, dtype=(xt.f32, xt.f32),
                               numpy=lambda x: (x * np.float32(2), x - np.float32(1)))
        for _ in xt.range(0, count.to(xt.index)):
            v = v + step
        v = xt.inline("{0} + {1} + {2}", v, less, count, numpy=lambda v, x, n: v + x + n.astype(np.float32))
        xt.store_tile(v, xt.init_tile(C, (0,), (64,)))

    a = RANDOM.integers(-99, 99, 64).astype(np.float32)
    c = np.zeros_like(a)
    execution.bind(kernel)[1](a, c, 3, 1.5)
    np.testing.assert_array_equal(c, a + 5 * 3 + 0.5 + 5)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_operands_and_results_of_products(execution: Execution) -> None:
    """Elements lie otherwise there; vISA of a subgroup takes one element a lane."""
    @xt.kernel
    def kernel(A, B, C):
        a, b = (xt.load_tile(xt.init_tile(array, (0, 0), (32, 32))) for array in (A, B))
        a, b = (xt.inline("{0} + {0}", v, numpy=lambda v: v + v, visa=visa("add", SOURCES[0])) for v in (a, b))
        product = xt.tile_mma(a, b)
        product = xt.inline("{0} + 1.0f", product, numpy=lambda v: v + np.float32(1), visa=visa("add", "0x3f800000:f"))
        xt.store_tile(product, xt.init_tile(C, (0, 0), (32, 32)))

    a, b = (RANDOM.integers(-4, 5, (32, 32)).astype(np.float16) for _ in range(2))
    c = np.zeros((32, 32), np.float32)
    execution.bind(kernel)[1](a, b, c)
    np.testing.assert_array_equal(c, 4 * (a.astype(np.float32) @ b) + 1)


@xt.kernel
def doubled(A, C):
    v = xt.load_tile(xt.init_tile(A, (0, 0), (16, 32), wg_map=xt.wg_map((2, 1), (8, 32))))
    v = xt.inline('twice({0}) /* "{x}" */  // doubled', v, declarations="#define twice(v) ((v) + (v))",
                  numpy=lambda v: v + v, visa={"pvc": visa("add", SOURCES[0]), "bmg": visa("mul", "2:w")})
    xt.store_tile(v, xt.init_tile(C, (0, 0), (16, 32), wg_map=xt.wg_map((2, 1), (8, 32))))


def _larger(a: Any, b: Any) -> Any:
    return xt.inline("max({0}, {1})", a, b, visa=visa("max"), numpy=np.maximum)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_functions_of_reductions_and_scans(axis: int, execution: Execution) -> None:
    a = RANDOM.integers(-2**31, 2**31, (8, 48)).astype(np.int32)
    found = run(execution, lambda v: xt.scan(v, axis, _larger), np.int32, a)
    np.testing.assert_array_equal(found, np.maximum.accumulate(a, axis))
    found = run(execution, lambda v: xt.tile_broadcast(xt.reduce(v, axis, _larger), v.shape), np.int32, a)
    np.testing.assert_array_equal(found, np.broadcast_to(a.max(axis, keepdims=True), a.shape))


def test_text_of_each_stage_reads_back_and_says_that_it_has_no_numpy() -> None:
    specs = [xt.Spec((16, 32), "i32")] * 2
    lowered = doubled.lower(*specs, target="pvc")
    a, c = RANDOM.integers(-99, 99, (16, 32)).astype(np.int32), np.zeros((16, 32), np.int32)
    for stage, text in lowered.stages.items():
        read = xt.parse(str(text))["doubled"]
        again = read.lower(*specs, target="pvc")
        assert str(again.stages[stage]) == str(text)
        assert again.opencl.partition("kernel void")[2].count("xetile_inline_") == \
            lowered.opencl.partition("kernel void")[2].count("xetile_inline_") > 0
    require_device()
    read.on("opencl:cpu", target="pvc")[1](a, c)
    np.testing.assert_array_equal(c, 2 * a)
    with pytest.raises(xt.ArgumentError, match=r"test_inline\.py:") as raised:
        xt.parse(str(lowered.stages["xetile"]))["doubled"].on("numpy")[1](a, c)
    assert raised.value.code == "XT1285"


def test_sycl_has_the_opencl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    require_device()
    require_sycl_compiler()
    monkeypatch.setenv("XETILE_SPIRV", "sycl")
    a, c = RANDOM.integers(-99, 99, (16, 32)).astype(np.int32), np.zeros((16, 32), np.int32)
    doubled.on("opencl:cpu", target="pvc")[1](a, c)
    np.testing.assert_array_equal(c, 2 * a)


@pytest.mark.on_devices_only  # each execution has a message of its own
@pytest.mark.parametrize(("execution", "text", "assembly", "message"), [
    (Execution("opencl:cpu", "pvc"), "nowhere({0})", None, "nowhere"),
    (Execution("opencl:cpu", "pvc"), None, visa("add"), "this vISA has no OpenCL C"),
    (Execution("machine:pvc", "pvc"), None, visa("addd"), "syntax error"),
], ids=str)
def test_a_compiler_points_at_the_line_of_the_text(execution: Execution, text: Any, assembly: Any,
                                                   message: str) -> None:
    @xt.kernel
    def wrong(A, C):
        v = xt.load_tile(xt.init_tile(A, (0, 0), (8, 16)))
        w = xt.inline("{0} + {1}", v, v, numpy=np.add, visa=visa("add"))
        w = xt.inline("{0} + {1}", w, v, numpy=np.add)
        w = xt.inline(text, w, v, numpy=np.add, visa=assembly)  # this line
        xt.store_tile(w, xt.init_tile(C, (0, 0), (8, 16)))

    a = np.zeros((8, 16), np.float32)
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    line = next(number for number, text in enumerate(lines, 1) if text.endswith("# this line"))
    where = f"test_inline.py:{line}" if execution.where == "opencl:cpu" else \
        f"test_inline.py:{line - 2} or test_inline.py:{line}"  # all vISA: the compiler tells no line of the text
    with pytest.raises(xt.ToolError, match=rf"in the code of {where}\).*{message}"):
        execution.bind(wrong)[1](a, a.copy())


def run_in_numpy(function: Any) -> None:
    """Run a function of a vector of i32."""
    @xt.kernel
    def kernel(A, C):
        xt.store_tile(function(xt.load_tile(xt.init_tile(A, (0, 0), (8, 16)))), xt.init_tile(C, (0, 0), (8, 16)))

    a = np.ones((8, 16), np.int32)
    kernel.on("numpy")[1](a, a.copy())


def same(v: Array) -> Array:
    return v.copy()


def written_to(v: Array) -> Array:
    v += 1
    return v


@pytest.mark.parametrize(("function", "code"), [
    (lambda v: xt.inline(7, v, numpy=same), "XT1280"), (lambda v: xt.inline({"pvc": 3}, v, numpy=same), "XT1280"),
    (lambda v: xt.inline(None, v, numpy=same), "XT1280"), (lambda v: xt.inline("{0}", v, numpy=3), "XT1280"),
    (lambda v: xt.inline("1", numpy=same), "XT1280"), (lambda v: xt.inline("{0}", "v", numpy=same), "XT1280"),
    (lambda v: xt.inline("{0}", v, numpy=same, declarations=3), "XT1280"),
    (lambda v: xt.inline("{1}", v, numpy=same), "XT1281"),
    (lambda v: xt.inline("{r1} = {0};", v, numpy=same), "XT1281"),
    (lambda v: xt.inline("{r0} = {0};", v, dtype=(xt.i32, xt.i32), numpy=same)[0], "XT1281"),
    (lambda v: xt.inline("{0}", v, visa="mov {0}", numpy=same), "XT1281"),
    (lambda v: xt.inline("{0}", v > 0, numpy=same), "XT1282"),
    (lambda v: xt.inline("{0}", v, dtype=xt.i1, numpy=same), "XT1282"),
    (lambda v: xt.inline("{0}", v, numpy=lambda v: v[0]), "XT1284"),
    (lambda v: xt.inline("{0}", v, numpy=lambda v: v / 2), "XT1284"),
    (lambda v: xt.inline("{0}", v, numpy=lambda v: (v, v)), "XT1284"),
    (lambda v: xt.inline("{r0}={0}; {r1}={0};", v, dtype=(xt.i32, xt.i32), numpy=same)[0], "XT1284"),
    (lambda v: xt.inline("{0}", v, numpy=lambda v: v.nothing), "XT1283"),
    (lambda v: xt.inline("{0}", v, numpy=written_to), "XT1283"),
    (lambda v: xt.inline({"dg3": "{0}"}, v, numpy=same), "XT4104"),
])
def test_mistakes(function: Any, code: str) -> None:
    with pytest.raises(xt.XeError) as raised:
        run_in_numpy(function)
    assert raised.value.code == code
    assert "test_inline.py" in str(raised.value)


@pytest.mark.parametrize(("target", "texts", "assembly", "others"), [
    ("pvc", {"dg2": "{0}"}, {"pvc": "mov {r0} {0}"}, ""),
    ("bmg", {"dg2": "{0}"}, {"pvc": "mov {r0} {0}"}, "pvc, dg2\n"),
    ("dg2", {"default": "{0}"}, None, ""), ("cpu", None, "mov {r0} {0}", "pvc, bmg, .*arl\n"),
])
def test_a_target_without_a_text_is_refused(target: str, texts: Any, assembly: Any, others: str) -> None:
    @xt.kernel
    def kernel(A, C):
        v = xt.load_tile(xt.init_tile(A, (0, 0), (8, 16)))
        xt.store_tile(xt.inline(texts, v, visa=assembly, numpy=same), xt.init_tile(C, (0, 0), (8, 16)))

    specs = [xt.Spec((8, 16), "i32")] * 2
    if not others:
        assert kernel.lower(*specs, target=target).opencl
        return
    with pytest.raises(xt.TargetError, match=f"not for {target}, but for {others}") as raised:
        kernel.on("numpy:xegpu", target=target)[1](*(np.zeros((8, 16), np.int32) for _ in specs))
    assert raised.value.code == "XT4114"


def test_a_number_that_visa_computes_is_uniform() -> None:
    """Otherwise a loop that it bounds is one of lanes that leave it by themselves."""
    require_ocloc()

    @xt.kernel
    def kernel(A, C, n):
        count = xt.inline("{0} + {1}", n.to(xt.i32), 2, numpy=np.add, visa=visa("add"))
        v = xt.zeros((8, 32), xt.f32)
        for i in xt.range(0, count.to(xt.index)):
            v = v + xt.load_tile(xt.init_tile(A, (8 * i, 0), (8, 32)))
        xt.store_tile(v, xt.init_tile(C, (0, 0), (8, 32)))

    assembly = str(kernel.lower(xt.Spec((None, 32), "f32"), xt.Spec((8, 32), "f32"), 4, target="pvc").isa())
    assert "jmpi" in assembly
    assert "goto" not in assembly


def test_checks_find_the_infinity_of_a_text() -> None:
    @xt.kernel
    def kernel(A, C):
        v = xt.load_tile(xt.init_tile(A, (0, 0), (8, 16)))
        w = xt.inline("1.0f / {0}", v, numpy=lambda v: np.float32(1) / v)  # here
        xt.store_tile(xt.where(v > -1.0, w, 0.0), xt.init_tile(C, (0, 0), (8, 16)))

    a = np.full((8, 16), 2, np.float32)
    a[3, 5] = -0.0
    with pytest.raises(xt.CheckError, match=r"numpy=lambda v: np\.float32"):
        kernel.on("numpy", check=True)[1](a, np.zeros_like(a))
    a[3, 5] = -4
    c = np.zeros_like(a)
    kernel.on("numpy", check=True)[1](a, c)
    np.testing.assert_array_equal(c, np.where(a > 0, 0.5, 0))
