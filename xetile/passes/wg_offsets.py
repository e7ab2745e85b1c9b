"""Offsets of a subgroup's blocks in a work-group's tile: the index arithmetic of ``wg_map`` (XeTile.md, ``wg_map``)."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, gpu
from xdsl.ir import SSAValue

from xegpu.rewrite.rewriter import Rewriter
from xetile.dialect import tile_ops
from xetile.dialect.wg_map import Pair, WgMap


@dataclass(frozen=True)
class Distributed:
    """Encoding of a value that is distributed over the subgroups of a work-group.

    Attributes:
        wg_map: the map.
        shape: of the work-group's value.
        transposed: whether it is distributed as its transpose: ``wg_map`` and ``shape`` are those of the transpose, and
            each part is a block of it, not yet transposed.
    """

    wg_map: WgMap
    shape: Pair
    transposed: bool = False

    def __str__(self) -> str:
        return f"{self.wg_map} of {tile_ops.text(self.shape)}"

    @property
    def rounds(self) -> list[Pair]:
        """The rounds of the round-robin distribution, in the order of a subgroup's blocks."""
        return list(self.wg_map.blocks(self.shape))

    def owners(self, axis: int) -> int:
        """Subgroups along ``axis`` with distinct blocks; the others have copies of these."""
        return min(self.wg_map.sg_layout[axis], self.shape[axis] // self.wg_map.sg_data[axis])

    def block_origins(self) -> list[list[Pair]]:
        """Origins of the blocks of each subgroup, by its linear id, in the order of its rounds."""
        map_, (height, width) = self.wg_map, self.shape
        return [[(map_.offset(0, linear // map_.sg_layout[1], i, height),
                  map_.offset(1, linear % map_.sg_layout[1], j, width)) for i, j in self.rounds]
                for linear in range(map_.subgroups)]


def local_blocks(present: list[list[Pair]], required: list[list[Pair]]) -> list[int] | None:
    """Positions of the required blocks among each subgroup's own, the same for every subgroup; None if one lacks them.

    Args:
        present: for each subgroup the origins of its blocks.
        required: for each subgroup the origins of the blocks that it needs.
    """
    positions = []
    for origins in zip(*required, strict=True):
        found = {own.index(origin) if origin in own else None for own, origin in zip(present, origins, strict=True)}
        position = found.pop()
        if found or position is None:
            return None
        positions.append(position)
    return positions


def coordinate(rewriter: Rewriter, layout: Pair, axis: int) -> SSAValue:
    """Row or column of this subgroup in ``layout``; linear ids run row-major."""
    if layout == (1, 1):
        return rewriter.constant(0)
    linear = rewriter.shared("subgroup", lambda: rewriter.emit(gpu.SubgroupIdOp()))  # type: ignore[no-untyped-call]
    linear.name_hint = "subgroup"
    rows, columns = layout
    if columns == 1:
        return linear if axis == 0 else rewriter.constant(0)
    if rows == 1:
        return linear if axis == 1 else rewriter.constant(0)
    if axis == 0:
        return rewriter.index(arith.FloorDivSIOp, linear, rewriter.constant(columns))
    return modulo(rewriter, linear, columns)


def modulo(rewriter: Rewriter, value: SSAValue, size: int) -> SSAValue:
    """``value`` modulo a positive constant; ``value`` is not negative."""
    if size == 1:
        return rewriter.constant(0)
    if size & (size - 1) == 0:
        return rewriter.index(arith.AndIOp, value, rewriter.constant(size - 1))
    multiple = rewriter.index(arith.MuliOp, rewriter.index(arith.FloorDivSIOp, value, rewriter.constant(size)),
                           rewriter.constant(size))
    return rewriter.index(arith.SubiOp, value, multiple)


def owner(rewriter: Rewriter, form: Distributed, axis: int) -> SSAValue:
    """The index, among the owners along ``axis``, of this subgroup or of the one whose blocks it copies."""
    subgroup = coordinate(rewriter, form.wg_map.sg_layout, axis)
    count = form.owners(axis)
    return modulo(rewriter, subgroup, count) if count < form.wg_map.sg_layout[axis] else subgroup


def offset(rewriter: Rewriter, form: Distributed, axis: int, round_: int) -> SSAValue:
    """Offset along ``axis`` of this subgroup's block of a round: ((round * layout + s) * data) mod size."""
    layout, data = form.wg_map.sg_layout[axis], form.wg_map.sg_data[axis]
    start = rewriter.index(arith.MuliOp, owner(rewriter, form, axis), rewriter.constant(data))
    return rewriter.add(start, round_ * layout * data)
