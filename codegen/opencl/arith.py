"""Emission of element-wise arith and math operations as OpenCL C.

Integers, f16, f32 and f64 compute in their own type. bf16 is stored as 16-bit words and computes in float, rounded to
nearest even after every operation, as the NumPy reference does. tf32 computes as float32. An index is an int. Truth
values have a form of their own (:mod:`codegen.opencl.predicate`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from xdsl.dialects import arith, gpu, math, scf
from xdsl.dialects.builtin import VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.utils.type import get_element_type_or_self

from codegen.opencl import predicate
from codegen.opencl.emitter import Emitter, Rule, atom
from codegen.opencl.predicate import register_bits
from codegen.opencl.prelude.macros import F64_TO_F32
from codegen.opencl.values import UNSIGNED, Coordinate, Fragment, computed, rounded, vector_type
from xegpu.ir.dtypes import DType, bf16, e4m3, e5m2, f16, f32, f64, i1, i8, index, of_mlir, tf32, u32
from xegpu.ir.matchers import number
from xegpu.mlir.elementwise import RECORDS, Record, read_as
from xegpu.support.errors import BUG, XeError

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
    return {getattr(arith, f"{name}Op", None) or getattr(math, f"{name}Op"): Text(form, text)
            for name, text in names.items()}


TEXT: dict[type[Operation], Text] = {
    **_texts("infix", Addf="+", Subf="-", Mulf="*", Divf="/", Addi="+", Subi="-", Muli="*", DivUI="/", RemUI="%",
             AndI="&", OrI="|", XOrI="^", ShLI="<<", ShRSI=">>", ShRUI=">>"),
    **_texts("call", MaxSI="max", MinSI="min", MaxUI="max", MinUI="min", Maxnumf="fmax", Minnumf="fmin", AbsI="abs"),
    **_texts("float call", PowF="pow", Atan2="atan2", CopySign="copysign", Fma="fma", Exp="exp", Exp2="exp2", Log="log",
             Sqrt="sqrt", Rsqrt="rsqrt", Tanh="tanh", Erf="erf", Sin="sin", Cos="cos", Floor="floor", Ceil="ceil",
             AbsF="fabs", ExpM1="expm1", Log2="log2", Log10="log10", Log1p="log1p", Cbrt="cbrt", Sinh="sinh",
             Cosh="cosh", Tan="tan", Asin="asin", Acos="acos", Atan="atan", Trunc="trunc", RoundEven="rint"),
    **_texts("extreme", Maximumf=">", Minimumf="<"),
    **_texts("division", DivSI="divide", FloorDivSI="floor_divide", CeilDivSI="ceil_divide", CeilDivUI="ceil_divide",
             RemSI="remainder"),
}
"""Text of the operations that have NumPy semantics in :data:`xegpu.mlir.elementwise.RECORDS`, and of ``fma``; the types
are in :func:`binary` and :func:`float_call`."""


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
        return f"({number + 1}{'L' if number < -(1 << 31) else ''} - 1)"
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
            expressions.append(_integers(emitter, operation, group[0], group[1], dtype, width))
            continue
        left, right = (computed(value, dtype, width) for value in group)
        expressions.append(rounded(TEXT[kind].combine(left, right, width), dtype, width))
    finish(emitter, operation, expressions)


def _integers(emitter: Emitter, operation: Operation, left: str, right: str, dtype: DType, width: int) -> str:
    """A binary operation on integers, in the C type that the operation reads, and not the one that holds them.

    Signed overflow is undefined in C, and wraps here: sums, differences, products and shifts to the left of scalars are
    unsigned, those of OpenCL's vectors wrap by themselves. Indices, most of which are addresses, are not.
    """
    kind, sign = type(operation), RECORDS[type(operation)]
    if dtype is i1:
        return {"a": left, "0": f"{left} ^ {left}"}.get(sign.truth, f"{left} {sign.truth} {right}")
    own = dtype.opencl
    scalar = dict(zip("iu", _integer_types(own), strict=True)).get(sign.operands, own)
    if kind in _WRAPPING and width == 1 and dtype is not index:
        scalar = UNSIGNED[max(dtype.bits, 32)]  # C computes narrower unsigned scalars as int, too
    if TEXT[kind].form == "division" and kind is not arith.CeilDivUIOp:
        expression = _division(emitter, operation, left, right, scalar, width)
    else:
        left, right = (cast(side, own, scalar, width) for side in (left, right))
        if kind is arith.CeilDivUIOp:
            type_ = vector_type(scalar, width)
            rest = f"({left} % {right} != ({type_})(0))"
            expression = f"{left} / {right} + {rest}" if width == 1 else f"{left} / {right} - as_{type_}{rest}"
        else:
            expression = TEXT[kind].combine(left, right, width)
    if scalar != own or (width == 1 and dtype.bits < 32):
        return cast(f"({expression})", scalar, own, width, always=True)
    return expression


_WRAPPING = (arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.ShLIOp)


def _integer_types(c_type: str) -> tuple[str, str]:
    """The signed and the unsigned C type of as many bits."""
    signed = c_type.removeprefix("u")
    return signed, f"u{signed}"


def cast(expression: str, source: str, target: str, width: int, *, always: bool = False) -> str:
    """The same bits as another C type; a scalar may be a literal, whose type C chooses (int, if it fits)."""
    literal_ = width == 1 and target != "int" and expression.strip("()-").isdigit()
    if source == target and not (always or literal_):
        return expression
    return f"({target}){expression}" if width == 1 else f"as_{vector_type(target, width)}({expression})"


def _division(emitter: Emitter, operation: Operation, left: str, right: str, scalar: str, width: int) -> str:
    """A signed division; by what may be -1 in a function that does not divide the smallest number by it."""
    kind, divisor = type(operation), _uniform(operation.operands[1])
    if divisor not in (None, 0, -1):
        left, right = (cast(side, scalar, scalar, width) for side in (left, right))
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
    """Division by -1 as division of the negated dividend by 1: processors trap at the smallest number by -1."""
    type_ = vector_type(scalar, width)
    if width > 1:
        x, y = f"select(a, ({type_})(0) - a, b == ({type_})(-1))", f"select(b, ({type_})(1), b == ({type_})(-1))"
    else:
        word = "ulong" if scalar == "long" else "uint"
        x, y = f"b == -1 ? ({scalar})(0 - ({word})a) : a", "b == -1 ? 1 : b"
    return f"""\
