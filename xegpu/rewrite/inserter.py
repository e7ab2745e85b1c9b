"""In-place builder: copies of operations, and index arithmetic inserted before existing ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import TypeVar

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import IndexType, ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue

from xegpu.ir.create import append, copy_name, create_like, index_constant
from xegpu.ir.matchers import number
from xegpu.rewrite.dce import erase_dead
from xegpu.rewrite.verifier import verify_inserted

Candidate = TypeVar("Candidate", bound=Operation)
Plan = TypeVar("Plan")


def copy_operation(operation: Operation, values: dict[SSAValue, SSAValue]) -> Operation:
    """A copy of an operation and its regions, not inserted anywhere.

    xDSL's own ``clone`` sets all operands a second time, for values that are used before they are defined; here there
    are none, and it takes half of the time.

    Args:
        operation: what to copy.
        values: what the copy uses in the place of a value, itself where it is not named; results and block arguments of
            the copy are added.
    """
    copied = create_like(operation, [values.get(operand, operand) for operand in operation.operands],
                         [result.type for result in operation.results],
                         [copy_region(region, values) for region in operation.regions])
    for old, new in zip(operation.results, copied.results, strict=True):
        values[old] = new
        copy_name(old, new)
    return copied


def copy_region(region: Region, values: dict[SSAValue, SSAValue]) -> Region:
    """A copy of a region; ``values`` as in :func:`copy_operation`."""
    return Region([copy_block(block, values) for block in region.blocks])


def copy_block(block: Block, values: dict[SSAValue, SSAValue]) -> Block:
    """A copy of a block; ``values`` as in :func:`copy_operation`."""
    copied = Block(arg_types=[argument.type for argument in block.args])
    for old, new in zip(block.args, copied.args, strict=True):
        values[old] = new
        copy_name(old, new)
    for operation in block.ops:
        append(copied, copy_operation(operation, values))
    return copied


def copy_module(module: ModuleOp) -> ModuleOp:
    """A copy of a module, to be changed in place."""
    copied = copy_operation(module, {})
    assert isinstance(copied, ModuleOp)
    return copied


def rewrite_in_place(module: ModuleOp, candidates: Callable[[Operation], Iterable[Candidate]],
                     plan: Callable[[Candidate], Plan | None],
                     change: Callable[[Inserter, Candidate, Plan], None], *, erases: bool = False) -> ModuleOp:
    """Change operations in a copy of a module, and verify what is inserted; the module itself if there are none.

    Args:
        module: what a pass is applied to; it stays as it is.
        candidates: operations inside a module or function that may be changed, in the order in which they shall be.
        plan: what there is to change about one; None, 0 or empty if it stays. It is asked right before the change, too.
        change: changes a candidate of the copy.
        erases: whether operations that are dead afterwards are erased.
    """
    if not any(plan(candidate) for candidate in candidates(module)):
        return module
    new = copy_module(module)
    for function in new.body.block.ops:
        assert isinstance(function, func.FuncOp)
        inserter = Inserter(function)
        for candidate in list(candidates(function)):
            if planned := plan(candidate):
                change(inserter, candidate, planned)
        verify_inserted(function, inserter.inserted)
        if erases:
            erase_dead(function.body.block)
    return new


class Inserter:
    """Inserts operations into a function: constants at its head, others in front of an operation.

    Args:
        function: the function that is changed.
    """

    def __init__(self, function: func.FuncOp) -> None:
        self.function, self.inserted = function, set[Operation]()
        self._constants: dict[int, SSAValue] = {}
        for operation in function.body.block.ops:
            if not isinstance(operation, arith.ConstantOp):
                break
            if isinstance(operation.result.type, IndexType):
                self._constants[number(operation.result) or 0] = operation.result

    def constant(self, value: int) -> SSAValue:
        """An index constant, one for each value."""
        if value not in self._constants:
            copied = index_constant(value)
            head = self.function.body.block
            assert head.first_op is not None
            head.insert_op_before(copied, head.first_op)
            self._constants[value] = copied.result
        return self._constants[value]

    def before(self, anchor: Operation, operation: Operation, hint: str | None = None) -> SSAValue:
        """Insert an operation in front of another one, as made for the same line of the author; its first result."""
        operation.location = anchor.location
        assert anchor.parent is not None
        anchor.parent.insert_op_before(operation, anchor)
        self.inserted.add(operation)
        if not operation.results:
            return None  # type: ignore[return-value]
        operation.results[0].name_hint = hint
        return operation.results[0]

    def behind(self, anchor: Operation, operation: Operation) -> None:
        """Insert an operation behind another one, as made for the same line of the author."""
        operation.location = anchor.location
        assert anchor.parent is not None
        anchor.parent.insert_op_after(operation, anchor)
        self.inserted.add(operation)

    def add(self, anchor: Operation, left: SSAValue, right: SSAValue | int) -> SSAValue:
        """``left + right``, indices, folded where both are constants, or one is 0."""
        a, b = number(left), right if isinstance(right, int) else number(right)
        if a is not None and b is not None:
            return self.constant(a + b)
        if b == 0:
            return left
        if a == 0 and not isinstance(right, int):
            return right
        return self.before(anchor, arith.AddiOp(left, self.constant(right) if isinstance(right, int) else right))

    def subtract(self, anchor: Operation, left: SSAValue, right: SSAValue) -> SSAValue:
        """``left - right``, indices, folded where both are constants, or the second is 0."""
        a, b = number(left), number(right)
        if a is not None and b is not None:
            return self.constant(a - b)
        return left if b == 0 else self.before(anchor, arith.SubiOp(left, right))

    def multiply(self, anchor: Operation, value: SSAValue, factor: int) -> SSAValue:
        """An index times a number, folded where it is a constant, or the number 0 or 1."""
        known = number(value) if factor else 0
        if known is not None:
            return self.constant(known * factor)
        return value if factor == 1 else self.before(anchor, arith.MuliOp(value, self.constant(factor)))

    def scale(self, anchor: Operation, value: SSAValue, factor: Fraction) -> SSAValue:
        """A fraction of an index, which is a multiple of the denominator."""
        shift = factor.denominator.bit_length() - 1
        if factor.denominator == 1 << shift and shift:
            value = self.before(anchor, arith.ShRSIOp(value, self.constant(shift)))
        elif shift:
            value = self.before(anchor, arith.FloorDivSIOp(value, self.constant(factor.denominator)))
        return self.multiply(anchor, value, factor.numerator)
