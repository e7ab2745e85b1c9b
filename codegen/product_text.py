"""The text of a function that makes the products of a whole tile, in vectors of 16 numbers.

    for (int k0 = 0; k0 < depth; k0 += 80) {
      panel[k * 4 + 0] = vload16(0, &B[(k0 + k) * pitch]); ...                 the rows of B, one after the other
      for (int row = 0; row < 32; ) {                                          a few rows of A at a time
        float16 c0_0 = k0 || adds ? vload16(0, kept + row * 64) : 0; ...
        for (int k = 0; k < steps; ++k) { b0 = panel[k * 4]; ...; x = a0[k]; c0_0 = fma(x, b0, c0_0); ... }
        if (last) vstore16(c0_0, 0, &C[row * pitch]) ... else vstore16(c0_0, 0, kept + row * 64) ...

It packs some rows of B, and fetches the next ones while it goes through them for a few rows of A at a time. Of B's
rows, ``below`` are left from the first one on: where none follow, those that are here are fetched again, which costs
nothing; what lies beyond an array costs as much as what is needed. Between panels the sums are kept in memory that the
first cache holds; after the last one they go to C, ``past`` the caches where C is much larger than these: else each
line of C would be read before it is written.

At the right edge, vectors that lie outside are left out, and the last few columns are summed up by themselves
(:mod:`codegen.single_columns`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from codegen.emitter import FETCH
from codegen.few_rows import vector, widened
from codegen.single_columns import MOST, SingleColumns
from xegpu.dtypes import DType, f32

DOT = "XETILE_DOT_BF16"
"""``DOT(sums, a, b)``: 16 sums of products of pairs of bf16. Defined where the processor has such an instruction."""
FENCE = "xetile_store_fence"
"""What comes after stores past the caches."""
LANES = 16
_ACCUMULATORS = 24
_WIDEST = 4
_MOST_WITH_FEW_ROWS = 16
_LINE = 64
_PANEL_BYTES = 20 * 1024
"""Of packed rows of B; the fastest cache holds 32 KB, and some rows of A beside them."""
_VECTOR_BYTES = 64


def even(total: int, most: int) -> list[tuple[int, int]]:
    """First and size of the parts of ``total`` of at most ``most``, as even as it goes, larger ones first."""
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


def widths(most: int) -> list[int]:
    """How many vectors of columns go side by side: all of them, or half as many at an edge, and so on to one."""
    return [most, *widths(-(-most // 2))] if most > 1 else [1]


@dataclass(frozen=True)
class ProductText:
    """The text of one function: by products of numbers in float, or of pairs of bf16.

    Attributes:
        rows, columns: of the tile of sums, which are f32.
        dtype: element type of both operands.
        pairs: whether the processor multiplies pairs of bf16.
    """

    rows: int
    columns: int
    dtype: DType
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
        return not self.pairs and self.dtype is not f32

    def count(self, width: int) -> int:
        """Rows of B that are packed at a time, so many vectors wide."""
        return _PANEL_BYTES // (_VECTOR_BYTES * width) // 16 * 16 * self.deep

    def row_of_a(self, row: str, first: str) -> str:
        """A declaration's type and value: a row of A from the panel's first step on; outside, the last one again."""
        at = f"min({row}, rows - 1)"
        return f"private const float *{first} = wide + {at} * {self.count(1)}" if self.widens else \
            f"global const {self.dtype.opencl} *{first} = A + {at} * pitch_a + k0"

    def body(self) -> Iterator[str]:
        """The lines between the function's braces."""
        yield f"  past = past && (((ulong)C | (ulong)pitch_c * 4) & {_LINE - 1}) == 0;"
        yield f"  {self.word} panel[{_PANEL_BYTES // _VECTOR_BYTES}];"
        if self.widens:
            yield f"  float wide[{self.rows * self.count(1)}];"
        for first, width in even(self.columns // LANES, _WIDEST):
            yield f"  if (columns > {first * LANES}) {{"
            yield from self.side_by_side(first * LANES, width)
            yield "  }"
        yield f"  if (past) {FENCE}();"

    def side_by_side(self, first: int, most: int) -> Iterator[str]:
        """Lines for columns whose sums stay in registers together."""
        single = SingleColumns(self.rows, most * LANES, first, self.dtype, DOT if self.pairs else "")
        choices = widths(most)
        wide = "".join(f"vectors > {less} ? {width} : " for width, less in zip(choices, choices[1:], strict=False))
        yield f"    const int across = min(columns - {first}, {most * LANES});"
        yield f"    const int single = across % {LANES} <= {MOST} ? across % {LANES} : 0;"
        yield f"    const int vectors = (across - single + {LANES - 1}) / {LANES}, wide_by = {wide}min(vectors, 1);"
        yield f"    const bool is_whole = across - single == wide_by * {LANES};"
        yield f"    float kept[{self.rows * most * LANES}];"
        yield from single.declared()
        yield "    if (adds) for (int row = 0; row < rows; ++row)"
        yield f"      for (int i = 0; i < across; ++i) kept[row * {most * LANES} + i] = C[row * pitch_c + {first} + i];"
        counts = "".join(f"wide_by == {width} ? {self.count(width)} : " for width in choices[:-1])
        yield f"    const int count = {counts}{self.count(1)};"
        yield "    for (int k0 = 0; k0 < depth; k0 += count) {"
        yield f"      const int steps = min(depth - k0, count), odd = steps % {self.deep};"
        yield "      const bool last = k0 + steps == depth;"
        yield "      const long ahead = k0 + steps < below ? steps * pitch_b : 0;"
        if self.widens:
            yield from self.widened_rows()
        for width in choices:
            yield f"      if (wide_by == {width}) {{"
            yield from self.packed(first, width)
            yield from self.blocks(first, width, most * LANES)
            yield "      }"
        yield "      if (single) {"
        yield from single.added(self.row_of_a, self.count(1))
        yield "      }"
        yield "    }"
        yield "    if (!is_whole) for (int row = 0; row < rows; ++row)"
        yield (f"      for (int i = 0; i < across - single; ++i) "
               f"C[row * pitch_c + {first} + i] = kept[row * {most * LANES} + i];")

    def widened_rows(self) -> Iterator[str]:
        """Lines that copy the rows of A as floats."""
        yield "      for (int row = 0; row < rows; ++row)"
        yield f"        for (int k = 0; k < steps; ++k) wide[row * {self.count(1)} + k] = " \
              f"{widened(self.dtype, 'A[row * pitch_a + k0 + k]')};"

    def packed(self, first: int, width: int) -> Iterator[str]:
        """Lines that copy rows of B, where they end by single numbers; what lies beyond is zero."""
        element, deep = self.dtype.opencl, self.deep
        yield f"        for (int k = 0; k < steps; k += {deep}) {{"
        yield f"          global const {element} *row = B + (k0 + k) * pitch_b + {first};"
        if self.pairs:
            yield "          global const ushort *next = k + 1 < steps ? row + pitch_b : row;"
        yield f"          private {self.word} *to = panel + k / {deep} * {width};"
        yield "          if (is_whole) {"
        yield from (f"            to[{vector}] = {self.loaded(vector)};" for vector in range(width))
        yield "          } else {"
        yield f"            for (int i = 0; i < {width * LANES}; ++i) ((private {self.word.removesuffix('16')} *)to)[i] " \
              f"= i < across - single ? {self.number()} : 0;"
        yield "          }"
        yield "        }"

    def loaded(self, position: int) -> str:
        """A vector of B, as a panel holds it."""
        load = f"vload16({position}, row)"
        if self.pairs:
            return f"convert_uint16({load}) | (k + 1 < steps ? convert_uint16(vload16({position}, next)) << 16 : 0)"
        return vector(self.dtype, load)

    def number(self) -> str:
        """The same for a single number."""
        if self.pairs:
            return "(uint)row[i] | (k + 1 < steps ? (uint)next[i] << 16 : 0)"
        return widened(self.dtype, "row[i]")

    def blocks(self, first: int, width: int, pitch: int) -> Iterator[str]:
        """Lines that go over the rows of A, as many at a time as there are registers for, or one less."""
        parts = even(self.rows, _ACCUMULATORS // width)
        sizes = sorted({size for _, size in parts}, reverse=True)
        yield "        for (int row = 0, part = 0; row < rows; ++part) {"
        if len(sizes) > 1:
            yield f"          if (row < {sum(size for _, size in parts if size == sizes[0])}) {{"
        yield from self.sums(first, width, sizes[0], pitch, len(parts))
        if len(sizes) > 1:
            yield "          } else {"
            yield from self.sums(first, width, sizes[1], pitch, len(parts))
            yield "          }"
        yield "        }"

    def sums(self, first: int, width: int, height: int, pitch: int, parts: int) -> Iterator[str]:
        """Lines that add the products of a few rows of A; for those outside, the last one's again, which go nowhere."""
        yield f"            private float *from = kept + row * {pitch};"
        for i in range(height):
            yield f"            {self.row_of_a(f'row + {i}', f'a{i}')};"
        yield "            float16 " + ", ".join(f"c{i}_{v} = 0" for i in range(height) for v in range(width)) + ";"
        yield "            if (k0 || adds) {"
        for i in range(height):
            yield "              " + " ".join(f"c{i}_{v} = vload16({v}, from + {i * pitch});" for v in range(width))
        yield "            }"
        yield from self.fetched(first, width, parts)
        yield f"            for (int k = 0; k < steps / {self.deep}; ++k) {{"
        lines = -(-self.lines(width) // parts)
        yield from (f"              {FETCH}(next{line} + k * {self.deep} * pitch_b);" for line in range(lines))
        yield from self.step(width, height, "k", odd=False)
        yield "            }"
        if self.pairs:
            yield "            if (odd) {"
            yield from self.step(width, height, "(steps / 2)", odd=True)
            yield "            }"
        yield from self.stored(first, width, height, pitch)
        yield f"            row += {height};"

    def lines(self, width: int) -> int:
        """Lines of the cache that hold so many vectors, in the rows of B that make up one of a panel."""
        return self.deep * -(-width * LANES * self.dtype.bytes // _LINE)

    def fetched(self, first: int, width: int, parts: int) -> Iterator[str]:
        """Lines that say which lines of the cache a part fetches of the next rows of B."""
        lines, numbers = self.lines(width), _LINE // self.dtype.bytes
        for line in range(-(-lines // parts)):
            which = f"(part + {line * parts}) % {lines}"
            yield (f"            global const {self.dtype.opencl} *next{line} = B + (k0 + {which} % {self.deep}) * pitch_b "
                   f"+ ahead + {first} + {which} / {self.deep} * {numbers};")

    def step(self, width: int, height: int, k: str, *, odd: bool) -> Iterator[str]:
        """Lines of one step along K; an odd one has a number of A instead of a pair."""
        yield f"              const {self.word} " + ", ".join(
            f"b{v} = panel[{k} * {width} + {v}]" for v in range(width)) + ";"
        for i in range(height):
            if self.pairs:
                number = f"a{i}[steps - 1]" if odd else f"*(global const xetile_pair *)(a{i} + 2 * {k})"
                adds = (f"c{i}_{v} = {DOT}(c{i}_{v}, x, b{v});" for v in range(width))
                yield f"              {{ const uint16 x = (uint16)({number}); {' '.join(adds)} }}"
            else:
                adds = (f"c{i}_{v} = fma(x, b{v}, c{i}_{v});" for v in range(width))
                yield f"              {{ const float16 x = (float16)(a{i}[{k}]); {' '.join(adds)} }}"

    def stored(self, first: int, width: int, height: int, pitch: int) -> Iterator[str]:
        """Lines that put the sums where they are kept, or into C."""
        names = [[f"c{i}_{v}" for v in range(width)] for i in range(height)]
        yield "            if (!last || !is_whole) {"
        for i, row in enumerate(names):
            yield "              " + " ".join(f"vstore16({c}, {v}, from + {i * pitch});" for v, c in enumerate(row))
        yield "            } else {"
        yield f"              global float *to = C + row * pitch_c + {first};"
        yield "              if (past) {"
        yield from self.rows_stored(names, "__builtin_nontemporal_store({0}, (global float16 *)to + {1});")
        yield "              } else {"
        yield from self.rows_stored(names, "vstore16({0}, {1}, to);")
        yield "              }"
        yield "            }"

    def rows_stored(self, names: list[list[str]], store: str) -> Iterator[str]:
        """Lines that store the rows that lie inside."""
        for i, row in enumerate(names):
            stores = " ".join(store.format(c, v) for v, c in enumerate(row))
            yield f"                if (row + {i} < rows) {{ {stores} }} to += pitch_c;"
