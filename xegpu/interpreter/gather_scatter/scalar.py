"""NumPy semantics of scalar loads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xegpu.dialect.scalar import LoadScalarOp
from xegpu.interpreter.interpreter import BATCH, Interpreter, Semantics, narrow
from xegpu.support.errors import ShapeError
from xegpu.support.location import author_location


def _load_scalar(machine: Interpreter, operation: LoadScalarOp, operands: Sequence[Any]) -> Any:
    array, indices = operands[0], [np.asarray(index) for index in operands[1:]]
    inside = np.asarray(True)
    for index, size in zip(indices, array.shape, strict=True):
        inside = inside & (index >= 0) & (index < size)
    bad = ~inside if machine.active is None else ~inside & machine.active
    if bad.any():
        at = tuple(int(np.broadcast_to(index, bad.shape)[bad][0]) for index in indices)
        raise ShapeError("XT1243", f"load_scalar reads at {at if len(at) > 1 else at[0]}, outside an array of "
                         f"{'x'.join(map(str, array.shape))}", "keep the indices inside: devices do not look",
                         author_location(operation))
    if array.size == 0:
        return 0
    found = array[tuple(np.clip(index, 0, size - 1) for index, size in zip(indices, array.shape, strict=True))]
    return narrow(found) if np.ndim(found) == BATCH else found.item()


SEMANTICS: Semantics = {LoadScalarOp: _load_scalar}
