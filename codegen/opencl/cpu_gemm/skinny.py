"""Skinny GEMM micro-kernel (M <= 4, GEMV-like): B is streamed once, in memory order.

    for (; k + 8 <= depth; k += 8) {
      const float x0_0 = A[k], x0_1 = A[k + 1], ...;  global const float *b0 = B + k * pitch_b, ...;
      for (; i + 16 <= columns; i += 16) {
        XETILE_FETCH(b0 + i + 8 * pitch_b); ...
        c0 = vload16(0, sums + i); c0 = fma(x0_0, vload16(0, b0 + i), c0); ...
      }
    }

Such a product is bound by memory bandwidth. The hardware prefetcher follows a row, but not to the next row, which is on
another page; so a few rows are streamed along their length, while the next ones are prefetched. The sums stay in L1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from codegen.opencl.prelude.macros import FETCH
from codegen.opencl.values import inline_float, inline_floats
from xegpu.ir.dtypes import DType

_TOGETHER = 8
"""Elements of A that are live at a time, each broadcast to a register."""


@dataclass(frozen=True)
class FewRows:
    """Generator of one skinny micro-kernel.

    Attributes:
        rows, columns: shape of the C tile.
        dtype: element type of both operands; the sums are f32.
    """

    rows: int
    columns: int
    dtype: DType

    def body(self) -> Iterator[str]:
        """Function body."""
        yield "  int k = 0;"
        yield from self._steps(max(_TOGETHER // self.rows, 2))
        yield from self._steps(1)

    def _steps(self, count: int) -> Iterator[str]:
        """Loop over ``count`` rows of B at a time."""
        yield f"  for (; k + {count} <= depth; k += {count}) {{"
        yield "    int i = 0;"
        for row in range(self.rows):
            yield "    const float " + ", ".join(
                f"x{row}_{s} = {inline_float(f'A[min({row}, rows - 1) * pitch_a + k + {s}]', self.dtype)}"
                for s in range(count)) + ";"
        yield f"    global const {self.dtype.opencl} " + ", ".join(
            f"*b{s} = B + (k + {s}) * pitch_b" for s in range(count)) + ";"
        yield "    for (; i + 16 <= columns; i += 16) {"
        if count > 1:
            yield "      " + " ".join(f"{FETCH}(b{s} + i + {count} * pitch_b);" for s in range(count))
        yield from self._sums(count, "float16", "(float16)",
                              lambda s: inline_floats(f"vload16(0, b{s} + i)", self.dtype),
                              "vload16(0, {})", "vstore16({1}, 0, {0})")
        yield "    }"
        yield "    for (; i < columns; ++i) {"
        yield from self._sums(count, "float", "",
                              lambda s: inline_float(f"b{s}[i]", self.dtype), "*({})", "*({0}) = {1}")
        yield "    }"
        yield "  }"

    def _sums(self, count: int, c_type: str, spread: str, number: Callable[[int], str], load: str,
              store: str) -> Iterator[str]:
        """Multiply-adds of one vector, or of one element, of each of the rows of B."""
        addresses = [f"sums + {row * self.columns} + i" for row in range(self.rows)]
        yield f"      {c_type} " + ", ".join(
            f"c{row} = {load.format(address)}" for row, address in enumerate(addresses)) + ";"
        for s in range(count):
            adds = (f"c{row} = fma({spread}(x{row}_{s}), b, c{row});" for row in range(self.rows))
            yield f"      {{ const {c_type} b = {number(s)}; {' '.join(adds)} }}"
        yield from (f"      {store.format(address, f'c{row}')};" for row, address in enumerate(addresses))


