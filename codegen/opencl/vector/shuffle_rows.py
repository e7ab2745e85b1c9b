"""``vector.shuffle`` in OpenCL C: permutation of the rows of two blocks, within each lane.

The even and odd rows of a transposed load are the low and high halves of its words. One 32-lane move makes a register
with two such rows from two registers of words; Intel's compiler, which vectorizes to 16 lanes, takes two moves and a
copy, so that move is written in virtual assembly (vISA). It needs registers of 64 bytes.
"""

from __future__ import annotations

from xdsl.dialects.builtin import VectorType
from xdsl.dialects.vector import ShuffleOp
from xdsl.ir import Operation, SSAValue

from codegen.opencl.emitter import Emitter, Rule
from codegen.opencl.prelude.macros import DEINTERLEAVE_ROWS, NO_VISA
from codegen.opencl.values import UNSIGNED, Fragment, vector_type, width_of
from xegpu.dialect.block_io import LoadNdOp, desc_of
from xegpu.dialect.types import valid_of
from xegpu.ir.dtypes import of_mlir
from xegpu.mlir.vector import ExtractOp, ExtractStridedSliceOp, ShapeCastOp, shape_of, values_of
from xegpu.passes.interleave_rows import EVEN, ODD
from xegpu.passes.loops.interleave_columns import is_by_place

_WORD = 32
"""Bits of a word of VNNI form."""


def _move_text() -> str:
    """vISA moves of eight registers of words to four of low and four of high halves (strided region ``<2;1,0>``)."""
    lines = [f"mov (M1_NM, 32) %{half}({register},0)<1> PAIRS({2 * register},{half})<2;1,0>"
             for half in (0, 1) for register in range(4)]
    return " \\\n  ".join(f'"{line}\\n"' for line in (
        "{", ".decl PAIRS v_type=G type=uw num_elts=256 align=GRF alias=<%2, 0>", *lines, "}"))


MACRO = f"""#ifndef {DEINTERLEAVE_ROWS}
#define {DEINTERLEAVE_ROWS}(even, odd, words) __asm__({_move_text()} \\
  : "=rw"(even), "=rw"(odd) : "rw"(words))
#endif
"""


def is_deinterleaved(load: LoadNdOp) -> bool:
    """Whether a load is a transposing message whose only uses are its even and odd rows."""
    block = desc_of(load.desc).block
    uses = [use.operation for use in load.result.uses]
    if load.transposes != 16 or block.access != "block" or block.memory_scope == "slm" or not uses:
        return False
    return all(isinstance(user, ShuffleOp) and user.v1 is user.v2 is load.result
                              and user.mask.get_values() in (EVEN, ODD) for user in uses)


