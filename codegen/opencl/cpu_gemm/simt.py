"""Portable SIMT fallback of fused load and mad for CPUs, in OpenCL C with one vector element per lane.

Where the driver supports them, micro-kernels are called instead (:mod:`codegen.opencl.cpu_gemm`). The portable text is
for other compilers, other types, a middling number of rows, and strides:

    for (int k = first; k < end; ++k) { b[k * 4 + 0] = B[(row + k) * pitch + column + lane]; ... }     once
    for (int k = first; k < end; ++k) {                                                  a few rows at a time
      XETILE_FETCH(&B[(row + K + k) * pitch + column]);
      const float b0 = b[k * 4 + 0], ...;  float a0;
      a0 = A0[k]; c0 = fma(a0, b0, c0); c1 = fma(a0, b1, c1); ...
    }

A subgroup's lanes are the elements of a vector register, along N. B is copied where its elements are widened or
strided, and at edges; the rows that the next step of K copies are prefetched, a line at a time, since they are pages
apart, which no hardware prefetcher follows. Else the rows of B are read in place, without the first loop: L2 is fast
enough. Elements of A are uniform, and one instruction broadcasts each. As many accumulators as fit into registers
iterate over all of K; each is a named variable, since a vector of several would be split and joined in each step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from xdsl.ir import Operation

from codegen.opencl.cpu_gemm import define, function_call
from codegen.opencl.cpu_gemm.macrokernel import parts_of
from codegen.opencl.cpu_gemm.zero_padding import ZeroPadding
from codegen.opencl.emitter import NO_UNROLL, Emitter, Rule, atom, wrapping
from codegen.opencl.prelude.macros import FETCH, WHOLE
from codegen.opencl.values import Descriptor, narrowed, sum_type, widened
from xegpu.dialect.block_io import desc_of
from xegpu.dialect.dpas import LoadMadOp
from xegpu.ir.dtypes import DType, f32, f64
from xegpu.target.gemm_microkernel import LANES, MicrokernelShape

_EXACT = 1 << 24
"""Integer sums up to this are exact in float32."""
_LINE = 64
"""Cache line in bytes."""
_AHEAD = 24
"""Prefetch distance in rows of B, where each is read once."""
_LOOP = "#pragma clang loop vectorize(disable)"
"""Pragma against loop vectorization: the lanes are the vector, and one along K would take gathers."""


@dataclass(frozen=True)
class _Variables:
    """Names of the variables of one product, unique in its function."""

    lane: str
    first: str
    end: str
    k: str
    row: str
    b: str
    number: str
    rows: str
    columns: str
    scratch: str
    shared_scratch: str
    sum: str

    @classmethod
    def of(cls, emitter: Emitter) -> _Variables:
        """Fresh names."""
        hints = "lane", "first", "end", "k", "row", "b_panel", "number", "rows", "columns", "scratch", "whole", "sum"
        return cls(*(emitter.name(hint) for hint in hints))


@dataclass(frozen=True)
class _RegisterTile:
    """Register tile: accumulators that iterate over all of K together.

    Attributes:
        rows: rows of A.
        vectors: vectors of columns of B.
        fetched: the lines of B's rows, 64 bytes each, that are fetched for the next step meanwhile.
        copied: whether B was copied, or is read where it is.
    """

    rows: range
    vectors: range
    fetched: range = range(0)
    copied: bool = True


class _Product:
    """Generator of one product's text."""

    def __init__(self, emitter: Emitter, operation: LoadMadOp) -> None:
        self.emitter, self.names = emitter, _Variables.of(emitter)
        self.a: Descriptor = emitter.values[operation.a]
        self.b: Descriptor = emitter.values[operation.b]
        self.types = desc_of(operation.a).dtype, desc_of(operation.b).dtype
        self.m, self.n, self.k = operation.sizes
        self.across = self.n // emitter.subgroup
        self.block = operation.block[0]
        fragment = emitter.fragment(operation.results[0])
        self.dtype, self.word = fragment.dtype, fragment.word

    @property
    def total(self) -> str:
        """C type of the accumulators: float where exact, even for integers, whose multiply-adds are slower."""
        own = sum_type(self.dtype)
        return "float" if own == "int" and self.k * _largest(self.types) <= _EXACT else own

    @property
    def shape(self) -> MicrokernelShape:
        """Shape of the micro-kernel for the tile."""
        return MicrokernelShape(self.m, self.n, *self.types)

    @property
    def has_microkernel(self) -> bool:
        """Whether a micro-kernel exists: contiguous rows of A and B, f32 accumulators."""
        return self.dtype is f32 and self.a.step == self.b.step == "1" and self.shape.fits \
            and self.emitter.subgroup == LANES

    def zero_padding(self, inside: str) -> ZeroPadding:
        """Products of zeros beyond A and B; ``inside`` is the condition that the tile has elements of both."""
        names = self.names
        return ZeroPadding(self.a, self.b, (self.m, self.n), names.lane, (names.first, names.end), inside,
                           self.dtype)

    def accumulator_index(self, row: int, vector: int) -> int:
        """Index of the accumulator of a row and a vector of columns among all words."""
        return (row // self.block * self.across + vector) * self.block + row % self.block


def _largest(types: tuple[DType, DType]) -> int:
    """Largest absolute value of a product of integers of two types."""
    return (1 << types[0].bits - types[0].signed) * (1 << types[1].bits - types[1].signed)


def _load_mad(emitter: Emitter, operation: LoadMadOp) -> None:
    results = [emitter.fresh(value, scalars=True) for value in operation.results]
    for fragment, acc in zip(results, operation.acc, strict=True):
        pairs = zip(fragment.names, emitter.words(acc), strict=True)
        emitter.line(f"{fragment.word} {', '.join(f'{name} = {word}' for name, word in pairs)};")
    for value, fragment in zip(operation.results, results, strict=True):
        emitter.set_words(value, fragment)
    product = _Product(emitter, operation)
    sums = [name for fragment in results for name in fragment.names]
    if product.has_microkernel:
        define(emitter, product.shape)
    emitter.lines += ["  " * emitter.depth + line for line in _text(product, sums)]


def _text(product: _Product, sums: list[str]) -> Iterator[str]:
    names, a, b = product.names, product.a, product.b
    yield "{"
    yield f"  const int {names.lane} = get_sub_group_local_id();"
    row, k, column = wrapping(a.row), wrapping(a.column), wrapping(b.column)
    yield f"  const int {names.first} = -clamp({k}, -{product.k}, 0), " \
          f"{names.end} = {a.width} - clamp({k}, {a.width} - {product.k}, {a.width});"
    inside = f"{names.first} < {names.end} && {row} > -{product.m} && {row} < {a.height} && " \
             f"{column} > -{product.n} && {column} < {b.width}"
    if product.has_microkernel:
        yield f"#ifdef {WHOLE}"
        yield from _by_call(product, sums, inside)
        yield "#else"
    yield f"  if ({inside}) {{"
    register_tiles = [_RegisterTile(rows, vectors)
                      for vectors, all_rows in parts_of(product.m, product.across) for rows in all_rows]
    yield from _in_lanes(product, sums, register_tiles)
    yield "  }"
    if product.dtype.is_float:
        yield from _padded(product, sums, inside)
    if product.has_microkernel:
        yield "#endif"
    yield "}"


def _padded(product: _Product, sums: list[str], inside: str) -> Iterator[str]:
    """Products of zero padding, in loops over a copy of the sums."""
    padding, copies = product.zero_padding(inside), product.names.scratch
    yield f"  if ({padding.at_edge}) {{"
    yield f"    {product.word} {copies}[{product.m * product.across}] = {{{', '.join(_by_rows(product, sums))}}};"
    yield from (f"    {line}" for line in padding.lines(f"{copies}[row * {product.across} + v]",
                                                        product.emitter.subgroup))
    yield from (f"    {name} = {copies}[{i}];" for i, name in enumerate(_by_rows(product, sums)))
    yield "  }"


def _by_rows(product: _Product, sums: list[str]) -> list[str]:
    """The accumulators, row by row."""
    return [sums[product.accumulator_index(row, v)] for row in range(product.m) for v in range(product.across)]


def _by_call(product: _Product, sums: list[str], inside: str) -> Iterator[str]:
    """Product in a scratch buffer of the subgroup, where loops reach it: the text is small.

    The micro-kernel is called if the tile begins in bounds.
    """
    names, a, b = product.names, product.a, product.b
    yield f"  float {names.scratch}[{product.m * product.n}];"
    yield f"  private float *{names.shared_scratch} = " \
          f"(private float *)sub_group_broadcast((ulong){names.scratch}, 0);"
    lane, whole = names.lane, names.shared_scratch
    for i, name in enumerate(_by_rows(product, sums)):
        yield f"  {whole}[{i * LANES} + {lane}] = {name};"
    yield f"  if ({inside}) {{"
    yield f"    if ({wrapping(a.row)} >= 0 && {wrapping(b.column)} >= 0 && {_rows_of_b_inside(product)}) {{"
    yield f"      const int {names.rows} = min({a.height} - ({a.row}), {product.m}), " \
          f"{names.columns} = min({b.width} - ({b.column}), {product.n});"
    yield "      sub_group_barrier(CLK_LOCAL_MEM_FENCE);"
    operands = (f"{a.array.name} + ({a.row}) * (long){a.pitch} + {a.column} + {names.first}, {a.pitch}, "
                f"{b.array.name} + ({b.row} + {names.first}) * (long){b.pitch} + {b.column}, {b.pitch}, "
                f"{names.end} - {names.first}, {names.rows}, {names.columns}, {b.height} - ({b.row} + {names.first})")
    yield f"      if ({lane} == 0) {function_call(product.shape, whole, operands)};"
    yield "      sub_group_barrier(CLK_LOCAL_MEM_FENCE);"
    if product.shape.is_skinny:  # it leaves garbage out of bounds
        for i, name in enumerate(_by_rows(product, sums)):
            row, v = divmod(i, product.across)
            yield f"      if ({names.rows} <= {row} | {names.columns} <= {v * LANES} + {lane}) " \
                  f"{whole}[{i * LANES} + {lane}] = {name};"
    yield "    } else {"
    yield from _anywhere(product)
    yield "    }"
    yield "  }"
    padding = product.zero_padding(inside)
    yield f"  if ({padding.at_edge}) {{"
    yield from (f"    {line}" for line in padding.lines(f"{whole}[(row * {product.across} + v) * {LANES} + {lane}]",
                                                        LANES))
    yield "  }"
    for i, name in enumerate(_by_rows(product, sums)):
        yield f"  {name} = {whole}[{i * LANES} + {lane}];"


def _rows_of_b_inside(product: _Product) -> str:
    """C condition: the rows of B that the columns of A in bounds meet are in bounds."""
    names, b, row = product.names, product.b, wrapping(product.b.row)
    return f"{row} >= -{names.first} && {row} <= {b.height} - {names.end}"


def _anywhere(product: _Product) -> Iterator[str]:
    """Loop over rows of the scratch buffer, with a bounds check for each element of B."""
    names, a, dtype, across = product.names, product.a, product.types[0], range(product.across)
    yield f"      float {names.b}[{product.k * product.across}];"
    yield from _copied(product, checked=True)
    yield f"      {NO_UNROLL}"
    yield f"      for (int row = 0; row < {product.m}; ++row) {{"
    yield f"        if ((uint){atom(wrapping(a.row))} + row >= (uint){a.height}) continue;"
    yield f"        global const {dtype.opencl} *{names.row} = {a.array.name} + ({a.row} + row) * (long){a.pitch} + " \
          f"{atom(str(a.column))};"
    yield f"        private float *to = {names.shared_scratch} + row * {product.n} + {names.lane};"
    yield "        float " + ", ".join(f"{names.sum}_{v} = to[{v * LANES}]" for v in across) + ";"
    yield f"        {_LOOP}"
    yield f"        for (int {names.k} = {names.first}; {names.k} < {names.end}; ++{names.k}) {{"
    yield f"          const float {names.number} = {widened(f'{names.row}[{names.k}]', dtype, 1, 'float')};"
    for v in across:
        yield f"          {names.sum}_{v} = fma({names.number}, {names.b}[{names.k} * {product.across} + {v}], " \
              f"{names.sum}_{v});"
    yield "        }"
    yield "        " + " ".join(f"to[{v * LANES}] = {names.sum}_{v};" for v in across)
    yield "      }"


def _in_lanes(product: _Product, sums: list[str], register_tiles: list[_RegisterTile]) -> Iterator[str]:
    """SIMT path: a lane computes one element of each vector; tiles in bounds have a branch without checks."""
    names, b = product.names, product.b
    yield f"    {product.total} {names.b}[{product.k * product.across}];"
    column = wrapping(b.column)
    yield f"    if ({_rows_of_b_inside(product)} && {column} >= 0 && {column} <= {b.width} - {product.n}) {{"
    if b.step == "1" and (product.types[1] in (f32, f64) or len(register_tiles[0].rows) == product.m):
        yield from _in_place(product, sums, register_tiles)
    else:
        yield from _from_copies(product, sums, register_tiles)


def _in_place(product: _Product, sums: list[str], register_tiles: list[_RegisterTile]) -> Iterator[str]:
    """Both branches without packing of B: it needs no widening, or is used once."""
    for tile in register_tiles:
        yield from _rows(product, sums, replace(tile, copied=False))
    yield "    } else {"
    yield from _copied(product, checked=True)
    for tile in register_tiles:
        yield from _rows(product, sums, tile)
    yield "    }"


def _from_copies(product: _Product, sums: list[str], register_tiles: list[_RegisterTile]) -> Iterator[str]:
    """Both branches with packing of B; each register tile prefetches a share of the next step's lines."""
    yield from _copied(product, checked=False)
    yield "    } else {"
    yield from _copied(product, checked=True)
    yield "    }"
    lines = -(-product.n * product.types[1].bytes // _LINE) if product.b.step == "1" else 0
    for position, tile in enumerate(register_tiles):
        yield from _rows(product, sums, replace(tile, fetched=range(position, lines, len(register_tiles))))


def _copied(product: _Product, *, checked: bool) -> Iterator[str]:
    """Packing of the tile of B, widened, and zero-padded out of bounds."""
    names, b, (_, dtype) = product.names, product.b, product.types
    step = _times(b.step)
    yield f"      {_LOOP}"
    yield f"      for (int {names.k} = {names.first}; {names.k} < {names.end}; ++{names.k}) {{"
    yield (f"        {b.array.space} const {dtype.opencl} *{names.row} = {b.array.name} + "
           f"({b.row} + {names.k}) * (long){b.pitch} + ({b.column} + {names.lane}){step};")
    for vector in range(product.across):
        offset = vector * product.emitter.subgroup
        value = widened(f"{names.row}[{offset}{step}]", dtype, 1, product.total)
        if checked:
            value = (f"(uint){atom(wrapping(b.row))} + {names.k} < (uint){b.height} && "
                     f"(uint){atom(wrapping(b.column))} + {offset} + {names.lane} < (uint){b.width} ? {value} : 0")
        yield f"        {names.b}[{names.k} * {product.across} + {vector}] = {value};"
    yield "      }"


def _rows(product: _Product, sums: list[str], tile: _RegisterTile, *, inside: bool = True) -> Iterator[str]:
    """Multiply-adds of one register tile, for rows in bounds.

    With ``inside`` there are lines without checks for when all of them are.
    """
    a = product.a
    row, (first, end) = wrapping(a.row), (tile.rows.start, tile.rows.stop)
    names = {(row, vector): sums[product.accumulator_index(row, vector)]
             for row in tile.rows for vector in tile.vectors}
    direct = product.dtype.opencl == product.total
    yield f"    if ({row} < {a.height} - {first} && {row} > -{end}) {{"
    if not direct:
        totals = {position: f"t_{name}" for position, name in names.items()}
        yield f"      {product.total} " + ", ".join(
            f"{totals[position]} = {_opened(product, name)}" for position, name in names.items()) + ";"
    if inside:
        yield f"      if ({row} >= -{first} && {row} <= {a.height} - {end}) {{"
        yield from _steps(product, names if direct else totals, tile, checked=False)
        yield "      } else {"
    yield from _steps(product, names if direct else totals, tile, checked=True)
    if inside:
        yield "      }"
    if not direct:
        yield from (f"      {name} {_closed(product, totals[position])};" for position, name in names.items())
    yield "    }"


def _opened(product: _Product, name: str) -> str:
    """Initial value of a sum of another type than its accumulator."""
    return widened(name, product.dtype, 1, product.total) if product.dtype.is_float else "0"


def _closed(product: _Product, total: str) -> str:
    """Write-back of such a sum to its accumulator."""
    if product.dtype.is_float:
        return f"= {narrowed(total, product.dtype, 1)}"
    return f"+= convert_int({total})" if product.total == "float" else f"+= {total}"


def _steps(product: _Product, sums: dict[tuple[int, int], str], tile: _RegisterTile, *, checked: bool) -> Iterator[str]:
    names, a, (dtype, _) = product.names, product.a, product.types
    step = _times(a.step)
    pointers = {row: f"{names.row}_{row}" for row in tile.rows}
    for row, pointer in pointers.items():
        yield (f"        {a.array.space} const {dtype.opencl} *{pointer} = {a.array.name} + "
               f"({a.row} + {row}) * (long){a.pitch} + {atom(str(a.column))}{step};")
    yield f"        {_LOOP}"
    yield f"        for (int {names.k} = {names.first}; {names.k} < {names.end}; ++{names.k}) {{"
    columns = {vector: f"{names.b}_{vector}" for vector in tile.vectors}
    yield from (f"          {line}" for line in _numbers_of_b(product, tile, columns))
    yield f"          {product.total} {names.number};"
    for row, pointer in pointers.items():
        value = widened(f"{pointer}[{names.k}{step}]", dtype, 1, product.total)
        if checked:
            value = f"(uint){atom(wrapping(a.row))} + {row} < (uint){a.height} ? {value} : 0"
        totals = {sums[row, vector]: column for vector, column in columns.items()}
        added = (f"{total} = {_added(product, column, total)};" for total, column in totals.items())
        yield f"          {names.number} = {value}; {' '.join(added)}"
    yield "        }"


def _numbers_of_b(product: _Product, tile: _RegisterTile, columns: dict[int, str]) -> Iterator[str]:
    """Loads of one row of B, and prefetches of the row below the tile."""
    names, b, (_, dtype) = product.names, product.b, product.types
    pointer = f"{b.array.space} const {dtype.opencl} *{names.row} = {b.array.name} + "
    if tile.fetched or not tile.copied:
        yield f"{pointer}({b.row} + {names.k}) * (long){b.pitch} + ({b.column}){_times(b.step)};"
    if not tile.copied and b.step == "1" and len(tile.rows) == product.m:  # nothing else hides how far memory is
        first, end = (at * product.emitter.subgroup for at in (tile.vectors.start, tile.vectors.stop))
        yield " ".join(f"{FETCH}({names.row} + {_AHEAD} * (long){b.pitch} + {column});"
                       for column in range(first, end, _LINE // dtype.bytes))
    for line in tile.fetched:
        yield f"{FETCH}({names.row} + {product.k} * (long){b.pitch} + {line * _LINE // dtype.bytes});"
    if tile.copied:
        values = [f"{names.b}[{names.k} * {product.across} + {vector}]" for vector in columns]
    else:
        offsets = (f"({vector * product.emitter.subgroup} + {names.lane}){_times(b.step)}" for vector in columns)
        values = [widened(f"{names.row}[{offset}]", dtype, 1, product.total) for offset in offsets]
    pairs = zip(columns.values(), values, strict=True)
    yield f"const {product.total} {', '.join(f'{name} = {value}' for name, value in pairs)};"


def _times(step: str) -> str:
    return "" if step == "1" else f" * (long){step}"


def _added(product: _Product, column: str, total: str) -> str:
    number = product.names.number
    return f"{number} * {column} + {total}" if product.total == "int" else f"fma({number}, {column}, {total})"


RULES: dict[type[Operation], Rule] = {LoadMadOp: _load_mad}
