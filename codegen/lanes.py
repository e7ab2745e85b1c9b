"""Blocks by single elements, for memory that block IO cannot reach; products by plain multiply-adds; layout changes.

Each needs a small function of the kernel's text, written once for each shape that occurs. Every lane computes which
elements are its own from the lane map; a block that lies wholly inside the array is read without checks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from codegen.emitter import Emitter
from codegen.fragments import Coordinate, Descriptor, Fragment, vector_type
from xegpu import layouts
from xegpu.dialect import ops
from xegpu.dtypes import DType, bf16, f16, tf32
from xegpu.errors import TargetError
from xegpu.layouts import LaneMap


def _positions(shape: tuple[int, int], lanes: LaneMap) -> list[list[tuple[int, int]]]:
    """For each word of a fragment the (row, column) of its elements, from those of the lane's first element."""
    row, column = layouts.positions(shape, lanes)
    return [[(int(row[0, unit, e]), int(column[0, unit, e])) for e in range(lanes.per_lane)]
            for unit in range(row.shape[1])]


def _lane_origin(lanes: LaneMap) -> tuple[str, str]:
    """Row and column of a lane's first element, as expressions of ``lane``."""
    rows, columns = lanes.wi_layout
    row = "0" if rows == 1 else f"lane / {columns}" if columns > 1 else "lane"
    column = "0" if columns == 1 else f"lane % {columns}" if rows > 1 else "lane"
    return _times(row, lanes.wi_data[0]), _times(column, lanes.wi_data[1])


def _sum(first: str, second: str) -> str:
    return first if second == "0" else f"{first} + {second}"


def _times(expression: str, factor: int) -> str:
    if expression == "0" or factor == 1:
        return expression
    return f"({expression}) * {factor}"


def _element(row: int, column: int, strided: bool) -> str:
    """An element at a constant distance from the lane's first, which ``at`` points to."""
    down = [] if row == 0 else ["pitch" if row == 1 else f"{row} * (long)pitch"]
    across = [] if column == 0 else [f"{column} * (long)step" if strided else str(column)]
    return f"at[{' + '.join(down + across) or '0'}]"


@dataclass(frozen=True)
class _Piece:
    """What one variable of a fragment covers: rows and columns from its first unit, and where each word lies."""

    desc: ops.TensorDesc
    rows: int
    columns: int
    words: tuple[tuple[tuple[int, int], ...], ...]

    @property
    def strided(self) -> bool:
        """Whether elements of a row are apart."""
        return self.desc.block.access == "strided"

    def name(self, kind: str) -> str:
        """The name of the function that loads or stores it."""
        lanes = self.desc.sg_map
        assert lanes is not None
        return (f"{kind}_{self.desc.dtype}_{self.rows}x{self.columns}_{self.desc.block.access}"
                f"_lanes_{lanes.wi_layout[0]}x{lanes.wi_layout[1]}_each_{lanes.wi_data[0]}x{lanes.wi_data[1]}")

    def head(self, const: str) -> str:
        """The lane's first element, and the branch for pieces that lie wholly inside."""
        assert self.desc.sg_map is not None
        row, column = _lane_origin(self.desc.sg_map)
        first = "column * (long)step" if self.strided else "column"
        return (f"  const int lane = get_sub_group_local_id();\n"
                f"  const int row = {_sum('y', row)}, column = {_sum('x', column)};\n"
                f"  global {const}{self.desc.dtype.opencl} *at = base + row * (long)pitch + {first};\n"
                f"  if (y >= 0 && x >= 0 && y + {self.rows} <= height && x + {self.columns} <= width) {{\n")


def _pieces(desc: ops.TensorDesc, width: int) -> list[tuple[int, int, _Piece]]:
    """A block's variables of ``width`` words each: row and column of their first unit, and what they cover."""
    assert desc.sg_map is not None
    lanes = desc.sg_map
    words = _positions((desc.shape[0], desc.shape[1]), lanes)
    pieces = []
    for start in range(0, len(words), width):
        chunk = words[start:start + width]
        top, left = chunk[0][0]
        relative = tuple(tuple((r - top, c - left) for r, c in word) for word in chunk)
        last = [max(axis) for axis in zip(*(position for word in relative for position in word), strict=True)]
        # A piece ends where the unit of its last word does: the elements of a unit lie on other lanes.
        rows = last[0] - (lanes.wi_data[0] - 1) + lanes.unit[0]
        columns = last[1] - (lanes.wi_data[1] - 1) + lanes.unit[1]
        pieces.append((top, left, _Piece(desc, rows, columns, relative)))
    return pieces


_PARAMETERS = "int height, int width, int pitch, int step, int y, int x"
CALL = "XETILE_CALL"
"""What stands before a function's type; a prelude may define it to keep calls as calls."""


