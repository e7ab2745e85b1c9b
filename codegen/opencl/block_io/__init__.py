"""Block IO in OpenCL C: descriptors, and the builtins of 2D block messages.

What such messages do not reach goes elsewhere: shared local memory, and blocks whose rows a device cannot take at once.
"""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Operation, SSAValue

from codegen.opencl.arith import predicate
from codegen.opencl.block_io import (
    cache_controls,
    element_loads,
    element_stores,
    payload,
    payload_groups,
    row_prefetch,
    slm,
)
from codegen.opencl.block_io.slm import addresses as slm_addresses
from codegen.opencl.emitter import Emitter, Rule, atom, wrapping, zero_in_step
from codegen.opencl.prelude.macros import NO_VISA
from codegen.opencl.values import ArrayValue, Coordinate, Descriptor, Fragment, block_word
from codegen.opencl.vector import shuffle_rows
from codegen.opencl.vector.shuffle import repeated_row
from xegpu.analysis.memory_access import access_kind
from xegpu.dialect.block_io import (
    CreateNdTdescOp,
    GetNdOffsetsOp,
    LoadNdOp,
    PrefetchNdOp,
    SetNdOffsetsOp,
    StoreNdOp,
    UpdateNdOffsetOp,
    desc_of,
)
from xegpu.dialect.bounds import InBoundsOp, NoAliasOp
from xegpu.dialect.types import TensorDesc, repeats_row, valid_of
from xegpu.ir.kernel_attributes import function_of
from xegpu.ir.memref import is_address
from xegpu.layout import lane_map
from xegpu.layout.lane_map import LaneMap

# Arrays of more than two dimensions in OpenCL C: which matrix of a batch a descriptor stands on.
#
# The base pointer is displaced to the matrix, in 64-bit arithmetic. Where an index is outside the array, the descriptor
# stands on the first matrix, far below its last row: all that it reads is padding, and what it writes is dropped.


_BELOW = 1 << 28
"""A row that no matrix has (hardware.md: at most 2**24), and which may be moved far without leaving 32 bits."""


def matrix(emitter: Emitter, operation: CreateNdTdescOp, array: ArrayValue,
           row: Coordinate) -> tuple[ArrayValue, Coordinate]:
    """Matrix selected by a descriptor's leading offsets, and its row there: out of bounds if one of them is."""
    lead = [axis for axis, offset in enumerate(operation.offsets[:-2]) if not operation.is_single(axis)]
    if not lead:
        return array, row
    stem = operation.result.name_hint or array.name
    inside, first, name = (emitter.name(f"{stem}_{part}") for part in ("inside", "first", "matrix"))
    each = [(atom(emitter.values[operation.offsets[axis]]), atom(array.sizes[axis]), atom(array.strides[axis]))
            for axis in lead]
    within = " && ".join(f"(uint){index} < (uint){size}" for index, size, _ in each)
    displaced = " + ".join(f"{index} * (long){stride}" for index, _, stride in each)
    if not desc_of(operation.result).block.boundary_check:
        emitter.line(f"{array.space} {array.dtype.opencl} *{name} = {array.name} + {displaced};")
        return replace(array, name=name), row
    emitter.line(f"const bool {inside} = {within};")
    emitter.line(f"{array.space} {array.dtype.opencl} *{name} = {array.name} + ({inside} ? {displaced} : 0);")
    emitter.line(f"const int {first} = {inside} ? {row} : {_BELOW};")
    return replace(array, name=name), Coordinate((first,))


def _is_stored_by_columns(operation: CreateNdTdescOp) -> bool:
    """Whether the rows of a descriptor follow each other in memory, element by element."""
    function = function_of(operation)
    kinds = function.attributes.get("xegpu.access")
    if not isinstance(kinds, ArrayAttr):
        return False
    names = [kind.data for kind in kinds if isinstance(kind, StringAttr)]
    return access_kind(operation, dict(zip(function.body.block.args, names, strict=True))).endswith("columns")


def _create(emitter: Emitter, operation: CreateNdTdescOp) -> None:
    array: ArrayValue = emitter.values[operation.source]
    if is_address(operation.source.type):
        dtype = desc_of(operation.result).dtype
        array = ArrayValue(f"((global {dtype.opencl} *)(ulong){atom(emitter.values[operation.source])})", dtype, (), ())
    if operation.shape:
        sizes, strides = (tuple(emitter.values[value] for value in group)
                          for group in (operation.shape, operation.strides))
        array = replace(array, sizes=sizes, strides=strides)
    height, width, pitch, step = (atom(value) for value in (*array.sizes[-2:], *array.strides[-2:]))
    row, column = (emitter.coordinate(offset) for offset in operation.offsets[-2:])
    array, row = matrix(emitter, operation, array, row)
    column = column.plus(zero_in_step(emitter, operation))
    access = desc_of(operation.result).block.access
    step = "1" if access == "rows" else step
    pitch = "1" if access == "strided" and _is_stored_by_columns(operation) else pitch
    emitter.values[operation.result] = Descriptor(array, height, width, pitch, step, row, column)
    slm_addresses.prepare(emitter, operation)


