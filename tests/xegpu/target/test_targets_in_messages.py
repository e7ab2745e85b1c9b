"""Hints that name the devices which have something: all of them, as the records say."""

from __future__ import annotations

import re
import subprocess

import pytest

import xetile as xt
from codegen.runtime.devices import gpu_target
from tests.conftest import require_mlir_opt
from xegpu.target.targets import TARGETS, Target


def names(text: str) -> set[str]:
    return set(re.findall(r"\w+", text)) & TARGETS.keys()


@xt.kernel(subgroups=(4, 1))
def named_barriers(C, *, crowded=False):
    mine, barrier = xt.subgroup_id(), xt.nbarrier(0, 4 if crowded else 2)
    if crowded:
        barrier.arrive()
        xt.barrier()
        barrier.wait()
    else:
        with xt.when(mine < 2):
            barrier.arrive()
            barrier.wait()
    xt.store_tile(xt.zeros((8, 16), xt.f32), xt.init_tile(C, (mine * 8, 0), (8, 16)))


@xt.kernel
def product(A, B, C):
    acc = xt.zeros((8, 16), xt.f32)
    for k in xt.range(0, 64, 16):
        a, b = xt.init_tile(A, (0, k), (8, 16)), xt.init_tile(B, (k, 0), (16, 16))
        acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
    xt.store_tile(acc, xt.init_tile(C, (0, 0), (8, 16)))


SPECS = [xt.Spec((64, 64), dtype) for dtype in ("bf16", "bf16", "f32")]
UNKNOWN_TO_LLVM = [target for target in TARGETS.values() if target.block_io and not target.llvm_chip]
BY_LLVM = [target for target in TARGETS.values() if target.llvm_chip]


@pytest.mark.parametrize("crowded", [False, True])
def test_named_barriers(crowded: bool) -> None:
    """The hint names every target on which the kernel is lowered, and no other."""
    lowered, hints = set(), []
    for name in TARGETS:
        low = named_barriers.lower(xt.Spec((32, 16), "f32"), target=name, crowded=crowded)
        try:
            assert low.opencl
            lowered.add(name)
        except xt.TargetError as error:
            hints.append(error.hint)
    assert lowered >= {"pvc", "bmg", "lnl", "ptl", "cri"}
    assert len(hints) == len(TARGETS) - len(lowered)
    for hint in hints:
        assert names(hint) == lowered


def test_targets_of_the_exporter() -> None:
    exported, hints = set(), []
    for name in TARGETS:
        for form in ("xegpu_upstream", "xegpu_upstream_workgroup"):
            low = product.lower(*SPECS, target=name)
            try:
                assert getattr(low, form)
                exported.add(name)
            except xt.TargetError as error:
                hints += [error.hint] if error.code == "XT3657" else []
    assert exported == {target.name for target in BY_LLVM}
    assert hints
    for hint in hints:
        assert names(hint) == exported


@pytest.mark.parametrize("target", BY_LLVM, ids=lambda target: target.name)
def test_what_llvm_lowers_the_exporter_takes(target: Target) -> None:
    assert not lowered_by_llvm(product.lower(*SPECS, target=target).xegpu_upstream, str(target.llvm_chip))


@pytest.mark.parametrize("target", UNKNOWN_TO_LLVM, ids=lambda target: target.name)
def test_what_the_exporter_refuses_llvm_does_not_lower(target: Target) -> None:
    text = product.lower(*SPECS, target=BY_LLVM[0]).xegpu_upstream
    assert "error" in lowered_by_llvm(text, target.name)


def lowered_by_llvm(text: str, chip: str) -> str:
    """Diagnostics of LLVM's lowering."""
    pipeline = f"--gpu-lower-to-xevm-pipeline=xegpu-op-level=subgroup zebin-chip={chip} binary-format=isa"
    done = subprocess.run([require_mlir_opt(), pipeline], input=text, capture_output=True, text=True, timeout=100)
    return done.stderr or ("" if done.returncode == 0 else "error")


def test_a_device_in_no_table() -> None:
    with pytest.raises(xt.DeviceError) as caught:
        gpu_target(0x1234, "Some GPU")
    assert names(caught.value.hint) == {target.name for target in TARGETS.values() if target.ocloc}
