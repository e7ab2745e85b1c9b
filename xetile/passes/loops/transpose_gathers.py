"""Transposed gathers: rows by an index vector that are used transposed are gathered as columns.

    %t = init_scattered_tile %K, (tile_broadcast %rows [1]) + (tile_broadcast %columns [0]) : tile<64x32xbf16>
    %k = load_gather %t, (tile_broadcast %columns [0]) < (tile_broadcast %ends [1]) ; %b = tile_transpose %k
becomes
    %t = init_scattered_tile %K, (tile_broadcast %rows2 [0]) + (tile_broadcast %columns2 [1]) : tile<32x64xbf16>
    %b = load_gather %t, ...
and where %b is operand B of products in a loop
    scf.if (every end is at most the first column, or beyond the last) {
      scf.for ... { %b = load_columns %K, %rows2 + first, %ends2 - first {whole} ; ... }
    } else { scf.for ... { %b = load_columns %K, ... ; ... } } {xegpu.versioned}

The elements of a row are contiguous, and so are those that a lane has of operand B in VNNI form: a lane reads words of
its own row, and nothing is transposed in registers. The loop is there twice, since a row may end in the middle of
what is loaded, which few do: then each word is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import IndexType, ModuleOp, UnitAttr, VectorType
from xdsl.dialects.gpu import BarrierOp
from xdsl.dialects.memref import ExtractStridedMetaDataOp
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Block, Operation, Region, SSAValue

from xegpu.analysis.block_position import is_inside
from xegpu.analysis.lane_offsets import LaneOffsets
from xegpu.dialect.hints import hinted, hints_of
from xegpu.dialect.sync import ControlBarrierArriveOp, ControlBarrierWaitOp, NbarrierArriveOp, NbarrierWaitOp
from xegpu.ir.create import create_like
from xegpu.ir.matchers import BARRIER, VERSIONED, number
from xegpu.mlir.arith import CmpIOp, SelectOp
from xegpu.mlir.elementwise import RECORDS
from xegpu.mlir.vector import ShapeCastOp, shape_of, vector_type
from xegpu.rewrite.dce import erase
from xegpu.rewrite.inserter import Inserter, copy_operation, rewrite_in_place
from xegpu.target.targets import Target
from xetile.dialect import tile_ops
from xetile.dialect.gather_scatter import InitScatteredTileOp, LoadColumnsOp, LoadGatherOp
from xetile.dialect.mma import TileMmaOp
from xetile.dialect.reduction import TileBroadcastOp, axes_of
from xetile.dialect.types import TileType
from xetile.dialect.vector import IotaOp, TileTransposeOp

_WAITS = (BarrierOp, ControlBarrierArriveOp, ControlBarrierWaitOp, NbarrierArriveOp, NbarrierWaitOp)


@dataclass(frozen=True)
class TransposeGathers:
    """The pass.

    Attributes:
        target: its lanes are the columns of a block of operand B.
        access: for each argument its access kind.
    """

    target: Target
    access: tuple[str, ...]

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with such gathers transposed; the module itself if there are none."""
        if not any(_is_transposed(operation) for operation in module.walk()):
            return module
        versioned = rewrite_in_place(module, _loops, self._plan, _version, erases=True)
        transposed = rewrite_in_place(versioned, _gathers, _is_transposed, _transpose, erases=True)
        for load in [*transposed.walk()]:  # a copy has taken their place
            if isinstance(load, tile_ops.LoadTileOp) and not load.result.uses:
                erase(load)
        return transposed

    def _plan(self, loop: scf.ForOp) -> tuple[_Columns, ...]:
        function: Operation | None = loop
        while not isinstance(function, func.FuncOp):
            assert function is not None
            function = function.parent_op()
        arrays = frozenset(argument for argument, kind in zip(function.body.block.args, self.access, strict=True)
                           if kind == "block")
        analysis = LaneOffsets(self.target.subgroup_size, arrays)
        found = [_columns_of(load, loop, analysis) for load in _gathers(loop) if load.parent is loop.body.block]
        return tuple(columns for columns in found if columns is not None)


def _gathers(around: Operation) -> Iterator[LoadGatherOp]:
    return (operation for operation in around.walk() if isinstance(operation, LoadGatherOp))


