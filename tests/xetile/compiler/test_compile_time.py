"""Cost of compiling: in proportion to a kernel's operations, counted in calls of functions and not in seconds."""

from __future__ import annotations

import cProfile
import pstats
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import xetile as xt
from xetile.compiler.pipeline import Options, stages

SPECS = [xt.Spec((None, None), dtype) for dtype in ("bf16", "bf16", "f32")]


@xt.kernel
def product(A, B, C, *, steps=1, rows=16, inside=False, added=False):
    """``steps`` steps of K one after the other, in a loop or not; or as many tiles that are only added up."""
    a, b = xt.init_tile(A, (0, 0), (rows, 16)), xt.init_tile(B, (0, 0), (16, 32))
    acc = xt.zeros((rows, 32), xt.f32)

    def step(a, b, acc):
        if added:
            return a, xt.update_tile_offset(b, 16, 0), acc + xt.load_tile(b).to(xt.f32)
        acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
        return xt.update_tile_offset(a, 0, 16), xt.update_tile_offset(b, 16, 0), acc

    if inside:
        for _ in xt.range(0, A.shape[1], 16 * steps):
            for _ in range(steps):
                a, b, acc = step(a, b, acc)
    else:
        for _ in range(steps):
            a, b, acc = step(a, b, acc)
    xt.store_tile(acc, xt.init_tile(C, (0, 0), (rows, 32)))


def calls(work: Callable[[], Any]) -> tuple[Any, int]:
    """Result of some work, and the calls that it takes."""
    profile = cProfile.Profile()
    found = profile.runcall(work)
    return found, sum(entry[0] for entry in pstats.Stats(profile).stats.values())  # type: ignore[attr-defined]


def costs(**constants: Any) -> dict[str, int]:
    """Calls that each part of compiling takes."""
    lowered, traced = calls(lambda: xt.kernel(product.function).lower(*SPECS, **constants))
    found = {"trace": traced}
    parts = stages(lowered.module, Options(lowered.target, lowered.access))
    while (stage := calls(lambda: next(parts, None)))[0] is not None:
        found[stage[0][0]] = stage[1]
    assert lowered.modules
    found["emit"] = calls(lambda: lowered.opencl)[1]
    return found


@pytest.mark.parametrize(("less", "more"), [
    pytest.param({"steps": 24}, {"steps": 48}, marks=pytest.mark.everything),
    pytest.param({"steps": 24, "inside": True}, {"steps": 48, "inside": True}, marks=pytest.mark.everything),
    pytest.param({"steps": 24, "added": True, "rows": 16}, {"steps": 48, "added": True, "rows": 16},
                 marks=pytest.mark.everything),
    ({"rows": 128}, {"rows": 256}),
], ids=["steps", "steps in a loop", "sums", "rows"])
def test_twice_the_operations_cost_no_more_than_twice(less: dict[str, Any], more: dict[str, Any]) -> None:
    costs(steps=1, inside=True)  # what is done once
    once, twice = costs(**less), costs(**more)
    assert len(once) > 8
    for part, before in once.items():
        assert twice[part] <= 2.2 * before, part  # analyses walk back along a tile that is moved again and again


def test_importing_loads_no_more_than_a_kernel_needs() -> None:
    later = ("dpctl", "platformdirs", "rich", "matplotlib", "importlib.metadata", "xetile.jit.parsed",
             "xetile.library", "xetile.tools.tuner", "xetile.compiler.report", "xegpu.interop.llvm",
             "xegpu.interop.v1", "xetile.compiler.compiled", "xetile.compiler.pipeline",
             "xetile.runtime.numpy_executor", "xetile.runtime.device_executor", "xetile.runtime.sanitizer",
             "xetile.runtime.eager", "codegen.opencl.emitter", "xegpu.interpreter.interpreter",
             "codegen.toolchain.ocloc", "codegen.sycl", "hashlib", "subprocess", "logging")
    program = f"import sys, xetile; print([m for m in {later} if m in sys.modules]); xetile.parse, xetile.matmul"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert {"parse", "matmul", "tune"} <= set(dir(xt))
    with pytest.raises(AttributeError, match=r"has no pares(?s:.*)did you mean xt\.parse"):
        _ = xt.pares
