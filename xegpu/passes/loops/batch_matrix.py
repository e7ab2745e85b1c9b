"""Analysis of descriptors on the matrices of a batch, which a loop's counter selects, and of their accesses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod

from xdsl.dialects import scf
from xdsl.ir import SSAValue

from xegpu.analysis.block_position import OffsetOf, is_inside, position_of
from xegpu.dialect.block_io import CreateNdTdescOp, LoadNdOp, PrefetchNdOp, StoreNdOp, UpdateNdOffsetOp, desc_of
from xegpu.dialect.bounds import ALIGNMENT, STORE_ALIGNMENT, fills_writes
from xegpu.ir.kernel_attributes import matrix_sizes
from xegpu.ir.matchers import number
from xegpu.ir.memref import is_address
from xegpu.passes.licm import terms

MESSAGES = (LoadNdOp, StoreNdOp, PrefetchNdOp)
Message = LoadNdOp | StoreNdOp | PrefetchNdOp
FACTORS = (4, 2)
"""Steps that become one: more would leave more to single steps at the end, and save little."""
MOST_PRODUCTS = 192
"""DPAS operations of the steps that become one where rows are moved one by one: all stays in the instruction cache."""
MOST_ROWS = {"block": 1 << 24, "rows": 1 << 30}
"""Rows of all matrices together, as the surface of a 2D block message has them, and as an index counts them."""


@dataclass(frozen=True)
class Matrix:
    """A descriptor on a matrix that the counter numbers.

    Attributes:
        maker: the operation that makes it.
        axis: the leading offset that changes.
        others: terms that are added to the counter there.
        messages: what reaches memory through it.
        rows: the first row that they reach, and the one behind the last, from where the descriptor stands.
        columns: the column behind the last; of blocks of whole rows the array's width, if no sizes are known.
        sizes: rows and columns of each matrix, which lie behind each other, where they are known.
    """

    maker: CreateNdTdescOp
    axis: int
    others: tuple[SSAValue, ...]
    messages: tuple[Message, ...]
    rows: tuple[int, int]
    columns: int
    sizes: tuple[int, int] | None = None

    @property
    def bottom(self) -> int | None:
        """The row behind the last one that is reached, where it is known: all rows if a step reaches whole matrices."""
        first = number(self.maker.offsets[-2])
        return None if first is None else first + self.rows[1]

    @property
    def count(self) -> SSAValue:
        """Number of matrices."""
        return self.maker.shape[self.axis]

    @property
    def height(self) -> SSAValue:
        """Rows of each matrix."""
        return self.maker.shape[-2]

    @property
    def is_stored(self) -> bool:
        """Whether it is written; it may be read as well."""
        return any(isinstance(message, StoreNdOp) for message in self.messages)

    @property
    def access(self) -> str:
        """Access kind: ``block`` or ``rows``."""
        return desc_of(self.maker.result).block.access

    @property
    def is_clipped(self) -> bool:
        """Whether blocks leave their matrix at its known sizes, by more than 2D block messages take into account."""
        return self.sizes is not None and self.bottom is not None and \
            (self.bottom > self.sizes[0] or (self.access == "rows" and self.columns != self.sizes[1]))

    @property
    def period(self) -> int:
        """Distance, in matrices, of those that begin on 4-byte boundaries, from which messages take runs of rows."""
        return self._period(ALIGNMENT)

    @property
    def qword_period(self) -> int:
        """Distance, in matrices, of those that begin on 8-byte boundaries, from which messages take twice as much."""
        return self._period(2 * ALIGNMENT)

    def _period(self, alignment: int) -> int:
        if not self.is_clipped or self.access != "rows" or self.sizes is None:
            return 1
        return alignment // gcd(alignment, prod(self.sizes) * desc_of(self.maker.result).dtype.bytes)

    @property
    def alignment(self) -> int:
        """Alignment of whole rows, in bytes, for the messages that they take."""
        return max(map(_alignment, self.messages))


def valid_part(message: Message, matrix: Matrix) -> tuple[int, int]:
    """Rows and columns of a message's block that are in a matrix of known sizes."""
    found, first = _box(message, matrix.maker), number(matrix.maker.offsets[-2])
    assert found is not None
    assert first is not None
    assert matrix.sizes is not None
    (top, left, bottom, right), (rows, columns) = found, matrix.sizes
    right = right if matrix.access == "block" else min(right, columns)
    return max(min(first + bottom, rows) - first - top, 0), max(right - left, 0)


