"""Row-wise and element-wise block access, for memory that does not meet the rules of 2D block IO.

Each needs a small function of the kernel's text, written once for each shape that occurs. A block that lies wholly
inside an array whose rows start on 4-byte boundaries is read a row at a time, by subgroup block reads, or, where each
lane has a row of its own, by vectors of its words; one that is copied from rows of any alignment by vectors of words,
of which each lane shifts its elements out; any other block is read element by element: words of one element by
predicated messages, which need no branch, and words of several by a loop. In a loop of the kernel a block of one word
is read so whether it is in bounds or not. On a CPU, where the lanes' elements are a vector, a block in bounds is
read without a call. Elements outside the array are never used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from xdsl.dialects import scf
from xdsl.ir import Operation

from codegen.opencl.arith import predicate
from codegen.opencl.block_io import predicated_words, row_pointers, row_prefetch, store_runs, unaligned_words
from codegen.opencl.block_io.block_slice import (
    BLOCK_READS,
    KEPT,
    PARAMETERS,
    BlockSlice,
    WholeBlock,
    block_of,
    position,
)
from codegen.opencl.block_io.row_runs import loads as row_runs
from codegen.opencl.block_io.unaligned_words import vector_widths
from codegen.opencl.emitter import (
    COLUMNS_OF_ROW,
    MOST_INLINED,
    NO_UNROLL,
    Emitter,
    is_by_rows,
    likely_in_bounds,
    masks_row,
    wrapping,
)
from codegen.opencl.prelude.macros import CALL, FILL, NO_VISA
from codegen.opencl.values import UNSIGNED, Coordinate, Descriptor, Fragment, vector_type
from codegen.opencl.vector.interleaving import interleaving
from xegpu.analysis.gemm_loops import has_barrier, is_copy
from xegpu.analysis.register_pressure import loop_bytes
from xegpu.dialect.block_io import LoadNdOp, desc_of
from xegpu.dialect.bounds import is_row_of_words, is_unaligned_copy
from xegpu.ir.region_branch import LOOPS
from xegpu.target import grf_mode


def load(emitter: Emitter, operation: LoadNdOp) -> None:
    """Emit ``load_nd`` as 1D block reads or element loads."""
    if operation.valid is not None:
        row_runs.load(emitter, operation)
        return
    block = block_of(emitter, desc_of(operation.desc))
    by_words = not block.strided and is_by_rows(emitter, operation.result, block.lanes)
    fragment = predicate.in_memory(emitter.fresh(operation.result, scalars=by_words))
    emitter.values[operation.result] = fragment
    pieces = [replace(piece, in_bounds=operation.in_bounds is not None) for piece in block.pieces(fragment.width)]
    words = fragment.width * len(fragment.names)
    if emitter.target.is_cpu and not block.strided and emitter.inlined_words + words <= MOST_INLINED:
        _load_without_calls(emitter, operation, pieces)
        predicate.from_memory(emitter, operation.result)
        if by_words:
            emitter.set_words(operation.result, fragment)
        return
    if _is_predicated(emitter, operation, pieces[0], fragment):
        function = predicated_words.load_function(emitter, pieces[0], fragment)
        emitter.assign(operation.result, fragment, [f"{function}({arguments_of(emitter, operation.desc)})"])
        predicate.from_memory(emitter, operation.result)
        return
    if not _is_by_rows(block):
        statements = [f"{fragment.c_type} {name} = {_element_function(emitter, piece, fragment)}("
                      f"{arguments_of(emitter, operation.desc, *piece.at)});"
                      for name, piece in zip(fragment.names, pieces, strict=True)]
        for statement in predicated_words.apart(emitter, statements, pieces[0], fragment):
            emitter.line(statement)
        predicate.from_memory(emitter, operation.result)
        return
    if operation in emitter.carried_pointers:
        emitter.assign(operation.result, fragment, row_pointers.values(emitter, operation, fragment))
        predicate.from_memory(emitter, operation.result)
        return
    kind = "read"
    if operation.in_bounds is not None and block.is_contiguous(emitter.values[operation.desc].pitch):
        kind = "read_contiguous"
        interleave = _interleave(emitter, block, fragment)
        lines = _rows_read(block, fragment, contiguous=True, interleave=interleave)
        emitter.function("\n".join([*_head(block, fragment, kind), *lines, "}", ""]))
    else:
        emitter.function(_rows_function(emitter, block, fragment))
    if operation.in_bounds is None and (_alignment(block) or not pieces[0].promised):
        kind = "load_anew" if _is_short_of_registers(emitter, operation) else "load"
        emitter.function(_asking_function(emitter, block, fragment, kind))
    emitter.line(f"{fragment.c_type} {', '.join(fragment.names)};")
    results = ", ".join(f"&{name}" for name in fragment.names)
    where = _contiguous_arguments if kind == "read_contiguous" else arguments_of
    emitter.line(f"{block.function(kind)}({where(emitter, operation.desc)}, {results});")
    predicate.from_memory(emitter, operation.result)


def _is_predicated(emitter: Emitter, operation: LoadNdOp, piece: BlockSlice, fragment: Fragment) -> bool:
    """Whether a block of one element a lane, in a loop, is loaded by one message of a GPU, in bounds or not.

    Before a loop a branch costs little, and without one Intel's compiler sinks block messages beside it into the loop.
    """
    single = fragment.width == 1 and len(fragment.names) == 1 and piece.lanes.per_lane == 1
    other = piece.promised or emitter.target.is_cpu or operation in emitter.carried_pointers
    return single and not other and _is_in_loop(operation)


def _is_in_loop(operation: Operation) -> bool:
    around = operation.parent_op()
    return around is not None and (isinstance(around, LOOPS) or _is_in_loop(around))


def _is_by_rows(block: WholeBlock) -> bool:
    """Whether a block in bounds is read by rows, those of the block or of each lane, and not by elements."""
    return block.row_bits > 0 or is_row_of_words(block.desc, block.subgroup) or is_unaligned_copy(block.desc)


def arguments_of(emitter: Emitter, operand: Any, rows: int = 0, columns: int = 0) -> str:
    """Arguments for :data:`PARAMETERS`: the descriptor's bounds and position, moved by rows and columns."""
    desc: Descriptor = emitter.values[operand]
    y, x = desc.row.plus(Coordinate((), rows)), desc.column.plus(Coordinate((), columns))
    return (f"{desc.array.name}, {desc.height}, {desc.width}, {desc.pitch}, {desc.step}, "
            f"{wrapping(y)}, {wrapping(x)}")


