"""SVG pictures of layouts: blocks of a tile by subgroup, elements of a block by lane."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from xegpu.dialect.dpas import ProductOp
from xegpu.ir.dtypes import of_mlir
from xegpu.layout import lane_map
from xegpu.layout.lane_map import LaneMap
from xegpu.mlir.vector import shape_of
from xetile.dialect.tile_ops import InitTileOp, tile_of
from xetile.dialect.wg_map import WgMap

_SIDE = 420
"""Pixels of the longer side of a picture of a tile."""
_CELL = (26, 18)
"""Pixels of an element in a picture of a block."""


def hue(number: int, count: int) -> str:
    """Colour of one of ``count`` items; neighbours differ."""
    return f"hsl({(number * 360 * 0.618) % 360:.0f} 60% {72 + 10 * (number % 2 if count > 1 else 0)}%)"


def work_group(title: str, map_: WgMap, shape: tuple[int, int]) -> str:
    """Picture of a work-group map: each block with the linear ids of the subgroups that own it.

    Args:
        title: the caption.
        map_: the map.
        shape: rows and columns of the tile.
    """
    owners = map_.owners(shape)
    (rows, columns), (height, width) = shape, map_.sg_data
    scale = _SIDE / max(rows, columns)
    across, down = columns * scale, max(rows * scale, 40)
    vertical = down / rows
    parts = []
    for (row, column), holders in owners.items():
        x, y, w, h = column * scale, row * vertical, width * scale, height * vertical
        text = _numbers(holders)
        parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" fill="'
                     f'{hue(holders[0], map_.subgroups)}" stroke="#555"><title>rows {row} to {row + height - 1}, '
                     f'columns {column} to {column + width - 1}: subgroup {text}</title></rect>')
        if w > 5 * len(text) and h > 10:
            parts.append(f'<text x="{x + w / 2:.1f}" y="{y + h / 2 + 4:.1f}">{text}</text>')
    note = f"{rows} x {columns}, {map_}"
    return _picture(title, note, across, down, parts)


def _numbers(holders: Sequence[int]) -> str:
    steps = {b - a for a, b in pairwise(holders)}
    if len(holders) > 3 and len(steps) == 1:
        return f"{holders[0]}, {holders[1]} ... {holders[-1]}"
    return ", ".join(map(str, holders))


def block(title: str, lanes: LaneMap, shape: tuple[int, int]) -> str:
    """Picture of a lane layout: each element with its lane and its index there.

    Args:
        title: the caption.
        lanes: the map.
        shape: rows and columns of the block.
    """
    row, column = np.indices(shape)
    lane, number = lane_map.holder(shape, lanes, row, column)
    width, height = _CELL
    parts = []
    for r in range(shape[0]):
        for c in range(shape[1]):
            which, at = int(lane[r, c]), int(number[r, c])
            parts.append(f'<rect x="{c * width}" y="{r * height}" width="{width}" height="{height}" fill="'
                         f'{hue(which, lanes.lanes)}" stroke="#999"><title>row {r}, column {c}: lane {which}, element '
                         f'{at}</title></rect><text x="{c * width + width / 2}" y="{r * height + 13}">{which}.{at}'
                         "</text>")
    fragment = lanes.fragment(shape)
    note = (f"{shape[0]} x {shape[1]}, wi_layout {list(lanes.wi_layout)}, wi_data {list(lanes.wi_data)}: "
            f"lane.element, {fragment[0]} x {fragment[1]} a lane")
    return _picture(title, note, shape[1] * width, shape[0] * height, parts)


def of_tiles(module: ModuleOp) -> list[str]:
    """Picture for each type of tile that a kernel distributes to its subgroups."""
    seen: dict[tuple[tuple[int, int], WgMap], list[str]] = {}
    for operation in module.walk():
        if isinstance(operation, InitTileOp):
            tile = tile_of(operation.result)
            if tile.encoding.wg_map is not None:
                names = seen.setdefault((tile.shape, tile.encoding.wg_map), [])
                names.append(operation.result.name_hint or str(tile.dtype))
    return [work_group("tile " + ", ".join(dict.fromkeys(names)), map_, shape)
            for (shape, map_), names in seen.items()]


def of_products(module: ModuleOp) -> list[str]:
    """Pictures of the operand blocks of products, and of the blocks of other loads and stores."""
    found: dict[str, str] = {}
    for operation in module.walk():
        if isinstance(operation, ProductOp) and operation.maps is not None:
            a, b, c = operation.maps
            dtype = of_mlir(operation.a.type.element_type)  # type: ignore[attr-defined]
            fragments = [shape_of(value) for value in (operation.a, operation.b, operation.result)]
            names = f"A, {dtype}", f"B, {dtype}{' in VNNI form' if b.per_lane > 1 else ''}", "accumulator"
            rows, columns = c.block((fragments[2][0], fragments[2][1]), _columns(c))
            depth = fragments[0][0] * fragments[0][1] * a.lanes // rows
            for name, lanes, shape in zip(names, (a, b, c), ((rows, depth), (depth, columns), (rows, columns)),
                                          strict=True):
                found.setdefault(f"{name} {lanes} {shape}", block(name, lanes, shape))
    return list(found.values())


def _columns(lanes: LaneMap) -> int:
    return lanes.unit[1]


def _picture(title: str, note: str, width: float, height: float, parts: Sequence[str]) -> str:
    return (f'<figure><figcaption><b>{escape(title)}</b><br>{escape(note)}</figcaption>'
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + 2:.0f}" height="{height + 2:.0f}" '
            f'viewBox="-1 -1 {width + 2:.1f} {height + 2:.1f}">{"".join(parts)}</svg></figure>')
