"""Linear forms of a value: a core, times a number, plus terms that are equal along a row.

    %s = fmaf %x, 0.18, %column ; %v = subf (addf %s, %row), tile_broadcast %m [1]        %row: of rows alone
is the core ``fmaf %x, 0.18, %column``, times 1, plus ``%row - %m``, a column of one element a row.

Terms are operations that are still to be made (:class:`Node`): whoever asks may find that nothing is gained by them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import inf, isfinite, isinf
from typing import Any

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, VectorType, f32, i32
from xdsl.dialects.utils import FastMathFlag
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation, SSAValue
from xdsl.traits import Pure

from xegpu.ir.create import create_like
from xegpu.mlir.arith import SelectOp, SIToFPOp
from xegpu.mlir.vector import shape_of
from xetile.dialect.reduction import TileBroadcastOp, TileReduceOp, axes_of
from xetile.dialect.vector import IotaOp

FLIPPED = {"maxnumf": "minnumf", "maximumf": "minimumf", "minnumf": "maxnumf", "minimumf": "maximumf"}
"""Kinds of reductions that take one element, with those that take it of the negated ones."""
_LINEAR = (arith.AddfOp, arith.SubfOp, arith.MulfOp, arith.DivfOp, arith.NegfOp, math.FmaOp, SelectOp)
_TWICE_LOG2_E = 2.8853900817779268
"""log2(e^2): tanh(x) = 1 - 2 / (1 + e^2x)."""
_MODERATE = float(1 << 20)
"""Magnitude up to which rounding, by 2^-24 of it, changes an exponent by a fraction of one."""


@dataclass(frozen=True)
class Node:
    """An operation to insert.

    Attributes:
        make: the operation of its operands, and of what else it is made of.
        operands: values, or operations to insert.
        rest: what else.
    """

    make: Callable[..., Operation]
    operands: tuple[Term, ...] = ()
    rest: tuple[Any, ...] = ()


Term = SSAValue | Node


@dataclass(frozen=True)
class Linear:
    """A value as ``core * scale + rows``.

    Attributes:
        core: the part that varies along rows.
        scale: a number other than zero.
        rows: columns of one element a row, each with the number of times that it is added.
        constant: a number that is added.
        gain: operations on all elements that the value is computed with, and the core is not.
    """

    core: Term
    scale: float = 1.0
    rows: tuple[tuple[Term, float], ...] = ()
    constant: float = 0.0
    gain: int = 0

    @property
    def is_moved(self) -> bool:
        """Whether anything is added."""
        return bool(self.rows or self.constant)

    def times(self, factor: float, gain: int = 1) -> Linear:
        """A number of times the value."""
        return Linear(self.core, self.scale * factor, tuple((row, times * factor) for row, times in self.rows),
                      self.constant * factor, self.gain + gain)

    def plus(self, rows: Linear, sign: float = 1.0, gain: int = 1) -> Linear:
        """The value and the rows of another one."""
        return replace(self, rows=(*self.rows, *((row, sign * times) for row, times in rows.rows)),
                       constant=self.constant + sign * rows.constant, gain=self.gain + gain)

    def total(self, rows: int) -> Term | None:
        """The sum of the addends, a column; None for nothing."""
        shape = (rows, 1)
        found: Term | None = splat(self.constant, shape) if self.constant else None
        for row, times in sorted(self.rows, key=lambda each: each[1] != 1):
            part = row if abs(times) == 1 else Node(arith.MulfOp, (row, splat(abs(times), shape)))
            if found is None:
                found = part if times > 0 else Node(arith.SubfOp, (splat(-0.0, shape), part))
            else:
                found = Node(arith.AddfOp if times > 0 else arith.SubfOp, (found, part))
        return found


def splat(number: float, shape: tuple[int, ...]) -> Node:
    """All elements one number, in float32."""
    return Node(BroadcastOp, (Node(arith.ConstantOp, (), (FloatAttr(number, f32),)),), (VectorType(f32, shape),))


def exp2(argument: Term) -> Node:
    """Approximate power of two."""
    return Node(_exp2, (argument,))


def is_approximate(operation: Operation) -> bool:
    """Whether a function may be approximate."""
    flags = operation.properties.get("fastmath")
    return isinstance(flags, arith.FastMathFlagsAttr) and FastMathFlag.APPROX_FUNC in flags.data


@dataclass
class LinearTerms:
    """Analysis of values in one block, of float32 in one shape.

    Attributes:
        of_operation: the operation whose operand is analysed; only operations in its block are decomposed.
    """

    of_operation: Operation
    _consumed: dict[SSAValue, bool] = field(default_factory=dict)
    _found: dict[SSAValue, Linear] = field(default_factory=dict)
    _columns: dict[SSAValue, Term | None] = field(default_factory=dict)

    def of(self, value: SSAValue) -> Linear:
        """The terms of a value."""
        if value not in self._found:
            self._found[value] = self._of(value) or Linear(value)
        return self._found[value]

    def _of(self, value: SSAValue) -> Linear | None:
        owner = value.owner
        if not isinstance(owner, Operation) or owner.parent is not self.of_operation.parent \
                or not self._is_consumed(value):
            return None
        if isinstance(owner, arith.MulfOp):
            return self._product(owner.lhs, owner.rhs) or self._product(owner.rhs, owner.lhs)
        if isinstance(owner, arith.DivfOp):
            divisor = constant_of(owner.rhs)
            return self.of(owner.lhs).times(1 / divisor) if divisor else None
        if isinstance(owner, arith.NegfOp):
            return self.of(owner.operand).times(-1)
        if isinstance(owner, arith.AddfOp):
            return self._sum(owner.lhs, owner.rhs, 1.0)
        if isinstance(owner, arith.SubfOp):
            return self._sum(owner.lhs, owner.rhs, -1.0)
        if isinstance(owner, math.FmaOp):
            return self._fma(owner)
        if isinstance(owner, SelectOp):
            return self._selection(owner)
        if isinstance(owner, SIToFPOp):
            return self._distance(owner)
        if isinstance(owner, math.TanhOp) and is_approximate(owner):
            return self._tanh(owner)
        return None

    def _product(self, value: SSAValue, factor: SSAValue) -> Linear | None:
        """A value times a number; or times the same number for all elements, if something is added to the value."""
        if (number := constant_of(factor)) is not None:
            return self.of(value).times(number)
        found = self.of(value)
        if scalar_of(factor) is None or found.scale != 1 or not found.is_moved:
            return None
        total, column = found.total(shape_of(value)[0]), self._column(factor)
        assert total is not None
        assert column is not None
        return Linear(Node(arith.MulfOp, (found.core, factor)), rows=((Node(arith.MulfOp, (total, column)), 1.0),),
                      gain=found.gain)

    def _sum(self, left: SSAValue, right: SSAValue, sign: float) -> Linear | None:
        if (row := self._row(right)) is not None:
            return self.of(left).plus(row, sign)
        if (row := self._row(left)) is not None:
            return self.of(right).times(sign, gain=0).plus(row)
        a, b = self.of(left), self.of(right)
        if not a.is_moved and not b.is_moved:
            return None
        if a.scale != 1 and b.scale == 1 and sign > 0:
            core = self._fused(a.core, a.scale, b.core, shape_of(left))
        elif b.scale * sign not in (1, -1):
            core = self._fused(b.core, b.scale * sign, self._scaled(a, shape_of(left)), shape_of(left))
        else:
            core = Node(arith.AddfOp if b.scale * sign > 0 else arith.SubfOp, (self._scaled(a, shape_of(left)), b.core))
        return replace(a, core=core, scale=1.0, gain=a.gain + b.gain - (a.scale != 1) - (b.scale != 1)).plus(b, sign, 0)

    def _fma(self, operation: math.FmaOp) -> Linear | None:
        row, added, shape = self._row(operation.c), self.of(operation.c), shape_of(operation.c)
        for value, factor in ((operation.a, operation.b), (operation.b, operation.a)):
            if (number := constant_of(factor)) is not None:
                scaled = self.of(value).times(number, gain=0)
                if row is not None:
                    return scaled.plus(row)
                core = self._fused(scaled.core, scaled.scale, self._scaled(added, shape), shape)
                return self._both(core, scaled, added)
            product = self._product(value, factor)
            if product is not None and row is not None:
                return product.plus(row, gain=0)
            if product is not None:
                assert isinstance(product.core, Node)
                core = Node(math.FmaOp, (*product.core.operands, self._scaled(added, shape)))
                return self._both(core, product, added)
        core = Node(math.FmaOp, (operation.a, operation.b, self._scaled(added, shape)))
        return None if row is not None else self._both(core, Linear(operation.a), added)

    @staticmethod
    def _both(core: Term, product: Linear, added: Linear) -> Linear | None:
        """A core that has those of both sides of a sum; None if nothing is added to them."""
        if not product.is_moved and not added.is_moved:
            return None
        gain = product.gain + added.gain - (added.scale != 1)
        return Linear(core, gain=gain).plus(product, gain=0).plus(added, gain=0)

    @staticmethod
    def _fused(value: Term, scale: float, added: Term, shape: tuple[int, ...]) -> Node:
        return Node(math.FmaOp, (value, splat(scale, shape), added))

    @staticmethod
    def _scaled(found: Linear, shape: tuple[int, ...]) -> Term:
        return found.core if found.scale == 1 else Node(arith.MulfOp, (found.core, splat(found.scale, shape)))

    def _selection(self, operation: SelectOp) -> Linear | None:
        """A mask of infinities, or of a number where nothing is added."""
        for kept, other in ((operation.lhs, operation.rhs), (operation.rhs, operation.lhs)):
            found, hidden = self.of(kept), constant_of(other, infinite=True)
            if hidden is None or found.core is kept or (found.is_moved and not isinf(hidden)) \
                    or not is_moderate(hidden) or not is_moderate(hidden / found.scale):
                continue
            sides: tuple[Term, Term] = (found.core, splat(hidden / found.scale, shape_of(kept)))
            return replace(found, core=Node(SelectOp, (operation.condition, *(
                sides if kept is operation.lhs else sides[::-1]))))
        return None

    def _distance(self, operation: SIToFPOp) -> Linear | None:
        """A difference of positions: the number of the row in the tile is small, and converted by itself."""
        if operation.input.type.element_type != i32:  # type: ignore[attr-defined]
            return None
        terms = [*self._integers(operation.input, 1)]
        rows = [(term, sign) for term, sign in terms if _is_row_number(term)]
        if not rows or len(rows) == len(terms):
            return None
        core: Term | None = None
        for term, sign in sorted((each for each in terms if each not in rows), key=lambda each: -each[1]):
            if core is None:
                core = term
                if sign < 0:
                    return None  # it would take a negation
            else:
                core = Node(arith.AddiOp if sign > 0 else arith.SubiOp, (core, term))
        assert core is not None
        found = Linear(Node(_converted, (core,), (operation,)), gain=1)
        return found.plus(Linear(core, rows=tuple(
            (Node(_converted, (column,), (operation,)), float(sign)) for term, sign in rows
            if (column := self._column(term)) is not None)), gain=0)

    def _integers(self, value: SSAValue, sign: int) -> Iterator[tuple[SSAValue, int]]:
        """Terms of a sum of integers, each with its sign."""
        owner = value.owner
        if isinstance(owner, (arith.AddiOp, arith.SubiOp)):
            yield from self._integers(owner.lhs, sign)
            yield from self._integers(owner.rhs, sign if isinstance(owner, arith.AddiOp) else -sign)
        else:
            yield value, sign

    def _tanh(self, operation: math.TanhOp) -> Linear:
        """``1 - 2 / (1 + e^2v)``, by the instructions for the power and the reciprocal."""
        found, shape = self.of(operation.operand), shape_of(operation.operand)
        power = exp2(self.applied(found, shape, _TWICE_LOG2_E))
        one = splat(1.0, shape)
        core = Node(arith.DivfOp, (one, Node(arith.AddfOp, (power, one))))
        return Linear(core, -2.0, constant=1.0, gain=found.gain + 1)

    @staticmethod
    def applied(found: Linear, shape: tuple[int, ...], factor: float = 1.0) -> Term:
        """A number of times a value, of all its terms."""
        scaled = found.times(factor, gain=0)
        total = scaled.total(shape[0])
        added = None if total is None else splat(scaled.constant, shape) if not scaled.rows else \
            Node(TileBroadcastOp, (total,), (shape, (1,)))
        if scaled.scale == 1:
            return scaled.core if added is None else Node(arith.AddfOp, (scaled.core, added))
        if added is not None:
            return LinearTerms._fused(scaled.core, scaled.scale, added, shape)
        return LinearTerms._times(scaled.core, scaled.scale, shape)

    @staticmethod
    def _times(value: Term, factor: float, shape: tuple[int, ...]) -> Node:
        """A number of times a value; a product with a number of run time has one factor, made of both."""
        owner = value.owner if isinstance(value, SSAValue) else None
        scalar = scalar_of(owner.rhs) if isinstance(owner, arith.MulfOp) else None
        if scalar is None or not isinstance(owner, arith.MulfOp):
            return Node(arith.MulfOp, (value, splat(factor, shape)))
        both = Node(arith.MulfOp, (scalar, Node(arith.ConstantOp, (), (FloatAttr(factor, f32),))))
        return Node(arith.MulfOp, (owner.lhs, Node(BroadcastOp, (both,), (VectorType(f32, shape),))))

    def _is_consumed(self, value: SSAValue) -> bool:
        """Whether all that uses a value are sums and products, maxima of rows, and exponentials."""
        if value not in self._consumed:
            self._consumed[value] = all(self._consumes(use.operation, use.index) for use in value.uses)
        return self._consumed[value]

    def _consumes(self, operation: Operation, index: int) -> bool:
        if operation.parent is not self.of_operation.parent:
            return False
        if isinstance(operation, TileReduceOp):
            return operation.kind.data in FLIPPED and axes_of(operation) == (1,)
        if isinstance(operation, (math.ExpOp, math.TanhOp)):
            return is_approximate(operation)
        linear = isinstance(operation, _LINEAR) and not (isinstance(operation, SelectOp) and index == 0)
        return isinstance(operation, math.Exp2Op) or (linear and self._is_consumed(operation.results[0]))

    def _row(self, value: SSAValue) -> Linear | None:
        """Term of a value that is equal along rows; None for other values."""
        if (number := constant_of(value)) is not None:
            return Linear(value, constant=number)
        column = self._column(value)
        return None if column is None else Linear(value, rows=((column, 1.0),))

    def _column(self, value: SSAValue) -> Term | None:
        """One element of each row, where all are equal; None where they differ."""
        if value not in self._columns:
            self._columns[value] = self._column_of(value)
        return self._columns[value]

    def _column_of(self, value: SSAValue) -> Term | None:
        owner, type_ = value.owner, value.type
        if not isinstance(owner, Operation) or not isinstance(type_, VectorType):
            return None
        if isinstance(owner, TileBroadcastOp):
            return owner.source if axes_of(owner) == (1,) else None
        column = VectorType(type_.element_type, (type_.get_shape()[0], 1))
        if isinstance(owner, BroadcastOp):
            return None if isinstance(owner.source.type, VectorType) else Node(BroadcastOp, (owner.source,), (column,))
        if isinstance(owner, IotaOp):
            return Node(_narrowed, tuple(owner.operands), (owner, column)) if owner.axis.value.data == 0 else None
        if owner.name.partition(".")[0] not in ("arith", "math") or not owner.has_trait(Pure) or owner.regions:
            return None
        columns = [self._column(operand) for operand in owner.operands]
        if not columns or any(each is None for each in columns):
            return None
        return Node(_narrowed, tuple(each for each in columns if each is not None), (owner, column))


def constant_of(value: SSAValue, *, infinite: bool = False) -> float | None:
    """The number that all elements are; None for zero and NaN, and infinities unless they are asked for."""
    scalar = scalar_of(value)
    if scalar is None or not isinstance(scalar.owner, arith.ConstantOp) \
            or not isinstance(scalar.owner.value, FloatAttr):
        return None
    number = float(scalar.owner.value.value.data)
    return number if number and (isfinite(number) or (infinite and abs(number) == inf)) else None


def is_moderate(number: float) -> bool:
    """Whether a number may be among exponents whose differences are rounded, not large as a finite mask's ``-1e30``."""
    return abs(number) <= _MODERATE or isinf(number)


def scalar_of(value: SSAValue) -> SSAValue | None:
    """The scalar that all elements are; None where there is none."""
    owner = value.owner
    return owner.source if isinstance(owner, BroadcastOp) and not isinstance(owner.source.type, VectorType) else None


def _is_row_number(value: SSAValue) -> bool:
    return isinstance(value.owner, IotaOp) and value.owner.axis.value.data == 0


def _exp2(argument: SSAValue) -> Operation:
    flags = arith.FastMathFlagsAttr([FastMathFlag.APPROX_FUNC])
    return math.Exp2Op.create(operands=[argument], result_types=[argument.type], properties={"fastmath": flags})


def _converted(value: SSAValue, like: Operation) -> Operation:
    assert isinstance(value.type, VectorType)
    return create_like(like, [value], [VectorType(f32, value.type.get_shape())])


def _narrowed(*rest: Any) -> Operation:
    """An element-wise operation on columns of one element a row."""
    *operands, like, column = rest
    narrowed: Operation = create_like(like, operands, [column])
    return narrowed
