"""Shuffle of the elements of fragments in OpenCL C: words of a lane, and subgroup shuffles of words of others."""

from __future__ import annotations

from itertools import accumulate, pairwise
from math import prod

import numpy as np
from xdsl.ir import Operation

from codegen.opencl.arith.predicate import register_bits
from codegen.opencl.emitter import Emitter, Rule
from codegen.opencl.values import UNSIGNED
from codegen.opencl.vector.convert_layout import joined
from codegen.opencl.vector.lane_exchange import index_table
from xegpu.dialect.vector import ShuffleOp
from xegpu.layout import lane_map

Word = tuple[int, int]
"""A source, and a word of its fragment."""


def _shuffle(emitter: Emitter, operation: ShuffleOp) -> None:
    """Shuffle: for each word of the result, the words that lanes take it from; each is moved by at most one shuffle."""
    *shapes, shape = operation.block_shapes()
    maps = operation.lane_maps()
    assert maps is not None, "lanes are distributed"
    *sources, target = maps
    dtype = emitter.fragment(operation.sources[0]).dtype
    bits = UNSIGNED[register_bits(dtype)]
    wide = "ulong" if bits == "ulong" else "uint"
    words = [[f"({wide})as_{bits}({word})" for word in emitter.fragment(source).words()]
             for source in operation.sources]
    starts, mask = list(accumulate(map(prod, shapes), initial=0)), np.array(operation.mask.get_values())
    row, column = lane_map.positions(shape, target, emitter.subgroup)
    elements = mask[row * shape[1] + column][..., 0]
    lane, result = emitter.name("lane_id"), emitter.fresh(operation.result)
    emitter.line(f"const uint {lane} = get_sub_group_local_id();")
    parts = []
    for unit in range(elements.shape[1]):
        taken: dict[Word, dict[int, int]] = {}
        for into, element in enumerate(elements[:, unit]):
            source = next(k for k, (first, end) in enumerate(pairwise(starts)) if first <= element < end)
            at = divmod(int(element) - starts[source], shapes[source][1])
            holder, index = lane_map.holder(shapes[source], sources[source], *at)
            taken.setdefault((source, int(index)), {})[into] = int(holder)
        fetched = {word: _fetched(words[word[0]][word[1]], lanes, lane, emitter.subgroup, sources[word[0]].lanes)
                   for word, lanes in taken.items()}
        parts.append(joined([_selected(taken, fetched, lane, wide)], dtype, result))
    groups = [parts[i:i + result.width] for i in range(0, len(parts), result.width)]
    emitter.assign(operation.result, result, [f"({result.c_type})({', '.join(group)})" for group in groups])


def _fetched(word: str, lanes: dict[int, int], lane: str, subgroup: int, spread: int) -> str:
    """A word as lanes take it from others; without a shuffle where each has it.

    Args:
        word: the word's bits.
        lanes: for each lane that takes it, the lane of which it is, in the source's map.
        lane: a lane's number, in C.
        subgroup: lanes of the subgroup.
        spread: lanes of the source's map, which is replicated over the subgroup.
    """
    if all(holder == into % spread for into, holder in lanes.items()):
        return word
    distances = {(holder - into) % subgroup for into, holder in lanes.items()}
    if len(distances) == 1:
        return f"intel_sub_group_shuffle_down({word}, {word}, {distances.pop()}u)"  # with itself: a rotation
    source = index_table([lanes.get(into, 0) for into in range(subgroup)], lane)
    return f"intel_sub_group_shuffle({word}, {source})"


def _selected(taken: dict[Word, dict[int, int]], fetched: dict[Word, str], lane: str, wide: str) -> str:
    """The word that a lane takes of those fetched. All lanes take part in each shuffle: hence ``select``, not ``?:``,
    whose branches may diverge."""
    (_, expression), *rest = fetched.items()
    for word, value in rest:
        lanes = sum(1 << into for into in taken[word])
        expression = f"select({expression}, {value}, ({wide})(({lanes:#x}u >> {lane}) & 1u))"
    return expression


RULES: dict[type[Operation], Rule] = {ShuffleOp: _shuffle}
