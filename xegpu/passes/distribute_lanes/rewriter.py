"""Rewriter of lane distribution: the lane map of each fragment, and conversions from one map to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from xdsl.dialects.builtin import VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Attribute, Operation, SSAValue

from xegpu.analysis.webs import Webs
from xegpu.dialect.block_io import LoadNdOp, desc_of
from xegpu.dialect.convert_layout import ConvertLayoutOp
from xegpu.dialect.vector import ShuffleOp
from xegpu.layout import lane_map
from xegpu.layout.lane_map import LaneMap
from xegpu.mlir.vector import shape_of, vector_type
from xegpu.passes.distribute_lanes import operand_roles
from xegpu.passes.distribute_lanes.operand_roles import sides
from xegpu.rewrite.rewriter import ConvertedValues, Rewriter, Rule, keeps_type
from xegpu.support.errors import XeError
from xegpu.target.targets import Target

WORD_BITS = 32
"""Bits of the words that a message transposes: several elements of a column, as in VNNI form."""

Shape = tuple[int, int]


@dataclass(frozen=True)
class Distributed:
    """The form of a value that became a fragment: the block's shape and its lane map."""

    shape: Shape
    lanes: LaneMap
    packed: bool = False

    def of_rank(self, rank: int) -> Distributed:
        """The form of the same fragment where words are seen as elements (2), or elements as words (3)."""
        (rows, columns), (down, across) = self.shape, self.lanes.wi_data
        if rank == 2 and self.packed:
            return Distributed((rows // down, columns * down), LaneMap(self.lanes.wi_layout, (1, down)))
        if rank == 3 and not self.packed:
            return Distributed((rows * across, columns // across), LaneMap(self.lanes.wi_layout, (across, 1)), True)
        return self


@dataclass(frozen=True)
class WidenedSlice(Distributed):
    """The form of a slice that a conversion takes from the fragment of a whole block (``xegpu.widen``).

    Attributes:
        block: the whole block's shape.
        offsets: where the slice begins in it.
    """

    block: Shape = (0, 0)
    offsets: Shape = (0, 0)


class DistributeLanesRewriter(Rewriter):
    """Rewriter of one function.

    Attributes:
        target: its subgroup size is the number of lanes.
        webs: values of the old function that are one descriptor.
        kinds: access kinds of its arrays.
        shuffles: the shuffles of fragments that were made.
    """

    def __init__(self, rules: Mapping[type[Operation], Rule], target: Target, webs: Webs,
                 kinds: Mapping[Any, str]) -> None:
        super().__init__(rules)
        self.target, self.webs, self.kinds = target, webs, kinds
        self.shuffles: list[ShuffleOp] = []

    def default_map(self, shape: Shape) -> LaneMap:
        """Lane map of values that are computed with."""
        try:
            return lane_map.default(self.target.subgroup_size, shape[1], shape[0])
        except XeError as error:
            raise error.at(self.where()) from None

    def common_map(self, forms: Sequence[Distributed]) -> LaneMap:
        """Common lane map of blocks of one shape: their own if they share one, else the default."""
        lanes = {form.lanes for form in forms}
        if len(lanes) == 1 and forms[0].lanes.per_lane == 1:
            return forms[0].lanes
        return self.default_map(forms[0].shape)

    def form(self, shape: Shape, lanes: LaneMap) -> Distributed:
        """The form of a fragment of a block."""
        return Distributed((shape[0], shape[1]), lanes)

    def lanes_of(self, desc: SSAValue) -> LaneMap:
        """Lane map of a descriptor by its loads, transposed if these transpose."""
        loads = [use.operation for use in self.webs.uses(desc) if isinstance(use.operation, LoadNdOp)]
        bits = desc_of(desc).dtype.bits
        if side := self.copied_operand(desc):
            return operand_roles.copied_map(side, bits, self.target)
        if operand_roles.published_operand(self.webs, desc):
            return lane_map.operand_b(self.target.subgroup_size, bits)
        together = max((load.transposes for load in loads), default=0) // bits
        if together and (self.goes_by_words(desc) or self.computes_words(desc)):
            together = WORD_BITS // bits
        if together > 1:
            return LaneMap((self.target.subgroup_size, 1), (1, together))
        if any(load.packed is not None for load in loads) or self.goes_by_words(desc):
            return lane_map.operand_b(self.target.subgroup_size, bits)
        if together:
            rows, columns = desc_of(desc).shape
            lanes = self._lanes_of_block(desc, (columns, rows))
            # Lanes along rows and columns have no transposed map: loaded as it lies, and transposed in registers.
            return lanes.transposed if min(lanes.wi_layout) == 1 else self.default_map((rows, columns))
        return self._lanes_of_block(desc, (desc_of(desc).shape[0], desc_of(desc).shape[1]))

    def goes_by_words(self, desc: SSAValue) -> bool:
        """Whether copies through a descriptor are VNNI words (:mod:`xegpu.passes.distribute_lanes.operand_roles`)."""
        return operand_roles.transposes(self.webs, desc, self.target) or \
            operand_roles.widened_operand(self.webs, desc, self.target) == "b"

    def computes_words(self, desc: SSAValue) -> bool:
        """Whether a message transposes words, whose elements are computed with one by one."""
        return operand_roles.computed_words(self.webs, desc, self.target)

    def copied_operand(self, desc: SSAValue) -> str:
        """Operand of DPAS that is copied through a descriptor to shared local memory, from rows of any alignment."""
        return operand_roles.copied_operand(self.webs, desc, self.target, self.kinds)

    def _lanes_of_block(self, desc: SSAValue, shape: Shape) -> LaneMap:
        parameters, used = desc_of(desc), sides(self.webs, desc)
        if used == {"a"} or operand_roles.widened_operand(self.webs, desc, self.target) == "a":
            return lane_map.operand_a(self.target.subgroup_size, parameters.dtype.bits, shape[0])
        if used == {"b"} and parameters.dtype.bits < 32:
            return lane_map.operand_b(self.target.subgroup_size, parameters.dtype.bits)
        return self.default_map(shape)

    def line(self, lanes: int) -> Distributed:
        """The form of a vector of one dimension, an element a lane; a shorter one repeats over the subgroup.

        Raises:
            ShapeError: the lanes of a subgroup are no multiple of its elements.
        """
        subgroup = self.target.subgroup_size
        if subgroup % lanes:
            self.fail("XT3521",
                      f"a vector of {lanes} elements does not spread over the {subgroup} lanes of a subgroup on "
                      f"{self.target.name}", f"use vectors of a multiple of {subgroup} elements, or of a divisor")
        return Distributed((1, lanes), LaneMap((1, lanes)))

    def fragment(self, shape: Shape, lanes: LaneMap, element: Attribute) -> VectorType[Attribute]:
        """The vector type of a lane's share of a block."""
        try:
            return vector_type(lanes.fragment(shape), element)
        except XeError as error:
            raise error.at(self.where()) from None

    def match(self, parts: ConvertedValues, like: ConvertedValues) -> ConvertedValues:
        """A yielded fragment in the layout that the loop carries."""
        if parts.encoding == like.encoding or not isinstance(like.encoding, Distributed):
            return parts
        return ConvertedValues((self.converted(parts, like.encoding.lanes),), like.encoding)

    def converted(self, parts: ConvertedValues, lanes: LaneMap) -> SSAValue:
        """A fragment in another layout."""
        form: Distributed = parts.encoding
        (value,) = parts.values
        if form.lanes == lanes or (_is_splat(value) and shape_of(value) == lanes.fragment(form.shape)):
            return value
        if lanes.per_lane > 1 and form.lanes not in ((by_default := self.default_map(form.shape)), lanes):
            parts = ConvertedValues((self.converted(parts, by_default),), self.form(form.shape, by_default))
            return self.converted(parts, lanes)
        return self.shared(("convert", value, lanes),
                           lambda: self.emit(ConvertLayoutOp(value, form.lanes, lanes, form.shape)))

    def refuse_packed(self, operation: Operation) -> NoReturn:
        """Fail for an operation other than ``dpas`` on vectors in VNNI form.

        Raises:
            ShapeError: always, at the operation's line.
        """
        self.fail("XT3520", f"vectors in VNNI form are for dpas alone, and this is {operation.name}",
                  "load the block without packed to compute with it; dpas packs what it needs",
                  **{f"operand {i}": value for i, value in enumerate(operation.operands)})

    def copy(self, operation) -> None:  # type: ignore[no-untyped-def]
        """A copy; a vector result has the form of the vector operands."""
        form = next((self.lookup(o).encoding for o in operation.operands if isinstance(self.lookup(o).encoding,
                                                                                       Distributed)), None)
        if form is None or not operation.results or keeps_type(operation):
            super().copy(operation)
            return
        parts = [self.lookup(operand) for operand in operation.operands]
        forms = [part.encoding for part in parts if isinstance(part.encoding, Distributed)]
        moving = [part.encoding for part in parts if isinstance(part.encoding,
                                                                Distributed) and not _is_splat(part.values[0])]
        if any(each.packed for each in forms):
            self.refuse_packed(operation)
        if any(each.lanes.per_lane > 1 for each in moving):  # as operands of dpas lie; nothing else computes with words
            form = self.form(form.shape, self.default_map(form.shape))
        elif len({form.lanes for form in moving or forms}) > 1:
            form = self.form(form.shape, self.common_map(moving or forms))
        elif moving:
            form = moving[0]
        operands = [self.converted(part, form.lanes) if isinstance(part.encoding, Distributed) else part.values[0]
                    for part in parts]
        like = next(o.type for o in operands if isinstance(o.type, VectorType))
        types = [self.part_type(result.type, like) for result in operation.results]
        copied = self.like(operation, operands, types)
        for before, after in zip(operation.results, copied.results, strict=True):
            self.set(before, after, form)


def _is_splat(value: SSAValue) -> bool:
    """Whether every element of a fragment is the same, so that it looks alike under all maps of one element a lane."""
    return isinstance(value.owner, BroadcastOp)
