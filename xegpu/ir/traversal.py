"""Pre-order walks as lists, and operations by class.

xDSL's ``walk`` resumes a generator for every level of nesting at each operation, and ``isinstance`` runs Python code of
the metaclass of operations unless the class is exactly the one asked for: together a tenth of a lowering.
"""

from __future__ import annotations

from functools import cache
from typing import TypeGuard, TypeVar

from xdsl.ir import Operation

Kind = TypeVar("Kind", bound=Operation)


def operations(around: Operation) -> list[Operation]:
    """An operation and all operations inside it, in pre-order; a list, so that the caller may modify the IR."""
    found = [around]
    if around.regions:
        _collect(around, found)
    return found


def _collect(around: Operation, found: list[Operation]) -> None:
    """Append the operations in the regions of one, by xDSL's private links, whose properties take twice as long."""
    for region in around.regions:
        for block in region.blocks:
            operation = block.first_op
            while operation is not None:
                found.append(operation)
                if operation.regions:
                    _collect(operation, found)
                operation = operation._next_op


def of_kind(around: Operation, *kinds: type[Kind]) -> list[Kind]:
    """The operations of some classes in an operation, itself included, in pre-order."""
    return [operation for operation in operations(around) if is_a(operation, kinds)]


def is_a(operation: object, kinds: tuple[type[Kind], ...]) -> TypeGuard[Kind]:
    """Whether an operation is of one of some classes: ``isinstance``, answered once for each class."""
    return is_subclass(type(operation), kinds)  # type: ignore[arg-type]


@cache
def is_subclass(kind: type[object], kinds: tuple[type[object], ...]) -> bool:
    """Whether a class is one of some classes, or made from one."""
    return issubclass(kind, kinds)
