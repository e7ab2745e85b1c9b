"""Merged stores of adjacent blocks in a row of an array: one bounds check for all.

On a CPU a block at an edge is stored by a call. With a check and a call between each two values of a row, what is
computed of the next one keeps its constants in memory instead of registers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from xdsl.traits import Pure

from codegen.opencl.block_io.block_slice import BlockSlice
from codegen.opencl.emitter import Emitter, bounds_check, bounds_condition
from codegen.opencl.prelude.macros import LIKELY
from codegen.opencl.values import Coordinate, Descriptor
from xegpu.dialect.block_io import LoadNdOp, StoreNdOp, desc_of

MOST_WORDS = 8
"""Words of a lane that wait for the end of a run: registers of a vector of lanes, of which CPUs have 16 or 32."""
_MOST_BRANCHES = 16
"""Words of which a kernel asks one by one whether they are in bounds: the time of Intel's compiler grows with their
square, to 17 s for 256."""


@dataclass(frozen=True)
class PendingStore:
    """Store that is emitted with those behind it.

    Attributes:
        desc: its descriptor.
        shape: rows and columns of its block.
        words: of a lane.
        inside: its statements, or words, where the block is in bounds.
        edges: its statements elsewhere.
    """

    desc: Descriptor
    shape: tuple[int, ...]
    words: int
    inside: list[str]
    edges: list[str]

    def continues(self, last: PendingStore) -> bool:
        """Whether its block begins where the last one ends, in the same rows."""
        before, columns = last.desc, Coordinate((), last.shape[1])
        return self.desc.matrix_fields == before.matrix_fields and self.desc.row == before.row \
            and self.desc.column == before.column.plus(columns) and self.shape[0] == last.shape[0]


def add(emitter: Emitter, operation: StoreNdOp, inside: list[str], edges: list[str], most: int,
        flush: Callable[[Sequence[PendingStore]], None]) -> None:
    """Emit a store with those that wait, or let it wait for the next one.

    Args:
        emitter: of the kernel.
        operation: the store.
        inside: statements or words of the block where it is in bounds.
        edges: statements elsewhere.
        most: words of a lane that may wait.
        flush: emits a run, of stores through descriptors of the operation's type.
    """
    pending: list[PendingStore] = emitter.pending_stores
    fragment = emitter.fragment(operation.value)
    store = PendingStore(emitter.values[operation.desc], desc_of(operation.desc).shape,
                         fragment.width * len(fragment.names), inside, edges)
    if pending and not store.continues(pending[-1]):
        flush(pending)
        pending.clear()
    pending.append(store)
    if sum(each.words for each in pending) + store.words > most or not _leads_to_alike(operation):
        flush(pending)
        pending.clear()


def branch(emitter: Emitter, condition: str, inside: Iterable[str], edges: Iterable[str]) -> None:
    """Emit statements for blocks that are in bounds, and for those that are not."""
    emitter.line(f"if ({condition}) {{")
    for statements, end in ((inside, "} else {"), (edges, "}")):
        emitter.depth += 1
        for statement in statements:
            emitter.line(statement)
        emitter.depth -= 1
        emitter.line(end)


def masked_where_outside(emitter: Emitter, operation: LoadNdOp, pieces: Collection[BlockSlice], inside: Iterable[str],
                         edges: list[str]) -> list[str]:
    """Statements for the pieces of a block at an edge: if they are few, those of ``inside`` for what is in bounds.

    CPUs seem not to fetch in advance what masked loads will want: from memory, those take twice the time.
    """
    if not 1 < len(pieces) <= _MOST_BRANCHES - emitter.branches:
        return edges
    emitter.branches += len(pieces)
    desc: Descriptor = emitter.values[operation.desc]
    return [f"if ({bounds_condition(desc, piece.at, *piece.shape)}) {whole} else {masked}"
            for piece, whole, masked in zip(pieces, inside, edges, strict=True)]


def flush_calls(emitter: Emitter, stores: Sequence[PendingStore]) -> None:
    """Emit a run on a CPU: its stores without calls behind its check, or those of the blocks."""
    name = bounds_check(emitter, stores[0].desc, stores[0].shape[0], sum(store.shape[1] for store in stores))
    branch(emitter, f"{LIKELY}({name})", (line for store in stores for line in store.inside),
           (line for store in stores for line in store.edges))


def _leads_to_alike(operation: StoreNdOp) -> bool:
    """Whether the next operation that is not pure stores a block of the same type, which is emitted in the same way."""
    following = operation.next_op
    while following is not None and following.has_trait(Pure) and not following.regions:
        following = following.next_op
    return isinstance(following, StoreNdOp) and following.desc.type == operation.desc.type and following.valid is None \
        and (following.in_bounds is None) == (operation.in_bounds is None)
