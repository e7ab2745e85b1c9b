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

from codegen.opencl.cpu_gemm import define, guard
from codegen.opencl.cpu_gemm.macrokernel import parts_of
from codegen.opencl.cpu_gemm.scratch_product import LOOP, ScratchProduct
from codegen.opencl.cpu_gemm.variables import Variables
from codegen.opencl.cpu_gemm.zero_padding import ZeroPadding
from codegen.opencl.emitter import Emitter, Rule, atom, wrapping
from codegen.opencl.prelude.macros import FETCH
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
        self.emitter, self.names = emitter, Variables.of(emitter)
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
        """Whether a micro-kernel exists: contiguous rows of A and B, accumulators of f32, or i32 of bytes."""
        return self.dtype is self.shape.accumulator and self.a.step == self.b.step == "1" and self.shape.fits \
            and self.emitter.subgroup == LANES

    @property
    def scratch(self) -> ScratchProduct:
        """The product in a scratch buffer."""
        return ScratchProduct(self.shape, self.a, self.b, self.names)

    @property
    def inside(self) -> str:
        """C condition: the tile has elements of A and B."""
        return self.scratch.inside

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
    emitter.lines += ["  " * emitter.depth + line for line in _product_statements(product, sums)]


def _product_statements(product: _Product, sums: list[str]) -> Iterator[str]:
    names, a, has_microkernel = product.names, product.a, product.has_microkernel and product.emitter.has_microkernels
    yield "{"
    yield f"  const int {names.lane} = get_sub_group_local_id();"
    k = wrapping(a.column)
    yield f"  const int {names.first} = -clamp({k}, -{product.k}, 0), " \
          f"{names.end} = {a.width} - clamp({k}, {a.width} - {product.k}, {a.width});"
    if has_microkernel:
        yield f"#ifdef {guard(product.shape)}"
        yield from (f"  {line}" for line in _by_call(product, sums))
        yield "#else"
    yield f"  if ({product.inside}) {{"
    register_tiles = [_RegisterTile(rows, vectors)
                      for vectors, all_rows in parts_of(product.m, product.across) for rows in all_rows]
    yield from _in_lanes(product, sums, register_tiles)
    yield "  }"
    if product.dtype.is_float:
        yield from _padded(product, sums)
    if has_microkernel:
        yield "#endif"
    yield "}"


def _by_call(product: _Product, sums: list[str]) -> Iterator[str]:
    """The product in a scratch buffer, where the sums are put and taken from."""
    scratch, names, elements = product.scratch, product.names, _by_rows(product, sums)
    yield from scratch.declared()
    yield from (f"{scratch.element(i)} = {name};" for i, name in enumerate(elements))
    rows_and_vectors = [divmod(i, product.across) for i in range(len(elements))]
    garbage = [] if not product.shape.is_skinny else [  # the skinny kernel leaves it out of bounds
        f"if ({names.rows} <= {row} | {names.columns} <= {v * LANES} + {names.lane}) {scratch.element(i)} = {name};"
        for i, ((row, v), name) in enumerate(zip(rows_and_vectors, elements, strict=True))]
    yield from scratch.lines(garbage)
    yield from (f"{name} = {scratch.element(i)};" for i, name in enumerate(elements))


def _by_rows(product: _Product, sums: list[str]) -> list[str]:
    """The accumulators, row by row."""
    return [sums[product.accumulator_index(row, v)] for row in range(product.m) for v in range(product.across)]


def _padded(product: _Product, sums: list[str]) -> Iterator[str]:
    """Products of zero padding, in loops over a copy of the sums."""
    names, copies, elements = product.names, product.names.scratch, _by_rows(product, sums)
    padding = ZeroPadding(product.a, product.b, (product.m, product.n), names, product.inside, product.dtype)
    yield f"  if ({padding.at_edge}) {{"
    yield f"    {product.word} {copies}[{len(elements)}] = {{{', '.join(elements)}}};"
    yield from (f"    {line}" for line in padding.lines(f"{copies}[{names.i} * {product.across} + {names.v}]",
                                                        product.emitter.subgroup))
    yield from (f"    {name} = {copies}[{i}];" for i, name in enumerate(elements))
    yield "  }"


def _in_lanes(product: _Product, sums: list[str], register_tiles: list[_RegisterTile]) -> Iterator[str]:
    """SIMT path: a lane computes one element of each vector; tiles in bounds have a branch without checks."""
    names, b = product.names, product.b
    yield f"    {product.total} {names.b}[{product.k * product.across}];"
    column, rows = wrapping(b.column), product.scratch.rows_of_b_are_inside()
    yield f"    if ({rows} && {column} >= 0 && {column} <= {b.width} - {product.n}) {{"
    if b.step == "1" and (product.types[1] in (f32, f64) or len(register_tiles[0].rows) == product.m):
        yield from _in_place(product, sums, register_tiles)
    else:
        yield from _from_copies(product, sums, register_tiles)


def _in_place(product: _Product, sums: list[str], register_tiles: list[_RegisterTile]) -> Iterator[str]:
    """Loops over full and partial tiles without packing of B, which needs no widening or is used once."""
    for tile in register_tiles:
        yield from _rows(product, sums, replace(tile, copied=False))
    yield "    } else {"
    yield from _copied(product, checked=True)
    for tile in register_tiles:
        yield from _rows(product, sums, tile)
    yield "    }"


def _from_copies(product: _Product, sums: list[str], register_tiles: list[_RegisterTile]) -> Iterator[str]:
    """Loops over full and partial tiles with packing of B; each register tile prefetches a share of the next step."""
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
    yield f"      {LOOP}"
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


def _rows(product: _Product, sums: list[str], tile: _RegisterTile) -> Iterator[str]:
    """Multiply-adds of one register tile, for rows in bounds; without checks where all of them are."""
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
    yield f"      if ({row} >= -{first} && {row} <= {a.height} - {end}) {{"
    yield from _steps(product, names if direct else totals, tile, checked=False)
    yield "      } else {"
    yield from _steps(product, names if direct else totals, tile, checked=True)
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
    yield f"        {LOOP}"
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
