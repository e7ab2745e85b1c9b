"""Constants, index arithmetic and a work-group's place in the grid, in OpenCL C."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import arith, gpu
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation

from codegen import elementwise
from codegen.emitter import Emitter, Rule, atom
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.matchers import number

GRID_DIMENSION = {"x": 2, "y": 1, "z": 0}
"""Grid axis to OpenCL dimension: the last axis of a grid runs fastest."""


def _constant(emitter: Emitter, operation: arith.ConstantOp) -> None:
    dtype = of_mlir(operation.result.type)
    number = operation.value.value.data  # type: ignore[union-attr]
    emitter.values[operation.result] = elementwise.literal(number, dtype)


def _index(symbol: str) -> Rule:
    def rule(emitter: Emitter, operation: Any) -> None:
        if isinstance(operation.results[0].type, VectorType):
            elementwise.binary(emitter, operation)
            return
        left, right = (atom(emitter.values[operand]) for operand in operation.operands)
        dtype = of_mlir(operation.results[0].type)
        emitter.define(operation.results[0], dtype.opencl, f"{left} {symbol} {right}")

    return rule


def _floor_divide(emitter: Emitter, operation: arith.FloorDivSIOp) -> None:
    if isinstance(operation.result.type, VectorType) or of_mlir(operation.result.type).opencl != "int":
        elementwise.binary(emitter, operation)
        return
    size = number(operation.rhs) or 0
    left, right = (atom(emitter.values[operand]) for operand in operation.operands)
    if size > 0 and size & (size - 1) == 0:
        emitter.define(operation.result, "int", f"{left} >> {size.bit_length() - 1}")
        return
    emitter.function("static int floor_divide(int a, int b)\n{\n  const int q = a / b;\n"
                     "  return q - ((a % b != 0) & ((a < 0) != (b < 0)));\n}\n")
    emitter.define(operation.result, "int", f"floor_divide({left}, {right})")


def _position(function: str) -> Rule:
    def rule(emitter: Emitter, operation: Any) -> None:
        dimension = GRID_DIMENSION[operation.dimension.data.value]
        emitter.define(operation.result, "int", f"{function}({dimension})")

    return rule


def _subgroup(emitter: Emitter, operation: gpu.SubgroupIdOp) -> None:
    number = "get_sub_group_id()"
    if emitter.target.loads_operands:  # what follows from it is then known to be the same for all lanes
        number = f"sub_group_broadcast((int){number}, 0)"
    emitter.define(operation.result, "int", number)


INDEX_RULES: dict[type[Operation], Rule] = {
    arith.ConstantOp: _constant,
    arith.AddiOp: _index("+"), arith.SubiOp: _index("-"), arith.MuliOp: _index("*"),
    arith.AndIOp: _index("&"), arith.OrIOp: _index("|"), arith.XOrIOp: _index("^"),
    arith.ShLIOp: _index("<<"), arith.ShRSIOp: _index(">>"),
    arith.FloorDivSIOp: _floor_divide,
    gpu.BlockIdOp: _position("get_group_id"),
    gpu.GridDimOp: _position("get_num_groups"),
    gpu.SubgroupIdOp: _subgroup,
}
