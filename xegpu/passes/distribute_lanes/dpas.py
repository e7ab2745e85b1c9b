"""Products, and what brings their operands into words, to the fragments of one lane: a part of ``distribute``.

    %c = dpas %a, %b : vector<8x16xbf16>, vector<8x16x2xbf16> -> vector<8x16xf32>
becomes
    %c = dpas %a, %b {sg_map_a, sg_map_b, sg_map_c} : vector<8x1xbf16>, vector<8x2xbf16> -> vector<8x1xf32>
"""

from __future__ import annotations

from xdsl.ir import Operation

from xegpu.dialect.dpas import SCALE_MAPS, DpasOp, DpasScaledOp, LoadMadOp, MadOp, ProductOp
from xegpu.dialect.vector import BitcastOp, PackOp
from xegpu.ir.dtypes import DType, of_mlir
from xegpu.layout import lane_map
from xegpu.layout.lane_map import LaneMap
from xegpu.mlir.vector import ShapeCastOp, shape_of
from xegpu.passes.distribute_lanes import gather_scatter
from xegpu.passes.distribute_lanes.rewriter import Distributed, Distributor
from xegpu.rewrite.rewriter import Rule
from xegpu.support.errors import Note, TargetError, XeError
from xegpu.support.notes import made_at, valued
from xegpu.target.targets import TARGETS, MmaShape, Target

# Refuses products of whole vectors that no matrix engine takes (hardware.md, "DPAS").


def check_product(operation: DpasOp, target: Target) -> None:
    """Raise unless a target's matrix engine takes a product.

    A target without one has its work done by an emulation of the engine of 16 lanes.

    Raises:
        TargetError: it does not; the hint names the shapes and types that it takes.
    """
    a, b, c = (of_mlir(value.type.element_type)  # type: ignore[attr-defined]
               for value in (operation.a, operation.b, operation.result))
    forms = _forms(target)
    form = next((form for form in forms if (form.a, form.b) == (a, b)), None)
    if form is None:
        pairs = ", ".join(f"{form.a} x {form.b}" for form in forms)
        raise TargetError("XT4101",
                          f"the matrix engine of {target.name} does not multiply {a} by {b}", f"it takes {pairs}",
                          notes=_operands(operation))
    if c not in form.accumulators:
        names = " or ".join(map(str, form.accumulators))
        raise TargetError("XT4102", f"the matrix engine of {target.name} does not accumulate {a} by {b} in {c}",
                          f"make the accumulator and the result {names}", notes=_operands(operation))
    rows, columns, depth = operation.sizes()
    if rows not in target.repeat_counts or (columns, depth) != (target.subgroup_size, form.k):
        raise TargetError("XT4103",
                          f"the matrix engine of {target.name} has no product of {rows}x{depth} by {depth}x{columns} "
                          f"of {a} and {b}", _legal(target, form, c), notes=_operands(operation))


def _operands(operation: DpasOp) -> list[Note]:
    acc = {} if operation.acc is None else {"the accumulator": operation.acc}
    return valued(made_at(operation.result), {"A": operation.a, "B": operation.b, **acc})


def _forms(target: Target) -> list[MmaShape]:
    own = [form for form in target.mma_shapes if form.engine == "dpas"]
    return own or [form for form in TARGETS["pvc"].mma_shapes if form.engine == "dpas"]


def _legal(target: Target, form: MmaShape, c: DType) -> str:
    rows, lanes = max(target.repeat_counts), target.subgroup_size
    counts = ", ".join(map(str, sorted(target.repeat_counts)[:-1]))
    return (f"write vector<{rows}x{form.k}x{form.a}>, vector<{form.k}x{lanes}x{form.b}> -> "
            f"vector<{rows}x{lanes}x{c}>, or {counts} rows in the place of {rows}")


