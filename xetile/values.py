"""What an author holds inside a kernel: Python values that stand for what is being recorded."""

from __future__ import annotations

from typing import Any, NoReturn

from xdsl.dialects.builtin import UnrealizedConversionCastOp, VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation, SSAValue

from xegpu import dtypes
from xegpu.dtypes import DType, of_mlir
from xegpu.errors import ElementTypeError, ShapeError, TraceError
from xetile.arithmetic import constant_of, convert, fold, rules_of
from xetile.dialect.attributes import WgMapAttr
from xetile.dialect.ops import text
from xetile.dialect.vector_ops import TileBroadcastOp
from xetile.distribution import WgMap
from xetile.powers import power
from xetile.tracer import current


class Value:
    """A symbolic value: one SSA value of the recording.

    ``ssa`` is re-pointed when a loop starts to carry the value and when the loop ends; the object stays.
    """

    __slots__ = ("ssa",)
    __hash__ = object.__hash__
    __array_ufunc__ = None  # NumPy's scalars leave arithmetic with traced values to these

    def __init__(self, ssa: SSAValue) -> None:
        self.ssa = ssa

    def clone(self) -> Value:
        """Another object for the same SSA value."""
        return type(self)(self.ssa)

    def like(self, ssa: SSAValue) -> Any:
        """An object of this kind, and this work-group map, for another SSA value."""
        other = self.clone()
        other.ssa = ssa
        return other

    def describe(self) -> str:
        """The kind, shape and element type, for messages."""
        return type(self).__name__.lower()

    def __repr__(self) -> str:
        return f"<{self.describe()}>"

    def __format__(self, spec: str) -> str:
        return repr(self)

    def _unknown(self, what: str, hint: str) -> NoReturn:
        raise TraceError(f"a {self.describe()} has no value while the kernel is recorded, so {what}", hint,
                         current("a traced value").location())

    def __bool__(self) -> NoReturn:
        self._unknown("Python cannot branch on it",
                      "choose between values with xt.where(condition, a, b), put what only some work-groups do under "
                      "`with xt.when(condition):`, join conditions with & | ~, or branch on a compile-time constant (a "
                      "keyword-only parameter)")

    def __index__(self) -> NoReturn:
        self._unknown("Python cannot count with it",
                      "write `for k in xt.range(...)` for a loop on the device; Python's own range and indices take "
                      "compile-time numbers, such as keyword-only parameters")

    def __int__(self) -> NoReturn:
        self._unknown("int() and float() cannot turn it into a Python number",
                      "go on with the run-time value itself, and convert it with .to(xt.i32) or .to(xt.f32)")

    __float__ = __int__
    __complex__ = __int__
    __round__ = __int__
    __trunc__ = __int__

    def _compared(self, other: object) -> NoReturn:
        self._unknown("Python cannot compare it",
                      "compare vectors and run-time numbers: xt.load_tile(tile) gives a vector; whether it is the same "
                      "object is asked with `is`")

    __lt__ = __le__ = __gt__ = __ge__ = _compared
    __eq__ = __ne__ = _compared  # type: ignore[assignment]

    def __iter__(self) -> NoReturn:
        self._unknown("Python cannot iterate over it", "write `for k in xt.range(...)` for a loop on the device")

    def __len__(self) -> int:
        self._unknown("it has no len()", "its sizes are in .shape")

    def __getitem__(self, key: object) -> NoReturn:
        self._unknown("it cannot be indexed", "cover what you need with a tile: xt.load_tile(xt.init_tile(array, "
                      "(row, column), (rows, columns)))")

    def __setitem__(self, key: object, value: object) -> NoReturn:
        self._unknown("its elements cannot be set", "write whole tiles with xt.store_tile")


    def __matmul__(self, other: object) -> NoReturn:
        raise ElementTypeError(f"a {self.describe()} has no operator @", "multiply vectors with xt.tile_mma(a, b, acc)",
                               current("arithmetic").location())

    __rmatmul__ = __matmul__


