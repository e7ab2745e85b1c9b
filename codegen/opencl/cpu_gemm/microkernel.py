"""GEMM micro-kernel (BLIS terms): a few rows of A times a panel of B, with all sums in registers.

    global const float *a0 = A + min(row + 0, rows - 1) * pitch_a + k0; ...
    float16 c0_0 = 0, ...;
    if (k0 || adds) { c0_0 = vload16(0, from); ... }
    for (; k + 1 <= ends; k += 1) {
      XETILE_FETCH(next0 + k * pitch_b);
      const float16 b0_0 = panel[k * 4], ...;
      { const float16 x = (float16)(a0[k]); c0_0 = fma(x, b0_0, c0_0); ... } ...
    }
    if (!last) vstore16(c0_0, 0, from) ... else vstore16(c0_0, 0, to) ...

The register tile is six rows by four vectors: 24 multiply-adds hide their few loads. Narrower tiles have at most eight
rows: lines of A a power of two apart fall into the same 8-way set of L1, and each is needed for 16 steps of K. Their K
loop is unrolled, since row pointers are reloaded from memory, and the next lines of A, most of the data that such a
product reads, are prefetched too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from codegen.opencl.prelude.macros import FETCH
from codegen.opencl.values import inline_floats
from xegpu.ir.dtypes import DType, f32
from xegpu.target.gemm_microkernel import LANES

DOT = "XETILE_DOT_BF16"
"""``DOT(sums, a, b)``: 16 sums of products of pairs of bf16. Defined where the processor has such an instruction."""
LINE = 64
"""Cache line in bytes."""
WIDEST = 4
"""Maximum width of a register tile, in vectors."""
ACCUMULATORS = 24
_MOST_OF_NARROW = 8
_TOGETHER = 4


@dataclass(frozen=True)
class Numbers:
    """Element types of a micro-kernel: operands, and their packed form.

    Attributes:
        dtype: element type of both operands.
        pairs: whether the processor has dot products of bf16 pairs.
        deepest: maximum K of a packed panel.
    """

    dtype: DType
    pairs: bool
    deepest: int

    @property
    def deep(self) -> int:
        """Rows of B interleaved in one row of a panel."""
        return 2 if self.pairs else 1

    @property
    def word(self) -> str:
        """C type of a packed vector."""
        return "uint16" if self.pairs else "float16"

    @property
    def widens(self) -> bool:
        """Whether the rows of A are widened to float in a copy."""
        return not self.pairs and self.dtype is not f32

    @property
    def in_a_line(self) -> int:
        """Elements in a cache line."""
        return LINE // self.dtype.bytes

    def row_of_b(self, k: str, name: str) -> str:
        """Declaration of the pointer to a row of B."""
        return f"global const {self.dtype.opencl} *{name} = B + (k0 + {k}) * pitch_b + first;"

    def packed(self, vector_: int, row: str, following: str) -> str:
        """Packed vector of a row of B: as floats, or in pairs with the next row."""
        load = f"vload16({vector_}, {row})"
        if not self.pairs:
            return inline_floats(load, self.dtype)
        upper = f" | convert_uint16(vload16({vector_}, {following})) << 16" if following else ""
        return f"convert_uint16({load}){upper}"

    def row_of_a(self, row: str, name: str) -> str:
        """Declaration of the pointer to a row of A at the panel's first K; rows out of bounds repeat the last."""
        at = f"min({row}, rows - 1)"
        return f"private const float *{name} = wide + {at} * {self.deepest};" if self.widens else \
            f"global const {self.dtype.opencl} *{name} = A + {at} * pitch_a + k0;"


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
        yield f"private float *from = kept + row * {self.pitch};"
        yield from (self.numbers.row_of_a(f"row + {i}", f"a{i}") for i in range(self.height))
        yield "float16 " + ", ".join(f"{name} = 0" for row in self.names for name in row) + ";"
        yield "if (k0 || adds) {"
        for i, row in enumerate(self.names):
            yield "  " + " ".join(f"{name} = vload16({v}, from + {i * self.pitch});" for v, name in enumerate(row))
        yield "}"
        yield from self._where_to_fetch()
        yield "int k = 0;"
        for together in sorted({max(_TOGETHER // self.width, 1), 1}, reverse=True):
            yield from self._loop(together)
        if self.numbers.pairs:
            yield from ["if (odd) {", *self._multiplied(1, odd=True), "}"]
        yield from self._stored()
        yield f"row += {self.height};"

    def _loop(self, together: int) -> Iterator[str]:
        """K loop, unrolled."""
        yield f"for (; k + {together} <= ends; k += {together}) {{"
        yield from self._fetched(together)
        yield from self._multiplied(together)
        yield "}"

    @property
    def _lines_of_b(self) -> int:
        """Cache lines of these columns in the rows of B that one row of a panel packs."""
        return self.numbers.deep * -(-self.width * LANES // self.numbers.in_a_line)

    def _where_to_fetch(self) -> Iterator[str]:
        """Pointers to the next panel's data, of which each register tile prefetches a share."""
        numbers, lines = self.numbers, self._lines_of_b
        for line in range(-(-lines // self.parts)):
            which = f"(part + {line * self.parts}) % {lines}"
            yield (f"global const {numbers.dtype.opencl} *next{line} = B + (k0 + {which} % {numbers.deep}) * pitch_b + "
                   f"ahead + first + {which} / {numbers.deep} * {numbers.in_a_line};")
        if self.width < WIDEST:
            yield "const int furthest = min(steps, depth - k0 - steps) - 1;"

    def _fetched(self, together: int) -> Iterator[str]:
        """Prefetches of the next panel of B and of these rows of A, a few cache lines in each step."""
        numbers, most = self.numbers, _MOST_OF_NARROW
        for step in range(together):
            yield from (f"  {FETCH}(next{line} + (k + {step}) * {numbers.deep} * pitch_b);"
                        for line in range(-(-self._lines_of_b // self.parts)))
        if self.width >= WIDEST:
            return
        yield (f"  global const {numbers.dtype.opencl} *then = "
               f"A + min(row + k / {together} % {most}, rows - 1) * pitch_a + k0 + steps;")
        each = max(most * together * numbers.deep // numbers.in_a_line, 1)
        yield from (f"  {FETCH}(then + min((k / {together * most} * {each} + {line}) * {numbers.in_a_line}, furthest));"
                    for line in range(each))

    def _multiplied(self, together: int, *, odd: bool = False) -> Iterator[str]:
        """Multiply-adds of some steps along K; an odd step has a single element of A instead of a pair."""
        for step in range(together):
            yield from self._row_of_b(step, odd=odd)
        for i, row in enumerate(self.names):
            for step in range(together):
                number = self._number(f"a{i}", step, odd=odd)
                adds = " ".join(f"{name} = {self._added(name, f'b{step}_{v}')};" for v, name in enumerate(row))
                yield f"  {{ const {self.numbers.word} x = ({self.numbers.word})({number}); {adds} }}"

    def _row_of_b(self, step: int, *, odd: bool) -> Iterator[str]:
        """Loads of the vectors of one row of a panel."""
        numbers, names = self.numbers, [f"b{step}_{v}" for v in range(self.width)]
        slots = [f"panel[(k + {step}) * {self.width} + {v}]" for v in range(self.width)]
        if not self.packs:
            yield f"  const {numbers.word} {', '.join(f'{b} = {at}' for b, at in zip(names, slots, strict=True))};"
            return
        row, following = f"row{step}", "" if odd else f"row{step} + pitch_b"
        yield f"  {numbers.row_of_b(f'(k + {step}) * {numbers.deep}', row)}"
        loads = (f"{b} = {numbers.packed(v, row, following)}" for v, b in enumerate(names))
        yield f"  const {numbers.word} {', '.join(loads)};"
        yield "  " + " ".join(f"{at} = {b};" for b, at in zip(names, slots, strict=True))

    def _number(self, pointer: str, step: int, *, odd: bool) -> str:
        """Element (or bf16 pair) of a row of A at a step."""
        if not self.numbers.pairs:
            return f"{pointer}[k + {step}]"
        return f"{pointer}[steps - 1]" if odd else f"*(global const xetile_pair *)({pointer} + 2 * (k + {step}))"

    def _added(self, name: str, b: str) -> str:
        return f"{DOT}({name}, x, {b})" if self.numbers.pairs else f"fma(x, {b}, {name})"

    def _stored(self) -> Iterator[str]:
        """Stores of the accumulators, to their buffer or to C."""
        yield "if (!last || !is_whole) {"
        for i, row in enumerate(self.names):
            yield "  " + " ".join(f"vstore16({name}, {v}, from + {i * self.pitch});" for v, name in enumerate(row))
        yield "} else {"
        yield "  global float *to = C + row * pitch_c + first;"
        if self.width * LANES == self.pitch:  # no large C is made of narrower ones
            yield "  if (past) {"
            yield from self._rows_stored("__builtin_nontemporal_store({0}, (global float16 *)to + {1});")
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
