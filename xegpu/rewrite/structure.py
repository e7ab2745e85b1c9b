"""Structural verification of a function: terminators, dominance, and types of what regions yield.

It is what MLIR's verifier checks of any operation before the operation's own verifier runs. A pass verifies what it
inserts; this finds what it broke elsewhere: an operation erased or moved away from its users, a block without its
end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from xegpu.support.errors import BUG, XeError
from xegpu.support.location import author_location

_TERMINATORS: dict[type[Operation], tuple[type[Operation], ...]] = {
    func.FuncOp: (func.ReturnOp,), scf.ForOp: (scf.YieldOp,), scf.IfOp: (scf.YieldOp, scf.YieldOp),
    scf.WhileOp: (scf.ConditionOp, scf.YieldOp)}
"""For each region of an operation the terminator of its block."""


def check_structure(name: str, module: ModuleOp) -> None:
    """Check the structure of a module: terminators, dominance of uses by definitions, and types that regions yield.

    Args:
        name: the pass that made the module.
        module: its functions are checked.

    Raises:
        XeError: the pass is wrong; it names the pass and the operation, at the author's line.
    """
    for operation in module.body.block.ops:
        if fault := _fault_in(operation, set()):
            broken, text = fault
            raise XeError("XT9303", f"the pass {name} broke the kernel: {text}", BUG, author_location(broken))


def _fault_in(parent: Operation, defined: set[int]) -> tuple[Operation, str] | None:
    """The first fault in the regions of an operation: where, and what.

    Args:
        parent: the operation.
        defined: ids of the values that are defined in front of it; left as they are.
    """
    terminators = _TERMINATORS.get(type(parent), ())
    for number, region in enumerate(parent.regions):
        if (first := region.first_block) is None:
            continue
        if first is not region.last_block:  # of several blocks the control flow is not followed
            visible = {id(value) for block in region.blocks for value in _values_of(block)}
            visible |= defined
            fault = next(filter(None, (_fault_in_block(block, set(visible)) for block in region.blocks)), None)
        elif (fault := _fault_in_block(first, defined)) is None and number < len(terminators):
            fault = _fault_of_terminator(parent, number, terminators[number], first.last_op)
        if fault is not None:
            return fault
    return None


def _fault_in_block(block: Block, defined: set[int]) -> tuple[Operation, str] | None:
    added = [*map(id, block.args)]
    defined.update(added)
    is_defined, operation, last = defined.issuperset, block.first_op, block.last_op
    while operation is not None:  # a view of the operands, or of the block, for each operation doubles the time
        if not is_defined(map(id, operation._operands)):
            return operation, _undefined(operation, defined)
        if operation.regions and (fault := _fault_in(operation, defined)):
            return fault
        if operation is not last and _ends_blocks(type(operation)):
            return operation, f"{operation.name} stands in the middle of a block"
        results = [*map(id, operation.results)]
        defined.update(results)
        added += results
        operation = operation.next_op
    defined.difference_update(added)
    return None


def _fault_of_terminator(parent: Operation, number: int, expected: type[Operation],
                         last: Operation | None) -> tuple[Operation, str] | None:
    if not isinstance(last, expected):
        has = f"{last.name}" if last is not None else "nothing"
        return last or parent, f"a block of {parent.name} ends in {has} instead of {expected.name}"
    given, wanted = _handed_on(parent, number, last)
    if [value.type for value in given] != [value.type for value in wanted]:
        return last, f"{last.name} has the types {_types(given)} where {parent.name} has {_types(wanted)}"
    return None


def _handed_on(parent: Operation, number: int, last: Operation) -> tuple[Sequence[SSAValue], Sequence[SSAValue]]:
    """Operands that a terminator forwards, and the values whose types they must have."""
    if isinstance(parent, scf.WhileOp):
        return (last.operands[1:], parent.results) if number == 0 else (last.operands, parent.before_region.block.args)
    return (last.operands, parent.results) if not isinstance(parent, func.FuncOp) else ((), ())


def _undefined(operation: Operation, defined: set[int]) -> str:
    value = next(value for value in operation.operands if id(value) not in defined)
    owner = value.owner
    made = f"{owner.name}" if isinstance(owner, Operation) else "a block's argument"
    where = "in another region" if isinstance(owner, Block) or owner.parent is not operation.parent else "later"
    if isinstance(owner, Operation) and owner.parent is None:
        where = "nowhere"
    return f"{operation.name} takes a result of {made} that is defined {where}" if isinstance(owner, Operation) else \
        f"{operation.name} takes {made} that is defined {where}"


def _values_of(block: Block) -> Iterable[SSAValue]:
    yield from block.args
    for operation in block.ops:
        yield from operation.results


def _types(values: Sequence[SSAValue]) -> str:
    return f"({', '.join(str(value.type) for value in values)})"


@cache
def _ends_blocks(kind: type[Operation]) -> bool:
    return any(isinstance(trait, IsTerminator) for trait in kind.traits)
