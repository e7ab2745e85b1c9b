"""Memory hazards between lanes: where a subgroup's accesses depend on its lanes being in lockstep.

An operation of a subgroup reads or writes memory for all of its lanes before the next one does. Where lanes are
work-items without a common program counter, as on CPUs, a lane may be ahead of others: what it writes must not be
what another one has yet to read or to write. Any two arrays may overlap.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects import func, scf
from xdsl.dialects.gpu import BarrierOp
from xdsl.ir import Block, Operation

from xegpu.ir.region_branch import REGION_BRANCHES, is_loop
from xegpu.ir.traits import read_operands, written_operand

_READ, _WRITE = 1, 2


def barriers(function: func.FuncOp) -> set[Operation]:
    """Operations that need a subgroup barrier in front of them.

    Between two accesses of which one writes there is such an operation, or a barrier of the work-group, on every path.
    """
    walk = _Walk()
    walk.block(function.body.block, 0)
    return walk.found


@dataclass
class _Walk:
    """Walk over the paths of a kernel, with what was accessed since lanes met last.

    Attributes:
        found: operations in front of which they meet.
    """

    found: set[Operation] = field(default_factory=set)

    def block(self, block: Block, since: int) -> int:
        """Accesses since the lanes met last at the end of a block, of those at its beginning."""
        for operation in block.ops:
            since = self._after(operation, since)
        return since

    def _after(self, operation: Operation, since: int) -> int:
        effects = _effects(operation)
        if isinstance(operation, BarrierOp):
            return 0
        if isinstance(operation, REGION_BRANCHES) and effects & _WRITE:
            return self._regions(operation, since | effects if is_loop(operation) else since)
        if (effects & _WRITE and since) or (effects and since & _WRITE):
            self.found.add(operation)
            return effects
        return since | effects

    def _regions(self, operation: Operation, since: int) -> int:
        ends = [self.block(region.block, since) for region in operation.regions if region.blocks]
        if isinstance(operation, scf.IfOp) and len(ends) > 1:
            since = 0
        for end in ends:
            since |= end
        return since


def _effects(operation: Operation) -> int:
    """Whether an operation, with its regions, reads memory and whether it writes."""
    if isinstance(operation, REGION_BRANCHES):
        effects = 0
        for inner in operation.walk():
            if inner is not operation:
                effects |= _effects(inner)
        return effects
    kind = type(operation)
    return _READ * bool(read_operands(kind)) | _WRITE * (written_operand(kind) is not None)
