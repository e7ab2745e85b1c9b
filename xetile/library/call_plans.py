"""Call plans: what a library function launches, recorded for arrays of one signature and repeated for others.

A function of the library looks at shapes and types, chooses a kernel and its tiles, makes views, and launches: several
times what a launch takes. All of that follows from the signature of its arrays, from their distances where their memory
overlaps, and from its options. So :func:`planned` records the launches of the first call, and where each of their
pointers is: so many bytes behind the first element of an argument, of the new result, or of scratch memory.

A plan references the plans of the launches weakly: it ends with them, and so with all that ends those (the table in
:mod:`xetile.runtime.launch_cache`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import wraps
from types import FunctionType, NoneType
from typing import Any, ParamSpec, TypeVar
from weakref import ReferenceType, ref

import numpy as np

from codegen.runtime.caching_allocator import ALLOCATOR, Block
from codegen.runtime.devices import build_settings
from codegen.runtime.native_interface import KernelArguments
from codegen.runtime.usm import advise_huge_pages, is_large, signature
from xegpu.ir.dtypes import DType
from xegpu.support.errors import XeError
from xegpu.target.targets import Target
from xetile.compiler.arguments import TypedView, at_the_call
from xetile.frontend.tracer import is_recording
from xetile.library.activations import first_alike
from xetile.library.array_operands import new_array
from xetile.runtime.launch_cache import CAPACITY
from xetile.runtime.launch_plan import RECORD, LaunchPlan, launched

_OVERLAPS = 16
"""Plans for arrays of one signature, whose memory overlaps in different ways."""
_NUMBERS = frozenset({NoneType, bool, int, float, np.float32, np.float64})
_OPTIONS = (str, type, np.dtype, DType, Target)
"""Types of options that do not change in place."""

P = ParamSpec("P")
R = TypeVar("R")


def planned(function: Callable[P, R]) -> Callable[P, R]:
    """A library function that repeats its launches for dpnp arrays of a known signature.

    All that it does to arrays must be launches of kernels; memory for them is the result's, made like the first
    argument, or :class:`xetile.library.array_operands.Scratch`. A launch on what it allocates otherwise, or copies, is
    seen by the address, and such calls are not repeated.
    """
    table: dict[Hashable, _Signature] = {}

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        arrays: list[Any] = []
        key = None if is_recording() or RECORD.events is not None else _key(args, options, arrays)
        if key is None:
            return function(*args, **options)
        known = table.get(key)
        if known is None:
            if len(table) >= CAPACITY:
                table.clear()
            known = table[key] = _Signature([_reach(array) for array in arrays])
        known.advise(arrays)
        overlaps = known.overlaps(arrays)
        plan = known.plans.get(overlaps)
        if plan is not None and (launches := plan.launches()) is not None:
            try:
                result = plan.launch(launches, arrays, args[0])
            except XeError as error:
                at_the_call(error)
                raise
            return options["out"] if result is None else result  # type: ignore[return-value]
        if plan is None and overlaps in known.plans:
            return function(*args, **options)
        return known.record(overlaps, arrays, options.get("out"), lambda: function(*args, **options))

    return call


def _key(args: Sequence[Any], options: dict[str, Any], arrays: list[Any]) -> Hashable:
    """The key of a call, whose arrays are added to ``arrays``; None for one that is not repeated."""
    parts: list[Any] = [build_settings(), len(args), *options]
    for value in (*args, *options.values()):
        kind = type(value)
        if kind in _NUMBERS:
            parts.append((kind, value or repr(value)))  # zero has a sign
            continue
        inner, dtype = (value.array, value.dtype) if kind is TypedView else (value, None)
        if (seen := signature(inner)) is not None:
            parts.append((dtype, seen))
            arrays.append(inner.get_array())
        elif kind is FunctionType:  # the kernel looks after what it captures, of the one that it was recorded with
            parts.append(first_alike(value))
        elif isinstance(value, _OPTIONS) or (
                kind is tuple and all(type(each) in (str, NoneType) for each in value)):
            parts.append(value)
        else:
            return None
    return tuple(parts) if arrays and len(args) > 0 else None


class _Signature:
    """The plans for arrays of one signature.

    Args:
        reaches: of each array the bytes from its first element to its lowest one, and to the end of its highest.

    Attributes:
        plans: by the overlaps of the arrays; None for calls that are not repeated.
    """

    __slots__ = ("_large", "_reaches", "plans")

    def __init__(self, reaches: Sequence[tuple[int, int]]) -> None:
        self._reaches = reaches
        self._large = [number for number, (low, high) in enumerate(reaches) if is_large(high - low)]
        self.plans: dict[Hashable, CallPlan | None] = {}

    def advise(self, arrays: Sequence[Any]) -> None:
        """Let the system back large arrays of a CPU by huge pages.

        A product of 2048 x 2048 reads some thousand pages of 4 KB in turn, more than a TLB holds. Memory that is in use
        gets its huge pages in the background, within a minute on Linux; a new result when it is written. The advice, of
        1 to 2 us an array, is repeated in each call: the address of an array may be that of a former one, whose memory
        was freed and whose advice ended with it.
        """
        for number in self._large:
            array, (low, high) = arrays[number], self._reaches[number]
            advise_huge_pages(array._pointer + low, high - low, array.sycl_queue)

    def overlaps(self, arrays: Sequence[Any]) -> tuple[tuple[int, int, int], ...]:
        """Each pair of arrays whose spans of memory overlap, and the distance of their first elements."""
        spans: list[tuple[int, int, int]] = []
        found = []
        for number, (array, (low, high)) in enumerate(zip(arrays, self._reaches, strict=True)):
            first = array._pointer
            low, high = first + low, first + high
            for other, (other_low, other_high, start) in enumerate(spans):
                if low < other_high and other_low < high:
                    found.append((other, number, first - start))
            spans.append((low, high, first))
        return tuple(found)

    def record(self, overlaps: Hashable, arrays: Sequence[Any], out: Any, call: Callable[[], R]) -> R:
        """The result of a call, whose launches become the plan for later ones."""
        events: list[Any] = []
        RECORD.events = events
        try:
            result = call()
        finally:
            RECORD.events = None
        if len(self.plans) >= _OVERLAPS:
            self.plans.clear()
        self.plans[overlaps] = _plan(events, arrays, self._reaches, result if out is None else None)
        return result


@dataclass(frozen=True)
class _Step:
    """A launch.

    Attributes:
        kernel: the kernel, which notices that what it captured is another value now.
        plan: the launch's plan.
        values: its packed arguments; those of pointers are replaced.
        pointers: of each its slot, where it points to (a source of the call plan), and the distance in bytes.
    """

    kernel: Any
    plan: ReferenceType[LaunchPlan]
    values: KernelArguments
    pointers: list[tuple[int, int, int]]


class CallPlan:
    """The launches of a call, for arrays of one signature.

    Its sources of memory are the call's arrays, the new result if there is one, and blocks of scratch memory.

    Args:
        steps: the launches.
        result: shape and element type of a new result; None where the call is given one.
        scratch: bytes of each block.
    """

    __slots__ = ("_result", "_scratch", "_steps")

    def __init__(self, steps: list[_Step], result: tuple[tuple[int, ...], Any] | None, scratch: list[int]) -> None:
        self._steps, self._result, self._scratch = steps, result, scratch

    def launches(self) -> list[tuple[LaunchPlan, Any]] | None:
        """Each launch's plan and dpctl's kernel, which other threads may drop meanwhile; None where one differs now."""
        found = []
        for step in self._steps:
            step.kernel.refresh()
            if (plan := step.plan()) is None or (kernel := plan.kernel) is None:
                return None
            found.append((plan, kernel))
        return found

    def launch(self, launches: Sequence[tuple[LaunchPlan, Any]], arrays: Sequence[Any], like: Any) -> Any:
        """Repeat the launches.

        Args:
            launches: what :meth:`launches` found.
            arrays: dpctl's, of the plan's signature.
            like: the call's first argument.

        Returns:
            The new result, None where the call is given one.

        Raises:
            DeviceError: the device has no memory left, or refuses a launch.
        """
        result, sources = None, list(arrays)
        if self._result is not None:
            result = new_array(like.array if type(like) is TypedView else like, *self._result)
            sources.append(result.get_array())
        blocks = [ALLOCATOR.take(arrays[0].sycl_queue, size) for size in self._scratch]
        sources += [block.memory for block in blocks]
        starts, event = [source._pointer for source in sources], None
        for step, (plan, kernel) in zip(self._steps, launches, strict=True):
            values = step.values.copy()
            for slot, source, distance in step.pointers:
                values[slot] = starts[source] + distance
            event = launched(plan.queue, kernel, values, plan.global_range, plan.local_range,
                             (sources,)).sycl_event
        for block in blocks:
            ALLOCATOR.give_back(block, event)
        return result


def _plan(events: Sequence[Any], arrays: Sequence[Any], reaches: Sequence[tuple[int, int]],
          result: Any) -> CallPlan | None:
    """The plan of recorded events; None if one is no launch that can be repeated, or of other memory."""
    sources = [(array._pointer, *reach) for array, reach in zip(arrays, reaches, strict=True)]
    if result is not None:
        new = result.get_array()
        if new.usm_type != arrays[0].usm_type or not new.flags.c_contiguous:
            return None
        sources.append((new._pointer, 0, new.nbytes))
    blocks: list[Block] = []
    steps = []
    for event in events:
        if isinstance(event, Block):
            blocks.append(event)
            continue
        kernel, plan, args = event
        spans = sources + [(block.memory._pointer, 0, block.size) for block in blocks]
        step = None if plan is None else _step(kernel, plan, args, spans)
        if step is None:
            return None
        steps.append(step)
    return CallPlan(steps, None if result is None else (tuple(result.shape), result.dtype),
                    [block.size for block in blocks]) if steps else None


def _step(kernel: Any, plan: LaunchPlan, args: Sequence[Any], spans: Sequence[tuple[int, int, int]]) -> _Step | None:
    """A launch by the sources of its pointers, the last ones first: memory of a block may be another one's before."""
    pointers, values = [], plan.pack(args)
    for slot, value in zip(plan.slots, args, strict=True):
        array = value.array if type(value) is TypedView else value
        if not hasattr(array, "get_array"):
            continue
        pointer = array.get_array()._pointer
        source = next((number for number in reversed(range(len(spans)))
                       if spans[number][0] + spans[number][1] <= pointer < spans[number][0] + spans[number][2]), None)
        if source is None:
            return None
        pointers.append((slot, source, pointer - spans[source][0]))
    return _Step(kernel, ref(plan), values, pointers)


def _reach(array: Any) -> tuple[int, int]:
    """Bytes from an array's first element to its lowest one, and to the end of its highest; both 0 without elements."""
    if 0 in array.shape:
        return 0, 0
    size = array.itemsize
    reach = [stride * (count - 1) * size for stride, count in zip(array.strides, array.shape, strict=True)]
    return sum(r for r in reach if r < 0), sum(r for r in reach if r > 0) + size
