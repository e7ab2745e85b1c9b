"""Blocks of unaligned rows, stored as one run of memory: moves of rows in registers, then 1D block writes.

    blocks of 17 columns:  a0 .. a15 | a16        run:  a0 .. a15 a16 b0 .. b15 b16 c0 ...
                           b0 .. b15 | b16

The parts of a row lie in several blocks, so that all that a step stores to a matrix is stored behind the last of its
stores. An instruction moves a register of a row to any element of the run: what lies behind its row's end there is
overwritten by the next row. A message stores four registers. On Xe-HPC each takes five instructions, so that one for
each row would be the most of a small product.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from xdsl.traits import Pure

from codegen.opencl.block_io.block_slice import block_of
from codegen.opencl.block_io.row_runs.loads import VISA, WORD, pointer_to
from codegen.opencl.emitter import Emitter
from codegen.opencl.prelude.macros import NO_VISA
from codegen.opencl.prelude.predicated import STORE, store_prototype
from codegen.opencl.values import Descriptor
from xegpu.analysis.block_position import position_of
from xegpu.dialect.block_io import StoreNdOp, desc_of
from xegpu.dialect.types import valid_of
from xegpu.ir.dtypes import DType

_MOST_ELEMENTS = 320
"""Elements of whole blocks' rows that are put together at once: 20 registers of 32-bit ones."""
_ROWS = 8
"""Rows of a block of an accumulator."""
_MESSAGES = (64, 32, 16)
"""Words of a 1D block write, or pairs of them."""
_MOST_LANES = 32
"""Elements that an instruction moves, in vISA."""


@dataclass(frozen=True)
class _Part:
    """Part of a row that a register, or a half of one, has.

    Attributes:
        row, column: of its first element, from where the descriptor's variable part stands.
        count: elements.
        name, type_: of the variable.
        word: of a lane of the variable.
        value: expression of the lanes' elements.
    """

    row: int
    column: int
    count: int
    name: str
    type_: str
    word: int
    value: str


