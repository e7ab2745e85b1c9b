"""Parameters of a kernel in OpenCL C, and the arrays and numbers that other operations make of them."""

from __future__ import annotations

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import MemRefType, UnrealizedConversionCastOp, VectorType
from xdsl.ir import Operation

from codegen.emitter import Emitter, Rule, atom
from codegen.fragments import Array
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.memref import static_form

Names = tuple[str, ...]


def of_function(emitter: Emitter, function: func.FuncOp) -> list[str]:
    """The declarations of a kernel's parameters: a number by itself, an array as pointer, sizes and strides."""
    parameters = []
    for argument in function.body.block.args:
        type_, name = argument.type, emitter.name(argument.name_hint or "arg")
        if not isinstance(type_, MemRefType):
            emitter.values[argument] = name
            parameters.append(f"{of_mlir(type_).opencl} {name}")
            continue
        rank, dtype = len(type_.get_shape()), of_mlir(type_.element_type)
        sizes = tuple(emitter.name(f"{name}_size{axis}") for axis in range(rank))
        strides = tuple(emitter.name(f"{name}_stride{axis}") for axis in range(rank))
        emitter.values[argument] = Array(name, dtype, *_known(type_, sizes, strides))
        parameters += [f"global {dtype.opencl} *{name}", *(f"int {size}" for size in (*sizes, *strides))]
    return parameters


def _known(type_: MemRefType, sizes: Names, strides: Names) -> tuple[Names, Names]:
    """Sizes and strides of an argument: the numbers that its type says, else its parameters."""
    static = static_form(type_)
    return (sizes, strides) if static is None else (tuple(map(str, static[0])), tuple(map(str, static[1])))


def _metadata(emitter: Emitter, operation: memref.ExtractStridedMetaDataOp) -> None:
    array: Array = emitter.values[operation.source]
    emitter.values[operation.base_buffer], emitter.values[operation.offset] = array, "0"
    for value, name in zip((*operation.sizes, *operation.strides), (*array.sizes, *array.strides), strict=True):
        emitter.values[value] = name


def _cast(emitter: Emitter, operation: UnrealizedConversionCastOp) -> None:
    (source,), (result,) = operation.operands, operation.results
    value = emitter.values[source]
    if isinstance(value, Array):
        dtype = of_mlir(result.type.element_type)  # type: ignore[attr-defined]
        value = Array(f"(({value.space} {dtype.opencl} *){value.name})", dtype, value.sizes, value.strides,
                      value.space)
    elif not isinstance(result.type, VectorType):  # a constant of an unsigned type, written as a signed number
        value = f"(({of_mlir(result.type).opencl}){atom(value)})"
    emitter.values[result] = value


def _recast(emitter: Emitter, operation: memref.CastOp) -> None:
    emitter.values[operation.dest] = emitter.values[operation.source]


RULES: dict[type[Operation], Rule] = {
    memref.ExtractStridedMetaDataOp: _metadata,
    UnrealizedConversionCastOp: _cast,
    memref.CastOp: _recast,
}
