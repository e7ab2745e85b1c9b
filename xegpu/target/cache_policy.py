"""What a message may say of the caches (XeGPU.md, ``L1_hint``, ``L2_hint``, ``L3_hint``), as tables.

A GPU has few combinations of L1 and L3. Each has a number, the same in all of Intel's builtins that take one. Seen in
the machine code of each target: ``load.ugm.d32.a64.st.ca``.
"""

from __future__ import annotations

from dataclasses import dataclass

READS = ("cached", "uncached", "streaming", "read_invalidate")
"""What a load or a prefetch may say of a cache level."""
WRITES = ("uncached", "write_through", "write_back", "streaming")
"""What a store may say of it."""
POLICIES = tuple(dict.fromkeys((*READS, *WRITES)))
"""All that a hint may be."""
BY_KIND = {"load": READS, "prefetch": READS[:3], "store": WRITES}
"""What each kind of message may say; a prefetch that gives the line away would be for nothing."""

Pair = tuple[str, str]
"""L1 and L3."""


@dataclass(frozen=True)
class Caches:
    """The combinations of a target, with their numbers; what is left open is chosen in this order.

    Attributes:
        reads: those of loads and, without ``read_invalidate``, of prefetches.
        writes: those of stores.
    """

    reads: tuple[tuple[Pair, int], ...]
    writes: tuple[tuple[Pair, int], ...]

    def combinations(self, kind: str) -> dict[Pair, int]:
        """What a ``"load"``, ``"store"`` or ``"prefetch"`` may say, with the numbers."""
        rows = self.writes if kind == "store" else self.reads
        return {pair: code for pair, code in rows if pair[0] in BY_KIND[kind]}

    def code(self, kind: str, l1: str | None, l3: str | None) -> int | None:
        """The number of a combination, a level that is None left open; None if there is no such combination."""
        return next((code for pair, code in self.combinations(kind).items()
                     if l1 in (None, pair[0]) and l3 in (None, pair[1])), None)

    def nearest(self, kind: str, l1: str | None, l3: str | None) -> list[Pair]:
        """The combinations that agree with one of the two levels; all if there is none."""
        every = list(self.combinations(kind))
        return [pair for pair in every if pair[0] == l1 or pair[1] == l3] or every


_READS = ((("cached", "cached"), 4), (("cached", "uncached"), 3), (("uncached", "cached"), 2),
          (("uncached", "uncached"), 1), (("streaming", "cached"), 6), (("streaming", "uncached"), 5))
_WRITES = ((("write_back", "write_back"), 7), (("write_through", "write_back"), 4), (("uncached", "write_back"), 2),
           (("streaming", "write_back"), 6), (("write_through", "uncached"), 3), (("uncached", "uncached"), 1),
           (("streaming", "uncached"), 5))
XE = Caches((*_READS, (("read_invalidate", "cached"), 7)), _WRITES)
"""dg2, arl and pvc."""
XE2 = Caches((*_READS, (("read_invalidate", "read_invalidate"), 7)), _WRITES)
"""bmg, lnl and ptl give the line away in both caches."""
XE3P = Caches(_READS, _WRITES)
"""cri; Intel's compiler breaks down on read_invalidate."""
