"""Interleaving of rows of 16 bits to 32-bit words, in inline virtual assembly (vISA)."""

from __future__ import annotations

from codegen.opencl.emitter import Emitter
from codegen.opencl.prelude.macros import NO_VISA
from codegen.opencl.values import vector_type


def interleaving(emitter: Emitter, count: int) -> str:
    """Define the function that makes 32-bit words of pairs of rows of 16 elements, and return its name.

    A register of 64 bytes holds two such rows, and an instruction of 32 lanes moves a row of each of two registers to
    every other half of a word. Intel's compiler takes one of 16 lanes for each row.

    Args:
        emitter: gets the function.
        count: how many words there are.

    Returns:
        the name; empty where there is none.
    """
    if emitter.target.register_bytes != 4 * emitter.subgroup or count % 2:
        return ""
    name, result = f"interleaved_{2 * count}_rows", vector_type("uint", count)
    lines = ["{", *(f".decl {variable} v_type=G type=uw num_elts={32 * count} align=GRF alias=<%{number}, 0>"
                    for number, variable in enumerate("OI")),
             *(f"mov (M1_NM, 32) O({at},{half})<2> I({at},{16 * half})<32;16,1>"
               for at in range(0, count, 2) for half in (0, 1)), "}"]
    assembly = "".join(f'    "{line}\\n"\n' for line in lines)
    emitter.function(f"static {result} {name}(ushort{2 * count} rows)\n{{\n#ifdef {NO_VISA}\n"
                     f"  return as_{result}(rows);\n#else\n  {result} words;\n  __asm__(\n{assembly}"
                     f"    : \"=rw\"(words) : \"rw\"(rows));\n  return words;\n#endif\n}}\n")
    return name
