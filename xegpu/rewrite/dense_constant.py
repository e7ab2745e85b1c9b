"""Lowering of dense vector constants: arithmetic on the linear index, or selections between runs of equal elements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, i1, i32
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Attribute, SSAValue

from xegpu.dialect.vector import IotaOp
from xegpu.mlir.arith import CmpIOp, SelectOp
from xegpu.mlir.vector import vector_type
from xegpu.rewrite.rewriter import Rewriter

Number = IntegerAttr | FloatAttr  # type: ignore[type-arg]
MOST_RUNS = 1 << 10
"""Most selections of one constant."""


def too_many_elements(shape: str) -> tuple[str, str, str]:
    """Code, message and remedy of the error for a constant that would take too many selections."""
    return ("XT2072", f"a vector constant whose elements differ, without a pattern, has too many of them: {shape}",
            "pass the numbers as an array and load them, or compute them")


def dense_constant(rewriter: Rewriter, shape: tuple[int, int], elements: Sequence[Number]) -> SSAValue:
    """Constant vector of two dimensions from its elements in row-major order."""
    at, element = _linear_index(rewriter, shape), elements[0].type
    if element == i1:
        words = [IntegerAttr(int(value.value.data != 0), i32) for value in elements]
        selected = _selected_runs(rewriter, at, shape, words)
        return rewriter.emit(CmpIOp(selected, _splat(rewriter, shape, IntegerAttr(0, i32)), "ne"))
    step = _common_difference(elements) if isinstance(element, IndexType) else None
    if step is None:
        return _selected_runs(rewriter, at, shape, elements)
    scaled = rewriter.emit(arith.MuliOp(at, _splat(rewriter, shape, IntegerAttr(step, IndexType()))))
    return rewriter.emit(arith.AddiOp(scaled, _splat(rewriter, shape, elements[0])))


def _common_difference(elements: Sequence[Number]) -> int | None:
    """Common difference of consecutive numbers; None if it varies."""
    numbers = [int(element.value.data) for element in elements]
    steps = {after - before for before, after in pairwise(numbers)}
    return steps.pop() if len(steps) == 1 else None


def _linear_index(rewriter: Rewriter, shape: tuple[int, int]) -> SSAValue:
    """Linear index of each element, row-major."""
    type_ = vector_type(shape, IndexType())
    column = rewriter.emit(IotaOp(rewriter.constant(0), 1, type_))
    if shape[0] == 1:
        return column
    row = rewriter.emit(IotaOp(rewriter.constant(0), 0, type_))
    above = rewriter.emit(arith.MuliOp(row, _splat(rewriter, shape, IntegerAttr(shape[1], IndexType()))))
    return rewriter.emit(arith.AddiOp(above, column))


def _selected_runs(rewriter: Rewriter, at: SSAValue, shape: tuple[int, int], elements: Sequence[Number]) -> SSAValue:
    """Vector of runs of equal elements, by selections on the element's index."""
    runs = [(value, len(list(run))) for value, run in groupby(elements)]
    if len(runs) > MOST_RUNS:
        rewriter.fail(*too_many_elements(f"{shape[0]}x{shape[1]}"))
    value, end = _splat(rewriter, shape, runs[-1][0]), len(elements)
    for (_, length), (number, _) in zip(runs[:0:-1], runs[-2::-1], strict=True):
        end -= length
        before = rewriter.emit(CmpIOp(at, _splat(rewriter, shape, IntegerAttr(end, IndexType())), "slt"))
        value = rewriter.emit(SelectOp(before, _splat(rewriter, shape, number), value))
    return value


def _splat(rewriter: Rewriter, shape: tuple[int, int], number: Number) -> SSAValue:
    scalar = rewriter.emit(arith.ConstantOp(number))
    type_: Attribute = number.type
    return rewriter.emit(BroadcastOp(scalar, vector_type(shape, type_)))
