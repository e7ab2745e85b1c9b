"""Layouts of vectors: ``tile_pack``, ``tile_unpack``, ``wg_map`` and ``tile_transpose``."""

from __future__ import annotations

from typing import Any

from xegpu.support.errors import ShapeError, error_parts
from xetile.compiler.arguments import AtTheCall
from xetile.dialect.tile_ops import check_blocks as check_divided
from xetile.dialect.tile_ops import not_blocks
from xetile.dialect.vector import TilePackOp, TileTransposeOp, TileUnpackOp
from xetile.dialect.wg_map import Pair, WgMap
from xetile.frontend.constants import python_number
from xetile.frontend.notes import at_author_line, notes
from xetile.frontend.ssa_value import Value
from xetile.frontend.tracer import current, is_recording
from xetile.frontend.values import Vector
from xetile.lang.checks import check_has_map, check_map, check_operand


def tile_pack(v: Vector, inner_blocks: Pair) -> Vector:
    """Pack a vector into blocks (``tile_pack``): rows x columns to [rows / r, columns / c, r, c].

    Args:
        v: rows x columns.
        inner_blocks: rows and columns of a block, ``(r, c)``.

    Raises:
        ElementTypeError: ``v`` is no vector.
        ShapeError: it is in blocks already, or the blocks do not divide it.
    """
    check_operand(v, Vector, "tile_pack")
    location = current().location()
    if len(v.shape) != 2:
        raise ShapeError("XT1230", f"tile_pack takes a vector of two dimensions, not a {v.describe()}",
                         "unpack it first: xt.tile_unpack(v)", location, notes(location, it=v))
    rows, columns = check_blocks(inner_blocks, (v.shape[0], v.shape[1]), v.describe(), v.wg_map)
    return Vector(current().emit(TilePackOp(v.ssa, (rows, columns))), v.wg_map)


def tile_unpack(v: Vector) -> Vector:
    """Unpack a blocked vector to rows x columns (``tile_unpack``).

    Raises:
        ElementTypeError: ``v`` is no vector.
        ShapeError: it is not in blocks.
    """
    check_operand(v, Vector, "tile_unpack")
    location = current().location()
    if len(v.shape) != 4:
        raise ShapeError("XT1231", f"tile_unpack takes a vector of four dimensions, not a {v.describe()}",
                         "it is not blocked, so leave out the tile_unpack; tile_pack and tiles with inner_blocks give "
                         "vectors in blocks", location, notes(location, it=v))
    return Vector(current().emit(TileUnpackOp(v.ssa)), v.wg_map)


def check_blocks(blocks: Any, shape: Pair, what: str, wg_map: WgMap | None = None) -> Pair:
    """Check ``inner_blocks`` against a shape: (rows, columns) of a block.

    Raises:
        ShapeError: not two positive integers, or they do not divide ``shape`` or the subgroup's part of it.
    """
    sizes = [python_number(size) for size in blocks] if isinstance(blocks, (tuple, list)) else []
    if len(sizes) != 2 or not all(type(size) is int and size > 0 for size in sizes):
        raise ShapeError(*error_parts(not_blocks(_describe_blocks(blocks))), current().location())
    at_author_line(lambda: check_divided(sizes, what, shape, shape if wg_map is None else wg_map.sg_data))
    return sizes[0], sizes[1]


def _describe_blocks(blocks: Any) -> str:
    """Description of ``inner_blocks`` in an error message."""
    if isinstance(blocks, (tuple, list)) and (traced := [size for size in blocks if isinstance(size, Value)]):
        return f"a {traced[0].describe()} among them"
    return f"{blocks!r:.40}"


def wg_map(sg_layout: tuple[int, int], sg_data: tuple[int, int]) -> WgMap:
    """Work-group map: how a tile is distributed to the subgroups (``xetile.wg_map``). It can be made outside kernels
    too.

    Args:
        sg_layout: subgroups along rows and columns.
        sg_data: rows and columns of the block that one subgroup takes at a time.

    Raises:
        ShapeError: not two positive integers each.
    """
    if is_recording():
        return at_author_line(lambda: WgMap(sg_layout, sg_data))  # type: ignore[no-any-return]
    with AtTheCall():
        return WgMap(sg_layout, sg_data)


def tile_transpose(v: Vector, *, wg_map: WgMap | None = None) -> Vector:
    """Transpose of a vector (``tile_transpose``).

    The transpose of a loaded vector costs nothing where the target has transposing loads and the vector has no other
    use. Computed vectors are transposed in registers.

    Args:
        v: rows x columns.
        wg_map: distribution of the result; by default that of ``v`` with both dimensions of ``sg_layout`` and
            ``sg_data`` exchanged.

    Raises:
        ShapeError: the map does not distribute the result, or ``v`` has none.
    """
    check_operand(v, Vector, "tile_transpose")
    check_has_map(v, wg_map, "tile_transpose")
    result = wg_map or (v.wg_map and v.wg_map.transposed())
    check_map(result, (v.shape[1], v.shape[0]))
    return Vector(current().emit(TileTransposeOp(v.ssa, result)), result)
