"""Atomic updates of single elements in OpenCL C, one small function for each kind and element type.

Integers of 32 and 64 bits, and floats where the device says so by a feature macro, have instructions of their own. All
else compares and swaps: the element itself, or the 32-bit word that holds a narrower one.
"""

from __future__ import annotations

from codegen import elementwise
from codegen.emitter import CALL, Emitter
from xegpu.ir.atomic_kind import KINDS
from xegpu.ir.dtypes import DType, bf16

_FETCH = {"addi": "add", "andi": "and", "ori": "or", "xori": "xor", "maxs": "max", "maxu": "max", "mins": "min",
          "minu": "min"}
_FLOAT_FETCH = {"addf": ("add", "add"), "maxnumf": ("max", "min_max"), "minnumf": ("min", "min_max")}
_ATOMIC = {"float": "atomic_float", "double": "atomic_double", "half": "atomic_half"}
_COMBINED = {"addf": "a + b", "addi": "a + b", "mulf": "a * b", "muli": "a * b", "assign": "b", "andi": "a & b",
             "ori": "a | b", "xori": "a ^ b", "maxs": "max(a, b)", "maxu": "max(a, b)", "mins": "min(a, b)",
             "minu": "min(a, b)", "maxnumf": "fmax(a, b)", "minnumf": "fmin(a, b)",
             "maximumf": "(a > b || isnan(a)) ? a : b", "minimumf": "(a < b || isnan(a)) ? a : b"}
_LONG = "#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable\n" \
        "#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable\n"
_LOCAL = (("global ", "local "), ("_global_atomic_", "_local_atomic_"),
          ("memory_scope_device", "memory_scope_work_group"))
"""What differs in shared local memory: the pointers, the device's macros, and who sees an update."""
_ORDER = "memory_order_relaxed, memory_scope_device"


def update_function(emitter: Emitter, kind: str, dtype: DType, space: str = "global") -> str:
    """The name of the function that updates one element and gives its old value; it is written once.

    Args:
        emitter: takes the function.
        kind: how the element and a value are combined.
        dtype: of both.
        space: the element's address space, ``"global"`` or ``"local"``.
    """
    name = f"atomic_{kind}_{dtype}" + ("" if space == "global" else f"_{space}")
    pragma = _LONG if dtype.bits == 64 else ""
    head = f"{CALL} static {dtype.opencl} {name}(global {dtype.opencl} *at, {dtype.opencl} value)\n"
    text = f"{head}{{\n{_body(kind, dtype)}}}\n"
    for old, new in _LOCAL if space == "local" else ():
        text = text.replace(old, new)
    emitter.functions[name] = pragma + text
    return name


def _body(kind: str, dtype: DType) -> str:
    if dtype.bits < 32:
        native, swapped = _float_fetch(kind, dtype), _swapped_part(kind, dtype)
    elif kind == "assign" or (kind in _FETCH and not dtype.is_float):
        return _fetch(kind, dtype)
    else:
        native, swapped = _float_fetch(kind, dtype), _swapped(kind, dtype)
    return swapped if not native else f"{native[0]}{native[1]}#else\n{swapped}#endif\n"


def _fetch(kind: str, dtype: DType) -> str:
    """An instruction for integers; the exchange takes a float's bits."""
    signed = dtype.kind == "i" and not KINDS[kind].unsigned
    type_ = ("" if signed else "u") + ("long" if dtype.bits == 64 else "int")
    name = "exchange" if kind == "assign" else f"fetch_{_FETCH[kind]}"
    return (f"  return as_{dtype.opencl}(atomic_{name}_explicit((volatile global atomic_{type_} *)at, "
            f"as_{type_}(value), {_ORDER}));\n")


def _float_fetch(kind: str, dtype: DType) -> tuple[str, str] | None:
    """The condition under which a device has an instruction for floats, and its use."""
    if kind not in _FLOAT_FETCH or dtype.opencl not in _ATOMIC:
        return None
    name, feature = _FLOAT_FETCH[kind]
    return (f"#ifdef __opencl_c_ext_fp{dtype.bits}_global_atomic_{feature}\n",
            f"  return atomic_fetch_{name}_explicit((volatile global {_ATOMIC[dtype.opencl]} *)at, value, {_ORDER});\n")


def _combined(kind: str, dtype: DType, old: str) -> str:
    """Lines that declare ``a`` and ``b``, what is combined, and ``next``, the element's new value."""
    computed = "float" if dtype is bf16 else dtype.opencl
    if KINDS[kind].unsigned and dtype.kind == "i":
        computed = f"u{dtype.opencl}"
    operands = [elementwise.computed(text, dtype, 1) if dtype is bf16 else f"as_{computed}({text})"
                for text in (f"as_{dtype.opencl}({old})", "value")]
    result = f"({computed})({_COMBINED[kind]})"
    stored = elementwise.rounded(result, dtype, 1) if dtype is bf16 else f"as_{dtype.opencl}({result})"
    return (f"    const {computed} a = {operands[0]}, b = {operands[1]};\n"
            f"    const {dtype.opencl} next = {stored};\n")


def _swapped(kind: str, dtype: DType) -> str:
    """Compare and swap a whole element until nobody came between."""
    word, prefix = ("ulong", "atom") if dtype.bits == 64 else ("uint", "atomic")
    return (f"  volatile global {word} *word = (volatile global {word} *)at;\n"
            f"  {word} seen, found = *word;\n"
            f"  do {{\n    seen = found;\n{_combined(kind, dtype, 'seen')}"
            f"    found = {prefix}_cmpxchg(word, seen, as_{word}(next));\n"
            f"  }} while (found != seen);\n"
            f"  return as_{dtype.opencl}(found);\n")


def _swapped_part(kind: str, dtype: DType) -> str:
    """Compare and swap the 32-bit word that an element is a part of; its neighbours stay as they are."""
    part = "uchar" if dtype.bits == 8 else "ushort"
    return (f"  volatile global uint *word = (volatile global uint *)((ulong)at & ~3ul);\n"
            f"  const uint shift = ((uint)(ulong)at & 3u) * 8u, field = {hex((1 << dtype.bits) - 1)}u << shift;\n"
            f"  uint seen, found = *word;\n"
            f"  do {{\n    seen = found;\n{_combined(kind, dtype, f'({part})(seen >> shift)')}"
            f"    found = atomic_cmpxchg(word, seen, (seen & ~field) | ((uint)as_{part}(next) << shift));\n"
            f"  }} while (found != seen);\n"
            f"  return as_{dtype.opencl}(({part})(found >> shift));\n")
