"""SPIR-V by queue: the compiler that makes it, what the log tells of it, and what a Level Zero queue gets."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import xetile as xt
from codegen.opencl.kernel import LARGE_BUFFERS, LARGE_GRF, ROUNDED_DIVISION
from codegen.runtime import launcher, program_cache, program_source
from codegen.runtime.program_source import KernelSource, gpu_program, queue_program
from codegen.toolchain import logger as log
from codegen.toolchain.ocloc import compile_device, disassemble
from codegen.toolchain.spirv import entry_points, imports, is_spirv
from tests.conftest import require_device, require_ocloc, require_sycl_compiler
from tests.kernels import Execution, gemm
from xetile.runtime import device_executor

LEVEL_ZERO = SimpleNamespace(backend=SimpleNamespace(name="level_zero"))
OPENCL = SimpleNamespace(backend=SimpleNamespace(name="opencl"))
LARGE = {"BM": 32, "BN": 64, "BK": 32}
SPECS = (xt.Spec((None, None), "bf16"), xt.Spec((None, None), "bf16"), xt.Spec((None, None), "f32"))


@pytest.fixture(autouse=True)
def no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XETILE_SPIRV", raising=False)


def have(monkeypatch: pytest.MonkeyPatch, sycl: bool, ocloc: bool) -> None:
    monkeypatch.setattr(program_source, "has_sycl_compiler", lambda: sycl)
    monkeypatch.setattr(program_source, "has_ocloc", lambda: ocloc)


@pytest.mark.parametrize(("queue", "sycl", "ocloc", "named", "compiler"), [
    (LEVEL_ZERO, True, True, "", "sycl"), (LEVEL_ZERO, True, False, "", "sycl"), (LEVEL_ZERO, False, True, "", "ocloc"),
    (LEVEL_ZERO, True, True, "ocloc", "ocloc"), (LEVEL_ZERO, False, True, "sycl", "sycl"),
    (OPENCL, True, True, "", ""), (OPENCL, True, True, "sycl", "sycl"), (OPENCL, False, False, "", ""),
])
def test_the_spirv_compiler_of_a_queue(queue: Any, sycl: bool, ocloc: bool, named: str, compiler: str,
                             monkeypatch: pytest.MonkeyPatch) -> None:
    have(monkeypatch, sycl, ocloc)
    monkeypatch.setenv("XETILE_SPIRV", named)
    assert program_source.spirv_compiler_for(queue) == compiler
    assert program_source.can_make_spirv() == (sycl or ocloc)


def test_without_a_compiler_the_error_names_both(monkeypatch: pytest.MonkeyPatch) -> None:
    have(monkeypatch, False, False)
    with pytest.raises(xt.ToolError, match="XT5106"):
        program_source.spirv_compiler_for(LEVEL_ZERO)


def test_a_wrong_choice_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XETILE_SPIRV", "clang")
    with pytest.raises(xt.ToolError, match="XT5107"):
        program_source.spirv_compiler_for(OPENCL)
    with pytest.raises(xt.ToolError, match="XT5107"):
        gemm.lower(*SPECS).spirv("clang")


@pytest.mark.parametrize(("compiler", "other"), [("sycl", "ocloc"), ("ocloc", "sycl")])
def test_a_failure_names_the_other_compiler(compiler: str, other: str, monkeypatch: pytest.MonkeyPatch,
                                        caplog: pytest.LogCaptureFixture) -> None:
    def fails(*_: Any) -> bytes:
        raise xt.ToolError("XT5132", "it failed", "mend it")

    monkeypatch.setattr(program_source, "compile_sycl" if compiler == "sycl" else "compile_spirv", fails)
    with caplog.at_level(logging.INFO, "xetile"), pytest.raises(xt.ToolError, match="XT5132") as caught:
        gemm.lower(*SPECS).spirv(compiler)
    assert caught.value.hint.startswith(f"mend it; or XETILE_SPIRV={other} takes")
    assert f"gemm failed with the compiler {compiler}: it failed" in caplog.text


def test_a_driver_that_refuses_spirv_names_the_other_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    require_device()
    require_sycl_compiler()
    monkeypatch.setenv("XETILE_SPIRV", "sycl")
    monkeypatch.setattr(launcher, "import_dpctl", lambda *_: refusing())
    a, c = np.zeros((16, 16), np.float32), np.zeros((16, 16), np.float32)
    with pytest.raises(xt.ToolError, match="XT5110"):
        gemm.on("opencl:cpu")[1, 1](a, a, c)


def refusing() -> Any:
    """dpctl's module for programs, of a driver that takes none."""
    class Refused(Exception):
        pass

    def create(*_: Any) -> None:
        raise Refused

    return SimpleNamespace(SyclProgramCompilationError=Refused, create_program_from_spirv=create)


