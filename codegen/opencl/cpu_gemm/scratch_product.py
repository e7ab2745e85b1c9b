"""Product of a tile in a scratch buffer, for compilers that have the micro-kernels, in loops that keep the text short.

    float scratch[2048];  private float *whole = lane 0's scratch;
    (sums to whole)
    if (A and B have a part of the tile) {
      if (it begins inside) { if (lane == 0) product_call(whole, 64, &A[...], ..., &B[...], ...); }
      else for (row ...) { sum_0 = whole[...]; for (k ...) sum_0 = fma(A[...], panel[...], sum_0); ... }
    }
    if (the tile reaches beyond A or B) { products of zero padding }
    (sums from whole)

Sums in named variables, of which the paths of a product would each be a phi, are most of what a compiler takes its
time for; so are unrolled loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from codegen.opencl.cpu_gemm import function_call
from codegen.opencl.cpu_gemm.variables import Variables
from codegen.opencl.cpu_gemm.zero_padding import ZeroPadding
from codegen.opencl.emitter import NO_UNROLL, atom, wrapping
from codegen.opencl.values import Descriptor, widened
from xegpu.target.gemm_microkernel import LANES, MicrokernelShape

LOOP = "#pragma clang loop vectorize(disable)"
"""Pragma against loop vectorization: the lanes are the vector, and one along K would take gathers."""
_DEEPEST = 256
"""K of a panel of B."""


@dataclass(frozen=True)
class ScratchProduct:
    """Generator of one product's text. Its variables ``lane``, ``first`` and ``end`` are declared before it.

    Attributes:
        shape: of the tile.
        a, b: the operands where the product begins.
        names: its variables; from ``first`` to ``end`` goes K, relative to where the product begins, as far as A has
            columns.
    """

    shape: MicrokernelShape
    a: Descriptor
    b: Descriptor
    names: Variables

    @property
    def across(self) -> int:
        """Vectors of columns."""
        return self.shape.columns // LANES

    @property
    def inside(self) -> str:
        """C condition: the tile has elements of A and B."""
        row, column, names = wrapping(self.a.row), wrapping(self.b.column), self.names
        return (f"{names.first} < {names.end} && {row} > -{self.shape.rows} && {row} < {self.a.height} && "
                f"{column} > -{self.shape.columns} && {column} < {self.b.width}")

    @property
    def zero_padding(self) -> ZeroPadding:
        """Products of zeros beyond A and B."""
        return ZeroPadding(self.a, self.b, (self.shape.rows, self.shape.columns), self.names, self.inside,
                           self.shape.accumulator)

    @property
    def sum(self) -> str:
        """C type of the sums."""
        return self.shape.accumulator.opencl

    def rows_of_b_are_inside(self) -> str:
        """C condition: the rows of B that the columns of A in bounds meet are in bounds."""
        names, row = self.names, wrapping(self.b.row)
        return f"{row} >= -{names.first} && {row} <= {self.b.height} - {names.end}"

    def element(self, index: int | str) -> str:
        """Lvalue of a lane's sum, ``row * across + v``."""
        at = index * LANES if isinstance(index, int) else f"{index} * {LANES}"
        return f"{self.names.shared_scratch}[{at} + {self.names.lane}]"

    def in_row(self, vector: int | str) -> str:
        """Lvalue of a lane's sum in row ``i``."""
        return self.element(f"({self.names.i} * {self.across} + {vector})")

    def declared(self) -> Iterator[str]:
        """Declarations of the buffer, which is lane 0's."""
        names = self.names
        yield f"{self.sum} {names.scratch}[{self.shape.rows * self.shape.columns}];"
        yield f"private {self.sum} *{names.shared_scratch} = " \
              f"(private {self.sum} *)sub_group_broadcast((ulong){names.scratch}, 0);"

    def lines(self, after_call: Sequence[str] = ()) -> Iterator[str]:
        """Statements that add the product to the sums in the buffer.

        Args:
            after_call: statements behind the call.
        """
        names, a, b = self.names, self.a, self.b
        yield f"if ({self.inside}) {{"
        yield f"  if ({wrapping(a.row)} >= 0 && {wrapping(b.column)} >= 0 && {self.rows_of_b_are_inside()}) {{"
        yield f"    const int {names.rows} = min({a.height} - ({a.row}), {self.shape.rows}), " \
              f"{names.columns} = min({b.width} - ({b.column}), {self.shape.columns});"
        yield "    sub_group_barrier(CLK_LOCAL_MEM_FENCE);"
        operands = (f"{a.array.name} + ({a.row}) * (long){a.pitch} + {a.column} + {names.first}, {a.pitch}, "
                    f"{b.array.name} + ({b.row} + {names.first}) * (long){b.pitch} + {b.column}, {b.pitch}, "
                    f"{names.end} - {names.first}, {names.rows}, {names.columns}, "
                    f"{b.height} - ({b.row} + {names.first})")
        yield f"    if ({names.lane} == 0) {function_call(self.shape, names.shared_scratch, operands)};"
        yield "    sub_group_barrier(CLK_LOCAL_MEM_FENCE);"
        yield from (f"    {line}" for line in after_call)
        yield "  } else {"
        yield from (f"    {line}" for line in self._checked())
        yield "  }"
        yield "}"
        if not self.shape.accumulator.is_float:
            return
        yield f"if ({self.zero_padding.at_edge}) {{"
        yield from (f"  {line}" for line in self.zero_padding.lines(self.in_row(self.names.v), LANES))
        yield "}"

    def _checked(self) -> Iterator[str]:
        """Loops over panels of B and rows of A, with a bounds check for each element of B."""
        names, a, b, k, i = self.names, self.a, self.b, self.names.k, self.names.i
        first, end = names.panel_first, names.panel_end
        yield f"{self.sum} {names.b}[{_DEEPEST * self.across}];"
        yield f"for (int {first} = {names.first}; {first} < {names.end}; {first} += {_DEEPEST}) {{"
        yield f"  const int {end} = min({first} + {_DEEPEST}, {names.end});"
        yield f"  {LOOP}"
        yield f"  for (int {k} = {first}; {k} < {end}; ++{k}) {{"
        yield (f"    global const {b.array.dtype.opencl} *{names.row} = {b.array.name} + "
               f"({b.row} + {k}) * (long){b.pitch} + ({b.column} + {names.lane});")
        for vector in range(self.across):
            at = vector * LANES
            yield (f"    {names.b}[({k} - {first}) * {self.across} + {vector}] = "
                   f"(uint){atom(wrapping(b.row))} + {k} < (uint){b.height} && "
                   f"(uint){atom(wrapping(b.column))} + {at} + {names.lane} < (uint){b.width} ? "
                   f"{widened(f'{names.row}[{at}]', b.array.dtype, 1, self.sum)} : 0;")
        yield "  }"
        yield f"  {NO_UNROLL}"
        yield f"  for (int {i} = 0; {i} < {self.shape.rows}; ++{i}) {{"
        yield f"    if ((uint){atom(wrapping(a.row))} + {i} >= (uint){a.height}) continue;"
        yield from (f"    {line}" for line in self._row())
        yield "  }"
        yield "}"

    def _row(self) -> Iterator[str]:
        """Product of one row of A and a panel of B."""
        names, a, k, vectors = self.names, self.a, self.names.k, range(self.across)
        dtype, first = a.array.dtype, names.panel_first
        yield f"global const {dtype.opencl} *{names.row} = {a.array.name} + " \
              f"({a.row} + {names.i}) * (long){a.pitch} + {atom(str(a.column))};"
        yield f"{self.sum} " + ", ".join(f"{names.sum}_{v} = {self.in_row(v)}" for v in vectors) + ";"
        yield LOOP
        yield f"for (int {k} = {first}; {k} < {names.panel_end}; ++{k}) {{"
        yield f"  const {self.sum} {names.number} = {widened(f'{names.row}[{k}]', dtype, 1, self.sum)};"
        for v in vectors:
            total, b = f"{names.sum}_{v}", f"{names.b}[({k} - {first}) * {self.across} + {v}]"
            yield f"  {total} = fma({names.number}, {b}, {total});" if self.shape.accumulator.is_float else \
                f"  {total} += {names.number} * {b};"
        yield "}"
        yield " ".join(f"{self.in_row(v)} = {names.sum}_{v};" for v in vectors)
