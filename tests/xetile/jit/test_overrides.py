"""Stages as files: XETILE_DEBUG=dump writes them, ``kernel.override`` runs what was edited."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_device, require_ocloc, require_sycl_compiler


@xt.kernel
def scaled(A, C, *, factor=2.0):
    x = xt.load_tile(xt.init_tile(A, (0, 0), (8, 16)))
    xt.store_tile(x * factor, xt.init_tile(C, (0, 0), (8, 16)))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XETILE_DEBUG", "dump")
    monkeypatch.setenv("XETILE_DEBUG_DIR", str(tmp_path))
    return tmp_path


def dumped(folder: Path, target: str) -> dict[str, Path]:
    spec = xt.Spec((None, None), xt.f32)
    scaled.forget()
    assert scaled.lower(spec, spec, target=target).opencl
    (made,) = folder.glob(f"scaled-{target}-*")
    return {path.name.partition("-")[2] or path.name: path for path in made.iterdir()}


def test_every_stage_is_written(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    require_ocloc()
    files = dumped(folder, "pvc")
    names = {path.name for path in files.values()}
    spec = xt.Spec((None, None), xt.f32)
    stages = scaled.lower(spec, spec, target="pvc").stages
    assert {f"{number:02}-{name}.mlir" for number, name in enumerate(stages)} <= names
    assert {"legalize", "xetile"} <= set(stages)
    assert {"kernel.cl", "kernel.asm"} <= names
    assert "load_block2d" in files["kernel.asm"].read_text()
    assert f"files in {folder}" in capfd.readouterr().err


@pytest.mark.parametrize(("where", "count"), [("numpy", 1), ("numpy:xegpu", 9)])
def test_what_numpy_runs_is_written(folder: Path, capfd: pytest.CaptureFixture[str], where: str, count: int) -> None:
    scaled.forget()
    a, c = np.ones((8, 16), np.float32), np.zeros((8, 16), np.float32)
    for check in (False, where == "numpy"):
        scaled.on(where, target="bmg", check=check)[1](a, c)
    (made,) = folder.glob("scaled-bmg-*")
    written = sorted(path.name for path in made.iterdir())
    assert len(written) == count
    assert (written[0], written[-1]) == ("00-xetile.mlir", "00-xetile.mlir" if count == 1 else "08-legalize.mlir")
    assert capfd.readouterr().err.count("files in") == 1


def test_an_edited_stage_runs_everywhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = dumped(folder, "cpu")
    monkeypatch.delenv("XETILE_DEBUG")
    require_device()
    a = np.random.default_rng(3).integers(-8, 9, (8, 16)).astype(np.float32)
    for stage in ("xetile", "to-xegpu", "legalize"):
        edited = files[f"{stage}.mlir"]
        text = edited.read_text()
        assert "2.000000e+00" in text
        edited.write_text(text.replace("2.000000e+00", "3.000000e+00"))
        scaled.override(stage, edited)
        for where in ("numpy", "numpy:xegpu", "opencl:cpu"):
            c = np.zeros_like(a)
            scaled.on(where, target="cpu")[1](a, c)
            np.testing.assert_array_equal(c, 3 * a)
    scaled.override(None)
    c = np.zeros_like(a)
    scaled[1](a, c)
    np.testing.assert_array_equal(c, 2 * a)


@pytest.mark.parametrize("compiler", ["", "sycl"])
def test_edited_opencl_runs_on_the_device(compiler: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = dumped(folder, "cpu")
    monkeypatch.delenv("XETILE_DEBUG")
    monkeypatch.setenv("XETILE_SPIRV", compiler)
    require_device()
    if compiler:
        require_sycl_compiler()
    edited = files["kernel.cl"]
    text = edited.read_text()
    assert "2.0f" in text
    five = "static float five(void);\nstatic float five(void) { return 5.0f; }\n"
    edited.write_text(five + text.replace("2.0f", "five()"))
    scaled.override("opencl", edited)
    a = np.random.default_rng(3).integers(-8, 9, (8, 16)).astype(np.float32)
    for where, factor in (("opencl:cpu", 5), ("numpy", 2)):
        c = np.zeros_like(a)
        scaled.on(where)[1](a, c)
        np.testing.assert_array_equal(c, factor * a)
    scaled.override(None)


def test_a_stage_that_fails_leaves_those_before_it(folder: Path) -> None:
    @xt.kernel
    def deep(A, C, *, K=20):
        x = xt.tile_mma(xt.load_tile(xt.init_tile(A, (0, 0), (8, K))), xt.load_tile(xt.init_tile(A, (0, 0), (K, 16))))
        xt.store_tile(x, xt.init_tile(C, (0, 0), (8, 16)))

    with pytest.raises(xt.XeError):
        assert deep.lower(xt.Spec((None, None), xt.bf16), xt.Spec((None, None), xt.f32)).opencl
    (made,) = folder.glob("deep-pvc-*")
    names = sorted(path.name for path in made.iterdir())
    assert names[0] == "00-xetile.mlir"
    assert "kernel.cl" not in names


def test_mistakes(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = dumped(folder, "cpu")
    for stage, path, text in (("xegpo", files["legalize.mlir"], "XT1610"),
                              ("legalize", tmp_path / "nowhere", "XT1611"),
                              ("legalize", files["blocking.mlir"], "XT1612"),
                              ("xetile", files["kernel.cl"], "kernel.cl")):
        with pytest.raises(xt.XeError, match=text):
            scaled.override(stage, path)
    other = tmp_path / "other.mlir"
    other.write_text(files["xetile.mlir"].read_text().replace("@scaled", "@scale"))
    with pytest.raises(xt.TextError, match="XT1613"):
        scaled.override("xetile", other)
    scaled.override("legalize", files["legalize.mlir"])
    with pytest.raises(xt.TargetError, match="XT2020"):
        scaled.lower(xt.Spec((None, None), xt.f32), xt.Spec((None, None), xt.f32), target="pvc")
    scaled.override(None)
    monkeypatch.setenv("XETILE_DEBUG", "all")
    scaled.forget()
    with pytest.raises(xt.ToolError, match="XT1620"):
        assert scaled.lower(xt.Spec((None, None), xt.f32), xt.Spec((None, None), xt.f32)).opencl
