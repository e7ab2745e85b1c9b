"""Blocks of rows of any alignment as one run of memory: 1D block reads of whole words, and rows moved out of registers.

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

from codegen.opencl.block_io.block_slice import WholeBlock
from codegen.opencl.emitter import Emitter, wrapping
from codegen.opencl.prelude.macros import FILL, NO_VISA
from codegen.opencl.values import UNSIGNED, Coordinate, Descriptor, Fragment, vector_type
from xegpu.dialect.block_io import LoadNdOp
from xegpu.dialect.types import valid_of

_READ = "intel_sub_group_block_read"
WORD = 32
"""Bits of what messages count in."""
VISA = {8: "ub", 16: "uw", 32: "ud"}


@dataclass(frozen=True)
class _Run:
    """Rows of a block in memory.

    Attributes:
        rows, columns: of the block that are valid.
        pitch: elements from one row to the next.
        first: element where the block begins, behind one on a 4-byte boundary, and not before the array's first.
        bits: of an element.
        lanes: of a subgroup.
    """

    rows: int
    columns: int
    pitch: int
    first: int
    bits: int
    lanes: int

    @property
    def each(self) -> int:
        """Elements of a word."""
        return WORD // self.bits

    def reads(self) -> list[tuple[int, int]]:
        """1D block reads that hold the run: first word, and words of a lane."""
        behind = self.at(self.rows - 1, self.columns)
        start, end = self.first // self.each, -(-behind // self.each)
        found = []
        while start < end:
            fits = next((n for n in (1, 2, 4, 8) if n * self.lanes >= end - start), 8)
            if end - start < fits * self.lanes <= end:
                start = end - fits * self.lanes
            elif start + fits * self.lanes > end:  # what is in front of the run does not suffice for one message
                fits = max(fits // 2, 1)
                start = min(start, max(end - self.lanes, 0)) if fits == 1 else start
            found.append((start, fits))
            start += fits * self.lanes
        return found

    def at(self, row: int, column: int) -> int:
        """An element of the block, counted from the boundary."""
        return self.first + row * self.pitch + column


@dataclass(frozen=True)
class _Copy:
    """Elements of a row that go to a variable.

    Attributes:
        to: number of the first in the variable, whose registers hold the lanes of a word behind each other.
        stride: elements from one to the next there.
        count: of the elements of a whole row of the block's words, of which ``valid`` are the array's.
        row, column: of the first.
    """

    to: int
    stride: int
    count: int
    valid: int
    row: int
    column: int


def load(emitter: Emitter, operation: LoadNdOp, block: WholeBlock, fragment: Fragment) -> None:
    """Emit a load of a part of a block; the rest of it is zeros."""
    desc, valid = emitter.values[operation.desc], valid_of(operation)
    assert isinstance(desc, Descriptor)
    assert valid is not None
    emitter.line(f"{fragment.c_type} {', '.join(fragment.names)};")
    if not min(valid):
        for name in fragment.names:
            emitter.line(f"{name} = ({fragment.c_type})(0);")
        return
    pitch = int(desc.pitch)
    distance = desc.row.offset * pitch + desc.column.offset
    each = WORD // block.desc.dtype.bits
    before = min(distance // each, 8 * emitter.subgroup) * each  # may be read, where a run is shorter than a message
    run = _Run(*valid, pitch, before + distance % each, block.desc.dtype.bits, emitter.subgroup)
    name = _function(emitter, block, fragment, run)
    at = pointer_to(desc, distance - run.first)
    results = ", ".join(f"&{each_name}" for each_name in fragment.names)
    emitter.line(f"{name}({at}, {results});")


def pointer_to(desc: Descriptor, distance: int) -> str:
    """Pointer expression of an element, from the descriptor's variable row and column on, which are not negative."""
    row, column = (wrapping(Coordinate(each.terms)) for each in (desc.row, desc.column))
    return f"{desc.array.name} + (ulong)(uint)({row}) * {desc.pitch}u + ({column} + {distance})"


def _function(emitter: Emitter, block: WholeBlock, fragment: Fragment, run: _Run) -> str:
    """Define the function that reads a run, and return its name."""
    name = (f"{block.function('read_run')}_of_{run.rows}x{run.columns}_pitch_{run.pitch}_at_{run.first}")
    element, c_type = block.desc.dtype.opencl, fragment.c_type
    out = "".join(f", private {c_type} *out{i}" for i in range(len(fragment.names)))
    copies = [_copies(block, fragment, number, run) for number in range(len(fragment.names))]
    lines = [f"{FILL} static void {name}(global const {element} *first{out})", "{", f"#ifdef {NO_VISA}",
             "  const int lane = get_sub_group_local_id();"]
    for number in range(len(fragment.names)):
        lines.append(f"  *out{number} = {_portable(block, fragment, number, run)};")
    lines.append("#else")
    reads = run.reads()
    for number, (start, width) in enumerate(reads):
        suffix = "" if width == 1 else str(width)
        lines.append(f"  const {vector_type('uint', width)} run{number} = "
                     f"{_READ}{suffix}((global const uint *)first + {start});")
    masks = sorted({copy.valid for group in copies for copy in group if 0 < copy.valid < copy.count})
    if masks:
        lines.append("  const int lane = get_sub_group_local_id();")
    lines += [f"  const {fragment.word if run.bits == 8 and block.lanes.wi_data[0] == 1 else UNSIGNED[run.bits]} "
              f"mask{count} = {_mask(block, run, count)};" for count in masks]
    for number, group in enumerate(copies):
        lines += _assembly(group, fragment, number, run, reads)
    emitter.function("\n".join([*lines, "#endif", "}", ""]))
    return name


