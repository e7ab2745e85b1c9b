"""Merged stores on GPUs without 2D block IO: 1D block writes of the rows of adjacent blocks, under one check.

    store_nd of 8 x 8 at columns 0, 8, 16, 24      becomes      inside and on 16-byte boundaries: 8 writes of 4 words
                                                                else each block as it is stored by itself
A block alone asks for its own bounds, and sends a message for each register, with an address for each lane. A lane has
one element of each of those rows; a message writes the words of several blocks, which lie behind each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from codegen.opencl.block_io import predicated_words, store_runs
from codegen.opencl.block_io.block_slice import BLOCK_WRITES, WholeBlock
from codegen.opencl.block_io.unaligned_words import vector_widths
from codegen.opencl.emitter import Emitter, atom, bounds_condition, wrapping
from codegen.opencl.values import UNSIGNED, Coordinate, Descriptor, Fragment, vector_type
from xegpu.dialect.block_io import StoreNdOp
from xegpu.dialect.bounds import STORE_ALIGNMENT, fills_writes

_MOST_WORDS = 32
"""Words of a lane that wait for the end of a run: an eighth of the registers of the large mode."""
_MOST_ACROSS = 8
"""Words of a row that a message writes."""


def applies(emitter: Emitter, operation: StoreNdOp, block: WholeBlock) -> bool:
    """Whether a block's rows may be stored by 1D block writes where they are in bounds, which nobody knows yet."""
    return not (emitter.target.block_io or emitter.target.is_cpu or block.promised or emitter.is_crowded) and \
        operation.in_bounds is None and block.row_bits > 0 and fills_writes(block.desc)


def add(emitter: Emitter, operation: StoreNdOp, block: WholeBlock, fragment: Fragment, calls: list[str]) -> None:
    """Emit a store with those that wait, or let it wait for the next one.

    Args:
        emitter: of the kernel.
        operation: the store.
        block: the block that it stores.
        fragment: the value.
        calls: statements that store the block by itself, with a bounds check.
    """
    most = min(_MOST_WORDS, _MOST_ACROSS * block.shape[0])
    store_runs.add(emitter, operation, fragment.words(), calls, most,
                   lambda stores: _flush(emitter, block, fragment, stores))


def _flush(emitter: Emitter, block: WholeBlock, fragment: Fragment,
           stores: Sequence[store_runs.PendingStore]) -> None:
    """Emit a run: writes of its rows behind its check, or the stores of the blocks."""
    desc, rows, name = stores[0].desc, block.shape[0], emitter.name("inside")
    bounds = bounds_condition(desc, (0, 0), rows, sum(store.shape[1] for store in stores))
    bits = f"(uint)(ulong)({_pointer(desc, 0, 0)})" + (
        f" | (uint)({desc.pitch}) * {block.desc.dtype.bytes}u" if rows > 1 else "")
    emitter.line(f"const int {name} = {bounds} & ((({bits}) & {STORE_ALIGNMENT - 1}u) == 0);")
    edges = [line for store in stores for line in store.edges]
    store_runs.branch(emitter, name, _writes(block, desc, stores),
                      list(predicated_words.apart(emitter, edges, block, fragment)))


def _pointer(desc: Descriptor, row: int, column: int) -> str:
    """Pointer expression of an element, counted from where a descriptor stands."""
    y, x = (atom(wrapping(first.plus(Coordinate((), distance))))
            for first, distance in ((desc.row, row), (desc.column, column)))
    return f"{desc.array.name} + {y} * (long){atom(desc.pitch)} + {x}"


def _writes(block: WholeBlock, desc: Descriptor, stores: Sequence[store_runs.PendingStore]) -> list[str]:
    """Statements of the 1D block writes of all rows of a run."""
    bits, unit = block.row_bits, block.lanes.unit[1]
    rows: dict[int, dict[int, str]] = {}
    for number, store in enumerate(stores):
        for word, places in zip(store.inside, block.words, strict=True):
            row, column = places[0]
            rows.setdefault(row, {})[number * block.shape[1] + column] = word
    lines = []
    for row, words in sorted(rows.items()):
        across = [words[column] for column in sorted(words)]
        for start, width in vector_widths(len(across), _MOST_ACROSS):
            values = [f"as_{UNSIGNED[bits]}({word})" for word in across[start:start + width]]
            vector = values[0] if width == 1 else f"({vector_type(UNSIGNED[bits], width)})({', '.join(values)})"
            lines.append(f"{BLOCK_WRITES[bits]}{'' if width == 1 else width}((global {UNSIGNED[bits]} *)"
                         f"({_pointer(desc, row, start * unit)}), {vector});")
    return lines
