"""Vectors and run-time numbers of a kernel, with the operators that an author writes between them."""

from __future__ import annotations

from typing import Any

from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.support.errors import ElementTypeError
from xetile.frontend.arith_rules import convert
from xetile.frontend.operators import operate
from xetile.frontend.ssa_value import Arithmetic, ScalarBase, VectorBase
from xetile.frontend.tracer import current


class _Operators(Arithmetic):
    """Python's operators, element by element on vectors."""

    __slots__ = ()
    __hash__ = object.__hash__  # == makes an operation; values are told apart by identity

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


class Scalar(_Operators, ScalarBase):
    """A number known at run time, the same in the whole subgroup: an index, a size, a float argument."""

    __slots__ = ()

    def to(self, dtype: Any) -> Scalar:
        """This number as another element type; as ``i1`` whether it is not zero."""
        target = element_type(dtype)
        if target is dtypes.i1:
            return self if self.dtype is target else self != 0  # type: ignore[no-any-return]
        return Scalar(convert(self.ssa, target))


class Vector(_Operators, VectorBase):
    """The elements of a tile, in registers.

    Attributes:
        shape: rows and columns.
        dtype: the element type.
        wg_map: its distribution over the subgroups, None on a subgroup's vector.
    """

    __slots__ = ()

    def to(self, dtype: Any) -> Vector:
        """The same values as another element type, rounded to nearest even; float to integer truncates and saturates.

        As ``i1`` whether they are not zero.

        Raises:
            ElementTypeError: ``dtype`` is not an element type, or none that vectors have.
        """
        target = element_type(dtype)
        if target is dtypes.i1:
            return self if self.dtype is target else self != 0  # type: ignore[no-any-return]
        return Vector(convert(self.ssa, target), self.wg_map)


def element_type(dtype: Any) -> DType:
    """The element type that an author names, if values can have it.

    Raises:
        ElementTypeError: there is none of that name, or only products have it.
    """
    try:
        return dtypes.whole(dtypes.of(dtype))
    except ElementTypeError as error:
        raise error.at(current().location()) from None


def all_ones(dtype: DType) -> int | float:
    """The number of an integer type whose bits are all set; ``^`` refuses it beside floats."""
    return 1 if dtype is dtypes.i1 else (1 << dtype.bits) - 1 if dtype.kind == "u" else -1
