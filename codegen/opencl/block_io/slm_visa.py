"""512-byte SLM block loads, in inline virtual assembly (vISA).

The block reads of OpenCL C move 256 bytes of words of 16 bits, which is half of what a message can, and Intel's
compiler computes an address for each of them. Here the distances stand in the instructions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from codegen.opencl.emitter import Emitter
from codegen.opencl.prelude.macros import SLM_READ
from xegpu.layout.slm_panels import Run

_BYTES = 512
"""Bytes of the largest SLM message: 64 elements of 64 bits (``d64x64t``)."""
_WORDS = {1: "uint8", 2: "ushort16"}
"""What a message fills, by the number of runs that it has."""


def _macro(words: str) -> str:
    """Macro that loads a variable of a C type from an address plus an immediate byte offset.

    The message takes the first word of its address register, but the register allocator may put ``%1``, a scalar, at
    any word of one: vISA aligns the variables that it makes itself, and leaves those of inline text as they are.
    """
    name = f"{SLM_READ}{words}"
    address = r".decl ADDRESS v_type=G type=ud num_elts=1 align=GRF\nmov (M1_NM, 1) ADDRESS(0,0)<1> %1(0,0)<0;1,0>\n"
    return (f'#ifndef {name}\n#define {name}(words, from, distance) __asm__ volatile( \\\n'
            f'  "{{\\n{address}" \\\n'
            '  "lsc_load.slm (M1_NM, 1) %0:d64x64t flat[ADDRESS+" #distance "]:a32\\n}" \\\n'
            '  : "=rw"(words) : "rw.u"((uint)(ulong)(from)) : "memory")\n#endif\n')


def of(runs: Sequence[Run], size: int, lanes: int) -> dict[int, int]:
    """Grouping of runs into messages: index of the first run to number of runs.

    Args:
        runs: what is read, in order.
        size: bytes of an element.
        lanes: of the subgroup.
    """
    found: dict[int, int] = {}
    for i, run in enumerate(runs):
        length = len(run.words) * run.elements * size * lanes
        if not run.together or found.get(i - 1) == 2:
            continue
        if length == _BYTES:
            found[i] = 1
        elif 2 * length == _BYTES and runs[i + 1:] and _follows(run, runs[i + 1], length // size):
            found[i] = 2
    return found


def _follows(run: Run, other: Run, elements: int) -> bool:
    """Whether ``other`` has the form of ``run`` and is adjacent to it in memory."""
    return other.together and len(other.words) == len(run.words) and other.elements == run.elements \
        and other.start - run.start == elements


def lines(emitter: Emitter, address: str, distance: int, first: int, count: int) -> Iterator[str]:
    """Statements of one message, which name its runs.

    Args:
        emitter: gets the macro.
        address: where the block starts.
        distance: bytes from there to what is read.
        first: the number of the first run.
        count: how many there are, one or two.
    """
    words = _WORDS[count]
    emitter.function(_macro(words))
    yield f"{words} wide{first};"
    yield f"{SLM_READ}{words}(wide{first}, {address}, {distance:#x});"
    if count == 1:
        yield f"const {words} run{first} = wide{first};"
    else:
        yield f"const ushort8 run{first} = wide{first}.lo, run{first + 1} = wide{first}.hi;"
