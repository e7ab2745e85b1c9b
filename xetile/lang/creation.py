"""Creation functions: zeros, full, iota, scalar, and views of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import MemRefType, UnrealizedConversionCastOp, VectorType
from xdsl.dialects.vector import BroadcastOp

from xegpu.ir import dtypes
from xegpu.layout.iota import check_type
from xegpu.support.errors import ElementTypeError, RankError
from xetile.compiler import packed
from xetile.compiler.arguments import Argument, AtTheCall, TypedView, check_view
from xetile.dialect.types import WgMapAttr, check_axis
from xetile.dialect.vector import IotaOp
from xetile.dialect.wg_map import WgMap
from xetile.frontend.broadcast import cast
from xetile.frontend.constants import python_number, scalar, scalar_of_element
from xetile.frontend.notes import at_author_line, notes
from xetile.frontend.ssa_value import Value
from xetile.frontend.tiles import Array, Tile
from xetile.frontend.tracer import current
from xetile.frontend.values import Scalar, Vector, element_type
from xetile.lang.checks import check_map, check_shape_2d, line_length


def zeros(shape: Any, dtype: Any, *, wg_map: WgMap | None = None) -> Vector:
    """Constant vector of zeros."""
    current("xt.zeros")
    return full(shape, 0, dtype, wg_map=wg_map)


def full(shape: Any, value: Any, dtype: Any, *, wg_map: WgMap | None = None) -> Vector:
    """Constant vector: every element is ``value``.

    Args:
        shape: rows and columns, or a length for a vector of one dimension.
        value: a Python number, or a run-time scalar of the same element type.
        dtype: element type.
        wg_map: distribution to the subgroups.

    Raises:
        ElementTypeError: ``dtype`` is no element type, or does not hold ``value``.
        ShapeError: the map does not distribute the shape.
    """
    tracer, length = current("xt.full"), line_length(shape)
    if length is not None:
        return cast(full((1, length), value, dtype, wg_map=wg_map), (length,))
    shape = check_shape_2d(shape, "a vector's shape")
    element = element_type(dtype)
    check_map(wg_map, shape)
    operation = BroadcastOp(scalar_of_element(value, element), VectorType(element.mlir, shape))
    if wg_map is not None:
        operation.attributes["wg_map"] = WgMapAttr(wg_map)
    return Vector(tracer.emit(operation), wg_map)


def iota(shape: Any, axis: int = 0, dtype: Any = dtypes.i32, *, wg_map: WgMap | None = None) -> Vector:
    """Iota: the row (``axis = 0``) or column (``axis = 1``) index of every element of a vector, from zero.

    Args:
        shape: rows and columns, or a length for a vector of one dimension.
        axis: 0 or 1; of one dimension 0.
        dtype: element type; it must represent the last index.
        wg_map: distribution to the subgroups; indices are those in the work-group's vector.

    Raises:
        RankError: there is no such axis.
        ElementTypeError: the type does not represent the indices.
        ShapeError: the map does not distribute the shape.
    """
    tracer, length = current("xt.iota"), line_length(shape)
    if isinstance(axis, (dtypes.DType, np.dtype, type, str)):
        raise RankError("XT1155", f"an axis is 0 or 1, not {axis!r:.40}", "name an element type: dtype=xt.i32",
                        tracer.location())
    if length is not None:
        if python_number(axis) not in (0, -1):
            raise RankError("XT1155", f"a vector of one dimension has axis 0, not {axis!r:.40}", "use axis 0, or leave "
                            "it out", tracer.location())
        return cast(iota((1, length), 1, dtype, wg_map=wg_map), (length,))
    shape, element = check_shape_2d(shape, "a vector's shape"), element_type(dtype)
    check_map(wg_map, shape)
    axis = python_number(axis)
    at_author_line(lambda: check_axis(axis))
    at_author_line(lambda: check_type(element.mlir, shape[axis]))
    return Vector(tracer.emit(IotaOp(VectorType(element.mlir, shape), axis, wg_map=wg_map)), wg_map)


def view(array: Any, dtype: Any) -> Any:
    """Reinterpreting view of an array, as another element type of the same size: bf16 over uint16, tf32 over float32.

    Inside a kernel it takes an array argument; outside it takes an array, and returns an argument for a launch.

    Raises:
        ElementTypeError: the sizes differ.
    """
    if isinstance(array, Value) and not isinstance(array, Array):
        location = current("xt.view").location()
        raise ElementTypeError("XT1109", f"xt.view takes an array, not a {array.describe()}",
                               "view the array, and make the tile on that: xt.init_tile(xt.view(array, dtype), ...)"
                               if isinstance(array, Tile) else "read its bits as another type with xt.bitcast, or "
                               "convert it with .to(...)", location, notes(location, it=array))
    if not isinstance(array, Array):
        with AtTheCall():
            return TypedView(array, dtypes.of(dtype))
    tracer = current("xt.view")
    element = element_type(dtype)
    at_author_line(lambda: check_view(array.name, array.dtype, element))
    source = array.ssa.type
    assert isinstance(source, MemRefType)
    result = MemRefType(element.mlir, source.shape, source.layout, source.memory_space)
    cast = UnrealizedConversionCastOp.create(operands=[array.ssa], result_types=[result])
    return array.seen_as(tracer.emit(cast), element)


def pack(array: Any, dtype: Any, axis: int = -1) -> Any:
    """Packed array of 4-bit integers, an argument for a launch: two in a byte along ``axis``, the first in the lower
    bits.

    Args:
        array: integers of NumPy or dpnp, or ml_dtypes' int4 and uint4. An odd line gets a zero.
        dtype: ``xt.i4`` or ``xt.u4``.
        axis: one of the last two dimensions, which becomes the contiguous one.

    Raises:
        ShapeError: another axis.
        ElementTypeError: another type, or integers beyond its range.
    """
    with AtTheCall():
        element = dtypes.of(dtype)
        if element not in dtypes.PAIRS:
            raise ElementTypeError("XT1074", f"{element} has whole bytes, and xt.pack takes 4-bit integers",
                                   "pack as xt.i4 or xt.u4; other arrays are passed as they are")
        return TypedView(packed.pack(array, element, axis), element)


def unpack(array: Any) -> Any:
    """Elements of a packed array of 4-bit integers, as int8 or uint8: the inverse of :func:`pack`.

    Args:
        array: the result of :func:`pack`, or of :func:`view` with ``xt.i4`` or ``xt.u4``.

    Raises:
        ElementTypeError: something else.
    """
    with AtTheCall():
        if not isinstance(array, TypedView) or array.dtype not in dtypes.PAIRS:
            raise ElementTypeError("XT1074", f"xt.unpack takes packed 4-bit integers, not {type(array).__name__}",
                                   "view the bytes first: xt.unpack(xt.view(array, xt.i4))")
        axis = Argument.of("the array", array).packed
        assert axis is not None
        return packed.unpack(array.array, array.dtype, axis)


def scalar_(value: float, dtype: Any = dtypes.index) -> Scalar:
    """Run-time scalar of a Python number, for example the initial value of a loop-carried variable."""
    current("xt.scalar")
    return Scalar(scalar(value, element_type(dtype)))
