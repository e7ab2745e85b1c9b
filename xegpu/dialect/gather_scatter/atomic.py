"""Atomic read-modify-write of scattered elements, and its kinds."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import i1
from xdsl.ir import Data, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from xegpu.dialect.block_io import DESC, desc_of
from xegpu.dialect.gather_scatter.descriptor import check_vector, lanes_shape, scatter_of, values_shape
from xegpu.ir.dtypes import DType
from xegpu.ir.op_definition import operation_definition
from xegpu.ir.record import Record
from xegpu.ir.traits import InfersResultType, ReadsMemory, WritesMemory
from xegpu.mlir.atomic_kind import KINDS, UPDATED, fault
from xegpu.mlir.vector import VECTOR
from xegpu.support.errors import Invalid, misread


@irdl_attr_definition
class AtomicKindAttr(Data[str]):
    """Atomic read-modify-write kind, one of ``arith.AtomicRMWKind``: ``<addf>``."""

    name = "xegpu.atomic_kind"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            kind = parser.parse_identifier()
        if kind not in KINDS:
            misread(parser, "XT3301", f"{kind} is not a kind of atomic update\nuse one of {', '.join(KINDS)}")
        return kind

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data)


def check_kind(kind: str, dtype: DType) -> None:
    """Verify that an element type has an atomic kind."""
    code, message, hint = fault(kind, dtype)
    if code:
        raise Invalid(code, f"{message}\n{hint}")


@operation_definition
class AtomicRMWOp(IRDLOperation):
    """Atomic read-modify-write of each element; the results are the old values, 0 where masked off.

    Updates of one address are serialized in any order, with relaxed memory order and device scope.
    """

    name = "xegpu.atomic_rmw"
    RECORD: ClassVar[Record] = UPDATED
    kind = prop_def(AtomicKindAttr)
    value = operand_def(VECTOR)
    desc = operand_def(DESC)
    mask = operand_def(VECTOR)
    result = result_def(VECTOR)
    traits = traits_def(ReadsMemory((1,)), WritesMemory(1), InfersResultType(lambda op, operands: operands[0].type))
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = ("$kind $value `,` $desc `,` $mask attr-dict `:` type($value) `,` type($desc) `,` type($mask) "
                       "`->` type($result)")

    def __init__(self, kind: str, value: SSAValue, desc: SSAValue, mask: SSAValue) -> None:
        super().__init__(operands=[value, desc, mask], result_types=[value.type],
                         properties={"kind": AtomicKindAttr(kind)})

    def verify_(self) -> None:
        desc = desc_of(self.desc)
        if scatter_of(desc).chunk_size > 1:
            raise Invalid("XT3311", "atomic updates take one element a lane\nuse chunk_size = 1")
        check_kind(self.kind.data, desc.dtype)
        check_vector("value", self.value, values_shape(desc), desc.element_type)
        check_vector("mask", self.mask, lanes_shape(desc), i1)
        check_vector("result", self.result, values_shape(desc), desc.element_type)
