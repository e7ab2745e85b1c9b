"""Matrix products: ``tile_mma`` and ``tile_mma_scaled``, with the checks of shapes, element types and work-group
maps."""

from __future__ import annotations

from xdsl.dialects.builtin import VectorType

from xegpu.dialect.dpas import DEPTH
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.support.errors import ElementTypeError, ShapeError
from xegpu.target.targets import TARGETS
from xetile.dialect.mma import TileMmaOp, TileMmaScaledOp
from xetile.dialect.tile_ops import flat_shape, text
from xetile.dialect.wg_map import WgMap
from xetile.frontend.notes import describe_map, notes
from xetile.frontend.tracer import current
from xetile.frontend.values import Vector
from xetile.lang.checks import check_map_type, check_operand
from xetile.lang.creation import zeros


def accumulator(a: Vector, b: Vector, acc: Vector | None) -> DType:
    """Accumulator type of a product: that of ``acc``, or the first that the operand types allow.

    Raises:
        ElementTypeError: no target multiplies these types, or accumulates so.
    """
    location = current().location()
    forms = [form for target in TARGETS.values() for form in target.mma_shapes
             if (form.a, form.b) == (a.dtype, b.dtype)]
    if not forms:
        pairs = sorted({f"{form.a} x {form.b}" for target in TARGETS.values() for form in target.mma_shapes})
        raise ElementTypeError("XT1251", f"no matrix engine multiplies {a.dtype} by {b.dtype}",
                               f"tile_mma takes {', '.join(pairs)}; convert with .to(...) or view the array with "
                               "xt.view(array, dtype)", location, notes(location, A=a, B=b))
    accumulators = {form_type for form in forms for form_type in form.accumulators}
    if acc is not None and acc.dtype not in accumulators:
        names = " or ".join(sorted(map(str, accumulators)))
        raise ElementTypeError("XT1252", f"{a.dtype} by {b.dtype} does not accumulate in {acc.dtype}",
                               f"make the accumulator of {names}, as in xt.zeros({acc.shape}, "
                               f"xt.{min(map(str, accumulators))})", location,
                               notes(location, **{"the accumulator": acc, "A": a, "B": b}))
    return acc.dtype if acc is not None else forms[0].accumulators[0]


def check_product(a: Vector, b: Vector, acc: Vector | None) -> None:
    """Check the M x K, K x N and M x N shapes of A, B and the accumulator, blocked or not (ShapeError)."""
    _check_blocks(a, b, acc)
    (m, depth), (rows, n) = flat_shape(a.shape), flat_shape(b.shape)
    location = current().location()
    if depth != rows:
        raise ShapeError("XT1250", f"tile_mma of A {text(a.shape)} and B {text(b.shape)}: A has {depth} columns and B "
                         f"{rows} rows", f"make B's tile {depth}x{n}, or A's tile {m}x{rows}", location,
                         notes(location, A=a, B=b))
    if acc is not None and flat_shape(acc.shape) != (m, n):
        raise ShapeError("XT1253", f"A {text(a.shape)} times B {text(b.shape)} is {m}x{n}, and the accumulator is "
                         f"{text(acc.shape)}", f"make the accumulator {m}x{n}: xt.zeros(({m}, {n}), xt.{acc.dtype})",
                         location, notes(location, **{"the accumulator": acc, "A": a, "B": b}))


def _check_blocks(a: Vector, b: Vector, acc: Vector | None) -> None:
    """Check that A, B and the accumulator are all blocked, in blocks that multiply, or all 2D."""
    operands = [operand for operand in (a, b, acc) if operand is not None]
    location = current().location()
    if len({len(operand.shape) for operand in operands}) > 1:
        shapes = ", ".join(text(operand.shape) for operand in operands)
        raise ShapeError("XT1254", f"some operands of tile_mma are in blocks and some are not: {shapes}",
                         "bring all into blocks with xt.tile_pack(v, (rows, columns)), or none with xt.tile_unpack(v)",
                         location, notes(location, **{"A": a, "B": b, "the accumulator": acc}))
    if len(a.shape) == 2:
        return
    if a.shape[3] != b.shape[2]:
        raise ShapeError("XT1255", f"tile_mma of blocks {text(a.shape[2:])} and {text(b.shape[2:])}: those of A have "
                         f"{a.shape[3]} columns and those of B {b.shape[2]} rows",
                         f"pack B in blocks of {a.shape[3]} rows: inner_blocks=({a.shape[3]}, {b.shape[3]})", location,
                         notes(location, A=a, B=b))
    if acc is not None and acc.shape[2:] != (a.shape[2], b.shape[3]):
        raise ShapeError("XT1256", f"the blocks of the accumulator are {text(acc.shape[2:])}, and those of the product "
                         f"{a.shape[2]}x{b.shape[3]}",
                         f"pack it so: xt.tile_pack(acc, ({a.shape[2]}, {b.shape[3]}))", location,
                         notes(location, **{"the accumulator": acc, "A": a, "B": b}))


