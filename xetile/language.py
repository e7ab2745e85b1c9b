"""The functions that an author calls inside a kernel: one thin function an operation of XeTile.md."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import MemRefType, StringAttr, UnitAttr, UnrealizedConversionCastOp, VectorType
from xdsl.dialects.vector import BroadcastOp

from xegpu.ir import dtypes
from xegpu.ir.memref import ALIGNED
from xegpu.layout.iota import check_type
from xegpu.support.errors import ArgumentError, ElementTypeError, RankError, ShapeError
from xetile.addresses import memory_of, offsets_of
from xetile.arguments import AtTheCall, TypedView, check_view
from xetile.blocks import check_blocks
from xetile.caches import said
from xetile.dialect.attributes import TileEncoding, TileParameters, TileType, WgMapAttr
from xetile.dialect.ops import (
    OOB,
    InitTileOp,
    LoadTileOp,
    PrefetchTileOp,
    StoreTileOp,
    TileMmaOp,
    TileTransposeOp,
    UpdateTileOffsetOp,
    text,
)
from xetile.dialect.positions import IotaOp
from xetile.distribution import WgMap
from xetile.given import check_is_map, check_map, located, need, text_of, two_sizes
from xetile.numbers import scalar, scalar_of_element
from xetile.paddings import padding_of
from xetile.parties import notes
from xetile.products import accumulator, check_maps, check_product, derived_map, product_shape
from xetile.scattered import init_scattered, update_scattered
from xetile.stores import check_stored
from xetile.tiles import Array, Tile
from xetile.tracer import current, is_recording
from xetile.values import Scalar, Value, Vector, element_type


def wg_map(sg_layout: tuple[int, int], sg_data: tuple[int, int]) -> WgMap:
    """How a work-group's tile is dealt to its subgroups (``xetile.wg_map``); it can be made outside kernels too.

    Args:
        sg_layout: subgroups along rows and columns.
        sg_data: rows and columns of the block that one subgroup takes at a time.

    Raises:
        ShapeError: not two positive integers each.
    """
    if is_recording():
        return located(lambda: WgMap(sg_layout, sg_data))  # type: ignore[no-any-return]
    with AtTheCall():
        return WgMap(sg_layout, sg_data)


def init_tile(
    base: Array | Scalar,
    offsets: Any,
    shape: Any = None,
    *,
    order: tuple[int, int] = (1, 0),
    wg_map: WgMap | None = None,
    inner_blocks: tuple[int, int] | None = None,
    base_shape: tuple[Any, ...] | None = None,
    base_strides: tuple[Any, ...] | None = None,
    dtype: Any = None,
    aligned: bool = False,
) -> Tile:
    """A tile of ``shape`` at ``offsets`` of an array (``init_tile``); it covers the array's last two dimensions.

    With an index vector as ``offsets`` it is a scattered tile: each element lies that many elements of memory from the
    array's first one (``row * array.strides[0] + column * array.strides[1]``), and the array may have any dimensions.
    Shape and map are those of the index vector. Its base may be an address, too: a run-time i64 or u64.

    Args:
        base: an array argument of the kernel, or a view of one; an array of ``xt.alloc_slm``; or an address, a
            run-time i64 or u64, with ``base_shape``, ``base_strides`` and ``dtype``.
        offsets: row and column of the tile's first element; integers or run-time indices. An array of more than two
            dimensions is a batch of matrices: the indices of the matrix come first. Or a vector of indices.
        shape: rows and columns, compile-time integers.
        order: ``(0, 1)`` promises that the array is stored column by column, as a transposed view is; the promise is
            checked when the kernel is lowered for an array. Such arrays work without it too.
        wg_map: how a work-group's tile is dealt to the subgroups.
        inner_blocks: rows and columns of the blocks in which its vectors come: ``[rows / r, columns / c, r, c]``. A
            message moves such a block where the target has one that does.
        base_shape, base_strides: sizes and strides in elements, integers or run-time indices, that describe the memory
            from its first element on; an array has its own, and is then described anew.
        dtype: the type of the elements at an address.
        aligned: promises of memory described so that 2D block messages may reach it: it starts at a multiple of 64
            bytes, its rows (with ``base_strides=(1, pitch)`` its columns) have 64 bytes at least and a multiple of 4,
            and the pitch is a multiple of 16 bytes. NumPy checks it, devices do not.

    Raises:
        RankError: the array has less than two dimensions, or not as many as there are offsets, sizes or strides.
        ShapeError: the map does not deal out the shape, or ``order`` is none.
        ElementTypeError: ``base`` is neither an array nor an address; ``dtype`` with an array, or an address without.
    """
    tracer = current("xt.init_tile")
    if isinstance(offsets, Vector) and isinstance(base, (Array, Scalar)):
        return init_scattered(base, offsets, shape, order, wg_map, dtype, inner_blocks=inner_blocks,
                              base_shape=base_shape, base_strides=base_strides, aligned=aligned or None)
    memory = memory_of(base, base_shape, base_strides, dtype, aligned=aligned)
    rows, columns = two_sizes(shape, "a tile's shape")
    check_map(wg_map, (rows, columns))
    first = offsets_of(base, memory.rank, offsets)
    blocks = None if inner_blocks is None else check_blocks(inner_blocks, (rows, columns), "the tile", wg_map)
    parameters = TileParameters((rows, columns), memory.dtype.mlir, TileEncoding(_order(order), wg_map, blocks))
    operation = InitTileOp(memory.source, first, *memory.description(), TileType(parameters))
    if aligned:
        operation.attributes[ALIGNED] = UnitAttr()
    return Tile(tracer.emit(operation))


def _order(order: Any) -> tuple[int, int]:
    if not isinstance(order, (tuple, list)) or tuple(order) not in ((1, 0), (0, 1)):
        raise ShapeError("XT1107", f"order={text_of(order)} is no order of two dimensions",
                         "use (1, 0) for rows that are contiguous, (0, 1) for columns", current().location())
    return order[0], order[1]


def load_tile(tile: Tile, *, padding: float = 0, l1: str | None = None, l3: str | None = None,
              oob: str = "padding") -> Vector:
    """The elements of a tile; those outside the array are ``padding`` (``load_tile``).

    Args:
        tile: the tile.
        padding: a Python number, rounded to the element type. Zero costs nothing: the hardware pads with it.
        l1, l3: hints for the caches: ``"cached"``, ``"uncached"``, ``"streaming"`` or ``"read_invalidate"``.
        oob: ``"error"`` says that the whole tile lies inside the array. ``.on("numpy", check=True)`` checks it;
            elsewhere it changes nothing.

    Raises:
        ElementTypeError: ``tile`` is no tile, its element type does not hold ``padding``, or there is no such hint.
        TargetError: the target has no such combination. This is raised when the kernel is lowered for it.
    """
    need(tile, Tile, "load_tile")
    made = _promised(LoadTileOp(tile.ssa, padding_of(padding, tile.dtype)), oob, "padding")
    return Vector(current().emit(said(made, "load", l1, l3)), tile.wg_map)


def _promised(made: Any, oob: str, plainly: str) -> Any:
    """An operation on a tile, with the promise that the tile lies inside its array if it was given.

    Raises:
        ArgumentError: another word than ``"error"`` and what happens otherwise.
    """
    if oob not in ("error", plainly):
        raise ArgumentError("XT1126",
                            f"there is no oob={oob!r}", f'use oob="error" or oob="{plainly}", which is what happens '
                            "otherwise", current().location())
    if oob == "error":
        made.attributes[OOB] = StringAttr(oob)
    return made


def store_tile(value: Vector, tile: Tile, *, l1: str | None = None, l3: str | None = None, oob: str = "drop") -> None:
    """Write a vector to a tile; what falls outside the array is dropped (``store_tile``).

    Args:
        value: the vector.
        tile: where it goes.
        l1, l3: hints for the caches: ``"uncached"``, ``"write_through"``, ``"write_back"`` or ``"streaming"``.
        oob: ``"error"`` says that the whole tile lies inside the array, as for :func:`load_tile`.

    Raises:
        TargetError: the target has no such combination of hints. This is raised when the kernel is lowered for it.
        ShapeError: shape, element type or work-group map of the two differ.
    """
    if isinstance(value, Tile) and isinstance(tile, Vector):
        raise ElementTypeError("XT1120", "store_tile(value, tile) takes the value first, and is given the tile first",
                               "exchange the two: xt.store_tile(value, tile)", current("xt.store_tile").location())
    need(value, Vector, "store_tile(value, tile)")
    need(tile, Tile, "store_tile(value, tile)")
    check_stored(value, tile)
    current().emit(said(_promised(StoreTileOp(value.ssa, tile.ssa), oob, "drop"), "store", l1, l3))


def prefetch_tile(tile: Tile, *, locality: int = 3, l1: str | None = None, l3: str | None = None) -> None:
    """Bring a tile to the caches; it changes no result (``prefetch_tile``).

    Args:
        tile: the tile; a work-group's tile is prefetched cooperatively, as its map deals it out.
        locality: 3 keeps it close, in L1 and L3; 2 in L3; 1 in both, in L1 for a while; 0 nowhere: then it is not
            prefetched.
        l1, l3: hints for the caches, in the place of a locality: ``"cached"``, ``"uncached"`` or ``"streaming"``.

    Raises:
        ShapeError: another locality, or a tile in shared local memory.
    """
    need(tile, Tile, "prefetch_tile")
    if type(locality) is not int or locality not in range(4):
        raise ShapeError("XT1128", f"locality is 0, 1, 2 or 3, not {text_of(locality)}",
                         "use 3 to keep the tile close, 2 for what is needed later", current().location())
    current().emit(said(PrefetchTileOp(tile.ssa, locality), "prefetch", l1, l3))


def update_tile_offset(tile: Tile, d0: Any, d1: Any = None, *more: Any) -> Tile:
    """The tile moved by ``d0`` rows and ``d1`` columns of its matrix (``update_tile_offset``).

    A scattered tile takes one index vector, by which each of its elements moves.

    Raises:
        RankError: more than two offsets: a tile does not move from matrix to matrix.
    """
    need(tile, Tile, "update_tile_offset")
    if isinstance(d0, Vector) and d1 is None:
        return update_scattered(tile, d0)
    if more or d1 is None:
        raise RankError("XT1129", f"update_tile_offset takes two offsets, not {2 + len(more) if more else 1}",
                        "give rows and columns: a tile moves within its matrix; make one on another matrix with "
                        "xt.init_tile" if more else "give rows and columns, as in xt.update_tile_offset(tile, 0, 32)",
                        current().location())
    return Tile(current().emit(UpdateTileOffsetOp(tile.ssa, [scalar(d0), scalar(d1)])))


def tile_mma(a: Vector, b: Vector, acc: Vector | None = None, *, wg_map: WgMap | None = None) -> Vector:
    """``a @ b``, plus ``acc`` (``tile_mma``).

    Args:
        a: M x K.
        b: K x N.
        acc: M x N; without it the result is float32, or int32 for integers.
        wg_map: how the result is dealt to subgroups, by default as ``acc`` is, or derived from ``a`` and ``b``.

    Raises:
        ShapeError: the shapes do not fit, or the maps contradict each other.
        ElementTypeError: no target multiplies these types.
    """
    for operand in (a, b) if acc is None else (a, b, acc):
        need(operand, Vector, "tile_mma")
    check_product(a, b, acc)
    dtype = accumulator(a, b, acc)
    check_is_map(wg_map)
    result_map = wg_map or (acc.wg_map if acc is not None else derived_map(a, b))
    check_maps(a, b, acc, result_map)
    result = VectorType(dtype.mlir, product_shape(a, b))
    operation = TileMmaOp(a.ssa, b.ssa, None if acc is None else acc.ssa, result, result_map)
    return Vector(current().emit(operation), result_map)


def tile_transpose(v: Vector, *, wg_map: WgMap | None = None) -> Vector:
    """The vector with its dimensions exchanged (``tile_transpose``).

    What is loaded and only ever used transposed costs nothing where the target has transposing loads. What was computed
    is transposed in registers.

    Args:
        v: rows x columns.
        wg_map: how the result is dealt to subgroups; by default as ``v`` is, with both dimensions of ``sg_layout`` and
            ``sg_data`` exchanged.

    Raises:
        ShapeError: the map does not deal out the result, or ``v`` has none.
    """
    need(v, Vector, "tile_transpose")
    if v.wg_map is None and wg_map is not None:
        location = current().location()
        raise ShapeError("XT1416", f"tile_transpose gives a result dealt out as {wg_map}, and its {text(v.shape)} "
                         "vector has no map", "give both a wg_map, or neither", location,
                         notes(location, **{"the vector": v}))
    result = wg_map or (v.wg_map and v.wg_map.transposed())
    check_map(result, (v.shape[1], v.shape[0]))
    return Vector(current().emit(TileTransposeOp(v.ssa, result)), result)


def zeros(shape: tuple[int, int], dtype: Any, *, wg_map: WgMap | None = None) -> Vector:
    """A vector of zeros."""
    current("xt.zeros")
    return full(shape, 0, dtype, wg_map=wg_map)


def full(shape: tuple[int, int], value: Any, dtype: Any, *, wg_map: WgMap | None = None) -> Vector:
    """A vector of one value.

    Args:
        shape: rows and columns.
        value: a Python number, or a run-time scalar of the same element type.
        dtype: element type.
        wg_map: how it is dealt to the subgroups.

    Raises:
        ElementTypeError: ``dtype`` is no element type, or does not hold ``value``.
        ShapeError: the map does not deal out the shape.
    """
    tracer = current("xt.full")
    shape = two_sizes(shape, "a vector's shape")
    element = element_type(dtype)
    check_map(wg_map, shape)
    operation = BroadcastOp(scalar_of_element(value, element), VectorType(element.mlir, shape))
    if wg_map is not None:
        operation.attributes["wg_map"] = WgMapAttr(wg_map)
    return Vector(tracer.emit(operation), wg_map)


def iota(shape: tuple[int, int], axis: int, dtype: Any = dtypes.i32, *, wg_map: WgMap | None = None) -> Vector:
    """The row (``axis = 0``) or the column (``axis = 1``) of every element of a vector, from zero.

    Args:
        shape: rows and columns.
        axis: 0 or 1.
        dtype: element type; it must hold the last position.
        wg_map: how it is dealt to the subgroups; positions are those in the whole vector.

    Raises:
        RankError: there is no such axis.
        ElementTypeError: the type does not hold the positions.
        ShapeError: the map does not deal out the shape.
    """
    tracer = current("xt.iota")
    shape, element = two_sizes(shape, "a vector's shape"), element_type(dtype)
    check_map(wg_map, shape)
    if type(axis) is not int or axis not in (0, 1):
        raise RankError("XT1155",
                        f"a vector has axes 0 and 1, not {text_of(axis)}", "write xt.iota(shape, 0) for rows, "
                        "xt.iota(shape, 1) for columns", tracer.location())
    located(lambda: check_type(element.mlir, shape[axis]))
    return Vector(tracer.emit(IotaOp(VectorType(element.mlir, shape), axis, wg_map=wg_map)), wg_map)


def view(array: Any, dtype: Any) -> Any:
    """An array read as another element type of the same size: bf16 over uint16, tf32 over float32.

    Inside a kernel it takes an array argument; outside it takes an array, and gives what a kernel accepts in its
    place.

    Raises:
        ElementTypeError: the sizes differ.
    """
    if isinstance(array, Value) and not isinstance(array, Array):
        location = current("xt.view").location()
        raise ElementTypeError("XT1109", f"xt.view takes an array, not a {array.describe()}",
                               "view the array, and make the tile on that: xt.init_tile(xt.view(array, dtype), ...)"
                               if isinstance(array, Tile) else "read its bits as another type with xt.bitcast, or "
                               "convert it with .to(...)", location, notes(location, it=array))
    if not isinstance(array, Array):
        with AtTheCall():
            return TypedView(array, dtypes.of(dtype))
    tracer = current("xt.view")
    element = element_type(dtype)
    located(lambda: check_view(array.name, array.dtype, element))
    source = array.ssa.type
    assert isinstance(source, MemRefType)
    result = MemRefType(element.mlir, source.shape, source.layout, source.memory_space)
    cast = UnrealizedConversionCastOp.create(operands=[array.ssa], result_types=[result])
    return array.seen_as(tracer.emit(cast), element)


def scalar_(value: float, dtype: Any = dtypes.index) -> Scalar:
    """A Python number as a run-time scalar, for example as the first value of what a loop carries."""
    current("xt.scalar")
    return Scalar(scalar(value, element_type(dtype)))
