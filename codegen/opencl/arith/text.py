"""OpenCL C of element-wise operations: the operator or the function of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from xdsl.dialects import arith, math
from xdsl.ir import Operation

from codegen.opencl.prelude.macros import LDEXP
from xegpu.mlir import arith as extended

Form = Literal["infix", "call", "float call", "extreme", "division"]


@dataclass(frozen=True)
class Text:
    """OpenCL C of an element-wise operation.

    Attributes:
        form: an operator between the operands (``"infix"``), a function (``"call"``), a function that f16 computes in
            float (``"float call"``), a choice by an order that propagates NaN (``"extreme"``), or an integer division
            that rounds in a way of its own or whose divisor may be -1 (``"division"``).
        text: the operator, the function, the order, or the stem of the name of the division's function.
    """

    form: Form
    text: str

    def combine(self, left: str, right: str, width: int = 1) -> str:
        """Expression of two operands in the type in which they are computed."""
        if self.form == "extreme":
            return extreme(self.text, left, right, width)
        return f"{left} {self.text} {right}" if self.form == "infix" else f"{self.text}({left}, {right})"


def _texts(form: Form, **names: str) -> dict[type[Operation], Text]:
    """Texts of one form by the names of operations, ``AddfOp`` or ``ExpOp`` without ``Op``."""
    return {next(getattr(dialect, f"{name}Op") for dialect in (arith, math, extended) if hasattr(dialect, f"{name}Op")):
            Text(form, text) for name, text in names.items()}


TEXT: dict[type[Operation], Text] = {
    **_texts("infix", Addf="+", Subf="-", Mulf="*", Divf="/", Addi="+", Subi="-", Muli="*", DivUI="/", RemUI="%",
             AndI="&", OrI="|", XOrI="^", ShLI="<<", ShRSI=">>", ShRUI=">>"),
    **_texts("call", MaxSI="max", MinSI="min", MaxUI="max", MinUI="min", Maxnumf="fmax", Minnumf="fmin", AbsI="abs",
             CtPop="popcount", CountLeadingZeros="clz"),
    **_texts("float call", PowF="pow", Atan2="atan2", CopySign="copysign", Fma="fma", Exp="exp", Exp2="exp2", Log="log",
             Sqrt="sqrt", Rsqrt="rsqrt", Tanh="tanh", Erf="erf", Sin="sin", Cos="cos", Floor="floor", Ceil="ceil",
             AbsF="fabs", ExpM1="expm1", Log2="log2", Log10="log10", Log1p="log1p", Cbrt="cbrt", Sinh="sinh",
             Cosh="cosh", Tan="tan", Asin="asin", Acos="acos", Atan="atan", Trunc="trunc", RoundEven="rint",
             RemF="fmod"),
    **_texts("extreme", Maximumf=">", Minimumf="<"),
    **_texts("division", DivSI="divide", FloorDivSI="floor_divide", CeilDivSI="ceil_divide", CeilDivUI="ceil_divide",
             RemSI="remainder"),
}
"""Text of the operations that have NumPy semantics in :data:`xegpu.mlir.elementwise.RECORDS`, and of ``fma``; the types
are in :func:`codegen.opencl.arith.binary` and :func:`codegen.opencl.arith.float_call`."""


FAST: dict[type[Operation], str] = {
    math.ExpOp: "native_exp2({v} * 1.44269504f)", math.Exp2Op: "native_exp2({v})",
    math.LogOp: "native_log2({v}) * 0.693147181f", math.Log2Op: "native_log2({v})",
    math.Log10Op: "native_log2({v}) * 0.301029996f", math.RsqrtOp: "native_rsqrt({v})",
    math.TanhOp: "fast_tanh({v})", math.ErfOp: "fast_erf({v})",
}
"""Expressions in float of functions that may be approximate (``fastmath<afn>``)."""
FAST_FUNCTIONS: dict[type[Operation], str] = {
    # 1 - 2 / (1 + e^2v), and log2(e^2) = 2.88539008.
    math.TanhOp: "return (F)(1.0f) - (F)(2.0f) * native_recip((F)(1.0f) + native_exp2(v * (F)(2.88539008f)));",
    # The same of an odd polynomial instead of v, of degree 5, minimax over the error of the result: 3.7e-5. It would
    # fall from v = 5 on, where the result is 1, so that v * v stays below 16.
    math.ErfOp: "const F square = fmin(v * v, (F)(16.0f)); "
                "const F power = fma(fma((F)(-0.00515468f), square, (F)(0.30031483f)), square, (F)(3.25513372f)); "
                "return (F)(1.0f) - (F)(2.0f) * native_recip((F)(1.0f) + native_exp2(v * power));",
}
"""Bodies of the functions of ``v`` that these call, in the vector type ``F``."""


ACCURATE_FUNCTIONS: dict[type[Operation], tuple[str, str]] = {
    # x = m * 2^e with m in [sqrt(1/2), sqrt(2)), whose bits begin at 0x3f3504f3: e + f * p(f) for f = m - 1. p is
    # minimax over the relative error of f * p(f): 2^-25. Subnormal x is multiplied by 2^23; the native function has
    # what zero, negative numbers, infinity and NaN give, whose bits less one are from 0x7f7fffff on.
    math.Log2Op: ("accurate_log2", """
  const {I} subnormal = as_{I}(v) < ({I})(0x800000);
  const {F} x = select(v, v * ({F})(0x1p23f), subnormal);
  const {I} power = (as_{I}(x) - ({I})(0x3f3504f3)) & ({I})(0xff800000);
  const {F} f = as_{F}(as_{I}(x) - power) - ({F})(1.0f);
  const {F} e = convert_{F}((power >> ({I})(23)) - select(({I})(0), ({I})(23), subnormal));
  {F} p = fma(({F})(0.12583531f), f, ({F})(-0.20726891f));
  p = fma(p, f, ({F})(0.21571586f)); p = fma(p, f, ({F})(-0.23894496f)); p = fma(p, f, ({F})(0.28791624f));
  p = fma(p, f, ({F})(-0.36070368f)); p = fma(p, f, ({F})(0.48091064f)); p = fma(p, f, ({F})(-0.72134735f));
  p = fma(p, f, ({F})(1.44269500f));
  const {I} special = as_{U}(v) - ({U})(1) >= ({U})(0x7f7fffff);
  return select(fma(p, f, e), native_log2(v), special);"""),
    # 1 - 2 / (1 + e^2a) from a = 0.625 on, where an error of the native functions counts a third. Below it an odd
    # polynomial, minimax over the relative error: 2^-27.8.
    math.TanhOp: ("accurate_tanh", """
  const {F} a = fabs(v), square = a * a;
  {F} p = fma(({F})(-0.00571704798f), square, ({F})(0.0206505903f));
  p = fma(p, square, ({F})(-0.0537434991f)); p = fma(p, square, ({F})(0.133314913f));
  p = fma(p, square, ({F})(-0.333332839f));
  const {F} part = native_recip(native_exp2(a * ({F})(2.88539008f)) + ({F})(1.0f));
  const {F} large = fma(({F})(-2.0f), part, ({F})(1.0f));
  return copysign(select(large, fma(a * square, p, a), a < ({F})(0.625f)), v);"""),
}
"""Names and bodies of functions of ``v``, of the vector type ``F``, where Intel's for GPUs take three times the
instructions or more; ``I`` and ``U`` are vectors of integers of that width. Errors are below the records' bounds."""

