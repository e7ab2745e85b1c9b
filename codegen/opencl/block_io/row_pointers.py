"""Row pointers of unaligned copies, carried by a loop: each step adds a distance to them.

    for (; k < end; k += 32, share_0_here += share_0_move, ...) {
      uint8 share = words_of_2_rows_8(vload4(0, share_0_here), ...);

A pointer is the array's base and a product of a row and a pitch, in 64 bits. Intel's compiler multiplies anew in each
step, and puts together each lane's pointers from their parts; as a variable that the loop changes, a pointer takes one
addition. Words of the same rows that lie an even number of elements apart have one, from which they are constant
distances. Which half of a word begins a row stays the same in all steps if a step is even. Elements of
32 bits are words, and a row of them has one pointer. Four rows of 8-bit elements have eight: in an unrolled loop the
same ones go from step to step, as pointers of all steps would take the registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from xdsl.dialects import scf
from xdsl.ir import SSAValue

from codegen.opencl.block_io.unaligned_words import WordRun, declared, read_words, runs, variables
from codegen.opencl.emitter import Emitter, wrapping
from codegen.opencl.values import UNSIGNED, Coordinate, Descriptor, Fragment, vector_type
from xegpu.analysis.block_position import OffsetOf, Sum, Term, moving_axis, position_of
from xegpu.analysis.gemm_loops import is_copy
from xegpu.dialect.block_io import LoadNdOp, desc_of
from xegpu.ir.matchers import number


@dataclass(frozen=True)
class RowPointers:
    """Pointers of one load.

    Attributes:
        runs: what is read, and for each row of a run the prefix of its pointers' names and the words from there.
        moves: statements that move pointers before.
    """

    runs: tuple[tuple[WordRun, tuple[tuple[str, int], ...]], ...]
    moves: tuple[str, ...]


_MOST = 16
"""Pointers of a loop, 2 registers each on pvc, up to which each run has its own where messages take no immediate
offsets: adding a distance takes an instruction, and a register that waits for the message."""


@dataclass
class _Pointer:
    """Pointers to a row: the prefix of their names, the column that they were declared for, what a step adds to them,
    and the row that they were declared for and the one that they are at."""

    name: str
    column: int
    move: str
    first: int
    row: int


_Shared = dict[tuple[object, ...], _Pointer]
"""Pointers, by what those of several runs have in common."""


def declare(emitter: Emitter, loop: scf.ForOp) -> list[str]:
    """Declare the pointers of a loop's copies in front of it.

    Returns:
        what each step adds to them, as expressions.
    """
    copies = [load for load in loop.body.block.ops if isinstance(load, LoadNdOp) and load.in_bounds is not None
              and is_copy(load)]
    count = sum(len(_sides(load)) * len(run.rows) for load in copies for run in runs(load))
    together, shared = emitter.target.immediate_offsets or count > _MOST, _Shared()
    pointers = list[tuple[_Pointer, LoadNdOp, Descriptor]]()
    for load in copies:
        if (start := _start(emitter, loop, load)) is not None:
            there = shared if together or _elements(load) == 4 else {}
            pointers += ((pointer, load, start[0]) for pointer in _declare(emitter, load, *start, there))
    return [f"{pointer.name}_{side} += {pointer.move}{_rows(desc, pointer.first - pointer.row, load)}"
            for pointer, load, desc in pointers for side in _sides(load)]


def values(emitter: Emitter, load: LoadNdOp, fragment: Fragment) -> list[str]:
    """Read the runs of a load through its pointers, and give the expressions of its variables."""
    named, pointers = [], emitter.carried_pointers[load]
    for move in pointers.moves:
        emitter.line(move)
    for run, names in pointers.runs:
        if _elements(load) == 1:
            ((name, distance),) = names
            named.append(replace(run, label=emitter.name("words")))
            emitter.line(read_words(named[-1], f"({name}_here + {distance})").strip())
            continue
        words = run.combined(emitter, [tuple(f"({name}_{side} + {distance})" if distance else f"{name}_{side}"
                                             for side in ("here", "there")) for name, distance in names],  # type: ignore[misc]
                             [f"{name}_odd" for name, _ in names])
        named.append(replace(run, label=emitter.name("words")))
        emitter.line(f"const {vector_type('uint', run.width)} {named[-1].name} = {words};")
    return list(variables(named, fragment))


def _sides(load: LoadNdOp) -> tuple[str, ...]:
    """Suffixes of the pointers to a row."""
    return ("here", "there") if _elements(load) > 1 and load.row_behind is None else ("here",)


def _rows(desc: Descriptor, rows: int, load: LoadNdOp) -> str:
    """Words from a row to another one, added to an expression."""
    return f" + (long){desc.pitch} * {rows // _elements(load)}" if rows else ""


def _elements(load: LoadNdOp) -> int:
    """Elements of a word."""
    return 4 // desc_of(load.desc).dtype.bytes


def _start(emitter: Emitter, loop: scf.ForOp, load: LoadNdOp) -> tuple[Descriptor, str] | None:
    """The descriptor of a load in the first step, and the elements that a step moves it by; None unless it moves by an
    even number of rows or columns, and by nothing else."""
    step, each = number(loop.step), _elements(load)
    if not step or step % each or (axis := moving_axis(load.desc, loop)) is None:
        return None
    desc = first_descriptor(emitter, loop, load.desc)
    return desc, f"(long){desc.pitch} * {step // each}" if axis == 0 else str(step // each)


def first_descriptor(emitter: Emitter, loop: scf.ForOp, desc: SSAValue) -> Descriptor:
    """The descriptor of a loop's first step, for one that :func:`moving_axis` finds to move."""
    at, counter, start = position_of(desc), loop.body.block.args[0], emitter.coordinate(loop.lb)

    def along(sum_: Sum) -> Coordinate:
        found = Coordinate((), sum_.constant)
        for term in sum_.terms:
            found = found.plus(start if term is counter else _coordinate(emitter, term))
        return found

    root: Descriptor = emitter.values[at.root]
    return replace(root, row=along(at.row), column=along(at.column))


