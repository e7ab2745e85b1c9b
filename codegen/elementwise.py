"""Element-wise operations of arith, as OpenCL C.

Integers, f16, f32 and f64 compute in their own type. bf16 is stored as 16-bit words and computes in float, rounded to
nearest even after every operation, as the NumPy reference does. tf32 computes as float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation

from codegen.emitter import Emitter, Rule
from codegen.fragments import Fragment, vector_type
from xegpu.dialect.conversions import CONVERSIONS
from xegpu.dtypes import DType, bf16, f16, f32, f64, i1, of_mlir, tf32
from xegpu.errors import XeError

_SYMBOLS: dict[type[Operation], str] = {
    arith.AddfOp: "+", arith.SubfOp: "-", arith.MulfOp: "*", arith.DivfOp: "/",
    arith.AddiOp: "+", arith.SubiOp: "-", arith.MuliOp: "*", arith.DivSIOp: "/", arith.DivUIOp: "/",
    arith.RemSIOp: "%", arith.RemUIOp: "%",
    arith.AndIOp: "&", arith.OrIOp: "|", arith.XOrIOp: "^",
    arith.ShLIOp: "<<", arith.ShRSIOp: ">>", arith.ShRUIOp: ">>",
}
_FUNCTIONS: dict[type[Operation], str] = {
    arith.MaxSIOp: "max", arith.MinSIOp: "min", arith.MaxUIOp: "max", arith.MinUIOp: "min",
}
_UNARY: dict[type[Operation], str] = {
    math.ExpOp: "exp", math.Exp2Op: "exp2", math.LogOp: "log", math.SqrtOp: "sqrt", math.RsqrtOp: "rsqrt",
    math.TanhOp: "tanh", math.ErfOp: "erf", math.SinOp: "sin", math.CosOp: "cos", math.FloorOp: "floor",
    math.CeilOp: "ceil", math.AbsFOp: "fabs", math.AbsIOp: "abs",
}
_EXTREMES: dict[type[Operation], str] = {arith.MaximumfOp: ">", arith.MinimumfOp: "<"}


def literal(number: float, dtype: DType) -> str:
    """A constant as OpenCL C writes it."""
    if dtype is bf16:
        return f"(ushort){int(np.asarray(number, bf16.numpy).view(np.uint16)):#06x}"
    if not dtype.is_float:
        return str(int(number))
    value = float(np.float32(number)) if dtype.bits <= 32 else float(number)
    if not np.isfinite(value):
        text = "NAN" if np.isnan(value) else ("INFINITY" if value > 0 else "-INFINITY")
        return text if dtype.bits == 32 else f"({dtype.opencl}){text}"
    suffix = "" if dtype is f64 else "f"
    return f"(half){value!r}f" if dtype is f16 else f"{value!r}{suffix}"


def stored(expression: str, dtype: DType) -> str:
    """A scalar as it lies in a fragment; every scalar is kept in that form already."""
    return f"({dtype.opencl})({expression})" if dtype.kind == "i" and dtype.bits < 32 else expression


def computed(expression: str, dtype: DType, width: int) -> str:
    """A register as the type that its elements compute in."""
    if dtype is not bf16:
        return expression
    number = "" if width == 1 else str(width)
    return f"intel_convert_as_bfloat16{number}_float{number}({expression})"


def rounded(expression: str, dtype: DType, width: int) -> str:
    """A computed value as it is stored."""
    if dtype is bf16:
        number = "" if width == 1 else str(width)
        return f"intel_convert_bfloat16{number}_as_ushort{number}({expression})"
    if width == 1 and dtype.bits < 32 and not dtype.is_float:
        return f"({dtype.opencl})({expression})"  # C computes narrow scalars as int
    return expression


def _operands(emitter: Emitter, operation: Operation) -> tuple[DType, int, list[list[str]]]:
    """Element type, width, and for each variable the operands' expressions; a scalar counts as one variable."""
    type_ = operation.operands[0].type
    values = [emitter.values[operand] for operand in operation.operands]
    if not isinstance(type_, VectorType):
        return of_mlir(type_), 1, [[f"({value})" for value in values]]
    fragments: list[Fragment] = values
    if any(fragment.per_lane != 1 for fragment in fragments):
        raise XeError(f"{operation.name} on packed words is not supported")
    groups = [list(names) for names in zip(*(fragment.names for fragment in fragments), strict=True)]
    return fragments[0].dtype, fragments[0].width, groups


def _finish(emitter: Emitter, operation: Operation, expressions: list[str]) -> None:
    result = operation.results[0]
    if isinstance(result.type, VectorType):
        emitter.assign(result, emitter.fresh(result), expressions)
    else:
        emitter.define(result, of_mlir(result.type).opencl, expressions[0])