static {type_} {name}({type_} a, {type_} b)
{{
  const {type_} x = {x}, y = {y};
  return {_quotient(kind, 'x', 'y', scalar, width)};
}}
"""


def extreme(order: str, left: str, right: str, width: int) -> str:
    """Maximum or minimum that propagates NaN, which OpenCL's fmax and fmin drop."""
    if width == 1:
        return f"(({left} {order} {right} || isnan({left})) ? {left} : {right})"
    return f"select({right}, {left}, ({left} {order} {right}) | isnan({left}))"


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


def float_call(emitter: Emitter, operation: Operation) -> None:
    """Emit a function of floats; f16 computes in float, whose functions are more accurate than half's."""
    dtype, width, groups = operand_groups(emitter, operation)
    finish(emitter, operation, [_called(TEXT[type(operation)].text, group, dtype, width) for group in groups])


def _called(name: str, values: list[str], dtype: DType, width: int) -> str:
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
        finish(emitter, operation, [f"{_float8(emitter, source, width)}({group[0]})" for group in groups])
        return
    values = [group[0] for group in groups]
    if source is f64 and target.is_float and isinstance(result, VectorType) and emitter.target.ocloc:
        to_float = _f64_to_float(emitter, target, width)
        source, values = f32, [f"{to_float}({value})" for value in values]
    read, given = read_as(source, sign.operands), read_as(target, sign.result)
    if source is index and sign.operands == "u":
        read = u32
    if read is not source:
        values = [cast(value, source.opencl, read.opencl, width) for value in values]
    expressions = [converted(value, read, given, width) for value in values]
    if given is not target:
        expressions = [cast(f"({text})", given.opencl, target.opencl, width) for text in expressions]
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
    # through f16's subnormal ones. 480, which no number is, overflows in the first factor, and infinity times zero is
    # NaN.
    e4m3: ("const {word} bits = as_{word}(convert_{wide}(as_{signed}(v))) << ({word})(7);",
           "const {half} small = as_{half}(({word})(bits & ({word})(0xbfff)));",
           "const {half} large = small * ({half})(35840.0f);",
           "return large * ({half})(0.0f) + small * ({half})(256.0f);"),
}
"""Statements of a function that widens elements ``v`` of an 8-bit float type to f16, exactly."""


def _float8(emitter: Emitter, dtype: DType, width: int) -> str:
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
    dtype = of_mlir(operation.result.type)
    number = operation.value.value.data  # type: ignore[union-attr]
    emitter.values[operation.result] = literal(number, dtype)


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
    arith.BitcastOp: _bitcast,
    arith.ConstantOp: _constant,
    arith.AddiOp: _add,
    arith.FloorDivSIOp: _floor_divide,
    gpu.BlockIdOp: _position("get_group_id"),
    gpu.GridDimOp: _position("get_num_groups"),
    gpu.SubgroupIdOp: _subgroup,
}