def _coordinate(emitter: Emitter, term: Term) -> Coordinate:
    if not isinstance(term, OffsetOf):
        return emitter.coordinate(term)
    desc: Descriptor = emitter.values[term.desc]
    return (desc.row, desc.column)[term.axis]


def _declare(emitter: Emitter, load: LoadNdOp, desc: Descriptor, step: str, shared: _Shared) -> Iterator[_Pointer]:
    """Declare the pointers of a load, and give those that are not there to share."""
    lanes = desc_of(load.desc).sg_map
    assert lanes is not None
    lane = emitter.common(load.parent, "lane", "int", f"get_sub_group_local_id() * {lanes.wi_data[0]}")
    stem = load.result.name_hint or "v"
    move = emitter.common(load.parent, f"{stem}_move", "long", step)
    found, moves, each = [], list[str](), _elements(load)
    first = f"{wrapping(desc.row)} + {lane}", wrapping(desc.column)
    for run in runs(load):
        names, column = [], desc.column.offset + run.column
        kind = UNSIGNED[32 // each]
        elements, likes = (run.elements(f"(global const {kind} *){desc.array.name}", desc.pitch, begin)
                           for begin in (first, (wrapping(desc.row), wrapping(desc.column))))
        for down, element, like in zip(run.rows, elements, likes, strict=True):
            row = desc.row.offset if len(run.rows) == 4 and desc.row.offset % each == 0 else 0
            key = (desc.array.name, desc.pitch, desc.row.terms, desc.row.offset - row, down, desc.column.terms,
                   column % each, run.most_odd, move, load.row_behind is None)
            if key not in shared:
                odd, _, _ = emitter.names(f"{stem}_row", lambda row: (f"{row}_odd", f"{row}_here", f"{row}_there"))
                name = odd.removesuffix("_odd")
                shared[key] = _Pointer(name, column, move, row, row)
                yield shared[key]
                if each == 1:
                    emitter.line(f"global const uint *{name}_here = {element};")
                else:
                    emitter.line(f"global const {kind} *{name} = {element};")
                    for line in declared(emitter, name, run, like):
                        emitter.line(line)
            pointer = shared[key]
            if pointer.row != row:
                moves += (f"{pointer.name}_{side} += {_rows(desc, row - pointer.row, load).removeprefix(' + ')};"
                          for side in _sides(load))
                pointer.row = row
            names.append((pointer.name, (column - pointer.column) // each))
        found.append((run, tuple(names)))
    emitter.carried_pointers[load] = RowPointers(tuple(found), tuple(moves))
