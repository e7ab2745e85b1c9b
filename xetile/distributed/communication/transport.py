"""Transport: communicators and messages of a grid's ranks; the one file that imports mpi4py, on first use.

Only ``Isend``, ``Irecv``, ``Ibcast``, ``Allreduce`` and ``Ibarrier`` are used, and ``allgather`` to report errors.
Requests of other non-blocking collectives keep no reference to their buffers. Everything travels as bytes: null
datatypes of an MPI without bfloat16 are false, and MPI adds up nothing, so that sums have the same bits on every MPI.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from xegpu.support.errors import ArgumentError, DeviceError, ToolError, XeError
from xetile.distributed.communication.remote_errors import difference, error_of, parts_of
from xetile.distributed.options import check_timeout

_INSTALL = 'install both: pip install -e ".[mpi]"; on a cluster load its MPI, and pip install "mpi4py>=4.1,<5"'
_SPINS = 200
"""Polls before a waiting rank gives up its core between polls, as ranks that share cores must."""
_NAP = 50e-6
_GRACE = 0.5
"""Seconds that messages of others may still take when a rank has given up."""
_DATA, _NOTICE = 0, 1
"""Tags of messages of a product, and of a rank's notice that it has given up."""
_STARTED = ("PMI_SIZE", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE")
"""Variables that the mpiexec of MPICH, Intel MPI and Open MPI sets."""
_GPU_AWARE = ("I_MPI_OFFLOAD", "MPIR_CVAR_ENABLE_GPU")
"""Variables that tell Intel MPI and MPICH to take device memory. An MPI is never probed: it would crash."""


def import_mpi() -> Any:
    """The module ``mpi4py.MPI``; importing it initializes MPI.

    Raises:
        ToolError: mpi4py is not installed, or finds no MPI library.
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: mpi4py is there, and no MPI library
        raise ToolError("XT7220", f"MPI does not load ({str(error).strip().splitlines()[0]})", _INSTALL) from None
    return MPI


def communicator(comm: Any) -> Any:
    """The communicator that an author means: None is the world.

    Raises:
        ToolError: no MPI.
        ArgumentError: it is no communicator, or one that was freed.
    """
    mpi = import_mpi()
    if comm is None:
        return mpi.COMM_WORLD
    if not isinstance(comm, mpi.Intracomm) or comm == mpi.COMM_NULL:
        kind = "MPI.COMM_NULL" if isinstance(comm, mpi.Comm) and comm == mpi.COMM_NULL else type(comm).__name__
        raise ArgumentError("XT7214", f"comm is {kind}, and no communicator of ranks that can call",
                            "pass one of mpi4py, such as MPI.COMM_WORLD or comm.Split(...); None is the world")
    return comm


def _reason(error: Exception, statuses: Sequence[Any]) -> str:
    """MPI's error string of failed requests: that of the first status with an error, else the exception's."""
    mpi = import_mpi()
    codes = [status.Get_error() for status in statuses if status.Get_error() not in (mpi.SUCCESS, mpi.ERR_PENDING)]
    return str(mpi.Get_error_string(codes[0])) if codes else str(error)


def takes_device_memory() -> bool:
    """Whether the environment tells MPI to read and write the memory of GPUs."""
    return any(os.environ.get(name) == "1" for name in _GPU_AWARE)


class Pending:
    """Requests of messages that are under way, with what a timeout says of them."""

    __slots__ = ("description", "keep_alive", "requests")

    def __init__(self, requests: list[Any], description: str, keep_alive: Any) -> None:
        self.requests, self.description, self.keep_alive = requests, description, keep_alive


class Transport:
    """Messages between the ranks of a communicator, on a duplicate of it.

    Attributes:
        comm: the duplicate, on which no message of the author's can be confused with one of a product.
        node: communicator of the ranks on this machine.
        rank, size: this rank, and the number of ranks.
        ended: products that ended on this communicator.
        failure: why messages were given up, here or on another rank. None if all is well.
        is_over: whether this rank has raised that: nothing more is sent, and the next call makes another transport.
    """

    comm: Any = None
    ended = 0
    failure: XeError | None = None
    is_over = False
    _noticed = 0.0

    def __init__(self, comm: Any, timeout: float | None = None) -> None:
        self.rank, self.size = int(comm.Get_rank()), int(comm.Get_size())
        self._kept: list[object] = []
        self.meet(comm, timeout, "all ranks to call")  # the calls below have no form that could be given up
        self.comm = comm.Dup()
        self.node = self.comm.Split_type(import_mpi().COMM_TYPE_SHARED)
        self._joined: set[tuple[int, ...]] = set()
        self._groups: dict[tuple[int, ...], Any] = {}

    def join(self, shape: tuple[int, ...], groups: Sequence[tuple[int, ...]]) -> None:
        """Make communicators of a grid's groups of ranks that this rank belongs to, a collective call."""
        if shape in self._joined:
            return
        self._joined.add(shape)
        for group in groups:
            # Of a subclass mpi4py duplicates the class, and splits without it.
            self._groups[group] = type(self.comm)(self.comm.Split(group[0], group.index(self.rank)))

    def send(self, view: Any, peer: int, description: str) -> Pending:
        """Start a message."""
        return Pending([self.comm.Isend([view, import_mpi().BYTE], peer, _DATA)], description, view)

    def receive(self, view: Any, peer: int, description: str) -> Pending:
        """Start to receive a message."""
        return Pending([self.comm.Irecv([view, import_mpi().BYTE], peer, _DATA)], description, view)

    def broadcast(self, view: Any, root: int, group: tuple[int, ...], description: str) -> Pending:
        """Start a broadcast among a group of ranks."""
        comm = self._groups[group]
        return Pending([comm.Ibcast([view, import_mpi().BYTE], group.index(root))], description, view)

    def wait(self, pending: Pending, timeout: float | None) -> None:
        """Wait until messages have come or gone, polling: MPI makes progress in its calls.

        Raises:
            DeviceError: it took longer than ``timeout`` seconds, or MPI reports an error.
            XeError: another rank has given up: its error.
        """
        mpi, start, polls = import_mpi(), time.monotonic(), 0
        statuses = [mpi.Status() for _ in pending.requests]
        try:
            while not mpi.Request.Testall(pending.requests, statuses):
                polls += 1
                if polls > _SPINS:
                    self._look_for_notices()
                    if self.failure is not None and time.monotonic() - max(start, self._noticed) > _GRACE:
                        self.check()
                    time.sleep(_NAP)
                if timeout is not None and time.monotonic() - start > timeout:
                    raise DeviceError("XT7222", f"rank {self.rank} waited {timeout:g} seconds for "
                                      f"{pending.description}", "another rank has failed or is late: start with "
                                      "mpiexec -n N python -m mpi4py, so that an error of one rank ends all; or allow "
                                      "more: timeout=")
        except mpi.Exception as error:
            failure = DeviceError("XT7223", f"MPI failed in {pending.description}: {_reason(error, statuses)}",
                                  "this is the MPI library's own message")
            self.abandon(failure, [pending])
            raise failure from error
        except BaseException as error:
            self.abandon(error, [pending])
            raise

    def abandon(self, error: BaseException, pending: Iterable[Pending]) -> None:
        """Give up messages that are under way, and tell the other ranks, which then do not wait for this one.

        Args:
            error: why.
            pending: messages that MPI may still read and write; they are kept for ever.
        """
        self._kept += pending
        self.is_over = self.size > 1
        if self.size == 1 or self.failure is not None:
            return
        parts = parts_of(error)
        self.failure = error_of(self.rank, parts)
        if self.comm is None:
            return
        notice = np.frombuffer(json.dumps(parts).encode(), np.uint8)
        self._kept += [Pending([self.comm.Isend([notice, import_mpi().BYTE], peer, _NOTICE)], "", notice)
                       for peer in range(self.size) if peer != self.rank]

    def check(self) -> None:
        """Check that no rank has given up.

        Raises:
            XeError: the error of the rank that has.
        """
        self._look_for_notices()
        if self.failure is not None:
            self.is_over = True
            raise error_of(self.rank, parts_of(self.failure))

    def _look_for_notices(self) -> None:
        if self.failure is not None or self.size == 1 or self.comm is None:
            return
        mpi = import_mpi()
        status = mpi.Status()
        if self.comm.Iprobe(mpi.ANY_SOURCE, _NOTICE, status):
            notice, source = np.empty(status.Get_count(mpi.BYTE), np.uint8), status.Get_source()
            self.comm.Recv([notice, mpi.BYTE], source, _NOTICE)
            self.failure, self._noticed = error_of(source, tuple(json.loads(notice.tobytes()))), time.monotonic()

    def resume(self, before: Transport, timeout: float | None) -> None:
        """Go on after the messages of another transport were given up; a collective call.

        Raises:
            ShapeError: some ranks have ended a product that others gave up; on all ranks.
        """
        most, least = self.maximum([before.ended, -before.ended], timeout)
        if most != -least:
            raise difference(self.collect({"products that ended": str(before.ended)}))

    def meet(self, comm: Any, timeout: float | None, description: str) -> None:
        """Wait for all ranks of a communicator; while others compile, this one gives up its core."""
        self.wait(Pending([comm.Ibarrier()], description, None), timeout)

    def maximum(self, numbers: Sequence[int], timeout: float | None = None) -> list[int]:
        """Element-wise maximum over all ranks."""
        return self._reduced(numbers, import_mpi().MAX, timeout)

    def total(self, numbers: Sequence[int], timeout: float | None = None) -> list[int]:
        """Element-wise sum over all ranks."""
        return self._reduced(numbers, import_mpi().SUM, timeout)

    def _reduced(self, numbers: Sequence[int], operation: Any, timeout: float | None) -> list[int]:
        self.check()
        kind = import_mpi().INT64_T
        mine = np.array(numbers, np.int64)
        result = np.empty_like(mine)
        request = self.comm.Iallreduce([mine, kind], [result, kind], operation)
        # mpi4py's request does not keep the arrays.
        self.wait(Pending([request], "all ranks to call", (mine, result)), timeout)
        return [int(number) for number in result]

    def collect(self, value: Any) -> list[Any]:
        """The values of all ranks, in any types; for errors."""
        return list(self.comm.allgather(value))


class Alone(Transport):
    """The only rank, without MPI: it sends nothing."""

    def __init__(self) -> None:
        self.node, self.rank, self.size = None, 0, 1

    def join(self, shape: tuple[int, ...], groups: Sequence[tuple[int, ...]]) -> None:
        """Join no thread."""

    def abandon(self, error: BaseException, pending: Iterable[Pending]) -> None:
        """Nothing is under way."""

    def total(self, numbers: Sequence[int], timeout: float | None = None) -> list[int]:
        """The numbers themselves."""
        return list(numbers)


_KEYVALS: dict[str, int] = {}
_ABANDONED: list[Transport] = []
"""Transports that were given up: MPI may still write into the buffers of their messages."""


def transport_of(comm: Any, ranks: int | None = None, timeout: float | None = None) -> Transport:
    """The transport of a communicator, made on first use, a collective call, and freed with the communicator.

    When one was given up, the next call of all ranks makes another.

    Args:
        comm: an author's; None is the world.
        ranks: how many ranks are wanted; one rank needs no MPI.
        timeout: seconds to wait for the other ranks; None for any time.

    Raises:
        ToolError: no MPI.
        ArgumentError: it is no communicator, or the timeout no time.
        ShapeError: some ranks have ended a product that others gave up.
    """
    if comm is None and ranks == 1 and not _mpi_is_there():
        check_timeout(timeout)
        return Alone()
    mpi, comm = import_mpi(), communicator(comm)
    if "transport" not in _KEYVALS:
        _KEYVALS["transport"] = mpi.Comm.Create_keyval()
    found = comm.Get_attr(_KEYVALS["transport"])
    try:
        check_timeout(timeout)
    except ArgumentError as error:
        if found is not None:
            found.abandon(error, ())
        raise
    if found is None or found.is_over:
        before, found = found, Transport(comm, timeout)
        comm.Set_attr(_KEYVALS["transport"], found)
        if before is not None:
            _ABANDONED.append(before)
            found.resume(before, timeout)
    return found  # type: ignore[no-any-return]


def transport_of_all(comm: Any, timeout: float | None = None) -> Transport:
    """The transport of all ranks that there are: one, where MPI is missing and nothing has started several."""
    return transport_of(comm, None if any(name in os.environ for name in _STARTED) else 1, timeout)


def rank_of(comm: Any, ranks: int) -> int:
    """This process's rank, a local call; 0 where one rank works without MPI."""
    if comm is None and ranks == 1 and not _mpi_is_there():
        return 0
    return int(communicator(comm).Get_rank())


def _mpi_is_there() -> bool:
    try:
        import_mpi()
    except ToolError:
        return False
    return True


def host_bytes(array: np.ndarray[Any, Any]) -> Any:
    """Bytes of a contiguous NumPy array, also of element types that have no buffer protocol."""
    return array.reshape(-1).view(np.uint8)


def address_bytes(pointer: int, size: int) -> Any:
    """Bytes at an address: mpi4py refuses dpnp's arrays, whose ``__dlpack__`` takes no integer for a stream."""
    return import_mpi().buffer.fromaddress(pointer, size)


