"""Built programs of a process: a bounded number is kept, and what was dropped runs again."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_device, require_dpnp
from xetile.runtime import built_programs, device_executor


@xt.kernel
def scaled(A, C, *, factor=1):
    at = (xt.group_id(0) * 8, 0)
    xt.store_tile(xt.load_tile(xt.init_tile(A, at, (8, 16))) * factor, xt.init_tile(C, at, (8, 16)))


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Room for two programs; how often each was built, by its text."""
    require_device()
    found: Counter[str] = Counter()
    build = device_executor.build_kernel

    def counted(queue: Any, source: str | bytes, *rest: Any) -> Any:
        found[str(source)] += 1
        return build(queue, source, *rest)

    monkeypatch.setattr(device_executor, "build_kernel", counted)
    monkeypatch.setattr(device_executor, "PROGRAMS", built_programs.BuiltPrograms(2))
    scaled.forget()
    return found


def test_the_least_recently_used_is_dropped(built: Counter[str]) -> None:
    a, c = np.arange(-120, 136, dtype=np.int32).reshape(16, 16), np.zeros((16, 16), np.int32)
    for factor in (2, 3, 2, 5, 2, 3):  # 5 drops 3, which drops 5
        scaled.on("opencl:cpu")[2](a, c, factor=factor)
        np.testing.assert_array_equal(c, a * factor)
    assert sorted(built.values()) == [1, 1, 2]


def test_launches_on_the_same_arrays(built: Counter[str]) -> None:
    """Their plans lose the program, and find it again."""
    dpnp = require_dpnp()
    host = np.arange(-120, 136, dtype=np.int32).reshape(16, 16)
    a, c = dpnp.asarray(host), dpnp.zeros((16, 16), dtype=np.int32)
    ready = scaled.prepare(2, a, c, factor=7)
    for factor in (2, 3, 5, 2, 3, 5):
        for _ in range(4):
            scaled[2](a, c, factor=factor)
            np.testing.assert_array_equal(dpnp.asnumpy(c), host * factor)
    assert sorted(built.values()) == [1, 2, 2, 2]
    ready()  # what was prepared keeps its program
    np.testing.assert_array_equal(dpnp.asnumpy(c), host * 7)
    assert len(built) == 4


def test_stages_are_there_after_a_launch(built: Counter[str]) -> None:
    a, c = np.ones((8, 16), np.int32), np.zeros((8, 16), np.int32)
    scaled.on("opencl:cpu")[1](a, c, factor=11)
    (compiled,) = scaled.cache.compiled.values()
    assert "modules" not in vars(compiled)
    assert compiled.stages == scaled.lower(a, c, factor=11, target="cpu").stages
