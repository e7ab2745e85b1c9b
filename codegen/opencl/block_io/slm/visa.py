"""512-byte SLM block loads, in inline virtual assembly (vISA).

The block reads of OpenCL C move 256 bytes of words of 16 bits, which is half of what a message can, and Intel's
compiler computes an address for each of them. Here the distances stand in the instructions, and the messages of a
block in one statement where a step has more than eight: in one each, Intel's compiler loaded them one after another.

On devices whose messages take no distances (``Target.immediate_offsets``) each message has an address in a register,
and a register that a message may not have read yet costs four instructions before it is written. So all messages of a
block get registers of their own, two of them by one 32-lane addition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from codegen.opencl.emitter import Emitter
from codegen.opencl.prelude.macros import NO_VISA, SLM_READ
from xegpu.dialect.block_io import LoadNdOp, desc_of
from xegpu.layout.slm_panels import MESSAGE, Run

_WORDS = {1: "uint8", 2: "ushort16"}
"""Type of a message's result, by its number of runs."""
_HALF = "ushort8"
"""Type of the result of a message of half as many bytes: one run of 16-bit words (``d32x64t``)."""
_REGISTER = 16
"""32-bit words of a register, where there are messages of 512 bytes."""


def _macro(words: str) -> str:
    """Macro that loads a variable of a C type from an address plus an immediate byte offset.

    The message takes the first word of its address register, but the register allocator may put ``%1``, a scalar, at
    any word of one: vISA aligns the variables that it makes itself, and leaves those of inline text as they are.
    """
    name = f"{SLM_READ}{words}"
    address = r".decl ADDRESS v_type=G type=ud num_elts=1 align=GRF\nmov (M1_NM, 1) ADDRESS(0,0)<1> %1(0,0)<0;1,0>\n"
    return (f'#ifndef {name}\n#define {name}(words, from, distance) __asm__ volatile( \\\n'
            f'  "{{\\n{address}" \\\n'
            '  "lsc_load.slm (M1_NM, 1) %0:d64x64t flat[ADDRESS+" #distance "]:a32\\n}" \\\n'
            '  : "=rw"(words) : "rw.u"((uint)(ulong)(from)) : "memory")\n#endif\n')


_TOGETHER, _FEW = 8, 4
"""Messages whose addresses are made together, each of which takes a register: few where a step has more than eight
messages, or registers run out."""


@dataclass(frozen=True)
class Address:
    """Address of a message: a register of a variable, and a distance from there.

    Attributes:
        variable: one register of it, or several, whose first words are addresses; for stores, all words.
        distance: bytes from there to the message's data.
        place: which of the registers.
        count: how many there are.
    """

    variable: str
    distance: int = 0
    place: int = 0
    count: int = 1