def _update_nd_offset(emitter: Emitter, operation: UpdateNdOffsetOp) -> None:
    row, column = (emitter.coordinate(offset) for offset in operation.offsets)
    emitter.values[operation.result] = emitter.values[operation.desc].moved(row, column)


def _get_nd_offsets(emitter: Emitter, operation: GetNdOffsetsOp) -> None:
    desc: Descriptor = emitter.values[operation.desc]
    emitter.values[operation.row], emitter.values[operation.column] = str(desc.row), str(desc.column)


def _set_nd_offsets(emitter: Emitter, operation: SetNdOffsetsOp) -> None:
    row, column = emitter.coordinate(operation.row), emitter.coordinate(operation.column)
    emitter.values[operation.result] = replace(emitter.values[operation.desc], row=row, column=column)


def block_builtin(kind: str, desc: TensorDesc) -> str:
    """Name of a 2D block builtin."""
    shuffle_rows, columns = desc.shape
    return f"intel_sub_group_2d_block_{kind}_{desc.dtype.bits}b_{shuffle_rows}r{columns}x{desc.block.array_length}c"


def _unit_column(column: Coordinate, together: int) -> str:
    """A column, a multiple of ``together``, in units of as many; a constant part stays one, for the compiler to see."""
    if not column.terms or column.offset % together:
        return f"({column}) / {together}"
    return str(Coordinate((f"({replace(column, offset=0)}) / {together}",), column.offset // together))


def _block_arguments(emitter: Emitter, operand: SSAValue, together: int = 1) -> str:
    """Leading arguments of all block builtins; columns count in units of ``together`` elements."""
    desc: Descriptor = emitter.values[operand]
    size = desc_of(operand).dtype.bytes
    scale = f" * {size}" if size > 1 else ""
    column = str(desc.column) if together == 1 else _unit_column(desc.column, together)
    return (f"{desc.array.name}, {desc.width}{scale}, {desc.height}, {desc.pitch}{scale}, "
            f"(int2)({column}, {desc.row})")


def _load_nd(emitter: Emitter, operation: LoadNdOp) -> None:
    desc = desc_of(operation.desc)
    if desc.block.memory_scope == "slm":
        slm.load(emitter, operation)
        return
    if desc.block.access != "block":
        element_loads.load(emitter, operation)
        return
    deinterleaved = shuffle_rows.is_deinterleaved(operation)
    fragment = shuffle_rows.words_of(emitter, operation) if deinterleaved else \
        predicate.in_memory(emitter.fresh(operation.result))
    array = emitter.name(operation.result.name_hint)
    count = len(fragment.names)
    emitter.line(f"{fragment.c_type} {array}[{count}];")
    if operation.transposes:  # of 32-bit words: a lane gets a row of them
        name = f"intel_sub_group_2d_block_read_transpose_32b_{desc.shape[0]}r8x1c"
        arguments, pointer = _block_arguments(emitter, operation.desc, 32 // desc.dtype.bits), "uint"
    else:
        kind = "read_transform" if operation.packed is not None else "read"
        name, pointer = block_builtin(kind, desc), block_word(kind, desc.dtype.bits, desc.shape[1])
        arguments = _block_arguments(emitter, operation.desc)
    grouped = count == 1 and payload_groups.is_grouped(emitter, operation)
    emitter.lines += [f"#ifdef {NO_VISA}"] * grouped
    cache = cache_controls.number(emitter, operation)
    cache_controls.block_call(emitter, name, arguments, f"(private {pointer} *){array}", cache)
    if grouped:
        emitter.lines.append("#else")
        payload_groups.load(emitter, operation, f"{array}[0]")
        emitter.lines.append("#endif")
    if deinterleaved:
        shuffle_rows.deinterleave(emitter, operation.result, f"{array}[0]")
        return
    if repeats_row(desc):  # of which a message fills half of a register
        word = repeated_row(emitter, f"as_uint({array}[0])")
        emitter.assign(operation.result, fragment, [f"as_{fragment.c_type}({word})"])
        return
    fragment = fragment.renamed(tuple(f"{array}[{i}]" for i in range(count)))
    emitter.values[operation.result] = fragment
    if (valid := valid_of(operation)) is not None and not shuffle_rows.is_interleaved(emitter, operation):
        _clear_rows(emitter, desc, fragment, valid[0])
    predicate.from_memory(emitter, operation.result)


def _clear_rows(emitter: Emitter, desc: TensorDesc, fragment: Fragment, rows: int) -> None:
    """Emit zeros for the rows of a loaded block that are behind the end of its matrix."""
    (row, _), lane_zero = lane_map.positions(desc.shape[:2], _lanes(desc)), 0
    words = fragment.words()
    for number, name in enumerate(words):
        inside = [at < rows for at in map(int, row[lane_zero, number % row.shape[1]])]
        if not any(inside):
            emitter.line(f"{name} = 0;")
        elif not all(inside):  # words of several rows, of which the first lie in the low bits
            bits = desc.dtype.bits * sum(inside)
            emitter.line(f"{name} &= {(1 << bits) - 1:#x};")


def _lanes(desc: TensorDesc) -> LaneMap:
    assert desc.sg_map is not None
    return desc.sg_map


def _store_rows(emitter: Emitter, operation: StoreNdOp, fragment: Fragment, rows: int) -> None:
    """Emit the stores of the first rows of a block, as many as a message takes each."""
    desc, descriptor, first = desc_of(operation.desc), emitter.values[operation.desc], 0
    across = len(fragment.words()) // desc.shape[0]
    cache = cache_controls.number(emitter, operation)
    pointer = block_word("write", desc.dtype.bits, desc.shape[1])
    while first < rows:
        count = 1 << ((rows - first).bit_length() - 1)
        part = fragment.slice(first * across, count * across)
        array = emitter.name("stored")
        emitter.line(f"{part.c_type} {array}[{len(part.names)}] = {{ {', '.join(part.names)} }};")
        emitter.values[operation.desc] = descriptor.moved(Coordinate((), first), Coordinate())
        name = f"intel_sub_group_2d_block_write_{desc.dtype.bits}b_{count}r{desc.shape[1]}x1c"
        cache_controls.block_call(emitter, name, _block_arguments(emitter, operation.desc),
                                  f"(private {pointer} *){array}", cache)
        first += count
    emitter.values[operation.desc] = descriptor


def _store_nd(emitter: Emitter, operation: StoreNdOp) -> None:
    desc = desc_of(operation.desc)
    if desc.block.memory_scope == "slm":
        slm.store(emitter, operation)
        return
    if desc.block.access != "block":
        element_stores.store(emitter, operation)
        return
    fragment = predicate.to_memory(emitter, emitter.fragment(operation.value))
    if (valid := valid_of(operation)) is not None and valid[0] < desc.shape[0]:
        _store_rows(emitter, operation, fragment, valid[0])
        return
    array = emitter.name("stored")
    values = ", ".join(fragment.names)
    emitter.line(f"{fragment.c_type} {array}[{len(fragment.names)}] = {{ {values} }};")
    pointer = block_word("write", desc.dtype.bits, desc.shape[1])
    arguments = _block_arguments(emitter, operation.desc)
    cache = cache_controls.number(emitter, operation)
    cache_controls.block_call(emitter, block_builtin("write", desc), arguments, f"(private {pointer} *){array}", cache)


def _prefetch_nd(emitter: Emitter, operation: PrefetchNdOp) -> None:
    desc = desc_of(operation.desc)
    if desc.block.access == "rows":
        row_prefetch.emit(emitter, operation)
        return
    cache = cache_controls.number(emitter, operation)
    cache_controls.block_call(emitter, block_builtin("prefetch", desc), _block_arguments(emitter, operation.desc), "",
                              0 if cache == payload.CACHED else cache)


def _in_bounds(emitter: Emitter, operation: InBoundsOp) -> None:
    desc: Descriptor = emitter.values[operation.desc]
    size, (top, left, bottom, right) = desc_of(operation.desc).dtype.bytes, operation.sides
    first, last = ((desc.row.plus(Coordinate((), y)), desc.column.plus(Coordinate((), x)))
                   for y, x in ((top, left), (bottom, right)))
    conditions = [f"{wrapping(at)} >= 0" for at in first]
    conditions += [f"{wrapping(first[0])} <= {desc.height} - {bottom - top}",
                   f"{wrapping(first[1])} <= {desc.width} - {right - left}"]
    if (multiple := operation.bytes_of_alignment) > 1:
        bits = f"(uint)(ulong){desc.array.name} | (uint)({desc.pitch}) * {size}u | (uint)({first[1]}) * {size}u"
        conditions.append(f"(({bits}) & {multiple - 1}u) == 0")
    if operation.pitch is not None:
        conditions.append(f"{desc.pitch} >= {operation.pitch.value.data}")
    emitter.define(operation.inside, "bool", " && ".join(conditions))
    for result, end, coordinate in ((operation.rows, desc.height, last[0]), (operation.columns, desc.width, last[1])):
        if result.first_use is not None:
            emitter.define(result, "int", f"(int)((uint){end} - (uint)({wrapping(coordinate)}))")


def _no_alias(emitter: Emitter, operation: NoAliasOp) -> None:
    left, right = (emitter.values[desc] for desc in operation.operands)
    conditions = [f"(ulong)({one.array.name} + {one.height} * (long){one.pitch}) <= (ulong){other.array.name}"
                  for one, other in ((left, right), (right, left))]
    emitter.define(operation.result, "bool", " || ".join(conditions))


RULES: dict[type[Operation], Rule] = {
    CreateNdTdescOp: _create,
    UpdateNdOffsetOp: _update_nd_offset,
    GetNdOffsetsOp: _get_nd_offsets,
    SetNdOffsetsOp: _set_nd_offsets,
    LoadNdOp: _load_nd,
    StoreNdOp: _store_nd,
    PrefetchNdOp: _prefetch_nd,
    InBoundsOp: _in_bounds,
    NoAliasOp: _no_alias,
}
