"""Operands of 8 bits that become 16-bit floats before a product: every code, on every execution."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from benchmarks.trial_kernels.converted_operands import converted
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, Array, Execution

pytestmark = pytest.mark.unoptimised

SOURCES = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "i8": np.int8, "u8": np.uint8}
RESULTS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
SIZE = 64


def multiplied(execution: Execution, a: Array, b: Array, to: str, **sizes: int) -> Array:
    c = np.full((a.shape[0], b.shape[1]), 99, np.float32)
    constants = {"BM": 32, "BN": 32, **sizes}
    grid = -(-a.shape[0] // constants["BM"]), -(-b.shape[1] // constants["BN"])
    execution.bind(converted)[grid](a, b, c, to=to, **constants)
    return c


def codes(source: str, seed: int) -> Array:
    """All 256 codes, each 16 times, at random places."""
    shuffled = np.random.default_rng(seed).permutation(np.arange(SIZE * SIZE) % 256)
    return shuffled.astype(np.uint8).reshape(SIZE, SIZE).view(SOURCES[source])


def without_faults(values: Array) -> Array:
    """The same with 1 where there is an infinity or NaN, which zeros of the other operand would spread."""
    return np.where(np.isfinite(values.astype(np.float32)), values, np.ones((), values.dtype))


def unit(dtype: Any) -> Array:
    return np.eye(SIZE, dtype=np.float32).astype(dtype)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("to", RESULTS)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("both", [True, False], ids=["both", "one"])
def test_every_finite_code_is_converted_exactly(both: bool, source: str, to: str, execution: Execution) -> None:
    """Of both operands, or of one whose other operand has the result's type."""
    values = without_faults(codes(source, 0))
    expected, other = values.astype(np.float32), SOURCES[source] if both else RESULTS[to]
    np.testing.assert_array_equal(multiplied(execution, values, unit(other), to), expected)
    np.testing.assert_array_equal(multiplied(execution, unit(other), values, to), expected)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("to", RESULTS)
@pytest.mark.parametrize("source", ["e4m3", "e5m2"])
def test_infinities_and_nan(source: str, to: str, execution: Execution) -> None:
    check_infinities_and_nan(source, to, execution)


@pytest.mark.parametrize("gpu", ["pvc", "bmg"])
def test_every_code_as_machine_code(gpu: str) -> None:
    """Subnormal numbers and both NaNs of e4m3, converted for a product with f16, with bf16, and with e4m3; to f16 as
    operand A of one row, of two and of many, too."""
    execution, values = Execution(f"machine:{gpu}", "pvc"), without_faults(codes("e4m3", 2))
    expected = values.astype(np.float32)
    for to in RESULTS:
        check_infinities_and_nan("e4m3", to, execution)
    for other, to in ((SOURCES["e4m3"], "bf16"), (RESULTS["bf16"], "bf16"), (RESULTS["f16"], "f16")):
        np.testing.assert_array_equal(multiplied(execution, unit(other), values, to), expected)
    for rows in (1, 2, 32):
        result = multiplied(execution, values[:2 * rows], unit(RESULTS["f16"]), "f16", BM=rows)
        np.testing.assert_array_equal(result, expected[:2 * rows])


@pytest.mark.parametrize("gpu", ["pvc", "bmg"])
@pytest.mark.parametrize("source", ["i8", "u8"])
def test_integers_as_machine_code(source: str, gpu: str) -> None:
    """Every code to bf16, as operand B, and as operand A of one row, of two and of many."""
    execution, values, other = Execution(f"machine:{gpu}", gpu), codes(source, 4), ml_dtypes.bfloat16
    expected = values.astype(np.float32)
    np.testing.assert_array_equal(multiplied(execution, unit(other), values, "bf16"), expected)
    for rows in (1, 2, 32):
        result = multiplied(execution, values[:2 * rows], unit(other), "bf16", BM=rows)
        np.testing.assert_array_equal(result, expected[:2 * rows])


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_nan_of_a_product_in_f16(execution: Execution) -> None:
    """Both operands are converted from 8 bits to bf16: their product is one of f16."""
    a, b = (np.random.default_rng(seed).integers(-8, 9, (SIZE, SIZE)).astype(np.float32) for seed in (4, 5))
    a[7, 9] = np.nan
    b[5, 3] = -np.nan
    result = multiplied(execution, a.astype(SOURCES["e4m3"]), b.astype(SOURCES["e4m3"]), "bf16")
    np.testing.assert_array_equal(result, a @ b)


