"""Memory of a rank's blocks and panels: NumPy, or dpnp on a queue, and their bytes as MPI takes them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from codegen.runtime.devices import Queue, find_queue, import_dpctl
from codegen.runtime.launcher import completion
from codegen.runtime.synchronize import copy, wait_for
from codegen.runtime.usm import out_of_memory
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.support.errors import DeviceError
from xetile.compiler.arguments import Argument, TypedView
from xetile.distributed.communication.transport import (
    Transport,
    address_bytes,
    host_bytes,
    takes_device_memory,
    transport_of_all,
)
from xetile.distributed.options import check_choice
from xetile.library.array_operands import Operand

TRANSPORTS = ("auto", "host", "device")
_NO_DEVICE = 1 << 62
"""More than any device has."""


class Memory(Protocol):
    """Memory space of a rank's arrays: the host's or a device's.

    Attributes:
        name: what the agreement compares: all ranks have one kind of memory.
        asynchronous: whether products run beside the host.
    """

    name: str
    asynchronous: bool

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """New array."""

    def typed(self, array: Any, dtype: DType) -> Any:
        """The array as an operand of :func:`xetile.matmul`."""

    def now(self) -> Any:
        """The event of all products and copies so far."""

    def wait(self, event: Any) -> None:
        """Wait for an event of :meth:`now`."""

    def copy(self, target: Any, source: Any) -> None:
        """Copy an array, in the order of products."""

    def add(self, target: Any, source: Any) -> None:
        """``target = source + target``, in the order of products."""

    def outgoing(self, array: Any) -> Any:
        """Bytes that MPI may read, of a contiguous array that no product writes any more."""

    def incoming(self, array: Any) -> tuple[Any, Callable[[], None]]:
        """Bytes that MPI may write, and what must be called when they have come."""

    def on_host(self, array: Any, dtype: DType) -> np.ndarray[Any, Any]:
        """A contiguous copy in host memory, when all products and copies so far have ended."""

    def check_holds(self, operand: Operand) -> None:
        """Check that an array is in this memory.

        Raises:
            DeviceError: it is in another.
        """


def _nothing() -> None:
    """Completion callback that does nothing."""


class HostMemory:
    """NumPy arrays: products run when they are called, so that no message travels meanwhile but by MPI's own means."""

    name, asynchronous = "NumPy", False

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Any:
        return np.empty(shape, dtype.numpy)

    def typed(self, array: Any, dtype: DType) -> Any:
        return array

    def now(self) -> Any:
        return None

    def wait(self, event: Any) -> None:
        pass

    def copy(self, target: Any, source: Any) -> None:
        target[...] = source

    def add(self, target: Any, source: Any) -> None:
        np.add(source, target, out=target)

    def outgoing(self, array: Any) -> Any:
        return host_bytes(array)

    def incoming(self, array: Any) -> tuple[Any, Callable[[], None]]:
        return host_bytes(array), _nothing

    def on_host(self, array: Any, dtype: DType) -> np.ndarray[Any, Any]:
        return np.array(array, order="C")

    def check_holds(self, operand: Operand) -> None:
        if operand.library is not np:
            raise _elsewhere(operand, "NumPy arrays")


