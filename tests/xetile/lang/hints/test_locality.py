"""``prefetch_tile(locality=...)``: what the XeGPU operations say, what is emitted, and that results stay the same."""

from __future__ import annotations

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, Execution, integers

pytestmark = pytest.mark.unoptimised


@xt.kernel
def copied(A, C, *, locality=3):
    m = xt.group_id(0) * 32
    xt.prefetch_tile(xt.init_tile(A, (m, 0), (32, 32)), locality=locality)
    xt.store_tile(xt.load_tile(xt.init_tile(A, (m, 0), (32, 32))), xt.init_tile(C, (m, 0), (32, 32)))


SPECS = [xt.Spec((None, None), xt.bf16)] * 2
HINTS = {3: ("cached", "cached"), 2: ("uncached", "cached"), 1: ("streaming", "cached")}


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("locality", [0, 1, 2, 3])
def test_no_locality_changes_a_result(locality: int, execution: Execution) -> None:
    a = integers(np.random.default_rng(1), xt.bf16, 70, 40)
    c = np.zeros((70, 32), a.dtype)
    execution.bind(copied)[3](a, c, locality=locality)
    np.testing.assert_array_equal(c, a[:, :32])


@pytest.mark.parametrize("locality", HINTS)
def test_hints_say_where_a_block_is_kept(locality: int) -> None:
    lowered = copied.lower(*SPECS, locality=locality)
    first, last = (f"#xegpu.cache_hint<{hint}>" for hint in HINTS[locality])
    for stage in ("to-xegpu", "distribute-lanes", "legalize"):
        line = next(line for line in lowered.stages[stage].splitlines() if "prefetch_nd" in line)
        assert f"l1_hint = {first}, l3_hint = {last}" in line, stage
        assert str(xt.parse(lowered.stages[stage])) == lowered.stages[stage]
    code = {3: "", 2: ", 2);", 1: ", 6);"}[locality]
    line = next(line for line in lowered.opencl.splitlines() if line.startswith("  ") and "block_prefetch" in line)
    assert code in line
    assert ("__internal" in line) == bool(code)


def test_what_is_kept_nowhere_is_not_prefetched() -> None:
    lowered = copied.lower(*SPECS, locality=0)
    assert "l3_hint = #xegpu.cache_hint<uncached>" in lowered.stages["distribute-lanes"]
    assert "prefetch" not in lowered.xegpu
    assert "prefetch" not in lowered.opencl


@pytest.mark.parametrize(("locality", "count"), [(0, 0), (1, 1), (2, 1), (3, 1)])
def test_there_is_a_prefetch_in_the_machine_code(locality: int, count: int) -> None:
    require_ocloc()
    mix = copied.lower(*SPECS, locality=locality, target="pvc").report().loop
    assert mix.get("prefetch", 0) == count


def test_mistakes() -> None:
    a = np.zeros((32, 32), np.float32)
    for locality in (4, -1, 1.5, "2", None):
        with pytest.raises(xt.ShapeError, match="XT1128"):
            copied[1](a, a, locality=locality)
    text = copied.lower(*SPECS).xegpu
    with pytest.raises(xt.TextError, match="XT3110"):
        xt.parse(text.replace("cache_hint<cached>", "cache_hint<sticky>", 1))
