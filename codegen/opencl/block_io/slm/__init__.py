"""Block IO on shared local memory (SLM), in OpenCL C.

An array is kept in panels (:mod:`xegpu.layout.slm_panels`). A block of which all lanes together, or each lane by
itself, have contiguous words is moved by the fewest messages, 256 or 512 bytes each; any other, and one that hangs
over the edge of its array, is moved element by element.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from xdsl.dialects.memref import AllocOp
from xdsl.ir import Operation

from codegen.opencl.arith import predicate
from codegen.opencl.block_io.block_slice import PARAMETERS
from codegen.opencl.block_io.slm import addresses as slm_addresses
from codegen.opencl.block_io.slm import visa
from codegen.opencl.block_io.slm.access import LINE, SlmAccess
from codegen.opencl.block_io.slm.visa import Address
from codegen.opencl.emitter import Emitter, Rule
from codegen.opencl.prelude.macros import CALL
from codegen.opencl.values import UNSIGNED, ArrayValue, vector_type
from codegen.opencl.vector.interleaving import interleaving
from xegpu.dialect.block_io import LoadNdOp, StoreNdOp
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.memref import static_form
from xegpu.layout.slm_panels import Run

_BLOCK = {1: "_uc", 2: "_us", 4: ""}


def _allocate(emitter: Emitter, operation: AllocOp) -> None:
    type_ = operation.memref.type
    dtype, static = of_mlir(type_.element_type), static_form(type_)  # type: ignore[attr-defined]
    assert static is not None
    name, count = emitter.name(operation.memref.name_hint or "slm"), int(np.prod(static[0]))
    emitter.line(f"local {dtype.opencl} {name}[{count}] __attribute__((aligned({LINE})));")
    sizes, strides = (tuple(map(str, numbers)) for numbers in static)
    emitter.values[operation.memref] = ArrayValue(name, dtype, sizes, strides, "local")


_POSITION = """static int slm_position(int row, int column, int height, int rows, int columns)
{
  return column / columns * (height * columns) + row / rows * (rows * columns) + column % columns * rows + row % rows;
}
"""


def load(emitter: Emitter, operation: LoadNdOp) -> None:
    """Emit ``load_nd`` from shared local memory."""
    fragment = predicate.in_memory(emitter.fresh(operation.result))
    access = SlmAccess(operation.desc, fragment, emitter.subgroup)
    emitter.values[operation.result] = fragment
    addresses = slm_addresses.addresses(emitter, operation)
    at = _variables_of(addresses)
    name = f"load_slm_{access.label}{_suffix(addresses)}"
    results = "".join(f", private {fragment.c_type} *out{i}" for i in range(len(fragment.names)))
    head = f"static void {name}(local const {access.desc.dtype.opencl} *base, {PARAMETERS}{_declared(at)}{results})"
    values = enumerate(_variables(access)) if access.runs else ()
    read = _read(emitter, access, visa.bytes_near(operation), _numbered(addresses))
    _access_function(emitter, access, head, [*read, *(f"*out{i} = {value};" for i, value in values)], "load")
    emitter.line(f"{fragment.c_type} {', '.join(fragment.names)};")
    arguments = [access.call(emitter), *at, *(f"&{variable}" for variable in fragment.names)]
    emitter.line(f"{name}({', '.join(arguments)});")
    predicate.from_memory(emitter, operation.result)


def store(emitter: Emitter, operation: StoreNdOp) -> None:
    """Emit ``store_nd`` to shared local memory."""
    fragment = predicate.to_memory(emitter, emitter.fragment(operation.value))
    renamed = fragment.renamed(tuple(f"in{i}" for i in range(len(fragment.names))))
    access = SlmAccess(operation.desc, renamed, emitter.subgroup)
    addresses = slm_addresses.addresses(emitter, operation)
    at = _variables_of(addresses)
    name = f"store_slm_{access.label}{_suffix(addresses)}"
    values = "".join(f", {fragment.c_type} {variable}" for variable in access.fragment.names)
    head = f"static void {name}(local {access.desc.dtype.opencl} *base, {PARAMETERS}{_declared(at)}{values})"
    _access_function(emitter, access, head, list(_written(emitter, access, _numbered(addresses))), "store")
    emitter.line(f"{name}({', '.join([access.call(emitter), *at, *fragment.names])});")


_Addresses = Sequence[Address]
"""Of each message its address in a register."""


def _variables_of(addresses: _Addresses) -> dict[str, int]:
    """The variables of addresses, each once, and the registers of each."""
    return {address.variable: address.count for address in addresses}


def _declared(variables: Mapping[str, int]) -> str:
    """Parameters for variables of addresses."""
    return "".join(f", {vector_type('uint', count)} at{i}" for i, count in enumerate(variables.values()))


def _numbered(addresses: _Addresses) -> _Addresses:
    """Addresses by the names that their variables have as parameters."""
    names = [*_variables_of(addresses)]
    return [replace(address, variable=f"at{names.index(address.variable)}") for address in addresses]


def _suffix(addresses: _Addresses) -> str:
    """Suffix of the name of an access function whose addresses are in registers."""
    if all(address.count == 1 for address in addresses):
        return "" if not addresses else "_kept" + "".join(f"_{address.distance}" for address in addresses)
    places = {name: "".join(str(address.place) for address in addresses if address.variable == name)
              for name in _variables_of(addresses)}
    return "_kept_at" + "".join(f"_{places[name]}{'' if len(places[name]) == count else f'_of_{count}'}"
                                for name, count in _variables_of(addresses).items())


def _access_function(emitter: Emitter, access: SlmAccess, head: str, fast: list[str], kind: str) -> None:
    """Define the access function: vectorized messages if aligned and in bounds, else single elements."""
    inside, lines = access.is_inside(), [head, "{"]
    if access.runs and inside:
        lines += [f"  if ({inside}) {{", *(f"    {line}" for line in fast), "    return;", "  }"]
    elif access.runs:
        lines += [f"  {line}" for line in fast]
    if inside or not access.runs:
        variables = range(len(access.fragment.names))
        lines += [f"  {line}" for variable in variables for line in _single(emitter, access, variable, kind)]
    emitter.function("\n".join([*lines, "}", ""]))


def _pointer(access: SlmAccess, run: Run, constant: str, words: int = 1) -> str:
    """Pointer to a run, as a vector of its words; for a per-lane run, to the lane's first word."""
    word = vector_type(UNSIGNED[8 * access.size * run.elements], words)
    offsets = [offset for offset in (access.start(), str(run.start)) if offset != "0"]
    if not run.together:
        offsets.append(access.lane_offset())
    at = " + ".join(["base", *offsets])
    return f"(local {constant}{word} *)({at})"


