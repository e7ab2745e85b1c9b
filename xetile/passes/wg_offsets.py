"""Where the blocks of a work-group's tile lie: the arithmetic of a ``wg_map`` in a kernel (XeTile.md, ``wg_map``)."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, gpu
from xdsl.ir import SSAValue

from xegpu.rewrite.rewriter import Rewriter
from xetile.dialect import tile_ops
from xetile.dialect.wg_map import Pair, WgMap


@dataclass(frozen=True)
class Distributed:
    """The form of a value that was dealt out.

    Attributes:
        wg_map: by which map.
        shape: from which shape.
        turned: whether it was dealt out as what it becomes when it is transposed: ``wg_map`` and ``shape`` are those of
            the transpose, and each part is a block of that, not yet transposed.
    """

    wg_map: WgMap
    shape: Pair
    turned: bool = False

    def __str__(self) -> str:
        return f"{self.wg_map} of {tile_ops.text(self.shape)}"

    @property
    def rounds(self) -> list[Pair]:
        """The rounds of the deal, in the order of a subgroup's blocks."""
        return list(self.wg_map.blocks(self.shape))

    def owners(self, axis: int) -> int:
        """Subgroups along ``axis`` that own something of their own; the others share with one of these."""
        return min(self.wg_map.sg_layout[axis], self.shape[axis] // self.wg_map.sg_data[axis])

    def held(self) -> list[list[Pair]]:
        """For each subgroup, by its linear id, where its blocks start, in the order of its rounds."""
        map_, (height, width) = self.wg_map, self.shape
        return [[(map_.offset(0, linear // map_.sg_layout[1], i, height),
                  map_.offset(1, linear % map_.sg_layout[1], j, width)) for i, j in self.rounds]
                for linear in range(map_.subgroups)]


def choice(mine: list[list[Pair]], wanted: list[list[Pair]]) -> list[int] | None:
    """For each of the wanted blocks the position at which *every* subgroup holds it, None if one does not.

    Args:
        mine: for each subgroup the origins of the blocks that it holds.
        wanted: for each subgroup the origins of the blocks that it needs.
    """
    chosen = []
    for origins in zip(*wanted, strict=True):
        found = {held.index(origin) if origin in held else None for held, origin in zip(mine, origins, strict=True)}
        position = found.pop()
        if found or position is None:
            return None
        chosen.append(position)
    return chosen


def coordinate(rewriter: Rewriter, layout: Pair, axis: int) -> SSAValue:
    """Row or column of this subgroup in ``layout``; linear ids run row-major."""
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
    """Which of the owners along ``axis`` this subgroup is, or shares with."""
    subgroup = coordinate(rewriter, form.wg_map.sg_layout, axis)
    count = form.owners(axis)
    return modulo(rewriter, subgroup, count) if count < form.wg_map.sg_layout[axis] else subgroup


def offset(rewriter: Rewriter, form: Distributed, axis: int, round_: int) -> SSAValue:
    """Where the block of this subgroup's round starts along ``axis``: ((round * layout + s) * data) mod size."""
    layout, data = form.wg_map.sg_layout[axis], form.wg_map.sg_data[axis]
    start = rewriter.index(arith.MuliOp, owner(rewriter, form, axis), rewriter.constant(data))
    return rewriter.add(start, round_ * layout * data)
