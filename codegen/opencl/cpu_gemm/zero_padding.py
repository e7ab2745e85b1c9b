"""Products of zero padding with infinities and NaN, which are NaN, in OpenCL C.

The kernels skip rows beyond A and columns beyond B, where a factor is zero. A sum there is NaN all the same if the
other factor is infinite or NaN in any step of K. Such a number also leaves no finite sum in its row or column, so where
all sums of a tile are finite nothing is to be done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from codegen.opencl.emitter import atom, wrapping
from codegen.opencl.values import Descriptor, narrowed, sum_type, widened
from xegpu.ir.dtypes import DType


@dataclass(frozen=True)
class ZeroPadding:
    """Generator of the text for one tile.

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

    def lines(self, sums: Sequence[Sequence[str]], subgroup: int) -> Iterator[str]:
        """Statements that set sums to NaN.

        Args:
            sums: the variables, by row and by vector of ``subgroup`` columns.
            subgroup: how many lanes there are.
        """
        a, b, (m, n), (first, end) = self.a, self.b, self.sizes, self.depth
        vectors, total = range(len(sums[0])), sum_type(self.dtype)
        check = " + ".join(f"0.0f * {self._number(name)}" for row in sums for name in row)
        top, column = atom(wrapping(a.row)), atom(wrapping(b.column))
        row_of_b = f"max({wrapping(b.row)}, -{end})"
        yield f"  if ({top} < 0 || {top} > {a.height} - {m} || {column} < 0 || {column} > {b.width} - {n}) {{"
        yield f"    if (!({self.inside}) || sub_group_reduce_add({check}) != 0.0f) {{"
        for v in vectors:
            yield f"      {total} column_{v} = 0;"
            yield f"      const bool has_{v} = (uint){column} + {v * subgroup} + {self.lane} < (uint){b.width};"
        yield f"      for (int k = max({first}, -{row_of_b}); k < min({end}, {b.height} - {row_of_b}); ++k) {{"
        for v in vectors:
            yield f"        if (has_{v}) column_{v} += 0.0f * {self._element(b, 'k', f'{v * subgroup} + {self.lane}')};"
        yield "      }"
        yield f"      {total} rows[{m}];"
        yield f"      for (int row = 0; row < {m}; ++row) {{"
        yield "        rows[row] = 0;"
        yield f"        if ((uint){top} + row < (uint){a.height})"
        yield f"          for (int k = {first}; k < {end}; ++k) rows[row] += 0.0f * {self._element(a, 'row', 'k')};"
        yield "      }"
        for row, names in enumerate(sums):
            yield f"      const bool in_{row} = (uint){top} + {row} < (uint){a.height};"
            for v, name in enumerate(names):
                zero = f"(in_{row} ? has_{v} ? 0.0f : rows[{row}] : column_{v})"
                # A difference, as a sum would make 0.0 of -0.0.
                yield f"      {name} = {narrowed(f'{self._number(name)} - {zero}', self.dtype, 1)};"
        yield "    }"
        yield "  }"

    def _element(self, desc: Descriptor, row: str, column: str) -> str:
        """An element of an operand in the sums' C type."""
        step = "" if desc.step == "1" else f" * (long){desc.step}"
        element = (f"{desc.array.name}[({desc.row} + {row}) * (long){desc.pitch} + "
                   f"({desc.column} + {column}){step}]")
        return widened(element, desc.array.dtype, 1, sum_type(self.dtype))

    def _number(self, name: str) -> str:
        """A sum in its C type."""
        return widened(name, self.dtype, 1, sum_type(self.dtype))