def _read(emitter: Emitter, access: SlmAccess, near: int, addresses: _Addresses) -> Iterator[str]:
    wide = visa.of(access.runs, access.size, access.desc.sg_map.lanes) if emitter.target.block_io else {}
    messages = [(access.runs[i].start * access.size, i, count) for i, count in wide.items()]
    if addresses:
        halves = visa.halves(access.runs, access.size, access.desc.sg_map.lanes)
        at = dict(zip(sorted((*wide, *halves)), addresses, strict=True))
        yield from visa.kept(emitter, f"base + {access.start()}", messages, [at[i] for i in wide], near)
        for i in halves:
            yield from visa.kept_half(_block_read(emitter, access, access.runs[i]), i, at[i])
        return
    if together := len(messages) > 1:
        yield from visa.together(f"base + {access.start()}", messages, near,
                                 immediate=emitter.target.immediate_offsets)
    for i, run in enumerate(access.runs):
        if i in wide:
            if not together:
                yield from visa.lines(emitter, f"base + {access.start()}", run.start * access.size, i, wide[i])
            continue
        if wide.get(i - 1) == 2:
            continue
        word, width = UNSIGNED[8 * access.size * run.elements], len(run.words)
        pointer = _pointer(access, run, "const ")
        value = _block_read(emitter, access, run) if run.together else \
            f"*{pointer}" if width == 1 else f"vload{width}(0, {pointer})"
        yield f"const {vector_type(word, width)} run{i} = {value};"


def _block_read(emitter: Emitter, access: SlmAccess, run: Run) -> str:
    """Expression that loads a run of all lanes together."""
    word = UNSIGNED[8 * access.size * run.elements]
    return f"{_side_by_side(emitter, access, word, len(run.words), 'read')}({_pointer(access, run, 'const ')})"


