"""``xt.vector``: transfers, contractions and broadcasts of vectors of any rank (SuperVector.md, MLIR's vector dialect).

Element-wise operators and functions take these vectors too; 2D ones are also operands of ``xt.tile_mma`` and all other
functions of tiles' vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, VectorType
from xdsl.dialects.memref import LoadOp, StoreOp
from xdsl.dialects.vector import BroadcastOp

from xegpu.support.errors import ElementTypeError, RankError, ShapeError
from xetile.dialect.contract import ITERATORS, MATMUL, check_ranks
from xetile.dialect.permutation_map import (
    Permutation,
    check_in_view,
    check_indices,
    check_permutation,
    map_of_permutation,
    minor_identity,
)
from xetile.dialect.supervector import NAME, ContractOp, TransferReadOp, TransferWriteOp, TypeCastOp, collapsed
from xetile.dialect.tile_ops import text
from xetile.dialect.types import WgMapAttr
from xetile.dialect.wg_map import WgMap
from xetile.frontend.constants import python_number, scalar, scalar_of_element
from xetile.frontend.notes import at_author_line, notes
from xetile.frontend.ssa_value import Value
from xetile.frontend.tiles import Array
from xetile.frontend.tracer import Tracer, current
from xetile.frontend.values import Scalar, Vector, element_type
from xetile.lang.checks import check_map, check_operand, describe_argument, short_repr
from xetile.lang.matmul import accumulator
from xetile.lang.memory import SharedArray


def contract(a: Vector, b: Vector, acc: Vector | None = None, *, indexing_maps: Any = MATMUL,
             iterator_types: Sequence[str] = ITERATORS, wg_map: WgMap | None = None) -> Vector:
    """Contraction (``vector.contract``): the sum of products along the reduction iterator, plus ``acc``.

    Args:
        a, b: vectors of two dimensions, of element types that ``xt.tile_mma`` takes.
        acc: of the result's shape; without it the result is float32, or int32 for integers.
        indexing_maps: for a, b and the result, the iterator that each dimension runs along; by default those of a
            product of matrices, ``((0, 2), (2, 1), (0, 1))``. Exchange two numbers to take an operand transposed.
        iterator_types: ``"parallel"`` or ``"reduction"``, for each iterator.
        wg_map: distribution of the result to the subgroups, by default that of ``acc``.

    Raises:
        ShapeError: sizes along one iterator differ, or the maps are not those of a product of two matrices.
        RankError: not three maps, or maps of another rank than the vectors.
        ElementTypeError: no target multiplies these types.
    """
    tracer = current("xt.vector.contract")
    for operand in (a, b) if acc is None else (a, b, acc):
        check_operand(operand, Vector, "vector.contract", any_rank=True)
    tracer.stage = NAME
    maps, dtype = _maps(indexing_maps), accumulator(a, b, acc)
    shapes = [a.shape, b.shape, *([acc.shape] if acc is not None else [])]
    at_author_line(lambda: check_ranks(maps, shapes), lhs=a, rhs=b, result=acc)
    shape = _contraction_shape(maps, a, b)
    map_ = wg_map or (acc.wg_map if acc is not None else None)
    if map_ is None and (operand_map := a.wg_map or b.wg_map) is not None:
        raise ShapeError("XT1520", f"an operand is distributed as {operand_map}, and the result has no map",
                         f"give the contraction a wg_map, which distributes {text(shape)}", tracer.location(),
                         notes(tracer.location(), a=a, b=b))
    count = 1 + max(axis for map_of in maps for axis in map_of if axis is not None)
    operation = ContractOp(a.ssa, b.ssa, None if acc is None else acc.ssa, VectorType(dtype.mlir, shape),
                           [map_of_permutation(axes, count) for axes in maps], list(iterator_types), map_)
    return Vector(tracer.emit(operation), map_)


def _maps(maps: Any) -> list[Permutation]:
    """Indexing maps of the operands and the result, checked."""
    listed = isinstance(maps, (tuple, list)) and all(isinstance(axes, (tuple, list)) for axes in maps)
    if not listed or not all(type(axis) is int and axis >= 0 for axes in maps for axis in axes):
        raise ElementTypeError("XT1521", f"indexing_maps={short_repr(maps)} is not a tuple of maps",
                               "give the iterators of a, b and the result: ((0, 2), (2, 1), (0, 1))",
                               current().location())
    return [tuple(axes) for axes in maps]


def _contraction_shape(maps: Sequence[Permutation], a: Vector, b: Vector) -> tuple[int, ...]:
    """Result shape of a contraction: each iterator's extent in the operands."""
    sizes = dict(zip((*maps[0], *maps[1]), (*a.shape, *b.shape), strict=True))
    if missing := [axis for axis in maps[2] if axis not in sizes]:
        raise ShapeError("XT1524", f"no operand runs along iterator {missing[0]} of the result",
                         f"the operands run along {', '.join(map(str, sizes))}: take the result's iterators from "
                         "these, without the reductions", current().location())
    return tuple(sizes[axis] for axis in maps[2])


