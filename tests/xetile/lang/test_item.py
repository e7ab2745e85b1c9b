"""``.item()``: the element of a vector of one as a run-time number, in conditions, offsets and arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.kernels import EXECUTIONS, Bordered, Execution, integers

pytestmark = pytest.mark.unoptimised
TYPES = ["f32", "i32", "u32", "i64", "u64"]


@xt.kernel
def doubled(X: Any, Y: Any, *, dtype: Any) -> None:
    row = xt.group_id(0) * 8
    x, n = xt.load_tile(xt.init_tile(X, (row, 0), (8, 16))), xt.scalar(0)
    for _ in xt.while_(lambda: xt.tile_reduce("max", x, (0, 1)).item() < 100):
        x, n = x + x + 3, n + 1
    place = xt.load_tile(xt.init_tile(X, (row + 1, 3), (1, 1))).item()
    column = xt.maximum(place.to(xt.i32), 0).to(xt.index)  # as an offset
    other = xt.load_tile(xt.init_tile(X, (row, column), (8, 16)), padding=0)
    xt.store_tile(x + place + n.to(dtype) - other, xt.init_tile(Y, (row, 0), (8, 16)))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("execution", [*EXECUTIONS, Execution("numpy:program", "pvc")], ids=str)
def test_item(execution: Execution, dtype: str) -> None:
    """Reductions and single elements of every type, of signed values where there are any."""
    x = integers(np.random.default_rng(1), dtype, 40, 16, most=20)
    y, want = Bordered(dtype, (40, 16)), np.empty_like(x)
    for rows in (slice(row, row + 8) for row in range(0, 40, 8)):
        value, n = x[rows], 0
        while value.max() < 100:
            value, n = value + value + value.dtype.type(3), n + 1
        place = x[rows][1, 3]
        column = max(int(place), 0)
        other = np.pad(x[rows], ((0, 0), (0, 32)))[:, column:column + 16]
        want[rows] = value + place + value.dtype.type(n) - other
    bound = doubled.on("numpy:program") if execution.where == "numpy:program" else execution.bind(doubled)
    bound[5](x, y.array, dtype=getattr(xt, dtype))
    y.check(want)


@xt.kernel
def of_work_group(X: Any, Y: Any, *, layout: Any) -> None:
    row = xt.group_id(0) * 32
    x, n = xt.load_tile(xt.init_tile(X, (row, 0), (32, 32), wg_map=layout)), xt.scalar(0)
    for _ in xt.while_(lambda: xt.tile_reduce("max", x, (0, 1)).item() < 100):
        x, n = x + x + 3.0, n + 1
    xt.return_if(xt.tile_reduce("min", x, (0, 1)).item() < -1000)
    xt.store_tile(x + n.to(xt.f32), xt.init_tile(Y, (row, 0), (32, 32), wg_map=layout))


@pytest.mark.parametrize("layout", [(2, 2), (4, 1)], ids=str)
@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_work_group(execution: Execution, layout: tuple[int, int]) -> None:
    """All subgroups of a work-group have the number, and leave the loop and the kernel together."""
    x = integers(np.random.default_rng(2), "f32", 96, 32, most=20)
    x[40, 7] = -200  # this group leaves before it stores
    y = Bordered("f32", (96, 32))
    want = y.array.copy()
    for rows in (slice(row, row + 32) for row in range(0, 96, 32)):
        value, n = x[rows], 0
        while value.max() < 100:
            value, n = value + value + 3, n + 1
        if value.min() >= -1000:
            want[rows] = value + n
    maps = xt.wg_map(sg_layout=layout, sg_data=(32 // layout[0], 32 // layout[1]))
    execution.bind(of_work_group)[3](x, y.array, layout=maps)
    y.check(want)
    assert (want[32:64] == 77).all()


@xt.kernel
def converged(X: Any, Y: Any, *, layout: Any, condition: bool, dtype: Any) -> None:
    """Steps until the largest element of a work-group is large; the loop carries it from one step to the next."""
    row = xt.group_id(0) * 16
    x = xt.load_tile(xt.init_tile(X, (row, 0), (16, 32), wg_map=layout))
    largest, total = xt.scalar(0, dtype), xt.scalar(1, dtype)
    if condition:
        for _ in xt.while_(lambda: largest < 50):
            x = x + x + 1
            largest, total = xt.tile_reduce("max", x, (0, 1)).item(), total + largest
    else:
        for step in xt.range(4):
            with xt.when(step > 0):
                x = x + x + largest
                largest = xt.tile_reduce("min", x, (0, 1)).item()
    xt.store_tile(x + largest + total, xt.init_tile(Y, (row, 0), (16, 32), wg_map=layout))


@pytest.mark.parametrize("condition", [True, False], ids=["while", "range"])
@pytest.mark.parametrize(("layout", "dtype"), [(None, "f32"), ((2, 1), "i32"), (None, "u64")], ids=str)
@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_carried(execution: Execution, layout: tuple[int, int] | None, dtype: str, condition: bool) -> None:
    """An element of a vector is carried by a loop, and by a condition in a loop."""
    x = np.abs(integers(np.random.default_rng(2), dtype, 48, 32, most=9))
    x[16:32] //= 4
    y, want = Bordered(dtype, (48, 32)), np.empty_like(x)
    for rows in (slice(row, row + 16) for row in range(0, 48, 16)):
        value, largest, total = x[rows], x.dtype.type(0), x.dtype.type(1)
        while condition and largest < 50:
            value = value + value + x.dtype.type(1)
            largest, total = value.max(), total + largest
        for _ in range(0 if condition else 3):
            value = value + value + largest
            largest = value.min()
        want[rows] = value + largest + total
    mapped = None if layout is None else xt.WgMap(layout, (16 // layout[0], 32 // layout[1]))
    execution.bind(converged)[3](x, y.array, layout=mapped, condition=condition, dtype=getattr(xt, dtype))
    y.check(want)
