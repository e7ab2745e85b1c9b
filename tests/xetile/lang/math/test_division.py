"""Division and square root: correctly rounded, unless a kernel asks for fast ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from codegen.opencl.kernel import ROUNDED_DIVISION
from codegen.runtime.program_source import gpu_program
from codegen.simulator.alu import transcendental
from codegen.toolchain.ocloc import compile_device, disassemble
from tests.conftest import require_ocloc, require_sycl_compiler
from tests.kernels import DEVICE, NUMPY, Execution
from xetile.library.matmul_kernels import product

SHAPE = (8, 16)


@xt.kernel
def ratios(A, B, QUOTIENT, INVERSE, ROOT):
    def tile(array: Any) -> Any:
        return xt.init_tile(array, (xt.group_id(0) * 8, 0), SHAPE)

    a, b = xt.load_tile(tile(A)), xt.load_tile(tile(B))
    xt.store_tile(a / b, tile(QUOTIENT))
    xt.store_tile(1.0 / b, tile(INVERSE))
    xt.store_tile(xt.sqrt(xt.abs(a)), tile(ROOT))


fast_ratios = xt.kernel(ratios.function, fast_division=True)


@pytest.mark.optimised
@pytest.mark.parametrize("execution", [NUMPY, Execution("numpy:xegpu", "pvc"), *DEVICE], ids=str)
@pytest.mark.parametrize("dtype", [xt.f32, xt.f16, xt.bf16], ids=str)
def test_correctly_rounded(dtype: xt.DType, execution: Execution) -> None:
    """f64 has enough digits for a quotient or root of f32 numbers to be rounded from there, as if from all of them."""
    rng = np.random.default_rng(11)
    a, b = (rng.standard_normal((512, 16)).astype(dtype.numpy) for _ in range(2))
    found = [np.full_like(a, 7) for _ in range(3)]
    execution.bind(ratios)[64](a, b, *found)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    for result, exact in zip(found, (wide_a / wide_b, 1 / wide_b, np.sqrt(abs(wide_a))), strict=True):
        np.testing.assert_array_equal(result, exact.astype(np.float32).astype(dtype.numpy))


@pytest.mark.optimised
@pytest.mark.parametrize("execution", [Execution("numpy:xegpu", "dg2"), Execution("opencl:cpu", "dg2"),
                                       Execution("machine:dg2", "dg2")], ids=str)
def test_all_numbers(execution: Execution) -> None:
    """Random bits, among them subnormal numbers, infinities and NaN; zeros; quotients that are subnormal."""
    rng = np.random.default_rng(12)
    a, b = (rng.integers(0, 1 << 32, (128, 16), dtype=np.uint32).view(np.float32) for _ in range(2))
    a[:8], a[8:16], b[:16] = 0.0, -0.0, rng.choice(np.float32([3, -3]), (16, 16))
    a[16:24], b[16:24] = 2e-38 * rng.standard_normal((8, 16)), rng.uniform(0.5, 4, (8, 16))
    mantissas = (np.uint32(0x40000000) - rng.integers(1, 256, (8, 16), dtype=np.uint32)).view(np.float32)
    a[24:32], b[24:32] = rng.uniform(1, 2, (8, 16)), mantissas  # the divisors for which steps may round wrongly
    found = [np.full_like(a, 7) for _ in range(3)]
    with np.errstate(all="ignore"):
        execution.bind(ratios)[16](a, b, *found)
        expected = a / b, np.float32(1) / b
    for result, exact in zip(found, expected, strict=False):
        same = (result.view(np.uint32) == exact.view(np.uint32)) | (np.isnan(result) & np.isnan(exact))
        assert same.all(), (a[~same], b[~same], result[~same])


POWERS = [(xt.f32, power) for power in (-127, -126, -2, 3, 126, 127)] + [
    (dtype, power) for dtype in (xt.bf16, xt.f16) for power in (-14, 3, 14, 15)]


@xt.kernel
def parts(A, QUOTIENT, *, divisor):
    def tile(array: Any) -> Any:
        return xt.init_tile(array, (xt.group_id(0) * 8, 0), SHAPE)

    xt.store_tile(xt.load_tile(tile(A)) / divisor, tile(QUOTIENT))


@pytest.mark.optimised
@pytest.mark.parametrize("execution", [NUMPY, Execution("numpy:xegpu", "pvc"), *DEVICE,
                                       Execution("machine:pvc", "pvc")],
                         ids=str)
@pytest.mark.parametrize(("dtype", "power"), POWERS, ids=str)
def test_powers_of_two(execution: Execution, dtype: xt.DType, power: int) -> None:
    """Their quotients are products, as long as the other factor is a normal number of the type; bit by bit."""
    bits = np.dtype(f"uint{dtype.bits}")
    a = np.random.default_rng(13).integers(0, 1 << dtype.bits, (64, 16), dtype=bits).view(dtype.numpy)
    a[0, :4], a[1, :8] = np.array([0.0, -0.0, np.inf, -np.inf]), np.arange(8, dtype=bits).view(dtype.numpy)
    divisor, found = -2.0**power, np.full_like(a, 7)
    execution.bind(parts)[8](a, found, divisor=divisor)
    with np.errstate(all="ignore"):
        exact = (a.astype(np.float64) / divisor).astype(np.float32).astype(dtype.numpy)
    same = (found.view(bits) == exact.view(bits)) | (np.isnan(found) & np.isnan(exact))
    assert same.all(), (a[~same], found[~same], exact[~same])


def test_products_by_reciprocals() -> None:
    matrix = xt.Spec((None, None), "f32")
    for divisor, name in ((8, "mulf"), (-0.25, "mulf"), (10.0, "divf"), (2.0**127, "divf")):
        assert f"arith.{name}" in parts.lower(matrix, matrix, target="pvc", divisor=divisor).stages["xetile"]


@pytest.mark.parametrize("ulps", [-3, -2, -1, 1, 2, 3])
def test_an_inverse_that_is_some_ulps_off(ulps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """``math.inv`` is right to about an ulp; quotients are rounded correctly nevertheless, by the worst divisors."""
    monkeypatch.setitem(transcendental._FUNCTIONS, "inv", lambda a: (
        (1 / a).astype(np.float32).view(np.int32) + np.int32(ulps)).view(np.float32))
    dividends = np.array([0x3F800000, 0x3FD55553, 0x3FE66662, 0x3FEDB6D5], np.uint32).view(np.float32)
    divisors = (np.uint32(0x40000000) - np.arange(1, 17, dtype=np.uint32)).view(np.float32)
    a, b = (np.ascontiguousarray(each).astype(np.float32) for each in np.broadcast_arrays(
        np.tile(dividends, 2)[:, None], divisors))
    found = [np.full_like(a, 7) for _ in range(3)]
    Execution("machine:dg2", "dg2").bind(ratios)[1](a, b, *found)
    for result, exact in zip(found, (a / b, 1 / b), strict=False):
        np.testing.assert_array_equal(result, exact)


@pytest.mark.parametrize("target", ["dg2", "arl"])
def test_targets_without_macros_divide_in_steps(target: str) -> None:
    """Each of 16 vectors has one inverse for both quotients; numbers out of range go through loops over the vectors of
    a variable, four in all, and each has one."""
    require_ocloc()
    kernel = ratios.lower(*[xt.Spec((None, None), xt.f32)] * 5, target=target)
    assert str(kernel.isa()).count("math.inv ") == 16 + 4
    assert kernel.in_memory() == 0


def macros(kernel: Any, target: str, compiler: str, dtype: xt.DType = xt.f32) -> tuple[int, int, int]:
    """Inverses and roots of 16 lanes in machine code: steps of exact macros, inverses by one instruction, roots so."""
    require_ocloc()
    if compiler == "sycl":
        require_sycl_compiler()
    program = gpu_program(kernel.lower(*[xt.Spec((None, None), dtype)] * 5, target=target).source, compiler)
    binary = compile_device(program.source, target, program.options, spirv=bool(compiler))
    asm = str(disassemble(binary))
    return asm.count("math.invm ") + asm.count("math.rsqtm "), asm.count("math.inv "), asm.count("math.sqt ")


@pytest.mark.parametrize("target", ["pvc", "bmg"])
@pytest.mark.parametrize("compiler", ["", "sycl", "ocloc"])
def test_instructions(compiler: str, target: str) -> None:
    """A tile of 8x16 is eight vectors: two inverses and one root of each."""
    assert macros(ratios, target, compiler) == (24, 0, 0)
    assert macros(fast_ratios, target, compiler) == (0, 16, 8)


def options(kernel: Any, *specs: xt.Spec, **constants: Any) -> str:
    return str(kernel.lower(*specs, target="pvc", **constants).emitted.options)


def test_who_gets_the_option() -> None:
    """f32 alone needs it: f64 is always exact, and nothing else divides. Text of a stage says what the kernel asks."""
    single, double = [xt.Spec((None, None), xt.f32)] * 5, [xt.Spec((None, None), xt.f64)] * 5
    assert options(ratios, *single) == ROUNDED_DIVISION
    assert options(ratios, *double) == options(fast_ratios, *single) == ""
    for kernel in (ratios, fast_ratios):
        for stage in ("xetile", "blocking"):
            again = xt.parse(kernel.lower(*single, target="pvc").stages[stage])["ratios"]
            assert options(again, *single) == options(kernel, *single)
    assert product.fast_division
    assert not ratios.fast_division
