"""Gather coalescing: in loop steps without masked elements, contiguous rows are loaded by 8 bytes a lane.

    scf.for %k = %0 to %n step %32 {
      %row = broadcast %first [1] ; %at = addi %column, %k ; %o = addi %row, %at     // 8x16, of which this is row 3:
      %d = create_tdesc %A, (%o[3]) : tensor_desc<16xbf16, #scatter>
      %m = cmpi slt, %at, %end ; %v = load_gather %d, %m ; ... }
becomes
    %least = reduce %end {kind = "minsi"} ; %last = subi %least, %15
    %d0 = create_tdesc %A, (%first[lane / 4] + 4 * (lane % 4)) : tensor_desc<16x4xbf16, #scatter>    // rows 0 to 3
    %rest = scf.for %k = %0 to %last step %32 {
      %v = load_rows [%k] %d0, %d1 : ... -> vector<8x1xbf16> ; ... } {xegpu.main_loop}
    scf.for %k = %rest to %n step %32 { as it was }

Taken are loads of arrays that 2D block messages may reach: their rows begin at multiples of 16 bytes. The rows are the
same in all steps; the columns are the counter, values from before the loop, and constants. The first loop has the steps
in which all loads are in bounds; where a row is out of bounds, or columns do not begin at multiples of 8 bytes, it has
none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from math import gcd

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, ModuleOp, i32
from xdsl.ir import Operation, SSAValue
from xdsl.traits import Pure

from xegpu.analysis.block_position import is_inside
from xegpu.analysis.dataflow.divisibility import multiple_of
from xegpu.analysis.dataflow.lane_offsets import Affine, Column, LaneOffsets, Row
from xegpu.dialect.block_io import LoadNdOp, PrefetchNdOp, StoreNdOp, desc_of
from xegpu.dialect.dpas import DpasOp
from xegpu.dialect.gather_scatter import CHUNK_BYTES, CreateTdescOp, LoadGatherOp, LoadRowsOp, scatter_of
from xegpu.dialect.hints import hints_of
from xegpu.dialect.reduction import ReduceOp
from xegpu.dialect.vector import ExtractScalarOp
from xegpu.ir.kernel_attributes import function_of, subgroup_size
from xegpu.ir.matchers import MAIN_LOOP, main_loop_of, number
from xegpu.ir.region_branch import for_loops
from xegpu.layout.lane_map import LaneMap
from xegpu.mlir.arith import CmpIOp, IndexCastOp, SelectOp
from xegpu.mlir.vector import ExtractStridedSliceOp, InsertStridedSliceOp, vector_type
from xegpu.passes.loops.row_chunks import MOST_ROWS, RowChunks, block_arrays, chunk_lanes, gathers_of
from xegpu.passes.loops.share_gathers import ShareCoalescer, shares_in
from xegpu.passes.loops.unroll import split_loop
from xegpu.rewrite.dce import erase, erase_dead
from xegpu.rewrite.inserter import Inserter, copy_operation, rewrite_in_place

_BODY = (LoadNdOp, StoreNdOp, PrefetchNdOp, LoadGatherOp, scf.YieldOp)
_BITS = (16, 32)
_FAR = 1 << 30
"""Bounds below minus this count as this, so that differences to them stay within 32 bits."""


@dataclass(frozen=True)
class CoalesceGathers:
    """Pass ``coalesce-gathers``; it has no options."""

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with coalesced gathers; itself where there are none."""
        module = rewrite_in_place(module, _loops, _plan, _coalesce)
        coalescer = ShareCoalescer()
        return rewrite_in_place(module, shares_in, coalescer.plan, coalescer.coalesce, erases=True)


def _loops(around: Operation) -> Iterator[scf.ForOp]:
    """Loops of products that load by gathers, without branches and barriers, and without what main loops leave."""
    for loop in for_loops(around):
        if number(loop.step) is None or main_loop_of(loop) is not None:
            continue
        body = list(loop.body.block.ops)
        if all(any(isinstance(operation, kind) for operation in body) for kind in (DpasOp, LoadGatherOp)) and all(
                isinstance(operation, _BODY) or (operation.has_trait(Pure) and not operation.regions)
                for operation in body):
            yield loop