class Arithmetic(Value):
    """Operators, element by element on vectors; see :func:`binary`."""

    __slots__ = ()
    __hash__ = object.__hash__  # == makes an operation; values are told apart by identity

    @property
    def dtype(self) -> DType:
        """The element type."""
        type_ = self.ssa.type
        return of_mlir(type_.element_type if isinstance(type_, VectorType) else type_)

    def __add__(self, other: Any) -> Any:
        return binary("+", self, other)

    def __radd__(self, other: Any) -> Any:
        return binary("+", other, self)

    def __sub__(self, other: Any) -> Any:
        return binary("-", self, other)

    def __rsub__(self, other: Any) -> Any:
        return binary("-", other, self)

    def __mul__(self, other: Any) -> Any:
        return binary("*", self, other)

    def __rmul__(self, other: Any) -> Any:
        return binary("*", other, self)

    def __truediv__(self, other: Any) -> Any:
        return binary("/", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return binary("/", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return binary("//", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return binary("//", other, self)

    def __mod__(self, other: Any) -> Any:
        return binary("%", self, other)

    def __rmod__(self, other: Any) -> Any:
        return binary("%", other, self)

    def __and__(self, other: Any) -> Any:
        return binary("&", self, other)

    def __or__(self, other: Any) -> Any:
        return binary("|", self, other)

    def __xor__(self, other: Any) -> Any:
        return binary("^", self, other)

    def __lshift__(self, other: Any) -> Any:
        return binary("<<", self, other)

    def __rshift__(self, other: Any) -> Any:
        return binary(">>", self, other)

    def __rand__(self, other: Any) -> Any:
        return binary("&", other, self)

    def __ror__(self, other: Any) -> Any:
        return binary("|", other, self)

    def __rxor__(self, other: Any) -> Any:
        return binary("^", other, self)

    def __rlshift__(self, other: Any) -> Any:
        return binary("<<", other, self)

    def __rrshift__(self, other: Any) -> Any:
        return binary(">>", other, self)

    def __pow__(self, other: Any) -> Any:
        return power(self, plain(other), binary)

    def __rpow__(self, other: Any) -> Any:
        return binary("**", other, self)

    def __lt__(self, other: Any) -> Any:
        return binary("<", self, other)

    def __le__(self, other: Any) -> Any:
        return binary("<=", self, other)

    def __gt__(self, other: Any) -> Any:
        return binary(">", self, other)

    def __ge__(self, other: Any) -> Any:
        return binary(">=", self, other)

    def __eq__(self, other: Any) -> Any:
        return binary("==", self, other)

    def __ne__(self, other: Any) -> Any:
        return binary("!=", self, other)

    def __invert__(self) -> Any:
        return binary("^", self, all_ones(self.dtype))

    def __neg__(self) -> Any:
        return binary("-", -0.0, self) if self.dtype.is_float else binary("-", 0, self)

    def __pos__(self) -> Any:
        return self


class Scalar(Arithmetic):
    """A number known at run time, the same in the whole subgroup: an index, a size, a float argument."""

    __slots__ = ()

    def describe(self) -> str:
        return f"run-time {self.dtype}"

    def to(self, dtype: Any) -> Scalar:
        """This number as another element type; as ``i1`` whether it is not zero."""
        target = element_type(dtype)
        if target is dtypes.i1:
            return self if self.dtype is target else self != 0  # type: ignore[no-any-return]
        return Scalar(convert(self.ssa, target))


class Vector(Arithmetic):
    """The values of a tile, in registers.

    Attributes:
        shape: rows and columns.
        dtype: the element type.
        wg_map: how it is dealt to the subgroups, None on a subgroup's vector.
    """

    __slots__ = ("wg_map",)

    def __init__(self, ssa: SSAValue, wg_map: WgMap | None = None) -> None:
        super().__init__(ssa)
        self.wg_map = wg_map

    def clone(self) -> Vector:
        return Vector(self.ssa, self.wg_map)

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        assert isinstance(self.ssa.type, VectorType)
        return self.ssa.type.get_shape()

    def describe(self) -> str:
        return f"vector of {text(self.shape)} {self.dtype}"

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


def scalar(value: Any, dtype: DType = dtypes.index) -> SSAValue:
    """``value``, a Python number or a run-time one, as a scalar of ``dtype``.

    Raises:
        ElementTypeError: it is neither, or a number of another type.
    """
    if isinstance(value, Scalar):
        if value.dtype is not dtype:
            raise ElementTypeError(f"a {value.describe()} stands where a {dtype} is needed",
                                   f"convert it with .to(xt.{dtype})", current().location())
        return value.ssa
    value = plain(value)
    if dtype is dtypes.i1 and isinstance(value, int) and value in (0, 1):
        return current().constant(bool(value), dtype)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        what = f"a {value.describe()}" if isinstance(value, Value) else f"{type(value).__name__} {value!r}"
        raise ElementTypeError(f"{what} stands where a number of type {dtype} is needed",
                               "give a Python number or a run-time one, such as xt.group_id(0) or array.shape[0]",
                               current().location())
    if isinstance(value, float) and not dtype.is_float:
        raise ElementTypeError(f"the number {value} stands where an integer ({dtype}) is needed",
                               f"use a whole number such as {int(value) if abs(value) < 2**31 else 0}, or convert what "
                               "it is combined with: .to(xt.f32)", current().location())
    return current().constant(value, dtype)


def plain(number: Any) -> Any:
    """NumPy's numbers, and arrays without dimensions, as Python's; anything else as it is."""
    if not isinstance(number, Value) and hasattr(number, "item") and getattr(number, "ndim", 1) == 0:
        number = number.item()
    return number


def binary(operator: str, left: Any, right: Any) -> Any:
    """One arithmetic operator on two values; numbers are spread over vectors.

    Raises:
        ElementTypeError: the element types differ, or have no such operator.
        ShapeError: the shapes, or the work-group maps, differ.
    """
    left, right = plain(left), plain(right)
    if stranger := [side for side in (left, right) if not isinstance(side, (Arithmetic, int, float))]:
        what = f"a {stranger[0].describe()}" if isinstance(stranger[0], Value) else f"a {type(stranger[0]).__name__}"
        raise ElementTypeError(f"{operator} takes vectors and numbers, not {what}",
                               "load a tile's elements with xt.load_tile, or use a Python number", current().location())
    if not isinstance(left, Vector) and not isinstance(right, Vector):
        return _scalar_binary(operator, left, right)
    shaped = left if isinstance(left, Vector) else right
    location = current().location()
    if isinstance(left, Vector) and isinstance(right, Vector):
        left, right = alike(operator, left, right)
        shaped = left
    rule = rules_of(shaped.dtype).get(operator)
    if rule is None:
        raise ElementTypeError(f"vectors of {shaped.dtype} have no operator {operator}",
                               _instead(operator, shaped.dtype), location)
    if operator == "%" and shaped.dtype.kind == "i":
        return left - (left // right) * right  # Python's sign rule, which arith.remsi does not have
    operands = [side.ssa if isinstance(side, Vector) else spread(side, shaped) for side in (left, right)]
    return Vector(current().emit(rule(*operands)), shaped.wg_map)


def _scalar_binary(operator: str, left: Any, right: Any) -> Scalar:
    dtype = left.dtype if isinstance(left, Scalar) else right.dtype
    operands = scalar(left, dtype), scalar(right, dtype)
    rule = rules_of(dtype).get(operator)
    if rule is None:
        raise ElementTypeError(f"{dtype} has no operator {operator}", _instead(operator, dtype), current().location())
    if (folded := fold(operator, dtype, *operands)) is not None:
        return Scalar(folded)
    divisor = constant_of(operands[1])
    power = isinstance(divisor, int) and divisor > 0 and divisor & (divisor - 1) == 0
    if operator in ("//", "%") and dtype.signed and isinstance(divisor, int) and power:
        # Exact for negative numbers too: two's complement rounds down.
        shift, mask = divisor.bit_length() - 1, divisor - 1
        return binary(">>", left, shift) if operator == "//" else binary("&", left, mask)  # type: ignore[no-any-return]
    if operator == "%" and dtype.signed:
        return left - (left // right) * right  # type: ignore[no-any-return]
    return Scalar(current().emit(rule(*operands)))


def _instead(operator: str, dtype: DType) -> str:
    """What an author writes where an element type lacks an operator."""
    if dtype is dtypes.i1:
        return "truth values have & | ^ ~ and comparisons; count them with .to(xt.i32)"
    other = {"/": "//", "//": "/"}.get(operator, "")
    kind = "xt.f32" if operator in ("/", "**") else "xt.i32"
    return f"use {other}, or convert with .to({kind})" if other else f"convert with .to({kind})"


def spread(number: Any, like: Vector, dtype: DType | None = None) -> SSAValue:
    """A number spread over a vector of the shape of ``like``, of its element type or another."""
    dtype = dtype or like.dtype
    operation = BroadcastOp(scalar_of_element(number, dtype), VectorType(dtype.mlir, like.shape))
    if like.wg_map is not None:
        operation.attributes["wg_map"] = WgMapAttr(like.wg_map)
    return current().emit(operation)  # type: ignore[no-any-return]


def scalar_of_element(number: Any, dtype: DType) -> SSAValue:
    """A number as a scalar of an element type; a Python number must be one that the type holds."""
    if isinstance(number, Scalar) and number.dtype is not dtype and dtype.is_float and number.dtype.is_float:
        return convert(number.ssa, dtype)
    if isinstance(number, int) and not dtype.is_float and dtype.kind in "iu":
        low, high = limits(dtype)
        if not low <= number <= high:
            raise ElementTypeError(f"{number} does not fit {dtype}", f"{dtype} holds {low} to {high}",
                                   current().location())
        if dtype.kind == "u" and dtype is not dtypes.i1:
            return current().emit(_sign_cast(current().constant(_wrap(number, dtype), dtype), dtype))  # type: ignore
    return scalar(number, dtype)


def limits(dtype: DType) -> tuple[int, int]:
    """The smallest and the largest number of an integer type."""
    if dtype is dtypes.i1:
        return 0, 1
    return (-(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1) if dtype.signed else (0, (1 << dtype.bits) - 1)


def _wrap(number: int, dtype: DType) -> int:
    return number - (1 << dtype.bits) if number >= 1 << (dtype.bits - 1) else number


def _sign_cast(value: SSAValue, dtype: DType) -> Operation:
    return UnrealizedConversionCastOp.create(operands=[value], result_types=[dtype.mlir])


def alike(operator: str, left: Vector, right: Vector) -> tuple[Vector, Vector]:
    """Two vectors of one element type in one shape: dimensions of size 1 are repeated, as NumPy repeats them.

    Raises:
        ElementTypeError: the element types differ.
        ShapeError: other dimensions, or the work-group maps, differ.
    """
    if left.shape != right.shape and left.dtype is right.dtype:
        pairs = list(zip(left.shape, right.shape, strict=True))
        if all(a == b or 1 in (a, b) for a, b in pairs):
            rows, columns = (max(pair) for pair in pairs)
            map_ = _common_map(left, right, (rows, columns))
            left, right = (broadcast(side, (rows, columns), map_) for side in (left, right))
    _check_alike(operator, left, right)
    return left, right


def _common_map(left: Vector, right: Vector, shape: tuple[int, int]) -> WgMap | None:
    """The map in which two vectors meet: that of a side that has ``shape``, or rows of one and columns of the other."""
    if left.wg_map is None or right.wg_map is None:
        return left.wg_map or right.wg_map
    whole = next((side.wg_map for side in (left, right) if side.shape == shape), None)
    column, row = (left, right) if left.shape[1] == 1 else (right, left)
    return whole or WgMap(column.wg_map.sg_layout, (column.wg_map.sg_data[0], row.wg_map.sg_data[1]))  # type: ignore


def broadcast(v: Vector, shape: tuple[int, int], wg_map: WgMap | None) -> Vector:
    """A vector repeated along its dimensions of size 1 up to ``shape``, dealt out by ``wg_map``.

    Raises:
        ShapeError: another dimension differs, or the maps contradict each other.
    """
    location = current().location()
    axes = [axis for axis, (old, new) in enumerate(zip(v.shape, shape, strict=True)) if old != new]
    if wide := [axis for axis in axes if v.shape[axis] != 1]:
        raise ShapeError(f"a {v.describe()} is not broadcast to {text(shape)}: dimension {wide[0]} has "
                         f"{v.shape[wide[0]]} elements", "only dimensions of size 1 are repeated", location)
    if axes and (v.wg_map is None) != (wg_map is None):
        raise ShapeError(f"the vector is dealt out as {v.wg_map}, its broadcast as {wg_map}",
                         "give both a wg_map, or neither: how a broadcast is dealt out is not derived", location)
    if axes and v.wg_map is not None and wg_map is not None and wg_map.collapsed(axes) != v.wg_map:
        raise ShapeError(f"a vector dealt out as {v.wg_map} is not broadcast to one dealt out as {wg_map}",
                         f"its map must be {wg_map.collapsed(axes)}: xt.tile_conv_layout(v, wg_map) gives it that",
                         location)
    return Vector(current().emit(TileBroadcastOp(v.ssa, shape, axes, wg_map)), wg_map) if axes else v


def _check_alike(operator: str, left: Vector, right: Vector) -> None:
    location = current().location()
    if left.dtype is not right.dtype:
        raise ElementTypeError(f"{left.describe()} {operator} {right.describe()}: the element types differ",
                               f"convert one with .to(xt.{left.dtype}) or .to(xt.{right.dtype})", location)
    if left.shape != right.shape:
        raise ShapeError(f"{left.describe()} {operator} {right.describe()}: the shapes differ",
                         f"make both {text(left.shape)} or both {text(right.shape)}", location)
    if left.wg_map != right.wg_map:
        raise ShapeError(f"the sides of {operator} are dealt out differently: {left.wg_map} and {right.wg_map}",
                         "give both the same wg_map", location)
