"""Coalescing of gathers that a subgroup publishes in SLM, of rows that are looked up in each step.

    %row = broadcast %first [1] ; %o = addi %row, %column                            // 8x16, of which this is row 3:
    %d = create_tdesc %V, (%o[3]) ; %m = cmpi slt, %column, %end[3] ; %v = load_gather %d, %m
becomes
    %d0 = create_tdesc %V, (%first[lane / 4] + 4 * (lane % 4)) : tensor_desc<16x4xbf16, #scatter>     // rows 0 to 3
    %v = load_rows [%0] %d0, %d1 lengths (%end[lane / 4] - 4 * (lane % 4), ...)

Where the mask does not depend on the column, rows are there or not as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import IndexType
from xdsl.dialects.memref import ExtractStridedMetaDataOp
from xdsl.dialects.vector import BroadcastOp as VectorBroadcastOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import NoMemoryEffect

from xegpu.analysis import slm
from xegpu.analysis.dataflow.divisibility import multiple_of
from xegpu.analysis.dataflow.lane_offsets import Affine, Column, LaneOffsets, source_of
from xegpu.dialect.block_io import LoadNdOp, StoreNdOp, desc_of
from xegpu.dialect.gather_scatter import CHUNK_BYTES, WORD_BITS, CreateTdescOp, LoadGatherOp, LoadRowsOp, scatter_of
from xegpu.dialect.hints import hints_of
from xegpu.ir.dtypes import DType
from xegpu.ir.kernel_attributes import function_of, subgroup_size
from xegpu.ir.matchers import number
from xegpu.mlir.arith import SelectOp
from xegpu.mlir.vector import ExtractStridedSliceOp, InsertStridedSliceOp, shape_of, vector_type
from xegpu.passes.loops.row_chunks import MOST_ROWS, RowChunks, block_arrays, chunk_lanes, gathers_of
from xegpu.rewrite.dce import erase
from xegpu.rewrite.inserter import Inserter

_BITS = (16, 32)
_NEAR = 64
"""Elements that chunks of one descriptor may lie apart: 256 bytes, which is what there are of zeros to read in the
place of a row that is not there."""


@dataclass(frozen=True)
class _Rows:
    """A block of rows.

    Attributes:
        loads: its gathers, a row each.
        array: that they read.
        column: the offsets of rows, of which ``first`` is the block's first.
        first: number of that row.
        at: added to all offsets.
        low: a column's number, the same in all lanes where rows are there as a whole.
        ends: where each row ends.
    """

    loads: Sequence[LoadGatherOp]
    array: SSAValue
    column: Column
    first: int
    at: Affine
    low: Affine
    ends: Column

    @property
    def dtype(self) -> DType:
        """Its element type."""
        return desc_of(self.loads[0].desc).dtype


def shares_in(around: Operation) -> Iterator[InsertStridedSliceOp]:
    """The operations that complete a block whose only use is a store to shared local memory, in order: later ones share
    what earlier ones compute."""
    if isinstance(around, func.FuncOp):
        functions = [around]
    else:
        functions = [each for region in around.regions for each in region.block.ops if isinstance(each, func.FuncOp)]
    for function in functions:
        for last in function.walk() if slm.allocations(function) else ():
            if isinstance(last, InsertStridedSliceOp) and last.result.has_one_use() and isinstance(
                    store := next(iter(last.result.uses)).operation, StoreNdOp) and \
                    desc_of(store.desc).block.memory_scope == "slm":
                yield last


class ShareCoalescer:
    """Coalesces the rows of blocks; those of one step have their descriptors in common."""

    def __init__(self) -> None:
        self._builders: dict[Block, _Builder] = {}

    def plan(self, last: InsertStridedSliceOp) -> _Rows | None:
        """The rows of a block that can be coalesced; None if they cannot."""
        loads, function = gathers_of(last), function_of(last)
        if loads is None or any(hints_of(load) or load.number for load in loads) or not _is_alone(last, loads):
            return None
        return _rows(loads, LaneOffsets(subgroup_size(function), block_arrays(function)))

    def coalesce(self, inserter: Inserter, last: InsertStridedSliceOp, rows: _Rows) -> None:
        """Load a block by rows."""
        assert last.parent is not None
        builder = self._builders.setdefault(last.parent, _Builder(inserter, last, subgroup_size(last)))
        builder.anchor = last
        loaded = inserter.before(last, builder.load(rows), last.result.name_hint)
        last.result.replace_all_uses_with(loaded)
        insert: Operation = last
        while isinstance(insert, InsertStridedSliceOp):
            below, cast = insert.dest.owner, insert.source.owner
            erase(insert)
            assert isinstance(below, Operation)
            assert isinstance(cast, Operation)
            erase(cast)
            insert = below
        for load in rows.loads:
            erase(load)


def _is_alone(last: InsertStridedSliceOp, loads: Sequence[LoadGatherOp]) -> bool:
    """Whether a block's rows are used for nothing else, and nothing is written before the block is complete."""
    operation: Operation | None = last
    waiting, made = set(loads), last
    while isinstance(made, InsertStridedSliceOp):
        if not (made.result.has_one_use() and made.source.has_one_use()):
            return False
        made = made.dest.owner  # type: ignore[assignment]
    while operation is not None and waiting:
        if not (operation.has_trait(NoMemoryEffect) or isinstance(operation, (LoadGatherOp, LoadRowsOp, LoadNdOp))):
            return False
        waiting.discard(operation)  # type: ignore[arg-type]
        operation = operation.prev_op
    return not waiting and all(load.result.has_one_use() for load in loads)