def test_which_products_are_in_f16() -> None:
    """Operands that both come from types whose values are normal numbers of f16."""
    def stages(a: str, b: str, to: str, target: str) -> Any:
        specs = [xt.Spec((SIZE, SIZE), dtype) for dtype in (a, b, "f32")]
        return converted.lower(*specs, target=target, BN=32, to=to).stages

    assert "f16" in stages("e4m3", "u8", "bf16", "pvc")["f16-operands"].split("tile_mma")[1].split("\n")[0]
    for a, b, to, target in (("e4m3", "bf16", "bf16", "pvc"), ("e4m3", "e5m2", "bf16", "bmg"),
                             ("e4m3", "e4m3", "f16", "pvc"), ("i8", "i8", "bf16", "cpu")):
        assert "f16-operands" not in stages(a, b, to, target)


def check_infinities_and_nan(source: str, to: str, execution: Execution) -> None:
    """One in a row of A, or in a column of B: times ones of the other operand, whose sum it decides alone."""
    every = np.arange(256).astype(np.uint8).view(SOURCES[source])
    faults = every[~np.isfinite(every.astype(np.float32))]
    rows = np.ones((32, 32), np.float32).astype(SOURCES[source])
    rows[np.arange(faults.size) * 3 % 32, np.arange(faults.size) * 5 % 32] = faults
    ones = np.ones((32, 32), np.float32).astype(RESULTS[to])
    with np.errstate(invalid="ignore"):
        expected = rows.astype(np.float32) @ ones.astype(np.float32)
    np.testing.assert_array_equal(multiplied(execution, rows, ones, to), expected)
    np.testing.assert_array_equal(multiplied(execution, ones, np.ascontiguousarray(rows.T), to), expected.T)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize(("m", "n", "k", "sizes"), [(37, 45, 77, {}), (33, 70, 96, {"BM": 4, "BN": 64}),
                                                    (9, 40, 130, {"BM": 1}), (70, 64, 64, {"BM": 64, "BK": 64})])
def test_odd_sizes(m: int, n: int, k: int, sizes: dict[str, int], execution: Execution) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-8, 9, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    result = multiplied(execution, a.astype(SOURCES["e4m3"]), b.astype(np.int8), "f16", **sizes)
    np.testing.assert_array_equal(result, a @ b)


def _report(target: str, a: str, b: str, to: str) -> Any:
    left, right = (xt.Spec((4096, 4096), dtype) for dtype in (a, b))
    return converted.lower(left, right, xt.Spec((4096, 4096), "f32"), target=target, BN=64, to=to).report()


@pytest.mark.parametrize("target", ["pvc", "bmg"])
@pytest.mark.parametrize(("a", "b", "to", "most"), [
    ("e4m3", "e4m3", "f16", 450), ("e5m2", "e5m2", "f16", 150), ("f16", "i8", "f16", 150), ("i8", "f16", "f16", 80),
    ("e4m3", "e4m3", "bf16", 390), ("e4m3", "e5m2", "bf16", 420), ("bf16", "e4m3", "bf16", 325),
    ("bf16", "i8", "bf16", 170), ("u8", "bf16", "bf16", 90)])
def test_machine_code(a: str, b: str, to: str, most: int, target: str) -> None:
    """Few instructions a register of 32 elements, and blocks for both operands."""
    require_ocloc()
    report = _report(target, a, b, to)
    assert report.loop["dpas"] == 32
    assert report.loop["vector"] <= most
    assert report.loop["load_block2d"] <= 6
    assert (report.spill_size, report.private_size) == (0, 0)


def test_the_lowered_text_is_read_back() -> None:
    values = without_faults(codes("e4m3", 1))
    specs = [xt.Spec((SIZE, SIZE), "e4m3"), xt.Spec((SIZE, SIZE), "i8"), xt.Spec((SIZE, SIZE), "f32")]
    stage = converted.lower(*specs, target="pvc", BN=32).stages["distribute-lanes"]
    assert stage.count("xegpu.widen") == 8 + 4
    c = np.zeros((SIZE, SIZE), np.float32)
    xt.parse(stage)["converted"].on("numpy")[2, 2](values, unit(np.int8), c)
    np.testing.assert_array_equal(c, values.astype(np.float32))
