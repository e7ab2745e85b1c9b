"""What an author holds inside a kernel: Python values that stand for what is being recorded."""

from __future__ import annotations

from typing import Any, NoReturn

from xdsl.dialects import arith
from xdsl.dialects.builtin import UnrealizedConversionCastOp, VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation, SSAValue

from xegpu import dtypes
from xegpu.dtypes import DType, of_mlir
from xegpu.errors import ElementTypeError, RankError, ShapeError, TraceError
from xetile.dialect.attributes import TileEncoding, WgMapAttr
from xetile.dialect.ops import text, tile_of
from xetile.distribution import WgMap
from xetile.tracer import current

Number = int | float

_FLOAT: dict[str, type[Operation]] = {
    "+": arith.AddfOp, "-": arith.SubfOp, "*": arith.MulfOp, "/": arith.DivfOp,
    "maximum": arith.MaximumfOp, "minimum": arith.MinimumfOp,
}
_SIGNED: dict[str, type[Operation]] = {
    "+": arith.AddiOp, "-": arith.SubiOp, "*": arith.MuliOp, "//": arith.FloorDivSIOp, "%": arith.RemSIOp,
    "maximum": arith.MaxSIOp, "minimum": arith.MinSIOp, "&": arith.AndIOp, "|": arith.OrIOp, "^": arith.XOrIOp,
    "<<": arith.ShLIOp, ">>": arith.ShRSIOp,
}
_UNSIGNED: dict[str, type[Operation]] = {
    **_SIGNED, "//": arith.DivUIOp, "%": arith.RemUIOp, "maximum": arith.MaxUIOp, "minimum": arith.MinUIOp,
    ">>": arith.ShRUIOp,
}
BINARY = {"f": _FLOAT, "i": _SIGNED, "u": _UNSIGNED, "x": _SIGNED}

_FOLD = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "//": lambda a, b: a // b,
    "%": lambda a, b: a % b, "maximum": max, "minimum": min,
}


class Value:
    """A symbolic value: one SSA value of the recording.

    ``ssa`` is re-pointed when a loop starts to carry the value and when the loop ends; the object stays.
    """

    __slots__ = ("ssa",)
    __hash__ = object.__hash__

    def __init__(self, ssa: SSAValue) -> None:
        self.ssa = ssa

    def clone(self) -> Value:
        """Another object for the same SSA value."""
        return type(self)(self.ssa)

    def describe(self) -> str:
        """The kind, shape and element type, for messages."""
        return type(self).__name__.lower()

    def __repr__(self) -> str:
        return f"<{self.describe()}>"

    def __bool__(self) -> NoReturn:
        raise TraceError(
            f"a {self.describe()} has no value while the kernel is being recorded, so Python cannot branch on it",
            "branch on a compile-time constant (a keyword-only parameter), or compute both and select",
            current().location(),
        )

    def __index__(self) -> NoReturn:
        raise TraceError(
            f"a {self.describe()} has no value while the kernel is being recorded, so Python cannot count with it",
            "use xt.range(...) for a loop on the device; Python's own range takes compile-time constants",
            current().location(),
        )

    __int__ = __index__
    __float__ = __index__

    def __iter__(self) -> NoReturn:
        raise TraceError(f"a {self.describe()} cannot be iterated over", "use xt.range(...) for a loop on the device",
                         current().location())


class Arithmetic(Value):
    """Operators, element by element on vectors; see :func:`binary`."""

    __slots__ = ()

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
        """This number as another element type."""
        return Scalar(convert(self.ssa, dtypes.of(dtype)))


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
        """The same values as another element type, rounded to nearest even; float to integer truncates.

        Raises:
            ElementTypeError: ``dtype`` is not an element type.
        """
        try:
            target = dtypes.of(dtype)
        except ElementTypeError as error:
            raise error.at(current().location()) from None
        return Vector(convert(self.ssa, target), self.wg_map)


class Tile(Value):
    """A window on an array in memory: an address, not data.

    Attributes:
        shape: rows and columns.
        dtype: the element type.
        wg_map: how it is dealt to the subgroups, None on a subgroup's tile.
    """

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return tile_of(self.ssa).shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return tile_of(self.ssa).dtype

    @property
    def encoding(self) -> TileEncoding:
        """Order, work-group map and blocks."""
        return tile_of(self.ssa).encoding

    @property
    def wg_map(self) -> WgMap | None:
        """How the tile is dealt to the subgroups."""
        return self.encoding.wg_map

    def describe(self) -> str:
        return f"tile of {text(self.shape)} {self.dtype}"


