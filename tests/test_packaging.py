"""Wheels and editable installs: all files are in, kernels run on each Python, type checkers find the types.

The sources are copied first, so that no build touches the tree of this run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("xegpu", "codegen", "xetile")
PROGRAM = '''
import numpy as np

import xetile as xt


@xt.kernel
def scale(A: xt.Array, B: xt.Array, *, factor: float) -> None:
    tile: xt.Tile = xt.init_tile(A, (xt.group_id(0) * 8, 0), (8, 16))
    value: xt.Vector = xt.load_tile(tile) * factor
    row: xt.Scalar = xt.group_id(0)
    xt.store_tile(value, xt.init_tile(B, (row * 8, 0), (8, 16)))


@xt.kernel(subgroups=(2, 1), may_alias=True)
def clear(A: xt.Array) -> None:
    xt.store_tile(xt.zeros((8, 16), xt.f32), xt.init_tile(A, (8 * xt.subgroup_id(0), 0), (8, 16)))


a = np.ones((16, 16), np.float32)
scale[2](a, a.copy(), factor=2.0)
clear.on("numpy")[1](a)
text: str = scale.name
assert not a.any()
'''
MISTAKES = {"xt.load_tile(3)": "load_tile", "xt.kernel(scale, subgroup=(1, 1))": "kernel", "clear.nme": "nme",
            "xt.no_such_name": "no_such_name"}
"""Lines that are refused, each with a word of what is said of it."""


@cache
def pythons() -> Sequence[Path]:
    """Interpreters of the supported versions that this machine has: this one, those on the path, and pyenv's."""
    found = {sys.version_info[1]: Path(sys.executable)}
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for minor in (11, 12, 13):
        candidates = [*root.glob(f"versions/3.{minor}*/bin/python3.{minor}"), shutil.which(f"python3.{minor}")]
        for candidate in filter(None, candidates):
            if minor not in found and subprocess.run([candidate, "--version"], capture_output=True).returncode == 0:
                found[minor] = Path(candidate)
    return [found[minor] for minor in sorted(found)]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of all that a build reads."""
    folder = tmp_path_factory.mktemp("sources") / "xetile"
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of ``pip wheel .``."""
    folder = tmp_path_factory.mktemp("wheel")
    run(Path(sys.executable), "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(sources))
    (built,) = folder.glob("*.whl")
    return built


def run(python: Path, *words: str, folder: Path | None = None) -> str:
    """Output of a command, which must succeed."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")}
    done = subprocess.run([python, *words], capture_output=True, text=True, cwd=folder, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment(python: Path, folder: Path, *words: str) -> Path:
    """The interpreter of a new virtual environment with what ``pip install`` is told to install."""
    run(python, "-m", "venv", str(folder))
    run(folder / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", *words)
    return folder / "bin" / "python"


def test_package_data_names_every_file_that_is_no_module() -> None:
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    for name in PACKAGES:
        named = {path for pattern in data[name] for path in (ROOT / name).glob(pattern)}
        others = {path for path in (ROOT / name).rglob("*")
                  if path.is_file() and path.suffix != ".py" and "__pycache__" not in path.parts}
        assert named == others


@pytest.mark.everything
def test_the_wheel_has_every_file(wheel: Path, sources: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == {str(path.relative_to(sources)) for name in PACKAGES for path in (sources / name).rglob("*")
                      if path.is_file()}


@pytest.mark.everything
@pytest.mark.parametrize("python", pythons(), ids=lambda python: python.name + python.parent.parent.name)
def test_the_wheel_works_with(python: Path, wheel: Path, tmp_path: Path) -> None:
    """NumPy's executions give right results where nothing but the wheel and what it requires is installed."""
    installed = environment(python, tmp_path / "venv", str(wheel))
    printed = run(installed, "-m", "xetile", "selftest", "--where", "numpy", folder=tmp_path)
    assert "FAILS" not in printed
    (tmp_path / "program.py").write_text(PROGRAM)
    run(installed, "program.py", folder=tmp_path)


@pytest.mark.everything
@pytest.mark.parametrize("editable", [False, True], ids=["wheel", "editable"])
def test_type_checkers_find_the_types(editable: bool, wheel: Path, sources: Path, tmp_path: Path) -> None:
    """mypy and pyright accept a program of an author's, and refuse each of its mistakes."""
    pytest.importorskip("mypy")
    pytest.importorskip("pyright")
    python = environment(Path(sys.executable), tmp_path / "venv", *(["-e", str(sources)] if editable else [str(wheel)]))
    (tmp_path / "program.py").write_text(PROGRAM)
    lines = ["import xetile as xt; from program import clear, scale", *MISTAKES, ""]
    (tmp_path / "mistakes.py").write_text("\n".join(lines))
    here = Path(sys.executable)
    checkers = (["mypy", "--strict", "--python-executable", str(python), "--cache-dir", str(tmp_path / "cache")],
                ["pyright", "--pythonpath", str(python)])
    for checker in checkers:
        run(here, "-m", *checker, "program.py", folder=tmp_path)
        done = subprocess.run([here, "-m", *checker, "mistakes.py"], capture_output=True, text=True, cwd=tmp_path,
                              env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"})
        lines = [line for line in done.stdout.splitlines() if "mistakes.py:" in line and "error" in line]
        assert done.returncode == 1
        for number, word in enumerate(MISTAKES.values(), 2):
            assert any(f"mistakes.py:{number}:" in line and word in line for line in lines), (checker[0], word, lines)
