"""Cache policies of memory messages (XeGPU.md, ``L1_hint``, ``L2_hint``, ``L3_hint``), as tables.

A GPU has few combinations of L1 and L3 policy. Each has a number, the same in all of Intel's builtins that take one.
Checked in the machine code of each target: ``load.ugm.d32.a64.st.ca``.
"""

from __future__ import annotations

from dataclasses import dataclass

READS = ("cached", "uncached", "streaming", "read_invalidate")
"""Policies of a cache level in a load or a prefetch."""
WRITES = ("uncached", "write_through", "write_back", "streaming")
"""Policies of a cache level in a store."""
POLICIES = tuple(dict.fromkeys((*READS, *WRITES)))
"""All cache policies."""
BY_KIND = {"load": READS, "prefetch": READS[:3], "store": WRITES}
"""Policies by kind of message; a prefetch that invalidates the line would have no effect."""

Pair = tuple[str, str]
"""Policies of L1 and L3."""


@dataclass(frozen=True)
class Caches:
    """Cache policy combinations of a target with their numbers; a level without a hint is chosen in this order.

    Attributes:
        reads: those of loads and, without ``read_invalidate``, of prefetches.
        writes: those of stores.
    """

    reads: tuple[tuple[Pair, int], ...]
    writes: tuple[tuple[Pair, int], ...]

    def combinations(self, kind: str) -> dict[Pair, int]:
        """Combinations of a ``"load"``, ``"store"`` or ``"prefetch"``, with their numbers."""
        rows = self.writes if kind == "store" else self.reads
        return {pair: code for pair, code in rows if pair[0] in BY_KIND[kind]}

    def code(self, kind: str, l1: str | None, l3: str | None) -> int | None:
        """Number of a combination (None: any policy of that level); None if there is no such combination."""
        return next((code for pair, code in self.combinations(kind).items()
                     if l1 in (None, pair[0]) and l3 in (None, pair[1])), None)

    def nearest(self, kind: str, l1: str | None, l3: str | None) -> list[Pair]:
        """Combinations that agree in one of the two levels; all if there is none."""
        every = list(self.combinations(kind))
        return [pair for pair in every if pair[0] == l1 or pair[1] == l3] or every


_READS = ((("cached", "cached"), 4), (("cached", "uncached"), 3), (("uncached", "cached"), 2),
          (("uncached", "uncached"), 1), (("streaming", "cached"), 6), (("streaming", "uncached"), 5))
_WRITES = ((("write_back", "write_back"), 7), (("write_through", "write_back"), 4), (("uncached", "write_back"), 2),
           (("streaming", "write_back"), 6), (("write_through", "uncached"), 3), (("uncached", "uncached"), 1),
           (("streaming", "uncached"), 5))
XE = Caches((*_READS, (("read_invalidate", "cached"), 7)), _WRITES)
"""Xe-HPG and Xe-HPC."""
XE2 = Caches((*_READS, (("read_invalidate", "read_invalidate"), 7)), _WRITES)
"""Xe2 and Xe3 invalidate the line in both caches."""
XE3P = Caches(_READS, _WRITES)
"""Xe3P; Intel's compiler breaks down on read_invalidate."""
