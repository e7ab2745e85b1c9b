"""Slow functions: correctly rounded divisions, exponentials and the like in GEMM loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod

from xdsl.dialects import arith, math
from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import VectorType
from xdsl.dialects.func import FuncOp
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Operation

from xegpu.dialect.dpas import DpasOp
from xegpu.ir.dtypes import f64, of_mlir
from xegpu.ir.region_branch import for_loops
from xegpu.mlir.arith import FAST_DIVISION
from xegpu.target.targets import Target
from xetile.compiler.report.slow_access import slow_accesses

_FUNCTIONS: dict[type[Operation], str] = {
    math.ExpOp: "xt.exp", math.LogOp: "xt.log", math.Log2Op: "xt.log2", math.Log10Op: "xt.log10",
    math.TanhOp: "xt.tanh", math.ErfOp: "xt.erf",
}
"""Functions that a GPU approximates in one to ten instructions; to the last bits they take many more."""
_QUOTIENTS: dict[type[Operation], str] = {arith.DivfOp: "/", math.SqrtOp: "xt.sqrt"}
"""The same, for which ``fast_division`` will do."""
_FEW = 16
"""Elements of a lane in a step, up to which instructions do not matter beside those of the products."""


def slow_parts(function: FuncOp, target: Target, access: Sequence[str]) -> tuple[str, ...]:
    """Sentences for slow accesses and functions; the arguments of :func:`slow_accesses`."""
    return (*slow_accesses(function, target, access), *slow_functions(function, target))


def slow_functions(function: FuncOp, target: Target) -> tuple[str, ...]:
    """Sentence for functions in loops of products that take fewer instructions if they may be approximate.

    Args:
        function: the last stage of a kernel.
        target: the device.
    """
    if target.fuses_loads:
        return ()
    counts = Counter[str]()
    for loop in for_loops(function):
        if any(isinstance(operation, DpasOp) for operation in loop.body.block.ops):
            steps = Counter[str]()
            for operation in loop.body.block.ops:
                if name := _slow_name(operation, FAST_DIVISION in function.attributes):
                    steps[name] += prod(operation.results[0].type.get_shape())  # type: ignore[attr-defined]
            counts |= steps
    names = [name for name in (*_FUNCTIONS.values(), *_QUOTIENTS.values()) if counts[name] > _FEW]
    if not names:
        return ()
    option = "fast_division" if all(name in _QUOTIENTS.values() for name in names) else "fast_math"
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return (f"{listed} {'is' if len(names) == 1 else 'are'} right to the last bits, for "
            f"{max(counts[name] for name in names)} elements of a lane in each step of a loop of products: "
            f"@xt.kernel({option}=True) takes a small part of the instructions",)


def _slow_name(operation: Operation, fast_division: bool) -> str:
    """The author's name of a function of vectors that may not be approximate; empty for other operations."""
    if not operation.results or not isinstance(type_ := operation.results[0].type, VectorType) \
            or of_mlir(type_.element_type) is f64:
        return ""
    if not fast_division and (name := _QUOTIENTS.get(type(operation))):
        return name
    flags = operation.properties.get("fastmath")
    is_fast = isinstance(flags, FastMathFlagsAttr) and FastMathFlag.APPROX_FUNC in flags.data
    return "" if is_fast else _FUNCTIONS.get(type(operation), "")
