"""What mlir-opt prints beside operations: source locations in all their forms, and arrays in the head of a gpu.func."""

from __future__ import annotations

import subprocess
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_mlir_opt
from tests.kernels import EAGER, FEW, Execution

pytestmark = pytest.mark.unoptimised

TEXT = """
gpu.module @m {
  gpu.func @turned(%A: memref<40x48xf32>, %C: memref<16x8xf32>) workgroup(%s: memref<512xi8, 3>) kernel {
    %t = xegpu.create_nd_tdesc %A : memref<40x48xf32> -> !xegpu.tensor_desc<8x16xf32>
    %v = xegpu.load_nd %t[35, 4] : !xegpu.tensor_desc<8x16xf32> -> vector<8x16xf32>
    %m = xegpu.create_mem_desc %s : memref<512xi8, 3> -> !xegpu.mem_desc<8x16xf32>
    xegpu.store_matrix %v, %m[0, 0] : vector<8x16xf32>, !xegpu.mem_desc<8x16xf32>
    gpu.barrier
    %w = xegpu.load_matrix %m[0, 0] : !xegpu.mem_desc<8x16xf32> -> vector<8x16xf32>
    %x = vector.transpose %w, [1, 0] : vector<8x16xf32> to vector<16x8xf32>
    %u = xegpu.create_nd_tdesc %C : memref<16x8xf32> -> !xegpu.tensor_desc<16x8xf32>
    xegpu.store_nd %x, %u[0, 0] : vector<16x8xf32>, !xegpu.tensor_desc<16x8xf32>
    gpu.return
  }
}
"""
"""An array in the head of a kernel, which LLVM's form has as bytes."""
TILES = """
gpu.module @m {
  gpu.func @turned(%A: memref<40x48xf32> {spirv.some}, %C: memref<16x8xf32>)
      workgroup(%s: memref<8x16xf32, #gpu.address_space<workgroup>>) kernel {
    %ta = xetile.init_tile %A[35, 4] : memref<40x48xf32> -> !xetile.tile<8x16xf32>
    %v = xetile.load_tile %ta : !xetile.tile<8x16xf32> -> vector<8x16xf32>
    %ts = xetile.init_tile %s[0, 0] : memref<8x16xf32, #gpu.address_space<workgroup>> -> !xetile.tile<8x16xf32, #slm>
    xetile.store_tile %v, %ts : vector<8x16xf32>, !xetile.tile<8x16xf32, #slm>
    gpu.barrier
    %w = xetile.load_tile %ts : !xetile.tile<8x16xf32, #slm> -> vector<8x16xf32>
    %x = vector.transpose %w, [1, 0] : vector<8x16xf32> to vector<16x8xf32>
    %tc = xetile.init_tile %C[0, 0] : memref<16x8xf32> -> !xetile.tile<16x8xf32>
    xetile.store_tile %x, %tc : vector<16x8xf32>, !xetile.tile<16x8xf32>
    gpu.return
  }
}
#slm = #xetile.tile_attr<memory_space = 3>
""".replace("#slm>", "#xetile.tile_attr<memory_space = 3>>")
LOCATIONS = ["unknown", '"kernel.mlir":7:3', '"kernel.mlir":7:3 to :9', '"kernel.mlir":7:3 to 8:9', '"by hand"',
             '"by hand"("kernel.mlir":7:3)', 'callsite("f"("k.mlir":1:2) at "k.mlir":3:4)',
             'fused["a.mlir":1:2, unknown]', 'fused<"metadata">[#below, callsite(#below at #below)]', "#below"]
"""Locations as MLIR writes them."""


def launched(text: str, execution: Execution) -> None:
    """Launch the kernel of a text, and compare what it writes."""
    rng = np.random.default_rng(4)
    a, c = (rng.integers(-99, 99, shape).astype(np.float32) for shape in ((40, 48), (16, 8)))
    want = np.zeros((8, 16), np.float32)
    want[:5] = a[35:, 4:20]
    execution.bind(xt.parse(text)["turned"])[1](a, c)
    np.testing.assert_array_equal(c, want.T)


