"""Records of element-wise operations of arith and math: semantics, signedness, domain and error bound of each.

MLIR's integers are signless, so the operation says how their bits are read. Results of integers wrap around, modulo two
to the number of bits: the smallest integer divided by -1 is itself. Indices compute in 32 bits on devices, and so are
unsigned operations on them; signed ones must not overflow.

The interpreter evaluates ``numpy``; the author's operators are ``operators``; reductions and atomic updates combine by
the operation of their kind; passes and checks ask for ``defined`` and ``family``. The OpenCL C text of the same
operations is :data:`codegen.opencl.arith.TEXT`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import erf
from typing import Any, Literal

import numpy as np
from xdsl.dialects import arith, math
from xdsl.ir import Operation

from xegpu.ir.dtypes import BY_NAME, DType, i1, quiet
from xegpu.mlir.arith import (
    CmpFOp,
    CmpIOp,
    ExtSIOp,
    ExtUIOp,
    FPToSIOp,
    FPToUIOp,
    IndexCastOp,
    RemFOp,
    SelectOp,
    SIToFPOp,
    TruncIOp,
    UIToFPOp,
)

Sign = Literal["i", "u", ""]
"""``"i"`` signed, ``"u"`` unsigned, ``""`` where both give the same bits (or the type is a float)."""
Function = Callable[..., Any]
Family = Literal["integer", "float", "conversion", "comparison"]


@dataclass(frozen=True)
class Record:
    """Record of an element-wise operation.

    Attributes:
        family: what the operands are, or that the operation changes their type; a comparison gives truth values, and
            ``select`` takes them.
        numpy: NumPy semantics on arrays in the compute type, of the signedness in which the operation reads them; None
            if they follow from the types and the signedness, or the predicate.
        operands: signedness of the operands.
        result: signedness of the result.
        truth: the operation on truth values, which are integers modulo 2 (1 is -1 if read as signed): ``"^"``, ``"&"``,
            ``"|"``, ``"a"`` the first operand, ``"~"`` its complement, ``"0"`` false; ``""`` if it has none.
        defined: the inputs for which it is defined: all, second operands other than 0 (``"divisor"``), or second
            operands of 0 or more and less than the number of bits (``"shift"``).
        wraps: whether the exact result may leave the type, and wraps around.
        operators: the author's operators that are this operation.
        kinds: the kinds of element types (:attr:`xegpu.ir.dtypes.DType.kind`) of which they are.
        ulp: bound of the error of f32 in units in the last place, OpenCL's full profile but for ``rsqrt``; 0 is
            correctly rounded or exact. The other float types have it, too, in units of theirs.
    """

    family: Family
    numpy: Function | None = None
    operands: Sign = ""
    result: Sign = ""
    truth: Literal["^", "&", "|", "a", "~", "0", ""] = ""
    defined: Literal["", "divisor", "shift"] = ""
    wraps: bool = False
    operators: tuple[str, ...] = ()
    kinds: str = ""
    ulp: float = 0


def _integer(numpy: Function, sign: Sign, truth: Literal["^", "&", "|", "a", "~", "0"], operators: str = "",
             defined: Literal["", "divisor", "shift"] = "", *, wraps: bool = False) -> Record:
    """Record of an integer operation; its operators are those of the types of its signedness."""
    return Record("integer", numpy, sign, sign, truth, defined, wraps, tuple(operators.split()),
                  {"i": "ix", "u": "u", "": "iux"}[sign])


def _float(numpy: Function, operators: str = "", ulp: float = 0) -> Record:
    """Record of a float operation."""
    return Record("float", numpy, operators=tuple(operators.split()), kinds="f", ulp=ulp)


def _divide_toward_zero(a: Any, b: Any) -> Any:
    return np.floor_divide(a - np.fmod(a, b), b)


def _divide_upward(a: Any, b: Any) -> Any:
    return np.floor_divide(a, b) + (np.remainder(a, b) != 0)


def _population_count(a: Any) -> Any:
    return np.bitwise_count(a).astype(a.dtype)  # NumPy counts in uint8


def _leading_zeros(a: Any) -> Any:
    bits, smeared = 8 * a.dtype.itemsize, a
    for distance in (1, 2, 4, 8, 16, 32):
        if distance < bits:
            smeared = smeared | (smeared >> a.dtype.type(distance))  # all bits below the highest one
    return a.dtype.type(bits) - _population_count(smeared)


class _NumberOverNaN:
    """``np.fmin`` or ``np.fmax`` of quiet NaN: with a signalling one, some of NumPy's loops give NaN."""

    def __init__(self, ufunc: np.ufunc) -> None:
        self.ufunc = ufunc

    def __call__(self, a: Any, b: Any) -> Any:
        return self.ufunc(quiet(np.asarray(a)), quiet(np.asarray(b)))

    def reduce(self, array: Any, **options: Any) -> Any:
        """``np.ufunc.reduce``."""
        return self.ufunc.reduce(quiet(array), **options)


_erf = np.frompyfunc(erf, 1, 1)