@dataclass(frozen=True)
class _Block:
    """A block that is loaded row by row.

    Attributes:
        last: the operation that puts its last row to the others; its result is the block.
        loads: the gathers, a row each.
        array: that they read.
        first: column with each row's offset, and which of its rows is the block's first.
        at: added to all of these.
        bounds: expressions of which the first must be less than the second.
    """

    last: InsertStridedSliceOp
    loads: tuple[LoadGatherOp, ...]
    array: SSAValue
    first: Row
    at: Affine
    bounds: tuple[tuple[Affine, Affine], ...]


@dataclass(frozen=True)
class _Plan:
    """Plan of one loop: the gathers to coalesce.

    Attributes:
        blocks: the blocks.
        floors: what must not be negative.
    """

    blocks: tuple[_Block, ...]
    floors: tuple[Affine, ...]


def _plan(loop: scf.ForOp) -> _Plan | None:
    analysis = LaneOffsets(subgroup_size(loop), block_arrays(function_of(loop)))
    blocks = []
    for operation in loop.body.block.ops:
        if not isinstance(operation, InsertStridedSliceOp):
            continue
        before = len(analysis.floors)
        block = _block(operation, loop, analysis)
        if block is not None and all(_is_reached(floor, loop) and not floor.rows and _lowest(floor, loop) >= 0
                                     for floor in analysis.floors[before:]):
            blocks.append(block)
        else:
            del analysis.floors[before:]
    return _Plan(tuple(blocks), tuple(dict.fromkeys(analysis.floors))) if blocks else None


def _lowest(floor: Affine, loop: scf.ForOp) -> int:
    """The value of an expression in the first step, if it is known; 0 if not."""
    first = number(loop.lb)
    return 0 if first is None or len(floor.terms) > 1 else floor.constant + first


def _block(last: InsertStridedSliceOp, loop: scf.ForOp, analysis: LaneOffsets) -> _Block | None:
    """A block that can be coalesced, by the operation that completes it; None if it cannot."""
    loads = gathers_of(last)
    if loads is None or len(loads) > MOST_ROWS or any(hints_of(load) for load in loads):
        return None
    makers = [owner for load in loads if isinstance(owner := load.desc.owner, CreateTdescOp)]
    dtype, size = desc_of(loads[0].desc).dtype, desc_of(loads[0].desc).dtype.bytes
    if len(makers) < len(loads) or dtype.bits not in _BITS or \
            len(loads) * size % CHUNK_BYTES or scatter_of(desc_of(loads[0].desc)).chunk_size != 1:
        return None
    array = makers[0].source
    positions = [analysis.element(maker.offsets, 0) for maker in makers]
    start = positions[0]
    if start is None or len(start.rows) != 1 or start.lane != 1 or array not in analysis.arrays or \
            any(maker.source is not array for maker in makers) or not _is_reached(start, loop):
        return None
    (column, row), height = start.rows[0], CHUNK_BYTES // size
    at = Affine(start.constant, 0, start.terms)
    first = number(loop.lb)
    if len(at.terms) == 1 and first is not None and (first + at.constant) % height:
        return None
    if any(position != Affine(at.constant, 1, at.terms, ((column, row + i),)) for i, position in enumerate(positions)):
        return None
    if gcd(analysis.multiple_of(column.value, size), multiple_of(loop.step)) % height or row % height or \
            column.size % height or not _is_cloned(column.value, loop):
        return None
    bounds = list[tuple[Affine, Affine]]()
    for load in loads:
        asked = analysis.bounds(load.mask, 0)
        if asked is None or not all(_is_reached(low, loop) and not low.rows and _is_fixed(high, loop)
                                    for low, high in asked):
            return None
        bounds += asked
    return _Block(last, tuple(loads), array, (column, row), at, tuple(bounds))


