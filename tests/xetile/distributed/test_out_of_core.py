"""Products whose operands stay in host memory: the schedule in NumPy, and the CPU device with little memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
import xetile.distributed as xd
from codegen.runtime.synchronize import copy
from tests.conftest import require_device, require_dpnp
from xetile.distributed import executor, out_of_core
from xetile.distributed.grid import Grid
from xetile.distributed.out_of_core import streamed_schedule, tile_that_fits
from xetile.distributed.replay import replay


def _integers(seed: int, *shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(dtype)


@pytest.mark.parametrize("sizes", [(100, 70, 90), (64, 64, 64), (1, 1, 1), (5, 6, 0)])
def test_the_schedule_gives_the_product(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    a, b = _integers(1, m, k), _integers(2, k, n)
    steps = streamed_schedule(Grid(1, 1, 1, m=m, n=n, k=k), (40, 30), 16)
    c, received = replay([steps], a, b)
    assert np.array_equal(c, a @ b)
    assert received == 0
    assert steps.flops == 2 * m * n * k


def test_tiles_use_the_memory_that_there_is() -> None:
    grid = Grid(1, 1, 1, m=1 << 16, n=1 << 16, k=1 << 16, dtype=xt.bf16)
    for memory in (1 << 22, 1 << 28, 1 << 34):
        side, _ = tile_that_fits(grid, memory, 2)
        needs = [(6 * each * each + 4 * 2 * 512 * each) for each in (side, side + 64)]
        assert needs[0] <= memory < needs[1]


@pytest.mark.unoptimised
@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.int8, marks=pytest.mark.everything)])
def test_the_cpu_device(dtype: Any) -> None:
    """Six tiles and three panels each, with an epilogue; the whole product would take four times the memory."""
    require_dpnp()
    require_device("opencl:cpu")
    m, n, k = 300, 200, 1200
    a, b, bias = _integers(3, m, k, dtype=dtype), _integers(4, k, n, dtype=dtype), _integers(5, n, dtype=np.int32)
    exact = np.maximum(a.astype(np.int64) @ b.astype(np.int64) + bias, 0)
    kind = xt.f32 if dtype is np.float32 else xt.i32
    c = xd.matmul_out_of_core(a, b, memory=1_600_000 if dtype is np.float32 else 400_000, queue="opencl:cpu",
                              bias=bias.astype(kind.numpy), activation="relu", out_dtype=kind)
    assert np.array_equal(c.astype(np.int64), exact)
    old = c.copy()
    xd.matmul_out_of_core(a, b, memory=4_000_000, queue="opencl:cpu", out=c, beta=1)
    assert np.array_equal(c.astype(np.int64), a.astype(np.int64) @ b.astype(np.int64) + old)


def test_operands_types_and_results() -> None:
    """A bias that is a number, a result that is an operand or of another type; all as xt.matmul has it."""
    require_dpnp()
    require_device("opencl:cpu")
    a, b = _integers(6, 70, 70), _integers(7, 70, 70)

    def product(*operands: Any, **options: Any) -> Any:
        return xd.matmul_out_of_core(*operands, memory=1 << 20, queue="opencl:cpu", **options)

    x = a.copy()
    assert product(x, b, out=x, bias=2) is x
    assert np.array_equal(x, a @ b + 2)
    assert np.array_equal(product(a, b, out=np.zeros((70, 70), np.float16)), (a @ b).astype(np.float16))
    small = product(a.astype(np.int8), b.astype(np.int8), bias=0.5)
    assert small.dtype == np.float32
    assert np.array_equal(small, a @ b + 0.5)


def test_operands_that_are_refused() -> None:
    dpnp = require_dpnp()
    a = _integers(6, 6, 6)
    small = a.astype(np.int8)
    for operands, options, code in (((small, small.view(np.uint8)), {}, "XT7205"), ((a[0], a), {}, "XT7212"),
                                    ((a, a[:5]), {}, "XT7011"), ((a, dpnp.asarray(a)), {}, "XT7216"),
                                    ((a, a), {"bias": a[0, :3]}, "XT7006"), ((a, a), {"beta": 1}, "XT7005"),
                                    ((a, a), {"memory": 1e9}, "XT7213")):
        with pytest.raises(xt.XeError) as caught:
            xd.matmul_out_of_core(*operands, **{"memory": 1 << 20, "queue": "opencl:cpu", **options})
        assert caught.value.code == code


def test_faults_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """One wrong element of a panel's copy, a product, an epilogue and a result's copy; all else passes the checks."""
    require_dpnp()
    require_device("opencl:cpu")
    m, n, k = 300, 200, 1200
    a, b, old = _integers(3, m, k), _integers(4, k, n), _integers(5, m, n)

    def product() -> Any:
        return xd.matmul_out_of_core(a, b, memory=1_600_000, queue="opencl:cpu", out=old.copy(), beta=2, bias=old[0],
                                     activation="relu", verify=True)

    expected = np.maximum(a @ b + 2 * old + old[0], 0)
    assert np.array_equal(product(), expected)

    def wrong_copy(number: int) -> None:
        """The copy of that number changes one element; one to the host, if it is -1."""
        calls = iter(range(1000))

        def act(queue: Any, target: Any, source: Any, size: int) -> None:
            if next(calls) == number:
                source = source.copy()
                source.view(np.float32)[-1] += 1000
            copy(queue, target, source, size)
            if number < 0 and isinstance(target, np.ndarray):
                target.view(np.float32)[-1] += 1

        monkeypatch.setattr(out_of_core, "copy", act)

    def wrong(name: str) -> None:
        right = getattr(executor, name)

        def act(*args: Any, **options: Any) -> None:
            right(*args, **options)
            options["out"][0, -1:] += 1000

        monkeypatch.setattr(executor, name, act)

    for fault, which, code in ((wrong_copy, 1, "XT7225"), (wrong_copy, -1, "XT7226"), (wrong, "matmul", "XT7225"),
                               (wrong, "finish_sums", "XT7226")):
        fault(which)  # type: ignore[operator]
        with pytest.raises(xt.DeviceError) as caught:
            product()
        assert (which, caught.value.code) == (which, code)
        monkeypatch.undo()


def test_by_default_it_is_the_device_of_the_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(out_of_core, "queue_of_rank", lambda: asked.append(None) or "opencl:none")
    with pytest.raises((xt.XeError, AttributeError)):
        xd.matmul_out_of_core(_integers(1, 9, 9), _integers(2, 9, 9), memory=1 << 20)
    assert asked == [None]


def test_no_tile_fits() -> None:
    with pytest.raises(xt.DeviceError) as caught:
        xd.matmul_out_of_core(_integers(1, 9, 9), _integers(2, 9, 9), memory=1000, queue="opencl:cpu")
    assert caught.value.code == "XT7241"
