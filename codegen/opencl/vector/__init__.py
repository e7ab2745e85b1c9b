"""Vector operations within a lane, in OpenCL C: extract, slices, splat, bitcast, pack, iota."""

from __future__ import annotations

from xdsl.dialects import ub
from xdsl.dialects import vector as xvector
from xdsl.ir import Operation

from codegen.opencl.arith.conversion import converted
from codegen.opencl.arith.operands import stored
from codegen.opencl.emitter import Emitter, Rule
from codegen.opencl.prelude.macros import NO_VISA
from codegen.opencl.values import Coordinate, Fragment, vector_type
from codegen.opencl.vector import shuffle_rows
from xegpu.dialect.dpas import DpasOp
from xegpu.dialect.vector import BitcastOp, ExtractScalarOp, IotaOp, PackOp
from xegpu.ir.dtypes import i32, of_mlir
from xegpu.layout import lane_map
from xegpu.layout.lane_map import LaneMap
from xegpu.mlir.vector import ExtractOp, ExtractStridedSliceOp, InsertStridedSliceOp, ShapeCastOp, values_of
from xegpu.support.errors import BUG, TargetError

_REPEATED = {8: ("uchar", "0x01010101u"), 16: ("ushort", "0x10001u"), 32: ("uint", "1u")}
"""Unsigned type of so many bits, and what repeats a number of it in a word."""


def _extract(emitter: Emitter, operation: ExtractOp) -> None:
    (position,) = operation.static_position.get_values()
    units = emitter.fragment(operation.vector).units // operation.vector.type.get_shape()[0]  # type: ignore[attr-defined]
    emitter.rename(operation.result, operation.vector, position * units, units)


def _extract_scalar(emitter: Emitter, operation: ExtractScalarOp) -> None:
    (word,) = emitter.words(operation.vector)
    emitter.define(operation.result, of_mlir(operation.result.type).opencl, f"sub_group_broadcast({word}, 0)")


def _slice(emitter: Emitter, operation: ExtractStridedSliceOp) -> None:
    emitter.rename(operation.result, operation.source, values_of(operation.offsets)[0], values_of(operation.sizes)[0])


def _insert(emitter: Emitter, operation: InsertStridedSliceOp) -> None:
    source, dest = emitter.fragment(operation.source), emitter.fragment(operation.dest)
    start = values_of(operation.offsets)[0]
    words = list(emitter.words(operation.dest))
    words[start:start + source.units] = emitter.words(operation.source)
    uses = list(operation.result.uses)
    if uses and all(isinstance(use.operation, InsertStridedSliceOp) and use.index == 1 for use in uses):
        emitter.values[operation.result] = dest.renamed(tuple(words))  # put together where the last part comes
        return
    emitter.assign_words(operation.result, words)


def _poison(emitter: Emitter, operation: ub.PoisonOp) -> None:
    fragment = emitter.fresh(operation.result)
    emitter.values[operation.result] = fragment.renamed((f"(({fragment.c_type})(0))",) * len(fragment.names))


def _spread(emitter: Emitter, operation: xvector.BroadcastOp) -> None:
    fragment = emitter.fresh(operation.vector)
    word = stored(emitter.values[operation.source], fragment.dtype)
    expression = f"({fragment.c_type})({word})"
    if fragment.dtype.bits in _REPEATED and fragment.width * fragment.dtype.bits in (32, 64, 128, 256) and \
            _multiplied_in_a_loop(operation):
        expression = _in_registers(emitter, fragment, word)
    emitter.assign(operation.vector, fragment, [expression] * len(fragment.names))


def _multiplied_in_a_loop(operation: xvector.BroadcastOp) -> bool:
    """Whether a splat is an operand of products in a region inside its own."""
    users = [use.operation for use in operation.vector.uses]
    users += [use.operation for user in users if isinstance(user, PackOp) for use in user.results[0].uses]
    return any(isinstance(user, DpasOp) and user.parent is not operation.parent for user in users)


def _in_registers(emitter: Emitter, fragment: Fragment, number: str) -> str:
    """A splat that the compiler takes for numbers of the lanes; else it makes registers of it anew for each product."""
    bits = fragment.dtype.bits
    c_type, repeats = _REPEATED[bits]
    word = f"{repeats} * as_{c_type}(({fragment.word})({number}))"
    emitter.function(
        f"static uint xetile_in_each_lane(uint number)\n{{\n  uint word;\n  #ifdef {NO_VISA}\n  word = number;\n"
        "  #else\n"
        f'  __asm__("mov (M1_NM, {emitter.subgroup}) %0(0,0)<1> %1(0,0)<1;1,0>" : "=rw"(word) : "rw"(number));\n'
        "  #endif\n  return word;\n}\n")
    return f"as_{fragment.c_type}(({vector_type('uint', fragment.width * bits // 32)})(xetile_in_each_lane({word})))"


