"""Weights of 4 bits that have a sign, or bits that are inverted, which become operand B."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xetile as xt
from benchmarks.trial_kernels.quantized_weights import AWQ, in_columns
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, FEW, Execution
from tests.xetile.lang.matmul.test_dequantized_bytes import packed
from tests.xetile.lang.matmul.test_dequantized_columns import narrowed
from tests.xetile.lang.matmul.test_dequantized_operands import GROUP, MACHINES, ROWS, TYPES, operands

pytestmark = pytest.mark.unoptimised


def of_each(field: Callable[[Any, int], Any]) -> Callable[[Any], list[Any]]:
    return lambda words: [field(words, 4 * number) for number in range(8)]


def signed(word: Any, bit: int) -> Any:
    return ((word >> bit & 15) ^ 8) - 8


SPELLINGS: dict[str, tuple[Callable[[Any], list[Any]], bool]] = {  # of arrays as of tiles, and whether it is fused
    "xor": (of_each(signed), True), "shifts": (of_each(lambda w, bit: (w << 28 - bit) >> 28), True),
    "carries": (of_each(lambda w, bit: ((((w >> bit) ^ 8) & 15) + 0x78 ^ 0x80) << 24 >> 24), True),
    "less": (of_each(lambda w, bit: signed(w, bit) - 3), True),
    "flipped less": (of_each(lambda w, bit: ((w >> bit & 15) ^ 8) - 11), True),
    "inverted": (of_each(lambda w, bit: ~(w >> bit) & 15), True),
    "inverted signs": (of_each(lambda w, bit: ((w ^ 0x55555555) << 28 - bit) >> 28), True),
    "wide": (of_each(lambda w, bit: (w << (27 - bit if bit < 28 else 0)) >> 27), False),
    "narrow": (of_each(lambda w, bit: (w << 28 - bit) >> 29), False),
    "or": (of_each(lambda w, bit: signed(w, bit) | 1), False),
    "carry": (of_each(lambda w, bit: (w >> bit & 15) + 1), True),
    "no sign": (of_each(lambda w, bit: ((w >> bit & 15) ^ 4) - 4), True)}


@xt.kernel
def in_words(A: Any, W: Any, S: Any, Z: Any, C: Any, *, spelling: str, BN: int = 16, rows: bool = False,
             less: bool = True) -> None:
    """Eight rows of B in words: four_bits's order, or with ``rows`` consecutive ones."""
    n, fields = xt.group_id(1) * BN, SPELLINGS[spelling][0]
    m, acc = xt.group_id(0) * 32, xt.zeros((32, BN), xt.f32)
    for k in xt.range(0, A.shape[1], GROUP):
        scale = xt.load_tile(xt.init_tile(S, (k // GROUP, n), (1, BN)))
        zero = xt.load_tile(xt.init_tile(Z, (k // GROUP, n), (1, BN))).to(A.dtype)
        parts = fields(xt.load_tile(xt.init_tile(W, (k // 8, n), (16, BN))))
        if rows:
            parts = [xt.concatenate([part[i:i + 1] for i in range(first, first + 2) for part in parts], 0)
                     for first in range(0, 16, 2)]
        for number, part in enumerate(parts):
            a, weights = xt.load_tile(xt.init_tile(A, (m, k + 16 * number), (32, 16))), part.to(A.dtype)
            acc = xt.tile_mma(a, (weights - zero if less else weights) * scale, acc)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (32, BN)))


FORMS: dict[str, tuple[bool, Any, dict[str, Any]]] = {  # whether zero points are integers, constants
    "no zeros": (False, None, {"less": False}), "floats": (False, None, {}), "bytes": (True, np.uint8, {}),
    "rows": (True, np.int8, {"rows": True}), "rows, floats": (False, None, {"rows": True})}


def rounded(weights: Any, dtype: Any, zeros: Any, scales: Any) -> Any:
    """Weights by NumPy, rounded to the type behind each operation."""
    weights = weights.astype(np.float32).astype(dtype).astype(np.float32)
    weights = (weights - zeros.astype(dtype).astype(np.float32)).astype(dtype).astype(np.float32)
    return (weights * scales.astype(np.float32)).astype(dtype).astype(np.float32)


def check(name: str, spelling: str, form: str, execution: Execution) -> None:
    dtype, columns, (integers, kind, constants) = TYPES[name], 22, FORMS[form]
    words, scales, zeros, _ = operands(dtype, GROUP, columns)
    if integers:
        limits = np.iinfo(kind)
        zeros = np.random.default_rng(8).integers(limits.min, limits.max, zeros.shape, kind, endpoint=True)
    fields = np.stack(SPELLINGS[spelling][0](words.view(np.int32)), 1 if constants.get("rows") else 0)
    subtracted = zeros if constants.get("less", True) else zeros * 0
    weights = rounded(fields.reshape(GROUP, columns), dtype, subtracted, scales)
    c, a = np.full((GROUP, columns), 99, np.float32), np.eye(GROUP, dtype=np.float32)[::-1]
    execution.bind(in_words)[GROUP // 32, 2](a.astype(dtype), words.view(np.int32), scales, zeros, c,
                                             spelling=spelling, **constants)
    np.testing.assert_array_equal(c, weights[::-1])


@pytest.mark.parametrize("execution", [*EXECUTIONS, *MACHINES], ids=str)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", TYPES)
def test_forms(name: str, form: str, execution: Execution) -> None:
    """Weights of both signs, each rounded as it is written, bit for bit."""
    check(name, "xor", form, execution)


@pytest.mark.parametrize("execution", [*FEW, *MACHINES], ids=str)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spellings(spelling: str, execution: Execution) -> None:
    """Signs and inverted bits as any operations say them; what has other bits is computed as it is written."""
    check("f16", spelling, "no zeros", execution)
    matrix, rows = xt.Spec((128, 128), xt.f16), xt.Spec((1, 128), xt.f16)
    lowered = in_words.lower(matrix, xt.Spec((16, 128), xt.i32), rows, rows, xt.Spec((128, 128), xt.f32), target="pvc",
                             spelling=spelling, less=False)
    assert ("xegpu.pack " not in lowered.stages["distribute-lanes"]) == SPELLINGS[spelling][1]


def signed_columns(words: Any, order: tuple[int, ...]) -> Any:
    fields = [signed(words, bit) for bit in order]
    return xt.concatenate([field[:, i:i + 1] for i in range(words.shape[1]) for field in fields], 1)


@pytest.mark.parametrize("execution", [*EXECUTIONS, *MACHINES], ids=str)
@pytest.mark.parametrize("name", TYPES)
def test_columns_in_words(name: str, execution: Execution) -> None:
    """Eight columns in a word, with zero points of both signs."""
    dtype, columns, rng = TYPES[name], 72, np.random.default_rng(3)
    words, zeros = (rng.integers(-1 << 31, 1 << 31, (rows, columns // 8), np.int32) for rows in (ROWS, 1))
    scales = (rng.standard_normal((1, columns)) * 0.37).astype(np.float32).astype(dtype)
    of = [np.stack([signed(part, bit) for bit in AWQ], 2).reshape(-1, columns) for part in (words, zeros)]
    c, a = np.full((ROWS, columns), 99, np.float32), np.eye(ROWS, dtype=np.float32)[::-1]
    constants = narrowed(execution, {"BN": 64})
    grid = ROWS // 32, -(-columns // constants["BN"])
    execution.bind(in_columns)[grid](a.astype(dtype), words, scales, zeros, c, unpack=signed_columns, **constants)
    np.testing.assert_array_equal(c, rounded(of[0], dtype, of[1], scales)[::-1])


@pytest.mark.parametrize("execution", [*EXECUTIONS, *MACHINES], ids=str)
@pytest.mark.parametrize("axis", [-1, -2])
@pytest.mark.parametrize("name", TYPES)
def test_vectors_of_i4(name: str, axis: int, execution: Execution) -> None:
    """Two in a byte along N, and along K."""
    weights = np.random.default_rng(6).integers(-8, 8, (64, 70), np.int8)
    c, a = np.full((64, 70), 99, np.float32), np.eye(64, dtype=np.float32)[::-1].astype(TYPES[name])
    execution.bind(packed)[2](a, xt.pack(weights, xt.i4, axis), c)
    np.testing.assert_array_equal(c[:, :64], (weights[::-1, :64] - np.float32(7.5)) * 0.5)
    layout = (1, None) if axis == -2 else (None, 1)
    lowered = packed.lower(xt.Spec((64, 64), name), xt.Spec((64, 64), xt.i4, layout), xt.Spec((64, 64), xt.f32),
                           target="bmg")
    assert "xegpu.pack " not in lowered.stages["distribute-lanes"]


@pytest.mark.parametrize("target", ["pvc", "bmg"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", TYPES)
def test_instructions(name: str, form: str, target: str) -> None:
    """A sign takes no instructions in f16."""
    require_ocloc()
    _, kind, constants = FORMS[form]
    matrix, rows = xt.Spec((4096, 4096), name), xt.Spec((32, 4096), name)
    zeros = rows if kind is None else xt.Spec(rows.shape, np.dtype(kind).name)
    lowered = in_words.lower(matrix, xt.Spec((512, 4096), xt.i32), rows, zeros, xt.Spec((4096, 4096), xt.f32),
                             target=target, spelling="shifts", BN=64, **constants)
    report = lowered.report(remedies=False)
    assert report.spill_size + report.private_size == 0
    assert report.loop["vector"] / 4 <= (300 if name == "f16" else 480)
