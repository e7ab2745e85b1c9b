"""Analysis of row folding for matrices that no tile fits: which operands to fold, and the parts of their blocks.

:mod:`xegpu.passes.loops.fold_clipped_rows` says how it is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import scf
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue

from xegpu.analysis.block_position import position_of
from xegpu.dialect.block_io import LoadNdOp, StoreNdOp, desc_of
from xegpu.dialect.dpas import DpasOp
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.matchers import MAIN_LOOP, number
from xegpu.layout.lane_map import LaneMap
from xegpu.mlir.vector import ExtractOp, ExtractStridedSliceOp, values_of
from xegpu.passes.loops.batch_matrix import FACTORS, MESSAGES, Matrix, Message, heights
from xegpu.passes.loops.fold_rows import COLUMNS, columns_of, place_of, rows_of, stores_all_rows
from xegpu.passes.loops.unroll import MOST_MESSAGES
from xegpu.target.block2d import COLUMN_ALIGNMENT, PITCH_ALIGNMENT, SURFACE_ALIGNMENT
from xegpu.target.targets import Target

BLOCK = 8
"""Rows of a block of A and of the accumulators."""
PAIR = 2
"""Rows of 16-bit elements in a word of VNNI form."""
_MOST = 32
"""Rows of the largest block message."""


_PARTS = 2
"""Parts of a block, on average: more take as many messages and moves as rows that are moved one by one."""
_LEAST = 2
"""Rows of a part: one of 32 bytes is half a register, and Intel's compiler refuses loads to the other half."""


@dataclass(frozen=True)
class Part:
    """Rows of a block that lie behind each other in a surface.

    Attributes:
        together: rows of a matrix in one of the surface's.
        side: which of these it is.
        first: the surface's row with the first one.
        count: of rows.
    """

    together: int
    side: int
    first: int
    count: int


@dataclass(frozen=True)
class ClippedFolding:
    """Row folding of a loop: its matrices, and the parts of their blocks.

    Attributes:
        loads: the matrices that are operand B.
        apart: those that are operand A or stored.
        blocks: the rows that blocks of these have, in parts: from surfaces whose rows have several of a matrix each.
        factor: steps that are one.
    """

    loads: tuple[Matrix, ...]
    apart: tuple[Matrix, ...]
    blocks: tuple[tuple[Part, ...], ...]
    factor: int
    stores_last = False
    early = ()
    """Matrices that later steps load in the first one: none."""

    @property
    def matrices(self) -> tuple[Matrix, ...]:
        """The matrices that are folded."""
        return self.loads + self.apart


def clipped_folding_of(loop: scf.ForOp, matrices: Sequence[Matrix], target: Target) -> ClippedFolding | None:
    """Row folding of a loop over matrices of known sizes; None where nothing is to be folded."""
    rows = heights(matrices)
    if not target.block_io or target.register_bytes != 4 * COLUMNS or MAIN_LOOP in loop.attributes or \
            number(loop.step) != 1 or not rows or len(loop.iter_args) or \
            any(matrix.period > 1 for matrix in matrices) or \
            not all(matrix.sizes and number(matrix.maker.offsets[-2]) == number(matrix.maker.offsets[-1]) == 0
                    for matrix in matrices) or \
            {operation for operation in loop.body.block.ops if isinstance(operation, MESSAGES)} != \
            {message for matrix in matrices for message in matrix.messages}:
        return None
    stores = [matrix for matrix in matrices if matrix.is_stored]
    operands: dict[Operation, int] = \
        {message: top_of(message) for matrix in matrices for message in matrix.messages if is_operand_a(message)}
    stored = [message for matrix in stores for message in matrix.messages]
    found = {message: rows_of(message.value, operands) if isinstance(message, StoreNdOp) else {None}
             for message in stored}
    if any(None in each for each in found.values()) or not stored:
        return None
    width = max(matrix.sizes[1] for matrix in stores if matrix.sizes)
    keeps_columns = all(_keeps_columns(message, matrix) for matrix in stores for message in matrix.messages)
    loads = tuple(matrix for matrix in matrices if keeps_columns and _is_operand_b(matrix, width, matrices))
    others = tuple(matrix for matrix in matrices if matrix not in loads)
    is_in_place = len({rows[matrix] for matrix in others}) == 1 and any(matrix.is_clipped for matrix in others) and \
        all((place := place_of(message, matrix)) is not None and found[message] == {place[0]}
            for matrix in stores for message in matrix.messages if isinstance(message, StoreNdOp))
    found_blocks = _blocks_of(others, rows[others[0]]) if is_in_place and _fill(others, rows[others[0]]) else []
    # each side has an address of its own, from which other parts are at distances, where messages take these
    sign = 1 if target.immediate_offsets else -1
    blocks = min(found_blocks, key=lambda each: (sum(map(len, each)), sign * each[0][0].together), default=())
    apart = others if blocks else ()
    factor = _factor(matrices, loads, apart) if target.immediate_offsets else 1
    return ClippedFolding(loads, apart, blocks, factor) if loads or apart else None


