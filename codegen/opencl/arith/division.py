"""Correctly rounded division of f32 in OpenCL C, for GPUs that have no instructions for it.

Intel's compiler divides there by 170 instructions and two dozen branches for each register, so that a few quotients
in a kernel's last lines are most of its code, and spill. Where operands and quotient are far from the ends of the
range, an approximate reciprocal will do, and fused multiply-adds that refine it and the quotient until the last one
rounds correctly (Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990). The
dividend is scaled, exactly, so that no remainder underflows. For divisors just below a power of 2 the reciprocal has
to be the nearest one: an iteration of third order finds that from one that is some ulps off, where Newton's does not,
and for the last one below, 2 - 2^-23, from an odd one: from 0.5 the iteration ends in a tie. From reciprocals of up to
3 ulps off, it misses the nearest one for 12 of the 2^23 divisors at most, and quotients by those are right, too.

Elsewhere the same is done with the significands, word by word in a loop, and what their quotient lacks decides how a
subnormal one is rounded: 60 instructions without a branch, as values are alive on both sides of each, and spill.
"""

from __future__ import annotations

from codegen.opencl.emitter import NO_UNROLL, Emitter
from codegen.opencl.values import vector_type

_BODY = """
  const {F} scaled = a * ({F})(0x1p64f), minus = -b;
  {F} r = as_{F}(as_{U}(native_recip(b)) | ({U})(1));
  const {F} error = fma(minus, r, ({F})(1.0f));
  r = fma(fma(error, error, error), r, r);
  const {F} first = scaled * r, second = fma(fma(minus, first, scaled), r, first);
  const {F} last = copysign(fma(fma(minus, second, scaled), r, second), first);
  {F} quotient = last * ({F})(0x1p-64f);
  const {U} dividend = as_{U}(fabs(a)), divisor = as_{U}(fabs(b)) - ({U})(0x30000000), result = as_{U}(fabs(last));
"""
"""Quotients of ``a`` and ``b``, and their bits. ``last`` has the sign of the first approximation, as that of the
remainder of zero is lost."""
_DIVIDEND, _DIVISOR, _QUOTIENT = 0x4F800000, 0x1F800000, 0x20800000
"""Bits of 2^32, of 2^32 above those of 2^-31, and of 2^-62: below 2^32 the scaled dividend over a divisor of 2^-31 or
more does not overflow; below 2^-62, before it is scaled back, the quotient is subnormal and rounded anew, unless it is
0."""
_EXTREME = """static float extreme_quotient(float a, float b)
{
  const uint dividend = as_uint(fabs(a)), divisor = as_uint(fabs(b)), sign = (as_uint(a) ^ as_uint(b)) & 0x80000000u;
  const uint up = dividend < 0x800000u ? as_uint(fabs(a) * 0x1p32f) : dividend;
  const uint down = divisor < 0x800000u ? as_uint(fabs(b) * 0x1p32f) : divisor;
  const int raised = (divisor < 0x800000u ? 32 : 0) - (dividend < 0x800000u ? 32 : 0);
  const int exponent = (int)(up >> 23) - (int)(down >> 23) + raised;
  const float over = as_float((up & 0x7fffffu) | 0x3f800000u), under = as_float((down & 0x7fffffu) | 0x3f800000u);
  float r = as_float(as_uint(native_recip(under)) | 1u);
  const float error = fma(-under, r, 1.0f);
  r = fma(fma(error, error, error), r, r);
  const float first = over * r, second = fma(fma(-under, first, over), r, first);
  const float last = fma(fma(-under, second, over), r, second), rest = fma(-under, last, over);
  const int biased = (int)(as_uint(last) >> 23) + exponent, shift = clamp(3 - biased, 3, 31);
  const uint digits = (((as_uint(last) & 0x7fffffu) | 0x800000u) << 2) + (rest > 0.0f) - (rest < 0.0f);
  const uint subnormal = (digits + (1u << (shift - 1)) - 1u + ((digits >> shift) & 1u)) >> shift;
  const uint normal = biased > 254 ? 0x7f800000u : as_uint(last) + ((uint)exponent << 23);
  const float x = dividend == 0u ? 0.0f : dividend < 0x7f800000u ? 1.0f : fabs(a);
  const float y = divisor == 0u ? INFINITY : divisor < 0x7f800000u ? 1.0f : divisor == 0x7f800000u ? 0.0f : b;
  const bool ordinary = dividend - 1u < 0x7f7fffffu && divisor - 1u < 0x7f7fffffu;
  return as_float((ordinary ? (biased < 1 ? subnormal : normal) : as_uint(x * y)) | sign);
}
"""
"""Quotient of any two numbers. Of the significand of the quotient, with two binary digits behind it, the last one says
on which side of it the exact one is; numbers that are 0, infinite or none are replaced by ones that have the same
product."""


def quotient(emitter: Emitter, dividend: str, divisor: str, width: int) -> str:
    """Expression of a quotient in float."""
    types = {letter: vector_type(c_type, width) for letter, c_type in (("F", "float"), ("U", "uint"))}
    name, words = f"divided{width}", [f".s{i}" for i in range(width)] if width > 1 else [""]
    largest, furthest, least = (_folded(function, [part.format(word=word) for word in words]) for function, part in (
        ("max", "dividend{word}"), ("max", "divisor{word}"), ("min", "result{word} - 1u")))
    lines = [f"  if ({largest} >= {_DIVIDEND:#x}u || {furthest} >= {_DIVISOR:#x}u || {least} < {_QUOTIENT - 1:#x}u)"]
    if width == 1:
        lines.append("    quotient = extreme_quotient(a, b);")
    else:
        lines += [f"    {NO_UNROLL}", f"    for (int i = 0; i < {width}; ++i) {{",
                  f"      quotient = {_rotated('quotient', types['F'], width, 'extreme_quotient(a.s0, b.s0)')};",
                  *(f"      {name} = {_rotated(name, types['F'], width, f'{name}.s0')};" for name in "ab"), "    }"]
    emitter.function(_EXTREME)
    emitter.function(f"static {types['F']} {name}({types['F']} a, {types['F']} b)\n{{{_BODY.format(**types)}"
                     + "\n".join([*lines, "  return quotient;", "}", ""]))
    return f"{name}({dividend}, {divisor})"


def _folded(function: str, values: list[str]) -> str:
    while len(values) > 1:
        values = [f"{function}({first}, {second})" for first, second in zip(values[::2], values[1::2], strict=True)]
    return values[0]


def _rotated(name: str, type_: str, width: int, last: str) -> str:
    """A vector without its first word, and with another behind its last one."""
    kept, start = [], 1
    while start < width:
        step = 1 << ((width - start).bit_length() - 1)
        kept.append(f"{name}.s{''.join(map(str, range(start, start + step)))}")
        start += step
    return f"({type_})({', '.join([*kept, last])})"
