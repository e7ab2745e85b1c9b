"""``xt.attention`` and a softmax of rows on the CPU device, beside NumPy, and torch where it is installed."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from statistics import median
from typing import Any

import ml_dtypes
import numpy as np

import xetile as xt
from benchmarks.rows import Progress, Row
from benchmarks.run_time.arrays import on_cpu
from benchmarks.timing import PAUSE, TURN, import_torch, interleaved, ratios

_HEADS, _LENGTH = 8, 1024
_ROWS = (4096, 1024), (8192, 250), (8192, 100), (16384, 64)
"""Rows and columns of softmax."""
_ROWS_A_GROUP = 64
_SHORT, _SHORT_ROWS_A_GROUP = 256, 128
"""Elements of a tile that stay in a processor's registers, half of which they are with AVX-512: one row of as many
columns, or several shorter ones; and rows of a work-group."""
Runs = dict[str, Callable[[], object]]


@xt.kernel
def softmax(X: Any, Y: Any, *, BN: int = 64) -> None:
    """Softmax of rows, 64 a work-group: three times over a row, which L1 holds."""
    first, width, at = xt.group_id(0) * _ROWS_A_GROUP, X.shape[1], (1, BN)
    for row in xt.range(first, xt.minimum(first + _ROWS_A_GROUP, X.shape[0])):
        highest, total = xt.full(at, -math.inf, xt.f32), xt.zeros(at, xt.f32)
        for n in xt.range(0, width, BN):
            highest = xt.maxnum(highest, xt.load_tile(xt.init_tile(X, (row, n), at), padding=-math.inf))
        top = xt.tile_reduce("maxnumf", highest, 1)  # NaN, which maxima drop, reaches the sum by its power
        for n in xt.range(0, width, BN):
            power = xt.exp(xt.load_tile(xt.init_tile(X, (row, n), at), padding=-math.inf) - top)
            total = total + power
            xt.store_tile(power, xt.init_tile(Y, (row, n), at))
        inverse = 1.0 / xt.tile_reduce("add", total, 1)
        for n in xt.range(0, width, BN):
            xt.store_tile(xt.load_tile(xt.init_tile(Y, (row, n), at)) * inverse, xt.init_tile(Y, (row, n), at))


@xt.kernel
def softmax_of_short_rows(X: Any, Y: Any, *, BM: int, BN: int) -> None:
    """Softmax of rows, 128 a work-group: BM rows at a time stay in registers, in tiles of BN columns, which are all."""
    first, at = xt.group_id(0) * _SHORT_ROWS_A_GROUP, (BM, BN)
    for row in xt.range(first, xt.minimum(first + _SHORT_ROWS_A_GROUP, X.shape[0]), BM):
        x = xt.load_tile(xt.init_tile(X, (row, 0), at), padding=-math.inf)
        power = xt.exp(x - xt.tile_reduce("maxnumf", x, 1))
        xt.store_tile(power * (1.0 / xt.tile_reduce("add", power, 1)), xt.init_tile(Y, (row, 0), at))


def softmax_of(X: Any, Y: Any) -> None:
    """Launch the kernel for the width of the rows."""
    rows, columns = X.shape
    if columns <= _SHORT:
        width = -(-columns // 16) * 16
        rows_a_tile = 1 << (_SHORT // width).bit_length() - 1
        softmax_of_short_rows[-(-rows // _SHORT_ROWS_A_GROUP),](X, Y, BM=rows_a_tile, BN=width)
    else:
        softmax[-(-rows // _ROWS_A_GROUP),](X, Y)


def measure(quick: bool, progress: Progress) -> list[Row]:
    """Rows of attention, of two sizes of heads and two types, and of softmax; none without dpnp."""
    if importlib.util.find_spec("dpnp") is None:
        progress("attention: dpnp is not installed")
        return []
    rows, rounds = [], 3 if quick else 7
    for size, dtype in ((64, np.float32),) if quick else (
            (64, np.float32), (128, np.float32), (64, ml_dtypes.bfloat16), (128, ml_dtypes.bfloat16)):
        progress(f"attention, heads of {size}, {np.dtype(dtype).name}")
        rows += _rows(f"{_HEADS} heads of {_LENGTH} x {size}, {np.dtype(dtype).name}", "cpu attention",
                      _attention(size, np.dtype(dtype)), rounds)
    for count, columns in _ROWS[:1] if quick else _ROWS:
        progress(f"softmax, rows of {columns}")
        rows += _rows(f"softmax, {count} rows of {columns}, float32", "cpu softmax", _softmax(count, columns), rounds)
    return rows


def _rows(name: str, goal: str, runs: Runs, rounds: int) -> list[Row]:
    """A row for each other library."""
    times = interleaved(runs, rounds, PAUSE, TURN)
    goals = {"torch": goal} if "torch" in runs else dict.fromkeys(runs, f"{goal} numpy")
    rows = []
    for other in runs:
        if other != "ours":
            ratio, spread = ratios(times, "ours", other)
            rows.append(Row("Attention, CPU device", name, median(times["ours"]) * 1e3, "ms", ratio, f"{other}'s",
                            goals.get(other, ""), spread=spread))
    return rows


def _attention(size: int, dtype: np.dtype[Any]) -> Runs:
    import dpnp

    rng = np.random.default_rng(size)
    wide = [rng.standard_normal((1, _HEADS, _LENGTH, size)).astype(np.float32) for _ in range(3)]
    bits = dtype == ml_dtypes.bfloat16
    held = [on_cpu(x.astype(dtype).view(np.uint16) if bits else x) for x in wide]
    operands = [xt.view(x, xt.bf16) if bits else x for x in held]
    out = on_cpu(np.zeros(held[0].shape, held[0].dtype))
    result = xt.view(out, xt.bf16) if bits else out

    def ours() -> None:
        xt.attention(*operands, out=result)
        out.sycl_queue.wait()

    ours()
    got = dpnp.asnumpy(out).view(dtype).astype(np.float32)
    np.testing.assert_allclose(got, _attention_of_numpy(*wide), atol=0.02 if bits else 1e-5)
    runs: Runs = {"ours": ours, "NumPy": lambda: _attention_of_numpy(*wide)}
    torch = import_torch()
    if torch is not None:
        tensors = [torch.from_numpy(x).to(torch.bfloat16 if bits else torch.float32) for x in wide]
        runs["torch"] = lambda: torch.nn.functional.scaled_dot_product_attention(*tensors)
    return runs


def _attention_of_numpy(q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.swapaxes(-1, -2) * np.float32(1 / math.sqrt(q.shape[-1]))
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers @ v / powers.sum(-1, keepdims=True)


def _softmax(rows: int, columns: int) -> Runs:
    import dpnp

    x = np.random.default_rng(1).standard_normal((rows, columns)).astype(np.float32)
    source, out = on_cpu(x), on_cpu(np.zeros_like(x))

    def ours() -> None:
        softmax_of(source, out)
        out.sycl_queue.wait()

    ours()
    np.testing.assert_allclose(dpnp.asnumpy(out), _softmax_of_numpy(x), atol=1e-6)
    runs: Runs = {"ours": ours, "NumPy": lambda: _softmax_of_numpy(x)}
    torch = import_torch()
    if torch is not None:
        tensor = torch.from_numpy(x)
        there = torch.empty_like(tensor)
        runs["torch"] = lambda: torch.softmax(tensor, -1, out=there)
    return runs


def _softmax_of_numpy(x: Any) -> Any:
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)
