"""Constant folding of integer fragments, element by element: iota, constants, and arithmetic on them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import SSAValue
from xdsl.utils.type import get_element_type_or_self

from xegpu.dialect.vector import IotaOp
from xegpu.ir.dtypes import DType, of_mlir
from xegpu.ir.matchers import number, splat_of
from xegpu.layout import lane_map
from xegpu.mlir.elementwise import RECORDS, read_as
from xegpu.mlir.vector import shape_of
from xegpu.passes.distribute_lanes.element_moves import LANES, Elements, has_elements, moved_elements


class _UnknownError(Exception):
    """An element that is no known number."""


@dataclass
class ElementNumbers:
    """Integers that elements are known to be.

    Attributes:
        found: those of values, ``[units, lanes]``; None of values that are not known.
    """

    found: dict[SSAValue, Elements | None] = field(default_factory=dict)

    def of(self, value: SSAValue) -> Elements | None:
        """The integers that the elements of a fragment are; None if one is not known."""
        if value not in self.found:
            try:
                self.found[value] = self._numbers(value)
            except _UnknownError:
                self.found[value] = None
        return self.found[value]

    def _known(self, value: SSAValue) -> Elements:
        if (found := self.of(value)) is None:
            raise _UnknownError
        return found

    def _numbers(self, value: SSAValue) -> Elements | None:
        if (splat := splat_of(value)) is not None:
            return np.full((shape_of(value)[0], LANES), splat)
        owner, dtype = value.owner, element_of(value)
        if not has_elements(value) or dtype.kind not in "iu":
            return None
        if isinstance(owner, IotaOp):
            if (start := number(owner.start)) is None or owner.sg_map is None:
                return None
            position = lane_map.positions(owner.block_shape(), owner.sg_map.data, LANES)
            counted: Elements = start + position[owner.axis.value.data][..., 0].T
            return counted
        record = RECORDS.get(type(owner))  # type: ignore[arg-type]
        if record is None:
            moved = moved_elements(value, lambda source: self._known(source)[None])
            return None if moved is None else moved[0]
        if record.family != "integer" or record.numpy is None:
            return None
        operands = [self._known(operand) for operand in owner.operands]  # type: ignore[union-attr]
        if (record.defined == "divisor" and not operands[1].all()) or (
                record.defined == "shift" and ((operands[1] < 0) | (operands[1] >= dtype.bits)).any()):
            return None
        compute = read_as(dtype, record.operands).numpy
        result: Elements = record.numpy(*(operand.astype(compute) for operand in operands)).astype(np.int64)
        return result


def element_of(value: SSAValue) -> DType:
    """Element type of a vector, or the type of a number."""
    return of_mlir(get_element_type_or_self(value.type))