def _contiguous_arguments(emitter: Emitter, operand: Any) -> str:
    """Arguments for a block of whole rows in bounds: rows a constant apart are elements of one row a constant apart.

    A compiler then sees that blocks lie a constant apart in memory, which the row of each, in 32 bits, hides from it.
    """
    desc: Descriptor = emitter.values[operand]
    y, distance = Coordinate(desc.row.terms), Coordinate((), desc.row.offset * int(desc.pitch))
    return (f"{desc.array.name}, {desc.height}, {desc.width}, {desc.pitch}, {desc.step}, {wrapping(y)}, "
            f"{wrapping(desc.column.plus(distance))}")


def _head(block: WholeBlock, fragment: Fragment, kind: str) -> list[str]:
    """Signature of a function that reads a block into variables."""
    dtype = block.desc.dtype.opencl
    results = "".join(f", private {fragment.c_type} *out{i}" for i in range(len(fragment.names)))
    return [f"{FILL} static void {block.function(kind)}(global const {dtype} *base, {PARAMETERS}{results})", "{",
            f"  global const {dtype} *first = base + y * (long)pitch + x;"]


def _rows_function(emitter: Emitter, block: WholeBlock, fragment: Fragment) -> str:
    """Define a load of a block in bounds: of rows that start on 4-byte boundaries, or of words across those."""
    lines = _rows_read(block, fragment) if block.row_bits else _words_read(emitter, block, fragment)
    return "\n".join([*_head(block, fragment, "read"), *lines, "}", ""])


def _is_short_of_registers(emitter: Emitter, operation: LoadNdOp) -> bool:
    """Whether a load copies rows of any alignment in a loop in which no subgroup waits for others, and that carries
    and loads what all registers hold, or more."""
    loop, target = operation.parent_op(), emitter.target
    return is_copy(operation) and isinstance(loop, scf.ForOp) and not has_barrier(loop) and \
        loop_bytes(loop) >= grf_mode.fragment_bytes(max(target.registers), target)


