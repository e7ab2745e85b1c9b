"""Operations and element types in the IR of a kernel, at every stage of its lowering."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import Attribute, Operation

from xegpu.dialect.payload import PayloadType
from xegpu.dialect.types import TensorDescType
from xegpu.ir.dtypes import DType, of_mlir
from xetile.compiler.compiled import CompiledKernel
from xetile.dialect.types import TileType


def elements_of(operation: Operation) -> Iterator[DType]:
    """Element types of the vectors, tiles, descriptors and arrays that an operation takes and gives."""
    for value in (*operation.operands, *operation.results):
        if (element := _element(value.type)) is not None:
            yield of_mlir(element)


def _element(type_: Attribute) -> Attribute | None:
    if isinstance(type_, PayloadType):
        return _element(type_.desc)
    if isinstance(type_, (TensorDescType, TileType)):
        return type_.data.element_type
    if isinstance(type_, (VectorType, MemRefType)):  # a memref may be one of vectors
        return _element(type_.element_type) or type_.element_type
    return None


def seen(compiled: CompiledKernel) -> set[tuple[type[Operation], DType | None]]:
    """Operations of all stages, each with its element types, or None if it has none."""
    return {(type(operation), element) for module in compiled.modules.values() for operation in module.walk()
            for element in (*elements_of(operation), None)}
