"""Products of zero padding with infinities and NaN, which are NaN, in OpenCL C.

The kernels skip rows beyond A and columns beyond B, where a factor is zero. A sum there is NaN all the same if the
other factor is infinite or NaN in any step of K. Such a number also leaves no finite sum in its row or column, so where
all sums of a tile are finite nothing is to be done.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from codegen.opencl.cpu_gemm.variables import Variables
from codegen.opencl.emitter import NO_UNROLL, atom, wrapping
from codegen.opencl.values import Descriptor, narrowed, sum_type, widened
from xegpu.ir.dtypes import DType


@dataclass(frozen=True)
class ZeroPadding:
    """Generator of the text for one tile, in loops over an array of its sums.

    Attributes:
        a, b: the descriptors of the operands.
        sizes: M and N of the tile.
        names: the variables; lanes are columns, and A has columns from ``first`` to ``end``.
        inside: C condition that the tile has elements of A and of B.
        dtype: element type of the sums.
    """

    a: Descriptor
    b: Descriptor
    sizes: tuple[int, int]
    names: Variables
    inside: str
    dtype: DType

    @property
    def at_edge(self) -> str:
        """C condition: the tile has rows beyond A, or columns beyond B."""
        a, b, (m, n) = self.a, self.b, self.sizes
        top, column = atom(wrapping(a.row)), atom(wrapping(b.column))
        return f"{top} < 0 || {top} > {a.height} - {m} || {column} < 0 || {column} > {b.width} - {n}"

    def lines(self, total: str, subgroup: int) -> Iterator[str]:
        """Statements that set sums to NaN.

        Args:
            total: C lvalue of a sum, of the variables ``i``, a row, and ``v``, a vector of ``subgroup`` columns.
            subgroup: how many lanes there are.
        """
        a, b, (m, n), names = self.a, self.b, self.sizes, self.names
        vectors, c_type, i, v, k = n // subgroup, sum_type(self.dtype), names.i, names.v, names.k
        top, column = atom(wrapping(a.row)), atom(wrapping(b.column))
        row_of_b = f"max({wrapping(b.row)}, -{names.end})"
        rows, columns = (f"{NO_UNROLL} for (int {name} = 0; {name} < {count}; ++{name})"
                         for name, count in ((i, m), (v, vectors)))
        row_of_a_is_inside = f"(uint){top} + {i} < (uint){a.height}"
        number = widened(total, self.dtype, 1, c_type)
        yield f"{c_type} {names.check} = 0;"
        yield rows
        yield f"  {columns} {names.check} += 0.0f * {number};"
        yield f"if (!({self.inside}) || sub_group_reduce_add({names.check}) != 0.0f) {{"
        yield f"  {c_type} {names.sums_of_a}[{m}];"
        yield f"  {rows} {{"
        yield f"    {names.sums_of_a}[{i}] = 0;"
        yield f"    if ({row_of_a_is_inside})"
        yield f"      {NO_UNROLL} for (int {k} = {names.first}; {k} < {names.end}; ++{k})"
        yield f"        {names.sums_of_a}[{i}] += 0.0f * {self._element(a, i, k)};"
        yield "  }"
        yield f"  {columns} {{"
        yield f"    const bool {names.is_inside} = (uint){column} + {v} * {subgroup} + {names.lane} < (uint){b.width};"
        yield f"    {c_type} {names.sum_of_b} = 0;"
        yield f"    {NO_UNROLL} for (int {k} = max({names.first}, -{row_of_b}); {k} < min({names.end}, " \
              f"{b.height} - {row_of_b}); ++{k})"
        yield f"      if ({names.is_inside}) {names.sum_of_b} += 0.0f * " \
              f"{self._element(b, k, f'{v} * {subgroup} + {names.lane}')};"
        yield f"    {rows} {{"
        yield f"      const {c_type} {names.zero} = {row_of_a_is_inside} ? " \
              f"{names.is_inside} ? 0.0f : {names.sums_of_a}[{i}] : {names.sum_of_b};"
        # A difference, as a sum would make 0.0 of -0.0.
        yield f"      {total} = {narrowed(f'{number} - {names.zero}', self.dtype, 1)};"
        yield "    }"
        yield "  }"
        yield "}"

    def _element(self, desc: Descriptor, row: str, column: str) -> str:
        """An element of an operand in the sums' C type."""
        step = "" if desc.step == "1" else f" * (long){desc.step}"
        element = (f"{desc.array.name}[({desc.row} + {row}) * (long){desc.pitch} + "
                   f"({desc.column} + {column}){step}]")
        return widened(element, desc.array.dtype, 1, sum_type(self.dtype))
