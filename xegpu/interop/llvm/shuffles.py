"""Operations of MLIR's vector dialect in LLVM's kernels that xDSL lacks: masks, interleaving."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IndexType, VectorType
from xdsl.ir import Operation
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    base,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure

from xegpu.interop.llvm.types import shape_of
from xegpu.ir.assembly_format import Integers
from xegpu.ir.op_definition import operation_definition
from xegpu.mlir.vector import IntegersAttr, values_of
from xegpu.support.errors import Invalid

VECTOR = base(VectorType)


@operation_definition
class ConstantMaskOp(IRDLOperation):
    """Mask of the first elements along each dimension: ``vector.constant_mask [4, 8] : vector<8x16xi1>``."""

    name = "vector.constant_mask"
    mask_dim_sizes = prop_def(IntegersAttr)
    result = result_def(VECTOR)
    traits = traits_def(Pure())

    custom_directives = (Integers,)
    assembly_format = "custom<Integers>($mask_dim_sizes) attr-dict `:` type($result)"

    def verify_(self) -> None:
        sizes, shape = values_of(self.mask_dim_sizes), shape_of(self.result)
        if len(sizes) != len(shape) or any(not 0 <= size <= bound for size, bound in zip(sizes, shape, strict=True)):
            raise Invalid("XT3228", f"{list(sizes)} of {self.result.type}\n"
                          "give a number a dimension, at most its size")


@operation_definition
class CreateMaskOp(IRDLOperation):
    """Mask of the first elements along each dimension: ``vector.create_mask %m, %n : vector<8x16xi1>``."""

    name = "vector.create_mask"
    sizes = var_operand_def(IndexType)
    result = result_def(VECTOR)
    traits = traits_def(Pure())
    assembly_format = "$sizes attr-dict `:` type($result)"

    def verify_(self) -> None:
        if len(self.sizes) != len(shape_of(self.result)):
            raise Invalid("XT3228", f"{len(self.sizes)} numbers of {self.result.type}\ngive one a dimension")


@operation_definition
class InterleaveOp(IRDLOperation):
    """Elements of two vectors in turn, along the last dimension."""

    name = "vector.interleave"
    PART: ClassVar = VarConstraint("PART", VECTOR)
    lhs = operand_def(PART)
    rhs = operand_def(PART)
    result = result_def(VECTOR)
    traits = traits_def(Pure())

    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)"

    def verify_(self) -> None:
        *lead, last = shape_of(self.lhs)
        if shape_of(self.result) != (*lead, 2 * last) or \
                self.lhs.type.element_type != self.result.type.element_type:  # type: ignore[attr-defined]
            raise Invalid("XT3229", f"two {self.lhs.type} in turn are no {self.result.type}\n"
                          "double the last dimension")


@operation_definition
class DeinterleaveOp(IRDLOperation):
    """Even and odd elements of a vector, along the last dimension."""

    name = "vector.deinterleave"
    PART: ClassVar = VarConstraint("PART", VECTOR)
    source = operand_def(VECTOR)
    res1 = result_def(PART)
    res2 = result_def(PART)
    traits = traits_def(Pure())

    assembly_format = "$source attr-dict `:` type($source) `->` type($res1)"

    def verify_(self) -> None:
        *lead, last = shape_of(self.source)
        if last % 2 or shape_of(self.res1) != (*lead, last // 2) or \
                self.source.type.element_type != self.res1.type.element_type:  # type: ignore[attr-defined]
            raise Invalid("XT3229", f"every other element of {self.source.type} is no {self.res1.type}\n"
                          "halve the last dimension")


OPERATIONS: list[type[Operation]] = [ConstantMaskOp, CreateMaskOp, InterleaveOp, DeinterleaveOp]
