"""Row folding: two rows of a narrow array become one of a surface that 2D block messages take.

    %v = load_nd %a {in_bounds} : tensor_desc<16x16xbf16, access = rows>            in each of four steps
    %w = load_nd %b {packed, in_bounds} : tensor_desc<16x16xbf16, access = rows>
    %c0 = dpas %v[0:8], %w, %zero ; %c1 = dpas %v[8:16], %w, %zero
    store_nd %c0, %c + [0, 0] ; store_nd %c1, %c + [8, 0]
becomes, once for the four,
    %A2 = create_nd_tdesc %A, [%0, %0], [%rows / 2, %32], [%32, %1]
    %even, %odd = load_nd %A2 + [%row / 2, 0] : tensor_desc<32x16xbf16, array_length = 2>
and in each
    %w = shape_cast (shuffle %even_b[0:8], %odd_b[0:8] [0, 8, 1, 9, ...])
    %c0 = dpas %even[0:8], %w, %zero ; %c1 = dpas %odd[0:8], %w, %zero
    store_nd %c0, %C2 + [0, 0] ; store_nd %c1, %C2 + [0, 16]

Rows of 32 bytes are too short for 2D block messages, and lie behind each other: a surface with rows of 64 bytes has the
even ones in its left half, the odd ones in its right. A message of 2 KB loads these of four matrices. Rows of B are
interleaved in registers, as they are anyway. Rows of A stay apart: a row of a product depends on one of A alone, and
goes back to its place where C is stored in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import DenseArrayBase, DenseIntOrFPElementsAttr, i64
from xdsl.dialects.vector import BroadcastOp, ShuffleOp
from xdsl.ir import Operation, SSAValue

from xegpu.analysis.block_position import position_of
from xegpu.dialect.block_io import CreateNdTdescOp, LoadNdOp, StoreNdOp, UpdateNdOffsetOp, desc_of
from xegpu.dialect.bounds import InBoundsOp
from xegpu.dialect.dpas import DpasOp
from xegpu.dialect.hints import hinted
from xegpu.dialect.types import TensorDescType
from xegpu.ir.matchers import MAIN_LOOP, number
from xegpu.layout.lane_map import LaneMap
from xegpu.mlir.arith import CmpIOp
from xegpu.mlir.vector import ExtractOp, ExtractStridedSliceOp, ShapeCastOp, values_of, vector_type
from xegpu.passes.loops.batch_matrix import MESSAGES, MOST_ROWS, Matrix, heights
from xegpu.rewrite.dce import erase
from xegpu.rewrite.inserter import Inserter
from xegpu.target.block2d import SURFACE_ALIGNMENT
from xegpu.target.targets import Target

COLUMNS = 16
"""Columns of such an array: rows of 32 bytes, half of the least width of a surface."""
_BLOCK = 8
"""Rows of a block of A and of the accumulators."""
_MOST = 32
"""Rows of the largest block message."""
_STORES = 8
"""Blocks of so many accumulators that have registers at once."""
_LOADS = 2
"""Blocks of so many rows that have the registers."""


@dataclass(frozen=True)
class Folding:
    """Row folding of a loop.

    Attributes:
        factor: steps that a block message loads for.
        loads: the matrices that are loaded.
        stores: the matrices that are stored with their even and odd rows apart; none if no A is loaded so.
        stores_last: whether all stores of the steps follow the rest: on Xe-HPC, a register that a message stores is
            protected by three or four instructions before it is written again, or at the end of a step once for all.
    """

    factor: int
    loads: tuple[Matrix, ...]
    stores: tuple[Matrix, ...]
    stores_last: bool

    @property
    def matrices(self) -> tuple[Matrix, ...]:
        """The matrices that are folded."""
        return self.loads + self.stores

    @property
    def early(self) -> tuple[Matrix, ...]:
        """Matrices that later steps load in the first one."""
        return self.loads


def folding_of(loop: scf.ForOp, matrices: Sequence[Matrix], target: Target) -> Folding | None:
    """Row folding of a loop over a batch; None where nothing is folded, or another use needs the rows in order."""
    rows = heights(matrices)
    if not target.block_io or target.register_bytes != 4 * COLUMNS or MAIN_LOOP in loop.attributes or \
            number(loop.step) != 1 or not rows or len(loop.iter_args) or \
            any(matrix.is_clipped for matrix in matrices) or \
            {operation for operation in loop.body.block.ops if isinstance(operation, MESSAGES)} != \
            {message for matrix in matrices for message in matrix.messages}:
        return None
    stores = tuple(matrix for matrix in matrices if matrix.is_stored)
    loads = tuple(matrix for matrix in matrices if matrix.access == "rows" and matrix not in stores)
    written = {matrix.maker.source for matrix in stores}
    if not 0 < len(loads) <= _LOADS or not all(_is_narrow(matrix, rows[matrix]) for matrix in loads) or \
            any(matrix.maker.source in written for matrix in loads):
        return None
    factor = min(2 * _MOST // rows[matrix] for matrix in loads)
    halved = {rows[matrix] for matrix in loads if not _is_packed(matrix)}
    if factor < 2 or len(halved) > 1:
        return None
    stored = [message for matrix in stores for message in matrix.messages]
    stores_last = not target.immediate_offsets and len(loads) + len(stores) == len(matrices) and \
        all(isinstance(message, StoreNdOp) for message in stored) and factor * len(stored) <= _STORES
    if not halved:
        return Folding(factor, loads, (), stores_last)
    parts: dict[Operation, int] = {matrix.messages[0]: 0 for matrix in loads}
    fits = all(rows[matrix] in halved and _is_stored_by_blocks(matrix, parts) for matrix in stores) and \
        stores_all_rows(stores, *halved)
    return Folding(factor, loads, stores, stores_last) if fits else None


def _is_packed(matrix: Matrix) -> bool:
    message = matrix.messages[0]
    return isinstance(message, LoadNdOp) and message.packed is not None


def _is_narrow(matrix: Matrix, rows: int) -> bool:
    """Whether a matrix of rows of 32 bytes is loaded at once, as B, or as A of whole blocks."""
    message, desc = matrix.messages[0], desc_of(matrix.maker.result)
    if len(matrix.messages) != 1 or not isinstance(message, LoadNdOp) or message.desc is not matrix.maker.result or \
            message.transposes or desc.shape != (rows, COLUMNS) or matrix.columns != COLUMNS or desc.dtype.bits != 16 \
            or desc.block.array_length != 1 or rows % (2 * _BLOCK) or number(matrix.maker.offsets[-2]) != 0 or \
            desc.sg_map is None or desc.sg_map.wi_layout != (1, COLUMNS):
        return False
    if message.packed is not None:
        return desc.sg_map.wi_data == (2, 1) and len(message.result.type.get_shape()) == 2  # type: ignore[attr-defined]
    return desc.sg_map.wi_data == (1, 1) and all(
        isinstance(part := use.operation, ExtractStridedSliceOp) and values_of(part.sizes) == (_BLOCK, 1)
        and values_of(part.offsets)[0] % _BLOCK == 0
        and all(isinstance(user.operation, DpasOp) and user.index == 0 for user in part.result.uses)
        for use in message.result.uses)


def _is_stored_by_blocks(matrix: Matrix, loads: Mapping[Operation, int]) -> bool:
    """Whether all that is stored to a matrix are products of as many rows of A, at the rows that these have in A."""
    dtype = desc_of(matrix.maker.result).dtype
    return dtype.bits in (16, 32) and matrix.columns % COLUMNS == 0 and all(
        isinstance(message, StoreNdOp) and desc_of(message.desc).shape == (_BLOCK, COLUMNS)
        and (place := place_of(message, matrix)) is not None and place[1] % COLUMNS == 0
        and rows_of(message.value, loads) == {place[0]} for message in matrix.messages)


def stores_all_rows(matrices: Sequence[Matrix], rows: int) -> bool:
    """Whether all rows of matrices are stored, by blocks, of each column that is: those of a block are others then."""
    stored: dict[tuple[SSAValue | int, ...], set[int]] = {}
    for matrix in matrices:
        for message in matrix.messages:
            if isinstance(message, StoreNdOp):
                if (place := place_of(message, matrix)) is None:
                    return False
                stored.setdefault((matrix.maker.source, *matrix.maker.offsets[:-2], place[1]), set()).add(place[0])
    return all(found == {*range(0, rows, _BLOCK)} for found in stored.values())


def place_of(message: StoreNdOp, matrix: Matrix) -> tuple[int, int] | None:
    """Row and column of a matrix where a message stores; None where these are not known."""
    at, start = position_of(message.desc), [number(offset) for offset in matrix.maker.offsets[-2:]]
    if start[0] is None or start[1] is None or at.root is not matrix.maker.result or len(at.column.terms) > 1:
        return None
    return start[0] + at.row.constant, start[1] + at.column.constant


def rows_of(value: SSAValue, loads: Mapping[Operation, int]) -> set[int | None]:
    """First rows of the blocks of A that a value's rows depend on; None is in it if on anything else that has rows.

    Args:
        value: the stored value.
        loads: the loads of A, and the first row of each.
    """
    operation = value.owner
    if isinstance(operation, DpasOp) and (first := _first_row(operation.a, loads)) is not None:
        beside = rows_of(operation.acc, loads) if operation.acc is not None else set[int | None]()
        return {first, *beside}
    if isinstance(operation, BroadcastOp) and operation.source.type == value.type.element_type:  # type: ignore[attr-defined]
        return set()
    if isinstance(operation, arith.ConstantOp) and isinstance(operation.value, DenseIntOrFPElementsAttr) and \
            operation.value.is_splat():
        return set()
    if getattr(operation, "name", "").startswith(("arith.", "math.")) and operation.operands:  # type: ignore[union-attr]
        shape = value.type.get_shape()  # type: ignore[attr-defined]
        if all(getattr(operand.type, "get_shape", tuple)() == shape for operand in operation.operands):  # type: ignore[union-attr]
            return set[int | None]().union(*(rows_of(operand, loads) for operand in operation.operands))  # type: ignore[union-attr]
    return {None}


def columns_of(value: SSAValue) -> set[int | None]:
    """First columns of the blocks of B that the products in a value depend on, which has a row of each of their rows;
    None is in it if one is not part of a load alone."""
    operation = value.owner
    if isinstance(operation, DpasOp):
        beside = columns_of(operation.acc) if operation.acc is not None else set[int | None]()
        return {_first_column(operation.b), *beside}
    name, operands = getattr(operation, "name", ""), getattr(operation, "operands", ())
    is_by_element = name.startswith(("arith.", "math."))
    return set[int | None]().union(*map(columns_of, operands)) if is_by_element else set()


def _first_column(block: SSAValue) -> int | None:
    """The first column of a block of B; None if it is not part of a load alone."""
    number, operation = 0, block.owner
    while isinstance(operation, (ExtractStridedSliceOp, ExtractOp)):
        number += operation.static_position.get_values()[0] if isinstance(operation, ExtractOp) else 0
        operation = operation.operands[0].owner
    return position_of(operation.desc).column.constant + number * COLUMNS if isinstance(operation, LoadNdOp) else None


def _first_row(block: SSAValue, loads: Mapping[Operation, int]) -> int | None:
    """The first row of a block of A; None if it is not part of a load alone."""
    row, operation = 0, block.owner
    while isinstance(operation, (ExtractStridedSliceOp, ExtractOp)):
        row += values_of(operation.offsets)[0] if isinstance(operation, ExtractStridedSliceOp) else 0
        operation = operation.operands[0].owner
    return row + loads[operation] if operation in loads else None  # type: ignore[index]


Result = Callable[[int, Operation], SSAValue]
"""Makes the result of an operation for another step, of a number, in front of an operation."""


def moved(inserter: Inserter, index: SSAValue, distance: int, position: int, anchor: Operation) -> SSAValue:
    """An index of the first step, as many distances further as the number of a step."""
    return inserter.add(anchor, index, position * distance)


def _shared(value: SSAValue, position: int, anchor: Operation) -> SSAValue:
    """Values that all steps share."""
    return value


@dataclass
class RowFolder:
    """Folds the rows of matrices in a loop that does several steps at once.

    Attributes:
        folding: how the rows are folded.
        inserter: for the function.
        before: inserts an operation before the loop, once for equal ones.
    """

    folding: Folding
    inserter: Inserter
    before: Callable[[Operation, str | None], SSAValue]
    _surfaces: dict[Matrix, SSAValue] = field(default_factory=dict)

    def fold(self, matrix: Matrix, rows: int) -> dict[Operation, Result]:
        """Reach a matrix by 2D block messages; which operations the steps do not copy, and what makes their results.

        Args:
            matrix: the matrix.
            rows: how many it has.
        """
        maker, half = matrix.maker, self.inserter.constant(rows // 2)
        begins = arith.MuliOp(maker.offsets[matrix.axis], half)
        row = self.inserter.before(maker, begins, "row")
        if matrix in self.folding.loads:
            return {begins: partial(_shared, row), **self._load(matrix, rows // 2, row)}
        kind = maker.result.type
        assert isinstance(kind, TensorDescType)
        surface = self._surface(matrix, rows, kind.with_(access="block"))
        for message in matrix.messages:
            assert isinstance(message, StoreNdOp)
            place = place_of(message, matrix)
            assert place is not None
            side, down = divmod(place[0], rows // 2)
            offsets = [self.inserter.add(message, row, down), self.inserter.constant(side * matrix.columns + place[1])]
            desc = self.inserter.before(message, UpdateNdOffsetOp(surface, offsets), maker.result.name_hint)
            message.operands = [message.value, desc]
        return {begins: partial(moved, self.inserter, row, rows // 2)}

    def holds(self) -> Iterator[SSAValue]:
        """Guard of the loop: whether the arrays have such surfaces."""
        constant = self.inserter.constant
        for matrix, surface in self._surfaces.items():
            yield self.before(InBoundsOp(surface, (0, 0, 1, 2 * matrix.columns), SURFACE_ALIGNMENT), "aligned")
            if matrix.access == "block":
                for size in (matrix.maker.shape[-1], matrix.maker.strides[-2]):
                    yield self.before(CmpIOp(size, constant(matrix.columns), "eq"), None)
            maker = surface.owner
            assert isinstance(maker, CreateNdTdescOp)
            yield self.before(CmpIOp(maker.shape[-2], constant(MOST_ROWS["block"]), "sle"), None)

    def _surface(self, matrix: Matrix, rows: int, kind: TensorDescType) -> SSAValue:
        """A descriptor before the loop on pairs of rows of all matrices."""
        constant, maker = self.inserter.constant, matrix.maker
        offsets, shape, strides = list(maker.offsets), list(maker.shape), list(maker.strides)
        offsets[matrix.axis], shape[matrix.axis] = constant(0), constant(1)
        offsets[-2:] = [constant(0), constant(0)]
        pairs = self.before(arith.MuliOp(matrix.count, constant(rows // 2)), "pairs")
        shape[-2:], strides[-2] = [pairs, constant(2 * matrix.columns)], constant(2 * matrix.columns)
        new = CreateNdTdescOp(maker.source, offsets, shape, strides, kind)
        self._surfaces[matrix] = self.before(new, maker.result.name_hint)
        return self._surfaces[matrix]

    def _load(self, matrix: Matrix, half: int, row: SSAValue) -> dict[Operation, Result]:
        """Load the matrices of all steps in the first one, and take each step's part of them."""
        (message,), kind, factor = matrix.messages, matrix.maker.result.type, self.folding.factor
        assert isinstance(message, LoadNdOp)
        assert isinstance(kind, TensorDescType)
        kind = kind.with_(shape=(factor * half, COLUMNS), array_length=2, access="block",
                          sg_map=LaneMap((1, COLUMNS), (1, 1)))
        inserter, element = self.inserter, kind.data.element_type
        moving = UpdateNdOffsetOp(self._surface(matrix, 2 * half, kind), [row, inserter.constant(0)])
        load = hinted(LoadNdOp(inserter.before(message, moving, matrix.maker.result.name_hint)), message)
        loaded = inserter.before(message, load, message.result.name_hint)
        parts = [ExtractOp(loaded, [side], vector_type((factor * half, 1), element)) for side in (0, 1)]
        sides = [inserter.before(message, part) for part in parts]

        def rows(first: int, count: int, position: int, anchor: Operation) -> SSAValue:
            side, down = divmod(first, half)
            part = ExtractStridedSliceOp(sides[side], [position * half + down, 0], [count, 1])
            return inserter.before(anchor, part)

        def pairs(position: int, anchor: Operation) -> SSAValue:
            mask = [row for pair in zip(range(half), range(half, 2 * half), strict=True) for row in pair]
            even, odd = (rows(side * half, half, position, anchor) for side in (0, 1))
            shuffle = ShuffleOp(even, odd, DenseArrayBase.from_list(i64, mask),
                                result_type=vector_type((2 * half, 1), element))
            return inserter.before(anchor, ShapeCastOp(inserter.before(anchor, shuffle), (half, 2)))

        found: dict[Operation, Result] = {operation: partial(_shared, operation.results[0])
                                          for operation in (moving, load, *parts)}
        if message.packed is not None:
            makes: list[tuple[Operation, Result]] = [(message, pairs)]
        else:
            slices = [use.operation for use in message.result.uses]
            makes = [(part, partial(rows, values_of(part.offsets)[0], _BLOCK)) for part in slices]  # type: ignore
        for old, make in makes:
            value = make(0, old)
            old.results[0].replace_all_uses_with(value)
            assert isinstance(value.owner, Operation)
            found[value.owner] = make
        for old in dict.fromkeys((*(old for old, _ in makes), message)):
            erase(old)
        return found
