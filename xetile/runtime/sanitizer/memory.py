"""Memory checks: out-of-bounds accesses, races, and reads of uninitialized memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from xegpu.interpreter import memory
from xegpu.interpreter.gather_scatter import active_elements
from xegpu.interpreter.interpreter import BATCH, Interpreter, TileView
from xegpu.interpreter.memory.elements import Elements
from xegpu.ir.dtypes import NDArray
from xegpu.ir.memref import is_shared
from xegpu.ir.use_def import array_of, arrays_of
from xegpu.support.errors import CheckError
from xegpu.support.location import Location
from xegpu.support.notes import defined_at
from xetile.dialect.tile_ops import OOB, text, tile_of
from xetile.dialect.types import TileParameters
from xetile.dialect.wg_map import WgMap
from xetile.interpreter.gather_scatter import updated_elements
from xetile.runtime.sanitizer.findings import array_name, element_of, failed, instance
from xetile.runtime.sanitizer.races import Access, Epoch, RaceDetector, first
from xetile.runtime.sanitizer.regions import region_of
from xetile.runtime.sanitizer.shadow_memory import OUTSIDE, READ, UPDATE, WRITE, Span, seen


@dataclass
class Accesses(RaceDetector):
    """Memory accesses of one launch, each checked before it executes."""

    def load(self, machine: Interpreter, operation: Any, operands: Sequence[Any]) -> None:
        """Check a tile load."""
        self._window(machine, operation, operands[0], READ)

    def store(self, machine: Interpreter, operation: Any, operands: Sequence[Any]) -> None:
        """Check a tile store."""
        if operation in self.replicated_stores:
            self.barrier(machine)
        self._window(machine, operation, operands[1], WRITE)

    def gather(self, machine: Interpreter, operation: Any, operands: Sequence[Any]) -> None:
        """Check a gather."""
        elements, mask = operands
        self._elements(machine, operation, elements, mask, READ)

    def scatter(self, machine: Interpreter, operation: Any, operands: Sequence[Any]) -> None:
        """Check a scatter."""
        _, elements, mask = operands
        if operation in self.replicated_stores:
            self.barrier(machine)
        self._elements(machine, operation, elements, mask, WRITE)

    def update(self, machine: Interpreter, operation: Any, operands: Sequence[Any]) -> None:
        """Check an atomic update."""
        window = operands[1] if isinstance(operands[1], TileView) else None
        elements, mask = updated_elements(machine, operation, operands)
        self._elements(machine, operation, elements, mask, UPDATE, window)

    # --- tiles -------------------------------------------------------------------------------------------------------

    def _window(self, machine: Interpreter, operation: Any, window: TileView, kind: str) -> None:
        if isinstance(window.array, memory.Surfaces):
            return  # raw addresses, whose extent is unknown
        tile, shared = tile_of(operation.tile), is_shared(array_of(operation.tile).type)
        if "bounds" in self.names or OOB in operation.attributes:
            self._bounds(machine, operation, window, tile, kind)
        span = self._tracked(window.array, kind, shared=shared)
        if span is None:
            return
        if shared and span.written is not None:
            self._check_initialized(machine, operation, window, span, kind)
        if shared and not self.in_step:
            return  # named barriers between subsets of subgroups are not modelled

        bare = replace(machine, values={})  # a region outlives its machine; its vectors must not

        def access(epoch: Epoch) -> Access:
            return self._tile_access(bare, operation, window, span, kind, epoch, shared=shared)

        epoch = self.epoch(machine)
        owner = None if self.distributed and _is_replicated(tile) else \
            (machine.groups, machine.origin, tile.encoding.wg_map if self.distributed else None)
        region = region_of(window.array, (*window.lead, window.row, window.column), tile.shape, machine.instances,
                           owner, writes=kind == WRITE, all_active=machine.active is None,
                           record=lambda: access(epoch).note())
        if not span.takes(region):
            self.check(machine, operation, access(epoch))

        def replay() -> None:
            after = self.epoch(bare)
            span.enters(region, lambda: access(after).note())

        self.between(replay)

    def _tile_access(self, machine: Interpreter, operation: Any, window: TileView, span: Span, kind: str,
                     epoch: Epoch, *, shared: bool) -> Access:
        tile, running = tile_of(operation.tile), machine.active
        where, offsets = (window.row, window.column), (*window.lead, window.row, window.column)

        def look(numbers: NDArray) -> NDArray:
            return memory.read(seen(span, numbers, window.array), *where, tile.shape, BATCH, OUTSIDE, window.lead)

        def write(numbers: NDArray, value: NDArray, chosen: NDArray | None = None) -> None:
            active = running if chosen is None else chosen
            memory.write(seen(span, numbers, window.array), *where, value, active, window.lead)

        constant = _constant_axes(machine, offsets) if kind == READ and isinstance(epoch, int) else []
        codes = self._codes(machine, constant, tile, epoch)
        several = bool(constant) or (self.distributed and _is_replicated(tile))
        active = True if running is None else running[..., None, None]
        return Access(kind, span, shared, codes, several, self.form, look, write, active, lambda at: at,
                      lambda at: f"{array_name(operation.tile)}{element_of(window, at, shared=shared)}",
                      lambda at: [_tile(operation, window, at, shared=shared)])

    def _bounds(self, machine: Interpreter, operation: Any, window: TileView, tile: TileParameters, kind: str) -> None:
        array = window.array
        if _provably_in_bounds(array, (*window.lead, window.row, window.column), tile.shape):
            return
        in_bounds = memory.in_bounds(array, window.row, window.column, tile.shape, BATCH, window.lead)
        bad = ~in_bounds if machine.active is None else ~in_bounds & machine.active[..., None, None]
        if bad.any():
            at, shared = first(bad), is_shared(array_of(operation.tile).type)
            shape = array.shape[3:] if shared else array.shape
            element = f"{array_name(operation.tile)}{element_of(window, at, shared=shared)}"
            raise failed(machine, operation, "XT6001", f"{instance(machine, at)} {kind}s {element}, "
                         f"outside its {text(shape)} elements", "correct the offsets; or drop oob=\"error\" and the "
                         "check \"bounds\": out-of-bounds reads give the padding, and writes are dropped", at,
                         others=[_tile(operation, window, at, shared=shared)])

    def _check_initialized(self, machine: Interpreter, operation: Any, window: TileView, span: Span, kind: str) -> None:
        """Check that shared local memory is initialized where it is read, and record writes."""
        assert span.written is not None
        written, where = seen(span, span.written, window.array), (window.row, window.column)
        shape, offsets = tile_of(operation.tile).shape, (*window.lead, window.row, window.column)
        if kind == WRITE:
            constant = _constant_axes(machine, offsets)
            everywhere = np.broadcast_to(np.True_, (*_without(machine.instances, constant), *shape))
            memory.write(written, *where, everywhere, machine.active, window.lead)
            span.written = None if span.written.all() else span.written
            return
        missing = ~memory.read(written, *where, shape, BATCH, True, window.lead)
        if missing.any() and (missing := missing if machine.active is None else
                              missing & machine.active[..., None, None]).any():
            at = first(missing)
            raise _unwritten(machine, operation,
                             f"reads {array_name(operation.tile)}{element_of(window, at, shared=True)}", at,
                             [("the array is allocated here", defined_at(array_of(operation.tile))),
                              _tile(operation, window, at, shared=True)])

    # --- single elements ---------------------------------------------------------------------------------------------

    def _elements(self, machine: Interpreter, operation: Any, elements: Elements, mask: Any, kind: str,
                  window: TileView | None = None) -> None:
        shared = any(is_shared(array.type) for array in arrays_of(operation.tile))
        span = self._tracked(elements.array, kind, shared=shared) if elements.bounded else None
        if span is None:
            return
        span.takes(None)  # single elements are looked at one by one
        tile = tile_of(operation.tile)
        rank = len(tile.blocked_shape())
        mask = active_elements(machine, np.asarray(mask, bool), rank)
        codes = self._codes(machine, [], tile, self.epoch(machine))
        if rank == 4:
            codes = codes.max(axis=(-1, -2), keepdims=True)[..., None, None]
        own, offsets = np.asarray(elements.offsets, np.int64), np.asarray(elements.positions, np.int64)
        shape = np.broadcast_shapes(mask.shape, offsets.shape, codes.shape)
        chosen = None if mask.all() else np.flatnonzero(np.broadcast_to(mask, shape))
        size = elements.array.itemsize // span.unit
        start = (elements.array.__array_interface__["data"][0] - span.low) // span.unit
        at, codes = (_flat(values, shape, chosen) for values in (offsets * size + start, codes))
        if not len(at) or at.min() < 0 or at.max() >= -(-(span.high - span.low) // span.unit):
            return  # outside the array's memory, which is an error anyway
        if elements.own is not None and (((own < 0) | (own >= elements.own.size)) & mask).any():
            return  # outside the work-group's own part, which is one too

        def write(numbers: NDArray, value: NDArray, some: NDArray | None = None) -> None:
            numbers[at if some is None else at[some]] = value if some is None else value[some]

        def instance_of(index: tuple[int, ...]) -> tuple[int, ...]:
            flat = index[0] if chosen is None else chosen[index[0]]
            return tuple(int(i) for i in np.unravel_index(int(flat), shape))

        def name(index: tuple[int, ...]) -> str:
            array, where = array_name(operation.tile), instance_of(index)
            return f"element {np.broadcast_to(own, shape)[where]} of {array}" if window is None or rank == 4 else \
                f"{array}{element_of(window, where, shared=shared)}"

        notes = [("the tile gets its offsets here", defined_at(operation.tile))]
        if shared and span.written is not None:
            if kind != WRITE and not (written := span.written[at]).all():
                index = first(~written)
                raise _unwritten(machine, operation, f"{kind}s {name(index)}", instance_of(index), notes)
            span.written[at] = True
        if shared and not self.in_step:
            return  # named barriers between subsets of subgroups are not modelled

        several = self.distributed and _is_replicated(tile)
        self.check(machine, operation, Access(
            kind, span, shared, codes, several, self.form,
            lambda numbers: numbers.take(at, mode="clip"),  # faster than checking: all are in bounds
            write, True, instance_of, name, lambda index: notes))

    # --- tiles and elements ------------------------------------------------------------------------------------

    def _tracked(self, array: NDArray, kind: str, *, shared: bool) -> Span | None:
        """Span of the memory of an access, if it is tracked."""
        if ("shared" if shared else "races") not in self.names:
            return None
        span = self.shadows.find(array, shared=shared)
        return None if span is None or kind not in span.numbers else span

    def _codes(self, machine: Interpreter, constant: Sequence[int], tile: TileParameters, epoch: Epoch) -> NDArray:
        """Code of each instance, ``[batch axes, rows, columns]``.

        Along ``constant`` axes all instances access the same elements, and share one code.
        """
        x, y, z = (np.asarray(machine.along(axis, *machine.groups[axis])) for axis in range(3))
        group = None if any(axis < 3 for axis in constant) else _expand(x + self.grid[0] * (y + self.grid[1] * z))
        if self.distributed:
            owners = _owners(tile.encoding.wg_map, tile.shape)
            subgroup: NDArray | None = np.where(owners < 0, self.form.many - 1, owners)
        else:
            subgroup = None if any(axis > 2 for axis in constant) else _expand(np.asarray(machine.subgroup))
        codes = self.form.of(group, epoch if isinstance(epoch, int) else _expand(epoch), subgroup)
        return np.broadcast_to(codes, (*_without(machine.instances, constant), *tile.shape))


def _unwritten(machine: Interpreter, operation: Any, access: str, at: tuple[int, ...],
               notes: list[tuple[str, Location | None]]) -> CheckError:
    """Error for shared local memory that is read before it is written."""
    return failed(machine, operation, "XT6004", f"{instance(machine, at)} {access}, which nothing has written yet",
                  "write it before, and wait at an xt.barrier where another subgroup does", at, others=notes)


def _expand(number: NDArray) -> NDArray:
    """Number with axes for rows and columns after its batch axes."""
    return number.reshape(*(number.shape or (1,) * BATCH), 1, 1)


@lru_cache(maxsize=256)
def _owners(map_: WgMap | None, shape: tuple[int, int]) -> NDArray:
    """Subgroup of each element of a tile; -1 for replicated elements."""
    owners = np.full(shape, -1, np.int64)
    if map_ is not None:
        for (row, column), subgroups in map_.owners(shape).items():
            block = owners[row:row + map_.sg_data[0], column:column + map_.sg_data[1]]
            block[...] = subgroups[0] if len(subgroups) == 1 else -1
    return owners


def _is_replicated(tile: TileParameters) -> bool:
    return _several(tile.encoding.wg_map, tile.shape)


@lru_cache(maxsize=256)
def _several(map_: WgMap | None, shape: tuple[int, int]) -> bool:
    return map_ is None or map_.replicates(shape)


def _constant_axes(machine: Interpreter, offsets: Sequence[Any]) -> list[int]:
    """Batch axes along which offsets are constant."""
    if machine.active is not None:
        return []
    return [axis for axis, count in enumerate(machine.instances) if count > 1 and not _varies(offsets, axis)]


def _without(instances: Sequence[int], constant: Sequence[int]) -> list[int]:
    return [1 if axis in constant else count for axis, count in enumerate(instances)]


def _varies(offsets: Sequence[Any], axis: int) -> bool:
    return any(isinstance(offset, np.ndarray) and offset.ndim and offset.shape[axis] > 1 for offset in offsets)


def _flat(values: NDArray, shape: tuple[int, ...], chosen: NDArray | None) -> NDArray:
    flat = np.broadcast_to(values, shape).reshape(-1)
    return flat if chosen is None else flat[chosen]


def _provably_in_bounds(array: NDArray, offsets: Sequence[Any], shape: tuple[int, int]) -> bool:
    """Whether a tile is in bounds for every instance."""
    sizes = (*[1] * (len(offsets) - 2), *shape)
    return all(np.min(offset) >= 0 and np.max(offset) + size <= limit
               for offset, size, limit in zip(offsets, sizes, array.shape, strict=True))


def _tile(operation: Any, window: TileView, at: tuple[int, ...], *, shared: bool) -> tuple[str, Location | None]:
    """Tile of an operation as a note of a finding, with its definition."""
    origin = element_of(window, (*at[:BATCH], 0, 0), shared=shared)
    return f"the tile, which is at {origin} now, is initialized here", defined_at(operation.tile)
