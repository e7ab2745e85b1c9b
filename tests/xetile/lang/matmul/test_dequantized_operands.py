"""Weights of 4 bits that become operand B: every weight, zero points and scales that round, on every execution."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from benchmarks.trial_kernels.quantized_weights import four_bits
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, FEW, Array, Execution
from xetile.compiler.compiled import CompiledKernel

pytestmark = pytest.mark.unoptimised

TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
MACHINES = [Execution(f"machine:{gpu}", gpu) for gpu in ("pvc", "bmg")]
GROUP = 128
ROWS = 64
"""Rows of a group where products of kernels that unroll it run: two steps of 32."""
TILE = 32
"""Columns of a work-group where products run; the machine code that is counted has 64."""


def operands(dtype: Any, depth: int, columns: int) -> tuple[Array, Array, Array, Array]:
    """Words, scales, zero points, and the weights by NumPy, rounded to the type behind each operation."""
    rng = np.random.default_rng(17)
    words = rng.integers(0, 1 << 32, (depth // 8, columns), dtype=np.uint32)
    groups = depth // GROUP
    scales = (rng.standard_normal((groups, columns)) * 0.37).astype(np.float32).astype(dtype)
    zeros = rng.uniform(-1, 16, (groups, columns)).astype(np.float32).astype(dtype)
    zeros[:, ::5] = np.float32(2.0**-12 * 1.5).astype(dtype)  # smaller than the last place of 1024 and of 16
    zeros[:, 1::7] = 8
    nibbles = words.reshape(groups, 1, 16, columns) >> (4 * np.arange(8, dtype=np.uint32))[:, None, None] & 15
    weights = nibbles.reshape(groups, GROUP, columns).astype(np.float32)
    weights = (weights - zeros[:, None].astype(np.float32)).astype(dtype)
    weights = (weights.astype(np.float32) * scales[:, None].astype(np.float32)).astype(dtype)
    return words, scales, zeros, weights.reshape(depth, columns)


@pytest.mark.parametrize("execution", [*EXECUTIONS, *MACHINES], ids=str)
@pytest.mark.parametrize("name", TYPES)
def test_each_weight_is_rounded_as_written(name: str, execution: Execution) -> None:
    """A row of A has a single one, so that the product is the weights themselves, bit for bit."""
    dtype, depth, columns = TYPES[name], 2 * GROUP, 45
    words, scales, zeros, weights = operands(dtype, depth, columns)
    c = np.full((depth + 5, columns), 99, np.float32)
    a = np.zeros((depth + 5, depth), np.float32)
    a[np.arange(depth), np.random.default_rng(1).permutation(depth)] = 1
    execution.bind(four_bits)[-(-a.shape[0] // 32), 2](a.astype(dtype), words, scales, zeros, c, BN=TILE)
    np.testing.assert_array_equal(c, a @ weights.astype(np.float32))


@xt.kernel
def integer_zeros(A: Any, W: Any, S: Any, Z: Any, C: Any, *, zero: int | None, nibble: int | None,
                  BN: int = 64) -> None:
    """The same with zero points that are integers: a constant, the elements of Z, or 4 bits of them and one."""
    m, n = xt.group_id(0) * 32, xt.group_id(1) * BN
    acc = xt.zeros((32, BN), xt.f32)
    for k in xt.range(0, A.shape[1], GROUP):
        words = xt.load_tile(xt.init_tile(W, (k // 8, n), (16, BN)))
        scale = xt.load_tile(xt.init_tile(S, (k // GROUP, n), (1, BN)))
        stored = xt.load_tile(xt.init_tile(Z, (k // GROUP, n), (1, BN)))
        if nibble is not None:
            stored = ((stored >> nibble) & 15) + 1
        for number in range(8):
            a = xt.load_tile(xt.init_tile(A, (m, k + 16 * number), (32, 16)))
            weights = ((words >> (4 * number)) & 15).to(A.dtype) - (stored.to(A.dtype) if zero is None else zero)
            acc = xt.tile_mma(a, weights * scale, acc)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (32, BN)))


ZEROS: dict[str, tuple[Any, int | None, int | None]] = {  # type of Z, constant, position of 4 bits
    "eight": (np.uint8, 8, None), "negative": (np.uint8, -3, None), "large": (np.uint8, 2049, None),
    "u8": (np.uint8, None, None), "i8": (np.int8, None, None), "i16": (np.int16, None, None),
    "nibble": (np.uint32, None, 12)}
EXACT = ("eight", "negative", "u8", "i8", "nibble")
"""Those whose differences from weights are exact, as their types and masks say."""


@pytest.mark.parametrize("execution", [*FEW, *MACHINES], ids=str)
@pytest.mark.parametrize("zeros", ZEROS)
@pytest.mark.parametrize("name", TYPES)
def test_integer_zero_points(name: str, zeros: str, execution: Execution) -> None:
    """All that their types hold, with scales that are subnormal, huge, infinite, negative zero or not a number."""
    dtype, depth, columns = TYPES[name], GROUP, 38
    kind, constant, nibble = ZEROS[zeros]
    rng, limits = np.random.default_rng(5), ml_dtypes.finfo(dtype)
    words, scales, _, _ = operands(dtype, depth, columns)
    scales[:, 1:9] = np.array([-0.0, limits.max, -limits.max, limits.smallest_subnormal, limits.smallest_normal * 1.25,
                               np.inf, np.nan, -np.inf], dtype)
    stored = rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, (1, columns), kind, endpoint=True)
    subtracted = stored if nibble is None else (stored >> nibble & 15) + 1
    subtracted = np.asarray(subtracted if constant is None else constant, np.float32).astype(dtype).astype(np.float32)
    weights = ((words >> (4 * np.arange(8, dtype=np.uint32))[:, None, None]) & 15).reshape(depth, columns)
    with np.errstate(over="ignore", invalid="ignore"):
        weights = (weights.astype(np.float32) - subtracted).astype(dtype).astype(np.float32)
        weights = (weights * scales.astype(np.float32)).astype(dtype).astype(np.float32)
        a = np.eye(depth, dtype=np.float32)
        expected = a @ weights
    c = np.full((depth, columns), 99, np.float32)
    kernel = execution.bind(integer_zeros)[depth // 32, 2]
    kernel(a.astype(dtype), words, scales, stored, c, zero=constant, nibble=nibble, BN=TILE)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("zeros", ZEROS)
@pytest.mark.parametrize("name", TYPES)
def test_integer_zero_points_take_one_sum(name: str, zeros: str) -> None:
    kind, constant, nibble = ZEROS[zeros]
    rows = xt.Spec((4096 // GROUP, 4096), name)
    lowered = integer_zeros.lower(xt.Spec((4096, 4096), name), xt.Spec((512, 4096), xt.u32), rows,
                                  xt.Spec(rows.shape, np.dtype(kind).name), xt.Spec((4096, 4096), xt.f32), target="pvc",
                                  zero=constant, nibble=nibble, BN=16)
    assert ("_less_" in lowered.opencl) == (zeros in EXACT)


@xt.kernel
def consecutive(A: Any, W: Any, S: Any, Z: Any, C: Any, *, step: int = 32, less: bool = True, times: bool = True,
                late: bool = False, minus: int = 0, BN: int = 64, group: int = GROUP) -> None:
    """Weights as GPTQ stores them: rows 8 * i to 8 * i + 7 are bits 0, 4, ... 28 of row i of words. With ``late`` rows
    are put together when they are dequantized, and the last of a word is shifted alone."""
    m, n = xt.group_id(0) * 32, xt.group_id(1) * BN
    acc = xt.zeros((32, BN), xt.f32)
    for k in xt.range(0, A.shape[1], group):
        scale = xt.load_tile(xt.init_tile(S, (k // group, n), (1, BN)))
        zero = xt.load_tile(xt.init_tile(Z, (k // group, n), (1, BN)))

        def dequantized(fields: Any, scale: Any = scale, zero: Any = zero) -> Any:
            weights = (fields - minus).to(A.dtype) if minus else fields.to(A.dtype)
            weights = weights - zero if less else weights
            return weights * scale if times else weights

        for part in range(0, group, step):
            words = xt.load_tile(xt.init_tile(W, ((k + part) // 8, n), (step // 8, BN)))
            fields = [words >> 28 if late and number == 7 else (words >> (4 * number)) & 15 for number in range(8)]
            rows = [(dequantized(field[row:row + 1]) if late else field[row:row + 1])
                    for row in range(step // 8) for field in fields]
            weights = xt.concatenate(rows, 0)
            a = xt.load_tile(xt.init_tile(A, (m, k + part), (32, step)))
            acc = xt.tile_mma(a, weights if late else dequantized(weights), acc)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (32, BN)))


FORMS: dict[str, tuple[Any, dict[str, Any]]] = {  # type of the words, constants
    "u32": (np.uint32, {}), "i32": (np.int32, {}), "short": (np.int32, {"step": 16}),
    "no zeros": (np.int32, {"less": False}), "no scales": (np.uint32, {"times": False}),
    "signed": (np.int32, {"less": False, "minus": 8}), "plus": (np.int32, {"less": False, "minus": -9}),
    "neither": (np.int32, {"less": False, "times": False}), "late": (np.uint32, {"late": True})}


@pytest.mark.parametrize("execution", [*FEW, *MACHINES], ids=str)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", TYPES)
def test_rows_of_one_word(name: str, form: str, execution: Execution) -> None:
    """Each weight is rounded as it is written, bit for bit, whatever the sign of the word."""
    dtype, depth, columns, (kind, constants) = TYPES[name], 2 * ROWS, 45, FORMS[form]
    words, scales, zeros, _ = operands(dtype, 2 * GROUP, columns)
    words = words[:depth // 8]
    fields = (words[:, None] >> (4 * np.arange(8, dtype=np.uint32))[:, None] & 15).reshape(depth, columns)
    weights, group = fields.astype(np.float32) - constants.get("minus", 0), np.arange(depth) // ROWS
    if constants.get("less", True):
        weights = (weights - zeros[group].astype(np.float32)).astype(dtype).astype(np.float32)
    if constants.get("times", True):
        weights = (weights * scales[group].astype(np.float32)).astype(dtype).astype(np.float32)
    c = np.full((depth, columns), 99, np.float32)
    a = np.eye(depth, dtype=np.float32)[np.random.default_rng(1).permutation(depth)]
    execution.bind(consecutive)[depth // 32, 2](a.astype(dtype), words.view(kind), scales, zeros, c, **constants,
                                                BN=TILE, group=ROWS)
    np.testing.assert_array_equal(c, a @ weights)


@pytest.mark.parametrize("constants", [{"minus": 241, "less": False}, {"minus": 3}])
@pytest.mark.parametrize("name", TYPES)
def test_what_is_not_fused(name: str, constants: dict[str, Any]) -> None:
    """Integers that may be rounded, and a second zero point."""
    matrix, rows = xt.Spec((4096, 4096), name), xt.Spec((32, 4096), name)
    lowered = consecutive.lower(matrix, xt.Spec((512, 4096), xt.i32), rows, rows, xt.Spec((4096, 4096), xt.f32),
                                target="pvc", BN=TILE, group=32, **constants)
    assert "xegpu.dequantize" not in lowered.stages["distribute-lanes"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", TYPES)
def test_instructions_for_rows_of_one_word(name: str, form: str) -> None:
    """All forms are dequantized in pairs, in as many instructions."""
    require_ocloc()
    kind, constants = FORMS[form]
    matrix, rows = xt.Spec((4096, 4096), name), xt.Spec((32, 4096), name)
    lowered = consecutive.lower(matrix, xt.Spec((512, 4096), np.dtype(kind).name), rows, rows,
                                xt.Spec((4096, 4096), xt.f32), target="pvc", **constants)
    lanes, report = lowered.stages["distribute-lanes"], lowered.report(remedies=False)
    assert lanes.count("xegpu.dequantize") == 32
    assert "xegpu.pack " not in lanes
    assert "xegpu.shuffle" not in lanes
    assert (report.spill_size, report.private_size, report.loop["dpas"]) == (0, 0, 128)
    assert report.loop["vector"] / 4 <= (480 if name == "bf16" else 268 if constants.get("times", True) else 200)


def lower_product(name: str, target: str) -> CompiledKernel:
    """A product of 4096 x 4096 with weights of 4 bits."""
    matrix, rows = xt.Spec((4096, 4096), name), xt.Spec((4096 // GROUP, 4096), name)
    return four_bits.lower(matrix, xt.Spec((4096 // 8, 4096), xt.u32), rows, rows, xt.Spec((4096, 4096), xt.f32),
                           target=target)


@pytest.mark.parametrize("name", TYPES)
def test_vectors_are_dequantized_in_pairs(name: str) -> None:
    lowered = lower_product(name, "pvc")
    lanes = lowered.stages["distribute-lanes"]
    assert lanes.count("xegpu.dequantize") == 32
    assert "arith.uitofp" not in lanes
    assert "xegpu.pack " not in lanes


@pytest.mark.parametrize("target", ["pvc", "bmg"])
@pytest.mark.parametrize(("name", "most"), [("f16", 260), ("bf16", 390)])
def test_instructions_of_the_loop(name: str, most: int, target: str) -> None:
    """32 x 64 weights are 64 registers of operand B: in f16 four instructions each, in bf16 six."""
    require_ocloc()
    report = lower_product(name, target).report(remedies=False)
    assert (report.spill_size, report.private_size) == (0, 0)
    assert report.loop["dpas"] == 128  # 128 x 64 weights
    assert report.loop["vector"] / 4 <= most
