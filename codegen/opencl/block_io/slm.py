"""Block IO on shared local memory (SLM), in OpenCL C.

An array is kept in panels (:mod:`xegpu.layout.slm_panels`). A block of which all lanes together, or each lane by
itself, have contiguous words is moved by the fewest messages, 256 or 512 bytes each; any other, and one that hangs
over the edge of its array, is moved element by element.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Any

import numpy as np
from xdsl.dialects.memref import AllocOp
from xdsl.ir import Operation, SSAValue

from codegen.opencl.arith import predicate
from codegen.opencl.block_io import slm_visa
from codegen.opencl.emitter import Emitter, Rule, wrapping
from codegen.opencl.prelude.macros import CALL
from codegen.opencl.values import UNSIGNED, ArrayValue, Descriptor, Fragment, vector_type
from xegpu.analysis.divisibility import multiple_of
from xegpu.analysis.memory_access import geometry
from xegpu.analysis.slm import panels_of
from xegpu.dialect.block_io import CreateNdTdescOp, LoadNdOp, StoreNdOp, desc_of
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.memref import static_form
from xegpu.ir.use_def import array_of, root_definitions
from xegpu.layout import lane_map
from xegpu.layout.slm_panels import Panels, Run, runs

_LINE = 64
_BLOCK = {1: "_uc", 2: "_us", 4: ""}


def _allocate(emitter: Emitter, operation: AllocOp) -> None:
    type_ = operation.memref.type
    dtype, static = of_mlir(type_.element_type), static_form(type_)  # type: ignore[attr-defined]
    assert static is not None
    name, count = emitter.name(operation.memref.name_hint or "slm"), int(np.prod(static[0]))
    emitter.line(f"local {dtype.opencl} {name}[{count}] __attribute__((aligned({_LINE})));")
    sizes, strides = (tuple(map(str, numbers)) for numbers in static)
    emitter.values[operation.memref] = ArrayValue(name, dtype, sizes, strides, "local")


@dataclass(frozen=True)
class _Access:
    """Facts about the descriptor of an SLM load or store.

    Attributes:
        operand: the descriptor.
        fragment: the variables that are loaded or stored.
        subgroup: lanes of the subgroup, over which a map of fewer lanes repeats.
    """

    operand: SSAValue
    fragment: Fragment
    subgroup: int

    @cached_property
    def desc(self) -> Any:
        """The descriptor's parameters."""
        return desc_of(self.operand)

    @cached_property
    def maker(self) -> CreateNdTdescOp:
        """Operation that creates the descriptor; one of several that are equal."""
        owner = next(iter(root_definitions(self.operand))).owner
        assert isinstance(owner, CreateNdTdescOp)
        return owner

    @cached_property
    def panels(self) -> Panels:
        """Panel layout of the matrix in SLM."""
        owner = array_of(self.maker.source).owner
        assert isinstance(owner, AllocOp)
        return panels_of(owner)

    @cached_property
    def form(self) -> str:
        """Relation of the descriptor's dimensions to the array's: own, exchanged or other."""
        return geometry(self.maker)

    @property
    def size(self) -> int:
        """Element size in bytes."""
        return int(self.desc.dtype.bytes)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the footprint; array blocks lie side by side."""
        return self.desc.shape[0], self.desc.shape[1] * self.desc.block.array_length

    @property
    def label(self) -> str:
        """Suffix that makes the access function's name unique."""
        lanes, panels = self.desc.sg_map, self.panels
        return (f"{self.desc.dtype}_{self.shape[0]}x{self.shape[1]}_{self.desc.block.array_length}_of_{panels.height}x"
                f"{panels.width}_panels_{panels.rows}x{panels.columns}_{self.form}"
                f"_lanes_{lanes.wi_layout[0]}x{lanes.wi_layout[1]}_each_{lanes.wi_data[0]}x{lanes.wi_data[1]}"
                f"_by_{self.aligned}{'_in' if self.in_panel else ''}"
                f"{'' if self.desc.block.boundary_check else '_inside'}")

    def where(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Row and column in the block of each element of the fragment, as arrays ``[lanes, elements]``."""
        rows, columns = self.desc.shape
        row, column = lane_map.positions((rows, columns), self.desc.sg_map)
        blocks = range(self.desc.block.array_length)
        flat = [array.reshape(array.shape[0], -1) for array in (row, column)]
        return np.hstack([flat[0] for _ in blocks]), np.hstack([flat[1] + block * columns for block in blocks])

    @cached_property
    def multiples(self) -> tuple[int, int]:
        """Known divisors of the descriptor's row and column offsets; 0 for the offset 0."""
        row, column = multiple_of(self.operand, axis=-2), multiple_of(self.operand, axis=-1)
        return (row, column) if self.form == "own" else (column, row)

    @cached_property
    def aligned(self) -> int:
        """Known alignment of the descriptor's first element in bytes; 0 if it may straddle panels."""
        if self.form == "other" or (not self.in_panel and any(
                multiple % unit for multiple, unit in zip(self.multiples, self.panels.unit, strict=True))):
            return 0
        row, column = self.panels.weights
        weights = [multiple * weight * self.size for multiple, weight in zip(
            self.multiples, (row, self.panels.rows if self.in_panel else column), strict=True)]
        return gcd(_LINE, *weights, self.panels.height * self.panels.width * self.size)

    @cached_property
    def in_panel(self) -> bool:
        """Whether the block begins in the midst of a panel, and ends there."""
        (row, column), (rows, columns), width = self.multiples, self.panels.unit, self.shape[1]
        return self.form == "own" and not self.panels.is_row_major and row % rows == 0 and \
            column % columns != 0 and column % width == 0 and columns % width == 0

    @cached_property
    def runs(self) -> list[Run]:
        """Runs of contiguous words, one message each; empty if it is accessed element-wise."""
        if not self.aligned or self.repeats:
            return []
        row, column = self.where() if self.form == "own" else self.where()[::-1]
        found = runs(self.panels.position(row, column), self.size, self.aligned)
        return found if all(run.together for run in found) or self.lane_weights else []

    @property
    def repeats(self) -> bool:
        """Whether lanes hold replicated elements."""
        return bool(self.desc.sg_map.lanes < self.subgroup)

    @cached_property
    def lane_weights(self) -> tuple[int, int] | None:
        """Weights of a lane's row and column (in the map) in its offset from lane 0."""
        row, column = self.where() if self.form == "own" else self.where()[::-1]
        begins = self.panels.position(row, column)[:, 0]
        begins, across = begins - begins[0], self.desc.sg_map.wi_layout[1]
        down = int(begins[across]) if len(begins) > across else 0
        right = int(begins[1]) if across > 1 else 0
        lane = np.arange(len(begins))
        return (down, right) if np.array_equal(lane // across * down + lane % across * right, begins) else None

    def start(self) -> str:
        """Offset expression of the block's first element."""
        y, x = ("y", "x") if self.form == "own" else ("x", "y")
        if self.in_panel:
            (_, columns), (row, column) = self.panels.unit, self.panels.weights
            return f"{_times('y', row)} + x / {columns} * {columns * column} + x % {columns} * {self.panels.rows}"
        return " + ".join(_times(name, weight) for name, weight in zip((y, x), self.panels.weights, strict=True))

    def position(self, row: str, column: str) -> str:
        """Offset expression of an element of the matrix."""
        if self.form == "other":
            return f"({row}) * pitch + ({column}) * step"
        down, across = (row, column) if self.form == "own" else (column, row)
        return f"slm_position({down}, {across}, {self.panels.height}, {self.panels.rows}, {self.panels.columns})"

    def call(self, emitter: Emitter) -> str:
        """Arguments of the access function: the matrix and the block's offsets."""
        desc: Descriptor = emitter.values[self.operand]
        return (f"{desc.array.name}, {desc.height}, {desc.width}, {desc.pitch}, {desc.step}, "
                f"{wrapping(desc.row)}, {wrapping(desc.column)}")

    def is_inside(self) -> str:
        """C condition: entirely in bounds; empty if that is known statically."""
        if not self.desc.block.boundary_check:
            return ""
        return f"y >= 0 && x >= 0 && y <= height - {self.shape[0]} && x <= width - {self.shape[1]}"


_PARAMETERS = "int height, int width, int pitch, int step, int y, int x"
_POSITION = """static int slm_position(int row, int column, int height, int rows, int columns)
{
  return column / columns * (height * columns) + row / rows * (rows * columns) + column % columns * rows + row % rows;
}
"""


def _times(name: str, weight: int) -> str:
    return name if weight == 1 else f"{name} * {weight}"


def load(emitter: Emitter, operation: LoadNdOp) -> None:
    """Emit ``load_nd`` from shared local memory."""
    fragment = predicate.in_memory(emitter.fresh(operation.result))
    access = _Access(operation.desc, fragment, emitter.subgroup)
    emitter.values[operation.result] = fragment
    name = f"load_slm_{access.label}"
    results = "".join(f", private {fragment.c_type} *out{i}" for i in range(len(fragment.names)))
    head = f"static void {name}(local const {access.desc.dtype.opencl} *base, {_PARAMETERS}{results})"
    values = enumerate(_variables(access)) if access.runs else ()
    fast = [*_read(emitter, access, slm_visa.bytes_near(operation)), *(f"*out{i} = {value};" for i, value in values)]
    _function(emitter, access, head, fast, "load")
    emitter.line(f"{fragment.c_type} {', '.join(fragment.names)};")
    emitter.line(f"{name}({access.call(emitter)}, {', '.join(f'&{variable}' for variable in fragment.names)});")
    predicate.from_memory(emitter, operation.result)


def store(emitter: Emitter, operation: StoreNdOp) -> None:
    """Emit ``store_nd`` to shared local memory."""
    fragment = predicate.to_memory(emitter, emitter.fragment(operation.value))
    renamed = fragment.renamed(tuple(f"in{i}" for i in range(len(fragment.names))))
    access = _Access(operation.desc, renamed, emitter.subgroup)
    name = f"store_slm_{access.label}"
    values = "".join(f", {fragment.c_type} {variable}" for variable in access.fragment.names)
    head = f"static void {name}(local {access.desc.dtype.opencl} *base, {_PARAMETERS}{values})"
    _function(emitter, access, head, list(_written(emitter, access)), "store")
    emitter.line(f"{name}({access.call(emitter)}, {', '.join(fragment.names)});")


def _function(emitter: Emitter, access: _Access, head: str, fast: list[str], kind: str) -> None:
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


def _pointer(access: _Access, run: Run, constant: str, words: int = 1) -> str:
    """Pointer to a run, as a vector of its words; for a per-lane run, to the lane's first word."""
    word = vector_type(UNSIGNED[8 * access.size * run.elements], words)
    offsets = [offset for offset in (access.start(), str(run.start)) if offset != "0"]
    if not run.together:
        offsets.append(_of_lane(access))
    at = " + ".join(["base", *offsets])
    return f"(local {constant}{word} *)({at})"


def _of_lane(access: _Access) -> str:
    """Offset of a lane's first element from lane 0's."""
    weights, across, lane = access.lane_weights, access.desc.sg_map.wi_layout[1], "(int)get_sub_group_local_id()"
    assert weights is not None
    down = "" if weights[0] == 0 else f"{lane} * {weights[0]}" if across == 1 else f"{lane} / {across} * {weights[0]}"
    right = "" if weights[1] == 0 else f"{lane} % {across} * {weights[1]}"
    return " + ".join(part for part in (down, right) if part) or "0"


def _read(emitter: Emitter, access: _Access, near: int) -> Iterator[str]:
    wide = slm_visa.of(access.runs, access.size, access.desc.sg_map.lanes) if emitter.target.block_io else {}
    messages = [(access.runs[i].start * access.size, i, count) for i, count in wide.items()]
    if together := len(messages) > 1 and not emitter.target.immediate_offsets:
        yield from slm_visa.together(f"base + {access.start()}", messages, near)
    for i, run in enumerate(access.runs):
        if i in wide:
            if not together:
                yield from slm_visa.lines(emitter, f"base + {access.start()}", run.start * access.size, i, wide[i])
            continue
        if wide.get(i - 1) == 2:
            continue
        word, width = UNSIGNED[8 * access.size * run.elements], len(run.words)
        pointer = _pointer(access, run, "const ")
        value = f"{_side_by_side(emitter, access, word, width, 'read')}({pointer})" if run.together else \
            f"*{pointer}" if width == 1 else f"vload{width}(0, {pointer})"
        yield f"const {vector_type(word, width)} run{i} = {value};"


def _written(emitter: Emitter, access: _Access) -> Iterator[str]:
    for i, run in enumerate(access.runs):
        word, width = UNSIGNED[8 * access.size * run.elements], len(run.words)
        yield f"const {vector_type(word, width)} run{i} = {_gathered(access, run, word)};"
        pointer = _pointer(access, run, "")
        if run.together:
            yield f"{_side_by_side(emitter, access, word, width, 'write')}({pointer}, run{i});"
        elif width == 1 or _is_aligned(access, run):  # SYCL's compiler makes vstore8 two stores
            yield f"*{_pointer(access, run, '', width)} = run{i};"
        else:
            yield f"vstore{width}(run{i}, 0, {pointer});"


def _is_aligned(access: _Access, run: Run) -> bool:
    """Whether a run's words are naturally aligned on every lane."""
    weights = access.lane_weights
    assert weights is not None
    offsets = (access.aligned, *(size * access.size for size in (run.start, *weights)))
    return not any(offset % (len(run.words) * run.elements * access.size) for offset in offsets)


def _gathered(access: _Access, run: Run, word: str) -> str:
    """Words of a run, extracted from a fragment's variables."""
    fragment, numbers = access.fragment, [number for group in run.words for number in group]
    count = fragment.width * fragment.per_lane
    if len(numbers) == count and numbers == list(range(numbers[0], numbers[0] + count)) and numbers[0] % count == 0:
        return f"as_{vector_type(word, len(run.words))}({fragment.names[numbers[0] // count]})"
    return _vector(word, [_joined([_element(access, number) for number in group], access.size) for group in run.words])


def _side_by_side(emitter: Emitter, access: _Access, word: str, width: int, kind: str) -> str:
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


def _joined(elements: Sequence[str], size: int) -> str:
    """Concatenation of elements to one word, the first in its lowest bits."""
    if len(elements) == 1:
        return elements[0]
    return f"as_{UNSIGNED[8 * size * len(elements)]}({_vector(UNSIGNED[8 * size], elements)})"


def _element(access: _Access, number: int) -> str:
    """Element ``number`` of a fragment, as an unsigned integer of its size."""
    fragment, unsigned = access.fragment, UNSIGNED[8 * access.size]
    word = fragment.words()[number // fragment.per_lane]
    if fragment.per_lane == 1:
        return word if fragment.word == unsigned else f"as_{unsigned}({word})"
    return f"as_{vector_type(unsigned, fragment.per_lane)}({word}).s{number % fragment.per_lane:x}"


def _variables(access: _Access) -> Iterator[str]:
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
        words = [run_words.get(group) or _joined([elements[number] for number in group], access.size)
                 for group in groups]
        yield f"as_{fragment.c_type}({_vector(UNSIGNED[8 * access.size * fragment.per_lane], words)})"


def _single(emitter: Emitter, access: _Access, variable: int, kind: str) -> Iterator[str]:
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
        name = _checked(emitter, access, kind)
        described = f"base, height, width, pitch, step, {r}, {c}"
        if kind == "store":
            yield f"  {name}({described}, {_element(access, number)});"
        elements.append(f"{name}({described})")
    if kind == "load":
        words = [_joined(elements[i:i + fragment.per_lane], access.size) for i in range(0, count, fragment.per_lane)]
        value = _vector(UNSIGNED[8 * access.size * fragment.per_lane], words)
        yield f"  *out{variable} = as_{fragment.c_type}({value});"
    yield "}"


def _checked(emitter: Emitter, access: _Access, kind: str) -> str:
    """Define a bounds-checked element access, and return its name."""
    element, unsigned, panels = access.desc.dtype.opencl, UNSIGNED[8 * access.size], access.panels
    name = f"{kind}_slm_{element}_of_{panels.height}x{panels.width}_panels_{panels.rows}x{panels.columns}_{access.form}"
    inside = "(uint)y < (uint)height && (uint)x < (uint)width"
    at = access.position("y", "x")
    if kind == "load":
        text = (f"{CALL} static {unsigned} {name}(local const {element} *base, {_PARAMETERS})\n{{\n"
                f"  return {inside} ? ((local const {unsigned} *)base)[{at}] : ({unsigned})0;\n}}\n")
    else:
        text = (f"{CALL} static void {name}(local {element} *base, {_PARAMETERS}, {unsigned} value)\n{{\n"
                f"  if ({inside}) ((local {unsigned} *)base)[{at}] = value;\n}}\n")
    emitter.function(text)
    return name


RULES: dict[type[Operation], Rule] = {AllocOp: _allocate}