__all__ = ["VectorArray", "View", "broadcast", "contract", "subview", "transfer_read", "transfer_write", "type_cast"]


class View:
    """Subview of an array, from :func:`subview`; transfers through it access the array.

    Attributes:
        array: the array.
        offsets: of the view's first element, one for each dimension.
        sizes: elements along each dimension, compile-time integers.
    """

    __slots__ = ("array", "offsets", "sizes")

    def __init__(self, array: Array, offsets: tuple[Any, ...], sizes: tuple[int, ...]) -> None:
        self.array, self.offsets, self.sizes = array, offsets, sizes

    def _to_array(self, indices: Sequence[Any]) -> tuple[Any, ...]:
        """Indices in the array of indices in the view."""
        return tuple(_index_sum(offset, index) for offset, index in zip(self.offsets, indices, strict=True))


class VectorArray:
    """Array cast to a memref of a single vector, from :func:`type_cast`."""

    __slots__ = ("_operation",)

    def __init__(self, operation: TypeCastOp) -> None:
        self._operation = operation

    def load(self) -> Vector:
        """Load the array as a vector."""
        tracer = _supervector_tracer("load")
        return Vector(tracer.emit(LoadOp.get(self._operation.result, [scalar(0)])))

    def store(self, value: Vector) -> None:
        """Store a vector to the array.

        Raises:
            ShapeError: the vector has another shape or element type than the array.
        """
        tracer, vector = _supervector_tracer("store"), self._operation.vector
        check_operand(value, Vector, "vector.type_cast(array).store", any_rank=True)
        if value.ssa.type != vector:
            raise ShapeError("XT1500", f"a {value.describe()} cannot be stored to an array of "
                             f"{text(vector.get_shape())} "
                             f"{vector.element_type}", "make the vector of its shape and type", tracer.location(),
                             notes(tracer.location(), it=value))
        tracer.emit(StoreOp.get(value.ssa, self._operation.result, [scalar(0)]))


def _supervector_tracer(function: str) -> Tracer:
    """Tracer of the current kernel, switched to the SuperVector stage."""
    tracer = current(f"xt.vector.{function}")
    tracer.stage = NAME
    return tracer


def transfer_read(array: Array | View, indices: Any, shape: Any, *, permutation: Sequence[int | None] | None = None,
                  padding: Any = None, wg_map: WgMap | None = None) -> Vector:
    """Read a slice of an array as a vector (``vector_transfer_read``, ``vector.transfer_read``).

    Args:
        array: of any rank; or a view of one.
        indices: of the slice's first element, one for each dimension of the array: integers or run-time indices.
        shape: of the vector, compile-time integers, of any rank.
        permutation: for each dimension of the vector the dimension of the array that it runs along, or None where it
            repeats; by default the last dimensions of the array in their order.
        padding: value of out-of-bounds elements: a Python number, or a run-time scalar of the element type.
            Without it the slice must be in bounds: NumPy checks that, devices do not.
        wg_map: distribution to the subgroups, of the vector with all dimensions but the last collapsed to rows.

    Raises:
        RankError: not as many indices as the array has dimensions, or not as long a permutation as the shape.
        ShapeError: the permutation names a dimension twice, or one that is not there; sizes that are none.
        ElementTypeError: the array is none; the element type does not hold the padding.
    """
    tracer = _supervector_tracer("transfer_read")
    source, sizes = _base_array(array, "transfer_read"), _vector_shape(shape)
    subscripts = _indices(array, indices, "transfer_read")
    axes = _permutation(source, sizes, permutation)
    check_map(wg_map, collapsed(sizes))
    _check_view(array, indices, sizes, axes, guaranteed=padding is None)
    value = None if padding is None else scalar_of_element(python_number(padding), source.dtype)
    operation = TransferReadOp(source.ssa, [scalar(index) for index in subscripts], VectorType(source.dtype.mlir,
                                                                                               sizes),
                               axes, value, wg_map)
    return Vector(tracer.emit(operation), wg_map)


