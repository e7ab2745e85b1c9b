"""Nonzero padding in OpenCL C: elements out of bounds are replaced after a load."""

from __future__ import annotations

from xdsl.ir import Operation

from codegen.opencl.arith.operands import literal, stored
from codegen.opencl.emitter import COLUMNS_OF_ROW, Emitter, Rule, likely_in_bounds, masks_row, wrapping, zero_in_step
from codegen.opencl.prelude.macros import CALL
from codegen.opencl.values import Coordinate, Descriptor, Fragment
from xegpu.dialect.block_io import LoadNdOp, desc_of
from xegpu.dialect.vector import PadOp
from xegpu.layout import lane_map
from xegpu.layout.lane_map import LaneMap

Word = tuple[int, int]


def _pad(emitter: Emitter, operation: PadOp) -> None:
    load = _load_of(operation) if emitter.target.is_cpu else None
    if load is not None and load.in_bounds is not None:
        emitter.rename(operation.result, operation.value)
        return
    assert operation.sg_map is not None
    lanes, shape = operation.sg_map.data, desc_of(operation.desc).shape
    split = operation.value in emitter.split
    source = (emitter.by_words if split else emitter.fragment)(operation.value)
    result = emitter.fresh(operation.result, scalars=split and source.units > 1)
    desc: Descriptor = emitter.values[operation.desc]
    row, column = lane_map.positions((shape[0], shape[1]), lanes)
    padding = stored(literal(operation.number, source.dtype), source.dtype)
    left_column = desc.column
    if desc_of(operation.desc).block.access == "block":  # else the descriptor has it
        left_column = left_column.plus(zero_in_step(emitter, operation))
    expressions, attribute = [], "" if masks_row(emitter, source, lanes) else f"{CALL} "
    for position, name in enumerate(source.names):
        units = range(position * source.width, (position + 1) * source.width)
        words = [(int(row[0, unit, 0]), int(column[0, unit, 0])) for unit in units]
        top, left = words[0]
        relative = [(r - top, c - left) for r, c in words]
        function = _padding_function(emitter, source, lanes, relative, padding, attribute)
        y, x = desc.row.plus(Coordinate((), top)), left_column.plus(Coordinate((), left))
        expressions.append(f"{function}({name}, {desc.height}, {desc.width}, {wrapping(y)}, {wrapping(x)})")
    if not emitter.target.is_cpu:
        emitter.assign(operation.result, result, expressions)
        return
    emitter.assign(operation.result, result, source.names)
    emitter.line("{" if load is None else f"if (!{likely_in_bounds(emitter, load)}) {{")
    for name, expression in zip(result.names, expressions, strict=True):
        emitter.line(f"  {name} = {expression};")
    emitter.line("}")
    if split:
        emitter.set_words(operation.result, result)


def _load_of(operation: PadOp) -> LoadNdOp | None:
    """The load, in the same block, of which a padded value is all or a part; None if it is not known."""
    value = operation.value
    while isinstance(value.owner, Operation) and value.owner.parent is operation.parent:
        if isinstance(value.owner, LoadNdOp):
            return value.owner
        if len(value.owner.operands) != 1:
            return None
        value = value.owner.operands[0]
    return None


def _padding_function(emitter: Emitter, fragment: Fragment, lanes: LaneMap, words: list[Word], padding: str,
                      attribute: str) -> str:
    """Define a function that pads one variable, whose words have the offsets ``words``, and return its name."""
    rows, columns = (max(axis) + unit for axis, unit in zip(zip(*words, strict=True), lanes.unit, strict=True))
    label = "".join(character if character.isalnum() else "_" for character in padding.replace("+", ""))
    name = (f"pad_{fragment.dtype}_{rows}x{columns}_lanes_{lanes.wi_layout[0]}x{lanes.wi_layout[1]}_by_{label}"
            f"{'' if attribute else '_masked'}")
    across = lanes.wi_layout[1]
    head = f"{attribute}static {fragment.c_type} {name}({fragment.c_type} value, int height, int width, int y, int x)"
    if not attribute:
        emitter.function("\n".join([head, "{", f"  {COLUMNS_OF_ROW}",
                                    "  const uint column = x + get_sub_group_local_id();",
                                    f"  return column < columns ? value : {padding};", "}", ""]))
        return name
    parts = fragment.renamed(("value",) * (fragment.units // fragment.width)).words()[:fragment.width]
    chosen = [f"  {part} = row + {r}u < (uint)height && column + {c}u < (uint)width ? {part} : {padding};"
              for part, (r, c) in zip(parts, words, strict=True)]
    repeats = f" % {lanes.lanes}" if lanes.lanes < emitter.subgroup else ""
    lines = [head, "{", f"  const int lane = get_sub_group_local_id(){repeats};",
             f"  const uint row = (uint)y + lane / {across}, column = (uint)x + lane % {across};",
             f"  if (y >= 0 && x >= 0 && y <= height - {rows} && x <= width - {columns}) return value;",
             *chosen, "  return value;", "}", ""]
    emitter.function("\n".join(lines))
    return name


RULES: dict[type[Operation], Rule] = {PadOp: _pad}
