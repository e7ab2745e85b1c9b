"""Subscripts of vectors, as NumPy's: elements, rows, columns, slices, and new dimensions of size 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, VectorType
from xdsl.ir import SSAValue

from xegpu.dialect.vector import ExtractScalarOp
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.mlir.arith import CmpIOp, SelectOp
from xegpu.mlir.vector import ExtractStridedSliceOp, InsertStridedSliceOp
from xegpu.support.errors import RankError, ShapeError
from xetile.dialect.reduction import TileReduceOp
from xetile.dialect.vector import IotaOp
from xetile.dialect.wg_map import WgMap
from xetile.frontend.broadcast import cast, check_unblocked
from xetile.frontend.constants import python_number, scalar
from xetile.frontend.notes import notes
from xetile.frontend.operators import splat
from xetile.frontend.ssa_value import ScalarBase, VectorBase
from xetile.frontend.tracer import current

WHOLE = slice(None)
_UNSIGNED = {8: dtypes.u8, 16: dtypes.u16, 32: dtypes.u32, 64: dtypes.u64}


def subscript(v: VectorBase, key: Any) -> VectorBase | SSAValue:
    """Value of ``v[key]``: a vector of one dimension or two, or the SSA value of a number.

    An element is a run-time number. An index that is known at run time only selects among all elements; beyond them it
    finds zero.

    Raises:
        RankError: more indices than dimensions, or a result of more than two.
        ShapeError: an index or a slice beyond the vector, or one that is none.
    """
    location = current().location()
    check_unblocked("a subscript", v)
    keys = _expanded(v, key)
    taken = [each for each in keys if each is not None]
    slices = all(isinstance(each, slice) for each in taken)
    if v.wg_map is not None and not (slices and len(keys) - len(taken) + len(v.shape) <= 2 and keys[-1] is not None):
        raise ShapeError("XT1418", f"the vector is distributed over subgroups, as {v.wg_map}, and a subscript takes a "
                         "part of it", "take slices of a dimension that each subgroup has in one block, reduce it with "
                         "xt.tile_reduce, or load the part with a tile of its own", location, notes(location, it=v))
    matrix = v if len(v.shape) == 2 else cast(v, (1, v.shape[0]))
    axes = range(2 - len(v.shape), 2)
    ranges, kept = [range(size) for size in matrix.shape], []
    for axis, each in zip(axes, taken, strict=True):
        ranges[axis] = _range(v, each, matrix.shape[axis], len(v.shape) - 2 + axis)
    matrix = _slice(v, matrix, ranges)
    for axis, each in zip(axes, taken, strict=True):
        if isinstance(each, ScalarBase):
            matrix = _selected(matrix, axis, each)
    remaining = iter(zip(axes, taken, strict=True))
    for each in keys:
        if each is None:
            kept.append(1)
        elif isinstance((taken_of := next(remaining))[1], slice):
            kept.append(matrix.shape[taken_of[0]])
    if not kept:
        number: SSAValue = current().emit(ExtractScalarOp(matrix.ssa))
        return number
    if len(kept) > 2:
        raise RankError("XT1247", f"this subscript makes {len(kept)} dimensions of a {v.describe()}",
                        "vectors have one or two: leave out a None", location, notes(location, it=v))
    part: VectorBase = cast(matrix, tuple(kept))
    return part


def _slice(v: VectorBase, matrix: VectorBase, ranges: Sequence[range]) -> VectorBase:
    """Rows and columns of a matrix; ``v`` is what messages show."""
    shape, sizes = matrix.shape, [len(each) for each in ranges]
    starts = [each.start if each.step == 1 else 0 for each in ranges]
    adjacent = [size if each.step == 1 else whole for each, size, whole in zip(ranges, sizes, shape, strict=True)]
    if (starts, adjacent) != ([0, 0], list(shape)):
        matrix = _part(v, matrix, starts, adjacent)
    for axis in (0, 1):
        if ranges[axis].step != 1:
            matrix = _strided(v, matrix, axis, ranges[axis])
    return matrix


def _part(v: VectorBase, matrix: VectorBase, starts: Sequence[int], sizes: Sequence[int]) -> VectorBase:
    map_ = matrix.wg_map and _sliced_map(v, matrix.wg_map, matrix.shape, sizes)
    return type(matrix)(current().emit(ExtractStridedSliceOp(matrix.ssa, starts, sizes)), map_)


def _strided(v: VectorBase, matrix: VectorBase, axis: int, positions: range) -> VectorBase:
    """Rows or columns at a distance: each is inserted into a slice of adjacent ones, of which none remains."""
    one, sizes = list(matrix.shape), list(matrix.shape)
    one[axis], sizes[axis] = 1, len(positions)
    result = _part(v, matrix, (0, 0), sizes)
    for i, position in enumerate(positions):
        start, end = [0, 0], [0, 0]
        start[axis], end[axis] = position, i
        line = _part(v, matrix, start, one)
        result = type(matrix)(current().emit(InsertStridedSliceOp(line.ssa, result.ssa, end)), result.wg_map)
    return result


def _sliced_map(v: VectorBase, wg_map: WgMap, shape: Sequence[int], sizes: Sequence[int]) -> WgMap:
    """Map of a slice of a work-group's vector.

    Raises:
        ShapeError: blocks end within a sliced dimension.
    """
    try:
        return wg_map.slice(shape, sizes)
    except ShapeError as error:
        location = current().location()
        raise ShapeError(error.code, error.message, error.hint, location, notes(location, it=v)) from None


def _expanded(v: VectorBase, key: Any) -> list[Any]:
    """Indices, slices and Nones of a subscript: one of the first two for each dimension."""
    keys = [python_number(each) for each in (key if isinstance(key, tuple) else (key,))]
    location, rank = current().location(), len(v.shape)
    for each in keys:
        known = isinstance(each, (int, slice, ScalarBase)) or each is None or each is Ellipsis
        if isinstance(each, bool) or not known:
            raise ShapeError("XT1246", f"{_shown(each)} is not a subscript of a vector", "use integers, run-time "
                             "indices, slices of integers such as 2:6, None or ...; elements by a vector of positions "
                             "are loaded so: xt.init_tile(A, (indices, column), shape)", location,
                             notes(location, it=v))
    count = sum(each is not None and each is not Ellipsis for each in keys)
    if count > rank or sum(each is Ellipsis for each in keys) > 1:
        raise RankError("XT1247", f"{count} indices of a {v.describe()}, which has {rank} "
                        f"dimension{'' if rank == 1 else 's'}", "give at most one for each dimension", location,
                        notes(location, it=v))
    where = next((at for at, each in enumerate(keys) if each is Ellipsis), None)
    rest = [WHOLE] * (rank - count)
    return [*keys, *rest] if where is None else [*keys[:where], *rest, *keys[where + 1:]]


def _shown(key: Any) -> str:
    return f"a {key.describe()}" if hasattr(key, "describe") else f"{key!r:.40}"


def _range(v: VectorBase, key: Any, extent: int, axis: int) -> range:
    """Elements that an index or a slice takes of a dimension: all where it is known at run time only."""
    if isinstance(key, ScalarBase):
        scalar(key)  # of type index
        return range(extent)
    location = current().location()
    if isinstance(key, int):
        if not -extent <= key < extent:
            raise ShapeError("XT1248", f"index {key} is out of bounds: dimension {axis} of a {v.describe()} has "
                             f"{extent} elements", f"use {-extent} to {extent - 1}", location, notes(location, it=v))
        return range(key % extent, key % extent + 1)
    parts = [python_number(part) for part in (key.start, key.stop, key.step)]
    if any(part is not None and type(part) is not int for part in parts) or parts[2] == 0:
        raise ShapeError("XT1246", f"the slice {_slice_text(parts)} is not one between compile-time integers",
                         "slices have fixed sizes and a step other than 0; a single row or column may be at a run-time "
                         f"index: v[k], v[:, k]{_phase_hint(v, parts, axis)}", location, notes(location, it=v))
    found = range(*slice(*parts).indices(extent))
    if not found:
        raise ShapeError("XT1248", f"the slice {_slice_text(parts)} takes nothing of dimension {axis} of a "
                         f"{v.describe()}", f"it has {extent} elements", location, notes(location, it=v))
    return found if found.step == 1 or len(found) > 1 else range(found.start, found.start + 1)


def _phase_hint(v: VectorBase, parts: list[Any], axis: int) -> str:
    """Hint for every nth column from a run-time one on, below n: a column of rows of n."""
    start, stop, step = parts
    if not isinstance(start, ScalarBase) or stop is not None or type(step) is not int or step < 2 or \
            axis != len(v.shape) - 1 or v.shape[-1] % step:
        return ""
    shape = ", ".join(map(str, (*v.shape[:-1], v.shape[-1] // step)))
    return f"; of a k below {step} this is xt.reshape(xt.reshape(v, (-1, {step}))[:, k], ({shape}{',' * (axis == 0)}))"


def _slice_text(parts: list[Any]) -> str:
    return ":".join("" if part is None else _shown(part) for part in parts[:2 if parts[2] is None else 3])


def _selected(matrix: Any, axis: int, index: ScalarBase) -> Any:
    """The row or column of a matrix at a run-time index, with size 1; zeros where there is none.

    The bits of all others become zero, and the sum of all, as integers, is what remains: every number comes out as it
    is, NaN and the sign of zero included.
    """
    dtype: DType = matrix.dtype
    if dtype is dtypes.i1:
        return _selected(matrix.to(dtypes.i32), axis, index) != 0
    emit, shape = current().emit, matrix.shape
    bits = dtype if dtype is dtypes.index else _UNSIGNED[dtype.bits]
    value = matrix.ssa if bits is dtype else emit(arith.BitcastOp(matrix.ssa, VectorType(bits.mlir, shape)))
    count = matrix.like(emit(IotaOp(VectorType(IndexType(), shape), axis)))
    here = emit(CmpIOp(count.ssa, splat(index, count), "eq"))
    zeros = splat(0, matrix, bits)
    result = emit(TileReduceOp("add", emit(SelectOp(here, value, zeros)), [axis]))
    reduced = tuple(1 if along == axis else size for along, size in enumerate(shape))
    return matrix.like(result if bits is dtype else emit(arith.BitcastOp(result, VectorType(dtype.mlir, reduced))))

