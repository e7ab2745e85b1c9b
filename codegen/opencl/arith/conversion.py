"""Conversions between element types in OpenCL C, rounded to nearest even, and bit casts."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation

from codegen.opencl.arith import integer, predicate
from codegen.opencl.arith.operands import finish, literal, operand_groups
from codegen.opencl.emitter import Emitter
from codegen.opencl.prelude.macros import F64_TO_F32
from codegen.opencl.values import computed, rounded, vector_type
from xegpu.ir.dtypes import DType, bf16, e4m3, e5m2, f16, f32, f64, i1, i8, index, of_mlir, tf32, u32
from xegpu.mlir.elementwise import RECORDS, Record, read_as
from xegpu.support.errors import BUG, XeError


def convert(emitter: Emitter, operation: Operation) -> None:
    """Emit a conversion between element types."""
    source, width, groups = operand_groups(emitter, operation)
    result = operation.results[0].type
    target = of_mlir(result.element_type if isinstance(result, VectorType) else result)
    sign = RECORDS[type(operation)]
    if target is i1:
        finish(emitter, operation, [_to_truth(value, source, sign, width, isinstance(result, VectorType))
                                    for (value,) in groups])
        return
    if source is i1 and isinstance(result, VectorType):
        number_type = f32 if target is bf16 else target
        finish(emitter, operation, [
            rounded(predicate.numbers(value, number_type, width, signed=sign.operands == "i"), target, width)
            for (value,) in groups])
        return
    if source is i1 and sign.operands == "i":
        source, groups = i8, [[f"(char)-{value}"] for (value,) in groups]
    if source.kind == "s":
        groups = [[f"{float8_function(emitter, source, width)}({value})"] for (value,) in groups]
        source = f16
    values = [group[0] for group in groups]
    if source is f64 and target.is_float and isinstance(result, VectorType) and emitter.target.ocloc:
        to_float = _f64_to_float(emitter, target, width)
        source, values = f32, [f"{to_float}({value})" for value in values]
    if source is target:  # f16, to which 8-bit floats have been widened
        finish(emitter, operation, values)
        return
    read, written = read_as(source, sign.operands), read_as(target, sign.result)
    if source is index and sign.operands == "u":
        read = u32
    if read is not source:
        values = [integer.cast(value, source.opencl, read.opencl, width) for value in values]
    expressions = [converted(value, read, written, width) for value in values]
    if written is not target:
        expressions = [integer.cast(f"({text})", written.opencl, target.opencl, width) for text in expressions]
    finish(emitter, operation, expressions)


def _to_truth(value: str, source: DType, sign: Record, width: int, vector: bool) -> str:
    """An integer's lowest bit, or a float saturated at 0 and 1, or at -1 and 0 if the truth value is signed."""
    if source.is_float:
        number_type = source.opencl_compute
        limit = f"({vector_type(number_type, width)})({-1 if sign.result == 'i' else 1})"
        holds = f"{computed(value, source, width)} {'<=' if sign.result == 'i' else '>='} {limit}"
    else:
        c_type = vector_type(source.opencl, width)
        holds = f"({value} & ({c_type})(1)) != ({c_type})(0)"
    return predicate.from_condition(holds, width) if vector else holds


_ROUND_TO_ODD = f"""\
static float f64_to_odd_float(double v)
{{
  float nearest;
  {F64_TO_F32}(nearest, v);
  const double back = nearest;
  const int truncated = as_int(nearest) - (fabs(back) > fabs(v) ? 1 : 0);
  return back == v ? nearest : as_float(truncated | 1);
}}
"""
"""Round to odd: truncate, and set the last bit if anything was lost. f16 of that is f64 rounded once, not twice."""
_ROUND = f"""\
static float f64_to_float(double v)
{{
  float nearest;
  {F64_TO_F32}(nearest, v);
  return nearest;
}}
"""


