"""``xt.tile_mma_scaled``: products of 8-bit floats with a scale for each 32 elements (OCP Microscaling Formats)."""

from __future__ import annotations

from xegpu.dialect.dpas import DEPTH
from xegpu.ir import dtypes
from xegpu.support.errors import ElementTypeError, ShapeError
from xetile.dialect.ops import text
from xetile.dialect.scaled_products import TileMmaScaledOp
from xetile.distribution import WgMap
from xetile.language import zeros
from xetile.parties import notes
from xetile.products import check_maps, check_product, derived_map
from xetile.tracer import current
from xetile.values import Vector


def tile_mma_scaled(a: Vector, b: Vector, acc: Vector | None, scale_a: Vector, scale_b: Vector) -> Vector:
    """``acc + (a x scale_a) @ (b x scale_b)``, for targets whose engine takes scales (``cri``).

    Args:
        a: M x K of ``e4m3`` or ``e5m2``, K a multiple of 32.
        b: K x N of either.
        acc: M x N of f32; None for zero.
        scale_a: M x K/32 of ``u8``: each stands for 2^(scale - 127), 255 for NaN, and scales 32 elements of its row.
        scale_b: K/32 x N of ``u8``, each for 32 elements of its column.

    Returns:
        M x N of f32, dealt out as ``acc`` is.

    Raises:
        ElementTypeError: the types are others.
        ShapeError: the shapes, or the maps, do not go together.
    """
    tracer = current("xt.tile_mma_scaled")
    named = {"A": a, "B": b, "scale_a": scale_a, "scale_b": scale_b}
    stranger = [name for name, v in named.items() if not isinstance(v, Vector)]
    if stranger or (acc is not None and not isinstance(acc, Vector)):
        raise ElementTypeError("XT1260", f"{(stranger or ['the accumulator'])[0]} of tile_mma_scaled is no vector",
                               "pass what xt.load_tile gives", tracer.location())
    if {a.dtype.kind, b.dtype.kind} != {"s"} or {scale_a.dtype, scale_b.dtype} != {dtypes.u8} or \
            (acc is not None and acc.dtype is not dtypes.f32):
        raise ElementTypeError("XT1260", f"a scaled product of {a.dtype} by {b.dtype}, with scales of {scale_a.dtype} "
                               f"and {scale_b.dtype}", "multiply e4m3 or e5m2 with scales of u8, onto f32",
                               tracer.location(), notes(tracer.location(), **named))
    check_product(a, b, acc)
    _check_scales(a, b, scale_a, scale_b)
    map_ = acc.wg_map if acc is not None else derived_map(a, b)
    check_maps(a, b, acc, map_)
    _check_scale_maps(map_, scale_a, scale_b)
    acc = zeros((a.shape[0], b.shape[1]), dtypes.f32, wg_map=map_) if acc is None else acc
    return Vector(tracer.emit(TileMmaScaledOp(a.ssa, b.ssa, acc.ssa, scale_a.ssa, scale_b.ssa, map_)), map_)


def _check_scales(a: Vector, b: Vector, scale_a: Vector, scale_b: Vector) -> None:
    location, depth = current().location(), a.shape[-1]
    if len(a.shape) != 2 or depth % DEPTH:
        raise ShapeError("XT1261", f"{depth} columns of A do not divide into blocks of {DEPTH}, which share a scale",
                         f"make K of the tiles a multiple of {DEPTH}", location, notes(location, A=a))
    wanted = (a.shape[0], depth // DEPTH), (depth // DEPTH, b.shape[1])
    for name, scale, shape in zip("AB", (scale_a, scale_b), wanted, strict=True):
        if scale.shape != shape:
            raise ShapeError("XT1261", f"the scales of {name} are {text(scale.shape)}, and {name} is "
                             f"{text((a if name == 'A' else b).shape)}",
                             f"give one for each {DEPTH} of K: {text(shape)}", location,
                             notes(location, **{f"scale_{name.lower()}": scale}))


def _check_scale_maps(map_: WgMap | None, scale_a: Vector, scale_b: Vector) -> None:
    wanted = (None, None) if map_ is None else (
        WgMap(map_.sg_layout, (map_.sg_data[0], scale_a.shape[1])),
        WgMap(map_.sg_layout, (scale_b.shape[0], map_.sg_data[1])))
    location = current().location()
    for name, scale, needed in zip("AB", (scale_a, scale_b), wanted, strict=True):
        if scale.wg_map != needed:
            raise ShapeError("XT1262", f"the scales of {name} are dealt out as {scale.wg_map}, and the result as "
                             f"{map_}", f"load them through a tile with wg_map={needed}", location,
                             notes(location, **{f"scale_{name.lower()}": scale}))