def _is_reached(position: Affine, loop: scf.ForOp) -> bool:
    """Whether a position moves with the counter of a loop, once, and else not."""
    counter = loop.body.block.args[0]
    return position.lane in (0, 1) and position.terms.count(counter) == 1 and not any(
        is_inside(term, loop) for term in position.terms if term is not counter)


def _is_fixed(bound: Affine, loop: scf.ForOp) -> bool:
    """Whether a bound is known before a loop, and the same in all lanes."""
    return bound.lane == 0 and len(bound.rows) <= 1 and not any(is_inside(term, loop) for term in bound.terms) and all(
        _is_cloned(column.value, loop) for column, _ in bound.rows)


def _is_cloned(value: SSAValue, loop: scf.ForOp) -> bool:
    """Whether a value can be computed before a loop: by pure operations from values that are there."""
    if not is_inside(value, loop):
        return True
    owner = value.owner
    return isinstance(owner, Operation) and owner.has_trait(Pure) and all(_is_cloned(operand, loop)
                                                                          for operand in owner.operands)


def _coalesce(inserter: Inserter, loop: scf.ForOp, plan: _Plan) -> None:
    writer = _Writer(inserter, loop)
    counter = loop.body.block.args[0]
    end = writer.end(plan)
    replaced = [(block, [writer.desc(block, group) for group in writer.groups(block)]) for block in plan.blocks]
    main = loop if MAIN_LOOP in loop.attributes else split_loop(inserter, loop, 1)[0]
    for block, descs in replaced:
        position: SSAValue = counter
        for term in block.at.terms:
            position = position if term is counter else inserter.add(block.last, position, term)
        position = inserter.add(block.last, position, block.at.constant)
        rows = inserter.before(block.last, LoadRowsOp(descs, position), block.last.result.name_hint)
        block.last.result.replace_all_uses_with(rows)
    _erase(main, {load for block in plan.blocks for load in block.loads})
    end = inserter.before(main, arith.MinSIOp(main.ub, end), "coalesced_end")
    main.operands = [main.lb, end, main.step, *main.iter_args]


def _erase(loop: scf.ForOp, loads: set[LoadGatherOp]) -> None:
    """Erase dead operations, these loads included."""
    erase_dead(loop.body.block)
    for load in loads:
        erase(load)
    erase_dead(loop.body.block)


