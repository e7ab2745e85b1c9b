"""Scratch memory of launches: a caching allocator, whose blocks later launches use again.

The system clears the pages of new memory, and takes them back when it is freed: more than a short kernel takes. A
block is given back at once behind the launch that uses it, with that launch's event; who takes it next is ordered
behind that event, on whatever queue's order and from whatever thread.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Hashable
from typing import Any

from codegen.runtime.devices import Queue, import_dpctl
from codegen.runtime.launcher import Event, order_after
from codegen.runtime.synchronize import finish
from codegen.runtime.usm import LINE, advise_huge_pages, out_of_memory
from xegpu.support.errors import DeviceError

_MOST_BYTES = 1 << 26
"""Bytes that are kept while nobody uses them; the block that was given back first is freed first."""
_MOST_VIEWS = 8
"""Sets of arrays that a block keeps."""


class Block:
    """Memory on a queue's device.

    Attributes:
        memory: dpctl's object.
        size: bytes.
    """

    __slots__ = ("_event", "_queue", "_views", "memory", "size")

    def __init__(self, queue: Queue, size: int) -> None:
        dpctl_memory = import_dpctl("dpctl.memory")
        try:
            self.memory = dpctl_memory.MemoryUSMDevice(size, alignment=LINE, queue=queue)
        except (dpctl_memory.USMAllocationError, MemoryError) as error:
            raise out_of_memory(queue, size) from error
        advise_huge_pages(self.memory._pointer, size, queue)
        self.size = size
        self._queue, self._event, self._views = queue, None, dict[Hashable, Any]()

    def fits(self, queue: Queue, size: int) -> bool:
        """Whether it has ``size`` bytes for launches on a queue, and not many more."""
        return size <= self.size <= 2 * size and bool(self._queue == queue)

    def views(self, layout: Hashable, make: Callable[[Any], Any]) -> Any:
        """What ``make`` made of the memory for this layout: arrays that later launches find at the same place."""
        if layout not in self._views:
            if len(self._views) >= _MOST_VIEWS:
                self._views.clear()
            self._views[layout] = make(self.memory)
        return self._views[layout]

    def ended_by(self, event: Event) -> Block:
        """The block, used by launches until ``event``."""
        self._event = event
        return self

    def order(self) -> None:
        """Order what is launched next on the queue behind the launches that used the block."""
        if self._event is not None:
            order_after(self._queue, self._event)


class ScratchPool:
    """Blocks that nobody uses, by the time at which they were given back.

    Args:
        most: bytes that are kept.
    """

    def __init__(self, most: int = _MOST_BYTES) -> None:
        self._most, self._free, self._lock = most, list[Block](), threading.Lock()

    @property
    def kept(self) -> int:
        """Bytes that nobody uses."""
        return sum(block.size for block in self._free)

    def take(self, queue: Queue, size: int) -> Block:
        """A block of at least ``size`` bytes for launches on a queue; its contents are arbitrary.

        Raises:
            DeviceError: the device has no memory left.
        """
        with self._lock:
            found = next((block for block in reversed(self._free) if block.fits(queue, size)), None)
            if found is not None:
                self._free.remove(found)
        if found is not None:
            found.order()
            return found
        step = max(1 << (size.bit_length() - 3), LINE)  # of an eighth to a quarter: blocks fit sizes alike
        whole = -(-size // step) * step
        try:
            return Block(queue, whole)
        except DeviceError:
            finish(queue)  # launches that still run keep the memory of blocks alive that were given back
            self.clear()
            return Block(queue, whole)

    def give_back(self, block: Block, event: Event) -> None:
        """Let later launches use a block behind ``event``, that of the last launch that does."""
        with self._lock:
            self._free.append(block.ended_by(event))
            while self.kept > self._most:
                del self._free[0]

    def clear(self) -> None:
        """Free all blocks; memory that a launch still uses is kept alive by it."""
        with self._lock:
            self._free.clear()


SCRATCH = ScratchPool()
"""The process's pool."""
atexit.register(SCRATCH.clear)
