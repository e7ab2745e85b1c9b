"""Truth values in LLVM's form are numbers of one bit: 0 or 1 without a sign, 0 or -1 with one; sums are modulo 2."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_mlir_opt
from tests.kernels import Execution

EXECUTIONS = [Execution("numpy", "pvc"), Execution("numpy:xegpu", "pvc"), Execution("opencl:cpu", "pvc")]
KINDS: dict[str, Callable[[Any, int], Any]] = {  # of bits, along an axis; signed, the larger bit is 0
    "add": lambda bits, axis: bits.sum(axis) % 2, "mul": lambda bits, axis: bits.prod(axis),
    "minui": lambda bits, axis: bits.min(axis), "maxui": lambda bits, axis: bits.max(axis),
    "minsi": lambda bits, axis: -(-bits).min(axis), "maxsi": lambda bits, axis: -(-bits).max(axis),
    "and": lambda bits, axis: bits.min(axis), "or": lambda bits, axis: bits.max(axis),
    "xor": lambda bits, axis: bits.sum(axis) % 2,
}
ORDERS = {"slt": np.less, "sle": np.less_equal, "sgt": np.greater, "sge": np.greater_equal}
BLOCK = "!xegpu.tensor_desc<8x16xi32>"


def kernel(body: str, arguments: str = "") -> str:
    """A kernel with the bits P and Q, of which B takes blocks of 8 rows."""
    return f"""
gpu.module @m {{
  gpu.func @bits(%A: memref<64x64xi32>, %B: memref<144x64xi32>{arguments}) kernel {{
    %a = xegpu.create_nd_tdesc %A : memref<64x64xi32> -> {BLOCK}
    %b = xegpu.create_nd_tdesc %B : memref<144x64xi32> -> {BLOCK}
    %v = xegpu.load_nd %a[8, 16] : {BLOCK} -> vector<8x16xi32>
    %w = xegpu.load_nd %a[16, 16] : {BLOCK} -> vector<8x16xi32>
    %zero = arith.constant dense<0> : vector<8x16xi32>
    %one = arith.constant dense<1> : vector<8x16xi32>
    %p = arith.cmpi sgt, %v, %zero : vector<8x16xi32>
    %q = arith.cmpi sgt, %w, %zero : vector<8x16xi32>
{body}
    gpu.return
  }}
}}
"""


def stored(name: str, condition: str, row: int, column: int = 0) -> str:
    return f"""    %{name} = arith.select {condition}, %one, %zero : vector<8x16xi1>, vector<8x16xi32>
    xegpu.store_nd %{name}, %b[{row}, {column}] : vector<8x16xi32>, {BLOCK}
"""


def reductions() -> str:
    """P reduced along rows, beginning with true, and Q along columns, beginning with false."""
    lines = ("    %true = arith.constant dense<true> : vector<8xi1>\n"
             "    %false = arith.constant dense<false> : vector<16xi1>\n")
    for i, kind in enumerate(KINDS):
        lines += f"""    %r{i} = vector.multi_reduction <{kind}>, %p, %true [1] : vector<8x16xi1> to vector<8xi1>
    %s{i} = vector.shape_cast %r{i} : vector<8xi1> to vector<8x1xi1>
    %t{i} = vector.broadcast %s{i} : vector<8x1xi1> to vector<8x16xi1>
{stored(f"x{i}", f"%t{i}", 16 * i)}
    %c{i} = vector.multi_reduction <{kind}>, %q, %false [0] : vector<8x16xi1> to vector<16xi1>
    %d{i} = vector.broadcast %c{i} : vector<16xi1> to vector<8x16xi1>
{stored(f"y{i}", f"%d{i}", 16 * i + 8)}"""
    return kernel(lines)


def data() -> tuple[Any, Any, Any, Any]:
    """A, B and the bits: rows and columns with no, one, some and all bits."""
    a = np.random.default_rng(4).integers(-2 ** 31, 2 ** 31, (64, 64)).astype(np.int32)
    a[9], a[10], a[11, 17:32], a[16:24, 20], a[16:24, 25] = -5, 7, -3, 9, -1
    return a, np.full((144, 64), 7, np.int32), *((a[row:row + 8, 16:32] > 0).astype(int) for row in (8, 16))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_reductions(execution: Execution) -> None:
    a, b, p, q = data()
    expected = b.copy()
    for i, reduce in enumerate(KINDS.values()):
        expected[16 * i:16 * i + 8, :16] = reduce(np.hstack([p, np.ones((8, 1), int)]), 1)[:, None]
        expected[16 * i + 8:16 * i + 16, :16] = reduce(np.vstack([q, np.zeros((1, 16), int)]), 0)
    execution.bind(xt.parse(reductions())["bits"])[1](a, b)
    np.testing.assert_array_equal(b, expected)


def comparisons() -> str:
    """P and Q in each signed order, and a block that the same order of two numbers chooses."""
    lines = "".join(f"""    %r{i} = arith.cmpi {order}, %p, %q : vector<8x16xi1>
{stored(f"x{i}", f"%r{i}", 8 * i)}    %s{i} = arith.cmpi {order}, %more, %many : i1
    %y{i} = arith.select %s{i}, %v, %w : vector<8x16xi32>
    xegpu.store_nd %y{i}, %b[{8 * i}, 16] : vector<8x16xi32>, {BLOCK}
""" for i, order in enumerate(ORDERS))
    numbers = "".join(f"    %c{limit} = arith.constant {limit} : index\n"
                      f"    %{name} = arith.cmpi sgt, %n, %c{limit} : index\n"
                      for name, limit in (("more", 5), ("many", 20)))
    return kernel(numbers + lines, ", %n: index")


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("n", [3, 11, 30])
def test_signed_comparisons(n: int, execution: Execution) -> None:
    a, b, p, q = data()
    expected = b.copy()
    for i, compare in enumerate(ORDERS.values()):
        expected[8 * i:8 * i + 8, :16] = compare(-p, -q)
        expected[8 * i:8 * i + 8, 16:32] = a[8:16, 16:32] if compare(-int(n > 5), -int(n > 20)) else a[16:24, 16:32]
    execution.bind(xt.parse(comparisons())["bits"])[1](a, b, n)
    np.testing.assert_array_equal(b, expected)


def test_what_is_printed_means_the_same() -> None:
    a, b, p, _ = data()
    kernel = xt.parse(reductions())["bits"]
    printed = kernel.lower(xt.Spec((64, 64), "i32"), xt.Spec((144, 64), "i32"), target="pvc").xegpu_upstream
    done = subprocess.run([require_mlir_opt()], input=printed.encode(), capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()[:2000]
    xt.parse(done.stdout.decode())["bits"].on("numpy")[1](a, b)
    np.testing.assert_array_equal(b[:8, 0], 1 - p.sum(1) % 2)  # with true
