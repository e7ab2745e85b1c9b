"""Checks of what instances read and write: outside an array, without order, and before anything was written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from xdsl.ir import Operation

from codegen.interpreter import BATCH, Machine, Window
from xegpu import memory
from xegpu.errors import CheckError
from xegpu.memrefs import is_shared
from xegpu.origins import array_of
from xegpu.scattered_memory import Elements
from xegpu.scattered_reference import active_elements
from xetile.checking.findings import array_name, failed, instance, number
from xetile.checking.regions import Region, region_of
from xetile.checking.shadows import (
    MANY,
    MANY_GROUPS,
    OUTSIDE,
    Shadows,
    Span,
    code,
    conflicts,
    fields,
    meets,
    merged,
    seen,
)
from xetile.dialect.attributes import TileParameters
from xetile.dialect.ops import OOB, text, tile_of
from xetile.distribution import WgMap

Array = np.ndarray[Any, Any]


@dataclass
class Accesses:
    """What the checks of one launch remember.

    Attributes:
        names: the checks.
        dealt: whether a ``wg_map`` deals the kernel's tiles to subgroups.
        in_step: whether all subgroups pass each barrier together.
        grid: work-groups of the launch.
        epoch: barriers that were passed so far.
    """

    names: frozenset[str]
    dealt: bool
    in_step: bool
    grid: tuple[int, int, int]
    shadows: Shadows = field(default_factory=Shadows)
    epoch: int = 0

    def load(self, machine: Machine, operation: Any, operands: Sequence[Any]) -> None:
        """Before a tile is loaded."""
        self._window(machine, operation, operands[0], tile_of(operation.tile), writes=False)

    def store(self, machine: Machine, operation: Any, operands: Sequence[Any]) -> None:
        """Before a tile is stored."""
        self._window(machine, operation, operands[1], tile_of(operation.tile), writes=True)

    def gather(self, machine: Machine, operation: Any, operands: Sequence[Any]) -> None:
        """Before single elements are loaded."""
        self._elements(machine, operation, operands[0], operands[1], writes=False)

    def scatter(self, machine: Machine, operation: Any, operands: Sequence[Any]) -> None:
        """Before single elements are stored."""
        self._elements(machine, operation, operands[1], operands[2], writes=True)

    # --- tiles -------------------------------------------------------------------------------------------------------

    def _window(self, machine: Machine, operation: Any, window: Window, tile: TileParameters, *, writes: bool) -> None:
        asked = "bounds" in self.names or OOB in operation.attributes
        if asked:
            self._bounds(machine, operation, window, tile, writes=writes)
        span = self._tracked(operation, window.array, writes=writes)
        if span is None:
            return
        offsets = (*window.lead, window.row, window.column)
        codes = self._codes(machine, offsets, tile, writes=writes)
        where, shared = (window.row, window.column), is_shared(array_of(operation.tile).type)
        running = machine.active

        def look(numbers: Array) -> Array:
            return memory.read(seen(span, numbers, window.array), *where, tile.shape, BATCH, OUTSIDE, window.lead)

        def put(numbers: Array, value: Array, chosen: Array | None = None) -> None:
            active = running if chosen is None else chosen
            memory.write(seen(span, numbers, window.array), *where, value, active, window.lead)

        def record() -> None:
            numbers = span.writer if writes else span.reader
            assert numbers is not None
            put(numbers, codes if writes else merged(look(numbers), codes))

        region = self._region(machine, window, tile, writes=writes, record=record)
        if span.takes(region, needs_writer=shared and not writes):
            return
        self._judge(machine, operation, span, codes, look, put, writes=writes,
                    name=lambda at: f"{array_name(operation.tile)}{_element(machine, window, at, shared=shared)}")

    def _region(self, machine: Machine, window: Window, tile: TileParameters, *, writes: bool,
                record: Callable[[], None]) -> Region | None:
        """What an operation reaches, if each instance, and each subgroup, surely has elements of its own."""
        map_ = tile.encoding.wg_map
        if self.dealt and (_owners(map_, tile.shape) == MANY - 1).any():
            return None
        return region_of(window.array, (*window.lead, window.row, window.column), tile.shape, machine.instances,
                         ran=(machine.groups, machine.origin), map=map_, writes=writes, whole=machine.active is None,
                         record=record)

    def _bounds(self, machine: Machine, operation: Any, window: Window, tile: TileParameters, *, writes: bool) -> None:
        array = window.array
        if _surely_inside(array, (*window.lead, window.row, window.column), tile.shape):
            return
        inside = memory.is_inside(array, window.row, window.column, tile.shape, BATCH, window.lead)
        bad = ~inside if machine.active is None else ~inside & machine.active[..., None, None]
        if bad.any():
            at, shared = _first(bad), is_shared(array_of(operation.tile).type)
            shape = array.shape[3:] if shared else array.shape
            element = f"{array_name(operation.tile)}{_element(machine, window, at, shared=shared)}"
            raise failed(machine, operation, "XT0000",
                         f"{instance(machine, at)} {'writes' if writes else 'reads'} {element}, "
                         f"outside its {text(shape)} elements", "mend the offsets; or drop oob=\"error\" and the "
                         "check \"bounds\": reads outside give the padding, and writes there are dropped", at)

    # --- single elements ---------------------------------------------------------------------------------------------

    def _elements(self, machine: Machine, operation: Any, elements: Elements, mask: Any, *, writes: bool) -> None:
        span = self._tracked(operation, elements.array, writes=writes) if elements.bounded else None
        if span is None:
            return
        span.takes(None, needs_writer=False)  # single elements are looked at one by one
        tile = tile_of(operation.tile)
        rank = len(tile.blocked_shape())
        mask = active_elements(machine, np.asarray(mask, bool), rank)
        codes = self._codes(machine, None, tile, writes=writes)
        if rank == 4:
            codes = codes.max(axis=(-1, -2), keepdims=True)[..., None, None]
        size = elements.array.itemsize // span.unit
        first = (elements.array.__array_interface__["data"][0] - span.low) // span.unit
        shape = np.broadcast_shapes(mask.shape, np.shape(elements.offsets), codes.shape)
        mask = np.broadcast_to(mask, shape)
        places = np.broadcast_to(np.asarray(elements.offsets, np.int64) * size + first, shape)
        safe = np.where(mask & (places >= 0) & (places < len(span.writer)), places, 0)
        codes = np.broadcast_to(codes, shape)

        def look(numbers: Array) -> Array:
            return np.where(mask, numbers[safe], OUTSIDE)

        def put(numbers: Array, value: Array, chosen: Array | None = None) -> None:
            some = mask if chosen is None else mask & chosen
            numbers[safe[some]] = np.broadcast_to(value, shape)[some]

        self._judge(machine, operation, span, codes, look, put, writes=writes,
                    name=lambda at: f"element {int((places[at] - first) // size)} of {array_name(operation.tile)}")

    # --- both --------------------------------------------------------------------------------------------------------

    def _tracked(self, operation: Any, array: Array, *, writes: bool) -> Span | None:
        """The memory that an operation reaches, if it is looked after."""
        if ("shared" if is_shared(array_of(operation.tile).type) else "races") not in self.names:
            return None
        span = self.shadows.find(array)
        return None if span is None or (span.reader is None and not writes) else span

    def _codes(self, machine: Machine, offsets: Sequence[Any] | None, tile: TileParameters, *, writes: bool) -> Array:
        """The number of each instance, ``[batch axes, rows, columns]``.

        Along axes on which nothing moves, all instances reach the same elements, and have one number together.
        """
        still = [] if machine.active is not None or offsets is None or writes else \
            [axis for axis, count in enumerate(machine.instances) if count > 1 and not _varies(offsets, axis)]
        x, y, z = (np.asarray(machine.along(axis, *machine.groups[axis])) for axis in range(3))
        group = x + self.grid[0] * (y + self.grid[1] * z)
        if any(axis < 3 for axis in still):
            group = np.asarray(MANY_GROUPS - 1)
        subgroup = np.asarray(MANY - 1) if any(axis > 2 for axis in still) else np.asarray(machine.subgroup)
        if self.dealt:
            subgroup = _owners(tile.encoding.wg_map, tile.shape)
        else:
            subgroup = subgroup.reshape(*(subgroup.shape or (1,) * BATCH), 1, 1)
        group = group.reshape(*(group.shape or (1,) * BATCH), 1, 1)
        codes = np.asarray(code(group, self.epoch, subgroup))
        sizes = [1 if axis in still else count for axis, count in enumerate(machine.instances)]
        return np.broadcast_to(codes, (*sizes, *tile.shape))

    def _judge(self, machine: Machine, operation: Any, span: Span, codes: Array, look: Any, put: Any, *, writes: bool,
               name: Any) -> None:
        shared = is_shared(array_of(operation.tile).type)
        active = True if machine.active is None else machine.active.reshape(*machine.active.shape,
                                                                            *[1] * (codes.ndim - BATCH))

        def check(before: Array, past: str) -> None:
            bad = conflicts(before, codes, within=self.in_step, one_group=shared) & active
            if bad.any():
                at = _first(bad)
                raise self._race(machine, operation, at, int(np.broadcast_to(before, bad.shape)[at]), name(at), past,
                                 writes=writes, shared=shared)

        written = look(span.writer)
        if shared and not writes and (missing := (written == 0) & active).any():
            at = _first(np.broadcast_to(missing, np.broadcast_shapes(missing.shape, codes.shape)))
            raise failed(machine, operation, "XT0000",
                         f"{instance(machine, at)} reads {name(at)}, which nothing has written yet",
                         "write it before, and wait at an xt.barrier where another subgroup does", at)
        check(written, "wrote")
        if writes:
            if span.reader is not None:
                check(look(span.reader), "read")
            put(span.writer, codes)
            last = look(span.writer)
            check(np.where(last == codes, 0, last), "wrote")  # by this very operation
            return
        assert span.reader is not None
        before = look(span.reader)
        readers = merged(before, codes) if not shared or meets(before, codes) else codes
        put(span.reader, readers)
        last = look(span.reader)
        others = (last != readers) & (last > 0) & active  # instances that read it by this very operation
        if others.any():
            put(span.reader, merged(last, readers), others)

    def _race(self, machine: Machine, operation: Operation, at: tuple[int, ...], other: int, name: str, past: str, *,
              writes: bool, shared: bool) -> CheckError:
        group, subgroup = fields(other)
        x, y, z = group % self.grid[0], group // self.grid[0] % self.grid[1], group // (self.grid[0] * self.grid[1])
        mine = instance(machine, at)
        group_of_mine = tuple(number(machine.along(axis, *machine.groups[axis]), at) for axis in range(3))
        if group + 1 == MANY_GROUPS:
            who = "other work-groups have"
        elif (x, y, z) != group_of_mine:
            who = f"work-group ({x}, {y}, {z}) has"
        else:
            who = "another subgroup has" if subgroup < 0 or self.dealt else f"subgroup {subgroup} has"
        same_group = (x, y, z) == group_of_mine
        participle = {"wrote": "written", "read": "read"}[past]
        order = "since the last barrier" if same_group else "in the same launch"
        hint = "put xt.barrier() between what one subgroup writes and another reads, and before it is written anew" \
            if same_group else ("let each work-group write elements of its own, or update them with "
                                "xt.atomic_rmw_tile; nothing orders the work-groups of a launch")
        return failed(machine, operation, "XT0000",
                      f"{mine} {'writes' if writes else 'reads'} {name}, which {who} {participle} "
                      f"{order}", hint, at)


@lru_cache(maxsize=256)
def _owners(map_: WgMap | None, shape: tuple[int, int]) -> Array:
    """The subgroup of each element of a tile; ``MANY - 1`` where several hold it."""
    owners = np.full(shape, MANY - 1, np.int64)
    if map_ is not None:
        for (row, column), held in map_.owners(shape).items():
            block = owners[row:row + map_.sg_data[0], column:column + map_.sg_data[1]]
            block[...] = held[0] if len(held) == 1 else MANY - 1
    return owners


def _varies(offsets: Sequence[Any], axis: int) -> bool:
    return any(isinstance(offset, np.ndarray) and offset.ndim and offset.shape[axis] > 1 for offset in offsets)


def _surely_inside(array: Array, offsets: Sequence[Any], shape: tuple[int, int]) -> bool:
    sizes = (*[1] * (len(offsets) - 2), *shape)
    return all(np.min(offset) >= 0 and np.max(offset) + size <= limit
               for offset, size, limit in zip(offsets, sizes, array.shape, strict=True))


def _first(bad: Array) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape))


def _element(machine: Machine, window: Window, at: tuple[int, ...], *, shared: bool) -> str:
    """The indices of an element in its array."""
    lead = [number(index, at) for index in (window.lead[3:] if shared else window.lead)]  # without the work-group
    row, column = number(window.row, at) + at[-2], number(window.column, at) + at[-1]
    return f"[{', '.join(map(str, (*lead, row, column)))}]"
