"""Cache controls in OpenCL C: Intel's internal builtins with a cache policy, in place of the official ones.

Block messages have a form of each official builtin with a number behind its arguments. Single elements are reached by
a builtin for each size of element. Accesses row by row take no hint.
"""

from __future__ import annotations

from codegen.opencl.emitter import Emitter
from codegen.opencl.values import UNSIGNED
from xegpu.dialect.hints import HintedOp, words

_SURFACE = "global void *, int, int, int, int2"


def number(emitter: Emitter, operation: HintedOp) -> int:
    """LSC cache-control number of an operation's hints; 0 if it has none or the target knows none."""
    hints, caches = words(operation), emitter.target.caches
    l1, l3 = hints.get("l1_hint"), hints.get("l3_hint")
    if caches is None or not (l1 or l3):
        return 0
    code = caches.code(operation.MESSAGE, l1, l3)
    assert code is not None, "legalized"
    return code


def block_call(emitter: Emitter, name: str, arguments: str, buffer: str, cache: int) -> None:
    """Call of a 2D block builtin, with its cache control.

    Args:
        emitter: gets the line.
        name: the official builtin.
        arguments: its first arguments.
        buffer: the pointer behind them, such as ``(private uint *)a``, "" for a prefetch.
        cache: what :func:`number` gives; 0 for the official builtin.
    """
    behind = f", {buffer}" if buffer else ""
    if not cache:
        emitter.line(f"{emitter.builtin(name)}({arguments}{behind});")
        return
    # Internal variant of the official builtin, in IGC's library; it is in no header, so that it is declared here.
    type_ = f", {buffer[1:buffer.index(')')]}" if buffer else ""
    internal = f"__internal_{name}_cache_controls"
    emitter.external(internal, f"void {internal}({_SURFACE}{type_}, int);")
    emitter.line(f"{internal}({arguments}{behind}, {cache});")


def load(emitter: Emitter, type_: str, size: int, address: str, cache: int) -> str:
    """Load expression of one element of ``size`` bytes, as an OpenCL C type."""
    word = UNSIGNED[8 * size]
    # Internal builtin of Intel's compiler (IGC): OpenCL C has no load with a cache policy. Its second operand is an
    # immediate offset in bytes.
    name, result = f"__builtin_IB_lsc_load_global_{word}", word
    if size < 4:
        name, result = f"{name}_to_uint", "uint"
    emitter.external(name, f"{result} {name}(const global {word} *, int, int);")
    narrow = f"({word})" if size < 4 else ""
    return f"as_{type_}({narrow}{name}((const global {word} *)({address}), 0, {cache}))"


def store(emitter: Emitter, size: int, address: str, value: str, cache: int) -> str:
    """Store call for one element of ``size`` bytes."""
    word = UNSIGNED[8 * size]
    name = f"__builtin_IB_lsc_store_global_{word}" + ("_from_uint" if size < 4 else "")
    emitter.external(name, f"void {name}(global {word} *, int, {'uint' if size < 4 else word}, int);")
    return f"{name}((global {word} *)({address}), 0, as_{word}({value}), {cache})"


def prefetch(emitter: Emitter, size: int, address: str, cache: int) -> str:
    """Prefetch call for one element of ``size`` bytes."""
    word = UNSIGNED[8 * size]
    name = f"__builtin_IB_lsc_prefetch_global_{word}"
    emitter.external(name, f"void {name}(const global {word} *, int, int);")
    return f"{name}((const global {word} *)({address}), 0, {cache})"
