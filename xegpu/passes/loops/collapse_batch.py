"""Collapses the batch dimension of arrays in loops of small products: all matrices are rows of one (loop versioning).

    scf.for %i = %0 to %n step %1 {
      %a = create_nd_tdesc %A, [%i, %0, %0], [%batch, %height, %width], [%distance, %pitch, %1]
      %v = load_nd %a : tensor_desc<16x16xbf16, access = rows> ; ... }
becomes
    %rows = muli %batch, %height
    %A1 = create_nd_tdesc %A, [%0, %0, %0], [%1, %rows, %16], [%distance, %16, %1]
    %end = select %holds, (minsi %n, %batch), %0
    %rest = scf.for %i = %0 to %end step %1 {
      %row = muli %i, %height ; %a = update_nd_offset %A1, [%row, %0] ; %v = load_nd %a {in_bounds} ; ... }
      {xegpu.main_loop}
    scf.for %i = %rest to %n step %1 { as before }

Each step of the loop that was written has other matrices, so that base addresses and bounds are computed anew, and of
each 2D block message the whole address. In the first loop of the two only a row changes. It runs where %holds, which is
asked once: the matrices lie behind each other (``distance = height * pitch``), and all rows that a step reaches are
rows of its own matrix. What is reached without 2D block messages must be whole rows of a narrow array, whose width and
pitch are the tile's columns: such rows are contiguous, and 1D block messages take several at once. Columns beyond an
array's are left to 2D block messages, which know its width.

Loops are taken that multiply, are straight, and make descriptors whose matrix the counter numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import IntegerAttr, MemRefType, ModuleOp, UnitAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.traits import Pure

from xegpu.analysis.block_position import OffsetOf, is_inside, position_of
from xegpu.dialect.block_io import (
    CreateNdTdescOp,
    LoadNdOp,
    PrefetchNdOp,
    StoreNdOp,
    UpdateNdOffsetOp,
    desc_of,
)
from xegpu.dialect.bounds import ALIGNMENT, STORE_ALIGNMENT, InBoundsOp, fills_writes
from xegpu.dialect.dpas import DpasOp, DpasScaledOp, MadOp
from xegpu.dialect.types import TensorDescType
from xegpu.ir.matchers import DISABLE_UNROLL, MAIN_LOOP, main_loop_of, number
from xegpu.ir.memref import is_address
from xegpu.ir.region_branch import for_loops
from xegpu.mlir.arith import CmpIOp, IndexCastOp, SelectOp
from xegpu.passes.licm import terms
from xegpu.passes.loops.unroll import split_loop
from xegpu.rewrite.inserter import Inserter, rewrite_in_place

_PRODUCTS = (DpasOp, DpasScaledOp, MadOp)
_MESSAGES = (LoadNdOp, StoreNdOp, PrefetchNdOp)
_Message = LoadNdOp | StoreNdOp | PrefetchNdOp
_MOST_ROWS = {"block": 1 << 24, "rows": 1 << 30}
"""Rows of all matrices together, as the surface of a 2D block message has them, and as an index counts them."""
_FARTHEST = 1 << 30
"""Where a counter stops whose step is not known: it stays within 32 bits behind the last one."""


@dataclass(frozen=True)
class CollapseBatch:
    """The pass; it has no options."""

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with loops over one matrix each; itself where no loop goes over a batch."""
        if not _has_batches(module):
            return module
        return rewrite_in_place(module, _candidates, _matrices, _split, erases=True)


def guarded_arrays(module: ModuleOp) -> tuple[str, ...]:
    """What each array must have for the first loops to run, beside matrices behind each other.

    Args:
        module: the kernel before the pass, or after passes that left it as it was.
    """
    found: dict[str, None] = {}
    for loop in _candidates(module):
        for matrix in _matrices(loop):
            first_row = number(matrix.maker.offsets[-2])
            rows = "the rows that tiles reach" if first_row is None else f"{first_row + matrix.rows[1]} rows or more"
            columns = f" of exactly {matrix.columns} elements" if matrix.access == "rows" else ""
            found[f"{matrix.maker.source.name_hint or 'an array'} with {rows}{columns}"] = None
    return tuple(found)


def _has_batches(module: ModuleOp) -> bool:
    """Whether a kernel takes arrays of more than two dimensions; most take none, and are not looked through."""
    return any(isinstance(argument.type, MemRefType) and len(argument.type.get_shape()) > 2
               for function in module.body.block.ops if isinstance(function, func.FuncOp)
               for argument in function.body.block.args)


def _split(inserter: Inserter, loop: scf.ForOp, matrices: list[_Matrix]) -> None:
    _Versions(inserter, loop).split(matrices)


def _candidates(around: Operation) -> Iterator[scf.ForOp]:
    """Straight loops of products, without those that do what a main loop leaves."""
    for loop in for_loops(around):
        if main_loop_of(loop) is None and \
                any(isinstance(operation, _PRODUCTS) for operation in loop.body.block.ops) and \
                all(isinstance(operation, (*_MESSAGES, scf.YieldOp)) or
                    (operation.has_trait(Pure) and not operation.regions) for operation in loop.body.block.ops):
            yield loop


