"""Address payloads in NumPy: a payload is a descriptor that changes in place; a prefetch has no effect on results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdsl.ir import Operation

from xegpu.dialect.payload import PayloadCreateOp, PayloadPrefetchOp, PayloadSetOp, SubgroupBroadcastOp


@dataclass
class Payload:
    """A payload at run time.

    Attributes:
        window: the descriptor of the block whose address it holds.
    """

    window: Any


def _set(machine: Any, operation: PayloadSetOp, operands: Sequence[Any]) -> None:
    payload, desc = operands
    if operation.rows is not None:
        payload.window = replace(payload.window, row=desc.row)
    if operation.columns is not None:
        payload.window = replace(payload.window, column=desc.column)


MEANINGS: Mapping[type[Operation], Callable[..., Any]] = {
    PayloadCreateOp: lambda machine, operation, operands: Payload(operands[0]),
    PayloadSetOp: _set,
    PayloadPrefetchOp: lambda machine, operation, operands: None,
    SubgroupBroadcastOp: lambda machine, operation, operands: operands[0],
}
