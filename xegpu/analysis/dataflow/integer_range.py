"""Integer range analysis of indices and descriptor offsets (as MLIR's IntegerRangeAnalysis)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from xdsl.dialects import arith, func, gpu, memref, scf
from xdsl.ir import BlockArgument, Operation, SSAValue

from xegpu.dialect.block_io import CreateNdTdescOp, UpdateNdOffsetOp
from xegpu.ir.kernel_attributes import subgroup_count
from xegpu.ir.matchers import number
from xegpu.ir.region_branch import carried_argument, incoming

_FAR = 1 << 62
"""Infinity: exceeds every index that occurs."""


@dataclass(frozen=True)
class Range:
    """Integer range from ``low`` to ``high``, inclusive."""

    low: int = -_FAR
    high: int = _FAR

    def __add__(self, other: Range) -> Range:
        return Range(_bounded(self.low + other.low), _bounded(self.high + other.high))

    def __sub__(self, other: Range) -> Range:
        return self + Range(-other.high, -other.low)

    def __mul__(self, other: Range) -> Range:
        corners = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Range(_bounded(min(corners)), _bounded(max(corners)))

    def __or__(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high))

    def within(self, low: int, high: int) -> bool:
        """Whether the range is contained in ``low`` to ``high``."""
        return low <= self.low and self.high <= high


def _bounded(value: int) -> int:
    return -_FAR if value <= -_FAR // 2 else _FAR if value >= _FAR // 2 else value


ANY = Range()
_COUNTS = (gpu.BlockIdOp, gpu.GridDimOp, gpu.ThreadIdOp, gpu.BlockDimOp, gpu.GlobalIdOp, gpu.LaneIdOp,
           gpu.NumSubgroupsOp, memref.DimOp)
"""Operations whose results are not negative."""


@dataclass
class Ranges:
    """Ranges of the indices of one function.

    Attributes:
        subgroups: number of subgroups in a work-group.
    """

    subgroups: int
    _assumed: dict[SSAValue, Range] = field(default_factory=dict)

    @classmethod
    def of_function(cls, function: func.FuncOp) -> Ranges:
        """Ranges of a kernel with its number of subgroups as an attribute."""
        return cls(subgroup_count(function))

    def of(self, value: SSAValue, axis: int = -1) -> Range:
        """Range of an index, or of a descriptor's offset along ``axis`` (a negative dimension)."""
        if value in self._assumed:
            return self._assumed[value]
        if before := incoming(value):
            return self._forwarded(value, before, axis)
        if isinstance(value, BlockArgument):
            loop = value.block.parent_op()
            return self._counter(loop) if isinstance(loop, scf.ForOp) else ANY
        owner = value.owner
        assert isinstance(owner, Operation)
        constant = number(value)
        if constant is not None:
            return Range(constant, constant)
        return self._result(owner, axis)

    def _result(self, owner: Operation, axis: int) -> Range:
        if isinstance(owner, CreateNdTdescOp):
            return self.of(owner.offsets[axis])
        if isinstance(owner, UpdateNdOffsetOp):
            return self.of(owner.desc, axis) + (self.of(owner.offsets[axis]) if axis >= -2 else Range(0, 0))
        if isinstance(owner, gpu.SubgroupIdOp):
            return Range(0, self.subgroups - 1)
        if isinstance(owner, _COUNTS):
            return Range(0)
        if isinstance(owner, arith.IndexCastOp):
            return self.of(owner.input)
        return self._arithmetic(owner)

    def _arithmetic(self, owner: Operation) -> Range:
        if len(owner.operands) != 2:
            return ANY
        left, right = owner.operands
        if isinstance(owner, arith.SubiOp) and (divisor := _remainder(left, right)):
            return Range(0, divisor - 1)
        a, b = self.of(left), self.of(right)
        if isinstance(owner, arith.AddiOp):
            return a + b
        if isinstance(owner, arith.SubiOp):
            return a - b
        if isinstance(owner, arith.MuliOp):
            return a * b
        if isinstance(owner, arith.AndIOp) and (a.low >= 0 or b.low >= 0):
            return Range(0, min(side.high for side in (a, b) if side.low >= 0))
        if isinstance(owner, arith.MinSIOp):
            return Range(min(a.low, b.low), min(a.high, b.high))
        if isinstance(owner, arith.MaxSIOp):
            return Range(max(a.low, b.low), max(a.high, b.high))
        return self._quotient(owner, a, b)

    @staticmethod
    def _quotient(owner: Operation, a: Range, b: Range) -> Range:
        """Range of a quotient or remainder by a positive constant."""
        divisor = 1 << b.low if isinstance(owner, arith.ShRSIOp) and 0 <= b.low < 62 else b.low
        if b.low != b.high or divisor <= 0:
            return ANY
        if isinstance(owner, (arith.FloorDivSIOp, arith.ShRSIOp)) or (
                isinstance(owner, (arith.DivSIOp, arith.DivUIOp)) and a.low >= 0):
            return Range(_bounded(a.low // divisor if a.low > -_FAR else a.low),
                         _bounded(a.high // divisor if a.high < _FAR else a.high))
        if isinstance(owner, arith.CeilDivSIOp):
            return Range(_bounded(-(-a.low // divisor) if a.low > -_FAR else a.low),
                         _bounded(-(-a.high // divisor) if a.high < _FAR else a.high))
        if isinstance(owner, (arith.RemSIOp, arith.RemUIOp)):
            return Range(0 if a.low >= 0 or isinstance(owner, arith.RemUIOp) else 1 - divisor, divisor - 1)
        return ANY

    def _counter(self, loop: scf.ForOp) -> Range:
        return Range(self.of(loop.lb).low, _bounded(self.of(loop.ub).high - 1))

    def _forwarded(self, value: SSAValue, before: Sequence[SSAValue], axis: int) -> Range:
        """Range of what a loop or branch forwards; a bound that changes in an iteration is widened to infinity."""
        argument, found = carried_argument(value), self.of(before[0], axis)
        if argument is None or len(before) == 1:
            return reduce(or_, (self.of(each, axis) for each in before[1:]), found)
        for _ in range(3):
            inner = Ranges(self.subgroups, {**self._assumed, argument: found})
            after = inner.of(before[1], axis)
            if after.within(found.low, found.high):
                return found
            found = Range(found.low if after.low >= found.low else -_FAR,
                          found.high if after.high <= found.high else _FAR)
        return ANY


def _remainder(left: SSAValue, right: SSAValue) -> int:
    """Modulus ``b`` where ``left - right`` is ``a - a // b * b`` for a positive constant ``b``, else 0."""
    product = right.owner
    if not isinstance(product, arith.MuliOp) or not isinstance(product.lhs.owner, arith.FloorDivSIOp):
        return 0
    quotient, divisor = product.lhs.owner, number(product.rhs)
    same = quotient.lhs is left and number(quotient.rhs) == divisor
    return divisor if same and divisor is not None and divisor > 0 else 0
