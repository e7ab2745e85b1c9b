"""Address payloads in OpenCL C: internal builtins of Intel's compiler, which keeps such an address in a register.

The official builtins of block messages take array, sizes and place each time, and leave it to the compiler to keep an
address; these make one, change a part of it, and read or prefetch at a constant distance from it.
"""

from __future__ import annotations

from xdsl.ir import Operation

from codegen.opencl.block_io import cache_controls
from codegen.opencl.emitter import Emitter, Rule
from codegen.opencl.values import Descriptor
from xegpu.dialect.block_io import desc_of
from xegpu.dialect.payload import PayloadCreateOp, PayloadPrefetchOp, PayloadSetOp, SubgroupBroadcastOp, payload_desc

_PAYLOAD = "__builtin_IB_subgroup_{}Block2DAddressPayload{}"
"""Internal builtins of Intel's compiler (IGC): create, and set BlockX or BlockY. They are in no header."""
CACHED = 4
"""Intel's number for: cached in L1 and in L3, as the official prefetch does."""


def _create(emitter: Emitter, operation: PayloadCreateOp) -> None:
    desc: Descriptor = emitter.values[operation.desc]
    block = desc_of(operation.desc)
    create, size = _PAYLOAD.format("create", ""), block.dtype.bytes
    emitter.external(create, f"int *{create}(long, int, int, int, int, int, int, int, int);")
    rows, columns = block.shape
    scale = f" * {size}" if size > 1 else ""
    name = emitter.name(operation.result.name_hint)
    emitter.line(f"int *{name} = {create}((long){desc.array.name}, {desc.width}{scale} - 1, {desc.height} - 1, "
                 f"{desc.pitch}{scale} - 1, {desc.column}, {desc.row}, {columns}, {rows}, {block.block.array_length});")
    emitter.values[operation.result] = name


def _set(emitter: Emitter, operation: PayloadSetOp) -> None:
    payload, desc = emitter.values[operation.payload], emitter.values[operation.desc]
    sides = ("X", operation.columns, desc.column), ("Y", operation.rows, desc.row)
    for axis, changes, coordinate in sides:
        if changes is not None:
            change = _PAYLOAD.format("set", f"Block{axis}")
            emitter.external(change, f"void {change}(int *, int);")
            emitter.line(f"{change}({payload}, {coordinate});")


def _prefetch_payload(emitter: Emitter, operation: PayloadPrefetchOp) -> None:
    block, (down, right) = payload_desc(operation.payload), operation.offsets
    rows, columns = block.shape
    shape = f"m{rows}k{columns}v{block.block.array_length}"
    name = f"__builtin_IB_subgroup_block_read_ap_prefetch_u{block.dtype.bits}_{shape}"
    emitter.external(name, f"void {name}(int *, int, int, int);")
    cache = cache_controls.number(emitter, operation) or CACHED
    emitter.line(f"{name}({emitter.values[operation.payload]}, {right}, {down}, {cache});")


def _broadcast(emitter: Emitter, operation: SubgroupBroadcastOp) -> None:
    lane = operation.lane_number % emitter.subgroup
    emitter.define(operation.result, "int", f"sub_group_broadcast({emitter.values[operation.value]}, {lane})")


RULES: dict[type[Operation], Rule] = {
    PayloadCreateOp: _create,
    PayloadSetOp: _set,
    PayloadPrefetchOp: _prefetch_payload,
    SubgroupBroadcastOp: _broadcast,
}
