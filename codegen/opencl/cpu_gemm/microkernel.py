"""GEMM micro-kernel (BLIS terms): a few rows of A times a panel of B, with all sums in registers.

    global const float *a0 = A + min(row + 0, rows - 1) * pitch_a + k0; ...
    float16 c0_0 = 0, ...;
    if (k0 || adds) { c0_0 = vload16(0, from); ... }
    for (; k + 1 <= ends; k += 1) {
      if (k % 16 == 0) {
        XETILE_FETCH(from_a + min(row_a + 0, rows - 1) * pitch_a + k); ...
        XETILE_FETCH(next_row); ...  XETILE_L1_FETCH(from + 384 + k / 16 * 48); ...
      }
      const float16 b0_0 = panel[k * 4], ...;
      { const float16 x = (float16)(a0[k]); c0_0 = fma(x, b0_0, c0_0); ... } ...
    }
    if (!last) vstore16(c0_0, 0, from) ... else vstore16(c0_0, 0, to) ...

The register tile is six rows by four vectors: 24 multiply-adds hide their few loads. Narrower tiles have at most eight
rows: lines of A a power of two apart fall into the same set of L1, and each is needed for 16 steps of K. Their K loop
is unrolled, since row pointers are reloaded from memory.

Each line is prefetched once; lines of one row of B together, as each row is another page. Without prefetches of A,
whose rows are pages apart, each few rows wait for their first lines: an eighth of the time where A is in the memory
behind L2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from codegen.opencl.prelude.macros import FETCH, FETCH_L1
from codegen.opencl.values import inline_floats
from xegpu.ir.dtypes import DType, f32
from xegpu.target.gemm_microkernel import LANES

DOT = "XETILE_DOT_BF16"
"""``DOT(sums, a, b)``: 16 sums of products of pairs of bf16. Defined where the CPU has such an instruction."""
DOT_I8 = "XETILE_DOT_I8"
"""``DOT_I8(sums, a, b)``: 16 sums of four products of unsigned bytes of ``a`` and signed ones of ``b``. Defined where
the CPU has such an instruction."""
INTERLEAVE = "xetile_interleave_bytes"
"""Function ``INTERLEAVE(words, from, pitch)``: four rows of 64 bytes as 64 words of four bytes, one of each row."""
LINE = 64
"""Cache line in bytes."""
WIDEST = 4
"""Maximum width of a register tile, in vectors."""
ACCUMULATORS = 24
ONES = "(uint16)(0x01010101)"
"""A vector of bytes of one: the dot products with it are column sums."""
_INTEGERS = {16: "short", 8: "char"}
_MOST_OF_NARROW = 8
_TOGETHER = 4


@dataclass(frozen=True)
class Numbers:
    """Element types of a micro-kernel: operands, and their packed form.

    Attributes:
        a, b: element types of the operands.
        group: elements along K that an instruction multiplies and adds: 1 by fma, 2 of bf16, or 4 of 8 bits, by dot
            products. So many rows of B are interleaved in one row of a panel.
        deepest: maximum K of a packed panel.
    """

    a: DType
    b: DType
    group: int
    deepest: int

    @property
    def pairs(self) -> bool:
        """Whether pairs of bf16 are multiplied."""
        return self.group == 2

    @property
    def quads(self) -> bool:
        """Whether groups of four bytes are multiplied."""
        return self.group == 4

    @property
    def word(self) -> str:
        """C type of a packed vector."""
        return "float16" if self.group == 1 else "uint16"

    @property
    def sum(self) -> str:
        """C type of a sum."""
        return "int" if self.quads else "float"

    @property
    def copies_a(self) -> bool:
        """Whether the rows of A are copied: widened to float, or as words of four bytes."""
        return self.quads or (self.group == 1 and self.a is not f32)

    @property
    def copy(self) -> str:
        """C type of an element of that copy."""
        return "uint" if self.quads else "float"

    @property
    def row_pitch(self) -> int:
        """Elements from one row of that copy to the next."""
        return self.deepest // (4 if self.quads else 1)

    @property
    def flips_a(self) -> bool:
        """Whether the highest bits of A's bytes are flipped in their copy.

        The dot product multiplies unsigned by signed bytes. Where both operands have one signedness, A gets the other,
        which is 128 more or less, and so many times the column sums of B are taken from the sums again.
        """
        return self.quads and self.a.signed == self.b.signed

    @property
    def in_a_line(self) -> int:
        """Elements of an operand in a cache line."""
        return LINE // self.a.bytes

    def row_of_b(self, k: str, name: str) -> str:
        """Declaration of the pointer to a row of B."""
        return f"global const {self.b.opencl} *{name} = B + (k0 + {k}) * pitch_b + first;"

    def packed(self, vector_: int, rows: Sequence[str]) -> str:
        """Packed vector of a row of B: as floats, or with the rows that follow; there may be fewer than a group."""
        loads = [f"vload16({vector_}, {row})" for row in rows]
        if self.group == 1:
            return inline_floats(loads[0], self.b)
        bits = 32 // self.group
        return " | ".join(f"convert_uint16(as_u{_INTEGERS[bits]}16({load}))" + (f" << {bits * i}" if i else "")
                          for i, load in enumerate(loads))

    def row_of_a(self, row: str, name: str) -> str:
        """Declaration of the pointer to a row of A at the panel's first K; rows out of bounds repeat the last."""
        at = f"min({row}, rows - 1)"
        return f"private const {self.copy} *{name} = wide + {at} * {self.row_pitch};" if self.copies_a else \
            f"global const {self.a.opencl} *{name} = A + {at} * pitch_a + k0;"

    def added(self, total: str, a: str, b: str) -> str:
        """C expression of a vector of sums with the products of packed words of both operands."""
        if self.pairs:
            return f"{DOT}({total}, {a}, {b})"
        if self.quads:
            return f"{DOT_I8}({total}, {a}, {b})" if self.b.signed else f"{DOT_I8}({total}, {b}, {a})"
        return f"fma({a}, {b}, {total})"


