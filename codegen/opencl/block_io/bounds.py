"""Bounds checks of blocks in OpenCL C."""

from __future__ import annotations

from xdsl.ir import Operation

from codegen.opencl.emitter import Emitter, Rule, wrapping
from codegen.opencl.values import Coordinate, Descriptor
from xegpu.dialect.block_io import desc_of
from xegpu.dialect.bounds import InBoundsOp, NoAliasOp


def _in_bounds(emitter: Emitter, operation: InBoundsOp) -> None:
    desc: Descriptor = emitter.values[operation.desc]
    size, (top, left, bottom, right) = desc_of(operation.desc).dtype.bytes, operation.sides
    first, last = ((desc.row.plus(Coordinate((), y)), desc.column.plus(Coordinate((), x)))
                   for y, x in ((top, left), (bottom, right)))
    conditions = [f"{wrapping(at)} >= 0" for at in first]
    conditions += [f"{wrapping(first[0])} <= {desc.height} - {bottom - top}",
                   f"{wrapping(first[1])} <= {desc.width} - {right - left}"]
    if (multiple := operation.bytes_of_alignment) > 1:
        bits = f"(uint)(ulong){desc.array.name} | (uint)({desc.pitch}) * {size}u | (uint)({first[1]}) * {size}u"
        conditions.append(f"(({bits}) & {multiple - 1}u) == 0")
    emitter.define(operation.inside, "bool", " && ".join(conditions))
    for result, end, coordinate in ((operation.rows, desc.height, last[0]), (operation.columns, desc.width, last[1])):
        if result.first_use is not None:
            emitter.define(result, "int", f"(int)((uint){end} - (uint)({wrapping(coordinate)}))")


def _no_alias(emitter: Emitter, operation: NoAliasOp) -> None:
    left, right = (emitter.values[desc] for desc in operation.operands)
    conditions = [f"(ulong)({one.array.name} + {one.height} * (long){one.pitch}) <= (ulong){other.array.name}"
                  for one, other in ((left, right), (right, left))]
    emitter.define(operation.result, "bool", " || ".join(conditions))


RULES: dict[type[Operation], Rule] = {InBoundsOp: _in_bounds, NoAliasOp: _no_alias}
