"""The launch cache of a kernel: all in-memory state that launches reuse.

Each kernel has one :class:`LaunchCache`. Its levels, in the order in which a first launch fills them:

| level | key | value |
|---|---|---|
| ``bindings`` | device, target and subgroups, as the author gave them | a bound kernel, its :class:`LaunchTable` |
| ``modules`` | types and ranks of the arguments, constants, subgroups | the XeTile module: recorded, or parsed |
| ``compiled`` | the same, the target, how each array may be accessed | the compiled kernel: stages, device source |
| ``compiled[...].programs`` | queue, XETILE_SPIRV, XETILE_BUILD_OPTIONS | the built device kernel, of all kernels the
last used (:mod:`xetile.runtime.built_programs`) |
| ``LaunchTable``, by signature | grid, constants, types, shapes, strides, alignment and queue of the arrays | a plan |
| ``LaunchTable``, by identity | grid, constants, the arrays themselves | a plan with its arrays packed |

A launch looks up the last level first, and the levels above it only on a miss.

Lifetime: everything stays until ``kernel.forget()``, which empties all levels at once, the launch tables of bound
kernels that an author still references included; ``kernel.override()`` does the same, and so does a launch that finds a
captured variable changed (a global, a closure's, a helper function: :mod:`xetile.jit.captures`). Nothing else is
invalidated: keys contain all that a value depends on, environment variables included, and a launch table checks the
attributes of an array that an author can change in place. A launch table keeps no array alive, and is cleared when it
has :data:`CAPACITY` launches.

A prepared launch (``kernel.prepare``) is the author's, not the cache's, and stays what it was.

Not per kernel are three more: the launches of calls of library functions (:mod:`xetile.library.call_plans`), which end
with the plans of these launches; the queue of a filter string (:func:`codegen.runtime.devices.find_queue`), which is
the same for the life of the process because arrays belong to it; and compilers' output on disk, shared by processes
(:mod:`codegen.toolchain.disk_cache`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import ref

from xdsl.dialects.builtin import ModuleOp

from codegen.runtime.devices import build_settings
from codegen.runtime.native_interface import KernelArguments
from codegen.runtime.usm import signature
from xegpu.ir.dtypes import DType
from xegpu.support.errors import ElementTypeError
from xetile.compiler.arguments import TypedView
from xetile.frontend.constants import hashable
from xetile.runtime.launch_plan import LaunchEvent, LaunchPlan, launched

if TYPE_CHECKING:
    from xetile.compiler.compiled import CompiledKernel

INT32 = range(-(2**31), 2**31)
"""The integers that kernels get as 32 bits."""
INTEGERS = {int}
"""The types of a grid's counts that need no further check."""
CAPACITY = 256
"""Launches that a table has by signature, and by identity, before it is cleared."""


class LaunchCache:
    """All in-memory state that a kernel's launches reuse; the levels are those of the module's table.

    Attributes:
        modules: XeTile modules.
        compiled: compiled kernels.
        bindings: bound kernels (:class:`xetile.runtime.launch.BoundKernel`, which is above this module).
    """

    __slots__ = ("bindings", "compiled", "modules")

    def __init__(self) -> None:
        self.modules: dict[Hashable, ModuleOp] = {}
        self.compiled: dict[Hashable, CompiledKernel] = {}
        self.bindings: dict[Hashable, Any] = {}

    def forget(self) -> None:
        """Empty every level; bound kernels, which an author may reference, stay valid with empty launch tables."""
        self.modules.clear()
        self.compiled.clear()
        for bound in self.bindings.values():
            bound.forget()


@dataclass(eq=False, repr=False, slots=True)
class _BoundLaunch:
    """A plan with its arrays packed.

    Attributes:
        plan: the built kernel.
        grid: work-groups, the author's object.
        settings: the result of :func:`build_settings`.
        count: arguments.
        arrays: of each a weak reference, its shape and strides, whether the kernel writes it, its slot in the template.
        numbers: of each its position, its type, its packer, and its slot.
    """

    plan: LaunchPlan
    grid: tuple[int, ...]
    settings: object
    count: int
    arrays: Sequence[tuple[Callable[[], Any], tuple[int, ...], tuple[int, ...], bool, int]]
    numbers: list[tuple[int, type, Callable[[Any], Any], int]]

    def pack(self, grid: tuple[Any, ...], arrays: Sequence[Any], args: Sequence[Any]) -> KernelArguments | None:
        """The kernel's packed arguments; None if anything differs: another array at the same address, a shape.

        Attributes that are immutable while an array lives are not compared: memory, element type, queue.
        """
        if len(args) != self.count or build_settings() != self.settings or \
                (grid is not self.grid and {*map(type, grid)} != INTEGERS):
            return None
        values = self.plan.template.copy()
        for usm, (seen, shape, strides, is_written, slot) in zip(arrays, self.arrays, strict=True):
            if usm is not seen() or usm.shape != shape or usm.strides != strides or \
                    (is_written and not usm.flags.writable):
                return None
            values[slot] = usm._pointer
        for position, kind, pack, slot in self.numbers:
            value = args[position]
            if type(value) is not kind or (kind is int and value not in INT32):
                return None
            values[slot] = pack(value)
        return values


