"""Matrix products in machine code, of all types, against sums over the layout of their operands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from codegen.simulator.alu.execution import UnknownInstruction
from tests.codegen.simulator.machine import THREADS, Machine
from tests.codegen.simulator.run_opencl import SIMD, TARGETS, run_opencl
from tests.conftest import require_simulator

_STORAGE: dict[str, Any] = {"bf": ml_dtypes.bfloat16, "hf": np.float16, "tf32": np.float32, "b": np.int8,
                            "ub": np.uint8, "f": np.float32, "d": np.int32, "bf8": ml_dtypes.float8_e5m2}
_FOUR_BITS = ("s4", "u4")
_CASES = [("f", "bf", "bf", 8), ("f", "hf", "hf", 8), ("f", "tf32", "tf32", 8), ("d", "b", "b", 8),
          ("d", "ub", "b", 8), ("d", "b", "ub", 4), ("f", "bf", "bf", 3), ("bf", "bf", "bf", 8), ("hf", "hf", "hf", 1),
          ("f", "bf8", "bf8", 8), ("d", "s4", "s4", 8), ("d", "u4", "s4", 8), ("d", "s4", "u4", 3),
          ("d", "u4", "u4", 1)]


def _fill(machine: Machine, register: int, count: int, kind: str, random: np.random.Generator) -> np.ndarray[Any, Any]:
    """Small whole numbers in ``count`` registers; their values (T, elements)."""
    if kind in _FOUR_BITS:
        return _fill_nibbles(machine, register, count, kind, random)
    storage = np.dtype(_STORAGE[kind])
    elements = count * machine.threads.register_bytes // storage.itemsize
    values = random.integers(0 if kind == "ub" else -3, 4, (THREADS, elements)).astype(storage)
    if kind in ("b", "ub"):
        values[:, ::7] = -128 if kind == "b" else 255
    machine.threads.payload(register, count)[...] = values.view(np.uint8).reshape(THREADS, count, -1)
    return values.astype(np.float64)


def _fill_nibbles(machine: Machine, register: int, count: int, kind: str,
                  random: np.random.Generator) -> np.ndarray[Any, Any]:
    """All numbers of 4 bits, of which the lower half of a byte comes first."""
    values = random.integers(*((-8, 8) if kind == "s4" else (0, 16)),
                             (THREADS, count, machine.threads.register_bytes, 2))
    machine.threads.payload(register, count)[...] = values[..., 0] % 16 + 16 * (values[..., 1] % 16)
    return values.reshape(THREADS, -1).astype(np.float64)


def _has(target: str, result: str, first: str) -> bool:
    """Whether a GPU has a product: Xe-HPG has no tf32, no 8-bit floats, and sums of floats in f32 only."""
    return target != "dg2" or not (first in ("tf32", "bf8") or result in ("bf", "hf"))


@pytest.mark.parametrize(("result", "second", "first", "repeats", "target"), [
    (*case, target) for case in _CASES for target in ("pvc", "bmg", "dg2") if _has(target, case[0], case[2])])
def test_products(target: str, result: str, second: str, first: str, repeats: int, tmp_path: Path) -> None:
    """C + A B; A begins in the middle of a register where its rows do."""
    require_simulator()
    machine, random = Machine(target, tmp_path), np.random.default_rng(1)
    lanes = machine.threads.register_bytes // 4
    bits = 4 if first in _FOUR_BITS else 8 * np.dtype(_STORAGE[first]).itemsize
    depth = 32 // bits
    b = _fill(machine, 16, 8, second, random).reshape(THREADS, 8, lanes, depth)
    a = _fill(machine, 24, 8 if target == "dg2" else 6, first, random)
    c = _fill(machine, 4, 8, result, random)[:, :repeats * lanes].reshape(THREADS, repeats, lanes)
    start = 256 // bits if repeats < 8 and target != "dg2" else 0
    rows = a[:, start:start + repeats * 8 * depth].reshape(THREADS, repeats, 8, depth)
    expected = c + np.einsum("trsk,tsnk->trn", rows, b)
    after = machine.run(f"(W) dpas.8x{repeats} ({lanes}|M0) r4:{result} r4:{result} r16:{second} r24.{start}:{first}\n")
    begin = 4 * machine.threads.register_bytes
    storage = np.dtype(_STORAGE[result])
    found = after[:, begin:begin + repeats * lanes * storage.itemsize].copy().view(storage)
    np.testing.assert_array_equal(found.reshape(expected.shape), expected.astype(storage))


def test_a_product_without_an_addend_starts_at_zero(tmp_path: Path) -> None:
    require_simulator()
    machine, random = Machine("pvc", tmp_path), np.random.default_rng(2)
    b = _fill(machine, 16, 8, "bf", random).reshape(THREADS, 8, 16, 2)
    a = _fill(machine, 24, 4, "bf", random).reshape(THREADS, 8, 8, 2)
    after = machine.run("(W) dpas.8x8 (16|M0) r4:f null:f r16:bf r24.0:bf\n")
    found = after[:, 4 * 64:12 * 64].copy().view(np.float32).reshape(THREADS, 8, 16)
    np.testing.assert_array_equal(found, np.einsum("trsk,tsnk->trn", a, b))


@pytest.mark.parametrize("idle", [4, 16])
def test_an_idle_product_leaves_its_destination(idle: int, tmp_path: Path) -> None:
    """Before a chain the compiler puts a product of a register with itself for dg2, and adds to what was there."""
    require_simulator()
    machine, random = Machine("dg2", tmp_path), np.random.default_rng(3)
    c = _fill(machine, 4, 8, "f", random).reshape(THREADS, 8, 8)
    b = _fill(machine, 16, 8, "bf", random).reshape(THREADS, 8, 8, 2)
    a = _fill(machine, 24, 8, "bf", random).reshape(THREADS, 8, 8, 2)
    after = machine.run(f"(W) dpas.8x8 (8|M0) r4:f null:f r{idle}:bf r{idle}.0:bf {{Atomic}}\n"
                        "(W) dpas.8x8 (8|M0) r4:f r4:f r16:bf r24.0:bf\n")
    found = after[:, 4 * 32:12 * 32].copy().view(np.float32).reshape(THREADS, 8, 8)
    np.testing.assert_array_equal(found, c + np.einsum("trsk,tsnk->trn", a, b))


_INT4 = """
SIMD __attribute__((reqd_work_group_size(LANES, 1, 1)))
kernel void multiplied(global PART *a, global int *b, global int *c) {
  int lane = get_sub_group_local_id();
  VEC(PART) rows; int8 columns, sum;
  for (int i = 0; i < 8; i++) { rows[i] = a[i * LANES + lane]; columns[i] = b[i * LANES + lane];
                                sum[i] = c[i * LANES + lane]; }
  sum = intel_sub_group_FIRST_SECOND_matrix_mad_k64(AS(rows), BS(columns), sum);
  for (int i = 0; i < 8; i++) c[i * LANES + lane] = sum[i];
}
"""


@pytest.mark.parametrize(("first", "second"), [("i4", "i4"), ("u4", "i4"), ("i4", "u4"), ("u4", "u4")])
@pytest.mark.parametrize("target", TARGETS)
def test_int4_builtins(target: str, first: str, second: str) -> None:
    """Layout by the compiler: element k of a row of A, and rows 8s to 8s + 7 of B in word s of a lane."""
    lanes, part = SIMD[target], {16: "short", 8: "int"}[SIMD[target]]
    words = {"LANES": str(lanes), "FIRST": first, "SECOND": second, "VEC(PART)": f"{part}8", "PART": part,
             "AS": f"as_{'u' if first == 'u4' else ''}{part}8", "BS": f"as_{'u' if second == 'u4' else ''}int8"}
    text = _INT4
    for word, replacement in words.items():
        text = text.replace(word, replacement)
    random = np.random.default_rng(5)
    a, b = random.integers(0, 16, (8, 64)), random.integers(0, 16, (64, lanes))
    c = random.integers(-1000, 1000, (8, lanes)).astype(np.int32)
    by_lane = b.reshape(8, 8, lanes).transpose(0, 2, 1)  # (word, lane, element)
    packed = [(each[..., 0::2] + 16 * each[..., 1::2]).astype(np.uint8) for each in (a, by_lane)]
    left, right = (np.where(each > 7, each - 16, each) if kind == "i4" else each
                   for each, kind in ((a, first), (b, second)))
    expected = c + left @ right
    run_opencl(text, "multiplied", target, packed[0], packed[1], c, items=lanes, group=lanes)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize(("instruction", "part"), [
    ("dpasw.8x8 (8|M0) r4:f r4:f r16:bf r24.0:bf", "pairs are not modelled"),
    ("dpas.8x8 (8|M0) r4:d r4:d r16:s4 r24.0:b", "of b and s4"),
    ("dpas.8x8 (8|M0) r4:d r4:d r16:s2 r24.0:s2", "of s2 and s2"),
])
def test_other_products_are_refused(instruction: str, part: str, tmp_path: Path) -> None:
    require_simulator()
    with pytest.raises(UnknownInstruction, match=part):
        Machine("dg2", tmp_path).run(f"(W) {instruction}\n")