def _is_transposed(load: Operation) -> bool:
    """Whether a gather is only used transposed, of positions that are rows and columns put together."""
    if not isinstance(load, LoadGatherOp) or not isinstance(init := load.tile.owner, InitScatteredTileOp):
        return False
    users = [use.operation for use in load.result.uses]
    return bool(users) and all(isinstance(user, TileTransposeOp) for user in users) and \
        tile_ops.tile_of(load.tile).encoding.wg_map is None and len(shape_of(load.mask)) == 2 and \
        all(_has_lines(value) for value in (init.indices, load.mask))


def _has_lines(value: SSAValue) -> bool:
    """Whether a vector is computed from rows, columns and numbers alone, whose transposes cost little."""
    if min(shape_of(value)) == 1:
        return True
    owner = value.owner
    if isinstance(owner, (BroadcastOp, TileBroadcastOp, IotaOp)):
        return True
    return isinstance(owner, Operation) and type(owner) in RECORDS and all(
        _has_lines(operand) for operand in owner.operands if isinstance(operand.type, VectorType))


class _Transposer:
    """Inserts transposes of computed vectors.

    Args:
        inserter: for the function.
        anchor: what they are inserted in front of.
    """

    def __init__(self, inserter: Inserter, anchor: Operation) -> None:
        self.inserter, self.anchor = inserter, anchor
        self._made: dict[SSAValue, SSAValue] = {}

    def insert(self, operation: Operation) -> SSAValue:
        """Insert an operation; its first result."""
        return self.inserter.before(self.anchor, operation)

    def __call__(self, value: SSAValue) -> SSAValue:
        """The transpose of a vector; numbers stay."""
        if not isinstance(value.type, VectorType):
            return value
        if value not in self._made:
            self._made[value] = self._transposed(value)
        return self._made[value]

    def _transposed(self, value: SSAValue) -> SSAValue:
        owner, shape = value.owner, shape_of(value)[::-1]
        type_ = vector_type(shape, value.type.element_type)  # type: ignore[attr-defined]
        if isinstance(owner, BroadcastOp):
            return self.insert(BroadcastOp(owner.source, type_))
        if isinstance(owner, TileBroadcastOp):
            return self.insert(TileBroadcastOp(self(owner.source), shape, [1 - axis for axis in axes_of(owner)]))
        if isinstance(owner, IotaOp):
            return self.insert(IotaOp(type_, 1 - owner.axis.value.data, owner.start))
        if isinstance(owner, Operation) and type(owner) in RECORDS:
            return self.insert(create_like(owner, [self(operand) for operand in owner.operands], [type_]))
        if isinstance(owner, ShapeCastOp) and min(shape) == 1:
            return owner.source if shape_of(owner.source) == shape else self.insert(ShapeCastOp(owner.source, shape))
        if isinstance(owner, tile_ops.LoadTileOp) and isinstance(owner.tile.owner, tile_ops.InitTileOp):
            # by a tile of its own, all of whose loads are transposed, as row-major wants it
            known: dict[SSAValue, SSAValue] = {}
            for operation in (owner.tile.owner, owner):
                self.inserter.before(owner, copy_operation(operation, known))
            value = known[value]
        return self.insert(TileTransposeOp(value))


def _transpose(inserter: Inserter, load: LoadGatherOp, _: bool) -> None:
    """Gather the transpose, element by element."""
    init, transposed = load.tile.owner, _Transposer(inserter, load)
    assert isinstance(init, InitScatteredTileOp)
    type_ = TileType(tile_ops.tile_of(load.tile)).with_(shape=shape_of(load.result)[::-1])
    tile = transposed.insert(InitScatteredTileOp(init.source, transposed(init.indices), type_))
    columns = transposed.insert(hinted(LoadGatherOp(tile, transposed(load.mask), load.padding), load))
    _replace(load, columns)


def _replace(load: LoadGatherOp, columns: SSAValue) -> None:
    """Let a vector take the place of a gather's transposes."""
    columns.name_hint = load.result.name_hint
    for transpose in [use.operation for use in load.result.uses]:
        transpose.results[0].replace_all_uses_with(columns)
        erase(transpose)
    erase(load)


