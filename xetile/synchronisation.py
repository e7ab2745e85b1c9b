"""``xt.barrier`` and ``xt.fence``: order between the subgroups of a work-group (XeGPU.md, ``fence``)."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.gpu import BarrierOp

from xegpu.dialect.synchronisation import SCOPES, FenceOp
from xegpu.errors import ElementTypeError
from xetile.tracer import current

_KINDS = {"slm": "shared", "global": "global"}


def barrier() -> None:
    """All subgroups of the work-group wait here for each other (``gpu.barrier``).

    What they wrote before it, to shared local memory or to an array that the kernel reads too, they all see after it.
    An array that is passed as two arguments counts as two. Nothing is flushed where there is no such memory.

    Raises:
        TraceError: not all subgroups would meet it, as a condition or a loop around it depends on ``subgroup_id``.
            This is raised when the whole kernel is recorded.
    """
    current("xt.barrier").emit(BarrierOp())  # type: ignore[no-untyped-call]


def fence(scope: str = "workgroup", memory: str = "slm") -> None:
    """What this subgroup wrote before the fence is seen before what it writes after it (``fence``).

    Args:
        scope: by whom: ``"workgroup"`` or ``"gpu"``.
        memory: where: ``"slm"`` or ``"global"``. Shared local memory has no scope beyond its work-group.

    Raises:
        ElementTypeError: another scope or memory.
        ShapeError: ``"gpu"`` with ``"slm"``.
    """
    tracer = current("xt.fence")
    for value, names in ((scope, SCOPES), (memory, tuple(_KINDS))):
        _check(value, names)
    tracer.emit(FenceOp(scope, _KINDS[memory]))


def _check(value: Any, names: tuple[str, ...]) -> None:
    if value not in names:
        what = "scope" if names is SCOPES else "memory"
        raise ElementTypeError(f"xt.fence has no {what} {value!r}",
                               f"use {what}={names[0]!r} or {what}={names[1]!r}", current().location())
