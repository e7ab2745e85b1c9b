"""Atomic updates of single elements in OpenCL C, one small function for each kind and element type.

Integers of 32 and 64 bits, and floats where the device says so by a feature macro, have instructions of their own.
All else compares and swaps: the element itself, or the 32-bit word that holds a narrower one.
"""

from __future__ import annotations

from codegen.opencl.arith.text import TEXT
from codegen.opencl.emitter import Emitter
from codegen.opencl.gather_scatter.predicated import addresses_of, bits_of, condition_of
from codegen.opencl.prelude.macros import CALL
from codegen.opencl.values import Scattered, computed, rounded
from codegen.opencl.vector.lane_exchange import bits_in, bits_out
from xegpu.dialect import gather_scatter as ops
from xegpu.dialect.block_io import desc_of
from xegpu.ir.dtypes import DType, bf16
from xegpu.mlir.atomic_kind import KINDS
from xegpu.mlir.elementwise import RECORDS

_FETCH = {"addi": "add", "andi": "and", "ori": "or", "xori": "xor", "maxs": "max", "maxu": "max", "mins": "min",
          "minu": "min"}
_FLOAT_FETCH = {"addf": ("add", "add"), "maxnumf": ("max", "min_max"), "minnumf": ("min", "min_max")}
_ATOMIC = {"float": "atomic_float", "double": "atomic_double", "half": "atomic_half"}
_LONG = "#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable\n" \
        "#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable\n"
_ORDERS = {"global": "memory_order_relaxed, memory_scope_device",
           "local": "memory_order_relaxed, memory_scope_work_group"}
"""Memory order and scope of an update, by the element's address space."""


def update_function(emitter: Emitter, kind: str, dtype: DType, space: str = "global") -> str:
    """Define the atomic update of one element, which returns its old value; returns the function's name.

    Args:
        emitter: takes the function.
        kind: how the element and a value are combined.
        dtype: of both.
        space: the element's address space, ``"global"`` or ``"local"``.
    """
    name = f"atomic_{kind}_{dtype}" + ("" if space == "global" else f"_{space}")
    pragma = _LONG if dtype.bits == 64 else ""
    head = f"{CALL} static {dtype.opencl} {name}({space} {dtype.opencl} *at, {dtype.opencl} value)\n"
    text = f"{head}{{\n{_body(emitter, kind, dtype, space)}}}\n"
    emitter.function(pragma + text, name)
    return name


def _body(emitter: Emitter, kind: str, dtype: DType, space: str) -> str:
    if dtype.bits < 32:
        native, swapped = _float_fetch(emitter, kind, dtype, space), _swapped_part(kind, dtype, space)
    elif kind == "assign" or (kind in _FETCH and not dtype.is_float):
        return _fetch(kind, dtype, space)
    else:
        native, swapped = _float_fetch(emitter, kind, dtype, space), _swapped(kind, dtype, space)
    return swapped if not native else f"{native[0]}{native[1]}#else\n{swapped}#endif\n"


def _fetch(kind: str, dtype: DType, space: str) -> str:
    """Native integer atomic; the exchange takes a float's bits."""
    signed = dtype.kind == "i" and not KINDS[kind].unsigned
    type_ = ("" if signed else "u") + ("long" if dtype.bits == 64 else "int")
    name = "exchange" if kind == "assign" else f"fetch_{_FETCH[kind]}"
    return (f"  return as_{dtype.opencl}(atomic_{name}_explicit((volatile {space} atomic_{type_} *)at, "
            f"as_{type_}(value), {_ORDERS[space]}));\n")


def _float_fetch(emitter: Emitter, kind: str, dtype: DType, space: str) -> tuple[str, str] | None:
    """Feature test of a native float atomic, and its call."""
    if kind not in _FLOAT_FETCH or dtype.opencl not in _ATOMIC:
        return None
    name, feature = _FLOAT_FETCH[kind]
    macro = emitter.builtin(f"__opencl_c_ext_fp{dtype.bits}_{space}_atomic_{feature}")
    return (f"#ifdef {macro}\n",
            f"  return atomic_fetch_{name}_explicit((volatile {space} {_ATOMIC[dtype.opencl]} *)at, value, "
            f"{_ORDERS[space]});\n")


