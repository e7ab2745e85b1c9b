"""Lane distribution of products, and of the packing of their operands into 32-bit words.

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
from xegpu.passes.distribute_lanes.rewriter import Distributed, DistributeLanesRewriter
from xegpu.rewrite.rewriter import Rule
from xegpu.support.errors import Note, TargetError, XeError
from xegpu.support.notes import defined_at, value_notes
from xegpu.target.targets import MmaShape, Target

# Refuses products of whole vectors that no matrix engine takes (hardware.md, "DPAS").


def check_product(operation: DpasOp, target: Target) -> None:
    """Raise unless a target's matrix engine, or the emulation of one, takes a product.

    Raises:
        TargetError: it does not; the hint names the shapes and types that it takes.
    """
    a, b, c = (of_mlir(value.type.element_type)  # type: ignore[attr-defined]
               for value in (operation.a, operation.b, operation.result))
    forms = target.dpas_shapes
    form = next((form for form in forms if (form.a, form.b) == (a, b)), None)
    if form is None:
        pairs = ", ".join(f"{form.a} x {form.b}" for form in forms)
        raise TargetError("XT4101",
                          f"the matrix engine of {target.name} does not multiply {a} by {b}", f"it takes {pairs}",
                          notes=_operand_notes(operation))
    if c not in form.accumulators:
        raise target.no_accumulation(form, c, _operand_notes(operation))
    rows, columns, depth = operation.sizes()
    if rows not in target.repeat_counts or (columns, depth) != (target.subgroup_size, form.k):
        raise TargetError("XT4103",
                          f"the matrix engine of {target.name} has no product of {rows}x{depth} by {depth}x{columns} "
                          f"of {a} and {b}", _legal(target, form, c), notes=_operand_notes(operation))


def _operand_notes(operation: DpasOp) -> list[Note]:
    acc = {} if operation.acc is None else {"the accumulator": operation.acc}
    return value_notes(defined_at(operation.result), {"A": operation.a, "B": operation.b, **acc})


def _legal(target: Target, form: MmaShape, c: DType) -> str:
    rows, lanes = max(target.repeat_counts), target.subgroup_size
    counts = ", ".join(map(str, sorted(target.repeat_counts)[:-1]))
    return (f"write vector<{rows}x{form.k}x{form.a}>, vector<{form.k}x{lanes}x{form.b}> -> "
            f"vector<{rows}x{lanes}x{c}>, or {counts} rows in the place of {rows}")


def _shape_cast(rewriter: DistributeLanesRewriter, operation: ShapeCastOp) -> None:
    """Words seen as elements, or elements as words: a lane's fragment has them that way already.

    So it has a register seen as a line.
    """
    source, result = (shape_of(value) for value in (operation.source, operation.result))
    parts = rewriter.lookup(operation.source)
    form: Distributed = parts.encoding
    ranks = len(source), len(result)
    if 1 in ranks:
        gather_scatter.cast(rewriter, operation)
    elif source == result or (ranks == (3, 2) and form.packed and result == form.of_rank(2).shape):
        rewriter.set(operation.result, parts.values, form.of_rank(len(result)))
    elif ranks == (2, 3) and result == (source[0], source[1] // result[2], result[2]):
        lanes = LaneMap((1, rewriter.target.subgroup_size), (1, result[2]))
        rewriter.fragment(form.shape, lanes, operation.source.type.element_type)  # type: ignore[attr-defined]
        value, words = rewriter.converted(parts, lanes), Distributed(form.shape, lanes)
        rewriter.set(operation.result, value, words.of_rank(3))
    else:
        rewriter.fail("XT3522", f"a cast of {list(source)} to {list(result)} moves elements from lane to lane",
                   "store the vector, and load it in its other shape; vector.extract takes blocks that lie side by "
                   "side apart", **{"the vector": operation.source})


def _pack(rewriter: DistributeLanesRewriter, operation: PackOp) -> None:
    source = rewriter.lookup(operation.source)
    form: Distributed = source.encoding
    bits = of_mlir(operation.source.type.element_type).bits  # type: ignore[attr-defined]
    lanes = lane_map.operand_b(rewriter.target.subgroup_size, bits)
    if form.packed and form.lanes == lanes:  # a conversion has packed it
        rewriter.set(operation.result, source.values, form)
        return
    value = rewriter.converted(source, rewriter.default_map(form.shape))
    rewriter.set(operation.result, rewriter.emit(PackOp(value, lanes)), Distributed(form.shape, lanes, True))


def _bitcast(rewriter: DistributeLanesRewriter, operation: BitcastOp) -> None:
    source = rewriter.lookup(operation.source)
    form: Distributed = source.encoding
    rows, columns = shape_of(operation.result)
    if (rows, columns) == shape_of(operation.source):  # pairs and bytes: the same bits of the same lane
        rewriter.set(operation.result, rewriter.emit(BitcastOp(source.values[0], operation.result.type.element_type)),  # type: ignore[attr-defined]
                     form)
        return
    lanes = rewriter.default_map(form.shape)  # raises for columns that do not spread over the lanes
    lanes = LaneMap((1, lanes.wi_layout[1]))  # each lane has whole columns, so that no row goes to another
    new_op = BitcastOp(rewriter.converted(source, lanes), operation.result.type.element_type)  # type: ignore[attr-defined]
    rewriter.set(operation.result, rewriter.emit(new_op), Distributed((rows, columns), lanes))


def _product(rewriter: DistributeLanesRewriter, operation: ProductOp) -> None:
    a, b = rewriter.lookup(operation.a), rewriter.lookup(operation.b)
    form: Distributed = a.encoding
    bits = of_mlir(operation.a.type.element_type).bits  # type: ignore[attr-defined]
    engine = isinstance(operation, DpasOp)
    if isinstance(operation, DpasOp):
        try:
            check_product(operation, rewriter.target)
        except XeError as error:
            raise error.at(rewriter.where()) from None
    a_map = lane_map.operand_a(rewriter.target.subgroup_size, bits, form.shape[0]) if engine else \
        rewriter.default_map(form.shape)
    shape = shape_of(operation.result)
    c = Distributed((shape[0], shape[1]), rewriter.default_map((shape[0], shape[1])))
    acc = None if operation.acc is None else rewriter.converted(rewriter.lookup(operation.acc), c.lanes)
    b_map = b.encoding.lanes if b.encoding.packed else rewriter.default_map(b.encoding.shape)
    b_value = b.values[0] if b.encoding.packed else rewriter.converted(b, b_map)
    result = rewriter.fragment(c.shape, c.lanes, operation.result.type.element_type)  # type: ignore[attr-defined]
    new_op = type(operation)(rewriter.converted(a, a_map), b_value, acc, result, (a_map, b_map, c.lanes))
    rewriter.set(operation.result, rewriter.emit(new_op), c)


def _dpas_scaled(rewriter: DistributeLanesRewriter, operation: DpasScaledOp) -> None:
    lanes = rewriter.target.subgroup_size
    a, b, acc, scale_a, scale_b = (rewriter.lookup(operand) for operand in operation.operands)
    c = Distributed(acc.encoding.shape, rewriter.default_map(acc.encoding.shape))
    b_value = b.values[0] if b.encoding.packed else rewriter.converted(b, lane_map.operand_b(lanes, 8))
    new_op = DpasScaledOp(rewriter.converted(a, lane_map.operand_a(lanes, 8)), b_value,
                          rewriter.converted(acc, c.lanes), rewriter.converted(scale_a, SCALE_MAPS[0]),
                          rewriter.converted(scale_b, SCALE_MAPS[1]), lanes)
    rewriter.set(operation.result, rewriter.emit(new_op), c)


def _load_mad(rewriter: DistributeLanesRewriter, operation: LoadMadOp) -> None:
    form = Distributed(operation.block, rewriter.default_map(operation.block))
    acc = [rewriter.converted(rewriter.lookup(value), form.lanes) for value in operation.acc]
    new_op = LoadMadOp(rewriter.single(operation.a), rewriter.single(operation.b), acc, form.lanes)
    rewriter.emit(new_op)
    for before, after in zip(operation.results, new_op.results, strict=True):
        rewriter.set(before, after, form)


RULES: dict[type[Operation], Rule] = {
    DpasOp: _product, MadOp: _product, DpasScaledOp: _dpas_scaled, LoadMadOp: _load_mad, PackOp: _pack,
    BitcastOp: _bitcast,
    ShapeCastOp: _shape_cast,
}
"""Rules of :mod:`xegpu.passes.distribute_lanes`."""