@pytest.mark.parametrize("text", [TEXT, TILES], ids=["llvm", "tiles"])
@pytest.mark.parametrize("execution", [each for each in FEW if each != EAGER], ids=str)
def test_arrays_in_the_head_of_a_kernel_are_shared_local_memory(execution: Execution, text: str) -> None:
    launched(text, execution)


@pytest.mark.parametrize("location", LOCATIONS)
def test_locations_are_read(location: str) -> None:
    lines = [f"{line} loc({location})" if " = " in line or "gpu.barrier" in line else line
             for line in TILES.splitlines() if not line.startswith("#")]
    text = "\n".join(lines).replace("memref<16x8xf32>)\n", f"memref<16x8xf32> loc({location}))\n")
    printed = str(xt.parse(f'{text}\n#below = loc("below.mlir":1:2)\n'))
    assert printed == str(xt.parse(TILES))


@pytest.mark.parametrize("location", ["", "7:3", "fused", '"a.mlir":7', 'callsite("a" "b")', "stack[unknown]"])
def test_what_is_no_location_is_an_error_at_the_line(location: str) -> None:
    with pytest.raises(xt.TextError) as caught:
        xt.parse(TILES.replace("gpu.barrier", f"gpu.barrier loc({location})"), "kernel.mlir")
    assert "kernel.mlir:9" in str(caught.value)


@pytest.mark.parametrize("options", [("--mlir-print-debuginfo", "--canonicalize"),
                                     ("--mlir-print-debuginfo", "--mlir-print-op-generic")], ids=" ".join)
def test_debug_information_of_mlir_opt(options: tuple[str, ...]) -> None:
    done: Any = subprocess.run([require_mlir_opt(), *options], input=TEXT, text=True, capture_output=True, check=True)
    assert done.stdout.count("loc(") > 10
    launched(done.stdout, Execution("numpy", "pvc"))


LOOP = """
func.func @counted(%C: memref<8x16xf32>, %n: i32) {
  %lower = arith.constant 100 : i8
  %upper = arith.trunci %n : i32 to i8
  %step = arith.constant 50 : i8
  %zero = arith.constant dense<0.0> : vector<8x16xf32>
  %r = scf.for unsigned %i = %lower to %upper step %step iter_args(%v = %zero) -> (vector<8x16xf32>) : i8 {
    %f = arith.uitofp %i : i8 to f32
    %b = vector.broadcast %f : f32 to vector<8x16xf32>
    %w = arith.addf %v, %b : vector<8x16xf32>
    scf.yield %w : vector<8x16xf32>
  }
  %t = xegpu.create_nd_tdesc %C : memref<8x16xf32> -> !xegpu.tensor_desc<8x16xf32>
  xegpu.store_nd %r, %t[0, 0] : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>
  return
}
"""


@pytest.mark.parametrize("options", [(), ("--mlir-print-op-generic",)], ids=("custom", "generic"))
def test_a_loop_that_compares_as_unsigned_integers(options: tuple[str, ...]) -> None:
    done: Any = subprocess.run([require_mlir_opt(), *options], input=LOOP, text=True, capture_output=True, check=True)
    c = np.zeros((8, 16), np.float32)
    xt.parse(done.stdout)["counted"].on("numpy", target="pvc")[1](c, np.int32(210))
    assert (c == 100 + 150 + 200).all()


@pytest.mark.parametrize(("old", "new"), [
    (") kernel", ") private(%p: memref<4xf32, 5>) kernel"),
    ("memref<8x16xf32, #gpu.address_space<workgroup>>)", "f32)"),
    ("#gpu.address_space<workgroup>", "#gpu.address_space<private>"),
])
def test_arrays_that_no_kernel_has(old: str, new: str) -> None:
    with pytest.raises(xt.TextError, match="XT3280"):
        xt.parse(TILES.replace(old, new))
