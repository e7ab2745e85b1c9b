"""Products by few rows of A, in functions of whole vectors: B is read once, in the order of memory.

    for (; k + 8 <= depth; k += 8) {
      const float x0_0 = A[k], x0_1 = A[k + 1], ...;  global const float *b0 = B + k * pitch_b, ...;
      for (; i + 16 <= columns; i += 16) {
        XETILE_FETCH(b0 + i + 8 * pitch_b); ...
        c0 = vload16(0, sums + i); c0 = fma(x0_0, vload16(0, b0 + i), c0); ...
      }
    }

Memory is what such a product waits for. A processor foresees what follows in a row, and not the next row, which is on
another page; so some rows are read along their whole length at a time, while the next ones are fetched. The sums stay
in the first cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from codegen.opencl.emitter import FETCH
from xegpu.ir.dtypes import DType, bf16, f32

_TOGETHER = 8
"""Numbers of A that are held at a time, each spread over a register."""


@dataclass(frozen=True)
class FewRows:
    """The text of one function.

    Attributes:
        rows, columns: of the tile of sums.
        dtype: element type of both operands; the sums are f32.
    """

    rows: int
    columns: int
    dtype: DType

    def body(self) -> Iterator[str]:
        """The lines between the function's braces."""
        yield "  int k = 0;"
        yield from self._steps(max(_TOGETHER // self.rows, 2))
        yield from self._steps(1)

    def _steps(self, count: int) -> Iterator[str]:
        """The loop that goes over so many rows of B at a time."""
        yield f"  for (; k + {count} <= depth; k += {count}) {{"
        yield "    int i = 0;"
        for row in range(self.rows):
            yield "    const float " + ", ".join(
                f"x{row}_{s} = {widened(self.dtype, f'A[min({row}, rows - 1) * pitch_a + k + {s}]')}"
                for s in range(count)) + ";"
        yield f"    global const {self.dtype.opencl} " + ", ".join(
            f"*b{s} = B + (k + {s}) * pitch_b" for s in range(count)) + ";"
        yield "    for (; i + 16 <= columns; i += 16) {"
        if count > 1:
            yield "      " + " ".join(f"{FETCH}(b{s} + i + {count} * pitch_b);" for s in range(count))
        yield from self._sums(count, "float16", "(float16)", lambda s: vector(self.dtype, f"vload16(0, b{s} + i)"),
                              "vload16(0, {})", "vstore16({1}, 0, {0})")
        yield "    }"
        yield "    for (; i < columns; ++i) {"
        yield from self._sums(count, "float", "", lambda s: widened(self.dtype, f"b{s}[i]"), "*({})", "*({0}) = {1}")
        yield "    }"
        yield "  }"

    def _sums(self, count: int, c_type: str, spread: str, number: Callable[[int], str], load: str,
              store: str) -> Iterator[str]:
        """Lines that add up the products of one vector, or of one number, of each of the rows of B."""
        places = [f"sums + {row * self.columns} + i" for row in range(self.rows)]
        yield f"      {c_type} " + ", ".join(
            f"c{row} = {load.format(place)}" for row, place in enumerate(places)) + ";"
        for s in range(count):
            adds = (f"c{row} = fma({spread}(x{row}_{s}), b, c{row});" for row in range(self.rows))
            yield f"      {{ const {c_type} b = {number(s)}; {' '.join(adds)} }}"
        yield from (f"      {store.format(place, f'c{row}')};" for row, place in enumerate(places))


def vector(dtype: DType, numbers: str) -> str:
    """16 elements as floats; f16 by a word of clang's, since OpenCL C's function is a call there."""
    if dtype is bf16:
        return f"as_float16(convert_uint16({numbers}) << 16)"
    return numbers if dtype is f32 else f"__builtin_convertvector({numbers}, float16)"


def widened(dtype: DType, number: str) -> str:
    """An element as a float."""
    if dtype is bf16:
        return f"as_float((uint){number} << 16)"
    return number if dtype is f32 else f"(float)({number})"
