"""Goals of all figures: ratios, of which more is better. CI fails under half of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """The smallest ratio that is asked for, and of what to what."""

    least: float
    meaning: str


GOALS: Mapping[str, Goal] = {
    "numpy work-group": Goal(0.35, "\"numpy\" by tiles of 128 x 128, to NumPy's own matmul in float32"),
    "numpy subgroup": Goal(0.2, "\"numpy\" by tiles of 32 x 64, to NumPy's own matmul in float32"),
    "check": Goal(0.33, "a launch without checks, to one with check=True that finds nothing"),
    "cpu f32": Goal(1.3, "the CPU device in f32, to NumPy's matmul"),
    "cpu f32 dpnp": Goal(2.0, "the CPU device in f32, to dpnp.matmul"),
    "cpu peak": Goal(0.95, "the CPU device in f32, to the multiply-adds that its cores do at most"),
    "cpu bf16": Goal(1.0, "the CPU device, bf16 into f32, to NumPy's matmul in float32"),
    "cpu i8": Goal(2.0, "the CPU device, i8 into i32, to NumPy's matmul in float32"),
    "cpu bytes": Goal(0.7, "the CPU device where bytes bound a product, to all cores reading as many"),
    "cpu odd": Goal(0.7, "the rate of an odd product that arithmetic bounds, to that of the square one"),
    "cpu attention": Goal(1.0, "xt.attention on the CPU device, to torch's scaled_dot_product_attention"),
    "cpu attention numpy": Goal(3.0, "the same, to NumPy's two products and softmax"),
    "cpu softmax": Goal(1.0, "a softmax of rows on the CPU device, to torch's, into memory that is there"),
    "cpu softmax numpy": Goal(3.0, "the same, to NumPy's"),
    "cpu epilogue": Goal(0.9, "a product with bias and GELU, to the same without"),
    "compile": Goal(1.0, "45 ms, to the first compilation of a work-group product to OpenCL C"),
    "trace": Goal(1.0, "10 ms, to its tracing"),
    "linear": Goal(0.7, "compile time an operation: of few operations, to that of many"),
    "memory": Goal(1.0, "1,024 MB, to what a process that builds many kernels on the CPU device grows by"),
    "import": Goal(1.0, "0.4 s, to import xetile in a new process"),
    "launch": Goal(1.0, "10 us, to what a launch on known arrays takes longer than dpctl's own submit_async"),
    "density": Goal(1.0, "dpas of a hot loop's instructions, to what hand-written kernels reach on that target"),
    "transposed": Goal(0.67, "instructions a step of the plain product, to those with an operand stored by columns"),
    "prepared": Goal(1.0, "3 us, to what a prepared launch takes longer"),
}
