"""The command line: what it prints, writes and refuses."""

from __future__ import annotations

import functools
import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.conftest import ROOT, require_device, require_mlir_opt, require_ocloc, require_sycl_compiler
from xetile.compiler.pipeline import NAMES, precedes
from xetile.text.gpu_module import printed
from xetile.tools.cli import main
from xetile.tools.cli.opt import STAGES

GEMM = f"{ROOT / 'examples' / 'gemm_subgroup.py'}:gemm"
SHARED = f"{ROOT / 'examples' / 'gemm.py'}:gemm"
SPECS = [word for spec in ("64x64xbf16", "64x64xbf16", "64x64xf32") for word in ("--arg", spec)]
SMALL = ["--constant", "M=8", "--constant", "N=32", "--constant", "K=32"]


class Ran:
    """Outcome of a command: its exit code, its output, its errors."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def xetile(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*words: str) -> Ran:
        code = main(words)
        told = capsys.readouterr()
        return Ran(code, told.out, told.err)

    return run


@functools.cache
def _recorded() -> str:
    """A recorded kernel as text."""
    import runpy

    kernel = runpy.run_path(GEMM.rpartition(":")[0])["gemm"]
    return str(kernel.lower(*[xt.Spec((64, 64), d) for d in ("bf16", "bf16", "f32")], M=8, N=32, K=32).xetile)


@functools.cache
def _lowered(target: str) -> Any:
    """The recorded kernel for a target."""
    specs = [xt.Spec((None, None), d) for d in ("bf16", "bf16", "f32")]
    return xt.parse(_recorded())["gemm"].lower(*specs, target=target)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A recorded kernel in a file."""
    path = tmp_path / "gemm.mlir"
    path.write_text(_recorded())
    return path


