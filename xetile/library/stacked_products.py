"""Many small products: several for each subgroup, of matrices that lie behind each other in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xegpu.dialect.bounds import STORE_ALIGNMENT
from xegpu.ir import dtypes
from xegpu.target.block2d import access, small_matrix
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
_ELEMENTS = (dtypes.f16, dtypes.bf16, dtypes.i8, dtypes.u8)
_LEAST_A_CORE = 8
"""Products for which a core is busy with one a subgroup: one for each of its engines."""
_SUBGROUPS_A_CORE = 32
"""Subgroups that a core holds in large register mode: fewer would leave threads idle."""
_MOST_A_SUBGROUP = 16
_AT_ONCE = 4
"""Products that the compiler makes one step of a loop (:mod:`xegpu.passes.loops.collapse_batch`)."""


@kernel(fast_division=True)
def stacked_product(A: Any, B: Any, C: Any, alpha: Any, beta: Any, count: Any, each: Any, *, M: int, N: int, K: int,
                    BM: int, BN: int, scaled: bool = False, added: bool = False,
                    activation: Activation | None = None) -> None:
    """Kernel: C[i] = activation(alpha * A[i] @ B[i] + beta * C[i]) for ``each`` of ``count`` products a subgroup.

    A, B and C are stacks of matrices with M, K and M rows, as one matrix each, so that one address and one set of
    bounds serves all products, or as batches, which the compiler stacks: it knows then that each is whole rows. Columns
    beyond the arrays' are zeros, or not stored; there are no rows beyond. A subgroup makes a tile of BM x BN of its
    products, whose M rows BM divides: all of them where registers have 64 bytes, else a part for each of the
    work-groups along the grid's other dimensions.
    """
    assert M % BM == 0, "rows beyond a matrix are those of the next one"
    first = group_id(0) * each
    m, n = group_id(1) * BM if BM < M else 0, group_id(2) * BN if BN < N else 0
    for i in device_range(first, minimum(first + each, count), 1):
        c = init_tile(C, _at(C, i, M, m, n), (BM, BN))
        a, b = init_tile(A, _at(A, i, M, m, 0), (BM, K)), init_tile(B, _at(B, i, K, 0, n), (K, BN))
        x = multiply(load_tile(a), load_tile(b))
        store_tile(finished(x, C, c, None, alpha, beta, (), scaled=scaled, added=added, bias_tile=None,
                            activation=activation), c)


def _at(array: Any, number: Any, rows: int, row: Any, column: Any) -> tuple[Any, ...]:
    """Place of an element of a matrix of ``rows`` rows in a batch or a stack."""
    return (number, row, column) if len(array.shape) == 3 else (number * rows + row, column)


def stacks(a: Operand, b: Operand, c: Operand, target: Target) -> Sequence[Operand] | None:
    """The three arrays as :func:`stacked_product` takes them, if it does; else None.

    It takes 16-bit floats and 8-bit integers on targets with block messages, no more than 48 x 48 results of a product
    and 64 elements along K, all contiguous, and at least one product for each vector engine. If M is a multiple of 8
    and K one of the matrix engine's depth, and 2D block messages reach them, they are one matrix each; else batches:
    the compiler then knows which of their rows belong together, and compiles for their sizes.
    """
    (rows, depth), columns = a.shape[-2:], b.shape[-1]
    if not target.block_io or a.dtype is not b.dtype or a.dtype not in _ELEMENTS:
        return None
    shape = target.mma_shape(a.dtype, b.dtype)
    if shape.engine == "vector" or _rounded(depth, shape.k) > _MOST_DEPTH:
        return None
    if _rounded(rows, 8) * _rounded(columns, 16) > _MOST_SUMS or \
            math.prod(c.shape[:-2]) < target.cores * _LEAST_A_CORE:
        return None
    if a.shape[:-2] != b.shape[:-2] or not all(each.array.flags.c_contiguous for each in (a, b, c)):
        return None
    if rows % 8 == depth % shape.k == 0 and all(_is_reached(each, target) for each in (a, b, c)):
        return [each.reshaped((math.prod(each.shape[:-1]), each.shape[-1])) for each in (a, b, c)]
    if all(_is_batch(each, target) for each in (a, b, c)):
        return [each.reshaped((math.prod(each.shape[:-2]), *each.shape[-2:])) for each in (a, b, c)]
    return None


def launch_stacked(found: Sequence[Operand], rows: int, depth: int, factors: tuple[float, float], target: Target,
                   bound: Any, **ending: Any) -> None:
    """Launch :func:`stacked_product`, bound to an executor, on the stacks of :func:`stacks`."""
    a, b, c = found
    count = math.prod(a.shape[:-1]) // rows
    each = min(max(count // (target.cores * _SUBGROUPS_A_CORE), 1), _MOST_A_SUBGROUP)
    # those of odd sizes that begin on 4-byte boundaries begin a step
    least = max(4 // math.gcd(4, math.prod(operand.shape[-2:]) * operand.dtype.bytes) for operand in found)
    each = max(each - (each % _AT_ONCE if each > _AT_ONCE else 0), 1)
    if len(a.shape) > 2:  # of these several are one step on every target, which more subgroups would not have
        is_busy = count >= _AT_ONCE * target.cores * _LEAST_A_CORE
        each = _rounded(max(each, _AT_ONCE if is_busy else 1), least)
    tile = _rounded(rows, 8), _rounded(b.shape[-1], 16)
    bound[-(-count // each)](a.argument, b.argument, c.argument, *factors, count, each, M=tile[0], N=tile[1],
                             K=_rounded(depth, target.mma_shape(a.dtype, b.dtype).k), BM=tile[0], BN=tile[1], **ending)


def _rounded(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def _is_reached(operand: Operand, target: Target) -> bool:
    """Whether 2D block messages reach all of a batch as one matrix."""
    stack = operand.reshaped((math.prod(operand.shape[:-1]), operand.shape[-1])).described
    return access(target, stack.pointer, stack.shape, stack.strides, operand.dtype.bytes) == "block"


def _is_batch(operand: Operand, target: Target) -> bool:
    """Whether a batch's matrices are small, behind each other, and begin where messages take them."""
    batch = operand.reshaped((math.prod(operand.shape[:-2]), *operand.shape[-2:])).described
    is_aligned = (batch.pointer or 0) % STORE_ALIGNMENT == 0
    return is_aligned and small_matrix(batch.shape, batch.strides, operand.dtype.bytes) != ()
