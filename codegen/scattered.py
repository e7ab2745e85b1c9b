"""Single elements in OpenCL C, each at an address of its own: gathers, scatters, prefetches and atomic updates.

A gather is one predicated load message a register, with no branch around it: the SPIR-V extension
``SPV_INTEL_predicated_io`` has such loads and stores, which Intel's compiler takes under their SPIR-V names. Where a
device lacks them the prelude supplies them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from xdsl.ir import Operation

from codegen import cache_hints, elementwise
from codegen.atomics import update_function
from codegen.emitter import Emitter, Rule, atom
from codegen.exchanges import bits_in, bits_out
from codegen.fragments import Array, Descriptor, Scattered
from xegpu.dialect import gather_scatter as ops
from xegpu.dialect.block_io import desc_of
from xegpu.ir.dtypes import DType

LOAD, STORE = "__spirv_PredicatedLoadINTEL", "__spirv_PredicatedStoreINTEL"


def _word(emitter: Emitter, operand: Any) -> str:
    """The only word of a lane's fragment."""
    (word,) = emitter.fragment(operand).words()
    return word


def _create(emitter: Emitter, operation: ops.CreateTdescOp) -> None:
    source, element = emitter.values[operation.source], desc_of(operation.result).dtype.opencl
    base = source.name if isinstance(source, Array) else f"((global {element} *)({source}))"
    space = source.space if isinstance(source, Array) else "global"
    emitter.values[operation.result] = Scattered(base, atom(_word(emitter, operation.offsets)), element, space=space)


def _update(emitter: Emitter, operation: ops.UpdateOffsetOp) -> None:
    desc: Scattered = emitter.values[operation.desc]
    name = emitter.name(operation.result.name_hint)
    emitter.line(f"const {desc.offset_type} {name} = {desc.offset} + {atom(_word(emitter, operation.offsets))};")
    emitter.values[operation.result] = replace(desc, offset=name)


def _active(emitter: Emitter, mask: Any) -> str:
    """A mask as a truth value; everything but zero is true."""
    return f"{atom(_word(emitter, mask))} != 0"


def _declared(emitter: Emitter, dtype: DType) -> None:
    """Declare the predicated load and store of an element type."""
    type_ = dtype.opencl
    emitter.functions[f"{LOAD} {type_}"] = (f"{type_} __attribute__((overloadable)) {LOAD}(global const {type_} *, "
                                            f"bool, {type_});")
    emitter.functions[f"{STORE} {type_}"] = (f"void __attribute__((overloadable)) {STORE}(global {type_} *, {type_}, "
                                             "bool);")


def _places(desc: Scattered, chunk: int) -> list[str]:
    """A pointer to each element of a lane."""
    return [f"{desc.base} + {desc.offset}" + (f" + {i}" if i else "") for i in range(chunk)]


def _load(emitter: Emitter, operation: ops.LoadGatherOp) -> None:
    desc, where = desc_of(operation.desc), emitter.values[operation.desc]
    fragment, cache = emitter.fresh(operation.result), cache_hints.number(emitter, operation)
    active, padding = _active(emitter, operation.mask), elementwise.literal(operation.number, desc.dtype)
    otherwise = elementwise.stored(padding, desc.dtype)
    places = _places(where, ops.scatter_of(desc).chunk_size)
    type_, size = desc.dtype.opencl, desc.dtype.bytes
    if where.space == "local":  # the predicated messages are of global memory
        words = [f"({active} ? *({place}) : ({type_}){otherwise})" for place in places]
    elif cache:  # what is masked off must touch no memory
        words = [f"({active} ? {cache_hints.load(emitter, type_, size, place, cache)} : ({type_}){otherwise})"
                 for place in places]
    else:
        _declared(emitter, desc.dtype)
        words = [f"{LOAD}({place}, {active}, {otherwise})" for place in places]
    width = fragment.width
    groups = [", ".join(words[i:i + width]) for i in range(0, len(words), width)]
    emitter.assign(operation.result, fragment,
                   groups if width == 1 else [f"({fragment.c_type})({group})" for group in groups])


def _store(emitter: Emitter, operation: ops.StoreScatterOp) -> None:
    desc, where = desc_of(operation.desc), emitter.values[operation.desc]
    active, cache = _active(emitter, operation.mask), cache_hints.number(emitter, operation)
    places = _places(where, ops.scatter_of(desc).chunk_size)
    for place, word in zip(places, emitter.fragment(operation.value).words(), strict=True):
        if where.space == "local":
            emitter.line(f"if ({active}) *({place}) = {word};")
            continue
        if cache:
            emitter.line(f"if ({active}) {cache_hints.store(emitter, desc.dtype.bytes, place, word, cache)};")
            continue
        _declared(emitter, desc.dtype)
        emitter.line(f"{STORE}({place}, {word}, {active});")


def _prefetch(emitter: Emitter, operation: ops.PrefetchOp) -> None:
    """OpenCL's own prefetch, which is a load without a destination on Intel's GPUs; shared local memory needs none."""
    desc, cache = desc_of(operation.desc), cache_hints.number(emitter, operation)
    if emitter.values[operation.desc].space == "local":
        return
    for place in _places(emitter.values[operation.desc], ops.scatter_of(desc).chunk_size):
        call = cache_hints.prefetch(emitter, desc.dtype.bytes, place, cache) if cache else f"prefetch({place}, 1)"
        emitter.line(f"{call};")


def _atomic(emitter: Emitter, operation: ops.AtomicRMWOp) -> None:
    dtype = desc_of(operation.desc).dtype
    where: Scattered = emitter.values[operation.desc]
    function = update_function(emitter, operation.kind.data, dtype, where.space)
    (place,) = _places(where, 1)
    call = f"{function}({place}, {_word(emitter, operation.value)})"
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
    """The place of a lane's element in 64 bits, and whether it lies inside the array."""
    desc: Descriptor = emitter.values[operation.desc]
    (row, column), (rows, columns) = operation.part()
    lane = "(int)get_sub_group_local_id()"
    if rows * columns < emitter.subgroup:
        lane = f"({lane} % {rows * columns})"
    down = "" if rows == 1 else f" + {lane} / {columns}"
    across = "" if columns == 1 else f" + {lane}" if rows == 1 else f" + {lane} % {columns}"
    y, x = emitter.name("y"), emitter.name("x")
    emitter.line(f"const int {y} = {desc.row} + {row}{down}, {x} = {desc.column} + {column}{across};")
    offset = emitter.name("offset")
    emitter.line(f"const long {offset} = {y} * (long){desc.pitch} + {x} * (long){desc.step};")
    emitter.values[operation.result] = Scattered(desc.array.name, offset, desc.array.dtype.opencl, "long")
    emitter.assign(operation.inside, emitter.fresh(operation.inside),
                   [f"-((uint){y} < (uint){desc.height} && (uint){x} < (uint){desc.width})"])


RULES: dict[type[Operation], Rule] = {
    ops.CreateTdescOp: _create,
    ops.UpdateOffsetOp: _update,
    ops.LoadGatherOp: _load,
    ops.StoreScatterOp: _store,
    ops.PrefetchOp: _prefetch,
    ops.AtomicRMWOp: _atomic,
    ops.BlockElementsOp: _elements,
}