class DeviceMemory:
    """dpnp arrays on a queue.

    Args:
        queue: the queue of the blocks.
        transport: ``"device"``: MPI reads and writes the arrays themselves; ``"host"``: buffers in host memory;
            ``"auto"``: the arrays of a CPU device, and those of a GPU if the environment tells MPI to take them.
    """

    name, asynchronous = "dpnp", True

    def __init__(self, queue: Queue, transport: str) -> None:
        import dpnp

        self.queue, self._dpnp = queue, dpnp
        self.direct = transport == "device" or (
            transport == "auto" and (bool(queue.sycl_device.is_cpu) or takes_device_memory()))
        self._copies: Any = None

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Any:
        try:
            return self._dpnp.empty(shape, dtype=_storage(dtype), sycl_queue=self.queue)
        except (MemoryError, RuntimeError, ValueError) as error:  # dpctl's allocation error is one of these
            raise out_of_memory(self.queue, math.prod(shape) * dtype.bytes) from error

    def typed(self, array: Any, dtype: DType) -> Any:
        return TypedView(array, dtype) if _storage(dtype) != dtype.numpy else array

    def now(self) -> Any:
        return completion(self.queue)

    def wait(self, event: Any) -> None:
        if event is not None:
            wait_for(self.queue, event)

    def copy(self, target: Any, source: Any) -> None:
        target[...] = source

    def add(self, target: Any, source: Any) -> None:
        self._dpnp.add(source, target, out=target)

    def outgoing(self, array: Any) -> Any:
        if self.direct:
            return self._bytes(array)
        staged = self._staging(array)
        copy(self.copy_queue(), staged, usm_bytes(array), array.nbytes)
        return np.frombuffer(staged, np.uint8, array.nbytes)

    def incoming(self, array: Any) -> tuple[Any, Callable[[], None]]:
        if self.direct:
            return self._bytes(array), _nothing
        staged = self._staging(array)

        def arrived() -> None:
            copy(self.copy_queue(), usm_bytes(array), staged, array.nbytes)

        return np.frombuffer(staged, np.uint8, array.nbytes), arrived

    def on_host(self, array: Any, dtype: DType) -> np.ndarray[Any, Any]:
        self.wait(self.now())
        return np.ascontiguousarray(self._dpnp.asnumpy(array)).view(dtype.numpy)

    def check_holds(self, operand: Operand) -> None:
        if operand.library is np or operand.array.sycl_queue != self.queue:
            raise _elsewhere(operand, f"dpnp arrays on a queue of {self.queue.sycl_device.name.strip()}")

    def _bytes(self, array: Any) -> Any:
        pointer = Argument.of("a panel", array).pointer
        assert pointer is not None
        return address_bytes(pointer, array.nbytes)

    def _staging(self, array: Any) -> Any:
        """Host memory that the device's copies reach without a detour; it lives as long as the message."""
        return import_dpctl("dpctl.memory").MemoryUSMHost(array.nbytes, queue=self.queue)

    def copy_queue(self) -> Any:
        """A queue beside that of the products, so that copies do not wait for them."""
        if self._copies is None:
            dpctl = import_dpctl()
            self._copies = dpctl.SyclQueue(self.queue.sycl_context, self.queue.sycl_device, property="in_order")
        return self._copies


def _elsewhere(operand: Operand, wanted: str) -> DeviceError:
    kind = "a NumPy array" if operand.library is np else "a dpnp array on another queue" if "dpnp" in wanted else \
        "a dpnp array"
    return DeviceError("XT7216", f"{operand.name} is {kind}, and this product is for {wanted}",
                       "pass arrays of one kind on one queue to all calls of a plan, or make another plan")


def _storage(dtype: DType) -> np.dtype[Any]:
    """NumPy type of a dpnp array; dpnp has no bfloat16."""
    return np.dtype(np.uint16) if dtype is dtypes.bf16 else dtype.numpy


def usm_bytes(array: Any) -> Any:
    """dpctl memory of a contiguous array, from its address on."""
    from codegen.runtime.usm import memory_at

    argument = Argument.of("a panel", array)
    return memory_at(argument.source.pointer, array.nbytes, argument.source.queue, array)


def memory_of(argument: Argument, transport: str) -> Memory:
    """The memory that an array is in.

    Raises:
        ArgumentError: there is no such transport.
    """
    check_choice("transport", transport, TRANSPORTS)
    return DeviceMemory(argument.source.queue, transport) if argument.kind == "usm" else HostMemory()


def queue(comm: Any = None) -> Queue:
    """The queue for this rank's arrays: the only visible GPU, else that of the rank on its machine, in turn.

    Without a GPU it is that of the CPU device.

    Args:
        comm: a communicator of mpi4py; None is the world.

    Raises:
        DeviceError: there is no device.
    """
    gpus = _gpus()
    if not gpus:
        return find_queue("opencl:cpu")
    position = _position_on_node(transport_of_all(comm))[0] if len(gpus) > 1 else 0
    return find_queue(gpus[position % len(gpus)].filter_string)


def _gpus() -> list[Any]:
    return [device for device in import_dpctl().get_devices() if device.is_gpu and device.backend.name == "level_zero"]


def _position_on_node(transport: Transport) -> tuple[int, int]:
    """Rank and size of the communicator of this machine's ranks; 0 and 1 without MPI."""
    node = transport.node
    return (0, 1) if node is None else (int(node.Get_rank()), int(node.Get_size()))


def default_limit(transport: Transport, timeout: float | None = None) -> int | None:
    """Bytes that blocks and buffers of a rank may take by default: nine tenths of its share of a device's memory.

    It is that of the rank which has least, the same on all ranks; None where no rank has a device. A collective call.
    """
    try:
        devices = _gpus() or [find_queue("opencl:cpu").sycl_device]
        sharing = -(-_position_on_node(transport)[1] // len(devices))
        own = min(int(device.global_mem_size) for device in devices) // sharing * 9 // 10
    except DeviceError:  # without dpctl, or with no device at all, blocks are of NumPy
        own = _NO_DEVICE
    least = own if transport.size == 1 else -transport.maximum([-own], timeout)[0]
    return None if least == _NO_DEVICE else least
