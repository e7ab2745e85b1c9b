"""Launches on ``level_zero:gpu``: the tests marked ``launches``, in processes that see a software GPU.

The SYCL runtime loads its driver once, so a software GPU takes a process of its own.
"""

from __future__ import annotations

import re
import signal
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.conftest import require_dpnp, require_software_gpu, require_sycl_compiler
from tests.level_zero.gpu import NEW_DRIVER, environment, read_findings, run_on_gpu

NEW = {"SOFTWARE_GPU_DRIVER": NEW_DRIVER}
DEVICE = "tests/level_zero/device_tests.py"
SCRIPT = """
import dpctl, dpnp, numpy as np, xetile as xt

@xt.kernel
def gather(A, B, far):
    rows = xt.init_tile(A, xt.iota((8, 16), 1, xt.index) + far)
    xt.store_tile(xt.load_gather(rows) + 1, xt.init_tile(B, (0, 0), (8, 16)))

def attempt(what):
    try:
        what()
        print("no error", flush=True)
    except Exception as error:
        print(getattr(error, "code", type(error).__name__), flush=True)

a, b, c = np.ones((8, 16), np.float32), np.zeros((8, 16), np.float32), np.zeros((8, 16), np.float32)
on_gpu = gather.on("level_zero:gpu")
attempt(lambda: on_gpu[1](a, b, 0))
x, y = (dpnp.asarray(array, device="level_zero:gpu") for array in (a, b))
"""
FAR = 1 << 26  # elements of four bytes: outside of every allocation


@pytest.fixture(autouse=True)
def software_gpu() -> None:
    """Requirements of every test here."""
    require_software_gpu()
    require_sycl_compiler()
    require_dpnp()


def run_tests(target: str, adapter: int, tests: list[str], folder: Path, **more: str) -> int:
    """Run tests on a software GPU; return how many passed."""
    variables = {**environment(target, folder / "findings", adapter=adapter), **more}
    command = ["-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "--level-zero", target, *tests]
    done = run_on_gpu(command, variables, timeout=1800)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed, done.stdout[-2000:]
    return int(passed[1])


@pytest.mark.parametrize(("target", "adapter"), [("pvc", 1), ("bmg", 2)])
def test_the_device(target: str, adapter: int, tmp_path: Path) -> None:
    assert run_tests(target, adapter, [DEVICE], tmp_path) >= 15


@pytest.mark.everything
@pytest.mark.parametrize(("target", "adapter", "more"), [
    pytest.param("bmg", 2, NEW, id="bmg-2-new"), pytest.param("dg2", 1, {}, id="dg2-1"),
])
def test_other_devices(target: str, adapter: int, more: dict[str, str], tmp_path: Path) -> None:
    assert run_tests(target, adapter, [DEVICE], tmp_path, **more) >= 15


@pytest.mark.parametrize(("target", "adapter", "tests", "more"), [
    pytest.param("pvc", 1, ["tests", "--ignore=tests/xetile/library", "--ignore=tests/xetile/runtime"], {}, id="pvc-1"),
    pytest.param("pvc", 1, ["tests/xetile/library"], {}, id="pvc-1-library"),
    pytest.param("pvc", 1, ["tests/xetile/runtime"], {}, id="pvc-1-runtime"),
    pytest.param("bmg", 2, ["tests/xetile/runtime"], {}, id="bmg-2"),
    pytest.param("bmg", 2, ["tests/xetile/library"], NEW, id="bmg-2-library"),
    pytest.param("pvc", 2, ["tests/codegen/runtime", "tests/xetile/jit"], {"XETILE_SPIRV": "ocloc"}, id="pvc-2-ocloc"),
    pytest.param("dg2", 1, ["tests/xetile/jit"], {}, id="dg2-1"),
])
@pytest.mark.everything
def test_launches(target: str, adapter: int, tests: list[str], more: dict[str, str], tmp_path: Path) -> None:
    assert run_tests(target, adapter, tests, tmp_path, **more) >= 6


def run_script(script: str, target: str, adapter: int, folder: Path) -> tuple[CompletedProcess[str], list[str]]:
    """Run lines after ``SCRIPT``; what they print begins with that of its first launch."""
    findings = folder / "findings"
    done = run_on_gpu(["-c", SCRIPT + script], environment(target, findings, adapter=adapter), timeout=300)
    return done, read_findings(findings)


@pytest.mark.parametrize("adapter", [1, 2])
def test_a_kernel_that_faults_is_an_error(adapter: int, tmp_path: Path) -> None:
    done, findings = run_script(f"""
attempt(lambda: on_gpu[1](a, c, {FAR}))  # the copy back waits for it
attempt(lambda: on_gpu[1](a, c, 0))  # and nothing runs any more
print(int(b.sum()), int(c.sum()))
""", "pvc", adapter, tmp_path)
    assert done.stdout.split() == ["no", "error", "XT5014", "XT5014", "256", "0"], done.stderr
    assert done.returncode == 0
    assert len(findings) == 1


@pytest.mark.parametrize("adapter", [1, 2])
def test_launches_on_device_arrays_notice_an_earlier_fault(adapter: int, tmp_path: Path) -> None:
    done, findings = run_script(f"""
attempt(lambda: gather[1](x, y, {FAR}))  # starts it
x.sycl_queue.submit_barrier().wait()  # dpctl says nothing
attempt(lambda: gather[1](x, y, 0))
attempt(lambda: gather[1].prepare(x, y, 0)())
attempt(lambda: on_gpu[1](a, c, 0))
print("end", flush=True)
import os
os._exit(0)  # dpnp waits for its queues at the end, by the call that ends the process
""", "pvc", adapter, tmp_path)
    assert done.stdout.split() == ["no", "error", "no", "error", "XT5014", "XT5014", "XT5014", "end"], done.stderr
    assert len(findings) == 1


@pytest.mark.parametrize("wait", ["x.sycl_queue.wait()", "dpnp.asnumpy(y)"])
def test_dpctls_own_wait_ends_the_process(wait: str, tmp_path: Path) -> None:
    """Advice of XT5014's page; the package cannot change it."""
    done, _ = run_script(f"gather[1](x, y, {FAR})\n{wait}\nprint('end')", "pvc", 1, tmp_path)
    assert done.returncode == -signal.SIGABRT
    assert "UR_RESULT_ERROR_DEVICE_LOST" in done.stderr


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_the_example_prints_the_right_result(target: str) -> None:
    command = ["-m", "tests.level_zero", "--target", target, "examples/gemm.py", "--device", "level_zero:gpu",
               "--m", "256", "--n", "256", "--k", "64"]
    done = run_on_gpu(command, {}, timeout=300)
    assert done.returncode == 0, done.stderr
    assert f"(level_zero:gpu), code for {target}" in done.stdout


def test_findings_make_the_exit_status(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"{SCRIPT}\nattempt(lambda: on_gpu[1](a, c, {FAR}))\n")
    done = run_on_gpu(["-m", "tests.level_zero", str(script)], {}, timeout=300)
    assert done.returncode == 1
    assert done.stdout.split() == ["no", "error", "XT5014"]
    assert done.stderr.splitlines()[-1].startswith("finding: ")
