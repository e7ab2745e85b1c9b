"""Hints to Intel's compiler.

``schedule_barrier`` is the vISA instruction ``fence_sw``: it costs nothing at run time, and neither the finaliser nor
LLVM moves instructions across it. A device without vISA has no use for it.
"""

from __future__ import annotations

from xdsl.ir import Operation

from codegen.emitter import Emitter, Rule
from codegen.interpreter import Meanings
from xegpu.dialect.hints import CompileHintOp

_BARRIER = "XETILE_SCHEDULE_BARRIER"
_DEFINITION = f"""#ifndef {_BARRIER}
#define {_BARRIER} __asm__ volatile("fence_sw" ::: "memory")
#endif
"""


def _hint(emitter: Emitter, operation: CompileHintOp) -> None:
    emitter.function(_DEFINITION)
    emitter.line(f"{_BARRIER};")


HINT_RULES: dict[type[Operation], Rule] = {CompileHintOp: _hint}
HINT_MEANINGS: Meanings = {CompileHintOp: lambda machine, operation, operands: None}
