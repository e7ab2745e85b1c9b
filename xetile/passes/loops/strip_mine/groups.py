"""Strip mining by groups: rows that a loop loads at a quotient of its counter are loaded once for each quotient.

    scf.for %k = %0 to %n step %32 iter_args(%acc) {
      %s = load_tile %S[shrsi %k, %7, %column] ; ... yield (tile_mma %a, mulf %w, (tile_broadcast %s [0]), %acc) }
becomes
    scf.for %g = %0 to %n step %128 iter_args(%acc_1) {
      %s = load_tile %S[shrsi %g, %7, %column] ; %end = addi %g, (minsi %128, (subi %n, %g))
      %acc_2 = scf.for %k = %g to %end step %32 iter_args(%acc = %acc_1) {
        ... yield (tile_mma %a, mulf %w, (tile_broadcast %s [0]), %acc) }
      yield %acc_2 }

A kernel that takes fewer rows of quantized weights in a step than a scale has loads scales and zero points, and brings
them into the form that it computes with, for each group, not in each step. It applies to loops of matrix products that
start at a multiple of the group and step by a divisor of it, as rows of a strip then have one quotient; to memory that
nothing in the kernel may write; and to rows that take a small part of the registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import ModuleOp, VectorType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import Pure

from xegpu.analysis.dataflow.divisibility import multiple_of
from xegpu.ir.kernel_attributes import MAY_ALIAS, function_of
from xegpu.ir.matchers import number
from xegpu.ir.region_branch import for_loops
from xegpu.ir.traversal import operations
from xegpu.mlir.vector import shape_of
from xegpu.passes.licm import put_before
from xegpu.passes.schedule.alias_analysis import AliasAnalysis
from xegpu.rewrite.inserter import Inserter, rewrite_in_place
from xegpu.target.targets import Target
from xetile.dialect.mma import TileMmaOp
from xetile.dialect.tile_ops import LoadTileOp

_SHARE = 16
"""Part of the registers that values loaded for a strip may take throughout its steps."""


@dataclass(frozen=True)
class _Strips:
    """Loads of a loop that serve several steps.

    Attributes:
        size: how far the counter advances while the quotients stay.
        invariant: operations of the body that give the same in all steps of a strip, in order.
    """

    size: int
    invariant: tuple[Operation, ...]


@dataclass(frozen=True)
class StripMineGroups:
    """The pass.

    Attributes:
        target: its registers.
        access: for each argument its access kind.
    """

    target: Target
    access: tuple[str, ...]

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with such loops in strips; the module itself if there are none, or arrays without block
        messages, for which loops are split where blocks reach over edges."""
        if any(kind not in ("", "block") for kind in self.access):
            return module
        return rewrite_in_place(module, _candidates, self._strips, _strip_mine)

    def _strips(self, loop: scf.ForOp) -> _Strips | None:
        loads = _loads_by_group(loop)
        sizes = [size for size in loads.values() if multiple_of(loop.lb) % size == 0]
        if not sizes:
            return None
        size, kept = min(sizes), dict[Operation, None]()
        for load, group in loads.items():
            if group % size == 0:
                kept |= dict.fromkeys(_slice(load, loop.body.block) or ())
        invariant = tuple(_with_elementwise(loop.body.block, kept))
        return _Strips(size, invariant) if self._fits(invariant) else None

    def _fits(self, invariant: tuple[Operation, ...]) -> bool:
        """Whether the vectors that the steps use take a small part of the registers."""
        lanes, taken = self.target.subgroup_size, 0
        for operation in invariant:
            for result in operation.results:
                if isinstance(result.type, VectorType) and any(use.operation not in invariant for use in result.uses):
                    *rows, columns = shape_of(result)
                    taken += (rows[0] if rows else 1) * -(-columns // lanes)
        return taken * _SHARE <= max(self.target.registers)


def _candidates(around: Operation) -> Iterator[scf.ForOp]:
    """Loops of matrix products in straight-line code, without hints for their steps."""
    for loop in for_loops(around):
        body = [*loop.body.block.ops]
        if not loop.attributes and (number(loop.step) or 0) > 0 and \
                any(type(operation) is TileMmaOp for operation in body) and \
                not any(operation.regions for operation in body):
            yield loop


def _loads_by_group(loop: scf.ForOp) -> dict[Operation, int]:
    """Loads that stay the same in several steps, each with how far the counter advances meanwhile."""
    function, step, found = function_of(loop), number(loop.step), dict[Operation, int]()
    if not any(map(_divisor, loop.body.block.ops)):
        return found
    aliases = AliasAnalysis(may_alias=MAY_ALIAS in function.attributes)
    written = aliases.written(operations(function))
    assert step
    for load in loop.body.block.ops:
        if isinstance(load, LoadTileOp) and not aliases.may_alias(load, written):
            needed = _slice(load, loop.body.block) or []
            group = min((divisor for divisor in map(_divisor, needed) if divisor), default=0)
            if group > step and group % step == 0 and all(divisor % group == 0 for divisor in map(_divisor, needed)):
                found[load] = group
    return found


def _divisor(operation: Operation) -> int:
    """The divisor of a quotient of the counter of a loop, in whose body it stands, that is rounded down; else 0."""
    if not isinstance(operation, (arith.ShRSIOp, arith.FloorDivSIOp)) or operation.parent is None:
        return 0
    known = number(operation.rhs)
    if operation.lhs is not operation.parent.args[0] or known is None or known <= 0:
        return 0
    return 1 << known if isinstance(operation, arith.ShRSIOp) else known


def _slice(load: Operation, block: Block) -> list[Operation] | None:
    """Backward slice of a load in its block: quotients of the counter, indices, tiles; None if it needs others."""
    needed, waiting = dict[Operation, None](), [load]
    while waiting:
        operation = waiting.pop()
        if operation in needed:
            continue
        if operation is not load and not operation.has_trait(Pure):
            return None
        needed[operation] = None
        for operand in operation.operands:
            if operand.owner is block and not _divisor(operation):
                return None
            if isinstance(operand.owner, Operation) and operand.owner.parent is block:
                waiting.append(operand.owner)
    return [*needed]


def _with_elementwise(block: Block, kept: dict[Operation, None]) -> Iterator[Operation]:
    """Operations that stay in a strip, in order: ``kept``, and pure ones on their results that do not enlarge these,
    such as conversions, but not broadcasts of a row."""
    known = set[SSAValue]()
    for operation in block.ops:
        if operation in kept or _follows(operation, known, block):
            known.update(operation.results)
            yield operation


def _follows(operation: Operation, known: set[SSAValue], block: Block) -> bool:
    """Whether an operation makes vectors of those that are known, and of values from before a block."""
    if not operation.results or not operation.has_trait(Pure) or not all(
            operand in known or not _stands_in(operand, block) for operand in operation.operands):
        return False
    sizes = [operand.type.element_count() for operand in operation.operands
             if operand in known and isinstance(operand.type, VectorType)]
    return bool(sizes) and all(isinstance(result.type, VectorType) and result.type.element_count() <= max(sizes)
                               for result in operation.results)


def _stands_in(value: SSAValue, block: Block) -> bool:
    """Whether a block makes a value."""
    owner = value.owner
    return owner is block or (isinstance(owner, Operation) and owner.parent is block)


def _strip_mine(inserter: Inserter, loop: scf.ForOp, strips: _Strips) -> None:
    """Put a loop over strips around a loop, and values that are invariant in a strip between the two."""
    body = loop.body.block
    outer = Block(arg_types=[argument.type for argument in body.args])
    for old, new in zip(body.args, outer.args, strict=True):
        new.name_hint = old.name_hint
    size = inserter.constant(strips.size)
    around = scf.ForOp(loop.lb, loop.ub, size, loop.iter_args, Region(outer))
    inserter.before(loop, around)
    for inner, result in zip(loop.results, around.results, strict=True):
        inner.replace_all_uses_with(result)
        result.name_hint = inner.name_hint
    loop.detach()  # type: ignore[no-untyped-call]
    outer.add_op(loop)
    outer.add_op(scf.YieldOp(*loop.results))
    counter = outer.args[0]
    for operation in strips.invariant:
        if _divisor(operation):
            operation.operands[0] = counter
        put_before(loop, operation)
    # the minimum of the remainder first: a sum could exceed 32 bits
    left = inserter.before(loop, arith.MinSIOp(size, inserter.before(loop, arith.SubiOp(loop.ub, counter))))
    end = inserter.before(loop, arith.AddiOp(counter, left))
    loop.operands = [counter, end, loop.step, *outer.args[1:]]