def of(runs: Sequence[Run], size: int, lanes: int) -> dict[int, int]:
    """Grouping of runs into messages: index of the first run to number of runs.

    Args:
        runs: the runs to read, in order.
        size: bytes of an element.
        lanes: of the subgroup.
    """
    found: dict[int, int] = {}
    for i, run in enumerate(runs):
        length = len(run.words) * run.elements * size * lanes
        if not run.together or found.get(i - 1) == 2:
            continue
        if length == MESSAGE:
            found[i] = 1
        elif 2 * length == MESSAGE and runs[i + 1:] and _follows(run, runs[i + 1], length // size):
            found[i] = 2
    return found


def halves(runs: Sequence[Run], size: int, lanes: int) -> list[int]:
    """Runs that are half of the largest message and part of none: messages of their own, where addresses are kept.

    Args:
        runs, size, lanes: as for :func:`of`.
    """
    wide = of(runs, size, lanes)
    return [i for i, run in enumerate(runs) if run.together and i not in wide and wide.get(i - 1) != 2
            and run.elements * size == 2 and 2 * len(run.words) * run.elements * size * lanes == MESSAGE]


def _follows(run: Run, other: Run, elements: int) -> bool:
    """Whether ``other`` has the form of ``run`` and is adjacent to it in memory."""
    return other.together and len(other.words) == len(run.words) and other.elements == run.elements \
        and other.start - run.start == elements


def lines(emitter: Emitter, address: str, distance: int, first: int, count: int) -> Iterator[str]:
    """Statements of one message, which name its runs.

    Args:
        emitter: gets the macro.
        address: where the block starts.
        distance: bytes from there to the data.
        first: the number of the first run.
        count: how many there are, one or two.
    """
    words = _WORDS[count]
    emitter.function(_macro(words))
    yield f"{words} wide{first};"
    yield f"{SLM_READ}{words}(wide{first}, {address}, {distance:#x});"
    yield from _named(first, count)


def together(address: str, messages: Sequence[tuple[int, int, int]], near: int, *, immediate: bool) -> Iterator[str]:
    """Statements of several messages, which name their runs.

    Args:
        address: where the block starts.
        messages: of each the distance in bytes from there, the number of its first run, and how many it has.
        near: bytes that this operation and others near it load from shared local memory.
        immediate: whether messages take distances.
    """
    write = _at_distances if immediate else _assembly
    most = _FEW if near > _TOGETHER * MESSAGE else 1 if immediate else _TOGETHER
    for start in range(0, len(messages), most):
        part = messages[start:start + most]
        yield from (f"{_WORDS[count]} wide{first};" for _, first, count in part)
        yield f"#ifdef {NO_VISA}"
        yield from (f"{SLM_READ}{_WORDS[count]}(wide{first}, {address}, {distance:#x});"
                    for distance, first, count in part)
        yield "#else"
        results = ", ".join(f'"=rw"(wide{first})' for _, first, _ in part)
        assembly = "".join(f'"{line}\\n" ' for line in write([distance for distance, _, _ in part]))
        yield f"__asm__ volatile({assembly}: {results} : \"rw.u\"((uint)(ulong)({address})) : \"memory\");"
        yield "#endif"
        for _, first, count in part:
            yield from _named(first, count)


def kept(emitter: Emitter, address: str, messages: Sequence[tuple[int, int, int]],
         addresses: Sequence[Address], near: int) -> Iterator[str]:
    """Statements of messages whose addresses are in the first words of registers, which name their runs.

    Args:
        emitter: gets the macro for compilers without vISA.
        address: where the block starts.
        messages: of each the distance in bytes from there, the number of its first run, and how many it has.
        addresses: of each its address.
        near: as for :func:`together`.
    """
    is_dense = near > _TOGETHER * MESSAGE and any(at.distance for at in addresses)
    most = _FEW if is_dense or any(at.count > 1 for at in addresses) else 1
    for start in range(0, len(messages), most):
        part, places = messages[start:start + most], addresses[start:start + most]
        for _, first, count in part:
            emitter.function(_macro(_WORDS[count]))
            yield f"{_WORDS[count]} wide{first};"
        yield f"#ifdef {NO_VISA}"
        yield from (f"{SLM_READ}{_WORDS[count]}(wide{first}, {address}, {distance:#x});"
                    for distance, first, count in part)
        yield "#else"
        yield _loads([f"wide{first}" for _, first, _ in part], "d64x64t", places)
        yield "#endif"
        for _, first, count in part:
            yield from _named(first, count)


def kept_half(plain: str, first: int, at: Address) -> Iterator[str]:
    """Statements of a message of half the size, whose address is in the first word of a register.

    Args:
        plain: the expression for compilers without vISA.
        first: the number of its run.
        at: its address.
    """
    yield f"{_HALF} run{first};"
    yield f"#ifdef {NO_VISA}"
    yield f"run{first} = {plain};"
    yield "#else"
    yield _loads([f"run{first}"], "d32x64t", [at])
    yield "#endif"


def stored(plain: str, words: str, at: Address) -> Iterator[str]:
    """Statements that store eight 32-bit words of each lane, at an address that a register has for each lane.

    Args:
        plain: the statement for compilers without vISA.
        words: the variable.
        at: the addresses.
    """
    yield f"#ifdef {NO_VISA}"
    yield plain
    yield "#else"
    register, declared = _register(at, 0, "AT")
    message = f"lsc_store.slm (M1_NM, 16) flat[{register}+{at.distance:#x}]:a32 %1:d32x8"
    yield f'__asm__ volatile("{_block(declared, [message])}" : : "rw"({at.variable}), "rw"({words}) : "memory");'
    yield "#endif"


def stored_form(run: Run, size: int) -> str:
    """Data size of the message that stores a run of 32-bit words of all lanes; empty if there is none.

    Args:
        run: the run to store.
        size: bytes of an element.
    """
    is_words = run.elements * size == 4 and len(run.words) > 1
    return f"d64x{_REGISTER * len(run.words) // 2}t" if is_words and len(run.words) in (4, 8) else ""


def stored_together(plain: str, words: str, form: str, at: Address) -> Iterator[str]:
    """Statements that store words of all lanes, at an address in the first word of a register.

    Args:
        plain: the statement for compilers without vISA.
        words: the variable.
        form: data size of the message: see :func:`stored_form`.
        at: the address.
    """
    yield f"#ifdef {NO_VISA}"
    yield plain
    yield "#else"
    message = f"lsc_store.slm (M1_NM, 1) flat[%0+{at.distance:#x}]:a32 %1:{form}"
    yield f'__asm__ volatile("{message}" : : "rw"({at.variable}), "rw"({words}) : "memory");'
    yield "#endif"


def _loads(results: Sequence[str], form: str, addresses: Sequence[Address]) -> str:
    """Statement of messages that load variables, each from its address."""
    variables = [*dict.fromkeys(at.variable for at in addresses)]
    declared, messages = list[str](), list[str]()
    for i, at in enumerate(addresses):
        register, more = _register(at, len(results) + variables.index(at.variable), f"AT{i}")
        declared += more
        messages.append(f"lsc_load.slm (M1_NM, 1) %{i}:{form} flat[{register}+{at.distance:#x}]:a32")
    outputs, inputs = (", ".join(f'"{kind}"({name})' for name in names)
                       for kind, names in (("=rw", results), ("rw", variables)))
    return f'__asm__ volatile("{_block(declared, messages)}" : {outputs} : {inputs} : "memory");'


def _register(at: Address, operand: int, name: str) -> tuple[str, list[str]]:
    """Name of the register of an address in virtual assembly, and its declaration where it is one of several."""
    if at.count == 1:
        return f"%{operand}", []
    return name, [f".decl {name} v_type=G type=ud num_elts={_REGISTER} align=GRF "
                  f"alias=<%{operand}, {4 * _REGISTER * at.place}>"]


def _block(declared: Sequence[str], messages: Sequence[str]) -> str:
    """Text of messages and their declarations, in a block of their own."""
    return r"\n".join(["{", *declared, *messages, "}"] if declared or len(messages) > 1 else messages)


def _assembly(distances: Sequence[int]) -> Iterator[str]:
    """vISA of messages at distances: addresses in the first words of registers, then the messages."""
    count = len(distances)
    yield "{"
    yield f".decl AT v_type=G type=ud num_elts={_REGISTER * count} align=GRF"
    yield from (f".decl AT{i} v_type=G type=ud num_elts=1 align=GRF alias=<AT, {4 * _REGISTER * i}>"
                for i in range(count))
    i = 0
    while i < count:
        pair = distances[i:i + 2]
        ahead = {distance - first for distance, first in zip(pair, distances, strict=False)}
        if i > 1 and len(pair) == 2 and len(ahead) == 1:  # the first two are there
            yield f"add (M1_NM, 32) AT({i},0)<1> AT(0,0)<1;1,0> {ahead.pop():#x}:ud"
            i += 2
        else:
            yield f"add (M1_NM, 1) AT({i},0)<1> %{count}(0,0)<0;1,0> {distances[i]:#x}:ud"
            i += 1
    yield from (f"lsc_load.slm (M1_NM, 1) %{i}:d64x64t flat[AT{i}]:a32" for i in range(count))
    yield "}"


def _at_distances(distances: Sequence[int]) -> Iterator[str]:
    """vISA of messages at immediate distances from one address, in the first word of a register."""
    yield "{"
    yield ".decl ADDRESS v_type=G type=ud num_elts=1 align=GRF"
    yield f"mov (M1_NM, 1) ADDRESS(0,0)<1> %{len(distances)}(0,0)<0;1,0>"
    yield from (f"lsc_load.slm (M1_NM, 1) %{i}:d64x64t flat[ADDRESS+{at:#x}]:a32" for i, at in enumerate(distances))
    yield "}"


def _named(first: int, count: int) -> Iterator[str]:
    """Definitions of the runs of a message, by their numbers."""
    words = _WORDS[count]
    if count == 1:
        yield f"const {words} run{first} = wide{first};"
    else:
        yield f"const ushort8 run{first} = wide{first}.lo, run{first + 1} = wide{first}.hi;"


def bytes_near(load: LoadNdOp) -> int:
    """Bytes that the loads of an operation's block take from shared local memory."""
    assert load.parent is not None
    descs = [desc_of(near.desc) for near in load.parent.ops if isinstance(near, LoadNdOp)]
    return sum(prod(desc.shape) * desc.block.array_length * desc.dtype.bits // 8 for desc in descs
               if desc.block.memory_scope == "slm")
