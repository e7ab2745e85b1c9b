"""Kernels and data that several tests share: matrix products, and what NumPy makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np

import xetile as xt
from tests.conftest import THOROUGH, require_device, require_simulator
from tests.device import DEVICE_FILTER, device_targets
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.support.errors import TargetError
from xegpu.target.targets import find_target
from xetile.compiler.compiled import CompiledKernel
from xetile.compiler.pipeline import Options, stages
from xetile.compiler.stage_texts import StageTexts

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Execution:
    """An execution: where a kernel runs, and the device that its code is generated for."""

    where: str
    target: str

    def __str__(self) -> str:
        return self.where if self.where == "numpy" else f"{self.where}-{self.target}"

    def bind(self, kernel: Any) -> Any:
        """The kernel there; without the device or the simulator the test is skipped. Eager mode takes no target."""
        if self.where == "numpy:program":
            return kernel.on(self.where)
        if self.where.startswith("machine:"):
            require_simulator()
        elif not self.where.startswith("numpy"):
            require_device(self.where)
        return kernel.on(self.where, target=self.target)


NUMPY = Execution("numpy", "pvc")
EAGER = Execution("numpy:program", "pvc")
LANES = [Execution("numpy:xegpu", target) for target in ("pvc", "bmg", "dg2", "cpu")]
DEVICE = [Execution(DEVICE_FILTER, target) for target in device_targets("pvc", "dg2", "cpu")]
EXECUTIONS = [NUMPY, *LANES, *DEVICE]
FEW = [NUMPY, EAGER, LANES[0], *EXECUTIONS[-3:]]
"""Each kind of execution once, for what is lowered to operations that are tested in all."""


@dataclass(frozen=True)
class Types:
    """Element types of a product: A, B, accumulator."""

    a: DType
    b: DType
    acc: DType

    def __str__(self) -> str:
        return f"{self.a}-{self.b}-{self.acc}"

    def on(self, execution: Execution) -> bool:
        """Whether the execution takes them; NumPy takes all."""
        try:
            find_target(execution.target).mma_shape(self.a, self.b, self.acc)
        except TargetError:
            return execution.where == "numpy"
        return True

    @property
    def step(self) -> int:
        """A K step that every target takes."""
        return 32 if self.a.bits == 8 else 16

    @property
    def most(self) -> int:
        """The largest absolute value that integer-valued data may have for sums of 256 of them to be exact."""
        return {"f16": 2, "bf16": 1, "f64": 1 << 22}.get(self.acc.name, 5)


TYPES = [Types(*(dtypes.of(name) for name in names.split())) for names in
         ("bf16 bf16 f32", "f16 f16 f32", "f16 f16 f16", "bf16 bf16 bf16", "tf32 tf32 f32", "f32 f32 f32",
          "f64 f64 f64", "i8 i8 i32", "i8 u8 i32", "u8 i8 i32", "u8 u8 i32")]


@xt.kernel
def gemm(A, B, C, *, BM=16, BN=16, BK=16, acc=xt.f32):
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    a = xt.init_tile(A, (m, 0), (BM, BK))
    b = xt.init_tile(B, (0, n), (BK, BN))
    total = xt.zeros((BM, BN), acc)
    for _ in xt.range(0, A.shape[1], BK):
        total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
        a = xt.update_tile_offset(a, 0, BK)
        b = xt.update_tile_offset(b, BK, 0)
    xt.store_tile(total, xt.init_tile(C, (m, n), (BM, BN)))


@xt.kernel
def gemm_onto(A, B, C, *, BM=16, BN=16, BK=16):
    """C += A @ B."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    a = xt.init_tile(A, (m, 0), (BM, BK))
    b = xt.init_tile(B, (0, n), (BK, BN))
    c = xt.init_tile(C, (m, n), (BM, BN))
    total = xt.load_tile(c)
    for _ in xt.range(0, A.shape[1], BK):
        total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
        a = xt.update_tile_offset(a, 0, BK)
        b = xt.update_tile_offset(b, BK, 0)
    xt.store_tile(total, c)


