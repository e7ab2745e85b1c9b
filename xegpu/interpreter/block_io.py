"""NumPy semantics of block operations of XeGPU, on blocks and on the fragments of all lanes.

An operation works on fragments when its descriptor, or the operation itself, has a lane map; a value then has the lanes
as its last batch axis. ``machine`` is the interpreter; it has the number of batch axes and the active instances.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from xdsl.ir import Operation

from xegpu.dialect.block_io import CreateNdTdescOp, LoadNdOp, PrefetchNdOp, StoreNdOp, UpdateNdOffsetOp, desc_of
from xegpu.dialect.dpas import DEPTH as SCALED_DEPTH
from xegpu.dialect.dpas import ROWS as SCALED_ROWS
from xegpu.dialect.dpas import SCALE_MAPS, DpasOp, DpasScaledOp, LoadMadOp, MadOp
from xegpu.dialect.layout_ops import BitcastOp, ConvertLayoutOp, PackOp, PadOp
from xegpu.dialect.reduction import IotaOp
from xegpu.dialect.types import TensorDesc
from xegpu.interpreter import gather_scatter, memory, reduction
from xegpu.interpreter.memory import check_aligned, memory_at
from xegpu.ir.dtypes import DType, of_mlir, round_to, tf32, truncate_tf32
from xegpu.ir.memref import ALIGNED, is_address, is_shared
from xegpu.layout import iota, lane_map
from xegpu.mlir.vector import shape_of
from xegpu.support.errors import ShapeError
from xegpu.support.location import author_location

Array = np.ndarray[Any, Any]


class Machine(Protocol):
    """Interface of the interpreter that the semantics of operations use."""

    @property
    def batch(self) -> int:
        """Number of batch axes of a vector, the lanes included."""

    @property
    def lanes(self) -> int | None:
        """Subgroup size where values are fragments, else None."""

    @property
    def active(self) -> Array | None:
        """Mask of active instances, None for all."""

    @property
    def work_group(self) -> tuple[Any, ...]:
        """Indices of each instance's work-group in an SLM array."""


class Window(Protocol):
    """Run-time value of a block descriptor."""

    @property
    def array(self) -> Array:
        """Array that it describes."""

    @property
    def row(self) -> Any:
        """First row."""

    @property
    def column(self) -> Any:
        """First column."""

    @property
    def lead(self) -> tuple[Any, ...]:
        """Indices of the leading dimensions, before the last two."""

    def moved(self, rows: Any, columns: Any) -> Window:
        """Descriptor with updated offsets."""


Making = Callable[[Array, Any, Any, tuple[Any, ...]], Window]


def surface(array: Array, sizes: Sequence[Any], strides: Sequence[Any]) -> Array:
    """View of an array's memory with other sizes and strides (in elements), from its first element on."""
    bytes_apart = tuple(stride * array.itemsize for stride in strides)
    if array.shape == tuple(sizes) and array.strides == bytes_apart:
        return array
    return memory.strided(array, sizes, bytes_apart)


def described(machine: Machine, operation: Any, operands: Sequence[Any]) -> tuple[Array, Any, Any, tuple[Any, ...]]:
    """Array, row, column and leading indices that the operands of an init operation describe.

    Raises:
        ShapeError: the memory violates what the author asserts of it.
    """
    try:
        return _described(machine, operation, operands)
    except ShapeError as error:
        raise error.at(author_location(operation)) from None


