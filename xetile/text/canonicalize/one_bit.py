"""Reductions of truth values by kinds of integers, as the bitwise ones that give the same on one bit.

    %r = vector.multi_reduction <add>, %v, %acc [1] : vector<8x16xi1> to vector<8xi1>
becomes
    %r = vector.multi_reduction <xor>, %v, %acc [1] : vector<8x16xi1> to vector<8xi1>

An i1 is 0 or 1 without a sign and 0 or -1 with one, and sums are modulo 2. In Python such a kind is refused: who adds
up truth values means to count them.
"""

from __future__ import annotations

from xdsl.dialects import vector as xdsl_vector
from xdsl.dialects.builtin import ModuleOp, StringAttr, VectorType, i1
from xdsl.dialects.vector import CombiningKindAttr, CombiningKindFlag

from xegpu.interop.llvm.dialect.vector import MultiReductionOp
from xegpu.mlir.combining_kind import bitwise_kind
from xegpu.mlir.gpu import SubgroupReduceOp


def use_bitwise_kinds(module: ModuleOp) -> None:
    """Replace the kinds of reductions of i1 in a module."""
    for operation in module.walk():
        if isinstance(operation, MultiReductionOp) and _of_one_bit(operation.source.type):
            operation.kind = type(operation.kind)(bitwise_kind(operation.kind.data))
        elif isinstance(operation, xdsl_vector.ReductionOp) and _of_one_bit(operation.vector.type):
            operation.kind = CombiningKindAttr(CombiningKindFlag(bitwise_kind(operation.kind.data.value)))
        elif isinstance(operation, SubgroupReduceOp) and _of_one_bit(operation.source.type):
            operation.kind = StringAttr(bitwise_kind(operation.kind.data))


def _of_one_bit(type_: object) -> bool:
    return (type_.element_type if isinstance(type_, VectorType) else type_) == i1
