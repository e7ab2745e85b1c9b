"""Operations of MLIR's vector dialect that xDSL lacks or verifies otherwise, as texts have them.

No pass knows them: :mod:`xetile.text.canonicalize.vectors` rewrites them to operations on tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import ArrayAttr, IndexType, IntegerType, MemRefType, VectorType, i1
from xdsl.dialects.vector import CombiningKindAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsTerminator, Pure

from xegpu.ir.traits import ReadsMemory, WritesMemory
from xegpu.mlir.vector import VECTOR, IntegersAttr, integers, shape_of, shape_of_type, values_of
from xegpu.support.errors import Invalid
from xetile.dialect.contract import check_iterators
from xetile.dialect.permutation_map import Permutation, check_indices, permutation_of

IN_VIEW = "in_view"
"""Attribute of a transfer with a mask that promises to leave no view; its bounds are compared all the same."""


def _check_gather(operation: GatherOp | ScatterOp, value: SSAValue) -> None:
    """Verify base, offsets and mask of a gather or a scatter of ``value``."""
    memory, offsets = operation.base.type, operation.offsets.type
    assert isinstance(memory, MemRefType)
    check_indices(len(operation.indices), len(memory.get_shape()))
    shape = shape_of(value)
    element = value.type.element_type  # type: ignore[attr-defined]
    integer = isinstance(offsets, VectorType) and isinstance(offsets.element_type, (IndexType, IntegerType))
    if memory.element_type != element or not integer or shape_of_type(offsets) != shape \
            or operation.mask.type != VectorType(i1, shape):
        raise Invalid("XT2349", f"{memory}, offsets {offsets} and mask {operation.mask.type} of a {value.type}\n"
                      "offsets (integers or index) and mask have the shape of the vector, and it the elements of the "
                      "memory")


@irdl_op_definition
class GatherOp(IRDLOperation):
    """``vector.gather``: elements at offsets along the last dimension; masked-off ones are ``pass_thru``."""

    name = "vector.gather"
    base = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    offsets = operand_def(VECTOR)
    mask = operand_def(VECTOR)
    pass_thru = operand_def(VECTOR)
    result = result_def(VECTOR)
    traits = traits_def(ReadsMemory((0,)))

    def verify_(self) -> None:
        if self.pass_thru.type != self.result.type:
            raise Invalid("XT2349", f"it passes {self.pass_thru.type} through, and gives {self.result.type}\n"
                          "give both the same type")
        _check_gather(self, self.result)


@irdl_op_definition
class ScatterOp(IRDLOperation):
    """``vector.scatter``: elements of a vector to offsets along the last dimension."""

    name = "vector.scatter"
    base = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    offsets = operand_def(VECTOR)
    mask = operand_def(VECTOR)
    value = operand_def(VECTOR)
    traits = traits_def(WritesMemory(0))

    def verify_(self) -> None:
        _check_gather(self, self.value)


@irdl_op_definition
class PermuteOp(IRDLOperation):
    """``vector.transpose`` of any permutation."""

    name = "vector.transpose"
    source = operand_def(VECTOR)
    permutation = prop_def(IntegersAttr)
    result = result_def(VECTOR)
    traits = traits_def(Pure())

    def __init__(self, source: SSAValue, permutation: Sequence[int]) -> None:
        shape = shape_of(source)
        element: Attribute = source.type.element_type  # type: ignore[attr-defined]
        super().__init__(operands=[source], result_types=[VectorType(element, [shape[axis] for axis in permutation])],
                         properties={"permutation": integers(permutation)})

    def verify_(self) -> None:
        order, shape = values_of(self.permutation), shape_of(self.source)
        if sorted(order) != list(range(len(shape))) or self.result.type != VectorType(
                self.source.type.element_type, [shape[axis] for axis in order]):  # type: ignore[attr-defined]
            raise Invalid("XT3223", f"{list(order)} of {self.source.type} is no {self.result.type}\n"
                          "name each dimension once: the result's dimension i is dimension permutation[i]")


@irdl_op_definition
class OuterProductOp(IRDLOperation):
    """``vector.outerproduct``: products of all pairs of elements of two vectors, or a vector times a scalar."""

    name = "vector.outerproduct"
    lhs = operand_def(VECTOR)
    rhs = operand_def(AnyAttr())
    acc = opt_operand_def(VECTOR)
    kind = prop_def(CombiningKindAttr)
    result = result_def(VECTOR)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        shape = (*shape_of(self.lhs), *shape_of_type(self.rhs.type))
        if len(shape) != len(shape_of(self.result)) or shape != shape_of(self.result) or len(shape) > 2:
            raise Invalid("XT2350", f"the outer product of {self.lhs.type} and {self.rhs.type} is no "
                          f"{self.result.type}\nit has the elements of the first as rows, of the second as columns")


@irdl_op_definition
class StepOp(IRDLOperation):
    """``vector.step``: the numbers from 0 on."""

    name = "vector.step"
    result = result_def(VECTOR)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"

    def verify_(self) -> None:
        element = self.result.type.element_type  # type: ignore[attr-defined]
        if len(shape_of(self.result)) != 1 or not isinstance(element, IndexType):
            raise Invalid("XT2350", f"it gives no {self.result.type}\nwrite vector<16xindex>, and convert that")


def _check_elements(elements: Sequence[SSAValue], vector: SSAValue) -> None:
    """Check that there is a scalar for each element of a vector, of its type."""
    element = vector.type.element_type  # type: ignore[attr-defined]
    if len(elements) != prod(shape_of(vector)) or any(value.type != element for value in elements):
        raise Invalid("XT2350", f"{len(elements)} elements of {vector.type}\n"
                      "give a scalar for each element, of its type")


@irdl_op_definition
class FromElementsOp(IRDLOperation):
    """``vector.from_elements``: a vector of scalars."""

    name = "vector.from_elements"
    elements = var_operand_def()
    result = result_def(VECTOR)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        _check_elements(self.elements, self.result)


@irdl_op_definition
class ToElementsOp(IRDLOperation):
    """``vector.to_elements``: the scalars of a vector."""

    name = "vector.to_elements"
    source = operand_def(VECTOR)
    elements = var_result_def()
    traits = traits_def(Pure())

    def verify_(self) -> None:
        _check_elements(self.elements, self.source)


@irdl_op_definition
class GeneralContractOp(IRDLOperation):
    """``vector.contract`` of any number of batch, row, column and summed iterators."""

    name = "vector.contract"
    lhs = operand_def(VECTOR)
    rhs = operand_def(VECTOR)
    acc = operand_def(AnyAttr())
    indexing_maps = prop_def(ArrayAttr)
    iterator_types = prop_def(ArrayAttr)
    result = result_def(AnyAttr())
    traits = traits_def(Pure())

    @property
    def axes(self) -> list[Permutation]:
        """Iterators of the dimensions of lhs, rhs and result."""
        return [permutation_of(map_) for map_ in self.indexing_maps]

    def verify_(self) -> None:
        kinds = [kind.data for kind in self.iterator_types]
        check_iterators([self.lhs.type, self.rhs.type, self.result.type], self.axes, kinds)
        if self.acc.type != self.result.type:
            raise Invalid("XT2350", f"the accumulator is {self.acc.type}, and the result {self.result.type}\n"
                          "give both the same type")


@irdl_op_definition
class YieldOp(IRDLOperation):
    """``vector.yield``: what the body of a ``vector.mask`` gives."""

    name = "vector.yield"
    results_ = var_operand_def()
    assembly_format = "($results_^ `:` type($results_))? attr-dict"
    traits = traits_def(IsTerminator())
