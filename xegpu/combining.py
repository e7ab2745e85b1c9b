"""The element-wise operation that a reduction of some kind repeats."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue
from xdsl.utils.type import get_element_type_or_self

from xegpu.dtypes import of_mlir

_FLOAT: dict[str, Callable[[SSAValue, SSAValue], Operation]] = {
    "add": arith.AddfOp, "mul": arith.MulfOp, "minnumf": arith.MinnumfOp, "maxnumf": arith.MaxnumfOp,
    "minimumf": arith.MinimumfOp, "maximumf": arith.MaximumfOp,
}
_INTEGER: dict[str, Callable[[SSAValue, SSAValue], Operation]] = {
    "add": arith.AddiOp, "mul": arith.MuliOp, "minsi": arith.MinSIOp, "minui": arith.MinUIOp, "maxsi": arith.MaxSIOp,
    "maxui": arith.MaxUIOp, "and": arith.AndIOp, "or": arith.OrIOp, "xor": arith.XOrIOp,
}


def combined(kind: str, a: SSAValue, b: SSAValue) -> Operation:
    """``a`` and ``b`` element by element as one step of a reduction of ``kind`` (:mod:`xegpu.reductions`)."""
    table = _FLOAT if of_mlir(get_element_type_or_self(a.type)).is_float else _INTEGER
    return table[kind](a, b)
