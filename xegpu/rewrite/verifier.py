"""Verification of rewritten functions, with errors that point at the author's lines.

Operations known to be valid are skipped: verifying them takes longer than all the rest of a rewrite.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Any

from xdsl.dialects import func, scf
from xdsl.ir import Operation, OpResult
from xdsl.utils.exceptions import VerifyException

from xegpu.analysis.uniformity import check_forwarded
from xegpu.dialect.block_io import StoreNdOp, UpdateNdOffsetOp
from xegpu.dialect.dpas import DpasOp, MadOp
from xegpu.ir.traversal import operations
from xegpu.mlir.vector import ExtractStridedSliceOp
from xegpu.support.errors import error_class, error_parts
from xegpu.support.location import author_location
from xegpu.support.notes import operand_notes

_JUDGED_BY_TYPES = frozenset({DpasOp, MadOp, StoreNdOp, UpdateNdOffsetOp, ExtractStridedSliceOp})
"""Frequent operations whose verifiers depend on types and properties only, so that equal ones are verified once."""


class _Valid(threading.local):
    """Operations that the current thread's rewrite emitted and need not verify."""

    def __init__(self) -> None:
        self.operations: set[Operation] = set()


known_valid = _Valid()


def verify(function: func.FuncOp, valid: Collection[Operation] = ()) -> None:
    """Verify every operation of a function, with an error that points at the author's line.

    Args:
        function: the function.
        valid: operations known to be valid: clones of verified ones on the same types, and index arithmetic.
    """
    seen: set[Any] = set()
    blocks: set[int] = set()
    for operation in operations(function):
        for region in operation.regions:
            blocks.update(map(id, region.blocks))  # the hash of a block is a function in Python
        try:
            _check_isolated(operation, blocks)
            if operation in valid or _is_like_another(operation, seen):
                continue
            if operation.regions and isinstance(operation, (scf.IfOp, scf.WhileOp)):
                check_forwarded(operation)
            else:
                operation.verify_()
        except VerifyException as error:
            code, message, hint = error_parts(error)
            notes = operand_notes(operation, error)
            raise error_class(error)(code, f"{operation.name}: {message}", hint, author_location(operation),
                                     notes) from error


def _check_isolated(operation: Operation, blocks: Collection[int]) -> None:
    """Check that operands are defined in one of these blocks, by identity: the function's blocks walked so far.

    The trait ``IsolatedFromAbove`` of xDSL climbs from each operand to the function, which takes four times as long.
    """
    for operand in operation._operands:
        if id(operand.op.parent if type(operand) is OpResult else operand.owner) not in blocks:
            raise VerifyException("an operand is defined outside of the function")


def verify_inserted(function: func.FuncOp, inserted: Collection[Operation]) -> None:
    """Verify the operations of a function that a pass inserted into it; the others are copies of verified ones.

    Raises:
        ShapeError: one does not verify; it points at the author's line.
    """
    verify(function, {operation for operation in operations(function) if operation not in inserted})


def _is_like_another(operation: Operation, seen: set[Any]) -> bool:
    """Whether an operation of :data:`_JUDGED_BY_TYPES` has the types and properties of an earlier one."""
    if type(operation) not in _JUDGED_BY_TYPES:
        return False
    key = (type(operation), *[id(value.type) for value in operation.operands],
           *[id(value.type) for value in operation.results], *operation.properties, *operation.attributes,
           *map(id, operation.properties.values()), *map(id, operation.attributes.values()))
    known = key in seen
    seen.add(key)
    return known
