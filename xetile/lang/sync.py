"""Synchronization: ``xt.barrier``, ``xt.nbarrier`` and ``xt.fence`` between a work-group's subgroups (XeGPU.md)."""

from __future__ import annotations

from xdsl.dialects.gpu import BarrierOp
from xdsl.ir import SSAValue

from xegpu.dialect.sync import FenceOp, InitNbarrierOp, NbarrierArriveOp, NbarrierWaitOp
from xegpu.ir import dtypes
from xegpu.support.errors import ElementTypeError
from xetile.frontend.constants import python_number, scalar
from xetile.frontend.notes import notes
from xetile.frontend.tracer import current
from xetile.frontend.values import Scalar
from xetile.lang.checks import describe_value

_KINDS = {"slm": "shared", "global": "global"}


def barrier() -> None:
    """Work-group barrier: all subgroups wait here for each other (``gpu.barrier``).

    Stores before it, to shared local memory or to an array that the kernel also reads, are visible to all after it.
    An array that is passed as two arguments counts as two. Nothing is flushed where there is no such memory.

    Raises:
        TraceError: not all subgroups would reach it, as a condition or a loop around it depends on ``subgroup_id``.
            This is raised when the whole kernel is recorded.
    """
    current("xt.barrier").emit(BarrierOp())  # type: ignore[no-untyped-call]


def fence(scope: str = "workgroup", memory: str = "slm") -> None:
    """Memory fence: this subgroup's stores before it are visible before those after it (``fence``).

    Args:
        scope: visible to: ``"workgroup"``, ``"gpu"``, or ``"system"``: the host and other devices as well, while the
            kernel runs. They must be able to read the memory at that time, as USM of kind host.
        memory: which memory: ``"slm"`` or ``"global"``. Shared local memory has no scope beyond its work-group.

    Raises:
        ElementTypeError: another scope or memory.
        ShapeError: ``"gpu"`` or ``"system"`` with ``"slm"``.
    """
    tracer = current("xt.fence")
    if memory not in _KINDS:
        raise ElementTypeError("XT1464", f"xt.fence has no memory {memory!r}",
                               f"use {' or '.join(f'memory={name!r}' for name in _KINDS)}", tracer.location())
    tracer.emit(FenceOp(scope, _KINDS[memory]))


class Nbarrier:
    """Named barrier of some subgroups of a work-group, from :func:`nbarrier`.

    Every participant arrives and, later, waits; in between it does independent work. Where the barrier has producers,
    these only arrive, and the consumers only wait.
    """

    def __init__(self, ssa: SSAValue) -> None:
        self._ssa = ssa

    def arrive(self) -> None:
        """Signal arrival: this subgroup's stores are visible to the others after their wait (``nbarrier_arrive``).

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
    """Named barrier ``id`` of the work-group (``init_nbarrier``).

    Subgroups that pass the same id share one barrier. With all subgroups of the work-group it is a split barrier, which
    every target has; fewer need a target with named barriers, or a barrier that all subgroups reach.

    Args:
        id: 0 to 30, or a run-time number, such as one computed from :func:`subgroup_id`.
        participants: how many subgroups arrive there, and wait for each other.
        producers: how many of them only arrive, while the others, the consumers, only wait. Producers and consumers
            are under conditions on :func:`subgroup_id`. Optional for two participants under such conditions, one that
            only arrives and one that only waits.

    Raises:
        ElementTypeError: the id or the number of participants is no integer, or the latter is known at run time only.
        ShapeError: there is no such id; more participants than subgroups; another number for the same id; no producer,
            or no consumer.
        TargetError: the target has no named barriers, and not all subgroups reach it. This is raised when the kernel is
            lowered for the target.
    """
    tracer = current("xt.nbarrier")
    id_, count = python_number(id), python_number(participants)
    if type(count) is not int:
        raise ElementTypeError("XT1460", f"the number of participants is {describe_value(count)}, not a compile-time "
                               "integer",
                               "say how many subgroups wait for each other, as in xt.nbarrier(0, 4)",
                               tracer.location(), notes(tracer.location(), it=count))
    if type(id_) is not int and not (isinstance(id_, Scalar) and id_.dtype is dtypes.index):
        raise ElementTypeError("XT1461", f"the id of a barrier is {describe_value(id_)}, not an index",
                               "give an integer from 0 to 30, or a run-time index such as xt.subgroup_id() // 2",
                               tracer.location(), notes(tracer.location(), it=id_))
    arriving = python_number(producers)
    if arriving is not None and type(arriving) is not int:
        raise ElementTypeError("XT1460", f"the number of producers is {describe_value(arriving)}, not a compile-time "
                               "integer",
                               "say how many subgroups only arrive, as in producers=1", tracer.location(),
                               notes(tracer.location(), it=arriving))
    numbers = scalar(id_, dtypes.index), scalar(count, dtypes.index)
    return Nbarrier(tracer.emit(InitNbarrierOp(*numbers, arriving)))
