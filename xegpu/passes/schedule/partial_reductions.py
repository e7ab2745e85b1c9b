"""Reassociation of reductions: blocks are combined as they are computed, in a few chains, before lanes are.

    %p0 = mulf %x0, %x0 ; ... ; %p31 = mulf %x31, %x31
    %r = reduce %p0, ..., %p31 <add>
becomes
    %p0 = mulf %x0, %x0 ; ... ; %p31 = mulf %x31, %x31
    %s0 = addf %p0, %p4 ; %s4 = addf %s0, %p8 ; ...                   four chains
    %r = reduce %s28, %s29, %s30, %s31 <add>

so that the scheduler has each block right where it is added, and not all of them at once. The order of a reduction is
free.
"""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue

from xegpu.dialect.reduction import ReduceOp
from xegpu.ir.dtypes import f32, f64, of_mlir
from xegpu.ir.traversal import of_kind
from xegpu.mlir.combining_kind import operation_of

_CHAINS = 4
"""Sums side by side: an addition takes as many instructions' time until its result is there, about."""


def has_long_reductions(function: func.FuncOp) -> bool:
    """Whether a function reduces many blocks of f32 or f64 at once."""
    return any(map(_is_long, of_kind(function, ReduceOp)))


def combine_blocks(function: func.FuncOp) -> None:
    """Split such reductions into chains and a reduction of few blocks."""
    for operation in list(filter(_is_long, of_kind(function, ReduceOp))):
        _split(operation)


def _is_long(operation: ReduceOp) -> bool:
    type_ = operation.sources[0].type
    assert isinstance(type_, VectorType)
    return len(operation.sources) > 2 * _CHAINS and of_mlir(type_.element_type) in (f32, f64)


def _split(operation: ReduceOp) -> None:
    sources, type_ = list(operation.sources), operation.sources[0].type
    assert isinstance(type_, VectorType)
    assert operation.parent is not None
    kind = operation_of(operation.kind.data, of_mlir(type_.element_type))
    sums: list[SSAValue] = sources[:_CHAINS]
    for number, source in enumerate(sources[_CHAINS:]):
        combined: Operation = kind.create(operands=[sums[number % _CHAINS], source], result_types=[type_])
        combined.location = operation.location
        operation.parent.insert_op_before(combined, operation)
        sums[number % _CHAINS] = combined.results[0]
    operation.operands = sums
