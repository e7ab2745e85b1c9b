"""Row folding of matrices that no tile fits: surfaces with several rows in one, each of which sees one of these.

    %v = load_nd %a {in_bounds, valid = [24, 24]} : tensor_desc<24x16xbf16, array_length = 2, access = rows>
    %w = load_nd %b {packed, in_bounds, valid = [24, 24]} : tensor_desc<32x16xbf16, array_length = 2, access = rows>
    %c0 = dpas %v[0][0:8], ... ; %c1 = dpas %v[0][8:16], ... ; store_nd %c0, %c + [0, 0] ; store_nd %c1, %c + [8, 0]
becomes
    %A1 = create_nd_tdesc %A + 48 bytes, [%0, %0], [%rows / 3, %24], [%72, %1]          before the loop, of 0, 1 and 2
    %v0 = load_nd %A0 + [%row / 3, 0] ; %v1 = load_nd %A1 + [%row / 3, 0] ; ...
    %even, %odd = load_nd %B2 + [%row / 2, 0], load_nd %B2 + [%row / 2, 24]             on [%rows / 2, %48], [%48, %1]
    %w = shape_cast (shuffle %even, %odd [0, 16, 1, 17, ...])
    %c0 = dpas %v0[0], ... ; %c1 = dpas %v1[0], ... ; store_nd %c0, %C0 + [%row / 3, 0] ; store_nd %c1, %C1 + ...

Rows of 48 bytes are no surface's of 2D block messages, three as one of 144 bytes are. Rows 0, 3, 6 ... are the first
block of A and of the sums, rows 1, 4, 7 ... the second one: they are the same rows of the product, which are stored in
the same way. A surface of its own for each block ends with the row, so that what is behind reads as zeros and is not
stored; it begins at the 64-byte boundary in front of the row, or at the one before that where it would be narrower than
a surface may be. Rows of B are even and odd ones for VNNI form, interleaved in registers by instructions of 32 lanes.
Their columns behind the end are those of another row, and of the sums only those are that are not stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import DenseArrayBase, UnitAttr, VectorType, i64
from xdsl.dialects.vector import ShuffleOp
from xdsl.ir import Attribute, Operation, SSAValue

from xegpu.analysis.block_position import position_of
from xegpu.dialect.block_io import CreateNdTdescOp, LoadNdOp, StoreNdOp, UpdateNdOffsetOp, desc_of
from xegpu.dialect.bounds import SURFACE_ALIGNMENT, InBoundsOp
from xegpu.dialect.dpas import DpasOp
from xegpu.dialect.hints import hinted
from xegpu.dialect.types import TensorDescType
from xegpu.ir.matchers import MAIN_LOOP, number
from xegpu.layout.lane_map import LaneMap
from xegpu.mlir.arith import CmpIOp
from xegpu.mlir.vector import ExtractOp, ExtractStridedSliceOp, ShapeCastOp, integers, values_of, vector_type
from xegpu.passes.loops.batch_matrix import FACTORS, MESSAGES, MOST_ROWS, Matrix, Message, heights
from xegpu.passes.loops.fold_rows import COLUMNS, Result, moved, place_of, rows_of
from xegpu.passes.loops.unroll import MOST_MESSAGES
from xegpu.rewrite.dce import erase
from xegpu.rewrite.inserter import Inserter
from xegpu.target.targets import Target

_BLOCK = 8
"""Rows of a block of A and of the accumulators."""
_PITCH = 16
"""The pitch of a surface is a multiple of these bytes."""
_COLUMN = 4
"""A block begins at a multiple of these bytes in a row of its surface."""
_PAIR = 2
"""Rows of 16-bit elements in a word of VNNI form."""
_BYTE_BLOCKS = 4
"""Blocks of 16 columns that a message of 8-bit elements loads."""
_MOST = 32
"""Rows of the largest block message."""


_PARTS = 2
"""Parts of a block, on average: more take as many messages and moves as rows that are moved one by one."""
_LEAST = 2
"""Rows of a part: one of 32 bytes is half a register, and Intel's compiler refuses loads to the other half."""


