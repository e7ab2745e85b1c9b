"""Combining kinds of reductions (MLIR's ``vector.CombiningKind``): legal element types and NumPy semantics.

Sums and products of f16 and bf16 accumulate in float32 and are rounded once, at the end; those of tf32 are float32's,
as all arithmetic on it is. Those of integers wrap in the element type. ``minnumf`` and ``maxnumf`` drop NaN where there
is a number, ``minimumf`` and ``maximumf`` give NaN where there is one; which of 0.0 and -0.0 is the larger is not
specified.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.utils.type import get_element_type_or_self

from xegpu.ir.dtypes import STORED, DType, NDArray, arithmetic_result, i1, of_mlir
from xegpu.ir.record import Record
from xegpu.mlir.elementwise import RECORDS
from xegpu.support.errors import ElementTypeError, Invalid

_Made = TypeVar("_Made", bound=Operation)

NNAN = "nnan"
"""Unit attribute of a reduction, after LLVM's flag: of operands with a NaN the result may be any number, or NaN."""

_FLOAT: dict[str, type[Operation]] = {
    "add": arith.AddfOp, "mul": arith.MulfOp, "minnumf": arith.MinnumfOp, "maxnumf": arith.MaxnumfOp,
    "minimumf": arith.MinimumfOp, "maximumf": arith.MaximumfOp,
}
_INTEGER: dict[str, type[Operation]] = {
    "add": arith.AddiOp, "mul": arith.MuliOp, "minsi": arith.MinSIOp, "minui": arith.MinUIOp, "maxsi": arith.MaxSIOp,
    "maxui": arith.MaxUIOp, "and": arith.AndIOp, "or": arith.OrIOp, "xor": arith.XOrIOp,
}
FLOAT_KINDS, INTEGER_KINDS = tuple(_FLOAT), tuple(_INTEGER)
_KINDS = tuple(dict.fromkeys((*FLOAT_KINDS, *INTEGER_KINDS)))
_UNSIGNED_KINDS = tuple(kind for kind in INTEGER_KINDS if not kind.endswith("si"))
_SHORT = {"f": {"min": "minimumf", "max": "maximumf"}, "i": {"min": "minsi", "max": "maxsi"},
          "u": {"min": "minui", "max": "maxui"}}

_ELSEWHERE = {"sum": "add", "prod": "mul", "product": "mul", "all": "and", "any": "or", "maximum": "max",
              "minimum": "min"}
"""Kinds by the names that NumPy, torch and Triton have for the reductions, for hints."""

_OF_ONE_BIT = {"add": "xor", "mul": "and", "minui": "and", "maxui": "or", "minsi": "or", "maxsi": "and"}
"""Bitwise kinds that give what others of i1 do: sums are modulo 2, and signed the bit is -1, less than 0."""


def check_kind(name: str) -> None:
    """Check that MLIR has a combining kind.

    Raises:
        Invalid: it has none of that name.
    """
    if name not in _KINDS:
        raise Invalid("XT3640", f"there is no kind {name}\nuse one of {', '.join(_KINDS)}")


def kinds_of(dtype: DType) -> tuple[str, ...]:
    """The kinds that an element type has; signed integers compare as unsigned ones, too."""
    if dtype is i1:
        return ("and", "or", "xor")
    return {"f": FLOAT_KINDS, "i": INTEGER_KINDS, "u": _UNSIGNED_KINDS, "x": (), "s": ()}[dtype.kind]


REDUCED = Record(tuple(dtype for dtype in STORED if kinds_of(dtype)), rounding="sum")
"""Record of reductions."""


def kind_of(name: str, dtype: DType) -> str:
    """Resolve a name with an element type to a kind: ``"min"`` is minsi, minui or minimumf.

    Raises:
        ElementTypeError: the element type has no such kind.
    """
    known, short = kinds_of(dtype), _SHORT.get(dtype.kind, {})
    kind = short.get(name, name)
    if kind not in known:
        names = (*known, *(alias for alias, full in short.items() if full in known))
        meant = _ELSEWHERE.get(name)
        hint = f'write "{meant}"; there are ' if meant in names else "use one of: "
        raise ElementTypeError("XT3256", f"{dtype} has no reduction {name!r}", f"{hint}{', '.join(names)}" if names else
                               "convert the vector to another element type first")
    return kind


def keep_nnan(new: _Made, old: Operation) -> _Made:
    """Give a reduction the flag of the one whose place it takes."""
    if NNAN in old.attributes:
        new.attributes[NNAN] = UnitAttr()
    return new


def bitwise_kind(kind: str) -> str:
    """Kind of i1 that gives what a kind of integers does on one bit."""
    return _OF_ONE_BIT.get(kind, kind)


def reduce(kind: str, values: NDArray, axes: tuple[int, ...], dtype: DType) -> NDArray:
    """Reduce an array along ``axes``, which remain with size 1.

    Args:
        kind: one of the element type's kinds.
        values: in the compute type of ``dtype``.
        axes: dimensions to reduce; negative ones count from the end.
        dtype: the element type, to which the result is rounded once.
    """
    array = np.asarray(values)
    operation = operation_of(kind, dtype)
    if RECORDS[operation].operands == "u" and array.dtype.kind == "i":
        array = array.view(f"u{array.dtype.itemsize}")
    function: Any = RECORDS[operation].numpy  # a ufunc or like one, as test_elementwise checks
    result = np.asarray(function.reduce(array, axis=axes, keepdims=True, dtype=array.dtype))
    return arithmetic_result(result.view(dtype.compute), dtype)


def operation_of(kind: str, dtype: DType) -> type[Operation]:
    """Element-wise operation of one step of a reduction of ``kind``."""
    return (_FLOAT if dtype.is_float else _INTEGER)[kind]


def combined(kind: str, a: SSAValue, b: SSAValue) -> Operation:
    """Element-wise operation that combines ``a`` and ``b`` in one step of a reduction of ``kind``."""
    operation: Any = operation_of(kind, of_mlir(get_element_type_or_self(a.type)))
    return operation(a, b)  # type: ignore[no-any-return]


def neutral(kind: str, dtype: DType) -> float | int:
    """Identity element of a reduction."""
    if dtype.is_float:
        return {"add": 0.0, "mul": 1.0, "minimumf": np.inf, "maximumf": -np.inf}.get(kind, np.nan)
    signed, every = np.iinfo(f"i{dtype.bytes}"), -1
    return {"mul": 1, "and": every, "minui": every, "minsi": int(signed.max), "maxsi": int(signed.min)}.get(kind, 0)
