"""Emission of element-wise arith and math operations as OpenCL C.

Integers, f16, f32 and f64 compute in their own type. bf16 is stored as 16-bit words and computes in float, rounded to
nearest even after every operation, as the NumPy reference does. tf32 computes as float32. An index is an int. Truth
values have a form of their own (:mod:`codegen.opencl.arith.predicate`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects import arith, gpu, math, scf
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, VectorType
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import BlockArgument, Operation
from xdsl.utils.type import get_element_type_or_self

from codegen.opencl.arith import division, integer, predicate
from codegen.opencl.arith.predicate import register_bits
from codegen.opencl.arith.text import ACCURATE_FUNCTIONS, FAST, FAST_FUNCTIONS, PROCESSOR_FUNCTIONS, TEXT
from codegen.opencl.emitter import Emitter, Rule, atom
from codegen.opencl.prelude.macros import F64_TO_F32
from codegen.opencl.values import UNSIGNED, Coordinate, Fragment, computed, rounded, vector_type
from xegpu.ir.dtypes import DType, bf16, e4m3, e5m2, f16, f32, f64, i1, i8, index, of_mlir, tf32, u32
from xegpu.ir.kernel_attributes import function_of
from xegpu.ir.matchers import number
from xegpu.mlir.arith import FAST_DIVISION
from xegpu.mlir.elementwise import RECORDS, Record, read_as
from xegpu.support.errors import BUG, XeError


def literal(number: float, dtype: DType) -> str:
    """OpenCL C literal of a constant."""
    if dtype is bf16:
        return f"(ushort){int(np.asarray(number, bf16.numpy).view(np.uint16)):#06x}"
    if not dtype.is_float:
        return _integer(int(number), dtype)
    value = float(np.float32(number)) if dtype.bits <= 32 else float(number)
    if not np.isfinite(value):
        text = "NAN" if np.isnan(value) else ("INFINITY" if value > 0 else "-INFINITY")
        return text if dtype.bits == 32 else f"({dtype.opencl}){text}"
    suffix = "" if dtype is f64 else "f"
    return f"(half){value!r}f" if dtype is f16 else f"{value!r}{suffix}"


def _integer(number: int, dtype: DType) -> str:
    if dtype is i1:
        return str(int(number != 0))  # MLIR's true is -1
    # C has no negative literals, and takes the magnitude of the smallest number for a wider type.
    if number in (-(1 << 31), -(1 << 63)):
        return f"({number + 1}{'L' if dtype.opencl == 'long' else ''} - 1)"
    return f"{number}ul" if number >= 1 << 63 else str(number)


def stored(expression: str, dtype: DType) -> str:
    """Fragment representation of a scalar; only predicates have another one."""
    if dtype is i1:
        return f"(short)-({expression})"
    return f"({dtype.opencl})({expression})" if dtype.kind == "i" and dtype.bits < 32 else expression


def operand_groups(emitter: Emitter, operation: Operation) -> tuple[DType, int, list[list[str]]]:
    """Element type, width, and for each variable the operands' expressions; a scalar counts as one variable."""
    type_ = operation.operands[0].type
    values = [emitter.values[operand] for operand in operation.operands]
    if not isinstance(type_, VectorType):
        return of_mlir(type_), 1, [[atom(value) for value in values]]
    fragments: list[Fragment] = values
    if any(fragment.per_lane != 1 for fragment in fragments):
        raise XeError("XT9401", f"{operation.name} on packed words is not supported", BUG)
    groups = [list(names) for names in zip(*(fragment.names for fragment in fragments), strict=True)]
    return fragments[0].dtype, fragments[0].width, groups


def finish(emitter: Emitter, operation: Operation, expressions: list[str]) -> None:
    """Declare an operation's result: one expression for each variable, or that of a scalar."""
    result = operation.results[0]
    if isinstance(result.type, VectorType):
        emitter.assign(result, emitter.fresh(result), expressions)
    else:
        emitter.define(result, of_mlir(result.type).opencl, expressions[0])


def binary(emitter: Emitter, operation: Operation) -> None:
    """Emit a binary operation on fragments or scalars."""
    dtype, width, groups = operand_groups(emitter, operation)
    kind, expressions = type(operation), []
    for group in groups:
        if RECORDS[kind].family == "integer":
            expressions.append(integer.binary(emitter, operation, group[0], group[1], dtype, width))
            continue
        left, right = (computed(value, dtype, width) for value in group)
        combined = division.quotient(emitter, left, right, width) if _is_divided_in_steps(emitter, operation, dtype) \
            else TEXT[kind].combine(left, right, width)
        expressions.append(rounded(combined, dtype, width))
    finish(emitter, operation, expressions)


