"""GEMM kernel of the N remainder: single columns are vectorized along K, 16 products at a time.

    for (int k = 0; k < steps; ++k) line[k] = B[(k0 + k) * pitch + column];                          once
    for (int row = 0; row < rows; row += 8) {
      for (int k = 0; k + 16 <= steps; k += 16) {
        const float16 x = vload16(0, line + k);
        c0 = fma(vload16(0, a0 + k), x, c0); c1 = fma(vload16(0, a1 + k), x, c1); ...
      }

A column takes a sixteenth of a vector's instructions; the remainder of K is scalar, and the 16 partial sums of a row
are reduced at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from codegen.opencl.cpu_gemm.microkernel import DOT, Numbers
from codegen.opencl.values import inline_float
from xegpu.ir.dtypes import f32

MOST = 4
"""Maximum number of columns. Each reads A again; for more, a mostly out-of-bounds vector takes no longer."""
_TOGETHER = 8
"""Rows of A per iteration: independent sums hide the latency of dependent multiply-adds."""


@dataclass(frozen=True)
class SingleColumns:
    """Generator of the kernel for some columns.

    Attributes:
        numbers: what is multiplied.
        rows: of the tile of sums.
    """

    numbers: Numbers
    rows: int

    @property
    def exist(self) -> bool:
        """Whether columns of these types have such a kernel; those of bytes are part of a vector."""
        return not self.numbers.quads

    @property
    def padded(self) -> int:
        """Rows of accumulators, padded."""
        return -(-self.rows // _TOGETHER) * _TOGETHER

    def declared(self) -> str:
        """Declaration of the accumulators between panels."""
        return f"float16 along[{self.padded * MOST}];"

    def lines(self, pitch: int) -> Iterator[str]:
        """Statements that accumulate a panel, and store after the last one.

        Args:
            pitch: numbers from one row of kept sums to the next.
        """
        number = "B[(k0 + k) * pitch_b + first + inside + s]"
        together = 32 if self.numbers.pairs else 16
        yield f"{'ushort' if self.numbers.pairs else 'float'} line[{self.numbers.deepest}];"
        yield "for (int s = 0; s < single; ++s) {"
        yield (f"  for (int k = 0; k < steps; ++k) "
               f"line[k] = {number if self.numbers.pairs else inline_float(number, self.numbers.b)};")
        yield f"  for (int row = 0; row < rows; row += {_TOGETHER}) {{"
        yield f"    private float16 *to = along + s * {self.padded} + row;"
        yield from (f"    {self.numbers.row_of_a(f'row + {i}', f'a{i}')}" for i in range(_TOGETHER))
        yield "    float16 " + ", ".join(f"c{i} = k0 ? to[{i}] : 0" for i in range(_TOGETHER)) + ";"
        yield "    int k = 0;"
        yield f"    for (; k + {together} <= steps; k += {together}) {{"
        yield from (f"      {line}" for line in self._multiplied())
        yield "    }"
        yield "    for (; k < steps; ++k) {"
        yield f"      const float x = {self._widened('line[k]')};"
        yield from (f"      c{i}.s0 = fma({self._widened(f'a{i}[k]')}, x, c{i}.s0);" for i in range(_TOGETHER))
        yield "    }"
        yield "    " + " ".join(f"to[{i}] = c{i};" for i in range(_TOGETHER))
        yield "  }"
        yield from (f"  {line}" for line in self._stored(pitch))
        yield "}"

    def _widened(self, number: str) -> str:
        """An operand widened to float; without bf16 pairs it is one already."""
        return inline_float(number, self.numbers.a if self.numbers.pairs else f32)

    def _multiplied(self) -> Iterator[str]:
        """Multiply-adds of one step along K."""
        if self.numbers.pairs:
            yield "const uint16 x = *(private const xetile_pairs *)(line + k);"
            yield from (f"c{i} = {DOT}(c{i}, *(global const xetile_pairs *)(a{i} + k), x);" for i in range(_TOGETHER))
            return
        yield "const float16 x = vload16(0, line + k);"
        yield from (f"c{i} = fma(vload16(0, a{i} + k), x, c{i});" for i in range(_TOGETHER))

    def _stored(self, pitch: int) -> Iterator[str]:
        """Horizontal sums of each row's 16 partial sums, and their stores."""
        yield "if (last) for (int row = 0; row < rows; ++row) {"
        yield f"  const float16 c = along[s * {self.padded} + row];"
        yield "  const float8 half8 = c.lo + c.hi;"
        yield "  const float4 half4 = half8.lo + half8.hi;"
        yield f"  const float before = adds ? sums[row * {pitch} + inside + s] : 0;"
        yield ("  C[row * pitch_c + first + inside + s] = "
               "before + ((half4.x + half4.y) + (half4.z + half4.w));")
        yield "}"
