"""Discardable attributes of kernels: the subgroup size, and the number of subgroups of a work-group."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, i64
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

SUBGROUP_SIZE = "xegpu.subgroup_size"
"""Attribute of a SIMT function: its subgroup size. Its vectors are fragments of one lane."""
SUBGROUPS = "xegpu.subgroups"
"""Attribute of a function: the subgroups of a work-group, rows and columns; one where it is missing."""
MATRIX_SIZES = "xegpu.matrix_sizes"
"""Attribute of a function: for each argument the rows and columns of its matrices; nothing where they are not known.

Like ``xegpu.access`` it describes launches; code that relies on such sizes checks them at run time."""


def matrix_sizes(array: SSAValue) -> tuple[int, int] | None:
    """Rows and columns of the matrices of a batch that is a kernel's argument, which lie behind each other if these are
    known; else None."""
    function = array.owner.parent_op() if isinstance(array.owner, Block) else None
    known = function.attributes.get(MATRIX_SIZES) if isinstance(function, func.FuncOp) else None
    if not isinstance(known, ArrayAttr) or not isinstance(array, BlockArgument):
        return None
    rows_and_columns = [size.value.data for size in known.data[array.index]]
    return (rows_and_columns[0], rows_and_columns[1]) if rows_and_columns else None


def with_matrix_sizes(module: ModuleOp, sizes: Sequence[Sequence[int]]) -> ModuleOp:
    """A copy of a kernel's module for arguments whose matrices have such sizes; itself where none are known."""
    if not sizes:
        return module
    new = module.clone()
    (function,) = (operation for operation in new.body.block.ops if isinstance(operation, func.FuncOp))
    function.attributes[MATRIX_SIZES] = ArrayAttr([ArrayAttr([IntegerAttr(size, i64) for size in each])
                                                   for each in sizes])
    return new

MAY_ALIAS = "xegpu.may_alias"
"""Unit attribute of a function whose arrays may share elements with one that it writes; other launches refuse such."""


def function_of(operation: Operation) -> func.FuncOp:
    """The function that an operation is, or is in."""
    while not isinstance(operation, func.FuncOp):
        above = operation.parent_op()
        assert above is not None
        operation = above
    return operation


def block_arguments(function: func.FuncOp, access: Sequence[str], kind: str = "block") -> frozenset[SSAValue]:
    """The arguments of a function that 2D block messages reach, or of another access kind.

    Args:
        function: the function.
        access: the access kind of each argument.
        kind: the one that is asked for.
    """
    return frozenset(argument for argument, each in zip(function.body.block.args, access, strict=True)
                     if each == kind)


def subgroup_size(operation: Operation) -> int:
    """Lanes of a subgroup of the SIMT function that an operation is, or is in."""
    size = function_of(operation).attributes[SUBGROUP_SIZE]
    assert isinstance(size, IntegerAttr)
    return size.value.data


def subgroup_count(function: func.FuncOp) -> int:
    """Subgroups of a work-group."""
    counts = function.attributes.get(SUBGROUPS)
    return prod(size.value.data for size in counts) if isinstance(counts, ArrayAttr) else 1
