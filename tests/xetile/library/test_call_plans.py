"""Calls of library functions that repeat the launches of an earlier call: what they must not mix up."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xetile as xt
from codegen.runtime import launcher
from tests.conftest import require_device, require_dpnp
from tests.device import DEVICE_FILTER
from tests.memory_maps import may_have_huge_pages
from xetile.library.matmul_kernels import product
from xetile.runtime import launch, launch_cache
from xetile.runtime.built_programs import PROGRAMS


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A 1 for every launch that a function of the library made itself."""
    found: list[Any] = []
    monkeypatch.setattr(launch, "signature_of", lambda args: found.append(1) or launch_cache.signature_of(args))
    return found


def integers(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(np.float32)


def on_queue(queue: Any, *hosts: Any) -> list[Any]:
    return [require_dpnp().asarray(host, sycl_queue=queue) for host in hosts]


def check(got: Any, expected: Any) -> None:
    np.testing.assert_array_equal(require_dpnp().asnumpy(got), expected)


def attention_of_numpy(q: Any, k: Any, v: Any, scale: float) -> Any:
    scores = q @ k.swapaxes(-1, -2) * scale
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights @ v / weights.sum(-1, keepdims=True)


@pytest.mark.launches
@pytest.mark.parametrize("in_order", [True, False])
def test_products_of_other_arrays(in_order: bool, checked: list[Any], device_queue: Any) -> None:
    queue = device_queue if in_order else pytest.importorskip("dpctl").SyclQueue(DEVICE_FILTER)
    kept = []
    for seed in range(4):
        a, b, bias = integers(seed, 20, 24), integers(seed + 9, 24, 40), integers(seed + 99, 40)
        x, y, z = on_queue(queue, a, b, bias)
        kept += [(xt.matmul(x, y), a @ b), (xt.matmul(x, y, bias=z), a @ b + bias),
                 (xt.matmul(x, y, activation=lambda v, low=3.0: xt.maximum(v, low)), np.maximum(a @ b, 3))]
        out, = on_queue(queue, integers(5, 20, 40))
        assert xt.matmul(x, y, out=out, alpha=2.0, beta=3.0) is out
        kept.append((out, 2 * (a @ b) + 3 * integers(5, 20, 40)))
    for got, expected in kept:
        check(got, expected)
    assert len(checked) == 4


@pytest.mark.launches
def test_attention_of_other_arrays(checked: list[Any], device_queue: Any) -> None:
    counts = []
    for seed in range(3):
        q, k, v = (integers(seed + i, 2, 3, 33, 16) / 8 for i in range(3))
        x, y, z = on_queue(device_queue, q, k, v)
        results = [(xt.attention(x, y, z, scale=scale), scale) for scale in (0.25, 0.5)]
        for got, scale in results:
            np.testing.assert_allclose(require_dpnp().asnumpy(got), attention_of_numpy(q, k, v, scale), atol=1e-5)
        counts.append(len(checked))
    assert counts[0] == counts[2] > 0


@pytest.mark.launches
def test_quantized_products_of_other_arrays(checked: list[Any], device_queue: Any) -> None:
    ones = {"e4m3": 0x38, "e5m2": 0x3C}
    for seed in range(3):
        a, b, weights = integers(seed, 16, 32), integers(seed + 9, 32, 16).astype(np.int8), integers(seed, 128, 16) % 8
        by_row, by_column = integers(seed + 1, 16), integers(seed + 2, 16)
        x, y, z, r, c = on_queue(device_queue, a.astype(np.int8), b, integers(seed, 16, 128)
                                    .astype(np.float16), by_row, by_column)
        check(xt.scaled_matmul(x, y, r, c, bias=c), (a @ b) * by_row[:, None] * by_column + by_column)
        check(xt.scaled_matmul(x, y, c, r), (a @ b) * by_column[:, None] * by_row)
        for name, one in ones.items():
            u, = on_queue(device_queue, np.full((16, 32), one, np.uint8))
            check(xt.scaled_matmul(u, y, formats=(name, None)), np.ones_like(a) @ b)
            check(xt.scaled_matmul(u, y), np.full_like(a, one) @ b)
        packed, scales = on_queue(device_queue, xt.pack_int4(weights.astype(np.uint8)), np.ones((4, 16), np.float16))
        got = xt.int4_matmul(z, packed, scales, out_dtype="f32")
        check(got, integers(seed, 16, 128) @ weights)
        if seed == 0:
            launches = len(checked)
    assert len(checked) == launches > 0


@pytest.mark.launches
def test_options_views_and_flags(device_queue: Any) -> None:
    a, b = integers(1, 20, 24), integers(2, 24, 40)
    x, y = on_queue(device_queue, a, b)
    shift = 1.0
    for _ in range(3):
        for alpha in (1.0, 2.0, 0.0, -0.0):
            got = require_dpnp().asnumpy(xt.matmul(x, y, alpha=alpha))
            np.testing.assert_array_equal(got, a @ b * np.float32(alpha))
            if alpha == 0 and DEVICE_FILTER == "opencl:cpu":
                np.testing.assert_array_equal(np.signbit(got), np.signbit(a @ b * np.float32(alpha)))
        check(xt.matmul(x, y, out_dtype="f16"), (a @ b).astype(np.float16))
        check(xt.matmul(x[::-1], y[:, 8:]), a[::-1] @ b[:, 8:])
        check(xt.matmul(y.T, x.T), (a @ b).T)
        shift += 1  # the same function, which now adds something else
        check(xt.matmul(x, y, activation=moved(shift)), a @ b + shift)
        bits, = on_queue(device_queue, np.full((20, 24), 0x3F80, np.uint16))  # ones, as bf16
        check(xt.matmul(xt.view(bits, xt.bf16), y), np.ones_like(a) @ b)
        check(xt.matmul(bits, y), np.full_like(a, 0x3F80) @ b)
    out, = on_queue(device_queue, np.zeros((20, 40), np.float32))
    xt.matmul(x, y, out=out)
    out.flags["W"] = False
    with pytest.raises(xt.ElementTypeError, match="XT1045"):
        xt.matmul(x, y, out=out)


def moved(shift: float) -> Callable[[Any], Any]:
    """A function that captures what changes, always of the same code."""
    return lambda v: v + shift


@pytest.mark.launches
def test_arrays_that_share_memory(checked: list[Any], device_queue: Any) -> None:
    a, b = integers(1, 24, 24), integers(2, 24, 24)
    x, y = on_queue(device_queue, a, b)
    together, = on_queue(device_queue, np.stack([a, b], 1))  # rows of both in turn: their spans overlap
    first, second = together[:, 0], together[:, 1]
    for _ in range(3):
        check(xt.matmul(x, x), a @ a)
        check(xt.matmul(x, y), a @ b)
        check(xt.matmul(first, second), a @ b)
        check(xt.matmul(second, first), b @ a)
        check(xt.matmul(first, first), a @ a)
    before = len(checked)
    check(xt.matmul(second, first), b @ a)
    assert len(checked) == before
    out, = on_queue(device_queue, np.zeros((24, 24), np.float32))
    for _ in range(3):
        xt.matmul(x, y, out=out)
        check(out, a @ b)
        held, = on_queue(device_queue, a)
        xt.matmul(held, y, out=held)  # a copy of the operand is multiplied
        check(held, a @ b)


@pytest.mark.launches
def test_errors_stay_errors(device_queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = on_queue(device_queue, integers(1, 24, 24), integers(2, 24, 24))
    other, = on_queue(pytest.importorskip("dpctl").SyclQueue(DEVICE_FILTER), integers(1, 24, 24))

    @xt.kernel
    def outer(Z):
        xt.matmul(x, y)

    for kind, says, wrong in (
            (xt.DeviceError, "XT1043", lambda: xt.matmul(x, other)),
            (xt.DeviceError, "XT7010", lambda: xt.matmul(x, integers(2, 24, 24))),
            (xt.ArgumentError, "XT7004", lambda: xt.matmul(x, y, activation="rel")),
            (xt.ArgumentError, "XT7005", lambda: xt.matmul(x, y, beta=1.0)),
            (xt.TraceError, "XT1023", lambda: outer[1](x))):
        xt.matmul(x, y)
        for _ in range(2):
            with pytest.raises(kind, match=says) as caught:
                wrong()
            assert "test_call_plans.py" in str(caught.value)
    monkeypatch.setenv("XETILE_SPIRV", "nonsense")
    with pytest.raises(xt.ToolError, match="XT5107"):
        xt.matmul(x, y)


@pytest.mark.launches
def test_what_a_kernel_forgets_is_not_repeated(checked: list[Any], device_queue: Any) -> None:
    a, b = integers(1, 24, 24), integers(2, 24, 24)
    x, y = on_queue(device_queue, a, b)
    factor = 2.0

    def activation(v: Any) -> Any:
        return v * factor

    for turn, change in enumerate((lambda: None, product.forget, drop_programs)):
        change()
        for _ in range(2):
            check(xt.matmul(x, y, activation=activation), a @ b * factor)
        assert len(checked) == turn + 1
    factor = 3.0
    check(xt.matmul(x, y, activation=activation), a @ b * factor)


def drop_programs() -> None:
    """Drop the programs of all kernels, as new ones do."""
    kept, PROGRAMS.capacity = PROGRAMS.capacity, 0
    another = Forgetful()
    PROGRAMS.find(another, "", object)  # type: ignore[arg-type]
    PROGRAMS.capacity = kept


class Forgetful:
    """Stand-in for a compiled kernel in the table of programs."""

    def __init__(self) -> None:
        self.programs: dict[Any, Any] = {}

    def forget_stages(self) -> None:
        """Nothing to forget."""


@pytest.mark.launches
def test_no_array_is_kept_alive(device_queue: Any) -> None:
    x, y = on_queue(device_queue, integers(1, 24, 24), integers(2, 24, 24))
    for _ in range(3):
        result = xt.matmul(x, y)
    seen = [weakref.ref(array.get_array()) for array in (x, y, result)]
    del x, y, result
    device_queue.wait()
    launcher.release_finished()
    gc.collect()
    assert [array() for array in seen] == [None, None, None]


def test_large_arrays_may_have_huge_pages() -> None:
    """Those of the first call and of later ones."""
    require_device()
    dpnp, kept = require_dpnp(), []
    for seed in range(2):
        a, b = integers(seed, 2, 1024), integers(seed + 9, 1024, 2048)
        x, y = (dpnp.asarray(host, device="opencl:cpu") for host in (a, b))
        kept.append(y)
        check(xt.matmul(x, y), a @ b)
        assert may_have_huge_pages(y.get_array()._pointer + (4 << 20))


def test_memory_at_the_address_of_a_freed_array_may_have_huge_pages(cpu_queue: Any) -> None:
    """Arrays of one shape, one after the other, soon lie where one was before."""
    dpnp, seen = require_dpnp(), list[int]()
    b = dpnp.ones((2048, 32), dtype=np.float32, sycl_queue=cpu_queue)
    while len(set(seen)) == len(seen) < 16:
        a = dpnp.ones((1024, 2048), dtype=np.float32, sycl_queue=cpu_queue)
        xt.matmul(a, b)
        cpu_queue.wait()
        launcher.release_finished()
        seen.append(a.get_array()._pointer)
        assert may_have_huge_pages(seen[-1] + (4 << 20))
        del a
        gc.collect()
