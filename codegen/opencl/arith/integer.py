"""Binary operations on integers in OpenCL C: signedness, overflow that wraps, divisions that round."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation, SSAValue

from codegen.opencl.arith.text import TEXT
from codegen.opencl.emitter import Emitter
from codegen.opencl.prelude.macros import CALL
from codegen.opencl.values import UNSIGNED, vector_type
from xegpu.ir.dtypes import DType, i1, index
from xegpu.ir.matchers import number
from xegpu.mlir.elementwise import RECORDS

DIVISIONS = frozenset({arith.DivUIOp, arith.RemUIOp, *(kind for kind, text in TEXT.items() if text.form == "division")})
"""Operations that stay in vectors on CPUs: those of each lane's rows are one call, and build in a fraction of the
time."""


def binary(emitter: Emitter, operation: Operation, left: str, right: str, dtype: DType, width: int) -> str:
    """A binary operation on integers, in the C type that the operation reads, and not the one that holds them.

    Signed overflow is undefined in C, and wraps here: sums, differences, products and shifts to the left of scalars are
    unsigned, those of OpenCL's vectors wrap by themselves. Indices, most of which are addresses, are not.
    """
    kind, sign = type(operation), RECORDS[type(operation)]
    if dtype is i1:
        return {"a": left, "0": f"{left} ^ {left}"}.get(sign.truth, f"{left} {sign.truth} {right}")
    own = dtype.opencl
    scalar = dict(zip("iu", _integer_types(own), strict=True)).get(sign.operands, own)
    if sign.wraps and width == 1 and dtype is not index:
        scalar = UNSIGNED[max(dtype.bits, 32)]  # C computes narrower unsigned scalars as int, too
    left, right = (cast(side, own, scalar, width) for side in (left, right))
    if kind is arith.CeilDivUIOp:
        type_ = vector_type(scalar, width)
        rest = f"({left} % {right} != ({type_})(0))"
        expression = f"{left} / {right} + {rest}" if width == 1 else f"{left} / {right} - as_{type_}{rest}"
    elif TEXT[kind].form == "division":
        expression = _division(emitter, operation, left, right, scalar, width)
    else:
        expression = TEXT[kind].combine(left, right, width)
    if scalar != own or (width == 1 and dtype.bits < 32):
        return cast(f"({expression})", scalar, own, width, always=True)
    return expression


def _integer_types(c_type: str) -> tuple[str, str]:
    """The signed and the unsigned C type of as many bits."""
    signed = c_type.removeprefix("u")
    return signed, f"u{signed}"


def cast(expression: str, source: str, target: str, width: int, *, always: bool = False) -> str:
    """Bitcast to another C type; a scalar may be a literal, whose type C chooses (int, if it fits)."""
    literal_ = width == 1 and target != "int" and expression.strip("()-").isdigit()
    if source == target and not (always or literal_):
        return expression
    return f"({target}){expression}" if width == 1 else f"as_{vector_type(target, width)}({expression})"


def _division(emitter: Emitter, operation: Operation, left: str, right: str, scalar: str, width: int) -> str:
    """A signed division; by what may be -1 in a function that does not divide the smallest number by it."""
    kind, divisor = type(operation), _uniform(operation.operands[1])
    if divisor not in (None, 0, -1):
        return _quotient(kind, left, right, scalar, width)
    name = f"{TEXT[kind].text}_{vector_type(scalar, width)}"
    emitter.function(_division_function(name, kind, scalar, width))
    return f"{name}({left}, {right})"


def _quotient(kind: type[Operation], left: str, right: str, scalar: str, width: int) -> str:
    quotient, rest = f"{left} / {right}", f"{left} % {right}"
    if kind in (arith.DivSIOp, arith.RemSIOp):
        return quotient if kind is arith.DivSIOp else rest
    zero = f"({scalar})0"  # C++'s rules for vectors refuse an int beside narrower elements
    down = kind is arith.FloorDivSIOp
    inexact = f"(({rest}) != {zero}) & (({left} < {zero}) {'!=' if down else '=='} ({right} < {zero}))"
    return f"{quotient} {'-' if down == (width == 1) else '+'} ({inexact})"  # a true vector lane is -1


def _uniform(value: SSAValue) -> int | None:
    """The constant that a scalar is, or all elements of a vector."""
    return number(value.owner.operands[0] if isinstance(value.owner, BroadcastOp) else value)


def _division_function(name: str, kind: type[Operation], scalar: str, width: int) -> str:
    """Division by -1 as division of the negated dividend by 1: CPUs trap at the smallest number by -1.

    Of a vector it is a call on CPUs, whose compiler takes a division for each of the lanes' elements.
    """
    type_ = vector_type(scalar, width)
    if width > 1:
        x, y = f"select(a, ({type_})(0) - a, b == ({type_})(-1))", f"select(b, ({type_})(1), b == ({type_})(-1))"
    else:
        word = "ulong" if scalar == "long" else "uint"
        x, y = f"b == -1 ? ({scalar})(0 - ({word})a) : a", "b == -1 ? 1 : b"
    return f"""\
{f"{CALL} " if width > 1 else ""}static {type_} {name}({type_} a, {type_} b)
{{
  const {type_} x = {x}, y = {y};
  return {_quotient(kind, 'x', 'y', scalar, width)};
}}
"""
