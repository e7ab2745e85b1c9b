"""Base classes of traced values: an SSA value of a kernel as a Python object, without its operators.

Operators are written against these classes (:mod:`xetile.frontend.operators`); :mod:`xetile.frontend.values` puts both
together into the classes that an author meets.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex

import numpy as np
from xdsl.dialects.builtin import VectorType
from xdsl.ir import SSAValue

from xegpu.ir.dtypes import DType, of_mlir
from xegpu.support.errors import ElementTypeError, MemberError, TraceError
from xetile.dialect.tile_ops import text
from xetile.dialect.wg_map import WgMap
from xetile.frontend.foreign_names import PUBLIC, REFLECTED, call_hint, function_hint, member_hint
from xetile.frontend.tracer import current, is_recording


class Value:
    """Traced value: a Python object for one SSA value.

    ``ssa`` is re-pointed when a loop starts to carry the value and when the loop ends; the object is the same.
    """

    __slots__ = ("ssa",)
    __hash__ = object.__hash__

    def __init__(self, ssa: SSAValue) -> None:
        self.ssa = ssa

    def clone(self) -> Value:
        """New object for the same SSA value."""
        return type(self)(self.ssa)

    def like(self, ssa: SSAValue) -> Any:
        """Object of the same class and work-group map for another SSA value."""
        other = self.clone()
        other.ssa = ssa
        return other

    def describe(self) -> str:
        """Kind, shape and element type, for messages."""
        return type(self).__name__.lower()

    def number_hint(self) -> str:
        """Hint where a number is wanted, of what holds a single one; empty for other values."""
        return ""

    def __repr__(self) -> str:
        if is_recording() and (tracer := current()).runs:
            return f"<{self.describe()}> {tracer.evaluate(self.ssa)!r}"
        return f"<{self.describe()}>"

    def __format__(self, spec: str) -> str:
        return repr(self)

    def _concrete(self, code: str, what: str, hint: str) -> Any:
        """Concrete value, in eager execution.

        Raises:
            TraceError: the kernel is recorded.
        """
        tracer = current("a traced value")
        if not tracer.runs:
            location, dtype = tracer.location(), getattr(self, "dtype", None)
            raise TraceError(code, f"a {self.describe()} has no value while the kernel is recorded, so {what}",
                             call_hint(location, is_float=dtype is not None and dtype.is_float) or hint, location)
        return tracer.evaluate(self.ssa)

    def __bool__(self) -> bool:
        return bool(self._concrete(
            "XT1300", "Python cannot branch on it",
            "choose between values with xt.where(condition, a, b), put code of some work-groups alone under `with "
            "xt.when(condition):`, loop with `for _ in xt.while_(lambda: condition):`, leave the kernel with "
            "xt.return_if(condition), check invariants with xt.device_assert, join conditions with & | ~, or branch "
            "on a compile-time constant (a keyword-only parameter)"))

    def __index__(self) -> int:
        index: SupportsIndex = self._concrete(
            "XT1301", "Python cannot count with it",
            "write `for k in xt.range(...)` for a loop on the device; Python's own range and indices take compile-time "
            "numbers, such as keyword-only parameters")
        return int(operator.index(index))

    def _number(self) -> Any:
        """Concrete number, for ``int()`` and ``float()``."""
        return self._concrete("XT1302", "int() and float() cannot turn it into a Python number",
                          "go on with the run-time value itself, and convert it with .to(xt.i32) or .to(xt.f32)")

    def __int__(self) -> int:
        return int(self._number())

    def __float__(self) -> float:
        return float(self._number())

    def __complex__(self) -> complex:
        return complex(self._number())

    def __round__(self, digits: int | None = None) -> Any:
        return round(self._number(), digits)

    def __trunc__(self) -> int:
        return int(self._number())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self._concrete(
            "XT1303", "NumPy cannot make an array of it",
            "calculate with the language's own functions, such as xt.where, xt.exp and xt.tile_reduce"), dtype)

    def __array_ufunc__(self, function: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """NumPy ufunc protocol: reflected operators of NumPy scalars; other functions are errors with a hint."""
        reflected = REFLECTED.get(function.__name__)
        if method == "__call__" and reflected and isinstance(inputs[1], Value):
            return getattr(inputs[1], reflected)(inputs[0])
        self._concrete("XT1309", f"NumPy's {function.__name__} does not work on it", function_hint(function.__name__,
                                                                                                   method))
        concrete = [np.asarray(each) if isinstance(each, Value) else each for each in inputs]
        return getattr(function, method)(*concrete, **options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        """NumPy array function protocol: ``np.where`` and the like are errors with a hint."""
        self._concrete("XT1309", f"NumPy's {function.__name__} does not work on it",
                       function_hint(function.__name__, "__call__"))
        return function(*map(_concrete_numpy, args),
                        **{name: _concrete_numpy(option) for name, option in options.items()})

    if not TYPE_CHECKING:  # a type checker sees the declared attributes only
        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_") or name in self.__slots__ or name == "ssa" or not is_recording():
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise MemberError("XT1315", f"a {self.describe()} has no .{name}",
                              member_hint(name, [each for each in PUBLIC if each in dir(self)]),
                              current("a traced value").location())

    def _no_comparison(self, other: object) -> NoReturn:
        """Raise for a comparison of values without arithmetic."""
        raise TraceError("XT1308", f"a {self.describe()} has no arithmetic, so Python cannot compare it",
                         "compare vectors and run-time numbers: xt.load_tile(tile) gives a vector; whether it is the "
                         "same object is asked with `is`", current("a traced value").location())

    __lt__ = __le__ = __gt__ = __ge__ = _no_comparison
    __eq__ = __ne__ = _no_comparison  # type: ignore[assignment]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._concrete("XT1304", "Python cannot iterate over it",
                               "write `for k in xt.range(...)` for a loop on the device, and make a tile at position k "
                               "in its body"))

    def __len__(self) -> int:
        return len(self._concrete("XT1305", "it has no len()", "its sizes are in .shape"))

    def __getitem__(self, key: Any) -> Any:
        return self._concrete("XT1306", "it cannot be indexed",
                          "cover what you need with a tile, xt.load_tile(xt.init_tile(array, (row, column), (rows, "
                          "columns))); a single number of an array is xt.load_scalar(array, (row, column))")[key]

    def __setitem__(self, key: object, value: object) -> NoReturn:
        raise TraceError("XT1307", f"the elements of a {self.describe()} cannot be set",
                         "write complete tiles with xt.store_tile(vector, tile); for some elements select the old "
                         "or the new value with xt.where(condition, new, old)", current("a traced value").location())

    def __matmul__(self, other: object) -> NoReturn:
        raise ElementTypeError("XT1200", f"a {self.describe()} has no operator @",
                               "multiply vectors with xt.tile_mma(a, b, acc)", current("arithmetic").location())

    __rmatmul__ = __matmul__


def _concrete_numpy(argument: Any) -> Any:
    """Argument of a NumPy function with NumPy arrays for traced values, in eager execution."""
    if isinstance(argument, (tuple, list)):
        return type(argument)(map(_concrete_numpy, argument))
    return np.asarray(argument) if isinstance(argument, Value) else argument


class Arithmetic(Value):
    """Base of values with element-wise operators."""

    __slots__ = ()

    @property
    def dtype(self) -> DType:
        """The element type."""
        type_ = self.ssa.type
        return of_mlir(type_.element_type if isinstance(type_, VectorType) else type_)


class ScalarBase(Arithmetic):
    """A number known at run time, the same in the whole subgroup: an index, a size, a float argument."""

    __slots__ = ()

    def describe(self) -> str:
        return f"run-time {self.dtype}"


class VectorBase(Arithmetic):
    """The elements of a tile, in registers.

    Attributes:
        shape: rows and columns.
        dtype: the element type.
        wg_map: its distribution over the subgroups, None on a subgroup's vector.
    """

    __slots__ = ("wg_map",)

    def __init__(self, ssa: SSAValue, wg_map: WgMap | None = None) -> None:
        super().__init__(ssa)
        self.wg_map = wg_map

    def clone(self) -> VectorBase:
        return type(self)(self.ssa, self.wg_map)

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        assert isinstance(self.ssa.type, VectorType)
        return self.ssa.type.get_shape()

    def describe(self) -> str:
        return f"vector of {text(self.shape)} {self.dtype}"
