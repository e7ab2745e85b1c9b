"""Addresses of block messages in loops: what stays as it is from step to step is made once, before the loop.

Intel's compiler keeps the address of a 2D block message in a register that each step changes in one place. How often it
must be copied or made anew depends on how the text says where a block lies:

- a distance that the loop leaves as it is goes into a variable before the loop, of which the compiler cannot see how it
  came about; else it is computed again at every step, or the address of a neighbouring block is copied and changed;
- a prefetch gets a *payload*: an address made before the loop, changed right before each use. Only ``set`` is used for
  that. ``add`` after a read is miscompiled: the read moves past it.

Devices whose block messages take constant distances (``Target.immediate_offsets``) share an address between blocks that
lie a constant apart.
"""

from __future__ import annotations

from codegen.opencl.emitter import Emitter, Loop
from codegen.opencl.values import Coordinate, Descriptor
from xegpu.dialect.types import TensorDesc

_FAR = 512
"""Distances that a block message takes are less than this."""
_MOST = 8
"""Payloads a loop: each takes a register."""
_PAYLOAD = "__builtin_IB_subgroup_{}Block2DAddressPayload{}"
CACHED = 4
"""Intel's number for: cached in L1 and in L3, as the official prefetch does."""


def place_of(emitter: Emitter, desc: Descriptor) -> tuple[Coordinate, Coordinate]:
    """Column and row of a block that is loaded or stored, as the text says them best."""
    x, y = steady(emitter, desc.column), steady(emitter, desc.row)
    if emitter.target.immediate_offsets or not emitter.loops:
        return x, y
    return _apart(emitter.loops[-1], emitter, x, y), _apart(emitter.loops[-1], emitter, y, x)


def _apart(loop: Loop, emitter: Emitter, here: Coordinate, other: Coordinate) -> Coordinate:
    """A coordinate that stays, in a variable of its own where the other one moves a constant ahead of a neighbour's.

    Blocks that stand in the same place along one axis share an address, which must then be changed twice a step.
    """
    if not other.offset or not _divided(loop, other)[1] or _divided(loop, here)[1] or "(" in here.base + other.base:
        return here
    return Coordinate(loop.before(emitter, "int", "start", f"sub_group_broadcast({here}, 0)", str(other)))


def steady(emitter: Emitter, coordinate: Coordinate) -> Coordinate:
    """A coordinate with what the loop leaves as it is in one variable of its own."""
    loop = emitter.loops[-1] if emitter.loops else None
    if loop is None or "(" in coordinate.base:
        return coordinate
    still, moving = _divided(loop, coordinate)
    apart = 0 if emitter.target.immediate_offsets else coordinate.offset
    if not still or not (moving or apart):
        return coordinate
    name = loop.before(emitter, "int", "start", f"sub_group_broadcast({Coordinate(' + '.join(still), apart)}, 0)")
    return Coordinate(" + ".join([*moving, name]), coordinate.offset - apart)


def _divided(loop: Loop, coordinate: Coordinate) -> tuple[list[str], list[str]]:
    """The parts of a coordinate that a loop leaves as they are, and those that move."""
    parts = coordinate.base.split(" + ") if coordinate.base else []
    return ([part for part in parts if loop.is_outside(part)], [part for part in parts if not loop.is_outside(part)])


def prefetch(emitter: Emitter, desc: Descriptor, block: TensorDesc, cache: int = CACHED) -> bool:
    """Prefetch a block through a payload; False where the loop allows none, and nothing is written.

    ``cache`` is Intel's number for what is said of the caches.
    """
    loop = emitter.loops[-1] if emitter.loops else None
    place = (desc.array.name, desc.height, desc.width, desc.pitch)
    if loop is None or not all(map(loop.is_outside, place)) or "(" in desc.row.base + desc.column.base:
        return False
    x, y = steady(emitter, desc.column), steady(emitter, desc.row)
    payload, distance = _payload(emitter, loop, desc, block, (x, y))
    if not payload:
        return False
    rows, columns = block.shape
    shape = f"m{rows}k{columns}v{block.block.array_length}"
    name = f"__builtin_IB_subgroup_block_read_ap_prefetch_u{block.dtype.bits}_{shape}"
    emitter.function(f"void {name}(int *, int, int, int);")
    emitter.line(f"{name}({payload}, {distance[0]}, {distance[1]}, {cache});")
    return True


def _payload(emitter: Emitter, loop: Loop, desc: Descriptor, block: TensorDesc,
             at: tuple[Coordinate, Coordinate]) -> tuple[str, tuple[int, int]]:
    """A payload that is set to a block, or to one that lies a constant distance before it; "" if there are too many."""
    bases = tuple(coordinate.base for coordinate in at)
    kind = (desc.array.name, desc.height, desc.width, desc.pitch, block.shape, block.dtype, block.block.array_length)
    near = [(name, first) for name, other, first in loop.payloads if other == (kind, bases, emitter.block)
            and all(0 <= c.offset - f < _FAR for c, f in zip(at, first, strict=True))]
    if near and emitter.target.immediate_offsets:
        name, first = near[0]
        return name, (at[0].offset - first[0], at[1].offset - first[1])
    if len(loop.payloads) >= _MOST:
        return "", (0, 0)
    moving = [any(not loop.is_outside(part) for part in base.split(" + ") if part) for base in bases]
    start = [Coordinate() if moves else coordinate for moves, coordinate in zip(moving, at, strict=True)]
    name = _made(emitter, loop, desc, block, start)
    loop.payloads.append((name, (kind, bases, emitter.block), (at[0].offset, at[1].offset)))
    for axis, moves, coordinate in zip("XY", moving, at, strict=True):
        if moves:
            change = _PAYLOAD.format("set", f"Block{axis}")
            emitter.function(f"void {change}(int *, int);")
            emitter.line(f"{change}({name}, {coordinate});")
    return name, (0, 0)


def _made(emitter: Emitter, loop: Loop, desc: Descriptor, block: TensorDesc, at: list[Coordinate]) -> str:
    """A new payload before the loop."""
    create, size = _PAYLOAD.format("create", ""), block.dtype.bytes
    emitter.function(f"int *{create}(long, int, int, int, int, int, int, int, int);")
    rows, columns = block.shape
    scale = f" * {size}" if size > 1 else ""
    return loop.before(emitter, "int *", "payload",
                       f"{create}((long){desc.array.name}, {desc.width}{scale} - 1, {desc.height} - 1, "
                       f"{desc.pitch}{scale} - 1, {at[0]}, {at[1]}, {columns}, {rows}, {block.block.array_length})",
                       f"payload {len(loop.payloads)}")
