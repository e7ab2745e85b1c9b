"""``xt.scaled_matmul``: quantized GEMM of 8-bit integers and 8-bit floats, with row and column scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.support.errors import ElementTypeError, ShapeError
from xegpu.target.targets import Target, find_target
from xetile.compiler.arguments import AtTheCall
from xetile.dialect.wg_map import WgMap
from xetile.frontend.control_flow.for_loop import range as device_range
from xetile.jit.kernel import kernel
from xetile.lang.creation import zeros
from xetile.lang.grid import group_id
from xetile.lang.matmul import tile_mma as multiply
from xetile.lang.tiles import init_tile, load_tile, store_tile, update_tile_offset
from xetile.library.activations import Activation, find_activation
from xetile.library.array_operands import (
    Operand,
    check_matrices,
    check_same_device,
    check_shapes,
    copied_where_shared,
    result_for,
)
from xetile.library.call_plans import planned
from xetile.library.tile_heuristics import Tiling, choose

FORMATS = {str(dtype): dtype for dtype in (dtypes.e4m3, dtypes.e5m2)}
"""Formats of 8-bit floats (OCP 8-bit Floating Point Specification)."""
INTEGERS = (dtypes.i8, dtypes.u8)


@kernel(fast_division=True)
def scaled_product(A: Any, B: Any, C: Any, rows: Any, columns: Any, bias: Any, *, BM: int, BN: int, BK: int,
                   sg: tuple[int, int], widen: bool, by_row: bool, by_column: bool, biased: bool,
                   activation: Activation | None) -> None:
    """Kernel: C = activation(rows * (A @ B) * columns + bias); with ``widen`` both operands become f16 in registers."""
    m, n = group_id(0) * BM, group_id(1) * BN
    map_c = WgMap(sg, (BM // sg[0], BN // sg[1]))
    a = init_tile(A, (m, 0), (BM, BK), wg_map=WgMap(sg, (BM // sg[0], BK)))
    b = init_tile(B, (0, n), (BK, BN), wg_map=WgMap(sg, (BK, BN // sg[1])))
    integers = A.dtype in INTEGERS and B.dtype in INTEGERS
    x = zeros((BM, BN), dtypes.i32 if integers else dtypes.f32, wg_map=map_c)
    for _ in device_range(0, A.shape[1], BK):
        left, right = load_tile(a), load_tile(b)
        x = multiply(left.to(dtypes.f16), right.to(dtypes.f16), x) if widen else multiply(left, right, x)
        a, b = update_tile_offset(a, 0, BK), update_tile_offset(b, BK, 0)
    y = x.to(dtypes.f32)
    if by_row:
        y = y * load_tile(init_tile(rows, (m, 0), (BM, 1), wg_map=WgMap(sg, (BM // sg[0], 1)))).to(dtypes.f32)
    row_map = WgMap(sg, (1, BN // sg[1]))
    if by_column:
        y = y * load_tile(init_tile(columns, (0, n), (1, BN), wg_map=row_map)).to(dtypes.f32)
    if biased:
        y = y + load_tile(init_tile(bias, (0, n), (1, BN), wg_map=row_map)).to(dtypes.f32)
    if activation is not None:
        y = activation(y)
    store_tile(y.to(C.dtype), init_tile(C, (m, n), (BM, BN), wg_map=map_c))


@planned
def scaled_matmul(a: Any, b: Any, a_scale: Any = None, b_scale: Any = None, *,
                  formats: str | tuple[str | None, str | None] | None = None, bias: Any = None,
                  activation: str | Activation | None = None, out: Any = None, out_dtype: Any = None,
                  target: str | Target | None = None) -> Any:
    """Quantized product activation((a_scale * a) @ (b * b_scale) + bias) of 8-bit operands: integers, E4M3 or E5M2.

    Integers are multiplied exactly, in i32. 8-bit floats go to the matrix engine as they are where it takes them, and
    become f16 elsewhere, exactly; their products are added up in f32. Scales, bias and activation work in f32.

    Args:
        a, b: (M, K) and (K, N), of NumPy or dpnp: i8, u8, or ml_dtypes' float8_e4m3fn and float8_e5m2.
        a_scale: one factor a row of a: M elements, or one for all.
        b_scale: one factor a column of b: N elements, or one for all.
        formats: for operands of bytes (u8) that hold floats, as dpnp has no such type: ``"e4m3"``, ``"e5m2"``, or None
            for integers; one for both, or one each.
        bias: N elements.
        activation, out, target: as for :func:`xetile.matmul`.
        out_dtype: element type of the result, by default f32.

    Returns:
        (M, N): ``out``, or a new array.

    Raises:
        ShapeError, ElementTypeError, DeviceError: shapes, types or devices do not match.
    """
    with AtTheCall():
        left, right = (bytes_of(name, value, format_)
                       for name, value, format_ in zip(("a", "b"), (a, b), _formats_of(formats), strict=True))
        check_same_device(left, right)
        check_matrices(left, right)
        check_shapes(left, right)
        shape = left.shape[0], right.shape[1]
        kind = dtypes.f32 if out_dtype is None else dtypes.byte_addressable(dtypes.of(out_dtype))
        result = result_for(out, left, shape, kind)
        vectors = Vectors(vector_of("a_scale", a_scale, left, shape[0], column=True),
                          vector_of("b_scale", b_scale, left, shape[1]), vector_of("bias", bias, left, shape[1]))
        if 0 not in shape:
            _launch(left, right, result, vectors, find_activation(activation), target)
        return result.array if out is None else out


WIDENED = (Tiling(256, 256, (8, 4), 0.6), Tiling(128, 256, (4, 4), 0.5), Tiling(64, 256, (4, 4), 0.4),
           Tiling(32, 256, (2, 4), 0.3), Tiling(8, 256, (1, 4), 0.2))
"""Tilings for 8-bit floats, which are widened in registers: 32x64 elements a subgroup leave room for steps of 32."""


@dataclass(frozen=True)
class Vectors:
    """Row and column vectors of an epilogue; None if absent."""

    rows: Operand | None
    columns: Operand | None
    bias: Operand | None


def _launch(a: Operand, b: Operand, c: Operand, vectors: Vectors, activation: Activation | None,
            target: str | Target | None) -> None:
    a, b = copied_where_shared(a, c), copied_where_shared(b, c)
    bound = scaled_product.on(None if c.library is np else c.array.sycl_queue, target=target)
    device = bound.target or find_target(target)
    widen = not device.multiplies(a.dtype, b.dtype)
    (m, n), table = c.shape, WIDENED if widen and device.block_io else ()
    tiling = replace(choose(m, n, a.shape[1], 1, dtypes.f16 if widen else a.dtype, device, table), parts=1,
                     depth=step_of(widen and not device.is_cpu))
    rows, columns, bias = (vector or c for vector in (vectors.rows, vectors.columns, vectors.bias))
    bound[tiling.groups(m, n)](a.argument, b.argument, c.argument, rows.argument, columns.argument, bias.argument,
                                   **tiling.constants, widen=widen, by_row=vectors.rows is not None,
                                   by_column=vectors.columns is not None, biased=vectors.bias is not None,
                                   activation=activation)


def step_of(widen: bool) -> int:
    """K step: half as long where operands become twice as wide in registers of a GPU."""
    return WIDENED[0].depth if widen else 64


def _formats_of(formats: Any) -> tuple[Any, Any]:
    """Formats of both operands.

    Raises:
        ElementTypeError: it is neither one for both nor a pair.
    """
    if formats is None or isinstance(formats, str):
        return formats, formats
    if not isinstance(formats, Sequence) or len(formats) != 2:
        raise ElementTypeError("XT7050", f"formats is {formats!r}",
                               f"pass one of {', '.join(FORMATS)}, or a pair of them")
    return formats[0], formats[1]


def bytes_of(name: str, value: Any, format_: str | None) -> Operand:
    """Operand of 8-bit integers or 8-bit floats.

    Raises:
        ElementTypeError: it is neither, or there is no such format.
    """
    if format_ is not None and (not isinstance(format_, str) or format_ not in FORMATS):
        raise ElementTypeError("XT7050",
                               f"there is no format {format_!r} of 8-bit floats", f"use one of {', '.join(FORMATS)}")
    operand = Operand.of(name, value)
    if format_ is not None and operand.dtype is dtypes.u8:
        return replace(operand, dtype=FORMATS[format_])
    if operand.dtype not in (*INTEGERS, *FORMATS.values()) or format_ not in (None, str(operand.dtype)):
        raise ElementTypeError("XT7051", f"{name} is {operand.dtype}" + (
                               f", and {format_} is kept in bytes" if format_ else ", and scales are for 8 bits"),
                               "pass i8 or u8, ml_dtypes.float8_e4m3fn or float8_e5m2, or u8 with formats=; "
                               "xt.matmul multiplies wider types")
    return operand


def vector_of(name: str, value: Any, like: Operand, size: int, *, column: bool = False) -> Operand | None:
    """Scale or bias as a row (1, size) or a column (size, 1); a single number is broadcast.

    Raises:
        ShapeError: it has neither one element nor ``size``.
        DeviceError: it is not where the operands are.
    """
    if value is None:
        return None
    if np.isscalar(value):
        value = like.library.asarray(value, dtype=np.float32) if like.library is np else \
            like.library.asarray(value, dtype=np.float32, sycl_queue=like.array.sycl_queue)
    operand = Operand(name, value, dtypes.of(np.dtype(value.dtype))) if value.ndim == 0 else Operand.of(name, value)
    check_same_device(like, operand)
    count = int(np.prod(operand.shape))
    if count not in (1, size) or sum(n > 1 for n in operand.shape) > 1:
        raise ShapeError("XT7052", f"{name} is {operand.shape}, and there are {size} to scale or to add to",
                         f"pass {size} elements, or one")
    flat = operand.array.reshape(-1)
    flat = like.library.broadcast_to(flat, (size,)) if count == 1 else flat
    return replace(operand, array=flat[:, None] if column else flat[None, :])


def float_type(dtype: DType) -> bool:
    """Whether activations of this type are supported with quantized weights."""
    return dtype in (dtypes.f16, dtypes.bf16)
