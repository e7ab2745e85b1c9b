"""Loops over K in strips of a group of rows: scales and zero points are loaded once for the steps that take them."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.kernels import FEW, Execution, first_stages
from xetile.compiler.compiled import CompiledKernel

pytestmark = pytest.mark.unoptimised
BM, BN, COLUMNS = 16, 32, 80
MACHINES = [Execution(f"machine:{target}", target) for target in ("pvc", "bmg")]


@xt.kernel
def grouped(A: Any, W: Any, S: Any, Z: Any, C: Any, first: Any, *, step: int = 32, group: int = 64, zeros: int = 64,
            starts: int = 0, by: int = 1, written: bool = False, hint: int | None = None) -> None:
    """A @ ((W - Z) * S) from row ``starts`` + ``by`` * ``first`` on, with weights in bytes."""
    n, acc = xt.group_id(0) * BN, xt.zeros((BM, BN), xt.f32)
    for k in xt.range(first * by + starts, A.shape[1], step, unroll=hint):
        weights = xt.load_tile(xt.init_tile(W, (k, n), (step, BN))).to(A.dtype)
        scale = xt.load_tile(xt.init_tile(S, (k // group, n), (1, BN)))
        zero = xt.load_tile(xt.init_tile(Z, (k // zeros, n), (1, BN))).to(A.dtype)
        a = xt.load_tile(xt.init_tile(A, (0, k), (BM, step)))
        acc = xt.tile_mma(a, (weights - zero) * scale, acc)
        if written:
            xt.store_tile(scale + scale, xt.init_tile(S, (k // group + 1, n), (1, BN)))
    xt.store_tile(acc, xt.init_tile(C, (0, n), (BM, BN)))


def _numbers(depth: int, dtype: Any, group: int, zeros: int) -> tuple[Any, ...]:
    """Arguments, and the dequantized weights as integers; scales and zero points differ from group to group."""
    rng = np.random.default_rng(depth)
    a, w = rng.integers(-3, 4, (BM, depth)), rng.integers(-8, 8, (depth, COLUMNS))
    s, z = rng.integers(1, 5, (-(-depth // group), COLUMNS)), rng.integers(-4, 5, (-(-depth // zeros), COLUMNS))
    rows = np.arange(depth)
    weights = (w - z[rows // zeros]) * s[rows // group]
    arrays = a.astype(dtype), w.astype(np.int8), s.astype(dtype), z.astype(np.int8)
    return *map(_for_blocks, arrays), a, weights


def _for_blocks(array: Any) -> Any:
    """A copy that block messages take: its first element and its rows are 64 bytes apart, or a multiple."""
    pitch = -(-array.shape[1] * array.itemsize // 64) * 64
    memory = np.full(array.shape[0] * pitch + 64, 0x55, np.uint8)
    first = -memory.ctypes.data % 64
    rows = memory[first:first + array.shape[0] * pitch].reshape(array.shape[0], pitch).view(array.dtype)
    rows[:, :array.shape[1]] = array
    return rows[:, :array.shape[1]]


@pytest.mark.parametrize("execution", [*FEW, *MACHINES], ids=str)
@pytest.mark.parametrize(("depth", "group", "zeros"), [(256, 64, 128), (208, 128, 64), (200, 96, 64), (84, 96, 96),
                                                      (28, 64, 64)])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["f16", "bf16"])
def test_every_row_takes_its_group(execution: Execution, depth: int, group: int, zeros: int, dtype: Any) -> None:
    """Groups of two sizes, one of them no multiple of the other; a last one that is not whole; less than a step."""
    *arguments, a, weights = _numbers(depth, dtype, group, zeros)
    c = _for_blocks(np.full((BM, COLUMNS + 16), 7, np.float32))
    execution.bind(grouped)[3](*arguments, c[:, :COLUMNS], 0, by=384, group=group, zeros=zeros)  # 384: of all groups
    np.testing.assert_array_equal(c[:, :COLUMNS], a @ weights)
    assert (c[:, COLUMNS:] == 7).all()


@pytest.mark.parametrize("execution", [*FEW, *MACHINES], ids=str)
def test_loops_that_begin_at_a_group(execution: Execution) -> None:
    """The second part of a K that is split, whose number is known at run time."""
    *arguments, a, weights = _numbers(200, np.float16, 64, 64)
    c = _for_blocks(np.zeros((BM, COLUMNS), np.float32))
    execution.bind(grouped)[3](*arguments, c, 1, by=128)
    np.testing.assert_array_equal(c, a[:, 128:] @ weights[128:])


def _lowered(target: str = "pvc", **options: Any) -> CompiledKernel:
    half, byte = xt.Spec((None, None), "f16"), xt.Spec((None, None), "i8")
    return grouped.lower(half, byte, half, byte, xt.Spec((None, None), "f32"), 1, target=target,
                         **options)


def _strips(lowered: CompiledKernel) -> str:
    return first_stages(lowered).get("strip-mine-groups", "")


def test_loads_stand_between_the_loops() -> None:
    """With the conversion of zero points, for the smaller of two groups; weights and A are loaded in each step."""
    text = _strips(_lowered(by=128, group=128))
    outer, inner = text.split("scf.for")[1:]
    assert outer.count("load_tile") == inner.count("load_tile") == 2
    assert "sitofp" in outer
    assert "shrsi" not in inner
    assert re.search(r"constant 64 : index", text)


def test_rows_of_a_group_that_is_no_multiple_are_loaded_in_each_step() -> None:
    """Strips are of the smaller group, 64, in which a row of the larger one, 96, may change."""
    outer, inner = _strips(_lowered(by=384, group=96)).split("scf.for")[1:]
    assert (outer.count("load_tile"), inner.count("load_tile")) == (1, 3)


@pytest.mark.parametrize("options", [
    {"by": 32}, {"by": 128, "starts": 32}, {"by": 128, "group": 32, "zeros": 32}, {"by": 128, "group": 48, "zeros": 80},
    {"by": 128, "hint": 2}], ids=["any step", "in the middle", "a step each", "no multiple", "with a hint"])
def test_other_loops_stay(options: dict[str, Any]) -> None:
    assert not _strips(_lowered(**options))


@xt.kernel
def two_groups(A: Any, W: Any, S: Any, C: Any) -> None:
    """A @ (W * S): which row of S a row of W takes is a sum of two quotients."""
    acc = xt.zeros((BM, BN), xt.f32)
    for k in xt.range(0, A.shape[1], 32):
        scale = xt.load_tile(xt.init_tile(S, (k // 64 + k // 96, 0), (1, BN)))
        weights = xt.load_tile(xt.init_tile(W, (k, 0), (32, BN))).to(A.dtype)
        acc = xt.tile_mma(xt.load_tile(xt.init_tile(A, (0, k), (BM, 32))), weights * scale, acc)
    xt.store_tile(acc, xt.init_tile(C, (0, 0), (BM, BN)))


@pytest.mark.parametrize("execution", FEW, ids=str)
def test_rows_of_two_quotients_are_loaded_in_each_step(execution: Execution) -> None:
    rng, depth = np.random.default_rng(7), 256
    a, w, s = (rng.integers(-3, 4, shape) for shape in ((BM, depth), (depth, COLUMNS), (8, COLUMNS)))
    c, rows = _for_blocks(np.full((BM, BN), 7, np.float32)), np.arange(depth)
    execution.bind(two_groups)[1](_for_blocks(a.astype(np.float16)), _for_blocks(w.astype(np.int8)),
                                  _for_blocks(s.astype(np.float16)), c)
    np.testing.assert_array_equal(c, a @ (w * s[rows // 64 + rows // 96])[:, :BN])


def test_arrays_that_may_overlap_are_loaded_in_each_step() -> None:
    kernel = xt.kernel(may_alias=True)(grouped.function)
    half, byte = xt.Spec((None, None), "f16"), xt.Spec((None, None), "i8")
    lowered = kernel.lower(half, byte, half, byte, xt.Spec((None, None), "f32"), 1, target="pvc", by=128)
    assert not _strips(lowered)


def test_rows_that_are_written_are_loaded_in_each_step() -> None:
    text = _strips(_lowered(by=128, written=True))
    assert text.split("scf.for")[1].count("load_tile") == 1  # of zero points alone


@xt.kernel
def doubling(A: Any, W: Any, S: Any, C: Any, address: Any, *, step: int = 32, group: int = 64) -> None:
    """A @ (W * S), where each step doubles the row of S that it took, in memory that is known by its address alone."""
    n, acc = xt.group_id(0) * BN, xt.zeros((BM, BN), xt.f32)
    for k in xt.range(0, A.shape[1], step):
        scale = xt.load_tile(xt.init_tile(S, (k // group, n), (1, BN)))
        weights = xt.load_tile(xt.init_tile(W, (k, n), (step, BN))).to(A.dtype) * scale
        acc = xt.tile_mma(xt.load_tile(xt.init_tile(A, (0, k), (BM, step))), weights, acc)
        xt.store_tile(scale + scale, xt.init_tile(address, (k // group, n), (1, BN), base_shape=(2, 96),
                                                  base_strides=(96, 1), dtype=xt.f16))
    xt.store_tile(acc, xt.init_tile(C, (0, n), (BM, BN)))


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu"])
def test_memory_at_an_address_may_be_any_array(where: str) -> None:
    rng, rows = np.random.default_rng(9), np.arange(128)
    a, w, s = rng.integers(-3, 4, (BM, 128)), rng.integers(-8, 8, (128, 96)), rng.integers(1, 5, (2, 96))
    expected = a @ (w * s[rows // 64] * (1 + rows // 32 % 2)[:, None])
    a, w, s, c = (_for_blocks(array.astype(dtype)) for array, dtype in
                  ((a, np.float16), (w, np.int8), (s, np.float16), (np.full((BM, 96), 7), np.float32)))
    doubling.on(where, target="pvc")[3](a, w, s, c, np.uint64(s.ctypes.data))
    np.testing.assert_array_equal(c, expected)


def test_processors_and_targets_without_block_messages_keep_the_loop() -> None:
    for target in ("cpu", "dg2"):
        assert not _strips(_lowered(target, by=128))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_rows_are_paired_in_front_of_the_steps(kind: str) -> None:
    """Virtual assembly that brings rows of scales into their form stands outside the loop over the steps."""
    rows, byte = xt.Spec((None, None), kind), xt.Spec((None, None), "i8")
    lowered = grouped.lower(rows, byte, rows, byte, xt.Spec((None, None), "f32"), 1, target="pvc",
                            by=128)
    before, steps = lowered.opencl.rsplit("for (", 1)
    made = "= paired_row(" if kind == "f16" else "= float_row("
    assert before.count(made) == (4 if kind == "f16" else 2)
    assert made not in steps
