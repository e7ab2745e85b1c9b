"""Address payloads of loads in registers of the emitter's own, two of which are made by one 32-lane addition.

    uint4 payloads = ...;                               before the loop: those of the first row, a register each
    for (...) {
      uint4 at = move4(payloads, n & rows);             n is added to the word of each that is its row
      uint4 at1 = move4(at, by);                        16 columns further
      ... loads at at.s0, at.s1 ... at1.s0 ...

Where block messages take no distances (``Target.immediate_offsets``), each has its whole address in a register: eight
words, of which the array's address, sizes and pitch stay. Intel's compiler lets blocks in the same place along one axis
share a payload, and sets it for each message, behind four instructions that wait until the message before has read it.
A payload for each of them, set by an instruction each, takes sixteen registers all through a loop with 64 x 64 keys.
Those made here are alive in a part of the step alone, and as they are made together, none is in a register from which a
message may still read. What groups are says :mod:`xegpu.passes.loops.payload_groups`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import SSAValue

from codegen.opencl.emitter import Emitter, atom, wrapping
from codegen.opencl.prelude.macros import NO_VISA
from codegen.opencl.values import Descriptor
from xegpu.dialect.block_io import LoadNdOp, desc_of
from xegpu.passes.loops.payload_groups import PayloadGroup, groups_of

_TOGETHER = 16
"""Payloads that are made together, each of which takes a register until its message."""
_COLUMN, _ROW = 5, 6
"""Words of a payload: the block's first column, counted in 32-bit words, and its first row."""
_FORM = 0x0F07
"""The last word of a payload of one block: in the first byte its 32-bit words of a row less one, in the second its rows
less one."""
_WORDS = 16
"""32-bit words of a register."""


@dataclass
class _Kept:
    """Variables that a loop keeps for a group.

    Attributes:
        group: the group.
        payloads: variable of the payloads of its first row, without what moves them.
        rows: variable whose word of rows has all bits, and the others none.
        by: for each distance the variable that is added.
        made: for each load its payload: a variable, and which of its registers.
    """

    group: PayloadGroup
    payloads: str
    rows: str
    by: dict[tuple[int, int], str]
    made: dict[LoadNdOp, tuple[str, int]]

    @property
    def length(self) -> int:
        """Loads of a row."""
        return len(self.group.bases)


