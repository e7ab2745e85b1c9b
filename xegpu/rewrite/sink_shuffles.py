"""Sinking of shuffles below element-wise operations, where lanes take elements that derive from the same words.

    %lo = arith.andi %w, 15
    %hi = arith.andi (arith.shrui %w, 4), 15
    %r = xegpu.shuffle %lo, %hi {mask = [0, 8, 1, 9, ...]}
becomes
    %s = xegpu.shuffle %w {mask = [0, 0, 1, 1, ...]}
    %n = xegpu.shuffle (splat 0), (splat 4) {mask = [0, 8, 0, 8, ...]}
    %r = arith.andi (arith.shrui %s, %n), 15

Each lane of the first takes one of two words that are moved; the second moves one, and shifts it by the lane's own
number. Of columns of eight fields that is one shuffle a register instead of eight, with seven selections among them. A
fragment that lacks an operation which the others have gets it with the number that changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from math import prod

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, UnrealizedConversionCastOp, VectorType
from xdsl.dialects.vector import BroadcastOp as SplatOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from xegpu.dialect.vector import ShuffleOp
from xegpu.ir.create import create_like
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.matchers import splat_of
from xegpu.layout import lane_map
from xegpu.layout.lane_map import LaneMap
from xegpu.mlir.elementwise import RECORDS
from xegpu.mlir.vector import shape_of, vector_type

_IDENTITIES: dict[type[Operation], int] = {
    arith.ShRUIOp: 0, arith.ShRSIOp: 0, arith.ShLIOp: 0, arith.AndIOp: -1, arith.OrIOp: 0, arith.XOrIOp: 0,
    arith.AddiOp: 0, arith.SubiOp: 0, arith.MuliOp: 1}
"""Second operands with which the result is the first."""
_DEEPEST = 8
"""Operations one behind the other that are looked through."""

_Part = SSAValue | int
"""What a source of the shuffle is made of: a fragment, or a number of which there is none yet."""


@dataclass(frozen=True)
class _Tree:
    """Expression tree of a result.

    Attributes:
        parts: for each source of the shuffle its part; the leaf of a tree shuffles these.
        cost: instructions of a lane.
        like: the operation on the operands, one of those that computed the parts; None of a leaf.
        operands: its operands.
    """

    parts: tuple[_Part, ...]
    cost: int
    like: Operation | None = None
    operands: tuple[_Tree, ...] = ()


def sink_shuffles(shuffles: Sequence[ShuffleOp]) -> bool:
    """Sink shuffles of fragments below the operations that made their sources, in place, where it moves fewer words.

    Returns:
        whether something changed; what made the sources may then be dead.
    """
    numbers: _Numbers = {}
    sunk = [sinking for shuffle in shuffles if len(shuffle.sources) > 1
            and (sinking := _Sinking(shuffle, numbers)).replaced()]
    return bool(sunk)


_Numbers = dict[tuple[Block, Attribute, tuple[int, ...]], SSAValue]
"""Rows of numbers that a block has already."""


@dataclass
class _Sinking:
    """Sinking of one shuffle.

    Attributes:
        shuffle: the shuffle.
        numbers: fragments of numbers that there are.
        added: operations for the place of the shuffle.
        trees: memo of :meth:`_tree`, whose operands meet again and again, as those of a sorting network do.
    """

    shuffle: ShuffleOp
    numbers: _Numbers
    added: list[Operation] = field(default_factory=list)
    trees: dict[tuple[tuple[_Part, ...], int], _Tree] = field(default_factory=dict)

    @cached_property
    def _maps(self) -> list[LaneMap]:
        maps = self.shuffle.lane_maps()
        assert maps is not None, "lanes are distributed"
        return maps

    @cached_property
    def _starts(self) -> list[int]:
        """Number of the first element of each source, and of all."""
        return list(accumulate(map(prod, self.shuffle.block_shapes()[:-1]), initial=0))

    @cached_property
    def _taken(self) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
        """Source of each element of the result, and its word in a lane's fragment of that: ``[units, lanes]``."""
        *shapes, shape = self.shuffle.block_shapes()
        row, column = (each[..., 0].T for each in lane_map.positions(shape, self._maps[-1]))
        element = np.array(self.shuffle.mask.get_values())[row * shape[1] + column]
        source = np.searchsorted(self._starts, element, "right") - 1
        word = np.empty_like(element)
        for number, (block, lanes) in enumerate(zip(shapes, self._maps, strict=False)):
            here = source == number
            inside = np.divmod(element[here] - self._starts[number], block[1])
            word[here] = lane_map.holder(block, lanes, *inside)[1]
        return source, word

    def replaced(self) -> bool:
        """Sink the shuffle if it pays."""
        tree = self._tree(tuple(self.shuffle.sources), _DEEPEST)
        if tree.like is None:
            return False
        result = self._built(tree)
        block = self.shuffle.parent
        assert block is not None
        for operation in self.added:
            operation.location = self.shuffle.location
            block.insert_op_before(operation, self.shuffle)
        result.name_hint = self.shuffle.result.name_hint
        self.shuffle.result.replace_all_uses_with(result)
        return True

    def _tree(self, parts: tuple[_Part, ...], depth: int) -> _Tree:
        """Cheapest tree of parts through at most ``depth`` operations, each made once."""
        if (parts, depth) not in self.trees:
            self.trees[parts, depth] = self._cheapest(parts, depth)
        return self.trees[parts, depth]

    def _cheapest(self, parts: tuple[_Part, ...], depth: int) -> _Tree:
        leaf = _Tree(parts, self._cost(parts))
        kinds = Counter(kind for part in parts if (kind := _kind(part)) is not None)
        if not kinds or not depth or len(set(parts)) == 1:
            return leaf
        ((kind, _),) = kinds.most_common(1)
        like = next(part.owner for part in parts if isinstance(part, SSAValue) and _kind(part) == kind)
        assert isinstance(like, Operation)
        rows: list[Sequence[_Part]] = []
        for part in parts:
            if isinstance(part, SSAValue) and _kind(part) == kind:
                rows.append(part.owner.operands)  # type: ignore[union-attr]
            elif type(like) in _IDENTITIES:
                rows.append((part, _IDENTITIES[type(like)]))
            else:
                return leaf
        more = prod(self.shuffle.block_shapes()[-1]) > sum(map(prod, self.shuffle.block_shapes()[:-1]))
        cost, operands = shape_of(self.shuffle.result)[0] * more, []
        for column in zip(*rows, strict=True):
            operand = self._tree(column, depth - 1)
            cost += operand.cost
            if cost >= leaf.cost or (operand.like is None and not _is_shuffled(operand.parts)):
                return leaf  # before the other operands, whose trees are as many again
            operands.append(operand)
        return _Tree(parts, cost, like, tuple(operands))

    def _cost(self, parts: tuple[_Part, ...]) -> int:
        """Words that are moved and, where lanes take several, selected."""
        if all(_number_of(part) is not None for part in parts):
            return 0
        known = {part: number for number, part in enumerate(dict.fromkeys(parts))}
        source, word = self._taken
        words = np.sort(np.array([known[part] for part in parts])[source] << 32 | word, 1)
        return 2 * int((words[:, 1:] != words[:, :-1]).sum()) + len(words)

    def _built(self, tree: _Tree) -> SSAValue:
        if tree.like is None:
            return self._shuffled(tree.parts)
        operands = [self._built(operand) for operand in tree.operands]
        type_ = vector_type(shape_of(self.shuffle.result), _element(tree.like.results[0]))
        return self._add(create_like(tree.like, operands, [type_]))

    def _shuffled(self, parts: tuple[_Part, ...]) -> SSAValue:
        """Shuffle of parts, each of which becomes one source."""
        element = next(_element(part) for part in parts if isinstance(part, SSAValue))
        type_, numbers = vector_type(shape_of(self.shuffle.result), element), [_number_of(part) for part in parts]
        if None in numbers:
            return self._moved(parts, type_)
        if len(set(numbers)) == 1:
            return self._splat(numbers[0] or 0, type_)
        source, _ = self._taken
        block = self.shuffle.parent
        assert block is not None
        key = block, type_, tuple(numbers[number] or 0 for number in source.ravel().tolist())
        if key not in self.numbers:
            self.numbers[key] = self._moved(parts, type_)
        return self.numbers[key]

    def _moved(self, parts: tuple[_Part, ...], type_: VectorType[Attribute]) -> SSAValue:
        *shapes, shape = self.shuffle.block_shapes()
        sources: dict[tuple[_Part, tuple[int, int], LaneMap], int] = {}  # where the elements of each begin
        first, count = [], 0
        for part, block, lanes in zip(parts, shapes, self._maps, strict=False):
            number = _number_of(part)
            key = part if number is None else number, block, lanes
            if key not in sources:
                sources[key], count = count, count + prod(block)
            first.append(sources[key])
        mask = np.array(self.shuffle.mask.get_values())
        source = np.searchsorted(self._starts, mask, "right") - 1
        mask = mask - np.array(self._starts)[source] + np.array(first)[source]
        values = [part if isinstance(part, SSAValue) else
                  self._splat(part, vector_type(lanes.fragment(block), type_.element_type))
                  for part, block, lanes in sources]
        return self._add(ShuffleOp(values, mask.tolist(), type_, [*(block for _, block, _ in sources), shape],
                                   [*(lanes for *_, lanes in sources), self._maps[-1]]))

    def _splat(self, number: int, type_: VectorType[Attribute]) -> SSAValue:
        element = type_.element_type
        signless = element if isinstance(element, IndexType) else IntegerType(of_mlir(element).bits)
        value = self._add(arith.ConstantOp(IntegerAttr(number, signless)))
        if value.type != type_.element_type:
            value = self._add(UnrealizedConversionCastOp.create(operands=[value], result_types=[type_.element_type]))
        return self._add(SplatOp(value, type_))

    def _add(self, operation: Operation) -> SSAValue:
        self.added.append(operation)
        return operation.results[0]


def _kind(part: _Part) -> tuple[object, ...] | None:
    """Key that is equal for element-wise operations that may be merged; None for other values."""
    if isinstance(part, int) or not isinstance(operation := part.owner, Operation) or type(operation) not in RECORDS \
            or any(not isinstance(operand.type, VectorType) for operand in operation.operands):
        return None
    return (type(operation), *(operand.type.element_type for operand in operation.operands),  # type: ignore[attr-defined]
            *sorted((name, str(value)) for name, value in {**operation.properties, **operation.attributes}.items()))


def _number_of(part: _Part) -> int | None:
    return part if isinstance(part, int) else splat_of(part)


def _is_shuffled(parts: tuple[_Part, ...]) -> bool:
    """Whether a shuffle can take parts: fragments of one type, or numbers."""
    return any(isinstance(part, SSAValue) for part in parts) and (
        all(_number_of(part) is not None for part in parts) or all(isinstance(part, SSAValue) for part in parts))


def _element(value: SSAValue) -> Attribute:
    assert isinstance(value.type, VectorType)
    element: Attribute = value.type.element_type
    return element