def _asking_function(emitter: Emitter, block: WholeBlock, fragment: Fragment, kind: str) -> str:
    """Define a load that chooses at run time between rows and single elements."""
    conditions = [*([] if block.promised else [block.is_inside()]), *_alignment(block)]
    results = ", ".join(f"out{i}" for i in range(len(fragment.names)))
    head = _head(block, fragment, kind)
    if kind == "load_anew":
        head[2:2] = _kept_in_loop("yx")
    lines = [*head, f"  if ({' && '.join(conditions)}) {{",
             f"    {block.function('read')}(base, height, width, pitch, step, y, x, {results});", "    return;", "  }"]
    calls, pieces = [], block.pieces(fragment.width)
    for i, piece in enumerate(pieces):
        at = ", ".join(wrapping(Coordinate((name,), start)) for name, start in zip("yx", piece.at, strict=True))
        name = _element_function(emitter, piece, fragment)
        calls.append(f"*out{i} = {name}(base, height, width, pitch, step, {at});")
    lines += [f"  {call}" for call in predicated_words.apart(emitter, calls, pieces[0], fragment)]
    return "\n".join([*lines, "}", ""])


def _alignment(block: WholeBlock) -> list[str]:
    """C condition that rows start on 4-byte boundaries, if messages need it: asserted bounds do not imply it."""
    size = block.desc.dtype.bytes
    return [] if size >= 4 or is_unaligned_copy(block.desc) else \
        [f"(((uint)(ulong)first | (uint)pitch * {size}u) & 3u) == 0"]


def _kept_in_loop(names: str) -> Iterator[str]:
    """Statements behind which Intel's compiler does not know that a scalar is the same in all steps of a loop: it would
    make addresses of all blocks in front of the loop, and spill them. Where copies are shared, a step has few."""
    yield f"#ifndef {NO_VISA}"
    for name in names:
        yield f'  __asm__ volatile("mov (M1_NM, 16) %0(0,0)<1> %1(0,0)<0;1,0>" : "=rw"({name}) : "rw.u"({name}));'
        yield f"  {name} = sub_group_broadcast({name}, 0);"
    yield "#endif"


def _load_without_calls(emitter: Emitter, operation: LoadNdOp, pieces: list[BlockSlice]) -> None:
    """Emit a load on a CPU: all variables of a block in bounds without a call, each of another by a function."""
    fragment = emitter.fragment(operation.result)
    at_edges = _masked_load
    if not masks_row(emitter, fragment, pieces[0].lanes):
        emitter.inlined_words += fragment.units
        at_edges = _element_function

    def statements(pieces: list[BlockSlice], function: Callable[[Emitter, BlockSlice, Fragment], str]) -> list[str]:
        return [f"{name} = {function(emitter, piece, fragment)}({arguments_of(emitter, operation.desc, *piece.at)});"
                for name, piece in zip(fragment.names, pieces, strict=True)]

    row_prefetch.fetch_rows(emitter, operation)
    emitter.line(f"{fragment.c_type} {', '.join(fragment.names)};")
    inlined = statements([replace(piece, in_bounds=True) for piece in pieces], _inlined_function)
    if operation.in_bounds is not None or pieces[0].promised:
        for statement in inlined:
            emitter.line(statement)
    else:
        edges = statements(pieces, at_edges)
        if at_edges is _masked_load:
            edges = store_runs.masked_where_outside(emitter, operation, pieces, inlined, edges)
        store_runs.branch(emitter, likely_in_bounds(emitter, operation), inlined, edges)


def _masked_load(emitter: Emitter, piece: BlockSlice, fragment: Fragment) -> str:
    """Define a load of one row whose lanes are masked at the array's edges, and return its name.

    Each lane has one element, so that a compiler makes one masked instruction of it: less than a call takes.
    """
    name, dtype, c_type = f"{piece.function('load')}_masked", piece.desc.dtype.opencl, fragment.c_type
    condition, element = piece.masked_element
    emitter.function("\n".join([f"static {c_type} {name}(global const {dtype} *base, {PARAMETERS})", "{",
                                *(f"  {line}" for line in position(piece.lanes, piece.subgroup)),
                                f"  {COLUMNS_OF_ROW}", f"  {c_type} words = 0;",
                                f"  if ({condition}) words = {_packed([element], dtype, fragment.word)};",
                                "  return words;", "}", ""]))
    return name


