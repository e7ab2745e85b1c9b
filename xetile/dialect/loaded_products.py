"""A product that reads its operands from memory by itself (it goes beyond XeTile.md)."""

from __future__ import annotations

from xdsl.dialects.builtin import VectorType
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, operand_def, result_def

from xegpu.ir.op_definition import operation_definition
from xegpu.support.errors import Invalid
from xetile.dialect.elements import verify_product_types
from xetile.dialect.ops import TILE, VECTOR, flat_shape, shape_of, text, tile_of


@operation_definition
class LoadMmaOp(IRDLOperation):
    """``acc + load(a) @ load(b)``: what a processor wants that multiplies numbers in memory by vectors.

    Products with what lies outside an array add nothing, whatever stands on the other side of them.
    """

    name = "xetile.load_mma"
    a = operand_def(TILE)
    b = operand_def(TILE)
    acc = operand_def(VECTOR)
    result = result_def(VECTOR)
    assembly_format = "$a `,` $b `,` $acc attr-dict `:` type($a) `,` type($b) `,` type($acc) `->` type($result)"

    def __init__(self, a: SSAValue, b: SSAValue, acc: SSAValue) -> None:
        super().__init__(operands=[a, b, acc], result_types=[acc.type])

    def verify_(self) -> None:
        a, b = tile_of(self.a), tile_of(self.b)
        if self.acc.type != self.result.type:
            raise Invalid("XT2116", f"the accumulator is {self.acc.type}, the result {self.result.type}\n"
                          "a product has the type of what it is added to: make both the same")
        if a.shape[1] != b.shape[0]:
            raise Invalid("XT1250", f"A is {text(a.shape)} and B is {text(b.shape)}: A has {a.shape[1]} columns and B "
                          f"{b.shape[0]} rows\nthe tile of B must be {a.shape[1]}x{b.shape[1]}, or that of A "
                          f"{a.shape[0]}x{b.shape[0]}")
        shape = (a.shape[0], b.shape[1])
        if flat_shape(shape_of(self.result)) != shape:
            raise Invalid("XT1253", f"A {text(a.shape)} times B {text(b.shape)} is not {text(shape_of(self.result))}\n"
                          f"the accumulator must be {text(shape)}")
        verify_product_types(VectorType(a.element_type, a.shape), VectorType(b.element_type, b.shape), self.result.type)