def _alignment(message: Message) -> int:
    """Alignment of the rows of a message, in bytes, where 1D block messages reach them."""
    return STORE_ALIGNMENT if isinstance(message, StoreNdOp) and fills_writes(desc_of(message.desc)) else ALIGNMENT


def matrices_of(loop: scf.ForOp) -> list[Matrix]:
    """The descriptors of a loop's steps that stand on the matrices of a batch, which the counter alone numbers."""
    found = [_matrix(operation, loop) for operation in loop.body.block.ops if isinstance(operation, CreateNdTdescOp)]
    return [matrix for matrix in found if matrix is not None]


def _matrix(maker: CreateNdTdescOp, loop: scf.ForOp) -> Matrix | None:
    """A descriptor as one on all matrices; None unless only the loop's counter selects its matrix."""
    block, (*lead, row, column) = desc_of(maker.result).block, maker.offsets
    changing = [axis for axis, offset in enumerate(lead) if is_inside(offset, loop)]
    if not maker.shape or len(changing) != 1 or is_address(maker.source.type) or block.memory_scope != "global" or \
            block.access not in MOST_ROWS or \
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
    sizes = matrix_sizes(maker.source)
    found = Matrix(maker, changing[0], others, tuple(messages), (min(tops), max(bottoms)), max(rights), sizes)
    return found if not found.is_clipped or all(_takes_part(message) for message in messages) else None


def _takes_part(message: Message) -> bool:
    """Whether a part of a message's block can be left out: its lanes have whole columns, or whole rows."""
    desc = desc_of(message.desc)
    if isinstance(message, PrefetchNdOp) or desc.block.access == "block":
        return not isinstance(message, LoadNdOp) or not message.transposes
    lanes = desc.sg_map
    return not (isinstance(message, LoadNdOp) and message.transposes) and lanes is not None and \
        desc.dtype.bits in (8, 16, 32) and lanes.wi_layout[0] == 1 and min(lanes.wi_data) == 1 and \
        lanes.per_lane * desc.dtype.bits <= 32 and desc.shape[1] == lanes.unit[1]


def _messages(desc: SSAValue) -> list[Message] | None:
    """Messages through a descriptor and its updates; None if it has other uses."""
    found: list[Message] = []
    for use in desc.uses:
        if isinstance(use.operation, MESSAGES):
            found.append(use.operation)
        elif isinstance(use.operation, UpdateNdOffsetOp) and (moved := _messages(use.operation.result)) is not None:
            found += moved
        else:
            return None
    return found


def _box(message: Message, maker: CreateNdTdescOp) -> tuple[int, int, int, int] | None:
    """Top and bottom of what a message reaches, from where its descriptor is made, with left and right columns; None
    where its row is not known, or without 2D block messages its column, or that is off the boundaries of 1D ones."""
    desc, at = desc_of(message.desc), position_of(message.desc)
    top, left = at.row.constant, at.column.constant
    is_aligned = not at.column.terms and left * desc.dtype.bytes % _alignment(message) == 0
    if at.root is not maker.result or at.row.terms != (OffsetOf(maker.result, 0),) or \
            (desc.block.access == "rows" and not is_aligned):
        return None
    return top, left, top + desc.shape[0], left + desc.shape[1] * desc.block.array_length


def heights(matrices: Sequence[Matrix]) -> dict[Matrix, int] | None:
    """Rows of each matrix if a step reaches all of them; None where that is not known of one."""
    found: dict[tuple[SSAValue, int], int] = {}
    for matrix in matrices:
        if matrix.bottom is None:
            return None
        key = matrix.maker.source, matrix.axis
        found[key] = matrix.sizes[0] if matrix.sizes else max(found.get(key, 0), matrix.bottom)
    return {matrix: found[matrix.maker.source, matrix.axis] for matrix in matrices}
