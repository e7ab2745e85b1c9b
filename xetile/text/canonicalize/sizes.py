"""Sizes, strides and offsets that are static or dynamic, MLIR's ``OpFoldResult``, and arithmetic on them."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Operation, SSAValue

from xegpu.ir.matchers import number

Size = int | SSAValue


def known(size: Size) -> int | None:
    """Value of a static size, or of one that a constant defines; None if it is not known."""
    return size if isinstance(size, int) else number(size)


class SizeBuilder:
    """Insertion-point builder of index arithmetic, which folds what is known.

    Attributes:
        at: the operation before which others are inserted.
    """

    def __init__(self, at: Operation) -> None:
        self.at = at

    def insert(self, new: Operation) -> None:
        """Insert an operation, with the location of the one behind it."""
        new.location = self.at.location
        assert self.at.parent is not None
        self.at.parent.insert_op_before(new, self.at)

    def emit(self, new: Operation) -> SSAValue:
        """First result of an operation that is inserted."""
        self.insert(new)
        return new.results[0]

    def value(self, size: Size) -> SSAValue:
        """A size as an SSA value."""
        return self.emit(arith.ConstantOp(IntegerAttr(size, IndexType()))) if isinstance(size, int) else size

    def sum(self, a: Size, b: Size) -> Size:
        """``a + b``."""
        first, second = known(a), known(b)
        if first is not None and second is not None:
            return first + second
        if first == 0 or second == 0:
            return b if first == 0 else a
        return self.emit(arith.AddiOp(self.value(a), self.value(b)))

    def product(self, a: Size, b: Size) -> Size:
        """``a * b``."""
        first, second = known(a), known(b)
        if first is not None and second is not None:
            return first * second
        return b if first == 1 else self.emit(arith.MuliOp(self.value(a), self.value(b)))
