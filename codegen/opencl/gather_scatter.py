"""Gathers, scatters, scattered prefetches and atomics in OpenCL C: each element at its own address.

A gather is one predicated load message a register, with no branch around it: the SPIR-V extension
``SPV_INTEL_predicated_io`` has such loads and stores, which Intel's compiler takes under their SPIR-V names. Where a
device lacks them the prelude supplies them. Gathers of all rows of a block are a function's call, which GPUs' compilers
inline; a CPU's gets it as a loop, and takes a third of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdsl.ir import Operation, SSAValue

from codegen.opencl import arith
from codegen.opencl.arith.text import TEXT
from codegen.opencl.block_io import cache_controls
from codegen.opencl.emitter import Emitter, Rule, atom, wrapping
from codegen.opencl.prelude.macros import CALL, NO_VISA, ROLLED
from codegen.opencl.values import ArrayValue, Coordinate, Descriptor, Scattered, computed, rounded, vector_type
from codegen.opencl.vector.lane_exchange import bits_in, bits_out
from xegpu.analysis.lane_offsets import source_of
from xegpu.dialect import gather_scatter as ops
from xegpu.dialect.block_io import desc_of
from xegpu.ir.dtypes import DType, bf16, i1
from xegpu.mlir.atomic_kind import KINDS
from xegpu.mlir.elementwise import RECORDS

# Atomic updates of single elements in OpenCL C, one small function for each kind and element type.
#
# Integers of 32 and 64 bits, and floats where the device says so by a feature macro, have instructions of their own.
# All else compares and swaps: the element itself, or the 32-bit word that holds a narrower one.


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


LOAD, STORE = "__spirv_PredicatedLoadINTEL", "__spirv_PredicatedStoreINTEL"


def _bits_of(emitter: Emitter, operand: Any) -> str:
    """Single word of a fragment with one element a lane."""
    (word,) = emitter.fragment(operand).words()
    return word


def _create_tdesc(emitter: Emitter, operation: ops.CreateTdescOp) -> None:
    source, element = emitter.values[operation.source], desc_of(operation.result).dtype.opencl
    base = source.name if isinstance(source, ArrayValue) else f"((global {element} *)({source}))"
    space = source.space if isinstance(source, ArrayValue) else "global"
    emitter.values[operation.result] = Scattered(base, atom(_bits_of(emitter, operation.offsets)), element, space=space)


def _update_offset(emitter: Emitter, operation: ops.UpdateOffsetOp) -> None:
    desc: Scattered = emitter.values[operation.desc]
    name = emitter.name(operation.result.name_hint)
    emitter.line(f"const {desc.offset_type} {name} = {desc.offset} + {atom(_bits_of(emitter, operation.offsets))};")
    emitter.values[operation.result] = replace(desc, offset=name)


def _active(emitter: Emitter, mask: Any) -> str:
    """C condition of a mask; nonzero is true."""
    return f"{atom(_bits_of(emitter, mask))} != 0"


def _declared(emitter: Emitter, dtype: DType) -> None:
    """Declarations of the predicated load and store builtins of an element type."""
    type_ = dtype.opencl
    _external_load(emitter, type_)
    emitter.external(STORE, f"void __attribute__((overloadable)) {STORE}(global {type_} *, {type_}, bool);")


def _external_load(emitter: Emitter, type_: str) -> None:
    """Declaration of the predicated load builtin of a C type."""
    emitter.external(LOAD, f"{type_} __attribute__((overloadable)) {LOAD}(global const {type_} *, bool, {type_});")


def _addresses(desc: Scattered, chunk: int) -> list[str]:
    """Pointers to a lane's elements."""
    return [f"{desc.base} + {desc.offset}" + (f" + {i}" if i else "") for i in range(chunk)]


@dataclass(frozen=True)
class _Word:
    """A word of a variable.

    Attributes:
        variable: its name.
        position: which of the variable's words it is.
        width: how many it has.
    """

    variable: str
    position: int
    width: int