def load(emitter: Emitter, operation: ops.LoadNdOp) -> None:
    """``load_nd`` element by element."""
    desc = ops.desc_of(operation.desc)
    fragment = emitter.fresh(operation.result)
    expressions = []
    for block in range(desc.block.array_length):
        for top, left, piece in _pieces(desc, fragment.width):
            emitter.function(_load_function(piece, fragment))
            arguments = _arguments(emitter, operation.desc, top, left + block * desc.shape[1])
            expressions.append(f"{piece.name('load')}({arguments})")
    emitter.assign(operation.result, fragment, expressions)


def _arguments(emitter: Emitter, operand: Any, rows: int, columns: int) -> str:
    desc: Descriptor = emitter.values[operand]
    y, x = desc.row.plus(Coordinate("", rows)), desc.column.plus(Coordinate("", columns))
    return f"{desc.array.name}, {desc.height}, {desc.width}, {desc.pitch}, {desc.step}, {y}, {x}"


def _load_function(piece: _Piece, fragment: Fragment) -> str:
    dtype, word, strided = piece.desc.dtype, fragment.word, piece.strided
    inside = [_word([_element(r, c, strided) for r, c in positions], dtype, word) for positions in piece.words]
    checked = [_word([_checked(r, c, strided) for r, c in positions], dtype, word) for positions in piece.words]
    head = f"{CALL} static {fragment.c_type} {piece.name('load')}(global const {dtype.opencl} *base, {_PARAMETERS})\n{{\n"
    return (head + piece.head("const ") + f"    return {_vector(fragment.c_type, inside)};\n  }}\n"
            f"  return {_vector(fragment.c_type, checked)};\n}}\n")


