"""Row chunks: gathers of single rows that make up a block, and descriptors of 8 bytes of its rows a lane."""

from __future__ import annotations

from xdsl.dialects import arith, func, ub
from xdsl.dialects.builtin import ArrayAttr, IndexType, StringAttr
from xdsl.dialects.vector import BroadcastOp as VectorBroadcastOp
from xdsl.ir import Operation, SSAValue

from xegpu.analysis.dataflow.lane_offsets import Column
from xegpu.dialect.gather_scatter import CHUNK_BYTES, CreateTdescOp, LoadGatherOp
from xegpu.dialect.reduction import BroadcastOp
from xegpu.dialect.types import ScatterTdesc, TensorDesc, TensorDescType
from xegpu.dialect.vector import IotaOp
from xegpu.ir.dtypes import DType
from xegpu.layout.lane_map import LaneMap
from xegpu.mlir.vector import InsertStridedSliceOp, ShapeCastOp, shape_of, values_of, vector_type
from xegpu.rewrite.inserter import Inserter

MOST_ROWS = 8
"""Most rows of a block: a variable of eight words."""


def gathers_of(last: InsertStridedSliceOp) -> list[LoadGatherOp] | None:
    """The gathers whose results are the rows of a block, in order; None if anything else is in it.

    Args:
        last: the operation that puts the block's last row to the others.
    """
    count, found = shape_of(last.result)[0], dict[int, LoadGatherOp]()
    insert: Operation = last
    while isinstance(insert, InsertStridedSliceOp):
        cast = insert.source.owner
        load = cast.source.owner if isinstance(cast, ShapeCastOp) else None
        if not isinstance(load, LoadGatherOp) or shape_of(load.result) != (1,):
            return None
        found[values_of(insert.offsets)[0]] = load
        below = insert.dest.owner
        assert isinstance(below, Operation), "a block is put together from nothing"
        insert = below
    complete = isinstance(insert, ub.PoisonOp) and sorted(found) == list(range(count))
    return [found[row] for row in range(count)] if complete else None


def block_arrays(function: func.FuncOp) -> frozenset[SSAValue]:
    """The arrays of a kernel that 2D block messages may reach."""
    kinds = function.attributes.get("xegpu.access")
    if not isinstance(kinds, ArrayAttr):
        return frozenset()
    return frozenset(argument for argument, kind in zip(function.body.block.args, kinds.data, strict=True)
                     if isinstance(kind, StringAttr) and kind.data == "block")


def chunk_lanes(lanes: int, dtype: DType) -> LaneMap:
    """The lane map of chunks: those of ``lanes`` elements of a row side by side, and as many rows as fit."""
    across = lanes * dtype.bytes // CHUNK_BYTES
    return LaneMap((lanes // across, across))


class RowChunks:
    """Builder of descriptors of chunks.

    Args:
        inserter: for the function.
        anchor: the operation in front of which they are inserted.
        lanes: of a subgroup.
    """

    def __init__(self, inserter: Inserter, anchor: Operation, lanes: int) -> None:
        self.inserter, self.anchor, self.lanes = inserter, anchor, lanes
        self._made: dict[object, SSAValue] = {}

    def add(self, operation: Operation) -> SSAValue:
        """Insert an operation; its first result."""
        return self.inserter.before(self.anchor, operation)

    def clone(self, value: SSAValue) -> SSAValue:
        """A value as it is at the anchor."""
        return value

    def desc_of_chunks(self, array: SSAValue, offsets: SSAValue, dtype: DType) -> SSAValue:
        """Descriptor of a chunk for each lane, whose offsets are a fragment of one element."""
        chunk = CHUNK_BYTES // dtype.bytes
        type_ = TensorDescType(TensorDesc((self.lanes, chunk), dtype.mlir, sg_map=LaneMap((self.lanes, 1)),
                                          scatter=ScatterTdesc(chunk_size=chunk)))
        return self.add(CreateTdescOp(array, self.add(ShapeCastOp(offsets, (1,))), type_))

    def chunks(self, lanes: LaneMap, block: tuple[int, int], dtype: DType) -> SSAValue:
        """Start of a lane's chunk in its row, for each row that it has of a block of chunks."""
        if (lanes, block, dtype) not in self._made:
            type_ = vector_type(lanes.fragment(block), IndexType())
            number = self.add(IotaOp(self.inserter.constant(0), 1, type_, block, lanes))
            size = self.add(VectorBroadcastOp(self.inserter.constant(CHUNK_BYTES // dtype.bytes), type_))
            self._made[lanes, block, dtype] = self.add(arith.MuliOp(number, size))
        return self._made[lanes, block, dtype]

    def spread(self, column: Column, lanes: LaneMap) -> SSAValue:
        """A column, repeated over the chunks of its rows."""
        if (column, lanes) not in self._made:
            block = (column.size, lanes.wi_layout[1])
            self._made[column, lanes] = self.add(BroadcastOp(
                self.clone(column.value), (1,), vector_type(lanes.fragment(block), IndexType()), (column.lanes, lanes),
                block))
        return self._made[column, lanes]
