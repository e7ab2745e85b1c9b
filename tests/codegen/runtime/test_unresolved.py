"""Functions that a driver lacks: named with the author's line, by what each kind of driver says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import xetile as xt
from codegen.runtime import build_log, launcher, level_zero_log, program_cache
from codegen.toolchain.ocloc import compile_spirv
from codegen.toolchain.spirv import entry_points
from tests.conftest import require_device, require_ocloc, require_sycl_compiler
from tests.kernels import gemm
from xegpu.support.errors import BUG, DeviceError, ToolError

HELPER = """\
int nowhere(int);
int elsewhere(int);

static int helper(int a)
{
  return nowhere(a) + elsewhere(a);
}

kernel void f(global int *a)
{
  // mine.py:6
  int b = 1;
  // mine.py:7
  a[0] = helper(b);
}
"""
SOUND = "kernel void f(global int *a)\n{\n  a[0] = 1;\n}\n"


def spirv(text: str) -> bytes:
    require_ocloc()
    return compile_spirv(text, "pvc")


def refused(queue: Any, program: bytes, text: str, name: str = "f") -> ToolError:
    with pytest.raises(ToolError) as caught:
        program_cache.build_kernel(queue, program, "", name, text)
    return caught.value


def test_the_cpu_driver_lacks_functions() -> None:
    error = refused(require_device(), spirv(HELPER), HELPER)
    assert error.code == "XT5111"
    assert "has no function elsewhere, nowhere, which the program calls (in the code of mine.py:7)" in error.message


@pytest.mark.parametrize("compiler", ["sycl", "ocloc"])
def test_builtins_of_gpus_on_the_cpu_device(compiler: str) -> None:
    """Both compilers mangle names, each in a way of its own."""
    require_sycl_compiler() if compiler == "sycl" else require_ocloc()
    low = gemm.lower(*(xt.Spec((None, None), dtype) for dtype in (xt.bf16, xt.bf16, xt.f32)), target="pvc",
                     acc=xt.f32)
    program = low.spirv(compiler)
    error = refused(require_device(), program, low.opencl, entry_points(program)[0])
    assert error.code == "XT5111"
    assert "intel_sub_group_bf16_bf16_matrix_mad_k16," in error.message
    assert "_Z" not in error.message
    assert "(in the code of kernels.py:" in error.message


def test_another_error_stays_what_it_is() -> None:
    queue = require_device()
    with pytest.raises(DeviceError) as caught:
        program_cache.build_kernel(queue, spirv(SOUND), "", "g")
    assert caught.value.code == "XT9403"


class Loader:
    """Level Zero's loader, with a driver that answers as its documentation says; it counts what it gave away."""

    def __init__(self, created: str = "", linked: str = "") -> None:
        self.created, self.linked = created, linked
        self.logs: dict[int, str] = {}
        self.alive: set[str] = set()
        self.description: Any = None

    def _give(self, log: Any, text: str) -> None:
        handle = len(self.logs) + 100
        self.logs[handle], log._obj.value = text, handle
        self.alive.add(f"log {handle}")

    def zeModuleCreate(self, context: Any, device: Any, description: Any, module: Any, log: Any) -> int:
        assert (context.value, device.value) == (11, 12)
        self.description = description._obj
        self._give(log, self.created)
        if self.created:
            return 0x70000004  # ZE_RESULT_ERROR_MODULE_BUILD_FAILURE
        module._obj.value = 13
        self.alive.add("module")
        return 0

    def zeModuleDynamicLink(self, count: Any, modules: Any, log: Any) -> int:
        assert (count.value, modules._obj.value) == (1, 13)
        self._give(log, self.linked)
        return 0x70000005 if self.linked else 0  # ZE_RESULT_ERROR_MODULE_LINK_FAILURE

    def zeModuleBuildLogGetString(self, log: Any, size: Any, text: Any) -> int:
        content = self.logs[log.value].encode()
        if text is not None:
            assert size._obj.value == len(content) + 1
            text.value = content
        size._obj.value = len(content) + 1
        return 0

    def zeModuleBuildLogDestroy(self, log: Any) -> int:
        self.alive.remove(f"log {log.value}")
        return 0

    def zeModuleDestroy(self, module: Any) -> int:
        self.alive.remove("module")
        return 0


@pytest.fixture
def level_zero(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that gives the queue of a Level Zero device without functions, and its loader."""
    def queue(**answers: str) -> tuple[Any, Loader]:
        loader = Loader(**answers)
        monkeypatch.setattr(level_zero_log.ctypes, "CDLL", lambda name: {level_zero_log.LOADER: loader}[name])
        monkeypatch.setattr(level_zero_log, "native_getter", lambda kind: {"context": lambda _: 11,
                                                                           "device": lambda _: 12}[kind])
        sycl = SimpleNamespace(name="A GPU", addressof_ref=int)
        return SimpleNamespace(backend=SimpleNamespace(name="level_zero"), sycl_device=sycl, sycl_context=sycl), loader

    return queue


def test_what_level_zero_says_of_a_module(level_zero: Any) -> None:
    queue, loader = level_zero(created="error: invalid SPIR-V")
    program = spirv(SOUND)
    assert build_log.build_log(queue, program, "-ze-opt-level=2") == "error: invalid SPIR-V"
    assert loader.alive == set()
    description = loader.description
    assert (description.type, description.format, description.size) == (0x1B, 0, len(program))
    assert description.flags == b"-ze-opt-level=2"
    queue, loader = level_zero()
    assert build_log.build_log(queue, program, "") == ""
    assert loader.alive == set()


def test_level_zero_builds_what_it_cannot_link(level_zero: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Level Zero reports unresolved functions when the module is linked; dpctl finds no kernel in it."""
    def no_kernel(*_: Any) -> None:
        raise DeviceError("XT9403", "the program has no kernel 'f'", BUG)

    monkeypatch.setattr(program_cache, "build_program", lambda *_: None)
    monkeypatch.setattr(program_cache, "find_kernel", no_kernel)
    queue, loader = level_zero(linked="error: undefined reference to `nowhere'")
    error = refused(queue, spirv(HELPER), HELPER)
    assert loader.alive == set()
    assert (error.code, error.log) == ("XT5111", "error: undefined reference to `nowhere'")
    assert "A GPU has no function nowhere, which the program calls (in the code of mine.py:7)" in error.message
    queue, _ = level_zero()  # a driver that does not say which: all that are imported
    assert "has no function elsewhere, nowhere, which" in refused(queue, spirv(HELPER), HELPER).message


def test_a_refused_module_has_its_log(level_zero: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = launcher.import_dpctl("dpctl.program")

    def refuse(*_: Any) -> None:
        raise programs.SyclProgramCompilationError

    monkeypatch.setattr(programs, "create_program_from_spirv", refuse)
    queue, loader = level_zero(created="in kernel f: error: out of registers")
    error = refused(queue, spirv(SOUND), SOUND)
    assert loader.alive == set()
    assert (error.code, error.log) == ("XT5110", "in kernel f: error: out of registers")
    assert "A GPU refused the program: in kernel f: error: out of registers" in error.message
