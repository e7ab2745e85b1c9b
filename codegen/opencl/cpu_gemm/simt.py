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

from xdsl.ir import Operation, SSAValue

from codegen.opencl.cpu_gemm import define, function_call
from codegen.opencl.cpu_gemm.macrokernel import parts_of
from codegen.opencl.emitter import Emitter, Rule, atom
from codegen.opencl.prelude.macros import FETCH, WHOLE
from codegen.opencl.values import Descriptor, Fragment, narrowed, widened
from xegpu.dialect.block_io import desc_of
from xegpu.dialect.dpas import LoadMadOp
from xegpu.ir.dtypes import DType, f32
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
class _Names:
    """The names of what one product declares, new in its function."""

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
    whole: str
    sum: str

    @classmethod
    def of(cls, emitter: Emitter) -> _Names:
        """New names."""
        hints = "lane", "first", "end", "k", "row", "b_panel", "number", "rows", "columns", "scratch", "whole", "sum"
        return cls(*(emitter.name(hint) for hint in hints))


@dataclass(frozen=True)
class _Part:
    """What is summed up at a time.

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
    """One product's text."""

    def __init__(self, emitter: Emitter, operation: LoadMadOp) -> None:
        self.emitter, self.names = emitter, _Names.of(emitter)
        self.a: Descriptor = emitter.values[operation.a]
        self.b: Descriptor = emitter.values[operation.b]
        self.types = desc_of(operation.a).dtype, desc_of(operation.b).dtype
        self.m, self.n, self.k = operation.sizes
        self.across = self.n // emitter.subgroup
        self.block = operation.block[0]
        self.dtype = emitter.fragment(operation.results[0]).dtype

    @property
    def total(self) -> str:
        """The C type of sums: floats where they are exact, even for integers, of which processors add fewer at once."""
        return "float" if self.dtype.is_float or self.k * _largest(self.types) <= _EXACT else "int"

    @property
    def shape(self) -> MicrokernelShape:
        """What a function for the whole tile depends on."""
        return MicrokernelShape(self.m, self.n, *self.types)

    @property
    def is_whole(self) -> bool:
        """Whether a function of whole vectors serves it: on rows of A and B that are contiguous, into f32."""
        return self.dtype is f32 and self.a.step == self.b.step == "1" and self.shape.fits \
            and self.emitter.subgroup == LANES

    def place(self, row: int, vector: int) -> int:
        """Where the accumulator of a row and a vector of columns stands among all words."""
        return (row // self.block * self.across + vector) * self.block + row % self.block


def _largest(types: tuple[DType, DType]) -> int:
    """The largest absolute value of a product of integers of two types."""
    return (1 << types[0].bits - types[0].signed) * (1 << types[1].bits - types[1].signed)


def _load_mad(emitter: Emitter, operation: LoadMadOp) -> None:
    results = [_scalars(emitter, value) for value in operation.results]
    for fragment, acc in zip(results, operation.acc, strict=True):
        pairs = zip(fragment.names, emitter.words(acc), strict=True)
        emitter.line(f"{fragment.word} {', '.join(f'{name} = {word}' for name, word in pairs)};")
    for value, fragment in zip(operation.results, results, strict=True):
        emitter.set_words(value, fragment)
    product = _Product(emitter, operation)
    sums = [name for fragment in results for name in fragment.names]
    if product.is_whole:
        define(emitter, product.shape)
    emitter.lines += ["  " * emitter.depth + line for line in _text(product, sums)]


def _scalars(emitter: Emitter, value: SSAValue) -> Fragment:
    """A fragment in variables of one word each."""
    fragment = emitter.fresh(value)
    return fragment.renamed(tuple(f"{name}_{i:x}" for name in fragment.names for i in range(fragment.width)))


def _text(product: _Product, sums: list[str]) -> Iterator[str]:
    names, a, b = product.names, product.a, product.b
    yield "{"
    yield f"  const int {names.lane} = get_sub_group_local_id();"
    yield f"  const int {names.first} = clamp(-({a.column}), 0, {product.k}), " \
          f"{names.end} = clamp({a.width} - ({a.column}), 0, {product.k});"
    yield f"  if ({names.first} < {names.end} && {a.row} + {product.m} > 0 && {a.row} < {a.height} && " \
          f"{b.column} + {product.n} > 0 && {b.column} < {b.width}) {{"
    parts = [_Part(rows, vectors) for vectors, all_rows in parts_of(product.m, product.across) for rows in all_rows]
    if product.is_whole:
        yield f"#ifdef {WHOLE}"
        yield from _by_call(product, sums)
        yield from _anywhere(product, sums, parts)
        yield "    }"
        yield "#else"
    yield from _in_lanes(product, sums, parts)
    if product.is_whole:
        yield "#endif"
    yield "  }"
    yield "}"


def _by_call(product: _Product, sums: list[str]) -> Iterator[str]:
    """Lines that call the function for the whole tile, where it begins inside the arrays; else there is more to do."""
    names, a, b = product.names, product.a, product.b
    across = product.across
    yield f"    if ({a.row} >= 0 && {b.column} >= 0 && {b.row} + {names.first} >= 0 && " \
          f"{b.row} + {names.end} <= {b.height}) {{"
    yield f"      const int {names.rows} = min({a.height} - ({a.row}), {product.m}), " \
          f"{names.columns} = min({b.width} - ({b.column}), {product.n});"
    yield f"      float {names.scratch}[{product.m * product.n}];"
    yield f"      private float *{names.whole} = (private float *)sub_group_broadcast((ulong){names.scratch}, 0);"
    for row in range(product.m):
        yield "      " + " ".join(f"{_place(product, row, v)} = {sums[product.place(row, v)]};" for v in range(across))
    yield "      sub_group_barrier(CLK_LOCAL_MEM_FENCE);"
    operands = (f"{a.array.name} + ({a.row}) * (long){a.pitch} + {a.column} + {names.first}, {a.pitch}, "
                f"{b.array.name} + ({b.row} + {names.first}) * (long){b.pitch} + {b.column}, {b.pitch}, "
                f"{names.end} - {names.first}, {names.rows}, {names.columns}, {b.height} - ({b.row} + {names.first})")
    yield f"      if ({names.lane} == 0) {function_call(product.shape, names.whole, operands)};"
    yield "      sub_group_barrier(CLK_LOCAL_MEM_FENCE);"
    yield from _summed(product, sums)
    yield "    } else {"


def _summed(product: _Product, sums: list[str]) -> Iterator[str]:
    """Lines that take the sums back; for a few rows of A, the function leaves numbers in what lies outside."""
    names, few = product.names, product.shape.is_skinny
    if few:
        yield f"      float {names.sum};"
    for row in range(product.m):
        pairs = [(v, sums[product.place(row, v)]) for v in range(product.across)]
        yield "      " + " ".join(
            f"{names.sum} = {_place(product, row, v)}; {name} = {names.rows} > {row} & "
            f"{names.columns} > {v * LANES} + {names.lane} ? {names.sum} : {name};" if few else
            f"{name} = {_place(product, row, v)};" for v, name in pairs)


def _place(product: _Product, row: int, vector: int) -> str:
    """Where a lane's sum of a row and a vector stands in the memory that the function sees."""
    names = product.names
    return f"{names.whole}[{(row * product.across + vector) * LANES} + {names.lane}]"


def _anywhere(product: _Product, sums: list[str], parts: list[_Part]) -> Iterator[str]:
    """Lines for a tile that lies anywhere, with a check at each number."""
    yield f"    {product.total} {product.names.b}[{product.k * product.across}];"
    yield from _copied(product, checked=True)
    for part in parts:
        yield from _rows(product, sums, part, inside=False)


def _in_lanes(product: _Product, sums: list[str], parts: list[_Part]) -> Iterator[str]:
    """Lines in which a lane has a number of each vector; those for tiles inside their arrays come first."""
    names, b = product.names, product.b
    yield f"    {product.total} {names.b}[{product.k * product.across}];"
    yield f"    if ({b.row} + {names.first} >= 0 && {b.row} + {names.end} <= {b.height} && {b.column} >= 0 && " \
          f"{b.column} + {product.n} <= {b.width}) {{"
    if b.step == "1" and (product.types[1] is f32 or len(parts[0].rows) == product.m):
        yield from _in_place(product, sums, parts)
    else:
        yield from _from_copies(product, sums, parts)


def _in_place(product: _Product, sums: list[str], parts: list[_Part]) -> Iterator[str]:
    """The two branches where B is read where it is: it needs no other type, or no other rows of A need it."""
    for part in parts:
        yield from _rows(product, sums, replace(part, copied=False))
    yield "    } else {"
    yield from _copied(product, checked=True)
    for part in parts:
        yield from _rows(product, sums, part)
    yield "    }"


def _from_copies(product: _Product, sums: list[str], parts: list[_Part]) -> Iterator[str]:
    """The two branches that copy B, and the sums; each part fetches some of the lines that the next step copies."""
    yield from _copied(product, checked=False)
    yield "    } else {"
    yield from _copied(product, checked=True)
    yield "    }"
    lines = -(-product.n * product.types[1].bytes // _LINE) if product.b.step == "1" else 0
    for position, part in enumerate(parts):
        yield from _rows(product, sums, replace(part, fetched=range(position, lines, len(parts))))


def _copied(product: _Product, *, checked: bool) -> Iterator[str]:
    """Lines that copy the tile of B, widened; what lies outside is zero."""
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
            value = (f"(uint)({b.row} + {names.k}) < (uint){b.height} && "
                     f"(uint)({b.column} + {offset} + {names.lane}) < (uint){b.width} ? {value} : 0")
        yield f"        {names.b}[{names.k} * {product.across} + {vector}] = {value};"
    yield "      }"


def _rows(product: _Product, sums: list[str], part: _Part, *, inside: bool = True) -> Iterator[str]:
    """Lines that add the products of a few rows of A to their sums, of rows inside the array.

    With ``inside`` there are lines without checks for when all of them are.
    """
    a = product.a
    first, end = (f"{a.row} + {row}" for row in (part.rows.start, part.rows.stop))
    names = {(row, vector): sums[product.place(row, vector)] for row in part.rows for vector in part.vectors}
    direct = product.dtype.opencl == product.total
    yield f"    if ({first} < {a.height} && {end} > 0) {{"
    if not direct:
        totals = {place: f"t_{name}" for place, name in names.items()}
        yield f"      {product.total} " + ", ".join(
            f"{totals[place]} = {_opened(product, name)}" for place, name in names.items()) + ";"
    if inside:
        yield f"      if ({first} >= 0 && {end} <= {a.height}) {{"
        yield from _steps(product, names if direct else totals, part, checked=False)
        yield "      } else {"
    yield from _steps(product, names if direct else totals, part, checked=True)
    if inside:
        yield "      }"
    if not direct:
        yield from (f"      {name} {_closed(product, totals[place])};" for place, name in names.items())
    yield "    }"


def _opened(product: _Product, name: str) -> str:
    """Where a sum of another type than its accumulator starts."""
    return widened(name, product.dtype, 1, "float") if product.dtype.is_float else "0"


def _closed(product: _Product, total: str) -> str:
    """How such a sum goes back to its accumulator."""
    if product.dtype.is_float:
        return f"= {narrowed(total, product.dtype, 1)}"
    return f"+= convert_int({total})" if product.total == "float" else f"+= {total}"


def _steps(product: _Product, sums: dict[tuple[int, int], str], part: _Part, *, checked: bool) -> Iterator[str]:
    names, a, (dtype, _) = product.names, product.a, product.types
    step = _times(a.step)
    pointers = {row: f"{names.row}_{row}" for row in part.rows}
    for row, pointer in pointers.items():
        yield (f"        {a.array.space} const {dtype.opencl} *{pointer} = {a.array.name} + "
               f"({a.row} + {row}) * (long){a.pitch} + {atom(str(a.column))}{step};")
    yield f"        {_LOOP}"
    yield f"        for (int {names.k} = {names.first}; {names.k} < {names.end}; ++{names.k}) {{"
    columns = {vector: f"{names.b}_{vector}" for vector in part.vectors}
    yield from (f"          {line}" for line in _numbers_of_b(product, part, columns))
    yield f"          {product.total} {names.number};"
    for row, pointer in pointers.items():
        value = widened(f"{pointer}[{names.k}{step}]", dtype, 1, product.total)
        if checked:
            value = f"(uint)({a.row} + {row}) < (uint){a.height} ? {value} : 0"
        totals = {sums[row, vector]: column for vector, column in columns.items()}
        added = (f"{total} = {_added(product, column, total)};" for total, column in totals.items())
        yield f"          {names.number} = {value}; {' '.join(added)}"
    yield "        }"


def _numbers_of_b(product: _Product, part: _Part, columns: dict[int, str]) -> Iterator[str]:
    """Lines that name the numbers of one row of B, and fetch those of the row below the tile."""
    names, b, (_, dtype) = product.names, product.b, product.types
    pointer = f"{b.array.space} const {dtype.opencl} *{names.row} = {b.array.name} + "
    if part.fetched or not part.copied:
        yield f"{pointer}({b.row} + {names.k}) * (long){b.pitch} + ({b.column}){_times(b.step)};"
    if not part.copied and b.step == "1" and len(part.rows) == product.m:  # nothing else hides how far memory is
        first, end = (at * product.emitter.subgroup for at in (part.vectors.start, part.vectors.stop))
        yield " ".join(f"{FETCH}({names.row} + {_AHEAD} * (long){b.pitch} + {column});"
                       for column in range(first, end, _LINE // dtype.bytes))
    for line in part.fetched:
        yield f"{FETCH}({names.row} + {product.k} * (long){b.pitch} + {line * _LINE // dtype.bytes});"
    if part.copied:
        values = [f"{names.b}[{names.k} * {product.across} + {vector}]" for vector in columns]
    else:
        places = (f"({vector * product.emitter.subgroup} + {names.lane}){_times(b.step)}" for vector in columns)
        values = [widened(f"{names.row}[{place}]", dtype, 1, product.total) for place in places]
    pairs = zip(columns.values(), values, strict=True)
    yield f"const {product.total} {', '.join(f'{name} = {value}' for name, value in pairs)};"


def _times(step: str) -> str:
    return "" if step == "1" else f" * (long){step}"


def _added(product: _Product, column: str, total: str) -> str:
    number = product.names.number
    return f"fma({number}, {column}, {total})" if product.total == "float" else f"{number} * {column} + {total}"


RULES: dict[type[Operation], Rule] = {LoadMadOp: _load_mad}
