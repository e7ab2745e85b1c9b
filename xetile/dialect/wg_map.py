"""Work-group maps: distribution of a tile to subgroups (XeTile.md, "Workgroup Level XeTile extension")."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd
from numbers import Integral
from typing import SupportsIndex

from xegpu.support.errors import ShapeError

Pair = tuple[int, int]


def _integer_pair(value: object, name: str) -> Pair:
    """Two positive integers, checked."""
    pair = tuple(value) if isinstance(value, (tuple, list)) else ()
    counts = [operator.index(v) for v in pair if isinstance(v, SupportsIndex) and _is_number(v)]
    one = value if type(value) is int and value > 0 else 0
    example = (8, 4) if not one else (1, one) if name == "sg_layout" else (one, one)
    if len(pair) != 2 or len(counts) != 2 or min(counts) <= 0:
        raise ShapeError("XT1151", f"{name} must be two positive integers, not {value!r}",
                         f"give rows and columns, for example {name}={example}")
    return counts[0], counts[1]


def describe_map(wg_map: WgMap | None) -> str:
    """Description of a distribution: ``distributed as wg_map(...)``."""
    return "not distributed" if wg_map is None else f"distributed as {wg_map}"


def _is_number(value: object) -> bool:
    """Whether a value is an integer and no bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)


