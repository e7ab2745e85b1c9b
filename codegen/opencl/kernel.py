"""Kernel signature, grid ids, casts of arguments, build options and GRF mode in OpenCL C."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import func, gpu, memref
from xdsl.dialects.builtin import MemRefType, UnrealizedConversionCastOp, VectorType
from xdsl.ir import Operation

from codegen.opencl.emitter import Emitter, Rule, atom
from codegen.opencl.source import Parameter
from codegen.opencl.values import ArrayValue
from xegpu.ir.dtypes import i1, of_mlir
from xegpu.ir.memref import static_form
from xegpu.ir.use_def import written_arguments
from xegpu.mlir.arith import rounds_division
from xegpu.target.grf_mode import requested_registers
from xegpu.target.targets import Target

Names = tuple[str, ...]


def of_function(emitter: Emitter, function: func.FuncOp) -> list[Parameter]:
    """Parameters of a kernel: a scalar by itself, an array as pointer, sizes and strides."""
    parameters, written = [], written_arguments(function)
    for position, argument in enumerate(function.body.block.args):
        type_, name = argument.type, emitter.name(argument.name_hint or "arg")
        if type_ == i1.mlir:  # C has no bool among a kernel's parameters
            emitter.values[argument] = f"({name} != 0)"
            parameters.append(Parameter(name, "int", i1))
            continue
        if not isinstance(type_, MemRefType):
            emitter.values[argument] = name
            parameters.append(Parameter(name, (dtype := of_mlir(type_)).opencl, dtype))
            continue
        rank, dtype = len(type_.get_shape()), of_mlir(type_.element_type)
        sizes = tuple(emitter.name(f"{name}_size{axis}") for axis in range(rank))
        strides = tuple(emitter.name(f"{name}_stride{axis}") for axis in range(rank))
        emitter.values[argument] = ArrayValue(name, dtype, *_sizes_and_strides(type_, sizes, strides))
        parameters += [Parameter(name, dtype.opencl, dtype, pointer=True, read_only=position not in written),
                       *(Parameter(size, "int") for size in (*sizes, *strides))]
    return parameters


def _sizes_and_strides(type_: MemRefType, sizes: Names, strides: Names) -> tuple[Names, Names]:
    """Sizes and strides of an argument: static ones from its type, else its parameters."""
    static = static_form(type_)
    return (sizes, strides) if static is None else (tuple(map(str, static[0])), tuple(map(str, static[1])))


def _metadata(emitter: Emitter, operation: memref.ExtractStridedMetaDataOp) -> None:
    array: ArrayValue = emitter.values[operation.source]
    emitter.values[operation.base_buffer], emitter.values[operation.offset] = array, "0"
    for value, name in zip((*operation.sizes, *operation.strides), (*array.sizes, *array.strides), strict=True):
        emitter.values[value] = name


def _cast(emitter: Emitter, operation: UnrealizedConversionCastOp) -> None:
    (source,), (result,) = operation.operands, operation.results
    value = emitter.values[source]
    if isinstance(value, ArrayValue):
        dtype = of_mlir(result.type.element_type)  # type: ignore[attr-defined]
        value = ArrayValue(f"(({value.space} {dtype.opencl} *){value.name})", dtype, value.sizes, value.strides,
                      value.space)
    elif not isinstance(result.type, VectorType):  # a constant of an unsigned type, written as a signed number
        value = f"(({of_mlir(result.type).opencl}){atom(value)})"
    emitter.values[result] = value


def _recast(emitter: Emitter, operation: memref.CastOp) -> None:
    emitter.values[operation.dest] = emitter.values[operation.source]


_GRID_DIMENSION = {"x": 2, "y": 1, "z": 0}
"""Grid axis to OpenCL dimension: the last axis of a grid runs fastest."""


def _grid_id(function: str) -> Rule:
    def rule(emitter: Emitter, operation: Any) -> None:
        dimension = _GRID_DIMENSION[operation.dimension.data.value]
        emitter.define(operation.result, "int", f"{function}({dimension})")

    return rule


def _subgroup_id(emitter: Emitter, operation: gpu.SubgroupIdOp) -> None:
    number = "get_sub_group_id()"
    if emitter.target.fuses_loads:  # values computed from it are then known to be uniform
        number = f"sub_group_broadcast((int){number}, 0)"
    emitter.define(operation.result, "int", number)


RULES: dict[type[Operation], Rule] = {
    memref.ExtractStridedMetaDataOp: _metadata,
    UnrealizedConversionCastOp: _cast,
    memref.CastOp: _recast,
    gpu.BlockIdOp: _grid_id("get_group_id"),
    gpu.GridDimOp: _grid_id("get_num_groups"),
    gpu.SubgroupIdOp: _subgroup_id,
}

LARGE_GRF = "-cl-intel-256-GRF-per-thread"
"""Build option of OpenCL drivers and ocloc: 256 registers a thread."""
ROUNDED_DIVISION = "-cl-fp32-correctly-rounded-divide-sqrt"
"""Without this option OpenCL C divides within 2.5 ulp, and takes square roots within 3 ulp."""


LARGE_BUFFERS = "-cl-intel-greater-than-4GB-buffer-required"
"""Build option of OpenCL drivers and ocloc: 64-bit addresses of arguments, where a GPU has surface states."""
LARGE_BUFFERS_LEVEL_ZERO = "-ze-opt-greater-than-4GB-buffer-required"
"""The same for Level Zero."""


def build_options(function: func.FuncOp, target: Target, large_buffers: bool) -> str:
    """Build options of a kernel: GRF mode (none for the smaller one), f32 division, width of addresses."""
    large = LARGE_GRF if requested_registers(function) == max(target.registers) else ""
    rounded = ROUNDED_DIVISION if rounds_division(function) else ""
    return " ".join(filter(None, (large, rounded, LARGE_BUFFERS if large_buffers else "")))
