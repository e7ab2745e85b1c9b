"""Predicated block access, one element a lane: one message for each word, whether in bounds or not.

    global const short *at = &base[row * (long)pitch + column];
    uint columns = (uint)row < (uint)height ? (uint)width : 0;
    const short word0 = load(at, (uint)column < columns, 0);
    at += pitch;
    columns = (uint)(row + 1) < (uint)height ? (uint)width : 0;
    const short word1 = load(at, (uint)column < columns, 0);

There is no branch, and messages do not wait for each other. A row that is the same for all lanes is a comparison of
numbers, and a word's address an addition; from each word's coordinates Intel's compiler makes a product of 64 bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from codegen.opencl.block_io.block_slice import PARAMETERS, BlockSlice, position
from codegen.opencl.emitter import Emitter
from codegen.opencl.prelude.macros import CALL, SCHEDULE_BARRIER
from codegen.opencl.prelude.predicated import LOAD, STORE, load_prototype, store_prototype
from codegen.opencl.sync import SCHEDULE_BARRIER_DEFINITION
from codegen.opencl.values import Fragment

_BYTES_IN_FLIGHT = 4
"""Bytes of a register for each word between scheduling barriers: 16 words on pvc, 8 on dg2, where blocks have twice as
many. A word in flight has three registers, two of them addresses, and Intel's compiler would make the addresses of 32
before the first message: 96 of a thread's 128 registers, which it then spills."""


class _Word(NamedTuple):
    """A word's access: statements that move on to its row, its element's pointer, and whether it is in bounds."""

    moves: tuple[str, ...]
    pointer: str
    condition: str


def load_function(emitter: Emitter, piece: BlockSlice, fragment: Fragment) -> str:
    """Define a load of one variable, and return its name; elements out of bounds are 0."""
    name, dtype, c_type = f"{piece.function('load')}_predicated", piece.desc.dtype.opencl, fragment.c_type
    lines, words = [], [f"word{number}" for number in range(fragment.width)]
    for word, (moves, pointer, condition) in zip(words, _walk(piece, fragment.width), strict=True):
        lines += [*moves, f"const {dtype} {word} = {LOAD}({pointer}, {condition}, ({dtype})0);"]
    value = words[0] if fragment.width == 1 else f"({c_type})({', '.join(words)})"
    emitter.external(LOAD, load_prototype(dtype))
    emitter.function(_function(f"static {c_type} {name}(global const {dtype} *base, {PARAMETERS})", piece,
                               f"global const {dtype}", fragment.width, [*lines, f"return {value};"]))
    return name


def store_function(emitter: Emitter, piece: BlockSlice, fragment: Fragment) -> str:
    """Define a store of one variable, and return its name; elements out of bounds are not touched."""
    name, lines = piece.function("store"), list[str]()
    for number, (moves, pointer, condition) in enumerate(_walk(piece, fragment.width)):
        word = "words" if fragment.width == 1 else f"words.s{number:x}"
        lines += [*moves, f"{STORE}({pointer}, {word}, {condition});"]
    emitter.external(STORE, store_prototype(fragment.word))
    emitter.function(_function(f"static void {name}(global {fragment.word} *base, {PARAMETERS}, "
                               f"{fragment.c_type} words)", piece, f"global {fragment.word}", fragment.width, lines))
    return name


def is_predicated(emitter: Emitter, piece: BlockSlice, fragment: Fragment) -> bool:
    """Whether a block is accessed so: an element a lane, on a GPU, where it may be out of bounds.

    Several words of a variable need registers for their addresses; a loop over them has those of one.
    """
    return piece.lanes.per_lane == 1 and not (piece.promised or emitter.target.is_cpu) and \
        (fragment.width == 1 or not emitter.is_crowded)


def apart(emitter: Emitter, statements: Sequence[str], piece: BlockSlice, fragment: Fragment) -> Iterator[str]:
    """Accesses of the variables of a fragment, with scheduling barriers between those that are too many."""
    together = max(emitter.target.register_bytes // _BYTES_IN_FLIGHT // fragment.width, 1)
    if not is_predicated(emitter, piece, fragment):
        together = len(statements)
    for number, statement in enumerate(statements):
        if number and number % together == 0:
            emitter.function(SCHEDULE_BARRIER_DEFINITION)
            yield f"{SCHEDULE_BARRIER};"
        yield statement


def _function(head: str, piece: BlockSlice, element: str, width: int, lines: Sequence[str]) -> str:
    first = piece.by_row if width == 1 else piece.unchecked("row", "column")
    body = [*position(piece.lanes, piece.subgroup), f"{element} *at = &{first};", *lines]
    return "\n".join([f"{CALL} {head}", "{", *(f"  {line}" for line in body), "}", ""])


def _walk(piece: BlockSlice, width: int) -> Iterator[_Word]:
    """Accesses of the words of a variable, in their order."""
    here: int | None = None
    for number in range(width):
        down, right = piece.displacement(number)
        moves = []
        if down != here:
            row, step = f"row + {down}" if down else "row", down - (here or 0)
            moves = [f"{'uint ' if here is None else ''}columns = (uint)({row}) < (uint)height ? (uint)width : 0;"]
            moves += [f"at += {f'{step} * ' if step != 1 else ''}(long)pitch;"] if step else []
            here = down
        yield _Word(tuple(moves), f"at + {piece.across(str(right))}" if right else "at",
                    f"(uint)(column{f' + {right}' if right else ''}) < columns")
