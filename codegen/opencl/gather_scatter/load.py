"""Gathers of single elements and chunks in OpenCL C.

Gathers of all rows of a block are a function's call, which GPUs' compilers inline; a CPU's gets it as a loop, and takes
a third of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.ir import Operation, SSAValue

from codegen.opencl.arith.operands import literal, stored
from codegen.opencl.block_io import cache_controls
from codegen.opencl.emitter import Emitter
from codegen.opencl.gather_scatter.predicated import addresses_of, condition_of, declare_predicated
from codegen.opencl.prelude.macros import CALL, ROLLED
from codegen.opencl.prelude.predicated import LOAD
from codegen.opencl.values import vector_type
from xegpu.analysis.dataflow.lane_offsets import source_of
from xegpu.dialect import gather_scatter as ops
from xegpu.dialect.block_io import desc_of
from xegpu.ir.dtypes import DType, i1


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
    """Consecutive gathers that together take all words of one variable as offsets, and of another as masks."""
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
    declare_predicated(emitter, dtype)
    active = mask.variable if mask.width == offset.width else \
        f"({vector_type(i1.register, offset.width)})({emitter.fragment(first.mask).words()[0]})"
    function = _batch_function(emitter, dtype, offset.width)
    name = emitter.name("gathered")
    emitter.line(f"{vector_type(dtype.opencl, offset.width)} {name} = {function}({emitter.values[first.desc].base}, "
                 f"{offset.variable}, {active}, {otherwise});")
    for position, load in enumerate(loads):
        emitter.values[load.result] = replace(emitter.fresh(load.result), names=(f"{name}.s{position:x}",))


def load_gather(emitter: Emitter, operation: ops.LoadGatherOp) -> None:
    """Emit gathers of single elements or chunks: one call for a batch, else a predicated load an element."""
    if operation.result in emitter.values:
        return  # by the call for the first of its batch
    desc, where = desc_of(operation.desc), emitter.values[operation.desc]
    cache, active = cache_controls.number(emitter, operation), condition_of(emitter, operation.mask)
    padding = literal(operation.number, desc.dtype)
    otherwise = stored(padding, desc.dtype)
    if batch := _batch(emitter, operation):
        _load_batch(emitter, batch, otherwise)
        return
    addresses = addresses_of(where, ops.scatter_of(desc).chunk_size)
    type_, size = desc.dtype.opencl, desc.dtype.bytes
    if where.space == "local":  # the predicated messages are of global memory
        words = [f"({active} ? *({address}) : ({type_}){otherwise})" for address in addresses]
    elif cache:  # masked-off elements must touch no memory
        words = [f"({active} ? {cache_controls.load(emitter, type_, size, address, cache)} : ({type_}){otherwise})"
                 for address in addresses]
    else:
        declare_predicated(emitter, desc.dtype)
        words = [f"{LOAD}({address}, {active}, {otherwise})" for address in addresses]
    fragment = emitter.fresh(operation.result)
    width = fragment.width
    groups = [", ".join(words[i:i + width]) for i in range(0, len(words), width)]
    emitter.assign(operation.result, fragment,
                   groups if width == 1 else [f"({fragment.c_type})({group})" for group in groups])
