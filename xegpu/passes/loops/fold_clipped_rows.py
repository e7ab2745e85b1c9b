"""Row folding of matrices that no tile fits: surfaces with several rows in one, only one of which is in bounds.

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

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseArrayBase, UnitAttr, VectorType, i64
from xdsl.dialects.vector import ShuffleOp
from xdsl.ir import Attribute, Operation, SSAValue

from xegpu.analysis.block_position import position_of
from xegpu.dialect.block_io import CreateNdTdescOp, LoadNdOp, StoreNdOp, UpdateNdOffsetOp, desc_of
from xegpu.dialect.bounds import InBoundsOp
from xegpu.dialect.hints import hinted
from xegpu.dialect.types import TensorDescType
from xegpu.layout.lane_map import LaneMap
from xegpu.mlir.arith import CmpIOp
from xegpu.mlir.vector import ExtractOp, ExtractStridedSliceOp, ShapeCastOp, integers, values_of, vector_type
from xegpu.passes.loops.batch_matrix import MOST_ROWS, Matrix
from xegpu.passes.loops.clipped_folding import (
    BLOCK,
    PAIR,
    ClippedFolding,
    Part,
    height_of,
    identity,
    inset_of,
    messages_beside,
    rows_of_word,
    top_of,
)
from xegpu.passes.loops.fold_rows import COLUMNS, Result, moved, place_of
from xegpu.rewrite.dce import erase
from xegpu.rewrite.inserter import Inserter
from xegpu.target.block2d import SURFACE_ALIGNMENT

_BYTE_BLOCKS = 4
"""Blocks of 16 columns that a message of 8-bit elements loads."""


@dataclass
class ClippedRowFolder:
    """Folds the rows of matrices in a loop.

    Attributes:
        folding: how the rows are folded.
        inserter: for the function.
        before: inserts an operation before the loop, once for equal ones.
    """

    folding: ClippedFolding
    inserter: Inserter
    before: Callable[[Operation, str | None], SSAValue]
    _surfaces: dict[SSAValue, Matrix] = field(default_factory=dict)
    _whole: dict[tuple[SSAValue, ...], list[SSAValue]] = field(default_factory=dict)
    _loaded: dict[tuple[object, ...], SSAValue] = field(default_factory=dict)

    @property
    def _blocks(self) -> tuple[tuple[Part, ...], ...]:
        """Numbers of rows of A's blocks and of the stored ones."""
        return self.folding.blocks

    def _top(self, message: LoadNdOp) -> int:
        """The row of its matrix where a load begins."""
        return top_of(message)

    def _place(self, message: StoreNdOp, matrix: Matrix) -> tuple[int, int]:
        """Row and column of its matrix where a store begins."""
        place = place_of(message, matrix)
        assert place is not None
        return place

    def _height(self, matrix: Matrix, rows: int, together: int) -> SSAValue:
        """Rows of a surface that has ``together`` of all matrices in each of its own."""
        return self.before(arith.MuliOp(matrix.count, self.inserter.constant(rows // together)), "rows")

    def fold(self, matrix: Matrix, rows: int) -> dict[Operation, Result]:
        """Reach a matrix by 2D block messages; which operations the steps do not copy, and what makes their results.

        Args:
            matrix: the matrix.
            rows: how many it has.
        """
        together = rows_of_word(matrix) if matrix in self.folding.loads else self.folding.blocks[0][0].together
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
        """Guard of the loop: whether the arrays have such surfaces."""
        constant = self.inserter.constant
        for surface, matrix in self._surfaces.items():
            maker = surface.owner
            assert isinstance(maker, CreateNdTdescOp)
            if matrix.access == "block" and matrix.sizes:
                for size in (matrix.maker.shape[-1], matrix.maker.strides[-2]):
                    yield self.before(CmpIOp(size, constant(matrix.sizes[1]), "eq"), None)
            yield self.before(CmpIOp(maker.shape[-2], constant(MOST_ROWS["block"]), "sle"), None)
            whole = self._described(matrix, 0, 0, (constant(1), SURFACE_ALIGNMENT, SURFACE_ALIGNMENT),
                                    type_of(matrix))
            yield self.before(InBoundsOp(whole, (0, 0, 1, 1), SURFACE_ALIGNMENT), "aligned")

    def _load_words(self, matrix: Matrix, message: LoadNdOp, rows: int, row: SSAValue) -> None:
        """Load the rows of a block of operand B that make words apart, and interleave them."""
        inserter, old, together = self.inserter, desc_of(message.desc), rows_of_word(matrix)
        count, element = old.shape[0] // together, old.element_type
        sides = self._sides(matrix, message, rows, row)
        for part in [message] if old.block.array_length == 1 else [use.operation for use in message.result.uses]:
            number = 0 if part is message else part.static_position.get_values()[0]  # type: ignore
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
        inserter, constant, together = self.inserter, self.inserter.constant, rows_of_word(matrix)
        old, at, top, left = desc_of(message.desc), message, top_of(message), position_of(message.desc).column.constant
        shape, blocks = (old.shape[0] // together, COLUMNS), old.block.array_length
        if together > PAIR:
            if (key := identity(matrix)) in self._whole:
                return self._whole[key]
            assert message.parent is not None
            messages = messages_beside(matrix, self.folding.loads)
            at = next(operation for operation in message.parent.ops if operation in messages)
            top, left, blocks, shape = 0, 0, _BYTE_BLOCKS, (height_of(messages), COLUMNS)
        assert isinstance(at, LoadNdOp)
        assert matrix.sizes is not None
        kind = type_of(matrix, message).with_(shape=shape, array_length=blocks, access="block",
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
        if together > PAIR:
            self._whole[identity(matrix)] = found
        return found

    def _part(self, loaded: SSAValue, message: LoadNdOp, number: int, anchor: Operation) -> SSAValue:
        """The rows of a message's block in the loaded vector, which holds one or several blocks."""
        (shape, element), together = _vector(loaded), 32 // desc_of(message.desc).dtype.bits
        first, count = top_of(message) // together, desc_of(message.desc).shape[0] // together
        if together > PAIR:
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
        old, top, blocks = desc_of(message.desc), self._top(message), self._blocks
        loads = [[self._load_part(matrix, message, part, rows, row) for part in blocks[block]]
                 for block in range(top // BLOCK, (top + old.shape[0]) // BLOCK)]
        of_blocks: list[Operation] = [message] if old.block.array_length == 1 else \
            [use.operation for use in message.result.uses]
        for each in of_blocks:
            position = () if each is message else each.static_position.get_values()  # type: ignore[attr-defined]
            for use in list(each.results[0].uses):
                part = use.operation
                is_slice = isinstance(part, ExtractStridedSliceOp)
                first = values_of(part.offsets)[0] // BLOCK if is_slice else 0  # type: ignore[attr-defined]
                value = self._joined(loads[first], blocks[top // BLOCK + first], position, part)
                if is_slice:
                    part.results[0].replace_all_uses_with(value)
                    erase(part)
                else:
                    part.operands[use.index] = value
            erase(each)
        if message not in of_blocks:
            erase(message)

    def _load_part(self, matrix: Matrix, message: LoadNdOp, part: Part, rows: int, row: SSAValue) -> SSAValue:
        """Load a part of a block, and rows behind it up to a power of two, or with its neighbour in the surface."""
        inserter, left, old = self.inserter, position_of(message.desc).column.constant, desc_of(message.desc)
        first, count = self._span(message, part)
        key = identity(matrix), part.side, first, count, left, old.shape[1], old.block.array_length
        made = self._loaded.get(key)
        if count > BLOCK and made is not None and isinstance(made.owner, LoadNdOp) and \
                made.owner.is_before_in_block(message):
            return made
        kind = type_of(matrix, message).with_(shape=(count, old.shape[1]), access="block")
        surface = self._surface(matrix, part, rows, kind)
        offsets = [inserter.add(message, row, first), inserter.constant(left)]
        load = hinted(LoadNdOp(inserter.before(message, UpdateNdOffsetOp(surface, offsets))), message)
        self._loaded[key] = inserter.before(message, load, message.result.name_hint)
        return self._loaded[key]

    def _span(self, message: LoadNdOp, part: Part) -> tuple[int, int]:
        """First row in its surface and number of rows of the load that a part is in: two blocks together where nothing
        is stored between the loads of a step."""
        assert message.parent is not None
        is_store = [isinstance(operation, StoreNdOp) for operation in message.parent.ops
                    if isinstance(operation, (LoadNdOp, StoreNdOp))]
        first = part.first - part.first % (2 * BLOCK)
        whole = [other for block in self._blocks for other in block
                 if other.side == part.side and first <= other.first < first + 2 * BLOCK and other.count == BLOCK]
        return (first, 2 * BLOCK) if len(whole) > 1 and is_store == sorted(is_store) else \
            (part.first, 1 << (part.count - 1).bit_length())

    def _joined(self, loads: Sequence[SSAValue], parts: Sequence[Part], position: Sequence[int],
                anchor: Operation) -> SSAValue:
        """The rows of a block from the loads of its parts; behind the last of several ones come any rows."""
        if position:
            loads = [self.inserter.before(anchor, ExtractOp(load, position, vector_type(shape[1:], element)))
                     for load, (shape, element) in zip(loads, map(_vector, loads), strict=True)]
        loads = [self._rows_of_part(load, part, anchor) for load, part in zip(loads, parts, strict=True)]
        joined, rows = loads[0], parts[0].count
        for load, part in zip(loads[1:], parts[1:], strict=True):
            (behind, _), _ = _vector(joined)
            joined = self._shuffled(joined, load, [*range(rows), *range(behind, behind + part.count)], anchor)
            rows += part.count
        (count, _), _ = _vector(joined)
        block = [min(at, rows - 1) for at in range(BLOCK)]
        return joined if count == BLOCK else self._shuffled(joined, joined, block, anchor)

    def _rows_of_part(self, load: SSAValue, part: Part, anchor: Operation) -> SSAValue:
        """Blocks of its load that a part takes: all, or the first or second of two."""
        (rows, each), _ = _vector(load)
        first = part.first % rows
        return load if rows <= BLOCK else \
            self.inserter.before(anchor, ExtractStridedSliceOp(load, [first, 0], [BLOCK, each]))

    def _store(self, matrix: Matrix, message: StoreNdOp, rows: int, row: SSAValue) -> None:
        """Store a block of the sums by parts to the surfaces that see their rows."""
        inserter, place = self.inserter, self._place(message, matrix)
        parts, first, kind = self._blocks[place[0] // BLOCK], 0, type_of(matrix).with_(access="block")
        for part in parts:
            value, done = message.value, 0
            while done < part.count:
                whole = len(parts) == 1  # then elements behind its end are not stored
                count = BLOCK if whole else 1 << ((part.count - done).bit_length() - 1)
                surface = self._surface(matrix, part, rows, kind.with_(shape=(count, COLUMNS)))
                offsets = [inserter.add(message, row, part.first + done), inserter.constant(place[1])]
                desc = inserter.before(message, UpdateNdOffsetOp(surface, offsets), matrix.maker.result.name_hint)
                piece = value if whole else \
                    inserter.before(message, ExtractStridedSliceOp(value, [first + done, 0], [count, 1]))
                store = hinted(StoreNdOp(piece, desc), message)
                if whole and part.count < BLOCK:
                    store.properties |= {"in_bounds": UnitAttr(), "valid": integers((part.count, COLUMNS))}
                inserter.before(message, store)
                done += count
            first += part.count
        erase(message)

    def _surface(self, matrix: Matrix, part: Part, rows: int, kind: TensorDescType) -> SSAValue:
        """A descriptor before the loop on the rows of one side of all matrices."""
        assert matrix.sizes is not None
        size, together = kind.data.dtype.bytes, part.together
        row = matrix.sizes[1] * size
        inset = inset_of(part.side * row, row)
        height = self._height(matrix, rows, together)
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


def type_of(matrix: Matrix, message: LoadNdOp | None = None) -> TensorDescType:
    """Type of a matrix's descriptors, or of a message's."""
    found = matrix.maker.result.type if message is None else message.desc.type
    assert isinstance(found, TensorDescType)
    return found


def _vector(value: SSAValue) -> tuple[tuple[int, ...], Attribute]:
    """Shape and element type of a vector."""
    assert isinstance(value.type, VectorType)
    return value.type.get_shape(), value.type.element_type
