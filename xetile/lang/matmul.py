"""Matrix products, ``tile_mma`` and ``tile_mma_scaled``: checks of shapes, element types and work-group maps."""

from __future__ import annotations

from xdsl.dialects.builtin import VectorType

from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.support.errors import ElementTypeError, ShapeError
from xetile.dialect.mma import TileMmaOp, TileMmaScaledOp, check_product_shapes
from xetile.dialect.tile_ops import flat_shape
from xetile.dialect.types import accumulators_of, verify_product_maps
from xetile.dialect.wg_map import WgMap
from xetile.frontend.broadcast import check_unblocked
from xetile.frontend.notes import at_author_line, notes
from xetile.frontend.operators.sub_byte import SubByteVector
from xetile.frontend.tracer import current
from xetile.frontend.values import Vector
from xetile.lang.checks import check_map_type, check_operand, describe_argument
from xetile.lang.creation import zeros


def accumulator(a: Vector, b: Vector, acc: Vector | None) -> DType:
    """Accumulator type of a product: that of ``acc``, or the first that the operand types allow.

    Raises:
        ElementTypeError: no target multiplies these types.
    """
    allowed = at_author_line(lambda: accumulators_of(a.dtype, b.dtype), a=a, b=b)
    return allowed[0] if acc is None else acc.dtype


def product_shape(a: Vector, b: Vector) -> tuple[int, ...]:
    """Result shape of a product: M x N, or [M / m, N / n, m, n] of blocked operands."""
    return tuple(pair[i % 2] for i, pair in enumerate(zip(a.shape, b.shape, strict=True)))


def derived_map(a: Vector, b: Vector) -> WgMap | None:
    """Inferred map of a product: rows as A distributes them, columns as B does."""
    if a.wg_map is None or b.wg_map is None:
        return None
    return WgMap(a.wg_map.sg_layout, (a.wg_map.sg_data[0], b.wg_map.sg_data[1]))


def check_product(a: Vector, b: Vector, acc: Vector | None, result: WgMap | None) -> None:
    """Check shapes and maps of a product (ShapeError), by the rules of the operation's verifier."""
    at_author_line(lambda: check_product_shapes(a.shape, b.shape, None if acc is None else acc.shape),
                   a=a, b=b, acc=acc)
    maps = a.wg_map, b.wg_map, None if acc is None else acc.wg_map
    known, depth = ("a", "b", "acc")[:2 if acc is None else 3], flat_shape(a.shape)[1]
    at_author_line(lambda: verify_product_maps(*maps, result, depth, known), a=a, b=b, acc=acc)


def tile_mma_scaled(a: Vector, b: Vector, acc: Vector | None, scale_a: Vector, scale_b: Vector) -> Vector:
    """Block-scaled product ``acc + (a x scale_a) @ (b x scale_b)`` (OCP Microscaling Formats), for targets whose matrix
    engine takes scales (``Target.block_scales``).

    Args:
        a: M x K of ``e4m3`` or ``e5m2``, K a multiple of 32.
        b: K x N of either.
        acc: M x N of f32; None for zero.
        scale_a: M x K/32 of ``u8``: e8m0 exponents, 2^(scale - 127), 255 for NaN, each for 32 elements of its row.
        scale_b: K/32 x N of ``u8``, each for 32 elements of its column.

    Returns:
        M x N of f32, distributed as ``acc`` is.

    Raises:
        ElementTypeError: the types are others.
        ShapeError: the shapes, or the maps, do not go together.
    """
    tracer = current("xt.tile_mma_scaled")
    for operand in (a, b, scale_a, scale_b) if acc is None else (a, b, scale_a, scale_b, acc):
        check_operand(operand, Vector, "tile_mma_scaled")
        check_unblocked("tile_mma_scaled", operand)
    map_ = acc.wg_map if acc is not None else derived_map(a, b)
    check_product(a, b, acc, map_)
    _check_scale_maps(map_, scale_a, scale_b)
    acc = zeros((a.shape[0], b.shape[1]), dtypes.f32, wg_map=map_) if acc is None else acc
    return Vector(tracer.emit(TileMmaScaledOp(a.ssa, b.ssa, acc.ssa, scale_a.ssa, scale_b.ssa, map_)), map_)


def _check_scale_maps(map_: WgMap | None, scale_a: Vector, scale_b: Vector) -> None:
    """Check the maps of the scales: each subgroup owns those of its rows and columns."""
    wanted = (None, None) if map_ is None else (
        WgMap(map_.sg_layout, (map_.sg_data[0], scale_a.shape[1])),
        WgMap(map_.sg_layout, (scale_b.shape[0], map_.sg_data[1])))
    location = current().location()
    for name, scale, needed in zip("AB", (scale_a, scale_b), wanted, strict=True):
        if scale.wg_map != needed:
            raise ShapeError("XT1262", f"the scales of {name} are distributed as {scale.wg_map}, and the result as "
                             f"{map_}", f"load them through a tile with wg_map={needed}", location,
                             notes(location, **{f"scale_{name.lower()}": scale}))


def tile_mma(a: Vector, b: Vector, acc: Vector | None = None, *, wg_map: WgMap | None = None) -> Vector:
    """Matrix product ``a @ b``, plus ``acc`` (``tile_mma``).

    Args:
        a: M x K.
        b: K x N.
        acc: M x N; without it the result is float32, or int32 for integers.
        wg_map: distribution of the result, by default that of ``acc``, or inferred from ``a`` and ``b``.

    Raises:
        ShapeError: the shapes do not fit, or the maps contradict each other.
        ElementTypeError: no target multiplies these types.
    """
    if isinstance(a, SubByteVector) and isinstance(b, SubByteVector):
        return tile_mma(a.packed(1), b.packed(0), acc, wg_map=wg_map)
    if isinstance(a, SubByteVector) or isinstance(b, SubByteVector):
        narrow, other = (a, b) if isinstance(a, SubByteVector) else (b, a)
        raise ElementTypeError("XT1251", f"no matrix engine multiplies {narrow.dtype} by "
                               f"{describe_argument(other)}", f"convert the {narrow.dtype}: "
                               f".to(xt.{other.dtype if isinstance(other, Vector) else 'i8'})", current().location())
    for operand in (a, b) if acc is None else (a, b, acc):
        check_operand(operand, Vector, "tile_mma")
    check_map_type(wg_map)
    result_map = wg_map or (acc.wg_map if acc is not None else derived_map(a, b))
    check_product(a, b, acc, result_map)
    result = VectorType(accumulator(a, b, acc).mlir, product_shape(a, b))
    operation = TileMmaOp(a.ssa, b.ssa, None if acc is None else acc.ssa, result, result_map)
    return Vector(current().emit(operation), result_map)
