"""Layout conversion of fragments in OpenCL C: elements move between lanes by subgroup shuffles."""

from __future__ import annotations

from xdsl.ir import Operation

from codegen.opencl.arith.predicate import register_bits
from codegen.opencl.emitter import Emitter, Rule
from codegen.opencl.values import UNSIGNED, Fragment
from codegen.opencl.vector.lane_exchange import called, index_table, packed_exchange
from xegpu.dialect.convert_layout import ConvertLayoutOp
from xegpu.ir.dtypes import DType
from xegpu.layout import lane_map
from xegpu.layout.linear_layout import LaneBits, bits_of


def convert_layout(emitter: Emitter, operation: ConvertLayoutOp) -> None:
    """Convert a fragment to another lane map by shuffles.

    For each element of the result, the source lane and word are computed; words that only some lanes need are shuffled
    by all, and selected afterwards.
    """
    assert operation.source_map is not None
    assert operation.target_map is not None
    source, target, shape = operation.source_map.data, operation.target_map.data, operation.block_shape()
    fragment = emitter.fragment(operation.source)
    old, new = bits_of(shape, source, emitter.subgroup), bits_of(shape, target, emitter.subgroup)
    if old is not None and new is not None:
        _exchanged(emitter, operation, fragment, old, new)
        return
    result = emitter.fresh(operation.result)
    row, column = lane_map.positions(shape, target)
    bits = UNSIGNED[register_bits(fragment.dtype)]
    wide = "ulong" if bits == "ulong" else "uint"
    elements = _elements_of(fragment, wide, bits)
    lane = emitter.name("lane_id")
    emitter.line(f"const uint {lane} = get_sub_group_local_id();")
    results = []
    for unit in range(row.shape[1]):
        parts = []
        for e in range(target.per_lane):
            r, c = row[:, unit, e], column[:, unit, e]
            holder, index = lane_map.holder(shape, source, r, c)
            parts.append(_fetched(elements, [int(h) for h in holder], [int(i) for i in index], lane, wide))
        results.append(joined(parts, fragment.dtype, result))
    width = result.width
    groups = [results[i:i + width] for i in range(0, len(results), width)]
    emitter.assign(operation.result, result, [f"({result.c_type})({', '.join(group)})" for group in groups])


def _exchanged(emitter: Emitter, operation: ConvertLayoutOp, fragment: Fragment, old: LaneBits,
               new: LaneBits) -> None:
    """Convert between linear layouts: exchanges of lane and unit bits, in a function for each pair of maps."""
    assert operation.source_map is not None
    assert operation.target_map is not None
    result, dtype = emitter.fresh(operation.result), fragment.dtype
    parameters = fragment.renamed(tuple(f"v{i}" for i in range(len(fragment.names))))
    words, elements = packed_exchange(parameters.words(), dtype, old, new)
    (rows, columns), maps = operation.block_shape(), (operation.source_map.data, operation.target_map.data)
    maps_name = "_to_".join(f"{lanes.wi_layout[0]}x{lanes.wi_layout[1]}" for lanes in maps)
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
