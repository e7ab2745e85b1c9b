"""Discardable attributes of kernels: how many lanes a subgroup has, and subgroups a work-group."""

from __future__ import annotations

from math import prod

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr
from xdsl.ir import Operation

SUBGROUP_SIZE = "xegpu.subgroup_size"
"""Attribute of a SIMT function: its subgroup size. Its vectors are fragments of one lane."""
SUBGROUPS = "xegpu.subgroups"
"""Attribute of a function: the subgroups of a work-group, rows and columns; one where it is missing."""

MAY_ALIAS = "xegpu.may_alias"
"""Unit attribute of a function whose arrays may share elements with one that it writes; other launches refuse such."""


def function_of(operation: Operation) -> func.FuncOp:
    """The function that an operation is, or is in."""
    while not isinstance(operation, func.FuncOp):
        above = operation.parent_op()
        assert above is not None
        operation = above
    return operation


def subgroup_size(operation: Operation) -> int:
    """Lanes of a subgroup of the SIMT function that an operation is, or is in."""
    size = function_of(operation).attributes[SUBGROUP_SIZE]
    assert isinstance(size, IntegerAttr)
    return size.value.data


def subgroup_count(function: func.FuncOp) -> int:
    """Subgroups of a work-group."""
    counts = function.attributes.get(SUBGROUPS)
    return prod(size.value.data for size in counts) if isinstance(counts, ArrayAttr) else 1
