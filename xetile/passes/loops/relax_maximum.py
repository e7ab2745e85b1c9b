"""Relaxation of row maxima: ``maximumf``, which propagates NaN, becomes ``maxnumf`` where results stay the same.

    %m = tile_reduce <maximumf> %s [1]
    %p = exp2 (subf %s, tile_broadcast %m [1])
    %t = tile_reduce <add> %p [1]
    store_tile (divf %p, tile_broadcast %t [1])
becomes
    %m = tile_reduce <maxnumf> %s [1] {nnan}
    ...

A row of ``%s`` that has a NaN has one in ``%p``, whatever is subtracted, so that its sum is NaN, and with it all of
what is stored. GPUs have an instruction for ``maxnumf``; ``maximumf`` takes three. What ``%m`` is in such a row does
not matter, which ``nnan`` says. In a loop the running maximum (``maximumf %largest, %m``) is relaxed with that of the
row: once a row has had a NaN, sums that the loop carries are NaN in all later steps.

The proof is an abstract interpretation of both versions side by side, on the rows that have a NaN (:class:`State`); it
fails where a value that may differ reaches anything but arithmetic along rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np
from xdsl.dialects import arith, func, math, scf
from xdsl.dialects.builtin import FloatAttr, ModuleOp, UnitAttr
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from xegpu.mlir.arith import SelectOp
from xegpu.mlir.combining_kind import NNAN
from xegpu.rewrite.rewriter import Rewriter, rewrite
from xetile.dialect.mma import TileMmaOp
from xetile.dialect.reduction import TileBroadcastOp, TileReduceOp, axes_of

_NAN_IN_NAN_OUT = (arith.AddfOp, arith.SubfOp, arith.MulfOp, arith.DivfOp, arith.NegfOp, arith.MaximumfOp,
                   arith.MinimumfOp, arith.ExtFOp, arith.TruncFOp, math.FmaOp, math.ExpOp, math.Exp2Op, math.LogOp,
                   math.Log2Op, math.SqrtOp)
"""Element-wise operations whose result is NaN where an operand is."""
_MAXIMUM, _MAXNUM = "maximumf", "maxnumf"


class State(Enum):
    """Row of a value in the two versions of a kernel, for a row whose maximum is taken of a NaN."""

    SAME = auto()
    """Equal elements; what other rows always have."""
    NAN = auto()
    """All elements are NaN in both."""
    SOME = auto()
    """An element that is NaN in both; others may differ."""
    DIFFERS = auto()
    """Elements may differ."""


_EQUAL = (State.SAME, State.NAN)


class _Observable(Exception):
    """A value that may differ is used by something other than arithmetic along rows."""


class RelaxMaximum:
    """Pass ``relax-maximum``."""

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with such maxima relaxed; the module itself if there are none."""
        return rewrite(module, self._rewrite_function)

    def _rewrite_function(self, function: func.FuncOp) -> func.FuncOp:
        relaxed: set[Operation] = set()
        for operation in function.walk():
            if isinstance(operation, TileReduceOp) and operation.kind.data == _MAXIMUM and axes_of(operation) == (1,):
                groups = [_group(operation)]
                if groups[0].scale is not None:
                    groups.append(_Group(operation, {operation}))
                relaxed |= next((group.operations for group in groups
                                 if _is_unobservable(group, relaxed, function.body.block)), set())
        return _RelaxMaximumRewriter(relaxed).function(function) if relaxed else function


@dataclass(frozen=True)
class _Group:
    """A maximum of rows, and the running maximum that it goes into.

    Attributes:
        reduction: the maximum of a tile's rows.
        operations: both.
        scale: a number of run time that the maximum of a tile is multiplied by, or None. Where that gives NaN, it does
            for an element of the row, too.
    """

    reduction: TileReduceOp
    operations: set[Operation]
    scale: SSAValue | None = None

    def has_product(self, operation: Operation) -> bool:
        """Whether an operation multiplies the row by the scale, and at most adds something.

        The row itself: one that it was scaled from may be finite where it overflows, and underflows.
        """
        return isinstance(operation, (arith.MulfOp, math.FmaOp)) and self.scale is not None and any(
            row is self.reduction.source and isinstance(scale.owner, BroadcastOp) and scale.owner.source is self.scale
            for row, scale in (operation.operands[:2], operation.operands[1::-1]))

    @property
    def source(self) -> SSAValue:
        """The operand of the maximum without its scale, which a contraction may lack; both have the same NaNs."""
        source: SSAValue = self.reduction.source
        while isinstance(scale := source.owner, arith.MulfOp):
            if _is_finite(scale.rhs, zero=False):
                source = scale.lhs
            elif _is_finite(scale.lhs, zero=False):
                source = scale.rhs
            else:
                break
        return source


