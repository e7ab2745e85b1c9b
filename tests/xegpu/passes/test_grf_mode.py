"""The choice of 128 or 256 registers a thread, as an attribute of the kernel."""

from __future__ import annotations

import pytest

import xetile as xt
from tests.xegpu.passes.test_loop_stages import SPECS, prefetched
from xegpu.target.grf_mode import requested_registers
from xetile.dialect.stage import only_function


@pytest.mark.parametrize(("target", "tile", "unroll", "expected"), [
    ("pvc", (32, 64), 1, 256),  # A and B take 48 registers, the sums 128
    ("pvc", (16, 32), 1, None),
    ("pvc", (16, 32), 8, None),  # eight steps in a body are not alive at once
    ("dg2", (16, 32), 1, 256),  # addresses of reads by rows
    ("dg2", (8, 16), 1, None),
    ("cpu", (32, 64), 1, None),
])
def test_the_larger_mode_is_noted(target: str, tile: tuple[int, int], unroll: int, expected: int | None) -> None:
    lowered = prefetched.lower(*SPECS, target=target, BM=tile[0], BN=tile[1], unroll=unroll)
    assert requested_registers(only_function(lowered.final)) == expected
    assert ("grf-mode" in lowered.stages) == (expected is not None)
    again = xt.parse(lowered.stages[[*lowered.stages][-1]])["prefetched"].lower(*SPECS, target=target)
    assert again.emitted.options == lowered.emitted.options


@pytest.mark.parametrize("registers", [128, 256])
def test_the_author_decides(registers: int) -> None:
    @xt.kernel(registers=registers)
    def copied(A, C):
        xt.store_tile(xt.load_tile(xt.init_tile(A, (0, 0), (32, 64))), xt.init_tile(C, (0, 0), (32, 64)))

    matrix = xt.Spec((None, None), "f32")
    lowered = copied.lower(matrix, matrix, target="pvc")
    assert requested_registers(only_function(lowered.final)) == registers
    assert "grf-mode" not in lowered.stages
    assert bool(lowered.emitted.options) == (registers == 256)
