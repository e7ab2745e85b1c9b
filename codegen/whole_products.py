"""Products of a subgroup's whole tile by one call: vectors of 16 numbers written out, instead of one number a lane.

    float scratch[2048];  private float *sums = lane 0's scratch;
    sums[0 + lane] = c0; sums[16 + lane] = c1; ...
    if (lane == 0) product_call(sums, &A[row * pitch + k], pitch, &B[k * pitch + column], pitch, depth);
    c0 = sums[0 + lane]; c1 = sums[16 + lane]; ...

Intel's compiler for processors makes a vector of 16 work-items, and no builtin of OpenCL C multiplies pairs of bf16. In
a function that it leaves alone, a vector is a ``float16``, and LLVM's own word for the instruction can be said. It
leaves alone what it takes for a function of somewhere else: ``product_call`` is declared, not defined, and
``product``, which the linker finds under the same name, is called by nobody. Of what is called directly it would make a
second version for 16 lanes at once, with vectors of 256 numbers.

The function packs some rows of B, and fetches the next ones while it goes through them for a few rows of A at a time.
Of B's rows, ``below`` are left from the first one on: where none follow, those that are here are fetched again, which
costs nothing; what lies beyond an array costs as much as what is needed.

    for (int k0 = 0; k0 < depth; k0 += 64) {
      panel[k * 4 + 0] = vload16(0, &B[(k0 + k) * pitch]); ...                 the rows of B, one after the other
      float16 c0_0 = vload16(0, sums); ...                                     for each few rows of A
      for (int k = 0; k < count; ++k) { b0 = panel[k * 4]; ...; x = A0[k]; c0_0 = fma(x, b0, c0_0); ... }

All of this is for the OpenCL driver of processors alone, which gets ``XETILE_WHOLE`` defined; every other compiler
reads the portable text that stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from codegen import few_rows
from codegen.emitter import FETCH, Emitter
from codegen.few_rows import widened
from xegpu.dtypes import DType, bf16, f16, f32

WHOLE = "XETILE_WHOLE"
"""Defined where functions of whole vectors can be called in this way."""
DOT = "XETILE_DOT_BF16"
"""``DOT(sums, a, b)``: 16 sums of products of pairs of bf16. Defined where the processor has such an instruction."""
LANES = 16
_ACCUMULATORS = 24
_WIDEST = 4
_MOST_WITH_FEW_ROWS = 16
_LINE = 64
_FEWEST_ROWS = 12
"""For fewer rows of A, packing B costs more than it saves; for very few it is read as it is."""
_MOST_SUMS = 8192
"""Each lane gets memory for so many, though one lane's is used."""
_PANEL_BYTES = 20 * 1024
"""Of packed rows of B; the fastest cache holds 32 KB, and some rows of A beside them."""
_VECTOR_BYTES = 64


@dataclass(frozen=True)
class Shape:
    """What a function depends on.

    Attributes:
        rows, columns: of the tile of sums.
        a, b: element types of the operands; the sums are f32.
    """

    rows: int
    columns: int
    a: DType
    b: DType

    @property
    def fits(self) -> bool:
        """Whether there is such a function, and it pays."""
        return self.a is self.b and self.a in (f32, bf16, f16) and self.columns % LANES == 0 \
            and (self.rows >= _FEWEST_ROWS or self.is_few) and self.rows * self.columns <= _MOST_SUMS

    @property
    def is_few(self) -> bool:
        """Whether B is read where it is, since so few rows of A need it."""
        return self.rows <= few_rows.MOST

    @property
    def name(self) -> str:
        """The function's name."""
        return f"xetile_product_{self.a}_{self.rows}x{self.columns}"