_SCALED = f"""
#ifdef {LDEXP}
  return select({LDEXP}(p, as_int(rounded) - 0x4b400000), 0.0f, vanishes);
#else
  const int tiny = v < %s;
  const float scaled = p * as_float((as_int(rounded) << 23) + select(126 << 23, 191 << 23, tiny));
  return select(scaled * select(2.0f, 0x1p-64f, tiny), 0.0f, vanishes);
#endif"""
CPU_FUNCTIONS: dict[type[Operation], tuple[str, str]] = {
    # 2^n * 2^f for the integer n nearest to v: the bits of v + 1.5 * 2^23. p is minimax over the relative error:
    # 2^-28.9 and, of e^f, 2^-28.3. Without an instruction for it, 2^n is two factors, 2^(n - 1) and 2 or 2^(n + 64) and
    # 2^-64, which reach infinity and subnormal results with one rounding. Where the result is zero, as of every masked
    # score, they are ones: a product that underflows takes a hundred clocks.
    math.Exp2Op: ("processor_exp2", """
  const int vanishes = v < -152.0f;
  const float x = select(v > 129.0f ? 129.0f : v, 0.0f, vanishes);
  const float rounded = x + 12582912.0f, f = x - (rounded - 12582912.0f);
  float p = fma(0.00015353362f, f, 0.0013398875f);
  p = fma(p, f, 0.00961843692f); p = fma(p, f, 0.0555033237f); p = fma(p, f, 0.240226477f);
  p = fma(fma(p, f, 0.693147182f), f, 1.0f);""" + _SCALED % "-124.0f"),
    math.ExpOp: ("processor_exp", """
  const int vanishes = v < -105.0f;
  const float x = select(v > 89.0f ? 89.0f : v, 0.0f, vanishes);
  const float rounded = fma(x, 1.44269504f, 12582912.0f), n = rounded - 12582912.0f;
  const float f = fma(n, 1.90465421e-9f, fma(n, -0.693147182f, x));
  float p = fma(0.00138146023f, f, 0.00836871564f);
  p = fma(p, f, 0.041668389f); p = fma(p, f, 0.166665211f); p = fma(p, f, 0.49999994f);
  p = fma(fma(p, f, 1.0f), f, 1.0f);""" + _SCALED % "-86.0f"),
}
"""The same for CPUs, of a ``float``: their compiler calls a function of its library, and around a call all
registers are saved."""


def extreme(order: str, left: str, right: str, width: int) -> str:
    """Maximum or minimum that propagates NaN, which OpenCL's fmax and fmin drop."""
    if width == 1:
        return f"(({left} {order} {right} || isnan({left})) ? {left} : {right})"
    return f"select({right}, {left}, ({left} {order} {right}) | isnan({left}))"
