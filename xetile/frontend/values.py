"""Traced values: the Python objects that represent SSA values inside a kernel."""

from __future__ import annotations

from typing import Any

from xegpu.dialect.vector import ExtractScalarOp
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.support.errors import ElementTypeError
from xetile.frontend.arith_rules import convert
from xetile.frontend.operators import absolute, operate
from xetile.frontend.operators.small_floats import rounded
from xetile.frontend.operators.sub_byte import narrowed
from xetile.frontend.operators.subscripts import subscript
from xetile.frontend.ssa_value import Arithmetic, ScalarBase, VectorBase
from xetile.frontend.tracer import current


class _Operators(Arithmetic):
    """Python's operators, element by element on vectors."""

    __slots__ = ()
    __hash__ = object.__hash__  # == emits an operation; values hash by identity

    def __add__(self, other: Any) -> Any:
        return operate("+", self, other)

    def __radd__(self, other: Any) -> Any:
        return operate("+", other, self)

    def __sub__(self, other: Any) -> Any:
        return operate("-", self, other)

    def __rsub__(self, other: Any) -> Any:
        return operate("-", other, self)

    def __mul__(self, other: Any) -> Any:
        return operate("*", self, other)

    def __rmul__(self, other: Any) -> Any:
        return operate("*", other, self)

    def __truediv__(self, other: Any) -> Any:
        return operate("/", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return operate("/", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return operate("//", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return operate("//", other, self)

    def __mod__(self, other: Any) -> Any:
        return operate("%", self, other)

    def __rmod__(self, other: Any) -> Any:
        return operate("%", other, self)

    def __and__(self, other: Any) -> Any:
        return operate("&", self, other)

    def __or__(self, other: Any) -> Any:
        return operate("|", self, other)

    def __xor__(self, other: Any) -> Any:
        return operate("^", self, other)

    def __lshift__(self, other: Any) -> Any:
        return operate("<<", self, other)

    def __rshift__(self, other: Any) -> Any:
        return operate(">>", self, other)

    def __rand__(self, other: Any) -> Any:
        return operate("&", other, self)

    def __ror__(self, other: Any) -> Any:
        return operate("|", other, self)

    def __rxor__(self, other: Any) -> Any:
        return operate("^", other, self)

    def __rlshift__(self, other: Any) -> Any:
        return operate("<<", other, self)

    def __rrshift__(self, other: Any) -> Any:
        return operate(">>", other, self)

    def __pow__(self, other: Any) -> Any:
        return operate("**", self, other)

    def __rpow__(self, other: Any) -> Any:
        return operate("**", other, self)

    def __lt__(self, other: Any) -> Any:
        return operate("<", self, other)

    def __le__(self, other: Any) -> Any:
        return operate("<=", self, other)

    def __gt__(self, other: Any) -> Any:
        return operate(">", self, other)

    def __ge__(self, other: Any) -> Any:
        return operate(">=", self, other)

    def __eq__(self, other: Any) -> Any:
        return operate("==", self, other)

    def __ne__(self, other: Any) -> Any:
        return operate("!=", self, other)

    def __invert__(self) -> Any:
        return operate("^", self, all_ones(self.dtype))

    def __neg__(self) -> Any:
        return operate("-", -0.0, self) if self.dtype.is_float else operate("-", 0, self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return absolute(self)


class Scalar(_Operators, ScalarBase):
    """Run-time scalar, uniform in a subgroup: an index, a size, a float argument."""

    __slots__ = ()

    def to(self, dtype: Any) -> Scalar:
        """Convert to another element type; to ``i1``: whether it is not zero."""
        target = element_type(dtype)
        if target is dtypes.i1:
            return self if self.dtype is target else self != 0  # type: ignore[no-any-return]
        return Scalar(convert(self.ssa, target))


class Vector(_Operators, VectorBase):
    """Vector: the values of a tile, in registers.

    Attributes:
        shape: rows and columns.
        dtype: the element type.
        wg_map: its distribution over the subgroups, None on a subgroup's vector.
    """

    __slots__ = ()

    def to(self, dtype: Any) -> Vector:
        """Convert to another element type: round to nearest even; float to integer truncates and saturates.

        To ``i1``: whether each element is not zero. To 8-bit floats: what is too large becomes NaN in E4M3 and
        infinity in E5M2. To ``i4`` and ``u4`` integers keep their lowest bits; the result is stored, multiplied and
        converted, and not calculated with.

        Raises:
            ElementTypeError: ``dtype`` is not an element type of vectors; or it is an 8-bit float, and this is f64.
        """
        target = element_type(dtype, stored=True)
        if target in dtypes.PAIRS:
            return narrowed(self, target)  # type: ignore[return-value]
        if target is dtypes.i1:
            return self if self.dtype is target else self != 0  # type: ignore[no-any-return]
        if target.kind == "s" and self.dtype is not target:
            return rounded(self, target)  # type: ignore[no-any-return]
        return Vector(convert(self.ssa, target), self.wg_map)

    def __getitem__(self, key: Any) -> Any:
        """Elements, rows, columns and adjacent slices, as in NumPy: ``v[3]``, ``v[:, 2]``, ``v[1:3]``, ``v[:, None]``.

        Integers and slices are compile-time constants; a row, a column or an element may be at a run-time index.

        Raises:
            RankError, ShapeError: a subscript that does not fit the vector, or the vector has a ``wg_map``.
            ElementTypeError: an element of a type that run-time numbers do not have, or an index that is none.
        """
        current("a subscript")
        found = subscript(self, key)
        return found if isinstance(found, VectorBase) else Scalar(found)

    def item(self) -> Scalar:
        """The only element of a vector of one, as a run-time number.

        It is an index, a size, a bound or a condition's operand from then on, and the same in the whole subgroup.

        Raises:
            ShapeError: the vector has more elements.
            ElementTypeError: its type is not i32, u32, i64, u64 or f32.
        """
        return Scalar(current("item").emit(ExtractScalarOp(self.ssa)))


def element_type(dtype: Any, *, stored: bool = False) -> DType:
    """Element type that the author names.

    Args:
        dtype: its name, or a type of NumPy or ml_dtypes.
        stored: whether it may have 4 bits, and be stored or multiplied only.

    Raises:
        ElementTypeError: no such type, or one of 4 bits.
    """
    try:
        return dtypes.of(dtype) if stored else dtypes.byte_addressable(dtypes.of(dtype))
    except ElementTypeError as error:
        raise error.at(current().location()) from None


def all_ones(dtype: DType) -> int | float:
    """Integer of a type with all bits set; ``^`` rejects it with a float."""
    return 1 if dtype is dtypes.i1 else (1 << dtype.bits) - 1 if dtype.kind == "u" else -1
