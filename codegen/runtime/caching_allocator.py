"""Caching allocator: device memory of results and of scratch arrays, whose blocks later launches use again.

The system clears the pages of new memory, and takes them back when it is freed: more than a short kernel takes. A
block comes back in one of two ways:

- scratch memory at once behind the launch that uses it, with that launch's event; who takes it next is ordered behind
  that event, on whatever queue's order and from whatever thread;
- a result's memory when nothing refers to it any more: neither the array nor a view, a DLPack capsule, another
  memory object, or a launch that has not ended, all of which keep the owner of the memory alive. Who hands an address
  or ``memcpy_async`` no more than that has to keep the array, as of memory that would be freed.
"""

from __future__ import annotations

import atexit
import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any

from codegen.runtime.devices import Queue, import_dpctl
from codegen.runtime.launcher import Event, order_after
from codegen.runtime.synchronize import finish
from codegen.runtime.usm import LINE, advise_huge_pages, memory_at, out_of_memory
from xegpu.support.errors import DeviceError

_MOST_BYTES = 1 << 26
"""Bytes that are kept while nobody uses them; the block that was given back first is freed first."""
_MOST_BLOCKS = 64
"""Blocks that are kept: a search looks at all of them."""
_PAGE = 1 << 12
"""Bytes up to which Intel's CPU runtime serves an allocation from memory that it has; it maps each larger one anew."""
_MOST_VIEWS = 8
"""Sets of arrays that a block keeps."""


class Block:
    """Memory on a queue's device.

    Args:
        kind: of unified shared memory: ``"device"``, ``"shared"`` or ``"host"``.

    Attributes:
        memory: dpctl's object.
        size: bytes.
    """

    __slots__ = ("_event", "_kind", "_queue", "_views", "memory", "size")

    def __init__(self, queue: Queue, size: int, kind: str = "device") -> None:
        dpctl_memory = import_dpctl("dpctl.memory")
        try:
            self.memory = getattr(dpctl_memory, f"MemoryUSM{kind.title()}")(size, alignment=LINE, queue=queue)
        except (dpctl_memory.USMAllocationError, MemoryError) as error:
            raise out_of_memory(queue, size) from error
        advise_huge_pages(self.memory._pointer, size, queue)
        self.size = size
        self._queue, self._kind, self._event, self._views = queue, kind, None, dict[Hashable, Any]()

    def fits(self, queue: Queue, size: int, kind: str) -> bool:
        """Whether it has ``size`` bytes of a kind for launches on a queue, and not many more."""
        return size <= self.size <= 2 * size and kind == self._kind and bool(self._queue == queue)

    def views(self, layout: Hashable, make: Callable[[Any], Any]) -> Any:
        """Views of the memory in this layout, created by ``make``; later launches find their arrays there."""
        if layout not in self._views:
            if len(self._views) >= _MOST_VIEWS:
                self._views.clear()
            self._views[layout] = make(self.memory)
        return self._views[layout]

    def ended_by(self, event: Event | None) -> Block:
        """The block, used by launches until ``event``; None if they have ended."""
        self._event = event
        return self

    def order(self) -> None:
        """Order the queue's next launches behind the launches that used the block."""
        if self._event is not None:
            order_after(self._queue, self._event)


class _Lease:
    """Owner of a block's memory: gives the block back when nothing refers to it."""

    __slots__ = ("_allocator", "_block")

    def __init__(self, allocator: CachingAllocator, block: Block) -> None:
        self._allocator, self._block = allocator, block

    def __del__(self) -> None:
        self._allocator.give_back(self._block)


class CachingAllocator:
    """Blocks that nobody uses, by the time at which they were given back.

    Args:
        most: bytes that are kept.
    """

    def __init__(self, most: int = _MOST_BYTES) -> None:
        self._most, self._free, self._lock = most, list[Block](), threading.Lock()
        self._returned = deque[Block]()

    @property
    def free_bytes(self) -> int:
        """Bytes that nobody uses."""
        return sum(block.size for block in self._free)

    def caches(self, queue: Queue, size: int) -> bool:
        """Whether memory of ``size`` bytes is taken from it: on a CPU, and what it would keep.

        Drivers of GPUs have an allocator of this kind themselves.
        """
        return _PAGE < size <= self._most and bool(queue.sycl_device.is_cpu)

    def allocate(self, queue: Queue, size: int, kind: str) -> Any:
        """dpctl memory object of ``size`` bytes of a kind, whose block comes back when nothing refers to it.

        Raises:
            DeviceError: the device has no memory left.
        """
        block = self.take(queue, size, kind)
        return memory_at(block.memory._pointer, size, queue, _Lease(self, block))

    def take(self, queue: Queue, size: int, kind: str = "device") -> Block:
        """A block of at least ``size`` bytes of a kind for launches on a queue; its contents are arbitrary.

        Raises:
            DeviceError: the device has no memory left.
        """
        with self._lock:
            found = next((block for block in reversed(self._free) if block.fits(queue, size, kind)), None)
            if found is not None:
                self._free.remove(found)
        self._collect()
        if found is not None:
            found.order()
            return found
        step = max(1 << (size.bit_length() - 3), LINE)  # of an eighth to a quarter: blocks fit sizes alike
        whole = -(-size // step) * step
        try:
            return Block(queue, whole, kind)
        except DeviceError:
            finish(queue)  # launches that still run keep the memory of blocks alive that were given back
            self.clear()
            return Block(queue, whole, kind)

    def give_back(self, block: Block, event: Event | None = None) -> None:
        """Let later launches use a block behind ``event``, that of the last launch that does; None if that has ended.

        The collector of garbage may call this at any point of the program, so that it must not wait for the lock.
        """
        self._returned.append(block.ended_by(event))
        self._collect()

    def _collect(self) -> None:
        """Keep the blocks that were given back, unless another call has the lock, which does it when it is done."""
        dropped: list[Block] = []  # freed without the lock: that may take its time
        while self._returned and self._lock.acquire(blocking=False):
            try:
                while self._returned:
                    self._free.append(self._returned.popleft())
                kept = self.free_bytes
                while kept > self._most or len(self._free) > _MOST_BLOCKS:
                    dropped.append(self._free.pop(0))
                    kept -= dropped[-1].size
            finally:
                self._lock.release()

    def clear(self) -> None:
        """Free all blocks; memory that a launch still uses is kept alive by it."""
        with self._lock:
            dropped, self._free = self._free, []
        dropped.clear()
        self._collect()

    def close(self) -> None:
        """Free all blocks, and later ones when they are given back: the runtime is about to end."""
        self._most = 0
        self.clear()


ALLOCATOR = CachingAllocator()
"""The process's allocator."""
atexit.register(ALLOCATOR.close)
