"""Bounds-check peeling: loop steps whose blocks all lie inside their arrays become a loop without checks.

    scf.for %k = %0 to %n step %32 { %d = update_nd_offset %a, [%0, %k] ; %v = load_nd %d ; ... }
becomes, where blocks are read row by row,
    %inside, %rows, %columns = in_bounds %a [0, 0, 16, 32]
    %more = addi %columns, 1 ; %fewer = minsi %n, %more ; %end = select %inside, %fewer, %0
    %rest = scf.for %k = %0 to %end step %32 {
      %d = update_nd_offset %a, [%0, %k] ; %v = load_nd %d {in_bounds} ; ... } {xegpu.main_loop}
    scf.for %k = %rest to %n step %32 { %d = update_nd_offset %a, [%0, %k] ; %v = load_nd %d ; ... }

Such a read is one message for each row of a block, or a vector of words of each lane's row, which must not leave its
array, and which takes rows that begin on 4-byte boundaries; copies (:func:`xegpu.layout.lane_map.unaligned_copy`) take
any. A load takes part whose position is the counter, values from before the loop, and constants. Where subgroups wait
for each other in a step, they must leave the first loop together: then the box that is checked has the blocks of all of
them.

Loops of multiply-adds take part where registers have room for all that a step reads. On a CPU, loops that load and
store blocks along their rows take part with all of both: where a branch depends on the counter, its compiler masks what
follows.

A loop of the two that keeps loads with a check, and computes with elements of the fragments that it carries
(``%acc * %scale`` in an attention kernel), is marked ``xegpu.disable_rotate``. Intel's compiler puts the reads of such
elements at the head of a rotated loop, whose body always follows; they are then in registers twice across the branches
of the checks, and spill. Where the loop can be left at its head, the compiler sinks them to their uses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import ModuleOp, UnitAttr, VectorType
from xdsl.ir import Operation, SSAValue
from xdsl.traits import Pure

from xegpu.analysis.block_position import (
    Position,
    Sum,
    Term,
    depends_on_subgroup,
    is_inside,
    position_of,
    surface_of,
    uniform_part,
)
from xegpu.analysis.dataflow.integer_range import Ranges
from xegpu.analysis.gemm_loops import has_barrier, may_peel
from xegpu.analysis.register_pressure import loop_bytes
from xegpu.dialect.block_io import CreateNdTdescOp, LoadNdOp, PrefetchNdOp, SetNdOffsetsOp, StoreNdOp, desc_of
from xegpu.dialect.bounds import ALIGNMENT, InBoundsOp, is_row_of_words, is_unaligned_copy, row_bits
from xegpu.dialect.dpas import DpasOp, MadOp
from xegpu.dialect.types import TensorDesc
from xegpu.ir.kernel_attributes import function_of, subgroup_size
from xegpu.ir.matchers import DISABLE_ROTATE, DISABLE_UNROLL, MAIN_LOOP, main_loop_of, number
from xegpu.ir.region_branch import for_loops
from xegpu.mlir.arith import SelectOp
from xegpu.passes.grf_mode import fragment_share
from xegpu.passes.loops.interleave_columns import reads_on
from xegpu.passes.loops.unroll import split_loop
from xegpu.rewrite.inserter import Inserter, rewrite_in_place
from xegpu.rewrite.offsets import index_of
from xegpu.target.grf_mode import requested_registers
from xegpu.target.targets import Target

_Box = tuple[int, int, int, int]


@dataclass(frozen=True)
class PeelBounds:
    """Pass ``peel-bounds``.

    Attributes:
        target: whether it is a CPU.
    """

    target: Target

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with peeled loops; itself where no loop reads blocks by rows."""
        peeled = rewrite_in_place(module, partial(_candidates, self._may_peel), _reads, partial(_peel, for_gpu=True))
        if not self.target.is_cpu:
            return peeled
        return rewrite_in_place(peeled, partial(_candidates, _goes_along_rows), _accesses,
                                partial(_peel, for_gpu=False))

    def _may_peel(self, loop: scf.ForOp) -> bool:
        """Whether a loop may be peeled: one of multiply-adds where registers have room for all rows of a step at once.

        Without a branch between them, all are read first.
        """
        return may_peel(loop) or (not self.target.is_cpu and may_peel(loop, MadOp) and self._has_room(loop))

    def _has_room(self, loop: scf.ForOp) -> bool:
        function = function_of(loop)
        registers = requested_registers(function) or min(self.target.registers)
        needed = loop_bytes(loop) * subgroup_size(loop) / self.target.register_bytes
        return needed <= fragment_share(function) * registers