def _fill(matrices: Sequence[Matrix], rows: int) -> bool:
    """Whether blocks of rows are those of whole matrices: all are stored that there are, and no others are loaded."""
    ends = [top_of(message) + desc_of(message.desc).shape[0]
            for matrix in matrices for message in matrix.messages if isinstance(message, LoadNdOp)]
    return max(ends, default=0) < rows + BLOCK and stores_all_rows(matrices, rows)


def _keeps_columns(message: Message, matrix: Matrix) -> bool:
    """Whether columns of products are stored as those that they have in operand B."""
    place = place_of(message, matrix) if isinstance(message, StoreNdOp) else None
    return place is not None and isinstance(message, StoreNdOp) and columns_of(message.value) <= {place[1]}


def _blocks_of(matrices: Sequence[Matrix], rows: int) -> list[tuple[tuple[Part, ...], ...]]:
    """The parts that the blocks of matrices of so many rows may have, from surfaces that take all of the matrices."""
    count = -(-rows // BLOCK)
    return [blocks for together in range(2, rows + 1) if rows % together == 0
            and len(blocks := _parts(rows, together)) == count and sum(map(len, blocks)) <= _PARTS * count
            and min(part.count for parts in blocks for part in parts) >= _LEAST
            and all(_has_rows_apart(matrix, together) for matrix in matrices)]


def _parts(rows: int, together: int) -> tuple[tuple[Part, ...], ...]:
    """Blocks of rows, of which ``together`` are one of a surface: whole ones of one part, and the rest of each side."""
    each, rest = rows // together, rows // together % BLOCK
    whole = [(Part(together, side, first, BLOCK),)
             for side in range(together) for first in range(0, each - rest, BLOCK)]
    parts = [Part(together, side, each - rest, rest) for side in range(together)] if rest else []
    at_once = BLOCK // max(rest, 1)
    return *whole, *(tuple(parts[at:at + at_once]) for at in range(0, len(parts), at_once))


def _factor(matrices: Sequence[Matrix], loads: Sequence[Matrix], apart: Sequence[Matrix]) -> int:
    """Number of steps unrolled into one, if messages take immediate offsets: as many as leave few messages."""
    messages = sum(rows_of_word(matrix) if matrix in loads else
                   desc_of(message.desc).shape[0] // BLOCK if matrix in apart else 1
                   for matrix in matrices for message in matrix.messages)
    return next((factor for factor in FACTORS if messages * factor <= MOST_MESSAGES), 1)


def is_operand_a(message: Operation) -> bool:
    """Whether all that a load gives are blocks of operand A."""
    if not isinstance(message, LoadNdOp) or message.packed is not None or message.transposes:
        return False
    values = [message.result]
    if desc_of(message.desc).block.array_length > 1:
        uses = [use.operation for use in message.result.uses]
        if not all(isinstance(operation, ExtractOp) for operation in uses):
            return False
        values = [operation.results[0] for operation in uses]  # type: ignore[misc]
    return all((isinstance(user := use.operation, DpasOp) and use.index == 0)
               or (isinstance(user, ExtractStridedSliceOp) and values_of(user.sizes)[0] == BLOCK
                   and values_of(user.offsets)[0] % BLOCK == 0
                   and all(isinstance(each.operation, DpasOp) and each.index == 0 for each in user.result.uses))
               for value in values for use in value.uses)


def late_loads(loop: scf.ForOp, matrices: Sequence[Matrix], registers: float) -> list[Operation]:
    """Loads of operand A behind its first rows, if all that a step loads and then stores takes more than the registers.

    Intel's compiler computes all sums before it stores any, whatever the order, if operands are loaded before that.

    Args:
        loop: the loop.
        matrices: what it reaches; these loads may follow the stores to others.
        registers: bytes of registers of a lane.
    """
    reached = {message: matrix for matrix in matrices for message in matrix.messages}
    messages = [operation for operation in loop.body.block.ops if isinstance(operation, (LoadNdOp, StoreNdOp))]
    loads = [message for message in messages if isinstance(message, LoadNdOp)]
    values = [message.result if isinstance(message, LoadNdOp) else message.value for message in messages]
    written = {matrix.maker.source for matrix in matrices if matrix.is_stored}
    if messages[:len(loads)] != loads or sum(map(_bytes, values)) <= registers or \
            not all(message in reached for message in messages) or \
            not all(load.packed is not None or is_operand_a(load) for load in loads):
        return []
    return [load for load in loads
            if load.packed is None and top_of(load) > 0 and reached[load].maker.source not in written]


def _bytes(fragment: SSAValue) -> int:
    """Bytes of a fragment in a lane's part of registers."""
    assert isinstance(fragment.type, VectorType)
    return prod(fragment.type.get_shape()) * of_mlir(fragment.type.element_type).bits // 8


def top_of(message: Operation) -> int:
    """The row of its matrix where a load begins."""
    assert isinstance(message, LoadNdOp)
    return position_of(message.desc).row.constant


def _is_operand_b(matrix: Matrix, width: int, matrices: Sequence[Matrix]) -> bool:
    """Whether a matrix is loaded in VNNI form alone, from rows of which a surface has those of a word in each of its
    own, and has the columns that are stored."""
    desc, sizes, together = desc_of(matrix.maker.result), matrix.sizes, rows_of_word(matrix)
    assert sizes is not None
    pitch = together * sizes[1] * desc.dtype.bytes
    return matrix.is_clipped and matrix.access == "rows" and desc.dtype.bits in (8, 16) and width <= sizes[1] and \
        sizes[0] % together == 0 and pitch >= SURFACE_ALIGNMENT and pitch % PITCH_ALIGNMENT == 0 and \
        all(_loads_words(message) for message in matrix.messages) and \
        (together == PAIR or _is_loaded_at_once(messages_beside(matrix, matrices)))


def _loads_words(message: Operation) -> bool:
    """Whether a load gives words of VNNI form, as many as are interleaved at once."""
    if not isinstance(message, LoadNdOp) or message.packed is None:
        return False
    desc, together = desc_of(message.desc), 32 // desc_of(message.desc).dtype.bits
    return desc.sg_map == LaneMap((1, COLUMNS), (together, 1)) and desc.shape[1] == COLUMNS and \
        desc.shape[0] % (together * BLOCK) == 0 and top_of(message) % (together * BLOCK) == 0 and \
        position_of(message.desc).column.constant % COLUMNS == 0 and \
        (desc.block.array_length == 1 or all(isinstance(use.operation, ExtractOp) for use in message.result.uses))


def _is_loaded_at_once(messages: Sequence[Operation]) -> bool:
    """Whether nothing is stored between the loads of a matrix, which are all in VNNI form."""
    block = messages[0].parent
    assert block is not None
    order = [operation for operation in block.ops if operation in messages or isinstance(operation, StoreNdOp)]
    stores = [place for place, operation in enumerate(order) if operation not in messages]
    return all(map(_loads_words, messages)) and height_of(messages) <= _MOST and \
        all(place < len(stores) or place >= len(messages) for place in stores)


def identity(matrix: Matrix) -> tuple[SSAValue, ...]:
    """Key that is equal for descriptors on the same matrices, whatever the shapes of their blocks."""
    return matrix.maker.source, *matrix.maker.offsets[:-2]


def messages_beside(matrix: Matrix, matrices: Sequence[Matrix]) -> list[Message]:
    """All messages to a matrix, by descriptors of blocks of any shape."""
    return [message for other in matrices if identity(other) == identity(matrix) for message in other.messages]


def rows_of_word(matrix: Matrix) -> int:
    """Rows of operand B in a word of VNNI form."""
    return 32 // desc_of(matrix.maker.result).dtype.bits


def height_of(messages: Sequence[Operation]) -> int:
    """Rows of a block that has the first ones of all words of a matrix: a power of two."""
    words = max((top_of(message) + desc.shape[0]) * desc.dtype.bits // 32 for message in messages
                if isinstance(message, LoadNdOp) and (desc := desc_of(message.desc)))
    return 1 << (words - 1).bit_length()


def _has_rows_apart(matrix: Matrix, together: int) -> bool:
    """Whether blocks of a matrix are reached by surfaces with so many of its rows in one, each of which sees one."""
    desc, sizes = desc_of(matrix.maker.result), matrix.sizes
    assert sizes is not None
    row = sizes[1] * desc.dtype.bytes
    pitch = together * row
    return row % COLUMN_ALIGNMENT == pitch % PITCH_ALIGNMENT == 0 and \
        all(inset_of(side * row, row) + row <= pitch for side in range(together)) and all(
            desc_of(message.desc).shape[1] in (COLUMNS, 2 * COLUMNS) and
            (is_operand_a(message) and top_of(message) % BLOCK == 0 if isinstance(message, LoadNdOp)
             else isinstance(message, StoreNdOp) and desc_of(message.desc).shape == (BLOCK, COLUMNS)
             and desc.dtype.bits in (16, 32) and (place_of(message, matrix) or (1,))[0] % BLOCK == 0)
            for message in matrix.messages)


def inset_of(begin: int, row: int) -> int:
    """Bytes from where a surface begins to a row at ``begin``, with which it has the least width of one."""
    inset = begin % SURFACE_ALIGNMENT
    return inset if inset + row >= SURFACE_ALIGNMENT else inset + SURFACE_ALIGNMENT