def _group(reduction: TileReduceOp) -> _Group:
    value: SSAValue = reduction.result
    operations: set[Operation] = {reduction}
    scale: SSAValue | None = None
    while value.has_one_use():
        user = next(iter(value.uses)).operation
        if isinstance(user, arith.MulfOp) and user.lhs is value:
            if not _is_finite(user.rhs, zero=False):
                if scale is not None or value is not reduction.result or not isinstance(user.rhs.owner, BroadcastOp):
                    break
                scale = user.rhs.owner.source
            value = user.result
            continue
        if isinstance(user, arith.MaximumfOp) and _is_running(user, user.rhs if user.lhs is value else user.lhs):
            operations.add(user)
        break
    return _Group(reduction, operations, scale if len(operations) > 1 else None)


def _is_running(maximum: arith.MaximumfOp, other: SSAValue) -> bool:
    """Whether ``other`` is the loop-carried value of a maximum, and was a number before the loop."""
    if not isinstance(other, BlockArgument) or other.block is not maximum.parent:
        return False
    loop = other.block.parent_op()
    if not isinstance(loop, scf.ForOp) or other.index == 0:
        return False
    last = other.block.last_op
    return isinstance(last, scf.YieldOp) and last.operands[other.index - 1] is maximum.result \
        and _is_finite(loop.iter_args[other.index - 1], infinite=True)


def _is_finite(value: SSAValue, *, zero: bool = True, infinite: bool = False) -> bool:
    """Whether all elements are one constant number, with the exceptions that are named."""
    owner = value.owner
    if not isinstance(owner, BroadcastOp) or not isinstance(owner.source.owner, arith.ConstantOp):
        return False
    constant = owner.source.owner.value
    if not isinstance(constant, FloatAttr):
        return False
    number = constant.value.data
    return not np.isnan(number) and (zero or number != 0) and (infinite or bool(np.isfinite(number)))


def _is_unobservable(group: _Group, relaxed: set[Operation], entry: Block) -> bool:
    """Whether nothing that a kernel stores tells whether a maximum is relaxed.

    Args:
        group: the maximum.
        relaxed: those that are relaxed already.
        entry: the function's block.
    """
    block, dropping = group.reduction.parent, relaxed | group.operations
    if block is None:
        return False
    loop = block.parent_op()
    proof = _Proof(group, dropping)
    try:
        proof.block(block, first=True)
        if isinstance(loop, scf.ForOp) and loop.parent is entry:
            proof.later_steps(loop)
            proof.behind(loop)
            return True
        return block is entry
    except _Observable:
        return False


