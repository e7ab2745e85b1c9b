"""Sums of index values as operations."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from xegpu.analysis.block_position import OffsetOf, Sum, Term
from xegpu.dialect.block_io import GetNdOffsetsOp
from xegpu.rewrite.inserter import Inserter


def index_of(inserter: Inserter, anchor: Operation, total: Sum) -> SSAValue:
    """The value of a sum, made in front of an operation."""
    values = [value_of(inserter, anchor, term) for term in total.terms]
    if not values:
        return inserter.constant(total.constant)
    first, *others = values
    for value in others:
        first = inserter.add(anchor, first, value)
    return inserter.add(anchor, first, total.constant)


def value_of(inserter: Inserter, anchor: Operation, term: Term) -> SSAValue:
    """The index value that a term is, made in front of an operation if it is none yet."""
    if not isinstance(term, OffsetOf):
        return term
    offsets = GetNdOffsetsOp(term.desc)
    inserter.before(anchor, offsets)
    return offsets.results[term.axis]
