"""Matrix products in machine code, of all types, against sums over the layout of their operands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.codegen.simulator.machine import THREADS, Machine
from tests.codegen.simulator.run_opencl import require_simulator

_STORAGE: dict[str, Any] = {"bf": ml_dtypes.bfloat16, "hf": np.float16, "tf32": np.float32, "b": np.int8,
                            "ub": np.uint8, "f": np.float32, "d": np.int32}
_CASES = [("f", "bf", "bf", 8), ("f", "hf", "hf", 8), ("f", "tf32", "tf32", 8), ("d", "b", "b", 8),
          ("d", "ub", "b", 8), ("d", "b", "ub", 4), ("f", "bf", "bf", 3), ("bf", "bf", "bf", 8), ("hf", "hf", "hf", 1)]


def _fill(machine: Machine, register: int, count: int, kind: str, random: np.random.Generator) -> np.ndarray[Any, Any]:
    """Small whole numbers in ``count`` registers; their values (T, elements)."""
    storage = np.dtype(_STORAGE[kind])
    elements = count * machine.threads.register_bytes // storage.itemsize
    values = random.integers(0 if kind == "ub" else -3, 4, (THREADS, elements)).astype(storage)
    if kind in ("b", "ub"):
        values[:, ::7] = -128 if kind == "b" else 255
    machine.threads.payload(register, count)[...] = values.view(np.uint8).reshape(THREADS, count, -1)
    return values.astype(np.float64)


def _has(target: str, result: str, first: str) -> bool:
    """Whether a GPU has a product: Xe-HPG has no tf32, and sums of floats in f32 only."""
    return target != "dg2" or not (first == "tf32" or result in ("bf", "hf"))


@pytest.mark.parametrize(("result", "second", "first", "repeats", "target"), [
    (*case, target) for case in _CASES for target in ("pvc", "bmg", "dg2") if _has(target, case[0], case[2])])
def test_products(target: str, result: str, second: str, first: str, repeats: int, tmp_path: Path) -> None:
    """C + A B; A begins in the middle of a register where its rows do."""
    require_simulator()
    machine, random = Machine(target, tmp_path), np.random.default_rng(1)
    lanes = machine.threads.register_bytes // 4
    size = np.dtype(_STORAGE[first]).itemsize
    depth = 4 // size
    b = _fill(machine, 16, 8, second, random).reshape(THREADS, 8, lanes, depth)
    a = _fill(machine, 24, 8 if target == "dg2" else 6, first, random)
    c = _fill(machine, 4, 8, result, random)[:, :repeats * lanes].reshape(THREADS, repeats, lanes)
    start = 32 // size if repeats < 8 and target != "dg2" else 0
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
