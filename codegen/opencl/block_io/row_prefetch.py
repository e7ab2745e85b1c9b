"""Prefetches of rows that 2D block messages do not reach: a message with an address for each lane.

    for (; k < end; k += 64, prefetch_rows += prefetch_at <= prefetch_end ? 64 : 0, prefetch_at += 64) {
      prefetch(prefetch_rows, 1);

A lane has a cache line of a row. Where there are more lanes than rows, those of a row have one line behind the other,
up to that of the row's last element: rows of any alignment begin in the middle of a line. Steps that an unrolled loop
does at once are prefetched by one message where there are lanes for all of them.

Other than block messages, which check bounds, these must stay inside the array: what stands still is clamped before the
loop, and pointers are moved no more where the next step is outside, which is a condition of one number for all lanes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from xdsl.dialects import scf
from xdsl.ir import Operation

from codegen.opencl.block_io import cache_controls
from codegen.opencl.block_io.row_pointers import first_descriptor
from codegen.opencl.emitter import Emitter, wrapping
from codegen.opencl.prelude.macros import FETCH_L1
from codegen.opencl.values import Coordinate, Descriptor
from xegpu.analysis.block_position import moving_axis
from xegpu.dialect.block_io import LoadNdOp, PrefetchNdOp, desc_of
from xegpu.ir.matchers import number

_LINE = 64
"""Bytes of a cache line."""
_AHEAD = 2048
"""Bytes that a CPU prefetches ahead: two rows of 250 in f32, of which 2, 4 and 8 ahead measured alike."""
_MOST_LINES = 32
"""Lines of a block that is prefetched: one with more is itself long enough for the CPU to notice its stride."""


@dataclass(frozen=True)
class RowPrefetch:
    """Prefetches of the same rows or columns in one or several steps of a loop, by the same messages.

    Attributes:
        first: the prefetch of the first step, where the messages are.
        desc: its descriptor in the first step.
        axis: along which the loop moves it, 0 for rows or 1 for columns.
        steps: how many steps of the loop the messages are of.
        distance: of two such steps, in elements along the axis.
    """

    first: PrefetchNdOp
    desc: Descriptor
    axis: int
    steps: int = 1
    distance: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of one step."""
        type_ = desc_of(self.first.desc)
        return type_.shape[0], type_.shape[1] * type_.block.array_length

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return desc_of(self.first.desc).dtype.bytes

    @property
    def lines(self) -> int:
        """Cache lines of a row of one step, without the next one's first, in which a row of any alignment may end."""
        return -(-self.shape[1] * self.element_bytes // _LINE)

    def sizes(self, axis: int) -> tuple[str, int]:
        """The array's size along an axis, and that of all steps."""
        size = (self.desc.height, self.desc.width)[axis]
        return size, self.shape[axis] + (self.distance * (self.steps - 1) if axis == self.axis else 0)


def declare(emitter: Emitter, loop: scf.ForOp) -> list[str]:
    """Declare the addresses of a loop's prefetches of rows in front of it.

    Returns:
        what each step adds to them, as expressions.
    """
    return [move for found in _merged(list(_prefetches(emitter, loop)), emitter.subgroup)
            for move in _declare(emitter, loop, found)]


def _prefetches(emitter: Emitter, loop: scf.ForOp) -> Iterator[RowPrefetch]:
    for operation in loop.body.block.ops:
        if isinstance(operation, PrefetchNdOp) and desc_of(operation.desc).block.access == "rows" and number(loop.step):
            axis = moving_axis(operation.desc, loop)
            if axis is not None:
                yield RowPrefetch(operation, first_descriptor(emitter, loop, operation.desc), axis)


def _merged(found: Sequence[RowPrefetch], lanes: int) -> list[RowPrefetch]:
    """Prefetches; several at the same distances become one if there are lanes for all of them."""
    groups: dict[tuple[object, ...], list[RowPrefetch]] = {}
    for each in found:
        moved, still = (each.desc.row, each.desc.column)[::1 if each.axis == 0 else -1]
        key = each.desc.array.name, each.desc.pitch, each.axis, moved.terms, still, each.first.desc.type
        groups.setdefault(key, []).append(each)
    merged: list[RowPrefetch] = []
    for group in groups.values():
        places = [(each.desc.row, each.desc.column)[each.axis].offset for each in group]
        distances = {after - before for before, after in pairwise(places)}
        first, count = group[0], len(group)
        if len(distances) == 1 and min(distances) > 0 and first.shape[0] * first.lines * count <= lanes:
            merged.append(replace(first, steps=count, distance=distances.pop()))
        else:
            merged += group
    return merged


def _declare(emitter: Emitter, loop: scf.ForOp, found: RowPrefetch) -> list[str]:
    """Declare pointers of a prefetch, and give what each step adds to them."""
    desc, axis, (height, width), step = found.desc, found.axis, found.shape, number(loop.step)
    lane, stem = emitter.common(loop.parent, "lane", "int", "get_sub_group_local_id()"), emitter.name("prefetch")
    place, last = emitter.name(f"{stem}_at"), emitter.name(f"{stem}_end")
    size, extent = found.sizes(axis)
    emitter.line(f"const int {last} = max({size} - {extent}, 0);")
    emitter.line(f"int {place} = clamp({wrapping((desc.row, desc.column)[axis])}, 0, {last});")
    down = min(height, emitter.subgroup)
    behind, steps = f"{lane} / {down}", Coordinate()
    if found.steps > 1:
        behind, steps = f"{behind} % {found.lines}", Coordinate((f"{lane} / {down * found.lines} * {found.distance}",))
    across = Coordinate((f"min({behind} * {_LINE // found.element_bytes}, {width - 1})",))
    pointers = []
    for first in range(0, height, down):
        at = [Coordinate((f"{lane} % {down}",), first), across]
        at[axis] = at[axis].plus(steps).plus(Coordinate((place,)))
        at[1 - axis] = at[1 - axis].plus((desc.row, desc.column)[1 - axis])
        row, column = (f"clamp({wrapping(each)}, 0, max({whole} - 1, 0))"
                       for each, whole in zip(at, (desc.height, desc.width), strict=True))
        pointers.append(emitter.name(f"{stem}_rows"))
        emitter.line(f"const global {desc.array.dtype.opencl} *{pointers[-1]} = {desc.array.name} + "
                     f"{row} * (long){desc.pitch} + {column};")
    emitter.carried_pointers[found.first] = tuple(pointers)
    distance = f"(long){desc.pitch} * {step}" if axis == 0 else str(step)
    move = emitter.common(loop.parent, f"{stem}_move", "long", distance)
    end = emitter.common(loop.parent, last, "int", f"{last} - {step}")
    return [*(f"{pointer} += {place} <= {end} ? {move} : 0" for pointer in pointers), f"{place} += {step}"]


def emit(emitter: Emitter, prefetch: PrefetchNdOp) -> None:
    """Emit a prefetch of rows; none where the message of another step, or no loop's, prefetches it."""
    dtype, cache = desc_of(prefetch.desc).dtype, cache_controls.number(emitter, prefetch)
    for pointer in emitter.carried_pointers.get(prefetch, ()):
        call = cache_controls.prefetch(emitter, dtype.bytes, pointer, cache) if cache else f"prefetch({pointer}, 1)"
        emitter.line(f"{call};")


def fetch_rows(emitter: Emitter, load: LoadNdOp) -> None:
    """Emit prefetches of the block that a loop of a CPU loads some steps later, where it moves along the rows.

    A CPU fetches in advance what loads of the same page ask for one after the other, but too little of it where
    much is computed between two rows.
    """
    loop, block = load.parent_op(), desc_of(load.desc)
    height, width = block.shape[0], block.shape[1] * block.block.array_length
    lines = range(0, width, _LINE // block.dtype.bytes)
    step = number(loop.step) if isinstance(loop, scf.ForOp) else None
    if not isinstance(loop, scf.ForOp) or not step or step < 0 or height * len(lines) > _MOST_LINES:
        return
    desc: Descriptor = emitter.values[load.desc]
    counter = emitter.coordinate(loop.body.block.args[0]).terms
    if len(counter) != 1 or desc.row.terms.count(counter[0]) != 1 or counter[0] in desc.column.terms:
        return
    ahead = step * max(_AHEAD // sum(_bytes_loaded(operation) for operation in loop.body.block.ops), 1)
    for row in range(height):
        at = f"{wrapping(desc.row.plus(Coordinate((), ahead + row)))} * (long){desc.pitch} + {wrapping(desc.column)}"
        emitter.line(" ".join(f"{FETCH_L1}({desc.array.name} + {at} + {column});" for column in lines))


def _bytes_loaded(operation: Operation) -> int:
    if not isinstance(operation, LoadNdOp):
        return 0
    desc = desc_of(operation.desc)
    return prod(desc.shape) * desc.block.array_length * desc.dtype.bytes
