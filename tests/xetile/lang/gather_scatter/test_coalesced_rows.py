"""Products of gathered rows: in a loop's steps in bounds they are loaded 8 bytes a lane, in the others by elements."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from benchmarks.trial_kernels import gathered_rows
from tests.kernels import NUMPY, Array, Execution, integers, wide

SOME = [NUMPY, Execution("numpy:xegpu", "pvc"), Execution("opencl:cpu", "pvc"), Execution("opencl:cpu", "bmg"),
        Execution("opencl:cpu", "cpu")]
TYPES = [ml_dtypes.bfloat16, np.float16, np.float32]

pytestmark = pytest.mark.unoptimised


@xt.kernel
def rows_of(A, indices, B, C, first, *, BM=32, BN=32, BK=32):
    """Product of rows of a matrix of a batch, ``first`` columns on."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    rows = xt.load_tile(xt.init_tile(indices, (m, 0), (BM, 1)))
    acc = xt.zeros((BM, BN), xt.f32)
    for k in xt.range(0, B.shape[0], BK):
        a = xt.load_tile(xt.init_tile(A, (1, rows, k + first), (BM, BK)))
        acc = xt.tile_mma(a.to(B.dtype), xt.load_tile(xt.init_tile(B, (k, n), (BK, BN))), acc)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN)))


@xt.kernel
def written_out(A, indices, B, C, first, *, BM=32, BN=32, BK=32):
    """The same by offsets, which two steps of the loop move at a time."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    _, height, width = A.shape
    rows = xt.load_tile(xt.init_tile(indices, (m, 0), (BM, 1))).to(xt.index)
    ends = xt.where((rows >= 0) & (rows < height), width, 0)
    down = rows * A.strides[1] + A.strides[0]
    acc = xt.zeros((BM, BN), xt.f32)
    for k in xt.range(0, B.shape[0], BK, unroll=2):
        columns = xt.iota((1, BK), 1, xt.index) + k
        tile = xt.init_tile(A, offsets=down + columns)
        a = xt.load_gather(tile, columns < ends)
        acc = xt.tile_mma(a.to(B.dtype), xt.load_tile(xt.init_tile(B, (k, n), (BK, BN))), acc)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN)))


def chosen(a: Array, indices: Array, first: int, width: int) -> Array:
    """Rows of ``a[1]`` from a column on, 0 out of bounds."""
    result = np.zeros((len(indices), width), np.float64)
    for i, index in enumerate(indices.tolist()):
        for j in range(width):
            if 0 <= index < a.shape[1] and 0 <= j + first < a.shape[2]:
                result[i, j] = a[1, index, j + first]
    return result


def run(kernel: Any, execution: Execution, type_: Any, *, outside: bool, depth: int, first: int, width: int) -> None:
    """Two work-groups, the first of which has rows out of bounds if asked."""
    rng = np.random.default_rng(depth)
    store = np.zeros((2, 50, 128), type_)
    store[...] = integers(rng, xt.i32, *store.shape, most=4)
    a = store[:, :, :width]
    indices = rng.integers(0, 50, (64, 1)).astype(np.int32)
    if outside:
        indices[[3, 17, 31], 0] = -1, 50, 2**30
    other = np.float16 if type_ is np.float32 else type_
    b = integers(rng, xt.i32, depth, 64, most=4).astype(other)
    c = np.full((64, 64), -7, np.float32)
    execution.bind(kernel)[2, 2](a, indices, b, c, first)
    np.testing.assert_array_equal(c, chosen(a, indices[:, 0], first, depth) @ wide(b))


@pytest.mark.parametrize("execution", SOME, ids=str)
@pytest.mark.parametrize("type_", TYPES, ids=lambda type_: np.dtype(type_).name)
@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize(("depth", "first", "width"), [(96, 0, 96), (104, 0, 88), (64, 8, 104), (64, -8, 96),
                                                       (64, 3, 96)])
def test_rows_of_a_product(depth: int, first: int, width: int, outside: bool, type_: Any,
                           execution: Execution) -> None:
    run(rows_of, execution, type_, outside=outside, depth=depth, first=first, width=width)


@pytest.mark.parametrize("execution", SOME, ids=str)
@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize(("depth", "width"), [(128, 128), (104, 88)])
def test_rows_that_offsets_say(depth: int, width: int, outside: bool, execution: Execution) -> None:
    run(written_out, execution, ml_dtypes.bfloat16, outside=outside, depth=depth, first=0, width=width)


def lowered(target: str = "pvc", pitch: int = 128, type_: str = "bf16") -> Any:
    """The kernel for a batch of rows of this pitch; the first column is known at run time alone."""
    a = xt.Spec((2, 50, 96), type_, (50 * pitch, pitch, 1))
    return rows_of.lower(a, xt.Spec((64, 1), "i32"), xt.Spec((96, 64), "bf16"), xt.Spec((64, 64), "f32"), 0,
                         target=target)


def test_the_stage_reads_back_and_runs() -> None:
    text = lowered().stages["coalesce-gathers"]
    module = xt.parse(text)
    assert str(module) == text
    main, rest = (body.partition("\n    }")[0] for body in text.split("scf.for")[1:])
    assert (main.count("xegpu.load_rows"), main.count("xegpu.load_gather")) == (8, 0)
    assert (rest.count("xegpu.load_rows"), rest.count("xegpu.load_gather")) == (0, 64)
    asked = re.search(r"(%\w+) = arith\.andi .*: index\n *(%\w+) = arith\.cmpi eq, \1, ", text)
    assert asked is not None
    assert f"arith.select {asked[2]}, " in text  # whether the first column lies at a multiple of 8 bytes
    rng = np.random.default_rng(0)
    a, b = integers(rng, xt.bf16, 2, 50, 96), integers(rng, xt.bf16, 96, 64)
    indices, c = rng.integers(0, 50, (64, 1)).astype(np.int32), np.full((64, 64), -7, np.float32)
    module["rows_of"].on("numpy")[2, 2](a, indices, b, c, 0)
    np.testing.assert_array_equal(c, chosen(a, indices[:, 0], 0, 96) @ wide(b))


@pytest.mark.parametrize(("target", "pitch", "type_"), [("dg2", 128, "bf16"), ("pvc", 100, "bf16"), ("pvc", 128, "i8")])
def test_rows_that_are_gathered_by_elements(target: str, pitch: int, type_: str) -> None:
    """Without 2D block messages, with rows at odd places, and of elements of 8 bits."""
    assert "coalesce-gathers" not in lowered(target, pitch, type_).stages


@pytest.mark.parametrize("kernel", [gathered_rows.rows_of, gathered_rows.moved_rows], ids=lambda kernel: kernel.name)
def test_stages_before_leave_large_tiles_as_they_are(kernel: xt.Kernel) -> None:
    """A row a gather, and its bounds, though a loop of so many would take more registers than there are."""
    arrays = [xt.Spec((None, None), dtype) for dtype in (xt.bf16, xt.i32, xt.bf16, xt.f32)]
    assert "load_rows" in kernel.lower(*arrays, target="bmg").stages["coalesce-gathers"]