@dataclass(frozen=True)
class _Run:
    """Rows behind each other.

    Attributes:
        parts: of them.
        pitch: elements from one to the next.
        dtype: of the elements.
        lanes: of a subgroup.
        qwords: whether they are counted from an 8-byte boundary, from which messages store pairs of words.
    """

    parts: tuple[_Part, ...]
    pitch: int
    dtype: DType
    lanes: int
    qwords: bool

    @property
    def first(self) -> int:
        """The first element, counted from a 4-byte boundary."""
        return min(map(self.at, self.parts))

    def at(self, part: _Part) -> int:
        """The first element of a part."""
        return part.row * self.pitch + part.column

    @property
    def words(self) -> tuple[int, int]:
        """The first whole word, and the one behind the last."""
        each, end = WORD // self.dtype.bits, max(self.at(part) + part.count for part in self.parts)
        return -(-self.first // each), end // each

    @property
    def is_whole(self) -> bool:
        """Whether there is a message for it, and nothing of other rows' or blocks' lies between its elements."""
        ordered = sorted(self.parts, key=self.at)
        return all(self.at(part) + part.count == self.at(behind) for part, behind in pairwise(ordered)) and \
            self.words[1] - self.words[0] >= _MESSAGES[-1]


def store(emitter: Emitter, operation: StoreNdOp) -> None:
    """Emit the pending stores of a matrix's parts, if this is the last of them."""
    desc = emitter.values[operation.desc]
    assert isinstance(desc, Descriptor)
    pitch, dtype = int(desc.pitch), desc_of(operation.desc).dtype
    together = max(_MOST_ELEMENTS // (_ROWS * pitch), 1) * _ROWS
    if _neighbour(operation, "next_op", together) is not None:
        return
    stores = [operation]
    while (before := _neighbour(stores[-1], "prev_op", together)) is not None:
        stores.append(before)
    parts = tuple(part for each in reversed(stores) for part in _parts(emitter, each))
    run = _Run(parts, pitch, dtype, emitter.subgroup, all(each.qword_aligned is not None for each in stores))
    if not run.parts:
        return
    variables = dict.fromkeys(part.name for part in run.parts)
    emitter.external(STORE, store_prototype(dtype.register))
    name = emitter.name("run")
    emitter.line(f"global {dtype.register} *{name} = (global {dtype.register} *)({pointer_to(desc, run.first)});")
    emitter.line(f"{_function(emitter, run)}({', '.join([name, *variables])});")


def _neighbour(operation: StoreNdOp, side: str, together: int) -> StoreNdOp | None:
    """The store behind or in front of another one that goes on with the same ``together`` rows."""
    found, here = getattr(operation, side), position_of(operation.desc)
    while found is not None and found.has_trait(Pure) and not found.regions:
        found = getattr(found, side)
    if not isinstance(found, StoreNdOp) or found.valid is None or found.desc.type != operation.desc.type:
        return None
    there = position_of(found.desc)
    is_same = there.root is here.root and there.column.terms == here.column.terms and \
        there.row.terms == here.row.terms and there.row.constant // together == here.row.constant // together
    return found if is_same else None


def _parts(emitter: Emitter, operation: StoreNdOp) -> Iterator[_Part]:
    """The parts of rows that a store has."""
    desc, valid = emitter.values[operation.desc], valid_of(operation)
    assert isinstance(desc, Descriptor)
    assert valid is not None
    fragment, block = emitter.fragment(operation.value), block_of(emitter, desc_of(operation.desc))
    for number, (((row, column),), value) in enumerate(zip(block.words, fragment.words(), strict=True)):
        count = min(valid[1] - column, emitter.subgroup)
        if row < valid[0] and count > 0:
            yield _Part(desc.row.offset + row, desc.column.offset + column, count,
                        fragment.names[number // fragment.width], fragment.c_type, number % fragment.width, value)


def _function(emitter: Emitter, run: _Run) -> str:
    """Define the function that stores a run, and return its name."""
    variables = dict.fromkeys((part.name, part.type_) for part in run.parts)
    renamed = {name: f"v{number}" for number, (name, _) in enumerate(variables)}
    boundary = WORD // run.dtype.bits * (1 + run.qwords)
    shift, rows = run.first % boundary, len({part.row for part in run.parts})
    first = min((part.row, part.column) for part in run.parts)
    columns = sorted({(part.column, part.count) for part in run.parts})
    name = f"store_run_{run.dtype}_{rows}x{columns[-1][0] + columns[-1][1] - first[1]}_pitch_{run.pitch}_at_{shift}"
    name += "_of_qwords" * run.qwords
    parameters = ", ".join(f"{type_} {renamed[variable]}" for variable, type_ in variables)
    head = f"(global {run.dtype.register} *first, {parameters})\n{{\n  const int lane = get_sub_group_local_id();"
    every = [line for part in run.parts for line in _stored(run, part, renamed, 0, part.count)]
    if not run.is_whole:
        return emitter.function_named(name, "\n".join([head, *every, "}", ""]))
    start, end = (word * (WORD // run.dtype.bits) for word in run.words)
    beside = [line for part in run.parts for low, high in ((run.first, start), (end, 1 << 31))
              for line in _stored(run, part, renamed, max(low - run.at(part), 0), min(high - run.at(part), part.count))]
    return emitter.function_named(name, "\n".join([head, f"#ifdef {NO_VISA}", *every, "#else", *beside,
                                                   *_assembly(run, renamed), "#endif", "}", ""]))


def _stored(run: _Run, part: _Part, renamed: dict[str, str], low: int, high: int) -> Iterator[str]:
    """Statement that stores elements of a part, one a lane; none without such elements."""
    if low >= high:
        return
    at, value = f"first + {run.at(part) - run.first} + lane", part.value.replace(part.name, renamed[part.name], 1)
    if high - low == run.lanes:
        yield f"  *({at}) = {value};"
        return
    condition = f"lane < {high}" + (f" && lane >= {low}" if low else "")
    yield f"  {STORE}({at}, {value}, {condition});"


def _assembly(run: _Run, renamed: dict[str, str]) -> Iterator[str]:
    """Statements that put the words of a run together, and store them."""
    type_, each, line = VISA[run.dtype.bits], WORD // run.dtype.bits, run.lanes * WORD // run.dtype.bits
    start, end = run.words
    base = start + (start % 2 if run.qwords else 0)  # the word at the second register's begin
    size = -(-((end - start) * each) // line + -3) * line  # a register in front, and two behind, for parts of words
    lines = ["{", f".decl RUN v_type=G type={type_} num_elts={size} align=GRF",
             ".decl AT v_type=G type=uq num_elts=1 align=wordx32", "mov (M1_NM, 1) AT(0,0)<1> %0(0,0)<0;1,0>"]
    names = list(renamed.values())
    for number, variable in enumerate(names, 1):
        words = 1 + max(part.word for part in run.parts if renamed[part.name] == variable)
        lines.append(f".decl IN{number} v_type=G type={type_} num_elts={words * run.lanes} align=GRF "
                     f"alias=<%{number}, 0>")
    # behind the end of a row an instruction writes elements of no row: whole registers' worth of rows come later
    for part in sorted(run.parts, key=lambda part: (part.count == run.lanes, part.row, part.column)):
        source, to = part.word * run.lanes, run.at(part) - base * each + line
        lines.append(f"mov (M1_NM, {run.lanes}) RUN({to // line},{to % line})<1> "
                     f"IN{1 + names.index(renamed[part.name])}({source // line},{source % line})<1;1,0>")
    for number, (word, count, unit) in enumerate(_messages(start - base, end - base, run.qwords)):
        lines.append(f".decl WORDS{number} v_type=G type={'uq' if unit > 1 else 'ud'} num_elts={count} align=GRF"
                     + (f" alias=<RUN, {4 * (word + run.lanes)}>" if word % run.lanes == 0 else ""))
        if word % run.lanes:
            at = word * each + line
            lines.append(f".decl PART{number} v_type=G type={type_} num_elts={line} align=GRF alias=<WORDS{number}, 0>")
            lines += [f"mov (M1_NM, {min(line, _MOST_LANES)}) PART{number}(0,{to})<1> "
                      f"RUN({(at + to) // line},{(at + to) % line})<1;1,0>" for to in range(0, line, _MOST_LANES)]
        lines.append(f"lsc_store.ugm (M1_NM, 1) flat[AT+{4 * (word + base - start):#x}]:a64 "
                     f"WORDS{number}:d{WORD * unit}x{count}t")
    text = "".join(f'    "{each_line}\\n"\n' for each_line in [*lines, "}"])
    inputs = ", ".join(f'"rw"({name})' for name in names)
    shift = start * each - run.first
    yield f"  const ulong at = (ulong)(first + {shift});"
    yield f"  __asm__ volatile(\n{text}    : : \"rw.u\"(at), {inputs} : \"memory\");"


def _messages(start: int, end: int, qwords: bool) -> Iterator[tuple[int, int, int]]:
    """First word of each message, how many it stores, and words of one of these; the last one may store again what the
    one before it does, and so may the first, of one word in front of an 8-byte boundary.

    Args:
        start, end: the first word, 0 or -1, and the one behind the last.
        qwords: whether word 0 is at an 8-byte boundary.
    """
    if start:
        yield start, _MESSAGES[-1], 1
    at = 0
    for unit in (2, 1) if qwords else (1,):
        while end - at >= unit * _MESSAGES[-1]:
            count = next(count for count in _MESSAGES if unit * count <= end - at)
            yield at, count, unit
            at += unit * count
    if at < end:
        yield end - _MESSAGES[-1], _MESSAGES[-1], 1