def product_shape(a: Vector, b: Vector) -> tuple[int, ...]:
    """Result shape of a product: M x N, or [M / m, N / n, m, n] of blocked operands."""
    return tuple(pair[i % 2] for i, pair in enumerate(zip(a.shape, b.shape, strict=True)))


def derived_map(a: Vector, b: Vector) -> WgMap | None:
    """Inferred map of a product: rows as A distributes them, columns as B does."""
    if a.wg_map is None or b.wg_map is None:
        return None
    return WgMap(a.wg_map.sg_layout, (a.wg_map.sg_data[0], b.wg_map.sg_data[1]))


def check_maps(a: Vector, b: Vector, acc: Vector | None, result: WgMap | None) -> None:
    """Check that each subgroup owns the rows of A and columns of B of its part of the result (ShapeError; XeTile.md,
    ``wg_map``)."""
    location = current().location()
    if result is None:
        if mapped := next((name for name, x in (("A", a), ("B", b)) if x.wg_map is not None), None):
            bare = "B" if mapped == "A" else "A"
            map_ = (a if mapped == "A" else b).wg_map
            raise ShapeError("XT1410", f"{mapped} of tile_mma is {describe_map(map_)}, and {bare} has no wg_map",
                             "give the tiles of A, B and the accumulator each a wg_map, or none of them", location,
                             notes(location, A=a, B=b))
        return
    if acc is not None and acc.wg_map != result:
        raise ShapeError("XT1411", f"the accumulator is {describe_map(acc.wg_map)}, the result {describe_map(result)}",
                         f"make the accumulator with wg_map={result}", location,
                         notes(location, **{"the accumulator": acc}))
    depth = flat_shape(a.shape)[1]
    needed = {"A": (a, WgMap(result.sg_layout, (result.sg_data[0], depth))),
              "B": (b, WgMap(result.sg_layout, (depth, result.sg_data[1])))}
    for name, (operand, map_) in needed.items():
        axis = 1 if name == "A" else 0
        actual = operand.wg_map
        fits = actual is not None and actual.sg_layout == map_.sg_layout \
            and actual.sg_data[1 - axis] == map_.sg_data[1 - axis] and actual.whole(axis, depth)
        if not fits:
            raise ShapeError("XT1412", f"{name} is {describe_map(actual)}, but a result of {result} needs {map_}",
                             f"give {name}'s tile {map_}", location, notes(location, **{name: operand}))
    assert a.wg_map is not None
    assert b.wg_map is not None
    if a.wg_map.sg_data[1] != b.wg_map.sg_data[0]:
        raise ShapeError("XT1413", f"A is cut into blocks of {a.wg_map.sg_data[1]} along K and B into blocks of "
                         f"{b.wg_map.sg_data[0]}: {a.wg_map} and {b.wg_map}",
                         f"make both {depth}, or both the same divisor of it", location, notes(location, A=a, B=b))


def tile_mma_scaled(a: Vector, b: Vector, acc: Vector | None, scale_a: Vector, scale_b: Vector) -> Vector:
    """Block-scaled product ``acc + (a x scale_a) @ (b x scale_b)`` (OCP Microscaling Formats), for targets whose matrix
    engine takes scales (``cri``).

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
    named = {"A": a, "B": b, "scale_a": scale_a, "scale_b": scale_b}
    wrong = [name for name, v in named.items() if not isinstance(v, Vector)]
    if wrong or (acc is not None and not isinstance(acc, Vector)):
        raise ElementTypeError("XT1260", f"{(wrong or ['the accumulator'])[0]} of tile_mma_scaled is no vector",
                               "pass a vector, such as the result of xt.load_tile", tracer.location())
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
    """Check the shapes of the scales: one for each 32 elements along K."""
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
    for operand in (a, b) if acc is None else (a, b, acc):
        check_operand(operand, Vector, "tile_mma")
    check_product(a, b, acc)
    dtype = accumulator(a, b, acc)
    check_map_type(wg_map)
    result_map = wg_map or (acc.wg_map if acc is not None else derived_map(a, b))
    check_maps(a, b, acc, result_map)
    result = VectorType(dtype.mlir, product_shape(a, b))
    operation = TileMmaOp(a.ssa, b.ssa, None if acc is None else acc.ssa, result, result_map)
    return Vector(current().emit(operation), result_map)
