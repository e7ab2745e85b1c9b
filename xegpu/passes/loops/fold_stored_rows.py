"""Row folding of stores to matrices of any number of rows: surfaces whose rows are those of several matrices.

    %a = load_nd %A {valid = [33, 33]} ; ... ; %c0 = dpas %a[0:8], ... ; store_nd %c0, %C + [0, 0] {valid} ; ...
becomes, in the first of four steps
    %a0 = load_nd %A4 + [%row, 0] ; ... ; %c0 = dpas %a0, ... ; store_nd %c0, %C0 + [%row, 0]        rows 0, 4, 8 ... 28
    %a1 = load_nd %A4 + [%row, 33] ; ... ; %c1 = dpas %a1, ... ; store_nd %c1, %C1 + [%row, 0]       rows 1, 5, 9 ... 29

Rows of 33 words are no surface's of 2D block messages, four as one are, and the rows of four matrices make 33 of them.
So four steps are one, and of each the rows 0, 4, 8 ... of the surface's are a block of the sums, where those that are
left of several make a block together. Operand A has the same rows; it is a run of memory, of which each is moved to its
block anyway. 2D block messages store the sums without a move, and nothing behind the end of a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import gcd

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue

from xegpu.analysis.block_position import position_of
from xegpu.dialect.block_io import LoadNdOp, StoreNdOp, UpdateNdOffsetOp, desc_of
from xegpu.dialect.dpas import DpasOp
from xegpu.dialect.hints import hinted
from xegpu.ir.matchers import MAIN_LOOP, number
from xegpu.mlir.arith import CmpIOp
from xegpu.mlir.vector import integers
from xegpu.passes.loops.batch_matrix import MESSAGES, MOST_PRODUCTS, Matrix, heights
from xegpu.passes.loops.clipped_folding import BLOCK, Part, inset_of, is_operand_a, top_of
from xegpu.passes.loops.fold_clipped_rows import ClippedRowFolder, type_of
from xegpu.passes.loops.fold_rows import COLUMNS, place_of, rows_of, stores_all_rows
from xegpu.target.block2d import COLUMN_ALIGNMENT, PITCH_ALIGNMENT
from xegpu.target.targets import Target

_TOGETHER = (2, 4)
"""Rows in one of a surface: a row of whole words has a multiple of 4 bytes, a pitch one of 16."""
_MESSAGE = {True: 2, False: 5}
"""Instructions that a message takes with its address, on devices whose messages take distances, and on others."""
_RUN = 256
"""Bytes of a 1D block message that stores a run."""


@dataclass(frozen=True)
class StoredFolding:
    """Row folding of the stores of a loop.

    Attributes:
        loads: the matrices that are operand A.
        stores: the matrices that are stored.
        rows: of each.
        together: how many a surface has in each of its own.
        factor: steps that are one.
    """

    loads: tuple[Matrix, ...]
    stores: tuple[Matrix, ...]
    rows: int
    together: int
    factor: int
    stores_last = False
    early = ()
    """Matrices that later steps load in the first one: none."""

    @property
    def matrices(self) -> tuple[Matrix, ...]:
        """The matrices that are folded."""
        return self.stores

    def blocks(self, position: int) -> tuple[tuple[Part, ...], ...]:
        """The rows that the blocks of a step's matrix have, of the surface's from where the first step's begin."""
        return blocks_of(self.rows, self.together, position)


