"""Differences from zero in OpenCL C, whose signs Intel's compiler for GPUs does not keep.

``0.0f - x`` is 0.0 for x = 0.0. That compiler makes the negation of it, which is -0.0, also where it has put a loop's
first value into the first of its unrolled steps. It leaves ``fma(x, -1, 0)`` alone, which has the same value for
every x and is one instruction too.
"""

from __future__ import annotations

import math

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr, UnrealizedConversionCastOp
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from codegen.opencl.arith.operands import literal
from codegen.opencl.emitter import Emitter
from codegen.opencl.values import vector_type
from xegpu.ir.dtypes import DType, bf16, f32

_VALUE_OF_OPERAND = (BroadcastOp, UnrealizedConversionCastOp, arith.ExtFOp, arith.TruncFOp, arith.SIToFPOp,
                     arith.UIToFPOp)


def is_from_zero(emitter: Emitter, operation: Operation) -> bool:
    """Whether an operation subtracts, for a GPU, from what its compiler may know to be 0.0."""
    return isinstance(operation, arith.SubfOp) and not emitter.target.is_cpu and _may_be_zero(operation.lhs)


def _may_be_zero(value: SSAValue) -> bool:
    """Whether a value is 0.0, or is carried by a loop that begins with it."""
    owner = value.owner
    if isinstance(owner, arith.ConstantOp):
        return _has_zero(owner)
    if isinstance(owner, _VALUE_OF_OPERAND):
        return _may_be_zero(owner.operands[0])
    if not isinstance(value, BlockArgument) or value.index == 0:  # the counter of a loop
        return False
    loop = value.block.parent_op()
    return isinstance(loop, scf.ForOp) and _may_be_zero(loop.iter_args[value.index - 1])


def _has_zero(constant: arith.ConstantOp) -> bool:
    attribute = constant.value
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        return any(number == 0 and math.copysign(1, number) > 0 for number in attribute.get_values())
    return isinstance(attribute, FloatAttr | IntegerAttr) and attribute.value.data == 0 and \
        math.copysign(1, attribute.value.data) > 0


def difference(zero: str, subtrahend: str, dtype: DType, width: int) -> str:
    """Expression of a difference from what may be 0.0, in the type in which it is computed."""
    computed = f32 if dtype is bf16 else dtype
    return f"fma({subtrahend}, ({vector_type(computed.opencl, width)})({literal(-1.0, computed)}), {zero})"
