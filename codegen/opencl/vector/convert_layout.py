"""Layout conversion of fragments in OpenCL C: elements move between lanes by subgroup shuffles.

Where the elements stay where they are in the registers, and only belong to other lanes, registers are reinterpreted. A
register of 32 bytes (subgroups of 8) has a row of operand A, two 16-bit elements a lane; the halves of a row of two
accumulators that were converted to 16 bits, one element a lane each, are the same bytes.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation

from codegen.opencl.arith.predicate import register_bits
from codegen.opencl.emitter import Emitter, Rule
from codegen.opencl.prelude.macros import NO_VISA
from codegen.opencl.values import UNSIGNED, Fragment, vector_type
from codegen.opencl.vector.lane_exchange import called, index_table, packed_exchange
from xegpu.dialect.convert_layout import ConvertLayoutOp
from xegpu.ir.dtypes import DType
from xegpu.layout import lane_map
from xegpu.layout.lane_map import LaneMap
from xegpu.layout.linear_layout import LaneBits, bits_of

_REINTERPRETED_BITS = 16
"""Bits of the elements whose registers are reinterpreted: those that products take, and that come from wider ones."""
_MOST = 16
"""Elements of an OpenCL vector."""


def convert_layout(emitter: Emitter, operation: ConvertLayoutOp) -> None:
    """Convert a fragment to another lane map by shuffles, unless its registers are as the other map has them."""
    source, target = _maps(operation)
    shape, fragment = operation.block_shape(), emitter.fragment(operation.source)
    old, new = bits_of(shape, source, emitter.subgroup), bits_of(shape, target, emitter.subgroup)
    if old is not None and new is not None:
        _exchanged(emitter, operation, fragment, old, new)
        return
    result = emitter.fresh(operation.result)
    if _keeps_registers(emitter, operation, result):
        count = fragment.units // len(result.names)
        name = _reinterpretation(emitter, operation, fragment.slice(0, count), result)
        values = []
        for start in range(0, fragment.units, count):
            words = fragment.words()[start:start + count]
            vectors = [f"({vector_type(fragment.word, len(part))})({', '.join(part)})" for part in _vectors(words)]
            values.append(f"{name}({', '.join(vectors)})")
        emitter.assign(operation.result, result, values)
        return
    lane = emitter.name("lane_id")
    emitter.line(f"const uint {lane} = get_sub_group_local_id();")
    emitter.assign(operation.result, result, _shuffled(operation, fragment, result, lane))


def _maps(operation: ConvertLayoutOp) -> tuple[LaneMap, LaneMap]:
    assert operation.source_map is not None
    assert operation.target_map is not None
    return operation.source_map.data, operation.target_map.data


def _shuffled(operation: ConvertLayoutOp, fragment: Fragment, result: Fragment, lane: str, count: int = 0) -> list[str]:
    """Expressions of the result's variables, or of the first ``count``.

    For each element of the result, the source lane and word are computed; words that only some lanes need are shuffled
    by all, and selected afterwards.
    """
    (source, target), shape = _maps(operation), operation.block_shape()
    row, column = lane_map.positions(shape, target)
    bits = UNSIGNED[register_bits(fragment.dtype)]
    wide = "ulong" if bits == "ulong" else "uint"
    elements, width = _elements_of(fragment, wide, bits), result.width
    results = []
    for unit in range(count * width or row.shape[1]):
        parts = []
        for e in range(target.per_lane):
            r, c = row[:, unit, e], column[:, unit, e]
            holder, index = lane_map.holder(shape, source, r, c)
            parts.append(_fetched(elements, [int(h) for h in holder], [int(i) for i in index], lane, wide))
        results.append(joined(parts, fragment.dtype, result))
    groups = [results[i:i + width] for i in range(0, len(results), width)]
    return [f"({result.c_type})({', '.join(group)})" for group in groups]


def _keeps_registers(emitter: Emitter, operation: ConvertLayoutOp, result: Fragment) -> bool:
    """Whether each element stays at its place in the registers, in which lanes of a word follow each other."""
    (source, target), shape, lanes = _maps(operation), operation.block_shape(), emitter.subgroup
    bits, per_lane = result.dtype.bits, source.per_lane
    size = result.width * target.per_lane * lanes * bits // 8
    if emitter.target.is_cpu or bits != _REINTERPRETED_BITS or not source.lanes == target.lanes == lanes or \
            size % emitter.target.register_bytes:
        return False
    row, column = lane_map.positions(shape, target)
    lane, index = lane_map.holder(shape, source, row, column)
    places = (index // per_lane * lanes + lane) * per_lane + index % per_lane
    return np.array_equal(places.swapaxes(0, 1).ravel(), np.arange(places.size))


def _vectors(words: list[str]) -> list[list[str]]:
    return [words[i:i + _MOST] for i in range(0, len(words), _MOST)]


def _reinterpretation(emitter: Emitter, operation: ConvertLayoutOp, fragment: Fragment, result: Fragment) -> str:
    """Define the function that gives the registers of a variable of the result, and return its name.

    Args:
        emitter: the emitter.
        operation: the conversion.
        fragment: words that have the registers.
        result: the result, one variable of which is made.
    """
    dtype, register = fragment.dtype, emitter.target.register_bytes
    parts = _vectors(fragment.words())
    whole = len(parts[0]) * fragment.per_lane * dtype.bits * emitter.subgroup // 8
    maps = "_to_".join(f"{lanes.wi_layout[0]}x{lanes.wi_layout[1]}_each_{lanes.wi_data[0]}x{lanes.wi_data[1]}"
                       for lanes in _maps(operation))
    name = f"registers_of_{dtype}_{fragment.units}_{maps}_as_{result.c_type}"
    step = min(2 * register, whole)
    lines = ["{", f".decl O v_type=G type=ud num_elts={whole * len(parts) // 4} align=GRF alias=<%0, 0>"]
    for number in range(len(parts)):
        lines += [f".decl I{number} v_type=G type=ud num_elts={whole // 4} align=GRF alias=<%{number + 1}, 0>",
                  *(f"mov (M1_NM, {step // 4}) O({(number * whole + at) // register},0)<1> "
                    f"I{number}({at // register},0)<1;1,0>" for at in range(0, whole, step))]
    assembly = "".join(f'    "{line}\\n"\n' for line in [*lines, "}"])
    parameters = [f"{vector_type(fragment.word, len(part))} v{i}" for i, part in enumerate(parts)]
    inputs = ", ".join(f'"rw"(v{i})' for i in range(len(parts)))
    taken = Fragment(dtype, fragment.units, fragment.per_lane, tuple(f"v{i}" for i in range(len(parts))))
    emitter.function(
        f"static {result.c_type} {name}({', '.join(parameters)})\n{{\n#ifdef {NO_VISA}\n"
        f"  const uint lane = get_sub_group_local_id();\n"
        f"  return {_shuffled(operation, taken, result, 'lane', 1)[0]};\n"
        f"#else\n  {result.c_type} words;\n  __asm__(\n{assembly}    : \"=rw\"(words) : {inputs});\n  return words;\n"
        "#endif\n}\n")
    return name


def _exchanged(emitter: Emitter, operation: ConvertLayoutOp, fragment: Fragment, old: LaneBits,
               new: LaneBits) -> None:
    """Convert between linear layouts: exchanges of lane and unit bits, in a function for each pair of maps."""
    result, dtype = emitter.fresh(operation.result), fragment.dtype
    parameters = fragment.renamed(tuple(f"v{i}" for i in range(len(fragment.names))))
    words, elements = packed_exchange(parameters.words(), dtype, old, new)
    rows, columns = operation.block_shape()
    maps_name = "_to_".join(f"{lanes.wi_layout[0]}x{lanes.wi_layout[1]}" for lanes in _maps(operation))
    called(emitter, f"convert_{dtype}_{rows}x{columns}_from_{maps_name}",
           [(fragment.c_type, variable) for variable in fragment.names], words, result, elements)
    emitter.values[operation.result] = result


def _elements_of(fragment: Fragment, wide: str, bits: str) -> list[str]:
    """Bits of each element of a fragment as a shuffled word; packed words are split into elements."""
    if fragment.per_lane == 1:
        return [f"({wide})as_{bits}({word})" for word in fragment.words()]
    size = fragment.dtype.bits
    return [f"(uint)({word}) >> {size * e} & {(1 << size) - 1:#x}u"
            for word in fragment.words() for e in range(fragment.per_lane)]


def _fetched(elements: list[str], holder: list[int], index: list[int], lane: str, wide: str) -> str:
    """Bits of one element in every lane: from lane ``holder``, element ``index``.

    All lanes take part in every shuffle, hence ``select``, which evaluates both operands, and not ``?:``, whose
    branches may diverge.
    """
    from_lane = index_table(holder, lane)
    fetched = {i: f"intel_sub_group_shuffle({elements[i]}, {from_lane})" for i in sorted(set(index))}
    first, *rest = fetched.items()
    expression = first[1]
    for i, value in rest:
        lanes_of_i = sum(1 << position for position, at in enumerate(index) if at == i)
        expression = f"select({expression}, {value}, ({wide})(({lanes_of_i:#x}u >> {lane}) & 1u))"
    return expression


def joined(parts: list[str], dtype: DType, result: Fragment) -> str:
    """A word of a fragment, from the bits of its elements."""
    bits = UNSIGNED[register_bits(dtype)]
    if len(parts) == 1:
        return f"as_{dtype.register}(({bits})({parts[0]}))"
    return f"({result.word})(" + " | ".join(f"({part}) << {i * dtype.bits}" for i, part in enumerate(parts)) + ")"


RULES: dict[type[Operation], Rule] = {ConvertLayoutOp: convert_layout}
