"""Words of 8-bit elements of rows of any alignment: funnel shifts of whole words, and bytes of four rows side by side.

A row begins with a byte 0 to 3 of a word, behind ``odd`` bits of it. Its words are made of those from there on,
``here``, and of the next ones, ``there``, which are the same ones where ``odd`` is 0, and where a run of one or two
columns ends in the first word, since the next one may lie behind the array:

    here >> odd | there << (32 - odd)        shifts count modulo 32, so that both are the word itself where odd is 0

A word of operand A is that of one row. One of operand B has a column's bytes of four rows (VNNI), each of which a
move of every fourth byte puts in place. Four rows on, a row begins with the same byte of a word, so that ``odd`` of
each of a lane's four rows is one number for all lanes.
"""

from __future__ import annotations

from collections.abc import Iterator

from codegen.opencl.emitter import Emitter
from codegen.opencl.prelude.macros import NO_VISA
from codegen.opencl.values import vector_type
from xegpu.passes.loops.interleave_columns import by_place as in_order


def combine(emitter: Emitter, rows: int, width: int, *, by_place: bool) -> str:
    """Define the function that makes ``width`` words of rows of bytes, and return its name.

    Its parameters are ``here`` and ``there`` of each row, and then the bits in front of each row. With ``by_place``
    words of every fourth column stand side by side (:mod:`xegpu.passes.loops.interleave_columns`).
    """
    count = width if rows == 1 else -(-width // 4)
    result, part, name = vector_type("uint", width), vector_type("uint", count), \
        f"words_of_{rows}_rows_of_bytes_{width}{'_by_place' if by_place else ''}"
    words = [f"{word}{row}" for row in range(rows) for word in ("here", "there")]
    parameters = ", ".join([*(f"{part} {word}" for word in words), *(f"uint odd{row}" for row in range(rows))])
    lefts = [f"  const uint left{row} = (32u - odd{row}) & 31u;" for row in range(rows)]
    portable = "\n".join(f"  {line}" for line in _portable(rows, width, part, by_place))
    assembly = "".join(f'    "{line}\\n"\n' for line in _assembly(rows, width, count, by_place))
    uniform = "rw" if rows == 1 else "rw.u"
    inputs = ", ".join([*(f'"rw"({word})' for word in words),
                        *(f'"{uniform}"({shift}{row})' for row in range(rows) for shift in ("odd", "left"))])
    emitter.function("\n".join([
        f"static {result} {name}({parameters})", "{", *lefts, f"#ifdef {NO_VISA}", portable, "#else",
        f"  {result} words;", f"  __asm__(\n{assembly}    : \"=rw\"(words) : {inputs});", "  return words;", "#endif",
        "}", ""]))
    return name


def _portable(rows: int, width: int, part: str, by_place: bool) -> Iterator[str]:
    """Statements without vISA."""
    for row in range(rows):
        yield f"const {part} row{row} = here{row} >> odd{row} | there{row} << left{row};"
    if rows == 1:
        yield "return row0;"
        return
    made = []
    for column in in_order(width, 4) if by_place else range(width):
        at, byte = divmod(column, 4)
        bytes_ = [f"row{row}{'' if width <= 4 else f'.s{at:x}'}" for row in range(rows)]
        made.append(" | ".join(f"({each} >> {8 * byte} & 255u) << {8 * row}" for row, each in enumerate(bytes_)))
    yield f"return ({vector_type('uint', width)})({', '.join(made)});"


def _assembly(rows: int, width: int, count: int, by_place: bool) -> Iterator[str]:
    """vISA: the shifts, of two registers each, and for operand B the moves of bytes."""
    yield "{"
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
    if rows > 1:
        yield f".decl O v_type=G type=ub num_elts={64 * width} align=GRF alias=<%0, 0>"
        columns = in_order(width, 4) if by_place else tuple(range(width))
        lanes = 32 if by_place and count > 1 else 16  # two registers that lie side by side in both
        for word in range(0, width, lanes // 16):
            at, byte = divmod(columns[word], 4)
            yield from (f"mov (M1_NM, {lanes}) O({word},{row})<4> B{row}({at},{byte})<4;1,0>" for row in range(rows))
    yield "}"