class LaunchTable:
    """The launches of one bound kernel, by the signature of their arguments and by the identity of their arrays.

    Identities are recorded at the second launch on the same arrays, since many arrays are launched on once.
    """

    __slots__ = ("_array_positions", "_by_identity", "_by_signature")

    def __init__(self) -> None:
        self._by_signature: dict[Hashable, LaunchPlan] = {}
        self._by_identity: dict[Hashable, _BoundLaunch | None] = {}
        self._array_positions: tuple[int, ...] = ()

    def clear(self) -> None:
        """Forget all launches."""
        self._by_signature.clear()
        self._by_identity.clear()

    def may_relaunch(self, args: Sequence[Any]) -> bool:
        """Whether arguments have arrays at the recorded positions, so that :meth:`relaunch` may find them."""
        return bool(self._by_identity) and all(hasattr(args[position], "get_array")
                                               for position in self._array_positions)

    def relaunch(self, grid: Any, args: tuple[Any, ...], constants: Mapping[str, Any]) -> LaunchEvent | None:
        """Repeat a launch on the same arrays; None if there was none, or anything differs."""
        positions = self._array_positions
        try:
            arrays = [args[position].get_array() for position in positions]
            key = (grid, positions, constants_key(constants) if constants else (), *map(id, arrays))
            known = self._by_identity.get(key)
        except (AttributeError, IndexError, TypeError, ElementTypeError):
            return None  # arguments of other kinds, or none at all: the caller checks each
        if known is None:
            return None
        values = known.pack(grid, arrays, args)
        if values is None:
            self._by_identity.pop(key, None)
            return None
        plan = known.plan
        if plan.kernel is None:
            self._by_identity.pop(key, None)
            return None
        return launched(plan.queue, plan.kernel, values, plan.global_range, plan.local_range, args)

    def find(self, key: Hashable) -> LaunchPlan | None:
        """The plan of a signature, None if there is none."""
        plan = None if key is None else self._by_signature.get(key)
        return None if plan is None or plan.kernel is None else plan

    def add(self, key: Hashable, plan: LaunchPlan) -> None:
        """Store the plan of a signature."""
        if len(self._by_signature) >= CAPACITY:
            self._by_signature.clear()
        self._by_signature[key] = plan

    def add_arrays(self, grid: tuple[int, ...], args: tuple[Any, ...], constants: Mapping[str, Any],
                   plan: LaunchPlan) -> None:
        """Store a launch on dpnp arrays and 32-bit numbers by the identity of its arrays."""
        positions = tuple([position for position, value in enumerate(args) if hasattr(value, "get_array")])
        usm_arrays = [args[position].get_array() for position in positions]
        key = (grid, positions, constants_key(constants) if constants else (), *map(id, usm_arrays))
        if len(self._by_identity) >= CAPACITY:
            self._by_identity.clear()
        self._array_positions = positions
        if key not in self._by_identity:
            self._by_identity[key] = None
            return
        numbers = [(position, type(value), plan.packers[position], plan.slots[position])
                   for position, value in enumerate(args) if position not in positions]
        if any(kind not in (int, float) for _, kind, *_ in numbers):
            return
        arrays = [(ref(usm), usm.shape, usm.strides, position in plan.written, plan.slots[position])
                  for usm, position in zip(usm_arrays, positions, strict=True)]
        self._by_identity[key] = _BoundLaunch(plan, grid, build_settings(), len(args), arrays, numbers)


def constants_key(constants: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """The constants of a call as a part of a key."""
    return tuple([(name, hashable(value, name)) for name, value in constants.items()])


def signature_of(args: Sequence[Any]) -> tuple[Any, ...] | None:
    """The signature of a launch's arguments: all that code and checks depend on; None if each must be checked.

    It is None with arrays other than dpnp's, and with 64-bit integers.
    """
    parts: list[Any] = [build_settings()]
    for value in args:
        kind = type(value)
        one: Any
        if kind is int:
            one = kind if value in INT32 else None
        elif kind is float or kind is bool:
            one = kind
        elif kind is TypedView:
            one = _signature_of_view(value)
        else:
            one = signature(value)
        if one is None:
            return None
        parts.append(one)
    return tuple(parts)


def _signature_of_view(view: TypedView) -> tuple[DType, Any] | None:
    inner = signature(view.array)
    return None if inner is None else (view.dtype, inner)
