"""Atomic operations: read-modify-write by lanes and threads one after the other, in global and shared local memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codegen.simulator.memory import Memory
from codegen.simulator.messages.descriptor import Message
from codegen.simulator.messages.lanes import read_lanes, write_lanes
from codegen.simulator.messages.lsc import note_shared, resolve
from codegen.simulator.threads import Threads

Words = NDArray[Any]
_FLOATS = {2: np.float16, 4: np.float32, 8: np.float64}


def _signed(function: Callable[[Words, Words], Words]) -> Callable[..., Words]:
    """An operation on the words as signed integers."""
    return lambda old, new, _: function(old.view(f"i{old.itemsize}"), new.view(f"i{old.itemsize}")).view(old.dtype)


def _float(function: Callable[[Words, Words], Words]) -> Callable[..., Words]:
    """An operation on the words as floats."""
    def apply(old: Words, new: Words, _: Words) -> Words:
        kind = _FLOATS[old.itemsize]
        with np.errstate(all="ignore"):
            return function(old.view(kind), new.view(kind)).view(old.dtype)
    return apply


def _compare_floats(old: Words, expected: Words, new: Words) -> Words:
    kind = _FLOATS[old.itemsize]
    return np.where(old.view(kind) == expected.view(kind), new, old)


OPERATIONS: Mapping[str, tuple[int, Callable[[Words, Words, Words], Words]]] = {
    "iinc": (0, lambda old, a, b: old + old.dtype.type(1)),
    "idec": (0, lambda old, a, b: old - old.dtype.type(1)),
    "atomic_load": (0, lambda old, a, b: old),
    "atomic_store": (1, lambda old, a, b: a),
    "iadd": (1, lambda old, a, b: old + a),
    "isub": (1, lambda old, a, b: old - a),
    "smin": (1, _signed(np.minimum)),
    "smax": (1, _signed(np.maximum)),
    "umin": (1, lambda old, a, b: np.minimum(old, a)),
    "umax": (1, lambda old, a, b: np.maximum(old, a)),
    "icas": (2, lambda old, a, b: np.where(old == a, b, old)),
    "fadd": (1, _float(np.add)),
    "fsub": (1, _float(np.subtract)),
    "fmin": (1, _float(np.fmin)),
    "fmax": (1, _float(np.fmax)),
    "fcas": (2, _compare_floats),
    "and": (1, lambda old, a, b: old & a),
    "or": (1, lambda old, a, b: old | a),
    "xor": (1, lambda old, a, b: old ^ a),
}
"""Operands behind the old value, and the new value, of each operation on unsigned words."""


def atomic(message: Message, threads: Threads, active: NDArray[np.bool_], memory: Memory) -> None:
    """Read, modify and write; lanes at one address take turns in the order of threads and lanes."""
    count, function = OPERATIONS[message.operation]
    size, word = message.data_bytes, f"u{message.data_bytes}"
    access = resolve(message, threads, active, memory, size, "updates")
    memory.traffic[message.kind] += size * len(access.rows)
    operands = np.zeros((2, len(access.rows)), word)
    if count:
        assert message.data is not None
        operands[:count] = read_lanes(threads, message.data, count, active, f"u{message.slot_bytes}").astype(word)
    old = np.empty(len(access.rows), word)
    changed = False
    for chosen in _turns(access.at):
        at = access.at[chosen]
        before = access.store.gather(at, size)
        with np.errstate(over="ignore"):
            after = function(before, operands[0, chosen], operands[1, chosen])
        old[chosen] = before
        changed |= bool((before != after).any())
        access.store.scatter(at, after)
    if message.unit == "slm" and memory.shadow is not None:
        note_shared(memory, threads, access, size, "read", atomic=True)
        if changed:
            note_shared(memory, threads, access, size, "write", atomic=True)
    if message.result is not None:
        write_lanes(threads, message.result, old.astype(f"u{message.slot_bytes}")[None], active)


def _turns(at: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Positions in groups without two of one address, each address's positions in order."""
    order = np.argsort(at, kind="stable")
    ordered = at[order]
    rank = np.arange(len(at)) - np.searchsorted(ordered, ordered)
    if not rank.any():
        return [order]
    by_rank = np.argsort(rank, kind="stable")
    return np.split(order[by_rank], np.flatnonzero(np.diff(rank[by_rank])) + 1)