def _shape_cast(emitter: Emitter, operation: ShapeCastOp) -> None:
    """``shape_cast``: renamed registers; packing or unpacking of words bit-casts them."""
    if shuffle_rows.is_interleaving(emitter, operation.source):
        shuffle_rows.interleave(emitter, operation)
        return
    source, result = emitter.fragment(operation.source), emitter.fresh(operation.result)
    if source.per_lane == result.per_lane:
        emitter.rename(operation.result, operation.source)
        return
    words = result.width * result.per_lane // source.per_lane  # of the source, in a variable of the result
    expressions = []
    for start in range(0, source.units, words):
        part = source.slice(start, words)
        pieces = [f"as_{vector_type(result.word, result.width // len(part.names))}({name})" for name in part.names]
        expressions.append(pieces[0] if len(pieces) == 1 else f"({result.c_type})({', '.join(pieces)})")
    emitter.assign(operation.result, result, expressions)


def _bitcast(emitter: Emitter, operation: BitcastOp) -> None:
    source, result = emitter.fragment(operation.source), emitter.fresh(operation.result)
    each = result.width * result.dtype.bits // source.dtype.bits
    parts = [source.slice(start, each).names[0] for start in range(0, source.units, each)]
    emitter.assign(operation.result, result, [f"as_{result.c_type}({part})" for part in parts])


def _pack(emitter: Emitter, operation: PackOp) -> None:
    """VNNI packing within a lane: its registers are reinterpreted as wider words."""
    source, result = emitter.fragment(operation.source), emitter.fresh(operation.result)
    bits = source.dtype.bits * source.width
    if bits < 32:
        raise TargetError("XT9400", f"a fragment of {source.units} {source.dtype} does not pack into 32-bit words", BUG)
    pieces = [f"as_{vector_type('uint', bits // 32)}({name})" for name in source.names]
    each = len(pieces) // len(result.names)
    groups = [pieces[i:i + each] for i in range(0, len(pieces), each)]
    emitter.assign(operation.result, result, [f"({result.c_type})({', '.join(group)})" for group in groups])



def _iota(emitter: Emitter, operation: IotaOp) -> None:
    assert operation.sg_map is not None
    lanes, axis, fragment = operation.sg_map.data, operation.axis.value.data, emitter.fresh(operation.result)
    counted = lane_map.positions(operation.block_shape(), lanes)[axis][0].reshape(-1)
    start, lane = emitter.coordinate(operation.start), _lane(lanes, axis, emitter.subgroup)
    c_type = vector_type("int", fragment.width)
    expressions = []
    for first in range(0, fragment.units, fragment.width):
        words = [int(word) for word in counted[first:first + fragment.width]]
        base = start.plus(Coordinate((lane,) if lane else (), words[0]))
        steps = [word - words[0] for word in words]
        value = f"({c_type})({base})" if fragment.width > 1 else f"({base})"
        if any(steps):
            value = f"({value} + ({c_type})({', '.join(map(str, steps))}))"
        expressions.append(value if fragment.dtype.opencl == "int" else converted(value, i32, fragment.dtype,
                                                                                  fragment.width))
    emitter.assign(operation.result, fragment, expressions)


def _lane(lanes: LaneMap, axis: int, subgroup: int) -> str:
    """Offset of a lane's first element from that of lane 0, as C; empty where it is 0 in all lanes."""
    rows, columns = lanes.wi_layout
    if (rows, columns)[axis] == 1:
        return ""
    lane = "(int)get_sub_group_local_id()"
    if axis == 0:
        position = lane if columns == 1 else f"{lane} / {columns}"
        position = position if rows * columns == subgroup else f"{position} % {rows}"
    else:
        position = lane if columns == subgroup else f"{lane} % {columns}"
    return position if lanes.wi_data[axis] == 1 else f"{position} * {lanes.wi_data[axis]}"


RULES: dict[type[Operation], Rule] = {
    ExtractOp: _extract,
    ExtractScalarOp: _extract_scalar,
    ExtractStridedSliceOp: _slice,
    InsertStridedSliceOp: _insert,
    ShapeCastOp: _shape_cast,
    ub.PoisonOp: _poison,
    xvector.BroadcastOp: _spread,
    BitcastOp: _bitcast,
    PackOp: _pack,
    IotaOp: _iota,
}
