"""Shuffle of the elements of fragments in OpenCL C: words of a lane, and subgroup shuffles of words of others."""

from __future__ import annotations

from itertools import accumulate, pairwise
from math import prod

import numpy as np
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation

from codegen.opencl.emitter import Emitter, Rule
from codegen.opencl.prelude.macros import NO_VISA
from codegen.opencl.values import Fragment
from codegen.opencl.vector.lane_exchange import bits_in, bits_out, index_table, number_table, shuffled_type
from xegpu.dialect.vector import ShuffleOp
from xegpu.ir.matchers import splat_of
from xegpu.layout import lane_map
from xegpu.layout.word_columns import Region, region_of

Word = tuple[int, int]
"""A source, and a word of its fragment."""
_LANES = 16
"""Lanes of the subgroups whose words of 32 bits are a register."""


def _shuffle(emitter: Emitter, operation: ShuffleOp) -> None:
    """Shuffle: for each word of the result, the words that lanes take it from; each is moved by at most one shuffle."""
    *shapes, shape = operation.block_shapes()
    maps = operation.lane_maps()
    assert maps is not None, "lanes are distributed"
    *sources, target = maps
    dtype = emitter.fragment(operation.sources[0]).dtype
    held = [emitter.fragment(source).words() for source in operation.sources]
    words = [[bits_in(word, dtype) for word in fragment] for fragment in held]
    splats = [isinstance(source.owner, BroadcastOp) for source in operation.sources]
    numbers = [splat_of(source) for source in operation.sources] if dtype.kind in "iu" and dtype.bits <= 32 else [None]
    starts, mask = list(accumulate(map(prod, shapes), initial=0)), np.array(operation.mask.get_values())
    row, column = lane_map.positions(shape, target, emitter.subgroup)
    elements = mask[row * shape[1] + column][..., 0]
    lane, result = emitter.name("lane_id"), emitter.fresh(operation.result)
    emitter.line(f"const uint {lane} = get_sub_group_local_id();")
    parts = []
    tables: dict[str, str] = {}
    for unit in range(elements.shape[1]):
        if None not in numbers:
            of_lanes = [numbers[int(i)] or 0 for i in np.searchsorted(starts, elements[:, unit], "right") - 1]
            if (table := number_table(of_lanes, lane)) is not None:
                parts.append(_row(emitter, tables, bits_out(table, dtype), result))
                continue
        taken: dict[Word, dict[int, int]] = {}
        for into, element in enumerate(elements[:, unit]):
            source = next(k for k, (first, end) in enumerate(pairwise(starts)) if first <= element < end)
            at = divmod(int(element) - starts[source], shapes[source][1])
            holder, index = lane_map.holder(shapes[source], sources[source], *at)
            taken.setdefault((source, int(index)), {})[into] = int(holder)
        fetched = {word: words[word[0]][word[1]] if splats[word[0]] else
                   _fetched(emitter, words[word[0]][word[1]], lanes, lane, sources[word[0]].lanes,
                            is_word=shuffled_type(dtype) == "uint")
                   for word, lanes in taken.items()}
        ((source, index), word), *others = fetched.items()
        parts.append(held[source][index] if not others and word == words[source][index] else
                     bits_out(_selected(taken, fetched, lane, shuffled_type(dtype)), dtype))
    groups = [parts[i:i + result.width] for i in range(0, len(parts), result.width)]
    emitter.assign(operation.result, result, [f"({result.c_type})({', '.join(group)})" for group in groups])


def _row(emitter: Emitter, tables: dict[str, str], value: str, like: Fragment) -> str:
    """The variable of a word of numbers, of which most rows have the same."""
    if value not in tables:
        tables[value] = emitter.name("numbers")
        emitter.line(f"const {like.word} {tables[value]} = {value};")
    return tables[value]


def _fetched(emitter: Emitter, word: str, lanes: dict[int, int], lane: str, spread: int, *,
             is_word: bool) -> str:
    """A word read from other lanes by a shuffle; by none if each lane reads its own.

    Args:
        emitter: the emitter.
        word: the word's bits.
        lanes: for each lane that takes it, the lane of which it is, in the source's map.
        lane: a lane's number, in C.
        spread: lanes of the source's map, which is replicated over the subgroup.
        is_word: whether the bits are 32.
    """
    subgroup = emitter.subgroup
    if all(holder == into % spread for into, holder in lanes.items()):
        return word
    distances = {(holder - into) % subgroup for into, holder in lanes.items()}
    if len(distances) == 1:
        return f"intel_sub_group_shuffle_down({word}, {word}, {distances.pop()}u)"  # with itself: a rotation
    source = index_table([lanes.get(into, 0) for into in range(subgroup)], lane)
    first, fits = min(lanes.values()), subgroup == _LANES and emitter.target.register_bytes == 4 * _LANES
    region = region_of(tuple(lanes.get(into, -1) - first for into in range(subgroup))) if fits and is_word else None
    if region is None:
        return f"intel_sub_group_shuffle({word}, {source})"
    return f"{_region_function(emitter, first, region)}({word}, {source})"


def repeated_row(emitter: Emitter, word: str) -> str:
    """A word of 32 bits of which the upper half of 16 lanes has the lower half's."""
    return f"{_region_function(emitter, 0, (0, _LANES // 2, 1))}({word}, get_sub_group_local_id() % {_LANES // 2}u)"


def _region_function(emitter: Emitter, first: int, region: Region) -> str:
    """Define the function that gives lanes the words of a register region, by one instruction, and return its name.

    By the lanes' numbers, which compilers without vISA take, they are fetched by three, through address registers.
    """
    name, (pitch, width, stride) = "_".join(map(str, ("region", first, *region))), region
    lines = "".join(f'    "{line}\\n"\n' for line in (
        "{", *(f".decl {letter} v_type=G type=ud num_elts={_LANES} align=GRF alias=<%{number}, 0>"
               for number, letter in enumerate("RW")),
        f"mov (M1_NM, {_LANES}) R(0,0)<1> W(0,{first})<{pitch};{width},{stride}>", "}"))
    emitter.function(f"static uint {name}(uint word, uint lane)\n{{\n#ifdef {NO_VISA}\n"
                     f"  return intel_sub_group_shuffle(word, lane);\n#else\n  uint words;\n  __asm__(\n{lines}"
                     '    : "=rw"(words) : "rw"(word));\n  return words;\n#endif\n}\n')
    return name


def _selected(taken: dict[Word, dict[int, int]], fetched: dict[Word, str], lane: str, wide: str) -> str:
    """The word that a lane takes of those fetched. All lanes take part in each shuffle: hence ``select``, not ``?:``,
    whose branches may diverge."""
    (_, expression), *rest = fetched.items()
    for word, value in rest:
        lanes = sum(1 << into for into in taken[word])
        expression = f"select({expression}, {value}, ({wide})(({lanes:#x}u >> {lane}) & 1u))"
    return expression


RULES: dict[type[Operation], Rule] = {ShuffleOp: _shuffle}
