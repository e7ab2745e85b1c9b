"""Addresses of SLM messages in registers that a loop keeps, in inline virtual assembly (vISA).

Where a loop loads and stores blocks of shared local memory that lie at the same place in each step, as operands that a
subgroup transposes there, Intel's compiler takes each address for a number, and makes it again in each step: those of
stores, one for each lane, by five instructions. Here an address is made where its descriptor is, by an instruction that
the compiler does not look into, so that it stays in a register. Where messages take no distances
(``Target.immediate_offsets``) each of them has a register.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Operation, SSAValue

from codegen.opencl.block_io.slm import visa
from codegen.opencl.block_io.slm.access import SlmAccess
from codegen.opencl.block_io.slm.visa import Address
from codegen.opencl.emitter import Emitter, wrapping
from codegen.opencl.prelude.macros import NO_VISA, SLM_ADDRESS
from codegen.opencl.values import Fragment
from xegpu.dialect.block_io import CreateNdTdescOp, LoadNdOp, StoreNdOp, UpdateNdOffsetOp, desc_of
from xegpu.ir.matchers import number
from xegpu.layout.slm_panels import Run

_MOST = 16
"""Registers of addresses that a kernel keeps."""
_STORED = 32
"""Bytes of a lane that the largest message stores (``d32x8``)."""
MACRO = f"""#ifdef {NO_VISA}
#define {SLM_ADDRESS}(at, pointer) uint at = 0
#else
#define {SLM_ADDRESS}(at, pointer) uint at; __asm__("mov (M1_NM, 16) %0(0,0)<1> %1(0,0)<1;1,0>" \\
  : "=rw"(at) : "rw"((uint)(ulong)(pointer)))
#endif
"""
Access = LoadNdOp | StoreNdOp


def prepare(emitter: Emitter, create: CreateNdTdescOp) -> None:
    """Emit the addresses of what loops load and store through a descriptor, or at constant distances from it.

    Args:
        emitter: has the descriptor's value.
        create: the operation that makes it.
    """
    block = desc_of(create.result).block
    if block.memory_scope != "slm" or block.boundary_check or not emitter.target.block_io:
        return
    users = list(_users(create.result))
    for kind in (LoadNdOp, StoreNdOp):
        mine = [user for user in users if isinstance(user, kind) and user.parent is not create.parent]
        found = [[] if access_of(emitter, user).in_panel else distances(emitter, user) for user in mine]
        if mine and all(found):
            wanted = sorted({distance for each in found for distance in each})
            _emit(emitter, create, mine[0], wanted[:1] if emitter.target.immediate_offsets else wanted)


def addresses(emitter: Emitter, operation: Access) -> list[Address]:
    """For each message of an access where its address is; empty where it has none in a register."""
    start, _ = root(operation.desc)
    names = emitter.slm_addresses.get((start, type(operation)))
    if names is None or operation.parent is start.owner.parent:  # type: ignore[union-attr]
        return emitter.slm_halves.get(operation, [])
    first = next(iter(names))
    return [Address(names[at]) if at in names else Address(names[first], at - first)
            for at in distances(emitter, operation)]


def distances(emitter: Emitter, operation: Access) -> list[int]:
    """Bytes from the first element of a descriptor, as it was created, to each message of an access through it; none
    where there are other messages than the largest, or loads of half as many bytes."""
    access = access_of(emitter, operation)
    start, (row, column) = root(operation.desc)
    if (access.in_panel and (row or column)) or not isinstance(start.owner, CreateNdTdescOp):
        return []
    if isinstance(operation, LoadNdOp):
        form = access.runs, access.size, access.desc.sg_map.lanes
        wide, halves = visa.of(*form), visa.halves(*form)
        first = sorted((*wide, *halves)) if sum(wide.values()) + len(halves) == len(access.runs) else []
        runs = [access.runs[i] for i in first]
    else:
        is_apart = all(_is_largest(access, run) for run in access.runs)
        runs = access.runs if is_apart or (emitter.target.immediate_offsets and is_together(access)) else []
    down, across = weights(access)
    return [(row * down + column * across + run.start) * access.size for run in runs]


def _is_largest(access: SlmAccess, run: Run) -> bool:
    """Whether one message stores a run, and no larger one could."""
    return not run.together and access.is_aligned(run) and len(run.words) * run.elements * access.size == _STORED


def is_together(access: SlmAccess) -> bool:
    """Whether all messages store words that all lanes have together, a register of them or several."""
    return bool(access.runs) and all(run.together and visa.stored_form(run, access.size) for run in access.runs)


def access_of(emitter: Emitter, operation: Access) -> SlmAccess:
    """The access of a load or store, whatever variables it loads or stores."""
    desc = desc_of(operation.desc)
    return SlmAccess(operation.desc, Fragment(desc.dtype, 0, 1, ()), emitter.subgroup)


def weights(access: SlmAccess) -> tuple[int, int]:
    """Elements in memory from one row, and from one column, of a descriptor to the next."""
    down, across = access.panels.weights
    return (down, across) if access.form == "own" else (across, down)


def _users(desc: SSAValue) -> Iterator[Operation]:
    for use in desc.uses:
        if isinstance(use.operation, UpdateNdOffsetOp):
            yield from _users(use.operation.result)
        else:
            yield use.operation


def root(desc: SSAValue) -> tuple[SSAValue, tuple[int, int]]:
    """The descriptor that another one is a constant distance from, and the rows and columns of that."""
    rows = columns = 0
    while isinstance(update := desc.owner, UpdateNdOffsetOp):
        moved = [number(offset) for offset in update.offsets]
        if None in moved:
            break
        desc, rows, columns = update.desc, rows + (moved[0] or 0), columns + (moved[1] or 0)
    return desc, (rows, columns)


def _emit(emitter: Emitter, create: CreateNdTdescOp, user: Access, wanted: Sequence[int]) -> None:
    """Emit addresses at distances in bytes from a descriptor's first element; for stores, each lane has its own."""
    if sum(map(len, emitter.slm_addresses.values())) + len(wanted) > _MOST:
        return
    emitter.function(MACRO, SLM_ADDRESS)
    access, made = access_of(emitter, user), emitter.values[create.result]
    offsets = zip((made.row, made.column), weights(access), strict=True)
    parts = [f"({wrapping(at)}) * {weight}" for at, weight in offsets]
    if isinstance(user, StoreNdOp):
        parts.append(access.lane_offset())
    names = {distance: emitter.name("at") for distance in wanted}
    for distance, name in names.items():
        emitter.line(f"{SLM_ADDRESS}({name}, {' + '.join([made.array.name, *parts, str(distance // access.size)])});")
    emitter.slm_addresses[create.result, type(user)] = names
