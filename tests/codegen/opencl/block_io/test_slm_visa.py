"""Inline vISA of shared local memory in machine code: a message takes its address from word 0 of a register."""

from __future__ import annotations

import re
from importlib import import_module

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.conftest import ROOT, require_ocloc
from tests.kernels import gemm_shared
from xetile.compiler.compiled import CompiledKernel

REGISTER_BYTES = 64
BYTES = {"b": 1, "ub": 1, "w": 2, "uw": 2, "hf": 2, "bf": 2, "d": 4, "ud": 4, "f": 4, "q": 8, "uq": 8, "df": 8}
MESSAGE = re.compile(r"send\.slm \(1\|M0\) +r\d+ +r(\d+) .*; load\.slm\.d64x64t\.a32")
WRITTEN = re.compile(r"\((\d+)\|M\d+\) +(?:\(\S+\) +)?r(\d+)\.(\d+)<(\d+)>:(\w+)")


@xt.kernel(subgroups=(4, 1))
def pairs(A, C):
    """Two pairs of subgroups exchange their tiles, each pair at a named barrier of its own."""
    mine, top = xt.subgroup_id(), xt.group_id(0) * 32
    memory, barrier = xt.alloc_slm((32, 16), xt.f32), xt.nbarrier(mine // 2, 2)
    xt.store_tile(xt.load_tile(xt.init_tile(A, (top + mine * 8, 0), (8, 16))),
                  xt.init_tile(memory, (mine * 8, 0), (8, 16)))
    barrier.arrive()
    barrier.wait()
    other = mine + 1 - 2 * (mine % 2)
    xt.store_tile(xt.load_tile(xt.init_tile(memory, (other * 8, 0), (8, 16))),
                  xt.init_tile(C, (top + mine * 8, 0), (8, 16)))


FREE = (None, None)
COOPERATIVE = {"BM": 128, "BN": 128, "BK": 32, "sg": (4, 4), "data_a": (32, 32), "data_b": (32, 32), "data_c": (32, 32)}


def misread(asm: str) -> tuple[int, list[str]]:
    """The number of the messages, and those whose register was written last elsewhere than in word 0.

    A scalar that lies in another word of the register may be live there; but then the last write before the message is
    still the address, which nothing but the message reads.
    """
    lines, found, wrong = asm.splitlines(), 0, []
    for position, line in enumerate(lines):
        if match := MESSAGE.search(line):
            found += 1
            begin = int(match[1]) * REGISTER_BYTES
            start, end = next(filter(lambda span: span[0] < begin + REGISTER_BYTES and span[1] > begin,
                                     map(written, reversed(lines[:position]))))
            if not start <= begin < begin + 4 <= end:
                wrong.append(line)
    return found, wrong


def written(line: str) -> tuple[int, int]:
    """The first byte that an instruction writes in the register file, and the one behind its last."""
    match = WRITTEN.search(line)
    if match is None or "send" in line:
        return 0, 0
    lanes, register, element, stride, size = *map(int, match.groups()[:4]), BYTES[match[5]]
    start = register * REGISTER_BYTES + element * size
    return start, start + ((lanes - 1) * stride + 1) * size


def check(lowered: CompiledKernel) -> None:
    found, wrong = misread(str(lowered.isa()))
    assert found > 0
    assert wrong == []


@pytest.mark.parametrize("target", ["pvc", "bmg"])
@pytest.mark.parametrize("sizes", [(512, 512, 512), (70, 51, 45)], ids=["blocks", "elements"])
def test_a_ring_of_buffers(monkeypatch: pytest.MonkeyPatch, target: str, sizes: tuple[int, int, int]) -> None:
    """Loaded by block messages, and element by element where the pitch of the arrays is off their rules."""
    require_ocloc()
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    example = import_module("gemm_slm")
    m, n, k = sizes
    specs = xt.Spec((m, k), xt.bf16), xt.Spec((k, n), xt.bf16), xt.Spec((m, n), xt.f32)
    check(example.gemm_slm.lower(*specs, target=target, **example.constants(target)))


@pytest.mark.parametrize("target", ["pvc", "bmg"])
@pytest.mark.parametrize("types", [("bf16", "bf16", "f32"), ("i8", "i8", "i32")], ids=lambda types: types[0])
def test_cooperative_loads(target: str, types: tuple[str, ...]) -> None:
    require_ocloc()
    by_columns = xt.Spec(FREE, types[0], (1, None))
    specs = by_columns, *(xt.Spec(FREE, dtype) for dtype in types[1:])
    check(gemm_shared.lower(*specs, target=target, acc=getattr(xt, types[2]), **COOPERATIVE))


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_an_exchange(target: str) -> None:
    require_ocloc()
    check(pairs.lower(xt.Spec(FREE, xt.f32), xt.Spec(FREE, xt.f32), target=target))


@xt.kernel
def halves_side_by_side(A, B, C):
    """Product of 16 rows by 32 columns, whose B lies in halves, the second one from the middle of a panel on."""
    shared, half, acc = xt.alloc_slm((32, 80), B.dtype), xt.scalar(0, xt.index), xt.zeros((16, 32), xt.f32)
    for k in xt.range(0, A.shape[1], 32):
        for column in range(0, 32, 8):
            part = xt.load_tile(xt.init_tile(B, (k, column), (32, 8), inner_blocks=(32, 8)))
            xt.store_tile(part, xt.init_tile(shared, (0, half + column), (32, 8), inner_blocks=(32, 8)))
        xt.barrier()
        b = xt.load_tile(xt.init_tile(shared, (0, half), (32, 32)))
        acc = xt.tile_mma(xt.load_tile(xt.init_tile(A, (0, k), (16, 32))), b, acc)
        half = 40 - half
    xt.store_tile(acc, xt.init_tile(C, (0, 0), (16, 32)))


def test_addresses_do_not_flip_to_the_middle_of_a_panel():
    """Equal distances in columns are different ones in bytes in a panel; the text promises that halves are inside."""
    require_ocloc()
    a, b = (np.random.default_rng(1).integers(-4, 5, shape).astype(ml_dtypes.bfloat16)
            for shape in ((16, 96), (96, 33)))
    specs = xt.Spec((16, 96), "bf16"), xt.Spec((96, 32), "bf16", (33, 1)), xt.Spec((16, 32), "f32")
    text = halves_side_by_side.lower(*specs, target="pvc").stages["distribute-lanes"]
    kernel = xt.parse(text.replace("memory_scope = slm", "memory_scope = slm, boundary_check = false"))
    c = np.full((16, 32), 7, np.float32)
    kernel["halves_side_by_side"].on("machine:pvc")[1](a, b[:, :32], c)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b[:, :32].astype(np.float32))
