"""Magnitude analysis of float vectors: whether rounding a finite element changes an exponent by less than one.

    %s = tile_mma %q, %k ; %x = mulf %s, 0.125 ; %y = select %seen, %x, -inf           moderate
    %y = select %seen, %x, -1e30 ; %y = select %seen, %x, broadcast %scalar ; %y = addf %x, (load_tile)          not

Magnitudes are nominal. Sums of a matrix product, positions, and numbers of run time that are factors count as one, and
constants as what they are. What may be large by purpose, as the number that hides elements is, has no bound: elements
that are loaded, numbers of run time that are selected or added, and those times what is made of truth values.
"""

from __future__ import annotations

from math import inf, isinf, isnan, prod

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, IntegerType, VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.type import get_element_type_or_self

from xegpu.mlir.arith import ExtSIOp, ExtUIOp, IndexCastOp, SelectOp, SIToFPOp, TruncIOp, UIToFPOp
from xetile.dialect.gather_scatter import LoadGatherOp
from xetile.dialect.mma import TileMmaOp
from xetile.dialect.reduction import TileBroadcastOp, TileReduceOp
from xetile.dialect.tile_ops import LoadTileOp
from xetile.dialect.vector import IotaOp, TileTransposeOp
from xetile.passes.loops.linear_terms import Node, Term, is_moderate

_BOUNDED = (IotaOp, math.TanhOp, math.ErfOp, math.SinOp, math.CosOp, math.LogOp, math.Log2Op, math.Log10Op)
_LARGEST = (arith.AddfOp, arith.SubfOp, arith.AddiOp, arith.SubiOp, arith.NegfOp, arith.MaximumfOp, arith.MinimumfOp,
            arith.MaxnumfOp, arith.MinnumfOp, arith.MaxSIOp, arith.MinSIOp, math.AbsFOp, math.AbsIOp, math.FloorOp,
            math.CeilOp, math.RoundEvenOp, arith.ExtFOp, arith.TruncFOp, SIToFPOp, UIToFPOp, ExtSIOp, ExtUIOp, TruncIOp,
            IndexCastOp, TileBroadcastOp, TileReduceOp, TileTransposeOp, BroadcastOp)
"""Operations whose results are about as large as the largest operand."""
_SHORT = 16
"""Bits of integers that are never too large."""


class Magnitudes:
    """The analysis, of values and of terms that are still to be made."""

    def __init__(self) -> None:
        self._found: dict[Term, float] = {}

    def is_moderate(self, term: Term, factor: float) -> bool:
        """Whether a term times a number is moderate."""
        return is_moderate(factor) and is_moderate(self.of(term) * abs(factor)) and not isinf(self.of(term))

    def of(self, term: Term) -> float:
        """Nominal magnitude of finite elements; infinity where there is no bound."""
        if term not in self._found:
            self._found[term] = self._of(term)
        return self._found[term]

    def _of(self, term: Term) -> float:
        kind, operands = _parts(term)
        if (constant := _constant(term)) is not None:
            return 0.0 if isinf(constant) else inf if isnan(constant) else abs(constant)
        if isinstance(term, SSAValue) and not isinstance(term.type, VectorType):
            return 1.0
        if kind in _BOUNDED or (isinstance(term, Node) and kind is arith.DivfOp):  # the reciprocal of tanh, from 0 to 1
            return 1.0
        if kind in (LoadTileOp, LoadGatherOp):
            return 1.0 if _integer_bits(term) <= _SHORT else inf
        if kind is TileMmaOp:
            return max([1.0, *map(self.of, operands[2:])])
        if kind is math.FmaOp:
            return max(self._product(operands[:2]), self._part(operands[2]))
        if kind in (arith.MulfOp, arith.MuliOp):
            return self._product(operands)
        if kind is arith.DivfOp:
            return self._quotient(*operands)
        if kind in (SelectOp, *_LARGEST):
            return max(map(self._part, operands[1:] if kind is SelectOp else operands))
        return inf

    def _part(self, term: Term) -> float:
        """The magnitude of operands of a selection or a sum."""
        return inf if _is_number_of_run_time(term) else self.of(term)

    def _product(self, factors: tuple[Term, ...]) -> float:
        has_number = any(map(_is_number_of_run_time, factors))
        return inf if has_number and any(map(_is_of_truth, factors)) else prod(map(self.of, factors))

    def _quotient(self, dividend: Term, divisor: Term) -> float:
        if _is_number_of_run_time(divisor):
            return self._product((dividend, divisor))
        number = _constant(divisor)
        return self.of(dividend) / abs(number) if number else inf


def _parts(term: Term) -> tuple[object, tuple[Term, ...]]:
    """(class of the operation, operands) of a term."""
    if isinstance(term, Node):
        like = next((each for each in term.rest if isinstance(each, Operation)), None)
        return term.make if like is None else type(like), term.operands
    owner = term.owner
    return (type(owner), tuple(owner.operands)) if isinstance(owner, Operation) else (None, ())


def _constant(term: Term) -> float | None:
    """The number that all elements are; None where there is none, or it is not known."""
    kind, operands = _parts(term)
    if kind is BroadcastOp:
        return _constant(operands[0])
    if kind is not arith.ConstantOp:
        return None
    values = term.rest if isinstance(term, Node) else (term.owner.value,)  # type: ignore[union-attr]
    return next((float(each.value.data) for each in values if isinstance(each, (FloatAttr, IntegerAttr))), None)


def _is_number_of_run_time(term: Term) -> bool:
    """Whether all elements are one float that is not known."""
    kind, operands = _parts(term)
    if kind is not BroadcastOp or _constant(term) is not None:
        return False
    source = operands[0]
    return isinstance(source, Node) or (not isinstance(source.type, (VectorType, IntegerType, IndexType)))


def _is_of_truth(term: Term) -> bool:
    """Whether a term is made of truth values, or of numbers that are selected: what hides elements, as a factor."""
    kind, operands = _parts(term)
    if kind in (SIToFPOp, UIToFPOp, ExtSIOp, ExtUIOp) and _integer_bits(operands[0]) == 1:
        return True
    if kind is SelectOp:
        sides = [_constant(side) for side in operands[1:]]
        return any(side and not isinf(side) for side in sides) or any(map(_is_of_truth, operands[1:]))
    through = (*_LARGEST, arith.MulfOp, arith.MuliOp, arith.DivfOp, math.FmaOp)
    return kind in through and any(map(_is_of_truth, operands))


def _integer_bits(term: Term) -> float:
    """Bits of an integer; infinity for other types."""
    type_ = get_element_type_or_self(term.type) if isinstance(term, SSAValue) else None
    return type_.width.data if isinstance(type_, IntegerType) else inf