@dataclass(frozen=True)
class _Part:
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
    """What is folded of a loop.

    Attributes:
        loads: the matrices that are operand B.
        apart: those that are operand A or stored.
        blocks: the rows that blocks of these have, in parts: from surfaces whose rows have several of a matrix each.
        factor: steps that are one.
    """

    loads: tuple[Matrix, ...]
    apart: tuple[Matrix, ...]
    blocks: tuple[tuple[_Part, ...], ...]
    factor: int
    stores_last = False
    early = ()
    """Matrices that later steps load in the first one: none."""

    @property
    def matrices(self) -> tuple[Matrix, ...]:
        """All that are folded."""
        return self.loads + self.apart

    def folder(self, inserter: Inserter, before: Callable[[Operation, str | None], SSAValue]) -> ClippedRowFolder:
        """What folds them."""
        return ClippedRowFolder(self, inserter, before)


def clipped_folding_of(loop: scf.ForOp, matrices: Sequence[Matrix], target: Target) -> ClippedFolding | None:
    """What to fold of a loop over matrices of known sizes; None where there is nothing."""
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
        {message: _top(message) for matrix in matrices for message in matrix.messages if is_operand_a(message)}
    stored = [message for matrix in stores for message in matrix.messages]
    found = {message: rows_of(message.value, operands) if isinstance(message, StoreNdOp) else {None}
             for message in stored}
    if any(None in each for each in found.values()) or not stored:
        return None
    width = max(matrix.sizes[1] for matrix in stores if matrix.sizes)
    loads = tuple(matrix for matrix in matrices if _is_operand_b(matrix, width, matrices))
    others = tuple(matrix for matrix in matrices if matrix not in loads)
    is_in_place = len({rows[matrix] for matrix in others}) == 1 and any(matrix.is_clipped for matrix in others) and \
        all((place := place_of(message, matrix)) is not None and found[message] == {place[0]}
            for matrix in stores for message in matrix.messages if isinstance(message, StoreNdOp))
    found_blocks = _blocks_of(others, rows[others[0]]) if is_in_place else []
    # each side has an address of its own, from which other parts are at distances, where messages take these
    sign = 1 if target.immediate_offsets else -1
    blocks = min(found_blocks, key=lambda each: (sum(map(len, each)), sign * each[0][0].together), default=())
    apart = others if blocks else ()
    factor = _factor(matrices, loads, apart) if target.immediate_offsets else 1
    return ClippedFolding(loads, apart, blocks, factor) if loads or apart else None


def _blocks_of(matrices: Sequence[Matrix], rows: int) -> list[tuple[tuple[_Part, ...], ...]]:
    """The parts that the blocks of matrices of so many rows may have, from surfaces that take all of the matrices."""
    count = -(-rows // _BLOCK)
    return [blocks for together in range(2, rows + 1) if rows % together == 0
            and len(blocks := _parts(rows, together)) == count and sum(map(len, blocks)) <= _PARTS * count
            and min(part.count for parts in blocks for part in parts) >= _LEAST
            and all(_has_rows_apart(matrix, together) for matrix in matrices)]


def _parts(rows: int, together: int) -> tuple[tuple[_Part, ...], ...]:
    """Blocks of rows, of which ``together`` are one of a surface: whole ones of one part, and the rest of each side."""
    each, rest = rows // together, rows // together % _BLOCK
    whole = [(_Part(together, side, first, _BLOCK),)
             for side in range(together) for first in range(0, each - rest, _BLOCK)]
    parts = [_Part(together, side, each - rest, rest) for side in range(together)] if rest else []
    at_once = _BLOCK // max(rest, 1)
    return *whole, *(tuple(parts[at:at + at_once]) for at in range(0, len(parts), at_once))


def _factor(matrices: Sequence[Matrix], loads: Sequence[Matrix], apart: Sequence[Matrix]) -> int:
    """Steps that are one, where messages take distances: as many as leave few messages."""
    messages = sum(_together(matrix) if matrix in loads else
                   desc_of(message.desc).shape[0] // _BLOCK if matrix in apart else 1
                   for matrix in matrices for message in matrix.messages)
    return next(factor for factor in (*FACTORS, 1) if messages * factor <= MOST_MESSAGES)


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
               or (isinstance(user, ExtractStridedSliceOp) and values_of(user.sizes)[0] == _BLOCK
                   and values_of(user.offsets)[0] % _BLOCK == 0
                   and all(isinstance(each.operation, DpasOp) and each.index == 0 for each in user.result.uses))
               for value in values for use in value.uses)


def _top(message: Operation) -> int:
    """The row of its matrix where a load begins."""
    assert isinstance(message, LoadNdOp)
    return position_of(message.desc).row.constant


