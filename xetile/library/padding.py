"""Padded copies of a product's operands: where block messages cannot reach an array, and a copy costs less time."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

from codegen.toolchain.logger import LOGGER
from xegpu.ir import dtypes
from xegpu.target.block2d import access
from xegpu.target.targets import Target
from xetile.dialect.wg_map import WgMap
from xetile.jit.kernel import kernel
from xetile.lang.creation import iota
from xetile.lang.grid import group_id
from xetile.lang.tiles import init_tile, load_tile, store_tile
from xetile.library.array_operands import Operand, empty_like_input
from xetile.library.matmul_kernels import matrix_of
from xetile.library.tile_heuristics import DOUBT, LAUNCH_CLOCKS, Plan

_ALIGNMENT = 64
"""Bytes: the rows of a copy begin on cache lines, as do its matrices."""
_LEAST_WIDTH = 64
"""Bytes of the narrowest row that a block message reaches (hardware.md)."""
_WIDTH_UNIT = 4
"""Bytes: a row that a block message reaches is a multiple of these long (hardware.md)."""
_ROW_CLOCKS = 0.5
"""Clocks of a core that a message with one row's 64 bytes costs: what the performance model says of the product's
loop in pvc's and bmg's machine code, 0.3 to 0.9."""
_GATHER_CLOCKS = 1.0
"""Clocks of a core that 16 elements of a row that are read one by one cost: 0.7 to 1.3, as above."""
_GATHERED_ELEMENTS = 1 << 31
"""Elements that the indices of a gather reach."""
_MEMORY_BYTES = 8
"""Bytes a clock that each core gets from memory: 8 on a B580, 16 on a Max 1550, so that copies are not underrated."""
_COPY_ROWS, _COPY_COLUMNS, _COPY_LAYOUT = 32, 256, (4, 4)


@kernel
def padded_copy(A: Any, P: Any, *, rows: int, columns: int, sg: tuple[int, int], gathered: bool) -> None:
    """Kernel: P = A, and zeros where P has more columns, for each matrix of a batch along the grid's last axis.

    Elements that are gathered take messages in straight-line code, all of which are under way at once; a tile of rows
    off 4-byte boundaries would be read by loops, message after message.
    """
    m, n = group_id(0) * rows, group_id(1) * columns
    part = WgMap(sg, (rows // sg[0], columns // sg[1]))
    first: Any = m
    if gathered:
        first = iota((rows, 1), 0, dtypes.i32, wg_map=WgMap(sg, (rows // sg[0], 1))) + m.to(dtypes.i32)
    tile = load_tile(init_tile(A, (*matrix_of(A, group_id(2)), first, n), (rows, columns), wg_map=part))
    store_tile(tile, init_tile(P, (*matrix_of(P, group_id(2)), m, n), (rows, columns), wg_map=part))


@dataclass(frozen=True)
class Layout:
    """Memory layout of an operand of a product, as far as the time of reading it depends on it.

    Attributes:
        access: access kind of the array, as :func:`xegpu.target.block2d.access` has it.
        in_words: whether all its rows start on 4-byte boundaries, where a message reads 64 bytes of one.
        bytes: of an element.
        elements: of the array, a matrix that a batch repeats counted once.
    """

    access: str
    in_words: bool
    bytes: int
    elements: int

    @classmethod
    def of(cls, operand: Operand, target: Target) -> Layout:
        """Layout of an array on a target."""
        found = operand.described
        size = operand.dtype.bytes
        kind = access(target, found.pointer, found.shape, found.strides, size)
        in_words = not any(number * size % _WIDTH_UNIT for number in operand.strides()[:-1])
        in_words = in_words and (found.pointer or 0) % _WIDTH_UNIT == 0
        batch = zip(operand.shape[:-2], operand.strides()[:-2], strict=True)
        once = math.prod(count for count, stride in batch if stride)
        return cls(kind, in_words, size, once * math.prod(operand.shape[-2:]))

    @property
    def is_blocked(self) -> bool:
        """Whether block messages reach the array."""
        return self.access in ("block", "block-columns")

    @property
    def copy_bytes(self) -> int:
        """Bytes that a copy moves."""
        return 2 * self.bytes * self.elements

    def clocks(self, rows: int, columns: int) -> float:
        """Clocks of a core, beyond those of block messages, for reading a tile in a subgroup."""
        if self.is_blocked:
            return 0
        if self.access == "rows" and self.in_words:
            return rows * math.ceil(columns * self.bytes / 64) * _ROW_CLOCKS
        return rows * columns / 16 * _GATHER_CLOCKS


@dataclass(frozen=True)
class Copies:
    """Operands of a product that are copied, and the time that is expected then.

    Attributes:
        a, b: whether the operand is copied.
        clocks: predicted, of a core, copies included.
    """

    a: bool
    b: bool
    clocks: float


def copies(a: Layout, b: Layout, result_bytes: int, plan: Plan, target: Target) -> list[Copies]:
    """Candidates of :func:`choose_copies`: each choice of operands that are copied, none first.

    What arithmetic and messages cost is hidden behind the memory's traffic, or hides it; a copy comes before both.

    Args:
        a, b: layouts of the operands.
        result_bytes: bytes of the result.
        plan: how the product is executed where block messages reach both operands.
        target: the device that code is generated for.
    """
    tiling, bandwidth = plan.tiling, target.cores * _MEMORY_BYTES
    rows, columns = tiling.rows // tiling.layout[0], tiling.columns // tiling.layout[1]
    reading = [math.prod(tiling.layout) * layout.clocks(*shape) / plan.step_clocks
               for layout, shape in ((a, (rows, tiling.depth)), (b, (tiling.depth, columns)))]
    memory = (a.elements * a.bytes + b.elements * b.bytes + result_bytes) / bandwidth
    found = []
    options = [(False,) if layout.is_blocked or not layout.elements else (False, True) for layout in (a, b)]
    for copies_a, copies_b in itertools.product(*options):
        slowdown = 1 + (0 if copies_a else reading[0]) + (0 if copies_b else reading[1])
        copying = sum(LAUNCH_CLOCKS + layout.copy_bytes / bandwidth
                      for layout, is_copied in ((a, copies_a), (b, copies_b)) if is_copied)
        found.append(Copies(copies_a, copies_b, max(plan.clocks * slowdown, memory) + copying))
    return found


def choose_copies(a: Layout, b: Layout, result_bytes: int, plan: Plan, target: Target) -> Copies:
    """Operands whose copies save time by the model; arguments as for :func:`copies`."""
    found = copies(a, b, result_bytes, plan, target)
    return min(found, key=lambda each: each.clocks * (DOUBT if each.a or each.b else 1))


def copied_where_cheaper(a: Operand, b: Operand, c: Operand, plan: Plan, target: Target,
                         executor: Any) -> tuple[Operand, Operand]:
    """Operands of a product, each copied to where block messages reach it if that saves time by the model.

    A copy takes as much memory as its array, rows rounded up to 64 bytes, until the product is done. Zeros follow its
    rows, up to the width that block messages take: a K that grows by them adds nothing to a sum, and columns that do
    are not stored.
    """
    if not target.block_io:
        return a, b
    layouts = Layout.of(a, target), Layout.of(b, target)
    chosen = choose_copies(*layouts, math.prod(c.shape) * c.dtype.bytes, plan, target)
    _log(layouts, chosen)
    return (padded(a, target, executor) if chosen.a else a), (padded(b, target, executor) if chosen.b else b)


def _log(layouts: tuple[Layout, Layout], chosen: Copies) -> None:
    """Log which operands block messages do not reach, and what is done with each."""
    for name, layout, is_copied in zip("AB", layouts, (chosen.a, chosen.b), strict=True):
        if not layout.is_blocked and layout.elements:
            LOGGER.info("block messages do not reach operand %s of the product: it is %s", name,
                        "copied to padded rows first" if is_copied else "read in place, which costs less than a copy")


def padded(operand: Operand, target: Target, executor: Any) -> Operand:
    """Copy of an operand that block messages reach; of columns if the array is stored column by column.

    Dimensions that repeat a matrix (stride 0) repeat the copy.
    """
    if operand.strides()[-2] == 1 != operand.strides()[-1]:
        return _transposed(padded(_transposed(operand), target, executor))
    repeats = [stride == 0 for stride in operand.strides()[:-2]]
    source = replace(operand, array=operand.array[tuple(slice(0, 1) if each else slice(None) for each in repeats)])
    rows, columns = source.shape[-2:]
    size = operand.dtype.bytes
    pitch = _rounded(max(columns * size, _LEAST_WIDTH), _ALIGNMENT) // size
    copy = empty_like_input(source, (*source.shape[:-2], rows, pitch), operand.dtype)
    grid = (-(-rows // _COPY_ROWS), -(-pitch // _COPY_COLUMNS), math.prod(source.shape[:-2]))
    padded_copy.on(executor, target=target)[grid](
        _bits(source), _bits(copy), rows=_COPY_ROWS, columns=_COPY_COLUMNS, sg=_COPY_LAYOUT,
        gathered=_is_gathered(source, Layout.of(source, target)))
    width = _rounded(max(columns * size, _LEAST_WIDTH), _WIDTH_UNIT) // size
    result = replace(operand, array=copy.array[..., :width])
    return result.spread(operand.shape[:-2]) if any(repeats) else result


def _is_gathered(operand: Operand, layout: Layout) -> bool:
    reach = sum(abs(stride) * (size - 1) for stride, size in zip(operand.strides(), operand.shape, strict=True))
    return not (layout.access == "rows" and layout.in_words) and reach < _GATHERED_ELEMENTS


def _rounded(count: int, unit: int) -> int:
    return -(-count // unit) * unit


_BITS = {dtype.bytes: dtype for dtype in (dtypes.u8, dtypes.u16, dtypes.u32)}
"""Element types of copies: bits, whatever they mean, by their bytes."""


def _bits(operand: Operand) -> Any:
    return replace(operand, dtype=_BITS[operand.dtype.bytes]).argument


def _transposed(operand: Operand) -> Operand:
    return replace(operand, array=operand.array.swapaxes(-1, -2))
