"""Weights of 4 bits, eight columns of a row in a word, in the orders and by the operations that users write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from benchmarks.trial_kernels.quantized_weights import AWQ, in_columns
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, NUMPY, Array, Execution
from tests.xetile.lang.matmul.test_dequantized_operands import MACHINES, ROWS, TYPES
from xegpu.target.targets import find_target

pytestmark = pytest.mark.unoptimised

ORDERS = {"AWQ": AWQ, "in order": tuple(range(0, 32, 4)), "mixed": (28, 0, 8, 4, 24, 20, 12, 16)}


def by_reshape(words: Any, order: tuple[int, ...]) -> Any:
    """Each word a row, shifted by a row of numbers."""
    rows, columns = words.shape
    column = xt.iota((1, 8), 1, words.dtype)
    shifts = column * 4 if order == ORDERS["in order"] else (column & 1) * 16 + (column >> 1) * 4
    return xt.reshape((xt.reshape(words, (rows * columns, 1)) >> shifts) & 15, (rows, 8 * columns))


def by_repetition(words: Any, order: tuple[int, ...]) -> Any:
    """Each word eight times, shifted by numbers computed of the column."""
    count = 8 * words.shape[1]
    column = xt.iota((1, count), 1, words.dtype)
    shifts = (column & 7) * 4 if order == ORDERS["in order"] else (column & 1) * 16 + ((column & 7) >> 1) * 4
    return (xt.concatenate([words[:, i // 8:i // 8 + 1] for i in range(count)], 1) >> shifts) & 15


def side_by_side(words: Any, order: tuple[int, ...]) -> Any:
    """Columns in another order, eight of one field behind eight of the one before."""
    return xt.concatenate([(words >> shift) & 15 for shift in order], 1)


FORMS: dict[str, tuple[Callable[..., Any] | None, Any, str, dict[str, Any]]] = {  # function, words, order, constants
    "AWQ": (None, np.uint32, "AWQ", {}), "signed": (None, np.int32, "AWQ", {}), "mixed": (None, np.int32, "mixed", {}),
    "no zeros": (None, np.uint32, "in order", {"less": False}),
    "reshape": (by_reshape, np.uint32, "in order", {}), "reshape AWQ": (by_reshape, np.int32, "AWQ", {}),
    "repetition": (by_repetition, np.uint32, "AWQ", {}), "narrow": (None, np.uint32, "AWQ", {"BN": 16}),
    "wide": (None, np.uint32, "AWQ", {"BN": 128, "BM": 16}),
    "side by side": (side_by_side, np.uint32, "in order", {}),
    "late": (None, np.uint32, "AWQ", {"late": True})}


def narrowed(execution: Execution, constants: dict[str, Any]) -> dict[str, Any]:
    """Groups of two steps; fewer columns where the target moves each over lanes: 64 are a megabyte, built in 15 s."""
    constants = {**constants, "group": ROWS}
    if find_target(execution.target).block_io or constants.get("unpack") is side_by_side:
        return constants
    return {**constants, "BN": 32 if constants.get("BN", 64) > 64 else 16}


def operands(name: str, form: str) -> tuple[list[Array], Array, dict[str, Any]]:
    """Operands, the product with a permutation of rows as rounded as it is written, and constants."""
    dtype, depth, columns, (unpack, kind, order, constants) = TYPES[name], 2 * ROWS, 160, FORMS[form]
    if unpack is side_by_side:
        columns = 128
    rng, group = np.random.default_rng(7), np.arange(depth) // ROWS
    stored = [rng.integers(0, 1 << 32, (rows, columns // 8), np.uint32) for rows in (depth, depth // ROWS)]
    shifts = np.array(ORDERS[order], np.uint32)
    weights, zeros = ((words[..., None] >> shifts & 15).astype(np.float32) for words in stored)
    if unpack is side_by_side:  # of the eight words of a tile
        weights, zeros = (each.reshape(len(each), -1, 8, 8).swapaxes(2, 3) for each in (weights, zeros))
    weights, zeros = (each.reshape(len(each), columns) for each in (weights, zeros))
    scales = (rng.standard_normal((depth // ROWS, columns)) * 0.37).astype(np.float32).astype(dtype)
    if constants.get("less", True):
        weights = weights - zeros[group]
    weights = (weights * scales[group].astype(np.float32)).astype(dtype).astype(np.float32)
    a = np.eye(depth, dtype=np.float32)[rng.permutation(depth)]
    if unpack is not None:
        constants = {**constants, "unpack": unpack}
    words, packed_zeros = (each.view(kind) for each in stored)
    return [a.astype(dtype), words, scales, packed_zeros], a @ weights, {**constants, "order": ORDERS[order]}


@pytest.mark.parametrize("execution", [*EXECUTIONS, *MACHINES], ids=str)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", TYPES)
def test_columns_of_a_word(name: str, form: str, execution: Execution) -> None:
    """Each weight is rounded as it is written, bit for bit, whatever the order of columns and the sign of the word."""
    arrays, expected, constants = operands(name, form)
    constants = narrowed(execution, constants)
    c = np.full_like(expected, 99)
    grid = -(-expected.shape[0] // constants.get("BM", 32)), -(-expected.shape[1] // constants.get("BN", 64))
    execution.bind(in_columns)[grid](*arrays, c, **constants)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("target", ["pvc", "bmg"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", TYPES)
def test_instructions_for_columns_of_a_word(name: str, form: str, target: str) -> None:
    """No element moves between lanes, as instructions read words where they lie."""
    require_ocloc()
    unpack, kind, order, constants = FORMS[form]
    constants = constants if unpack is None else {**constants, "unpack": unpack}
    lowered = in_columns.lower(*(xt.Spec(shape, dtype) for shape, dtype in (
        ((4096, 4096), name), ((4096, 512), np.dtype(kind).name), ((32, 4096), name), ((32, 512), np.dtype(kind).name),
        ((4096, 4096), xt.f32))), target=target, order=ORDERS[order], **constants)
    lanes, report = lowered.stages["distribute-lanes"], lowered.report(remedies=False)
    assert "xegpu.pack " not in lanes
    assert report.spill_size + report.private_size == 0
    weights = report.loop["dpas"] / constants.get("BM", 32)  # of 2048
    # rows of two words are loaded without messages; zero points of two fields a block are put together of them
    most = {"narrow": 850, "side by side": 430}.get(form, 260 if name == "f16" else 430)
    assert report.loop["vector"] / weights <= most


@xt.kernel
def scaled_rows(A: Any, W: Any, S: Any, C: Any) -> None:
    """A scale for each row of B."""
    m, acc = xt.group_id(0) * 32, xt.zeros((32, 64), xt.f32)
    for k in xt.range(0, A.shape[1], 32):
        words, scale = xt.load_tile(xt.init_tile(W, (k // 2, 0), (16, 64))), xt.init_tile(S, (k, 0), (16, 1))
        for number in range(2):
            a = xt.load_tile(xt.init_tile(A, (m, k + 16 * number), (32, 16)))
            rows = xt.load_tile(xt.update_tile_offset(scale, 16 * number, 0))
            acc = xt.tile_mma(a, ((words >> (4 * number)) & 15).to(A.dtype) * rows, acc)
    xt.store_tile(acc, xt.init_tile(C, (m, 0), (32, 64)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_scales_of_rows(execution: Execution) -> None:
    """A column of scales is not taken for a row."""
    rng = np.random.default_rng(8)
    stored, scales = rng.integers(0, 256, (32, 64), np.uint8), rng.integers(-9, 9, (64, 1)).astype(np.float16)
    fields = np.stack([stored.reshape(2, 16, 64) & 15, stored.reshape(2, 16, 64) >> 4], 1).reshape(64, 64)
    c = np.full((64, 64), 99, np.float32)
    execution.bind(scaled_rows)[2](np.eye(64, dtype=np.float16), stored, scales, c)
    np.testing.assert_array_equal(c, fields * scales.astype(np.float32))


@pytest.mark.parametrize("execution", [NUMPY, *MACHINES], ids=str)
def test_zero_points_in_words_of_bf16(execution: Execution) -> None:
    """Zero points in words, as AWQ stores them: integers from 0 to 15, subtracted as f32."""
    rng = np.random.default_rng(8)
    weights, zeros = (rng.integers(0, 16, (rows, 64)) for rows in (128, 1))
    w, z = ((each.reshape(-1, 8, 8) << np.array(AWQ)).sum(2).astype(np.uint32).view(np.int32)
            for each in (weights, zeros))
    scales, a = (rng.integers(1, high, size).astype(ml_dtypes.bfloat16)
                 for high, size in ((4, (1, 64)), (3, (32, 128))))
    c = np.zeros((32, 64), np.float32)
    execution.bind(in_columns)[1](a, w, scales, z, c)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ ((weights - zeros) * scales.astype(np.float32)))
