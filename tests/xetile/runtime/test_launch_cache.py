"""Launches that are looked up, and launches that are prepared: what they must not mix up."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xetile as xt
from codegen.runtime import launcher
from tests.conftest import require_dpnp
from tests.device import DEVICE_FILTER
from xetile.runtime import launch, launch_cache, launch_plan


@xt.kernel(grid=lambda X, Y, n, s, **constants: (1, Y.shape[1] // 16))
def scaled(X, Y, n, s, *, add=0, rows=8):
    """Y = X * n + s + add, on the columns of a work-group."""
    at = (0, xt.group_id(1) * 16)
    v = xt.load_tile(xt.init_tile(X, at, (rows, 16))).to(xt.f32)
    xt.store_tile(v * n.to(xt.f32) + s.to(xt.f32) + float(add), xt.init_tile(Y, at, (rows, 16)))


class Counted:
    """Counts of launches that were checked one by one, and of those that were looked up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.checked = self.ready = 0
        bind, begin = type(scaled).bind_arguments, launch_plan.LaunchPlan.launch
        monkeypatch.setattr(type(scaled), "bind_arguments", lambda *args: self._count("checked") or bind(*args))
        monkeypatch.setattr(launch_plan.LaunchPlan, "launch", lambda *args: self._count("ready") or begin(*args))

    def _count(self, kind: str) -> None:
        setattr(self, kind, getattr(self, kind) + 1)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


def arrays(queue: Any, seed: int, columns: int = 32, dtype: str = "f4") -> tuple[Any, Any, Any]:
    """X on the device, an output that holds something else, and X on the host."""
    dpnp = require_dpnp()
    host = np.random.default_rng(seed).integers(-9, 10, (8, columns)).astype(dtype)
    return dpnp.asarray(host, sycl_queue=queue), dpnp.full((8, columns), 77, dtype="f4", sycl_queue=queue), host


def check(y: Any, expected: Any) -> None:
    np.testing.assert_array_equal(require_dpnp().asnumpy(y), expected)


@pytest.mark.launches
@pytest.mark.parametrize("in_order", [True, False])
def test_what_is_the_same_is_looked_up_and_what_differs_is_not(in_order: bool, counted: Counted,
                                                               device_queue: Any) -> None:
    dpctl = pytest.importorskip("dpctl")
    queue = device_queue if in_order else dpctl.SyclQueue(DEVICE_FILTER)
    own = xt.kernel(scaled.function)
    for seed, (n, s) in enumerate([(2, 0.5), (3, 0.25), (-4, 1.0)]):
        x, y, host = arrays(queue, seed)
        own[1, 2](x, y, n, s)
        check(y, host * n + s)
    assert counted.checked == 1, "other arrays of the same kind, other numbers of the same types"
    x, y, host = arrays(queue, 5)
    own[1, 1](x, y, 2, 0.0)  # half of the columns
    check(y, np.hstack([host[:, :16] * 2, np.full((8, 16), 77)]))
    own[1, 2](x, y, 2.5, 3)  # a float where an integer was, and the other way round
    check(y, host * 2.5 + 3)
    own[1, 2](x, y, 2, 0.5, add=1)
    check(y, host * 2 + 1.5)
    x, y, host = arrays(queue, 6, dtype="i4")
    own[1, 2](x, y, 2, 0.5)
    check(y, host * 2 + 0.5)
    assert counted.checked == 5


@pytest.mark.launches
def test_views_shapes_and_flags(counted: Counted, device_queue: Any) -> None:
    own = xt.kernel(scaled.function)
    x, y, host = arrays(device_queue, 1, columns=48)
    for start in (0, 16, 5, 0, 5):  # one element is no whole line: other code
        y[...] = 77
        own[1, 2](x[:, start:start + 32], y[:, 8:40], 2, 0.5)
        check(y[:, 8:40], host[:, start:start + 32] * 2 + 0.5)
        check(y[:, :8], np.full((8, 8), 77))
    assert counted.checked == 2
    x.shape = (4, 96)  # in place: the same object
    y[...] = 77
    own[1, 2](x, y, 1, 0.0)
    check(y[4:], np.hstack([np.zeros((4, 32)), np.full((4, 16), 77)]))
    check(y[:4, :32], host.reshape(4, 96)[:, :32])
    y.flags["W"] = False
    with pytest.raises(xt.ElementTypeError, match="XT1045"):
        own[1, 2](x, y, 1, 0.0)