def blocks_of(rows: int, together: int, position: int) -> tuple[tuple[Part, ...], ...]:
    """Blocks of a matrix of ``rows`` rows behind ``position`` others: whole ones of each side, and what is left in
    parts of 4, 2 and 1, of which as many as there are make a block."""
    whole: list[tuple[Part, ...]] = []
    left: list[Part] = []
    for side in range(together):
        first, end = (-(-(at * rows - side) // together) for at in (position, position + 1))
        rest = first + (end - first) // BLOCK * BLOCK
        whole += [(Part(together, side, at, BLOCK),) for at in range(first, rest, BLOCK)]
        for count in (4, 2, 1):
            if (end - rest) & count:
                left.append(Part(together, side, rest, count))
                rest += count
    left.sort(key=lambda part: -part.count)  # powers of two: none crosses the end of a block
    blocks, filled = list[list[Part]](), BLOCK
    for part in left:
        if filled == BLOCK:
            blocks.append([])
            filled = 0
        blocks[-1].append(part)
        filled += part.count
    return *whole, *map(tuple, blocks)


def stored_folding_of(loop: scf.ForOp, matrices: Sequence[Matrix], target: Target) -> StoredFolding | None:
    """Row folding of the stores of a loop over matrices of known sizes; None where it saves no messages."""
    rows = heights(matrices)
    if not target.block_io or target.register_bytes != 4 * COLUMNS or MAIN_LOOP in loop.attributes or \
            number(loop.step) != 1 or not rows or len(loop.iter_args) or \
            not all(matrix.sizes and number(matrix.maker.offsets[-2]) == number(matrix.maker.offsets[-1]) == 0
                    for matrix in matrices) or \
            {operation for operation in loop.body.block.ops if isinstance(operation, MESSAGES)} != \
            {message for matrix in matrices for message in matrix.messages}:
        return None
    stores = tuple(matrix for matrix in matrices if matrix.is_stored)
    loads = tuple(matrix for matrix in matrices if all(is_operand_a(message) for message in matrix.messages))
    if not stores or not loads or len({rows[matrix] for matrix in (*stores, *loads)}) > 1 or \
            not all(matrix.is_clipped and matrix.access == "rows" for matrix in (*stores, *loads)):
        return None
    height, operands = rows[stores[0]], dict[Operation, int]()
    for matrix in loads:
        operands |= {message: top_of(message) for message in matrix.messages}
    ends = [top + desc_of(message.desc).shape[0] for message, top in operands.items()]  # type: ignore[attr-defined]
    if max(ends) >= height + BLOCK or any(top % BLOCK for top in operands.values()) or \
            not all(_is_stored_in_place(matrix, operands) for matrix in stores) or not stores_all_rows(stores, height):
        return None
    products = sum(isinstance(operation, DpasOp) for operation in loop.body.block.ops)
    period = max(matrix.period for matrix in matrices)
    for together in _TOGETHER:
        factor = max(period, together // gcd(height, together))
        folding = StoredFolding(loads, stores, height, together, factor)
        if factor * products <= MOST_PRODUCTS and all(_has_surfaces(matrix, together) for matrix in stores) and \
                _saves(folding, target):
            return folding
    return None


def _is_stored_in_place(matrix: Matrix, operands: dict[Operation, int]) -> bool:
    """Whether blocks of sums alone are stored to a matrix, each at the rows that it has in operand A."""
    return all(isinstance(message, StoreNdOp) and desc_of(message.desc).shape == (BLOCK, COLUMNS)
               and (place := place_of(message, matrix)) is not None and place[0] % BLOCK == 0
               and rows_of(message.value, operands) == {place[0]} for message in matrix.messages)


def _has_surfaces(matrix: Matrix, together: int) -> bool:
    """Whether surfaces with so many rows of a matrix in each of their own see one of these each."""
    desc, sizes = desc_of(matrix.maker.result), matrix.sizes
    assert sizes is not None
    row = sizes[1] * desc.dtype.bytes
    return desc.dtype.bits in (16, 32) and row % COLUMN_ALIGNMENT == 0 and row * together % PITCH_ALIGNMENT == 0 and \
        all(inset_of(side * row, row) + row <= together * row for side in range(together))


def _saves(folding: StoredFolding, target: Target) -> bool:
    """Whether blocks of a step take fewer instructions than a run: messages, and moves of parts of blocks to registers
    from which they are stored, and to which they are loaded, instead of one move for each row of a block."""
    each, folded, run = _MESSAGE[target.immediate_offsets], 0, 0
    blocks = folding.blocks(0)
    pieces, moves = sum(map(len, blocks)), sum(BLOCK for block in blocks if len(block) > 1)
    for matrix in folding.stores:
        assert matrix.sizes is not None
        across = -(-matrix.sizes[1] // COLUMNS)
        folded += across * (pieces * each + moves)
        bytes_ = folding.rows * matrix.sizes[1] * desc_of(matrix.maker.result).dtype.bytes
        run += across * folding.rows + -(-bytes_ // _RUN) * each
    for matrix in folding.loads:
        assert matrix.sizes is not None
        folded += -(-matrix.sizes[1] // COLUMNS) * moves // 2
    return folded < run


@dataclass
class StoredRowFolder(ClippedRowFolder):
    """Folds the rows of the values that a loop's steps store, after the steps have been written."""

    folding: StoredFolding  # type: ignore[assignment]
    _matrices: dict[Operation, Matrix] = field(default_factory=dict)
    _firsts: dict[SSAValue, None] = field(default_factory=dict)
    _rows: dict[SSAValue, SSAValue] = field(default_factory=dict)
    _position: int = 0

    def begin(self, matrix: Matrix, first: SSAValue) -> None:
        """Take note of a matrix before its descriptor is one on all of them; ``first`` is the number of the first."""
        if matrix in (*self.folding.loads, *self.folding.stores):
            self._matrices |= dict.fromkeys(matrix.messages, matrix)
            self._firsts[first] = None

    def fold_steps(self, steps: Sequence[Sequence[Operation]], body: Sequence[Operation]) -> None:
        """Access operand A and the stored values by rows of surfaces, in all steps.

        Args:
            steps: their operations.
            body: the operations of the first step that the others have as well, in the same order.
        """
        for position, step in enumerate(steps):
            self._position = position
            of_body = dict(zip(step if position else body, body, strict=True))
            for message in list(of_body):
                if (matrix := self._matrices.get(of_body[message])) is None:
                    continue
                row = self._row(matrix)
                if isinstance(message, LoadNdOp):
                    self._load_blocks(matrix, message, self.folding.rows, row)
                else:
                    assert isinstance(message, StoreNdOp)
                    self._store(matrix, message, self.folding.rows, row)

    def holds(self) -> Iterator[SSAValue]:
        """Guard of the loop: whether there are such surfaces, and steps begin with a whole row of them."""
        constant = self.inserter.constant
        for first in self._firsts:
            within = self.before(arith.AndIOp(first, constant(self.folding.factor - 1)), None)
            yield self.before(CmpIOp(within, constant(0), "eq"), None)
        yield from super().holds()

    @property
    def _blocks(self) -> tuple[tuple[Part, ...], ...]:
        return self.folding.blocks(self._position)

    def _top(self, message: LoadNdOp) -> int:
        return position_of(message.desc).row.constant - self._position * self.folding.rows

    def _place(self, message: StoreNdOp, matrix: Matrix) -> tuple[int, int]:
        at = position_of(message.desc)
        return at.row.constant - self._position * self.folding.rows, at.column.constant

    def _height(self, matrix: Matrix, rows: int, together: int) -> SSAValue:
        every = self.before(arith.MuliOp(matrix.count, self.inserter.constant(rows)), "rows")
        return self.before(arith.ShRUIOp(every, self.inserter.constant(together.bit_length() - 1)), "rows")

    def _row(self, matrix: Matrix) -> SSAValue:
        """The row of the surfaces where the first step's matrix begins."""
        offset, constant, folding = matrix.maker.offsets[matrix.axis], self.inserter.constant, self.folding
        if offset not in self._rows:
            assert matrix.maker.parent is not None
            anchor = offset.owner.next_op if isinstance(offset.owner, Operation) else matrix.maker.parent.first_op
            assert anchor is not None
            several = self.inserter.before(anchor, arith.ShRUIOp(offset, constant(folding.factor.bit_length() - 1)))
            each = folding.rows * folding.factor // folding.together
            self._rows[offset] = self.inserter.before(anchor, arith.MuliOp(several, constant(each)), "row")
        return self._rows[offset]

    def _load_part(self, matrix: Matrix, message: LoadNdOp, part: Part, rows: int, row: SSAValue) -> SSAValue:
        """Load a part of a block of operand A from its run of memory."""
        inserter, old, left = self.inserter, desc_of(message.desc), position_of(message.desc).column.constant
        assert matrix.sizes is not None
        columns, is_whole = matrix.sizes[1], len(self._blocks_with(part)) == 1
        shape = BLOCK if is_whole else part.count, old.shape[1]
        width = part.together * columns
        surface = self._described(matrix, 0, 0, (self._height(matrix, rows, part.together), width, width),
                                  type_of(matrix, message).with_(shape=shape))
        offsets = [inserter.add(message, row, part.first), inserter.constant(part.side * columns + left)]
        load = hinted(LoadNdOp(inserter.before(message, UpdateNdOffsetOp(surface, offsets))), message)
        valid = part.count, max(min(columns - left, old.shape[1] * old.block.array_length), 0)
        load.properties |= {"in_bounds": UnitAttr(), "valid": integers(valid)}
        load.qword_aligned = message.qword_aligned
        return inserter.before(message, load, message.result.name_hint)

    def _blocks_with(self, part: Part) -> tuple[Part, ...]:
        """The parts of the block that has one."""
        return next(block for block in self._blocks if part in block)
