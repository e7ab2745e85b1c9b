"""Taint: the elements of each value that follow from a faulty operation (its origin), for checks at stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
from xdsl.ir import Operation, SSAValue

from xegpu.dialect.inline import InlineOp
from xegpu.interpreter.interpreter import BATCH, Interpreter, force
from xegpu.ir.dtypes import NDArray
from xegpu.ir.use_def import root_definitions
from xegpu.mlir.arith import SelectOp
from xegpu.mlir.elementwise import RECORDS
from xetile.dialect.gather_scatter import InitScatteredTileOp, UpdateScatteredTileOp
from xetile.runtime.sanitizer.findings import by_instance, ran

Origin = TypeVar("Origin")
Marks = list[tuple[NDArray, Origin]]
"""Masks of elements, each with the origin that they follow from."""
_BY_ELEMENT: tuple[type[Operation], ...] = (
    *(kind for kind in RECORDS if kind is not SelectOp), InitScatteredTileOp, UpdateScatteredTileOp, InlineOp)
_MOST = 8
"""Origins that are followed for one value."""


@dataclass
class Taint(Generic[Origin]):
    """Taint of one launch, by batch of instances and by value."""

    marks: dict[Any, dict[SSAValue, Marks[Origin]]] = field(default_factory=dict)
    sources: dict[SSAValue, set[SSAValue]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether any value was marked."""
        return bool(self.marks)

    def mark(self, machine: Interpreter, value: SSAValue, marks: Marks[Origin]) -> None:
        """Set the marks of a value that an operation has just computed."""
        if marks:
            self.marks.setdefault(ran(machine), {})[value] = marks[:_MOST]
        elif self.marks:
            self.marks.get(ran(machine), {}).pop(value, None)

    def of(self, machine: Interpreter, value: SSAValue) -> Marks[Origin]:
        """Marks of a value, those of the values that loops and branches forward to it included."""
        known = self.marks.get(ran(machine), {})
        if value not in self.sources:
            self.sources[value] = {value, *root_definitions(value)}
        return [mark for source in self.sources[value] for mark in known.get(source, ())]

    def passed_on(self, machine: Interpreter, operation: Operation, operands: Sequence[Any]) -> Marks[Origin]:
        """Marks that a result inherits from its operands: per element if it is computed element by element."""
        incoming = [self.of(machine, operand) for operand in operation.operands] if self.marks else []
        if isinstance(operation, SelectOp) and incoming:
            condition = raised(np.asarray(force(operands[0]), bool))
            sides = [(mask & side, origin) for marks, side in zip(incoming[1:], (condition, ~condition), strict=True)
                     for mask, origin in marks]
            return [(mask, origin) for mask, origin in (*incoming[0], *sides) if mask.any()]
        marks = [mark for each in incoming for mark in each]
        if isinstance(operation, _BY_ELEMENT) or not marks:
            return marks
        return [(by_instance(machine, mask)[..., None, None], origin) for mask, origin in marks]


def raised(mask: NDArray) -> NDArray:
    """Mask with all batch axes."""
    return mask if mask.ndim >= BATCH else mask.reshape((1,) * BATCH)


def of_active(machine: Interpreter, mask: NDArray) -> NDArray:
    """Mask without the elements of instances that do not run."""
    mask = raised(mask)
    if machine.active is None:
        return mask
    return mask & machine.active.reshape(*machine.active.shape, *[1] * (mask.ndim - BATCH))
