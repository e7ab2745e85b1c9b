"""Slices of blocks that one variable holds: their names, bounds, and the coordinates of a lane's elements, in C."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from codegen.opencl.emitter import Emitter
from xegpu.dialect.types import TensorDesc
from xegpu.layout import lane_map
from xegpu.layout.cooperative_matrix import component_offset
from xegpu.layout.lane_map import LaneMap
from xegpu.support.errors import TargetError

BLOCK_READS = {8: "intel_sub_group_block_read_uc", 16: "intel_sub_group_block_read_us",
               32: "intel_sub_group_block_read"}
"""Rows of 64-bit elements are read by single elements, 16 in a message as well: block reads of them spill."""
BLOCK_WRITES = {bits: name.replace("read", "write") for bits, name in BLOCK_READS.items()}
PARAMETERS = "int height, int width, int pitch, int step, int y, int x"
"""Parameters of a function that accesses a block, behind its array's base: the array's bounds, and a position."""
KEPT = {8: ("1234", "56", "7"), 4: ("12", "3"), 2: ("1",), 1: ()}
"""Width of a vector to its components without the first, in vectors that exist."""


@dataclass(frozen=True)
class BlockSlice:
    """Slice of a block in one variable: adjacent units.

    Attributes:
        desc: the descriptor.
        at: row and column of the first element in the block.
        shape: rows and columns.
        subgroup: lanes of the subgroup.
        in_bounds: whether it is known to be in bounds.
    """

    desc: TensorDesc
    at: tuple[int, int]
    shape: tuple[int, int]
    subgroup: int
    in_bounds: bool = False

    @property
    def lanes(self) -> LaneMap:
        """Lane map of the elements."""
        assert self.desc.sg_map is not None
        return self.desc.sg_map

    @property
    def strided(self) -> bool:
        """Whether a row's elements have a stride other than 1."""
        return self.desc.block.access == "strided"

    @property
    def promised(self) -> bool:
        """Whether it is in bounds, as the author may assert (``boundary_check = false``)."""
        return self.in_bounds or not self.desc.block.boundary_check

    def function(self, kind: str) -> str:
        """Name of the function that loads or stores the piece."""
        lanes, access = self.lanes, self.desc.block.access + ("_promised" if self.promised else "")
        return (f"{kind}_{self.desc.dtype}_{self.shape[0]}x{self.shape[1]}_{access}"
                f"_lanes_{lanes.wi_layout[0]}x{lanes.wi_layout[1]}_each_{lanes.wi_data[0]}x{lanes.wi_data[1]}")

    def is_inside(self) -> str:
        """C condition: entirely in bounds."""
        rows, columns = self.shape
        return f"y >= 0 && x >= 0 && y <= height - {rows} && x <= width - {columns}"

    def touches(self) -> str:
        """C condition: partly in bounds; false for an array without elements."""
        rows, columns = self.shape
        return f"y > -{rows} && x > -{columns} && max(y, 0) < height && max(x, 0) < width"

    def has_element(self, word: int | None = 0) -> str:
        """C condition: the first element of a lane's word is in bounds."""
        row, column = self.coordinates(word)[0]
        return f"(uint)({row}) < (uint)height && (uint)({column}) < (uint)width"

    @property
    def masked_element(self) -> tuple[str, str]:
        """C condition that a lane's element of a slice of one row is in bounds, behind ``COLUMNS_OF_ROW``; lvalue.

        The lane is added to a pointer: of a column that is known to be no negative ``int``, CPUs' compilers lose
        that those of the lanes follow each other, and gather them.
        """
        return "(uint)column < columns", f"(base + y * (long)pitch + {self.across('x')})[{self.across('lane')}]"

    @property
    def by_row(self) -> str:
        """Lvalue of a lane's first element, if it is in bounds, by a pointer to its row that blocks side by side share.

        A column in bounds is not negative, so that its distance is 32-bit arithmetic but for the last addition.
        """
        row, _ = _first_element(self.lanes)
        down = "" if row == "0" else f" + ({row}) * (long)pitch"
        return f"(base + y * (long)pitch{down})[{self.across('column') if self.strided else '(uint)column'}]"

    def across(self, column: str) -> str:
        """C expression of the elements of memory that columns take."""
        return f"({column}) * (long)step" if self.strided else column

    def coordinates(self, word: int | None = None) -> list[tuple[str, str]]:
        """Row and column expressions of each element of a lane's word ``i``, or of word ``word``."""
        lanes = self.lanes
        words, side, (height, width) = self.shape[1] // lanes.wi_data[1], lanes.wi_layout[1], lanes.wi_data
        if word is None:
            steps, across = words // side, lanes.lanes // side
            down = _times("i" if steps == 1 else f"i / {steps}", across * height)
            right = "0" if steps == 1 else f"i % {steps} * {side * width}"
        else:
            down, right = map(str, self.displacement(word))
        return [(_plus(_plus("row", down), str(e // self.lanes.wi_data[1])),
                 _plus(_plus("column", right), str(e % self.lanes.wi_data[1]))) for e in range(self.lanes.per_lane)]

    def displacement(self, word: int) -> tuple[int, int]:
        """Rows and columns from a lane's first word to word ``word``."""
        height, width = self.lanes.wi_data
        right, down = component_offset(word, self.shape[1] // width, self.lanes.wi_layout[1], self.lanes.lanes)
        return down * height, right * width

    def unchecked(self, row: str, column: str) -> str:
        """Lvalue of the element at ``row``, ``column``, without bounds check."""
        return f"base[({row}) * (long)pitch + {self.across(column)}]"


@dataclass(frozen=True)
class WholeBlock(BlockSlice):
    """Footprint of a descriptor; its array blocks lie side by side."""

    @cached_property
    def words(self) -> list[list[tuple[int, int]]]:
        """(row, column) of the elements of each word of a fragment, on lane 0."""
        rows, columns = self.desc.shape
        row, column = lane_map.positions((rows, columns), self.lanes)
        return [[(int(row[0, unit, e]), int(column[0, unit, e]) + block * columns) for e in range(self.lanes.per_lane)]
                for block in range(self.desc.block.array_length) for unit in range(row.shape[1])]

    @property
    def row_bits(self) -> int:
        """Bits per lane of one row of a unit; 0 if no block read has this layout."""
        bits = self.lanes.wi_data[1] * self.desc.dtype.bits
        spread = self.lanes.wi_layout == (1, self.subgroup)
        return bits if spread and bits in BLOCK_READS and not self.strided else 0

    def function(self, kind: str) -> str:
        """Name of the function that loads or stores the block, different from that of a piece."""
        return super().function(f"{kind}_block")

    def is_contiguous(self, pitch: str) -> bool:
        """Whether its rows are known to lie behind each other, none of which a 1D block message would skip."""
        return bool(self.row_bits) and pitch == str(self.shape[1])

    def pieces(self, width: int) -> list[BlockSlice]:
        """Split of the block into pieces, for variables of ``width`` words.

        Raises:
            TargetError: a variable has parts of rows, which are no piece.
        """
        units = self.desc.shape[1] // self.lanes.unit[1]
        across = min(units, width)
        if width % across or units % across:
            raise TargetError("XT9400", f"blocks of {self.desc.shape[1]} columns cannot be read element by element",
                              f"make the columns of inner_blocks a power of two times {self.lanes.unit[1]}")
        shape = (width // across * self.lanes.unit[0], across * self.lanes.unit[1])
        return [BlockSlice(self.desc, self.words[start][0], shape, self.subgroup)
                for start in range(0, len(self.words), width)]


def position(lanes: LaneMap, subgroup: int) -> list[str]:
    """Declarations of row and column of a lane's first element; a map of fewer lanes repeats over the subgroup."""
    row, column = _first_element(lanes)
    return [f"const int lane = get_sub_group_local_id(){f' % {lanes.lanes}' if lanes.lanes < subgroup else ''};",
            f"const int row = {_plus('y', row)}, column = {_plus('x', column)};"]


def _first_element(lanes: LaneMap) -> tuple[str, str]:
    """Row and column expressions of a lane's first element in a block."""
    rows, columns = lanes.wi_layout
    row = "0" if rows == 1 else f"lane / {columns}" if columns > 1 else "lane"
    column = "0" if columns == 1 else f"lane % {columns}" if rows > 1 else "lane"
    return _times(row, lanes.wi_data[0]), _times(column, lanes.wi_data[1])


def block_of(emitter: Emitter, desc: TensorDesc) -> WholeBlock:
    """Footprint of a descriptor in the kernel's subgroup."""
    return WholeBlock(desc, (0, 0), (desc.shape[0], desc.shape[1] * desc.block.array_length), emitter.subgroup)


def _times(expression: str, factor: int) -> str:
    """A C expression multiplied by a constant; 0 and a factor of 1 leave no product."""
    if expression == "0" or factor == 1:
        return expression
    return f"({expression}) * {factor}"


def _plus(first: str, second: str) -> str:
    return first if second == "0" else second if first == "0" else f"{first} + {second}"
