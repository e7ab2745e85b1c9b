"""Sources for CPU devices: functions of whole vectors with Intel's compiler on x86-64, else portable text."""

from __future__ import annotations

import platform
import re
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from codegen.opencl.prelude.macros import MICROKERNELS
from codegen.runtime import program_source
from codegen.runtime.devices import find_queue, has_intel_cpu_compiler
from tests.conftest import require_device
from xetile.runtime.device_executor import DeviceExecutor


def device(vendor: str, *, cpu: bool = True) -> Any:
    return SimpleNamespace(name="a processor", is_cpu=cpu, vendor=vendor, sycl_platform=SimpleNamespace(vendor=vendor))


INTEL, POCL, AMD, ARM = (device(vendor) for vendor in ("Intel(R) Corporation", "The pocl project",
                                                       "Advanced Micro Devices, Inc.", "ARM"))


@pytest.mark.parametrize(("machine", "of", "has"), [
    ("x86_64", INTEL, True), ("AMD64", INTEL, True), ("aarch64", INTEL, False), ("riscv64", INTEL, False),
    ("x86_64", POCL, False), ("x86_64", AMD, False), ("aarch64", ARM, False), ("aarch64", POCL, False),
    ("x86_64", device("Intel(R) Corporation", cpu=False), False)])
def test_the_device_is_asked(machine: str, of: Any, has: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert has_intel_cpu_compiler(of) == has


def compiled(source: str) -> str:
    """Preprocessed text, where no more macros are defined than the text defines itself."""
    defined, lines, active = set(), [], [True]
    for line in source.splitlines():
        words = line.split()
        head = words[0] if words else ""
        if head in ("#ifdef", "#ifndef"):
            active.append((words[1] in defined) == (head == "#ifdef"))
        elif head == "#else":
            active[-1] = not active[-1]
        elif head == "#endif":
            active.pop()
        elif all(active):
            if head == "#define":
                defined.add(re.split(r"\W", words[1])[0])
            lines.append(line)
    assert active == [True]
    return "\n".join(lines)


@xt.kernel
def gemm(A, B, C, *, BM=32, BN=64, BK=32):
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    acc = xt.zeros((BM, BN), xt.f32)
    for k in xt.range(0, A.shape[1], BK):
        a, b = xt.init_tile(A, (m, k), (BM, BK)), xt.init_tile(B, (k, n), (BK, BN))
        acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN)))


ONLY_INTEL = r"__asm|llvm\.|__builtin_(?!astype)\w+"
"""Labels that the linker must know, LLVM's names of instructions, builtins of one compiler."""


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32"])
@pytest.mark.parametrize(("of", "machine"), [(POCL, "x86_64"), (ARM, "aarch64"), (INTEL, "aarch64")],
                         ids=["pocl", "arm", "intel on arm"])
def test_portable_text_names_nothing_of_intel_or_x86(dtype: str, of: Any, machine: str,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    text = gemm.lower(*[xt.Spec((None, None), dtype)] * 2, xt.Spec((None, None), "f32"), target="cpu").opencl
    assert MICROKERNELS in text
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert re.search(ONLY_INTEL, compiled(program_source.opencl_for_cpu(text, INTEL)))
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert not re.search(ONLY_INTEL, compiled(program_source.opencl_for_cpu(text, of)))


@pytest.mark.parametrize("numpy_type", [ml_dtypes.bfloat16, np.float16, np.float32])
def test_portable_text_runs(numpy_type: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU device that is here takes it, too, and gets the same numbers; edges included."""
    require_device()
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-4, 5, shape).astype(numpy_type) for shape in ((70, 90), (90, 130)))
    sources, results = [], []
    program_of = DeviceExecutor.program

    def seen(self: Any, lowered: Any) -> Any:
        sources.append(program_of(self, lowered).source)
        return program_of(self, lowered)

    monkeypatch.setattr(DeviceExecutor, "program", seen)
    own = has_intel_cpu_compiler(find_queue("opencl:cpu").sycl_device)
    for whole in (own, False):
        monkeypatch.setattr(program_source, "has_intel_cpu_compiler", lambda _, whole=whole: whole)
        c = np.full((72, 130), 7, np.float32)
        xt.kernel(gemm.function).on("opencl:cpu")[3, 3](a, b, c[1:-1])
        results.append(c)
    assert [bool(re.search(ONLY_INTEL, compiled(source))) for source in sources] == [own, False]
    expected = np.full((72, 130), 7.0)
    expected[1:-1] = a.astype(np.float64) @ b.astype(np.float64)
    for c in results:
        np.testing.assert_array_equal(c, expected)


@xt.kernel
def divided(X: Any, Y: Any) -> None:
    x, y = (xt.load_tile(xt.init_tile(array, (0, 0), (8, 32))) for array in (X, Y))
    xt.store_tile(x // y, xt.init_tile(X, (0, 0), (8, 32)))


def test_divisions_of_vectors_are_calls_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler takes each division of 16 lanes apart: inlined, an im2col of 64 x 64 elements builds in 1.3 times
    the time."""
    integers = xt.Spec((8, 32), "i32")
    text = divided.lower(integers, integers, target="cpu").opencl
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    source = program_source.opencl_for_cpu(text, INTEL)
    assert "#define XETILE_CALL __attribute__((noinline))" in source
    assert re.search(r"^XETILE_CALL static int8 floor_divide_int8\(", source, re.MULTILINE)