def _candidates(may: Callable[[scf.ForOp], bool], around: Operation) -> list[scf.ForOp]:
    """The loops that may be peeled, without remainder loops."""
    return [loop for loop in for_loops(around)
            if main_loop_of(loop) is None and number(loop.step) is not None and may(loop)]


def _goes_along_rows(loop: scf.ForOp) -> bool:
    """Whether a loop on a CPU loads and stores blocks, and does nothing that may wait or branch."""
    found = False
    for operation in loop.body.block.ops:
        if isinstance(operation, (LoadNdOp, StoreNdOp)):
            if operation.in_bounds is not None:
                return False
            found = True
        elif operation.regions or not (operation.has_trait(Pure) or isinstance(operation, (PrefetchNdOp, scf.YieldOp))):
            return False
    return found


@dataclass(frozen=True)
class _Read:
    """A load, or a CPU's store, whose position is known before a step.

    Attributes:
        position: where it begins.
        box: the rows and columns that it reads, without the increments of the steps.
        key: equal for accesses that one check can cover.
        reads_on: elements that are read behind the columns of its box, in a row of memory; 0 in most.
    """

    load: LoadNdOp | StoreNdOp
    position: Position
    box: _Box
    key: Any
    reads_on: int = 0


def _reads(loop: scf.ForOp) -> list[_Read]:
    lanes = subgroup_size(loop)
    found = [read for operation in loop.body.block.ops if isinstance(operation, LoadNdOp)
            and _reads_rows(desc_of(operation.desc), lanes) and (read := _read(operation, loop)) is not None]
    if not has_barrier(loop):
        return found
    ranges = Ranges.of_function(function_of(loop))
    uniform = [_uniform(read, ranges) for read in found]
    return [] if None in uniform else [read for read in uniform if read is not None]


def _accesses(loop: scf.ForOp) -> list[_Read]:
    """All loads and stores of a loop along the rows of its blocks, whose lanes are side by side in a row; or none."""
    lanes, found = subgroup_size(loop), list[_Read]()
    for operation in loop.body.block.ops:
        if isinstance(operation, (LoadNdOp, StoreNdOp)):
            read = _read(operation, loop, anew=True) if row_bits(desc_of(operation.desc), lanes) else None
            if read is None:
                return []
            found.append(read)
    counter = loop.body.block.args[0]
    return found if any(counter in read.position.column.terms for read in found) else []


def _reads_rows(desc: TensorDesc, lanes: int) -> bool:
    return row_bits(desc, lanes) > 0 or is_row_of_words(desc, lanes) or is_unaligned_copy(desc)


def _uniform(read: _Read, ranges: Ranges) -> _Read | None:
    """Box of a load that covers the blocks of all subgroups; None if their distance is unknown."""
    at, (top, left, bottom, right) = read.position, read.box
    row, column = uniform_part(at.row, ranges), uniform_part(at.column, ranges)
    maker = at.root.owner
    if row is None or column is None or not isinstance(maker, CreateNdTdescOp) or any(
            map(depends_on_subgroup, (maker.source, *maker.shape, *maker.strides))):
        return None
    box = (top + row[1], left + column[1], bottom + row[2], right + column[2])
    surface, *_, size, offset = read.key
    return replace(read, position=Position(at.root, row[0], column[0]), box=box,
                   key=(surface, row[0].terms, column[0].terms, size, offset))


def _read(load: LoadNdOp | StoreNdOp, loop: scf.ForOp, *, anew: bool = False) -> _Read | None:
    """A load, or a store, whose bounds check can be hoisted before the loop; None for others.

    Args:
        load: the load, or the store.
        loop: the loop.
        anew: whether the check may stand on a descriptor of its own, where the loop makes one in each step.
    """
    counter, desc = loop.body.block.args[0], desc_of(load.desc)
    at = position_of(load.desc)
    if is_inside(at.root, loop) and not (anew and _is_made_of_values_before(at.root, loop)):
        return None
    for along in (at.row, at.column):
        if along.terms.count(counter) > 1 or any(_changes(term, loop) for term in along.terms if term is not counter):
            return None
    size, step = desc.dtype.bytes, number(loop.step)
    aligns = size < ALIGNMENT and not is_unaligned_copy(desc)
    if aligns and counter in at.column.terms and (step is None or step * size % ALIGNMENT):
        return None
    top, left, on = at.row.constant, at.column.constant, reads_on(load) if isinstance(load, LoadNdOp) else 0
    box = (top, left, top + desc.shape[0] + (on > 0), left + desc.shape[1] * desc.block.array_length)
    surface = surface_of(at.root) or (at.root,)
    return _Read(load, at, box, (surface, at.row.terms, at.column.terms, size, left * size % ALIGNMENT), on)


