"""``xt.bench``: how often it calls, what the time contains, and the events of a queue. No time is asserted as such."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_dpnp
from xetile.tools import bench as module


def test_the_calls_are_those_that_fill_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes on 2 ms with each call: one call, five for an estimate, 11 ms and 31 ms."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def fn() -> None:
        now[0] += 0.002

    calls: list[float] = []
    assert xt.bench(lambda: (fn(), calls.append(now[0])), warmup=11, rep=31, flush=False) == pytest.approx(2)
    assert len(calls) == 1 + 5 + 5 + 15


def test_quantiles_are_those_of_the_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of 1, 2, 3, ... milliseconds; of the last ones the least, the middle and the longest."""
    now, count = [0.0], [0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def fn() -> None:
        count[0] += 1
        now[0] += count[0] * 1e-3

    # the estimate of calls 2 to 6 is 4 ms: 7 is the warm-up, 8 to 12 are measured
    assert xt.bench(fn, warmup=4.5, rep=20.5, quantiles=(0, 0.5, 1), flush=False) == pytest.approx([8, 10, 12])


def test_caches_are_flushed_outside_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now, flushed = [0.0], []
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def flush() -> None:
        flushed.append(now[0])
        now[0] += 5

    def fn() -> None:
        now[0] += 0.001

    monkeypatch.setattr(module, "_flusher", lambda queue: flush)
    assert xt.bench(fn, warmup=2.5, rep=3.5) == pytest.approx(1)
    assert len(flushed) == 1 + 3


@pytest.mark.parametrize("profiling", [True, False])
def test_work_on_a_queue_has_ended(profiling: bool) -> None:
    """A product's time is not that of its launch: it takes longer than one with a millionth of the operations."""
    dpnp = require_dpnp()
    import dpctl

    queue = dpctl.SyclQueue("opencl:cpu", property=["enable_profiling"] if profiling else [])
    large, small = (dpnp.ones((size, size), dtype=np.float32, sycl_queue=queue) for size in (1024, 16))
    products: list[Any] = []

    def multiply(array: Any) -> None:
        products[:] = [xt.matmul(array, array)]

    (least,), (most,) = (xt.bench(lambda array=array: multiply(array), warmup=1, rep=20, quantiles=(0,),  # type: ignore
                                  queue=queue, flush=False) for array in (small, large))
    assert 0 < least < most
    assert (dpnp.asnumpy(products[0]) == 1024).all()


@pytest.mark.parametrize(("code", "options"), [("XT1059", {"rep": -1}), ("XT1059", {"quantiles": (50,)})])
def test_numbers_out_of_range(code: str, options: dict[str, Any]) -> None:
    with pytest.raises(xt.ArgumentError) as caught:
        xt.bench(lambda: None, **options)
    assert caught.value.code == code
