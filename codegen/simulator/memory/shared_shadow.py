"""Shadow of shared local memory: last accesses of each byte, to find uninitialized reads and races.

Accesses are ordered by vector clocks, which threads exchange at barriers. Subgroups that write equal bytes do not race,
such as owners of the same block when they exchange it: the result does not depend on their order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from codegen.simulator.findings import Finding

Integers = NDArray[np.int64]
_NOBODY = -1


class SharedShadow:
    """Last write and last reads of each byte of shared local memory.

    Of several readers two are kept, so that a writer that is one of them is still told from the other.

    Args:
        size: bytes of all work-groups together.
    """

    def __init__(self, size: int) -> None:
        self._writer = np.full(size, _NOBODY, np.int16)
        self._write_clock = np.zeros(size, np.int64)
        self._atomic = np.zeros(size, np.bool_)
        self._reader = np.full((2, size), _NOBODY, np.int16)
        self._read_clock = np.zeros((2, size), np.int64)

    def read(self, at: Integers, rows: Integers, subgroup: Integers, clocks: Integers, atomic: bool) -> None:
        """Note reads.

        Args:
            at: bytes that are read.
            rows: the thread that reads each.
            subgroup: of each thread, its number in the work-group.
            clocks: vector clocks of the threads.
            atomic: whether the reads are atomic operations.

        Raises:
            Finding: a byte was never written, or is written by another subgroup with no barrier between.
        """
        own = subgroup[rows]
        unwritten = self._writer[at] == _NOBODY
        if unwritten.any():
            first = int(np.flatnonzero(unwritten)[0])
            raise Finding("XT6104", "reads shared local memory that nothing has written",
                          "write the whole of what is read before the barrier", int(rows[first]))
        self._check_writes(at, rows, own, clocks, atomic, "reads")
        old = self._reader[0, at]
        behind = (old == _NOBODY) | (old == own) | (self._read_clock[0, at] <= clocks[rows, old])
        for slot, chosen in ((0, behind), (1, ~behind)):
            self._reader[slot, at[chosen]] = own[chosen]
            self._read_clock[slot, at[chosen]] = clocks[rows[chosen], own[chosen]]

    def write(self, at: Integers, rows: Integers, subgroup: Integers, clocks: Integers, atomic: bool,
              same: tuple[NDArray[np.bool_], NDArray[np.bool_]] | None = None) -> None:
        """Note writes; other arguments as of :meth:`read`.

        Args:
            same: for each byte, whether it is what was there before, and what is there behind the message.

        Raises:
            Finding: another subgroup reads a byte, or writes another value, with no barrier between.
        """
        own = subgroup[rows]
        differs, overwritten = (~each for each in same) if same is not None else (np.True_, np.True_)
        self._check_writes(at, rows, own, clocks, atomic, "writes", differs)
        for slot in range(2):
            reader = self._reader[slot, at]
            bad = (reader != _NOBODY) & (reader != own) & (self._read_clock[slot, at] > clocks[rows, reader])
            _raise_race(bad, rows, reader, "writes", "reads")
            self._reader[slot, at] = _NOBODY
        self._writer[at] = own
        if not atomic:  # of several in one message the last one is noted
            _raise_race((self._writer[at] != own) & overwritten, rows, self._writer[at], "writes", "writes")
        self._write_clock[at] = clocks[rows, own]
        self._atomic[at] = atomic

    def _check_writes(self, at: Integers, rows: Integers, own: Integers, clocks: Integers, atomic: bool,
                      verb: str, differs: NDArray[np.bool_] | np.bool_ = np.True_) -> None:
        writer = self._writer[at]
        bad = (writer != _NOBODY) & (writer != own) & (self._write_clock[at] > clocks[rows, writer]) & differs
        if atomic:
            bad &= ~self._atomic[at]
        _raise_race(bad, rows, writer, verb, "writes")


def _raise_race(bad: NDArray[np.bool_], rows: Integers, other: NDArray[np.int16], verb: str, others: str) -> None:
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise Finding("XT6105", f"{verb} shared local memory that subgroup {other[first]} {others} with no barrier "
                      "between", "put a barrier between the two", int(rows[first]))