def _inlined_function(emitter: Emitter, piece: BlockSlice, fragment: Fragment) -> str:
    """Define a load of one variable in bounds on a CPU, and return its name."""
    name, dtype, c_type = piece.function("read"), piece.desc.dtype.opencl, fragment.c_type
    words = [_packed([piece.unchecked(*at) for at in piece.coordinates(i)], dtype, fragment.word)
             for i in range(fragment.width)]
    value = words[0] if fragment.width == 1 else f"({c_type})({', '.join(words)})"
    emitter.function("\n".join([f"static {c_type} {name}(global const {dtype} *base, {PARAMETERS})", "{",
                                *(f"  {line}" for line in position(piece.lanes, piece.subgroup)),
                                f"  return {value};", "}", ""]))
    return name


def _element_function(emitter: Emitter, piece: BlockSlice, fragment: Fragment) -> str:
    """Define an element-wise load of one variable, and return its name.

    It loops over the words, which move through the variable: an index that is no constant would send it to private
    memory. A GPU has messages that take a condition, one for each word of one element.
    """
    if predicated_words.is_predicated(emitter, piece, fragment):
        return predicated_words.load_function(emitter, piece, fragment)
    name, dtype, c_type = piece.function("load"), piece.desc.dtype.opencl, fragment.c_type
    lines = [f"{CALL} static {c_type} {name}(global const {dtype} *base, {PARAMETERS})", "{",
             *(f"  {line}" for line in position(piece.lanes, piece.subgroup)), f"  {c_type} words = 0;",
             *_elements_read(emitter, piece, fragment), "  return words;", "}", ""]
    emitter.function("\n".join(lines))
    return name


def _elements_read(emitter: Emitter, piece: BlockSlice, fragment: Fragment) -> Iterator[str]:
    """Statements of the bounds-checked element loads of a variable."""
    if piece.promised:
        yield from _loop("  ", piece, fragment, piece.unchecked)
        return
    yield f"  if ({piece.is_inside()}) {{"
    yield from _loop("    ", piece, fragment, piece.unchecked)
    yield f"  }} else if ({piece.touches()}) {{"
    yield from _loop("    ", piece, fragment, _bounds_checked_load(emitter, piece))
    yield "  }"


def _loop(indent: str, piece: BlockSlice, fragment: Fragment, element: Callable[[str, str], str]) -> Iterator[str]:
    """Loop over the words of a variable; ``element`` gives the expression for a row and a column."""
    width = fragment.width
    pieces = [element(row, column) for row, column in piece.coordinates(0 if width == 1 else None)]
    word = _packed(pieces, piece.desc.dtype.opencl, fragment.word)
    if width == 1:
        yield f"{indent}words = {word};"
        return
    kept = "".join(f"words.s{part}, " for part in KEPT[width])
    yield f"{indent}{NO_UNROLL}"
    yield f"{indent}for (int i = 0; i < {width}; ++i)"
    yield f"{indent}  words = ({fragment.c_type})({kept}{word});"


def _bounds_checked_load(emitter: Emitter, piece: BlockSlice) -> Callable[[str, str], str]:
    """Bounds-checked element load without a branch: out of bounds it reads the array's first one, and gives 0."""
    type_ = piece.desc.dtype.opencl
    name = f"checked_{type_}"
    emitter.function(
        f"static {type_} {name}(global const {type_} *base, {PARAMETERS})\n{{\n"
        f"  const bool inside = (uint)y < (uint)height && (uint)x < (uint)width;\n"
        f"  const {type_} value = base[inside ? y * (long)pitch + x * (long)step : 0];\n"
        f"  return inside ? value : 0;\n}}\n")
    return lambda row, column: f"{name}(base, height, width, pitch, step, {row}, {column})"


