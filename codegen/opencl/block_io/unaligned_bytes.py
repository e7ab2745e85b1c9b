"""Words of 8-bit elements of unaligned rows: funnel shifts of aligned words, or moves of bytes.

A row begins with a byte 0 to 3 of a word, behind ``odd`` bits of it. Its words are made of those from there on,
``here``, and of the next ones, ``there``, which are the same ones where ``odd`` is 0, and where a run of one or two
columns ends in the first word, since the next one may lie behind the array:

    here >> odd | there << (32 - odd)        shifts count modulo 32, so that both are the word itself where odd is 0

A word of operand A is that of one row. One of operand B has a column's bytes of four rows (VNNI), each of which a
move of every fourth byte puts in place. Four rows on, a row begins with the same byte of a word, so that ``odd`` of
each of a lane's four rows is one number for all lanes. So where one vector has all bytes of a row (``row_behind``),
nothing is shifted: the moves read from a register and a byte that address registers hold, which is column ``c`` of a
row's vector, ``c + odd / 8`` bytes into its words, each of them in a register of its own:

    mov (32)  O(0,1)<4>  r[a(4 * row + c)]<4;1,0>:ub         columns c and c + 4, of two registers
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from codegen.opencl.emitter import Emitter
from codegen.opencl.prelude.macros import NO_VISA
from codegen.opencl.values import vector_type
from xegpu.passes.loops.interleave_columns import by_place, words_of_row

_REGISTER = 64
"""Bytes of a register of the targets that copy so, which has a word of each of 16 lanes."""


def combine(emitter: Emitter, rows: int, width: int) -> str:
    """Define the function that makes ``width`` words of rows of bytes, and return its name.

    Its parameters are ``here`` and ``there`` of each row, and then the bits in front of each row.
    """
    count = width if rows == 1 else -(-width // 4)
    words = [f"{word}{row}" for row in range(rows) for word in ("here", "there")]
    lefts = [f"const uint left{row} = (32u - odd{row}) & 31u;" for row in range(rows)]
    part, uniform = vector_type("uint", count), "rw" if rows == 1 else "rw.u"
    shifted = [f"const {part} row{row} = here{row} >> odd{row} | there{row} << left{row};" for row in range(rows)]
    portable = [*shifted, "return row0;" if rows == 1 else _gathered(rows, range(width), count)]
    inputs = [*(f'"rw"({word})' for word in words),
              *(f'"{uniform}"({shift}{row})' for row in range(rows) for shift in ("odd", "left"))]
    assembly = [*_shifts(rows, count), *(_moves(rows, width) if rows > 1 else ())]
    return _function(emitter, f"words_of_{rows}_rows_of_bytes_{width}", width, [f"{part} {word}" for word in words],
                     rows, lefts, portable, assembly, inputs)


def combine_by_place(emitter: Emitter, width: int) -> str:
    """Define the function that makes words of four rows of bytes, each of one vector, and return its name.

    Words of every fourth column stand side by side (:mod:`xegpu.passes.loops.interleave_columns`). Its parameters are
    the vector of each row, and then the bits in front of each row, the same in all lanes.
    """
    rows, count, words = 4, width // 4, words_of_row(width, 8)
    here, following = (".s" + "".join(f"{first + at:x}" for at in range(count)) for first in (0, 1))
    portable = [f"const {vector_type('uint', count)} row{row} = here{row}{here} >> odd{row} | "
                f"here{row}{following} << 1 << (31u - odd{row});" for row in range(rows)]
    addresses = [
        "const uint lane = get_sub_group_local_id();  // one for each address: of a row and a column",
        "const uint odd = lane < 8 ? (lane < 4 ? odd0 : odd1) : (lane < 12 ? odd2 : odd3);",
        "const uint byte = (lane & 3u) + (odd >> 3);",
        f"const ushort at = (ushort)((byte >> 2) * {_REGISTER}u + (byte & 3u));"]
    assembly = [".decl A v_type=A num_elts=16",
                *(f"addr_add (M1_NM, 4) A({4 * row})<1> &%{1 + row} %5(0,{4 * row})<1;1,0>" for row in range(rows)),
                f".decl O v_type=G type=ub num_elts={_REGISTER * width} align=GRF alias=<%0, 0>"]
    columns = by_place(width, 4)
    for word in range(0, width, 2):
        at, byte = divmod(columns[word], 4)
        assembly += [f"mov (M1_NM, 32) O({word},{row})<4> r[A({4 * row + byte}),{_REGISTER * at}]<4;1,0>:ub"
                     for row in range(rows)]
    inputs = [*(f'"rw"(here{row})' for row in range(rows)), '"rw"(at)']
    return _function(emitter, f"words_of_4_rows_of_bytes_{width}_by_place", width,
                     [f"{vector_type('uint', words)} here{row}" for row in range(rows)], rows, addresses,
                     [*portable, _gathered(rows, columns, count)], assembly, inputs)


def _function(emitter: Emitter, name: str, width: int, vectors: Sequence[str], rows: int, before: Sequence[str],
              portable: Sequence[str], assembly: Sequence[str], inputs: Sequence[str]) -> str:
    """Define a function of vectors and the bits in front of each row, and return its name.

    Args:
        emitter: gets the function.
        name: its name.
        width: words of its result.
        vectors: parameters of the vectors that it is put together from.
        rows: number of rows.
        before: statements in front of the assembly.
        portable: statements without vISA.
        assembly: vISA, of which operand 0 is the result.
        inputs: operands from 1 on.
    """
    result = vector_type("uint", width)
    parameters = ", ".join([*vectors, *(f"uint odd{row}" for row in range(rows))])
    lines = "".join(f'    "{line}\\n"\n' for line in ("{", *assembly, "}"))
    emitter.function("\n".join([
        f"static {result} {name}({parameters})", "{", *(f"  {line}" for line in before), f"#ifdef {NO_VISA}",
        *(f"  {line}" for line in portable), "#else",
        f"  {result} words;", f"  __asm__(\n{lines}    : \"=rw\"(words) : {', '.join(inputs)});", "  return words;",
        "#endif", "}", ""]))
    return name


def _gathered(rows: int, columns: Sequence[int], count: int) -> str:
    """Statement without vISA: words of columns, of bytes of the vectors ``row0`` ... of ``count`` words."""
    made = []
    for column in columns:
        at, byte = divmod(column, 4)
        bytes_ = [f"row{row}{'' if count == 1 else f'.s{at:x}'}" for row in range(rows)]
        made.append(" | ".join(f"({each} >> {8 * byte} & 255u) << {8 * row}" for row, each in enumerate(bytes_)))
    return f"return ({vector_type('uint', len(columns))})({', '.join(made)});"


def _shifts(rows: int, count: int) -> Iterator[str]:
    """vISA: rows shifted into place, two registers at once."""
    for row in range(rows):
        target = "%0" if rows == 1 else f"R{row}"
        if rows > 1:
            yield f".decl R{row} v_type=G type=ud num_elts={16 * count} align=GRF"
            yield f".decl B{row} v_type=G type=ub num_elts={64 * count} align=GRF alias=<R{row}, 0>"
        yield f".decl L{row} v_type=G type=ud num_elts={16 * count} align=GRF"
        here, there = f"%{1 + 2 * row}", f"%{2 + 2 * row}"
        odd, left = (f"%{1 + 2 * rows + 2 * row + side}" for side in (0, 1))
        for at in range(0, count, 2):
            lanes = 32 if at + 1 < count else 16
            region = "<0;1,0>" if rows > 1 else "<0;16,1>" if lanes == 32 else "<1;1,0>"
            yield f"shl (M1_NM, {lanes}) L{row}({at},0)<1> {there}({at},0)<1;1,0> {left}(0,0){region}"
            yield f"shr (M1_NM, {lanes}) {target}({at},0)<1> {here}({at},0)<1;1,0> {odd}(0,0){region}"
            yield f"or (M1_NM, {lanes}) {target}({at},0)<1> {target}({at},0)<1;1,0> L{row}({at},0)<1;1,0>"


def _moves(rows: int, width: int) -> Iterator[str]:
    """vISA: bytes of shifted rows, put side by side."""
    yield f".decl O v_type=G type=ub num_elts={_REGISTER * width} align=GRF alias=<%0, 0>"
    for column in range(width):
        at, byte = divmod(column, 4)
        yield from (f"mov (M1_NM, 16) O({column},{row})<4> B{row}({at},{byte})<4;1,0>" for row in range(rows))