@dataclass(frozen=True)
class _Matrix:
    """A descriptor on a matrix that the counter numbers.

    Attributes:
        maker: what makes it.
        axis: the leading offset that changes.
        others: what is added to the counter there.
        messages: what reaches memory through it.
        rows: the first row that they reach, and the one behind the last, from where the descriptor stands.
        columns: the column behind the last; of blocks of whole rows the array's width.
    """

    maker: CreateNdTdescOp
    axis: int
    others: tuple[SSAValue, ...]
    messages: tuple[_Message, ...]
    rows: tuple[int, int]
    columns: int

    @property
    def count(self) -> SSAValue:
        """How many matrices there are."""
        return self.maker.shape[self.axis]

    @property
    def height(self) -> SSAValue:
        """How many rows each of them has."""
        return self.maker.shape[-2]

    @property
    def access(self) -> str:
        """How its memory is reached: ``block`` or ``rows``."""
        return desc_of(self.maker.result).block.access

    @property
    def alignment(self) -> int:
        """What whole rows begin at a multiple of, in bytes, for the messages that they take."""
        return max(map(_alignment, self.messages))


def _alignment(message: _Message) -> int:
    """What the rows of a message begin at a multiple of, in bytes, where 1D block messages reach them."""
    return STORE_ALIGNMENT if isinstance(message, StoreNdOp) and fills_writes(desc_of(message.desc)) else ALIGNMENT


def _matrices(loop: scf.ForOp) -> list[_Matrix]:
    found = [_matrix(operation, loop) for operation in loop.body.block.ops if isinstance(operation, CreateNdTdescOp)]
    return [matrix for matrix in found if matrix is not None]


def _matrix(maker: CreateNdTdescOp, loop: scf.ForOp) -> _Matrix | None:
    """A descriptor as one of all matrices; None where it is not the counter alone that moves it to another one."""
    block, (*lead, row, column) = desc_of(maker.result).block, maker.offsets
    changing = [axis for axis, offset in enumerate(lead) if is_inside(offset, loop)]
    if not maker.shape or len(changing) != 1 or is_address(maker.source.type) or block.memory_scope != "global" or \
            block.access not in _MOST_ROWS or \
            any(is_inside(value, loop) for value in (maker.source, row, column, *maker.shape, *maker.strides)):
        return None
    counter, parts = loop.body.block.args[0], terms(lead[changing[0]])
    others = tuple(part for part in parts if part is not counter)
    messages = _messages(maker.result)
    if len(others) + 1 != len(parts) or any(is_inside(part, loop) for part in others) or not messages:
        return None
    boxes = [_box(message, maker) for message in messages]
    if not all(boxes):
        return None
    tops, lefts, bottoms, rights = zip(*(box for box in boxes if box), strict=True)
    if block.access == "rows" and (number(column) != 0 or min(lefts) < 0):
        return None
    return _Matrix(maker, changing[0], others, tuple(messages), (min(tops), max(bottoms)), max(rights))


def _messages(desc: SSAValue) -> list[_Message] | None:
    """What reaches memory through a descriptor and through those that it is moved to; None if anything else uses it."""
    found: list[_Message] = []
    for use in desc.uses:
        if isinstance(use.operation, _MESSAGES):
            found.append(use.operation)
        elif isinstance(use.operation, UpdateNdOffsetOp) and (moved := _messages(use.operation.result)) is not None:
            found += moved
        else:
            return None
    return found


def _box(message: _Message, maker: CreateNdTdescOp) -> tuple[int, int, int, int] | None:
    """Top and bottom of what a message reaches, from where its descriptor is made, with left and right columns; None
    where its row is not known, or without 2D block messages its column, or that is off the boundaries of 1D ones."""
    desc, at = desc_of(message.desc), position_of(message.desc)
    top, left = at.row.constant, at.column.constant
    is_aligned = not at.column.terms and left * desc.dtype.bytes % _alignment(message) == 0
    if at.root is not maker.result or at.row.terms != (OffsetOf(maker.result, 0),) or \
            (desc.block.access == "rows" and not is_aligned):
        return None
    return top, left, top + desc.shape[0], left + desc.shape[1] * desc.block.array_length


