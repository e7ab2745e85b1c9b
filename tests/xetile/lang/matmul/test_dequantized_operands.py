"""Weights of 4 bits that become operand B: every weight, zero points and scales that round, on every execution."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from benchmarks.trial_kernels import four_bits
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, Array, Execution
from xetile.compiler.compiled import CompiledKernel

pytestmark = pytest.mark.unoptimised

TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
MACHINES = [Execution(f"machine:{gpu}", gpu) for gpu in ("pvc", "bmg")]
GROUP = 128


def operands(dtype: Any, depth: int, columns: int) -> tuple[Array, Array, Array, Array]:
    """Words, scales, zero points, and the weights by NumPy, rounded to the type behind each operation."""
    rng = np.random.default_rng(17)
    words = rng.integers(0, 1 << 32, (depth // 8, columns), dtype=np.uint32)
    groups = depth // GROUP
    scales = (rng.standard_normal((groups, columns)) * 0.37).astype(np.float32).astype(dtype)
    zeros = rng.uniform(-1, 16, (groups, columns)).astype(np.float32).astype(dtype)
    zeros[:, ::5] = np.float32(2.0**-12 * 1.5).astype(dtype)  # smaller than the last place of 1024 and of 16
    zeros[:, 1::7] = 8
    nibbles = words.reshape(groups, 1, 16, columns) >> (4 * np.arange(8, dtype=np.uint32))[:, None, None] & 15
    weights = nibbles.reshape(groups, GROUP, columns).astype(np.float32)
    weights = (weights - zeros[:, None].astype(np.float32)).astype(dtype)
    weights = (weights.astype(np.float32) * scales[:, None].astype(np.float32)).astype(dtype)
    return words, scales, zeros, weights.reshape(depth, columns)


@pytest.mark.parametrize("execution", [*EXECUTIONS, *MACHINES], ids=str)
@pytest.mark.parametrize("name", TYPES)
def test_each_weight_is_rounded_as_written(name: str, execution: Execution) -> None:
    """A row of A has a single one, so that the product is the weights themselves, bit for bit."""
    dtype, depth, columns = TYPES[name], 2 * GROUP, 77
    words, scales, zeros, weights = operands(dtype, depth, columns)
    c = np.full((depth + 5, columns), 99, np.float32)
    a = np.zeros((depth + 5, depth), np.float32)
    a[np.arange(depth), np.random.default_rng(1).permutation(depth)] = 1
    execution.bind(four_bits)[-(-a.shape[0] // 32), -(-columns // 64)](a.astype(dtype), words, scales, zeros, c)
    np.testing.assert_array_equal(c, a @ weights.astype(np.float32))


def lower_product(name: str, target: str) -> CompiledKernel:
    """A product of 4096 x 4096 with weights of 4 bits."""
    matrix, rows = xt.Spec((4096, 4096), name), xt.Spec((4096 // GROUP, 4096), name)
    return four_bits.lower(matrix, xt.Spec((4096 // 8, 4096), xt.u32), rows, rows, xt.Spec((4096, 4096), xt.f32),
                           target=target)


@pytest.mark.parametrize("name", TYPES)
def test_vectors_are_dequantized_in_pairs(name: str) -> None:
    lowered = lower_product(name, "pvc")
    lanes = lowered.stages["distribute-lanes"]
    assert lanes.count("xegpu.dequantize") == 32
    assert "arith.uitofp" not in lanes
    assert "xegpu.pack " not in lanes


@pytest.mark.parametrize("target", ["pvc", "bmg"])
@pytest.mark.parametrize(("name", "most"), [("f16", 260), ("bf16", 390)])
def test_instructions_of_the_loop(name: str, most: int, target: str) -> None:
    """32 x 64 weights are 64 registers of operand B: in f16 four instructions each, in bf16 six."""
    require_ocloc()
    report = lower_product(name, target).report(remedies=False)
    assert (report.spill_size, report.private_size) == (0, 0)
    assert report.loop["dpas"] == 128  # 128 x 64 weights
    assert report.loop["vector"] / 4 <= most
