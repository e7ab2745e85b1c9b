"""Padded copies of a product's operands: where block messages cannot reach an array, and a copy costs less time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from codegen.toolchain.logger import LOGGER
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.target.block2d import access
from xegpu.target.machine_model import MACHINES
from xegpu.target.targets import Target
from xetile.dialect.wg_map import WgMap
from xetile.jit.kernel import kernel
from xetile.lang.creation import iota
from xetile.lang.grid import group_id
from xetile.lang.tiles import init_tile, load_tile, store_tile
from xetile.library.array_operands import Operand, empty_like_input
from xetile.library.matmul_kernels import matrix_of
from xetile.library.tile_heuristics import DOUBT, LAUNCH_CLOCKS, Plan, Tiling

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
_BLOCKS = {1: ((16, 32), (64, 16)), 2: ((16, 16), (32, 16))}
"""Rows and columns of A and of B that a subgroup copies at once to shared local memory, by the bytes of an element
(:mod:`xetile.passes.cooperative_loads.analysis`); of B the most."""
_BLOCK_CLOCKS = {1: (3.3, 12.6), 2: (3.3, 6.3)}
"""Clocks of a core that copying a block, or a part of one, costs a subgroup: two messages with an address a lane and
one that stores for A, four and one for B, in 8 bits eight and one, what is selected between, and a prefetch, as
above."""
_VECTOR_COLUMNS, _VECTOR_CLOCKS = 8, 4.1
"""Columns of a part of a block of B in 16 bits that two messages read, one for each of a lane's rows
(:func:`xegpu.passes.loops.interleave_columns.reads_on`), and what copying it costs, as above."""
_BARRIER_CLOCKS = 50
"""Clocks of a core for the barrier of a step in which copies of one operand or both are exchanged, as above."""
_GATHERED_ELEMENTS = 1 << 31
"""Elements that the indices of a gather reach."""
_MEMORY_BYTES, _MOST_MEMORY_BYTES = 8, 14
"""Bytes a clock that each core gets from memory where no machine of a target is known, and what the instructions of a
copy move at most, as above."""
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
class Memory:
    """Description of an array in memory, or of a part of its matrices, for the model of the time to access it.

    Attributes:
        address: of the first element, modulo a cache line; None if it is not known.
        shape: sizes, in elements.
        strides: in elements.
        dtype: the element type.
    """

    address: int | None
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType

    @classmethod
    def of(cls, operand: Operand) -> Memory:
        """Memory of an array."""
        pointer = operand.described.pointer
        return cls(None if pointer is None else pointer % _ALIGNMENT, operand.shape, operand.strides(), operand.dtype)

    def cut(self, rows: slice, columns: slice) -> Memory:
        """Rows and columns of all matrices; slices with a step of one."""
        (first_row, last_row, _), (first, last, _) = rows.indices(self.shape[-2]), columns.indices(self.shape[-1])
        begin = first_row * self.strides[-2] + first * self.strides[-1]
        address = None if self.address is None else (self.address + begin * self.dtype.bytes) % _ALIGNMENT
        return replace(self, address=address, shape=(*self.shape[:-2], last_row - first_row, last - first))

    def access(self, target: Target) -> str:
        """Access kind of the array, as :func:`xegpu.target.block2d.access` has it."""
        return access(target, self.address, self.shape, self.strides, self.dtype.bytes)


@dataclass(frozen=True)
class Layout:
    """Memory layout of an operand of a product, as far as the time of reading it depends on it.

    Attributes:
        access: access kind of the array, as :func:`xegpu.target.block2d.access` has it.
        in_words: whether all its rows start on 4-byte boundaries, where a message reads 64 bytes of one.
        bytes: of an element.
        elements: of the array, a matrix that a batch repeats counted once.
        is_exchanged: whether subgroups exchange copies of its rows in shared local memory, and read them without
            checks: of a batch it is not known before the loop.
    """

    access: str
    in_words: bool
    bytes: int
    elements: int
    is_exchanged: bool = False

    @classmethod
    def of(cls, memory: Memory, target: Target, engine: DType | None = None) -> Layout:
        """Layout of an array on a target, of a product by which its elements are multiplied as ``engine``."""
        size, kind = memory.dtype.bytes, memory.access(target)
        in_words = not any(number * size % _WIDTH_UNIT for number in memory.strides[:-1])
        in_words = in_words and (memory.address or 0) % _WIDTH_UNIT == 0
        batch = zip(memory.shape[:-2], memory.strides[:-2], strict=True)
        once = math.prod(count for count, stride in batch if stride)
        multiplied = memory.dtype is engine or (engine is not None and not engine.is_float)  # integers as they are
        is_exchanged = kind == "rows" and size in _BLOCKS and multiplied and len(memory.shape) == 2
        return cls(kind, in_words, size, once * math.prod(memory.shape[-2:]), is_exchanged)

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


def _reading(layouts: tuple[Layout | None, Layout | None], tiling: Tiling, inside: tuple[bool, bool]) -> float:
    """Clocks of a core for reading A and B in place in one step along K, beyond those of block messages; None for an
    operand that is copied first."""
    (down, across), depth = tiling.layout, tiling.depth
    subgroups, clocks, barrier = down * across, 0.0, 0
    parts = (tiling.rows // down, depth, across), (depth, tiling.columns // across, down)
    for side, (layout, is_inside, (rows, columns, sharers)) in enumerate(zip(layouts, inside, parts, strict=True)):
        if layout is None or layout.is_blocked:
            continue
        bytes_ = min(layout.bytes, 2)
        block, each = _BLOCKS[bytes_][side], _BLOCK_CLOCKS[bytes_][side]
        blocks = rows * columns / math.prod(block)
        is_exchanged = layout.is_exchanged and is_inside and not tiling.shared  # in one loop, which has all registers
        if is_exchanged and sharers > 1:
            if side == 1 and bytes_ == 2 and tiling.columns == _VECTOR_COLUMNS * subgroups:
                each = _VECTOR_CLOCKS
            clocks += max(blocks * subgroups / sharers, subgroups) * each
            barrier = _BARRIER_CLOCKS
        elif is_exchanged and not (rows % block[0] or columns % block[1]):
            clocks += subgroups * blocks * each
        else:
            clocks += subgroups * layout.clocks(rows, columns)
    return clocks + barrier


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

    @property
    def doubt(self) -> float:
        """Factor of the time with which they are compared with others."""
        return DOUBT if self.a or self.b else 1


def copies(a: Layout, b: Layout, result_bytes: int, plan: Plan, target: Target,
           inside: tuple[bool, bool] = (True, True)) -> list[Copies]:
    """Candidates of :func:`choose_copies`: each choice of operands that are copied, none first.

    What arithmetic and messages cost is hidden behind the memory's traffic, or hides it; a copy comes before both.

    Args:
        a, b: layouts of the operands.
        result_bytes: bytes of the result.
        plan: how the product is executed where block messages reach both operands.
        target: the device that code is generated for.
        inside: whether no tile leaves A's rows, and none B's columns; else each element there is checked.
    """
    bandwidth, memory = target.cores * _memory_bytes(target), _moving(a, b, result_bytes, target)
    found = []
    options = [(False,) if layout.is_blocked or not layout.elements else (False, True) for layout in (a, b)]
    for copies_a, copies_b in itertools.product(*options):
        in_place = None if copies_a else a, None if copies_b else b
        slowdown = 1 + _reading(in_place, plan.tiling, inside) / plan.step_clocks
        copying = sum(LAUNCH_CLOCKS + layout.copy_bytes / bandwidth
                      for layout, is_copied in ((a, copies_a), (b, copies_b)) if is_copied)
        found.append(Copies(copies_a, copies_b, max(plan.clocks * slowdown, memory) + copying))
    return found


def _moving(a: Layout, b: Layout, result_bytes: int, target: Target) -> float:
    """Clocks in which memory moves the operands and the result, each once."""
    return (a.elements * a.bytes + b.elements * b.bytes + result_bytes) / (target.cores * _memory_bytes(target))


def _memory_bytes(target: Target) -> float:
    """Bytes a clock that each core gets from memory."""
    machine = next((each for each in MACHINES.values() if each.target == target.name), None)
    rate = _MEMORY_BYTES if machine is None else machine.bandwidth / (machine.cores * machine.ghz * 1e9)
    return min(rate, _MOST_MEMORY_BYTES)


def choose_copies(a: Layout, b: Layout, result_bytes: int, plan: Plan, target: Target,
                  inside: tuple[bool, bool] = (True, True)) -> Copies:
    """Operands whose copies save time by the model; arguments as for :func:`copies`."""
    return min(copies(a, b, result_bytes, plan, target, inside), key=lambda each: each.clocks * each.doubt)


@dataclass(frozen=True)
class Prepared:
    """Operands of a product as its kernel reads them, and how it is executed.

    Attributes:
        a, b: the operands, copied or as they are.
        plan: of the product.
        inside: whether the last tiles along the rows and columns of C are moved to lie inside.
    """

    a: Operand
    b: Operand
    plan: Plan
    inside: tuple[bool, bool] = (False, False)


def copied_where_cheaper(a: Operand, b: Operand, c: Operand, candidates: Sequence[Plan], engine: DType, target: Target,
                         executor: Any, *, added: bool) -> Prepared:
    """Operands of a product, each copied to where block messages reach it if that saves time by the model.

    Of the plans, the one is taken that is the fastest then. A copy takes as much memory as its array, rows rounded up
    to 64 bytes, until the product is done. Zeros follow its rows, up to the width that block messages take: a K that
    grows by them adds nothing to a sum, and columns that do are not stored.

    Args:
        a, b, c: the operands and the result.
        candidates: plans of the product of operands that block messages reach.
        engine: the element type that is multiplied.
        target: the device that code is generated for.
        executor: where copies are made.
        added: whether old values of C are added, so that no element may be stored twice.
    """
    memories = Memory.of(a), Memory.of(b), Memory.of(c)
    layouts, chosen = fastest(*memories, candidates, engine, target, added=added)
    _log(layouts, chosen.copies)
    moves = [move and layout.access == "rows" and not copied for move, layout, copied in
             zip(chosen.moves, layouts, (chosen.copies.a, chosen.copies.b), strict=True)]
    return Prepared(padded(a, target, executor) if chosen.copies.a else a,
                    padded(b, target, executor) if chosen.copies.b else b, chosen.plan, (moves[0], moves[1]))


@dataclass(frozen=True)
class Choice:
    """A plan of a product, and what is copied for it.

    Attributes:
        plan: the plan.
        moves: whether the last tiles along the rows and columns of C can be moved to lie inside.
        copies: operands that are copied, and the time that is expected.
    """

    plan: Plan
    moves: tuple[bool, bool]
    copies: Copies

    @property
    def clocks(self) -> float:
        """Predicted, of a core, and with what is to be gained to be chosen."""
        return self.copies.clocks * self.copies.doubt * self.plan.doubt


def fastest(a: Memory, b: Memory, c: Memory, candidates: Sequence[Plan], engine: DType, target: Target, *,
            added: bool) -> tuple[tuple[Layout, Layout], Choice]:
    """Layouts of the operands, and the plan and copies of the least predicted time; arguments as for
    :func:`copied_where_cheaper`."""
    layouts = Layout.of(a, target, engine), Layout.of(b, target, engine)
    stored = math.prod(c.shape) * c.dtype.bytes
    if not target.block_io or all(layout.is_blocked for layout in layouts):
        plan = min(candidates, key=lambda plan: plan.clocks * plan.doubt)
        clocks = max(plan.clocks, _moving(*layouts, stored, target))
        return layouts, Choice(plan, (False, False), Copies(False, False, clocks))
    found = []
    for plan in candidates:
        moves = _moves_inside(plan.tiling, c, target) if not added else (False, False)
        inside = [move or not over for move, over in zip(moves, _is_over(plan.tiling, c), strict=True)]
        found.append(Choice(plan, moves, choose_copies(*layouts, stored, plan, target, (inside[0], inside[1]))))
    return layouts, min(found, key=lambda choice: choice.clocks)


def _is_over(tiling: Tiling, c: Memory) -> tuple[bool, bool]:
    """Whether the last tiles leave the rows, and the columns, of the result."""
    rows, columns = c.shape[-2:]
    return rows % tiling.rows != 0, columns % tiling.columns != 0


def _moves_inside(tiling: Tiling, c: Memory, target: Target) -> tuple[bool, bool]:
    """Whether the last tiles along the rows and columns of the result can be moved to lie inside.

    There must be a whole tile, and block messages that reach C must still do so: they need columns of four bytes.
    """
    rows, columns = c.shape[-2:]
    over, stays = _is_over(tiling, c), c.dtype.bytes >= _WIDTH_UNIT or not Layout.of(c, target).is_blocked
    return (over[0] and rows >= tiling.rows and not tiling.shared,
            over[1] and columns >= tiling.columns and not tiling.shared and stays)


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
        gathered=_is_gathered(source, Layout.of(Memory.of(source), target)))
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
