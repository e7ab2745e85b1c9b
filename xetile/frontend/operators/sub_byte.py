"""Vectors and tiles of 4-bit integers: pairs in bytes, which are stored, multiplied, and widened to be calculated with.

A vector is packed along one dimension, as memory is, or not packed at all behind a conversion. What an operation needs
packed otherwise is unpacked and packed again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NoReturn

from xdsl.dialects import arith
from xdsl.dialects.builtin import VectorType

from xegpu.analysis.dataflow.divisibility import multiple_of
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.support.errors import ElementTypeError, RankError, ShapeError
from xetile.dialect.tile_ops import text
from xetile.dialect.vector import TileBitcastOp
from xetile.dialect.wg_map import Pair, WgMap
from xetile.frontend.arith_rules import convert
from xetile.frontend.constants import python_number, scalar
from xetile.frontend.operators import operate
from xetile.frontend.ssa_value import VectorBase
from xetile.frontend.tracer import current


def halved(sizes: Pair, axis: int, what: str) -> Pair:
    """Sizes in bytes of sizes in elements, of which there are two in a byte along ``axis``.

    Raises:
        ShapeError: that size is odd.
    """
    if sizes[axis] % 2:
        raise ShapeError("XT1132", f"{what} is {text(sizes)}, with an odd number of 4-bit "
                         f"{('rows', 'columns')[axis]}, of which two share a byte",
                         f"make it {sizes[axis] + 1}", current().location())
    rows, columns = sizes
    return (rows // 2, columns) if axis == 0 else (rows, columns // 2)


def halved_map(wg_map: WgMap | None, axis: int) -> WgMap | None:
    """Map of the bytes of a tile."""
    return None if wg_map is None else WgMap(wg_map.sg_layout, halved(wg_map.sg_data, axis, "sg_data of its wg_map"))


def halved_offset(offset: Any, axis: int) -> Any:
    """Offset in bytes of one in elements.

    Raises:
        ShapeError: it is odd, or not known to be even.
    """
    number = python_number(offset)
    if isinstance(number, int) and not isinstance(number, bool):
        if number % 2:
            raise _odd(f"{number}", axis)
        return number // 2
    tracer, ssa = current(), scalar(offset)
    halving = arith.ShRSIOp(ssa, tracer.constant(1, dtypes.index))
    if tracer.runs:
        if (known := int(tracer.evaluate(ssa))) % 2:
            raise _odd(str(known), axis)
    else:
        error = _odd("not known to be even", axis)
        tracer.at_end.append(lambda: _check_even(halving, error))  # an index of a loop is known with its loop
    return tracer.emit(halving)


def _check_even(halving: arith.ShRSIOp, error: ShapeError) -> None:
    if multiple_of(halving.lhs) % 2:
        raise error


def _odd(what: str, axis: int) -> ShapeError:
    return ShapeError("XT1133", f"the {('row', 'column')[axis]} at which the tile starts is {what}, and two 4-bit "
                      "integers share a byte", "start at a multiple of a tile's size, or at x // 2 * 2",
                      current().location())


class _NoArithmetic:
    """Base of what takes no part in arithmetic: operators are errors that name the conversion."""

    dtype: DType

    def refuse(self, *others: object) -> NoReturn:
        """Raise that it is not calculated with; ``others`` are the operands of an operator."""
        wide = dtypes.widened(self.dtype)
        raise ElementTypeError("XT1226", f"{self.dtype} is stored, multiplied by tile_mma and converted, and not "
                               "calculated with", f"convert it first, as in v.to(xt.{wide}), and back with "
                               f".to(xt.{self.dtype})", current("arithmetic").location())

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = refuse
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __and__ = __rand__ = __or__ = __ror__ = refuse
    __xor__ = __rxor__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __pow__ = __rpow__ = refuse
    __neg__ = __pos__ = __invert__ = __abs__ = __lt__ = __le__ = __gt__ = __ge__ = __getitem__ = refuse
    __eq__ = __ne__ = refuse  # type: ignore[assignment]
    __hash__ = object.__hash__


@dataclass(frozen=True)
class SubByteTile:
    """Tile of 4-bit integers.

    Attributes:
        tile: the tile of bytes.
        dtype: i4 or u4.
        axis: the dimension, 0 or 1, along which a byte holds two.
    """

    tile: Any
    dtype: DType
    axis: int

    @property
    def shape(self) -> Pair:
        """Rows and columns."""
        return _doubled(self.tile.shape, self.axis)

    @property
    def wg_map(self) -> WgMap | None:
        """Distribution of the tile to the subgroups."""
        return _doubled_map(self.tile.wg_map, self.axis)

    def describe(self) -> str:
        """Kind, shape and element type, for messages."""
        return f"tile of {text(self.shape)} {self.dtype}"


@dataclass(frozen=True, eq=False)
class SubByteVector(_NoArithmetic):
    """Vector of 4-bit integers.

    Attributes:
        vector: its bytes, of pairs; or 8-bit integers in the range of ``dtype``.
        dtype: i4 or u4.
        axis: the dimension, 0 or 1, along which a byte holds two; None of 8-bit integers.
    """

    vector: Any
    dtype: DType
    axis: int | None

    @property
    def shape(self) -> Pair:
        """Rows and columns."""
        shape: Pair = self.vector.shape
        return shape if self.axis is None else _doubled(shape, self.axis)

    @property
    def wg_map(self) -> WgMap | None:
        """Distribution over the subgroups."""
        wg_map: WgMap | None = self.vector.wg_map
        return wg_map if self.axis is None else _doubled_map(wg_map, self.axis)

    def describe(self) -> str:
        """Kind, shape and element type, for messages."""
        return f"vector of {text(self.shape)} {self.dtype}"

    def to(self, dtype: Any) -> Any:
        """Convert to another element type, exactly."""
        target = dtypes.of(dtype)
        return self if target is self.dtype else self.widened().to(target)

    def widened(self) -> Any:
        """Vector of the elements as 8-bit integers."""
        if self.axis is None:
            return self.vector
        wide = dtypes.widened(self.dtype)
        words = type(self.vector)(convert(_recast(self.vector, dtypes.u8).ssa, dtypes.u16), self.vector.wg_map)
        spread = operate("&", operate("|", words, operate("<<", words, 4)), 0x0F0F)
        if self.dtype is dtypes.i4:  # each byte: 0 to 7 stay, 8 to 15 become -8 to -1, without a borrow
            spread = operate("^", operate("+", operate("^", spread, 0x0808), 0x7878), 0x8080)
        return _recast(spread, wide, self.axis)

    def packed(self, axis: int) -> Any:
        """Vector of bytes, each a pair of elements along ``axis``."""
        if self.axis == axis:
            return self.vector
        wide = self.widened()
        if wide.shape[axis] % 2:
            halved(wide.shape, axis, "the vector")
        values = type(wide)(convert(wide.ssa, dtypes.u8), wide.wg_map)
        words = _recast(operate("&", values, 15), dtypes.u16, axis)
        both = operate("|", words, operate(">>", words, 4))
        low = type(wide)(convert(both.ssa, dtypes.u8), both.wg_map)
        return _recast(low, dtypes.PAIRS[self.dtype])


def narrowed(v: VectorBase, dtype: DType) -> SubByteVector:
    """Convert a vector to 4-bit integers: floats truncate and saturate, integers keep their lowest bits.

    Raises:
        RankError: it does not have two dimensions.
    """
    if len(v.shape) != 2:
        raise RankError("XT1122", f"a {v.describe()} does not become {dtype}, which has two dimensions",
                        "use xt.tile_unpack(v), or v[None, :], first", current().location())
    wide, value = dtypes.widened(dtype), v
    if v.dtype.is_float or v.dtype.kind == "s":
        value = _clipped(v.like(convert(v.ssa, dtypes.i32)), dtype)
    value = v.like(convert(value.ssa, wide)) if value.dtype is not wide else value
    value = operate(">>", operate("<<", value, 4), 4) if dtype is dtypes.i4 else operate("&", value, 15)
    return SubByteVector(value, dtype, None)


def _clipped(v: Any, dtype: DType) -> Any:
    low, high = (-8, 7) if dtype is dtypes.i4 else (0, 15)
    return operate("minimum", operate("maximum", v, low), high)


def _recast(v: Any, dtype: DType, axis: int = 0) -> Any:
    """Bitcast along a dimension, which elements of twice the bits halve."""
    operation = TileBitcastOp(v.ssa, dtype.mlir, None, axis)
    map_ = v.wg_map and operation.distributed(v.wg_map)
    if v.ssa.type == operation.result.type:
        return v
    assert isinstance(v.ssa.type, VectorType)
    operation = TileBitcastOp(v.ssa, dtype.mlir, map_, axis)
    return type(v)(current().emit(operation), map_)


def _doubled(sizes: Pair, axis: int) -> Pair:
    rows, columns = sizes
    return (2 * rows, columns) if axis == 0 else (rows, 2 * columns)


def _doubled_map(wg_map: WgMap | None, axis: int) -> WgMap | None:
    return None if wg_map is None else WgMap(wg_map.sg_layout, _doubled(wg_map.sg_data, axis))


def like(tile: SubByteTile, moved: Any) -> SubByteTile:
    """Sub-byte tile on the moved tile of bytes."""
    return replace(tile, tile=moved)
