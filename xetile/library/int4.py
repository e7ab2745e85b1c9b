"""``xt.int4_matmul``: activations of f16 or bf16 times weights of 4 bits with a scale and a zero point a group."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from xegpu import dtypes
from xegpu.errors import ElementTypeError, ShapeError
from xegpu.targets import Target, find_target
from xetile.arguments import AtTheCall
from xetile.distribution import WgMap
from xetile.grid import group_id
from xetile.kernel import kernel
from xetile.language import init_tile, load_tile, store_tile, zeros
from xetile.language import tile_mma as multiply
from xetile.library.activations import Activation, find_activation
from xetile.library.operands import Operand, check_places, copied_where_shared, empty_like_input
from xetile.library.scaled import float_type, vector_of
from xetile.library.tiling import Tiling, choose
from xetile.loops import range as device_range

STEP = 32
"""Rows of weights that are packed together: byte row i of such a block holds row i low and row i + 16 high."""


def pack_int4(weights: Any) -> Any:
    """Weights from 0 to 15, (K, N), two in a byte, as :func:`int4_matmul` reads them: (K / 2, N) of u8.

    Of each 32 rows, row i lies in the lower and row i + 16 in the upper half of byte row i, so that both halves of a
    loaded block are blocks of whole rows.

    Args:
        weights: integers of NumPy or dpnp; K a multiple of 32. Signed weights are packed plus 8, with a zero point
            of 8.

    Raises:
        ShapeError: not two dimensions, or K is not a multiple of 32.
        ElementTypeError: not integers, or outside 0 to 15.
    """
    with AtTheCall():
        if weights.ndim != 2 or weights.shape[0] % STEP:
            raise ShapeError("XT7040", f"weights of {tuple(weights.shape)} cannot be packed",
                             f"pass (K, N) with K a multiple of {STEP}, padded with rows of the zero point")
        kind = np.dtype(weights.dtype)
        if kind.kind not in "iu":
            raise ElementTypeError("XT7041",
                                   f"weights are {kind}, not integers", "quantise first: weights.astype(numpy.uint8)")
        if weights.size and (int(weights.min()) < 0 or int(weights.max()) > 15):
            raise ElementTypeError("XT7042", f"weights reach from {int(weights.min())} to {int(weights.max())}",
                                   "4 bits hold 0 to 15: add 8 to signed weights and pass zeros=8")
        blocks = weights.astype(np.uint8).reshape((-1, 2, STEP // 2, weights.shape[1]))
        return (blocks[:, 0] | (blocks[:, 1] << 4)).reshape((-1, weights.shape[1]))


@kernel
def int4_product(A: Any, W: Any, S: Any, Z: Any, C: Any, bias: Any, *, BM: int, BN: int, sg: tuple[int, int],
                 group: int, offset: bool, biased: bool, activation: Activation | None) -> None:
    """C = activation(A @ ((W - Z) * S) + bias), S and Z one row a group of K.

    Within a group the weights are whole numbers, which 16-bit floats hold exactly; the sum of a group is scaled in f32.
    """
    m, n = group_id(0) * BM, group_id(1) * BN
    half = STEP // 2
    map_c, map_w = WgMap(sg, (BM // sg[0], BN // sg[1])), WgMap(sg, (half, BN // sg[1]))
    map_a, map_s = WgMap(sg, (BM // sg[0], half)), WgMap(sg, (1, BN // sg[1]))
    x = zeros((BM, BN), dtypes.f32, wg_map=map_c)
    for k in device_range(0, A.shape[1], group):
        which = k // group
        zero = load_tile(init_tile(Z, (which, n), (1, BN), wg_map=map_s)).to(A.dtype) if offset else None
        part = zeros((BM, BN), dtypes.f32, wg_map=map_c)
        for i in range(group // STEP):
            w = load_tile(init_tile(W, ((k + i * STEP) // 2, n), (half, BN), wg_map=map_w))
            for number, weights in enumerate((w & 15, w >> 4)):
                a = load_tile(init_tile(A, (m, k + i * STEP + number * half), (BM, half), wg_map=map_a))
                exact = weights.to(A.dtype)
                part = multiply(a, exact - zero if offset else exact, part)
        x = x + part * load_tile(init_tile(S, (which, n), (1, BN), wg_map=map_s)).to(dtypes.f32)
    if biased:
        x = x + load_tile(init_tile(bias, (0, n), (1, BN), wg_map=map_s)).to(dtypes.f32)
    if activation is not None:
        x = activation(x)
    store_tile(x.to(C.dtype), init_tile(C, (m, n), (BM, BN), wg_map=map_c))


TILES = (Tiling(64, 256, (4, 4), 0.5), Tiling(32, 256, (2, 4), 0.4), Tiling(8, 256, (1, 4), 0.2))
"""64 columns a subgroup: messages of bytes that lie one a lane have four blocks of 16."""

SMALL = (Tiling(32, 64, (4, 4), 0.3), Tiling(8, 64, (1, 4), 0.2))
"""For targets without 2D block IO."""


def int4_matmul(a: Any, weights: Any, scales: Any, zeros: Any = None, *, bias: Any = None,
                activation: str | Activation | None = None, out: Any = None, out_dtype: Any = None,
                target: str | Target | None = None) -> Any:
    """activation(a @ ((weights - zeros) * scales) + bias), with weights of 4 bits.

    Args:
        a: (M, K) of f16 or bf16, of NumPy or dpnp (bf16 in dpnp as ``xt.view(array, xt.bf16)``).
        weights: (K / 2, N) of u8, from :func:`pack_int4`.
        scales: (K / group, N), floats; the group is found from the shape, a multiple of 32.
        zeros: zero points, (K / group, N), whole numbers of any type, or one number for all; None for 0.
        bias: N elements.
        activation, out, target: as for :func:`xetile.matmul`.
        out_dtype: element type of the result, by default that of a.

    Returns:
        (M, N): ``out``, or a new array.

    Raises:
        ShapeError, ElementTypeError, DeviceError: shapes, types or places do not go together.
    """
    with AtTheCall():
        operand, packed, scale = Operand.of("a", a), Operand.of("weights", weights), Operand.of("scales", scales)
        check_places(operand, packed, scale)
        group = group_of(operand, packed, scale)
        zero = zeros_of(zeros, scale)
        shape = operand.shape[0], packed.shape[1]
        kind = operand.dtype if out_dtype is None else dtypes.whole(dtypes.of(out_dtype))
        result = empty_like_input(operand, shape, kind) if out is None else Operand.of("out", out)
        if result.shape != shape:
            raise ShapeError("XT7003", f"out is {result.shape}, and the result {shape}", f"pass an array of {shape}")
        row = vector_of("bias", bias, operand, shape[1])
        operand = copied_where_shared(operand, result)
        placed = int4_product.on(None if result.library is np else result.array.sycl_queue, target=target)
        device = placed.target or find_target("pvc" if target is None else target)
        tiling = choose(*shape, operand.shape[1], 1, operand.dtype, device, TILES if device.block_io else SMALL)
        if 0 not in shape:
            placed[tiling.groups(*shape)](
                operand.argument, packed.argument, scale.argument, (zero or scale).argument, result.argument,
                (row or result).argument, BM=tiling.rows, BN=tiling.columns, sg=tiling.layout, group=group,
                offset=zero is not None, biased=row is not None, activation=find_activation(activation))
        return result.array if out is None else out


def group_of(a: Operand, weights: Operand, scales: Operand) -> int:
    """Rows of weights that share a scale.

    Raises:
        ShapeError, ElementTypeError: the operands do not go together.
    """
    if not float_type(a.dtype) or weights.dtype is not dtypes.u8:
        raise ElementTypeError("XT7043", f"a is {a.dtype} and weights are {weights.dtype}",
                               "pass a of f16 or bf16, and weights of u8 from xt.pack_int4(...)")
    if not len(a.shape) == len(weights.shape) == len(scales.shape) == 2:
        raise ShapeError("XT7044", f"a is {a.shape}, weights are {weights.shape} and scales {scales.shape}",
                         "pass (M, K), (K / 2, N) and (K / group, N)")
    depth, columns = weights.shape[0] * 2, weights.shape[1]
    groups = scales.shape[0]
    fits = a.shape[1] == depth and scales.shape[1] == columns and groups and depth % groups == 0
    if not fits or depth // groups % STEP:
        raise ShapeError("XT7044", f"a is {a.shape}, weights are {weights.shape} and scales {scales.shape}",
                         f"for K = {depth} and N = {columns}, pass a of (M, {depth}) and scales of (K / group, "
                         f"{columns}), with groups of a multiple of {STEP}")
    return depth // groups


def zeros_of(zeros: Any, scales: Operand) -> Operand | None:
    """Zero points, one a scale; None where they are not given.

    Raises:
        ShapeError: they are neither one number nor of the scales' shape.
    """
    if zeros is None:
        return None
    if np.isscalar(zeros):
        full = scales.library.full_like(scales.array, zeros)
        return replace(scales, name="zeros", array=full)
    operand = Operand.of("zeros", zeros)
    check_places(scales, operand)
    if operand.shape != scales.shape:
        raise ShapeError("XT7045",
                         f"zeros are {operand.shape} and scales {scales.shape}", "pass one zero point a scale, or one")
    return operand