class _Queue(SimpleNamespace):
    """A stand-in for a queue, by which built programs are kept."""

    __hash__ = object.__hash__


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_a_level_zero_queue_gets_spirv_that_the_gpu_runs(target: str, monkeypatch: pytest.MonkeyPatch,
                                                         caplog: pytest.LogCaptureFixture) -> None:
    """No such GPU is here: a stand-in takes what it would get, and ocloc makes machine code of it."""
    require_ocloc()
    require_sycl_compiler()
    got: list[tuple[bytes, str]] = []
    queue = _Queue(backend=LEVEL_ZERO.backend, sycl_device=SimpleNamespace(name="a GPU", is_cpu=False))
    monkeypatch.setattr(device_executor, "find_queue", lambda where: where)
    monkeypatch.setattr(device_executor, "device_target", lambda _: target)
    monkeypatch.setattr(program_cache, "build_program", lambda _, source, options: got.append((source, options)))
    monkeypatch.setattr(program_cache, "find_kernel", lambda _, name: name)
    executor = device_executor.DeviceExecutor(queue, None)
    low = gemm.lower(*SPECS, target=target, **LARGE)
    with caplog.at_level(logging.INFO, "xetile"):
        name = executor.build(low)
    assert re.search(rf"the SYCL runtime's compiler compiled gemm for {target} to \d+ bytes", caplog.text)
    ((spirv, options),) = got
    assert options == "-ze-opt-large-register-file"
    assert is_spirv(spirv)
    assert entry_points(spirv) == [name]
    assert imports(spirv)  # Intel's builtins, which the GPU has
    (facts,) = disassemble(compile_device(spirv, target, spirv=True)).kernels.values()
    steps = 1 if target == "pvc" else 9  # eight in one, and one for the rest
    assert facts.asm.count("dpas.8x8") == 32 * steps
    assert (facts.grf_count, facts.simd_size, facts.spill_size) == (256, 16, 0)


# The program of a GPU's driver, which the offline compiler builds too


def gpu_queue(backend: str) -> Any:
    return SimpleNamespace(backend=SimpleNamespace(name=backend),
                           sycl_device=SimpleNamespace(name="a GPU", is_cpu=False))


@pytest.mark.parametrize("large", [False, True])
def test_opencl_c(large: bool) -> None:
    low = gemm.lower(*SPECS, target="pvc", **(LARGE if large else {}))
    program = gpu_program(low.source)
    assert program.source == low.opencl
    assert program.name == "gemm"
    assert program.options.split() == ["-cl-std=CL3.0", *[LARGE_GRF] * large]


def test_a_queue_of_a_gpu_builds_the_same_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XETILE_BUILD_OPTIONS", raising=False)
    low = gemm.lower(*SPECS, target="pvc", **LARGE)
    assert queue_program(low.source, gpu_queue("opencl")) == gpu_program(low.source)


def test_options_of_the_user_come_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XETILE_BUILD_OPTIONS", "-cl-opt-disable")
    program = queue_program(gemm.lower(*SPECS, target="pvc").source, gpu_queue("opencl"))
    assert program.options.split() == ["-cl-std=CL3.0", "-cl-opt-disable"]


@xt.kernel
def quotient(A, B, C):
    a, b, c = (xt.init_tile(array, (0, 0), (8, 16)) for array in (A, B, C))
    xt.store_tile(xt.load_tile(a) / xt.load_tile(b), c)


def large_quotient(target: str) -> KernelSource:
    """A kernel that divides, with the larger number of registers."""
    specs = [xt.Spec((None, None), xt.f32)] * 3
    return xt.kernel(quotient.function, registers=256).lower(*specs, target=target).source


@pytest.mark.parametrize(("backend", "options"), [
    ("opencl", f"{LARGE_GRF} {ROUNDED_DIVISION}"),
    ("level_zero", "-ze-opt-large-register-file -ze-fp32-correctly-rounded-divide-sqrt")])