def even(total: int, most: int) -> list[tuple[int, int]]:
    """First and size of the parts of ``total`` of at most ``most``, as even as it goes."""
    count = -(-total // most)
    sizes = [total // count + (part < total % count) for part in range(count)]
    return [(sum(sizes[:part]), size) for part, size in enumerate(sizes)]


def parts_of(rows: int, vectors: int) -> list[tuple[range, list[range]]]:
    """Vectors of columns, with the rows of A that go through them at a time, so that their sums stay in registers.

    Few rows of A go through more columns at a time: then B comes from memory, and what lies side by side comes sooner.
    """
    widest = max(_WIDEST, _MOST_WITH_FEW_ROWS // rows)
    return [(range(first, first + width),
             [range(row, row + count) for row, count in even(rows, _ACCUMULATORS // width)])
            for first, width in even(vectors, widest)]


def define(emitter: Emitter, shape: Shape) -> str:
    """Write the function of a shape, once; the name to call it by."""
    element, name = shape.a.opencl, shape.name
    parameters = (f"(private float *sums, global const {element} *A, long pitch_a, global const {element} *B, "
                  "long pitch_b, int depth, int rows, int columns, int below)")
    lines = [f"#ifdef {WHOLE}", f'void {name}_call{parameters} __asm("{name}");',
             f'__attribute__((noinline, used)) void {name}{parameters} __asm("\\01{name}");',
             f"__attribute__((noinline, used)) void {name}{parameters}", "{"]
    if shape.is_few:
        lines += few_rows.FewRows(shape.rows, shape.columns, shape.a).body()
    elif shape.a is bf16:
        lines += [f"#ifdef {DOT}", *_Function(shape, pairs=True).body(), "#else", *_Function(shape).body(), "#endif"]
    else:
        lines += _Function(shape).body()
    emitter.functions[name] = "\n".join([*lines, "}", "#endif", ""])
    return f"{name}_call"


@dataclass(frozen=True)
class _Function:
    """The text of one function: by products of numbers in float, or of pairs of bf16."""

    shape: Shape
    pairs: bool = False

    @property
    def deep(self) -> int:
        """Rows of B that one row of a panel holds."""
        return 2 if self.pairs else 1

    @property
    def word(self) -> str:
        """The type of a vector of a panel."""
        return "uint16" if self.pairs else "float16"

    @property
    def widens(self) -> bool:
        """Whether the rows of A are copied, too, as floats."""
        return not self.pairs and self.shape.a is not f32

    def count(self, vectors: range) -> int:
        """Rows of B that are packed at a time, for these columns."""
        return _PANEL_BYTES // (_VECTOR_BYTES * len(vectors)) // 16 * 16 * self.deep

    def body(self) -> Iterator[str]:
        """The lines between the function's braces."""
        for vectors, parts in parts_of(self.shape.rows, self.shape.columns // LANES):
            count = self.count(vectors)
            yield f"  for (int k0 = 0; k0 < depth; k0 += {count}) {{"
            yield f"    const int steps = min(depth - k0, {count}), odd = steps % {self.deep};"
            yield "    const long ahead = k0 + steps < below ? steps * pitch_b : 0;"
            yield f"    {self.word} panel[{count // self.deep * len(vectors)}];"
            yield from self.packed(vectors)
            if self.widens:
                yield from self.widened_rows(count)
            for position, rows in enumerate(parts):
                yield from self.sums(vectors, rows, range(position, self.lines(vectors), len(parts)), count)
            yield "  }"

    def lines(self, vectors: range) -> int:
        """Lines of the cache that hold these columns, in the rows of B that make up one of a panel."""
        return self.deep * -(-len(vectors) * LANES * self.shape.b.bytes // _LINE)

    def packed(self, vectors: range) -> Iterator[str]:
        """Lines that copy rows of B, where they end by single numbers; what lies beyond is zero."""
        first, end = vectors.start * LANES, vectors.stop * LANES
        element, deep = self.shape.b.opencl, self.deep
        yield f"    for (int k = 0; k < steps; k += {deep}) {{"
        yield f"      global const {element} *row = B + (k0 + k) * pitch_b + {first};"
        if self.pairs:
            yield f"      global const {element} *next = k + 1 < steps ? row + pitch_b : row;"
        yield f"      private {self.word} *to = panel + k / {deep} * {len(vectors)};"
        yield f"      if (columns >= {end}) {{"
        for vector in range(len(vectors)):
            yield f"        to[{vector}] = {self.loaded(vector)};"
        yield "      } else {"
        scalar = self.word.removesuffix("16")
        for vector in range(len(vectors)):
            start = vector * LANES
            yield f"        if (columns >= {first + start + LANES}) to[{vector}] = {self.loaded(vector)};"
            yield f"        else if (columns <= {first + start}) to[{vector}] = 0;"
            yield f"        else for (int i = {start}; i < {start + LANES}; ++i)"
            yield f"          ((private {scalar} *)to)[i] = i + {first} < columns ? {self.number()} : 0;"
        yield "      }"
        yield "    }"

    def loaded(self, vector: int) -> str:
        """A vector of B, as a panel holds it."""
        load = f"vload16({vector}, row)"
        if self.pairs:
            return f"convert_uint16({load}) | (k + 1 < steps ? convert_uint16(vload16({vector}, next)) << 16 : 0)"
        return few_rows.vector(self.shape.b, load)

    def number(self) -> str:
        """The same for a single number."""
        if self.pairs:
            return "(uint)row[i] | (k + 1 < steps ? (uint)next[i] << 16 : 0)"
        return widened(self.shape.b, "row[i]")

    def widened_rows(self, count: int) -> Iterator[str]:
        """Lines that copy the rows of A as floats."""
        yield f"    float wide[{self.shape.rows * count}];"
        yield "    for (int row = 0; row < rows; ++row)"
        yield f"      for (int k = 0; k < steps; ++k) wide[row * {count} + k] = " \
              f"{widened(self.shape.a, 'A[row * pitch_a + k0 + k]')};"

    def sums(self, vectors: range, rows: range, fetched: range, count: int) -> Iterator[str]:
        """Lines that add the products of a few rows of A; for those outside, the last one's again, which go nowhere."""
        across = self.shape.columns // LANES
        yield f"    if (rows > {rows.start}) {{"
        for row in rows:
            at = f"min({row}, rows - 1)"
            yield (f"      private const float *a{row} = wide + {at} * {count};" if self.widens else
                   f"      global const {self.shape.a.opencl} *a{row} = A + {at} * pitch_a + k0;")
            yield "      float16 " + ", ".join(
                f"c{row}_{v} = vload16({row * across + v}, sums)" for v in vectors) + ";"
        yield f"      for (int k = 0; k < steps / {self.deep}; ++k) {{"
        yield from (f"        {FETCH}(B + (k0 + k * {self.deep} + {line % self.deep}) * pitch_b + ahead + "
                    f"{vectors.start * LANES + line // self.deep * _LINE // self.shape.b.bytes});" for line in fetched)
        yield from self.step(vectors, rows, "k", odd=False)
        yield "      }"
        if self.pairs:
            yield "      if (odd) {"
            yield from self.step(vectors, rows, "(steps / 2)", odd=True)
            yield "      }"
        for row in rows:
            stores = " ".join(f"vstore16(c{row}_{v}, {row * across + v}, sums);" for v in vectors)
            yield f"      if (rows > {row}) {{ {stores} }}"
        yield "    }"

    def step(self, vectors: range, rows: range, k: str, *, odd: bool) -> Iterator[str]:
        """Lines of one step along K; an odd one has a number of A instead of a pair."""
        names = {v: f"b{v}" for v in vectors}
        yield f"        const {self.word} " + ", ".join(
            f"{name} = panel[{k} * {len(vectors)} + {v - vectors.start}]" for v, name in names.items()) + ";"
        for row in rows:
            if self.pairs:
                number = f"a{row}[steps - 1]" if odd else f"*(global const xetile_pair *)(a{row} + 2 * {k})"
                adds = (f"c{row}_{v} = {DOT}(c{row}_{v}, x, {name});" for v, name in names.items())
                yield f"        {{ const uint16 x = (uint16)({number}); {' '.join(adds)} }}"
            else:
                adds = (f"c{row}_{v} = fma(x, {name}, c{row}_{v});" for v, name in names.items())
                yield f"        {{ const float16 x = (float16)(a{row}[{k}]); {' '.join(adds)} }}"


DOT_BF16 = (
    "typedef __bf16 xetile_bf16x32 __attribute__((ext_vector_type(32)));\n"
    "typedef uint xetile_pair __attribute__((aligned(2)));\n"
    "float16 xetile_dot_bf16(float16 c, xetile_bf16x32 a, xetile_bf16x32 b) "
    '__asm("llvm.x86.avx512bf16.dpbf16ps.512");\n'
    f"#define {DOT}(c, a, b) "
    "xetile_dot_bf16(c, __builtin_astype(a, xetile_bf16x32), __builtin_astype(b, xetile_bf16x32))\n")
"""What stands before a text on processors with ``avx512_bf16``: two products a number and instruction, added up in f32;
numbers under 2^-126 count as zero. LLVM's name of the instruction, which clang passes on."""