@dataclass(frozen=True)
class _Sum:
    """Sum of a column for each row, a row for each column, and numbers."""

    rows: tuple[SSAValue, ...] = ()
    columns: tuple[SSAValue, ...] = ()
    numbers: tuple[SSAValue, ...] = ()

    @classmethod
    def of(cls, value: SSAValue) -> _Sum | None:
        """The terms of a matrix; None if one is something else."""
        owner = value.owner
        if isinstance(owner, arith.AddiOp):
            left, right = cls.of(owner.lhs), cls.of(owner.rhs)
            return None if left is None or right is None else cls(
                left.rows + right.rows, left.columns + right.columns, left.numbers + right.numbers)
        if isinstance(owner, BroadcastOp):
            return cls() if number(owner.source) == 0 else cls(numbers=(owner.source,))
        if isinstance(owner, TileBroadcastOp):
            return cls(rows=(owner.source,)) if axes_of(owner) == (1,) else cls(columns=(owner.source,))
        return None


@dataclass(frozen=True)
class _Count:
    """Sum of the numbers of columns, ``times`` them, and numbers; of which the sums in ``floors`` are not negative."""

    times: int = 0
    numbers: tuple[SSAValue, ...] = ()
    floors: tuple[tuple[SSAValue, ...], ...] = ()

    def plus(self, other: _Count) -> _Count:
        """The sum of two."""
        return _Count(self.times + other.times, self.numbers + other.numbers, self.floors + other.floors)

    @classmethod
    def of(cls, value: SSAValue, analysis: LaneOffsets) -> _Count | None:
        """A row of consecutive numbers; None if it is something else."""
        owner = value.owner
        if isinstance(owner, arith.AddiOp):
            left, right = cls.of(owner.lhs, analysis), cls.of(owner.rhs, analysis)
            return None if left is None or right is None else left.plus(right)
        if isinstance(owner, BroadcastOp):
            return cls() if number(owner.source) == 0 else cls(numbers=(owner.source,))
        if isinstance(owner, IotaOp):
            return cls(1, () if owner.start is None or number(owner.start) == 0 else (owner.start,)) \
                if owner.axis.value.data == 1 else None
        if isinstance(owner, arith.MuliOp):
            return next((cls.of(side, analysis) for side, other in ((owner.lhs, owner.rhs), (owner.rhs, owner.lhs))
                         if analysis.is_one(other)), None)
        if not isinstance(owner, SelectOp) or not isinstance(test := owner.condition.owner, CmpIOp) or \
                test.name_of_predicate != "sge" or test.lhs is not owner.lhs or \
                not isinstance(zero := test.rhs.owner, BroadcastOp) or number(zero.source) != 0:
            return None
        found = cls.of(owner.lhs, analysis)  # x >= 0 ? x : y
        return found and _Count(found.times, found.numbers, (*found.floors, found.numbers))


@dataclass(frozen=True)
class _Columns:
    """A gather whose transpose is operand B, of whole columns.

    Attributes:
        load: the gather.
        rows: columns of vectors of which the sum is each row's offset in the array.
        start: numbers that are added to it.
        ends: a column: where each row ends, in the numbers of columns.
        first: numbers whose sum is the first column.
        last: the values that are in ``ends``.
        floors: sums that must not be negative.
        fixed: whether all these numbers are the same in each step.
        ends_in_words: whether rows are known to end at multiples of 4 bytes.
    """

    load: LoadGatherOp
    rows: tuple[SSAValue, ...]
    start: tuple[SSAValue, ...]
    ends: SSAValue
    first: tuple[SSAValue, ...]
    last: tuple[SSAValue, ...]
    floors: tuple[tuple[SSAValue, ...], ...]
    fixed: bool
    ends_in_words: bool

    @property
    def in_words(self) -> bool:
        """Whether what is in bounds is known to be whole words: they begin behind the first column, and end so."""
        return self.ends_in_words and all(_is_natural(term) for floor in self.floors for term in floor)

    @property
    def depth(self) -> int:
        """Elements of a column of operand B."""
        return shape_of(self.load.result)[1]


