"""Products of 8-bit floats with a scale for each 32 elements, on tiles: what Microscaling Formats need."""

from __future__ import annotations

from xdsl.dialects.builtin import VectorType
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    operand_def,
    opt_prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from xegpu.dialect.dpas import DEPTH, check_scaled_types
from xegpu.ir.op_definition import operation_definition
from xegpu.ir.traits import ReadsMemory
from xegpu.support.errors import Invalid
from xetile.dialect.tile_ops import TILE, VECTOR, flat_shape, shape_of, text, tile_of
from xetile.dialect.types import WgMapAttr, verify_product_types
from xetile.dialect.wg_map import WgMap


@operation_definition
class TileMmaScaledOp(IRDLOperation):
    """``acc + (a x scale_a) @ (b x scale_b)``: a scale for each 32 columns of A's rows, and 32 rows of B's columns."""

    name = "xetile.tile_mma_scaled"
    a = operand_def(VECTOR)
    b = operand_def(VECTOR)
    acc = operand_def(VECTOR)
    scale_a = operand_def(VECTOR)
    scale_b = operand_def(VECTOR)
    wg_map = opt_prop_def(WgMapAttr)
    result = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = ("$a `,` $b `,` $acc `,` $scale_a `,` $scale_b attr-dict `:` type($a) `,` type($b) `,` "
                       "type($acc) `,` type($scale_a) `,` type($scale_b) `->` type($result)")

    def __init__(self, a: SSAValue, b: SSAValue, acc: SSAValue, scale_a: SSAValue, scale_b: SSAValue,
                 wg_map: WgMap | None = None) -> None:
        super().__init__(operands=[a, b, acc, scale_a, scale_b], result_types=[acc.type],
                         properties={"wg_map": WgMapAttr(wg_map) if wg_map else None})

    def verify_(self) -> None:
        if self.acc.type != self.result.type:
            raise Invalid("XT2116", f"the accumulator is {self.acc.type}, the result {self.result.type}\n"
                          "a product has the type of what it is added to: make both the same")
        check_scaled_types(self.a.type, self.b.type, self.result.type, self.scale_a.type, self.scale_b.type)
        (m, k), (rows, n) = flat_shape(shape_of(self.a)), flat_shape(shape_of(self.b))
        if k != rows or k % DEPTH or flat_shape(shape_of(self.acc)) != (m, n):
            raise Invalid("XT1261", f"A {text((m, k))} by B {text((rows, n))} is no scaled product into "
                          f"{text(flat_shape(shape_of(self.acc)))}\nA is MxK, B KxN, K a multiple of {DEPTH}")
        wanted = (m, k // DEPTH), (k // DEPTH, n)
        given = flat_shape(shape_of(self.scale_a)), flat_shape(shape_of(self.scale_b))
        if given != wanted:
            raise Invalid("XT1261", f"scales are {text(given[0])} and {text(given[1])}\n"
                          f"give one for each {DEPTH} elements: {text(wanted[0])} and {text(wanted[1])}")


# A product that reads its operands from memory by itself (it goes beyond XeTile.md).


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
    traits = traits_def(ReadsMemory((0, 1)))
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