@dataclass(frozen=True)
class WgMap:
    """Work-group map: ``#xetile.wg_map<sg_layout = [8, 4], sg_data = [32, 64]>``.

    A tile is distributed to the subgroups in round-robin fashion, one ``sg_data`` block at a time. Where the blocks run
    out before the subgroups do, the distribution wraps around and subgroups share data; where subgroups run out first,
    further rounds follow and each subgroup owns several blocks.

    Attributes:
        sg_layout: subgroups along rows and columns; linear ids run row-major.
        sg_data: rows and columns of one block.
    """

    sg_layout: Pair
    sg_data: Pair

    def __post_init__(self) -> None:
        object.__setattr__(self, "sg_layout", _integer_pair(self.sg_layout, "sg_layout"))
        object.__setattr__(self, "sg_data", _integer_pair(self.sg_data, "sg_data"))

    def __str__(self) -> str:
        return f"wg_map(sg_layout={list(self.sg_layout)}, sg_data={list(self.sg_data)})"

    @property
    def subgroups(self) -> int:
        """Number of subgroups of the work-group."""
        return self.sg_layout[0] * self.sg_layout[1]

    def check(self, shape: tuple[int, ...]) -> None:
        """Check that a tile of ``shape`` is distributed evenly.

        Raises:
            ShapeError: a dimension is neither a multiple nor a divisor of ``sg_layout * sg_data``, or a block does not
                divide the tile.
        """
        if len(shape) != 2:
            raise ShapeError("XT1152",
                             f"a wg_map distributes two dimensions, not {len(shape)}", "give a shape of rows and "
                             "columns")
        for axis, name in enumerate(("rows", "columns")):
            size, data, reach = shape[axis], self.sg_data[axis], self.sg_layout[axis] * self.sg_data[axis]
            if size % data or (size % reach and reach % size):
                layout = self.sg_layout[axis]
                even = size // layout if size % layout == 0 else size
                raise ShapeError("XT1153",
                    f"{self} does not distribute a tile of {shape[0]}x{shape[1]}: its {size} {name} are neither a "
                    f"multiple nor a divisor of sg_layout x sg_data = {layout} x {data} = {reach}"
                    if not size % data else
                    f"{self} does not distribute a tile of {shape[0]}x{shape[1]}: blocks of {data} {name} do not "
                    f"divide {size}",
                    f"sg_data[{axis}] = {even} gives each of the {layout} subgroups along that dimension "
                    + ("one block" if even != size else "the same whole dimension"),
                )

    def replicates(self, shape: Pair) -> bool:
        """Whether several subgroups own the same block of a tile."""
        return any(layout * data > size for layout, data, size in
                   zip(self.sg_layout, self.sg_data, shape, strict=True))

    def rounds(self, shape: Pair) -> Pair:
        """Number of blocks that one subgroup owns along rows and columns."""
        rows, columns = (max(size // (layout * data), 1)
                         for size, layout, data in zip(shape, self.sg_layout, self.sg_data, strict=True))
        return rows, columns

    def blocks(self, shape: Pair) -> Iterator[Pair]:
        """Rounds of the distribution, row-major."""
        rows, columns = self.rounds(shape)
        return product(range(rows), range(columns))

    def offset(self, axis: int, subgroup: int, round_: int, size: int) -> int:
        """Offset along ``axis`` of a subgroup's block in a round, for a tile of ``size``."""
        return (round_ * self.sg_layout[axis] + subgroup) * self.sg_data[axis] % size

    def owners(self, shape: Pair) -> dict[Pair, list[int]]:
        """Linear ids of the subgroups that own each block, by the block's origin (XeTile.md's 128x128 table)."""
        self.check(shape)
        table: dict[Pair, list[int]] = {}
        for round_ in self.blocks(shape):
            for linear in range(self.subgroups):
                subgroup = divmod(linear, self.sg_layout[1])
                origin = tuple(self.offset(axis, subgroup[axis], round_[axis], shape[axis]) for axis in (0, 1))
                owners = table.setdefault((origin[0], origin[1]), [])
                if linear not in owners:
                    owners.append(linear)
        return dict(sorted(table.items()))

    def collapsed(self, axes: Collection[int]) -> WgMap:
        """Map of a vector reduced along ``axes``: the same subgroups, blocks of one element along these."""
        rows, columns = (1 if axis in axes else data for axis, data in enumerate(self.sg_data))
        return WgMap(self.sg_layout, (rows, columns))

    def split(self, factor: int) -> WgMap:
        """Map of a vector of which each row became ``factor`` rows."""
        return WgMap(self.sg_layout, (self.sg_data[0] * factor, self.sg_data[1]))

    def transposed(self) -> WgMap:
        """Map of the transposed vector: both dimensions of ``sg_layout`` and ``sg_data`` exchanged."""
        return WgMap(self.sg_layout[::-1], self.sg_data[::-1])

    def is_undivided(self, axis: int, size: int) -> bool:
        """Whether every subgroup owns all of a dimension of ``size``."""
        return self.sg_data[axis] == size or self.sg_layout[axis] == 1

    def sliced(self, shape: Sequence[int], sizes: Sequence[int]) -> WgMap | None:
        """Map of a slice of ``sizes`` of a vector of ``shape``, or of a vector of ``sizes`` with such a slice.

        None if blocks end within a sliced dimension: each subgroup must have all of it in one block.
        """
        data = list(self.sg_data)
        for axis, (whole, part) in enumerate(zip(shape, sizes, strict=True)):
            if whole != part:
                if data[axis] != whole:
                    return None
                data[axis] = part
        return WgMap(self.sg_layout, (data[0], data[1]))

    def slice(self, shape: Sequence[int], sizes: Sequence[int]) -> WgMap:
        """Map of a slice, as :meth:`sliced`.

        Raises:
            ShapeError: blocks end within a sliced dimension.
        """
        if (found := self.sliced(shape, sizes)) is not None:
            return found
        axis = next(axis for axis in (0, 1) if shape[axis] != sizes[axis])
        raise ShapeError("XT1418", f"the vector is distributed over subgroups, as {self}, and the slice is a part of "
                         f"its {('rows', 'columns')[axis]}", "slices are taken of dimensions that each subgroup has in "
                         f"one block: xt.tile_conv_layout(v, xt.{self.undivided(axis, shape)})")

    def undivided(self, axis: int, shape: Sequence[int]) -> WgMap:
        """Map for as many subgroups in which each has all of a dimension; this map if it is one."""
        if self.sg_data[axis] == shape[axis]:
            return self
        other = shape[1 - axis] // gcd(shape[1 - axis], self.subgroups)
        return WgMap((self.subgroups, 1), (other, shape[1])) if axis == 1 else \
            WgMap((1, self.subgroups), (shape[0], other))
