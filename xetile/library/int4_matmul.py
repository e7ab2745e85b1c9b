"""``xt.int4_matmul``: weight-only quantized GEMM, 4-bit weights with group scales and zero points."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import gcd
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
from xetile.lang.creation import full, zeros
from xetile.lang.grid import group_id
from xetile.lang.math import bitcast, fma
from xetile.lang.matmul import tile_mma as multiply
from xetile.lang.tiles import init_tile, load_tile, store_tile
from xetile.library.activations import Activation, applied, find_activation
from xetile.library.array_operands import Operand, check_same_device, copied_where_shared, result_for
from xetile.library.call_plans import planned
from xetile.library.scaled_matmul import float_type, vector_of
from xetile.library.tile_heuristics import Tiling, choose

ROWS = 32
"""Rows of weights whose bits have the same position in their words."""
STEP, WORDS = 4 * ROWS, ROWS // 2
"""Rows of weights that are packed together, and the rows of words that hold them."""
FORMS = {dtypes.f16: (0x4C00, 6), dtypes.bf16: (0x4180, 3)}
"""The bits of 16.0, and the position of the mantissa's unit digit: a weight in these bits makes it 16 + weight."""


def pack_int4(weights: Any) -> Any:
    """Pack weights from 0 to 15, (K, N), eight in a word, for :func:`int4_matmul`: (K / 8, N) of u32.

    Of each 128 rows, word row i holds rows 32b + 2i in bits 4b to 4b + 3 of its lower half, and rows 32b + 2i + 1 in
    those of its upper half, b from 0 to 3: masked, the words of one b are the rows of B as the matrix engine takes
    them. K is rounded up to a multiple of 128.

    Args:
        weights: integers of NumPy or dpnp. Signed weights are packed plus 8, with a zero point of 8.

    Raises:
        ShapeError: not two dimensions.
        ElementTypeError: not integers, or outside 0 to 15.
    """
    with AtTheCall():
        if weights.ndim != 2:
            raise ShapeError("XT7040", f"weights of {tuple(weights.shape)} are not a matrix",
                             "pass (K, N), one product's weights at a time")
        kind = np.dtype(weights.dtype)
        if kind.kind not in "iu":
            raise ElementTypeError("XT7041", f"weights are {kind}, not integers",
                                   "quantize first: weights.astype(numpy.uint8)")
        if weights.size and (int(weights.min()) < 0 or int(weights.max()) > 15):
            raise ElementTypeError("XT7042", f"weights reach from {int(weights.min())} to {int(weights.max())}",
                                   "4 bits hold 0 to 15: add 8 to signed weights and pass zeros=8")
        depth, columns = weights.shape
        library = Operand.of("weights", weights).library
        queue = {} if library is np else {"sycl_queue": weights.sycl_queue}
        padded = library.zeros((-(-depth // STEP) * STEP, columns), dtype=np.uint32, **queue)
        padded[:depth] = weights
        parts = padded.reshape((-1, 4, WORDS, 2, columns))
        words = parts[:, 0, :, 0]
        for number, half in list(product(range(4), range(2)))[1:]:
            words = words | (parts[:, number, :, half] << (4 * number + 16 * half))
        return words.reshape((-1, columns))


@kernel(fast_division=True)
def int4_product(A: Any, W: Any, S: Any, Z: Any, C: Any, bias: Any, *, BM: int, BN: int, sg: tuple[int, int],
                 group: int, offset: bool, biased: bool, activation: Activation | None) -> None:
    """Kernel: C = activation(A @ ((W - Z) * S) + bias), S and Z one row for each group of K.

    The matrix engine multiplies A by 16 + W, which a mask and an or make of packed words, and by ones: what is too much
    is (16 + Z) times the sum of A's row. Both sums run over a group, or 128 rows of it, and are scaled in f32.
    """
    m, n = group_id(0) * BM, group_id(1) * BN
    map_c, map_w = WgMap(sg, (BM // sg[0], BN // sg[1])), WgMap(sg, (WORDS, BN // sg[1]))
    map_a, map_b = WgMap(sg, (BM // sg[0], ROWS)), WgMap(sg, (ROWS, BN // sg[1]))
    map_s = WgMap(sg, (1, BN // sg[1]))
    x = zeros((BM, BN), dtypes.f32, wg_map=map_c)
    ones = full((ROWS, BN), 1, A.dtype, wg_map=map_b)
    scaled_at = {4: (3,), 2: (1, 3), 1: (0, 1, 2, 3)}[gcd(group, STEP) // ROWS]
    part, total = None, None
    for k in device_range(0, A.shape[1], STEP):
        words = load_tile(init_tile(W, (k // STEP * WORDS, n), (WORDS, BN), wg_map=map_w))
        for number in range(4):
            a = load_tile(init_tile(A, (m, k + number * ROWS), (BM, ROWS), wg_map=map_a))
            part = multiply(a, with_offset(words, number, A.dtype), part)
            total = multiply(a, ones, total)
            if number in scaled_at:
                which = (k + number * ROWS) // group
                scale = load_tile(init_tile(S, (which, n), (1, BN), wg_map=map_s)).to(dtypes.f32)
                excess = load_tile(init_tile(Z, (which, n), (1, BN), wg_map=map_s)).to(dtypes.f32) + 16.0 \
                    if offset else 16.0
                x = fma(fma(total, -excess, part), scale, x)
                part, total = None, None
    if biased:
        x = x + load_tile(init_tile(bias, (0, n), (1, BN), wg_map=map_s)).to(dtypes.f32)
    if activation is not None:
        x = applied(activation, x)
    store_tile(x.to(C.dtype), init_tile(C, (m, n), (BM, BN), wg_map=map_c))


def with_offset(words: Any, number: int, dtype: DType) -> Any:
    """Dequantize without a subtraction: 16 + the weights in bits 4 * number of both halves of packed words."""
    bits, position = FORMS[dtype]
    left = position - 4 * number
    moved = words << left if left > 0 else words >> -left if left else words
    twice = 0x10001  # copies 16 bits to both halves of a word
    return bitcast((moved & ((15 << position) * twice)) | (bits * twice), dtype)


TILES = (Tiling(128, 256, (8, 4), 0.6), Tiling(64, 256, (4, 4), 0.5), Tiling(32, 256, (2, 4), 0.4),
         Tiling(8, 256, (1, 4), 0.2))
"""64 columns a subgroup, which share the sums of A's rows."""

FINE = (Tiling(64, 256, (8, 4), 0.4), Tiling(32, 256, (4, 4), 0.3), Tiling(8, 256, (1, 4), 0.2))
"""For groups of 32: four of them in flight, and their zero points and scales, need the registers of 8 more rows."""

SMALL = (Tiling(32, 64, (4, 4), 0.3), Tiling(8, 64, (1, 4), 0.2))
"""For targets without 2D block IO."""

SMALL_FINE = (Tiling(32, 64, (4, 8), 0.3), Tiling(8, 64, (1, 8), 0.2))
"""For those with subgroups of 8, and groups of 32: 8 columns a subgroup."""


@planned
def int4_matmul(a: Any, weights: Any, scales: Any, zeros: Any = None, *, bias: Any = None,
                activation: str | Activation | None = None, out: Any = None, out_dtype: Any = None,
                target: str | Target | None = None) -> Any:
    """Weight-only quantized product: activation(a @ ((weights - zeros) * scales) + bias), with 4-bit weights.

    Args:
        a: (M, K) of f16 or bf16, of NumPy or dpnp (bf16 in dpnp as ``xt.view(array, xt.bf16)``).
        weights: (K / 8, N) of u32, K rounded up to a multiple of 128, from :func:`pack_int4`. Of K they say no more
            than that, so that weights of another K below the same multiple are not noticed.
        scales: (K / group, N), floats; the group is found from the shape, a multiple of 32.
        zeros: zero points, (K / group, N), of any type, or one number for all; None for 0.
        bias: N elements.
        activation, out, target: as for :func:`xetile.matmul`.
        out_dtype: element type of the result, by default that of a.

    Returns:
        (M, N): ``out``, or a new array.

    Raises:
        ShapeError, ElementTypeError, DeviceError: shapes, types or devices do not match.
    """
    with AtTheCall():
        operand, packed, scale = Operand.of("a", a), Operand.of("weights", weights), Operand.of("scales", scales)
        check_same_device(operand, packed, scale)
        group = group_of(operand, packed, scale)
        zero = zeros_of(zeros, scale)
        shape = operand.shape[0], packed.shape[1]
        kind = operand.dtype if out_dtype is None else dtypes.byte_addressable(dtypes.of(out_dtype))
        result = result_for(out, operand, shape, kind)
        row = vector_of("bias", bias, operand, shape[1])
        operand = copied_where_shared(operand, result)
        bound = int4_product.on(None if result.library is np else result.array.sycl_queue, target=target)
        device = bound.target or find_target(target)
        tiling = choose(*shape, operand.shape[1], 1, operand.dtype, device, tilings(group, device))
        if 0 not in shape:
            bound[tiling.groups(*shape)](
                operand.argument, packed.argument, scale.argument, (zero or scale).argument, result.argument,
                (row or result).argument, BM=tiling.rows, BN=tiling.columns, sg=tiling.layout, group=group,
                offset=zero is not None, biased=row is not None, activation=find_activation(activation))
        return result.array if out is None else out


def tilings(group: int, target: Target) -> tuple[Tiling, ...]:
    """Tilings that fit a target's registers."""
    fine = group % (2 * ROWS) != 0
    if not target.block_io:
        return SMALL_FINE if fine and target.subgroup_size == 8 else SMALL
    return FINE if fine else TILES


def group_of(a: Operand, weights: Operand, scales: Operand) -> int:
    """Quantization group: rows of weights that share a scale.

    Raises:
        ShapeError, ElementTypeError: the operands do not go together.
    """
    if not float_type(a.dtype) or weights.dtype is not dtypes.u32:
        raise ElementTypeError("XT7043", f"a is {a.dtype} and weights are {weights.dtype}",
                               "pass a of f16 or bf16, and weights of u32 from xt.pack_int4(...)")
    if not len(a.shape) == len(weights.shape) == len(scales.shape) == 2:
        raise ShapeError("XT7044", f"a is {a.shape}, weights are {weights.shape} and scales {scales.shape}",
                         "pass (M, K), packed weights and (K / group, N)")
    (_, depth), (words, columns), groups = a.shape, weights.shape, scales.shape[0]
    fits = words == -(-depth // STEP) * WORDS and scales.shape[1] == columns and groups and depth % groups == 0
    if not fits or depth // groups % ROWS:
        raise ShapeError("XT7044", f"a is {a.shape}, weights are {weights.shape} and scales {scales.shape}",
                         f"for K = {depth} and N = {columns}, pass weights of {(-(-depth // STEP) * WORDS, columns)} "
                         f"from xt.pack_int4(...) and scales of (K / group, {columns}), with groups of a multiple of "
                         f"{ROWS}")
    return depth // groups


def zeros_of(zeros: Any, scales: Operand) -> Operand | None:
    """Zero points, one for each scale; None if there are none.

    Raises:
        ShapeError: they are neither one number nor of the scales' shape.
    """
    if zeros is None:
        return None
    if np.isscalar(zeros):
        full = scales.library.full_like(scales.array, zeros)
        return replace(scales, name="zeros", array=full)
    operand = Operand.of("zeros", zeros)
    check_same_device(scales, operand)
    if operand.shape != scales.shape:
        raise ShapeError("XT7045",
                         f"zeros are {operand.shape} and scales {scales.shape}", "pass one zero point a scale, or one")
    return operand