def _columns_of(load: LoadGatherOp, loop: scf.ForOp, analysis: LaneOffsets) -> _Columns | None:
    """What a gather needs to become one of whole columns; None if it cannot."""
    if not _is_transposed(load) or load.padding is not None or hints_of(load) or not _is_operand_b(load):
        return None
    init, test = load.tile.owner, load.mask.owner
    assert isinstance(init, InitScatteredTileOp)
    dtype, (columns, depth) = tile_ops.tile_of(load.tile).dtype, shape_of(load.result)
    if init.source not in analysis.arrays or dtype.bits not in (8, 16, 32) or dtype.kind == "p" or \
            depth * dtype.bits % 32 or columns % analysis.lanes or not isinstance(test, CmpIOp) or \
            test.name_of_predicate != "slt":
        return None
    offsets, low, high = _Sum.of(init.indices), _Sum.of(test.lhs), _Sum.of(test.rhs)
    if offsets is None or low is None or high is None or low.rows or high.columns or high.numbers or \
            len(high.rows) != 1:
        return None
    start, first, last = _total(offsets, analysis), _total(low, analysis), _selected(high.rows[0])
    if start is None or first is None or last is None or not offsets.rows:
        return None
    floors = start.floors + first.floors
    words = max(1, 4 // dtype.bytes)
    if any(analysis.multiple_of(term, dtype.bytes) % words for term in (*offsets.rows, *start.numbers)):
        return None
    ends_in_words = not any(analysis.multiple_of(term, dtype.bytes) % words for term in first.numbers) and all(
        _ends_in_words(end, analysis.arrays, words) for end in last)
    fixed = not any(is_inside(value, loop) for value in (*first.numbers, *last, *sum(floors, ())))
    return _Columns(load, offsets.rows, start.numbers, high.rows[0], first.numbers, last, floors, fixed,
                    ends_in_words)


def _is_operand_b(load: LoadGatherOp) -> bool:
    """Whether transposes of a gather are operand B of products, and nothing else."""
    uses = [use for transpose in load.result.uses for use in transpose.operation.results[0].uses]
    return bool(uses) and all(isinstance(use.operation, TileMmaOp) and use.index == 1 for use in uses)


def _total(terms: _Sum, analysis: LaneOffsets) -> _Count | None:
    """The columns and numbers of a sum together, where they count columns once."""
    total = _Count(0, terms.numbers)
    for value in terms.columns:
        if (found := _Count.of(value, analysis)) is None:
            return None
        total = total.plus(found)
    return total if total.times == 1 else None


def _selected(value: SSAValue) -> tuple[SSAValue, ...] | None:
    """The numbers of which each element of a vector is one."""
    owner = value.owner
    if isinstance(owner, BroadcastOp):
        return (owner.source,)
    if not isinstance(owner, SelectOp):
        return None
    left, right = _selected(owner.lhs), _selected(owner.rhs)
    return None if left is None or right is None else left + right


def _loops(around: Operation) -> Iterator[scf.ForOp]:
    """Loops with gathers in which subgroups do not wait for each other, since they may take different branches."""
    for loop in around.walk():
        if isinstance(loop, scf.ForOp) and any(isinstance(each, LoadGatherOp) for each in loop.body.block.ops) and \
                not any(BARRIER in inner.attributes or isinstance(inner, _WAITS) for inner in loop.walk()) and \
                not any(isinstance(result.type, TileType) for result in loop.results):
            yield loop


def _version(inserter: Inserter, loop: scf.ForOp, plan: Sequence[_Columns]) -> None:
    """Gather whole columns in a loop, or in a copy of it where it has to be asked whether they are."""
    holds = _whole(inserter, loop, plan)
    if holds is not None:
        values: dict[SSAValue, SSAValue] = {}
        copied = copy_operation(loop, values)
        first, second = Block([copied, scf.YieldOp(*copied.results)]), Block()
        branch = scf.IfOp(holds, [result.type for result in loop.results], Region(first), Region(second))
        branch.attributes[VERSIONED] = UnitAttr()
        inserter.before(loop, branch)
        for old, new in zip(loop.results, branch.results, strict=True):
            new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
        loop.detach()  # type: ignore[no-untyped-call]
        second.add_ops([loop, scf.YieldOp(*loop.results)])
        for columns in plan:
            load = values[columns.load.result].owner
            assert isinstance(load, LoadGatherOp)
            if columns.fixed or columns.in_words:
                _load_columns(inserter, load, columns, values, whole=columns.fixed)
    for columns in plan:
        if (columns.fixed and holds is None) or columns.in_words:
            _load_columns(inserter, columns.load, columns, {}, whole=columns.fixed and holds is None)


def _whole(inserter: Inserter, loop: scf.ForOp, plan: Sequence[_Columns]) -> SSAValue | None:
    """Whether all rows end before the columns that are loaded, or behind them; None if that is known."""
    holds: list[SSAValue] = []

    def ask(left: SSAValue, predicate: str, right: SSAValue) -> SSAValue:
        return inserter.before(loop, CmpIOp(left, right, predicate))

    zero = inserter.constant(0)
    for columns in (columns for columns in plan if columns.fixed):
        first = _added(inserter, loop, columns.first)
        behind = inserter.add(loop, first, columns.depth)
        for last in dict.fromkeys(columns.last):
            known = number(last), number(first)
            if not (known[0] == 0 and columns.floors) and (None in known or not _is_whole(*known, columns.depth)):  # type: ignore[arg-type]
                holds.append(inserter.before(loop, arith.OrIOp(ask(last, "sle", first), ask(last, "sge", behind))))
        for floor in dict.fromkeys(columns.floors):
            least = _added(inserter, loop, floor)
            if (number(least) or 0) < 0 or number(least) is None:
                holds.append(ask(least, "sge", zero))
    total: SSAValue | None = None
    for each in holds:
        total = each if total is None else inserter.before(loop, arith.AndIOp(total, each))
    return total


def _ends_in_words(end: SSAValue, arrays: frozenset[SSAValue], words: int) -> bool:
    """Whether a row's end is a multiple: as that of arrays that block messages reach is one of 4 bytes."""
    owner = end.owner
    if isinstance(owner, SelectOp):
        return all(_ends_in_words(side, arrays, words) for side in (owner.lhs, owner.rhs))
    if isinstance(owner, ExtractStridedMetaDataOp):
        return owner.source in arrays and end is owner.sizes[-1]
    return number(end) is not None and (number(end) or 0) % words == 0


def _is_natural(value: SSAValue) -> bool:
    """Whether an index is known not to be negative: a constant, or the counter of a loop from one on."""
    owner = value.owner
    if isinstance(owner, Block):
        loop = owner.parent_op()
        return isinstance(loop, scf.ForOp) and value is owner.args[0] and _is_natural(loop.lb)
    if isinstance(owner, (arith.AddiOp, arith.MuliOp)):
        return all(map(_is_natural, owner.operands))
    return (number(value) or 0) >= 0 and number(value) is not None


def _is_whole(last: int, first: int, depth: int) -> bool:
    return last <= first or last >= first + depth


def _added(inserter: Inserter, anchor: Operation, numbers: Sequence[SSAValue]) -> SSAValue:
    """Sum of indices, in front of an operation."""
    total = inserter.constant(0)
    for value in numbers:
        total = inserter.add(anchor, total, value)
    return total


def _load_columns(inserter: Inserter, load: LoadGatherOp, plan: _Columns, values: dict[SSAValue, SSAValue], *,
                  whole: bool) -> None:
    """Put a gather of columns in the place of one of elements.

    Args:
        inserter: for the function.
        load: the gather, or its copy.
        plan: what is known of it.
        values: of a copied loop, those of the original one's.
        whole: whether all of a column is in bounds, or nothing.
    """
    assert isinstance(load.tile.owner, InitScatteredTileOp)
    transposed, columns = _Transposer(inserter, load), shape_of(load.result)[0]
    line = vector_type((1, columns), IndexType())
    offsets = transposed.insert(BroadcastOp(_added(inserter, load, plan.start), line))
    for row in plan.rows:
        offsets = transposed.insert(arith.AddiOp(transposed(values.get(row, row)), offsets))
    first = transposed.insert(BroadcastOp(_added(inserter, load, plan.first), line))
    lengths = transposed.insert(arith.SubiOp(transposed(values.get(plan.ends, plan.ends)), first))
    type_ = vector_type((plan.depth, columns), tile_ops.tile_of(load.tile).element_type)
    _replace(load, transposed.insert(LoadColumnsOp(load.tile.owner.source, offsets, lengths, type_, whole=whole)))
