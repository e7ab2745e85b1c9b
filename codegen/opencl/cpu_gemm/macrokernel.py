"""GEMM macro-kernel of a tile (BLIS terms): K blocking, and packing of B into panels for the micro-kernel.

    for (int k0 = 0; k0 < depth; k0 += 256)
      for (int first = 0; first < columns; first += 64) {                        a panel of B
        panel[k * 4 + 0] = vload16(0, &B[(k0 + k) * pitch + first]); ...           its rows, one after the other
        for (int row = 0; row < rows; ) {                                        a few rows of A at a time
          float16 c0_0 = k0 || adds ? vload16(0, sums + row * 64) : 0; ...
          for (int k = 0; k < steps; ++k) { b0 = panel[k * 4]; ...; x = a0[k]; c0_0 = fma(x, b0_0, c0_0); ... }
          if (last) vstore16(c0_0, 0, &C[row * pitch]) ... else vstore16(c0_0, 0, sums + row * 64) ...

All panels of some rows of B follow each other: their A is read from behind L2 once, and rows of B a page apart are
looked up in the TLB once. While the micro-kernel multiplies a panel by a few rows of A at a time
(:mod:`codegen.opencl.cpu_gemm.microkernel`), the next panel and the next rows of A are prefetched. ``below`` is the
number of B's rows from the first one on: after the last, present ones are prefetched again at no cost, since prefetches
beyond an array cost as much as useful ones. Between the panels of one place the sums are in memory that L2 holds;
after the last one they are stored to C, with non-temporal stores (``past``) where C is much larger than the caches,
which avoids reading each line of C before it is written. These must be visible when the kernel ends, so the last
subgroup of a work-group (``past`` is 2) executes a store fence; a fence in each subgroup would stall the next tile.

At the right edge, vectors out of bounds are skipped, and the last few columns have a kernel of their own
(:mod:`codegen.opencl.cpu_gemm.edge_columns`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise

from codegen.opencl.cpu_gemm.edge_columns import MOST, SingleColumns
from codegen.opencl.cpu_gemm.microkernel import ACCUMULATORS, LINE, ONES, WIDEST, Numbers, RowsOfSums, even, heights
from codegen.opencl.values import inline_float, inline_floats
from xegpu.target.gemm_microkernel import LANES, MicrokernelShape

FENCE = "xetile_store_fence"
"""Name of the store fence after non-temporal stores."""
_MOST_WITH_FEW_ROWS = 16
_PANEL_BYTES = 64 * 1024
"""Panel size of packed B in bytes: it is read from L2 in order, and the sums are half as often between panels in memory
as with 32 KB, which fit an L1: 0.952 instead of 0.942 of the multiply-adds on Zen 4 in f32, 0.951 instead of 0.946 in
bf16."""
_PANEL_BYTES_OF_COPIES = 32 * 1024
"""The same where the rows of A are copied, which takes L2 as well: more gains nothing. 20 KB were slower by 3 %."""
_VECTOR_BYTES = 64
_DEEPEST = 256
"""Maximum K of a panel: in a narrow one, more rows would only evict A from L1."""


def parts_of(rows: int, vectors: int) -> list[tuple[range, list[range]]]:
    """Register tiles: vectors of columns, with the groups of rows of A whose sums fit into registers.

    With few rows of A, a tile has more columns: B then comes from memory, and adjacent data arrive sooner.
    """
    widest = max(WIDEST, _MOST_WITH_FEW_ROWS // rows)
    return [(range(first, first + width),
             [range(row, row + count) for row, count in even(rows, ACCUMULATORS // width)])
            for first, width in even(vectors, widest)]


def _widths(most: int) -> list[int]:
    """Widths of register tiles in vectors: all, or at an edge one; each variant costs compile time."""
    return [most, 1] if most > 1 else [1]


def _enough(vectors: str, widths: list[int]) -> str:
    """C expression of the smallest of these widths that covers so many vectors."""
    return "".join(f"{vectors} > {less} ? {width} : " for width, less in pairwise(widths)) + f"min({vectors}, 1)"


def _count(width: int, size: int) -> int:
    """K of a panel of ``width`` vectors, of at most ``size`` bytes."""
    return min(size // (_VECTOR_BYTES * width) // 16 * 16, _DEEPEST)


@dataclass(frozen=True)
class ProductText:
    """Text of one macro-kernel, with float multiply-adds or dot products of bf16 pairs or of four bytes.

    Attributes:
        shape: of the C tile, and the element types.
        group: elements along K of a multiply-add.
    """

    shape: MicrokernelShape
    group: int = 1

    @property
    def groups(self) -> list[tuple[int, int]]:
        """Register tiles along the columns: first vector and width of each."""
        return even(self.shape.columns // LANES, WIDEST)

    @property
    def count(self) -> int:
        """K of a panel."""
        return _count(self.groups[0][1], self.panel_bytes) * self.group

    @property
    def panel_bytes(self) -> int:
        """Size of a panel in bytes."""
        copies = Numbers(self.shape.a, self.shape.b, self.group, 0).copies_a
        return _PANEL_BYTES_OF_COPIES if copies else _PANEL_BYTES

    @property
    def numbers(self) -> Numbers:
        """Element types of the micro-kernel."""
        return Numbers(self.shape.a, self.shape.b, self.group, self.count)

    @property
    def single(self) -> SingleColumns:
        """Kernel of the last few columns."""
        return SingleColumns(self.numbers, self.shape.rows)

    def body(self) -> Iterator[str]:
        """Function body."""
        yield "  const bool is_last = past > 1;"
        yield f"  past = past && (((ulong)C | (ulong)pitch_c * 4) & {LINE - 1}) == 0;"
        yield f"  {self.numbers.word} panel[{self.panel_bytes // _VECTOR_BYTES}];"
        yield f"  {self.numbers.sum} kept[{self.shape.rows * self.shape.columns}];"
        if self.numbers.copies_a:
            yield f"  {self.numbers.copy} wide[{self.shape.rows * self.numbers.row_pitch}];"
        if self.single.exist:
            yield f"  {self.single.declared()}"
        yield f"  for (int k0 = 0; k0 < depth; k0 += {self.count}) {{"
        yield from (f"    {line}" for line in self._panels())
        yield "  }"
        yield f"  if (is_last) {FENCE}();"

    def _panels(self) -> Iterator[str]:
        """Statements of all panels of some rows of B."""
        yield f"const int steps = min(depth - k0, {self.count});"
        yield f"const int ends = steps / {self.group}, odd = steps % {self.group};"
        yield "const bool last = k0 + steps == depth;"
        if self.numbers.copies_a:
            yield from self._bytes_of_a() if self.numbers.quads else self._widened()
        for width, alike in groupby(self.groups, lambda group: group[1]):
            starts = [first * LANES for first, _ in alike]
            end = f"min(columns, {starts[-1] + width * LANES})"
            yield f"for (int first = {starts[0]}; first < {end}; first += {width * LANES}) {{"
            yield from (f"  {line}" for line in _SideBySide(self, width).lines())
            yield "}"

    def _widened(self) -> Iterator[str]:
        """Copy of the rows of A, widened to float."""
        dtype = self.shape.a
        yield "for (int row = 0; row < rows; ++row) {"
        yield f"  global const {dtype.opencl} *from = A + row * pitch_a + k0;"
        yield f"  private float *to = wide + row * {self.numbers.row_pitch};"
        yield "  int k = 0;"
        yield f"  for (; k + {LANES} <= steps; k += {LANES})"
        yield f"    vstore16({inline_floats('vload16(0, from + k)', dtype)}, 0, to + k);"
        yield f"  for (; k < steps; ++k) to[k] = {inline_float('from[k]', dtype)};"
        yield "}"

    def _bytes_of_a(self) -> Iterator[str]:
        """Copy of the rows of A as words of four bytes, zero-padded along K, with their highest bits flipped or not."""
        flip = " ^ 0x80808080u" if self.numbers.flips_a else ""
        yield "for (int row = 0; row < rows; ++row) {"
        yield "  global const uchar *from = (global const uchar *)A + row * pitch_a + k0;"
        yield f"  private uint *to = wide + row * {self.numbers.row_pitch};"
        yield "  int k = 0;"
        yield f"  for (; k + {LINE} <= steps; k += {LINE}, to += {LINE // 4})"
        yield f"    vstore16(*(global const xetile_words *)(from + k){flip}, 0, to);"
        yield "  for (; k < steps; k += 4, ++to) {"
        yield "    uint word = 0;"
        yield "    for (int i = 0; i < min(steps - k, 4); ++i) word |= (uint)from[k + i] << 8 * i;"
        yield f"    *to = word{flip};"
        yield "  }"
        yield "}"


@dataclass(frozen=True)
class _SideBySide:
    """Macro-kernel text for one panel of B: one register tile's columns, from ``first`` on.

    Attributes:
        text: the function's.
        most: how many vectors they are, if all lie inside.
    """

    text: ProductText
    most: int

    @property
    def pitch(self) -> int:
        """Row pitch of the accumulators in elements."""
        return self.most * LANES

    def lines(self) -> Iterator[str]:
        """Statements of the panel."""
        choices, numbers, single = _widths(self.most), self.text.numbers, self.text.single
        yield from self._edge(choices)
        yield f"private {numbers.sum} *sums = kept + first * {self.text.shape.rows};"
        yield "if (adds && k0 == 0) for (int row = 0; row < rows; ++row)"
        yield f"  for (int i = 0; i < across; ++i) sums[row * {self.pitch} + i] = C[row * pitch_c + first + i];"
        yield f"const bool turns = first + {self.pitch} >= columns;"
        yield "const int left = turns ? min(below - k0 - steps, steps) : steps;"
        yield f"const long ahead = turns ? (left > 0 ? steps * pitch_b : 0) - first : {self.pitch};"
        yield "const int furthest = (left > 0 ? left : steps) - 1;"
        if numbers.flips_a:
            yield f"int16 sums_of_b[{self.most}];"
        for width in choices:
            yield f"if (side_by_side == {width}) {{"
            yield from (f"  {line}" for line in (*self._packed(width), *self._summed(width)))
            yield "}"
        if single.exist:
            yield "if (single) {"
            yield from (f"  {line}" for line in single.lines(self.pitch))
            yield "}"
        yield "if (last && !is_whole) for (int row = 0; row < rows; ++row)"
        yield f"  for (int i = 0; i < inside; ++i) C[row * pitch_c + first + i] = sums[row * {self.pitch} + i];"

    def _edge(self, choices: list[int]) -> Iterator[str]:
        """Column counts at the edge: ``inside`` in complete vectors, ``single`` in the remainder."""
        yield f"const int across = min(columns - first, {self.pitch}), behind = across % {LANES};"
        yield f"const int fewer = across / {LANES}, vectors = fewer + (behind > 0);"
        yield f"const int less = {_enough('fewer', choices)}, more = {_enough('vectors', choices)};"
        most = MOST if self.text.single.exist else 0
        yield f"const int single = behind <= {most} && less < more ? behind : 0, side_by_side = single ? less : more;"
        yield "const int inside = across - single;"
        yield f"const bool is_whole = inside == side_by_side * {LANES};"

    def _packed(self, width: int) -> Iterator[str]:
        """Packing of rows of B at the right edge, zero-padded."""
        numbers, scalar = self.text.numbers, self.text.numbers.word.removesuffix("16")
        if numbers.quads:
            yield from self._packed_bytes(width)
            return
        yield f"if (!is_whole) for (int k = 0; k < steps; k += {numbers.group}) {{"
        yield f"  {numbers.row_of_b('k', 'row')}"
        if numbers.pairs:
            yield "  global const ushort *next = k + 1 < steps ? row + pitch_b : row;"
        yield f"  private {numbers.word} *to = panel + k / {numbers.group} * {width};"
        for v in range(width):
            yield f"  if (inside >= {(v + 1) * LANES}) to[{v}] = {self._loaded(v)};"
            yield "  else {"
            yield f"    to[{v}] = 0;"
            yield f"    for (int i = {v * LANES}; i < inside; ++i) ((private {scalar} *)to)[i] = {self._number()};"
            yield "  }"
        yield "}"

    def _packed_bytes(self, width: int) -> Iterator[str]:
        """Packing of bytes of B at the right edge, and their column sums."""
        numbers = self.text.numbers
        yield "if (!is_whole) {"
        if numbers.flips_a:
            yield "  " + " ".join(f"sums_of_b[{v}] = 0;" for v in range(width))
        yield "  for (int k = 0; k < steps; k += 4) {"
        yield f"    private uint16 *to = panel + k / 4 * {width};"
        yield f"    for (int v = 0; v < {width}; ++v) to[v] = 0;"
        yield "    for (int i = 0; i < min(steps - k, 4); ++i) {"
        yield f"      {numbers.row_of_b('k + i', 'row')}"
        yield "      for (int column = 0; column < inside; ++column)"
        yield "        ((private uchar *)to)[column * 4 + i] = (uchar)row[column];"
        yield "    }"
        if numbers.flips_a:
            yield "    " + " ".join(f"sums_of_b[{v}] = {numbers.added(f'sums_of_b[{v}]', ONES, f'to[{v}]')};"
                                    for v in range(width))
        yield "  }"
        yield "}"

    def _loaded(self, position: int) -> str:
        """Packed vector of B."""
        if not self.text.numbers.pairs:
            return self.text.numbers.packed(position, ["row"])
        return f"{self.text.numbers.packed(position, ['row'])} | " \
               f"(k + 1 < steps ? convert_uint16(vload16({position}, next)) << 16 : 0)"

    def _number(self) -> str:
        """Packed element of B."""
        if self.text.numbers.pairs:
            return "(uint)row[i] | (k + 1 < steps ? (uint)next[i] << 16 : 0)"
        return inline_float("row[i]", self.text.shape.b)

    def _summed(self, width: int) -> Iterator[str]:
        """Loop over register tiles of the rows of A, of the largest height or one less."""
        sizes = heights(self.text.shape.rows, width)
        first, high, low = (
            RowsOfSums(self.text.numbers, height, width, self.pitch, len(sizes), packs)
            for height, packs in ((sizes[0], True), (sizes[0], False), (sizes[-1], False)))
        yield "for (int row = 0, part = 0; row < rows; ++part) {"
        yield "  if (is_whole && row == 0) {"
        yield from (f"    {line}" for line in first.lines())
        if sizes[0] != sizes[-1]:
            yield f"  }} else if (row < {sizes[0] * sizes.count(sizes[0])}) {{"
            yield from (f"    {line}" for line in high.lines())
        yield "  } else {"
        yield from (f"    {line}" for line in low.lines())
        yield "  }"
        yield "}"