def _shape_cast(build: Distributor, operation: ShapeCastOp) -> None:
    """Words seen as elements, or elements as words: a lane's fragment has them that way already.

    So it has a register seen as a line.
    """
    source, result = (shape_of(value) for value in (operation.source, operation.result))
    parts = build.get(operation.source)
    form: Distributed = parts.form
    ranks = len(source), len(result)
    if 1 in ranks:
        gather_scatter.cast(build, operation)
    elif source == result or (ranks == (3, 2) and form.packed and result == form.of_rank(2).shape):
        build.set(operation.result, parts.values, form.of_rank(len(result)))
    elif ranks == (2, 3) and result == (source[0], source[1] // result[2], result[2]):
        lanes = LaneMap((1, build.target.subgroup_size), (1, result[2]))
        build.fragment(form.shape, lanes, operation.source.type.element_type)  # type: ignore[attr-defined]
        value, words = build.converted(parts, lanes), Distributed(form.shape, lanes)
        build.set(operation.result, value, words.of_rank(3))
    else:
        build.fail("XT3522", f"a cast of {list(source)} to {list(result)} moves elements from lane to lane",
                   "store the vector, and load it in its other shape; vector.extract takes blocks that lie side by "
                   "side apart", **{"the vector": operation.source})


def _pack(build: Distributor, operation: PackOp) -> None:
    source = build.get(operation.source)
    form: Distributed = source.form
    bits = of_mlir(operation.source.type.element_type).bits  # type: ignore[attr-defined]
    value = build.converted(source, build.plain(form.shape))
    lanes = lane_map.operand_b(build.target.subgroup_size, bits)
    build.set(operation.result, build.emit(PackOp(value, lanes)), Distributed(form.shape, lanes, True))


def _bitcast(build: Distributor, operation: BitcastOp) -> None:
    source = build.get(operation.source)
    form: Distributed = source.form
    rows, columns = shape_of(operation.result)
    lanes = build.plain(form.shape)  # raises for columns that do not spread over the lanes
    lanes = LaneMap((1, lanes.wi_layout[1]))  # each lane has whole columns, so that no row goes to another
    made = BitcastOp(build.converted(source, lanes), operation.result.type.element_type)  # type: ignore[attr-defined]
    build.set(operation.result, build.emit(made), Distributed((rows, columns), lanes))


def _product(build: Distributor, operation: ProductOp) -> None:
    a, b = build.get(operation.a), build.get(operation.b)
    form: Distributed = a.form
    bits = of_mlir(operation.a.type.element_type).bits  # type: ignore[attr-defined]
    engine = isinstance(operation, DpasOp)
    if isinstance(operation, DpasOp):
        try:
            check_product(operation, build.target)
        except XeError as error:
            raise error.at(build.where()) from None
    a_map = lane_map.operand_a(build.target.subgroup_size, bits) if engine else build.plain(form.shape)
    shape = shape_of(operation.result)
    c = Distributed((shape[0], shape[1]), build.plain((shape[0], shape[1])))
    acc = None if operation.acc is None else build.converted(build.get(operation.acc), c.lanes)
    b_map = b.form.lanes if b.form.packed else build.plain(b.form.shape)
    b_value = b.values[0] if b.form.packed else build.converted(b, b_map)
    result = build.fragment(c.shape, c.lanes, operation.result.type.element_type)  # type: ignore[attr-defined]
    made = type(operation)(build.converted(a, a_map), b_value, acc, result, (a_map, b_map, c.lanes))
    build.set(operation.result, build.emit(made), c)


def _dpas_scaled(build: Distributor, operation: DpasScaledOp) -> None:
    lanes = build.target.subgroup_size
    a, b, acc, scale_a, scale_b = (build.get(operand) for operand in operation.operands)
    c = Distributed(acc.form.shape, build.plain(acc.form.shape))
    b_value = b.values[0] if b.form.packed else build.converted(b, lane_map.operand_b(lanes, 8))
    made = DpasScaledOp(build.converted(a, lane_map.operand_a(lanes, 8)), b_value, build.converted(acc, c.lanes),
                        build.converted(scale_a, SCALE_MAPS[0]), build.converted(scale_b, SCALE_MAPS[1]), lanes)
    build.set(operation.result, build.emit(made), c)


def _load_mad(build: Distributor, operation: LoadMadOp) -> None:
    form = Distributed(operation.block, build.plain(operation.block))
    acc = [build.converted(build.get(value), form.lanes) for value in operation.acc]
    made = LoadMadOp(build.one(operation.a), build.one(operation.b), acc, form.lanes)
    build.emit(made)
    for before, after in zip(operation.results, made.results, strict=True):
        build.set(before, after, form)


RULES: dict[type[Operation], Rule] = {
    DpasOp: _product, MadOp: _product, DpasScaledOp: _dpas_scaled, LoadMadOp: _load_mad, PackOp: _pack,
    BitcastOp: _bitcast,
    ShapeCastOp: _shape_cast,
}
"""Rules of :mod:`xegpu.passes.distribute_lanes`."""