@pytest.mark.launches
def test_errors_stay_errors_after_a_launch_that_went_well(device_queue: Any) -> None:
    own = xt.kernel(scaled.function)
    x, y, _ = arrays(device_queue, 2)

    def fails(kind: type[xt.XeError], says: str, wrong: Callable[[], None]) -> None:
        for _ in range(3):  # checked or looked up, looked up, and known
            own[1, 2](x, y, 1, 0.0)
        with pytest.raises(kind, match=says) as caught:
            wrong()
        assert "test_launch_cache.py" in str(caught.value)

    for grid in ((True, 2), (1.0, 2), (-1, 2), [1, 2.0]):
        fails(xt.ShapeError, "XT1021", lambda grid=grid: own[grid](x, y, 1, 0.0))
    fails(xt.ArgumentError, "XT1011", lambda: own[1, 2](x, y, 1))
    fails(xt.ArgumentError, "XT1011", lambda: own[1, 2](x, y, 1, 0.0, 0.0))
    fails(xt.ArgumentError, "XT1011", lambda: own[1, 2]())
    fails(xt.ArgumentError, "XT1012", lambda: own[1, 2](x, y, 1, 0.0, ad=1))
    fails(xt.ElementTypeError, "XT1014", lambda: own[1, 2](x, y, 1, 0.0, add={1}))
    fails(xt.ElementTypeError, "XT1030", lambda: own[1, 2](x, y, "1", 0.0))
    fails(xt.DeviceError, "XT1042", lambda: own[1, 2](x, np.zeros((8, 32), np.float32), 1, 0.0))

    @xt.kernel
    def outer(Z):
        own[1, 2](x, y, 1, 0.0)

    fails(xt.TraceError, "XT1023", lambda: outer[1](x))


@pytest.mark.launches
def test_the_grid_of_the_decorator(counted: Counted, device_queue: Any) -> None:
    for columns in (32, 64, 32, 64):
        x, y, host = arrays(device_queue, columns, columns)
        scaled(x, y, 3, 0.5, add=2)
        check(y, host * 3 + 2.5)
    assert (counted.checked, counted.ready) == (2, 4)
    for wrong in ((), (x,), (x, y, 3)):
        for _ in range(3):
            scaled(x, y, 3, 0.5, add=2)
        with pytest.raises(xt.ArgumentError, match="XT1011"):
            scaled(*wrong, add=2)


