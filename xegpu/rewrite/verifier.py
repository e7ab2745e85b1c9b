"""Verifies what a rewrite made, with errors that point at the author's lines.

What is known to be right is left out: that takes longer than all the rest of a rewrite.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Any

from xdsl.dialects import func, scf
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from xegpu.analysis.uniformity import check_branches
from xegpu.dialect.block_io import StoreNdOp, UpdateNdOffsetOp
from xegpu.dialect.dpas import DpasOp, MadOp
from xegpu.mlir.vector import ExtractStridedSliceOp
from xegpu.support.errors import ShapeError, said
from xegpu.support.location import author_location
from xegpu.support.notes import parties

_JUDGED_BY_TYPES = frozenset({DpasOp, MadOp, StoreNdOp, UpdateNdOffsetOp, ExtractStridedSliceOp})
"""Operations of which a kernel has many that are alike, and whose verifiers look at types and properties only."""


class _Valid(threading.local):
    """What the rewrite of a thread made and need not verify."""

    def __init__(self) -> None:
        self.operations: set[Operation] = set()


known_valid = _Valid()


def verify(function: func.FuncOp, valid: Collection[Operation] = ()) -> None:
    """Verify every operation of a function, with an error that points at the author's line.

    Args:
        function: the function.
        valid: operations that are known to be right: copies of verified ones on the same types, and index arithmetic.
    """
    seen: set[Any] = set()
    for operation in function.walk():
        if operation in valid or _is_like_another(operation, seen):
            continue
        try:
            operation.verify_()
            if isinstance(operation, scf.IfOp):
                check_branches(operation)
        except VerifyException as error:
            code, message, hint = said(error)
            notes = parties(operation, error)
            raise ShapeError(code, f"{operation.name}: {message}", hint, author_location(operation), notes) from error


def verify_made(function: func.FuncOp, made: Collection[Operation]) -> None:
    """Verify the operations of a function that a pass inserted into it; the others are copies of verified ones.

    Raises:
        ShapeError: one does not verify; it points at the author's line.
    """
    verify(function, {operation for operation in function.walk() if operation not in made})


def _is_like_another(operation: Operation, seen: set[Any]) -> bool:
    """Whether an operation that is judged by its types and properties has those of one that was seen before."""
    if type(operation) not in _JUDGED_BY_TYPES:
        return False
    key = (type(operation), *(id(value.type) for value in operation.operands),
           *(id(value.type) for value in operation.results), *map(id, operation.properties.values()))
    known = key in seen
    seen.add(key)
    return known
