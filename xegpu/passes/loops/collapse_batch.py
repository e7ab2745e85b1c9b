"""Batch collapsing: in loops of small products, the matrices of a batch become rows of one (loop versioning).

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

On devices whose messages take constant distances, several steps are one of the first loop where each matrix has the
rows that a step reaches and no others: what they reach lies constant distances behind the first step's. Single steps
that are left are a third loop, between the two.

Loops are taken that multiply, are straight, and make descriptors whose matrix the counter numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Operation
from xdsl.traits import Pure

from xegpu.dialect.block_io import CreateNdTdescOp, desc_of
from xegpu.dialect.dpas import DpasOp, DpasScaledOp, MadOp
from xegpu.dialect.payload import DISTANCE
from xegpu.ir.matchers import MAIN_LOOP, main_loop_of, number
from xegpu.ir.region_branch import for_loops
from xegpu.passes.loops.batch_matrix import FACTORS, MESSAGES, MOST_PRODUCTS, Matrix, heights, matrices_of
from xegpu.passes.loops.unroll import MOST_MESSAGES
from xegpu.rewrite.inserter import Inserter, rewrite_in_place
from xegpu.target.grf_mode import requested_registers
from xegpu.target.targets import Target

if TYPE_CHECKING:
    from xegpu.passes.loops.clipped_folding import ClippedFolding
    from xegpu.passes.loops.fold_rows import Folding
    from xegpu.passes.loops.fold_stored_rows import StoredFolding

_PRODUCTS = (DpasOp, DpasScaledOp, MadOp)



@dataclass(frozen=True)
class CollapseBatch:
    """Pass ``collapse-batch``.

    Attributes:
        target: whether its block messages take distances.
    """

    target: Target

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with loops over one matrix each; itself where no loop goes over a batch."""
        if not _has_batches(module):
            return module
        return rewrite_in_place(module, _candidates, matrices_of, self._split, erases=True)

    def _split(self, inserter: Inserter, loop: scf.ForOp, matrices: list[Matrix]) -> None:
        from xegpu.passes.loops.batch_versions import Versions  # few kernels need these files

        matrices = _collapsible(loop, matrices)
        if not matrices:
            return
        folding = _folding_of(loop, matrices, self.target)
        factor = _factor(loop, matrices, self.target) if folding is None else folding.factor
        Versions(inserter, loop, _registers(loop, self.target)).split(matrices, factor, folding)


def _registers(loop: scf.ForOp, target: Target) -> float:
    """Bytes of registers that a lane has in a loop."""
    function = loop.parent_op()
    while not isinstance(function, func.FuncOp):
        assert function is not None
        function = function.parent_op()
    mode = requested_registers(function) or min(target.registers)
    return mode * target.register_bytes / target.subgroup_size


def _collapsible(loop: scf.ForOp, matrices: list[Matrix]) -> list[Matrix]:
    """The matrices to collapse; those that begin within a word only if several steps can be unrolled into one."""
    period = max((matrix.period for matrix in matrices), default=1)
    return matrices if period == 1 or _may_repeat(loop, matrices) else \
        [matrix for matrix in matrices if matrix.period == 1]


def _folding_of(loop: scf.ForOp, matrices: list[Matrix],
                target: Target) -> Folding | ClippedFolding | StoredFolding | None:
    """Row folding of a loop's matrices; None where nothing is to be folded."""
    from xegpu.passes.loops.clipped_folding import clipped_folding_of
    from xegpu.passes.loops.fold_rows import folding_of
    from xegpu.passes.loops.fold_stored_rows import stored_folding_of

    return folding_of(loop, matrices, target) or clipped_folding_of(loop, matrices, target) or \
        stored_folding_of(loop, matrices, target)


def guarded_arrays(module: ModuleOp, target: Target) -> tuple[str, ...]:
    """Conditions on each array under which the first loops run, beside contiguous matrices.

    Args:
        module: the kernel before the pass, or after passes that left it as it was.
        target: the target of the compilation.
    """
    found: dict[str, None] = {}
    for loop in _candidates(module):
        matrices = _collapsible(loop, matrices_of(loop))
        folding = _folding_of(loop, matrices, target)
        several = folding or _factor(loop, matrices, target) > 1
        exactly, folded = heights(matrices) if several else None, folding.matrices if folding else ()
        for matrix in matrices:
            rows = f"exactly {exactly[matrix]} rows" if exactly else \
                "the rows that tiles reach" if matrix.bottom is None else f"{matrix.bottom} rows or more"
            width = matrix.sizes[1] if matrix.sizes else matrix.columns
            columns = f" of exactly {width} elements" if matrix.access == "rows" or matrix in folded else ""
            found[f"{matrix.maker.source.name_hint or 'an array'} with {rows}{columns}"] = None
    return tuple(found)


def _has_batches(module: ModuleOp) -> bool:
    """Whether a kernel takes arrays of more than two dimensions; most take none, and are not looked through."""
    return any(isinstance(argument.type, MemRefType) and len(argument.type.get_shape()) > 2
               for function in module.body.block.ops if isinstance(function, func.FuncOp)
               for argument in function.body.block.args)


def _factor(loop: scf.ForOp, matrices: Sequence[Matrix], target: Target) -> int:
    """Number of steps of a loop that make up one of its first version.

    One where messages take no distances, so that each step sets their addresses anew; where a step does more than load,
    multiply and store: takes rows apart; where not all blocks are those of such matrices; and where their rows or the
    step are known at run time alone.
    """
    body, step, found = loop.body.block.ops, number(loop.step), heights(matrices)
    if any(matrix.is_clipped and matrix.access == "rows" for matrix in matrices):  # a step begins with whole words
        words, qwords = max(each.period for each in matrices), max(each.qword_period for each in matrices)
        products = sum(isinstance(operation, _PRODUCTS) for operation in body)
        return qwords if words > 1 and qwords * products <= MOST_PRODUCTS and qwords <= FACTORS[0] else words
    if not target.immediate_offsets or not _may_repeat(loop, matrices) or not step or not found or \
            not all(map(_is_plain, matrices)):
        return 1
    messages = sum(isinstance(operation, MESSAGES) for operation in body)
    return next((factor for factor in FACTORS if messages * factor <= MOST_MESSAGES
                 and factor * step * max(found.values()) <= DISTANCE), 1)


def _may_repeat(loop: scf.ForOp, matrices: Sequence[Matrix]) -> bool:
    """Whether several steps of a loop can be one: all blocks are those of matrices whose rows are known."""
    makers = sum(isinstance(operation, CreateNdTdescOp) for operation in loop.body.block.ops)
    return MAIN_LOOP not in loop.attributes and bool(number(loop.step)) and bool(heights(matrices)) and \
        makers == len(matrices)


def _is_plain(matrix: Matrix) -> bool:
    """Whether blocks are as messages give or take them: by 2D block messages, or whole registers of 16-bit rows."""
    desc = desc_of(matrix.maker.result)
    return matrix.access == "block" or (desc.dtype.bits == 16 and matrix.columns % 16 == 0)


def _candidates(around: Operation) -> Iterator[scf.ForOp]:
    """Straight loops of products, without remainder loops."""
    for loop in for_loops(around):
        if main_loop_of(loop) is None and \
                any(isinstance(operation, _PRODUCTS) for operation in loop.body.block.ops) and \
                all(isinstance(operation, (*MESSAGES, scf.YieldOp)) or
                    (operation.has_trait(Pure) and not operation.regions) for operation in loop.body.block.ops):
            yield loop