@pytest.mark.launches
def test_another_spirv_compiler_is_not_looked_up(device_queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    own = xt.kernel(scaled.function)
    x, y, _ = arrays(device_queue, 4)
    for _ in range(3):
        own[1, 2](x, y, 1, 0.0)
    monkeypatch.setenv("XETILE_SPIRV", "nonsense")
    with pytest.raises(xt.ToolError, match="XT5107"):
        own[1, 2](x, y, 1, 0.0)
    monkeypatch.delenv("XETILE_SPIRV")
    own[1, 2](x, y, 1, 0.0)


def test_other_build_options_are_not_looked_up(device_queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    own = xt.kernel(scaled.function)
    x, y, host = arrays(device_queue, 4)
    for _ in range(3):
        own[1, 2](x, y, 2, 0.0)
    monkeypatch.setenv("XETILE_BUILD_OPTIONS", "-no-such-option")
    with pytest.raises(xt.ToolError, match="XT5110"):
        own[1, 2](x, y, 2, 0.0)
    monkeypatch.setenv("XETILE_BUILD_OPTIONS", "-cl-opt-disable")
    own[1, 2](x, y, 3, 0.0)
    check(y, host * 3)


@pytest.mark.launches
@pytest.mark.parametrize("grid", [2, (2,)])
def test_a_grid_of_one_count_is_looked_up(grid: Any, counted: Counted, device_queue: Any) -> None:
    @xt.kernel
    def doubled(X, Y):
        at = (0, xt.group_id(0) * 16)
        xt.store_tile(xt.load_tile(xt.init_tile(X, at, (8, 16))) * 2.0, xt.init_tile(Y, at, (8, 16)))

    for seed in range(4):
        x, y, host = arrays(device_queue, seed)
        doubled[grid](x, y)
        check(y, host * 2)
    assert (counted.checked, counted.ready) == (1, 4)


@pytest.mark.launches
def test_what_is_forgotten_is_forgotten_by_launchers_that_an_author_holds(counted: Counted, device_queue: Any,
                                                                          tmp_path: Path) -> None:
    own = xt.kernel(scaled.function)
    x, y, host = arrays(device_queue, 3)
    queue_bound, launcher = own.on(device_queue), own[1, 2]
    for launch_it in (queue_bound[1, 2], launcher):
        for _ in range(3):
            launch_it(x, y, 2, 0.0)
    assert counted.checked == 2
    own.forget()
    assert not own.cache.modules
    assert not own.cache.compiled
    launcher(x, y, 2, 0.0)
    queue_bound[1, 2](x, y, 2, 0.0)
    assert counted.checked == 4
    edited = tmp_path / "scaled.mlir"
    text = own.lower(x, y, 2, 0.0, target="cpu", add=5).stages["xetile"]
    edited.write_text(text)
    own.override("xetile", edited)
    for launch_it in (queue_bound[1, 2], launcher):
        y[...] = 77
        launch_it(x, y, 2, 0.0)
        check(y, host * 2 + 5)
    own.override(None)
    launcher(x, y, 2, 0.0)
    check(y, host * 2)


def test_bound_kernels_are_the_same_for_the_same_device(device_queue: Any) -> None:
    own = xt.kernel(scaled.function)
    assert own.on(device_queue, target="cpu") is own.on(device_queue, target=xt.TARGETS["cpu"])
    assert own.on(device_queue, subgroups=[1, 1]) is own.on(device_queue, subgroups=(1, 1))
    assert own.on(device_queue) is not own.on(device_queue, target="pvc")
    with pytest.raises(xt.DeviceError, match="XT5001"):
        own.on(["opencl:cpu"])
    with pytest.raises(xt.ShapeError, match="XT1004"):
        own.on("numpy", subgroups=5)


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A 1 for every launch whose arrays were looked at as if they were new."""
    found: list[Any] = []
    monkeypatch.setattr(launch, "signature_of", lambda args: found.append(1) or launch_cache.signature_of(args))
    return found


@pytest.mark.launches
def test_arrays_that_were_seen_before_are_not_looked_up(looked_up: list[Any], device_queue: Any) -> None:
    own = xt.kernel(scaled.function)
    sets = [arrays(device_queue, seed) for seed in (1, 2)]
    whole, into, host = arrays(device_queue, 3, columns=48)
    part = whole[:, 5:37]
    for turn in range(5):
        for x, y, held in (*sets, (part, into, host[:, 5:37])):
            y[...] = 77
            own[1, 2](x, y, turn, 0.5)
            check(y[:, :32], held * turn + 0.5)
            own[1, 2](x, y, turn, 0.5, add=3)
            check(y[:, :32], held * turn + 3.5)
            own[(1, 1)](x, y, turn, 0.0)
            check(y[:, :16], held[:, :16] * turn)
    assert len(looked_up) == 3 * 3 * 2
    (x, y, host), (other, _, held) = sets
    own[1, 2](x, other, 2, 0.0)  # both known, but not together
    check(other, host * 2)
    own[1, 2](other, y, 2, 0.0)
    check(y, host * 4)
    for number in (0.5, 3, 2.5, 3):  # a float where an integer was
        own[1, 2](x, y, number, 0.0)
        check(y, host * number)
    before = len(looked_up)
    scaled(x, y, 1, 0.5)
    for shift in (1.5, 2.5, 3.5):
        scaled(x, y, 2, shift)
        check(y, host * 2 + shift)
    assert len(looked_up) == before + 2, "the decorator's grid is known, too"


@pytest.mark.launches
def test_what_an_author_changes_in_place_is_noticed(looked_up: list[Any], device_queue: Any) -> None:
    own = xt.kernel(scaled.function)
    x, y, host = arrays(device_queue, 1, columns=64)
    for _ in range(3):
        own[1, 4](x, y, 2, 0.0)
    check(y, host * 2)
    x.shape = (16, 32)
    y[...] = 77
    own[1, 4](x, y, 2, 0.0)
    check(y, np.hstack([host.reshape(16, 32)[:8] * 2, np.zeros((8, 32))]))
    x.shape = (8, 64)
    for _ in range(3):
        own[1, 4](x, y, 2, 0.0)
    check(y, host * 2)
    empty, column = arrays(device_queue, 1, columns=0)[0], x[:, :1]
    for changed, shapes in ((empty, [(3, 0), (0, 7)]),  # of the same strides
                            (column, [None, (8,), (8, 1)])):  # comes back with other strides
        for shape in shapes:
            if shape is not None:
                changed.shape = shape
            if shape != (8,):
                before = len(looked_up)
                own[1, 4](changed, y, 2, 1.0)
                assert len(looked_up) > before
                check(y[:, 1:], np.ones((8, 63)))
                for _ in range(2):
                    own[1, 4](changed, y, 2, 1.0)
    x.flags["W"] = False  # nothing writes it
    own[1, 4](x, y, 3, 0.0)
    check(y, host * 3)
    y.flags["W"] = False
    with pytest.raises(xt.ElementTypeError, match="XT1045"):
        own[1, 4](x, y, 1, 0.0)


@pytest.mark.launches
def test_an_array_in_the_place_of_another_is_not_taken_for_it(device_queue: Any) -> None:
    """The new array has the identity that the old one had, as it has when Python gives it the same memory."""
    own = xt.kernel(scaled.function)
    x, y, _ = arrays(device_queue, 1)
    for _ in range(3):
        own[1, 2](x, y, 2, 0.0)
    known = own.cache.bindings[None, None, None].launches._by_identity
    ((grid, positions, constants, *_), bound), = known.items()
    old = weakref.ref(x.get_array())
    for columns, dtype in ((32, "f4"), (48, "f4"), (32, "i4")):
        new, into, host = arrays(device_queue, 2, columns, dtype)
        known[grid, positions, constants, id(new.get_array()), id(into.get_array())] = bound
        own[1, 2](new, into, 2, 0.0)
        check(into[:, :32], host[:, :32] * 2)
    del x, new, into, y
    device_queue.wait()
    launcher.release_finished()
    gc.collect()
    assert old() is None, "nothing keeps an array alive"


@pytest.mark.launches
def test_a_prepared_launch(counted: Counted, device_queue: Any) -> None:
    x, y, host = arrays(device_queue, 8)
    ready = scaled[1, 2].prepare(x, y, 2, 0.5, add=1)
    check(y, np.full((8, 32), 77))  # nothing has run
    assert repr(ready) == "<scaled prepared for 1 x 2 x 1 work-groups>"
    held = ready._start.args[-1]  # it keeps the arrays alive
    del x
    gc.collect()
    for factor in (3, 1):
        y[...] = 77
        ready()
        check(y, host * 2 + 1.5)
        host = host * factor  # what the arrays hold counts, not what they held
        held[0][...] = require_dpnp().asarray(host, sycl_queue=device_queue)
    assert counted.checked == 1
    launcher.release_finished()


@pytest.mark.launches
@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu", DEVICE_FILTER])
def test_a_prepared_launch_on_host_arrays(where: str) -> None:
    require_dpnp()
    host = np.random.default_rng(3).integers(-9, 10, (8, 32)).astype(np.float32)
    y = np.full((8, 32), 77, np.float32)
    ready = scaled.on(where).prepare(None, host, y, 2, 0.5)
    assert (y == 77).all()
    for _ in range(2):
        ready()
        np.testing.assert_array_equal(y, host * 2 + 0.5)
        host += 1
    with pytest.raises(xt.ShapeError, match="XT1021"):
        scaled.prepare((1.5,), host, y, 2, 0.5)
