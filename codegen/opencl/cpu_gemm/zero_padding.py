"""Products of zero padding with infinities and NaN, which are NaN, in OpenCL C.

The kernels skip rows beyond A and columns beyond B, where a factor is zero. A sum there is NaN all the same if the
other factor is infinite or NaN in any step of K. Such a number also leaves no finite sum in its row or column, so where
all sums of a tile are finite nothing is to be done.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from codegen.opencl.emitter import NO_UNROLL, atom, wrapping
from codegen.opencl.values import Descriptor, narrowed, sum_type, widened
from xegpu.ir.dtypes import DType


@dataclass(frozen=True)
class ZeroPadding:
    """Generator of the text for one tile, in loops over an array of its sums.

    Attributes:
        a, b: the descriptors of the operands.
        sizes: M and N of the tile.
        lane: name of the lane's number; lanes are columns.
        depth: names of the first K that A has, and of the end of them.
        inside: C condition that the tile has elements of A and of B.
        dtype: element type of the sums.
    """

    a: Descriptor
    b: Descriptor
    sizes: tuple[int, int]
    lane: str
    depth: tuple[str, str]
    inside: str
    dtype: DType

    @property
    def at_edge(self) -> str:
        """C condition: the tile has rows beyond A, or columns beyond B."""
        a, b, (m, n) = self.a, self.b, self.sizes
        top, column = atom(wrapping(a.row)), atom(wrapping(b.column))
        return f"{top} < 0 || {top} > {a.height} - {m} || {column} < 0 || {column} > {b.width} - {n}"

    def lines(self, sum_: str, subgroup: int) -> Iterator[str]:
        """Statements that set sums to NaN.

        Args:
            sum_: C lvalue of a sum, of the variables ``row`` and ``v``, a vector of ``subgroup`` columns.
            subgroup: how many lanes there are.
        """
        a, b, (m, n), (first, end) = self.a, self.b, self.sizes, self.depth
        vectors, total = n // subgroup, sum_type(self.dtype)
        top, column = atom(wrapping(a.row)), atom(wrapping(b.column))
        row_of_b = f"max({wrapping(b.row)}, -{end})"
        number = widened(sum_, self.dtype, 1, total)
        yield f"{total} check = 0;"
        yield f"{NO_UNROLL} for (int row = 0; row < {m}; ++row)"
        yield f"  {NO_UNROLL} for (int v = 0; v < {vectors}; ++v) check += 0.0f * {number};"
        yield f"if (!({self.inside}) || sub_group_reduce_add(check) != 0.0f) {{"
        yield f"  {total} rows[{m}];"
        yield f"  {NO_UNROLL} for (int row = 0; row < {m}; ++row) {{"
        yield "    rows[row] = 0;"
        yield f"    if ((uint){top} + row < (uint){a.height})"
        yield f"      {NO_UNROLL} for (int k = {first}; k < {end}; ++k)"
        yield f"        rows[row] += 0.0f * {self._element(a, 'row', 'k')};"
        yield "  }"
        yield f"  {NO_UNROLL} for (int v = 0; v < {vectors}; ++v) {{"
        yield f"    const bool has = (uint){column} + v * {subgroup} + {self.lane} < (uint){b.width};"
        yield f"    {total} column = 0;"
        yield f"    {NO_UNROLL} for (int k = max({first}, -{row_of_b}); k < min({end}, {b.height} - {row_of_b}); ++k)"
        yield f"      if (has) column += 0.0f * {self._element(b, 'k', f'v * {subgroup} + {self.lane}')};"
        yield f"    {NO_UNROLL} for (int row = 0; row < {m}; ++row) {{"
        yield f"      const {total} zero = (uint){top} + row < (uint){a.height} ? has ? 0.0f : rows[row] : column;"
        # A difference, as a sum would make 0.0 of -0.0.
        yield f"      {sum_} = {narrowed(f'{number} - zero', self.dtype, 1)};"
        yield "    }"
        yield "  }"
        yield "}"

    def _element(self, desc: Descriptor, row: str, column: str) -> str:
        """An element of an operand in the sums' C type."""
        step = "" if desc.step == "1" else f" * (long){desc.step}"
        element = (f"{desc.array.name}[({desc.row} + {row}) * (long){desc.pitch} + "
                   f"({desc.column} + {column}){step}]")
        return widened(element, desc.array.dtype, 1, sum_type(self.dtype))
