"""Steps of a schedule, as data. Regions are those of the whole matrices."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from xetile.distributed.grid import SUM_BYTES, Grid
from xetile.distributed.regions import Region


@dataclass(frozen=True)
class Pack:
    """Copy of a region of this rank's block to a contiguous panel."""

    source: str
    region: Region
    target: str


@dataclass(frozen=True)
class Broadcast:
    """Broadcast of a panel from ``root`` to the other ``ranks``, which are in the order of their communicator."""

    buffer: str
    region: Region
    root: int
    ranks: tuple[int, ...]
    bytes: int


@dataclass(frozen=True)
class _Message:
    """Point-to-point message of a region of a buffer."""

    buffer: str
    region: Region
    peer: int
    bytes: int


@dataclass(frozen=True)
class Send(_Message):
    """Message with a region of a buffer to another rank."""


@dataclass(frozen=True)
class Receive(_Message):
    """Message from another rank to a buffer."""


@dataclass(frozen=True)
class Multiply:
    """Product of a region of A and a region of B, into the sums (``first``) or added to them.

    With ``fused`` it is a whole product, whose epilogue is applied at once: nothing goes into the sums.
    """

    a: str
    b: str
    region: Region
    depth: tuple[int, int]
    first: bool
    fused: bool = False
    signals: tuple[Region, ...] = ()

    @property
    def a_region(self) -> Region:
        """Region of A that is read."""
        return Region(self.region.rows, self.depth)

    @property
    def b_region(self) -> Region:
        """Region of B that is read."""
        return Region(self.depth, self.region.columns)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is multiplied; of a first product the sums become zero even so."""
        return self.depth[0] == self.depth[1] or self.region.size == 0

    @property
    def flops(self) -> int:
        """Operations: two for each multiply-add."""
        return 2 * self.region.size * (self.depth[1] - self.depth[0])


@dataclass(frozen=True)
class Add:
    """Sum of two buffers, region by region: ``target = source + target``."""

    source: str
    target: str
    region: Region


@dataclass(frozen=True)
class Finish:
    """Epilogue: sums to this rank's block of C."""

    region: Region
    source: str = "sums"


@dataclass(frozen=True)
class Wait:
    """Waits for all products and messages of this rank so far."""


Step: TypeAlias = Pack | Broadcast | Send | Receive | Multiply | Add | Finish | Wait


@dataclass(frozen=True)
class Schedule:
    """Steps of one rank.

    Attributes:
        grid: the process grid.
        rank: whose steps these are.
        steps: in order.
        buffers: elements of each buffer that is allocated for it, by name; A, B and C themselves are not.
    """

    grid: Grid
    rank: int
    steps: tuple[Step, ...]
    buffers: dict[str, int] = field(hash=False)

    @cached_property
    def received(self) -> int:
        """Bytes that this rank receives."""
        return sum(step.bytes for step in self.steps if isinstance(step, Receive) or
                   (isinstance(step, Broadcast) and step.root != self.rank))

    @cached_property
    def messages(self) -> int:
        """Messages and broadcasts that this rank takes part in."""
        return sum(isinstance(step, (Receive, Send, Broadcast)) for step in self.steps)

    @cached_property
    def flops(self) -> int:
        """Operations of this rank's products."""
        return sum(step.flops for step in self.steps if isinstance(step, Multiply))

    @property
    def workspace(self) -> int:
        """Bytes of the buffers."""
        return sum(count * buffer_bytes(self.grid, name) for name, count in self.buffers.items())


def buffer_bytes(grid: Grid, name: str) -> int:
    """Bytes of an element of a buffer: panels are ``a0 a1 b0 b1``, sums ``sums`` and ``r0 r1 ...``."""
    return grid.dtype.bytes if name[0] in "ab" else SUM_BYTES
