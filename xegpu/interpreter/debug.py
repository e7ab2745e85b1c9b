"""NumPy semantics of prints and assertions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import VectorType

from xegpu.dialect.debug import AssertOp, DiagnosticOp, PrintOp, assertion_of, hexadecimal_masks, printf_format
from xegpu.interpreter.interpreter import BATCH, Interpreter, Semantics


def _active_values(machine: Interpreter, operation: DiagnosticOp, operands: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Values of every active element or instance, followed by its work-group and subgroup."""
    rank = next((len(v.type.get_shape()) for v in operation.values if isinstance(v.type, VectorType)), 0)

    def spread(number: Any) -> Any:
        """A scalar broadcast to the axes of the vectors, or of the instances where there are none."""
        array = np.asarray(machine.as_vector(number, rank) if rank else number)
        return array if array.ndim else array.reshape((1,) * BATCH)

    whole = [value if isinstance(declared.type, VectorType) else spread(value)
             for value, declared in zip(operands, operation.values, strict=True)]
    where = [spread(machine.along(axis, first, count)) for axis, (first, count) in enumerate(machine.groups)]
    where.append(spread(machine.subgroup))
    instances = machine.instances + (1,) * (machine.batch - BATCH + rank) if rank else machine.instances
    shape = np.broadcast_shapes(instances, *(np.shape(value) for value in (*whole, *where)))
    speaks = np.ones(shape, bool)
    if machine.active is not None:
        speaks &= spread(machine.active)
    if rank and machine.lanes is not None and operation.lanes is not None:
        lane = np.arange(machine.lanes).reshape(-1, *[1] * rank)
        speaks &= np.broadcast_to(lane, shape) < operation.lanes.value.data
    chosen = [np.broadcast_to(value, shape)[speaks] for value in (*whole, *where)]
    return zip(*chosen, strict=True)


def _print(machine: Interpreter, operation: PrintOp, operands: Sequence[Any]) -> None:
    text, masks = printf_format(operation), hexadecimal_masks(operation)
    count = len(masks)
    for values in _active_values(machine, operation, operands):
        positions = values[count:count + 2 * operation.is_of_elements]
        shown = [value.item() if mask is None else value.item() & mask
                 for value, mask in zip(values, masks, strict=False)]
        print(text % (*map(int, positions), *shown))


def _assert(machine: Interpreter, operation: AssertOp, operands: Sequence[Any]) -> None:
    if np.asarray(operands[0]).all():
        return
    for holds, *rest in _active_values(machine, operation, operands):
        if not holds:
            *position, x, y, z, subgroup = map(int, rest)
            row, column = position or (0, 0)
            raise assertion_of(operation).failed((x, y, z), subgroup, row, column)


SEMANTICS: Semantics = {PrintOp: _print, AssertOp: _assert}
