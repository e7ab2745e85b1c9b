"""Matrices in shared local memory of LLVM 23's XeGPU: ``mem_desc``, ``load_matrix``, ``store_matrix``.

    %d = xegpu.create_mem_desc %s : memref<2048xi8, 3> -> !xegpu.mem_desc<16x32xf32>
    xegpu.store_matrix %v, %d[%i, 16] : vector<8x16xf32>, !xegpu.mem_desc<16x32xf32>
    %w = xegpu.load_matrix %d[%i, 0] <{layout = ...}> : !xegpu.mem_desc<16x32xf32> -> vector<8x16xf32>
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import DenseArrayBase, IndexType, MemRefType, UnitAttr, VectorType
from xdsl.ir import Attribute, Data, Operation, SSAValue, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    base,
    irdl_attr_definition,
    operand_def,
    opt_prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.type import get_element_type_or_self

from xegpu.dialect.types import parse_fields, print_fields
from xegpu.interop.llvm.dialect.ops import BLOCK
from xegpu.interop.llvm.dialect.types import LAYOUT, LayoutAttr, Mixed, Sizes, check_offsets, joined, split
from xegpu.ir.assembly_format import OptionalDynamicIndexList
from xegpu.ir.dtypes import DType, of_mlir
from xegpu.ir.memref import is_shared
from xegpu.ir.op_definition import operation_definition
from xegpu.support.errors import Invalid, misread


@dataclass(frozen=True)
class MemLayout:
    """Storage order of a matrix.

    Attributes:
        stride: elements between neighbours along each dimension, of the unblocked matrix; None if row-major.
        block: sizes of the blocks that lie contiguously, None if there are none.
    """

    stride: Sizes | None = None
    block: Sizes | None = None


@irdl_attr_definition
class MemLayoutAttr(Data[MemLayout]):
    """Storage order attribute: ``#xegpu.mem_layout<stride = [1, 16], block = [8, 16]>``."""

    name = "xegpu.mem_layout"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> MemLayout:
        specified = parse_fields(parser, ("stride", "block"), "a mem_layout")
        for name, value in specified.items():
            if not isinstance(value, tuple) or min(value, default=0) < 1:
                misread(parser, "XT3621", f"{name} of a mem_layout is a list of positive numbers\n"
                        f"write {name} = [8, 16]")
        return MemLayout(**specified)  # type: ignore[arg-type]

    def print_parameter(self, printer: Printer) -> None:
        print_fields(printer, {name: value for name, value in vars(self.data).items() if value is not None})


@dataclass(frozen=True)
class MemDesc:
    """Parameters of a :class:`MemDescType`: shape, element type, storage order."""

    shape: Sizes
    element_type: Attribute
    layout: MemLayoutAttr | None = None

    @property
    def dtype(self) -> DType:
        """Element type."""
        return of_mlir(self.element_type)

    @property
    def bits(self) -> int:
        """Size in bits."""
        return prod(self.shape) * self.dtype.bits


@irdl_attr_definition
class MemDescType(Data[MemDesc], TypeAttribute):
    """Type of a matrix in shared local memory: ``!xegpu.mem_desc<16x32xf32, #xegpu.mem_layout<stride = [1, 16]>>``."""

    name = "xegpu.mem_desc"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> MemDesc:
        layout = None
        with parser.in_angle_brackets():
            shape, element_type = parser.parse_shape()
            if parser.parse_optional_punctuation(","):
                attribute = parser.parse_attribute()
                if not isinstance(attribute, MemLayoutAttr):
                    misread(parser, "XT3621", f"{attribute} is not an attribute of a mem_desc\n"
                            "write #xegpu.mem_layout<stride = [1, 16]>")
                layout = attribute
        if not shape or min(shape) <= 0:
            misread(parser, "XT3621", "a mem_desc has static dimensions\nwrite !xegpu.mem_desc<16x32xf32>")
        if any(len(sizes) != len(shape) for sizes in vars(layout.data).values() if sizes) if layout else False:
            misread(parser, "XT3621", f"{layout} has not one number a dimension of {len(shape)}\n"
                    "give stride and block a number for each")
        return MemDesc(tuple(shape), element_type, layout)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string("".join(f"{size}x" for size in self.data.shape))
            printer.print_attribute(self.data.element_type)
            if self.data.layout is not None:
                printer.print_string(", ")
                printer.print_attribute(self.data.layout)


DESC = base(MemDescType)