def _assigned(words: list[list[str]], bits: int, fragment: Fragment, interleave: str = "") -> Iterator[str]:
    """Assemble each variable from parts of ``bits`` bits; complete vectors are reinterpreted without moves.

    A function that does so instead, if there is one, takes them as one vector: ``interleave``.
    """
    for number in range(len(fragment.names)):
        group = words[number * fragment.width:(number + 1) * fragment.width]
        pieces = [piece for word in group for piece in word]
        if interleave:
            yield f"  *out{number} = {interleave}(({vector_type(UNSIGNED[bits], len(pieces))})({', '.join(pieces)}));"
            continue
        step = min(len(pieces), 16)
        word_count = step // len(group[0])
        parts = [_packed(pieces[i:i + step], UNSIGNED[bits], vector_type(fragment.word, word_count))
                 for i in range(0, len(pieces), step)]
        value = parts[0] if len(parts) == 1 else f"({fragment.c_type})({', '.join(parts)})"
        yield f"  *out{number} = {value};"


def _packed(pieces: list[str], type_: str, word: str) -> str:
    """Concatenation of values of one C type to a wider one, the first in the lowest bits."""
    vector = vector_type(type_, len(pieces))
    joined = pieces[0] if len(pieces) == 1 else f"({vector})({', '.join(pieces)})"
    return joined if vector == word else f"as_{word}({joined})"


def _rows_read(block: WholeBlock, fragment: Fragment, *, contiguous: bool = False,
               interleave: str = "") -> Iterator[str]:
    """Block reads of each row, or of ``contiguous`` rows as one, as wide as possible; then each word is assembled."""
    bits, unit = block.row_bits, block.lanes.unit[1]
    rows, columns = block.shape
    together = rows if contiguous else 1
    parts = vector_widths(together * columns // unit, 16 if contiguous and bits < 32 else 8)
    for row in range(0, rows, together):
        for start, width in parts:
            at = " + ".join(["first"] + ([] if row == 0 else ["pitch" if row == 1 else f"{row} * (long)pitch"])
                            + ([str(start * unit)] if start else []))
            yield from _block_read(bits, width, f"row{row}_{start}", at, 8 * unit)
    component = [f"{start}.s{i:x}" if width > 1 else str(start) for start, width in parts for i in range(width)]
    words = []
    for word in block.words:
        (row, column), step = word[0], block.lanes.wi_data[1]
        lines = [divmod(row + i // step, together) for i in range(0, block.lanes.per_lane, step)]
        words.append([f"row{line * together}_{component[(within * columns + column) // unit]}"
                      for line, within in lines])
    yield from _assigned(words, bits, fragment, interleave)


def _block_read(bits: int, width: int, name: str, at: str, half: int) -> Iterator[str]:
    """Declaration of a vector that a 1D block message reads; one of 16, which CPUs lack, is two ``half`` apart."""
    vector, read = vector_type(UNSIGNED[bits], width), BLOCK_READS[bits]
    pointer = f"(global const {UNSIGNED[bits]} *)"
    whole = f"  const {vector} {name} = {read}{'' if width == 1 else width}({pointer}({at}));"
    if width < 16:
        yield whole
        return
    halves = ", ".join(f"{read}8({pointer}({each}))" for each in (at, f"{at} + {half}"))
    yield from (f"#ifdef {NO_VISA}", f"  const {vector} {name} = ({vector})({halves});", "#else", whole, "#endif")


def _interleave(emitter: Emitter, block: WholeBlock, fragment: Fragment) -> str:
    """The function that makes 32-bit words of pairs of a block's rows; empty where there is none."""
    if block.lanes.wi_data != (2, 1) or block.row_bits != 16 or block.shape[1] != block.subgroup:
        return ""
    return interleaving(emitter, fragment.width)


def _words_read(emitter: Emitter, block: WholeBlock, fragment: Fragment) -> Iterator[str]:
    """Reads of the runs of each variable from the lane's own rows."""
    yield f"  const int lane = get_sub_group_local_id() * {block.lanes.wi_data[0]};"
    found = unaligned_words.runs_in_order(block.desc)
    for run in found:
        yield from unaligned_words.read(emitter, run, ("y + lane", "x")) if is_unaligned_copy(block.desc) else \
            unaligned_words.read_aligned(run, ("y + lane", "x"))
    for number, value in enumerate(unaligned_words.variables(found, fragment)):
        yield f"  *out{number} = {value};"
