"""NumPy semantics of dpas, and deferred batched GEMM: one long product instead of many short ones.

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

from xegpu.dialect.block_io import desc_of
from xegpu.dialect.dpas import DEPTH as SCALED_DEPTH
from xegpu.dialect.dpas import ROWS as SCALED_ROWS
from xegpu.dialect.dpas import SCALE_MAPS, DpasOp, DpasScaledOp, LoadMadOp, MadOp
from xegpu.dialect.fused_store import FusedStoreCheckOp, LoadMadStoreOp
from xegpu.dialect.types import TensorDesc
from xegpu.interpreter import memory
from xegpu.interpreter.interpreter import Interpreter, LazyValue, Semantics, TileView, force
from xegpu.ir.dtypes import ELEMENTS, DType, NDArray, nibbles, of_mlir, round_to, tf32, truncate_tf32
from xegpu.layout import lane_map
from xegpu.layout.vnni import from_vnni
from xegpu.mlir.vector import shape_of
from xegpu.target.gemm_microkernel import MicrokernelShape

DEPTH = 1024
_WAITING_BYTES = 64 << 20


@dataclass
class Sum(LazyValue):
    """Lazy sum ``acc + a0 @ b0 + a1 @ b1 ...`` over the batch axes; all slices vary along the same axes.

    Attributes:
        types: element types of A, B and the accumulator.
        acc: the accumulator, None for zero.
        terms: the pending slices of A and of B.
    """

    types: tuple[DType, DType, DType]
    acc: NDArray | None
    terms: tuple[tuple[NDArray, NDArray], ...]
    _value: NDArray | None = field(default=None, init=False)

    def value(self) -> NDArray:
        """Evaluate the sum and release the pending terms."""
        if self._value is None:
            left, right = [a for a, _ in self.terms], [b for _, b in self.terms]
            self._value = added(sum_of_products(left, right, *self.types), self.acc)
            self.acc, self.terms = None, ()
        return self._value

    def takes(self, a: NDArray, b: NDArray) -> bool:
        """Whether another product can be added to the pending terms."""
        if self._value is not None:
            return False
        depth = sum(slice_.shape[-1] for slice_, _ in self.terms) + a.shape[-1]
        waiting = sum(x.nbytes + y.nbytes for x, y in self.terms)
        return _besides_depth(a, b) == _besides_depth(*self.terms[0]) and depth <= DEPTH and waiting < _WAITING_BYTES


def _besides_depth(a: NDArray, b: NDArray) -> tuple[tuple[int, ...], ...]:
    return a.shape[:-1], b.shape[:-2], b.shape[-1:]


def accumulate(acc: Any, a: NDArray, b: NDArray, types: tuple[DType, DType, DType]) -> Any:
    """Accumulate ``acc + a @ b``, rounded to the accumulator's type; lazy where no rounding is needed.

    Args:
        acc: an array, a lazy sum, or None.
        a: ``[..., m, k]``.
        b: ``[..., k, n]``.
        types: element types of A, B and the accumulator.
    """
    result = types[2]
    if result is tf32 or result.compute != result.numpy:  # each product rounds
        return product(a, b, force(acc), types)
    if isinstance(acc, Sum) and acc.types == types and acc.takes(a, b):
        return Sum(types, acc.acc, (*acc.terms, (a, b)))
    return Sum(types, force(acc), ((a, b),))


def product(a: NDArray, b: NDArray, acc: NDArray | None, types: tuple[DType, DType, DType]) -> NDArray:
    """Matrix multiply-accumulate ``acc + a @ b`` with the matrix engine's rounding: once, to the accumulator's type.

    Args:
        a: ``[..., m, k]``.
        b: ``[..., k, n]``.
        acc: ``[..., m, n]``, or None for zero.
        types: element types of A, B and the accumulator.
    """
    return round_to(added(sum_of_products([a], [b], *types), acc), types[2])


def added(product_: NDArray, acc: NDArray | None) -> NDArray:
    """Sum of product and accumulator, in place in the product where shape and type allow."""
    if acc is None:
        return product_
    fits = product_.shape == np.broadcast_shapes(product_.shape, acc.shape) and product_.dtype == acc.dtype
    return np.add(product_, acc, out=product_) if fits else product_ + acc


def sum_of_products(a: Sequence[NDArray], b: Sequence[NDArray], a_type: DType, b_type: DType, c_type: DType) -> NDArray:
    """Sum of products ``a0 @ b0 + a1 @ b1 ...``, before accumulation and rounding.

    Integers multiply exactly; floats in float32 (float64 for f64), the precision of the matrix engine's sums.
    """
    if a_type.kind == "p":  # K is the order of a sum: all lower elements, then all upper ones
        a, b = ([part for x in side for part in nibbles(x, ELEMENTS[pair])]
                for side, pair in ((a, a_type), (b, b_type)))
        a_type, b_type = ELEMENTS[a_type], ELEMENTS[b_type]
    if a_type is tf32:
        a, b = [truncate_tf32(x) for x in a], [truncate_tf32(x) for x in b]
    if c_type.is_float:
        return matmul(a, b, np.result_type(a[0], b[0]))
    most = sum(x.shape[-1] for x in a) << (_magnitude(a_type) + _magnitude(b_type))
    if most <= 1 << 24:  # BLAS has no integer GEMM; float32 represents all integers up to 2^24 exactly
        return matmul(a, b, np.dtype(np.float32)).astype(np.int32).astype(c_type.compute, copy=False)
    return matmul(a, b, np.dtype(np.float64)).astype(np.int64).astype(c_type.compute)


def _magnitude(dtype: DType) -> int:
    """Bits of magnitude of an integer type."""
    return dtype.bits - (dtype.kind == "i")


def matmul(a: Sequence[NDArray], b: Sequence[NDArray], dtype: np.dtype[Any]) -> NDArray:
    """Batched sum of products ``a0 @ b0 + a1 @ b1 ...``, as few and as large GEMMs as the batch axes allow.

    Batch axes along which only A varies are folded into M, those along which only B varies into N.

    Args:
        a: slices ``[..., m, k]`` of equal shape except k.
        b: slices ``[..., k, n]`` of equal shape except k.
        dtype: the float type to multiply in.
    """
    if len(a) == 1:  # K is short: NumPy's loop over the batch takes less time than the copies that fold it
        product_: NDArray = np.matmul(a[0].astype(dtype, copy=False), b[0].astype(dtype, copy=False))
        return product_
    sizes, last = (a[0].shape[:-2], b[0].shape[:-2]), a[0].ndim - 2
    both = [axis for axis, pair in enumerate(zip(*sizes, strict=True)) if min(pair) > 1]
    down, across = ([axis for axis, size in enumerate(side) if size > 1 and axis not in both] for side in sizes)
    flat_a = _concatenated(a, [*both, *down, last, last + 1], -1, dtype)
    flat_b = _concatenated(b, [*both, last, *across, last + 1], len(both), dtype)
    batch, rows, columns = flat_a.shape[:len(both)], flat_a.shape[len(both):-1], flat_b.shape[len(both) + 1:]
    flat = np.matmul(flat_a.reshape(*batch, prod(rows), -1), flat_b.reshape(*batch, -1, prod(columns)))
    return _unfolded(flat.reshape(*batch, *rows, *columns), [*both, *down, last, *across, last + 1], last)


def _concatenated(slices: Sequence[NDArray], axes: Sequence[int], along: int, dtype: np.dtype[Any]) -> NDArray:
    """Transpose the slices to this order of axes and concatenate them along dimension ``along`` of the result."""
    ordered = [_ordered(block, axes) for block in slices]
    return np.concatenate(ordered, along, dtype=dtype)


def _ordered(block: NDArray, axes: Sequence[int]) -> NDArray:
    """Transpose a block to this order of axes and drop the others, which have size 1."""
    others = [axis for axis in range(block.ndim) if axis not in axes]
    return block.transpose(*axes, *others).reshape([block.shape[axis] for axis in axes])


def _unfolded(result: NDArray, axes: Sequence[int], batch: int) -> NDArray:
    """View of ``result``, whose dimensions are these axes, as all batch axes followed by rows and columns."""
    ordered = result.transpose(np.argsort(axes))
    return ordered[tuple(slice(None) if axis in axes else None for axis in range(batch + 2))]


def _dpas(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> NDArray:
    a, b, *acc = operands
    a_type, b_type, c_type = (of_mlir(value.type.element_type)
                              for value in (operation.a, operation.b, operation.result))
    types = a_type, b_type, c_type
    maps = operation.maps
    if maps is None:
        b = from_vnni(b) if len(shape_of(operation.b)) == 3 else b
        return product(a, b, acc[0] if acc else None, types)
    m, n, k = operation.sizes()
    a, b = lane_map.gather(a, (m, k), maps[0]), lane_map.gather(b, (k, n), maps[1])
    whole = [lane_map.gather(c, (m, n), maps[2]) for c in acc]
    return lane_map.scatter(product(a, b, whole[0] if whole else None, types), maps[2], machine.lanes)


def scale_of(exponents: NDArray) -> NDArray:
    """Decode E8M0 scales: powers of two, 255 is NaN."""
    powers = np.ldexp(np.float32(1), exponents.astype(np.int32) - 127)
    return np.where(exponents == 255, np.float32(np.nan), powers)


def scaled_product(a: NDArray, b: NDArray, acc: NDArray, scale_a: NDArray, scale_b: NDArray) -> NDArray:
    """Scaled product ``acc + (a x scale_a) @ (b x scale_b)``, one scale for each 32 elements of K."""
    left = a * np.repeat(scale_of(scale_a), SCALED_DEPTH, -1)
    return np.asarray(np.matmul(left, b * np.repeat(scale_of(scale_b), SCALED_DEPTH, -2)) + acc)


def _dpas_scaled(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> NDArray:
    a, b, acc, *scales = operands
    if operation.lanes is None:
        return scaled_product(a, from_vnni(b) if len(shape_of(operation.b)) == 3 else b, acc, *scales)
    lanes = operation.lanes.value.data
    maps = lane_map.operand_a(lanes, 8), lane_map.operand_b(lanes, 8), lane_map.default(lanes, lanes), *SCALE_MAPS
    shapes = (SCALED_ROWS, SCALED_DEPTH), (SCALED_DEPTH, lanes), (SCALED_ROWS, lanes), (SCALED_ROWS, 1), (1, lanes)
    whole = [lane_map.gather(value, shape, map_) for value, shape, map_ in zip(operands, shapes, maps, strict=True)]
    return lane_map.scatter(scaled_product(*whole), maps[2], machine.lanes)


def _load_operand(window: TileView, desc: TensorDesc, batch: int) -> NDArray:
    rows, columns = desc.shape
    whole = memory.read(window.array, window.row, window.column, (rows, columns), batch, lead=window.lead)
    return memory.as_numbers(whole, desc.dtype)


def _load_mma(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Any:
    a, b, *acc = operands
    (m, n, _), (rows, columns), lanes = operation.sizes, operation.block, operation.sg_map
    batch = machine.batch - (lanes is not None)
    factors = [_load_operand(window, desc_of(value), batch) for window, value in ((a, operation.a), (b, operation.b))]
    types = desc_of(operation.a).dtype, desc_of(operation.b).dtype, of_mlir(operation.acc[0].type.element_type)
    whole = acc if lanes is None else [lane_map.gather(value, (rows, columns), lanes.data) for value in acc]
    corners = [(row, column) for row in range(0, m, rows) for column in range(0, n, columns)]
    results = [product(factors[0][..., row:row + rows, :], factors[1][..., column:column + columns], value, types)
               for (row, column), value in zip(corners, whole, strict=True)]
    if lanes is not None:
        results = [lane_map.scatter(value, lanes.data, machine.lanes) for value in results]
    return results if len(results) > 1 else results[0]


def _extent(window: TileView) -> tuple[Any, Any, Any, Any]:
    """Height, width, pitch in elements and address of the array of a descriptor."""
    array = window.array
    if isinstance(array, memory.Surfaces):
        (height, width), itemsize = array.sizes, array.flat.itemsize
        return height, width, array.strides[0], array.flat.ctypes.data + array.first * itemsize
    address = array.ctypes.data
    for index, stride in zip(window.lead, array.strides, strict=False):
        address = address + index * stride
    return *array.shape[-2:], array.strides[-2] // array.itemsize, address


def _fused_store_check(machine: Interpreter, operation: FusedStoreCheckOp, operands: Sequence[Any]) -> list[Any]:
    a, b, c, first, end = operands
    m, n, step = operation.sizes
    (c_height, c_width, c_pitch, _), (_, a_width, _, _) = _extent(c), _extent(a)
    rows, columns = np.minimum(c_height - c.row, m), np.minimum(c_width - c.column, n)
    depth = np.minimum((end - first + step - 1) // step * step, a_width - a.column - first)
    legal = (rows > 0) & (columns > 0) & (depth > 0) & (c.row >= 0) & (c.column >= 0) & (c_pitch >= columns)
    blocks = [(a.moved(0, first), rows, depth), (b.moved(first, 0), depth, columns)]
    begin, behind = _address_range(c, rows, columns)
    for block, height, width in blocks:
        array_height, array_width, pitch, _ = _extent(block)
        legal = legal & (block.row >= 0) & (block.column >= 0) & (pitch >= 0)
        legal = legal & (block.row + height <= array_height) & (block.column + width <= array_width)
        other, other_behind = _address_range(block, height, width)
        legal = legal & ((behind <= other) | (other_behind <= begin))
    return [np.bool_(legal) if np.ndim(legal) == 0 else legal, rows, columns, depth]


def _address_range(window: TileView, rows: Any, columns: Any) -> tuple[Any, Any]:
    """Addresses of the first byte of a block, and of the one behind its last."""
    *_, pitch, address = _extent(window)
    itemsize = window.array.flat.itemsize if isinstance(window.array, memory.Surfaces) else window.array.itemsize
    begin = address + (window.row * pitch + window.column) * itemsize
    return begin, begin + ((rows - 1) * pitch + columns) * itemsize


def _load_mad_store(machine: Interpreter, operation: LoadMadStoreOp, operands: Sequence[Any]) -> None:
    """Clipped product for the instances in which it is legal, the fallback region for the others."""
    a, b, c, first, legal, *extents = operands
    outer, holds = machine.active, np.asarray(legal, bool)
    holds = holds.reshape(holds.shape or (1,) * machine.batch)
    masks = [side if outer is None else outer & side for side in (holds, ~holds)]
    if masks[0].any():
        (m, n, _), (rows, columns, depth) = operation.sizes, extents
        k = int(np.max(depth))
        shape = MicrokernelShape(m, n, desc_of(operation.a).dtype, desc_of(operation.b).dtype)
        types = shape.a, shape.b, shape.accumulator
        batch = holds.ndim
        blocks = [memory.read(window.array, window.row, window.column, shape, batch, lead=window.lead)
                  for window, shape in ((a.moved(0, first), (m, k)), (b.moved(first, 0), (k, n)))]
        left, right = (memory.as_numbers(block, dtype) for block, dtype in zip(blocks, types[:2], strict=True))
        inside = _below(depth, k, batch)
        sums = product(np.where(inside[..., None, :], left, 0), np.where(inside[..., None], right, 0), None, types)
        clipped = _below(rows, m, batch)[..., None] & _below(columns, n, batch)[..., None, :]
        mask = masks[0][..., None, None] & clipped
        both = np.broadcast_shapes(sums.shape, mask.shape)
        memory.write(c.array, c.row, c.column, np.broadcast_to(sums, both), np.broadcast_to(mask, both), c.lead)
    if masks[1].any():
        machine.active = masks[1] if masks[0].any() else outer
        machine.run(operation.body.block)
        machine.active = outer


def _below(extent: Any, size: int, batch: int) -> NDArray:
    """Mask of the first ``extent`` of ``size`` elements, behind the batch axes."""
    array = np.asarray(extent)
    array = array.reshape(array.shape or (1,) * batch)
    return np.asarray(np.arange(size) < array[..., None])


SEMANTICS: Semantics = {DpasOp: _dpas, MadOp: _dpas, DpasScaledOp: _dpas_scaled, LoadMadOp: _load_mma,
    FusedStoreCheckOp: _fused_store_check, LoadMadStoreOp: _load_mad_store}