class Array(Value):
    """An array argument of the kernel.

    Attributes:
        name: the parameter's name.
        rank: number of dimensions.
        dtype: the element type it is read as.
        shape, strides: run-time sizes and strides in elements.
    """

    __slots__ = ("_metadata", "dtype", "name", "rank")

    def __init__(self, ssa: SSAValue, name: str, rank: int, dtype: DType, metadata: Any = None) -> None:
        super().__init__(ssa)
        self.name, self.rank, self.dtype = name, rank, dtype
        self._metadata = metadata

    def describe(self) -> str:
        return f"{self.rank}-dimensional array of {self.dtype}"

    def _read(self) -> tuple[list[SSAValue], list[SSAValue]]:
        if self._metadata is None:
            self._metadata = current("an array's shape").metadata(self)
        return self._metadata  # type: ignore[no-any-return]

    @property
    def shape(self) -> tuple[Scalar, ...]:
        """Run-time sizes, in elements."""
        return tuple(Scalar(size) for size in self._read()[0])

    @property
    def strides(self) -> tuple[Scalar, ...]:
        """Run-time strides, in elements."""
        return tuple(Scalar(stride) for stride in self._read()[1])


def constant_of(value: SSAValue) -> int | float | None:
    """The number that an SSA value is, if it is a scalar constant."""
    if isinstance(value.owner, arith.ConstantOp) and hasattr(value.owner.value, "value"):
        return value.owner.value.value.data  # type: ignore[no-any-return]
    return None


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
    if hasattr(value, "item") and not isinstance(value, Value) and getattr(value, "ndim", 1) == 0:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, (int, float)) or (isinstance(value, float)
                                                                         and not dtype.is_float):
        what = value.describe() if isinstance(value, Value) else f"{value!r}"
        raise ElementTypeError(f"{what} stands where a number of type {dtype} is needed",
                               "give a Python number or a run-time scalar", current().location())
    return current().constant(value, dtype)


