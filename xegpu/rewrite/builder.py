"""Writes the operations of a new function: constants at its head, index arithmetic folded and made once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from xegpu.ir.matchers import number
from xegpu.rewrite.verifier import known_valid
from xegpu.support.errors import ShapeError
from xegpu.support.location import Location, SourceLocation
from xegpu.support.notes import valued

INDEX_OPS: dict[type[Operation], Callable[[int, int], int]] = {
    arith.AddiOp: lambda a, b: a + b, arith.SubiOp: lambda a, b: a - b, arith.MuliOp: lambda a, b: a * b,
    arith.FloorDivSIOp: lambda a, b: a // b, arith.AndIOp: lambda a, b: a & b, arith.ShRSIOp: lambda a, b: a >> b,
}
"""What is folded where both operands are constants."""


class Writer:
    """The function that a rewrite writes: where it stands in it, and what it made there already.

    Attributes:
        blocks: the blocks that are open, the innermost last.
        entry: the function's own block.
        place: where in the author's source the operation stands that is being rewritten.
    """

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.entry = Block()
        self.place: Attribute | None = None
        self._constants: dict[int, SSAValue] = {}
        self._known: list[dict[Any, SSAValue]] = []
        self._last_constant: Operation | None = None

    @contextmanager
    def inside(self, block: Block) -> Iterator[None]:
        """Write to the end of ``block``; what is made there is not known behind it."""
        self.blocks.append(block)
        self._known.append({})
        yield
        self._known.pop()
        self.blocks.pop()

    def emit(self, operation: Operation) -> SSAValue:
        """Append an operation; its first result. It takes the place in the author's source that the old one had."""
        if self.place is not None:
            operation.location = self.place  # type: ignore[assignment]
        self.blocks[-1].add_op(operation)
        return operation.results[0] if operation.results else None  # type: ignore[return-value]

    def constant(self, value: int) -> SSAValue:
        """An index constant, kept at the head of the kernel."""
        if value not in self._constants:
            operation = arith.ConstantOp(IntegerAttr(value, IndexType()))
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
        """An index operation, folded where its operands allow it and shared where it was made before."""
        a, b = number(left), number(right)
        if a is not None and b is not None and (b or kind is not arith.FloorDivSIOp):
            return self.constant(INDEX_OPS[kind](a, b))
        if b == 0 and kind in (arith.AddiOp, arith.SubiOp):
            return left
        if a == 0 and kind is arith.AddiOp:
            return right
        if b == 1 and kind in (arith.MuliOp, arith.FloorDivSIOp):
            return left
        key = (kind, left, right)
        known = next((scope[key] for scope in self._known if key in scope), None)
        if known is None:
            made = kind.create(operands=[left, right], result_types=[left.type])
            known_valid.operations.add(made)
            known = self._known[-1][key] = self.emit(made)
        return known

    def add(self, left: SSAValue, right: SSAValue | int) -> SSAValue:
        """``left + right``, indices."""
        return self.index(arith.AddiOp, left, self.constant(right) if isinstance(right, int) else right)

    def shared(self, key: Any, make: Callable[[], SSAValue]) -> SSAValue:
        """What ``make`` gives, made once for each ``key`` that is visible here."""
        known = next((scope[key] for scope in self._known if key in scope), None)
        if known is None:
            known = self._known[-1][key] = make()
        return known

    def fail(self, code: str, message: str, hint: str = "", /, **others: SSAValue) -> NoReturn:
        """Raise an error at the author's line of the operation that is being rewritten.

        Args:
            code: the code of the mistake.
            message: what is wrong, in one line.
            hint: what would work.
            others: the other parties, values of the old function by the names that the message gives them; a note
                tells where each of them was made.
        """
        raise ShapeError(code, message, hint, self.where(), valued(self.where(), others))

    def where(self) -> Location | None:
        """The author's line of the operation that is being rewritten."""
        return self.place.data if isinstance(self.place, SourceLocation) else None
