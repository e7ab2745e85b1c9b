"""Emission of element-wise arith and math operations as OpenCL C.

Integers, f16, f32 and f64 compute in their own type. bf16 is stored as 16-bit words and computes in float, rounded to
nearest even after every operation, as the NumPy reference does. tf32 computes as float32. An index is an int. Truth
values have a form of their own (:mod:`codegen.opencl.arith.predicate`).
"""

from __future__ import annotations

from xdsl.dialects import arith, math, scf
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, VectorType
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import BlockArgument, Operation
from xdsl.utils.type import get_element_type_or_self

from codegen.opencl.arith import division, integer
from codegen.opencl.arith.conversion import bitcast, convert
from codegen.opencl.arith.negation import has_sign_bit, hidden, hidden_negation, hidden_sign, with_sign
from codegen.opencl.arith.operands import finish, literal, operand_groups, stored
from codegen.opencl.arith.predicate import register_bits
from codegen.opencl.arith.text import ACCURATE_FUNCTIONS, CPU_FUNCTIONS, FAST, FAST_FUNCTIONS, TEXT
from codegen.opencl.arith.zero import difference, zero_of
from codegen.opencl.emitter import Emitter, Rule, atom
from codegen.opencl.prelude.macros import MAXNUM
from codegen.opencl.values import UNSIGNED, Coordinate, computed, rounded, vector_type
from xegpu.ir.dtypes import DType, f16, f32, f64, i1, index, of_mlir
from xegpu.ir.kernel_attributes import function_of
from xegpu.ir.matchers import number
from xegpu.mlir.arith import FAST_DIVISION
from xegpu.mlir.elementwise import RECORDS


def binary(emitter: Emitter, operation: Operation) -> None:
    """Emit a binary operation on fragments or scalars."""
    kind, expressions = type(operation), []
    dtype, width, groups = operand_groups(emitter, operation, by_words=kind not in integer.DIVISIONS)
    zero, negated, sign = (find(emitter, operation) for find in (zero_of, hidden_negation, hidden_sign))
    for group in groups:
        if RECORDS[kind].family == "integer":
            expressions.append(integer.binary(emitter, operation, group[0], group[1], dtype, width))
            continue
        if has_sign_bit(dtype) and negated is not None:
            expressions.append(hidden(group[negated], dtype, width))
            continue
        if has_sign_bit(dtype) and sign is not None:
            expressions.append(with_sign(group[1 - sign], group[sign], dtype, width))
            continue
        left, right = (computed(value, dtype, width) for value in group)
        if _is_divided_in_steps(emitter, operation, dtype):
            combined = division.quotient(emitter, left, right, width)
        elif zero is not None:
            other = (right, left)[zero]
            combined = difference((left, right)[zero], other if kind is arith.SubfOp else f"-({other})", dtype, width)
        elif emitter.target.is_cpu and dtype is f32 and width == 1 and TEXT[kind].text in MAXNUM:
            combined = f"{MAXNUM[TEXT[kind].text]}({left}, {right})"
        else:
            combined = TEXT[kind].combine(left, right, width)
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
    functions = CPU_FUNCTIONS if emitter.target.is_cpu else ACCURATE_FUNCTIONS
    if type(operation) in functions and dtype is not f64:
        name = _accurate_function(emitter, *functions[type(operation)], width)
    finish(emitter, operation, [_math_call(name, group, dtype, width) for group in groups])


def _accurate_function(emitter: Emitter, name: str, body: str, width: int) -> str:
    """Define a function that is shorter than Intel's within the documented error, and return its name."""
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


RULES: dict[type[Operation], Rule] = {
    **{kind: float_call if text.form == "float call" else binary for kind, text in TEXT.items()},
    **{kind: convert for kind, record in RECORDS.items() if record.family == "conversion"},
    math.AbsIOp: _absolute_integers,
    math.CtPopOp: _bit_count,
    math.CountLeadingZerosOp: _bit_count,
    arith.BitcastOp: bitcast,
    arith.ConstantOp: _constant,
    arith.AddiOp: _add,
    arith.FloorDivSIOp: _floor_divide,
}
