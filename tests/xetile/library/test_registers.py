"""Machine code of the ready kernels where registers are half as long: nothing spills, and the dpas are there."""

from __future__ import annotations

import gc
import re

import pytest

import xetile as xt
from benchmarks.gpu_code.library_spills import kernels
from tests.conftest import THOROUGH, forget_kernels, require_ocloc

SPILLED = (
    ("int4_matmul 32x64 bf16, groups of 32", 16), ("scaled_matmul 128x128 e4m3 x e4m3", 16),
    ("scaled_matmul 64x64 e5m2 x e5m2", 8), ("attention f16, heads of 32", 8), ("sort f16", 0),
    ("softmax of 256 f32", 0), ("norm of 256 f16", 0),
    ("softmax of 250 f16", 0), ("norm of 1023 f16", 0), ("norm of 1024 bf16", 0),
)
"""Kernels that spilled once, and the dpas of their hot loops."""


@pytest.mark.parametrize("target", ["dg2", "arl"])
@pytest.mark.parametrize(("name", "dpas"), SPILLED, ids=lambda value: str(value))
def test_registers_of_32_bytes_hold_what_ready_kernels_need(target: str, name: str, dpas: int) -> None:
    require_ocloc()
    report = dict(kernels(xt.TARGETS[target]))[name]().report(remedies=False)
    assert (report.spill_size, report.private_size, report.mix.whole.categories["scratch"]) == (0, 0, 0)
    assert report.loop.get("dpas", 0) == dpas


def test_rows_of_16_bits_take_a_register_each() -> None:
    """64 rows that are sorted, and as many results of comparisons: half as many bytes would fit 128 registers."""
    require_ocloc()
    report = dict(kernels(xt.TARGETS["pvc"]))["sort f16"]().report(remedies=False)
    assert (report.spill_size, report.private_size, report.registers) == (0, 0, 128)


FAMILIES = (r"matmul \S+ f16", r"matmul \S+ bf16", r"matmul \S+ f32", r"matmul \S+ [iu]8", "split-K", "stream-K",
            "grouped", "int4", "scaled", "attention", "softmax|norm|sum|argmax|cumsum|sort|top_k")
"""Patterns of the names of kernels, parts for processes side by side: the products alone take minutes."""


def test_every_kernel_is_of_one_family() -> None:
    for target in ("dg2", "arl"):
        for name, _ in kernels(xt.TARGETS[target]):
            assert sum(re.match(family, name) is not None for family in FAMILIES) == 1, name


@pytest.mark.everything
@pytest.mark.parametrize("target", ["dg2", "arl"])
@pytest.mark.parametrize("family", FAMILIES)
def test_no_ready_kernel_spills(target: str, family: str) -> None:
    """Each kernel on one of the two, in turn: one compiler allocates the registers of both, which are equally many."""
    require_ocloc()
    every = [(name, lower) for name, lower in kernels(xt.TARGETS[target]) if re.match(family, name)]
    found = every if THOROUGH else every[target == "arl"::2]
    assert found
    for number, (name, lower) in enumerate(found):
        report = lower().report(remedies=False)
        assert (name, report.spill_size, report.private_size) == (name, 0, 0)
        if number % 8 == 7:  # all of a family together are gigabytes
            forget_kernels()
            gc.collect()
