"""Loop versioning of gathers of whole columns: one version for rows that do not end within them, one for all."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, UnitAttr
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Block, Operation, Region, SSAValue

from xegpu.analysis.uniformity import by_subgroup
from xegpu.ir.matchers import VERSIONED, number
from xegpu.mlir.arith import CmpIOp
from xegpu.mlir.vector import shape_of, vector_type
from xegpu.rewrite.dce import erase
from xegpu.rewrite.inserter import Inserter, copy_operation
from xetile.dialect import tile_ops
from xetile.dialect.gather_scatter import InitScatteredTileOp, LoadColumnsOp, LoadGatherOp
from xetile.dialect.reduction import TileBroadcastOp
from xetile.dialect.types import TileType
from xetile.dialect.vector import IotaOp
from xetile.passes.loops.transpose_gathers.columns import Columns
from xetile.passes.loops.transpose_gathers.transposer import Transposer, replace_transposes


def version_loop(inserter: Inserter, loop: scf.ForOp, plan: Sequence[Columns]) -> None:
    """Gather whole columns in a loop, or in a copy of it where it has to be asked whether they are."""
    holds = _whole(inserter, loop, plan)
    if holds is not None:
        values: dict[SSAValue, SSAValue] = {}
        copied = copy_operation(loop, values)
        first, second = Block([copied, scf.YieldOp(*copied.results)]), Block()
        branch = scf.IfOp(holds, [result.type for result in loop.results], Region(first), Region(second))
        branch.attributes[VERSIONED] = UnitAttr()
        inserter.before(loop, branch)
        for old, new in zip(loop.results, branch.results, strict=True):
            new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
        loop.detach()  # type: ignore[no-untyped-call]
        second.add_ops([loop, scf.YieldOp(*loop.results)])
        for columns in plan:
            load = values[columns.load.result].owner
            assert isinstance(load, LoadGatherOp)
            if not columns.in_columns:
                if columns.fixed:
                    _load_rows(inserter, load, columns, values)
            elif columns.fixed or columns.in_words:
                _load_columns(inserter, load, columns, values, whole=columns.fixed)
    for columns in plan:
        if not columns.in_columns:
            if columns.fixed and holds is None:
                _load_rows(inserter, columns.load, columns, {})
        elif (columns.fixed and holds is None) or columns.in_words:
            _load_columns(inserter, columns.load, columns, {}, whole=columns.fixed and holds is None)


def load_masked_columns(inserter: Inserter, load: LoadGatherOp, columns: Columns, *, unaligned: bool = False) -> None:
    """Put a gather of columns, each word of which is asked for, in the place of one of elements.

    Args:
        inserter: for the function.
        load: the gather.
        columns: what is known of it.
        unaligned: whether columns may begin, and end, in the middle of a word.
    """
    _load_columns(inserter, load, columns, {}, whole=False, unaligned=unaligned)


def _whole(inserter: Inserter, loop: scf.ForOp, plan: Sequence[Columns]) -> SSAValue | None:
    """Whether all rows end before the columns that are loaded, or behind them; None if that is known."""
    holds: list[SSAValue] = []

    def ask(left: SSAValue, predicate: str, right: SSAValue) -> SSAValue:
        return inserter.before(loop, CmpIOp(left, right, predicate))

    zero = inserter.constant(0)
    for columns in (columns for columns in plan if columns.fixed):
        for first in _of_subgroups(inserter, loop, columns.first):
            behind = inserter.add(loop, first, columns.depth)
            for last in dict.fromkeys(columns.last):
                if not (number(last) == 0 and columns.first in columns.floors) and \
                        not _is_whole(number(last), number(first), columns.depth):
                    holds.append(inserter.before(loop, arith.OrIOp(ask(last, "sle", first), ask(last, "sge", behind))))
        for least in (least for floor in dict.fromkeys(columns.floors)
                      for least in _of_subgroups(inserter, loop, floor)):
            if (number(least) or 0) < 0 or number(least) is None:
                holds.append(ask(least, "sge", zero))
    total: SSAValue | None = None
    for each in holds:
        total = each if total is None else inserter.before(loop, arith.AndIOp(total, each))
    return total


def _of_subgroups(inserter: Inserter, anchor: Operation, numbers: Sequence[SSAValue]) -> list[SSAValue]:
    """The sums of indices of all subgroups, where they are known for each of those terms that differ."""
    known = {value: values for value in numbers if (values := by_subgroup(value)) is not None}
    common = add_indices(inserter, anchor, [value for value in numbers if value not in known])
    sums = dict.fromkeys(map(sum, zip(*known.values(), strict=True))) if known else (0,)
    return [inserter.add(anchor, common, each) for each in sums]


def _is_whole(last: int | None, first: int | None, depth: int) -> bool:
    return last is not None and first is not None and (last <= first or last >= first + depth)


def add_indices(inserter: Inserter, anchor: Operation, numbers: Sequence[SSAValue]) -> SSAValue:
    """Sum of indices, in front of an operation."""
    total = inserter.constant(0)
    for value in numbers:
        total = inserter.add(anchor, total, value)
    return total


def _load_rows(inserter: Inserter, load: LoadGatherOp, plan: Columns, values: dict[SSAValue, SSAValue]) -> None:
    """Let a gather's mask say whether a row is there, since that is so for all of it or nothing.

    Args:
        inserter: for the function.
        load: the gather, or its copy.
        plan: what is known of it.
        values: of a copied loop, those of the original one's.
    """
    init, test = load.tile.owner, load.mask.owner
    assert isinstance(init, InitScatteredTileOp)
    assert isinstance(test, CmpIOp)
    shape = shape_of(load.result)

    def insert(operation: Operation) -> SSAValue:
        return inserter.before(load, operation)

    def total(numbers: Sequence[SSAValue]) -> SSAValue:
        return add_indices(inserter, load, [values.get(each, each) for each in numbers])

    line = insert(IotaOp(vector_type((1, shape[1]), IndexType()), 1, total(plan.start)))
    offsets = insert(TileBroadcastOp(line, shape, [0]))
    for row in plan.rows:
        offsets = insert(arith.AddiOp(insert(TileBroadcastOp(values.get(row, row), shape, [1])), offsets))
    first = insert(BroadcastOp(total(plan.first), vector_type(shape, IndexType())))
    tile = insert(InitScatteredTileOp(init.source, offsets, TileType(tile_ops.tile_of(load.tile))))
    load.operands = [tile, insert(CmpIOp(first, test.rhs, "slt"))]


def _load_columns(inserter: Inserter, load: LoadGatherOp, plan: Columns, values: dict[SSAValue, SSAValue], *,
                  whole: bool, unaligned: bool = False) -> None:
    """Put a gather of columns in the place of one of elements.

    Args:
        inserter: for the function.
        load: the gather, or its copy.
        plan: what is known of it.
        values: of a copied loop, those of the original one's.
        whole: whether all of a column is in bounds, or nothing.
        unaligned: whether it may begin, and end, in the middle of a word.
    """
    assert isinstance(load.tile.owner, InitScatteredTileOp)
    transposed, columns = Transposer(inserter, load), shape_of(load.result)[1 - plan.along]
    line = vector_type((1, columns), IndexType())

    def total(numbers: Sequence[SSAValue]) -> SSAValue:
        added = add_indices(inserter, load, [values.get(each, each) for each in numbers])
        return transposed.insert(BroadcastOp(added, line))

    def row(value: SSAValue) -> SSAValue:
        value = values.get(value, value)
        return transposed(value) if plan.is_transposed else value

    start, first = total(plan.start), total(plan.first)
    offsets = start
    for each in plan.rows:
        offsets = transposed.insert(arith.AddiOp(row(each), offsets))
    lengths = transposed.insert(arith.SubiOp(row(plan.ends), first))
    type_ = vector_type((plan.depth, columns), tile_ops.tile_of(load.tile).element_type)
    loaded = transposed.insert(LoadColumnsOp(load.tile.owner.source, offsets, lengths, type_, whole=whole,
                                            unaligned=unaligned))
    if plan.is_transposed:
        replace_transposes(load, loaded)
        return
    loaded.name_hint = load.result.name_hint
    load.result.replace_all_uses_with(loaded)
    erase(load)
