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
from codegen.opencl.values import Fragment, vector_type, width_of
from xegpu.dialect.block_io import LoadNdOp, desc_of
from xegpu.ir.dtypes import of_mlir
from xegpu.mlir.vector import ShapeCastOp, shape_of
from xegpu.passes.interleave_rows import EVEN, ODD
from xegpu.passes.loops.interleave_columns import is_by_place


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
    """Whether a value is two blocks of 16-bit rows, interleaved, of use for words of two rows alone."""
    shuffle = value.owner
    if not isinstance(shuffle, ShuffleOp) or emitter.target.register_bytes != 4 * emitter.subgroup:
        return False
    mask = shuffle.mask.get_values()
    type_, half = shuffle.v1.type, len(mask) // 2
    assert isinstance(type_, VectorType)
    return mask == tuple(row // 2 + row % 2 * half for row in range(2 * half)) and half % len(EVEN) == 0 \
        and type_.get_shape() == (half, 1) and of_mlir(type_.element_type).bits == 16 \
        and all(isinstance(cast := use.operation, ShapeCastOp) and shape_of(cast.result) == (half, 2)
                for use in value.uses)


def interleave(emitter: Emitter, operation: ShapeCastOp) -> None:
    """Words of a row of each of two blocks, by 32-lane moves of two rows to every other half of a word."""
    shuffle = operation.source.owner
    assert isinstance(shuffle, ShuffleOp)
    name, result = "interleaved_8_rows", emitter.fresh(operation.result)
    lines = ["{", ".decl W v_type=G type=uw num_elts=256 align=GRF alias=<%0, 0>",
             *(f".decl {half} v_type=G type=uw num_elts=128 align=GRF alias=<%{at}, 0>"
               for at, half in enumerate("EO", 1)),
             *(f"mov (M1_NM, 32) W({2 * register},{at})<2> {half}({register},0)<1;1,0>"
               for register in range(4) for at, half in enumerate("EO")), "}"]
    assembly = "".join(f'    "{line}\\n"\n' for line in lines)
    portable = ", ".join(f"even.s{row}, odd.s{row}" for row in range(len(EVEN)))
    emitter.function(f"static uint8 {name}(ushort8 even, ushort8 odd)\n{{\n#ifdef {NO_VISA}\n"
                     f"  return as_uint8((ushort16)({portable}));\n#else\n  uint8 words;\n  __asm__(\n{assembly}"
                     f'    : "=rw"(words) : "rw"(even), "rw"(odd));\n  return words;\n#endif\n}}\n')
    even, odd = (emitter.fragment(value) for value in (shuffle.v1, shuffle.v2))
    emitter.assign(operation.result, result, [
        f"{name}({', '.join(f'as_ushort8({part.slice(row, len(EVEN)).names[0]})' for part in (even, odd))})"
        for row in range(0, even.units, len(EVEN))])


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
