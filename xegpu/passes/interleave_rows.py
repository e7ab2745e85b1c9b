"""Row interleaving of A: even rows in one block and odd rows in the other, with accumulators reordered once.

    for ... (%c0 = %zero, %c1 = %zero)               a loop, 16-bit elements, A stored by columns
      %a = load_nd %desc {transpose}                 -> vector<16x1xbf16>: 8 words of two rows each
      %a0 = extract_strided_slice %a, rows 0 to 7
      %a1 = extract_strided_slice %a, rows 8 to 15
      yield dpas %a0, %b, %c0, dpas %a1, %b, %c1
    store %c0 ; store %c1
becomes
    for ... (%c0 = %zero, %c1 = %zero)
      %a = load_nd %desc {transpose}
      %a0 = vector.shuffle %a, %a [0, 2, ..., 14]    the low halves of the words
      %a1 = vector.shuffle %a, %a [1, 3, ..., 15]    the high halves
      yield dpas %a0, %b, %c0, dpas %a1, %b, %c1
    %lo = vector.shuffle %c0, %c1 [0, 8, 1, 9, 2, 10, 3, 11]
    %hi = vector.shuffle %c0, %c1 [4, 12, 5, 13, 6, 14, 7, 15]
    store %lo ; store %hi

A row of a product depends on one row of A and of the accumulator only, so that rows may lie in any order as long as
they lie alike. To put them in order takes two moves for each register of A in each step; to tell even from odd rows
takes one, and the accumulators are put in order once, behind the loop. An accumulator with another use inside the loop
stays as it is, and its loop with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import DenseArrayBase, DenseIntOrFPElementsAttr, ModuleOp, VectorType, i64
from xdsl.dialects.vector import BroadcastOp, ShuffleOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from xegpu.dialect.block_io import LoadNdOp
from xegpu.dialect.dpas import DpasOp
from xegpu.ir.region_branch import for_loops
from xegpu.mlir.vector import ExtractStridedSliceOp, shape_of, values_of
from xegpu.rewrite.rewriter import copied, rewrite

ROWS = 8
"""Rows of a block of A, and of the accumulator."""
EVEN, ODD = tuple(range(0, 2 * ROWS, 2)), tuple(range(1, 2 * ROWS, 2))
_IN_ORDER = tuple(row // 2 + row % 2 * ROWS for row in range(2 * ROWS))
"""Position of each row where the even rows stand in front of the odd ones."""


@dataclass(frozen=True)
class InterleaveRows:
    """Pass ``interleave-rows``."""

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with the accumulators of such loops in the order of the loads; itself if there is no such loop."""
        return rewrite(module, _interleaved)


def _interleaved(function: func.FuncOp) -> func.FuncOp:
    if not any(_Loop(loop).is_regular() for loop in for_loops(function)):
        return function
    new = copied(function)
    for loop in for_loops(new):
        if (found := _Loop(loop)).is_regular():
            found.change()
    return new


