"""A product that reads its operands from memory by itself (it goes beyond XeGPU.md)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    operand_def,
    opt_prop_def,
    var_operand_def,
    var_result_def,
)

from xegpu.declaring import operation_definition
from xegpu.dialect.attributes import SgMapAttr
from xegpu.dialect.descriptors import DESC, check_block, desc_of
from xegpu.dialect.vectors import VECTOR, shape_of
from xegpu.errors import Invalid
from xegpu.layouts import LaneMap


@operation_definition
class LoadMadOp(IRDLOperation):
    """``acc + load(a) @ load(b)`` in plain multiply-adds, the accumulators in blocks, row-major.

    Products with what lies outside an array add nothing, whatever stands on the other side of them.
    """

    name = "xegpu.load_mad"
    a = operand_def(DESC)
    b = operand_def(DESC)
    acc = var_operand_def(VECTOR)
    sg_map = opt_prop_def(SgMapAttr)
    results_ = var_result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$a `,` $b `,` $acc attr-dict `:` type($a) `,` type($b) `,` type($acc) `->` type($results_)"

    def __init__(self, a: SSAValue, b: SSAValue, acc: Sequence[SSAValue], lanes: LaneMap | None = None) -> None:
        super().__init__(operands=[a, b, acc], result_types=[[value.type for value in acc]],
                         properties={"sg_map": None if lanes is None else SgMapAttr(lanes)})

    @property
    def sizes(self) -> tuple[int, int, int]:
        """M, N and K of the product."""
        (m, k), n = desc_of(self.a).shape, desc_of(self.b).shape[1]
        return m, n, k

    @property
    def block(self) -> tuple[int, int]:
        """Rows and columns of an accumulator's block."""
        rows, columns = shape_of(self.acc[0])
        lanes = None if self.sg_map is None else self.sg_map.data
        return (rows, columns) if lanes is None else lanes.block((rows, columns), lanes.unit[1])

    def verify_(self) -> None:
        check_block(desc_of(self.a))
        check_block(desc_of(self.b))
        for name, desc in (("A", desc_of(self.a)), ("B", desc_of(self.b))):
            if len(desc.shape) != 2:
                raise Invalid("XT3203", f"{name} is a line of {desc.shape[0]} elements\nwrite two dimensions")
        if [value.type for value in self.acc] != [value.type for value in self.results_]:
            raise Invalid("XT3208", "results of other types than the accumulators\n"
                          "name the accumulators' types again, in their order, behind the arrow")
        if not self.acc or any(value.type != self.acc[0].type or len(shape_of(value)) != 2 for value in self.acc):
            raise Invalid("XT3209", "the accumulators are not blocks of one shape and element type: "
                          f"{', '.join(str(value.type) for value in self.acc) or 'there are none'}\n"
                          "cut C into equal blocks of two dimensions, and give all of them")
        (m, n, k), (rows, columns) = self.sizes, self.block
        if desc_of(self.b).shape[0] != k:
            raise Invalid("XT3202", f"A has {k} columns and B {desc_of(self.b).shape[0]} rows\n"
                          f"make B's descriptor one of {k}x{n}, or A's one of {m}x{desc_of(self.b).shape[0]}")
        if m % rows or n % columns or m * n != rows * columns * len(self.acc):
            raise Invalid("XT3210", f"{len(self.acc)} blocks of {rows}x{columns} are not a product of {m}x{n}\n"
                          "give the accumulators row by row, so that together they are as large as the product")
