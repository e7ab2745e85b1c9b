"""ocloc: finding it, compiling with it, and reading what it says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from codegen.toolchain import ocloc as ocloc_module
from codegen.toolchain.ocloc import compile_device, compile_spirv, disassemble, find_ocloc, read_ze_info
from xegpu.support.errors import TargetError, ToolError
from xegpu.target.targets import TARGETS

SOURCE = """
kernel __attribute__((intel_reqd_sub_group_size(SG))) void sum(global int *a, int n) {
  local int t[300];
  t[get_local_id(0)] = a[n * get_local_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  a[get_global_id(0)] = t[(get_local_id(0) * n) & 255];
}
kernel __attribute__((intel_reqd_sub_group_size(SG))) void table(global float *a, int n) {
  float p[128];
  for (int i = 0; i < 128; i++) p[i] = a[i * n + get_global_id(0)];
  for (int j = 0; j < n; j++)
    for (int i = 0; i < 128; i++) p[i] = fma(p[i], p[(i * 7 + j) & 127], a[j]);
  for (int i = 0; i < 128; i++) a[i * n + get_global_id(0)] = p[i];
}"""
ZE_INFO = """---
version:         '1.73'
kernels:
  - name:            first
    user_attributes:
      intel_reqd_sub_group_size: 16
    execution_env:
      grf_count:       256
      simd_size:       16
      spill_size:      640
    payload_arguments:
      - arg_type:        arg_bypointer
        size:            8
  - name:            Intel_Symbol_Table_Void_Program
    execution_env:
      grf_count:       128
  - name:            'second'
    execution_env:
      grf_count:       128
      private_size:    8192
      slm_size:        1024
kernels_misc_info:
  - name:            third
...
"""


@pytest.fixture(scope="module")
def ocloc() -> str:
    try:
        return find_ocloc()
    except ToolError as error:
        pytest.skip(f"needs ocloc: {error}")  # the error names XETILE_OCLOC


def subgroup_size(target: str) -> int:
    return 8 if target in ("dg2", "arl") else 16


def stand_in(folder: Path, script: str) -> str:
    """A program that takes ocloc's place."""
    path = folder / "ocloc"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_without_ocloc_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XETILE_OCLOC", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ToolError, match="XT5102"):
        find_ocloc()


def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XETILE_OCLOC", "/nowhere/ocloc")
    with pytest.raises(ToolError, match="XT5101"):
        find_ocloc()


def test_ocloc_is_found_on_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("XETILE_OCLOC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    program = stand_in(tmp_path, "exit 0")
    assert find_ocloc() == program


def test_success_without_a_binary_is_not_believed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XETILE_OCLOC", stand_in(tmp_path, "echo Build succeeded."))
    with pytest.raises(ToolError, match="XT5103"):
        compile_device("kernel void f() {}", "pvc")


def test_a_compiler_that_does_not_end_is_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Installing it once more would not help."""
    monkeypatch.setenv("XETILE_OCLOC", stand_in(tmp_path, "while true; do true; done"))
    monkeypatch.setattr(ocloc_module, "_SECONDS", 0.2)
    with pytest.raises(ToolError, match=r"XT5105.* did not end within 0\.2 s(?s:.*)smaller tiles"):
        compile_device("kernel void endless() {}", "pvc")


def test_the_same_input_is_compiled_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = f'echo run >> {tmp_path}/count; /bin/mkdir out; echo "$*" > out/kernel.bin; echo some warning'
    monkeypatch.setenv("XETILE_OCLOC", stand_in(tmp_path, script))
    first, second = (compile_device("kernel void once() {}", "lnl", "-DX=1") for _ in range(2))
    assert first is second
    assert "-device lnl-m" in first.data.decode()
    assert "-options -cl-std=CL3.0 -DX=1" in first.data.decode()
    assert first.log == "some warning\n"
    compile_device("kernel void once() {}", "lnl", "-DX=2 -cl-std=CL2.0")
    assert (tmp_path / "count").read_text().count("run") == 2


@pytest.mark.parametrize("target", ["cpu", "tgl"])
def test_a_target_that_ocloc_lacks_is_named(ocloc: str, target: str) -> None:
    with pytest.raises(TargetError, match=f"'{target}'.*\n.*pvc, bmg"):
        compile_device("kernel void f() {}", target)


@pytest.mark.parametrize("target", [target.name for target in TARGETS.values() if target.ocloc])
def test_every_target_compiles_and_disassembles(ocloc: str, target: str) -> None:
    binary = compile_device(SOURCE, target, f"-DSG={subgroup_size(target)}")
    found = disassemble(binary)
    assert binary.data.startswith(b"\x7fELF")
    assert list(found.kernels) == ["sum", "table"]
    total, table = found.kernels["sum"], found.kernels["table"]
    assert total.simd_size == table.simd_size == subgroup_size(target)
    assert (total.slm_size, table.slm_size) == (1216, 0)  # 1200 in steps of 64
    assert total.private_size == 0 < table.private_size
    assert total.grf_count in (64, 128)
    assert "store.slm" in total.asm
    assert "// table" in str(found)


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_options_reach_the_compiler(ocloc: str, target: str) -> None:
    found = disassemble(compile_device(SOURCE, target, "-DSG=16 -cl-intel-256-GRF-per-thread"))
    assert {kernel.grf_count for kernel in found.kernels.values()} == {256}


@pytest.mark.parametrize("target", ["pvc", "dg2"])
def test_spirv_compiles_to_the_same_assembly(ocloc: str, target: str) -> None:
    options = f"-DSG={subgroup_size(target)}"
    spirv = compile_spirv(SOURCE, target, options)
    assert int.from_bytes(spirv[:4], "little") == 0x07230203
    through = disassemble(compile_device(spirv, target, spirv=True))
    direct = disassemble(compile_device(SOURCE, target, options))
    assert through.kernels["sum"].asm == direct.kernels["sum"].asm


@pytest.mark.parametrize("compile_it", [compile_device, compile_spirv])
def test_a_compile_error_shows_the_log(ocloc: str, compile_it: Callable[[str, str], object]) -> None:
    with pytest.raises(ToolError, match="undeclared identifier 'missing'") as caught:
        compile_it("kernel void f(global int *a) {\n  a[0] = missing;\n}", "bmg")
    assert "a[0] = missing;" in caught.value.log


def test_only_the_log_of_a_refusal_stays_behind(ocloc: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    disassemble(compile_device("kernel void tidy(global int *a) { a[0] = 1; }", "pvc"))
    with pytest.raises(ToolError):
        compile_device("kernel void tidy(", "pvc")
    (log,) = tmp_path.iterdir()
    assert "kernel void tidy(" in log.read_text()


def test_sizes_are_read_from_ze_info() -> None:
    assert read_ze_info(ZE_INFO) == {
        "first": {"grf_count": 256, "simd_size": 16, "spill_size": 640},
        "second": {"grf_count": 128, "private_size": 8192, "slm_size": 1024},
    }