@dataclass
class _Loop:
    """A loop, and what of it is in pairs.

    Attributes:
        loop: the loop.
        loads: the transposing loads of its body.
        halves: for each half of a load its first row, 0 or 8.
        partner: for an accumulator of a first half, that of the second half with the same columns.
        carried: for the position of a carried accumulator, that of its partner.
    """

    loop: scf.ForOp
    loads: list[LoadNdOp] = field(default_factory=list)
    halves: dict[SSAValue, int] = field(default_factory=dict)
    partner: dict[SSAValue, SSAValue] = field(default_factory=dict)
    carried: dict[int, int] = field(default_factory=dict)

    @property
    def body(self) -> Block:
        """The block that is repeated."""
        return self.loop.body.block

    def is_regular(self) -> bool:
        """Find the pairs; whether everything in them is of use to them alone."""
        self.loads = [operation for operation in self.body.ops if _gives_words(operation)]  # type: ignore[misc]
        return bool(self.loads) and all(map(self._is_halved, self.loads)) and self._pairs_up() and self._is_closed()

    def _is_halved(self, load: LoadNdOp) -> bool:
        """Whether a load is used by halves, each as the first operand of products of this block."""
        for use in load.result.uses:
            part = use.operation
            if not isinstance(part, ExtractStridedSliceOp) or part.parent is not self.body or not _is_half(part):
                return False
            if not all(isinstance(user.operation, DpasOp) and user.index == 0 and user.operation.parent is self.body
                       for user in part.result.uses):
                return False
            self.halves[part.result] = values_of(part.offsets)[0]
        return True

    def _products(self, load: LoadNdOp, first: int) -> dict[SSAValue, DpasOp] | None:
        """The products of a half by their second operands; None if two have the same."""
        found: dict[SSAValue, DpasOp] = {}
        for use in load.result.uses:
            part = use.operation.results[0]
            for user in part.uses if self.halves[part] == first else ():
                product = user.operation
                assert isinstance(product, DpasOp)
                if product.b in found:
                    return None
                found[product.b] = product
        return found

    def _pairs_up(self) -> bool:
        """Whether each product of a first half has one of the second half beside it, with an accumulator alike."""
        couples: list[tuple[DpasOp, DpasOp]] = []
        for load in self.loads:
            low, high = self._products(load, 0), self._products(load, ROWS)
            if low is None or high is None or low.keys() != high.keys():
                return False
            couples += [(low[b], high[b]) for b in low]
        self.partner = {low.result: high.result for low, high in couples}
        return all(low.acc is not None and high.acc is not None and self._are_alike(low.acc, high.acc)
                   for low, high in couples)

    def _are_alike(self, low: SSAValue, high: SSAValue) -> bool:
        """Whether two accumulators come from a pair of products, or are carried side by side."""
        if self.partner.get(low) is high:
            return True
        if not (isinstance(low, BlockArgument) and isinstance(high, BlockArgument) and low is not high
                and low.block is self.body is high.block):
            return False
        mine, other = low.index - 1, high.index - 1
        if self.carried.setdefault(mine, other) != other:
            return False
        self.partner[low] = high
        return True

    def _is_closed(self) -> bool:
        """Whether pairs are yielded as pairs, and nothing else uses them."""
        positions = [*self.carried, *self.carried.values()]
        if len(set(positions)) < len(positions):
            return False
        yielded = self.body.last_op
        assert isinstance(yielded, scf.YieldOp)
        if any(self.partner.get(yielded.operands[low]) is not yielded.operands[high]
               for low, high in self.carried.items()):
            return False
        return all(self._is_own(use.operation, use.index, value in self.partner, positions)
                   for value in (*self.partner, *self.partner.values()) for use in value.uses)

    def _is_own(self, user: Operation, index: int, is_first: bool, positions: list[int]) -> bool:
        """Whether a use of a pair's first or second value is by a product of that half, or at its carried position."""
        if user is self.body.last_op:
            return index in (self.carried if is_first else positions)
        return isinstance(user, DpasOp) and index == 2 and self.halves.get(user.a) == (0 if is_first else ROWS)

    def change(self) -> None:
        """Take the rows as they come, and put those of the accumulators in order behind the loop."""
        for load in self.loads:
            self._split_rows(load)
        for low, high in self.carried.items():
            before = self.loop.iter_args[low], self.loop.iter_args[high]
            if not _are_the_same(*before):
                for position, rows in ((low, EVEN), (high, ODD)):
                    self.loop.operands[3 + position] = _shuffled(before, rows, self.loop, before=True)
            self._put_in_order(self.loop.results[low], self.loop.results[high])

    def _split_rows(self, load: LoadNdOp) -> None:
        parts = [use.operation for use in load.result.uses]
        rows = {first: _shuffled((load.result, load.result), which, load) for first, which in ((0, EVEN), (ROWS, ODD))}
        for part in parts:
            part.results[0].replace_all_uses_with(rows[self.halves[part.results[0]]])
            self.body.erase_op(part)

    def _put_in_order(self, even: SSAValue, odd: SSAValue) -> None:
        uses = {value: list(value.uses) for value in (even, odd)}
        for value, rows in ((odd, _IN_ORDER[ROWS:]), (even, _IN_ORDER[:ROWS])):
            shuffle = _shuffled((even, odd), rows, self.loop)
            for use in uses[value]:
                use.operation.operands[use.index] = shuffle


def _gives_words(operation: Operation) -> bool:
    """Whether an operation loads words of two rows, 16 in all."""
    return isinstance(operation, LoadNdOp) and operation.transposes == 16 \
        and shape_of(operation.result) == (2 * ROWS, 1)


def _is_half(part: ExtractStridedSliceOp) -> bool:
    return values_of(part.offsets) in ((0, 0), (ROWS, 0)) and values_of(part.sizes) == (ROWS, 1)


def _are_the_same(low: SSAValue, high: SSAValue) -> bool:
    """Whether all rows of two blocks are known to be alike: one number everywhere."""
    numbers = [owner.source if isinstance(owner := value.owner, BroadcastOp) else None for value in (low, high)]
    if None not in numbers:
        return numbers[0] is numbers[1]
    constants = list(_constants(low, high))
    return len(constants) == 2 and constants[0] == constants[1] and constants[0].is_splat()


def _constants(*values: SSAValue) -> Iterator[DenseIntOrFPElementsAttr]:
    for value in values:
        if isinstance(value.owner, arith.ConstantOp) and isinstance(value.owner.value, DenseIntOrFPElementsAttr):
            yield value.owner.value


def _shuffled(sources: tuple[SSAValue, SSAValue], rows: tuple[int, ...], near: Operation, *,
              before: bool = False) -> SSAValue:
    """Rows of two blocks, by an operation behind or before another."""
    type_ = sources[0].type
    assert isinstance(type_, VectorType)
    shuffle = ShuffleOp(*sources, DenseArrayBase.from_list(i64, list(rows)),
                        result_type=VectorType(type_.element_type, (len(rows), *type_.get_shape()[1:])))
    shuffle.location = near.location
    shuffle.result.name_hint = sources[0].name_hint
    block = near.parent
    assert block is not None
    (block.insert_op_before if before else block.insert_op_after)(shuffle, near)
    return shuffle.result
