"""Lanes of a message's payload: words of each lane in consecutive registers.

Component v of a lane stands behind those of component v - 1 of all lanes, and starts on a register of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codegen.simulator.threads import Threads

Integers = NDArray[np.int64]


def _register_views(threads: Threads, first: int, components: int, lanes: int, dtype: Any) -> Iterator[tuple[int, Any]]:
    """Views of registers, each with the first lane in it: (components, T, lanes in a register)."""
    wide = threads.register_bytes // np.dtype(dtype).itemsize
    count = -(-lanes // wide)
    for part in range(count):
        registers = threads.grf[first + part:first + components * count:count]
        yield part * wide, registers.view(dtype)[..., :min(wide, lanes - part * wide)]


def read_lanes(threads: Threads, first: int, components: int, active: NDArray[np.bool_], dtype: Any) -> NDArray[Any]:
    """Words of the active lanes: (components, active lanes), threads one behind the other.

    Args:
        threads: the register files.
        first: first register.
        components: words of each lane.
        active: (T, lanes).
        dtype: of the words.
    """
    parts = [view for _, view in _register_views(threads, first, components, active.shape[1], dtype)]
    whole = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=2)
    return np.ascontiguousarray(whole).reshape(components, -1) if active.all() else whole[:, active]


def write_lanes(threads: Threads, first: int, words: NDArray[Any], active: NDArray[np.bool_]) -> None:
    """Write words of the active lanes, in the shape and order of :func:`read_lanes`."""
    components, (count, lanes) = len(words), active.shape
    whole = active.all()
    spread = words.reshape(components, count, lanes) if whole else np.empty((components, count, lanes), words.dtype)
    if not whole:
        spread[:, active] = words
    for start, view in _register_views(threads, first, components, lanes, words.dtype):
        part = slice(start, start + view.shape[2])
        np.copyto(view, spread[:, :, part], where=active[:, part])


def read_block(threads: Threads, first: int, size: int, rows: Integers) -> NDArray[np.uint8]:
    """Consecutive bytes of registers: (len(rows), size)."""
    count = -(-size // threads.register_bytes)
    return np.ascontiguousarray(threads.payload(first, count)[rows]).reshape(len(rows), -1)[:, :size]


def write_block(threads: Threads, first: int, data: NDArray[np.uint8], rows: Integers) -> None:
    """Write consecutive bytes of registers, (len(rows), size); the rest of the last register stays as it is."""
    register_bytes = threads.register_bytes
    full, rest = divmod(data.shape[1], register_bytes)
    if full:
        threads.payload(first, full)[rows] = data[:, :full * register_bytes].reshape(len(rows), full, register_bytes)
    if rest:
        threads.grf[first + full][rows, :rest] = data[:, full * register_bytes:]
