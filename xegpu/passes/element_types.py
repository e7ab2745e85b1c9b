"""Refuses element types that a target has no arithmetic for."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import Attribute, Operation

from xegpu.control_flow import placed
from xegpu.dialect.attributes import SourceLocation
from xegpu.dtypes import DType
from xegpu.errors import TargetError
from xegpu.targets import TARGETS, Target


def check_element_types(function: func.FuncOp, target: Target) -> None:
    """Raise where a kernel first uses an element type that ``target`` lacks.

    Raises:
        TargetError: it does; the error points at the author's line.
    """
    lacks = {dtype.mlir: dtype for dtype in target.lacks}
    if not lacks:
        return
    found = [(operation, lacks[type_]) for operation in function.walk() for type_ in _element_types(operation)
             if type_ in lacks]
    if found:  # sizes of arrays are read at the head of a kernel, which is no line of the author's
        operation, dtype = next((x for x in found if isinstance(x[0].location, SourceLocation)), found[0])
        raise placed(_error(dtype, target), operation)


def _element_types(operation: Operation) -> Iterator[Attribute]:
    for value in (*operation.operands, *operation.results):
        type_ = value.type
        yield type_.element_type if isinstance(type_, (MemRefType, VectorType)) else type_


def _error(dtype: DType, target: Target) -> TargetError:
    others = ", ".join(name for name, other in TARGETS.items() if dtype not in other.lacks)
    return TargetError("XT4105", f"{target.name} does not calculate in {dtype}",
                       f"use f32, or one of the targets that do: {others}")