def declare(emitter: Emitter, loop: scf.ForOp) -> list[str]:
    """Declare a loop's payload groups in front of it.

    Returns:
        an empty list: no step changes a variable of these.
    """
    for group in groups_of(loop):
        emitter.lines.append(f"#ifndef {NO_VISA}")
        payloads = _opaque(emitter, loop, "payloads", [_payload(emitter, base) for base in group.bases])
        rows = _constant(emitter, loop, "rows", {_ROW: -1})
        together = 32 // desc_of(group.bases[0]).dtype.bits
        by = {each: _constant(emitter, loop, "by", {_ROW: each[0], _COLUMN: each[1] // together})
              for each in dict.fromkeys(group.distances)}
        emitter.lines.append("#endif")
        kept = _Kept(group, payloads, rows, by, {})
        emitter.payload_groups |= dict.fromkeys(group.loads, kept)
    return []


def is_grouped(emitter: Emitter, load: LoadNdOp) -> bool:
    """Whether a load's payload is one of a group."""
    return load in emitter.payload_groups


def load(emitter: Emitter, operation: LoadNdOp, variable: str) -> None:
    """Emit the load of eight words of each lane, and before the first of a group's rows the payloads of several.

    Args:
        emitter: gets the lines.
        operation: the load.
        variable: the variable that it fills.
    """
    kept: _Kept = emitter.payload_groups[operation]
    if operation not in kept.made:
        _make(emitter, kept, kept.group.loads.index(operation) // kept.length)
    name, place = kept.made[operation]
    register = f".decl AT v_type=G type=ud num_elts={_WORDS} align=GRF alias=<%1, {4 * _WORDS * place}>"
    message = "lsc_load_block2d.ugm (M1, 1) %0:d32.8x16tn flat[AT + (0,0)]"
    emitter.line(f'__asm__ volatile("{{\\n{register}\\n{message}\\n}}" : "=rw"({variable}) : "rw"({name}) : "memory");')


def _make(emitter: Emitter, kept: _Kept, first: int) -> None:
    """Emit the payloads of rows of a group from one on: as many as are made together."""
    loads, length = kept.group.loads, kept.length
    for row in range(first, min(first + _TOGETHER // length, len(loads) // length)):
        if row:
            from_, by = kept.made[loads[(row - 1) * length]][0], kept.by[kept.group.distances[row - 1]]
        else:
            from_, by = kept.payloads, f"(uint){atom(emitter.values[kept.group.moving])} & {kept.rows}"
        name = emitter.name("at")
        emitter.line(f"const uint{length} {name} = {_move(emitter, length)}({from_}, {by});")
        kept.made |= {load: (name, place) for place, load in enumerate(loads[row * length:(row + 1) * length])}


def _move(emitter: Emitter, length: int) -> str:
    """Define the function that adds a register to each of several payloads, and return its name."""
    name, type_ = f"move_payloads{length}", f"uint{length}"
    additions = "".join(f'"add (M1_NM, 32) %0({i},0)<1> %1({i},0)<1;1,0> %2(0,0)<0;16,1>\\n" '
                        for i in range(0, length, 2))
    emitter.function(f"""static {type_} {name}({type_} at, uint by)
{{
#ifndef {NO_VISA}
  {type_} moved;
  __asm__ volatile("{{\\n" {additions}"}}" : "=rw"(moved) : "rw"(at), "rw"(by));
  at = moved;
#endif
  return at;
}}
""")
    return name


def _payload(emitter: Emitter, base: SSAValue) -> dict[int, str]:
    """Words of a payload of the first row, without what moves it."""
    desc: Descriptor = emitter.values[base]
    dtype = desc_of(base).dtype
    scale, address = f" * {dtype.bytes}" if dtype.bytes > 1 else "", f"(ulong){desc.array.name}"
    return dict(enumerate((f"(uint)({address})", f"(uint)(({address}) >> 32)", f"(uint)({desc.width}{scale} - 1)",
                           f"(uint)({desc.height} - 1)", f"(uint)({desc.pitch}{scale} - 1)",
                           f"(uint)(({wrapping(desc.column)}) / {32 // dtype.bits})", f"(uint)({wrapping(desc.row)})",
                           f"{_FORM:#x}")))


def _constant(emitter: Emitter, loop: scf.ForOp, hint: str, words: dict[int, int]) -> str:
    """Emit a variable of a register with numbers in some words and 0 in the others, and return its name.

    Each number is masked by its lane, as a selection between lanes may become a branch (:func:`_opaque`). Set word by
    word, these registers take 16 instructions more in a step of attention.
    """
    key = loop, *words.items()
    if key not in emitter.shared:
        name = emitter.shared[key] = emitter.name(hint)
        numbers = " | ".join(f"(-(uint)(get_sub_group_local_id() == {word}) & {number & 0xFFFFFFFF:#x}u)"
                             for word, number in words.items())
        emitter.line(f'uint {name}; __asm__("mov (M1_NM, {_WORDS}) %0(0,0)<1> %1(0,0)<1;1,0>" : "=rw"({name}) : '
                     f'"rw"({numbers}));')
    return emitter.shared[key]


def _opaque(emitter: Emitter, loop: scf.ForOp, hint: str, registers: Sequence[dict[int, str]]) -> str:
    """Emit a variable of registers, one for all groups of a loop, and return its name.

    Intel's compiler cannot see through it: it would make the values again in each step. Each word is set by itself:
    of values that differ from lane to lane the compiler makes branches, and copies such instructions, which write all
    lanes, into them.

    Args:
        emitter: gets the lines.
        loop: the loop.
        hint: begins the variable's name.
        registers: of each the words, expressions that are the same in all lanes; the others are 0.
    """
    key = loop, *(tuple(words.items()) for words in registers)
    if key not in emitter.shared:
        name, type_ = emitter.name(hint), f"uint{len(registers) if len(registers) > 1 else ''}"
        inputs, moves = list[str](), list[str]()
        for register, words in enumerate(registers):
            moves.append(f"mov (M1_NM, {_WORDS}) %0({register},0)<1> 0x0:ud")
            for word, value in words.items():
                if value not in inputs and not value.startswith("0x"):
                    inputs.append(value)
                source = f"{value}:ud" if value.startswith("0x") else f"%{1 + inputs.index(value)}(0,0)<0;1,0>"
                moves.append(f"mov (M1_NM, 1) %0({register},{word})<1> {source}")
        text = "\n".join(f'    "{move}\\n"' for move in moves)
        operands = ", ".join(f'"rw"({value})' for value in inputs)
        emitter.line(f'{type_} {name};\n  __asm__("{{\\n"\n{text}\n    "}}" : "=rw"({name}) : {operands});')
        emitter.shared[key] = name
    return emitter.shared[key]