def binary(emitter: Emitter, operation: Operation) -> None:
    """A binary operation on fragments or scalars."""
    dtype, width, groups = _operands(emitter, operation)
    expressions = []
    for group in groups:
        left, right = (computed(value, dtype, width) for value in group)
        expressions.append(rounded(_binary(type(operation), left, right, dtype, width), dtype, width))
    _finish(emitter, operation, expressions)


def _binary(kind: type[Operation], left: str, right: str, dtype: DType, width: int) -> str:
    if kind in _FUNCTIONS:
        return f"{_FUNCTIONS[kind]}({left}, {right})"
    if kind in _EXTREMES:
        return _extreme(_EXTREMES[kind], left, right, dtype, width)
    if kind is arith.FloorDivSIOp:
        zero = f"({dtype.opencl})0"  # C++'s rules for vectors refuse an int beside narrower elements
        rest = f"(({left} % {right}) != {zero}) & (({left} < {zero}) != ({right} < {zero}))"
        return f"{left} / {right} {'-' if width == 1 else '+'} ({rest})"  # a true vector lane is -1
    return f"{left} {_SYMBOLS[kind]} {right}"


def _extreme(order: str, left: str, right: str, dtype: DType, width: int) -> str:
    """The larger or the smaller, NaN if either is: fmax and fmin would drop the NaN."""
    if width == 1:
        return f"(({left} {order} {right} || isnan({left})) ? {left} : {right})"
    return f"select({right}, {left}, ({left} {order} {right}) | isnan({left}))"


def unary(emitter: Emitter, operation: Operation) -> None:
    """A function of one operand; f16 computes in float, whose functions are more accurate than half's."""
    dtype, width, groups = _operands(emitter, operation)
    name = _UNARY[type(operation)]
    floats, halves = vector_type("float", width), vector_type("half", width)
    expressions = []
    for (value,) in groups:
        if dtype is f16:
            expressions.append(f"convert_{halves}({name}(convert_{floats}({value})))")
        elif type(operation) is math.AbsIOp:
            expressions.append(f"as_{vector_type(dtype.opencl, width)}(abs({value}))")  # OpenCL's abs is unsigned
        else:
            expressions.append(rounded(f"{name}({computed(value, dtype, width)})", dtype, width))
    _finish(emitter, operation, expressions)


def convert(emitter: Emitter, operation: Operation) -> None:
    """A conversion between element types."""
    source, width, groups = _operands(emitter, operation)
    result = operation.results[0].type
    target = of_mlir(result.element_type if isinstance(result, VectorType) else result)
    if "x" in (source.kind, target.kind):
        _finish(emitter, operation, [f"({vector_type(target.opencl, width)})({group[0]})" for group in groups])
        return
    _finish(emitter, operation, [_converted(group[0], source, target, width) for group in groups])


def _converted(expression: str, source: DType, target: DType, width: int) -> str:
    value = computed(expression, source, width)
    if target in (bf16, tf32) and source not in (bf16, tf32, f32):
        value = f"convert_{vector_type('float', width)}({value})"
    if target is tf32:
        return _round_tf32(value, width)
    if target is bf16:
        return rounded(value, bf16, width)
    kind = {f32: "float", f16: "half"}.get(target, target.opencl)
    if {source, target} <= {bf16, tf32, f32}:
        return value
    name = vector_type(kind, width)
    saturate = "_sat_rtz" if source.is_float and not target.is_float else ""
    return f"convert_{name}{saturate}({value})"


def _round_tf32(value: str, width: int) -> str:
    """float32 rounded to nearest even to ten bits of mantissa, infinities and NaN as they are."""
    bits, floats = vector_type("uint", width), vector_type("float", width)
    read = f"as_{bits}({value})"
    rounded_bits = f"(({read} + 0xfffu + (({read} >> 13) & 1u)) & 0xffffe000u)"
    finite = f"({read} & 0x7f800000u) != 0x7f800000u"
    if width == 1:
        return f"(({finite}) ? as_{floats}({rounded_bits}) : {value})"
    return f"select({value}, as_{floats}({rounded_bits}), {finite})"


def _bitcast(emitter: Emitter, operation: Any) -> None:
    source, width, groups = _operands(emitter, operation)
    result = operation.result.type
    target = of_mlir(result.element_type if isinstance(result, VectorType) else result)
    if i1 in (source, target):
        raise XeError("i1 has no bits to reinterpret")
    _finish(emitter, operation, [f"as_{vector_type(target.opencl, width)}({group[0]})" for group in groups])


RULES: dict[type[Operation], Rule] = {
    **dict.fromkeys((*_SYMBOLS, *_FUNCTIONS, *_EXTREMES, arith.FloorDivSIOp), binary),
    **dict.fromkeys((arith.ExtFOp, arith.TruncFOp, arith.IndexCastOp, *CONVERSIONS), convert),
    **dict.fromkeys(_UNARY, unary),
    arith.BitcastOp: _bitcast,
}
