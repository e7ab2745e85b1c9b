"""Register spills of the ready kernels: ``python -m benchmarks.gpu_code.library_spills [TARGET ...]`` prints them.

Every ready kernel is built with each tile size that the library may choose on a target, by default dg2 and arl, whose
registers are half as long; so are reductions, scans and sorts. It prints a line for each kernel that spills, and how
many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import xetile as xt
from benchmarks.arguments import targets_and_part
from xegpu.ir.dtypes import DType
from xegpu.target.targets import Target, find_target
from xetile.compiler.compiled import CompiledKernel
from xetile.library.activations import find_activation
from xetile.library.attention import attention_of_heads, blocks_for
from xetile.library.grouped_matmul import Access, grouped_product
from xetile.library.int4_matmul import int4_product, tilings
from xetile.library.matmul_kernels import product, sum_of_parts
from xetile.library.scaled_matmul import WIDENED, scaled_product, step_of
from xetile.library.streamk import streamed_product, sum_of_shares
from xetile.library.tile_heuristics import BLOCK_IO, NO_BLOCK_IO, ROW_SHARES, Tiling
from xetile.library.tile_heuristics import tilings as tilings_of_product

Case = tuple[str, Callable[[], CompiledKernel]]
"""A kernel's name, and what lowers it."""
TARGETS = ("dg2", "arl")
ROWS, COLUMNS = (None, 1), (1, None)
"""Strides of arrays that are stored by rows and by columns."""
TYPES = (xt.f16, xt.bf16, xt.f32, xt.i8, xt.u8)


def kernels(target: Target) -> Iterator[Case]:
    """All cases for a target."""
    yield from _products(target)
    yield from _sums(target)
    yield from _grouped(target)
    yield from _quantized(target)
    yield from _attention(target)
    yield from _of_rows(target)


def _lowering(kernel: Any, *arguments: Any, **options: Any) -> Callable[[], CompiledKernel]:
    return partial(kernel.lower, *arguments, **options)


def _matrix(dtype: DType, strides: tuple[int | None, int | None] = ROWS) -> xt.Spec:
    return xt.Spec((None, None), dtype, strides)


def _tilings(target: Target) -> tuple[Tiling, ...]:
    return BLOCK_IO if target.block_io else NO_BLOCK_IO


