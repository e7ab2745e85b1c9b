"""Matrix products of XeTile: ``tile_mma``, block-scaled (Microscaling Formats), and fused load+mma for CPUs."""

from __future__ import annotations

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    operand_def,
    opt_operand_def,
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
from xetile.dialect.types import WgMapAttr, verify_product_maps, verify_product_types
from xetile.dialect.wg_map import WgMap
from xetile.dialect.wg_map_inference import map_of


@operation_definition
class TileMmaOp(IRDLOperation):
    """Matrix product ``a @ b``, plus ``acc`` if there is one, of 2D or blocked 4D vectors."""

    name = "xetile.tile_mma"
    a = operand_def(VECTOR)
    b = operand_def(VECTOR)
    acc = opt_operand_def(VECTOR)
    wg_map = opt_prop_def(WgMapAttr)
    result = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = (
        "$a `,` $b (`,` $acc^)? attr-dict `:` type($a) `,` type($b) (`,` type($acc)^)? `->` type($result)"
    )

    def __init__(self, a: SSAValue, b: SSAValue, acc: SSAValue | None, result: Attribute,
                 wg_map: WgMap | None = None) -> None:
        super().__init__(operands=[a, b, [acc] if acc is not None else []], result_types=[result],
                         properties={"wg_map": WgMapAttr(wg_map) if wg_map else None})

    def verify_(self) -> None:
        a, b, c = shape_of(self.a), shape_of(self.b), shape_of(self.result)
        if self.acc is not None and self.acc.type != self.result.type:
            raise Invalid("XT2116", f"the accumulator is {self.acc.type}, the result {self.result.type}\n"
                          "a product has the type of what it is added to: make both the same")
        if len({len(a), len(b), len(c)}) != 1 or len(a) not in (2, 4):
            raise Invalid("XT1254",
                          f"A is {text(a)}, B {text(b)} and C {text(c)}: they must all have two dimensions, or "
                          "all four\nuse tile_pack or tile_unpack where one of them is in blocks")
        pairs = list(zip(a, b, c, strict=True))
        for start, of_inner, of_result in ((0, "XT1250", "XT1253"), (2, "XT1255", "XT1256"))[:len(a) // 2]:
            (rows, inner), (depth, columns), (m, n) = zip(*pairs[start:start + 2], strict=True)
            if inner != depth:
                raise Invalid(of_inner, f"A is {text(a)} and B is {text(b)}: A has {inner} columns and B {depth} rows\n"
                              f"the tile of B must be {inner}x{columns}, or that of A {rows}x{depth}")
            if (rows, columns) != (m, n):
                raise Invalid(of_result, f"A {text(a)} times B {text(b)} is not {text(c)}\n"
                              f"the accumulator must be {rows}x{columns}")
        verify_product_types(self.a.type, self.b.type, self.result.type)
        acc = None if self.acc is None else map_of(self.acc)
        result = None if self.wg_map is None else self.wg_map.data
        verify_product_maps(map_of(self.a), map_of(self.b), acc, result, flat_shape(a)[1])


@operation_definition
class TileMmaScaledOp(IRDLOperation):
    """Block-scaled product ``acc + (a x scale_a) @ (b x scale_b)``: a scale for each 32 elements along K."""

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


@operation_definition
class LoadMmaOp(IRDLOperation):
    """Fused load and product ``acc + load(a) @ load(b)``, for CPUs, whose FMA takes a memory operand (beyond
    XeTile.md).

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
