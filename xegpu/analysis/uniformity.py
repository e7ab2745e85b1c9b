"""Subgroup uniformity of loops and branches.

A barrier must be reached by every subgroup of a work-group or by none, so no branch and no loop around it may depend on
the subgroup id; nor may any branch or loop of a work-group level kernel (with a ``wg_map``), whose operations apply to
all subgroups. A branch yields one value for each result.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from xdsl.dialects import arith, func, scf
from xdsl.dialects.gpu import BarrierOp, SubgroupIdOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from xegpu.ir.kernel_attributes import function_of, subgroup_count
from xegpu.ir.matchers import BARRIER, number
from xegpu.ir.region_branch import REGION_BRANCHES, forwarded, is_loop, outgoing
from xegpu.ir.traversal import operations
from xegpu.support.errors import Invalid, Note, TraceError, XeError, error_parts
from xegpu.support.location import author_location
from xegpu.support.notes import notes_at

_PER_SUBGROUP = ("gpu.subgroup_id", "gpu.thread_id", "gpu.lane_id")


def check(function: func.FuncOp, workgroup_level: bool, kind: type[XeError] = TraceError) -> None:
    """Check the uniformity of a kernel's loops and branches.

    Args:
        function: the kernel, at any stage.
        workgroup_level: whether a ``wg_map`` distributes its tiles to the subgroups.
        kind: the error to raise.

    Raises:
        XeError: one breaks a rule of this module; it points at the author's line.
    """
    for operation in function.walk():
        if isinstance(operation, (scf.IfOp, scf.WhileOp)):
            try:
                check_forwarded(operation)
            except VerifyException as error:
                code, message, hint = error_parts(error)
                raise kind(code, f"{operation.name}: {message}", hint, author_location(operation)) from None
    _check_subgroups(function, workgroup_level, kind)


def check_forwarded(operation: scf.IfOp | scf.WhileOp) -> None:
    """Verify that a branch or ``scf.while`` forwards values of the types of its results and block arguments."""
    if isinstance(operation, scf.WhileOp):
        _check_while(operation)
    else:
        _check_branches(operation)


def _check_while(loop: scf.WhileOp) -> None:
    before, after = loop.before_region.block, loop.after_region.block
    if not isinstance(before.last_op, scf.ConditionOp):
        raise Invalid("XT1343", "its first region does not end with scf.condition\n"
                      "end it with scf.condition(%goes_on), and the values that its results are", alone=True)
    carried, results = [value.type for value in loop.arguments], [result.type for result in loop.res]
    for what, types, needed in (("it takes", before.arg_types, carried), ("scf.condition forwards",
                                [value.type for value in forwarded(before)], results),
                                ("its second region takes", after.arg_types, results),
                                ("its second region yields", [value.type for value in forwarded(after)], carried)):
        if list(types) != needed:
            raise Invalid("XT1342", f"{what} ({_type_list(list(types))}) where ({_type_list(needed)}) are needed\n"
                          "the first region takes what the loop starts with and the second one yields; the second one "
                          "takes what scf.condition forwards, which are the results", alone=True)


def _check_branches(operation: scf.IfOp) -> None:
    types = [result.type for result in operation.output]
    if types and not operation.false_region.blocks:
        raise Invalid("XT1340", f"it gives ({_type_list(types)}), and there is no else branch that yields them\n"
                      "give it an else branch, which yields what there is where the condition does not hold",
                          alone=True)
    for region in operation.regions:
        for block in region.blocks:
            yielded = [value.type for value in block.last_op.operands] if block.last_op is not None else []
            if yielded != types:
                raise Invalid("XT1341", f"it gives ({_type_list(types)}), and a branch yields ({_type_list(yielded)})\n"
                              f"end both branches with scf.yield of {_type_list(types) or 'nothing'}", alone=True)


def _type_list(types: list[Attribute]) -> str:
    return ", ".join(str(type_) for type_ in types)


def per_subgroup(function: func.FuncOp) -> set[SSAValue]:
    """Subgroup-divergent values: those that depend on the subgroup id."""
    found: set[SSAValue] = set()
    positions = (operation for operation in operations(function) if operation.name in _PER_SUBGROUP)
    new: list[SSAValue] = [result for operation in positions for result in operation.results]
    while new:
        value = new.pop()
        if value not in found:
            found.add(value)
            new += [reached for use in value.uses for reached in _reached(use.operation, use.index)]
    return found


_ARITHMETIC: dict[type[Operation], Callable[[int, int], int]] = {
    arith.AddiOp: operator.add, arith.SubiOp: operator.sub, arith.MuliOp: operator.mul, arith.AndIOp: operator.and_,
    arith.FloorDivSIOp: operator.floordiv}
"""What offsets of a subgroup's part of a tile are computed by."""