def _vector(c_type: str, words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"({c_type})(\n      " + ",\n      ".join(words) + ")"


def _checked(row: int, column: int, strided: bool) -> str:
    return f"({_inside(row, column)} ? {_element(row, column, strided)} : 0)"


def _inside(row: int, column: int) -> str:
    """Whether an element is inside the array: as unsigned numbers, negative indices are large."""
    return f"(uint)({_sum('row', str(row))}) < (uint)height && (uint)({_sum('column', str(column))}) < (uint)width"


def _word(elements: list[str], dtype: DType, word: str) -> str:
    """A word of several elements, the first in its lowest bits."""
    if len(elements) == 1:
        return elements[0]
    unsigned = {8: "uchar", 16: "ushort"}[dtype.bits]
    parts = elements if dtype.opencl == unsigned else [f"as_{unsigned}(({dtype.opencl})({e}))" for e in elements]
    return " | ".join(f"({word}){part}" + (f" << {i * dtype.bits}" if i else "") for i, part in enumerate(parts))


def store(emitter: Emitter, operation: ops.StoreNdOp) -> None:
    """``store_nd`` element by element."""
    desc, fragment = ops.desc_of(operation.desc), emitter.fragment(operation.value)
    if fragment.per_lane != 1:
        raise TargetError("a packed fragment cannot be stored element by element")
    for (top, left, piece), name in zip(_pieces(desc, fragment.width), fragment.names, strict=True):
        emitter.function(_store_function(piece, fragment))
        emitter.line(f"{piece.name('store')}({_arguments(emitter, operation.desc, top, left)}, {name});")


def _store_function(piece: _Piece, fragment: Fragment) -> str:
    values = fragment.renamed(("value",)).words() if fragment.width > 1 else ["value"]
    places = [(word[0], value) for word, value in zip(piece.words, values, strict=True)]
    inside = [f"    {_element(r, c, piece.strided)} = {value};" for (r, c), value in places]
    checked = [f"    if ({_inside(r, c)}) {_element(r, c, piece.strided)} = {value};" for (r, c), value in places]
    head = (f"{CALL} static void {piece.name('store')}(global {fragment.word} *base, {_PARAMETERS}, "
            f"{fragment.c_type} value)\n{{\n")
    return head + piece.head("") + "\n".join(inside) + "\n  } else {\n" + "\n".join(checked) + "\n  }\n}\n"


def mad_function(emitter: Emitter, a: Fragment, b: Fragment, c: Fragment) -> str:
    """The name of a function for D = C + A x B of these fragments, lane ``k`` holding column ``k`` of A.

    Sums are float for floats, rounded once to the accumulator's type, and int for integers.
    """
    depth, rows, result = b.units, a.units, c.dtype
    name = f"mad_{a.dtype}_{b.dtype}_{result}_{rows}x{depth}"
    total = vector_type("int" if not result.is_float else "float", rows)
    a_parts = [f"{a.c_type} a{i}" for i in range(len(a.names))]
    b_parts = [f"{b.c_type} b{i}" for i in range(len(b.names))]
    lines = [f"  const {total} wide = {_widened('a0', a.dtype, rows, total)};",
             f"  {total} sum = {_widened('c', result, rows, total)};"]
    words = b.renamed(tuple(f"b{i}" for i in range(len(b.names)))).words()
    for k, word in enumerate(words):
        scalar = "int" if not result.is_float else "float"
        parts = [f"sub_group_broadcast({_component('wide', m, rows)}, {k})" for m in range(rows)]
        value = _widened(word, b.dtype, 1, scalar)
        spread = f"({total})({', '.join(parts)})"
        lines.append(f"  sum = fma({spread}, ({total})({value}), sum);" if result.is_float
                     else f"  sum += {spread} * ({total})({value});")
    lines.append(f"  return {_narrowed('sum', result, rows)};")
    emitter.function(f"{CALL} static {c.c_type} {name}({', '.join([*a_parts, *b_parts, f'{c.c_type} c'])})\n{{\n"
                     + "\n".join(lines) + "\n}\n")
    return name


def _component(name: str, position: int, width: int) -> str:
    return name if width == 1 else f"{name}.s{position:x}"


def _widened(value: str, dtype: DType, width: int, total: str) -> str:
    number = "" if width == 1 else str(width)
    if dtype is bf16:
        return f"intel_convert_as_bfloat16{number}_float{number}({value})"
    if dtype is tf32:
        return f"as_float{number}(as_uint{number}({value}) & 0xffffe000u)"
    return value if total.startswith(dtype.opencl) else f"convert_{total}({value})"


def _narrowed(value: str, dtype: DType, width: int) -> str:
    number = "" if width == 1 else str(width)
    if dtype is bf16:
        return f"intel_convert_bfloat16{number}_as_ushort{number}({value})"
    return f"convert_half{number}({value})" if dtype is f16 else value


def convert_layout(emitter: Emitter, operation: ops.ConvertLayoutOp) -> None:
    """A fragment under another lane map, by shuffles.

    For each element of the result, the lane and the word that hold it; words that only some lanes need are shuffled by
    all, and chosen afterwards.
    """
    assert operation.source_map is not None and operation.target_map is not None
    source, target, shape = operation.source_map.data, operation.target_map.data, operation.block_shape()
    fragment = emitter.fragment(operation.source)
    if source.per_lane != 1:
        raise TargetError("a layout of packed words converts into no other")
    result = emitter.fresh(operation.result)
    row, column = layouts.positions(shape, target)
    words = fragment.words()
    bits = {8: "uchar", 16: "ushort", 32: "uint"}[fragment.dtype.bits]
    lane = emitter.name("lane_id")
    emitter.line(f"const uint {lane} = get_sub_group_local_id();")
    across = shape[1] // source.unit[1]
    made = []
    for unit in range(row.shape[1]):
        parts = []
        for e in range(target.per_lane):
            r, c = row[:, unit, e], column[:, unit, e]
            holder = (r % source.unit[0]) * source.wi_layout[1] + c % source.unit[1]
            index = r // source.unit[0] * across + c // source.unit[1]
            parts.append(_fetched(words, [int(h) for h in holder], [int(i) for i in index], lane, bits))
        made.append(_joined(parts, fragment.dtype, result))
    width = result.width
    groups = [made[i:i + width] for i in range(0, len(made), width)]
    emitter.assign(operation.result, result, [f"({result.c_type})({', '.join(group)})" for group in groups])


def _fetched(words: list[str], holder: list[int], index: list[int], lane: str, bits: str) -> str:
    """The bits of one element for every lane: from lane ``holder``, word ``index``."""
    from_lane = _table(holder, lane)
    fetched = {i: f"intel_sub_group_shuffle((uint)as_{bits}({words[i]}), {from_lane})" for i in sorted(set(index))}
    first, *others = fetched.items()
    expression = first[1]
    for i, value in others:
        lanes_of_i = sum(1 << position for position, at in enumerate(index) if at == i)
        expression = f"((({lanes_of_i:#x}u >> {lane}) & 1u) ? {value} : {expression})"
    return expression


def _table(values: list[int], lane: str) -> str:
    """``values[lane]`` as arithmetic: four bits a lane, looked up in one or two words."""
    step = values[1] - values[0] if len(values) > 1 else 0
    if all(value == values[0] + step * i for i, value in enumerate(values)):
        return f"{values[0]}u" if step == 0 else f"({lane} * {step}u + {values[0]}u)" if step > 0 else "0u"
    packed = sum(value << (4 * i) for i, value in enumerate(values))
    return f"((uint)({packed:#x}ul >> ({lane} * 4)) & 15u)"


def _joined(parts: list[str], dtype: DType, result: Fragment) -> str:
    bits = {8: "uchar", 16: "ushort", 32: "uint"}[dtype.bits]
    if len(parts) == 1:
        return f"as_{dtype.opencl}(({bits})({parts[0]}))"
    return f"({result.word})(" + " | ".join(f"({part}) << {i * dtype.bits}" for i, part in enumerate(parts)) + ")"
