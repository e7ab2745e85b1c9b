"""Calls of kernels: arguments by position, by name and by default; kernels as helpers of kernels; NumPy's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.kernels import EXECUTIONS, Execution, integers
from xegpu.support.errors import XeError

pytestmark = pytest.mark.unoptimised
PROGRAM = Execution("numpy:program", "pvc")


def bound(kernel: Any, execution: Execution) -> Any:
    return kernel.on("numpy:program") if execution is PROGRAM else execution.bind(kernel)


@xt.kernel(grid=lambda X, Y, factor, row, *, more: Y.shape[0] // 8)
def scaled(X: Any, Y: Any, factor: Any = 2.0, row: Any = 0, *, more: Any = 1) -> None:
    place = xt.group_id(0) * 8
    x = xt.load_tile(xt.init_tile(X, (place + row, 0), (8, 16)))
    xt.store_tile(x * factor + more, xt.init_tile(Y, (place, 0), (8, 16)))


@pytest.mark.parametrize("execution", [*EXECUTIONS, PROGRAM], ids=str)
def test_by_name_and_by_default(execution: Execution) -> None:
    """All ways to pass the same arguments launch the same; twice, as the second launch takes another way."""
    x, run = integers(np.random.default_rng(1), "f32", 24, 16), bound(scaled, execution)
    for factor, row, more, launch in (
            (2, 0, 1, lambda y: run[2](x, y)),
            (2, 0, 1, lambda y: run[2](Y=y, X=x)),
            (2, 8, 1, lambda y: run(x, y, row=8)),  # the grid is computed
            (-3, 8, 4, lambda y: run[2](x, row=np.int32(8), Y=y, more=4, factor=np.float32(-3))),
            (-3, 8, 4, lambda y: run[2](x, y, -3.0, 8, more=np.int64(4)))):
        for _ in range(2):
            y = np.full((16, 16), 99, np.float32)
            launch(y)
            assert np.array_equal(y, x[row:row + 16] * factor + more)


def test_prepared_and_lowered() -> None:
    """``prepare`` and ``lower`` take names and defaults as launches do."""
    x, y = integers(np.random.default_rng(2), "f32", 24, 16), np.zeros((16, 16), np.float32)
    scaled.on("numpy").prepare(2, x, row=8, Y=y)()
    assert np.array_equal(y, x[8:] * 2 + 1)
    spec = xt.Spec((None, None), "f32")
    by_name, by_position = scaled.lower(X=spec, Y=spec, row=0), scaled.lower(spec, spec, 2.0, 0)
    assert by_name.stages["xetile"] == by_position.stages["xetile"]


@pytest.mark.parametrize(("code", "launch"), [
    ("XT1010", lambda x: scaled.on("numpy")[2](x, x, X=x)),
    ("XT1011", lambda x: scaled.on("numpy")[2](Y=x)),
    ("XT1012", lambda x: scaled.on("numpy")[2](x, x, rows=8)),
    ("XT1023", lambda x: launches.on("numpy")[2](x)),
    ("XT1024", lambda x: xt.kernel(subgroups=(2, 1))(lambda X: of_four(X)).on("numpy")[1](x)),
])
def test_errors(code: str, launch: Any) -> None:
    with pytest.raises(XeError) as caught:
        launch(np.zeros((16, 16), np.float32))
    assert caught.value.code == code


@xt.kernel
def launches(X: Any) -> None:
    scaled[1](X, X)


@xt.kernel(subgroups=(4, 1))
def of_four(X: Any) -> None:
    xt.store_tile(xt.zeros((8, 16), xt.f32), xt.init_tile(X, (xt.subgroup_id(0) * 8, 0), (8, 16)))


FACTOR = 3


@xt.kernel
def tripled(x: Any, bias: Any = 1, *, twice: bool = False) -> Any:
    total = x * float(FACTOR) + bias
    with xt.when(xt.group_id(0) == 1):
        total = total - 5.0
    return tripled(total) if twice else total


@xt.kernel
def calls_helpers(X: Any, Y: Any) -> None:
    row = xt.group_id(0) * 8
    x, n = xt.load_tile(xt.init_tile(X, (row, 0), (8, 16))), xt.scalar(0)
    for _ in xt.while_(lambda: n < 2):
        x, n = tripled(x, bias=n.to(xt.f32), twice=True), n + 1
    xt.store_tile(x, xt.init_tile(Y, (row, 0), (8, 16)))
    scaled(Y, Y, row=0, more=7)  # a helper that stores


def _reference(x: np.ndarray[Any, Any], factor: int) -> np.ndarray[Any, Any]:
    y = x.copy()
    for group, part in enumerate((y[:8], y[8:])):
        less = 5 * (group == 1)
        for n in range(2):
            part[:] = ((part * factor + n) - less) * factor + 1 - less
        part[:] = part * 2 + 7
    return y


@pytest.mark.parametrize("execution", [*EXECUTIONS, PROGRAM], ids=str)
def test_helpers(execution: Execution) -> None:
    """Kernels in kernels: with results, branches, constants, recursion while recorded, and stores."""
    x, y = integers(np.random.default_rng(3), "f32", 16, 16), np.zeros((16, 16), np.float32)
    bound(calls_helpers, execution)[2](x, y)
    assert np.array_equal(y, _reference(x, 3))


def test_a_changed_helper_is_recorded_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Globals of a helper kernel are part of the recording of the kernel that calls it."""
    x, y = integers(np.random.default_rng(4), "f32", 16, 16), np.zeros((16, 16), np.float32)
    calls_helpers.on("numpy")[2](x, y)
    monkeypatch.setitem(globals(), "FACTOR", 2)
    calls_helpers.on("numpy")[2](x, y)
    assert np.array_equal(y, _reference(x, 2))


def test_numpy_integers() -> None:
    """NumPy's integers where the language takes Python's."""
    i = np.int64

    @xt.kernel(subgroups=(i(2), i(1)))
    def indices(X: Any) -> None:
        rows = xt.iota((i(8), i(16)), i(0), xt.i32) + xt.subgroup_id(i(0)).to(xt.i32) * i(100)
        start = (xt.group_id(i(0)) * i(2) + xt.subgroup_id(i(0))) * i(8)
        for k in xt.range(i(0), i(32), i(16), unroll=i(2)):
            xt.store_tile(rows + k.to(xt.i32), xt.init_tile(X, (start, k), (i(8), i(16))))
    want = np.arange(8)[None, :, None] + (np.arange(4) % 2 * 100)[:, None, None] + np.repeat([0, 16], 16)
    x = np.zeros((32, 32), np.int32)
    indices.on("numpy")[i(2)](x)
    assert np.array_equal(x, want.reshape(32, 32))
    x[:] = -1
    indices.on("numpy:program", only=i(1))[i(2)](x)
    assert np.array_equal(x[16:], want.reshape(32, 32)[16:])
    assert (x[:16] == -1).all()
