"""Memory of tiles: arrays, arrays with explicit sizes and strides, addresses, shared local memory; scalar loads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, NoneAttr, StridedLayoutAttr
from xdsl.dialects.memref import AllocOp, CastOp
from xdsl.ir import SSAValue

from codegen.runtime.usm import is_usm
from xegpu.analysis.slm import excess
from xegpu.dialect.scalar import LoadScalarOp
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.ir.memref import SHARED_SPACE, is_shared, row_major
from xegpu.support.errors import ElementTypeError, RankError, ShapeError, TargetError
from xegpu.support.location import Location
from xegpu.support.notes import defined_at
from xetile.frontend.constants import python_number, scalar
from xetile.frontend.notes import notes
from xetile.frontend.ssa_value import Value
from xetile.frontend.tiles import Array, check_rank
from xetile.frontend.tracer import current
from xetile.frontend.values import Scalar
from xetile.lang.checks import describe_argument, short_repr


@dataclass(frozen=True)
class Memory:
    """Base of a tile: a memref or an address, with sizes and strides.

    Attributes:
        source: the memref, or the address.
        rank: dimensions.
        dtype: element type.
        description: returns sizes and strides, one for each dimension; empty where the memref's type has them.
    """

    source: SSAValue
    rank: int
    dtype: DType
    description: Callable[[], tuple[list[SSAValue], list[SSAValue]]]


def memory_of(base: Any, shape: Any, strides: Any, dtype: Any, *, aligned: bool) -> Memory:
    """Base of a tile from the arguments of ``init_tile``: ``base``, ``base_shape``, ``base_strides``, ``dtype``,
    ``aligned``.

    Raises:
        ElementTypeError: neither an array nor an address; a type for an array, or none for an address.
        RankError: not as many sizes and strides as there are dimensions, or one of the two without the other.
        ShapeError: ``aligned`` for an array without explicit sizes, or a negative size.
    """
    if isinstance(base, Array):
        return _array_base(base, shape, strides, dtype, aligned)
    if isinstance(base, Scalar):
        return _address_base(base, shape, strides, dtype)
    location = current().location()
    raise ElementTypeError("XT1101", f"init_tile takes an array argument of the kernel, not {describe_argument(base)}",
                           _base_hint(base), location, notes(location, it=base))


def _base_hint(base: Any) -> str:
    """Hint for a base that is neither an array nor an address."""
    if isinstance(base, Value):
        return "give it an array argument of the kernel; values that subgroups exchange go through an array of " \
               "xt.alloc_slm(shape, dtype)"
    if hasattr(base, "__array_interface__") or is_usm(base):
        return "make the array a parameter of the kernel, and pass it at each launch"
    return "pass the array itself, or an address as a run-time argument: numpy.uint64(address)"


def _array_base(base: Array, shape: Any, strides: Any, dtype: Any, aligned: bool) -> Memory:
    """Base of a tile on an array, with its own sizes and strides or explicit ones."""
    check_rank(base, 2, "init_tile")
    if dtype is not None:
        refuse_type(base, dtype)
    if shape is None and strides is None:
        if aligned:
            raise ShapeError("XT1115", f"aligned= is passed with {base.name}, an array, whose alignment each launch "
                             "checks",
                             "drop it; it goes with an address, or with base_shape and base_strides",
                             current().location())
        return Memory(base.ssa, base.rank, base.dtype, base.metadata)
    numbers = _numbers(shape, strides, base.rank, f"{base.name} has {base.rank} dimensions")
    return Memory(dynamic_base(base), base.rank, base.dtype, lambda: numbers)


def refuse_type(base: Array, dtype: Any) -> NoReturn:
    """Raise for ``dtype=`` beside an array, which has its own element type.

    Args:
        base: the array.
        dtype: the author's argument.

    Raises:
        ElementTypeError: always.
    """
    location = current().location()
    try:
        requested = dtypes.of(dtype)
    except ElementTypeError as error:
        raise error.at(location) from None
    fits = requested.bits == base.dtype.bits and requested is not base.dtype
    convert = "" if requested is base.dtype else f", and convert what is loaded with .to(xt.{requested})"
    raise ElementTypeError("XT1110", f"{base.name} is an array of {base.dtype}, and dtype={requested} is passed, "
                           "which is "
                           "for addresses", f"to read it as another type of the same size, write xt.view({base.name}, "
                           f"xt.{requested})" if fits else f"drop dtype={convert}", location)


def dynamic_base(base: Array) -> SSAValue:
    """Array cast to a memref of dynamic sizes and strides."""
    type_ = base.ssa.type
    if not is_shared(type_):
        return base.ssa
    assert isinstance(type_, MemRefType)
    layout = StridedLayoutAttr([None] * base.rank)
    dynamic = MemRefType(type_.element_type, [DYNAMIC_INDEX] * base.rank, layout, type_.memory_space)
    return current().emit(CastOp.get(base.ssa, dynamic))  # type: ignore[no-any-return]


def check_address(base: Scalar) -> None:
    """Check the element type of an address."""
    if base.dtype not in (dtypes.i64, dtypes.u64):
        location = current().location()
        raise ElementTypeError("XT1111", f"an address is a number of type i64 or u64, not a {base.describe()}",
                               "pass numpy.uint64(address) as a run-time argument, or convert it with .to(xt.u64)",
                               location, notes(location, it=base))


def _address_base(base: Scalar, shape: Any, strides: Any, dtype: Any) -> Memory:
    """Base of a tile on a raw pointer, with explicit sizes, strides and element type."""
    location = current().location()
    check_address(base)
    missing = [name for name, value in (("base_shape", shape), ("base_strides", strides), ("dtype", dtype))
               if value is None]
    if missing:
        example = {"base_shape": "base_shape=(rows, columns)", "base_strides": "base_strides=(pitch, 1) (in elements)",
                   "dtype": "dtype=xt.bf16"}
        error = ElementTypeError if missing == ["dtype"] else RankError
        raise error("XT1112",
                    f"a tile at an address needs {' and '.join(missing)}: an address has no shape and no element type",
                    f"add {' and '.join(example[name] for name in missing)}", location)
    try:
        element = dtypes.of(dtype)
    except ElementTypeError as error:
        raise error.at(location) from None
    numbers = _numbers(shape, strides, 2, "an address has two dimensions")
    return Memory(base.ssa, 2, element, lambda: numbers)


def _numbers(shape: Any, strides: Any, rank: int, why: str) -> tuple[list[SSAValue], list[SSAValue]]:
    """Sizes and strides as SSA values, from Python integers or run-time indices."""
    for name, values, partner in (("base_shape", shape, "base_strides"), ("base_strides", strides, "base_shape")):
        if values is None:
            raise RankError("XT1113",
                            f"init_tile has {partner} and no {name}", f"add {name}, {_counted(rank)}, in elements",
                            current().location())
        if not isinstance(values, (tuple, list)) or len(values) != rank:
            raise RankError("XT1114", f"{name} is {short_repr(values)}, and {why}", f"give {_counted(rank)}, in "
                            "elements",
                            current().location())
    if any(isinstance(size, int) and size < 0 for size in shape):
        raise ShapeError("XT1116", f"base_shape is {short_repr(shape)}, and no size is negative",
                         "give the rows and columns that there are; a stride may be negative", current().location())
    return [scalar(size) for size in shape], [scalar(stride) for stride in strides]


def _counted(rank: int) -> str:
    """Expected sizes or offsets in an error message."""
    return f"{rank} integers or run-time indices"


def offsets_of(base: Any, rank: int, offsets: Any) -> list[SSAValue]:
    """Offsets of a tile as SSA values, from Python integers or run-time indices.

    Args:
        base: the array or address.
        rank: its dimensions.
        offsets: the author's argument.

    Raises:
        RankError: not one for each dimension.
    """
    if not isinstance(offsets, (tuple, list)) or len(offsets) != rank:
        raise _wrong_offsets(base, rank, offsets)
    return [scalar(offset) for offset in offsets]


def _wrong_offsets(base: Any, rank: int, offsets: Any) -> RankError:
    """Error for a wrong number of offsets."""
    described, batch, location = _describe_offsets(offsets), rank - 2, current().location()
    if not batch:
        return RankError("XT1103", f"init_tile takes two offsets, not {described}", "give the row and column of the "
                         "tile's "
                         "first element, for example (xt.group_id(0) * 32, 0)", location)
    return RankError("XT1103", f"init_tile takes as many offsets as the array has dimensions: {base.name} has {rank} "
                     f"dimensions, and the offsets are {described}",
                     f"give the {'index' if batch == 1 else 'indices'} of the matrix first, as in (xt.group_id(2), "
                     f"{'0, ' * (batch - 1)}row, column), or launch with one matrix, such as "
                     f"{base.name}[{', '.join('0' * batch)}]", location, notes(location, **{base.name: base}))


def _describe_offsets(offsets: Any) -> str:
    """Description of the offsets in an error message."""
    if not isinstance(offsets, (tuple, list)):
        return describe_argument(offsets) if isinstance(offsets, Value) else short_repr(offsets)
    return f"{len(offsets)}" if any(isinstance(offset, Value) for offset in offsets) else short_repr(offsets)


class SharedArray(Array):
    """Array in shared local memory, of compile-time sizes; one of one dimension has a memref of one row.

    Attributes:
        sizes: elements along each dimension.
    """

    __slots__ = ("sizes",)

    def __init__(self, ssa: SSAValue, name: str, dtype: DType, sizes: tuple[int, ...]) -> None:
        super().__init__(ssa, name, len(sizes), dtype)
        self.sizes = sizes

    def describe(self) -> str:
        return f"{self.rank}-dimensional array of {self.dtype} in shared local memory"

    def of_rank(self, rank: int) -> str:
        return f"allocate xt.alloc_slm({(1,) * (rank - self.rank) + self.sizes}, xt.{self.dtype})"

    def definition(self) -> list[tuple[str, Location | None]]:
        return [("it is allocated here", defined_at(self.ssa))]

    def seen_as(self, ssa: SSAValue, dtype: DType) -> SharedArray:
        """Reinterpret the array as another element type."""
        return SharedArray(ssa, self.name, dtype, self.sizes)

    def metadata(self) -> tuple[list[SSAValue], list[SSAValue]]:
        """No SSA values: sizes and strides are in the memref type."""
        return [], []

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """Sizes, Python integers."""
        return self.sizes

    @property
    def strides(self) -> tuple[int, ...]:  # type: ignore[override]
        """Strides in elements, Python integers."""
        return row_major(self.sizes)


def alloc_slm(shape: tuple[int, ...], dtype: Any) -> SharedArray:
    """Allocate an array in the work-group's shared local memory (``memref.alloc`` in memory space 3).

    It is one array for all subgroups of a work-group, from the beginning of the kernel to its end, wherever the call
    stands. Its initial contents are undefined; in NumPy they are NaN, or bytes of 0xA5. Between what one
    subgroup writes and another reads there must be an ``xt.barrier``.

    Args:
        shape: two sizes; one, as in ``(256,)``, for an array of one dimension; or more: a batch of matrices, such as a
            ring of buffers (stages, rows, columns).
        dtype: element type, of a byte or more.

    Raises:
        ShapeError: a shape that is no tuple of positive compile-time integers.
        ElementTypeError: no such element type, or one of less than a byte.
        TargetError: no device has as much; or, when lowered, the target does not.
    """
    tracer = current("xt.alloc_slm")
    sizes = _allocated_shape(shape)
    try:
        element = dtypes.of(dtype)
    except ElementTypeError as error:
        raise error.at(tracer.location()) from None
    if element.bits < 8 or element is dtypes.index:
        raise ElementTypeError("XT1142", f"shared local memory does not hold {element}", _hint_for_bytes(element),
                               tracer.location())
    rows = sizes if len(sizes) > 1 else (1, *sizes)
    type_ = MemRefType(element.mlir, rows, NoneAttr(), SHARED_SPACE)
    allocation = AllocOp([], [], type_)
    if (fault := excess(allocation)) is not None:
        raise TargetError("XT4107", *fault, tracer.location())
    memory = tracer.emit_at_head(allocation)
    memory.name_hint = "slm"
    return SharedArray(memory, "the array", element, sizes)


def _hint_for_bytes(element: DType) -> str:
    """Hint for an element type of less than a byte."""
    if element is dtypes.index:
        return "use xt.i32 or xt.i64"
    return "use xt.u8, and take each byte apart behind the load" if element.bits == 4 else "use xt.u8"


def _example(shape: Any) -> tuple[int, ...]:
    """Example shape in a hint: one of one dimension for a single integer."""
    return (shape,) if type(shape) is int and shape > 0 else (256, 32)


def _allocated_shape(shape: Any) -> tuple[int, ...]:
    """Compile-time sizes of an array in shared local memory."""
    sizes = [python_number(size) for size in shape] if isinstance(shape, (tuple, list)) else []
    if any(isinstance(size, Value) for size in sizes):
        raise ShapeError("XT1140",
                         "the shape of an array in shared local memory holds a run-time value", "it is allocated when "
                         "the kernel is compiled: make its sizes keyword-only parameters", current().location())
    if not sizes or not all(type(size) is int and size > 0 for size in sizes):
        raise ShapeError("XT1141", f"the shape of an array in shared local memory must be positive integers, not "
                         f"{shape!r}", f"give its sizes, for example {_example(shape)}", current().location())
    return tuple(sizes)


def load_scalar(array: Array, indices: Any) -> Scalar:
    """Uniform scalar load: the element of an array at an index, such as an address, a size, an offset or a loop bound.

    Such arrays are tables of problems for work-groups. The result is uniform in a subgroup, as an argument is;
    ``.to(xt.index)`` makes a size or an offset of it, and an ``i64`` or ``u64`` is an address for :func:`init_tile`.

    Args:
        array: an array argument of i32, u32, i64, u64 or f32, of any number of dimensions.
        indices: an integer or a run-time index for each dimension; one alone needs no tuple. It must lie in the array:
            NumPy checks it, devices do not.

    Raises:
        ElementTypeError: not an array argument, or one of another element type; an index that is none.
        RankError: not as many indices as the array has dimensions.
    """
    tracer = current("xt.load_scalar")
    if not isinstance(array, Array):
        what = f"a {array.describe()}" if isinstance(array, Value) else f"{type(array).__name__} {array!r:.40}"
        raise ElementTypeError("XT1240", f"load_scalar takes an array argument of the kernel, not {what}",
                               "pass the array itself; of a vector or of shared local memory there are only vectors",
                               tracer.location(), notes(tracer.location(), it=array))
    subscripts = indices if isinstance(indices, (tuple, list)) else (indices,)
    return Scalar(tracer.emit(LoadScalarOp(array.ssa, [scalar(subscript) for subscript in subscripts])))
