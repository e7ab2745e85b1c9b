"""Gathers, scatters, scattered prefetches and atomics in OpenCL C: each element at its own address."""

from __future__ import annotations

from dataclasses import replace

from xdsl.ir import Operation

from codegen.opencl.block_io import cache_controls
from codegen.opencl.emitter import Emitter, Rule, atom, wrapping
from codegen.opencl.gather_scatter.atomic import atomic_rmw
from codegen.opencl.gather_scatter.lines import load_columns, load_rows
from codegen.opencl.gather_scatter.load import load_gather
from codegen.opencl.gather_scatter.predicated import addresses_of, bits_of, condition_of, declare_predicated
from codegen.opencl.prelude.predicated import STORE
from codegen.opencl.values import ArrayValue, Coordinate, Descriptor, Scattered
from xegpu.dialect import gather_scatter as ops
from xegpu.dialect.block_io import desc_of


def _create_tdesc(emitter: Emitter, operation: ops.CreateTdescOp) -> None:
    source, element = emitter.values[operation.source], desc_of(operation.result).dtype.opencl
    base = source.name if isinstance(source, ArrayValue) else f"((global {element} *)({source}))"
    space = source.space if isinstance(source, ArrayValue) else "global"
    emitter.values[operation.result] = Scattered(base, atom(bits_of(emitter, operation.offsets)), element, space=space)


def _update_offset(emitter: Emitter, operation: ops.UpdateOffsetOp) -> None:
    desc: Scattered = emitter.values[operation.desc]
    name = emitter.name(operation.result.name_hint)
    emitter.line(f"const {desc.offset_type} {name} = {desc.offset} + {atom(bits_of(emitter, operation.offsets))};")
    emitter.values[operation.result] = replace(desc, offset=name)


def _store_scatter(emitter: Emitter, operation: ops.StoreScatterOp) -> None:
    desc, where = desc_of(operation.desc), emitter.values[operation.desc]
    active, cache = condition_of(emitter, operation.mask), cache_controls.number(emitter, operation)
    addresses = addresses_of(where, ops.scatter_of(desc).chunk_size)
    for address, word in zip(addresses, emitter.fragment(operation.value).words(), strict=True):
        if where.space == "local":
            emitter.line(f"if ({active}) *({address}) = {word};")
            continue
        if cache:
            emitter.line(f"if ({active}) {cache_controls.store(emitter, desc.dtype.bytes, address, word, cache)};")
            continue
        declare_predicated(emitter, desc.dtype)
        emitter.line(f"{STORE}({address}, {word}, {active});")


def _prefetch(emitter: Emitter, operation: ops.PrefetchOp) -> None:
    """Emit a prefetch (on Intel's GPUs a load without destination); none for shared local memory."""
    desc, cache = desc_of(operation.desc), cache_controls.number(emitter, operation)
    if emitter.values[operation.desc].space == "local":
        return
    for address in addresses_of(emitter.values[operation.desc], ops.scatter_of(desc).chunk_size):
        call = f"prefetch({address}, 1)" if not cache else \
            cache_controls.prefetch(emitter, desc.dtype.bytes, address, cache)
        emitter.line(f"{call};")


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
    ops.LoadGatherOp: load_gather,
    ops.LoadRowsOp: load_rows,
    ops.LoadColumnsOp: load_columns,
    ops.StoreScatterOp: _store_scatter,
    ops.PrefetchOp: _prefetch,
    ops.AtomicRMWOp: atomic_rmw,
    ops.BlockElementsOp: _elements,
}
