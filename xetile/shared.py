"""Arrays in shared local memory: ``xt.alloc_slm``."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntegerAttr, MemRefType, NoneAttr, i64
from xdsl.dialects.memref import AllocOp
from xdsl.ir import SSAValue

from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.ir.memref import SHARED, row_major
from xegpu.support.errors import ElementTypeError, ShapeError
from xetile.numbers import plain
from xetile.tiles import Array
from xetile.tracer import current
from xetile.values import Value


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