def test_options_by_the_name_that_a_driver_knows(backend: str, options: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require_sycl_compiler()
    monkeypatch.setenv("XETILE_SPIRV", "sycl")
    source = large_quotient("pvc")
    assert queue_program(source, gpu_queue(backend)).options == options


@pytest.mark.parametrize("target", ["pvc", "cpu"])
def test_a_cpu_divides_as_exactly(target: str) -> None:
    """A CPU rounds divisions as a GPU does, and has no register modes."""
    options = queue_program(large_quotient(target), require_device()).options
    assert ROUNDED_DIVISION in options
    assert LARGE_GRF not in options


@pytest.mark.parametrize(("target", "strides", "is_large"), [
    ("dg2", (64, 1), False), ("dg2", (-64, 1), True), ("arl", (1, -64), True), ("dg2", (1 << 26, 1), True),
    ("pvc", (-64, 1), False), ("cpu", (-64, 1), False)])
def test_arrays_beyond_a_surface_state(target: str, strides: tuple[int, int], is_large: bool,
                                       monkeypatch: pytest.MonkeyPatch) -> None:
    """Reversed arrays, and those of 4 GB, are reached by 64-bit addresses; a CPU knows no other ones."""
    require_sycl_compiler()
    here, far = xt.Spec((64, 32), xt.f32), xt.Spec((64, 32), xt.f32, strides)
    source = quotient.lower(here, far, here, target=target).source
    assert (LARGE_BUFFERS in source.options) == is_large
    assert LARGE_BUFFERS not in queue_program(source, require_device()).options
    monkeypatch.setenv("XETILE_SPIRV", "sycl")
    options = queue_program(source, gpu_queue("level_zero")).options
    assert ("-ze-opt-greater-than-4GB-buffer-required" in options) == is_large


@pytest.mark.parametrize(("backend", "option"), [("opencl", LARGE_GRF), ("level_zero", "-ze-opt-large-register-file")])
def test_spirv_of_the_sycl_compiler(backend: str, option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both backends take the same SPIR-V, and call the large register file by different names."""
    require_sycl_compiler()
    monkeypatch.setenv("XETILE_SPIRV", "sycl")
    low = gemm.lower(*SPECS, target="pvc", **LARGE)
    program = gpu_program(low.source, "sycl")
    assert is_spirv(program.source)
    assert entry_points(program.source) == [program.name]
    assert program.options == LARGE_GRF
    queued = queue_program(low.source, gpu_queue(backend))
    assert (queued.source, queued.name, queued.options) == (program.source, program.name, option)


# The log


@pytest.mark.parametrize(("value", "level"), [
    ("1", logging.INFO), ("debug", logging.DEBUG), ("WARNING", logging.WARNING), ("0", logging.NOTSET),
    ("", logging.NOTSET)])
def test_the_variable_sets_the_level(value: str, level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.Logger("xetile")
    monkeypatch.setattr(log, "LOGGER", logger)
    log.start(value)
    log.start(value)
    assert logger.level == level
    assert len(logger.handlers) == (level != logging.NOTSET)


@pytest.mark.parametrize("asked", ["", "1"])
def test_the_log_says_which_spirv_compiler_served(asked: str, tmp_path: Path) -> None:
    require_device()
    require_sycl_compiler()
    program = tmp_path / "program.py"
    program.write_text("import numpy as np, xetile as xt\n"
                       "@xt.kernel\n"
                       "def copy(X, Y):\n"
                       "    xt.store_tile(xt.load_tile(xt.init_tile(X, (0, 0), (8, 16))), "
                       "xt.init_tile(Y, (0, 0), (8, 16)))\n"
                       "x = np.ones((8, 16), np.float32)\n"
                       "copy.on('opencl:cpu')[1](x, x.copy())\n")
    root = str(Path(xt.__file__).parent.parent)
    environment = {**os.environ, "XETILE_SPIRV": "sycl", "XETILE_LOG": asked, "PYTHONPATH": root}
    done = subprocess.run([sys.executable, str(program)], env=environment, capture_output=True, text=True, check=True)
    said = "xetile: the SYCL runtime's compiler compiled copy for cpu to"
    assert (said in done.stderr) == bool(asked), done.stderr
    assert asked or not done.stderr


def test_another_spirv_compiler_may_be_chosen_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The choice may change while a program runs: what was built by the other one is not taken."""
    require_sycl_compiler()
    execution = Execution("opencl:cpu", "cpu")
    a = np.eye(16, dtype=np.float32)
    names = []
    own = xt.kernel(gemm.function)
    monkeypatch.setattr(program_cache, "find_kernel",
                        lambda program, name: names.append(name) or launcher.find_kernel(program, name))
    for compiler in ("", "sycl", ""):
        monkeypatch.setenv("XETILE_SPIRV", compiler)
        c = np.zeros((16, 16), np.float32)
        execution.bind(own)[1, 1](a, a * 3, c)
        np.testing.assert_array_equal(c, a * 3)
    assert names[0] == "gemm"
    assert len(names) == 2
    assert "__sycl_kernel_" in names[1]
