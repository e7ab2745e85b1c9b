"""Vector constants whose elements differ, computed from where an element stands: no memory holds them.

    %c = arith.constant dense<[0, 4, 8, 12]> : vector<4xindex>
    %d = arith.constant dense<[1.0, 1.0, 2.0, 3.0]> : vector<4xf32>
becomes
    %c = %at * 4 + 0                                                     where %at is xegpu.iota, 0 to 3
    %d = arith.select(%at < 2, 1.0, arith.select(%at < 3, 2.0, 3.0))     one comparison for each run of equal elements
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, i1, i32
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Attribute, SSAValue

from xegpu.dialect.comparisons import CmpIOp, SelectOp
from xegpu.dialect.positions import IotaOp
from xegpu.dialect.vectors import vector
from xegpu.rewriting import Rebuilder

Number = IntegerAttr | FloatAttr  # type: ignore[type-arg]


def spelled(build: Rebuilder, shape: tuple[int, int], elements: Sequence[Number]) -> SSAValue:
    """A vector of two dimensions with the given elements, row by row."""
    at, element = _places(build, shape), elements[0].type
    if element == i1:
        words = [IntegerAttr(int(value.value.data != 0), i32) for value in elements]
        return build.emit(CmpIOp(_chosen(build, at, shape, words), _filled(build, shape, IntegerAttr(0, i32)), "ne"))
    step = _step(elements) if isinstance(element, IndexType) else None
    if step is None:
        return _chosen(build, at, shape, elements)
    scaled = build.emit(arith.MuliOp(at, _filled(build, shape, IntegerAttr(step, IndexType()))))
    return build.emit(arith.AddiOp(scaled, _filled(build, shape, elements[0])))


def _step(elements: Sequence[Number]) -> int | None:
    """What each number is above the one before it, None if that differs."""
    numbers = [int(element.value.data) for element in elements]
    steps = {after - before for before, after in pairwise(numbers)}
    return steps.pop() if len(steps) == 1 else None


def _places(build: Rebuilder, shape: tuple[int, int]) -> SSAValue:
    """The number of each element, counted row by row."""
    type_ = vector(shape, IndexType())
    column = build.emit(IotaOp(build.constant(0), 1, type_))
    if shape[0] == 1:
        return column
    row = build.emit(IotaOp(build.constant(0), 0, type_))
    above = build.emit(arith.MuliOp(row, _filled(build, shape, IntegerAttr(shape[1], IndexType()))))
    return build.emit(arith.AddiOp(above, column))


def _chosen(build: Rebuilder, at: SSAValue, shape: tuple[int, int], elements: Sequence[Number]) -> SSAValue:
    """Each run of equal elements where its places are."""
    runs = [(value, len(list(run))) for value, run in groupby(elements)]
    value, end = _filled(build, shape, runs[-1][0]), len(elements)
    for (_, length), (number, _) in zip(runs[:0:-1], runs[-2::-1], strict=True):
        end -= length
        before = build.emit(CmpIOp(at, _filled(build, shape, IntegerAttr(end, IndexType())), "slt"))
        value = build.emit(SelectOp(before, _filled(build, shape, number), value))
    return value


def _filled(build: Rebuilder, shape: tuple[int, int], number: Number) -> SSAValue:
    scalar = build.emit(arith.ConstantOp(number))
    type_: Attribute = number.type
    return build.emit(BroadcastOp(scalar, vector(shape, type_)))
