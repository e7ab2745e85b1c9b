"""Shapes of the products that CPUs compute by explicitly vectorized micro-kernels."""

from __future__ import annotations

from dataclasses import dataclass

from xegpu.ir.dtypes import DType, bf16, f16, f32, i8, i32, u8

LANES = 16
"""Lanes of a subgroup whose products such a function takes over: a vector of 512 bits of f32."""
SKINNY = 4
"""So few rows of A, and fewer, use B where it is, instead of packing it."""
_FEWEST_ROWS = 12
"""For fewer rows of A, packing B costs more than it saves; for very few it is read as it is."""
_MOST_SUMS = 16384
"""Each lane gets memory for so many, though one lane's is used; they lie in L2."""


@dataclass(frozen=True)
class MicrokernelShape:
    """Key of a micro-kernel: block sizes, element types and storage orders.

    Attributes:
        rows, columns: of the tile of sums.
        a, b: element types of the operands.
    """

    rows: int
    columns: int
    a: DType
    b: DType

    @property
    def fits(self) -> bool:
        """Whether there is such a function, and it pays."""
        if not self.has_bytes and (self.a is not self.b or self.a not in (f32, bf16, f16)):
            return False
        return self.columns % LANES == 0 and self.rows * self.columns <= _MOST_SUMS \
            and (self.rows >= _FEWEST_ROWS or (self.is_skinny and not self.has_bytes))

    @property
    def has_bytes(self) -> bool:
        """Whether the operands are 8-bit integers, of either signedness."""
        return {self.a, self.b} <= {i8, u8}

    @property
    def accumulator(self) -> DType:
        """Element type of the sums."""
        return i32 if self.has_bytes else f32

    @property
    def is_skinny(self) -> bool:
        """Whether B is read where it is, since so few rows of A need it."""
        return self.rows <= SKINNY
