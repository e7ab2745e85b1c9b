"""Signedness of integer operations: MLIR's integers are signless, so the operation says how their bits are read.

Results wrap around, modulo two to the number of bits: the smallest integer divided by -1 is itself. Undefined are
division by zero and shifts by the number of bits or more. Indices compute in 32 bits on devices, and so are unsigned
operations on them; signed ones must not overflow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from xdsl.dialects import arith, math
from xdsl.ir import Operation

from xegpu.ir.dtypes import BY_NAME, DType, i1
from xegpu.mlir.arith import (
    ExtSIOp,
    ExtUIOp,
    FPToSIOp,
    FPToUIOp,
    IndexCastOp,
    SIToFPOp,
    TruncIOp,
    UIToFPOp,
)

Sign = Literal["i", "u", ""]
"""``"i"`` signed, ``"u"`` unsigned, ``""`` where both give the same bits (or the type is a float)."""


@dataclass(frozen=True)
class Signedness:
    """How an operation reads and writes integers.

    Attributes:
        operands: signedness of the operands.
        result: signedness of the result.
        truth: the operation on truth values, which are integers modulo 2 (1 is -1 if read as signed): ``"^"``, ``"&"``,
            ``"|"``, ``"a"`` the first operand, ``"0"`` false; ``""`` for a conversion.
        divides: whether the second operand must not be zero.
    """

    operands: Sign
    result: Sign
    truth: Literal["^", "&", "|", "a", "0", ""] = ""
    divides: bool = False


SIGNEDNESS: dict[type[Operation], Signedness] = {
    arith.AddiOp: Signedness("", "", "^"), arith.SubiOp: Signedness("", "", "^"),
    arith.MuliOp: Signedness("", "", "&"), arith.ShLIOp: Signedness("", "", "a"),
    arith.AndIOp: Signedness("", "", "&"), arith.OrIOp: Signedness("", "", "|"), arith.XOrIOp: Signedness("", "", "^"),
    arith.DivSIOp: Signedness("i", "i", "a", True), arith.DivUIOp: Signedness("u", "u", "a", True),
    arith.FloorDivSIOp: Signedness("i", "i", "a", True),
    arith.CeilDivSIOp: Signedness("i", "i", "a", True), arith.CeilDivUIOp: Signedness("u", "u", "a", True),
    arith.RemSIOp: Signedness("i", "i", "0", True), arith.RemUIOp: Signedness("u", "u", "0", True),
    arith.MaxSIOp: Signedness("i", "i", "&"), arith.MaxUIOp: Signedness("u", "u", "|"),
    arith.MinSIOp: Signedness("i", "i", "|"), arith.MinUIOp: Signedness("u", "u", "&"),
    arith.ShRSIOp: Signedness("i", "i", "a"), arith.ShRUIOp: Signedness("u", "u", "a"),
    math.AbsIOp: Signedness("i", "u", "a"),
    ExtSIOp: Signedness("i", "i"), ExtUIOp: Signedness("u", "u"), TruncIOp: Signedness("", ""),
    SIToFPOp: Signedness("i", ""), UIToFPOp: Signedness("u", ""),
    FPToSIOp: Signedness("", "i"), FPToUIOp: Signedness("", "u"), IndexCastOp: Signedness("i", "i"),
}
"""Signedness of the integer operations of arith and math; a comparison has that of its predicate."""


def read_as(dtype: DType, sign: Sign) -> DType:
    """Element type of the same bits with a signedness; floats, indices and truth values are unchanged."""
    if not sign or dtype.kind not in "iu" or dtype is i1:
        return dtype
    return BY_NAME[f"{sign}{dtype.bits}"]
