"""Weights of 8 bits that become operand B with a scale, or a zero point, for each group of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from benchmarks.trial_kernels.quantized_weights import whole_bytes
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, Array, Execution
from tests.xetile.lang.matmul.test_dequantized_operands import GROUP, MACHINES, ROWS, TILE, TYPES, operands

pytestmark = pytest.mark.unoptimised

FORMS: dict[str, tuple[Any, Any, dict[str, Any]]] = {  # types of weights and zero points, constants
    "i8": (np.int8, None, {"less": False}), "u8": (np.uint8, None, {"less": False}),
    "i8 less floats": (np.int8, None, {}), "u8 less floats": (np.uint8, None, {}),
    "i8 less bytes": (np.int8, np.int8, {}), "u8 less bytes": (np.uint8, np.uint8, {}),
    "u8 less i8": (np.uint8, np.int8, {}), "i8 less u8": (np.int8, np.uint8, {}),
    "i8 less i16": (np.int8, np.int16, {}),
    "no scale": (np.uint8, np.uint8, {"times": False})}


def of_integers(name: str, form: str) -> tuple[list[Array], Array, dict[str, Any]]:
    """Operands, the product with a permutation of rows as rounded as it is written, and constants."""
    dtype, depth, columns, (kind, less, constants) = TYPES[name], 2 * ROWS, 45, FORMS[form]
    _, scales, zeros, _ = operands(dtype, 2 * GROUP, columns)
    rng, group = np.random.default_rng(12), np.arange(depth) // ROWS
    stored = np.resize(np.arange(256, dtype=np.uint8), (depth, columns)).view(kind)
    if less is not None:
        limits = np.iinfo(less)
        zeros = rng.integers(limits.min, limits.max, zeros.shape, less, endpoint=True)
    weights = stored.astype(np.float32)
    if constants.get("less", True):
        zero = zeros.astype(np.float32).astype(dtype)[group].astype(np.float32)
        weights = (weights.astype(dtype).astype(np.float32) - zero).astype(dtype).astype(np.float32)
    if constants.get("times", True):
        weights = (weights.astype(dtype).astype(np.float32) * scales[group].astype(np.float32)).astype(dtype)
    a = np.eye(depth, dtype=np.float32)[rng.permutation(depth)]
    return [a.astype(dtype), stored, scales, zeros], a @ weights.astype(np.float32), constants


@pytest.mark.parametrize("execution", [*EXECUTIONS, *MACHINES], ids=str)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", TYPES)
def test_whole_bytes(name: str, form: str, execution: Execution) -> None:
    """All bytes, each rounded as it is written, bit for bit, with zero points that round and such that do not."""
    arrays, expected, constants = of_integers(name, form)
    c = np.full_like(expected, 99)
    execution.bind(whole_bytes)[expected.shape[0] // 32, 2](*arrays, c, **constants, BN=TILE, group=ROWS)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("target", ["pvc", "bmg"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", TYPES)
def test_instructions_for_whole_bytes(name: str, form: str, target: str) -> None:
    require_ocloc()
    kind, less, constants = FORMS[form]
    matrix, rows = xt.Spec((4096, 4096), name), xt.Spec((32, 4096), name)
    zeros = rows if less is None else xt.Spec(rows.shape, np.dtype(less).name)
    lowered = whole_bytes.lower(matrix, xt.Spec((4096, 4096), np.dtype(kind).name), rows, zeros,
                                xt.Spec((4096, 4096), xt.f32), target=target, **constants)
    report = lowered.report(remedies=False)
    assert "xegpu.pack " not in lowered.stages["distribute-lanes"]
    assert report.spill_size + report.private_size == 0
    # conversions of rows of zero points are among these
    assert report.loop["vector"] * 32 / report.loop["dpas"] <= (290 if name == "f16" else 430)


@pytest.mark.parametrize("form", ["i8 less bytes", "u8 less bytes"])
def test_zero_points_in_the_bias(form: str) -> None:
    """Signed bytes have a bias of their own, to which zero points are added that are integers."""
    arrays, expected, constants = of_integers("f16", form)
    c = np.full_like(expected, 99)
    MACHINES[0].bind(whole_bytes)[expected.shape[0] // 32, 2](*arrays, c, **constants, BN=TILE, group=ROWS)
    np.testing.assert_array_equal(c, expected)
