"""A new target is one record: an invented one is lowered for, run, chosen tiles for, found by its ids and compiled."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import xetile as xt
from benchmarks.kernels import work_group_gemm
from codegen.runtime.devices import gpu_target
from codegen.toolchain.ocloc import compile_device
from tests.conftest import require_device, require_ocloc, require_simulator
from xegpu.support.errors import TargetError
from xegpu.target.machine_model import MachineModel
from xegpu.target.targets import TARGETS, Target
from xetile.library.tile_heuristics import plans

NAME = "tst"
CORES = 20 * 3
SPECS = [xt.Spec((None, None), dtype) for dtype in ("bf16", "bf16", "f32")]
TILE = {"BM": 32, "BN": 32, "sg": (2, 2)}


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    """Nothing but the record: as bmg, with less shared memory, other sizes of A, and numbers and names of its own."""
    record = replace(TARGETS["bmg"], name=NAME, description="Test device", slm_bytes=1 << 14, repeat_counts=(4, 2, 1),
                     device_ids=((0x10, 0x1F),), device_name=r"Test \d+ Graphics", cores=CORES)
    monkeypatch.setitem(TARGETS, NAME, record)
    return record


def lowered(target: str | Target):
    return work_group_gemm.lower(*SPECS, **TILE, target=target)


def test_it_is_lowered_for_and_emitted(target: Target) -> None:
    low = lowered(target=NAME)
    assert low.target == target
    assert "intel_sub_group_2d_block_read_16b" in low.opencl
    assert set(re.findall(r"xegpu\.dpas.*: vector<(\d+)x", low.stages["to-xegpu"])) == {"4"}


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu", "opencl:cpu", f"machine:{NAME}"])
def test_it_runs(target: Target, where: str) -> None:
    if where == "opencl:cpu":
        require_device()
    if where.startswith("machine:"):
        require_simulator()
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-3, 4, shape).astype(xt.bf16.numpy) for shape in ((50, 70), (70, 40)))
    c = np.full((50, 40), 77, np.float32)
    work_group_gemm.on(where, target=None if where.startswith("machine:") else NAME)[2, 2](a, b, c, **TILE)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


def test_it_is_found_by_its_ids_and_names(target: Target) -> None:
    assert gpu_target(0x1F, "unheard of") == gpu_target(None, "Intel Test 7 Graphics") == NAME
    with pytest.raises(TargetError, match="XT5104"):
        compile_device("kernel void f() {}", "cpu")


def test_its_tiles_are_chosen_for_its_cores(target: Target) -> None:
    size = (CORES * 256, 256, 4096)
    assert min(plans(*size, 1, xt.bf16, target), key=lambda plan: plan.clocks).groups % CORES == 0


def test_it_is_compiled_and_reported(target: Target) -> None:
    require_ocloc()
    low = lowered(target=NAME)
    report = low.report()
    assert report.loop["dpas"] > 0
    assert report.target == target
    machine = MachineModel("one", "One", NAME, CORES, 2.0, 8, (8, 4), 16, 1 << 24, 1e11)
    assert NAME in str(report)
    assert report.predict((4096, 4096, 4096), machine=machine).time > 0


def test_a_record_with_the_name_of_another_is_a_target_of_its_own() -> None:
    """Each target gets code for its own block shapes, whichever was lowered first."""
    plain = lowered(target="bmg")
    small = replace(TARGETS["bmg"], blocks=frozenset(block for block in TARGETS["bmg"].blocks if block.rows <= 16))
    assert "32r16x" in plain.opencl
    assert "32r16x" not in lowered(target=small).opencl
    assert "32r16x" in lowered(target="bmg").opencl
