"""Access of a block in shared local memory (SLM): where its elements lie in the panels of its array."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Any

import numpy as np
from xdsl.dialects.memref import AllocOp
from xdsl.ir import SSAValue

from codegen.opencl.emitter import Emitter, wrapping
from codegen.opencl.values import Descriptor, Fragment
from xegpu.analysis.dataflow.divisibility import multiple_of
from xegpu.analysis.memory_access import geometry
from xegpu.analysis.slm import panels_of
from xegpu.dialect.block_io import CreateNdTdescOp, desc_of
from xegpu.ir.use_def import array_of, root_definitions
from xegpu.layout import lane_map
from xegpu.layout.slm_panels import Panels, Run, runs

LINE = 64
"""Bytes that arrays in SLM are aligned to."""


@dataclass(frozen=True)
class SlmAccess:
    """Access of a load or store: footprint, panels of its array, alignment, and runs of contiguous words.

    Attributes:
        operand: the descriptor.
        fragment: the variables that are loaded or stored.
        subgroup: lanes of the subgroup, over which a map of fewer lanes repeats.
    """

    operand: SSAValue
    fragment: Fragment
    subgroup: int

    @cached_property
    def desc(self) -> Any:
        """The descriptor's parameters."""
        return desc_of(self.operand)

    @cached_property
    def maker(self) -> CreateNdTdescOp:
        """Operation that creates the descriptor; one of several that are equal."""
        owner = next(iter(root_definitions(self.operand))).owner
        assert isinstance(owner, CreateNdTdescOp)
        return owner

    @cached_property
    def panels(self) -> Panels:
        """Panel layout of the matrix in SLM."""
        owner = array_of(self.maker.source).owner
        assert isinstance(owner, AllocOp)
        return panels_of(owner)

    @cached_property
    def form(self) -> str:
        """Relation of the descriptor's dimensions to the array's: own, exchanged or other."""
        return geometry(self.maker)

    @property
    def size(self) -> int:
        """Element size in bytes."""
        return int(self.desc.dtype.bytes)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the footprint; array blocks lie side by side."""
        return self.desc.shape[0], self.desc.shape[1] * self.desc.block.array_length

    @property
    def label(self) -> str:
        """Suffix that makes the access function's name unique."""
        lanes, panels = self.desc.sg_map, self.panels
        return (f"{self.desc.dtype}_{self.shape[0]}x{self.shape[1]}_{self.desc.block.array_length}_of_{panels.height}x"
                f"{panels.width}_panels_{panels.label}_{self.form}"
                f"_lanes_{lanes.wi_layout[0]}x{lanes.wi_layout[1]}_each_{lanes.wi_data[0]}x{lanes.wi_data[1]}"
                f"_by_{self.aligned}{'_in' if self.in_panel else ''}"
                f"{'' if self.desc.block.boundary_check else '_inside'}")

    def where(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Row and column in the block of each element of the fragment, as arrays ``[lanes, elements]``."""
        rows, columns = self.desc.shape
        row, column = lane_map.positions((rows, columns), self.desc.sg_map)
        blocks = range(self.desc.block.array_length)
        flat = [array.reshape(array.shape[0], -1) for array in (row, column)]
        return np.hstack([flat[0] for _ in blocks]), np.hstack([flat[1] + block * columns for block in blocks])

    @cached_property
    def multiples(self) -> tuple[int, int]:
        """Known divisors of the descriptor's row and column offsets; 0 for the offset 0."""
        row, column = multiple_of(self.operand, axis=-2), multiple_of(self.operand, axis=-1)
        return (row, column) if self.form == "own" else (column, row)

    @cached_property
    def aligned(self) -> int:
        """Known alignment of the descriptor's first element in bytes; 0 if it may straddle panels."""
        if self.form == "other" or (not self.in_panel and any(
                multiple % unit for multiple, unit in zip(self.multiples, self.panels.unit, strict=True))):
            return 0
        row, column = self.panels.weights
        weights = [multiple * weight * self.size for multiple, weight in zip(
            self.multiples, (row, self.panels.rows if self.in_panel else column), strict=True)]
        return gcd(LINE, *weights, self.panels.height * self.panels.width * self.size)

    @cached_property
    def in_panel(self) -> bool:
        """Whether the block begins in the midst of a panel, and ends there."""
        (row, column), (rows, columns), width = self.multiples, self.panels.unit, self.shape[1]
        return self.form == "own" and not self.panels.is_row_major and row % rows == 0 and \
            column % columns != 0 and column % width == 0 and columns % width == 0

    @cached_property
    def runs(self) -> list[Run]:
        """Runs of contiguous words, one message each; empty if it is accessed element-wise."""
        if not self.aligned or self.repeats:
            return []
        row, column = self.where() if self.form == "own" else self.where()[::-1]
        found = runs(self.panels.position(row, column), self.size, self.aligned)
        return found if all(run.together for run in found) or self.lane_terms is not None else []

    @property
    def repeats(self) -> bool:
        """Whether lanes hold replicated elements."""
        return bool(self.desc.sg_map.lanes < self.subgroup)

    @cached_property
    def lane_terms(self) -> list[tuple[str, int]] | None:
        """Offset of a lane's first element from lane 0's, a sum: quotients of the lane's number, each with its weight;
        None where there is no such sum."""
        row, column = self.where() if self.form == "own" else self.where()[::-1]
        begins, across = self.panels.position(row, column)[:, 0], self.desc.sg_map.wi_layout[1]
        begins, lane = begins - begins[0], "(int)get_sub_group_local_id()"
        down, right = begins[::across], begins[:across]
        if not np.array_equal(np.add.outer(down, right).ravel(), begins):
            return None
        rows = _quotients(down, lane if across == 1 else f"{lane} / {across}")
        whole = across == len(begins) and self.panels.slab  # else a remainder spares instructions, whatever it is of
        columns = _quotients(right, lane if whole else f"{lane} % {across}")
        return None if rows is None or columns is None else rows + columns

    def start(self, row: str = "y", column: str = "x") -> str:
        """Offset expression of the block's first element."""
        y, x = (row, column) if self.form == "own" else (column, row)
        if self.in_panel:
            (_, columns), (down, across) = self.panels.unit, self.panels.weights
            return f"{_times(y, down)} + {x} / {columns} * {columns * across} + {x} % {columns} * {self.panels.rows}"
        return " + ".join(_times(name, weight) for name, weight in zip((y, x), self.panels.weights, strict=True))

    def position(self, row: str, column: str) -> str:
        """Offset expression of an element of the matrix."""
        if self.form == "other":
            return f"({row}) * pitch + ({column}) * step"
        down, across = (row, column) if self.form == "own" else (column, row)
        panels, slab = self.panels, self.panels.slab
        if not slab:
            return f"slm_position({down}, {across}, {panels.height}, {panels.rows}, {panels.columns})"
        return (f"({down}) / {slab} * {slab * panels.width} + "
                f"slm_position(({down}) % {slab}, {across}, {slab}, {panels.rows}, {panels.columns})")

    def call(self, emitter: Emitter) -> str:
        """Arguments of the access function: the matrix and the block's offsets."""
        desc: Descriptor = emitter.values[self.operand]
        return (f"{desc.array.name}, {desc.height}, {desc.width}, {desc.pitch}, {desc.step}, "
                f"{wrapping(desc.row)}, {wrapping(desc.column)}")

    def is_inside(self) -> str:
        """C condition: entirely in bounds; empty if that is known statically."""
        if not self.desc.block.boundary_check:
            return ""
        return f"y >= 0 && x >= 0 && y <= height - {self.shape[0]} && x <= width - {self.shape[1]}"

    def lane_offset(self) -> str:
        """Offset of a lane's first element from lane 0's."""
        assert self.lane_terms is not None
        return " + ".join(f"{quotient} * {weight}" for quotient, weight in self.lane_terms) or "0"

    def is_aligned(self, run: Run) -> bool:
        """Whether a run's words are naturally aligned on every lane."""
        assert self.lane_terms is not None
        weights = [weight for _, weight in self.lane_terms]
        offsets = (self.aligned, *(size * self.size for size in (run.start, *weights)))
        return not any(offset % (len(run.words) * run.elements * self.size) for offset in offsets)


def _times(name: str, weight: int) -> str:
    return name if weight == 1 else f"{name} * {weight}"


def _quotients(offsets: np.ndarray[Any, Any], number: str) -> list[tuple[str, int]] | None:
    """Offsets, of which the first is 0, as a sum of quotients of their number by powers of two, each with its weight;
    None where there is no such sum."""
    values = count = len(offsets)
    if not offsets.any():
        return []
    while values > 2 and not np.array_equal(offsets[:values], offsets[1] * np.arange(values)):
        values = max(values // 2, 2)
    weight = int(offsets[1])
    rest = offsets - weight * np.arange(count)
    if not np.array_equal(rest, np.repeat(rest[::values], values)[:count]):
        return None
    above = _quotients(rest[::values], f"{number} / {values}")
    return None if above is None else [(number, weight), *above] if weight else above