def _rows(loads: Sequence[LoadGatherOp], analysis: LaneOffsets) -> _Rows | None:
    """A block of gathers as one of rows that begin at multiples of 8 bytes, in an array that block messages reach."""
    makers = [owner for load in loads if isinstance(owner := load.desc.owner, CreateTdescOp)]
    desc = desc_of(loads[0].desc)
    size, height = desc.dtype.bytes, CHUNK_BYTES // desc.dtype.bytes
    if len(makers) < len(loads) or desc.dtype.bits not in _BITS or len(loads) > MOST_ROWS or len(loads) % height or \
            scatter_of(desc).chunk_size != 1:
        return None
    array, start = makers[0].source, analysis.element(makers[0].offsets, 0)
    if array not in analysis.arrays or start is None or len(start.rows) != 1 or start.lane != 1:
        return None
    (column, row), at = start.rows[0], Affine(start.constant, 0, start.terms)
    if any(maker.source is not array or analysis.element(maker.offsets, 0) != Affine(
            at.constant, 1, at.terms, ((column, row + i),)) for i, maker in enumerate(makers)):
        return None
    if gcd(at.constant, row, column.size, analysis.multiple_of(column.value, size),
           *(analysis.multiple_of(term, size) for term in at.terms)) % height:
        return None
    bounds = [analysis.bounds(load.mask, 0) for load in loads]
    if not bounds[0] or any(floor.rows or floor.terms or floor.constant < 0 for floor in analysis.floors):
        return None
    low, high = bounds[0][0]
    if len(high.rows) != 1 or any(pair != [(low, Affine(rows=((high.rows[0][0], row + i),)))]
                                  for i, pair in enumerate(bounds)) or low.rows or low.lane not in (0, 1):
        return None
    ends, words = high.rows[0][0], max(1, WORD_BITS // 8 // size)
    if ends.size != column.size:
        return None
    if low.lane and (gcd(low.constant, *map(multiple_of, low.terms)) % words or
                     not _ends_in_words(ends.value, analysis, words)):
        return None
    return _Rows(loads, array, column, row, at, low, ends)


def _ends_in_words(end: SSAValue, analysis: LaneOffsets, words: int) -> bool:
    """Whether rows' ends are multiples: as those of arrays that block messages reach are of 4 bytes."""
    end, _ = source_of(end, 0)
    owner = end.owner
    if isinstance(owner, SelectOp):
        return all(_ends_in_words(side, analysis, words) for side in (owner.lhs, owner.rhs))
    if isinstance(owner, VectorBroadcastOp):
        return _ends_in_words(owner.source, analysis, words)
    if isinstance(owner, ExtractStridedMetaDataOp):
        return owner.source in analysis.arrays and end is owner.sizes[-1]
    return number(end) is not None and (number(end) or 0) % words == 0


class _Builder(RowChunks):
    """Builder of the loads of rows, in a block of operations."""

    def load(self, rows: _Rows) -> LoadRowsOp:
        """The load of a block of rows, which is not inserted yet."""
        dtype, near = rows.dtype, rows.at.constant % _NEAR
        height = CHUNK_BYTES // dtype.bytes
        groups = range(rows.first // height, (rows.first + len(rows.loads)) // height)
        place = rows.array, rows.column, rows.at.constant - near, rows.at.terms
        descs = [self._desc(rows, group, place) for group in groups]
        lengths = self.add(ExtractStridedSliceOp(self._lengths(rows, near), (groups[0], 0), (len(groups), 1)))
        return LoadRowsOp(descs, self.inserter.constant(near), lengths, whole=not rows.low.lane)

    def _desc(self, rows: _Rows, group: int, place: tuple[SSAValue, Column, int, tuple[SSAValue, ...]]) -> SSAValue:
        """Descriptor of a group of rows."""
        lanes = chunk_lanes(self.lanes, rows.dtype)
        if (place, group) not in self._made:
            if place not in self._made:
                begins = self._moved(self.spread(rows.column, lanes), place[2], place[3])
                self._made[place] = self.add(arith.AddiOp(begins, self._chunks(rows)))
            offsets = self.add(ExtractStridedSliceOp(self._made[place], (group, 0), (1, 1)))
            self._made[place, group] = self.desc_of_chunks(rows.array, offsets, rows.dtype)
        return self._made[place, group]

    def _lengths(self, rows: _Rows, near: int) -> SSAValue:
        """Number of elements from each chunk on, or of a row that is in bounds as a whole."""
        low = rows.low
        constant = low.constant - near if low.lane else low.constant
        key = rows.ends, constant, low.terms, low.lane
        if key not in self._made:
            ends = self.spread(rows.ends, chunk_lanes(self.lanes, rows.dtype))
            if low.lane:
                ends = self.add(arith.SubiOp(ends, self._chunks(rows)))
            self._made[key] = self._moved(ends, constant, low.terms, arith.SubiOp)
        return self._made[key]

    def _chunks(self, rows: _Rows) -> SSAValue:
        lanes = chunk_lanes(self.lanes, rows.dtype)
        return self.chunks(lanes, (rows.column.size, lanes.wi_layout[1]), rows.dtype)

    def _moved(self, fragment: SSAValue, constant: int, terms: Sequence[SSAValue],
               by: type[arith.AddiOp | arith.SubiOp] = arith.AddiOp) -> SSAValue:
        """A fragment to which a sum of numbers is added, or from which it is subtracted."""
        total = self.inserter.constant(0)
        for term in terms:
            total = self.inserter.add(self.anchor, total, term)
        total = self.inserter.add(self.anchor, total, constant)
        if number(total) == 0:
            return fragment
        return self.add(by(fragment, self.add(VectorBroadcastOp(total, vector_type(shape_of(fragment), IndexType())))))