def _described(machine: Machine, operation: Any, operands: Sequence[Any]) -> tuple[Array, Any, Any, tuple[Any, ...]]:
    array, *numbers = operands
    if is_address(operation.source.type):
        rows, columns, *sizes_and_strides = numbers
        array, where = memory_at(array, sizes_and_strides[:2], sizes_and_strides[2:], operation.result.type.data.dtype,
                                 machine.active, aligned=ALIGNED in operation.attributes)
        return array, rows, columns, where
    first, second = len(operation.offsets), len(operation.offsets) + len(operation.shape)
    *lead, row, column = numbers[:first]
    group = machine.work_group if is_shared(operation.source.type) else ()
    if first < second:  # else a memref of static shape, whose type has sizes and strides
        across = [stride // array.itemsize for stride in array.strides[:len(group)]]
        sizes, strides = numbers[first:second], numbers[second:]
        if ALIGNED in operation.attributes:
            check_aligned(array.ctypes.data, sizes, strides, array.itemsize)
        array = surface(array, [*array.shape[:len(group)], *sizes], [*across, *strides])
    return array, row, column, (*group, *lead)


def vnni(block: Array, factor: int) -> Array:
    """VNNI packing: ``[..., k, n]`` to ``[..., k / v, n, v]``; ``v`` rows of a column become one word."""
    *batch, rows, columns = block.shape
    return np.swapaxes(block.reshape(*batch, rows // factor, factor, columns), -1, -2)


def from_vnni(packed: Array) -> Array:
    """VNNI unpacking, the inverse of :func:`vnni`."""
    *batch, words, columns, factor = packed.shape
    return np.swapaxes(packed, -1, -2).reshape(*batch, words * factor, columns)


def product(a: Array, b: Array, acc: Array | None, a_type: DType, c_type: DType) -> Array:
    """Matrix multiply-accumulate with the matrix engine's rounding: float32 sums, rounded once to the result type."""
    if a_type is tf32:
        a, b = truncate_tf32(a), truncate_tf32(b)
    if not c_type.is_float:
        whole = np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64)
        total: Array = whole if acc is None else whole + acc
        return total.astype(c_type.compute)
    result: Array = np.matmul(a, b)
    return round_to(result if acc is None else result + acc, c_type)


def _load_nd(machine: Machine, operation: Any, operands: Sequence[Any]) -> Array:
    desc, window = desc_of(operation.desc), operands[0]
    rows, columns = desc.shape
    length, packed = desc.block.array_length, operation.packed is not None
    batch = machine.batch - (desc.sg_map is not None)
    whole = memory.read(window.array, window.row, window.column, (rows, columns * length), batch, lead=window.lead)
    blocks = np.stack(np.split(memory.as_numbers(whole, desc.dtype), length, axis=-1), axis=-3)
    if desc.sg_map is not None:
        fragments = np.moveaxis(lane_map.scatter(blocks, desc.sg_map, machine.lanes), -3, -4)
        return fragments if length > 1 else np.asarray(fragments[..., 0, :, :])
    blocks = vnni(blocks, 32 // desc.dtype.bits) if packed else blocks
    if operation.transposes:
        together = operation.transposes // desc.dtype.bits
        words = blocks.reshape(*blocks.shape[:-1], columns // together, together)
        return np.swapaxes(words, -3, -2).reshape(*whole.shape[:-2], *shape_of(operation.result))
    return blocks if length > 1 else blocks.reshape(*whole.shape[:-2], *shape_of(operation.result))


def _store_nd(machine: Machine, operation: Any, operands: Sequence[Any]) -> None:
    desc, (value, window) = desc_of(operation.desc), operands
    if desc.sg_map is not None:
        value = lane_map.gather(value, (desc.shape[0], desc.shape[1]), desc.sg_map)
    memory.write(window.array, window.row, window.column, value, machine.active, window.lead)


def _mma(machine: Machine, operation: Any, operands: Sequence[Any]) -> Array:
    a, b, *acc = operands
    a_type = of_mlir(operation.a.type.element_type)
    c_type = of_mlir(operation.result.type.element_type)
    maps = operation.maps
    if maps is None:
        b = from_vnni(b) if len(shape_of(operation.b)) == 3 else b
        return product(a, b, acc[0] if acc else None, a_type, c_type)
    m, n, k = operation.sizes()
    a, b = lane_map.gather(a, (m, k), maps[0]), lane_map.gather(b, (k, n), maps[1])
    whole = [lane_map.gather(c, (m, n), maps[2]) for c in acc]
    return lane_map.scatter(product(a, b, whole[0] if whole else None, a_type, c_type), maps[2], machine.lanes)


def scale_of(exponents: Array) -> Array:
    """Decode E8M0 scales: powers of two, 255 is NaN."""
    powers = np.ldexp(np.float32(1), exponents.astype(np.int32) - 127)
    return np.where(exponents == 255, np.float32(np.nan), powers)


def scaled_product(a: Array, b: Array, acc: Array, scale_a: Array, scale_b: Array) -> Array:
    """Scaled product ``acc + (a x scale_a) @ (b x scale_b)``, one scale for each 32 elements of K."""
    left = a * np.repeat(scale_of(scale_a), SCALED_DEPTH, -1)
    return np.asarray(np.matmul(left, b * np.repeat(scale_of(scale_b), SCALED_DEPTH, -2)) + acc)


def _mma_scaled(machine: Machine, operation: Any, operands: Sequence[Any]) -> Array:
    a, b, acc, *scales = operands
    if operation.lanes is None:
        return scaled_product(a, from_vnni(b) if len(shape_of(operation.b)) == 3 else b, acc, *scales)
    lanes = operation.lanes.value.data
    maps = lane_map.operand_a(lanes, 8), lane_map.operand_b(lanes, 8), lane_map.plain(lanes, lanes), *SCALE_MAPS
    shapes = (SCALED_ROWS, SCALED_DEPTH), (SCALED_DEPTH, lanes), (SCALED_ROWS, lanes), (SCALED_ROWS, 1), (1, lanes)
    whole = [lane_map.gather(value, shape, map_) for value, shape, map_ in zip(operands, shapes, maps, strict=True)]
    return lane_map.scatter(scaled_product(*whole), maps[2], machine.lanes)


def _load_operand(window: Window, desc: TensorDesc, batch: int) -> Array:
    rows, columns = desc.shape
    whole = memory.read(window.array, window.row, window.column, (rows, columns), batch, lead=window.lead)
    return memory.as_numbers(whole, desc.dtype)


def _load_mma(machine: Machine, operation: Any, operands: Sequence[Any]) -> Any:
    a, b, *acc = operands
    (m, n, _), (rows, columns), lanes = operation.sizes, operation.block, operation.sg_map
    batch = machine.batch - (lanes is not None)
    factors = [_load_operand(window, desc_of(value), batch) for window, value in ((a, operation.a), (b, operation.b))]
    types = desc_of(operation.a).dtype, of_mlir(operation.acc[0].type.element_type)
    whole = acc if lanes is None else [lane_map.gather(value, (rows, columns), lanes.data) for value in acc]
    places = [(row, column) for row in range(0, m, rows) for column in range(0, n, columns)]
    results = [product(factors[0][..., row:row + rows, :], factors[1][..., column:column + columns], value, *types)
               for (row, column), value in zip(places, whole, strict=True)]
    if lanes is not None:
        results = [lane_map.scatter(value, lanes.data, machine.lanes) for value in results]
    return results if len(results) > 1 else results[0]


def _pad(machine: Machine, operation: Any, operands: Sequence[Any]) -> Array:
    value, window = operands
    lanes = None if operation.sg_map is None else operation.sg_map.data
    rows, columns = desc_of(operation.desc).shape
    whole = value if lanes is None else lane_map.gather(value, (rows, columns), lanes)
    batch = machine.batch - (lanes is not None)
    mask = memory.in_bounds(window.array, window.row, window.column, (rows, columns), batch, window.lead)
    dtype = of_mlir(operation.result.type.element_type)
    padded = np.where(mask, whole, round_to(np.asarray(operation.number), dtype)).astype(dtype.compute)
    return padded if lanes is None else lane_map.scatter(padded, lanes, machine.lanes)


def _pack(machine: Machine, operation: Any, operands: Sequence[Any]) -> Array:
    source: Array = operands[0]
    words, *_, factor = shape_of(operation.result)
    if operation.sg_map is None:
        return vnni(source, factor)
    return source.reshape(*source.shape[:-2], words, factor)


def bits_by_rows(values: Array, wide: DType, narrow: DType) -> Array:
    """Bitcast to narrower elements along the rows of ``[..., rows, columns]``, the lowest bits first."""
    parts = np.ascontiguousarray(values.astype(wide.numpy)).astype(wide.numpy.newbyteorder("<"), copy=False)
    split = parts[..., None].view(narrow.numpy)
    rows = np.moveaxis(split, -1, -2)
    *outer, count, factor, columns = rows.shape
    return rows.reshape(*outer, count * factor, columns).astype(narrow.compute)


def _bitcast(machine: Machine, operation: Any, operands: Sequence[Any]) -> Array:
    types = (of_mlir(value.type.element_type) for value in (operation.source, operation.result))
    return bits_by_rows(operands[0], *types)


def _convert_layout(machine: Machine, operation: Any, operands: Sequence[Any]) -> Array:
    whole = lane_map.gather(operands[0], operation.block_shape(), operation.source_map.data)
    return lane_map.scatter(whole, operation.target_map.data, machine.lanes)


def _iota(machine: Machine, operation: Any, operands: Sequence[Any]) -> Array:
    shape, axis = operation.block_shape(), operation.axis.value.data
    dtype = of_mlir(operation.result.type.element_type)
    if operation.sg_map is None:
        return iota.block_iota(shape, axis, operands[0], dtype, machine.batch)
    return iota.lane_iota(shape, axis, operands[0], dtype, machine.batch, operation.sg_map.data,
                          machine.lanes or operation.sg_map.data.lanes)


def meanings(window: Making) -> Mapping[type[Operation], Callable[..., Any]]:
    """Table of semantics: operation to NumPy function.

    Args:
        window: constructor of a block descriptor from array, row, column and leading indices.
    """
    return {
        CreateNdTdescOp: lambda machine, operation, operands: window(*described(machine, operation, operands)),
        UpdateNdOffsetOp: lambda machine, operation, operands: operands[0].moved(*operands[1:]),
        LoadNdOp: _load_nd,
        StoreNdOp: _store_nd,
        PrefetchNdOp: lambda machine, operation, operands: None,
        DpasOp: _mma,
        MadOp: _mma,
        DpasScaledOp: _mma_scaled,
        LoadMadOp: _load_mma,
        PackOp: _pack,
        BitcastOp: _bitcast,
        PadOp: _pad,
        ConvertLayoutOp: _convert_layout,
        **gather_scatter.MEANINGS,
        IotaOp: _iota,
        **reduction.MEANINGS,
    }
