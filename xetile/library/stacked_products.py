"""Many small products: several for each subgroup, of matrices that lie behind each other in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xegpu.dialect.bounds import STORE_ALIGNMENT
from xegpu.ir import dtypes
from xegpu.target.block2d import access
from xegpu.target.targets import Target
from xetile.frontend.control_flow.for_loop import range as device_range
from xetile.jit.kernel import kernel
from xetile.lang.grid import group_id
from xetile.lang.math import minimum
from xetile.lang.matmul import tile_mma as multiply
from xetile.lang.tiles import init_tile, load_tile, store_tile
from xetile.library.activations import Activation
from xetile.library.array_operands import Operand
from xetile.library.matmul_kernels import finished

_MOST_SUMS = 48 * 48
"""Elements of a result that fit the registers beside its operands, without spills: 144 of 256 registers of 64 bytes."""
_MOST_DEPTH = 64
_SHORTEST_ROW = 64
"""Bytes of a row that 2D block messages take at least."""
_LEAST_A_CORE = 8
"""Products for which a core is busy with one a subgroup: one for each of its engines."""
_SUBGROUPS_A_CORE = 32
"""Subgroups that a core holds in large register mode: fewer would leave threads idle."""
_MOST_A_SUBGROUP = 16
_AT_ONCE = 4
"""Products that the compiler makes one step of a loop (:mod:`xegpu.passes.loops.collapse_batch`)."""


@kernel(fast_division=True)
def stacked_product(A: Any, B: Any, C: Any, alpha: Any, beta: Any, count: Any, each: Any, *, M: int, N: int, K: int,
                    scaled: bool = False, added: bool = False, activation: Activation | None = None) -> None:
    """Kernel: C[i] = activation(alpha * A[i] @ B[i] + beta * C[i]) for ``each`` of ``count`` products a subgroup.

    A, B and C are stacks of matrices with M, K and M rows, as one matrix each, so that one address and one set of
    bounds serves all products, or as batches, which the compiler stacks: it knows then that each is whole rows. Columns
    beyond the arrays' are zeros, or not stored; there are no rows beyond.
    """
    first = group_id(0) * each
    for i in device_range(first, minimum(first + each, count), 1):
        c = init_tile(C, _first(C, i, M), (M, N))
        a, b = init_tile(A, _first(A, i, M), (M, K)), init_tile(B, _first(B, i, K), (K, N))
        x = multiply(load_tile(a), load_tile(b))
        store_tile(finished(x, C, c, None, alpha, beta, (), scaled=scaled, added=added, bias_tile=None,
                            activation=activation), c)


def _first(array: Any, number: Any, rows: int) -> tuple[Any, ...]:
    """First element of a matrix of ``rows`` rows in a batch or a stack."""
    return (number, 0, 0) if len(array.shape) == 3 else (number * rows, 0)


def stacks(a: Operand, b: Operand, c: Operand, target: Target) -> Sequence[Operand] | None:
    """The three arrays as :func:`stacked_product` takes them, if it does; else None.

    It takes 16-bit floats on targets with block messages: M a multiple of 8 and K one of the matrix engine's depth,
    of no more than 48 x 48 results, all contiguous and within reach of 2D block messages, or with whole rows of a tile
    within reach of 1D ones, and at least one product for each vector engine. If one is a batch, so are the others: the
    compiler then knows which of their rows belong together.
    """
    (rows, depth), columns = a.shape[-2:], b.shape[-1]
    if not target.block_io or a.dtype is not b.dtype or a.dtype not in (dtypes.f16, dtypes.bf16):
        return None
    shape = target.mma_shape(a.dtype, b.dtype)
    if shape.engine == "vector" or rows % 8 or depth % shape.k or depth > _MOST_DEPTH:
        return None
    if rows * _rounded(columns) > _MOST_SUMS or math.prod(c.shape[:-2]) < target.cores * _LEAST_A_CORE:
        return None
    if a.shape[:-2] != b.shape[:-2] or not all(each.array.flags.c_contiguous for each in (a, b, c)):
        return None
    found = [_reached(each, tile, target) for each, tile in ((a, depth), (b, _rounded(columns)),
                                                             (c, _rounded(columns)))]
    if None not in found and any(each is not None and len(each.shape) > 2 for each in found):
        return [each.reshaped((math.prod(each.shape[:-2]), *each.shape[-2:])) for each in (a, b, c)]
    return [each for each in found if each] if all(found) else None


def launch_stacked(found: Sequence[Operand], rows: int, depth: int, factors: tuple[float, float], target: Target,
                   bound: Any, **ending: Any) -> None:
    """Launch :func:`stacked_product`, bound to an executor, on the stacks of :func:`stacks`."""
    a, b, c = found
    count = math.prod(a.shape[:-1]) // rows
    each = min(max(count // (target.cores * _SUBGROUPS_A_CORE), 1), _MOST_A_SUBGROUP)
    each -= each % _AT_ONCE if each > _AT_ONCE else 0
    bound[-(-count // each)](a.argument, b.argument, c.argument, *factors, count, each, M=rows, N=_rounded(b.shape[-1]),
                             K=depth, **ending)


def _rounded(columns: int) -> int:
    return -(-columns // 16) * 16


def _reached(operand: Operand, columns: int, target: Target) -> Operand | None:
    """A batch as one matrix where 2D block messages reach that; as it is if its rows are too short for them, and are
    those of a tile of ``columns`` columns, which 1D block messages reach."""
    stack = operand.reshaped((math.prod(operand.shape[:-1]), operand.shape[-1]))
    found = stack.described
    if access(target, found.pointer, found.shape, found.strides, operand.dtype.bytes) == "block":
        return stack
    is_narrow = operand.shape[-1] == columns and columns * operand.dtype.bytes < _SHORTEST_ROW
    if is_narrow and (found.pointer or 0) % STORE_ALIGNMENT == 0:
        return operand.reshaped((math.prod(operand.shape[:-2]), *operand.shape[-2:]))
    return None
