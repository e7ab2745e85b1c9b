"""OpBuilder for one function: pools constants, folds and CSEs index arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from xdsl.dialects import arith
from xdsl.ir import Attribute, Block, Operation, SSAValue

from xegpu.ir.create import append, create, index_constant
from xegpu.ir.matchers import number
from xegpu.mlir.elementwise import RECORDS
from xegpu.rewrite.verifier import known_valid
from xegpu.support.errors import ShapeError
from xegpu.support.location import Location, SourceLocation
from xegpu.support.notes import value_notes

INDEX_OPS = (arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.FloorDivSIOp, arith.AndIOp, arith.ShRSIOp)
"""Index operations that are folded and CSEd."""


class Builder:
    """Insertion-point builder for one function; pools constants, CSEs index arithmetic.

    Attributes:
        blocks: stack of insertion blocks, the innermost last.
        entry: the function's entry block.
        location: location of the operation that is being rewritten.
    """

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.entry = Block()
        self.location: Attribute | None = None
        self._constants: dict[int, SSAValue] = {}
        self._known: list[dict[Any, SSAValue]] = []
        self._last_constant: Operation | None = None

    @contextmanager
    def inside(self, block: Block) -> Iterator[None]:
        """Insert at the end of ``block``; values defined there are not reused for CSE after it."""
        self.blocks.append(block)
        self._known.append({})
        yield
        self._known.pop()
        self.blocks.pop()

    def emit(self, operation: Operation) -> SSAValue:
        """Append an operation with the location of the one that is being rewritten; returns its first result."""
        if self.location is not None:
            operation.location = self.location  # type: ignore[assignment]
        append(self.blocks[-1], operation)
        results = operation.results
        return next(iter(results), None)  # type: ignore[arg-type]

    def constant(self, value: int) -> SSAValue:
        """Index constant, pooled at the head of the entry block."""
        if value not in self._constants:
            operation = index_constant(value)
            known_valid.operations.add(operation)
            self._at_head(operation)
            self._constants[value] = operation.result
        return self._constants[value]

    def _at_head(self, operation: Operation) -> None:
        if self._last_constant is not None:
            self.entry.insert_op_after(operation, self._last_constant)
        elif self.entry.first_op is not None:
            self.entry.insert_op_before(operation, self.entry.first_op)
        else:
            self.entry.add_op(operation)
        self._last_constant = operation

    def index(self, kind: type[Operation], left: SSAValue, right: SSAValue) -> SSAValue:
        """Index operation, folded where its operands are constant or neutral, else CSEd."""
        a, b = number(left), number(right)
        if a is not None and b is not None and (b or kind is not arith.FloorDivSIOp):
            evaluate = RECORDS[kind].numpy
            assert evaluate is not None
            return self.constant(int(evaluate(a, b)))
        if b == 0 and kind in (arith.AddiOp, arith.SubiOp):
            return left
        if a == 0 and kind is arith.AddiOp:
            return right
        if b == 1 and kind in (arith.MuliOp, arith.FloorDivSIOp):
            return left
        key = (kind, left, right)
        known = self._known_value(key)
        if known is None:
            operation = create(kind, (left, right), (left.type,))
            known_valid.operations.add(operation)
            known = self._known[-1][key] = self.emit(operation)
        return known

    def add(self, left: SSAValue, right: SSAValue | int) -> SSAValue:
        """Index sum ``left + right``, folded and CSEd."""
        return self.index(arith.AddiOp, left, self.constant(right) if isinstance(right, int) else right)

    def shared(self, key: Any, make: Callable[[], SSAValue]) -> SSAValue:
        """CSE of an arbitrary computation: ``make`` is called once for each ``key`` in scope."""
        known = self._known_value(key)
        if known is None:
            known = self._known[-1][key] = make()
        return known

    def _known_value(self, key: Any) -> SSAValue | None:
        for scope in self._known:
            if (known := scope.get(key)) is not None:
                return known
        return None

    def fail(self, code: str, message: str, hint: str = "", /, **others: SSAValue) -> NoReturn:
        """Raise an error at the author's line of the operation that is being rewritten.

        Args:
            code: the code of the mistake.
            message: what is wrong, in one line.
            hint: what would work.
            others: other values involved, of the old function, by the names that the message gives them; notes tell
                where each of them is defined.
        """
        raise ShapeError(code, message, hint, self.where(), value_notes(self.where(), others))

    def where(self) -> Location | None:
        """Author's location of the operation that is being rewritten."""
        return self.location.data if isinstance(self.location, SourceLocation) else None
