"""Vector constants whose elements differ, computed from the positions of the elements.

    %c = arith.constant dense<[[0, 2, 4, ...], [0, 2, 4, ...], ...]> : vector<8x16xi32>
becomes
    %i = xetile.iota {axis = 1} : vector<8x16xi32> ; %c = arith.muli %i, (vector.broadcast 2)

A row is an arithmetic sequence, or one selection for each run of equal elements; rows that differ are selected by the
position along the other dimension. A work-group's constant is distributed by its ``wg_map``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Any, NoReturn

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IndexType, IntegerAttr, IntegerType, VectorType, i1, i32
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation, SSAValue

from xegpu.mlir.arith import CmpIOp, ExtSIOp, IndexCastOp, SelectOp, TruncIOp
from xegpu.rewrite.dce import erase
from xegpu.rewrite.dense_constant import MOST_RUNS, too_many_elements
from xegpu.support.errors import TextError
from xegpu.support.location import author_location
from xetile.dialect.reduction import TileBroadcastOp
from xetile.dialect.types import WgMapAttr
from xetile.dialect.vector import IotaOp
from xetile.dialect.wg_map import Pair, WgMap

_MOST_SELECTED = 1 << 18
"""Most elements that selections of one constant compute: what is more is better loaded."""
Element = Any


def expand_constant(constant: arith.ConstantOp) -> None:
    """Replace a vector constant of two dimensions, whose elements differ, by what computes it.

    Raises:
        TextError: the elements follow no pattern, and there are too many of them.
    """
    _Constant(constant).expand()


class _Constant:
    """Expansion of one constant."""

    def __init__(self, constant: arith.ConstantOp) -> None:
        assert isinstance(constant.value, DenseIntOrFPElementsAttr)
        assert isinstance(constant.result.type, VectorType)
        self._old, self._type = constant, constant.result.type
        rows, columns = self._type.get_shape()
        elements = list(constant.value.get_attrs())
        self._rows = [tuple(elements[row * columns:(row + 1) * columns]) for row in range(rows)]
        self._shape: Pair = (rows, columns)
        map_ = constant.attributes.get("wg_map")
        self._map: WgMap | None = map_.data if isinstance(map_, WgMapAttr) else None

    def expand(self) -> None:
        """Insert the operations in front of the constant, and erase it."""
        distinct = list(dict.fromkeys(self._rows))
        if len(distinct) == 1:
            value = self._sequence(self._rows[0], 1, self._shape, self._map)
        elif all(len(set(row)) == 1 for row in self._rows):
            value = self._sequence([row[0] for row in self._rows], 0, self._shape, self._map)
        else:
            value = self._selected(distinct)
        value.name_hint = self._old.result.name_hint
        self._old.result.replace_all_uses_with(value)
        erase(self._old)

    def _selected(self, distinct: Sequence[tuple[Element, ...]]) -> SSAValue:
        """Rows, each computed once, chosen by the position along the first dimension."""
        rows, columns = self._shape
        runs = [(row, len(list(run))) for row, run in groupby(self._rows)]
        if sum(len(list(groupby(row))) for row in distinct) * columns + len(runs) * rows * columns > _MOST_SELECTED:
            self._refuse()
        line_map = None if self._map is None else self._map.collapsed([0])
        lines = {row: self._sequence(row, 1, (1, columns), line_map) for row in distinct}
        spread = {row: line if rows == 1 else self._emit(TileBroadcastOp(line, self._shape, [0], self._map))
                  for row, line in lines.items()}
        return self._chosen([(spread[row], length) for row, length in runs], 0, self._shape, self._map)

    def _refuse(self) -> NoReturn:
        code, message, remedy = too_many_elements(f"{self._shape[0]}x{self._shape[1]}")
        raise TextError(code, f"arith.constant: {message}", remedy, author_location(self._old))

    def _sequence(self, elements: Sequence[Element], axis: int, shape: Pair, map_: WgMap | None) -> SSAValue:
        """Vector whose elements depend on the position along one axis."""
        if len(set(elements)) == 1:
            return self._splat(elements[0], shape, map_)
        type_ = self._type.element_type
        signless = isinstance(type_, IndexType) or (isinstance(type_, IntegerType) and type_ != i1 and
                                                    type_.signedness.data.name == "SIGNLESS")
        numbers = [element.value.data for element in elements]
        steps = {after - before for before, after in pairwise(numbers)}
        if signless and len(steps) == 1 and max(map(abs, (*numbers, *steps))) < 1 << 31:
            position, step = self._position(axis, shape, map_), steps.pop()
            value = position if step == 1 else self._emit(arith.MuliOp(position, self._number(step, shape, map_)))
            if numbers[0]:
                value = self._emit(arith.AddiOp(value, self._number(numbers[0], shape, map_)))
            return self._converted(value, shape)
        runs = [(element, len(list(run))) for element, run in groupby(elements)]
        splats = [(self._splat(element, shape, map_), length) for element, length in runs]
        return self._chosen(splats, axis, shape, map_)

    def _chosen(self, runs: Sequence[tuple[SSAValue, int]], axis: int, shape: Pair, map_: WgMap | None) -> SSAValue:
        """Selection among vectors by runs of positions along an axis."""
        if len(runs) > MOST_RUNS:
            self._refuse()
        position = self._position(axis, shape, map_)
        value, end = runs[-1][0], shape[axis]
        for (_, length), (before, _) in zip(runs[:0:-1], runs[-2::-1], strict=True):
            end -= length
            mask = self._emit(CmpIOp(position, self._number(end, shape, map_), "slt"))
            value = self._emit(SelectOp(mask, before, value))
        return value

    def _converted(self, value: SSAValue, shape: Pair) -> SSAValue:
        """Integers of 32 bits as the constant's elements."""
        type_ = self._type.element_type
        result = VectorType(type_, shape)
        if type_ == i32:
            return value
        if isinstance(type_, IndexType):
            return self._emit(IndexCastOp(value, result))
        assert isinstance(type_, IntegerType)
        return self._emit((ExtSIOp if type_.width.data > 32 else TruncIOp)(value, result))

    def _position(self, axis: int, shape: Pair, map_: WgMap | None) -> SSAValue:
        return self._emit(IotaOp(VectorType(i32, shape), axis, None, map_))

    def _number(self, number: int, shape: Pair, map_: WgMap | None) -> SSAValue:
        return self._splat(IntegerAttr(number, i32), shape, map_)

    def _splat(self, element: Element, shape: Pair, map_: WgMap | None) -> SSAValue:
        scalar = self._emit(arith.ConstantOp(element))
        new = BroadcastOp(scalar, VectorType(scalar.type, shape))
        if map_ is not None:
            new.attributes["wg_map"] = WgMapAttr(map_)
        return self._emit(new)

    def _emit(self, operation: Operation) -> SSAValue:
        operation.location = self._old.location
        assert self._old.parent is not None
        self._old.parent.insert_op_before(operation, self._old)
        return operation.results[0]
