"""Vectors of positions in OpenCL C: a lane's own position, and a constant for each word."""

from __future__ import annotations

from xdsl.ir import Operation

from codegen.elementwise import converted
from codegen.emitter import Emitter, Rule
from codegen.fragments import Coordinate, vector_type
from xegpu.dialect.reduction import IotaOp
from xegpu.ir.dtypes import i32
from xegpu.layout import lane_map
from xegpu.layout.lane_map import LaneMap


def _iota(emitter: Emitter, operation: IotaOp) -> None:
    assert operation.sg_map is not None
    lanes, axis, fragment = operation.sg_map.data, operation.axis.value.data, emitter.fresh(operation.result)
    counted = lane_map.positions(operation.block_shape(), lanes)[axis][0].reshape(-1)
    start, lane = emitter.coordinate(operation.start), _lane(lanes, axis, emitter.subgroup)
    whole = vector_type("int", fragment.width)
    expressions = []
    for first in range(0, fragment.units, fragment.width):
        words = [int(word) for word in counted[first:first + fragment.width]]
        base = start.plus(Coordinate(lane, words[0]))
        steps = [word - words[0] for word in words]
        value = f"({whole})({base})" if fragment.width > 1 else f"({base})"
        if any(steps):
            value = f"({value} + ({whole})({', '.join(map(str, steps))}))"
        expressions.append(value if fragment.dtype.opencl == "int" else converted(value, i32, fragment.dtype,
                                                                                  fragment.width))
    emitter.assign(operation.result, fragment, expressions)


def _lane(lanes: LaneMap, axis: int, subgroup: int) -> str:
    """How far a lane's first element lies from that of lane 0; nothing where all lie alike."""
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


IOTA_RULES: dict[type[Operation], Rule] = {IotaOp: _iota}
