"""Checks of a kernel against the limits of a target: element types, barriers, cache hints, shared local memory.

It changes nothing, and raises errors at the author's line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, MemRefType, ModuleOp, VectorType
from xdsl.ir import Attribute, Operation
from xdsl.utils.type import get_element_type_or_self

from xegpu.analysis import barriers, slm
from xegpu.analysis.webs import view_webs
from xegpu.dialect import inline
from xegpu.dialect.hints import HintedOp, words
from xegpu.ir.create import INDEX
from xegpu.ir.dtypes import DType
from xegpu.ir.traversal import of_kind, operations
from xegpu.support.errors import TargetError, located
from xegpu.support.location import author_location
from xegpu.target.cache_policy import Pair
from xegpu.target.targets import TARGETS, Target


@dataclass(frozen=True)
class CheckTarget:
    """Pass ``check-target``.

    Attributes:
        target: what the kernel is checked against.
    """

    target: Target

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module itself.

        Raises:
            TargetError: the target lacks something that the kernel uses, or computes an index in fewer bits.
            ShapeError: a descriptor is carried between arrays of other shapes in shared local memory.
        """
        for function in module.body.block.ops:
            assert isinstance(function, func.FuncOp)
            check_element_types(function, self.target)
            barriers.check_target(function, self.target)
            check_cache_hints(function, self.target)
            for operation in operations(function):
                if type(operation) is inline.InlineOp:
                    inline.check_target(operation, self.target)
                if type(operation) is arith.ConstantOp:
                    check_index(operation)
            if slm.allocations(function):
                slm.check_bytes(function, self.target)
                slm.check_webs(function, view_webs(function))
        return module


def check_index(constant: arith.ConstantOp) -> None:
    """Raise if a constant of type ``index`` is no integer of the 32 bits in which devices compute indices.

    Raises:
        TargetError: at the author's line of the operation that uses the constant.
    """
    value = constant.value
    if get_element_type_or_self(constant.result.type) != INDEX:
        return
    numbers = value.get_values() if isinstance(value, DenseIntOrFPElementsAttr) else [value.value.data]  # type: ignore
    for number in numbers:
        if not -(1 << 31) <= number < 1 << 31:
            user = next((use.operation for use in constant.result.uses), constant)
            raise located(TargetError(
                "XT4115", f"the index {number} does not fit in 32 bits, in which devices compute indices",
                "keep indices and sizes below 2147483648; larger numbers are values of i64"), user)


def check_element_types(function: func.FuncOp, target: Target) -> None:
    """Raise where a kernel first uses an element type that ``target`` lacks.

    Raises:
        TargetError: it does; the error points at the author's line.
    """
    lacks = {dtype.mlir: dtype for dtype in target.unsupported_types}
    if not lacks:
        return
    found = [(operation, lacks[type_]) for operation in operations(function) for type_ in _element_types(operation)
             if type_ in lacks]
    if found:  # sizes of arrays are read at the head of a kernel, which is no line of the author's
        operation, dtype = next((x for x in found if author_location(x[0])), found[0])
        raise located(_error(dtype, target), operation)


def _element_types(operation: Operation) -> Iterator[Attribute]:
    for value in (*operation.operands, *operation.results):
        type_ = value.type
        yield type_.element_type if isinstance(type_, (MemRefType, VectorType)) else type_


def _error(dtype: DType, target: Target) -> TargetError:
    others = ", ".join(name for name, other in TARGETS.items() if dtype not in other.unsupported_types)
    return TargetError("XT4105", f"{target.name} does not calculate in {dtype}",
                       f"use f32, or one of the targets that do: {others}")


# Checks cache hints against a target: it takes few combinations of L1 and L3.


def check_cache_hints(function: func.FuncOp, target: Target) -> None:
    """Raise unless a target's messages take the cache hints of a kernel's operations.

    Raises:
        TargetError: there is no such combination; the message lists the nearest.
    """
    for operation in of_kind(function, HintedOp):
        if target.caches is not None:
            policies = words(operation)
            l1, l3 = policies.get("l1_hint"), policies.get("l3_hint")
            if target.caches.code(operation.MESSAGE, l1, l3) is None:
                near = target.caches.nearest(operation.MESSAGE, l1, l3)
                raise TargetError("XT4106",
                                  f"{target.name} has no {operation.MESSAGE} with L1 {l1 or 'left open'} and L3 "
                                  f"{l3 or 'left open'}", f"use {' or '.join(map(_policy_pair, near))}",
                                  author_location(operation))


def _policy_pair(pair: Pair) -> str:
    return f"l1={pair[0]}, l3={pair[1]}"
