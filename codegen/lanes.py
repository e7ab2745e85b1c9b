"""Blocks by single elements, for memory that block IO cannot reach; products by plain multiply-adds; layout changes.

Each needs a small function of the kernel's text, written once for each shape that occurs. Every lane computes which
elements are its own from the lane map; a block that lies wholly inside the array is read without checks.
"""

from __future__ import annotations

from typing import Any

from codegen.emitter import Emitter
from codegen.fragments import Descriptor, Fragment, vector_type, word_type
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


def _times(expression: str, factor: int) -> str:
    if expression == "0" or factor == 1:
        return expression
    return f"({expression}) * {factor}"


def _address(row: str, column: str, strided: bool) -> str:
    return f"base[({row}) * (long)pitch + {f'({column}) * (long)step' if strided else column}]"


def _signature(kind: str, desc: ops.TensorDesc) -> str:
    assert desc.sg_map is not None
    lanes = desc.sg_map
    rows, columns = desc.shape
    return (f"{kind}_{desc.dtype}_{rows}x{columns}_{desc.block.access}_lanes_{lanes.wi_layout[0]}x{lanes.wi_layout[1]}"
            f"_each_{lanes.wi_data[0]}x{lanes.wi_data[1]}")


def _head(desc: ops.TensorDesc) -> str:
    rows, columns = desc.shape
    assert desc.sg_map is not None
    row, column = _lane_origin(desc.sg_map)
    return (f"  const int lane = get_sub_group_local_id();\n"
            f"  const int row = y + {row}, column = x + {column};\n"
            f"  if (y >= 0 && x >= 0 && y + {rows} <= height && x + {columns} <= width) {{\n")


_PARAMETERS = "int height, int width, int pitch, int step, int y, int x"


def load(emitter: Emitter, operation: ops.LoadNdOp) -> None:
    """``load_nd`` element by element."""
    desc = ops.desc_of(operation.desc)
    assert desc.sg_map is not None
    fragment = emitter.fresh(operation.result)
    emitter.function(_load_function(desc))
    array, count = emitter.name(operation.result.name_hint), len(fragment.names)
    emitter.line(f"{fragment.c_type} {array}[{count}];")
    units = fragment.units // desc.block.array_length
    for block in range(desc.block.array_length):
        arguments = _arguments(emitter, operation.desc, block * desc.shape[1])
        emitter.line(f"{_signature('load', desc)}({arguments}, (private {fragment.word} *){array} + {block * units});")
    emitter.values[operation.result] = fragment.renamed(tuple(f"{array}[{i}]" for i in range(count)))


def _arguments(emitter: Emitter, operand: Any, columns: int) -> str:
    desc: Descriptor = emitter.values[operand]
    x = desc.column.plus(type(desc.column)("", columns))
    return f"{desc.array.name}, {desc.height}, {desc.width}, {desc.pitch}, {desc.step}, {desc.row}, {x}"


def _load_function(desc: ops.TensorDesc) -> str:
    assert desc.sg_map is not None
    lanes, strided = desc.sg_map, desc.block.access == "strided"
    word = word_type(desc.dtype, lanes.per_lane)
    words = _positions((desc.shape[0], desc.shape[1]), lanes)
    inside = [f"    out[{u}] = {_word([_address(f'row + {r}', f'column + {c}', strided) for r, c in word_], desc.dtype, word)};"
              for u, word_ in enumerate(words)]
    checked = [f"    out[{u}] = {_word([_checked(r, c, strided) for r, c in word_], desc.dtype, word)};"
               for u, word_ in enumerate(words)]
    return (f"static void {_signature('load', desc)}(global const {desc.dtype.opencl} *base, {_PARAMETERS}, "
            f"private {word} *out)\n{{\n" + _head(desc) + "\n".join(inside) + "\n  } else {\n" + "\n".join(checked)
            + "\n  }\n}\n")


def _checked(row: int, column: int, strided: bool) -> str:
    address = _address(f"row + {row}", f"column + {column}", strided)
    return f"({_inside(row, column)} ? {address} : 0)"


def _inside(row: int, column: int) -> str:
    return f"row + {row} >= 0 && row + {row} < height && column + {column} >= 0 && column + {column} < width"


def _word(elements: list[str], dtype: DType, word: str) -> str:
    """A word of several elements, the first in its lowest bits."""
    if len(elements) == 1:
        return elements[0]
    unsigned = {8: "uchar", 16: "ushort"}[dtype.bits]
    read = f"as_{unsigned}" if dtype.opencl != unsigned else ""
    if dtype is f16 or dtype.bits == 8:
        cast = [f"{read}(({dtype.opencl})({element}))" for element in elements]
    else:
        cast = elements
    return " | ".join(f"({word}){element}" + (f" << {i * dtype.bits}" if i else "") for i, element in enumerate(cast))


def store(emitter: Emitter, operation: ops.StoreNdOp) -> None:
    """``store_nd`` element by element."""
    desc = ops.desc_of(operation.desc)
    assert desc.sg_map is not None
    if desc.sg_map.per_lane != 1:
        raise TargetError("a packed fragment cannot be stored element by element")
    emitter.function(_store_function(desc))
    fragment, array = emitter.fragment(operation.value), emitter.name("stored")
    emitter.line(f"{fragment.c_type} {array}[{len(fragment.names)}] = {{ {', '.join(fragment.names)} }};")
    arguments = _arguments(emitter, operation.desc, 0)
    emitter.line(f"{_signature('store', desc)}({arguments}, (private {fragment.word} *){array});")


def _store_function(desc: ops.TensorDesc) -> str:
    assert desc.sg_map is not None
    strided = desc.block.access == "strided"
    positions = [word[0] for word in _positions((desc.shape[0], desc.shape[1]), desc.sg_map)]
    inside = [f"    {_address(f'row + {r}', f'column + {c}', strided)} = value[{u}];" for u, (r, c) in enumerate(positions)]
    checked = [f"    if ({_inside(r, c)}) {_address(f'row + {r}', f'column + {c}', strided)} = value[{u}];"
               for u, (r, c) in enumerate(positions)]
    return (f"static void {_signature('store', desc)}(global {desc.dtype.opencl} *base, {_PARAMETERS}, "
            f"private const {desc.dtype.opencl} *value)\n{{\n" + _head(desc) + "\n".join(inside) + "\n  } else {\n"
            + "\n".join(checked) + "\n  }\n}\n")


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
    emitter.function(f"static {c.c_type} {name}({', '.join([*a_parts, *b_parts, f'{c.c_type} c'])})\n{{\n"
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
