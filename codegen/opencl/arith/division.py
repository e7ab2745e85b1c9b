"""Correctly rounded division of f32 in OpenCL C, for GPUs that have no instructions for it.

Intel's compiler divides there by 170 instructions and two dozen branches for each register, so that a few quotients
in a kernel's last lines are most of its code, and spill. Where operands and quotient are far from the ends of the
range, an approximate reciprocal will do, and fused multiply-adds that refine it and the quotient until the last one
rounds correctly (Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990). The
dividend is scaled, exactly, so that no remainder underflows. For divisors just below a power of 2 the reciprocal has
to be the nearest one: an iteration of third order finds that from one that is some ulps off, where Newton's does not,
and for the last one below, 2 - 2^-23, from an odd one: from 0.5 the iteration ends in a tie. From reciprocals of up to
3 ulps off, it misses the nearest one for 12 of the 2^23 divisors at most, and quotients by those are right, too.
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


def quotient(emitter: Emitter, dividend: str, divisor: str, width: int) -> str:
    """Expression of a quotient in float."""
    types = {letter: vector_type(c_type, width) for letter, c_type in (("F", "float"), ("U", "uint"))}
    name, words = f"divided{width}", [f".s{i}" for i in range(width)] if width > 1 else [""]
    largest, furthest, least = (_folded(function, [part.format(word=word) for word in words]) for function, part in (
        ("max", "dividend{word}"), ("max", "divisor{word}"), ("min", "result{word} - 1u")))
    lines = [f"  if ({largest} >= {_DIVIDEND:#x}u || {furthest} >= {_DIVISOR:#x}u || {least} < {_QUOTIENT - 1:#x}u)"]
    if width == 1:
        lines.append("    quotient = a / b;")
    else:
        lines += [f"    {NO_UNROLL}", f"    for (int i = 0; i < {width}; ++i) {{",
                  f"      quotient = {_rotated('quotient', types['F'], width, 'a.s0 / b.s0')};",
                  *(f"      {name} = {_rotated(name, types['F'], width, f'{name}.s0')};" for name in "ab"), "    }"]
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
