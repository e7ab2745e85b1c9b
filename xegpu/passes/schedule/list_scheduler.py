"""List scheduling of a block: movable operations are delayed until a fixed operation needs their results.

:mod:`xegpu.passes.schedule` describes which operations move past which, and chooses the variant for a function.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Block, Operation, OpResult, SSAValue

from xegpu.analysis.register_pressure import bytes_of
from xegpu.dialect import reduction
from xegpu.dialect.block_io import CreateNdTdescOp, LoadNdOp, PrefetchNdOp, StoreNdOp, UpdateNdOffsetOp
from xegpu.dialect.convert_layout import ConvertLayoutOp, WidenOp
from xegpu.dialect.dpas import ProductOp
from xegpu.dialect.gather_scatter import LoadColumnsOp
from xegpu.dialect.scalar import LoadScalarOp
from xegpu.dialect.sync import CompileHintOp
from xegpu.ir.create import append
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.kernel_attributes import MAY_ALIAS
from xegpu.ir.traits import has_no_memory_effect
from xegpu.ir.traversal import is_subclass, operations
from xegpu.mlir.combining_kind import operation_of
from xegpu.mlir.vector import ExtractOp, ExtractStridedSliceOp
from xegpu.passes.schedule.alias_analysis import AliasAnalysis
from xegpu.rewrite.rewriter import copied

_HARMLESS = (ProductOp, ConvertLayoutOp, CreateNdTdescOp, UpdateNdOffsetOp, PrefetchNdOp, LoadScalarOp, LoadColumnsOp,
             scf.YieldOp)
"""Operations that are not moved, and write no memory."""
_BETWEEN_STORES = (StoreNdOp, CreateNdTdescOp, UpdateNdOffsetOp)
"""Operations in a run of stores, beside those that move."""
_DIALECTS = ("arith", "math")
_MOVES = (BroadcastOp, ExtractStridedSliceOp, WidenOp)
_READS = (LoadNdOp, LoadColumnsOp)
_LOADED = (*_READS, ExtractOp)


def list_scheduled(function: func.FuncOp, *, loads: bool, stores: bool = True, far: bool = False) -> func.FuncOp:
    """A copy of a function with its operations in the order of the list scheduler.

    Args:
        function: the kernel.
        loads: whether loads move, too.
        stores: whether runs of stores are delayed with them; otherwise an operation that is the last use of two values
            follows these at once.
        far: whether loads, and broadcasts of rows and columns, move past stores to other memory, and the chains of a
            reduction are interleaved.
    """
    new = copied(function)
    aliases = AliasAnalysis(may_alias=MAY_ALIAS in function.attributes) if far else None
    for operation in operations(new):
        for region in operation.regions:
            for block in region.blocks:
                _sink(block, loads, loads and stores, aliases)
    return new


def _sink(block: Block, loads: bool, stores: bool, aliases: AliasAnalysis | None) -> None:
    """Reorder a block: movable operations are delayed until a fixed one needs their results."""
    waiting: dict[Operation, None] = {}
    read: list[Operation] = []
    run: list[StoreNdOp] = []
    order: list[Operation] = []
    behind, last_uses = _Behind(), _LastUses()
    for operation in block.ops:
        if _may_move(operation) and not loads and behind.takes(operation, waiting):
            continue
        if run and not (_may_move(operation) or type(operation) in _BETWEEN_STORES):
            order += _stored(run, read, waiting, aliases)
            behind.note(order)
        if _may_move(operation) or (loads and type(operation) in _LOADED) or \
                (aliases and isinstance(operation, reduction.BroadcastOp)):
            waiting[operation] = None
            if type(operation) in _READS:
                read.append(operation)
            continue
        if stores and type(operation) is StoreNdOp:
            run.append(operation)
            continue
        if not _writes_nothing(operation):  # it may write the memory that delayed loads read
            order += _loaded(read, waiting)
        if aliases and type(operation) is reduction.ReduceOp:
            order += _combined(operation, waiting)
        order += _needed(operation, waiting)
        if type(operation) is CompileHintOp:  # nothing goes past it
            order += waiting
            waiting.clear()
            behind.forget()
        order.append(operation)
        if loads and not stores:
            order += last_uses.of(order, waiting)
        behind.note(order)
    order[-1:-1] = waiting  # operations without users go in front of the terminator
    order = behind.woven(order)
    for operation in order:
        operation.detach()  # type: ignore[no-untyped-call]
    for operation in order:
        append(block, operation)


class _LastUses:
    """Delayed operations that are the last uses of two values, such as terms of a sum: one takes the place of two."""

    def __init__(self) -> None:
        self._left: dict[SSAValue, int] = {}  # users that are not in order yet, of values that are
        self._noted = 0

    def of(self, order: list[Operation], waiting: dict[Operation, None]) -> list[Operation]:
        """Last uses of values that were ordered since the last call; they leave ``waiting``."""
        found: list[Operation] = []
        for operation in (pending := order[self._noted:]):
            used = [value for value in dict.fromkeys(operation.operands) if value in self._left]
            for value in used:
                self._left[value] -= 1
            for result in operation.results:
                self._left[result] = len({use.operation for use in result.uses})
            for value in (*used, *operation.results):
                if (user := self._last_user(value, waiting)) is not None:
                    del waiting[user]
                    found.append(user)
                    pending.append(user)
        self._noted = len(order) + len(found)
        return found

    def _last_user(self, value: SSAValue, waiting: dict[Operation, None]) -> Operation | None:
        """The last remaining user of a value, if it is delayed, and also the last user of another value."""
        if self._left[value] != 1:
            return None
        user = next((use.operation for use in value.uses if use.operation in waiting), None)
        is_last = user is not None and len({*user.operands}) == 2 and all(
            self._left.get(each) == 1 and not isinstance(each.owner, BroadcastOp) for each in user.operands)
        return user if is_last else None


def _loaded(read: list[Operation], waiting: dict[Operation, None]) -> list[Operation]:
    """Order the delayed loads, each behind the operations that it needs."""
    order: list[Operation] = []
    for load in read:
        if load in waiting:
            del waiting[load]
            order += [*_needed(load, waiting), load]
    read.clear()
    return order


def _stored(run: list[StoreNdOp], read: list[Operation], waiting: dict[Operation, None],
            aliases: AliasAnalysis | None) -> list[Operation]:
    """Order a run of stores behind either all its loads or all its stored values.

    Loads from memory that the run may write come before it. If those of them that only the run needs take as many
    registers as the stored values, these are computed before the run, too, each right behind its loads.
    """
    written = aliases.written(run) if aliases else set()
    before = [load for load in read if load in waiting and (aliases is None or aliases.may_alias(load, written))]
    users = _backward_slice(run, waiting)
    taken = sum(bytes_of(load.results[0]) for load in before if _is_used_by(load, users))
    order: list[Operation] = []
    if taken and taken >= sum(bytes_of(store.value) for store in run):
        for store in run:
            order += _needed(store, waiting)
        order += [*_loaded(before, waiting), *run]
    else:
        order += _loaded(before, waiting)
        for store in run:
            order += [*_needed(store, waiting), store]
    run.clear()
    read[:] = [load for load in read if load in waiting]
    return order


def _backward_slice(run: list[StoreNdOp], waiting: dict[Operation, None]) -> set[Operation]:
    """Stores of a run, and the delayed operations that they need."""
    found: set[Operation] = set(run)
    pending: list[Operation] = [*run]
    while pending:
        for owner in _operand_definitions(pending.pop()):
            if owner in waiting and owner not in found:
                found.add(owner)
                pending.append(owner)
    return found


def _is_used_by(load: Operation, users: set[Operation]) -> bool:
    """Whether all users of a load, also through extracted blocks, are among some operations."""
    return all(use.operation in users and (not isinstance(use.operation, ExtractOp) or
                                           _is_used_by(use.operation, users)) for use in load.results[0].uses)


class _Behind:
    """Operations to schedule right behind the last of their operands, since they lower the register pressure."""

    def __init__(self) -> None:
        self._positions: dict[Operation, int] = {}
        self._followers: dict[Operation, list[Operation]] = {}
        self._noted = 0
        self._order: list[Operation] = []

    def note(self, order: list[Operation]) -> None:
        """Record the positions of operations that were ordered since the last call."""
        self._order = order
        self._positions |= {order[position]: position for position in range(self._noted, len(order))}
        self._noted = len(order)

    def forget(self) -> None:
        """Scheduling barrier: operations from here on stay behind it."""
        self._positions.clear()

    def takes(self, operation: Operation, waiting: dict[Operation, None]) -> bool:
        """Schedule an operation, with its delayed operands, right behind its last source if that frees registers."""
        sources = _operand_sources(operation, waiting)
        makers = [value.owner for value in sources if isinstance(value.owner, Operation)]
        positions = [position for maker in makers if (position := self._positions.get(maker)) is not None]
        if not positions or not any(isinstance(maker, LoadNdOp) for maker in makers) or \
                any(maker in waiting for maker in makers) or not all(map(_is_last, sources)) or \
                sum(map(_taken, sources)) <= bytes_of(operation.results[0]):
            return False
        last, moved = max(positions), [*_needed(operation, waiting), operation]
        self._followers.setdefault(self._order[last], []).extend(moved)
        self._positions |= dict.fromkeys(moved, last)
        return True

    def woven(self, order: list[Operation]) -> list[Operation]:
        """The order with these operations inserted."""
        return [each for operation in order for each in (operation, *self._followers.get(operation, ()))]


def _is_last(value: SSAValue) -> bool:
    """Whether a value has one use only, or takes no registers."""
    return value.has_one_use() or not _taken(value)


def _taken(value: SSAValue) -> int:
    """Bytes of registers of a value; a broadcast number takes none."""
    return 0 if isinstance(value.owner, BroadcastOp) else bytes_of(value)


def _operand_sources(operation: Operation, waiting: dict[Operation, None], deep: int = 3) -> list[SSAValue]:
    """Definitions of an operation's operands, traced through delayed operations without other users."""
    found: list[SSAValue] = []
    for value in operation.operands:
        owner = value.owner
        if deep and isinstance(owner, Operation) and owner in waiting and \
                (value.has_one_use() or isinstance(owner, BroadcastOp)):
            found += _operand_sources(owner, waiting, deep - 1)
        else:
            found.append(value)
    return found


