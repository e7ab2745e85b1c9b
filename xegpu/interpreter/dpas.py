"""NumPy semantics of DPAS: lazily evaluated, batched matrix products.

A kernel's K loop multiplies slices with K of 16 or 32. NumPy would spend its time on the accumulator, which is read and
written once for each of them. So the terms of ``acc + a0 @ b0 + a1 @ b1 ...`` are collected and evaluated as one
product, ``acc + [a0 a1 ...] @ [b0; b1; ...]``, when the value is used or K reaches ``DEPTH``. Integers stay exact;
floats are added in another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from xegpu.interpreter.interpreter import Delayed, now
from xegpu.ir.dtypes import DType, round_to, tf32, truncate_tf32

Array = np.ndarray[Any, Any]
DEPTH = 1024
_WAITING_BYTES = 64 << 20


@dataclass
class Sum(Delayed):
    """Lazy sum ``acc + a0 @ b0 + a1 @ b1 ...`` over the batch axes; all slices vary along the same axes.

    Attributes:
        types: element types of A, B and the accumulator.
        acc: the accumulator, None for zero.
        terms: the pending slices of A and of B.
    """

    types: tuple[DType, DType, DType]
    acc: Array | None
    terms: tuple[tuple[Array, Array], ...]
    _value: Array | None = field(default=None, init=False)

    def value(self) -> Array:
        """Evaluate the sum and release the pending terms."""
        if self._value is None:
            self._value = added(product([a for a, _ in self.terms], [b for _, b in self.terms], *self.types), self.acc)
            self.acc, self.terms = None, ()
        return self._value

    def takes(self, a: Array, b: Array) -> bool:
        """Whether another product can be added to the pending terms."""
        if self._value is not None:
            return False
        depth = sum(slice_.shape[-1] for slice_, _ in self.terms) + a.shape[-1]
        waiting = sum(x.nbytes + y.nbytes for x, y in self.terms)
        return _besides_depth(a, b) == _besides_depth(*self.terms[0]) and depth <= DEPTH and waiting < _WAITING_BYTES


def _besides_depth(a: Array, b: Array) -> tuple[tuple[int, ...], ...]:
    return a.shape[:-1], b.shape[:-2], b.shape[-1:]


def accumulate(acc: Any, a: Array, b: Array, types: tuple[DType, DType, DType]) -> Any:
    """Accumulate ``acc + a @ b``, rounded to the accumulator's type; lazy where no rounding is needed.

    Args:
        acc: an array, a lazy sum, or None.
        a: ``[..., m, k]``.
        b: ``[..., k, n]``.
        types: element types of A, B and the accumulator.
    """
    result = types[2]
    if result is tf32 or result.compute != result.numpy:  # each product rounds
        return round_to(added(product([a], [b], *types), now(acc)), result)
    if isinstance(acc, Sum) and acc.types == types and acc.takes(a, b):
        return Sum(types, acc.acc, (*acc.terms, (a, b)))
    return Sum(types, now(acc), ((a, b),))


def added(product_: Array, acc: Array | None) -> Array:
    """Sum of product and accumulator, in place in the product where shape and type allow."""
    if acc is None:
        return product_
    fits = product_.shape == np.broadcast_shapes(product_.shape, acc.shape) and product_.dtype == acc.dtype
    return np.add(product_, acc, out=product_) if fits else product_ + acc


def product(a: Sequence[Array], b: Sequence[Array], a_type: DType, b_type: DType, c_type: DType) -> Array:
    """Sum of products ``a0 @ b0 + a1 @ b1 ...``, before accumulation and rounding.

    Integers multiply exactly; floats in float32 (float64 for f64), the precision of the matrix engine's sums.
    """
    if a_type is tf32:
        a, b = [truncate_tf32(x) for x in a], [truncate_tf32(x) for x in b]
    if c_type.is_float:
        return matmul(a, b, np.result_type(a[0], b[0]))
    most = sum(x.shape[-1] for x in a) << (_magnitude(a_type) + _magnitude(b_type))
    if most <= 1 << 24:  # BLAS has no integer GEMM; float32 represents all integers up to 2^24 exactly
        return matmul(a, b, np.dtype(np.float32)).astype(np.int32).astype(c_type.compute, copy=False)
    return matmul(a, b, np.dtype(np.float64)).astype(np.int64).astype(c_type.compute)


def _magnitude(dtype: DType) -> int:
    """Exponent of two that bounds the magnitude of an integer type."""
    return dtype.bits - (dtype.kind == "i")


def matmul(a: Sequence[Array], b: Sequence[Array], dtype: np.dtype[Any]) -> Array:
    """Batched sum of products ``a0 @ b0 + a1 @ b1 ...``, as few and as large GEMMs as the batch axes allow.

    Batch axes along which only A varies are folded into M, those along which only B varies into N.

    Args:
        a: slices ``[..., m, k]`` of equal shape except k.
        b: slices ``[..., k, n]`` of equal shape except k.
        dtype: the float type to multiply in.
    """
    sizes, last = (a[0].shape[:-2], b[0].shape[:-2]), a[0].ndim - 2
    both = [axis for axis, pair in enumerate(zip(*sizes, strict=True)) if min(pair) > 1]
    down, across = ([axis for axis, size in enumerate(side) if size > 1 and axis not in both] for side in sizes)
    flat_a = _joined(a, [*both, *down, last, last + 1], -1, dtype)
    flat_b = _joined(b, [*both, last, *across, last + 1], len(both), dtype)
    batch, rows, columns = flat_a.shape[:len(both)], flat_a.shape[len(both):-1], flat_b.shape[len(both) + 1:]
    flat = np.matmul(flat_a.reshape(*batch, prod(rows), -1), flat_b.reshape(*batch, -1, prod(columns)))
    return _unfolded(flat.reshape(*batch, *rows, *columns), [*both, *down, last, *across, last + 1], last)


def _joined(slices: Sequence[Array], axes: Sequence[int], along: int, dtype: np.dtype[Any]) -> Array:
    """Transpose the slices to this order of axes and concatenate them along dimension ``along`` of the result."""
    ordered = [_ordered(block, axes) for block in slices]
    return np.concatenate(ordered, along, dtype=dtype)


def _ordered(block: Array, axes: Sequence[int]) -> Array:
    """Transpose a block to this order of axes and drop the others, which have size 1."""
    others = [axis for axis in range(block.ndim) if axis not in axes]
    return block.transpose(*axes, *others).reshape([block.shape[axis] for axis in axes])


def _unfolded(result: Array, axes: Sequence[int], batch: int) -> Array:
    """View of ``result``, whose dimensions are these axes, as all batch axes followed by rows and columns."""
    ordered = result.transpose(np.argsort(axes))
    return ordered[tuple(slice(None) if axis in axes else None for axis in range(batch + 2))]
