"""Blocks of unaligned rows, loaded as one run of memory: 1D block reads of words, then moves of rows in registers.

The matrices of a batch lie behind each other, each with its rows. Where their sizes are known, so is where in a run
each row begins, which registers let an instruction begin at any element of:

    run of 17 columns:  a0 .. a15 a16 b0 .. b15 b16 c0 ...          rows of operand A:   a0 .. a15 | a16 0 .. 0
                                                                                         b0 .. b15 | b16 0 .. 0
So a row of a block takes an instruction, and none asks for bounds. Elements behind the last column are masked off;
those behind the last row are zeros. No message reads beyond the run's words: the last one begins within those of the
one before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from xdsl.traits import Pure

from codegen.opencl.block_io.block_slice import WholeBlock, block_of
from codegen.opencl.emitter import Emitter, is_by_rows, wrapping
from codegen.opencl.prelude.macros import FILL, NO_VISA
from codegen.opencl.values import UNSIGNED, Coordinate, Descriptor, Fragment, vector_type
from xegpu.analysis.block_position import OffsetOf, position_of, sum_of
from xegpu.dialect.block_io import CreateNdTdescOp, LoadNdOp, desc_of
from xegpu.dialect.types import valid_of

_READ = "intel_sub_group_block_read"
_MOST_BITS = 48 * 512
"""What blocks of a matrix may take that are read together: 48 registers, beside those that they are moved to."""
WORD = 32
"""Bits of what messages count in."""
VISA = {8: "ub", 16: "uw", 32: "ud"}


@dataclass(frozen=True)
class _Part:
    """Block of a run, which has a variable or several.

    Attributes:
        block, fragment: of a load.
        rows, columns: of the block that are valid.
        first: element where the block begins, as a run counts them.
    """

    block: WholeBlock
    fragment: Fragment
    rows: int
    columns: int
    first: int

    def words(self, number: int) -> list[list[tuple[int, int]]]:
        """Row and column of the elements of each word of a variable, on lane 0."""
        return self.block.words[number * self.fragment.width:(number + 1) * self.fragment.width]


@dataclass(frozen=True)
class _Run:
    """Rows of blocks of a matrix in memory, which are read at once.

    Attributes:
        parts: the blocks.
        pitch: elements from one row to the next.
        bits: of an element.
        lanes: of a subgroup.
        qwords: whether the boundary is one of 8 bytes, from which messages of more than a word a lane begin.
    """

    parts: tuple[_Part, ...]
    pitch: int
    bits: int
    lanes: int
    qwords: bool

    @property
    def each(self) -> int:
        """Elements of a word."""
        return WORD // self.bits

    def at(self, part: _Part, row: int, column: int) -> int:
        """An element of a block, counted from a 4-byte boundary that is not before the array's first element."""
        return part.first + row * self.pitch + column

    @cached_property
    def copies(self) -> list[list[_Copy]]:
        """Copies that make up each variable of all blocks."""
        return [_copies(part, number, self) for part in self.parts for number in range(len(part.fragment.names))]

    @cached_property
    def reads(self) -> list[tuple[int, int]]:
        """1D block reads that hold the run: first word, and words of a lane.

        One begins where the first part of a row does that the one before it has not to its end.
        """
        rows = sorted((copy.at, copy.valid, copy.count) for group in self.copies for copy in group if copy.valid)
        behind = max(at + valid for at, valid, _ in rows)
        ends = [(at // self.each, -(-(at + (count if at + count <= behind else valid)) // self.each))
                for at, valid, count in rows]
        first, end, found = rows[0][0] // self.each, -(-behind // self.each), list[tuple[int, int]]()
        while first < end:
            start, fits = self._message(first, end)
            found.append((start, fits))
            reach = start + fits * self.lanes
            ends = [(low, high) for low, high in ends if low < start or high > reach]
            low = min(ends, default=(end, end))[0]
            first = low if low > first else reach
        return found

    def _message(self, start: int, end: int) -> tuple[int, int]:
        """First word and words of a lane of a message that reads from ``start`` on, and nothing from ``end`` on."""
        fits = next((n for n in (1, 2, 4, 8) if n * self.lanes >= end - start), 8)
        if self.qwords and fits > 1:
            start, last = start - start % 2, end - end % 2 - fits * self.lanes
            if start <= last or last >= 0:
                return min(start, last), fits
            fits //= 2
            return (start, fits) if fits > 1 else (min(start, max(end - self.lanes, 0)), 1)
        if end - start < fits * self.lanes <= end:
            start = end - fits * self.lanes
        elif start + fits * self.lanes > end:  # the words before the run's end do not fill one message
            fits = max(fits // 2, 1)
            start = min(start, max(end - self.lanes, 0)) if fits == 1 else start
        return start, fits


@dataclass(frozen=True)
class _Copy:
    """Elements of a row that go to a variable.

    Attributes:
        to: number of the first in the variable, whose registers hold the lanes of a word behind each other.
        stride: elements from one to the next there.
        count: of the elements of a whole row of the block's words, of which ``valid`` are the array's.
        at: the first, as a run counts them.
    """

    to: int
    stride: int
    count: int
    valid: int
    at: int


def load(emitter: Emitter, operation: LoadNdOp) -> None:
    """Emit a load of a part of a block, and those behind it that read the same matrix; the rest of blocks is zeros."""
    if operation.result in emitter.values:  # read with another one
        return
    block, desc = block_of(emitter, desc_of(operation.desc)), emitter.values[operation.desc]
    assert isinstance(desc, Descriptor)
    pitch, each = int(desc.pitch), WORD // block.desc.dtype.bits
    together = _together(operation, pitch)
    if not together:
        for name in (fragment := _declared(emitter, operation)).names:
            emitter.line(f"{name} = ({fragment.c_type})(0);")
        return
    distance = min(together.values())
    qwords = all(other.qword_aligned is not None for other in together)
    boundary = max(distance // each - 8 * emitter.subgroup, 0)  # words behind it may be read, for a whole message
    start = distance - (boundary + boundary % (1 + qwords)) * each
    parts = []
    for other, begins in together.items():
        valid = valid_of(other)
        assert valid is not None
        parts.append(_Part(block_of(emitter, desc_of(other.desc)), _declared(emitter, other), *valid,
                           begins - distance + start))
    run = _Run(tuple(parts), pitch, block.desc.dtype.bits, emitter.subgroup, qwords)
    at = pointer_to(desc, distance - start)
    results = ", ".join(f"&{name}" for part in parts for name in part.fragment.names)
    emitter.line(f"{_function(emitter, run)}({at}, {results});")


def _declared(emitter: Emitter, operation: LoadNdOp) -> Fragment:
    """The variables of a load."""
    by_words = is_by_rows(emitter, operation.result, block_of(emitter, desc_of(operation.desc)).lanes)
    fragment = emitter.values[operation.result] = emitter.fresh(operation.result, scalars=by_words)
    emitter.line(f"{fragment.c_type} {', '.join(fragment.names)};")
    return fragment


def _together(operation: LoadNdOp, pitch: int) -> dict[LoadNdOp, int]:
    """A load and later ones of the same matrix, with their distances from the matrix's position; none if it is empty.

    Nothing is stored between them, and together they read few registers, or what the first one alone reads.
    """
    if not min(valid_of(operation) or (0,)):
        return {}
    found, matrix, following = dict[LoadNdOp, int](), _matrix(operation), operation
    low = high = most = 0
    while following is not None and (isinstance(following, LoadNdOp) or
                                     (following.has_trait(Pure) and not following.regions)):
        valid = valid_of(following) if isinstance(following, LoadNdOp) else None
        if valid and min(valid) and _matrix(following) == matrix:
            at = position_of(following.desc)
            begins = at.row.constant * pitch + at.column.constant
            ends = begins + (valid[0] - 1) * pitch + valid[1]
            if not found:
                low, high = begins, ends
                most = max(_MOST_BITS // desc_of(operation.desc).dtype.bits, ends - begins + pitch)
            if max(high, ends) - min(low, begins) <= most:
                low, high = min(low, begins), max(high, ends)
                found[following] = begins
        following = following.next_op  # type: ignore[assignment]
    return found


def _matrix(operation: LoadNdOp) -> tuple[Any, ...]:
    """Key that is equal for loads of blocks of one matrix, at any constant distances."""
    at = position_of(operation.desc)
    maker = at.root.owner
    if not isinstance(maker, CreateNdTdescOp):
        return (at.root, at.row.terms, at.column.terms)
    begins = sum_of(maker.offsets[-2]), sum_of(maker.offsets[-1])
    return (maker.source, *maker.offsets[:-2], *maker.shape[:-2], *maker.strides, *begins,
            *(term for term in at.row.terms if not isinstance(term, OffsetOf)), *at.column.terms)


def pointer_to(desc: Descriptor, distance: int) -> str:
    """Pointer expression of an element, from the descriptor's variable row and column on, which are not negative."""
    row, column = (wrapping(Coordinate(each.terms)) for each in (desc.row, desc.column))
    return f"{desc.array.name} + (ulong)(uint)({row}) * {desc.pitch}u + ({column} + {distance})"


def _function(emitter: Emitter, run: _Run) -> str:
    """Define the function that reads a run, and return its name."""
    kind = "read_run_of_qwords" if run.qwords else "read_run"
    name = run.parts[0].block.function(kind) + f"_pitch_{run.pitch}" + "_and".join(
        (f"_{part.block.shape[0]}x{part.block.shape[1]}" if part.block.lanes == run.parts[0].block.lanes
         else f"_{part.block.function('read_run')}") * (number > 0)
        + f"_of_{part.rows}x{part.columns}_at_{part.first}" for number, part in enumerate(run.parts))
    variables = [(part, number) for part in run.parts for number in range(len(part.fragment.names))]
    out = "".join(f", private {part.fragment.c_type} *out{i}" for i, (part, _) in enumerate(variables))
    lines = [f"{FILL} static void {name}(global const {run.parts[0].block.desc.dtype.opencl} *first{out})", "{",
             f"#ifdef {NO_VISA}", "  const int lane = get_sub_group_local_id();"]
    lines += [f"  *out{i} = {_portable(part, number, run)};" for i, (part, number) in enumerate(variables)]
    lines.append("#else")
    for number, (start, width) in enumerate(run.reads):
        word, count, unit = ("ulong", width // 2, "_ul") if run.qwords and width > 1 else ("uint", width, "")
        suffix = unit + ("" if count == 1 else str(count))
        lines.append(f"  const {vector_type(word, count)} run{number} = {_READ}{suffix}("
                     f"(global const {word} *)((global const uint *)first + {start}));" if unit else
                     f"  const {vector_type(word, count)} run{number} = {_READ}{suffix}("
                     f"(global const uint *)first + {start});")
    masks = {(copy.valid, copy.count): part for (part, _), group in zip(variables, run.copies, strict=True)
             for copy in group if 0 < copy.valid < copy.count}
    if masks:
        lines.append("  const int lane = get_sub_group_local_id();")
    for (valid, count), part in sorted(masks.items(), key=lambda item: item[0]):
        lanes = part.block.lanes
        type_ = part.fragment.word if run.bits == 8 and lanes.wi_data[0] == 1 else UNSIGNED[run.bits]
        lines.append(f"  const {type_} mask{valid}_{count} = {_mask(part.block, run, valid)};")
    for i in sorted(range(len(variables)), key=lambda i: max(copy.at * (copy.valid > 0) for copy in run.copies[i])):
        lines += _assembly(run.copies[i], variables[i][0].fragment, i, run)  # right away: it frees the loaded words
    emitter.function("\n".join([*lines, "#endif", "}", ""]))
    return name


def _mask(block: WholeBlock, run: _Run, count: int) -> str:
    """Expression of a lane's part of a mask of the first elements of a row: its own, of which it may have several."""
    across, ones = block.lanes.wi_data[1], (1 << run.bits) - 1
    parts = [f"(lane * {across} + {number} < {count} ? {ones << run.bits * number:#x} : 0)" for number in range(across)]
    return " | ".join(parts)


def _portable(part: _Part, number: int, run: _Run) -> str:
    """The value of a variable, by elements."""
    fragment, element = part.fragment, part.block.desc.dtype.opencl
    words, step = [], part.block.lanes.wi_data[1]
    for word in part.words(number):
        parts = []
        for row, column in word:
            at = f"lane * {step} + {column}"
            parts.append(f"({at} < {part.columns} ? first[{run.at(part, row, 0)} + {at}] : ({element})0)"
                         if row < part.rows else f"({element})0")
        vector = vector_type(element, len(parts))
        joined = parts[0] if len(parts) == 1 else f"({vector})({', '.join(parts)})"
        words.append(joined if vector == fragment.word else f"as_{fragment.word}({joined})")
    return words[0] if len(words) == 1 else f"({fragment.c_type})({', '.join(words)})"


def _copies(part: _Part, number: int, run: _Run) -> list[_Copy]:
    """Copies that make up the rows of a variable's words; all other elements are zero."""
    lanes, found = part.block.lanes, []
    for place, word in enumerate(part.words(number)):
        first = place * run.lanes * lanes.per_lane
        for to, (row, column) in enumerate(word[:1] if lanes.wi_data[0] == 1 else word, first):
            count = run.lanes * lanes.wi_data[1]
            valid = min(count, part.columns - column) if row < part.rows else 0
            stride = 1 if lanes.wi_data[0] == 1 else lanes.per_lane
            found.append(_Copy(to, stride, count, max(valid, 0), run.at(part, row, column)))
    return found


def _assembly(copies: Sequence[_Copy], fragment: Fragment, number: int, run: _Run) -> Iterator[str]:
    """Statements that assemble a variable from the loaded words."""
    used = sorted({read for copy in copies for _, _, read in _pieces(copy, run)})
    if not used:
        yield f"  *out{number} = ({fragment.c_type})(0);"
        return
    type_, in_word = VISA[run.bits], run.each
    size = max(copy.to + copy.stride * (copy.count - 1) for copy in copies) + 1
    lines = ["{", f".decl OUT v_type=G type={type_} num_elts={size} align=GRF alias=<%0, 0>"]
    zeros, copies = _zero_registers(copies, run)
    if zeros:
        lines.append(f".decl WORDS v_type=G type=ud num_elts={size // in_word} align=GRF alias=<%0, 0>")
        lines += zeros
    lines += [f".decl RUN{read} v_type=G type={type_} num_elts={run.reads[read][1] * run.lanes * in_word} align=GRF "
              f"alias=<%{1 + place}, 0>" for place, read in enumerate(used)]
    masked = sorted({copy.valid for copy in copies if 0 < copy.valid < copy.count})
    lines += [f".decl MASK{count} v_type=G type={type_} num_elts={copies[0].count} align=GRF "
              f"alias=<%{1 + len(used) + place}, 0>" for place, count in enumerate(masked)]
    lines += _statements(copies, run)
    text = "".join(f'    "{line}\\n"\n' for line in [*lines, "}"])
    inputs = ", ".join([*(f'"rw"(run{read})' for read in used),
                        *(f'"rw"(mask{count}_{copies[0].count})' for count in masked)])
    yield f"  {fragment.c_type} words{number};"
    yield f"  __asm__(\n{text}    : \"=rw\"(words{number}) : {inputs});"
    yield f"  *out{number} = words{number};"


def _zero_registers(copies: Sequence[_Copy], run: _Run) -> tuple[list[str], list[_Copy]]:
    """Instructions that clear whole registers, two at once, and the copies to others."""
    line = run.lanes * run.each
    parts: dict[int, list[_Copy]] = {}
    for copy in copies:
        for register in range(copy.to // line, (copy.to + copy.stride * (copy.count - 1)) // line + 1):
            parts.setdefault(register, []).append(copy)
    clear = [register for register, those in sorted(parts.items()) if not any(copy.valid for copy in those)]
    found, left = [], list(clear)
    while left:
        count = 2 if left[1:] and left[1] == left[0] + 1 else 1
        found.append(f"mov (M1_NM, {count * run.lanes}) WORDS({left[0]},0)<1> 0:ud")
        left = left[count:]
    return found, [copy for copy in copies if copy.to // line not in clear]


def _pieces(copy: _Copy, run: _Run) -> Iterator[tuple[int, int, int]]:
    """Parts of a copy that a read has each: distance, count and number of the read. Counts are those of lanes."""
    distance = 0
    while distance < copy.valid:
        at = copy.at + distance
        ends = {read: (start + width * run.lanes) * run.each for read, (start, width) in enumerate(run.reads)
                if start * run.each <= at < (start + width * run.lanes) * run.each}
        read = max(ends, key=lambda each: min(ends[each], at + copy.count))
        if distance == 0 and at + copy.count <= ends[read]:
            yield 0, copy.count, read
            return
        count = min(copy.valid - distance, ends[read] - at)
        count = 1 << (count.bit_length() - 1)
        yield distance, count, read
        distance += count


def _statements(copies: Sequence[_Copy], run: _Run) -> Iterator[str]:
    """Instructions of the copies."""
    type_, line = VISA[run.bits], run.lanes * run.each  # elements of a register

    def place(element: int) -> str:
        return f"({element // line},{element % line})"

    for copy in copies:
        pieces = list(_pieces(copy, run))
        is_whole = len(pieces) == 1 and pieces[0][1] == copy.count
        if not is_whole and copy.valid < copy.count:
            yield f"mov (M1_NM, {copy.count}) OUT{place(copy.to)}<{copy.stride}> 0:{type_ if run.bits > 8 else 'uw'}"
        for distance, count, read in pieces:
            source = copy.at + distance - run.reads[read][0] * run.each
            to = f"OUT{place(copy.to + distance * copy.stride)}<{copy.stride}>"
            region = "<1;1,0>" if count > 1 else "<0;1,0>"
            if is_whole and copy.valid < copy.count:
                yield f"and (M1_NM, {count}) {to} RUN{read}{place(source)}{region} MASK{copy.valid}(0,0)<1;1,0>"
            else:
                yield f"mov (M1_NM, {count}) {to} RUN{read}{place(source)}{region}"
