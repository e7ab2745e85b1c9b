"""What a tile is made on: an array as it is, an array described anew, or an address."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, MemRefType, NoneAttr, StridedLayoutAttr, i64
from xdsl.dialects.memref import AllocOp, CastOp
from xdsl.ir import SSAValue

from codegen.runtime.usm import is_usm
from xegpu.dialect.block_io import TYPES, LoadScalarOp
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.ir.memref import SHARED, is_shared, row_major
from xegpu.support.errors import ElementTypeError, RankError, ShapeError
from xetile.frontend.constants import plain, scalar
from xetile.frontend.notes import notes
from xetile.frontend.ssa_value import Value
from xetile.frontend.tiles import Array, check_rank
from xetile.frontend.tracer import current
from xetile.frontend.values import Scalar
from xetile.lang.checks import text_of, what


@dataclass(frozen=True)
class Memory:
    """What a tile stands on.

    Attributes:
        source: the memref, or the address.
        rank: dimensions.
        dtype: element type.
        description: gives sizes and strides, a number for each dimension; none where the memref's type says them.
    """

    source: SSAValue
    rank: int
    dtype: DType
    description: Callable[[], tuple[list[SSAValue], list[SSAValue]]]


def memory_of(base: Any, shape: Any, strides: Any, dtype: Any, *, aligned: bool) -> Memory:
    """What ``init_tile`` was given: ``base`` with ``base_shape``, ``base_strides``, ``dtype`` and ``aligned``.

    Raises:
        ElementTypeError: neither an array nor an address; a type for an array, or none for an address.
        RankError: not as many sizes and strides as there are dimensions, or one of the two without the other.
        ShapeError: ``aligned`` of an array as it is, or a negative size.
    """
    if isinstance(base, Array):
        return _of_array(base, shape, strides, dtype, aligned)
    if isinstance(base, Scalar):
        return _at_address(base, shape, strides, dtype)
    location = current().location()
    raise ElementTypeError("XT1101", f"init_tile takes an array argument of the kernel, not {what(base)}",
                           _instead(base), location, notes(location, it=base))


def _instead(base: Any) -> str:
    if isinstance(base, Value):
        return "give it an array argument of the kernel; values that subgroups exchange go through an array of " \
               "xt.alloc_slm(shape, dtype)"
    if hasattr(base, "__array_interface__") or is_usm(base):
        return "make the array a parameter of the kernel, and pass it at each launch"
    return "pass the array itself, or an address as a run-time argument: numpy.uint64(address)"


def _of_array(base: Array, shape: Any, strides: Any, dtype: Any, aligned: bool) -> Memory:
    check_rank(base, 2, "init_tile")
    if dtype is not None:
        refuse_type(base, dtype)
    if shape is None and strides is None:
        if aligned:
            raise ShapeError("XT1115", f"aligned= is said of {base.name}, an array, which each launch looks at itself",
                             "drop it; it goes with an address, or with base_shape and base_strides",
                             current().location())
        return Memory(base.ssa, base.rank, base.dtype, base.metadata)
    numbers = _numbers(shape, strides, base.rank, f"{base.name} has {base.rank} dimensions")
    return Memory(_dynamic(base), base.rank, base.dtype, lambda: numbers)


def refuse_type(base: Array, dtype: Any) -> NoReturn:
    """Say that an array has an element type of its own.

    Args:
        base: the array.
        dtype: the type that is given beside it.

    Raises:
        ElementTypeError: always.
    """
    location = current().location()
    try:
        given = dtypes.of(dtype)
    except ElementTypeError as error:
        raise error.at(location) from None
    fits = given.bits == base.dtype.bits and given is not base.dtype
    convert = "" if given is base.dtype else f", and convert what is loaded with .to(xt.{given})"
    raise ElementTypeError("XT1110", f"{base.name} is an array of {base.dtype}, and dtype={given} is given, which is "
                           "for addresses", f"to read it as another type of the same size, write xt.view({base.name}, "
                           f"xt.{given})" if fits else f"drop dtype={convert}", location)


def _dynamic(base: Array) -> SSAValue:
    """The array without what its type says of sizes and strides."""
    type_ = base.ssa.type
    if not is_shared(type_):
        return base.ssa
    assert isinstance(type_, MemRefType)
    layout = StridedLayoutAttr([None] * base.rank)
    dynamic = MemRefType(type_.element_type, [DYNAMIC_INDEX] * base.rank, layout, type_.memory_space)
    return current().emit(CastOp.get(base.ssa, dynamic))  # type: ignore[no-any-return]


def _at_address(base: Scalar, shape: Any, strides: Any, dtype: Any) -> Memory:
    location = current().location()
    if base.dtype not in (dtypes.i64, dtypes.u64):
        raise ElementTypeError("XT1111", f"an address is a number of type i64 or u64, not a {base.describe()}",
                               "pass numpy.uint64(address) as a run-time argument", location,
                               notes(location, it=base))
    missing = [name for name, value in (("base_shape", shape), ("base_strides", strides), ("dtype", dtype))
               if value is None]
    if missing:
        example = {"base_shape": "base_shape=(rows, columns)", "base_strides": "base_strides=(pitch, 1) (in elements)",
                   "dtype": "dtype=xt.bf16"}
        error = ElementTypeError if missing == ["dtype"] else RankError
        raise error("XT1112",
                    f"a tile at an address needs {' and '.join(missing)}: an address says nothing of what is there",
                    f"add {' and '.join(example[name] for name in missing)}", location)
    try:
        element = dtypes.of(dtype)
    except ElementTypeError as error:
        raise error.at(location) from None
    numbers = _numbers(shape, strides, 2, "an address has two dimensions")
    return Memory(base.ssa, 2, element, lambda: numbers)


def _numbers(shape: Any, strides: Any, rank: int, why: str) -> tuple[list[SSAValue], list[SSAValue]]:
    """Sizes and strides, Python integers or run-time indices, as SSA values."""
    for name, given, other in (("base_shape", shape, "base_strides"), ("base_strides", strides, "base_shape")):
        if given is None:
            raise RankError("XT1113",
                            f"init_tile has {other} and no {name}", f"add {name}, {_counted(rank)}, in elements",
                            current().location())
        if not isinstance(given, (tuple, list)) or len(given) != rank:
            raise RankError("XT1114", f"{name} is {text_of(given)}, and {why}", f"give {_counted(rank)}, in elements",
                            current().location())
    if any(isinstance(size, int) and size < 0 for size in shape):
        raise ShapeError("XT1116", f"base_shape is {text_of(shape)}, and no size is negative",
                         "give the rows and columns that there are; a stride may be negative", current().location())
    return [scalar(size) for size in shape], [scalar(stride) for stride in strides]


def _counted(rank: int) -> str:
    return f"{rank} integers or run-time indices"


def offsets_of(base: Any, rank: int, offsets: Any) -> list[SSAValue]:
    """Where a tile starts, Python integers or run-time indices, as SSA values.

    Args:
        base: what the tile is made on.
        rank: its dimensions.
        offsets: what was given.

    Raises:
        RankError: not one for each dimension.
    """
    if not isinstance(offsets, (tuple, list)) or len(offsets) != rank:
        raise _wrong_offsets(base, rank, offsets)
    return [scalar(offset) for offset in offsets]


def _wrong_offsets(base: Any, rank: int, offsets: Any) -> RankError:
    given, batch, location = _told(offsets), rank - 2, current().location()
    if not batch:
        return RankError("XT1103", f"init_tile takes two offsets, not {given}", "give the row and column of the tile's "
                         "first element, for example (xt.group_id(0) * 32, 0)", location)
    return RankError("XT1103", f"init_tile takes as many offsets as the array has dimensions: {base.name} has {rank} "
                     f"dimensions, and the offsets are {given}",
                     f"give the {'index' if batch == 1 else 'indices'} of the matrix first, as in (xt.group_id(2), "
                     f"{'0, ' * (batch - 1)}row, column), or launch with one matrix, such as "
                     f"{base.name}[{', '.join('0' * batch)}]", location, notes(location, **{base.name: base}))


def _told(offsets: Any) -> str:
    if not isinstance(offsets, (tuple, list)):
        return what(offsets) if isinstance(offsets, Value) else text_of(offsets)
    return f"{len(offsets)}" if any(isinstance(offset, Value) for offset in offsets) else text_of(offsets)


# Arrays in shared local memory: ``xt.alloc_slm``.


class SharedArray(Array):
    """An array in shared local memory; its sizes are known when the kernel is compiled.

    Attributes:
        sizes: elements along each dimension.
    """

    __slots__ = ("sizes",)

    def __init__(self, ssa: SSAValue, name: str, dtype: DType, sizes: tuple[int, ...]) -> None:
        super().__init__(ssa, name, len(sizes), dtype)
        self.sizes = sizes

    def describe(self) -> str:
        return f"{self.rank}-dimensional array of {self.dtype} in shared local memory"

    def seen_as(self, ssa: SSAValue, dtype: DType) -> SharedArray:
        """The array read as another element type."""
        return SharedArray(ssa, self.name, dtype, self.sizes)

    def metadata(self) -> tuple[list[SSAValue], list[SSAValue]]:
        """Nothing: the type says it."""
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
    """An array in the shared local memory of the work-group (``memref.alloc`` in memory space 3).

    It is one array for all subgroups of a work-group, from the beginning of the kernel to its end, wherever the call
    stands. What it holds before it is written is not defined; in NumPy it is NaN, or bytes of 0xA5. Between what one
    subgroup writes and another reads there must be an ``xt.barrier``.

    Args:
        shape: two sizes, or more: a batch of matrices, such as a ring of buffers (stages, rows, columns).
        dtype: element type, of a byte or more.

    Raises:
        ShapeError: not two compile-time integers or more.
        ElementTypeError: no such element type, or one of less than a byte.
        TargetError: when lowered: the target does not have as much.
    """
    tracer = current("xt.alloc_slm")
    sizes = _sizes(shape)
    try:
        element = dtypes.of(dtype)
    except ElementTypeError as error:
        raise error.at(tracer.location()) from None
    if element.bits < 8 or element is dtypes.index:
        raise ElementTypeError("XT1142", f"shared local memory does not hold {element}", _whole_bytes(element),
                               tracer.location())
    type_ = MemRefType(element.mlir, sizes, NoneAttr(), IntegerAttr(SHARED, i64))
    memory = tracer.emit_at_head(AllocOp([], [], type_))
    memory.name_hint = "slm"
    return SharedArray(memory, "the array", element, sizes)


def _whole_bytes(element: DType) -> str:
    if element is dtypes.index:
        return "use xt.i32 or xt.i64"
    return "use xt.u8, and take each byte apart behind the load" if element.bits == 4 else "use xt.u8"


def _example(sizes: list[Any]) -> tuple[int, int]:
    """A shape like the one that was given, if that is a single size."""
    return (1, sizes[0]) if len(sizes) == 1 and type(sizes[0]) is int and sizes[0] > 0 else (256, 32)


def _sizes(shape: Any) -> tuple[int, ...]:
    sizes = [plain(size) for size in shape] if isinstance(shape, (tuple, list)) else []
    if any(isinstance(size, Value) for size in sizes):
        raise ShapeError("XT1140",
                         "the shape of an array in shared local memory holds a run-time value", "it is allocated when "
                         "the kernel is compiled: make its sizes keyword-only parameters", current().location())
    if len(sizes) < 2 or not all(type(size) is int and size > 0 for size in sizes):
        raise ShapeError("XT1141",
                         f"the shape of an array in shared local memory must be two or more positive integers, not "
                         f"{shape!r}", f"give rows and columns, for example {_example(sizes)}", current().location())
    return tuple(sizes)


# ``xt.load_scalar``: a number of an array as a run-time number.


def load_scalar(array: Array, indices: Any) -> Scalar:
    """The number that an array holds at an index: an address, a size, where a tile lies, a bound of a loop.

    A table of what work-groups have to do is such an array. The number is one for a whole subgroup, as an argument is;
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
    if not isinstance(array, Array) or isinstance(array, SharedArray):
        what = f"a {array.describe()}" if isinstance(array, Value) else f"{type(array).__name__} {array!r:.40}"
        raise ElementTypeError("XT1240", f"load_scalar takes an array argument of the kernel, not {what}",
                               "pass the array itself; of a vector or of shared local memory there are only vectors",
                               tracer.location(), notes(tracer.location(), it=array))
    if array.dtype not in TYPES:
        raise ElementTypeError("XT1241", f"load_scalar gives {', '.join(map(str, TYPES))}, and {array.name} holds "
                               f"{array.dtype}", f"launch with {array.name}.astype(numpy.int32), or load a tile",
                               tracer.location())
    places = indices if isinstance(indices, (tuple, list)) else (indices,)
    if len(places) != array.rank:
        raise RankError("XT1242", f"{array.name} has {array.rank} dimension{'s' * (array.rank != 1)}, and load_scalar "
                        f"got {len(places)} {'index' if len(places) == 1 else 'indices'}",
                        "give an index for each dimension", tracer.location())
    return Scalar(tracer.emit(LoadScalarOp(array.ssa, [scalar(place) for place in places])))
