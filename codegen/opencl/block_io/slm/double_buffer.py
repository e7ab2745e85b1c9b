"""Double buffers in shared local memory (SLM): addresses in registers that a loop keeps, and flips to the other half.

    uint2 at = ...;                          two addresses, a register each
    for (; k < end; k += 32, flip2(&at, by), by = -by) {
      load ... at                            of the half that this step multiplies

A step that exchanges copies stores to one half of a buffer and loads from the other, and the next step does so the
other way round. Where messages take no distances (``Target.immediate_offsets``), each of them has its address in a
register. Made anew in each step they take an instruction or two each, and four more where a message may not have read
the register yet that is written. Here the loop keeps them, and one 32-lane addition takes two of them to the other
half, behind the products, when all messages are done. Where messages take distances, those of one array that are a
constant apart share a register.

In an unrolled loop each step has a half of its own, at addresses that do not change: see
:mod:`codegen.opencl.block_io.slm.addresses`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.ir import SSAValue

from codegen.opencl.block_io.slm import addresses
from codegen.opencl.block_io.slm.addresses import Access
from codegen.opencl.block_io.slm.visa import Address
from codegen.opencl.emitter import Emitter, wrapping
from codegen.opencl.prelude.macros import NO_VISA, SLM_ADDRESS
from codegen.opencl.values import Coordinate
from xegpu.analysis.block_position import is_inside
from xegpu.dialect.block_io import CreateNdTdescOp, LoadNdOp, StoreNdOp, desc_of
from xegpu.ir.matchers import main_loop_of, number
from xegpu.target.grf_mode import requested_registers

_MOST = 20
"""Registers of addresses that a kernel keeps, where a loop flips some."""
_ROOM = 0.95
"""Part of the registers that fragments and such addresses may take: fitted on pvc (0.94 spilled nothing)."""


@dataclass(frozen=True)
class _Half:
    """Index of a half's first row: its value in the first step, the increment to the second one, and its position among
    the loop's carried values."""

    first: int
    flip: int
    position: int


@dataclass(frozen=True)
class _Message:
    """A message of a step: its operation, the terms of its address in the first step, the elements from there on and
    the bytes of an element, the bytes to its address in the second step, and the half that it goes to."""

    operation: Access
    base: tuple[str, ...]
    distance: int
    size: int
    flip: int
    half: _Half

    @property
    def address(self) -> str:
        """Expression of the address in the first step."""
        return " + ".join([*self.base, str(self.distance)])


def declare(emitter: Emitter, loop: scf.ForOp) -> list[str]:
    """Declare the addresses of a loop's double buffers in front of it.

    Returns:
        the expressions by which each step updates them.
    """
    if not emitter.target.block_io or main_loop_of(loop) is not None:
        return []
    halves = _halves(loop)
    messages = [message for operation in loop.body.block.ops if isinstance(operation, (LoadNdOp, StoreNdOp))
                for message in _messages(emitter, loop, operation, halves)] if halves else []
    shared = emitter.target.immediate_offsets
    count = len({(message.flip, message.base) for message in messages} if shared else messages)
    if not messages or not _has_registers(emitter, count):
        return []
    groups = defaultdict[int, list[_Message]](list)
    for message in messages:
        groups[message.flip].append(message)
    by = {distance: emitter.name("by") for distance in sorted({abs(flip) for flip in groups})}
    for distance, name in by.items():
        emitter.line(f"int {name} = {distance};")
    emitter.slm_flips[loop] = {message.half.position: by[abs(message.flip)] for message in messages}
    registers = _shared_registers if shared else _registers
    steps = [step for flip, group in groups.items() for step in registers(emitter, group, by[abs(flip)])]
    return [*steps, *(f"{name} = -{name}" for name in by.values())]


def _has_registers(emitter: Emitter, count: int) -> bool:
    """Whether so many addresses have registers beside a kernel's fragments; shared addresses replace as many others,
    which each step would compute."""
    assert emitter.kernel is not None
    kept = sum(map(len, emitter.slm_addresses.values()))
    if emitter.target.immediate_offsets:
        return kept + count <= _MOST
    registers = requested_registers(emitter.kernel) or max(emitter.target.registers)
    return kept + count <= _MOST and emitter.live_registers + count <= _ROOM * registers


def close(emitter: Emitter, loop: scf.ForOp) -> None:
    """Assign behind a loop the halves that it ends with: nothing else then needs them in its steps."""
    halves = _halves(loop)
    for position, by in emitter.slm_flips.get(loop, {}).items():
        argument = loop.body.block.args[1 + position]
        if loop.results[position].uses:
            first, flip = halves[argument].first, halves[argument].flip
            emitter.line(f"{emitter.values[argument]} = {by} > 0 ? {first} : {first + flip};")


def _halves(loop: scf.ForOp) -> dict[SSAValue, _Half]:
    """Loop-carried values that alternate between two numbers: region arguments and yielded values."""
    found = dict[SSAValue, _Half]()
    yielded = loop.body.block.last_op
    assert isinstance(yielded, scf.YieldOp)
    carried = zip(loop.body.block.args[1:], loop.iter_args, yielded.operands, strict=True)
    for position, (argument, initial, following) in enumerate(carried):
        subtraction, first = following.owner, number(initial)
        if isinstance(subtraction, arith.SubiOp) and subtraction.rhs is argument and first is not None and \
                (total := number(subtraction.lhs)) is not None and (flip := total - 2 * first):
            found |= {argument: _Half(first, flip, position), following: _Half(total - first, -flip, position)}
    return found