@dataclass
class _Versions:
    """The two versions of a loop.

    Attributes:
        inserter: for the function.
        loop: the loop.
    """

    inserter: Inserter
    loop: scf.ForOp
    _made: dict[Any, SSAValue] = field(default_factory=dict)
    _holds: dict[SSAValue, None] = field(default_factory=dict)

    def split(self, matrices: Sequence[_Matrix]) -> None:
        """Split the loop; the first of the two has the operations that it had."""
        if MAIN_LOOP not in self.loop.attributes:
            self.loop = split_loop(self.inserter, self.loop, 1)[0]
        main, ends = self.loop, dict.fromkeys((self.loop.ub, *map(self._end, matrices)))
        if number(main.step) is None:
            farthest = self.inserter.constant(_FARTHEST)
            ends[farthest] = None
            self._ask(main.step, "ule", farthest)
        for matrix in matrices:
            self._ask_of(matrix)
            self._collapse(matrix)
        end = reduce(lambda a, b: self._before(arith.MinSIOp(a, b)), ends)
        holds = reduce(lambda a, b: self._before(arith.AndIOp(a, b)), self._holds)
        end = self.inserter.before(main, SelectOp(holds, end, main.lb), "inside_end")
        main.operands = [main.lb, end, main.step, *main.iter_args]
        main.attributes[DISABLE_UNROLL] = UnitAttr()

    def _before(self, operation: Operation, hint: str | None = None) -> SSAValue:
        """Result of an operation before the loop, made once for equal operands."""
        key = operation.name, *operation.operands, *operation.properties.values(), *operation.result_types
        if key in self._made:
            operation.erase()
        else:
            self._made[key] = self.inserter.before(self.loop, operation, hint)
        return self._made[key]

    def _ask(self, left: SSAValue, predicate: str, right: SSAValue) -> None:
        """Ask before the loop for a comparison to hold, unless it surely does."""
        a, b = number(left), number(right)
        if a is None or b is None or not {"sge": a >= b, "sle": a <= b}.get(predicate):
            self._holds[self._before(CmpIOp(left, right, predicate))] = None

    def _wide(self, value: SSAValue) -> SSAValue:
        """An index in 64 bits."""
        return self._before(IndexCastOp(value, i64))

    def _end(self, matrix: _Matrix) -> SSAValue:
        """Where the counter has numbered all matrices."""
        return reduce(lambda end, other: self.inserter.subtract(self.loop, end, other), matrix.others, matrix.count)

    def _ask_of(self, matrix: _Matrix) -> None:
        """Ask whether a descriptor's matrices lie behind each other, and a step keeps to the rows of its own."""
        inserter, maker, zero = self.inserter, matrix.maker, self.inserter.constant(0)
        height, width, pitch = matrix.height, maker.shape[-1], maker.strides[-2]
        apart = self._before(arith.MuliOp(self._wide(height), self._wide(pitch)))
        self._ask(apart, "eq", self._wide(maker.strides[matrix.axis]))
        rows = self._before(arith.MuliOp(self._wide(matrix.count), self._wide(height)))
        self._ask(rows, "sle", self._before(arith.ConstantOp(IntegerAttr(_MOST_ROWS[matrix.access], i64))))
        first = reduce(lambda total, other: inserter.add(self.loop, total, other), matrix.others, self.loop.lb)
        self._ask(first, "sge", zero)
        top, bottom = (inserter.add(self.loop, maker.offsets[-2], end) for end in matrix.rows)
        self._ask(top, "sge", zero)
        self._ask(bottom, "sle", height)
        for axis, index in enumerate(maker.offsets[:-2]):
            if axis != matrix.axis:
                self._ask(index, "ult", maker.shape[axis])
        if matrix.access == "rows":
            columns = inserter.constant(matrix.columns)
            self._ask(width, "eq", columns)
            self._ask(pitch, "eq", columns)
            first_matrix, box = self._on_rows(matrix, matrix.height), (0, 0, 1, matrix.columns)
            self._holds[self._before(InBoundsOp(first_matrix, box, matrix.alignment), "inside")] = None

    def _on_rows(self, matrix: _Matrix, rows: SSAValue) -> SSAValue:
        """A descriptor before the loop on the first rows of all matrices as one."""
        inserter, maker = self.inserter, matrix.maker
        offsets, shape, strides = list(maker.offsets), list(maker.shape), list(maker.strides)
        offsets[matrix.axis], shape[matrix.axis] = inserter.constant(0), inserter.constant(1)
        shape[-2] = rows
        if matrix.access == "rows":
            shape[-1] = strides[-2] = inserter.constant(matrix.columns)
        kind = maker.result.type
        assert isinstance(kind, TensorDescType)
        new = CreateNdTdescOp(maker.source, offsets, shape, strides, kind)
        new.attributes.update(maker.attributes)
        return self._before(new, maker.result.name_hint)

    def _collapse(self, matrix: _Matrix) -> None:
        """Move a descriptor on all matrices to the one of a step, where the loop made one on that."""
        inserter, maker = self.inserter, matrix.maker
        row = inserter.before(maker, arith.MuliOp(maker.offsets[matrix.axis], matrix.height), "row")
        every = self._on_rows(matrix, self._before(arith.MuliOp(matrix.count, matrix.height), "rows"))
        moved = UpdateNdOffsetOp(every, [row, inserter.constant(0)])
        maker.result.replace_all_uses_with(inserter.before(maker, moved, maker.result.name_hint))
        for message in matrix.messages:
            if matrix.access == "rows" and not isinstance(message, PrefetchNdOp):
                message.properties["in_bounds"] = UnitAttr()
