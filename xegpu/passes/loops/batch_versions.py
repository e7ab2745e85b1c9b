"""Loop versioning of loops over a batch: all matrices as one, several a step, and each by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from math import prod
from typing import Any

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.traits import Pure

from xegpu.dialect.block_io import CreateNdTdescOp, LoadNdOp, PrefetchNdOp, StoreNdOp, UpdateNdOffsetOp
from xegpu.dialect.bounds import STORE_ALIGNMENT, InBoundsOp, NoAliasOp
from xegpu.dialect.types import TensorDescType
from xegpu.ir.matchers import DISABLE_UNROLL, MAIN_LOOP, number
from xegpu.mlir.arith import CmpIOp, IndexCastOp, SelectOp
from xegpu.mlir.vector import integers
from xegpu.passes.loops.batch_matrix import MOST_ROWS, Matrix, heights, matrices_of, valid_part
from xegpu.passes.loops.clipped_folding import ClippedFolding, identity, late_loads
from xegpu.passes.loops.fold_clipped_rows import ClippedRowFolder
from xegpu.passes.loops.fold_rows import Folding, RowFolder, moved
from xegpu.passes.loops.fold_stored_rows import StoredFolding, StoredRowFolder
from xegpu.passes.loops.unroll import LIMIT, repeat, split_loop
from xegpu.rewrite.inserter import Inserter

AnyFolding = Folding | ClippedFolding | StoredFolding
_FARTHEST = 1 << 30
"""Bound of a counter whose step is not known, so that the counter fits 32 bits after the last step."""


@dataclass
class Versions:
    """The two versions of a loop.

    Attributes:
        inserter: for the function.
        loop: the loop.
        registers: bytes of registers of a lane.
    """

    inserter: Inserter
    loop: scf.ForOp
    registers: float
    _made: dict[Any, SSAValue] = field(default_factory=dict)
    _holds: dict[SSAValue, None] = field(default_factory=dict)
    _rows: dict[tuple[SSAValue, ...], Operation] = field(default_factory=dict)

    def split(self, matrices: Sequence[Matrix], factor: int, folding: AnyFolding | None = None) -> None:
        """Split the loop; the first of the two has the operations that it had.

        Args:
            matrices: all that the loop makes descriptors on, or some of them.
            factor: steps of the loop that are one of the first version; if more than one, a version of single steps
                is between the two.
            folding: which of the matrices that one loads and stores two rows as one.
        """
        inserter, single, between = self.inserter, None, None
        if is_clipped := any(matrix.is_clipped for matrix in matrices):
            self._store_early(self.loop)
        if MAIN_LOOP not in self.loop.attributes:
            period = max(matrix.period for matrix in matrices)
            self.loop, rest = split_loop(inserter, self.loop, factor)
            if 1 < period < factor:
                between, rest = split_loop(inserter, rest, period)
            single = split_loop(inserter, rest, 1)[0] if factor > 1 or folding is not None else None
        ends = dict.fromkeys(map(self._end, matrices))
        if number(self.loop.step) is None:
            farthest = inserter.constant(_FARTHEST)
            ends[farthest] = None
            self._ask(self.loop.step, "ule", farthest)
        for matrix in matrices:
            self._ask_of(matrix)
        for loop in filter(None, (self.loop, between, single)) if is_clipped else ():
            self._load_late(loop)
        end = reduce(lambda a, b: self._before(arith.MinSIOp(a, b)), ends)
        if single is not None:
            self._run_to(single, end if period == 1 else self._first_of(single, end))
            for matrix in matrices_of(single):
                self._collapse(matrix, matrix.height)
            if between is not None:
                self._unroll(between, matrices_of(between), period, None, end)
            self._unroll(self.loop, matrices, factor, folding, end)
            return
        self._run_to(self.loop, end)
        for matrix in matrices:
            self._collapse(matrix, matrix.height)

    def _unroll(self, main: scf.ForOp, matrices: Sequence[Matrix], factor: int, folding: AnyFolding | None,
                end: SSAValue) -> None:
        """Write several steps into a loop, for matrices without other rows than a step reaches: theirs begin a
        constant apart."""
        inserter, rows = self.inserter, heights(matrices)
        step, others = (number(main.step) or 0) // factor, dict[Operation, Callable[[int, Operation], SSAValue]]()
        assert rows is not None
        assert main.body.block.last_op is not None
        following = main.body.block.last_op.prev_op  # computes the index of the next step
        folder: RowFolder | ClippedRowFolder | None = \
            StoredRowFolder(folding, inserter, self._before) if isinstance(folding, StoredFolding) else \
            ClippedRowFolder(folding, inserter, self._before) if isinstance(folding, ClippedFolding) else \
            RowFolder(folding, inserter, self._before) if folding is not None else None
        for matrix in matrices:
            self._ask(matrix.height, "eq", inserter.constant(rows[matrix]))
            if isinstance(folder, StoredRowFolder):
                folder.begin(matrix, self._first(matrix))
            if folding is not None and folder is not None and not isinstance(folder, StoredRowFolder) and \
                    matrix in folding.matrices:
                others |= folder.fold(matrix, rows[matrix])
            else:
                begins = self._collapse(matrix, inserter.constant(rows[matrix]))
                others[begins] = partial(moved, inserter, begins.results[0], step * rows[matrix])
        for matrix in matrices:
            if factor > max(each.period for each in matrices) and matrix.is_clipped and matrix.access == "rows" and \
                    factor % matrix.qword_period == 0:
                self._ask_qwords(matrix, factor)
        # an end within the last steps of 32 bits
        far = self._before(arith.MaxSIOp(end, inserter.constant((factor - 1) * step - LIMIT)))
        body = [operation for operation in main.body.block.ops if operation is not following][:-1]
        steps = repeat(inserter, main, body, inserter.constant(step), factor, others)
        if isinstance(folder, StoredRowFolder):
            folder.fold_steps(steps, [operation for operation in body if operation not in others])
        if folding is not None and folder is not None:
            self._holds |= dict.fromkeys((*folder.holds(), *self._are_apart(matrices, folding.early)))
        self._run_to(main, self._before(arith.SubiOp(far, inserter.constant((factor - 1) * step))))
        for operation in list(main.body.block.ops) if folding is not None and folding.stores_last else ():
            if isinstance(operation, StoreNdOp):
                operation.detach()  # type: ignore[no-untyped-call]
                main.body.block.insert_op_before(operation, main.body.block.last_op)

    def _are_apart(self, matrices: Sequence[Matrix], loads: Sequence[Matrix]) -> Iterator[SSAValue]:
        """Whether matrices have no memory in common with those that are stored: they are loaded before that."""
        every = {matrix: self._on_rows(matrix, self._before(arith.MuliOp(matrix.count, matrix.height), "rows"))
                 for matrix in matrices}
        for matrix in matrices:
            for load in loads if matrix.is_stored else ():
                yield self._before(NoAliasOp(every[load], every[matrix]), "apart")

    def _load_late(self, loop: scf.ForOp) -> None:
        """Put loads behind stores where registers are short; in a loop that runs only where these do not meet."""
        matrices = matrices_of(loop)
        if late := late_loads(loop, matrices, self.registers):
            self._store_early(loop, late)
        if loop is self.loop:
            loads = {identity(matrix): matrix for matrix in matrices if not {*matrix.messages}.isdisjoint(late)}
            self._holds |= dict.fromkeys(self._are_apart(matrices, [*loads.values()]))

    def _store_early(self, loop: scf.ForOp, late: Sequence[Operation] = ()) -> None:
        """Put each store right behind its value, before the next value is computed: few results are alive at once.

        Args:
            loop: the loop.
            late: loads that are delayed as well: stored values depend on them.
        """
        block, waits = loop.body.block, {*late}
        for operation in block.ops:
            if any(value.owner in waits for value in operation.operands):
                waits.add(operation)
        last = max((place for place, operation in enumerate(block.ops) if not operation.has_trait(Pure)
                    and not isinstance(operation, (StoreNdOp, scf.YieldOp)) and operation not in waits), default=-1)
        waiting = [operation for place, operation in enumerate([*block.ops][:-1])
                   if place > last or operation in waits]
        ordered: dict[Operation, None] = {}

        def place(operation: Operation) -> None:
            for operand in operation.operands:
                if isinstance(operand.owner, Operation) and operand.owner in pure and operand.owner not in ordered:
                    place(operand.owner)
            ordered[operation] = None

        pure = {operation for operation in waiting if not isinstance(operation, StoreNdOp)}
        for operation in (*(each for each in waiting if isinstance(each, StoreNdOp)), *waiting):
            if operation not in ordered:
                place(operation)
        for operation in ordered:
            operation.detach()  # type: ignore[no-untyped-call]
            assert block.last_op is not None
            block.insert_op_before(operation, block.last_op)

    def _first_of(self, single: scf.ForOp, end: SSAValue) -> SSAValue:
        """The end of a loop of one step, whose matrices begin on 4-byte boundaries where those of the next do not."""
        behind = self.inserter.before(single, arith.AddiOp(single.lb, single.step))
        return self.inserter.before(single, arith.MinSIOp(end, behind))

    def _run_to(self, loop: scf.ForOp, end: SSAValue) -> None:
        """Let a loop run to an end, under the conditions required so far."""
        holds = reduce(lambda a, b: self._before(arith.AndIOp(a, b)), self._holds)
        end = self.inserter.before(loop, arith.MinSIOp(loop.ub, end))
        end = self.inserter.before(loop, SelectOp(holds, end, loop.lb), "inside_end")
        loop.operands = [loop.lb, end, loop.step, *loop.iter_args]
        loop.attributes[DISABLE_UNROLL] = UnitAttr()

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
        if a is None or b is None or not {"sge": a >= b, "sle": a <= b, "eq": a == b}.get(predicate):
            self._holds[self._before(CmpIOp(left, right, predicate))] = None

    def _wide(self, value: SSAValue) -> SSAValue:
        """An index in 64 bits."""
        return self._before(IndexCastOp(value, i64))

    def _end(self, matrix: Matrix) -> SSAValue:
        """Value of the counter behind the last matrix."""
        return reduce(lambda end, other: self.inserter.subtract(self.loop, end, other), matrix.others, matrix.count)

    def _ask_of(self, matrix: Matrix) -> None:
        """Ask whether a descriptor's matrices lie behind each other, and a step keeps to the rows of its own."""
        inserter, maker, zero = self.inserter, matrix.maker, self.inserter.constant(0)
        height, width, pitch = matrix.height, maker.shape[-1], maker.strides[-2]
        apart = self._before(arith.MuliOp(self._wide(height), self._wide(pitch)))
        self._ask(apart, "eq", self._wide(maker.strides[matrix.axis]))
        rows = self._before(arith.MuliOp(self._wide(matrix.count), self._wide(height)))
        self._ask(rows, "sle", self._before(arith.ConstantOp(IntegerAttr(MOST_ROWS[matrix.access], i64))))
        first = self._first(matrix)
        self._ask(first, "sge", zero)
        top, bottom = (inserter.add(self.loop, maker.offsets[-2], end) for end in matrix.rows)
        self._ask(top, "sge", zero)
        if matrix.is_clipped and matrix.sizes:
            self._ask_sizes(matrix, matrix.sizes, first)
        else:
            self._ask(bottom, "sle", height)
        for axis, index in enumerate(maker.offsets[:-2]):
            if axis != matrix.axis:
                self._ask(index, "ult", maker.shape[axis])
        if matrix.access == "rows" and not matrix.is_clipped:
            columns = inserter.constant(matrix.columns)
            self._ask(width, "eq", columns)
            self._ask(pitch, "eq", columns)
            first_matrix, box = self._on_rows(matrix, matrix.height), (0, 0, 1, matrix.columns)
            self._holds[self._before(InBoundsOp(first_matrix, box, matrix.alignment), "inside")] = None

    def _first(self, matrix: Matrix) -> SSAValue:
        """The number of the first matrix that the loop reaches."""
        return reduce(lambda total, other: self.inserter.add(self.loop, total, other), matrix.others, self.loop.lb)

    def _ask_sizes(self, matrix: Matrix, sizes: tuple[int, int], first: SSAValue) -> None:
        """Ask whether matrices have the known sizes, and runs of their rows begin on 4-byte boundaries."""
        (rows, columns), inserter, maker = sizes, self.inserter, matrix.maker
        self._ask(matrix.height, "eq", inserter.constant(rows))
        if matrix.access != "rows":
            return
        self._ask(maker.shape[-1], "eq", inserter.constant(columns))
        self._ask(maker.strides[-2], "eq", inserter.constant(columns))
        if matrix.period > 1:
            self._ask(self._before(arith.AndIOp(first, inserter.constant(matrix.period - 1))), "eq",
                      inserter.constant(0))
        one = inserter.constant(1)
        whole = self._described(matrix, one, inserter.constant(rows * columns), inserter.constant(4 * rows * columns))
        self._holds[self._before(InBoundsOp(whole, (0, 0, 1, rows * columns)), "inside")] = None

    def _ask_qwords(self, matrix: Matrix, factor: int) -> None:
        """Ask whether each of ``factor`` matrices, and what messages reach of it, begins on an 8-byte boundary."""
        self._ask(self._before(arith.AndIOp(self._first(matrix), self.inserter.constant(factor - 1))), "eq",
                  self.inserter.constant(0))
        assert matrix.sizes is not None
        one, size = self.inserter.constant(1), prod(matrix.sizes)
        whole = self._described(matrix, one, self.inserter.constant(size), self.inserter.constant(16 * size))
        self._holds[self._before(InBoundsOp(whole, (0, 0, 1, size), STORE_ALIGNMENT), "inside")] = None
        for message in matrix.messages:
            if not isinstance(message, PrefetchNdOp):
                message.properties["qword_aligned"] = UnitAttr()

    def _on_rows(self, matrix: Matrix, rows: SSAValue) -> SSAValue:
        """A descriptor before the loop on the first rows of all matrices as one."""
        if matrix.access != "rows":
            return self._described(matrix, rows, matrix.maker.shape[-1], matrix.maker.strides[-2])
        columns = matrix.sizes[1] if matrix.is_clipped and matrix.sizes else matrix.columns
        width = self.inserter.constant(columns)
        return self._described(matrix, rows, width, width)

    def _described(self, matrix: Matrix, rows: SSAValue, columns: SSAValue, pitch: SSAValue) -> SSAValue:
        """A descriptor before the loop on the first matrix, with other sizes and another pitch."""
        inserter, maker = self.inserter, matrix.maker
        offsets, shape, strides = list(maker.offsets), list(maker.shape), list(maker.strides)
        offsets[matrix.axis], shape[matrix.axis] = inserter.constant(0), inserter.constant(1)
        shape[-2:], strides[-2] = [rows, columns], pitch
        kind = maker.result.type
        assert isinstance(kind, TensorDescType)
        new = CreateNdTdescOp(maker.source, offsets, shape, strides, kind)
        new.attributes.update(maker.attributes)
        return self._before(new, maker.result.name_hint)

    def _collapse(self, matrix: Matrix, height: SSAValue) -> Operation:
        """Move a descriptor on all matrices to the one of a step, where the loop made one on that.

        Args:
            matrix: the matrix.
            height: its rows.

        Returns:
            What computes the row where it begins.
        """
        inserter, maker = self.inserter, matrix.maker
        offset = maker.offsets[matrix.axis]
        if (begins := self._rows.get((maker.source, offset, height))) is None:
            begins = self._rows[maker.source, offset, height] = arith.MuliOp(offset, height)
            inserter.before(maker, begins, "row")
        every = self._on_rows(matrix, self._before(arith.MuliOp(matrix.count, matrix.height), "rows"))
        parts = {message: valid_part(message, matrix) for message in matrix.messages} if matrix.is_clipped else {}
        moved = UpdateNdOffsetOp(every, [begins.results[0], inserter.constant(0)])
        maker.result.replace_all_uses_with(inserter.before(maker, moved, maker.result.name_hint))
        for message in matrix.messages:
            if matrix.access == "rows" and not isinstance(message, PrefetchNdOp):
                message.properties["in_bounds"] = UnitAttr()
            if matrix.is_clipped and isinstance(message, (LoadNdOp, StoreNdOp)):
                message.properties |= {"in_bounds": UnitAttr(), "valid": integers(parts[message])}
        return begins
