"""Products of 1 to 4 processes over MPI: results, bytes, errors on one rank, ranks that die or are late."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import require_dpnp, unavailable

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[2]


def run(ranks: int, program: str, *words: str, cache: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A program of this folder on so many ranks, which share the cores and so give them up while they wait."""
    return launch(ranks, "-m", "mpi4py", str(FOLDER / program), *words, cache=cache)


def launch(ranks: int, *words: str, cache: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Python on so many ranks."""
    beside = Path(sys.executable).parent / "mpiexec"
    start = str(beside) if beside.exists() else shutil.which("mpiexec")
    if start is None or importlib.util.find_spec("mpi4py") is None:
        unavailable('needs MPI: pip install -e ".[mpi]"')
    cached = {"XETILE_CACHE": "1", "XETILE_CACHE_DIR": str(cache)} if cache else {}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPIR_CVAR_POLLS_BEFORE_YIELD": "1", **cached}
    return subprocess.run([start, "-n", str(ranks), sys.executable, *words], env=environment, cwd=ROOT, text=True,
                          capture_output=True, timeout=600, check=False)


def _suite(ranks: int, name: str, cache: Path | None = None) -> None:
    done = run(ranks, "worker.py", name, cache=cache)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["wrong"] == []
    assert all(found["counts"].values())


@pytest.mark.parametrize(("ranks", "suite"), [
    pytest.param(1, "numpy", marks=pytest.mark.everything),
    pytest.param(2, "numpy", marks=pytest.mark.everything), pytest.param(3, "numpy:few"),
    pytest.param(4, "numpy", marks=pytest.mark.everything)])
def test_numpy(ranks: int, suite: str) -> None:
    _suite(ranks, suite)


@pytest.mark.unoptimised  # each rank builds each program
@pytest.mark.parametrize(("ranks", "suite"), [
    pytest.param(2, "device:few"), pytest.param(3, "device:verified", marks=pytest.mark.everything),
    pytest.param(4, "device:few", marks=pytest.mark.everything),
    pytest.param(2, "device:pvc", marks=pytest.mark.everything)])
def test_the_cpu_device(ranks: int, suite: str, tmp_path: Path) -> None:
    require_dpnp()
    _suite(ranks, suite, tmp_path)


AGREED = {
    "options": ("XT7210", "the ranks differ in out_dtype: f32 on ranks 0, 2; f16 on rank 1"),
    "grid": ("XT7210", "the ranks differ in the grid: (1, 3, 1) of 12x18 by 18x10 on ranks 0, 2; "),
    "element type": ("XT7205", "rank 1: a has elements of f16, and the grid is for f32"),
    "wrong block": ("XT7207", "rank 1: a is 12x5, and this rank's block of A is 12x6"),
    "out of memory": ("XT7211", "rank 1: MemoryError: no room for a panel"),
    "limit": ("XT7240", "rank 1: blocks and buffers take "),
    "compile error": ("XT7015", "rank 1: the activation _activation takes "),
    "ranks": ("XT7221", "rank 0: a grid of 1 x 4 x 1 has 4 ranks, and the communicator 3"),
    "layer": ("XT7210", "the ranks differ in columns of a: 3 on ranks 0, 2; 4 on rank 1"),
    "no matrix": ("XT7009", "rank 1: a is a number, not an array"),
    "read-only": ("XT1045", "rank 1: the result goes into out, which is read-only"),
    "memory": ("XT7210", "the ranks differ in memory: 1073741824 on ranks 0, 2; 2147483648 on rank 1"),
    "timeout": ("XT7233", "a timeout of -1 is not a duration"),
    "root": ("XT7210", "the ranks differ in root: 0 on ranks 0, 2; 1 on rank 1"),
    "no root": ("XT7213", "rank 1: root is 3"),
    "operand": ("XT7210", "the ranks differ in operand: a on ranks 0, 2; b on rank 1"),
    "elements": ("XT1032", "rank 1: the whole A has elements of type complex128"),
    "no block": ("XT1030", "rank 1: a block is None"),
    "scatter": ("XT7208", "rank 1: the whole A is 12x17, and the grid is for 12x18"),
}


def test_an_error_of_one_rank_is_raised_on_all() -> None:
    """Before a call, and in a later one, for which the ranks are ready after all those."""
    done = run(3, "failing.py", "agreed", "later")
    assert done.returncode == 0, done.stdout + done.stderr
    agreed, later = map(json.loads, done.stdout.splitlines())
    _check_agreed(agreed)
    _check_later(later)


def _check_agreed(every: list[tuple[dict[str, Any], bool]]) -> None:
    assert [usable for _, usable in every] == [True] * 3
    for found, _ in every:
        assert found.keys() == AGREED.keys()
        for name, (code, message) in AGREED.items():
            assert found[name][1] == code, (name, found[name])
            assert found[name][2].startswith(message), (name, found[name])
            assert found[name] == every[0][0][name]


def _check_later(every: list[Any]) -> None:
    """Without a timeout: the others wait for its messages, and are told. A wrong block, and an error of a product."""
    found = every[0][0]
    assert [each for each, _ in every] == [found] * 3
    assert found[1::2] == [True] * 4
    assert [error[0] for error in found[::2]] == ["XT7207", "XT7211"] * 2
    assert found[2][1] == "MemoryError: no room in the middle"
    told = ["ended", "XT7211", "XT7210"]
    assert [each for _, each in every] == [[told, True], [told[1:], True], [told, True]]


@pytest.mark.everything
@pytest.mark.parametrize("case", ["absent", "apart"])
def test_a_rank_that_does_not_call(case: str) -> None:
    done = run(2, "failing.py", case)
    assert done.returncode != 0
    assert json.loads(done.stdout.splitlines()[0]) == [0, "XT7222", "rank 0 waited 0.5 seconds for all ranks to call"]


def test_a_rank_that_stays_away_in_the_middle() -> None:
    done = run(2, "failing.py", "stuck")
    assert done.returncode != 0
    assert json.loads(done.stdout.splitlines()[0]) == [
        0, "XT7222", "rank 0 waited 1.5 seconds for a message of 432 bytes, a1[0:12, 9:18], from rank 1"]


@pytest.mark.parametrize("case", ["killed", pytest.param("raised", marks=pytest.mark.everything)])
def test_a_rank_that_dies_ends_all(case: str) -> None:
    done = run(2, "failing.py", case)
    assert done.returncode != 0
    assert ("an error of the author's" in done.stderr) == (case == "raised")


def test_importing_it_imports_no_mpi() -> None:
    program = "import sys, xetile.distributed\nassert not {'mpi4py', 'mpi4py.MPI', 'dpctl', 'rich'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_one_rank_works_without_mpi() -> None:
    program = "import sys; sys.modules['mpi4py'] = None\n" \
              "import numpy as np, xetile.distributed as xd\n" \
              "grid = xd.Grid(1, 1, 1, m=5, n=6, k=7)\n" \
              "a, b = np.random.default_rng(1).integers(-8, 9, (2, 7, 7)).astype(np.float32)\n" \
              "c = xd.matmul(a[:5], b[:, :6].copy(), grid=grid)\n" \
              "assert np.array_equal(grid.gather(c), a[:5] @ b[:, :6])\n" \
              "assert xd.Grid.choose(5, 6, 7).ranks == 1\n" \
              "import os; os.environ['PMI_SIZE'] = '2'\n" \
              "try: xd.Grid.choose(5, 6, 7)\n" \
              "except Exception as error: assert error.code == 'XT7220'\n" \
              "else: raise AssertionError('started by mpiexec without MPI, and no error')\n" \
              "try: xd.Grid(1, 2, 1, m=5, n=6, k=7).rank\n" \
              "except Exception as error: assert error.code == 'XT7220'\n" \
              "else: raise AssertionError('no MPI, and no error')\n"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


@pytest.mark.parametrize(("name", "words", "ranks"), [
    ("gemm_distributed", ("--m", "70", "--n", "51", "--k", "45"), 1),
    pytest.param("gemm_distributed", ("--m", "70", "--n", "51", "--k", "45", "--grid", "2,1,1"), 2,
                 marks=pytest.mark.everything),
    pytest.param("tensor_parallel_mlp", ("--tokens", "21", "--width", "18", "--hidden", "26"), 1,
                 marks=pytest.mark.everything),
    ("tensor_parallel_mlp", ("--tokens", "21", "--width", "18", "--hidden", "26"), 2)])
def test_the_examples(name: str, words: tuple[str, ...], ranks: int) -> None:
    """With plain Python and over MPI: they check themselves, and rank 0 alone says what was moved."""
    program = str(ROOT / "examples" / f"{name}.py")
    if ranks == 1:
        done = subprocess.run([sys.executable, program, *words, "--device", "numpy"], text=True, capture_output=True,
                              env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=ROOT, check=False)
    else:
        done = launch(ranks, "-m", "mpi4py", program, *words, "--device", "numpy")
    assert done.returncode == 0, done.stdout + done.stderr
    volume = {"gemm_distributed": 4 * 45 * 51, "tensor_parallel_mlp": 2 * 4 * 21 * 18}[name] * (ranks - 1)
    assert f"volume   {volume} bytes received by all ranks\n" in done.stdout
    assert done.stdout.count("result ") == 1