class _Proof:
    """Abstract interpretation of a block in both versions.

    Attributes:
        states: of values; those that are not in it are the same.
    """

    def __init__(self, group: _Group, dropping: set[Operation]) -> None:
        self._group, self._dropping, self._first = group, dropping, False
        self.states: dict[SSAValue, State] = {}

    def block(self, block: Block, *, first: bool) -> None:
        """All operations of a block; ``first``: the maximum is taken of a NaN, and nothing differed before."""
        source = self._group.source
        self._first = first
        if first and self._group.scale is None and source.owner not in set(block.ops):
            self.states[source] = State.SOME
        for operation in block.ops:
            self._operation(operation)
            if first and operation is source.owner and self._group.scale is None:
                self.states[source] = State.SOME
        self._first = False

    def later_steps(self, loop: scf.ForOp) -> None:
        """The steps of a loop behind that of the NaN; then the loop's results are known."""
        carried = self._yielded(loop.body.block)
        self.states = {}
        self._steps(loop, carried)

    def _steps(self, loop: scf.ForOp, carried: list[State]) -> None:
        """Fixpoint of the states that a loop carries."""
        block = loop.body.block
        while True:
            self.states.update(zip(block.args[1:], carried, strict=True))
            self.block(block, first=False)
            later = [_either(before, after) for before, after in zip(carried, self._yielded(block), strict=True)]
            if later == carried:
                break
            carried = later
        self.states.update(zip(loop.results, carried, strict=True))

    def behind(self, operation: Operation) -> None:
        """Operations after another one in its block."""
        following = operation.next_op
        while following is not None:
            self._operation(following)
            following = following.next_op

    def _yielded(self, block: Block) -> list[State]:
        assert block.last_op is not None
        return self._of(block.last_op.operands)

    def _of(self, values: Sequence[SSAValue]) -> list[State]:
        return [self.states.get(value, State.SAME) for value in values]

    def _operation(self, operation: Operation) -> None:
        if isinstance(operation, scf.YieldOp):
            return
        if isinstance(operation, scf.ForOp):
            self._steps(operation, self._of(operation.iter_args))
            return
        if operation.regions:
            used = self._of([operand for inner in operation.walk() for operand in inner.operands])
        else:
            used = self._of(operation.operands)
        same = operation not in self._dropping and all(state is State.SAME for state in used)
        state = State.SAME if same else self._result(operation, used)
        if self._first and self._group.has_product(operation):
            state = State.SOME
        for result in operation.results:
            self.states[result] = state

    def _result(self, operation: Operation, used: list[State]) -> State:
        if operation in self._group.operations:
            return State.DIFFERS
        same = State.SAME if all(state in _EQUAL for state in used) else State.DIFFERS
        if operation in self._dropping:
            return same
        if isinstance(operation, _NAN_IN_NAN_OUT):
            return _arithmetic(used)
        if isinstance(operation, TileReduceOp) and axes_of(operation) == (1,):
            nan = any(state in (State.NAN, State.SOME) for state in used)
            return State.NAN if nan and operation.kind.data in ("add", "mul", _MAXIMUM) else same
        if isinstance(operation, TileBroadcastOp) and axes_of(operation) == (1,):
            return used[0]
        if isinstance(operation, SelectOp) and used[0] in _EQUAL:
            return _either(used[1], used[2])
        if isinstance(operation, TileMmaOp) and used[1] in _EQUAL:
            if used[0] in (State.NAN, State.SOME):
                return State.NAN
            return _arithmetic([used[0], *used[2:]])
        if same is State.DIFFERS:
            raise _Observable
        return State.SAME


def _arithmetic(used: Sequence[State]) -> State:
    """Row of an element-wise result whose elements are NaN where an operand's are."""
    return next((state for state in (State.NAN, State.SOME, State.DIFFERS) if state in used), State.SAME)


def _either(a: State, b: State) -> State:
    """Row that is one of two."""
    if a is b:
        return a
    if a in _EQUAL and b in _EQUAL:
        return State.SAME
    return State.SOME if {a, b} == {State.SOME, State.NAN} else State.DIFFERS


class _RelaxMaximumRewriter(Rewriter):
    """Rewriter of one function, which relaxes some of its maxima."""

    def __init__(self, relaxed: set[Operation]) -> None:
        super().__init__({TileReduceOp: _reduce, arith.MaximumfOp: _maximum})
        self.relaxed = relaxed


def _reduce(rewriter: _RelaxMaximumRewriter, operation: TileReduceOp) -> None:
    if operation not in rewriter.relaxed:
        rewriter.copy(operation)
        return
    relaxed = TileReduceOp(_MAXNUM, rewriter.single(operation.source), axes_of(operation))
    relaxed.properties.update({**operation.properties, "kind": relaxed.kind})
    relaxed.attributes.update({**operation.attributes, NNAN: UnitAttr()})
    rewriter.set(operation.result, rewriter.emit(relaxed))


def _maximum(rewriter: _RelaxMaximumRewriter, operation: arith.MaximumfOp) -> None:
    if operation not in rewriter.relaxed:
        rewriter.copy(operation)
        return
    relaxed = arith.MaxnumfOp(rewriter.single(operation.lhs), rewriter.single(operation.rhs))
    relaxed.attributes.update(operation.attributes)
    rewriter.set(operation.result, rewriter.emit(relaxed))