def flat_shape(shape: Sequence[int]) -> tuple[int, int]:
    """Rows and columns of a vector or matrix of any rank: all dimensions but the last are rows."""
    return (prod(shape[:-1]), shape[-1]) if shape else (1, 1)



def matrix_of(value: SSAValue) -> MemDesc:
    """Type parameters of a matrix value."""
    assert isinstance(value.type, MemDescType)
    return value.type.data


@operation_definition
class CreateMemDescOp(IRDLOperation):
    """Matrix view of an array in shared local memory."""

    name = "xegpu.create_mem_desc"
    source = operand_def(MemRefType)
    result = result_def(DESC)
    traits = traits_def(Pure())

    def __init__(self, source: SSAValue, result: MemDescType) -> None:
        super().__init__(operands=[source], result_types=[result])
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

    def verify_(self) -> None:
        source, matrix = self.source.type, matrix_of(self.result)
        assert isinstance(source, MemRefType)
        if not is_shared(source):
            raise Invalid("XT3622", f"{source} is not in shared local memory\n"
                          "write memref.alloca() : memref<2048xi8, 3>")
        if prod(source.get_shape()) * of_mlir(source.element_type).bits != matrix.bits:
            raise Invalid("XT3622", f"{source} and {self.result.type} have different sizes\ngive both as many bits")


class MatrixOp(IRDLOperation):
    """Base of ``load_matrix`` and ``store_matrix``: a matrix, offsets, a layout."""

    desc = operand_def(DESC)
    offsets = var_operand_def(IndexType)
    const_offsets = opt_prop_def(DenseArrayBase)
    layout = opt_prop_def(LAYOUT)
    subgroup_block_io = opt_prop_def(UnitAttr)
    irdl_options = (ParsePropInAttrDict(),)
    custom_directives = (OptionalDynamicIndexList,)

    @property
    def starts(self) -> list[SSAValue | int]:
        """Offsets of the block."""
        return joined(self.offsets, self.const_offsets)

    def _check(self, moved: Attribute) -> None:
        matrix = matrix_of(self.desc)
        shape = moved.get_shape() if isinstance(moved, VectorType) else ()
        check_offsets(self.starts, self.desc, matrix.shape)
        if get_element_type_or_self(moved) != matrix.element_type:
            raise Invalid("XT3623", f"{moved} is not a part of {self.desc.type}\ngive both the same elements")
        if len(shape) > 1 and (len(shape) != len(matrix.shape) or
                               any(part > size for part, size in zip(shape, matrix.shape, strict=True))):
            raise Invalid("XT3623", f"{moved} is not a part of {self.desc.type}\ntake a part of at most its sizes")
        if isinstance(self.layout, LayoutAttr) and len(shape) > 1:
            self.layout.data.check(shape)


@operation_definition
class LoadMatrixOp(MatrixOp):
    """Block load from a matrix: ``load_matrix %d[%i, 0] : !xegpu.mem_desc<16x32xf32> -> vector<8x16xf32>``."""

    name = "xegpu.load_matrix"
    result = result_def(Attribute)

    assembly_format = f"{BLOCK} prop-dict attr-dict `:` type($desc) (`,` type($offsets)^)? `->` type($result)"

    def __init__(self, desc: SSAValue, offsets: Mixed, result: Attribute, layout: Attribute | None = None) -> None:
        values, literals = split(offsets)
        super().__init__(operands=[desc, values], result_types=[result],
                         properties={"const_offsets": literals, "layout": layout})

    def verify_(self) -> None:
        self._check(self.result.type)


@operation_definition
class StoreMatrixOp(MatrixOp):
    """Block store to a matrix: ``store_matrix %v, %d[%i, 0] : vector<8x16xf32>, !xegpu.mem_desc<16x32xf32>``."""

    name = "xegpu.store_matrix"
    value = operand_def(Attribute)
    assembly_format = f"$value `,` {BLOCK} prop-dict attr-dict `:` type($value) `,` type($desc) (`,` type($offsets)^)?"

    def __init__(self, value: SSAValue, desc: SSAValue, offsets: Mixed, layout: Attribute | None = None) -> None:
        values, literals = split(offsets)
        super().__init__(operands=[value, desc, values], properties={"const_offsets": literals, "layout": layout})

    def verify_(self) -> None:
        self._check(self.value.type)


OPERATIONS: list[type[Operation]] = [CreateMemDescOp, LoadMatrixOp, StoreMatrixOp]
