"""Scalar loads in OpenCL C: all lanes load from one address, which takes one message."""

from __future__ import annotations

from xdsl.ir import Operation

from codegen.opencl.emitter import Emitter, Rule, atom
from codegen.opencl.values import ArrayValue
from xegpu.dialect.scalar import LoadScalarOp
from xegpu.ir.dtypes import of_mlir


def _rule(emitter: Emitter, operation: LoadScalarOp) -> None:
    array: ArrayValue = emitter.values[operation.array]
    offset = " + ".join(f"{atom(emitter.values[index])} * (long){atom(stride)}"
                        for index, stride in zip(operation.indices, array.strides, strict=True))
    emitter.define(operation.result, of_mlir(operation.result.type).opencl, f"{array.name}[{offset}]")


RULES: dict[type[Operation], Rule] = {LoadScalarOp: _rule}
