"""Sums and extremes of rows by register regions: two registers give two with lanes of both, which are combined.

Eight rows of 16 lanes are eight registers; lanes 0 to 7 of two of them are one region, lanes 8 to 15 another. So 16
rows take 8 + 4 + 2 + 1 combinations of 16 lanes, each behind two moves, where a shuffle takes more and needs two
selects. The moves are of integers: regions of floats must not change lanes. An extreme of numbers, none of which is
NaN, takes two integer instructions instead of three, as those take regions themselves. It needs registers of 64 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codegen.opencl.emitter import Emitter
from codegen.opencl.prelude.macros import NO_VISA
from codegen.opencl.values import vector_type
from codegen.opencl.vector.lane_exchange import Combine, Words
from xegpu.layout.linear_layout import LaneBits

_LANES = 16
_ROWS = ("LOW", "HIGH")
"""Names of the inputs of eight rows each in vISA, which has V0, V1 ... itself."""


def reduce_words(words: Words, axes: Sequence[int], target: LaneBits, combine: Combine, *,
                 by_halves: bool = False) -> None:
    """Reduce words along axes, to the lane map of the result.

    Unit bits are reduced first, then lane bits that the result needs for a unit bit: merge does both at once.

    Args:
        words: the words to reduce.
        axes: that are reduced.
        target: lane map of the result.
        combine: combining function of words.
        by_halves: whether words of 64 bits are shuffled as two of 32.
    """
    for position in reversed([i for i, (axis, _) in enumerate(words.unit) if axis in axes]):
        words.combine(position, combine)
    reduced = [bit for bit, source_bit in enumerate(words.lane) if source_bit is not None and source_bit[0] in axes]
    for bit in reduced:
        wanted = target.lane[bit]
        if wanted is not None and wanted in words.unit:
            words.merge(bit, words.unit.index(wanted), combine)
    for bit in reduced:
        source_bit = words.lane[bit]
        if source_bit is not None and source_bit[0] in axes:
            words.fold(bit, combine, by_halves=by_halves)
    words.arrange(target)


def repeat_lanes(emitter: Emitter, first: int, each: int) -> str:
    """Define the function that gives so many lanes in turn the word of one lane, from a lane on; returns its name.

    A region of a register with a horizontal stride of 0 is that, in one instruction, where a shuffle makes an address
    for each lane.
    """
    name = f"repeat_lanes_by_{each}_from_{first}"
    emitter.function(f"""static uint {name}(uint word)
{{
#ifdef {NO_VISA}
  return intel_sub_group_shuffle(word, (uint)get_sub_group_local_id() / {each}u + {first}u);
#else
  uint words;
  __asm__("mov (M1_NM, {_LANES}) %0(0,0)<1> %1(0,{first})<1;{each},0>" : "=rw"(words) : "rw"(word));
  return words;
#endif
}}
""")
    return name


def applies(words: Words, axes: Sequence[int], c_type: str, target: LaneBits) -> bool:
    """Whether words are rows of 16 lanes, of which lane ``l`` of the result holds row ``l`` or ``l % 8``."""
    rows = [bit for bit in words.unit if bit[0] not in axes]
    lanes = [bit for bit in target.lane if bit is not None]
    return c_type == "float" and len(words.lane) == 4 and rows in (lanes[:3], lanes) and len(rows) >= 3 and \
        list(target.lane[:len(rows)]) == rows and not target.unit and \
        all(bit is not None and bit[0] in axes for bit in words.lane)


def reduce_rows(emitter: Emitter, words: Words, axes: Sequence[int], target: LaneBits,
                combines: Mapping[int, Combine], bits: Sequence[tuple[str, str]] = ()) -> None:
    """Reduce words along axes to one: by regions, and by shuffles for compilers without vISA.

    Args:
        emitter: the emitter.
        words: rows of 16 lanes; see :func:`applies`.
        axes: that are reduced.
        target: lane map of the result.
        combines: combining functions of vectors of a width.
        bits: two instructions with their types that reduce the bits of floats as integers, of whose results the
            combination is that of the rows. Empty where floats are combined.
    """
    for position in reversed([i for i, (axis, _) in enumerate(words.unit) if axis in axes]):
        words.combine(position, combines[1])
    rows, before = list(words.names), len(words.lines)
    reduce_words(words, axes, target, combines[1])
    portable, words.lines = words.lines[before:], words.lines[:before]
    lines: list[str] = []
    if bits:
        eights = [f"as_uint8((float8)({', '.join(rows[at:at + 8])}))" for at in range(0, len(rows), 8)]
        low, high = (f"as_float({_of_bits(emitter, opcode, type_, len(eights))}({', '.join(eights)}))"
                     for opcode, type_ in bits)
    else:
        low, high = _by_moves(emitter, rows, combines, lines)
    lines += [f"const float low = {low}, high = {high};"]
    words.lines += ["float rows;", f"#ifdef {NO_VISA}", *portable, f"rows = {words.names[0]};", "#else", *lines,
                    f"rows = {combines[1]('low', 'high')};", "#endif"]
    words.names = ["rows"]


def _by_moves(emitter: Emitter, rows: Sequence[str], combines: Mapping[int, Combine],
              lines: list[str]) -> tuple[str, str]:
    """Two words whose combination is that of rows: floats, of which integer moves take the halves of registers."""
    parts = []
    for number, at in enumerate(range(0, len(rows), 8)):
        value, width = f"(float8)({', '.join(rows[at:at + 8])})", 8
        while width > 1:
            low, high = (f"as_{vector_type('float', width // 2)}({_half(emitter, width, width, first)}(as_uint{width}("
                         f"{value})))" for first in (0, 1))
            width //= 2
            name = f"rows{number}_{width}"
            lines += [f"const {vector_type('float', width)} {name}_low = {low}, {name}_high = {high};",
                      f"const {vector_type('float', width)} {name} = "
                      f"{combines[width](f'{name}_low', f'{name}_high')};"]
            value = name
        parts.append(value)
    joined = f"(uint2)({', '.join(f'as_uint({part})' for part in (parts[0], parts[-1]))})"
    low, high = (f"as_float({_half(emitter, 2, 1, first)}({joined}))" for first in (0, 1))
    return low, high


def _of_bits(emitter: Emitter, opcode: str, type_: str, eights: int) -> str:
    """Define the function that reduces one or two times eight registers of integers to one, and return its name.

    An instruction takes both halves of two registers as regions, and gives one: of 8 of them come 4, 2, and then 1.
    Few registers are live at once, since all scores are where softmax takes their maxima.
    """
    name = f"{opcode}_{type_}_of_{8 * eights}_rows"
    lines = ["{", *(f".decl {variable} v_type=G type={type_} num_elts={registers * _LANES} align=GRF{alias}"
                    for variable, registers, alias in (
                        ("OF_ALL", 1, " alias=<%0, 0>"),
                        *((_ROWS[eight], 8, f" alias=<%{eight + 1}, 0>") for eight in range(eights)),
                        ("QUARTERS", 4, ""), ("EIGHTHS", 2, ""), ("SIXTEENTHS", 2, "")))]

    def fold(result: str, lanes: int, source: str, group: int) -> None:
        lines.append(f"{opcode} (M1_NM, {lanes}) {result}<1> {source},0){_region(group)} "
                     f"{source},{group}){_region(group)}")

    for eight in range(eights):
        for source, result, pairs in ((_ROWS[eight], "QUARTERS", 4), ("QUARTERS", "EIGHTHS", 2)):
            for pair in range(pairs):
                fold(f"{result}({pair},0)", _LANES, f"{source}({2 * pair}", 2 * pairs)
        fold(f"SIXTEENTHS({eight},0)", _LANES, "EIGHTHS(0", 2)
    for lane in range(0, _LANES, 8 * eights):
        fold(f"OF_ALL(0,{lane})", 8 * eights, "SIXTEENTHS(0", 1)
    assembly = "".join(f'    "{line}\\n"\n' for line in (*lines, "}"))
    arguments = [f"uint8 v{eight}" for eight in range(eights)]
    inputs = ", ".join(f'"rw"(v{eight})' for eight in range(eights))
    emitter.function(f"#ifndef {NO_VISA}\nstatic uint {name}({', '.join(arguments)})\n{{\n  uint words;\n"
                     f"  __asm__(\n{assembly}    : \"=rw\"(words) : {inputs});\n  return words;\n}}\n#endif\n")
    return name


def _region(group: int) -> str:
    """Region of the first halves of groups of lanes."""
    return f"<{2 * group};{group},1>" if group > 1 else "<2;1,0>"


def _half(emitter: Emitter, registers: int, group: int, first: int) -> str:
    """Define the function that takes the lower or upper halves of groups of lanes, and return its name.

    Args:
        emitter: the emitter.
        registers: of 16 lanes that it takes, twice as many as it returns.
        group: lanes of a half.
        first: 0 for the lower halves, 1 for the upper ones.
    """
    name = f"{('lower', 'upper')[first]}_{group}_lanes_of_{registers}"
    result = vector_type("uint", registers // 2)
    lines = ["{", f".decl R v_type=G type=ud num_elts={registers * 8} align=GRF alias=<%0, 0>",
             f".decl V v_type=G type=ud num_elts={registers * 16} align=GRF alias=<%1, 0>",
             *(f"mov (M1_NM, {_LANES}) R({at},0)<1> V({2 * at},{group * first}){_region(group)}"
               for at in range(registers // 2)), "}"]
    assembly = "".join(f'    "{line}\\n"\n' for line in lines)
    emitter.function(f"#ifndef {NO_VISA}\nstatic {result} {name}(uint{registers} v)\n{{\n  {result} words;\n"
                     f"  __asm__(\n{assembly}    : \"=rw\"(words) : \"rw\"(v));\n  return words;\n}}\n#endif\n")
    return name