def heights(rows: int, width: int) -> list[int]:
    """Heights of the register tiles for a number of vectors of B, larger ones first."""
    most = ACCUMULATORS // width if width >= WIDEST else min(ACCUMULATORS // width, _MOST_OF_NARROW)
    return [size for _, size in even(rows, most)]


def even(total: int, most: int) -> list[tuple[int, int]]:
    """Even split of ``total`` into parts of at most ``most``: start and size of each, larger ones first."""
    count = -(-total // most)
    sizes = [total // count + (part < total % count) for part in range(count)]
    return [(sum(sizes[:part]), size) for part, size in enumerate(sizes)]


@dataclass(frozen=True)
class RowsOfSums:
    """Generator of the micro-kernel for a few rows of A.

    Attributes:
        numbers: what is multiplied.
        height, width: rows, and vectors of columns.
        pitch: numbers from one row of kept sums to the next.
        parts: how many times some rows go through a panel.
        packs: whether these are the first rows, for which B is read where it is, and packed for the others.
    """

    numbers: Numbers
    height: int
    width: int
    pitch: int
    parts: int
    packs: bool = False

    @property
    def names(self) -> list[list[str]]:
        """Names of the accumulators, row by row."""
        return [[f"c{i}_{v}" for v in range(self.width)] for i in range(self.height)]

    def lines(self) -> Iterator[str]:
        """Statements of the micro-kernel; rows out of bounds repeat the last one, and are not stored."""
        yield f"private {self.numbers.sum} *from = sums + row * {self.pitch};"
        yield from (self.numbers.row_of_a(f"row + {i}", f"a{i}") for i in range(self.height))
        yield f"{self.numbers.sum}16 " + ", ".join(f"{name} = 0" for row in self.names for name in row) + ";"
        if self.sums_b:
            yield "int16 " + ", ".join(f"s{v} = 0" for v in range(self.width)) + ";"
        yield "if (k0 || adds) {"
        for i, row in enumerate(self.names):
            yield "  " + " ".join(f"{name} = vload16({v}, from + {i * self.pitch});" for v, name in enumerate(row))
        yield "}"
        yield from self._next_rows()
        yield from self._loops()
        if self.numbers.pairs:
            yield from ["if (odd) {", *self._multiplied(1, odd=1), "}"]
        if self.numbers.quads and self.packs:  # the copy of A has zeros there
            for odd in (1, 2, 3):
                yield from [f"if (odd == {odd}) {{", *self._multiplied(1, odd=odd), "}"]
        elif self.numbers.quads:
            yield from ["if (odd) {", *self._multiplied(1), "}"]
        if self.numbers.flips_a:
            yield from self._corrected()
        yield from self._stored()
        yield f"row += {self.height};"

    @property
    def sums_b(self) -> bool:
        """Whether these rows compute the column sums of B as well."""
        return self.packs and self.numbers.flips_a

    def _corrected(self) -> Iterator[str]:
        """Correction for A's bytes with flipped signs: 128, or -128, times the column sums of B is subtracted."""
        if self.sums_b:
            yield " ".join(f"sums_of_b[{v}] = s{v};" for v in range(self.width))
        else:
            yield "const int16 " + ", ".join(f"s{v} = sums_of_b[{v}]" for v in range(self.width)) + ";"
        sign = "-" if self.numbers.b.signed else "+"
        for row in self.names:
            yield " ".join(f"{name} {sign}= s{v} << 7;" for v, name in enumerate(row))

    def _loops(self) -> Iterator[str]:
        """K loop, unrolled in narrow tiles, with prefetches where a cache line of A begins."""
        together = max(_TOGETHER // self.width, 1)
        yield "long k = 0;"  # an int would be widened for each address
        for count in sorted({together, 1}, reverse=True):
            yield f"for (; k + {count} <= ends; k += {count}) {{"
            if count == together:
                yield f"  if (k % {LANES} == 0) {{"
                yield from (f"    {line}" for line in self._fetched())
                yield "  }"
            yield from self._multiplied(count)
            yield "}"

    def _fetched(self) -> Iterator[str]:
        """Prefetches: a line of each of the next rows of A, a share of the lines of B for the next panel, and of the
        next sums, which L1 has no more."""
        numbers = self.numbers
        yield "if (first == 0) {"
        yield from (f"  {FETCH}(from_a + min(row_a + {i}, rows - 1) * pitch_a + k * {numbers.group});"
                    for i in range(self.height))
        yield "}"
        yield f"const int turn = part * ((ends + {LANES - 1}) / {LANES}) + (int)k / {LANES};"
        yield from self._fetched_b()
        if self.width * LANES == self.pitch:
            each = -(-self.height * self.width * LANES * numbers.group // numbers.deepest)
            at = f"from + {self.height * self.pitch} + k / {LANES} * {each * LANES}"
            yield " ".join(f"{FETCH_L1}({at} + {i * LANES});" for i in range(each))

    def _fetched_b(self) -> Iterator[str]:
        """Prefetches of a turn: some rows of B, or lines of one, so that after all turns the next panel is in L2."""
        numbers = self.numbers
        lines = -(-self.width * LANES // numbers.in_a_line)
        each = -(-numbers.group * lines * LANES // self.parts)
        rows, each = (-(-each // lines), lines) if each > lines else \
            (1, next(count for count in range(each, lines + 1) if lines % count == 0))
        turns = lines // each
        row = f"turn / {turns}" if turns > 1 else f"turn * {rows} + i"
        line = f" + turn % {turns} * {each * numbers.in_a_line}" if turns > 1 else ""
        yield f"for (int i = 0; i < {rows}; ++i) {{"
        yield (f"  global const {numbers.b.opencl} *next_row = B + (k0 + min({row}, furthest)) * pitch_b + "
               f"ahead + first{line};")
        yield "  " + " ".join(f"{FETCH}(next_row + {number * numbers.in_a_line});" for number in range(each))
        yield "}"

    def _next_rows(self) -> Iterator[str]:
        """Declarations of the next rows of A and their K: in this panel, or behind the last ones in the next.

        Where the rows are copied, all of this panel have been read, and these rows of the next one are fetched.
        """
        row = "row" if self.numbers.copies_a else f"row + {self.height} < rows ? row + {self.height} : 0"
        yield f"const int row_a = {row};"
        further = "last" if self.numbers.copies_a else "row_a || last"
        yield f"global const {self.numbers.a.opencl} *from_a = A + k0 + ({further} ? 0 : steps);"

    def _multiplied(self, together: int, *, odd: int = 0) -> Iterator[str]:
        """Multiply-adds of some steps along K; an odd step has fewer elements than a group."""
        for step in range(together):
            yield from self._row_of_b(step, odd=odd)
        for i, row in enumerate(self.names):
            for step in range(together):
                number = self._number(f"a{i}", step, odd=odd)
                adds = " ".join(f"{name} = {self.numbers.added(name, 'x', f'b{step}_{v}')};"
                                for v, name in enumerate(row))
                yield f"  {{ const {self.numbers.word} x = ({self.numbers.word})({number}); {adds} }}"

    def _row_of_b(self, step: int, *, odd: int) -> Iterator[str]:
        """Loads of the vectors of one row of a panel; the first rows of A pack it."""
        numbers, names = self.numbers, [f"b{step}_{v}" for v in range(self.width)]
        slots = [f"panel[(k + {step}) * {self.width} + {v}]" for v in range(self.width)]
        if not self.packs:
            yield f"  const {numbers.word} {', '.join(f'{b} = {at}' for b, at in zip(names, slots, strict=True))};"
            return
        row = f"row{step}"
        yield f"  {numbers.row_of_b(f'(k + {step}) * {numbers.group}', row)}"
        if numbers.quads and self.width * LANES == LINE and not odd:
            yield f"  uint16 words[{self.width}];"
            yield f"  {INTERLEAVE}(words, (global const uchar *){row}, pitch_b);"
            packed = [f"words[{v}]" for v in range(self.width)]
        else:
            rows = [f"{row} + {i} * pitch_b" if i else row for i in range(odd or numbers.group)]
            packed = [numbers.packed(v, rows) for v in range(self.width)]
        yield f"  const {numbers.word} {', '.join(f'{b} = {word}' for b, word in zip(names, packed, strict=True))};"
        yield "  " + " ".join(f"{at} = {b};" for b, at in zip(names, slots, strict=True))
        if self.sums_b:
            yield "  " + " ".join(f"s{v} = {numbers.added(f's{v}', ONES, b)};" for v, b in enumerate(names))

    def _number(self, pointer: str, step: int, *, odd: int) -> str:
        """Element (or bf16 pair, or word of four bytes) of a row of A at a step."""
        if not self.numbers.pairs:
            return f"{pointer}[k + {step}]"
        return f"{pointer}[steps - 1]" if odd else f"*(global const xetile_pair *)({pointer} + 2 * (k + {step}))"

    def _stored(self) -> Iterator[str]:
        """Stores of the accumulators, to their buffer or to C."""
        yield "if (!last || !is_whole) {"
        for i, row in enumerate(self.names):
            yield "  " + " ".join(f"vstore16({name}, {v}, from + {i * self.pitch});" for v, name in enumerate(row))
        yield "} else {"
        yield f"  global {self.numbers.sum} *to = C + row * pitch_c + first;"
        if self.width * LANES == self.pitch:  # no large C is made of narrower ones
            yield "  if (past) {"
            vector = f"{self.numbers.sum}16"
            yield from self._rows_stored("__builtin_nontemporal_store({0}, (global " + vector + " *)to + {1});")
            yield "  } else {"
            yield from self._rows_stored("vstore16({0}, {1}, to);")
            yield "  }"
        else:
            yield from self._rows_stored("vstore16({0}, {1}, to);")
        yield "}"

    def _rows_stored(self, store: str) -> Iterator[str]:
        """Stores of the rows in bounds."""
        for i, row in enumerate(self.names):
            stores = " ".join(store.format(name, v) for v, name in enumerate(row))
            yield f"    if (row + {i} < rows) {{ {stores} }} to += pitch_c;"
