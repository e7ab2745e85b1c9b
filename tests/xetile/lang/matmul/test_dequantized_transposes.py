"""Weights of 4 bits stored as ``nn.Linear`` has them, a row of memory for each column of C, that become operand B; and
pairs of them in short rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from benchmarks.trial_kernels.quantized_weights import four_bits_of_rows, pairs_of_four_bits
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, FEW, Array, Execution
from tests.xetile.lang.matmul.test_dequantized_operands import GROUP, MACHINES, TYPES, operands
from xegpu.target.targets import find_target

pytestmark = pytest.mark.unoptimised


FORMS: dict[str, Any] = {"u32": np.uint32, "i32": np.int32, "u16": np.uint16, "u8": np.uint8, "i8": np.int8,
                         "u4": xt.u4, "i4": xt.i4}


def stored(name: str, form: str, times: bool = True) -> tuple[tuple[Any, ...], Array]:
    """Operands, and the product with a permutation of rows, by NumPy with each operation rounded to the type."""
    dtype, depth, columns, rng = TYPES[name], 2 * GROUP, 77, np.random.default_rng(19)
    _, scales, zeros, _ = operands(dtype, depth, columns)
    fields = rng.integers(0, 16, (columns, depth), np.uint8)
    packed = np.ascontiguousarray(fields[:, ::2] | fields[:, 1::2] << 4)
    weights = (fields ^ 8).astype(np.float32) - 8 if form == "i4" else fields.astype(np.float32)
    group = np.arange(depth) // GROUP
    weights = (weights.T - zeros[group].astype(np.float32)).astype(dtype).astype(np.float32)
    if times:
        weights = (weights * scales[group].astype(np.float32)).astype(dtype).astype(np.float32)
    a = np.eye(depth, dtype=np.float32)[rng.permutation(depth)]
    words = xt.view(packed.T, FORMS[form]) if form in ("u4", "i4") else packed.view(FORMS[form])
    return (a.astype(dtype), words, scales, zeros), a @ weights


@pytest.mark.parametrize("execution", [*EXECUTIONS, *MACHINES], ids=str)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", TYPES)
def test_rows_of_columns(name: str, form: str, execution: Execution) -> None:
    """Each weight is rounded as it is written, bit for bit, whatever the sign of the word."""
    arrays, expected = stored(name, form)
    c = np.full_like(expected, 99)
    kernel = pairs_of_four_bits if form in ("u4", "i4") else four_bits_of_rows
    columns = 64 if find_target(execution.target).block_io else 16  # where a target moves each over lanes
    execution.bind(kernel)[expected.shape[0] // 32, -(-expected.shape[1] // columns)](*arrays, c, BN=columns)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("target", ["pvc", "bmg"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", TYPES)
def test_instructions_for_rows_of_columns(name: str, form: str, target: str) -> None:
    """Rows of columns are loaded as words by messages that transpose, and dequantized in pairs."""
    require_ocloc()
    matrix, rows = xt.Spec((4096, 4096), name), xt.Spec((32, 4096), name)
    each = xt.Spec((4096, 4096), form, (1, 4096)) if form in ("u4", "i4") else \
        xt.Spec((4096, 512 * 4 // np.dtype(FORMS[form]).itemsize), np.dtype(FORMS[form]).name)
    kernel: Any = pairs_of_four_bits if form in ("u4", "i4") else four_bits_of_rows
    report = kernel.lower(matrix, each, rows, rows, xt.Spec((4096, 4096), xt.f32), target=target).report(
        remedies=False)
    assert (report.spill_size, report.private_size) == (0, 0)
    most = 262 if name == "f16" else 450 if form == "i4" else 400  # bf16 has no exact way to flip a sign in a field
    assert report.loop["vector"] * 32 / report.loop["dpas"] <= most


@pytest.mark.parametrize("execution", [*FEW, *MACHINES], ids=str)
@pytest.mark.parametrize(("name", "form", "times", "step"), [
    ("f16", "u4", True, 32), ("f16", "i4", True, 32), ("f16", "u4", False, 32), ("bf16", "u4", True, 32),
    ("bf16", "u4", True, 128)])
def test_pairs_along_rows(name: str, form: str, times: bool, step: int, execution: Execution) -> None:
    """Of tiles of 64 columns, which are 32 bytes a row; without ``times`` all scales are one.

    In bf16 both blocks of columns of bytes are masked at once, in a deeper step each by itself."""
    (a, words, scales, zeros), expected = stored(name, form, times)
    fields = xt.unpack(words)[:, :76]
    columns = xt.pack(np.pad(fields, ((0, 0), (0, 52))), form, axis=1)
    c = np.full((expected.shape[0], 128), 99, np.float32)
    wide = [np.pad(row, ((0, 0), (0, 51))) for row in (scales, zeros)]
    step = step if find_target(execution.target).block_io else 32  # the other targets have no such blocks
    execution.bind(pairs_of_four_bits)[c.shape[0] // 32, 2](a, columns, *wide, c, step=step, times=times)
    np.testing.assert_array_equal(c[:, :76], expected[:, :76])
    np.testing.assert_array_equal(c[:, 77:], 0)


@pytest.mark.parametrize("target", ["pvc", "bmg"])
@pytest.mark.parametrize(("name", "most"), [("f16", 305), ("bf16", 405)])
def test_instructions_for_pairs_along_rows(name: str, most: int, target: str) -> None:
    """Both blocks of columns that bytes hold are unpacked by the same instructions."""
    require_ocloc()
    matrix, rows = xt.Spec((4096, 4096), name), xt.Spec((32, 4096), name)
    report = pairs_of_four_bits.lower(matrix, xt.Spec((4096, 4096), xt.u4), rows, rows, xt.Spec((4096, 4096), xt.f32),
                                      target=target, step=32).report(remedies=False)
    assert (report.spill_size, report.private_size) == (0, 0)
    assert report.loop["vector"] * 32 / report.loop["dpas"] <= most