def by_subgroup(value: SSAValue) -> tuple[int, ...] | None:
    """An index of each subgroup of a work-group, in the order of their ids, where it is computed of these and of
    constants alone; None for others."""
    owner = value.owner
    if isinstance(owner, Block):
        return None
    count = subgroup_count(function_of(owner))
    if isinstance(owner, SubgroupIdOp):
        return tuple(range(count))
    if (known := number(value)) is not None:
        return (known,) * count
    if type(owner) not in _ARITHMETIC:
        return None
    left, right = map(by_subgroup, owner.operands)
    if left is None or right is None or (isinstance(owner, arith.FloorDivSIOp) and 0 in right):
        return None
    return tuple(map(_ARITHMETIC[type(owner)], left, right))


def _reached(user: Operation, index: int) -> list[SSAValue]:
    """Values that are divergent if an operand of an operation is."""
    if isinstance(user, scf.ForOp) and index < 3:  # lower bound, upper bound, step: all of the loop diverges
        return [*user.results, *user.body.block.args]
    if isinstance(user, scf.ConditionOp) and index == 0:  # so it does where its end diverges
        above = user.parent_op()
        assert isinstance(above, scf.WhileOp)
        return [*above.results, *above.before_region.block.args, *above.after_region.block.args]
    reached = outgoing(user, index)
    return list(user.results) if reached is None else reached


def _check_subgroups(function: func.FuncOp, workgroup_level: bool, kind: type[XeError]) -> None:
    differing = per_subgroup(function)
    for operation in function.walk() if differing else ():
        if workgroup_level and _differs(operation, differing):
            raise kind("XT1487",
                       f"{_construct(operation)} depends on subgroup_id in a kernel whose tiles are distributed to "
                       "subgroups",
                       "with a wg_map every line stands for the whole work-group: drop xt.subgroup_id, or write the "
                       "kernel without a wg_map", author_location(operation), _position(function, operation))
        around = _around_a_barrier(operation, differing)
        if around is not None:
            raise kind("XT1486",
                       f"this barrier stands in {_construct(around)} that depends on subgroup_id, and a barrier that "
                       "not all subgroups of a work-group reach is never passed",
                       "put the barrier behind it, or let it depend on what all subgroups share, such as group_id",
                       author_location(operation), _keeping(function, around, operation))


def _position(function: func.FuncOp, at: Operation) -> list[Note]:
    """Note of the operation that reads the subgroup id."""
    return notes_at(author_location(at), [("subgroup_id comes from here",
                                            author_location(operation)) for operation in function.walk()
                                 if operation.name in _PER_SUBGROUP][:1])


def _keeping(function: func.FuncOp, around: Operation, barrier: Operation) -> list[Note]:
    """Notes of the divergent loop or branch around a barrier, and of the operation that reads the subgroup id."""
    own = notes_at(author_location(barrier), [(f"{_construct(around)} that not all subgroups run alike",
                                          author_location(around))])
    return own + _position(function, around if own else barrier)


def _around_a_barrier(operation: Operation, differing: set[SSAValue]) -> Operation | None:
    """Divergent loop or branch around a barrier, or around a loop with a barrier attribute."""
    if isinstance(operation, BarrierOp):
        return enclosing(operation, differing)
    if BARRIER not in operation.attributes:
        return None
    return operation if _differs(operation, differing) else enclosing(operation, differing)


def enclosing(operation: Operation, differing: set[SSAValue]) -> Operation | None:
    """Innermost divergent loop or branch around an operation, None if there is none."""
    above = operation.parent_op()
    while above is not None and not _differs(above, differing):
        above = above.parent_op()
    return above


def _differs(operation: Operation, differing: set[SSAValue]) -> bool:
    """Whether a loop's bounds or a branch's condition are divergent."""
    return isinstance(operation, REGION_BRANCHES) and any(value in differing for value in _deciding(operation))


def _deciding(operation: Operation) -> Sequence[SSAValue]:
    """Bounds of a loop, or the condition of a loop or branch."""
    if isinstance(operation, scf.ForOp):
        return operation.operands[:3]
    if isinstance(operation, scf.WhileOp):
        end = operation.before_region.block.last_op
        return () if end is None else end.operands[:1]
    return operation.operands


def _construct(operation: Operation) -> str:
    return "a loop" if is_loop(operation) else "a condition"