def _written(emitter: Emitter, access: SlmAccess, addresses: _Addresses) -> Iterator[str]:
    for i, run in enumerate(access.runs):
        word, width = UNSIGNED[8 * access.size * run.elements], len(run.words)
        yield f"const {vector_type(word, width)} run{i} = {_gathered(emitter, access, run, word)};"
        pointer = _pointer(access, run, "")
        if run.together:
            plain = f"{_side_by_side(emitter, access, word, width, 'write')}({pointer}, run{i});"
            yield from visa.stored_together(plain, f"run{i}", visa.stored_form(run, access.size), addresses[i]) \
                if addresses else [plain]
        elif width == 1 or access.is_aligned(run):  # SYCL's compiler makes vstore8 two stores
            plain = f"*{_pointer(access, run, '', width)} = run{i};"
            yield from visa.stored(plain, f"run{i}", addresses[i]) if addresses else [plain]
        else:
            yield f"vstore{width}(run{i}, 0, {pointer});"


def _gathered(emitter: Emitter, access: SlmAccess, run: Run, word: str) -> str:
    """Words of a run, extracted from a fragment's variables."""
    fragment, numbers = access.fragment, [number for group in run.words for number in group]
    count = fragment.width * fragment.per_lane
    if len(numbers) == count and numbers == list(range(numbers[0], numbers[0] + count)) and numbers[0] % count == 0:
        type_, variable = vector_type(word, len(run.words)), fragment.names[numbers[0] // count]
        if run.together and fragment.per_lane == 1 and (access.size, run.elements) == (2, 2) and \
                access.desc.sg_map.lanes == emitter.subgroup and \
                (interleave := interleaving(emitter, len(run.words))):
            return f"{interleave}(as_ushort{count}({variable}))"
        return f"as_{type_}({variable})"
    return _vector(word, [_whole_word(access, group, word) or _packed_word(
        [_element_bits(access, number) for number in group], access.size) for group in run.words])


def _whole_word(access: SlmAccess, numbers: Sequence[int], word: str) -> str:
    """The word of a fragment that has just these elements; empty if there is none. Intel's compiler takes words that
    are assembled of their own bytes apart, and moves each byte."""
    count, first = access.fragment.per_lane, numbers[0]
    if count == 1 or first % count or [*numbers] != [*range(first, first + count)]:
        return ""
    return f"as_{word}({access.fragment.words()[first // count]})"


def _side_by_side(emitter: Emitter, access: SlmAccess, word: str, width: int, kind: str) -> str:
    """Define an SLM block access of ``width`` words a lane, contiguous over all lanes; returns its name."""
    size = next(bits // 8 for bits, name in UNSIGNED.items() if name == word)
    number, lanes, c_type = "" if width == 1 else str(width), access.desc.sg_map.lanes, vector_type(word, width)
    name, builtin = f"slm_{kind}_{c_type}", f"intel_sub_group_block_{kind}{_BLOCK[size]}{number}"
    parts = [("" if width == 1 else f".s{i:x}", i * lanes) for i in range(width)]
    if kind == "read":
        head, call = f"static {c_type} {name}(local const {word} *from)", f"return {builtin}(from);"
        portable = ["from += get_sub_group_local_id();",
                 f"return {_vector(word, [f'from[{at}]' for _, at in parts])};"]
    else:
        head, call = f"static void {name}(local {word} *to, {c_type} value)", f"{builtin}(to, value);"
        portable = ["to += get_sub_group_local_id();", *(f"to[{at}] = value{part};" for part, at in parts)]
    body = ["#ifdef cl_intel_subgroup_local_block_io", f"  {call}", "#else",
            *(f"  {line}" for line in portable), "#endif"]
    emitter.function("\n".join([head, "{", *body, "}", ""]))
    return name


def _vector(scalar: str, values: Sequence[str]) -> str:
    return values[0] if len(values) == 1 else f"({vector_type(scalar, len(values))})({', '.join(values)})"


def _packed_word(elements: Sequence[str], size: int) -> str:
    """Concatenation of elements to one word, the first in its lowest bits."""
    if len(elements) == 1:
        return elements[0]
    return f"as_{UNSIGNED[8 * size * len(elements)]}({_vector(UNSIGNED[8 * size], elements)})"


def _element_bits(access: SlmAccess, number: int) -> str:
    """Element ``number`` of a fragment, as an unsigned integer of its size."""
    fragment, unsigned = access.fragment, UNSIGNED[8 * access.size]
    word = fragment.words()[number // fragment.per_lane]
    if fragment.per_lane == 1:
        return word if fragment.word == unsigned else f"as_{unsigned}({word})"
    return f"as_{vector_type(unsigned, fragment.per_lane)}({word}).s{number % fragment.per_lane:x}"


def _variables(access: SlmAccess) -> Iterator[str]:
    """Expressions of a fragment's variables, assembled from the runs that were read."""
    fragment, elements = access.fragment, {}
    for i, run in enumerate(access.runs):
        for position, group in enumerate(run.words):
            word = f"run{i}" if len(run.words) == 1 else f"run{i}.s{position:x}"
            for part, number in enumerate(group):
                elements[number] = word if run.elements == 1 else \
                    f"as_{vector_type(UNSIGNED[8 * access.size], run.elements)}({word}).s{part:x}"
    run_words = {group: f"run{i}" if len(run.words) == 1 else f"run{i}.s{position:x}"
                 for i, run in enumerate(access.runs) for position, group in enumerate(run.words)}
    count = fragment.width * fragment.per_lane
    for first in range(0, fragment.units * fragment.per_lane, count):
        numbers = tuple(range(first, first + count))
        run_of_variable = next((i for i, run in enumerate(access.runs) if sum(run.words, ()) == numbers), None)
        if run_of_variable is not None:
            yield f"as_{fragment.c_type}(run{run_of_variable})"
            continue
        groups = [numbers[i:i + fragment.per_lane] for i in range(0, count, fragment.per_lane)]
        words = [run_words.get(group) or _packed_word([elements[number] for number in group], access.size)
                 for group in groups]
        yield f"as_{fragment.c_type}({_vector(UNSIGNED[8 * access.size * fragment.per_lane], words)})"


def _single(emitter: Emitter, access: SlmAccess, variable: int, kind: str) -> Iterator[str]:
    """Element-wise access of one variable; out of bounds, loads give 0 and stores do nothing."""
    emitter.function(_POSITION)
    fragment, (row, column) = access.fragment, access.where()
    lanes, count = access.desc.sg_map, fragment.width * fragment.per_lane
    across = lanes.wi_layout[1]
    lane = "(int)get_sub_group_local_id()" + (f" % {lanes.lanes}" if access.repeats else "")
    y = f"y + {lane} / {across} * {lanes.wi_data[0]}" if lanes.wi_layout[0] > 1 else "y"
    x = f"x + {lane} % {across} * {lanes.wi_data[1]}" if across > 1 else "x"
    yield "{"
    yield f"  const int row = {y}, column = {x};"
    elements = []
    for number in range(variable * count, (variable + 1) * count):
        r, c = f"row + {row[0, number]}", f"column + {column[0, number]}"
        name = _bounds_checked_access(emitter, access, kind)
        described = f"base, height, width, pitch, step, {r}, {c}"
        if kind == "store":
            yield f"  {name}({described}, {_element_bits(access, number)});"
        elements.append(f"{name}({described})")
    if kind == "load":
        words = [_packed_word(elements[i:i + fragment.per_lane], access.size)
                 for i in range(0, count, fragment.per_lane)]
        value = _vector(UNSIGNED[8 * access.size * fragment.per_lane], words)
        yield f"  *out{variable} = as_{fragment.c_type}({value});"
    yield "}"


def _bounds_checked_access(emitter: Emitter, access: SlmAccess, kind: str) -> str:
    """Define a bounds-checked element access, and return its name."""
    element, unsigned, panels = access.desc.dtype.opencl, UNSIGNED[8 * access.size], access.panels
    name = f"{kind}_slm_{element}_of_{panels.height}x{panels.width}_panels_{panels.label}_{access.form}"
    inside = "(uint)y < (uint)height && (uint)x < (uint)width"
    at = access.position("y", "x")
    if kind == "load":
        text = (f"{CALL} static {unsigned} {name}(local const {element} *base, {PARAMETERS})\n{{\n"
                f"  return {inside} ? ((local const {unsigned} *)base)[{at}] : ({unsigned})0;\n}}\n")
    else:
        text = (f"{CALL} static void {name}(local {element} *base, {PARAMETERS}, {unsigned} value)\n{{\n"
                f"  if ({inside}) ((local {unsigned} *)base)[{at}] = value;\n}}\n")
    emitter.function(text)
    return name


RULES: dict[type[Operation], Rule] = {AllocOp: _allocate}
