"""Words of rows of any alignment: vectors of whole words from 4-byte boundaries on, shifted by half a word.

Element ``odd`` of the first word that is read is the lane's first one. ``mine`` are the lane's rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from codegen.opencl.values import vector_type


def times(expression: str, factor: int) -> str:
    """A C expression multiplied by a constant; 0 and a factor of 1 leave no product."""
    if expression == "0" or factor == 1:
        return expression
    return f"({expression}) * {factor}"


def adjacent(words: list[list[tuple[int, int]]], step: int) -> list[tuple[int, int]]:
    """Start and width of vectors of words, each ``step`` columns behind the one before it."""
    found, start = [], 0
    while start < len(words):
        row, column = words[start][0]
        count = next((i for i, word in enumerate(words[start:]) if word[0] != (row, column + i * step)),
                     len(words) - start)
        found += [(start + first, width) for first, width in vector_widths(count)]
        start += count
    return found


def unaligned_words(name: str, elements: list[tuple[int, int]], width: int) -> Iterator[str]:
    """Statements that define ``width`` words of a lane, of which the first has these elements."""
    (row, column), other = elements[0], elements[1]
    if other[0] == row:
        yield from _words_from(name, row, column, width)
        last = f"{name}_from[{width - 1} + {name}_odd]"
        behind = ", ".join([f"{name}_row.s{i:x}" for i in range(1, width)] + [last])
        type_ = vector_type("uint", width)
        yield f"  const {type_} {name}_behind = {f'({type_})({behind})' if width > 1 else behind};"
        yield (f"  const {type_} {name} = ({name}_row >> ({name}_odd << 4)) | "
               f"(({name}_behind << 16) & -{name}_odd);")
        return
    halves = []
    for first in range(min(width, 2)):
        count = (width - first + 1) // 2
        names = [f"{name}_{half}{first}" for half in ("low", "high")]
        for half, at in zip(names, (row, other[0]), strict=True):
            yield from _words_from(half, at, column + first, count)
        low, high = names
        yield (f"  const {vector_type('uint', count)} {name}_{first} = "
               f"bitselect({high}_row << (16u - ({high}_odd << 4)), {low}_row >> ({low}_odd << 4), 0xffffu);")
        halves.append((f"{name}_{first}", count))
    words = [part if count == 1 else f"{part}.s{i // 2:x}" for i in range(width) for part, count in (halves[i % 2],)]
    value = words[0] if width == 1 else f"({vector_type('uint', width)})({', '.join(words)})"
    yield f"  const {vector_type('uint', width)} {name} = {value};"


def _words_from(name: str, row: int, column: int, count: int) -> Iterator[str]:
    """Statements that read ``count`` words from the one on that has a lane's element of a row and a column.

    Which half of a word it has is the same in all steps of a loop along an operand, and so is the distance to what a
    step adds to the address: a compiler computes them once if they are not multiplied by the same pitch.
    """
    offset = str(column) if row == 0 else f"{times('(long)pitch', row)} + {column}"
    yield (f"  const uint {name}_odd = ((uint)((ulong)base >> 1) ^ (uint)(y & pitch) ^ "
           f"(uint)((lane + {row}) & pitch) ^ (uint)x ^ {column}u) & 1u;")
    yield f"  global const uint *{name}_from = (global const uint *)(mine + ({offset} - (int){name}_odd));"
    load = f"*{name}_from" if count == 1 else f"vload{count}(0, {name}_from)"
    yield f"  const {vector_type('uint', count)} {name}_row = {load};"


def vector_widths(count: int) -> list[tuple[int, int]]:
    """Split of ``count`` words into vectors of 8, 4, 2 and 1: start and width of each."""
    parts, start = [], 0
    while start < count:
        width = next(width for width in (8, 4, 2, 1) if start + width <= count)
        parts.append((start, width))
        start += width
    return parts
