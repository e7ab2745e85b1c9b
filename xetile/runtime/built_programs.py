"""Built programs of a process: the most recently used, so that their memory in the driver is bounded.

A program of a matrix product takes 5 to 8 MB in the driver of the CPU device. One that is dropped is loaded from the
cache on disk when it is launched again, or built anew where there is none.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any
from weakref import ReferenceType, WeakSet, ref

from xetile.compiler.compiled import CompiledKernel
from xetile.runtime.launch_plan import LaunchPlan

CAPACITY = 64
"""Programs that are kept unless a process says otherwise: 320 MB of small kernels, half a GB of products."""


class BuiltPrograms:
    """Programs by compiled kernel, queue and build settings, the least recently used first.

    Attributes:
        capacity: programs that are kept.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.capacity = capacity
        self._used: OrderedDict[tuple[int, Hashable], tuple[ReferenceType[CompiledKernel], WeakSet[LaunchPlan]]] = \
            OrderedDict()

    def find(self, compiled: CompiledKernel, key: Hashable, build: Callable[[], Any]) -> Any:
        """The built kernel of a compiled one, built if it is not there; the least recently used one may be dropped.

        Raises:
            XeError: what ``build`` raises.
        """
        number = id(compiled), key
        kernel = compiled.programs.get(key)
        if kernel is not None and number in self._used:
            self._used.move_to_end(number)
            return kernel
        kernel = compiled.programs[key] = build()
        compiled.forget_stages()
        self._used[number] = ref(compiled, lambda _: self._used.pop(number, None)), WeakSet()
        while len(self._used) > self.capacity:
            (_, oldest), (owner, plans) = self._used.popitem(last=False)
            if (dropped := owner()) is not None:
                dropped.programs.pop(oldest, None)
            for plan in plans:
                plan.kernel = None
        return kernel

    def add_plan(self, compiled: CompiledKernel, key: Hashable, plan: LaunchPlan) -> None:
        """Let a plan lose its kernel when the program is dropped."""
        self._used[id(compiled), key][1].add(plan)


PROGRAMS = BuiltPrograms()
"""The process's programs."""