def _is_made_of_values_before(root: SSAValue, loop: scf.ForOp) -> bool:
    """Whether a descriptor that is made in a loop could, at another place, be made in front of it."""
    maker = root.owner
    return isinstance(maker, CreateNdTdescOp) and not any(
        is_inside(value, loop) for value in (maker.source, *maker.offsets[:-2], *maker.shape, *maker.strides))


def _changes(term: Term, loop: scf.ForOp) -> bool:
    return is_inside(term if isinstance(term, SSAValue) else term.desc, loop)


def _peel(inserter: Inserter, loop: scf.ForOp, reads: list[_Read], *, for_gpu: bool) -> None:
    main = loop if MAIN_LOOP in loop.attributes else split_loop(inserter, loop, 1)[0]
    rest = main.results[-1].first_use
    assert rest is not None
    boxes: dict[Any, tuple[Position, _Box, int]] = {}
    for read in reads:
        read.load.properties["in_bounds"] = UnitAttr()
        if read.reads_on:
            read.load.properties["row_behind"] = UnitAttr()
        position, (top, left, bottom, right), on = boxes.get(read.key, (read.position, read.box, 0))
        boxes[read.key] = position, (min(top, read.box[0]), min(left, read.box[1]), max(bottom, read.box[2]),
                                     max(right, read.box[3])), max(on, read.reads_on)
    inside: list[SSAValue] = []
    ends: list[SSAValue] = [main.ub]
    for position, box, on in boxes.values():
        checked, reach = _box_check(inserter, main, position, box, on)
        inside.append(checked)
        ends += [inserter.add(main, inserter.add(main, main.lb, far), 1) for far in reach]
    end = reduce(lambda a, b: inserter.before(main, arith.MinSIOp(a, b)), ends)
    holds = reduce(lambda a, b: inserter.before(main, arith.AndIOp(a, b)), inside)
    end = inserter.before(main, SelectOp(holds, end, main.lb), "inside_end")
    main.operands = [main.lb, end, main.step, *main.iter_args]
    if not for_gpu:
        return
    main.attributes[DISABLE_UNROLL] = UnitAttr()
    for part in (main, rest.operation):
        assert isinstance(part, scf.ForOp)
        if _branches(part) and _computes_with_carried(part):
            part.attributes[DISABLE_ROTATE] = UnitAttr()


def _branches(loop: scf.ForOp) -> bool:
    """Whether a load of the loop checks its bounds."""
    return any(isinstance(operation, LoadNdOp) and operation.in_bounds is None for operation in loop.body.block.ops)


def _computes_with_carried(loop: scf.ForOp) -> bool:
    """Whether a fragment that the loop carries is an operand of something other than a matrix product."""
    return any(isinstance(argument.type, VectorType) and not isinstance(use.operation, (DpasOp, MadOp, scf.YieldOp))
               for argument in loop.body.block.args for use in argument.uses)


def _box_check(inserter: Inserter, loop: scf.ForOp, at: Position, box: _Box,
               on: int) -> tuple[SSAValue, list[SSAValue]]:
    """Bounds check of a box at the first step, and its limits along the axes on which the counter moves it; ``on``
    elements behind its columns are read, too, and lie in the row behind its last one, or in front of it."""
    counter = loop.body.block.args[0]
    row, column = (index_of(inserter, loop, Sum(tuple(loop.lb if term is counter else term for term in along.terms)))
                   for along in (at.row, at.column))
    maker = at.root.owner
    anew = has_barrier(loop) or is_inside(at.root, loop)
    again = CreateNdTdescOp(maker.source, [*maker.offsets[:-2], row, column], maker.shape, maker.strides,
                            maker.result.type) if anew and isinstance(maker, CreateNdTdescOp) else \
        SetNdOffsetsOp(at.root, row, column)
    desc = inserter.before(loop, again, at.root.name_hint)
    check = InBoundsOp(desc, box, pitch=on)
    inserter.before(loop, check, "inside")
    return check.inside, [far for far, along in ((check.rows, at.row), (check.columns, at.column))
                          if counter in along.terms]