def _combined(kind: str, dtype: DType, old: str) -> str:
    """Declarations of the operands ``a`` and ``b``, and of ``next``, the combined value."""
    c_type, update = dtype.opencl_compute, KINDS[kind].operation
    if update is not None and RECORDS[update].operands != "i" and dtype.kind == "i":
        c_type = f"u{dtype.opencl}"  # signed overflow is undefined in C
    operands = [computed(text, dtype, 1) if dtype is bf16 else f"as_{c_type}({text})"
                for text in (f"as_{dtype.opencl}({old})", "value")]
    result = f"({c_type})({'b' if update is None else TEXT[update].combine('a', 'b')})"
    stored = rounded(result, dtype, 1) if dtype is bf16 else f"as_{dtype.opencl}({result})"
    return (f"    const {c_type} a = {operands[0]}, b = {operands[1]};\n"
            f"    const {dtype.opencl} next = {stored};\n")


def _swapped(kind: str, dtype: DType, space: str) -> str:
    """Compare-and-swap loop on an element."""
    word, prefix = ("ulong", "atom") if dtype.bits == 64 else ("uint", "atomic")
    return (f"  volatile {space} {word} *word = (volatile {space} {word} *)at;\n"
            f"  {word} seen, found = *word;\n"
            f"  do {{\n    seen = found;\n{_combined(kind, dtype, 'seen')}"
            f"    found = {prefix}_cmpxchg(word, seen, as_{word}(next));\n"
            f"  }} while (found != seen);\n"
            f"  return as_{dtype.opencl}(found);\n")


def _swapped_part(kind: str, dtype: DType, space: str) -> str:
    """Compare-and-swap loop on the 32-bit word around a narrow element; its neighbours are unchanged."""
    part = "uchar" if dtype.bits == 8 else "ushort"
    return (f"  volatile {space} uint *word = (volatile {space} uint *)((ulong)at & ~3ul);\n"
            f"  const uint shift = ((uint)(ulong)at & 3u) * 8u, field = {hex((1 << dtype.bits) - 1)}u << shift;\n"
            f"  uint seen, found = *word;\n"
            f"  do {{\n    seen = found;\n{_combined(kind, dtype, f'({part})(seen >> shift)')}"
            f"    found = atomic_cmpxchg(word, seen, (seen & ~field) | ((uint)as_{part}(next) << shift));\n"
            f"  }} while (found != seen);\n"
            f"  return as_{dtype.opencl}(({part})(found >> shift));\n")


def atomic_rmw(emitter: Emitter, operation: ops.AtomicRMWOp) -> None:
    """Emit an atomic update of each element; lanes beyond them get the old values of those that hold them."""
    dtype = desc_of(operation.desc).dtype
    where: Scattered = emitter.values[operation.desc]
    function = update_function(emitter, operation.kind.data, dtype, where.space)
    (address,) = addresses_of(where, 1)
    call = f"{function}({address}, {bits_of(emitter, operation.value)})"
    active, lanes = condition_of(emitter, operation.mask), desc_of(operation.desc).shape[0]
    result = emitter.fresh(operation.result)
    if lanes == emitter.subgroup:
        emitter.assign(operation.result, result, [f"{active} ? {call} : ({dtype.opencl})0"])
        return
    # Lanes beyond the elements hold copies: they take no part, and get the old values from those that do.
    lane, old = "get_sub_group_local_id()", emitter.name("old")
    emitter.line(f"const {dtype.opencl} {old} = {lane} < {lanes}u && {active} ? {call} : ({dtype.opencl})0;")
    moved = f"intel_sub_group_shuffle({bits_in(old, dtype)}, {lane} % {lanes}u)"
    emitter.assign(operation.result, result, [bits_out(moved, dtype)])