def _is_operand_b(matrix: Matrix, width: int, matrices: Sequence[Matrix]) -> bool:
    """Whether a matrix is loaded in VNNI form alone, from rows of which a surface has those of a word in each of its
    own, and has the columns that are stored."""
    desc, sizes, together = desc_of(matrix.maker.result), matrix.sizes, _together(matrix)
    assert sizes is not None
    pitch = together * sizes[1] * desc.dtype.bytes
    return matrix.is_clipped and matrix.access == "rows" and desc.dtype.bits in (8, 16) and width <= sizes[1] and \
        sizes[0] % together == 0 and pitch >= SURFACE_ALIGNMENT and pitch % _PITCH == 0 and \
        all(_loads_words(message) for message in matrix.messages) and \
        (together == _PAIR or _is_loaded_at_once(_messages_beside(matrix, matrices)))


def _loads_words(message: Operation) -> bool:
    """Whether a load gives words of VNNI form, as many as are interleaved at once."""
    if not isinstance(message, LoadNdOp) or message.packed is None:
        return False
    desc, together = desc_of(message.desc), 32 // desc_of(message.desc).dtype.bits
    return desc.sg_map == LaneMap((1, COLUMNS), (together, 1)) and desc.shape[1] == COLUMNS and \
        desc.shape[0] % (together * _BLOCK) == 0 and _top(message) % (together * _BLOCK) == 0 and \
        position_of(message.desc).column.constant % COLUMNS == 0 and \
        (desc.block.array_length == 1 or all(isinstance(use.operation, ExtractOp) for use in message.result.uses))


def _is_loaded_at_once(messages: Sequence[Operation]) -> bool:
    """Whether nothing is stored between the loads of a matrix, which are all in VNNI form."""
    block = messages[0].parent
    assert block is not None
    order = [operation for operation in block.ops if operation in messages or isinstance(operation, StoreNdOp)]
    stores = [place for place, operation in enumerate(order) if operation not in messages]
    return all(map(_loads_words, messages)) and _height(messages) <= _MOST and \
        all(place < len(stores) or place >= len(messages) for place in stores)


def _identity(matrix: Matrix) -> tuple[SSAValue, ...]:
    """What descriptors of blocks of different shapes on the same matrices have in common."""
    return matrix.maker.source, *matrix.maker.offsets[:-2]


def _messages_beside(matrix: Matrix, matrices: Sequence[Matrix]) -> list[Message]:
    """All that reaches a matrix, by descriptors of blocks of any shape."""
    return [message for other in matrices if _identity(other) == _identity(matrix) for message in other.messages]


def _together(matrix: Matrix) -> int:
    """Rows of operand B in a word of VNNI form."""
    return 32 // desc_of(matrix.maker.result).dtype.bits


def _height(messages: Sequence[Operation]) -> int:
    """Rows of a block that has the first ones of all words of a matrix: a power of two."""
    words = max((_top(message) + desc.shape[0]) * desc.dtype.bits // 32 for message in messages
                if isinstance(message, LoadNdOp) and (desc := desc_of(message.desc)))
    return 1 << (words - 1).bit_length()


def _has_rows_apart(matrix: Matrix, together: int) -> bool:
    """Whether blocks of a matrix are reached by surfaces with so many of its rows in one, each of which sees one."""
    desc, sizes = desc_of(matrix.maker.result), matrix.sizes
    assert sizes is not None
    row = sizes[1] * desc.dtype.bytes
    pitch = together * row
    return row % _COLUMN == pitch % _PITCH == 0 and \
        all(_inset(side * row, row) + row <= pitch for side in range(together)) and all(
            desc_of(message.desc).shape[1] in (COLUMNS, 2 * COLUMNS) and
            (is_operand_a(message) and _top(message) % _BLOCK == 0 if isinstance(message, LoadNdOp)
             else isinstance(message, StoreNdOp) and desc_of(message.desc).shape == (_BLOCK, COLUMNS)
             and desc.dtype.bits in (16, 32) and (place_of(message, matrix) or (1,))[0] % _BLOCK == 0)
            for message in matrix.messages)


def _inset(begin: int, row: int) -> int:
    """Bytes from where a surface begins to a row at ``begin``, with which it has the least width of one."""
    inset = begin % SURFACE_ALIGNMENT
    return inset if inset + row >= SURFACE_ALIGNMENT else inset + SURFACE_ALIGNMENT