@xt.kernel
def gemm_shared(A, B, C, *, BM, BN, BK, sg, data_a, data_b, data_c, acc=xt.f32):
    """A work-group's product; each of A, B and C is distributed to the subgroups in blocks of its own."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    map_c = xt.wg_map(sg, data_c)
    a = xt.init_tile(A, (m, 0), (BM, BK), wg_map=xt.wg_map(sg, data_a))
    b = xt.init_tile(B, (0, n), (BK, BN), wg_map=xt.wg_map(sg, data_b))
    total = xt.zeros((BM, BN), acc, wg_map=map_c)
    for _ in xt.range(0, A.shape[1], BK):
        total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
        a = xt.update_tile_offset(a, 0, BK)
        b = xt.update_tile_offset(b, BK, 0)
    xt.store_tile(total, xt.init_tile(C, (m, n), (BM, BN), wg_map=map_c))


def chosen(rows: Sequence[Any], columns: Sequence[Any], fits: Callable[[Any, Any], bool]) -> list[tuple[Any, Any]]:
    """Pairs for cases that take seconds each: every row with one column, in turn, and the first row with all of them.

    Every pair that fits with HYPOTHESIS_PROFILE=thorough.
    """
    if THOROUGH:
        return [(row, column) for row in rows for column in columns if fits(row, column)]
    pairs = [(rows[0], column) for column in columns if fits(rows[0], column)]
    for turn, row in enumerate(rows[1:]):
        fitting = [column for column in columns if fits(row, column)]
        pairs += [(row, fitting[turn % len(fitting)])] if fitting else []
    return pairs


def integers(rng: np.random.Generator, dtype: Any, *shape: int, most: int = 5) -> Array:
    """Random integers in an element type, up to ``most`` in size; from zero for unsigned types."""
    element = dtypes.of(dtype)
    return rng.integers(0 if element.kind == "u" else -most, most + 1, shape).astype(element.numpy)


def operands(rng: np.random.Generator, types: Types, m: int, n: int, k: int) -> tuple[Array, Array]:
    """A and B of integer values whose product is exact."""
    return integers(rng, types.a, m, k, most=types.most), integers(rng, types.b, k, n, most=types.most)


def viewed(array: Array, dtype: DType) -> Any:
    """An array as a kernel's argument: tf32 is float32 by another name."""
    return xt.view(array, dtype) if dtype is xt.tf32 else array


def wide(array: Array) -> Array:
    """An array in a type in which products of small integers are exact."""
    return array.astype(np.int64 if array.dtype.kind in "iu" else np.float64)


def product(a: Array, b: Array, acc: DType) -> Array:
    """A @ B in plain NumPy on wide operands, as the accumulator's type; integers wrap around."""
    with np.errstate(over="ignore", invalid="ignore"):
        return (wide(a) @ wide(b)).astype(acc.numpy)


def tiles(size: int, tile: int) -> int:
    """Tiles that cover a size."""
    return -(-size // tile)


def run_gemm(execution: Execution, types: Types, a: Array, b: Array, c: Array, *, bm: int = 16, bn: int = 16,
             bk: int | None = None, kernel: Any = gemm) -> None:
    """C = A @ B in an execution, by tiles of bm x bn."""
    grid = tiles(c.shape[0], bm), tiles(c.shape[1], bn)
    constants = {"acc": types.acc} if kernel is gemm else {}
    execution.bind(kernel)[grid](viewed(a, types.a), viewed(b, types.b), c, BM=bm, BN=bn, BK=bk or types.step,
                                 **constants)


class Bordered:
    """An array inside a larger one: what lies around it must stay as it is.

    Attributes:
        array: the inner view, filled with a value that no result has.
    """

    def __init__(self, dtype: Any, shape: tuple[int, int], view: Callable[[Array], Array] | None = None) -> None:
        element = dtypes.of(dtype).numpy
        inner = view or (lambda whole: whole[3:3 + shape[0], 5:5 + shape[1]])
        self._whole = np.full((2 * shape[0] + 11, 2 * shape[1] + 37), 77, element)
        self.array = inner(self._whole)
        assert self.array.shape == shape
        self._inner = inner

    def check(self, expected: Array) -> None:
        """The inner array holds ``expected``, and the rest holds what it held."""
        np.testing.assert_array_equal(wide(self.array), wide(expected))
        outside = np.ones(self._whole.shape, bool)
        self._inner(outside)[...] = False  # type: ignore[index]
        assert (self._whole[outside] == np.asarray(77, self._whole.dtype)).all(), "something outside the array changed"


def first_stages(lowered: CompiledKernel) -> StageTexts:
    """The stages before ``blocking``, whole operations on tiles: most of a lowering's time is behind them."""
    every = stages(lowered.module, Options.of(lowered.module, lowered.target, lowered.access))
    modules = dict(takewhile(lambda stage: stage[0] != "blocking", every))
    return StageTexts(lambda: modules)