def transfer_write(value: Vector, array: Array | View, indices: Any, *,
                   permutation: Sequence[int | None] | None = None, in_bounds: bool = False) -> None:
    """Write a vector to a slice of an array; out-of-bounds elements are dropped (``vector_transfer_write``).

    Args:
        value: a vector of any rank.
        array: of any rank and the vector's element type; or a view of one.
        indices: of the slice's first element, one for each dimension of the array.
        permutation: for each dimension of the vector the dimension of the array that it runs along; by default the
            last ones in their order. A write repeats nothing.
        in_bounds: guarantees that the slice is in bounds: NumPy checks that, devices do not.

    Raises:
        RankError, ShapeError: as :func:`transfer_read`; and a permutation that repeats.
        ElementTypeError: the element types differ, or an argument is no vector or no array.
    """
    tracer = _supervector_tracer("transfer_write")
    check_operand(value, Vector, "vector.transfer_write(value, array, indices)", any_rank=True)
    source = _base_array(array, "transfer_write")
    subscripts = _indices(array, indices, "transfer_write")
    axes = _permutation(source, value.shape, permutation)
    _check_view(array, indices, value.shape, axes, guaranteed=in_bounds)
    if value.dtype is not source.dtype:
        raise ElementTypeError("XT1501",
                               f"a {value.describe()} cannot be stored to {source.name}, which holds {source.dtype}",
                               f"convert it with .to(xt.{source.dtype})", tracer.location(),
                               notes(tracer.location(), it=value))
    tracer.emit(TransferWriteOp(value.ssa, source.ssa, [scalar(index) for index in subscripts], axes, bool(in_bounds)))


def type_cast(array: Array, shape: Any = None) -> VectorArray:
    """Cast an array to a memref of one vector, which :meth:`VectorArray.load` and ``store`` access
    (``vector_type_cast``).

    Args:
        array: an array of the kernel, or one in shared local memory.
        shape: sizes of the array, compile-time integers; those of shared local memory are known. NumPy checks that the
            array has them.

    Raises:
        ShapeError: no shape, or not that of the array.
        RankError: not as many sizes as the array has dimensions.
    """
    tracer = _supervector_tracer("type_cast")
    if isinstance(array, View):
        raise _array_error(array, "type_cast")
    type_ = _base_array(array, "type_cast").ssa.type
    assert isinstance(type_, MemRefType)
    known = type_.get_shape()
    if shape is None and DYNAMIC_INDEX in known:
        raise ShapeError("XT1502", f"the sizes of {array.name} are known at run time only, and a vector's are not",
                         f"give a size for each of its {array.rank} dimensions: xt.vector.type_cast({array.name}, "
                         f"shape={tuple(range(array.rank + 2, 2, -1))})", tracer.location())
    sizes = known if shape is None else _vector_shape(shape)
    if len(sizes) != array.rank:
        raise RankError("XT1503",
                        f"{array.name} has {array.rank} dimensions, and the shape {short_repr(shape)} has {len(sizes)}",
                        "give a size for each dimension of the array", tracer.location())
    operation = TypeCastOp(array.ssa, sizes)
    tracer.emit(operation)
    return VectorArray(operation)


def subview(array: Array | View, offsets: Any, sizes: Any) -> View:
    """Subview of an array, for transfers (``memref.subview``).

    Args:
        array: the array; or a view of one.
        offsets: of the view's first element, one for each dimension: integers or run-time indices.
        sizes: elements along each dimension, compile-time integers.

    Raises:
        RankError: not as many offsets or sizes as dimensions.
    """
    tracer = _supervector_tracer("subview")
    base, subscripts, extents = _base_array(array, "subview"), _indices(array, offsets, "subview"), _vector_shape(sizes)
    if len(extents) != base.rank:
        raise RankError("XT1504", f"{base.name} has {base.rank} dimensions, and there are {len(extents)} sizes",
                        "give a size for each dimension, 1 where the view has one element", tracer.location())
    return View(base, subscripts, extents)


