"""``gpu.subgroup_reduce`` gives all lanes of a subgroup what their numbers, or their vectors, come to."""

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
KINDS: dict[str, Callable[[Any], Any]] = {
    "add": lambda v: v.sum(1, dtype=np.int32), "mul": lambda v: v.prod(1, dtype=np.int32),
    "minsi": lambda v: v.min(1), "maxsi": lambda v: v.max(1),
    "minui": lambda v: v.view(np.uint32).min(1).view(np.int32),
    "maxui": lambda v: v.view(np.uint32).max(1).view(np.int32),
    "and": lambda v: np.bitwise_and.reduce(v, 1), "or": lambda v: np.bitwise_or.reduce(v, 1),
    "xor": lambda v: np.bitwise_xor.reduce(v, 1),
}
BLOCK = "!xegpu.tensor_desc<8x16xi32>"


def kernel(lines: str) -> str:
    return f"""
gpu.module @m {{
  gpu.func @f(%A: memref<40x64xi32>, %B: memref<80x64xi32>, %n: i32) kernel {{
    %a = xegpu.create_nd_tdesc %A : memref<40x64xi32> -> {BLOCK}
    %b = xegpu.create_nd_tdesc %B : memref<80x64xi32> -> {BLOCK}
    %v = xegpu.load_nd %a[8, 16] : {BLOCK} -> vector<8xi32>
{lines}
    gpu.return
  }}
}}
"""


VECTORS = kernel("".join(f"""    %r{i} = gpu.subgroup_reduce {kind} %v : (vector<8xi32>) -> vector<8xi32>
    %s{i} = arith.subi %r{i}, %v : vector<8xi32>
    xegpu.store_nd %s{i}, %b[{8 * i}, 32] : vector<8xi32>, {BLOCK}
""" for i, kind in enumerate(KINDS)))
NUMBERS = kernel(f"""    %lane = gpu.lane_id
    %l = arith.index_cast %lane : index to i32
    %square = arith.muli %l, %l : i32
    %p = gpu.subgroup_reduce add %square uniform : (i32) -> i32
    %q = gpu.subgroup_reduce add %n : (i32) -> i32
    %c7 = arith.constant 7 : i32
    %first = arith.cmpi slt, %l, %c7 : i32
    %odd = gpu.subgroup_reduce add %first : (i1) -> i1
    %one = arith.extui %odd : i1 to i32
    %s = arith.addi %p, %q : i32
    %t = arith.addi %s, %one : i32
    %w = vector.broadcast %t : i32 to vector<8xi32>
    %r = arith.addi %v, %w : vector<8xi32>
    xegpu.store_nd %r, %b[8, 0] : vector<8xi32>, {BLOCK}
""")


def data() -> tuple[Any, Any]:
    a = np.random.default_rng(8).integers(-2 ** 31, 2 ** 31, (40, 64)).astype(np.int32)
    return a, np.full((80, 64), 7, np.int32)


def expected(text: str, a: Any, b: Any) -> Any:
    wanted, block = b.copy(), np.ascontiguousarray(a[8:16, 16:32])
    if text is NUMBERS:
        wanted[8:16, :16] = block + np.int32(sum(lane ** 2 for lane in range(16)) + 16 * 5 + 7 % 2)
        return wanted
    for i, reduce in enumerate(KINDS.values()):
        wanted[8 * i:8 * i + 8, 32:48] = reduce(block)[:, None] - block
    return wanted


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("text", [VECTORS, NUMBERS], ids=["vectors", "numbers"])
def test_all_lanes_get_it(text: str, execution: Execution) -> None:
    a, b = data()
    wanted = expected(text, a, b)
    execution.bind(xt.parse(text)["f"])[1](a, b, np.int32(5))
    np.testing.assert_array_equal(b, wanted)


@pytest.mark.parametrize("text", [VECTORS, NUMBERS], ids=["vectors", "numbers"])
def test_what_is_printed_means_the_same(text: str) -> None:
    subprocess.run([require_mlir_opt()], input=text.encode(), capture_output=True, timeout=300, check=True)
    a, b = data()
    wanted = expected(text, a, b)
    specs = xt.Spec((40, 64), "i32"), xt.Spec((80, 64), "i32"), np.int32(5)
    printed = xt.parse(text)["f"].lower(*specs, target="pvc").xegpu_upstream
    done = subprocess.run([require_mlir_opt()], input=printed.encode(), capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()[:2000]
    xt.parse(done.stdout.decode())["f"].on("numpy")[1](a, b, np.int32(5))
    np.testing.assert_array_equal(b, wanted)


WHOLE = VECTORS.replace("vector<8xi32>", "vector<8x16xi32>")


@pytest.mark.parametrize(("text", "code"), [
    (WHOLE, "XT3639"),
    (VECTORS.replace("add %v :", "add %v cluster(size = 4, stride = 2) :"), "XT3639"),
    (VECTORS.replace("subgroup_reduce add", "subgroup_reduce addi"), "XT3640"),
    (NUMBERS.replace("uniform : (i32)", "uniform : i32"), "XT2035"),
])
def test_what_is_no_reduction_of_a_subgroup(text: str, code: str) -> None:
    with pytest.raises(xt.XeError) as caught:
        xt.parse(text)
    assert caught.value.code == code