def words_of(emitter: Emitter, load: LoadNdOp) -> Fragment:
    """Variables for the result of such a load: words of two rows."""
    fragment = emitter.fresh(load.result)
    return Fragment(fragment.dtype, fragment.units // 2, 2, fragment.names[:1])


def deinterleave(emitter: Emitter, result: SSAValue, words: str) -> None:
    """Split eight words a lane into even and odd rows, by the macro."""
    fragment = emitter.fresh(result)
    emitter.function(MACRO)
    bits = vector_type("ushort", fragment.width)
    for name in fragment.names:
        emitter.line(f"{bits} {name};")
    emitter.line(f"{DEINTERLEAVE_ROWS}({', '.join(fragment.names)}, {words});")
    if bits != fragment.c_type:
        fragment = fragment.renamed(tuple(f"as_{fragment.c_type}({name})" for name in fragment.names))
    emitter.values[result] = fragment


def is_interleaving(emitter: Emitter, value: SSAValue) -> bool:
    """Whether a value is interleaved rows of blocks, of use for words of two or four rows alone; or a part of such."""
    return bool(_interleaved_blocks(emitter, value)) or bool(
        isinstance(value.owner, ShuffleOp) and [*value.uses] and all(
            isinstance(use.operation, ShuffleOp) and value in use.operation.operands
            and len(_interleaved_blocks(emitter, use.operation.result)) == _WORD // 8 for use in value.uses))


def _interleaved_blocks(emitter: Emitter, value: SSAValue) -> tuple[SSAValue, ...]:
    """The two blocks of 16-bit rows or four of 8-bit rows of which a row each makes words; none if it has no such."""
    shuffle = value.owner
    if not isinstance(shuffle, ShuffleOp) or emitter.target.register_bytes != 4 * emitter.subgroup:
        return ()
    blocks = _halves(shuffle, 1)
    if not blocks and (pairs := _halves(shuffle, 2)):
        parts = [_halves(pair.owner, 1) if isinstance(pair.owner, ShuffleOp) else () for pair in pairs]
        blocks = (*parts[0], *parts[1]) if all(parts) else ()
    if not blocks:
        return ()
    type_ = blocks[0].type
    assert isinstance(type_, VectorType)
    (rows, across), bits = type_.get_shape(), of_mlir(type_.element_type).bits
    is_whole = across == 1 and rows % len(EVEN) == 0 and bits * len(blocks) == _WORD
    return blocks if is_whole and all(isinstance(cast := use.operation, ShapeCastOp)
                                      and shape_of(cast.result) == (rows, len(blocks)) for use in value.uses) else ()


def _halves(shuffle: ShuffleOp, together: int) -> tuple[SSAValue, ...]:
    """The operands of a shuffle that takes ``together`` rows of either in turn; none if it does not."""
    mask, half = shuffle.mask.get_values(), len(shuffle.mask.get_values()) // 2
    turns = tuple(first + row + at for row in range(0, half, together) for first in (0, half) for at in range(together))
    return (shuffle.v1, shuffle.v2) if mask == turns and shape_of(shuffle.v1)[0] == half else ()


def is_interleaved(emitter: Emitter, load: LoadNdOp) -> bool:
    """Whether all rows of a load are interleaved with others of as many valid rows: zeros behind these come then."""
    found: list[Operation] = []
    waiting: list[SSAValue] = [load.result]
    while waiting:
        for use in waiting.pop().uses:
            if isinstance(use.operation, (ExtractOp, ExtractStridedSliceOp)):
                waiting.append(use.operation.results[0])
            else:
                found.append(use.operation)
    return bool(found) and all(isinstance(operation, ShuffleOp) and _have_as_many(emitter, operation)
                               for operation in found)


def _have_as_many(emitter: Emitter, shuffle: ShuffleOp) -> bool:
    """Whether a shuffle interleaves blocks of as many valid rows, or makes a part of what does."""
    whole = [shuffle.result] if _interleaved_blocks(emitter, shuffle.result) else \
        [use.operation.results[0] for use in shuffle.result.uses]
    blocks = [_interleaved_blocks(emitter, value) for value in whole]
    return all(each and len({*map(_valid_rows, each)}) == 1 for each in blocks)


def _valid_rows(block: SSAValue) -> int | None:
    """Number of in-bounds rows of a part of a loaded block; None if all are, or are known to be zeros."""
    first, operation = 0, block.owner
    while isinstance(operation, (ExtractOp, ExtractStridedSliceOp)):
        first += values_of(operation.offsets)[0] if isinstance(operation, ExtractStridedSliceOp) else 0
        operation = operation.operands[0].owner
    valid = valid_of(operation) if isinstance(operation, LoadNdOp) else None
    return None if valid is None else max(valid[0] - first, 0)


def interleave(emitter: Emitter, operation: ShapeCastOp) -> None:
    """Words of a row of each of some blocks, by 32-lane moves of two rows to every other half or fourth of a word."""
    blocks, result = _interleaved_blocks(emitter, operation.source), emitter.fresh(operation.result)
    fragments = [emitter.fragment(block) for block in blocks]
    counts = {*map(_valid_rows, blocks)}
    rows, bits = fragments[0].units, _WORD // len(blocks)
    counted = counts.pop() if len(counts) == 1 else None
    valid, values = rows if counted is None else counted, []
    for row in range(0, rows, len(EVEN)):
        parts = (f"as_{UNSIGNED[bits]}8({each.slice(row, len(EVEN)).names[0]})" for each in fragments)
        values.append(f"{_interleaving(emitter, min(valid - row, len(EVEN)), bits)}({', '.join(parts)})"
                      if valid > row else "(uint8)(0)")
    emitter.assign(operation.result, result, values)


def _interleaving(emitter: Emitter, rows: int, bits: int) -> str:
    """Define the function that interleaves eight rows, of which the first ones are valid, and return its name."""
    whole, count, letter = len(EVEN), _WORD // bits, {8: "b", 16: "w"}[bits]
    names = ("even", "odd") if count == 2 else tuple(f"rows{number}" for number in range(count))
    name = f"interleaved_{rows}_rows" + ("" if count == 2 else f"_of_{count}")
    lines = ["{", f".decl W v_type=G type=u{letter} num_elts={128 * count} align=GRF alias=<%0, 0>",
             *(f".decl {half} v_type=G type=u{letter} num_elts=128 align=GRF alias=<%{at}, 0>"
               for at, half in enumerate("EOPQ"[:count], 1))]
    if rows < whole:
        lines.append(".decl ZEROS v_type=G type=ud num_elts=128 align=GRF alias=<%0, 0>")
    lines += [f"mov (M1_NM, {16 * min(rows - row, 2)}) W({row},{at})<{count}> "
              f"{half}({row // count},{16 * (row % count)})<1;1,0>"
              for row in range(0, rows, 2) for at, half in enumerate("EOPQ"[:count])]
    lines += [f"mov (M1_NM, {16 * min(whole - row, 2)}) ZEROS({row},0)<1> 0:ud" for row in range(rows, whole, 2)]
    assembly = "".join(f'    "{line}\\n"\n' for line in [*lines, "}"])
    words = [", ".join(f"{each}.s{row}" if row < rows else "0" for each in names) for row in range(whole)]
    portable = f"as_uint8((ushort16)({', '.join(words)}))" if count == 2 else \
        f"(uint8)({', '.join(f'as_uint((uchar4)({word}))' for word in words)})"
    type_, inputs = f"{UNSIGNED[bits]}8", ", ".join(f'"rw"({each})' for each in names)
    emitter.function(f"static uint8 {name}({', '.join(f'{type_} {each}' for each in names)})\n{{\n#ifdef {NO_VISA}\n"
                     f"  return {portable};\n#else\n  uint8 words;\n  __asm__(\n{assembly}"
                     f'    : "=rw"(words) : {inputs});\n'
                     f"  return words;\n#endif\n}}\n")
    return name


def _shuffle(emitter: Emitter, operation: ShuffleOp) -> None:
    if is_interleaving(emitter, operation.result):
        return  # with the cast
    mask = operation.mask.get_values()
    source = operation.v1.owner
    if isinstance(source, LoadNdOp) and is_deinterleaved(source):
        fragment = emitter.fragment(operation.v1)
        emitter.values[operation.result] = fragment.slice(0 if mask == EVEN else len(EVEN), len(EVEN))
        return
    if isinstance(source, LoadNdOp) and source in emitter.carried_pointers and is_by_place(source):
        # Such a copy comes in this order.
        emitter.values[operation.result] = emitter.fragment(operation.v1)
        return
    words = [word for value in (operation.v1, operation.v2) for word in emitter.fragment(value).words()]
    result = emitter.fresh(operation.result)
    chosen, width = [words[row] for row in mask], width_of(len(mask))
    groups = [chosen[i:i + width] for i in range(0, len(chosen), width)]
    emitter.assign(operation.result, result, [f"({result.c_type})({', '.join(group)})" if width > 1 else group[0]
                                              for group in groups])


RULES: dict[type[Operation], Rule] = {ShuffleOp: _shuffle}