def _is_divided_in_steps(emitter: Emitter, operation: Operation, dtype: DType) -> bool:
    """Whether a division is to be rounded correctly in f32, and the target has no instructions for that."""
    return isinstance(operation, arith.DivfOp) and dtype not in (f16, f64) and \
        not emitter.target.rounds_division and FAST_DIVISION not in function_of(operation).attributes


def _absolute_integers(emitter: Emitter, operation: Operation) -> None:
    """Emit the absolute values of integers."""
    dtype, width, groups = operand_groups(emitter, operation)
    finish(emitter, operation, [_absolute(value, dtype, width) for (value,) in groups])


def _absolute(value: str, dtype: DType, width: int) -> str:
    """The absolute value; that of the smallest number is itself, and undefined in C."""
    if dtype is i1 or dtype.kind == "u":
        return value
    if width > 1:
        return f"as_{vector_type(dtype.opencl, width)}(abs({value}))"  # OpenCL's abs is unsigned
    word = UNSIGNED[max(register_bits(dtype), 32)]
    return f"({dtype.opencl})({value} < 0 ? 0 - ({word}){value} : ({word}){value})"


def _bit_count(emitter: Emitter, operation: Operation) -> None:
    """Emit a count of bits, of the unsigned type; that of one bit is the bit or its complement."""
    dtype, width, groups = operand_groups(emitter, operation)
    own = dtype.opencl
    word, name = (own if own.startswith("u") else f"u{own}"), TEXT[type(operation)].text
    expressions = []
    for (value,) in groups:
        if dtype is i1:
            complement = "~" if isinstance(operation.results[0].type, VectorType) else "!"
            expressions.append(f"{complement}{value}" if RECORDS[type(operation)].truth == "~" else value)
        else:
            counted = f"{name}({integer.cast(value, own, word, width)})"
            expressions.append(integer.cast(counted, word, own, width, always=width == 1))
    finish(emitter, operation, expressions)


def float_call(emitter: Emitter, operation: Operation) -> None:
    """Emit a function of floats; f16 computes in float, whose functions are more accurate than half's."""
    dtype, width, groups = operand_groups(emitter, operation)
    if _is_approximate(operation, dtype):
        finish(emitter, operation, [_approximated(emitter, type(operation), group[0], dtype, width)
                                    for group in groups])
        return
    name = TEXT[type(operation)].text
    functions = PROCESSOR_FUNCTIONS if emitter.target.is_cpu else ACCURATE_FUNCTIONS
    if type(operation) in functions and dtype is not f64:
        name = _accurate_function(emitter, *functions[type(operation)], width)
    finish(emitter, operation, [_math_call(name, group, dtype, width) for group in groups])


def _accurate_function(emitter: Emitter, name: str, body: str, width: int) -> str:
    """Define a function that is shorter than Intel's and as accurate as it must be, and return its name."""
    types = {letter: vector_type(c_type, width) for letter, c_type in (("F", "float"), ("I", "int"), ("U", "uint"))}
    emitter.function(f"static {types['F']} {name}{width}({types['F']} v)\n{{{body.format(**types)}\n}}\n")
    return f"{name}{width}"


def _is_approximate(operation: Operation, dtype: DType) -> bool:
    """Whether a function may be approximate and has an approximation, which is in float."""
    flags = operation.properties.get("fastmath")
    return type(operation) in FAST and dtype is not f64 and isinstance(flags, arith.FastMathFlagsAttr) and \
        FastMathFlag.APPROX_FUNC in flags.data


def _approximated(emitter: Emitter, kind: type[Operation], value: str, dtype: DType, width: int) -> str:
    """Expression of a function by native instructions."""
    floats, text = vector_type("float", width), FAST[kind]
    if kind in FAST_FUNCTIONS:
        name = FAST[kind].partition("(")[0]
        body = FAST_FUNCTIONS[kind].replace("(F)", f"({floats})").replace("const F ", f"const {floats} ")
        emitter.function(f"static {floats} {name}{width}({floats} v)\n{{\n  {body}\n}}\n")
        text = f"{name}{width}({{v}})"
    if dtype is f16:
        return f"convert_{vector_type('half', width)}({text.format(v=f'convert_{floats}({value})')})"
    return rounded(text.format(v=atom(computed(value, dtype, width))), dtype, width)


