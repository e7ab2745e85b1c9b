"""Kernels whose accumulators leave no registers are refused before they are built, and no kernel that fits is."""

from __future__ import annotations

import re

import pytest

import xetile as xt
from codegen.opencl import kernel
from codegen.toolchain import ocloc
from tests.conftest import require_ocloc
from tests.kernels import gemm
from xetile.compiler.report.register_check import accumulator_registers

F32 = ("bf16", "bf16", "f32")


def lowered(target: str, types=F32, **constants):
    specs = [xt.Spec((None, None), dtype) for dtype in types]
    return gemm.lower(*specs, target=target, acc=getattr(xt, types[2]), **constants)


@pytest.mark.parametrize(("target", "constants", "message", "hint"), [
    ("pvc", {"BM": 32, "BN": 128}, "BN = 128 gives each subgroup an accumulator of 32x128 f32, which takes 256 "
     "registers, and a thread of pvc has 256", "lower BN to 64"),
    ("bmg", {"BM": 64, "BN": 64}, "accumulator of 64x64 f32", "lower BM to 32"),
    ("dg2", {"BM": 64, "BN": 32}, "BM = 64 gives each subgroup an accumulator of 64x32 f32, which takes 256 registers, "
     "and a thread of dg2 has 256", "lower BM to 32"),
])
def test_what_is_refused(target: str, constants: dict[str, int], message: str, hint: str,
                         monkeypatch: pytest.MonkeyPatch) -> None:
    def built(*_):
        raise AssertionError("a compiler was called")

    monkeypatch.setattr(ocloc, "compile_device", built)
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        lowered(target, **constants).binary()
    assert "for _ in xt.range(0, A.shape[1], BK):" in str(raised.value)
    assert str(raised.value).endswith(f"help: {hint}")


@pytest.mark.parametrize(("types", "constants", "fits"), [
    (F32, {"BM": 48, "BN": 64}, True), (F32, {"BM": 32, "BN": 96}, True), (F32, {"BM": 40, "BN": 64, "BK": 32}, True),
    (("f16", "f16", "f16"), {"BM": 64, "BN": 96}, True), (F32, {"BM": 40, "BN": 96}, False),
])
def test_the_compiler_agrees(types, constants: dict[str, int], fits: bool) -> None:
    require_ocloc()
    low = lowered("pvc", types, **constants)
    assert low.report().spill_size == 0 if fits else low.report().spill_size > 0
    assert (accumulator_registers(low.modules, low.target) <= 224) == fits
    if fits:
        assert low.binary()


def test_small_tiles_take_the_small_mode_and_fit() -> None:
    require_ocloc()
    for target in ("pvc", "bmg"):
        small, large = lowered(target, BM=16, BN=32, BK=32), lowered(target, BM=32, BN=32, BK=32)
        assert (small.emitted.options, large.emitted.options) == ("", kernel.LARGE_GRF)
        for low in (small, large):
            report = low.report()
            assert (report.spill_size, report.private_size) == (0, 0)