@dataclass
class ClippedRowFolder:
    """Folds the rows of matrices in a loop.

    Attributes:
        folding: what is folded.
        inserter: for the function.
        before: inserts an operation before the loop, once for equal ones.
    """

    folding: ClippedFolding
    inserter: Inserter
    before: Callable[[Operation, str | None], SSAValue]
    _surfaces: dict[SSAValue, Matrix] = field(default_factory=dict)
    _whole: dict[tuple[SSAValue, ...], list[SSAValue]] = field(default_factory=dict)

    def fold(self, matrix: Matrix, rows: int) -> dict[Operation, Result]:
        """Reach a matrix by 2D block messages; which operations the steps do not copy, and what makes their results.

        Args:
            matrix: the matrix.
            rows: how many it has.
        """
        together = _together(matrix) if matrix in self.folding.loads else self.folding.blocks[0][0].together
        begins = arith.MuliOp(matrix.maker.offsets[matrix.axis], self.inserter.constant(rows // together))
        row = self.inserter.before(matrix.maker, begins, "row")
        for message in matrix.messages:
            if matrix in self.folding.loads:
                assert isinstance(message, LoadNdOp)
                self._load_words(matrix, message, rows, row)
            elif isinstance(message, LoadNdOp):
                self._load_blocks(matrix, message, rows, row)
            else:
                assert isinstance(message, StoreNdOp)
                self._store(matrix, message, rows, row)
        return {begins: partial(moved, self.inserter, row, rows // together)}

    def holds(self) -> Iterator[SSAValue]:
        """What is asked before the loop: whether the arrays have such surfaces."""
        constant = self.inserter.constant
        for surface, matrix in self._surfaces.items():
            maker = surface.owner
            assert isinstance(maker, CreateNdTdescOp)
            if matrix.access == "block" and matrix.sizes:
                for size in (matrix.maker.shape[-1], matrix.maker.strides[-2]):
                    yield self.before(CmpIOp(size, constant(matrix.sizes[1]), "eq"), None)
            yield self.before(CmpIOp(maker.shape[-2], constant(MOST_ROWS["block"]), "sle"), None)
            whole = self._described(matrix, 0, 0, (constant(1), SURFACE_ALIGNMENT, SURFACE_ALIGNMENT),
                                    _type_of(matrix))
            yield self.before(InBoundsOp(whole, (0, 0, 1, 1), SURFACE_ALIGNMENT), "aligned")

    def _load_words(self, matrix: Matrix, message: LoadNdOp, rows: int, row: SSAValue) -> None:
        """Load the rows of a block of operand B that make words apart, and interleave them."""
        inserter, old, together = self.inserter, desc_of(message.desc), _together(matrix)
        count, element = old.shape[0] // together, old.element_type
        sides = self._sides(matrix, message, rows, row)
        for part in [message] if old.block.array_length == 1 else [use.operation for use in message.result.uses]:
            number = 0 if part is message else part.static_position.get_values()[0]  # type: ignore[attr-defined]
            blocks = [self._part(side, message, number, part) for side in sides]
            while len(blocks) > 1:  # of rows, and then of pairs of rows
                each = together // len(blocks)
                blocks = [self._in_turns(two, each, part) for two in zip(blocks[::2], blocks[1::2], strict=True)]
            cast = ShapeCastOp(blocks[0], (count, together))
            assert cast.result.type == vector_type((count, together), element)
            part.results[0].replace_all_uses_with(inserter.before(part, cast))
            erase(part)
        if old.block.array_length > 1:
            erase(message)

    def _sides(self, matrix: Matrix, message: LoadNdOp, rows: int, row: SSAValue) -> list[SSAValue]:
        """Loads of the rows of a message's block that are the first ones of words, the second ones, and so on.

        Blocks of 16 columns of 8-bit elements are loaded four at once: there, all of the matrix.
        """
        inserter, constant, together = self.inserter, self.inserter.constant, _together(matrix)
        old, at, top, left = desc_of(message.desc), message, _top(message), position_of(message.desc).column.constant
        shape, blocks = (old.shape[0] // together, COLUMNS), old.block.array_length
        if together > _PAIR:
            if (key := _identity(matrix)) in self._whole:
                return self._whole[key]
            assert message.parent is not None
            messages = _messages_beside(matrix, self.folding.loads)
            at = next(operation for operation in message.parent.ops if operation in messages)
            top, left, blocks, shape = 0, 0, _BYTE_BLOCKS, (_height(messages), COLUMNS)
        assert isinstance(at, LoadNdOp)
        assert matrix.sizes is not None
        kind = _type_of(matrix, message).with_(shape=shape, array_length=blocks, access="block",
                                               sg_map=LaneMap((1, COLUMNS), (1, 1)))
        height = self.before(arith.MuliOp(matrix.count, constant(rows // together)), "rows")
        surface = self._described(matrix, 0, 0, (height, *2 * (together * matrix.sizes[1],)), kind)
        self._surfaces[surface] = matrix
        valid, found = max(min(rows // together - top // together, shape[0]), 0), []
        for side in range(together):
            offsets = [inserter.add(at, row, top // together), constant(side * matrix.sizes[1] + left)]
            load = hinted(LoadNdOp(inserter.before(at, UpdateNdOffsetOp(surface, offsets))), message)
            if valid < shape[0]:
                load.properties |= {"in_bounds": UnitAttr(), "valid": integers((valid, COLUMNS * blocks))}
            found.append(inserter.before(at, load, message.result.name_hint))
        if together > _PAIR:
            self._whole[_identity(matrix)] = found
        return found

    def _part(self, loaded: SSAValue, message: LoadNdOp, number: int, anchor: Operation) -> SSAValue:
        """The rows of a message's block in what was loaded: of one of several blocks, and as many as it has."""
        (shape, element), together = _vector(loaded), 32 // desc_of(message.desc).dtype.bits
        first, count = _top(message) // together, desc_of(message.desc).shape[0] // together
        if together > _PAIR:
            number += position_of(message.desc).column.constant // COLUMNS
        if len(shape) > 2:
            loaded = self.inserter.before(anchor, ExtractOp(loaded, [number], vector_type(shape[1:], element)))
        if shape[-2] > count:
            loaded = self.inserter.before(anchor, ExtractStridedSliceOp(loaded, [first, 0], [count, 1]))
        return loaded

    def _in_turns(self, two: tuple[SSAValue, SSAValue], together: int, anchor: Operation) -> SSAValue:
        """Rows of two blocks, ``together`` of one and as many of the other in turn."""
        (rows, _), _ = _vector(two[0])
        mask = [first + row + at for row in range(0, rows, together) for first in (0, rows) for at in range(together)]
        return self._shuffled(*two, mask, anchor)

    def _shuffled(self, left: SSAValue, right: SSAValue, mask: Sequence[int], anchor: Operation) -> SSAValue:
        """Rows of two blocks in another order."""
        (_, each), element = _vector(left)
        shuffle = ShuffleOp(left, right, DenseArrayBase.from_list(i64, [*mask]),
                            result_type=vector_type((len(mask), each), element))
        return self.inserter.before(anchor, shuffle)

    def _load_blocks(self, matrix: Matrix, message: LoadNdOp, rows: int, row: SSAValue) -> None:
        """Load each block of operand A by parts from the surfaces that see their rows."""
        old, top = desc_of(message.desc), _top(message)
        loads = [[self._load_part(matrix, message, part, rows, row) for part in self.folding.blocks[block]]
                 for block in range(top // _BLOCK, (top + old.shape[0]) // _BLOCK)]
        of_blocks: list[Operation] = [message] if old.block.array_length == 1 else \
            [use.operation for use in message.result.uses]
        for each in of_blocks:
            position = () if each is message else each.static_position.get_values()  # type: ignore[attr-defined]
            for use in list(each.results[0].uses):
                part = use.operation
                is_slice = isinstance(part, ExtractStridedSliceOp)
                first = values_of(part.offsets)[0] // _BLOCK if is_slice else 0  # type: ignore[attr-defined]
                value = self._joined(loads[first], self.folding.blocks[top // _BLOCK + first], position, part)
                if is_slice:
                    part.results[0].replace_all_uses_with(value)
                    erase(part)
                else:
                    part.operands[use.index] = value
            erase(each)
        if message not in of_blocks:
            erase(message)

    def _load_part(self, matrix: Matrix, message: LoadNdOp, part: _Part, rows: int, row: SSAValue) -> SSAValue:
        """Load a part of a block, and rows behind it up to a power of two."""
        inserter, left = self.inserter, position_of(message.desc).column.constant
        shape = 1 << (part.count - 1).bit_length(), desc_of(message.desc).shape[1]
        surface = self._surface(matrix, part, rows, _type_of(matrix, message).with_(shape=shape, access="block"))
        offsets = [inserter.add(message, row, part.first), inserter.constant(left)]
        load = hinted(LoadNdOp(inserter.before(message, UpdateNdOffsetOp(surface, offsets))), message)
        return inserter.before(message, load, message.result.name_hint)

    def _joined(self, loads: Sequence[SSAValue], parts: Sequence[_Part], position: Sequence[int],
                anchor: Operation) -> SSAValue:
        """The rows of a block from the loads of its parts; behind the last of several ones come any rows."""
        if position:
            loads = [self.inserter.before(anchor, ExtractOp(load, position, vector_type(shape[1:], element)))
                     for load, (shape, element) in zip(loads, map(_vector, loads), strict=True)]
        joined, rows = loads[0], parts[0].count
        for load, part in zip(loads[1:], parts[1:], strict=True):
            (behind, _), _ = _vector(joined)
            joined = self._shuffled(joined, load, [*range(rows), *range(behind, behind + part.count)], anchor)
            rows += part.count
        (count, _), _ = _vector(joined)
        block = [min(at, rows - 1) for at in range(_BLOCK)]
        return joined if count == _BLOCK else self._shuffled(joined, joined, block, anchor)

    def _store(self, matrix: Matrix, message: StoreNdOp, rows: int, row: SSAValue) -> None:
        """Store a block of the sums by parts to the surfaces that see their rows."""
        inserter, place = self.inserter, place_of(message, matrix)
        assert place is not None
        parts, first, kind = self.folding.blocks[place[0] // _BLOCK], 0, _type_of(matrix).with_(access="block")
        for part in parts:
            value, done = message.value, 0
            while done < part.count:
                whole = len(parts) == 1  # then what is behind its end is not stored
                count = _BLOCK if whole else 1 << ((part.count - done).bit_length() - 1)
                surface = self._surface(matrix, part, rows, kind.with_(shape=(count, COLUMNS)))
                offsets = [inserter.add(message, row, part.first + done), inserter.constant(place[1])]
                desc = inserter.before(message, UpdateNdOffsetOp(surface, offsets), matrix.maker.result.name_hint)
                piece = value if whole else \
                    inserter.before(message, ExtractStridedSliceOp(value, [first + done, 0], [count, 1]))
                store = hinted(StoreNdOp(piece, desc), message)
                if whole and part.count < _BLOCK:
                    store.properties |= {"in_bounds": UnitAttr(), "valid": integers((part.count, COLUMNS))}
                inserter.before(message, store)
                done += count
            first += part.count
        erase(message)

    def _surface(self, matrix: Matrix, part: _Part, rows: int, kind: TensorDescType) -> SSAValue:
        """A descriptor before the loop on the rows of one side of all matrices."""
        assert matrix.sizes is not None
        size, together = kind.data.dtype.bytes, part.together
        row = matrix.sizes[1] * size
        inset = _inset(part.side * row, row)
        height = self.before(arith.MuliOp(matrix.count, self.inserter.constant(rows // together)), "rows")
        found = self._described(matrix, (part.side * row - inset) // size, inset // size,
                                (height, (inset + row) // size, together * matrix.sizes[1]), kind)
        self._surfaces[found] = matrix
        return found

    def _described(self, matrix: Matrix, begin: int, column: int, sizes: tuple[SSAValue, int, int],
                   kind: TensorDescType) -> SSAValue:
        """A descriptor before the loop on a surface of an array.

        Args:
            matrix: the matrices.
            begin: the element where the surface begins, behind the first one of the first matrix, or before it.
            column: where the descriptor stands.
            sizes: rows, columns and pitch of the surface.
            kind: the descriptor's type.
        """
        constant, maker = self.inserter.constant, matrix.maker
        offsets, shape, strides = list(maker.offsets), list(maker.shape), list(maker.strides)
        offsets[matrix.axis], shape[matrix.axis] = constant(1 if begin else 0), constant(2 if begin else 1)
        if begin:  # the second of two matrices that lie as far apart
            strides[matrix.axis] = constant(begin)
        height, width, pitch = sizes
        offsets[-2:], shape[-2:], strides[-2] = [constant(0), constant(column)], [height, constant(width)], \
            constant(pitch)
        return self.before(CreateNdTdescOp(maker.source, offsets, shape, strides, kind), maker.result.name_hint)


def _type_of(matrix: Matrix, message: LoadNdOp | None = None) -> TensorDescType:
    """Type of a matrix's descriptors, or of a message's."""
    found = matrix.maker.result.type if message is None else message.desc.type
    assert isinstance(found, TensorDescType)
    return found


def _vector(value: SSAValue) -> tuple[tuple[int, ...], Attribute]:
    """Shape and element type of a vector."""
    assert isinstance(value.type, VectorType)
    return value.type.get_shape(), value.type.element_type