def _math_call(name: str, values: list[str], dtype: DType, width: int) -> str:
    if dtype is f64 and name in ("floor", "ceil"):  # Intel's compiler makes 0.0 of -0.0
        return f"copysign({name}({values[0]}), {values[0]})"
    if dtype is not f16:
        return rounded(f"{name}({', '.join(computed(value, dtype, width) for value in values)})", dtype, width)
    floats = vector_type("float", width)
    return f"convert_{vector_type('half', width)}({name}({', '.join(f'convert_{floats}({v})' for v in values)}))"


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


def _bitcast(emitter: Emitter, operation: Any) -> None:
    source, width, groups = operand_groups(emitter, operation)
    result = operation.result.type
    target = of_mlir(result.element_type if isinstance(result, VectorType) else result)
    if i1 in (source, target):
        raise XeError("XT9401", "i1 has no bits to reinterpret", BUG)
    finish(emitter, operation, [f"as_{vector_type(target.opencl, width)}({group[0]})" for group in groups])


# Constants, index arithmetic and a work-group's place in the grid, in OpenCL C.


GRID_DIMENSION = {"x": 2, "y": 1, "z": 0}
"""Grid axis to OpenCL dimension: the last axis of a grid runs fastest."""


def _constant(emitter: Emitter, operation: arith.ConstantOp) -> None:
    value, result = operation.value, operation.result
    if not isinstance(value, DenseIntOrFPElementsAttr):
        emitter.values[result] = literal(value.value.data, of_mlir(result.type))  # type: ignore[union-attr]
        return
    fragment = emitter.fresh(result)  # of words of one element: a lane's registers
    elements = [stored(literal(number, fragment.dtype), fragment.dtype) for number in value.get_values()]
    emitter.assign(result, fragment, [f"({fragment.c_type})({', '.join(elements[i:i + fragment.width])})"
                                      for i in range(0, fragment.units, fragment.width)])


def _add(emitter: Emitter, operation: arith.AddiOp) -> None:
    """Emit an index sum; the sum of a counter and a constant is inlined at its uses."""
    counter, added = operation.lhs, number(operation.rhs)
    loop = counter.block.parent_op() if isinstance(counter, BlockArgument) else None
    if added is not None and isinstance(loop, scf.ForOp) and loop.body.block.args[0] is counter:
        emitter.values[operation.result] = str(Coordinate((emitter.values[counter],), added))
        return
    binary(emitter, operation)


def _floor_divide(emitter: Emitter, operation: arith.FloorDivSIOp) -> None:
    size = number(operation.rhs) or 0
    if of_mlir(get_element_type_or_self(operation.result.type)) is index and size > 0 and size & (size - 1) == 0:
        emitter.define(operation.result, "int", f"{atom(emitter.values[operation.lhs])} >> {size.bit_length() - 1}")
        return
    binary(emitter, operation)


def _position(function: str) -> Rule:
    def rule(emitter: Emitter, operation: Any) -> None:
        dimension = GRID_DIMENSION[operation.dimension.data.value]
        emitter.define(operation.result, "int", f"{function}({dimension})")

    return rule


def _subgroup(emitter: Emitter, operation: gpu.SubgroupIdOp) -> None:
    number = "get_sub_group_id()"
    if emitter.target.fuses_loads:  # what follows from it is then known to be the same for all lanes
        number = f"sub_group_broadcast((int){number}, 0)"
    emitter.define(operation.result, "int", number)


RULES: dict[type[Operation], Rule] = {
    **{kind: float_call if text.form == "float call" else binary for kind, text in TEXT.items()},
    **{kind: convert for kind, record in RECORDS.items() if record.family == "conversion"},
    math.AbsIOp: _absolute_integers,
    math.CtPopOp: _bit_count,
    math.CountLeadingZerosOp: _bit_count,
    arith.BitcastOp: _bitcast,
    arith.ConstantOp: _constant,
    arith.AddiOp: _add,
    arith.FloorDivSIOp: _floor_divide,
    gpu.BlockIdOp: _position("get_group_id"),
    gpu.GridDimOp: _position("get_num_groups"),
    gpu.SubgroupIdOp: _subgroup,
}