def _word_of(emitter: Emitter, value: SSAValue) -> _Word:
    """The only word of a fragment, in the variable that it is a part of."""
    root, unit = source_of(value, 0)
    whole = emitter.fragment(root)
    return _Word(whole.names[unit // whole.width], unit % whole.width, whole.width)


def _row_words(emitter: Emitter, load: ops.LoadGatherOp) -> tuple[_Word, _Word] | None:
    """Offset and mask of a gather of single elements of global memory; None of any other."""
    maker = load.desc.owner
    if not isinstance(maker, ops.CreateTdescOp) or emitter.values[load.desc].space == "local" or \
            ops.scatter_of(desc_of(load.desc)).chunk_size != 1 or cache_controls.number(emitter, load):
        return None
    return _word_of(emitter, maker.offsets), _word_of(emitter, load.mask)


def _batch(emitter: Emitter, first: ops.LoadGatherOp) -> list[ops.LoadGatherOp]:
    """Gathers that follow each other and take all words of one variable as offsets, and of another as masks."""
    words, source = _row_words(emitter, first), emitter.values[first.desc].base
    if words is None or words[0].position or words[0].width not in (2, 4, 8, 16):
        return []
    offset, mask = words
    loads: list[ops.LoadGatherOp] = []
    load: Operation | None = first
    while isinstance(load, ops.LoadGatherOp) and len(loads) < offset.width:
        masked = replace(mask, position=len(loads)) if mask.width == offset.width else mask
        if _row_words(emitter, load) != (replace(offset, position=len(loads)), masked) or \
                emitter.values[load.desc].base != source or load.padding != first.padding:
            break
        loads.append(load)
        load = load.next_op
    return loads if len(loads) == offset.width else []


def _batch_function(emitter: Emitter, dtype: DType, width: int) -> str:
    """Define the function that gathers by a variable of offsets; returns its name. A CPU's compiler gets a loop."""
    name, element = f"gather_{dtype}_{width}", dtype.opencl
    result, offsets, masks = (vector_type(word, width) for word in (element, "int", i1.register))

    def rotated(variable: str, last: str) -> str:
        return ", ".join([*(f"{variable}.s{i:x}" for i in range(1, width)), last])

    loaded = [f"{LOAD}(base + at.s{i:x}, active.s{i:x} != 0, otherwise)" for i in range(width)]
    head = f"static {result} {name}(global const {element} *base, {offsets} at, {masks} active, {element} otherwise)"
    rolled = (f"  {result} words = 0;\n  __attribute__((opencl_unroll_hint(1)))\n"
              f"  for (int left = {width}; left != 0; --left) {{\n"
              f"    words = ({result})({rotated('words', loaded[0])});\n"
              f"    at = ({offsets})({rotated('at', 'at.s0')});\n"
              f"    active = ({masks})({rotated('active', 'active.s0')});\n  }}\n  return words;\n")
    emitter.function(f"{CALL} {head}\n{{\n#ifdef {ROLLED}\n{rolled}#else\n"
                     f"  return ({result})({', '.join(loaded)});\n#endif\n}}\n")
    return name


def _load_batch(emitter: Emitter, loads: Sequence[ops.LoadGatherOp], otherwise: str) -> None:
    """Emit gathers by one call."""
    first, dtype = loads[0], desc_of(loads[0].desc).dtype
    words = _row_words(emitter, first)
    assert words is not None
    offset, mask = words
    _declared(emitter, dtype)
    active = mask.variable if mask.width == offset.width else \
        f"({vector_type(i1.register, offset.width)})({emitter.fragment(first.mask).words()[0]})"
    function = _batch_function(emitter, dtype, offset.width)
    name = emitter.name("gathered")
    emitter.line(f"{vector_type(dtype.opencl, offset.width)} {name} = {function}({emitter.values[first.desc].base}, "
                 f"{offset.variable}, {active}, {otherwise});")
    for position, load in enumerate(loads):
        emitter.values[load.result] = replace(emitter.fresh(load.result), names=(f"{name}.s{position:x}",))


def _load_gather(emitter: Emitter, operation: ops.LoadGatherOp) -> None:
    if operation.result in emitter.values:
        return  # by the call for the first of its batch
    desc, where = desc_of(operation.desc), emitter.values[operation.desc]
    cache, active = cache_controls.number(emitter, operation), _active(emitter, operation.mask)
    padding = arith.literal(operation.number, desc.dtype)
    otherwise = arith.stored(padding, desc.dtype)
    if batch := _batch(emitter, operation):
        _load_batch(emitter, batch, otherwise)
        return
    addresses = _addresses(where, ops.scatter_of(desc).chunk_size)
    type_, size = desc.dtype.opencl, desc.dtype.bytes
    if where.space == "local":  # the predicated messages are of global memory
        words = [f"({active} ? *({address}) : ({type_}){otherwise})" for address in addresses]
    elif cache:  # what is masked off must touch no memory
        words = [f"({active} ? {cache_controls.load(emitter, type_, size, address, cache)} : ({type_}){otherwise})"
                 for address in addresses]
    else:
        _declared(emitter, desc.dtype)
        words = [f"{LOAD}({address}, {active}, {otherwise})" for address in addresses]
    fragment = emitter.fresh(operation.result)
    width = fragment.width
    groups = [", ".join(words[i:i + width]) for i in range(0, len(words), width)]
    emitter.assign(operation.result, fragment,
                   groups if width == 1 else [f"({fragment.c_type})({group})" for group in groups])


def _rows_function(emitter: Emitter, dtype: DType, width: int, messages: int) -> str:
    """Define the function that loads ``width`` rows of a block from lanes' pointers to 8 bytes; returns its name.

    The registers that a message of 64 bits a lane fills are the rows as they lie in memory, which is how a vector of
    an element a lane has them: virtual assembly (vISA) says so, where C could only move them.
    """
    name, result, element = f"load_rows_{dtype}_{width}", vector_type(dtype.register, width), dtype.opencl
    letters, lanes = "abcd"[:messages], emitter.subgroup
    across = lanes * dtype.bytes // ops.CHUNK_BYTES
    pointers = ", ".join(f"global const {element} *{letter}" for letter in letters)
    head = f"static {result} {name}({pointers}, int offset)"
    rows = [f"*((global const {element} *)intel_sub_group_shuffle((ulong){letters[row * across // lanes]}, "
            f"{row * across % lanes}u) + offset + get_sub_group_local_id())" for row in range(width)]
    size = lanes * ops.CHUNK_BYTES
    assembly = ["{", *(f".decl ROWS{i} v_type=G type=uq num_elts={lanes} align=GRF alias=<%0, {i * size}>"
                       for i in range(messages)),
                *(f"lsc_load.ugm (M1_NM, {lanes}) ROWS{i}:d64 flat[%{i + 1}]:a64" for i in range(messages)), "}"]
    lines = "".join(f'    "{line}\\n"\n' for line in assembly)
    inputs = ", ".join(f'"rw"((ulong)({letter} + offset))' for letter in letters)
    portable = ",\n    ".join(f"as_{dtype.register}({row})" for row in rows)
    emitter.function(f"{head}\n{{\n#ifdef {NO_VISA}\n  return ({result})({portable});\n#else\n  {result} rows;\n"
                     f'  __asm__ volatile(\n{lines}    : "=rw"(rows) : {inputs} : "memory");\n'
                     "  return rows;\n#endif\n}\n")
    return name


def _load_rows(emitter: Emitter, operation: ops.LoadRowsOp) -> None:
    fragment, descs = emitter.fresh(operation.result), [emitter.values[desc] for desc in operation.descs]
    function = _rows_function(emitter, desc_of(operation.descs[0]).dtype, fragment.width, len(descs))
    pointers = ", ".join(address for desc in descs for address in _addresses(desc, 1))
    emitter.assign(operation.result, fragment, [f"{function}({pointers}, {emitter.values[operation.offset]})"])


_ZEROS = """constant uint xetile_zeros[64] __attribute__((aligned(64))) = {0};

static global const uint *words_or_zeros(global const uint *words, bool active)
{
  return active ? words : (global const uint *)(ulong)xetile_zeros;
}
"""
"""What is masked off is read from zeros: a predicated message leaves registers as they are, so that zeros would have to
be written to them first, with an instruction for each."""


def _load_columns(emitter: Emitter, operation: ops.LoadColumnsOp) -> None:
    """Emit vectors of words from each lane's address on; words one by one where columns end in the middle."""
    array: ArrayValue = emitter.values[operation.source]
    fragment, lengths = emitter.fresh(operation.result), _bits_of(emitter, operation.lengths)
    at, together = emitter.name("column"), ops.WORD_BITS // fragment.dtype.bits
    count = fragment.width * fragment.per_lane // together
    first = f"(global const uint *)({array.name} + {atom(_bits_of(emitter, operation.offsets))})"
    if operation.whole is not None:
        emitter.function(_ZEROS, "words_or_zeros")
        emitter.line(f"global const uint *const {at} = words_or_zeros({first}, {atom(lengths)} > 0);")
        words = [f"vload{count}({i}, {at})" if count > 1 else f"{at}[{i}]" for i in range(len(fragment.names))]
    else:
        emitter.line(f"global const uint *const {at} = {first};")
        function = _column_function(emitter, fragment.dtype, count)
        words = [f"{function}({at} + {i * count}, {atom(lengths)} - {i * count * together})"
                 for i in range(len(fragment.names))]
    emitter.assign(operation.result, fragment, [f"as_{fragment.c_type}({word})" for word in words])


def _column_function(emitter: Emitter, dtype: DType, count: int) -> str:
    """Define the function that loads as many words of a column as its length has, and zeros; returns its name."""
    name, together = f"load_column_{dtype}_{count}", ops.WORD_BITS // dtype.bits
    words = [f"{LOAD}(words + {word}, length >= {(word + 1) * together}, 0u)" for word in range(count)]
    result = vector_type("uint", count)
    _external_load(emitter, "uint")
    emitter.function(f"{CALL} static {result} {name}(global const uint *words, int length)\n{{\n"
                     f"  return ({result})(" + ",\n    ".join(words) + ");\n}\n", name)
    return name


def _store_scatter(emitter: Emitter, operation: ops.StoreScatterOp) -> None:
    desc, where = desc_of(operation.desc), emitter.values[operation.desc]
    active, cache = _active(emitter, operation.mask), cache_controls.number(emitter, operation)
    addresses = _addresses(where, ops.scatter_of(desc).chunk_size)
    for address, word in zip(addresses, emitter.fragment(operation.value).words(), strict=True):
        if where.space == "local":
            emitter.line(f"if ({active}) *({address}) = {word};")
            continue
        if cache:
            emitter.line(f"if ({active}) {cache_controls.store(emitter, desc.dtype.bytes, address, word, cache)};")
            continue
        _declared(emitter, desc.dtype)
        emitter.line(f"{STORE}({address}, {word}, {active});")


def _prefetch(emitter: Emitter, operation: ops.PrefetchOp) -> None:
    """Emit a prefetch (on Intel's GPUs a load without destination); none for shared local memory."""
    desc, cache = desc_of(operation.desc), cache_controls.number(emitter, operation)
    if emitter.values[operation.desc].space == "local":
        return
    for address in _addresses(emitter.values[operation.desc], ops.scatter_of(desc).chunk_size):
        call = f"prefetch({address}, 1)" if not cache else \
            cache_controls.prefetch(emitter, desc.dtype.bytes, address, cache)
        emitter.line(f"{call};")


def _atomic(emitter: Emitter, operation: ops.AtomicRMWOp) -> None:
    dtype = desc_of(operation.desc).dtype
    where: Scattered = emitter.values[operation.desc]
    function = update_function(emitter, operation.kind.data, dtype, where.space)
    (address,) = _addresses(where, 1)
    call = f"{function}({address}, {_bits_of(emitter, operation.value)})"
    active, lanes = _active(emitter, operation.mask), desc_of(operation.desc).shape[0]
    result = emitter.fresh(operation.result)
    if lanes == emitter.subgroup:
        emitter.assign(operation.result, result, [f"{active} ? {call} : ({dtype.opencl})0"])
        return
    # Lanes beyond the elements hold copies: they take no part, and get the old values from those that do.
    lane, old = "get_sub_group_local_id()", emitter.name("old")
    emitter.line(f"const {dtype.opencl} {old} = {lane} < {lanes}u && {active} ? {call} : ({dtype.opencl})0;")
    moved = f"intel_sub_group_shuffle({bits_in(old, dtype)}, {lane} % {lanes}u)"
    emitter.assign(operation.result, result, [bits_out(moved, dtype)])


def _elements(emitter: Emitter, operation: ops.BlockElementsOp) -> None:
    """64-bit offset of a lane's element, and its bounds check."""
    desc: Descriptor = emitter.values[operation.desc]
    (row, column), (rows, columns) = operation.part()
    lane = "(int)get_sub_group_local_id()"
    if rows * columns < emitter.subgroup:
        lane = f"({lane} % {rows * columns})"
    down = "" if rows == 1 else f" + {lane} / {columns}"
    across = "" if columns == 1 else f" + {lane}" if rows == 1 else f" + {lane} % {columns}"
    y, x = emitter.name("y"), emitter.name("x")
    first, left = desc.row.plus(Coordinate((), row)), desc.column.plus(Coordinate((), column))
    emitter.line(f"const int {y} = (uint){atom(wrapping(first))}{down}, {x} = (uint){atom(wrapping(left))}{across};")
    offset = emitter.name("offset")
    emitter.line(f"const long {offset} = {y} * (long){desc.pitch} + {x} * (long){desc.step};")
    emitter.values[operation.result] = Scattered(desc.array.name, offset, desc.array.dtype.opencl, "long",
                                                  desc.array.space)
    emitter.assign(operation.inside, emitter.fresh(operation.inside),
                   [f"-((uint){y} < (uint){desc.height} && (uint){x} < (uint){desc.width})"])


RULES: dict[type[Operation], Rule] = {
    ops.CreateTdescOp: _create_tdesc,
    ops.UpdateOffsetOp: _update_offset,
    ops.LoadGatherOp: _load_gather,
    ops.LoadRowsOp: _load_rows,
    ops.LoadColumnsOp: _load_columns,
    ops.StoreScatterOp: _store_scatter,
    ops.PrefetchOp: _prefetch,
    ops.AtomicRMWOp: _atomic,
    ops.BlockElementsOp: _elements,
}