def _mask(block: WholeBlock, run: _Run, count: int) -> str:
    """Expression of a lane's part of a mask of the first elements of a row: its own, of which it may have several."""
    across, ones = block.lanes.wi_data[1], (1 << run.bits) - 1
    parts = [f"(lane * {across} + {number} < {count} ? {ones << run.bits * number:#x} : 0)" for number in range(across)]
    return " | ".join(parts)


def _words(block: WholeBlock, fragment: Fragment, number: int) -> list[list[tuple[int, int]]]:
    """Row and column of the elements of each word of a variable, on lane 0."""
    return block.words[number * fragment.width:(number + 1) * fragment.width]


def _portable(block: WholeBlock, fragment: Fragment, number: int, run: _Run) -> str:
    """The value of a variable, by elements."""
    words, step, element = [], block.lanes.wi_data[1], block.desc.dtype.opencl
    for word in _words(block, fragment, number):
        parts = []
        for row, column in word:
            at = f"lane * {step} + {column}"
            parts.append(f"({at} < {run.columns} ? first[{run.at(row, 0)} + {at}] : ({element})0)"
                         if row < run.rows else f"({element})0")
        vector = vector_type(element, len(parts))
        joined = parts[0] if len(parts) == 1 else f"({vector})({', '.join(parts)})"
        words.append(joined if vector == fragment.word else f"as_{fragment.word}({joined})")
    return words[0] if len(words) == 1 else f"({fragment.c_type})({', '.join(words)})"


def _copies(block: WholeBlock, fragment: Fragment, number: int, run: _Run) -> list[_Copy]:
    """How the rows of a variable's words are put together; what is not copied is zero."""
    lanes, found = block.lanes, []
    for place, word in enumerate(_words(block, fragment, number)):
        first = place * run.lanes * lanes.per_lane
        for part, (row, column) in enumerate(word[:1] if lanes.wi_data[0] == 1 else word):
            count = run.lanes * lanes.wi_data[1]
            valid = min(count, run.columns - column) if row < run.rows else 0
            stride = 1 if lanes.wi_data[0] == 1 else lanes.per_lane
            found.append(_Copy(first + part, stride, count, max(valid, 0), row, column))
    return found


def _assembly(copies: Sequence[_Copy], fragment: Fragment, number: int, run: _Run,
              reads: Sequence[tuple[int, int]]) -> Iterator[str]:
    """Statements that put a variable together from what was read."""
    used = sorted({read for copy in copies for _, _, read in _pieces(copy, run, reads)})
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
    lines += [f".decl RUN{read} v_type=G type={type_} num_elts={reads[read][1] * run.lanes * in_word} align=GRF "
              f"alias=<%{1 + place}, 0>" for place, read in enumerate(used)]
    masked = sorted({copy.valid for copy in copies if 0 < copy.valid < copy.count})
    lines += [f".decl MASK{count} v_type=G type={type_} num_elts={copies[0].count} align=GRF "
              f"alias=<%{1 + len(used) + place}, 0>" for place, count in enumerate(masked)]
    lines += _statements(copies, run, reads)
    text = "".join(f'    "{line}\\n"\n' for line in [*lines, "}"])
    inputs = ", ".join([*(f'"rw"(run{read})' for read in used), *(f'"rw"(mask{count})' for count in masked)])
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


def _pieces(copy: _Copy, run: _Run, reads: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Parts of a copy that a read has each: distance, count and number of the read. Counts are those of lanes."""
    distance = 0
    while distance < copy.valid:
        at = run.at(copy.row, copy.column) + distance
        ends = {read: (start + width * run.lanes) * run.each for read, (start, width) in enumerate(reads)
                if start * run.each <= at < (start + width * run.lanes) * run.each}
        read = max(ends, key=lambda each: min(ends[each], at + copy.count))
        if distance == 0 and at + copy.count <= ends[read]:
            yield 0, copy.count, read
            return
        count = min(copy.valid - distance, ends[read] - at)
        count = 1 << (count.bit_length() - 1)
        yield distance, count, read
        distance += count


def _statements(copies: Sequence[_Copy], run: _Run, reads: Sequence[tuple[int, int]]) -> Iterator[str]:
    """Instructions of the copies."""
    type_, line = VISA[run.bits], run.lanes * run.each  # elements of a register

    def place(element: int) -> str:
        return f"({element // line},{element % line})"

    for copy in copies:
        pieces = list(_pieces(copy, run, reads))
        is_whole = len(pieces) == 1 and pieces[0][1] == copy.count
        if not is_whole and copy.valid < copy.count:
            yield f"mov (M1_NM, {copy.count}) OUT{place(copy.to)}<{copy.stride}> 0:{type_ if run.bits > 8 else 'uw'}"
        for distance, count, read in pieces:
            source = run.at(copy.row, copy.column) + distance - reads[read][0] * run.each
            to = f"OUT{place(copy.to + distance * copy.stride)}<{copy.stride}>"
            region = "<1;1,0>" if count > 1 else "<0;1,0>"
            if is_whole and copy.valid < copy.count:
                yield f"and (M1_NM, {count}) {to} RUN{read}{place(source)}{region} MASK{copy.valid}(0,0)<1;1,0>"
            else:
                yield f"mov (M1_NM, {count}) {to} RUN{read}{place(source)}{region}"
