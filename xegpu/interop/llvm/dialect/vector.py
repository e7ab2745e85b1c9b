"""Operations in LLVM's kernels beside XeGPU: reductions, slices and fences in their form, masks, interleaving."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IndexType, VectorType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.type import get_element_type_or_self

from xegpu.interop.llvm.dialect.types import shape_of
from xegpu.ir.assembly_format import Integers, Keyword, WordAttr
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.op_definition import operation_definition
from xegpu.mlir.combining_kind import check_kind, kind_of
from xegpu.mlir.vector import VECTOR, IntegersAttr, check_slice, integers, values_of
from xegpu.support.errors import ElementTypeError, Invalid

_SCOPES = {"memory_kind": ("global", "slm"), "fence_scope": ("workgroup", "gpu")}


@operation_definition
class MultiReductionOp(IRDLOperation):
    """Reduction that drops dimensions: ``vector.multi_reduction <add>, %v, %acc [1] : vector<8x16xf32> to ...``."""

    name = "vector.multi_reduction"
    LEFT: ClassVar = VarConstraint("LEFT", AnyAttr())
    source = operand_def(VECTOR)
    acc = operand_def(LEFT)
    kind = prop_def(WordAttr)
    reduction_dims = prop_def(IntegersAttr)
    result = result_def(LEFT)
    traits = traits_def(Pure())
    custom_directives = (Keyword, Integers)
    assembly_format = ("`<` custom<Keyword>($kind) `>` `,` $source `,` $acc attr-dict "
                       "custom<Integers>($reduction_dims) `:` type($source) `to` type($result)")

    def __init__(self, kind: str, source: SSAValue, acc: SSAValue, axes: Sequence[int]) -> None:
        super().__init__(operands=[source, acc], result_types=[acc.type],
                         properties={"kind": WordAttr(kind), "reduction_dims": integers(axes)})

    @property
    def axes(self) -> tuple[int, ...]:
        """Reduced dimensions."""
        return values_of(self.reduction_dims)

    def verify_(self) -> None:
        shape: tuple[int, ...] = self.source.type.get_shape()  # type: ignore[attr-defined]
        left = tuple(size for axis, size in enumerate(shape) if axis not in self.axes)
        result = self.result.type.get_shape() if isinstance(self.result.type, VectorType) else ()
        check_kind(self.kind.data)
        element = self.source.type.element_type  # type: ignore[attr-defined]
        try:
            kind_of(self.kind.data, of_mlir(element))
        except ElementTypeError as error:
            raise Invalid.of(error) from None
        if left != result or self.acc.type != self.result.type or get_element_type_or_self(self.result.type) != element:
            raise Invalid("XT3641",
                          f"reducing {self.source.type} along {list(self.axes)} leaves {list(left)} of {element}, "
                          f"not {self.result.type}\nchange the type of the result and of the accumulator")


@operation_definition
class InsertStridedSliceOp(IRDLOperation):
    """``vector.insert_strided_slice`` in MLIR's syntax, which has the result type only once."""

    name = "vector.insert_strided_slice"
    WHOLE: ClassVar = VarConstraint("WHOLE", VECTOR)
    source = operand_def(VECTOR)
    dest = operand_def(WHOLE)
    offsets = prop_def(IntegersAttr)
    strides = prop_def(IntegersAttr)
    result = result_def(WHOLE)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$source `,` $dest attr-dict `:` type($source) `into` type($dest)"

    def __init__(self, source: SSAValue, dest: SSAValue, offsets: Sequence[int]) -> None:
        super().__init__(operands=[source, dest], result_types=[dest.type],
                         properties={"offsets": integers(offsets), "strides": integers([1] * len(offsets))})

    def verify_(self) -> None:
        source, dest = self.source.type.get_shape(), self.dest.type.get_shape()  # type: ignore[attr-defined]
        offsets = values_of(self.offsets)
        if not len(offsets) == len(dest) >= len(source):
            raise Invalid("XT3225", f"{self.source.type} at offsets {list(offsets)} of {self.dest.type}\n"
                          f"give {len(dest)} offsets, and a part of at most as many dimensions")
        part = (1,) * (len(dest) - len(source)) + source
        check_slice(part, offsets, dest)


@operation_definition
class FenceOp(IRDLOperation):
    """Memory fence: ``xegpu.fence memory_kind = global, fence_scope = workgroup``."""

    name = "xegpu.fence"
    memory_kind = prop_def(WordAttr)
    fence_scope = prop_def(WordAttr)
    custom_directives = (Keyword,)
    assembly_format = ("`memory_kind` `=` custom<Keyword>($memory_kind) `,` "
                       "`fence_scope` `=` custom<Keyword>($fence_scope) attr-dict")

    def __init__(self, memory_kind: str, fence_scope: str) -> None:
        super().__init__(properties={"memory_kind": WordAttr(memory_kind), "fence_scope": WordAttr(fence_scope)})

    def verify_(self) -> None:
        for name, words in _SCOPES.items():
            word = self.properties[name].data  # type: ignore[attr-defined]
            if word not in words:
                raise Invalid("XT3642", f"a fence has no {name} {word}\nuse {' or '.join(words)}")


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


WHOLE_VECTORS: list[type[Operation]] = [ConstantMaskOp, CreateMaskOp, InterleaveOp, DeinterleaveOp]
"""Operations of MLIR's vector dialect that xDSL lacks: masks, interleaving."""
