"""What ``tile_mma`` demands of its operands before anything is recorded: shapes, element types, work-group maps."""

from __future__ import annotations

from xegpu.ir.dtypes import DType
from xegpu.support.errors import ElementTypeError, ShapeError
from xegpu.target.targets import TARGETS
from xetile.dialect.ops import flat_shape, text
from xetile.distribution import WgMap
from xetile.parties import dealt, notes
from xetile.tracer import current
from xetile.values import Vector


def accumulator(a: Vector, b: Vector, acc: Vector | None) -> DType:
    """The element type of a product's result: the accumulator's, or the first that the operands' types allow.

    Raises:
        ElementTypeError: no target multiplies these types, or accumulates so.
    """
    location = current().location()
    forms = [form for target in TARGETS.values() for form in target.forms if (form.a, form.b) == (a.dtype, b.dtype)]
    if not forms:
        pairs = sorted({f"{form.a} x {form.b}" for target in TARGETS.values() for form in target.forms})
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
    """Raise a ShapeError unless A is M x K, B K x N and the accumulator M x N, in blocks or not."""
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
    """The shape of a product: M x N, in blocks of A's rows and B's columns where they are in blocks."""
    return tuple(pair[i % 2] for i, pair in enumerate(zip(a.shape, b.shape, strict=True)))


def derived_map(a: Vector, b: Vector) -> WgMap | None:
    """The map of a result that nothing else says: rows as A deals them out, columns as B does."""
    if a.wg_map is None or b.wg_map is None:
        return None
    return WgMap(a.wg_map.sg_layout, (a.wg_map.sg_data[0], b.wg_map.sg_data[1]))


def check_maps(a: Vector, b: Vector, acc: Vector | None, result: WgMap | None) -> None:
    """Raise a ShapeError unless each subgroup holds all that its part of the result needs (XeTile.md, ``wg_map``)."""
    location = current().location()
    if result is None:
        if mapped := next((name for name, x in (("A", a), ("B", b)) if x.wg_map is not None), None):
            bare = "B" if mapped == "A" else "A"
            map_ = (a if mapped == "A" else b).wg_map
            raise ShapeError("XT1410", f"{mapped} of tile_mma is {dealt(map_)}, and {bare} has no wg_map",
                             "give the tiles of A, B and the accumulator each a wg_map, or none of them", location,
                             notes(location, A=a, B=b))
        return
    if acc is not None and acc.wg_map != result:
        raise ShapeError("XT1411", f"the accumulator is {dealt(acc.wg_map)}, the result {dealt(result)}",
                         f"make the accumulator with wg_map={result}", location,
                         notes(location, **{"the accumulator": acc}))
    depth = flat_shape(a.shape)[1]
    needed = {"A": (a, WgMap(result.sg_layout, (result.sg_data[0], depth))),
              "B": (b, WgMap(result.sg_layout, (depth, result.sg_data[1])))}
    for name, (operand, map_) in needed.items():
        axis = 1 if name == "A" else 0
        given = operand.wg_map
        fits = given is not None and given.sg_layout == map_.sg_layout \
            and given.sg_data[1 - axis] == map_.sg_data[1 - axis] and given.whole(axis, depth)
        if not fits:
            raise ShapeError("XT1412", f"{name} is {dealt(given)}, but a result of {result} needs {map_}",
                             f"give {name}'s tile {map_}", location, notes(location, **{name: operand}))
    assert a.wg_map is not None
    assert b.wg_map is not None
    if a.wg_map.sg_data[1] != b.wg_map.sg_data[0]:
        raise ShapeError("XT1413", f"A is cut into blocks of {a.wg_map.sg_data[1]} along K and B into blocks of "
                         f"{b.wg_map.sg_data[0]}: {a.wg_map} and {b.wg_map}",
                         f"make both {depth}, or both the same divisor of it", location, notes(location, A=a, B=b))