def _f64_to_float(emitter: Emitter, target: DType, width: int) -> str:
    """Define a function that rounds f64 to f32 for a conversion to ``target``, and return its name.

    Intel's compiler miscompiles OpenCL's: it makes vector instructions of the conversions of all elements, and their
    sources are one register apart, where 16 elements of f64 fill two. It leaves inline vISA alone.
    """
    # vISA: one mov of the subgroup's lanes, from contiguous doubles (region <1;1,0>) to contiguous floats.
    emitter.function(f"#ifndef {F64_TO_F32}\n#define {F64_TO_F32}(to, from) __asm__( \\\n"
                     f'  "mov (M1, {emitter.subgroup}) %0(0,0)<1> %1(0,0)<1;1,0>" : "=rw"(to) : "rw"(from))\n#endif\n')
    emitter.function(_ROUND_TO_ODD if target is f16 else _ROUND)
    scalar = "f64_to_odd_float" if target is f16 else "f64_to_float"
    if width == 1:
        return scalar
    floats, words = vector_type("float", width), ", ".join(f"{scalar}(v.s{i:x})" for i in range(width))
    emitter.function(f"static {floats} {scalar}{width}(double{width} v)\n{{\n  return ({floats})({words});\n}}\n")
    return f"{scalar}{width}"


WIDENED: dict[DType, tuple[str, ...]] = {
    # E5M2 is the upper half of f16.
    e5m2: ("return as_{half}(({word})(convert_{word}(v) << ({word})(8)));",),
    # E4M3, whose bias is 7 where that of f16 is 15, has no infinity, and one NaN a sign; its smallest numbers pass
    # through f16's subnormal ones. 480, which no number is, plus 0x1e80 as an integer is f16's quiet NaN.
    e4m3: ("const {word} bits = as_{word}(convert_{wide}(as_{signed}(v))) << ({word})(7);",
           "const {half} small = as_{half}(({word})(bits & ({word})(0xbfff)));",
           "const {word} large = as_{word}(small * ({half})(256.0f));",
           "const {word} nan = convert_{word}((bits & ({word})(0x3f80)) == ({word})(0x3f80));",
           "return as_{half}(select(large, ({word})(large + ({word})(0x1e80)), nan));"),
}
"""Statements of a function that widens elements ``v`` of an 8-bit float type to f16, exactly."""


def float8_function(emitter: Emitter, dtype: DType, width: int) -> str:
    """Define a function that widens 8-bit floats to f16 (:data:`WIDENED`), and return its name."""
    half, word, signed, wide = (vector_type(scalar, width) for scalar in ("half", "ushort", "char", "short"))
    name = f"{dtype}_to_{half}"
    lines = "".join(f"  {line.format(half=half, word=word, signed=signed, wide=wide)}\n" for line in WIDENED[dtype])
    emitter.function(f"static {half} {name}({vector_type('uchar', width)} v)\n{{\n{lines}}}\n")
    return name


def converted(expression: str, source: DType, target: DType, width: int) -> str:
    """Conversion expression of one register to another element type."""
    value = computed(expression, source, width)
    if target in (bf16, tf32) and source not in (bf16, tf32, f32):
        value = f"convert_{vector_type('float', width)}({value})"
    if target is tf32:
        return _round_tf32(value, width)
    if target is bf16:
        return rounded(value, bf16, width)
    if {source, target} <= {bf16, tf32, f32}:
        return value
    name = vector_type(target.opencl, width)
    if source.is_float and target is u32:
        zero = literal(0.0, f32 if source is bf16 else source)
        value = f"fmax({value}, {zero})"  # the CPU's own conversion takes NaN for the largest number
    saturate = "_sat_rtz" if source.is_float and not target.is_float else ""
    return f"convert_{name}{saturate}({value})"


def _round_tf32(value: str, width: int) -> str:
    """Round float32 to tf32: to nearest even at ten bits of mantissa; infinities and NaN are unchanged."""
    bits, floats = vector_type("uint", width), vector_type("float", width)
    read = f"as_{bits}({value})"
    # 13 of the 23 bits of mantissa are dropped: half of the last place that stays, less one if that is even.
    rounded_bits = f"(({read} + 0xfffu + (({read} >> 13) & 1u)) & 0xffffe000u)"
    # The exponent of infinities and NaN has all bits set.
    finite = f"({read} & 0x7f800000u) != 0x7f800000u"
    if width == 1:
        return f"(({finite}) ? as_{floats}({rounded_bits}) : {value})"
    return f"select({value}, as_{floats}({rounded_bits}), {finite})"


def bitcast(emitter: Emitter, operation: Any) -> None:
    """Emit the reinterpretation of bits as another element type."""
    source, width, groups = operand_groups(emitter, operation)
    result = operation.result.type
    target = of_mlir(result.element_type if isinstance(result, VectorType) else result)
    if i1 in (source, target):
        raise XeError("XT9401", "i1 has no bits to reinterpret", BUG)
    finish(emitter, operation, [f"as_{vector_type(target.opencl, width)}({group[0]})" for group in groups])
