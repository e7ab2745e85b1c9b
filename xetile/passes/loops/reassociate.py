"""Reassociation (fast math): a term that is uniform along a row is applied once, to its maximum or its exponents.

    %s = mulf %x, 0.125                                                          scores, scaled
    %b = addf %s, %row                                                           a bias of rows
    %m = select %seen, %b, -inf
    %largest = tile_reduce <maxnumf> %m [1]
    %p = exp (subf %m, tile_broadcast %largest [1])
becomes
    %m = select %seen, %x, -inf
    %largest = fma (tile_reduce <maxnumf> %m [1]), 0.125, %column                a row's elements of %row are equal
    %p = exp2 (fma %m, 0.18, tile_broadcast (mulf (subf %column, %largest), 1.44) [1])

Maxima commute with monotone functions: ``max(x * c + r)`` is ``max(x) * c + r``, or ``min(x) * c + r`` where ``c`` is
negative. Differences of positions, as in the bias of ALiBi, are split into a part of columns, which is the same in all
rows, and one of rows. ``tanh``, as of capped scores, is a reciprocal times -2, plus 1. Sums are rounded at other places
than in the author's order, so that the pass takes kernels with ``fast_math``.

``%x - %x`` is zero, ``fma %x, 1.44, -(%x * 1.44)`` what the product was rounded by: of a mask's ``-1e30`` a number of
which the power overflows, in rows that see nothing. So elements are taken apart that come from matrix products and
integers, with masks that are infinite or moderate; not where they are loaded, as masks are that are added.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import e, log2

from xdsl.dialects import arith, func, math
from xdsl.dialects.builtin import ModuleOp, VectorType, f32
from xdsl.ir import Block, Operation, SSAValue

from xegpu.mlir.arith import REASSOCIATE
from xegpu.mlir.combining_kind import keep_nnan
from xegpu.mlir.vector import shape_of
from xegpu.rewrite.inserter import Inserter, rewrite_in_place
from xetile.dialect.reduction import TileReduceOp, axes_of
from xetile.passes.loops.linear_terms import (
    FLIPPED,
    Linear,
    LinearTerms,
    Node,
    Term,
    exp2,
    is_approximate,
    is_moderate,
    splat,
)
from xetile.passes.loops.magnitude import Magnitudes


class Reassociate:
    """Pass ``reassociate``."""

    def __init__(self) -> None:
        self._made: dict[tuple[Block, Node], SSAValue] = {}

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with such maxima and exponentials; the module itself if there are none."""
        self._made.clear()
        return rewrite_in_place(module, _candidates, _terms_of, self._rewrite, erases=True)

    def _rewrite(self, inserter: Inserter, operation: Operation, found: Linear) -> None:
        operand, result = operation.operands[0], operation.results[0]
        rows, columns = shape_of(operand)
        if isinstance(operation, TileReduceOp):
            kind = operation.kind.data if found.scale > 0 else FLIPPED[operation.kind.data]
            new = _applied(Node(_reduced, (found.core,), (kind, operation)), found, rows)
        else:
            new = exp2(LinearTerms.applied(found, (rows, columns), _factor(operation)))
        value = self._insert(inserter, operation, new)
        value.name_hint = result.name_hint
        result.replace_all_uses_with(value)

    def _insert(self, inserter: Inserter, anchor: Operation, term: Term) -> SSAValue:
        """Insert the operands of a term, once in a block."""
        if isinstance(term, SSAValue):
            return term
        assert anchor.parent is not None
        key = (anchor.parent, term)
        if key not in self._made:
            operands = [self._insert(inserter, anchor, operand) for operand in term.operands]
            self._made[key] = inserter.before(anchor, term.make(*operands, *term.rest))
        return self._made[key]


def _candidates(around: Operation) -> Iterator[Operation]:
    """Exponentials, and maxima and minima of rows, of functions that may be reassociated."""
    for function in around.body.block.ops if isinstance(around, ModuleOp) else [around]:
        if isinstance(function, func.FuncOp) and REASSOCIATE in function.attributes:
            for operation in function.walk():
                if isinstance(operation, (TileReduceOp, math.ExpOp, math.Exp2Op)) and _is_candidate(operation):
                    yield operation


def _is_candidate(operation: Operation) -> bool:
    type_ = operation.operands[0].type
    if not isinstance(type_, VectorType) or type_.element_type != f32 or len(type_.get_shape()) != 2 \
            or type_.get_shape()[1] == 1 or operation.parent is None:
        return False
    if isinstance(operation, TileReduceOp):
        return operation.kind.data in FLIPPED and axes_of(operation) == (1,)
    return is_approximate(operation)


def _terms_of(operation: Operation) -> Linear | None:
    """The terms of a candidate's operand, if they take fewer operations on all elements."""
    found = LinearTerms(operation).of(operation.operands[0])
    if found.is_moved and not _is_moderate(found, isinstance(operation, TileReduceOp)):
        return None
    if isinstance(operation, TileReduceOp):
        return found if found.gain > 0 else None
    factor = _factor(operation)
    gain = found.gain + (factor != 1) - (found.scale * factor != 1 or found.is_moved)
    return found if gain > 0 else None


def _is_moderate(found: Linear, is_reduced: bool) -> bool:
    """Whether no number of moderate magnitude is lost in a sum with a large one, which another one cancels: of rows, an
    exponent may have one that is not known, the maximum."""
    magnitudes = Magnitudes()
    unknown = sum(not magnitudes.is_moderate(row, times) for row, times in found.rows)
    return unknown <= (not is_reduced) and is_moderate(found.constant) and \
        magnitudes.is_moderate(found.core, found.scale)


def _factor(operation: Operation) -> float:
    """Factor that turns the exponent of a function into one of base two."""
    return log2(e) if isinstance(operation, math.ExpOp) else 1.0


def _applied(reduced: Node, found: Linear, rows: int) -> Term:
    """A maximum of the core, times the number, plus the rows."""
    total = found.total(rows)
    if found.scale == 1:
        return reduced if total is None else Node(arith.AddfOp, (reduced, total))
    scale = splat(found.scale, (rows, 1))
    return Node(arith.MulfOp, (reduced, scale)) if total is None else Node(math.FmaOp, (reduced, scale, total))


def _reduced(source: SSAValue, kind: str, operation: Operation) -> Operation:
    return keep_nnan(TileReduceOp(kind, source, (1,)), operation)
