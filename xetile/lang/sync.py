"""``xt.barrier``, ``xt.nbarrier`` and ``xt.fence``: order between the subgroups of a work-group (XeGPU.md)."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.gpu import BarrierOp
from xdsl.ir import SSAValue

from xegpu.dialect.sync import SCOPES, FenceOp, InitNbarrierOp, NbarrierArriveOp, NbarrierWaitOp
from xegpu.ir import dtypes
from xegpu.support.errors import ElementTypeError
from xetile.frontend.constants import plain, scalar
from xetile.frontend.notes import notes
from xetile.frontend.ssa_value import Value
from xetile.frontend.tracer import current
from xetile.frontend.values import Scalar

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


class Nbarrier:
    """A named barrier, which some subgroups of a work-group share; :func:`nbarrier` makes it.

    Every subgroup that takes part arrives and, later, waits; between the two it does what needs no one else. Where it
    has producers, these only arrive, and the others only wait.
    """

    def __init__(self, ssa: SSAValue) -> None:
        self._ssa = ssa

    def arrive(self) -> None:
        """Say that this subgroup is here: what it has written, the others see behind their wait (``nbarrier_arrive``).

        Raises:
            TraceError: it has arrived already and not waited since, or never waits. This is raised when the whole
                kernel is recorded.
        """
        current("nbarrier.arrive").emit(NbarrierArriveOp(self._ssa))

    def wait(self) -> None:
        """Wait until all participants have arrived (``nbarrier_wait``).

        Raises:
            TraceError: this subgroup has not arrived. This is raised when the whole kernel is recorded.
        """
        current("nbarrier.wait").emit(NbarrierWaitOp(self._ssa))


def nbarrier(id: int | Scalar, participants: int, *, producers: int | None = None) -> Nbarrier:
    """The named barrier ``id`` of the work-group (``init_nbarrier``).

    Subgroups that give the same id share one barrier. With all subgroups of the work-group it is a split barrier, which
    every target has; fewer need a target with named barriers, or a place that all subgroups come by.

    Args:
        id: 0 to 30, or a run-time number, such as one computed from :func:`subgroup_id`.
        participants: how many subgroups arrive there, and wait for each other.
        producers: how many of them only arrive, while the others, the consumers, only wait. Producers and consumers
            stand under conditions on :func:`subgroup_id`. Of two participants that are under such conditions, one that
            only arrives and one that only waits, it need not be said.

    Raises:
        ElementTypeError: the id or the number of participants is no integer, or the latter is known at run time only.
        ShapeError: there is no such id; more participants than subgroups; another number for the same id; no producer,
            or no consumer.
        TargetError: the target has no named barriers, and not all subgroups come by. This is raised when the kernel is
            lowered for the target.
    """
    tracer = current("xt.nbarrier")
    id_, count = plain(id), plain(participants)
    if type(count) is not int:
        raise ElementTypeError("XT1460", f"the number of participants is {_text(count)}, not a compile-time integer",
                               "say how many subgroups wait for each other, as in xt.nbarrier(0, 4)",
                               tracer.location(), notes(tracer.location(), it=count))
    if type(id_) is not int and not (isinstance(id_, Scalar) and id_.dtype is dtypes.index):
        raise ElementTypeError("XT1461", f"the id of a barrier is {_text(id_)}, not an index",
                               "give an integer from 0 to 30, or a run-time index such as xt.subgroup_id() // 2",
                               tracer.location(), notes(tracer.location(), it=id_))
    arriving = plain(producers)
    if arriving is not None and type(arriving) is not int:
        raise ElementTypeError("XT1460", f"the number of producers is {_text(arriving)}, not a compile-time integer",
                               "say how many subgroups only arrive, as in producers=1", tracer.location(),
                               notes(tracer.location(), it=arriving))
    numbers = scalar(id_, dtypes.index), scalar(count, dtypes.index)
    return Nbarrier(tracer.emit(InitNbarrierOp(*numbers, arriving)))


def _text(value: Any) -> str:
    return f"a {value.describe()}" if isinstance(value, Value) else repr(value)


def _check(value: Any, names: tuple[str, ...]) -> None:
    if value not in names:
        code, what = ("XT1463", "scope") if names is SCOPES else ("XT1464", "memory")
        raise ElementTypeError(code, f"xt.fence has no {what} {value!r}",
                               f"use {what}={names[0]!r} or {what}={names[1]!r}", current().location())
