"""What a tile is made on: an array as it is, an array described anew, or an address."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, StridedLayoutAttr
from xdsl.dialects.memref import CastOp
from xdsl.ir import SSAValue

from codegen.runtime.usm import is_usm
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.ir.memref import is_shared
from xegpu.support.errors import ElementTypeError, RankError, ShapeError
from xetile.given import text_of, what
from xetile.numbers import scalar
from xetile.parties import notes
from xetile.tiles import Array, check_rank
from xetile.tracer import current
from xetile.values import Scalar, Value


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