def binary(operator: str, left: Any, right: Any) -> Any:
    """One arithmetic operator on two values; numbers are spread over vectors.

    Raises:
        ElementTypeError: the element types differ, or have no such operator.
        ShapeError: the shapes, or the work-group maps, differ.
    """
    if not all(isinstance(side, (Arithmetic, int, float)) for side in (left, right)):
        return NotImplemented
    if not isinstance(left, Vector) and not isinstance(right, Vector):
        return _scalar_binary(operator, left, right)
    shaped = left if isinstance(left, Vector) else right
    location = current().location()
    if isinstance(left, Vector) and isinstance(right, Vector):
        _check_alike(operator, left, right)
    rule = BINARY[shaped.dtype.kind].get(operator)
    if rule is None:
        other = {"/": "//", "//": "/"}.get(operator, "")
        hint = f"use {other}, or convert with .to(...)" if other else "convert with .to(...)"
        raise ElementTypeError(f"vectors of {shaped.dtype} have no operator {operator}", hint, location)
    if operator == "%" and shaped.dtype.kind == "i":
        return left - (left // right) * right  # Python's sign rule, which arith.remsi does not have
    operands = [side.ssa if isinstance(side, Vector) else spread(side, shaped) for side in (left, right)]
    return Vector(current().emit(rule(*operands)), shaped.wg_map)


def _scalar_binary(operator: str, left: Any, right: Any) -> Scalar:
    dtype = left.dtype if isinstance(left, Scalar) else right.dtype
    operands = scalar(left, dtype), scalar(right, dtype)
    rule = BINARY[dtype.kind].get(operator)
    if rule is None:
        raise ElementTypeError(f"{dtype} has no operator {operator}", "use // for integers", current().location())
    if (folded := fold(operator, dtype, *operands)) is not None:
        return Scalar(folded)
    divisor = constant_of(operands[1])
    if operator in ("//", "%") and dtype.signed and isinstance(divisor, int) and divisor > 0:
        if divisor & (divisor - 1) == 0:  # exact for negative numbers too: two's complement rounds down
            shift, mask = divisor.bit_length() - 1, divisor - 1
            return binary(">>", left, shift) if operator == "//" else binary("&", left, mask)  # type: ignore
    if operator == "%" and dtype.signed:
        return left - (left // right) * right  # type: ignore[no-any-return]
    return Scalar(current().emit(rule(*operands)))


def fold(operator: str, dtype: DType, left: SSAValue, right: SSAValue) -> SSAValue | None:
    """The result of an index operation that needs none: both sides constant, or one of them neutral."""
    if dtype.kind != "x":
        return None
    a, b = constant_of(left), constant_of(right)
    if a is not None and b is not None and operator in _FOLD and (b != 0 or operator not in ("//", "%")):
        return current().constant(_FOLD[operator](a, b), dtype)
    if (b == 0 and operator in "+-") or (b == 1 and operator in ("*", "//")):
        return left
    if (a == 0 and operator == "+") or (a == 1 and operator == "*"):
        return right
    return None


def spread(number: Any, like: Vector) -> SSAValue:
    """A number spread over a vector of the shape and element type of ``like``."""
    mlir = VectorType(like.dtype.mlir, like.shape)
    operation = BroadcastOp(scalar_of_element(number, like.dtype), mlir)
    if like.wg_map is not None:
        operation.attributes["wg_map"] = WgMapAttr(like.wg_map)
    return current().emit(operation)  # type: ignore[no-any-return]


def scalar_of_element(number: Any, dtype: DType) -> SSAValue:
    """A number as a scalar of an element type; a Python number must be one that the type holds."""
    if isinstance(number, Scalar) and number.dtype is not dtype and dtype.is_float and number.dtype.is_float:
        return convert(number.ssa, dtype)
    if isinstance(number, int) and not dtype.is_float and dtype.kind in "iu":
        low, high = (-(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1) if dtype.signed else (0, (1 << dtype.bits) - 1)
        if not low <= number <= high:
            raise ElementTypeError(f"{number} does not fit {dtype}", f"{dtype} holds {low} to {high}",
                                   current().location())
        if dtype.kind == "u":
            return current().emit(_sign_cast(current().constant(_wrap(number, dtype), dtype), dtype))  # type: ignore
    return scalar(number, dtype)


def _wrap(number: int, dtype: DType) -> int:
    return number - (1 << dtype.bits) if number >= 1 << (dtype.bits - 1) else number


def _sign_cast(value: SSAValue, dtype: DType) -> Operation:
    return UnrealizedConversionCastOp.get([value], [dtype.mlir])


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


def convert(value: SSAValue, target: DType) -> SSAValue:
    """A scalar or vector as another element type."""
    type_ = value.type
    source = of_mlir(type_.element_type if isinstance(type_, VectorType) else type_)
    if source is target:
        return value
    if "x" in (source.kind, target.kind):
        if source.is_float or target.is_float:
            raise ElementTypeError(f"{source} does not convert to {target}", "convert through xt.i32",
                                   current().location())
        return current().emit(arith.IndexCastOp(value, target.mlir))  # type: ignore[no-any-return]
    result = VectorType(target.mlir, type_.get_shape()) if isinstance(type_, VectorType) else target.mlir
    return current().emit(_conversion(source, target)(value, result))  # type: ignore


def _conversion(source: DType, target: DType) -> type[Operation]:
    if source.is_float and target.is_float:
        wider = target.bits > source.bits or (source is dtypes.tf32 and target.bits >= 32)
        return arith.ExtFOp if wider else arith.TruncFOp
    if source.is_float:
        return arith.FPToSIOp if target.signed else arith.FPToUIOp
    if target.is_float:
        return arith.SIToFPOp if source.signed else arith.UIToFPOp
    if target.bits > source.bits:
        return arith.ExtSIOp if source.signed else arith.ExtUIOp
    if target.bits == source.bits:
        return arith.BitcastOp
    return arith.TruncIOp


def check_rank(array: Array, rank: int, what: str) -> None:
    """Raise unless ``array`` has ``rank`` dimensions."""
    if array.rank != rank:
        raise RankError(f"{what} takes a {rank}-dimensional array, and {array.name} has {array.rank} dimensions",
                        f"pass {array.name} with {rank} dimensions", current().location())