def _messages(emitter: Emitter, loop: scf.ForOp, operation: Access,
              halves: dict[SSAValue, _Half]) -> Iterator[_Message]:
    """The messages of an access to one half of a buffer; none where there are others than the largest."""
    root, _ = addresses.root(operation.desc)
    block, create = desc_of(operation.desc).block, root.owner
    if block.memory_scope != "slm" or block.boundary_check or not isinstance(create, CreateNdTdescOp) or \
            create.parent is not loop.body.block or create.shape or len(create.offsets) != 2:
        return
    distances, access = addresses.distances(emitter, operation), addresses.access_of(emitter, operation)
    sums = [_terms(offset) for offset in create.offsets]
    flipped = [(axis, halves[term]) for axis, terms in enumerate(sums) for term in terms if term in halves]
    if not distances or len(flipped) != 1 or any(
            term not in halves and number(term) is None and is_inside(term, loop) for terms in sums for term in terms):
        return
    (axis, half), = flipped
    if access.in_panel and half.flip % access.panels.unit[axis]:  # not as far from everywhere in a panel
        return
    position, weights = [_in_first_step(emitter, terms, halves) for terms in sums], addresses.weights(access)
    constant = 0
    if not access.in_panel:
        constant = sum(each.offset * weight for each, weight in zip(position, weights, strict=True))
        position = [Coordinate(each.terms) for each in position]
    row, column = map(wrapping, position)
    base = [emitter.values[create.source].name, access.start(f"({row})", f"({column})")]
    if isinstance(operation, StoreNdOp) and not addresses.is_together(access):
        base.append(access.lane_offset())
    for distance in distances:
        yield _Message(operation, tuple(base), constant + distance // access.size, access.size,
                       half.flip * weights[axis] * access.size, half)


def _terms(value: SSAValue) -> list[SSAValue]:
    """Index values that are added up to one."""
    owner = value.owner
    return [*_terms(owner.lhs), *_terms(owner.rhs)] if isinstance(owner, arith.AddiOp) else [value]


def _in_first_step(emitter: Emitter, terms: list[SSAValue], halves: dict[SSAValue, _Half]) -> Coordinate:
    """A sum in the first step."""
    found = Coordinate()
    for term in terms:
        known = halves[term].first if term in halves else number(term)
        found = found.plus(emitter.coordinate(term) if known is None else Coordinate((), known))
    return found


def _registers(emitter: Emitter, messages: list[_Message], by: str) -> Iterator[str]:
    """Emit the addresses of messages that flip alike, two to a variable; return each step's statement."""
    back = messages[0].flip < 0
    for start in range(0, len(messages), 2):
        pair, name = messages[start:start + 2], emitter.name("at")
        macro, text = (SLM_ADDRESS, addresses.MACRO) if len(pair) == 1 else (f"{SLM_ADDRESS}2", _PAIR)
        emitter.function(text, macro)
        emitter.line(f"{macro}({name}, {', '.join(message.address for message in pair)});")
        for place, message in enumerate(pair):
            emitter.slm_halves.setdefault(message.operation, []).append(Address(name, 0, place, len(pair)))
        yield f"{_flip(emitter, len(pair), back)}(&{name}, {by})"


def _shared_registers(emitter: Emitter, messages: list[_Message], by: str) -> Iterator[str]:
    """Emit one address for messages at constant distances from each other; return each step's statement."""
    groups = defaultdict[tuple[str, ...], list[_Message]](list)
    for message in messages:
        groups[message.base].append(message)
    emitter.function(addresses.MACRO, SLM_ADDRESS)
    for group in groups.values():
        name, first = emitter.name("at"), min(group, key=lambda message: message.distance)
        emitter.line(f"{SLM_ADDRESS}({name}, {first.address});")
        for message in group:
            ahead = (message.distance - first.distance) * message.size
            emitter.slm_halves.setdefault(message.operation, []).append(Address(name, ahead))
        yield f"{_flip(emitter, 1, messages[0].flip < 0)}(&{name}, {by})"


def _flip(emitter: Emitter, count: int, back: bool) -> str:
    """Define the function that moves addresses by bytes, or back by as many, and return its name."""
    name, type_ = f"flip{count}{'_back' if back else ''}", f"uint{'' if count == 1 else count}"
    emitter.function(f"""static void {name}(private {type_} *at, int by)
{{
#ifndef {NO_VISA}
  {type_} flipped;
  __asm__("add (M1_NM, {16 * count}) %0(0,0)<1> %1(0,0)<1;1,0> {'(-)' if back else ''}%2(0,0)<0;1,0>"
    : "=rw"(flipped) : "rw"(*at), "rw.u"(by));
  *at = flipped;
#endif
}}
""")
    return name


_PAIR = f"""#ifdef {NO_VISA}
#define {SLM_ADDRESS}2(at, first, second) uint2 at = 0
#else
#define {SLM_ADDRESS}2(at, first, second) uint2 at; __asm__("{{\\n" "mov (M1_NM, 16) %0(0,0)<1> %1(0,0)<1;1,0>\\n" \\
  "mov (M1_NM, 16) %0(1,0)<1> %2(0,0)<1;1,0>\\n" "}}" \\
  : "=rw"(at) : "rw"((uint)(ulong)(first)), "rw"((uint)(ulong)(second)))
#endif
"""