def broadcast(value: Any, shape: Any, dtype: Any, *, wg_map: WgMap | None = None) -> Vector:
    """Broadcast of a scalar to a vector of any rank (``vector.broadcast``).

    Args:
        value: a Python number, or a run-time scalar of the element type.
        shape: of the vector, compile-time integers.
        dtype: element type.
        wg_map: distribution to the subgroups, of the vector with its rows collapsed.

    Raises:
        ShapeError: sizes that are none.
        ElementTypeError: ``dtype`` is no element type, or does not hold ``value``.
    """
    tracer, sizes, element = _supervector_tracer("broadcast"), _vector_shape(shape), element_type(dtype)
    check_map(wg_map, collapsed(sizes))
    operation = BroadcastOp(scalar_of_element(value, element), VectorType(element.mlir, sizes))
    if wg_map is not None:
        operation.attributes["wg_map"] = WgMapAttr(wg_map)
    return Vector(tracer.emit(operation), wg_map)


def _array_error(array: Any, function: str) -> ElementTypeError:
    """Error for an argument that is no array."""
    return ElementTypeError("XT1505", f"xt.vector.{function} takes an array argument of the kernel, not "
                            f"{describe_argument(array)}",
                            "pass the array itself, or a part of it: xt.vector.subview(array, offsets, sizes)",
                            current().location())


def _base_array(array: Any, function: str) -> Array:
    """Array below an argument that is an array or a view."""
    found = array.array if isinstance(array, View) else array
    if not isinstance(found, Array):
        raise _array_error(array, function)
    if isinstance(found, SharedArray) and found.rank == 1:
        raise RankError("XT1508", f"vector.{function} takes shared local memory of two dimensions or more",
                        f"allocate one row: xt.alloc_slm((1, {found.sizes[0]}), xt.{found.dtype}), and give two "
                        "indices", current().location())
    return found


def _vector_shape(shape: Any) -> tuple[int, ...]:
    """Compile-time sizes of a vector."""
    extents = shape if isinstance(shape, (tuple, list)) else (shape,)
    if any(isinstance(size, Value) for size in extents):
        raise ShapeError("XT1506",
                         "the shape of a vector has a run-time value", "sizes of vectors are compile-time constants: "
                         "make them keyword-only parameters, as in def kernel(A, *, N=128)", current().location())
    sizes = tuple(python_number(size) for size in extents)
    if not all(type(size) is int and size > 0 for size in sizes):
        raise ShapeError("XT1507", f"the shape of a vector must be positive integers, not {short_repr(shape)}",
                         "give a size for each dimension, for example (3, 4, 5), or 128", current().location())
    return sizes


def _indices(array: Array | View, indices: Any, function: str) -> tuple[Any, ...]:
    """Indices of an access in the array, one for each dimension."""
    subscripts = tuple(indices) if isinstance(indices, (tuple, list)) else (indices,)
    source = _base_array(array, function)
    at_author_line(lambda: check_indices(len(subscripts), source.rank))
    return array._to_array(subscripts) if isinstance(array, View) else subscripts


def _permutation(array: Array, sizes: Sequence[int], permutation: Any) -> Permutation:
    """Permutation of a transfer: the argument, or the minor identity."""
    rank, location = array.rank, current().location()
    if permutation is None:
        return at_author_line(lambda: minor_identity(rank, len(sizes)))
    axes = permutation if isinstance(permutation, (tuple, list)) else (permutation,)
    axes = tuple(python_number(axis) for axis in axes)
    if not all(axis is None or type(axis) is int for axis in axes):
        raise ElementTypeError("XT1510",
                               f"permutation={short_repr(permutation)} is not a permutation", "for each dimension of "
                               "the vector give the dimension of the array that it runs along, or None where it "
                               "repeats", location)
    at_author_line(lambda: check_permutation(axes, rank, sizes), **{"the array": array})
    return axes


def _check_view(array: Array | View, indices: Any, sizes: Sequence[int], axes: Permutation, *,
                guaranteed: bool) -> None:
    """Check that a transfer without padding or mask stays in the bounds of its view."""
    if not isinstance(array, View) or guaranteed:
        return
    numbers = [python_number(index) for index in _index_tuple(indices)]
    first = [number if isinstance(number, int) else None for number in numbers]
    at_author_line(lambda: check_in_view(axes, sizes, first, array.sizes))


def _index_tuple(indices: Any) -> tuple[Any, ...]:
    """Indices as a tuple; a single one needs no tuple."""
    return tuple(indices) if isinstance(indices, (tuple, list)) else (indices,)


def _index_sum(offset: Any, index: Any) -> Any:
    """Sum of two indices, folded where one is zero."""
    if not isinstance(index, Scalar) and python_number(index) == 0:
        return offset
    return index if not isinstance(offset, Scalar) and python_number(offset) == 0 else offset + index