class _Writer(RowChunks):
    """Builder of the loop-invariant part in front of a loop.

    Args:
        inserter: for the function.
        loop: the loop.
    """

    def __init__(self, inserter: Inserter, loop: scf.ForOp) -> None:
        super().__init__(inserter, loop, subgroup_size(loop))
        self.loop = loop
        self._cloned: dict[SSAValue, SSAValue] = {}

    def clone(self, value: SSAValue) -> SSAValue:
        """A value as it is in front of the loop."""
        if not is_inside(value, self.loop):
            return value
        if value not in self._cloned:
            assert isinstance(value.owner, Operation)
            known = {operand: self.clone(operand) for operand in value.owner.operands}
            self.add(copy_operation(value.owner, known))
            self._cloned |= {result: known[result] for result in value.owner.results}
        return self._cloned[value]

    def groups(self, block: _Block) -> range:
        """Numbers of the descriptors of a block, counted from its column's first row."""
        height = CHUNK_BYTES // desc_of(block.loads[0].desc).dtype.bytes
        return range(block.first[1] // height, (block.first[1] + len(block.loads)) // height)

    def desc(self, block: _Block, group: int) -> SSAValue:
        """Descriptor of some rows of a column of rows: each lane's chunk of them."""
        column, dtype = block.first[0], desc_of(block.loads[0].desc).dtype
        if (key := (block.array, column, group)) not in self._made:
            lanes = chunk_lanes(self.lanes, dtype)
            rows = self.add(ExtractStridedSliceOp(self.spread(column, lanes), (group, 0), (1, 1)))
            offsets = self.add(arith.AddiOp(rows, self.chunks(lanes, lanes.wi_layout, dtype)))
            self._made[key] = self.desc_of_chunks(block.array, offsets, dtype)
        return self._made[key]

    def end(self, plan: _Plan) -> SSAValue:
        """The counter of the first step in which something may be out of bounds; the loop's first if one already is."""
        asked: dict[tuple[tuple[SSAValue, ...], tuple[SSAValue, ...]], tuple[int, dict[Column, None]]] = {}
        counter, first = self.loop.body.block.args[0], self.loop.lb
        for low, high in (pair for block in plan.blocks for pair in block.bounds):
            key = tuple(term for term in low.terms if term is not counter), high.terms
            reach = low.constant + (self.lanes - 1) * low.lane - high.constant
            old, columns = asked.get(key, (reach, {}))
            asked[key] = max(reach, old), {**columns, **{column: None for column, _ in high.rows}}
        ends = [self._difference([*self._least(list(columns)), *high], [*low], -reach)
                for (low, high), (reach, columns) in asked.items()]
        end = reduce(lambda a, b: self.add(arith.MinSIOp(a, b)), ends)
        floors: dict[tuple[SSAValue, ...], int] = {}
        for floor in plan.floors:
            others = tuple(term for term in floor.terms if term is not counter)
            floors[others] = min(floor.constant, floors.get(others, floor.constant))
        for others, constant in floors.items():
            lowest = self._difference([first, *others], [], constant)
            if number(lowest) is None:
                holds = self.add(CmpIOp(lowest, self.inserter.constant(0), "sge"))
                end = self.add(SelectOp(holds, end, first))
        return self._if_aligned(plan, end)

    def _if_aligned(self, plan: _Plan, end: SSAValue) -> SSAValue:
        """An end for loads at multiples of what a lane takes; where that is only known at run time, it is asked."""
        counter, none = self.loop.body.block.args[0], self.inserter.constant(0)
        positions = {(block.at, CHUNK_BYTES // desc_of(block.loads[0].desc).dtype.bytes): None for block in plan.blocks}
        for at, chunk in positions:
            others = [term for term in at.terms if term is not counter]
            start = self._difference([self.loop.lb, *others], [], at.constant % chunk)
            if multiple_of(start) % chunk:
                rest = self.add(arith.AndIOp(start, self.inserter.constant(chunk - 1)))
                end = self.add(SelectOp(self.add(CmpIOp(rest, none, "eq")), end, self.loop.lb))
        return end

    def _difference(self, plus: Sequence[SSAValue], minus: Sequence[SSAValue], constant: int) -> SSAValue:
        """A sum of indices from before the loop."""
        total = self.inserter.constant(0)
        for term in plus:
            total = self.inserter.add(self.loop, total, term)
        for term in minus:
            total = self.inserter.subtract(self.loop, total, term)
        return self.inserter.add(self.loop, total, constant)

    def _least(self, columns: Sequence[Column]) -> list[SSAValue]:
        """The least number of columns; nothing of no columns."""
        found = list[SSAValue]()
        for shape in dict.fromkeys((column.lanes, column.size) for column in columns):
            sources = [self.add(IndexCastOp(self.clone(column.value), vector_type((1, 1), i32)))
                       for column in columns if (column.lanes, column.size) == shape]
            least = self.add(ReduceOp("minsi", sources, (0, 1), vector_type((1, 1), i32),
                                      (shape[0], LaneMap((1, 1))), (shape[1], 1)))
            found.append(self.add(IndexCastOp(self.add(ExtractScalarOp(least)), IndexType())))
        if not found:
            return []
        least = reduce(lambda a, b: self.add(arith.MinSIOp(a, b)), found)
        return [self.add(arith.MaxSIOp(least, self.inserter.constant(-_FAR)))]
