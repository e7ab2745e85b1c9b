"""Matrix products in OpenCL C: DPAS builtins, and multiply-adds for types without a matrix engine."""

from __future__ import annotations

from xdsl.ir import Operation

from codegen.opencl.emitter import Emitter, Rule
from codegen.opencl.prelude.macros import CALL
from codegen.opencl.values import ACCUMULATORS, SCALED, Fragment, narrowed, sum_type, vector_type, widened
from xegpu.dialect.dpas import DpasOp, DpasScaledOp, MadOp
from xegpu.ir.dtypes import tf32, u4x2, u8


def _dpas(emitter: Emitter, operation: DpasOp) -> None:
    a, b = emitter.fragment(operation.a), emitter.fragment(operation.b)
    a_type, b_type = a.dtype, b.dtype
    depth = operation.sizes()[2] * (2 if a_type.kind == "p" else 1)
    name = emitter.builtin(f"intel_sub_group_{a_type}_{b_type}_matrix_mad_k{depth}")
    result = emitter.fresh(operation.result)
    if a_type.kind == "s":  # the compiler knows these, and declares them nowhere
        emitter.external(name, f"{result.c_type} {name}({vector_type('short', a.width)}, int8, {result.c_type}) "
                               "__attribute__((overloadable));\n")
    c_type = vector_type(ACCUMULATORS[str(result.dtype)], result.width)
    acc = f"({c_type})(0)" if operation.acc is None else _as(c_type, emitter.fragment(operation.acc))
    call = f"{name}({_operand_a(emitter, a)}, {_operand_b(b)}, {acc})"
    emitter.assign(operation.result, result, [call if c_type == result.c_type else f"as_{result.c_type}({call})"])


def _dpas_scaled(emitter: Emitter, operation: DpasScaledOp) -> None:
    a, b, acc, scale_a, scale_b = (emitter.fragment(operand) for operand in operation.operands)
    name = emitter.builtin(f"intel_sub_group_{SCALED[str(a.dtype)]}_{SCALED[str(b.dtype)]}_scaled_matrix_mad_k32")
    result = emitter.fresh(operation.result)
    emitter.assign(operation.result, result, [f"{name}({_operand_a(emitter, a)}, {_operand_b(b)}, {acc.names[0]}, "
                                              f"{scale_a.names[0]}, {scale_b.names[0]})"])


def _as(c_type: str, fragment: Fragment) -> str:
    (name,) = fragment.names
    return name if fragment.c_type == c_type else f"as_{c_type}({name})"


def _operand_a(emitter: Emitter, fragment: Fragment) -> str:
    if fragment.dtype is tf32:
        return _as(vector_type("float", fragment.width), fragment)
    word = "short" if emitter.subgroup == 16 else "int"
    return _as(vector_type(f"u{word}" if fragment.dtype in (u8, u4x2) else word, fragment.width), fragment)


def _operand_b(fragment: Fragment) -> str:
    if fragment.dtype is tf32:
        return _as("float8", fragment)
    return _as("uint8" if fragment.dtype in (u8, u4x2) else "int8", fragment)


def _mad(emitter: Emitter, operation: MadOp) -> None:
    a, b = emitter.fragment(operation.a), emitter.fragment(operation.b)
    result = emitter.fresh(operation.result)
    name = mad_function(emitter, a, b, result)
    if operation.acc is None:
        acc = [f"({result.c_type})(0)"] * len(result.names)
    else:
        acc = list(emitter.fragment(operation.acc).names)
    emitter.assign(operation.result, result, [f"{name}({', '.join((*a.names, *b.names, *acc))})"])


def mad_function(emitter: Emitter, a: Fragment, b: Fragment, c: Fragment) -> str:
    """Define D = C + A x B of these fragments (lane ``k`` has column ``k`` of A), and return its name.

    Sums are double for f64, float for other floats, rounded once to the accumulator's type, and int for integers.
    """
    depth, rows, result = b.units, a.units, c.dtype
    name = f"mad_{a.dtype}_{b.dtype}_{result}_{rows}x{depth}"
    scalar = sum_type(result)
    total = vector_type(scalar, rows)
    a_parts = [f"{a.c_type} a{i}" for i in range(len(a.names))]
    b_parts = [f"{b.c_type} b{i}" for i in range(len(b.names))]
    lines = [f"  const {total} wide = {widened('a0', a.dtype, rows, total)};",
             f"  {total} sum = {widened('c', result, rows, total)};"]
    words = b.renamed(tuple(f"b{i}" for i in range(len(b.names)))).words()
    for k, word in enumerate(words):
        parts = [f"sub_group_broadcast({_component('wide', m, rows)}, {k})" for m in range(rows)]
        value = widened(word, b.dtype, 1, scalar)
        spread = f"({total})({', '.join(parts)})"
        lines.append(f"  sum = fma({spread}, ({total})({value}), sum);" if result.is_float
                     else f"  sum += {spread} * ({total})({value});")
    lines.append(f"  return {narrowed('sum', result, rows)};")
    emitter.function(f"{CALL} static {c.c_type} {name}({', '.join([*a_parts, *b_parts, f'{c.c_type} c'])})\n{{\n"
                     + "\n".join(lines) + "\n}\n")
    return name


def _component(name: str, position: int, width: int) -> str:
    return name if width == 1 else f"{name}.s{position:x}"


RULES: dict[type[Operation], Rule] = {DpasOp: _dpas, MadOp: _mad, DpasScaledOp: _dpas_scaled}
