"""f64 rounded to narrower floats: in machine code, and rounded once."""

from __future__ import annotations

import re

import numpy as np
import pytest

import xetile as xt
from codegen.toolchain.ocloc import compile_device, disassemble
from tests.conftest import require_ocloc, require_sycl_compiler
from tests.kernels import EXECUTIONS, Execution

REGISTER_BYTES = 64
NARROW = [xt.f32, xt.f16, xt.bf16]
OPERAND = re.compile(r" r(\d+)\.0<1;1,0>:df")


@xt.kernel
def convert(A, C, *, shape=(8, 16)):
    at = xt.group_id(0) * shape[0], 0
    xt.store_tile(xt.load_tile(xt.init_tile(A, at, shape)).to(C.dtype), xt.init_tile(C, at, shape))


def overlapping(asm: str) -> list[tuple[str, str]]:
    """Pairs of 16-lane f64 operands in a basic block of which one begins in the middle of the other."""
    pairs, seen = [], dict[int, str]()
    for line in asm.splitlines():
        seen = {} if re.match(r"\s*L\d+:", line) else seen
        registers = [int(number) for number in OPERAND.findall(line)] if "(16|M0)" in line else []
        pairs += [(seen[near], line) for number in registers for near in (number - 1, number + 1) if near in seen]
        seen |= dict.fromkeys(registers, line)
    return pairs


@pytest.mark.parametrize("compiler", ["", "sycl"])
@pytest.mark.parametrize("target", ["pvc", "bmg"])
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_vectors_are_read_whole(dtype: xt.DType, target: str, compiler: str) -> None:
    """A vector of 16 f64 fills two registers: conversions of several may not read registers of each other."""
    require_ocloc()
    lowered = convert.lower(xt.Spec((None, None), xt.f64), xt.Spec((None, None), dtype), target=target)
    if compiler:
        require_sycl_compiler()
        binary = compile_device(lowered.spirv(compiler), target, lowered.emitted.options, spirv=True)
        asm = str(disassemble(binary))
    else:
        asm = str(lowered.isa())
    assert len(re.findall(r"mov \(16\|M0\) +r\d+\.0<2>:f +r\d+\.0<1;1,0>:df", asm)) == 8
    assert overlapping(asm) == []


@pytest.mark.parametrize("execution", [execution for execution in EXECUTIONS if execution.target != "dg2"], ids=str)
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_rounded_once(dtype: xt.DType, execution: Execution) -> None:
    """Numbers beside the middle of two neighbours, which f32 in between would put there; overflow, subnormal ones."""
    rng = np.random.default_rng(7)
    a = rng.standard_normal((24, 16)) * 10.0 ** rng.integers(-9, 6, (24, 16))
    middle = (1 + 2.0**-11) * 2.0 ** rng.integers(-20, 12, (8, 16))
    a[8:16] = np.where(rng.integers(0, 2, (8, 16)), -1, 1) * middle * (1 + rng.integers(-1, 2, (8, 16)) * 2.0**-40)
    a[16, :8] = np.inf, -np.inf, np.nan, -0.0, 65519.999999999, 65520, 1e300, -1e-300
    c = np.zeros(a.shape, dtype.numpy)
    execution.bind(convert)[3](a, c)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(c.view(f"u{c.itemsize}")[~np.isnan(a)], a.astype(dtype.numpy).view(
            f"u{c.itemsize}")[~np.isnan(a)])
    assert np.isnan(c.astype(np.float32)[np.isnan(a)]).all()
