"""SSA values as Python objects: what kernels hold, and the kinds that operators take. No operators yet.

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
from xetile.frontend.numpy_hints import PUBLIC, REFLECTED, instead_of, instead_of_member
from xetile.frontend.tracer import current, is_recording


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

    def like(self, ssa: SSAValue) -> Any:
        """An object of this kind, and this work-group map, for another SSA value."""
        other = self.clone()
        other.ssa = ssa
        return other

    def describe(self) -> str:
        """The kind, shape and element type, for messages."""
        return type(self).__name__.lower()

    def __repr__(self) -> str:
        if is_recording() and (tracer := current()).runs:
            return f"<{self.describe()}> {tracer.held(self.ssa)!r}"
        return f"<{self.describe()}>"

    def __format__(self, spec: str) -> str:
        return repr(self)

    def _held(self, code: str, what: str, hint: str) -> Any:
        """What this value is, in a kernel that runs itself.

        Raises:
            TraceError: the kernel is recorded.
        """
        tracer = current("a traced value")
        if not tracer.runs:
            raise TraceError(code, f"a {self.describe()} has no value while the kernel is recorded, so {what}", hint,
                             tracer.location())
        return tracer.held(self.ssa)

    def __bool__(self) -> bool:
        return bool(self._held(
            "XT1300", "Python cannot branch on it",
            "choose between values with xt.where(condition, a, b), put what only some work-groups do under `with "
            "xt.when(condition):`, state what must hold with xt.device_assert, join conditions with & | ~, or branch "
            "on a compile-time constant (a keyword-only parameter)"))

    def __index__(self) -> int:
        held: SupportsIndex = self._held(
            "XT1301", "Python cannot count with it",
            "write `for k in xt.range(...)` for a loop on the device; Python's own range and indices take compile-time "
            "numbers, such as keyword-only parameters")
        return int(operator.index(held))

    def _number(self) -> Any:
        return self._held("XT1302", "int() and float() cannot turn it into a Python number",
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
        return np.array(self._held(
            "XT1303", "NumPy cannot make an array of it",
            "calculate with the language's own functions, such as xt.where, xt.exp and xt.tile_reduce"), dtype)

    def __array_ufunc__(self, function: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """What NumPy's numbers leave to a traced value, its operators, and what none of its functions can do."""
        reflected = REFLECTED.get(function.__name__)
        if method == "__call__" and reflected and isinstance(inputs[1], Value):
            return getattr(inputs[1], reflected)(inputs[0])
        self._held("XT1309", f"NumPy's {function.__name__} does not work on it", instead_of(function.__name__, method))
        held = [np.asarray(each) if isinstance(each, Value) else each for each in inputs]
        return getattr(function, method)(*held, **options)

    if not TYPE_CHECKING:  # which knows what there is
        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_") or name in self.__slots__ or name == "ssa" or not is_recording():
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise MemberError("XT1315", f"a {self.describe()} has no .{name}",
                              instead_of_member(name, [each for each in PUBLIC if each in dir(self)]),
                              current("a traced value").location())

    def _compared(self, other: object) -> NoReturn:
        raise TraceError("XT1308", f"a {self.describe()} is no number, so Python cannot compare it",
                         "compare vectors and run-time numbers: xt.load_tile(tile) gives a vector; whether it is the "
                         "same object is asked with `is`", current("a traced value").location())

    __lt__ = __le__ = __gt__ = __ge__ = _compared
    __eq__ = __ne__ = _compared  # type: ignore[assignment]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._held("XT1304", "Python cannot iterate over it",
                               "write `for k in xt.range(...)` for a loop on the device, and make a tile at position k "
                               "in its body"))

    def __len__(self) -> int:
        return len(self._held("XT1305", "it has no len()", "its sizes are in .shape"))

    def __getitem__(self, key: Any) -> Any:
        return self._held("XT1306", "it cannot be indexed",
                          "cover what you need with a tile, xt.load_tile(xt.init_tile(array, (row, column), (rows, "
                          "columns))); a single number of an array is xt.load_scalar(array, (row, column))")[key]

    def __setitem__(self, key: object, value: object) -> NoReturn:
        raise TraceError("XT1307", f"the elements of a {self.describe()} cannot be set",
                         "write whole tiles with xt.store_tile(vector, tile); for some elements choose between the old "
                         "and the new with xt.where(condition, new, old)", current("a traced value").location())

    def __matmul__(self, other: object) -> NoReturn:
        raise ElementTypeError("XT1200", f"a {self.describe()} has no operator @",
                               "multiply vectors with xt.tile_mma(a, b, acc)", current("arithmetic").location())

    __rmatmul__ = __matmul__


class Arithmetic(Value):
    """A value that operators take: a run-time number or a vector."""

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
