"""Constant propagation (as MLIR's SCCP), also of a loop's values in one of its steps."""

from __future__ import annotations

from xdsl.dialects import arith, func, scf
from xdsl.ir import SSAValue

from xegpu.ir.region_branch import REGION_BRANCHES, outgoing
from xegpu.ir.traversal import of_kind


def known_values(function: func.FuncOp) -> set[SSAValue]:
    """The values of a function that a compiler may know.

    These are constants, results of operations that take such values alone, what loops and branches forward of them,
    and counters of loops with such a first value.
    """
    pending: list[SSAValue] = [constant.result for constant in of_kind(function, arith.ConstantOp)]
    known = set(pending)
    while pending:
        for use in pending.pop().uses:
            user, index = use.operation, use.index
            reached = outgoing(user, index) or []
            if isinstance(user, scf.ForOp) and index == 0:
                reached = [user.body.block.args[0]]
            elif not isinstance(user, REGION_BRANCHES) and known.issuperset(user.operands):
                reached = [*reached, *user.results]
            pending += [value for value in reached if value not in known]
            known.update(reached)
    return known