def test_the_program() -> None:
    """``python -m xetile`` in a process of its own."""
    done = subprocess.run([sys.executable, "-m", "xetile", "opt", "--list"], cwd=ROOT, capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == [
        *STAGES, "upstream", "upstream-workgroup", "xegpu-older"]
    done = subprocess.run([sys.executable, "-m", "xetile", "emit", "nowhere.mlir"], cwd=ROOT, capture_output=True,
                          text=True, timeout=120)
    assert done.returncode == 1
    said = done.stderr.partition("]: ")[2]
    assert said.startswith("nowhere.mlir cannot be read: No such file or directory\n  help: ")
    assert "Traceback" not in done.stderr
    assert "runpy" not in done.stderr


def test_the_pages_name_stages_that_there_are() -> None:
    pages = "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    named = re.findall(r"--(?:to|pass) ([a-z][\w-]*)", pages)
    assert len(named) > 5
    assert {*named} <= {*STAGES, "upstream", "upstream-workgroup", "xegpu-older"}


def _without_stage(text: str) -> str:
    """The text of a stage without what it is called: a pass may have changed nothing else."""
    return re.sub(r'xetile\.stage = "[\w-]+"(, xetile\.target = "\w+")?', "", text)


# The kernel has no array that is stored by columns or has odd rows, and transposes nothing.
@pytest.mark.parametrize("stage", [stage for stage in NAMES if precedes("lower-supervector", stage)
                                   and stage not in ("carry-tiles", "cooperative-loads", "duplicate-loads",
                                                     "normalize", "interleave-rows", "interleave-columns",
                                                     "transpose-gathers", "swap-operands", "slm-transpose",
                                                     "slm-copy")])
def test_opt_to_a_stage(xetile: Any, text: Path, stage: str, tmp_path: Path) -> None:
    """Each stage is that of the kernel itself, and a stage leads on to the next ones."""
    target = "cpu" if stage in ("split-int4-mma", "fuse-load-mma", "deepen-k", "fuse-store") else \
        "dg2" if stage == "pad-columns" else "bmg"
    lowered = _lowered(target)
    ran = xetile("opt", str(text), "--to", stage, "--target", target)
    assert ran.code == 0, ran.err
    assert f'xetile.stage = "{stage}"' in ran.out
    assert _without_stage(ran.out) == _without_stage(printed(lowered.after(stage) or lowered.module) + "\n")
    (tmp_path / "half.mlir").write_text(ran.out)
    last = "hoist-payloads" if target == "bmg" else "peel-bounds"
    again = xetile("opt", str(tmp_path / "half.mlir"), "--to", last, "--target", target)
    assert again.code == 0, again.err
    assert ("xegpu.load_mad" if target == "cpu" else "xegpu.dpas") in again.out


def test_opt_to_a_stage_that_the_target_skips(xetile: Any, text: Path) -> None:
    ran = xetile("opt", str(text), "--to", "fuse-load-mma", "--target", "pvc")
    assert ran.code == 1
    assert "there is no stage fuse-load-mma for pvc" in ran.err


def test_opt_pass_by_pass(xetile: Any, text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = xetile("opt", str(text), "--pass", "distribute-subgroups", "--pass", "row-major", "--pass", "blocking")
    assert ran.out == xetile("opt", str(text), "--to", "blocking").out
    monkeypatch.setattr("sys.stdin", io.StringIO(ran.out))
    ran = xetile("opt", "-", "--pass", "to-xegpu")
    assert 'xetile.stage = "to-xegpu"' in ran.out


def test_opt_to_the_earlier_generation(xetile: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    specs = [w for spec in ("256x256xbf16", "256x256xbf16", "256x256xf32") for w in ("--arg", spec)]
    ran = xetile("opt", SHARED, *specs, "--to", "xegpu-older")
    assert ran.code == 0, ran.err
    assert "mode = vc, vnni_axis = 0" in ran.out
    monkeypatch.setattr("sys.stdin", io.StringIO(ran.out))
    again = xetile("opt", "-", "--to", "xegpu-older")
    assert again.code == 0, again.err
    assert again.out.count("mode = vc") == ran.out.count("mode = vc")


def test_opt_to_llvm(xetile: Any) -> None:
    for to, word in (("upstream", "lane_layout"), ("upstream-workgroup", "sg_layout")):
        specs = [w for spec in ("256x256xbf16", "256x256xbf16", "256x256xf32") for w in ("--arg", spec)]
        ran = xetile("opt", SHARED, *specs, "--to", to, "--target", "bmg")
        assert ran.code == 0, ran.err
        assert word in ran.out
        done = subprocess.run([require_mlir_opt()], input=ran.out.encode(), capture_output=True, timeout=300)
        assert done.returncode == 0


@pytest.mark.parametrize("target", ["pvc", "dg2", "cpu"])
def test_emit_text(xetile: Any, text: Path, target: str, tmp_path: Path) -> None:
    ran = xetile("emit", GEMM, *SPECS, *SMALL, "--target", target)
    assert ran.code == 0, ran.err
    assert "kernel void gemm(" in ran.out
    xetile("emit", str(text), "--target", target, "-o", str(tmp_path / "gemm.cl"))
    assert "kernel void gemm(" in (tmp_path / "gemm.cl").read_text()


def test_emit_binaries(xetile: Any, tmp_path: Path) -> None:
    require_ocloc()
    require_sycl_compiler()
    made = {}
    for name in ("spirv", "binary"):
        path = tmp_path / name
        ran = xetile("emit", GEMM, *SPECS, *SMALL, "--target", "bmg", "--format", name, "-o", str(path))
        assert ran.code == 0, ran.err
        made[name] = path.read_bytes()[:4]
    assert made == {"spirv": b"\x03\x02\x23\x07", "binary": b"\x7fELF"}
    assert "dpas" in xetile("emit", GEMM, *SPECS, *SMALL, "--target", "bmg", "--format", "isa").out
    assert " launch(sycl::queue" in xetile("emit", GEMM, *SPECS, *SMALL, "--target", "bmg", "--format", "sycl").out
    report = xetile("emit", GEMM, *SPECS, *SMALL, "--target", "bmg", "--format", "report").out.splitlines()
    assert report[2].split() == ["spilled", "0", "bytes"]


@pytest.mark.parametrize(("where", "target"), [("numpy", "pvc"), ("numpy:xegpu", "dg2"), ("opencl:cpu", "pvc")])
def test_run(xetile: Any, tmp_path: Path, where: str, target: str) -> None:
    if not where.startswith("numpy"):
        require_device(where)
    generator = np.random.default_rng(1)
    a, b = (generator.integers(-4, 5, (64, 64)).astype(ml_dtypes.bfloat16) for _ in range(2))
    np.save(tmp_path / "a.npy", a.view(np.uint16))
    np.save(tmp_path / "b.npy", b.view(np.uint16))
    ran = xetile("run", GEMM, "--grid", "2,1", "--where", where, "--target", target, *SMALL,
                 "--arg", f"{tmp_path}/a.npy:bf16", "--arg", f"{tmp_path}/b.npy:bf16", "--arg", "zeros:64x64:f32",
                 "-o", str(tmp_path / "c.npy"))
    assert ran.code == 0, ran.err
    assert ran.out.startswith("C: 64x64 float32 to ")
    np.testing.assert_array_equal(np.load(tmp_path / "c.npy"), a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize(("dtype", "saved"), [("e5m2", "uint8"), ("e4m3", "uint8"), ("bf16", "uint16")])
def test_types_that_npy_lacks_are_saved_as_bits(xetile: Any, tmp_path: Path, dtype: str, saved: str) -> None:
    kernel = tmp_path / "copy.py"
    kernel.write_text("import xetile as xt\n\n\n@xt.kernel\ndef copy(A, C):\n"
                      "    a, c = (xt.init_tile(array, (0, 0), (8, 32)) for array in (A, C))\n"
                      "    xt.store_tile(xt.load_tile(a), c)\n")
    bits = np.random.default_rng(4).integers(0, 0x70, (8, 32)).astype(saved)
    np.save(tmp_path / "a.npy", bits)
    ran = xetile("run", f"{kernel}:copy", "--grid", "1", "--arg", f"{tmp_path}/a.npy:{dtype}",
                 "--arg", f"zeros:8x32:{dtype}", "-o", str(tmp_path / "c.npy"))
    assert ran.code == 0, ran.err
    found = np.load(tmp_path / "c.npy")
    assert found.dtype == saved
    np.testing.assert_array_equal(found, bits)


def test_run_prints(xetile: Any, text: Path) -> None:
    """Without -o the arrays are printed; a seed gives the same numbers again, and another seed others."""
    words = ["run", str(text), "--grid", "2,1", "--arg", "random:64x64:bf16", "--arg", "random:64x64:bf16",
             "--arg", "random:64x64:f32"]
    first = xetile(*words)
    assert first.code == 0, first.err
    assert first.out.startswith("C: 64x64 float32\n[[")
    assert xetile(*words).out == first.out
    assert xetile(*words, "--seed", "3").out != first.out


@pytest.mark.parametrize(("words", "message", "hint"), [
    (["opt"], "opt reads a file", "--list"),
    (["opt", "FILE", "--to", "xegpu-lines"], "no stage xegpu-lines", "the stages are"),
    (["opt", "FILE", "--to", "legalize", "--pass", "distribute-subgroups"], "--to names a stage", "one of them"),
    (["opt", "FILE", "--pass", "blocking"], "XT8033", "--pass distribute-subgroups"),
    (["opt", "FILE", "--kernel", "gem"], "no kernel gem", "did you mean gemm"),
    (["emit", SHARED.replace("gemm.py", "nothing.py")], "no such file", "a Python file"),
    (["emit", SHARED], "their types are not known", "--arg 4096x4096xbf16"),
    (["emit", SHARED, *SPECS, "--constant", "BM"], "names no value", "BM=128"),
    (["emit", SHARED, *SPECS, "--constant", "BM=large"], "neither a Python literal", "a number"),
    (["emit", SHARED, *SPECS, "--constant", "BMM=8"], "has no constant BMM", "did you mean BM"),
    (["emit", SHARED, *SPECS, "--constant", "BM=24"], "", "gemm.py"),
    (["emit", SHARED, "--kernel", "other"], "names the kernel gemm, and --kernel names other", "once"),
    (["emit", GEMM, *SPECS[:4]], "is called with 2", "gemm[grid](A, B, C)"),
    (["emit", GEMM, "--arg", "64x64xbf17", *SPECS[2:]], "'bf17' is not an element type", "bf16"),
    (["emit", GEMM, "--arg", "64x64xbf16@64", *SPECS[2:]], "2 sizes and 1 strides", "one a dimension"),
    (["run", GEMM, *SPECS, "--grid", "1"], "XT8050", "random:64x64:bf16"),
    (["run", "FILE", "--arg", "random:64:x"], "'x' is not an element type", "use one of"),
    (["run", "FILE", "--arg", "random:bf16"], "no shape and type", "random:64x32:bf16"),
    (["run", "FILE", "--arg", "b.npy"], "cannot be read", "numpy.save"),
    (["run", "FILE", "--arg", "b.mlir"], "XT8023", "a.npy"),
    (["run", "FILE", "--arg", "zeros:64x64:bf16", "--arg", "zeros:64x64:bf16", "--arg", "zeros:64x64:f32"],
     "XT8052", "--grid 4,4"),
    (["run", "FILE", "--arg", "zeros:64x64:bf16", "--arg", "zeros:64x64:bf16", "--arg", "zeros:64x64:f32",
      "--grid", "a"], "not one to three integers", "--grid 4,4"),
    (["run", "FILE", "--arg", "zeros:64x64:bf16", "--arg", "zeros:64x64:bf16", "--arg", "zeros:64x64:f32",
      "--grid", "1", "-o", "a.npy", "-o", "b.npy"], "writes C, and -o names 2 files", "give -o for each of them: 1"),
    (["run", "FILE", "--arg", "zeros:64x64:f16", "--arg", "zeros:64x64:bf16", "--arg", "zeros:64x64:f32",
      "--grid", "1"], "XT2027", "bf16"),
])
def test_mistakes(xetile: Any, text: Path, words: list[str], message: str, hint: str) -> None:
    ran = xetile(*(str(text) if word == "FILE" else word for word in words))
    assert ran.code == 1
    assert ran.out == ""
    assert ran.err.startswith("error[XT")
    assert message in ran.err
    assert hint in ran.err
    assert "help: " in ran.err
    assert "commands/" not in ran.err


def test_text_with_a_mistake(xetile: Any, text: Path) -> None:
    """The error names the file and the line."""
    text.write_text(text.read_text().replace("xetile.tile_mma", "xetile.tile_nma"))
    ran = xetile("opt", str(text))
    line = next(i for i, line in enumerate(text.read_text().splitlines(), 1) if "tile_nma" in line)
    assert ran.code == 1
    assert "there is no operation xetile.tile_nma" in ran.err
    assert f"{text}:{line}" in ran.err


def test_a_module_that_fails(xetile: Any, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import nothing_like_this\n")
    ran = xetile("emit", str(tmp_path / "broken.py"))
    assert ran.code == 1
    assert "fails when it is imported: ModuleNotFoundError: No module named 'nothing_like_this'" in ran.err
