"""Weights of 4 bits in bytes that become operand B, and integers that are subtracted before they are converted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, FEW, Array, Execution
from tests.xetile.lang.matmul.test_dequantized_operands import GROUP, MACHINES, TILE, TYPES, operands

pytestmark = pytest.mark.unoptimised


@xt.kernel
def in_bytes(A: Any, W: Any, S: Any, Z: Any, C: Any, *, step: int = 64, rows: bool = False,
             minus: int | None = None, less: bool = True, BN: int = 64) -> None:
    """Bits 0 and 4 of a byte are weights of two halves of a step (HQQ), or with ``rows`` of two neighbouring rows."""
    m, n = xt.group_id(0) * 32, xt.group_id(1) * BN
    acc = xt.zeros((32, BN), xt.f32)
    for k in xt.range(0, A.shape[1], step):
        scale = xt.load_tile(xt.init_tile(S, (k // GROUP, n), (1, BN)))
        zero = xt.load_tile(xt.init_tile(Z, (k // GROUP, n), (1, BN)))
        stored = xt.load_tile(xt.init_tile(W, (k // 2, n), (step // 2, BN)))
        fields = [stored & 15, (stored >> 4) & 15]
        if rows:
            fields = [xt.concatenate([field[i:i + 1] for i in range(step // 2) for field in fields], 0)]
        for number, field in enumerate(fields):
            a = xt.load_tile(xt.init_tile(A, (m, k + number * step // 2), (32, step // len(fields))))
            weights = (field.to(xt.i16) - minus).to(A.dtype) if minus is not None else field.to(A.dtype)
            acc = xt.tile_mma(a, (weights - zero.to(A.dtype) if less else weights) * scale, acc)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (32, BN)))


FORMS: dict[str, tuple[Any, Any, dict[str, Any]]] = {  # types of the bytes and the zero points, constants
    "halves": (np.uint8, None, {}), "signed halves": (np.int8, None, {"step": 32}),
    "halves less bytes": (np.uint8, np.uint8, {}), "rows": (np.uint8, None, {"rows": True, "step": 32}),
    "signed rows": (np.int8, None, {"rows": True, "step": 32}),
    "rows less bytes": (np.uint8, np.uint8, {"rows": True, "step": 32}),
    "rows less a number": (np.uint8, None, {"rows": True, "step": 32, "minus": 8, "less": False}),
    "halves less a number": (np.int8, None, {"minus": -3, "less": False})}


def of_bytes(name: str, form: str) -> tuple[list[Array], Array]:
    """Operands, and the product with a permutation of rows, by NumPy with each operation rounded to the type."""
    dtype, depth, columns, (kind, less, constants) = TYPES[name], 2 * GROUP, 45, FORMS[form]
    _, scales, zeros, _ = operands(dtype, depth, columns)
    rng = np.random.default_rng(11)
    if less is not None:
        zeros = rng.integers(0, 256, zeros.shape, less)
    stored = rng.integers(0, 256, (depth // 2, columns), np.uint8)
    both = np.stack([stored & 15, stored >> 4])  # by bits, bytes
    half = 1 if constants.get("rows") else constants.get("step", 64) // 2
    fields = both.reshape(2, -1, half, columns).swapaxes(0, 1).reshape(depth, columns)
    group, weights = np.arange(depth) // GROUP, fields.astype(np.float32) - (constants.get("minus") or 0)
    if constants.get("less", True):
        weights = (weights - zeros.astype(dtype)[group].astype(np.float32)).astype(dtype).astype(np.float32)
    weights = (weights * scales[group].astype(np.float32)).astype(dtype).astype(np.float32)
    a = np.eye(depth, dtype=np.float32)[rng.permutation(depth)]
    return [a.astype(dtype), stored.view(kind), scales, zeros], a @ weights


@pytest.mark.parametrize("execution", [*EXECUTIONS, *MACHINES], ids=str)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", TYPES)
def test_bytes(name: str, form: str, execution: Execution) -> None:
    """Each weight is rounded as it is written, bit for bit, whatever the sign of the byte."""
    arrays, expected = of_bytes(name, form)
    c = np.full_like(expected, 99)
    execution.bind(in_bytes)[expected.shape[0] // 32, 2](*arrays, c, **FORMS[form][2], BN=TILE)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("target", ["pvc", "bmg"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", TYPES)
def test_instructions_for_bytes(name: str, form: str, target: str) -> None:
    require_ocloc()
    kind, less, constants = FORMS[form]
    matrix, rows = xt.Spec((4096, 4096), name), xt.Spec((32, 4096), name)
    zeros = rows if less is None else xt.Spec(rows.shape, np.dtype(less).name)
    lowered = in_bytes.lower(matrix, xt.Spec((2048, 4096), np.dtype(kind).name), rows, zeros,
                             xt.Spec((4096, 4096), xt.f32), target=target, **constants)
    lanes, report = lowered.stages["distribute-lanes"], lowered.report(remedies=False)
    assert "xegpu.pack " not in lanes
    assert "xegpu.shuffle" not in lanes
    assert report.spill_size + report.private_size == 0
    most = 495 if name == "bf16" else 268 if constants.get("rows") else 380
    assert report.loop["vector"] * 32 / report.loop["dpas"] <= most


SPELLINGS: dict[str, tuple[Any, Any]] = {  # of the lower and of the upper bits of bytes w, and whether it is both
    "upper mask": (lambda w: (w & 15, (w & 0xF0) >> 4), True), "left": (lambda w: ((w << 4) >> 4, w >> 4), True),
    "wide": (lambda w: (w.to(xt.u32) & 15, w.to(xt.u32) >> 4), True),
    "signed": (lambda w: ((w & 15).to(xt.i8), (w.to(xt.i32) >> 4).to(xt.i8) & 15), True),
    "signed wide": (lambda w: (w.to(xt.i8).to(xt.i32) & 15, (w.to(xt.i8) >> 4).to(xt.u8) & 15), True),
    "signs": (lambda w: (w & 15, w.to(xt.i8) >> 4), True),
    "or": (lambda w: ((w | 0x30) & 15, (w | (w << 4)) >> 4), False),
    "bit more": (lambda w: (w & 31, (w >> 4) & 7), False), "bit less": (lambda w: (w & 15, w >> 3), False)}


@xt.kernel
def spelled(A: Any, W: Any, C: Any, *, spelling: str) -> None:
    m, acc = xt.group_id(0) * 32, xt.zeros((32, 64), xt.f32)
    for k in xt.range(0, A.shape[1], 32):
        for number, field in enumerate(SPELLINGS[spelling][0](xt.load_tile(xt.init_tile(W, (k // 2, 0), (16, 64))))):
            a = xt.load_tile(xt.init_tile(A, (m, k + number * 16), (32, 16)))
            acc = xt.tile_mma(a, field.to(A.dtype), acc)
    xt.store_tile(acc, xt.init_tile(C, (m, 0), (32, 64)))


@pytest.mark.parametrize("execution", [*FEW, *MACHINES], ids=str)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spellings(spelling: str, execution: Execution) -> None:
    """Whichever masks and shifts say so, a weight is 4 bits of a byte; what has other bits is none."""
    stored = np.random.default_rng(2).integers(0, 256, (32, 64), np.uint8)
    c, a = np.full((64, 64), 99, np.float32), np.eye(64, dtype=np.float16)
    execution.bind(spelled)[2](a, stored, c, spelling=spelling)
    lower, upper = {"signs": (stored & 15, stored.view(np.int8) >> 4), "bit more": (stored & 31, stored >> 4 & 7),
                    "or": (stored & 15, (stored | stored << 4) >> 4),
                    "bit less": (stored & 15, stored >> 3)}.get(spelling, (stored & 15, stored >> 4))
    np.testing.assert_array_equal(c, np.stack([lower.reshape(2, 16, 64), upper.reshape(2, 16, 64)], 1).reshape(64, 64))
    lowered = spelled.lower(xt.Spec((64, 64), xt.f16), xt.Spec((32, 64), xt.u8), xt.Spec((64, 64), xt.f32),
                            target="pvc", spelling=spelling)
    assert ("xegpu.pack " not in lowered.stages["distribute-lanes"]) == SPELLINGS[spelling][1]


@xt.kernel
def packed(A: Any, W: Any, C: Any) -> None:
    m, acc = xt.group_id(0) * 32, xt.zeros((32, 64), xt.f32)
    for k in xt.range(0, A.shape[1], 32):
        a, w = xt.init_tile(A, (m, k), (32, 32)), xt.init_tile(W, (k, 0), (32, 64))
        acc = xt.tile_mma(xt.load_tile(a), (xt.load_tile(w).to(A.dtype) - 7.5) * 0.5, acc)
    xt.store_tile(acc, xt.init_tile(C, (m, 0), (32, 64)))


@pytest.mark.parametrize("execution", [*EXECUTIONS, *MACHINES], ids=str)
@pytest.mark.parametrize("axis", [-1, -2])
@pytest.mark.parametrize("name", TYPES)
def test_vectors_of_u4(name: str, axis: int, execution: Execution) -> None:
    """Two in a byte along N, and along K, are dequantized in pairs."""
    weights = np.random.default_rng(6).integers(0, 16, (64, 70), np.uint8)
    c, a = np.full((64, 70), 99, np.float32), np.eye(64, dtype=np.float32)[::-1].astype(TYPES[name])
    execution.bind(packed)[2](a, xt.pack(weights, xt.u4, axis), c)
    np.testing.assert_array_equal(c[:, :64], (weights[::-1, :64] - np.float32(7.5)) * 0.5)
    layout = (1, None) if axis == -2 else (None, 1)
    lowered = packed.lower(xt.Spec((64, 64), name), xt.Spec((64, 64), xt.u4, layout), xt.Spec((64, 64), xt.f32),
                           target="bmg")
    assert "xegpu.dequantize" in lowered.stages["distribute-lanes"]


@xt.kernel
def less_rows(A: Any, W: Any, S: Any, Z: Any, C: Any, *, plus: int = 1, wide: bool = False,
              BN: int = 64) -> None:
    """Words of eight weights less a row of integers of 4 bits and one, as GPTQ's kernels have it."""
    m, n = xt.group_id(0) * 32, xt.group_id(1) * BN
    acc = xt.zeros((32, BN), xt.f32)
    for k in xt.range(0, A.shape[1], GROUP):
        words = xt.load_tile(xt.init_tile(W, (k // 8, n), (16, BN)))
        scale = xt.load_tile(xt.init_tile(S, (k // GROUP, n), (1, BN)))
        stored = xt.load_tile(xt.init_tile(Z, (k // GROUP, n), (1, BN)))
        zero = (stored if wide else (stored >> 8) & 15) + plus
        for number in range(8):
            a = xt.load_tile(xt.init_tile(A, (m, k + 16 * number), (32, 16)))
            acc = xt.tile_mma(a, (((words >> (4 * number)) & 15) - zero).to(A.dtype) * scale, acc)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (32, BN)))


@pytest.mark.parametrize("execution", [*FEW, *MACHINES], ids=str)
@pytest.mark.parametrize(("plus", "wide"), [(1, False), (-225, False), (-300, False), (1, True)])
@pytest.mark.parametrize("name", TYPES)
def test_rows_of_integers_subtracted_before_the_conversion(name: str, plus: int, wide: bool,
                                                           execution: Execution) -> None:
    """Where the difference may have to be rounded, or wraps around, it is computed as it is written."""
    dtype, depth, columns = TYPES[name], GROUP, 38
    words, scales, _, _ = operands(dtype, depth, columns)
    rng = np.random.default_rng(4)
    zeros = rng.integers(*((-20000, 20000) if wide else (-1 << 31, 1 << 31)), (1, columns), np.int32)
    fields = ((words >> (4 * np.arange(8, dtype=np.uint32))[:, None, None]) & 15).reshape(depth, columns)
    subtracted = (zeros if wide else (zeros >> 8) & 15) + np.int32(plus)
    weights = (fields.astype(np.int32) - subtracted).astype(dtype).astype(np.float32)
    weights = (weights * scales.astype(np.float32)).astype(dtype).astype(np.float32)
    c = np.full((depth, columns), 99, np.float32)
    a = np.eye(depth, dtype=np.float32)[rng.permutation(depth)].astype(dtype)
    execution.bind(less_rows)[depth // 32, 2](a, words.view(np.int32), scales, zeros, c, plus=plus, wide=wide, BN=TILE)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ weights)


@pytest.mark.parametrize(("plus", "wide", "fused"), [(1, False, True), (-225, False, True), (-300, False, False),
                                                     (1, True, False)])
def test_which_rows_of_integers_are_fused(plus: int, wide: bool, fused: bool) -> None:
    matrix, rows = xt.Spec((4096, 4096), xt.f16), xt.Spec((32, 4096), xt.f16)
    lowered = less_rows.lower(matrix, xt.Spec((512, 4096), xt.i32), rows, xt.Spec(rows.shape, xt.i32),
                              xt.Spec((4096, 4096), xt.f32), target="pvc", plus=plus, wide=wide, BN=16)
    assert ("xegpu.dequantize" in lowered.stages["distribute-lanes"]) == fused
    assert ("_less_integers" in lowered.opencl) == fused