RECORDS: dict[type[Operation], Record] = {
    arith.AddiOp: _integer(np.add, "", "^", "+", wraps=True),
    arith.SubiOp: _integer(np.subtract, "", "^", "-", wraps=True),
    arith.MuliOp: _integer(np.multiply, "", "&", "*", wraps=True),
    arith.AndIOp: _integer(np.bitwise_and, "", "&", "&"), arith.OrIOp: _integer(np.bitwise_or, "", "|", "|"),
    arith.XOrIOp: _integer(np.bitwise_xor, "", "^", "^"),
    arith.ShLIOp: _integer(np.left_shift, "", "a", "<<", "shift", wraps=True),
    arith.ShRSIOp: _integer(np.right_shift, "i", "a", ">>", "shift"),
    arith.ShRUIOp: _integer(np.right_shift, "u", "a", ">>", "shift"),
    arith.DivSIOp: _integer(_divide_toward_zero, "i", "a", defined="divisor"),
    arith.DivUIOp: _integer(np.floor_divide, "u", "a", "//", "divisor"),
    arith.FloorDivSIOp: _integer(np.floor_divide, "i", "a", "//", "divisor"),
    arith.CeilDivSIOp: _integer(_divide_upward, "i", "a", defined="divisor"),
    arith.CeilDivUIOp: _integer(_divide_upward, "u", "a", defined="divisor"),
    arith.RemSIOp: _integer(np.fmod, "i", "0", "%", "divisor"),
    arith.RemUIOp: _integer(np.remainder, "u", "0", "%", "divisor"),
    arith.MaxSIOp: _integer(np.maximum, "i", "&", "maximum maxnum"),
    arith.MinSIOp: _integer(np.minimum, "i", "|", "minimum minnum"),
    arith.MaxUIOp: _integer(np.maximum, "u", "|", "maximum maxnum"),
    arith.MinUIOp: _integer(np.minimum, "u", "&", "minimum minnum"),
    math.CtPopOp: _integer(_population_count, "u", "a"), math.CountLeadingZerosOp: _integer(_leading_zeros, "u", "~"),
    math.AbsIOp: replace(_integer(np.abs, "i", "a"), result="u"),
    arith.AddfOp: _float(np.add, "+"), arith.SubfOp: _float(np.subtract, "-"), arith.MulfOp: _float(np.multiply, "*"),
    arith.DivfOp: _float(np.divide, "/"), RemFOp: _float(np.fmod),
    arith.MaximumfOp: _float(np.maximum, "maximum"), arith.MinimumfOp: _float(np.minimum, "minimum"),
    arith.MaxnumfOp: _float(_NumberOverNaN(np.fmax), "maxnum"),
    arith.MinnumfOp: _float(_NumberOverNaN(np.fmin), "minnum"),
    math.AbsFOp: _float(np.abs), math.FloorOp: _float(np.floor), math.CeilOp: _float(np.ceil),
    math.TruncOp: _float(np.trunc), math.RoundEvenOp: _float(np.rint), math.CopySignOp: _float(np.copysign),
    math.SqrtOp: _float(np.sqrt),
    # OpenCL asks for 2. Intel's compiler inverts a root where a core has f64: an error of a unit in each makes 2.9.
    math.RsqrtOp: _float(lambda a: 1 / np.sqrt(a), ulp=3),
    math.CbrtOp: _float(np.cbrt, ulp=2),
    math.ExpOp: _float(np.exp, ulp=3), math.Exp2Op: _float(np.exp2, ulp=3), math.ExpM1Op: _float(np.expm1, ulp=3),
    math.LogOp: _float(np.log, ulp=3), math.Log2Op: _float(np.log2, ulp=3), math.Log10Op: _float(np.log10, ulp=3),
    math.Log1pOp: _float(np.log1p, ulp=2),
    math.SinOp: _float(np.sin, ulp=4), math.CosOp: _float(np.cos, ulp=4), math.TanOp: _float(np.tan, ulp=5),
    math.AsinOp: _float(np.arcsin, ulp=4), math.AcosOp: _float(np.arccos, ulp=4),
    math.AtanOp: _float(np.arctan, ulp=5), math.Atan2Op: _float(np.arctan2, ulp=6),
    math.SinhOp: _float(np.sinh, ulp=4), math.CoshOp: _float(np.cosh, ulp=4), math.TanhOp: _float(np.tanh, ulp=5),
    math.ErfOp: _float(lambda a: np.asarray(_erf(a), np.float64), ulp=16), math.PowFOp: _float(np.power, "**", ulp=16),
    math.FmaOp: Record("float", None, kinds="f"),
    ExtSIOp: Record("conversion", None, "i", "i"), ExtUIOp: Record("conversion", None, "u", "u"),
    TruncIOp: Record("conversion"), IndexCastOp: Record("conversion", None, "i", "i"),
    SIToFPOp: Record("conversion", None, "i"), UIToFPOp: Record("conversion", None, "u"),
    FPToSIOp: Record("conversion", None, "", "i"), FPToUIOp: Record("conversion", None, "", "u"),
    arith.ExtFOp: Record("conversion"), arith.TruncFOp: Record("conversion"), arith.BitcastOp: Record("conversion"),
    CmpIOp: Record("comparison"), CmpFOp: Record("comparison"), SelectOp: Record("comparison"),
}
"""Records by operation; every operation of arith and math that the project runs has one."""


def read_as(dtype: DType, sign: Sign) -> DType:
    """Element type of the same bits with a signedness; floats, indices and truth values are unchanged."""
    if not sign or dtype.kind not in "iu" or dtype is i1:
        return dtype
    return BY_NAME[f"{sign}{dtype.bits}"]
