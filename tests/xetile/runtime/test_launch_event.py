"""Events of launches: on a queue, in host memory, of prepared and of repeated launches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_dpnp
from tests.device import DEVICE_FILTER
from xegpu.support.errors import DeviceError
from xetile.runtime.launch_plan import LaunchEvent


@xt.kernel(grid=lambda A, n: (1,))
def counted(A: xt.Array, n: Any) -> None:
    """A += n, one at a time."""
    tile = xt.init_tile(A, (0, 0), (8, 16))
    for _ in xt.range(n):
        xt.store_tile(xt.load_tile(tile) + 1, tile)
        xt.fence()


@pytest.mark.parametrize("where", ["numpy", "numpy:program", "numpy:xegpu", DEVICE_FILTER])
def test_a_launch_on_host_arrays_has_ended(where: str) -> None:
    if where == DEVICE_FILTER:
        pytest.importorskip("dpctl")
    array = np.zeros((8, 16), np.float32)
    for event in (counted.on(where)[1](array, 2), counted.on(where)(array, 2)):
        assert isinstance(event, LaunchEvent)
        event.wait()
        assert event.done
    np.testing.assert_array_equal(array, 4)


@pytest.mark.parametrize("profiling", [True, False])
def test_a_launch_on_a_queue(profiling: bool) -> None:
    """The first launch, by signature, by identity, and prepared: each event is its own launch's."""
    dpnp, dpctl = require_dpnp(), pytest.importorskip("dpctl")
    queue = dpctl.SyclQueue(DEVICE_FILTER, property=["enable_profiling"] if profiling else [])
    array = dpnp.zeros((8, 16), dtype="f4", sycl_queue=queue)
    ready = counted.prepare(None, array, 5)
    events = [counted(array, 5), counted(array, 5), counted(array, 5), counted[1](array, 5), ready(), ready()]
    assert len({id(event.sycl_event) for event in events}) == len(events)
    for event in reversed(events):
        event.wait()
        assert event.done
        assert repr(event) == "<launch that has run>"
        if profiling:
            assert event.milliseconds > 0
        else:
            with pytest.raises(DeviceError, match="XT1064"):
                _ = event.milliseconds
    np.testing.assert_array_equal(dpnp.asnumpy(array), 30)


@pytest.mark.parametrize("in_order", [True, False])
def test_the_arithmetic_of_dpnp_waits_for_a_launch(in_order: bool) -> None:
    dpnp, dpctl = require_dpnp(), pytest.importorskip("dpctl")
    queue = dpctl.SyclQueue(DEVICE_FILTER, property=["in_order"] if in_order else [])
    array, other = (dpnp.zeros((8, 16), dtype="f4", sycl_queue=queue) for _ in range(2))
    queue.wait()
    counted(array, 200_000)  # milliseconds
    difference = array - other
    counted(array, 1)
    product = difference * array
    np.testing.assert_array_equal(dpnp.asnumpy(difference), 200_000)
    np.testing.assert_array_equal(dpnp.asnumpy(product), np.float32(200_000) * np.float32(200_001))
