"""Transport: communicators and messages of a grid's ranks; the one file that imports mpi4py, on first use.

Only ``Isend``, ``Irecv``, ``Ibcast``, ``Allreduce`` and ``Ibarrier`` are used, and ``allgather`` to report errors.
Requests of other non-blocking collectives keep no reference to their buffers. Everything travels as bytes: null
datatypes of an MPI without bfloat16 are false, and MPI adds up nothing, so that sums have the same bits on every MPI.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from xegpu.support.errors import DeviceError, ToolError

_INSTALL = 'install both: pip install -e ".[mpi]"; on a cluster load its MPI, and pip install "mpi4py>=4.1,<5"'
_SPINS = 200
"""Polls before a waiting rank gives up its core between polls, as ranks that share cores must."""
_NAP = 50e-6
_STARTED = ("PMI_SIZE", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE")
"""Variables that the mpiexec of MPICH, Intel MPI and Open MPI sets."""
_GPU_AWARE = ("I_MPI_OFFLOAD", "MPIR_CVAR_ENABLE_GPU")
"""Variables that tell Intel MPI and MPICH to take device memory. An MPI is never probed: it would crash."""


def import_mpi() -> Any:
    """The module ``mpi4py.MPI``; importing it initialises MPI.

    Raises:
        ToolError: mpi4py is not installed, or finds no MPI library.
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: mpi4py is there, and no MPI library
        raise ToolError("XT7220", f"MPI does not load ({str(error).strip().splitlines()[0]})", _INSTALL) from None
    return MPI


def communicator(comm: Any) -> Any:
    """The communicator that an author means: None is the world."""
    return import_mpi().COMM_WORLD if comm is None else comm


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
    """

    def __init__(self, comm: Any, timeout: float | None = None) -> None:
        self.rank, self.size = int(comm.Get_rank()), int(comm.Get_size())
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
        return Pending([self.comm.Isend([view, import_mpi().BYTE], peer)], description, view)

    def receive(self, view: Any, peer: int, description: str) -> Pending:
        """Start to receive a message."""
        return Pending([self.comm.Irecv([view, import_mpi().BYTE], peer)], description, view)

    def broadcast(self, view: Any, root: int, group: tuple[int, ...], description: str) -> Pending:
        """Start a broadcast among a group of ranks."""
        comm = self._groups[group]
        return Pending([comm.Ibcast([view, import_mpi().BYTE], group.index(root))], description, view)

    def wait(self, pending: Pending, timeout: float | None) -> None:
        """Wait until messages have come or gone, polling: MPI makes progress in its calls.

        Raises:
            DeviceError: it took longer than ``timeout`` seconds, or MPI reports an error.
        """
        mpi, start, polls = import_mpi(), time.monotonic(), 0
        try:
            while not mpi.Request.Testall(pending.requests):
                polls += 1
                if polls > _SPINS:
                    time.sleep(_NAP)
                if timeout is not None and time.monotonic() - start > timeout:
                    raise DeviceError("XT7222", f"rank {self.rank} waited {timeout:g} seconds for "
                                      f"{pending.description}", "another rank has failed or is late: start with "
                                      "mpiexec -n N python -m mpi4py, so that an error of one rank ends all; or allow "
                                      "more: timeout=")
        except mpi.Exception as error:
            raise DeviceError("XT7223", f"MPI failed in {pending.description}: {error}",
                              "this is the MPI library's own message") from error

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
        self.meet(self.comm, timeout, "all ranks to call")
        mine = np.array(numbers, np.int64)
        result = np.empty_like(mine)
        self.comm.Allreduce([mine, import_mpi().INT64_T], [result, import_mpi().INT64_T], operation)
        return [int(number) for number in result]

    def collect(self, value: Any) -> list[Any]:
        """The values of all ranks, in any types; for errors."""
        return list(self.comm.allgather(value))


class Alone(Transport):
    """The only rank, without MPI: it sends nothing."""

    def __init__(self) -> None:
        self.comm, self.node, self.rank, self.size = None, None, 0, 1

    def join(self, shape: tuple[int, ...], groups: Sequence[tuple[int, ...]]) -> None:
        """Join no thread."""

    def total(self, numbers: Sequence[int], timeout: float | None = None) -> list[int]:
        """The numbers themselves."""
        return list(numbers)


_KEYVALS: dict[str, int] = {}


def transport_of(comm: Any, ranks: int | None = None, timeout: float | None = None) -> Transport:
    """The transport of a communicator, made on first use, a collective call, and freed with the communicator.

    Args:
        comm: an author's; None is the world.
        ranks: how many ranks are wanted; one rank needs no MPI.
        timeout: seconds to wait for the other ranks; None for any time.
    """
    if comm is None and ranks == 1 and not _mpi_is_there():
        return Alone()
    mpi, comm = import_mpi(), communicator(comm)
    if "transport" not in _KEYVALS:
        _KEYVALS["transport"] = mpi.Comm.Create_keyval()
    found = comm.Get_attr(_KEYVALS["transport"])
    if found is None:
        found = Transport(comm, timeout)
        comm.Set_attr(_KEYVALS["transport"], found)
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