def _depth(dtype: DType) -> int:
    return max(64 * 8 // dtype.bits, 16)


def _result(dtype: DType) -> DType:
    return xt.f32 if dtype.is_float else xt.i32


def _products(target: Target) -> Iterator[Case]:
    shared = () if target.block_io else tuple(tiling for tiling in ROW_SHARES if tiling not in NO_BLOCK_IO)
    for tiling in (*shared, *_tilings(target)):
        shape = f"{tiling.rows}x{tiling.columns}"
        for dtype in TYPES:
            if tiling in shared and tiling not in tilings_of_product(dtype, dtype, dtype, target, by_rows=True):
                continue
            tile = {**tiling.constants, "BK": _depth(dtype), "as_type": dtype, "target": target}
            for order, a, b in (("rows", ROWS, ROWS), ("A by columns", COLUMNS, ROWS), ("B by columns", ROWS, COLUMNS),
                                ("both by columns", COLUMNS, COLUMNS))[:1 if tiling in shared else None]:
                c = _matrix(dtype if dtype.is_float else xt.i32)
                arrays = _matrix(dtype, a), _matrix(dtype, b), c
                yield f"matmul {shape} {dtype}, {order}", _lowering(product, *arrays, c, 1.0, 0.0, **tile)
            operand, c = _matrix(dtype), _matrix(xt.f32)
            yield f"matmul {shape} {dtype}, scale, C, bias and gelu", _lowering(
                product, operand, operand, c, _matrix(xt.f32), 1.0, 0.0, **tile, scaled=True, added=True,
                spread=(True, False), activation=find_activation("gelu"))
            work = xt.Spec((None, None, None), _result(dtype))
            yield f"split-K {shape} {dtype}", _lowering(product, operand, operand, work, work, 1.0, 0.0, **tile,
                                                               parts=4)
            yield f"stream-K {shape} {dtype}", _lowering(streamed_product, operand, operand, _matrix(dtype), work,
                                                       _matrix(dtype), 1.0, 0.0, 6, 64, **tile)
        mixed = {**tiling.constants, "BK": _depth(xt.f32), "as_type": xt.f32, "target": target}
        for a, b in ((xt.f16, xt.f32), (xt.f32, xt.f16), (xt.f32, xt.bf16), (xt.f16, xt.bf16)):
            if tiling in tilings_of_product(a, b, xt.f32, target):
                wide = _matrix(xt.f32)
                yield f"matmul {shape} {a} x {b}", _lowering(product, _matrix(a), _matrix(b), wide, wide, 1.0, 0.0,
                                                             **mixed)


def _sums(target: Target) -> Iterator[Case]:
    work, c = xt.Spec((None, None, None), xt.f32), _matrix(xt.f16)
    ending: dict[str, Any] = {"scaled": True, "added": True, "spread": (True, False), "target": target,
                              "activation": find_activation("gelu")}
    yield "sum of split-K", _lowering(sum_of_parts, work, c, c, 1.0, 0.0, BM=32, BN=64, sg=(4, 2), parts=4,
                                    **ending)
    for tiling in _tilings(target):
        rows, columns = min(tiling.rows, 32), min(tiling.columns, 64)
        yield f"sum of stream-K {tiling.rows}x{tiling.columns}", _lowering(
            sum_of_shares, work, c, c, 1.0, 0.0, 6, 64, 128, BM=tiling.rows, BN=tiling.columns, rows=rows,
            columns=columns, sg=(rows // 8, columns // 32), **ending)


def _grouped(target: Target) -> Iterator[Case]:
    for tiling in _tilings(target):
        for dtype in TYPES:
            for order in ("rows", "columns", "any"):
                access = (*[Access(dtype, order, False)] * 2, Access(_result(dtype), "rows", False))
                yield f"grouped_matmul {tiling.rows}x{tiling.columns} {dtype}, {order}", _lowering(
                    grouped_product, xt.Spec((None,), xt.i64), **{**tiling.constants, "BK": _depth(dtype)},
                    as_type=dtype, ahead=0, access=access, target=target)


def _quantized(target: Target) -> Iterator[Case]:
    for dtype in (xt.f16, xt.bf16):
        for group in (128, 64, 32):
            for tiling in tilings(group, target):
                floats = _matrix(dtype)
                yield f"int4_matmul {tiling.rows}x{tiling.columns} {dtype}, groups of {group}", _lowering(
                    int4_product, floats, _matrix(xt.u32), *[floats] * 4, target=target,
                    BM=tiling.rows, BN=tiling.columns, sg=tiling.layout, group=group, offset=True,
                    biased=True, activation=None)
    for a, b in ((xt.i8, xt.i8), (xt.e4m3, xt.e4m3), (xt.e5m2, xt.e5m2), (xt.e4m3, xt.i8)):
        widen = not target.multiplies(a, b)
        for tiling in WIDENED if widen and target.block_io else _tilings(target):
            constants = {**tiling.constants, "BK": step_of(widen)}
            yield f"scaled_matmul {tiling.rows}x{tiling.columns} {a} x {b}", _lowering(
                scaled_product, _matrix(a), _matrix(b), *[_matrix(xt.f32)] * 4, target=target,
                **constants, widen=widen, by_row=True, by_column=True, biased=True, activation=None)


def _attention(target: Target) -> Iterator[Case]:
    for dtype in (xt.f16, xt.bf16, xt.f32):
        for size in (32, 64, 80, 96, 128, 256):
            for causal in (False, True):
                yield f"attention {dtype}, heads of {size}{', causal' if causal else ''}", _lowering(
                    attention_of_heads, *[xt.Spec((None, None, None, size), dtype)] * 4, 1.0, target=target, D=size,
                    DV=size, share=1, causal=causal, **blocks_for(size, 1000, target, dtype).constants)


@xt.kernel
def softmax(X: Any, Y: Any, *, BM: int = 8, BN: int = 64) -> None:
    """Softmax of rows that fit a tile."""
    m = xt.group_id(0) * BM
    x = xt.load_tile(xt.init_tile(X, (m, 0), (BM, BN)), padding=-float("inf")).to(xt.f32)
    p = xt.exp(x - xt.tile_reduce("max", x, 1))
    xt.store_tile((p / xt.tile_reduce("add", p, 1)).to(Y.dtype), xt.init_tile(Y, (m, 0), (BM, BN)))


@xt.kernel
def of_rows(X: Any, Y: Any, *, step: Callable[[Any], Any], BM: int = 8, BN: int = 64) -> None:
    """A function of the rows of a tile, which gives a vector of as many rows."""
    m = xt.group_id(0) * BM
    y = step(xt.load_tile(xt.init_tile(X, (m, 0), (BM, BN))))
    xt.store_tile(y.to(Y.dtype), xt.init_tile(Y, (m, 0), tuple(y.shape)))


@xt.kernel
def residual_norm(X: Any, R: Any, W: Any, Y: Any, *, BM: int = 8, BN: int = 256) -> None:
    """Layer norm of rows that fit a tile, of a sum that is stored back."""
    m = xt.group_id(0) * BM
    kept = xt.init_tile(R, (m, 0), (BM, BN))
    x = xt.load_tile(xt.init_tile(X, (m, 0), (BM, BN))).to(xt.f32) + xt.load_tile(kept).to(xt.f32)
    xt.store_tile(x.to(R.dtype), kept)
    x = x - xt.tile_reduce("add", x, 1) * (1.0 / BN)
    scale = xt.rsqrt(xt.tile_reduce("add", x * x, 1) * (1.0 / BN) + 1e-5)
    weights = xt.load_tile(xt.init_tile(W, (0, 0), (1, BN))).to(xt.f32)
    xt.store_tile((x * scale * weights).to(Y.dtype), xt.init_tile(Y, (m, 0), (BM, BN)))


ROW_STEPS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda v: xt.tile_reduce("add", v, 1), "sum of columns": lambda v: xt.tile_reduce("add", v, 0),
    "argmax": lambda v: xt.argmax(v, 1), "cumsum": lambda v: xt.cumsum(v, 1),
    "cumsum of columns": lambda v: xt.cumsum(v, 0), "sort": lambda v: xt.sort(v),
    "top_k of 8": lambda v: xt.top_k(v, 8)[1],
}


def _of_rows(target: Target) -> Iterator[Case]:
    for dtype in (xt.f16, xt.bf16, xt.f32):
        x = _matrix(dtype)
        yield f"softmax {dtype}", _lowering(softmax, x, x, target=target)
        yield f"softmax of 256 {dtype}", _lowering(softmax, x, x, BN=256, target=target)
        yield f"norm of 256 {dtype}", _lowering(residual_norm, x, x, x, x, target=target)
        for rows, columns in ((8, 250), (8, 1000), (2, 1023)):
            yield f"softmax of {columns} {dtype}", _lowering(softmax, x, x, BM=rows, BN=columns, target=target)
        for rows, columns in ((8, 250), (2, 1023), (1, 1024)):
            yield f"norm of {columns} {dtype}", _lowering(residual_norm, x, x, x, x, BM=rows, BN=columns, target=target)
        for name, step in ROW_STEPS.items():
            yield f"{name} {dtype}", _lowering(of_rows, x, _matrix(xt.f32), target=target, step=step)
        sort = {"step": ROW_STEPS["sort"], "BN": 128}
        yield f"sort of 128 {dtype}", _lowering(of_rows, x, _matrix(xt.f32), target=target, **sort)


def main() -> None:
    """Build, and print what spills."""
    targets, part = targets_and_part("Register spills of the ready kernels.", TARGETS)
    for target in map(find_target, targets):
        count = spilling = 0
        for name, lower in kernels(target):
            if part not in name:
                continue
            report, count = lower().report(remedies=False), count + 1
            if report.spill_size + report.private_size:
                spilling += 1
                print(f"{target.name}: {name}: {report.spill_size} bytes spilled, {report.private_size} private, "
                      f"{report.registers} registers", flush=True)
        print(f"{target.name}: {spilling} of {count} kernels keep values in memory", flush=True)


if __name__ == "__main__":
    main()
