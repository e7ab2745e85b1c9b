"""Words of unaligned rows: vectors of aligned words are loaded, and halves of them selected.

A lane's run of words lies in one of its rows (operand A: words of two columns) or in two (operand B: words of two rows,
VNNI). Of each row two vectors are read: ``here`` from the word on that has the run's first element, ``there`` from the
word that has its second one. Where rows begin in the middle of a word (``odd``), that is the next word:

    even:  here = there = 01 23 45 67        odd:  here = x0 12 34 56,  there = 12 34 56 7x

So elements 0, 2, 4 ... are one half of ``here``, the lower one or the upper one, and 1, 3, 5 ... the other half of
``there``: one select of strided regions (vISA) for each element, where shifts take half as many again. Where words
of one row follow each other in the result, one selects of two registers; so does it where the words of even columns
stand in front of those of odd ones (:mod:`xegpu.passes.loops.interleave_columns`). Where a vector may go on behind the
columns (``row_behind``), one has all words, and ``there`` is ``here`` from the next register on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from codegen.opencl.block_io import unaligned_bytes
from codegen.opencl.emitter import Emitter
from codegen.opencl.prelude.macros import NO_VISA
from codegen.opencl.values import UNSIGNED, Fragment, vector_type, width_of
from xegpu.dialect.block_io import LoadNdOp, desc_of
from xegpu.dialect.types import TensorDesc
from xegpu.layout.lane_map import positions
from xegpu.passes.loops.interleave_columns import is_by_place, words_of_row

_ODD = """static uint odd_half(global const ushort *element)
{
  return ((uint)(ulong)element >> 1) & 1u;
}
"""
_BYTE = """static uint byte_bits(global const uchar *element)
{
  return ((uint)(ulong)element & 3u) << 3;
}
"""
_WORD = """static global const uint *word_of(global const ushort *element)
{
  return (global const uint *)(element - (int)odd_half(element));
}
"""


@dataclass(frozen=True)
class WordRun:
    """Words of a lane that lie side by side in its rows.

    Attributes:
        variable: number of the variable that they are part of.
        rows: of their elements, relative to the lane's first one: one, or the two of a VNNI word.
        column: of the first word.
        width: how many they are.
        label: name of its words, where it is not that of its place.
        by_place: whether words of columns that have the same place in a word of memory stand side by side.
        bits: of an element, 8 or 16.
        reads_on: whether one vector of a row has all words, and may go on behind its columns: there is no ``there``.
    """

    variable: int
    rows: tuple[int, ...]
    column: int
    width: int
    label: str = ""
    by_place: bool = False
    bits: int = 16
    reads_on: bool = False

    @property
    def name(self) -> str:
        """Name of its words, and prefix of the names of its pointers."""
        return self.label or f"run{self.variable}_{self.rows[0]}_{self.column}"

    @property
    def widths(self) -> tuple[int, int]:
        """Words of each row's ``here`` and ``there``; the latter is not read where it is 0."""
        if len(self.rows) == 1:
            return self.width, self.width
        if self.reads_on:
            return words_of_row(self.width, self.bits), 0
        if self.bits == 8:
            return -(-self.width // 4), -(-self.width // 4)
        return (self.width + 1) // 2, self.width // 2

    @property
    def most_odd(self) -> int:
        """The most bits in front of a row of bytes of which ``here`` still has all that is used: the next word may lie
        behind the array."""
        return 32 - 8 * self.width if len(self.rows) == 4 and self.width < 4 else 0

    def elements(self, base: str, pitch: str, first: tuple[str, str]) -> list[str]:
        """Pointer expressions of the first element in each of its rows.

        Args:
            base: the array.
            pitch: of its rows.
            first: row and column of the lane's first element.
        """
        row, column = first
        return [f"{base} + ({row} + {down}) * (long){pitch} + ({column} + {self.column})" for down in self.rows]

    def combined(self, emitter: Emitter, words: Sequence[tuple[str, str]], odd: Sequence[str]) -> str:
        """Expression of the run's words.

        Args:
            emitter: gets the function that combines them.
            words: pointers to ``here`` and ``there`` of each row.
            odd: for each row whether it begins in the middle of a word, 0 or 1; of 8-bit elements the bits before it.
        """
        vectors = [f"*{pointer}" if width == 1 else f"vload{width}(0, {pointer})"
                   for pair in words for pointer, width in zip(pair, self.widths, strict=True) if width]
        return f"{_combine(emitter, self)}({', '.join([*vectors, *odd])})"


def runs(load: LoadNdOp) -> list[WordRun]:
    """Runs of the words of a lane's fragment of a loaded block, which together are its variables in order."""
    desc = desc_of(load.desc)
    if is_by_place(load):
        bits = desc.dtype.bits
        return [WordRun(0, tuple(range(32 // bits)), 0, desc.shape[1], by_place=True, bits=bits,
                        reads_on=load.row_behind is not None)]
    return runs_in_order(desc)


def runs_in_order(desc: TensorDesc) -> list[WordRun]:
    """Runs of the words of a lane's fragment of a block, whose columns are in order."""
    lanes, found = desc.sg_map, []
    assert lanes is not None
    row, column = positions((desc.shape[0], desc.shape[1]), lanes)
    words = [(tuple(dict.fromkeys(map(int, row[0, unit]))), int(column[0, unit, 0])) for unit in range(row.shape[1])]
    width, bits = width_of(len(words)), desc.dtype.bits
    for number in range(len(words) // width):
        group, start = words[number * width:(number + 1) * width], 0
        while start < width:
            rows, first = group[start]
            count = next((i for i, word in enumerate(group[start:]) if word != (rows, first + i * lanes.unit[1])),
                         width - start)
            found += [WordRun(number, rows, first + at * lanes.unit[1], wide, bits=bits)
                      for at, wide in vector_widths(count)]
            start += count
    return found


def read(emitter: Emitter, run: WordRun, first: tuple[str, str]) -> Iterator[str]:
    """Statements that read a run of an array ``base``, for the lane's first element at a row and a column."""
    words, odd = [], []
    for number, (element, like) in enumerate(zip(run.elements("base", "pitch", first),
                                                 run.elements("base", "pitch", ("y", "x")), strict=True)):
        name = f"{run.name}_{number}"
        kind = UNSIGNED[run.bits]
        yield f"  global const {kind} *{name} = (global const {kind} *){element};"
        yield from (f"  {line}" for line in declared(emitter, name, run, f"(global const {kind} *){like}"))
        words.append((f"{name}_here", f"{name}_there"))
        odd.append(f"{name}_odd")
    yield f"  const {vector_type('uint', run.width)} {run.name} = {run.combined(emitter, words, odd)};"


def read_aligned(run: WordRun, first: tuple[str, str]) -> Iterator[str]:
    """Statements that read a run of an array ``base`` whose rows begin on 4-byte boundaries, as one vector."""
    (element,) = run.elements("base", "pitch", first)
    yield read_words(run, f"(global const uint *)({element})")


def read_words(run: WordRun, pointer: str) -> str:
    """Statement that loads a run of a row as one vector from a pointer to its first word."""
    return f"  const {vector_type('uint', run.width)} {run.name} = " + (
        f"*{pointer};" if run.width == 1 else f"vload{run.width}(0, {pointer});")


def variables(found: Sequence[WordRun], fragment: Fragment) -> Iterator[str]:
    """Expressions of a fragment's variables, of which runs in variables of their names are the words."""
    if len(fragment.names) == 2 and len(found) == 1:
        yield from (f"{found[0].name}.{half}" for half in ("lo", "hi"))
        return
    for number in range(len(fragment.names)):
        parts = [run.name for run in found if run.variable == number]
        whole = parts[0] if len(parts) == 1 else f"({vector_type('uint', fragment.width)})({', '.join(parts)})"
        yield whole if fragment.word == "uint" else f"as_{fragment.c_type}({whole})"


def declared(emitter: Emitter, name: str, run: WordRun, like: str) -> list[str]:
    """Declarations of ``odd``, ``here`` and ``there`` for a pointer to an element of a run.

    Args:
        emitter: gets the functions.
        name: the pointer, and prefix of their names.
        run: the run.
        like: pointer to the same element of lane 0: four rows of bytes begin alike in all lanes.
    """
    if run.bits == 8:
        emitter.function(_BYTE)
        return [f"const uint {name}_odd = byte_bits({name if len(run.rows) == 1 else like});",
                f"global const uint *{name}_here = (global const uint *)({name} - (int)({name}_odd >> 3)), "
                f"*{name}_there = {name}_here + ({name}_odd {f'> {most}u' if (most := run.most_odd) else '!= 0u'});"]
    emitter.function(_ODD)
    emitter.function(_WORD)
    return [f"const uint {name}_odd = odd_half({name});",
            f"global const uint *{name}_here = word_of({name}), *{name}_there = {name}_here + {name}_odd;"]


def _combine(emitter: Emitter, run: WordRun) -> str:
    """Define the function that puts words together, and return its name."""
    if run.bits == 8:
        return unaligned_bytes.combine_by_place(emitter, run.width) if run.reads_on else \
            unaligned_bytes.combine(emitter, len(run.rows), run.width)
    rows, result = range(len(run.rows)), vector_type("uint", run.width)
    name = f"words_of_{len(run.rows)}_rows_{run.width}{'_by_parity' if run.by_place else ''}" + \
        ("_of_one_vector" if run.reads_on else "")
    vectors = {f"{word}{row}": count for row in rows
               for count, word in zip(run.widths, ("here", "there"), strict=True) if count}
    odd = [f"odd{row}" for row in rows]
    parameters = [*(f"{vector_type('uint', count)} {word}" for word, count in vectors.items()),
                  *(f"uint {word}" for word in odd)]
    lines = ["{", f".decl O v_type=G type=uw num_elts={32 * run.width} align=GRF alias=<%0, 0>"]
    lines += [f".decl {word} v_type=G type=uw num_elts={32 * count} align=GRF alias=<%{number}, 0>"
              for number, (word, count) in enumerate(vectors.items(), 1)]
    lanes, region = (32, "<0;16,1>") if _in_pairs(run) else (16, "<1;1,0>")
    lines += [f".decl P{row} v_type=P num_elts={lanes}" for row in rows]
    lines += [f"cmp.ne (M1_NM, {lanes}) P{row} %{len(vectors) + 1 + row}(0,0){region} 0:ud" for row in rows]
    lines += [*_selects(run), "}"]
    assembly = "".join(f'    "{line}\\n"\n' for line in lines)
    inputs = ", ".join(f'"rw"({word})' for word in (*vectors, *odd))
    portable = "\n".join(f"  {line}" for line in _portable(run))
    emitter.function(f"static {result} {name}({', '.join(parameters)})\n{{\n#ifdef {NO_VISA}\n{portable}\n#else\n"
                     f"  {result} words;\n  __asm__(\n{assembly}    : \"=rw\"(words) : {inputs});\n  return words;\n"
                     "#endif\n}\n")
    return name


def _in_pairs(run: WordRun) -> bool:
    """Whether two registers of words are selected at once: such as lie side by side in the result, too."""
    return run.by_place or (len(run.rows) == 1 and run.width % 2 == 0)


def _selects(run: WordRun) -> Iterator[str]:
    """Selects of the halves of all words.

    The last words come first, those of ``there`` before all: a message's address is free when its result is there, so
    that few selects wait for the registers of others.
    """
    step = 2 if _in_pairs(run) else 1
    if run.reads_on:  # the next word of each is the next register
        for number in range(len(run.rows)):
            for at in reversed(range(0, run.width // 2, step)):
                for place, (word, half) in enumerate(((at, 1), (at + 1, 0))):
                    yield (f"(P{number}) sel (M1_NM, {16 * step}) O({at + place * run.width // 2},{number})<2> "
                           f"here{number}({word},{half})<2;1,0> here{number}({at},{place})<2;1,0>")
        return
    for at in reversed(range(0, run.widths[0], step)):
        for row, odd in (("there", 0), ("here", 1)):
            for number in range(len(run.rows)):
                if len(run.rows) == 1:
                    word, half = at, 1 - odd
                elif run.by_place:
                    word, half = at + (1 - odd) * run.width // 2, number
                else:
                    word, half = 2 * at + (1 - odd), number
                if word < run.width:
                    yield (f"(P{number}) sel (M1_NM, {16 * step}) O({word},{half})<2> {row}{number}({at},{odd})<2;1,0> "
                           f"{row}{number}({at},{1 - odd})<2;1,0>")


def _portable(run: WordRun) -> Iterator[str]:
    """Statements without vISA: words whose halves are exchanged if ``odd``, and halves of two combined."""
    halves = run.width // 2
    vectors = [(f"here{row}.lo", f"(odd{row} ? here{row}.{_next(halves)} : here{row}.lo)") if run.reads_on else
               (f"here{row}", f"there{row}") for row in range(len(run.rows))]
    here, there = ([f"({vector} >> (odd{row} << 4) | {vector} << (odd{row} << 4))"
                    for row, vector in enumerate(side)] for side in zip(*vectors, strict=True))
    if len(run.rows) == 1:
        yield f"return ({here[0]} & 0xffffu) | ({there[0]} & 0xffff0000u);"
        return
    first, second = (vector_type("uint", count) if count else ""
                     for count in ((halves, halves) if run.reads_on else run.widths))
    yield f"const {first} even = ({here[0]} & 0xffffu) | ({here[1]} << 16);"
    if not second:
        yield "return even;"
        return
    yield f"const {second} odd = ({there[0]} >> 16) | ({there[1]} & 0xffff0000u);"
    if run.by_place:
        yield f"return ({vector_type('uint', run.width)})(even, odd);"
        return
    parts = [f"{side}{'' if count == 1 else f'.s{at:x}'}" for at in range(run.widths[0])
             for side, count in zip(("even", "odd"), run.widths, strict=True) if at < count]
    yield f"return ({vector_type('uint', run.width)})({', '.join(parts)});"


def _next(count: int) -> str:
    """Component of a vector: as many words, from the second one on."""
    return "s" + "".join(f"{at:x}" for at in range(1, count + 1))


def vector_widths(count: int, most: int = 8) -> list[tuple[int, int]]:
    """Split of ``count`` words into vectors of ``most``, half as many ... and 1: start and width of each."""
    parts, start = [], 0
    while start < count:
        width = next(width for width in (16, 8, 4, 2, 1) if width <= most and start + width <= count)
        parts.append((start, width))
        start += width
    return parts