def _needed(operation: Operation, waiting: dict[Operation, None]) -> list[Operation]:
    """Delayed operations that an operation needs, operands before their users; they are delayed no more."""
    order: list[Operation] = []
    pending = [(operation, iter(_operand_definitions(operation)))]
    while pending:
        user, operands = pending[-1]
        owner = next((owner for owner in operands if owner in waiting), None)
        if owner is not None:
            del waiting[owner]
            pending.append((owner, iter(_operand_definitions(owner))))
            continue
        pending.pop()
        if user is not operation:
            order.append(user)
            if twin := _twin(user, waiting):
                del waiting[twin]
                order.append(twin)
    return order


def _twin(operation: Operation, waiting: dict[Operation, None]) -> Operation | None:
    """Delayed operation that is the only other user of both of an operation's operands: behind it these are dead."""
    users = [[use.operation for use in islice(value.uses, 3)] for value in operation.operands]
    if len(users) != 2 or len(users[0]) != 2 or {*users[0]} != {*users[1]}:
        return None
    return next((user for user in users[0] if user in waiting and len({*user.operands}) == 2), None)


def _combined(reduce: reduction.ReduceOp, waiting: dict[Operation, None]) -> list[Operation]:
    """Order the delayed operations that combine blocks for a reduction, with its chains interleaved.

    Chain by chain, all blocks of a load would stay alive until the last chain.
    """
    links: set[Operation] = set()
    pending = [source.owner for source in reduce.sources]
    kind = operation_of(reduce.kind.data, of_mlir(reduce.sources[0].type.element_type))  # type: ignore[attr-defined]
    while pending:
        owner = pending.pop()
        if isinstance(owner, kind) and owner in waiting and owner not in links and owner.results[0].has_one_use():
            links.add(owner)
            pending += [operand.owner for operand in owner.operands]
    order: list[Operation] = []
    for link in [each for each in waiting if each in links]:
        order += [*_needed(link, waiting), link]
        del waiting[link]
    return order


def _operand_definitions(operation: Operation) -> Iterator[Operation]:
    """Definitions of the operands of an operation, and of those of the operations in its body."""
    for inner in operations(operation):
        for operand in inner.operands:
            if isinstance(operand, OpResult):
                yield operand.op


def _writes_nothing(operation: Operation) -> bool:
    """Whether loads may move past an operation; past a branch, if they may past all operations on both sides."""
    if type(operation) is scf.IfOp:
        return all(_writes_nothing(inner) for inner in operations(operation) if inner is not operation)
    return is_subclass(type(operation), _HARMLESS) or has_no_memory_effect(operation)


def _may_move(operation: Operation) -> bool:
    kind = operation.name.partition(".")[0] in _DIALECTS or type(operation) in _MOVES
    return kind and has_no_memory_effect(operation) and len(operation.results) == 1 \
        and isinstance(operation.results[0].type, VectorType)
