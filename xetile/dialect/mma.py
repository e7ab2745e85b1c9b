"""Matrix products of XeTile: ``tile_mma``, block-scaled (Microscaling Formats), and fused load+mma for CPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    opt_prop_def,
    result_def,
    traits_def,
)

from xegpu.dialect.dpas import (
    DEPTH,
    MAD,
    MULTIPLIED,
    SCALED,
    MultiplyAddOp,
    ScaledMultiplyAddOp,
    check_accumulator,
    check_scaled_types,
)
from xegpu.ir.op_definition import operation_definition
from xegpu.ir.record import Record
from xegpu.ir.traits import ReadsMemory
from xegpu.mlir.vector import VECTOR, shape_of
from xegpu.support.errors import Invalid
from xetile.dialect.tile_ops import TILE, flat_shape, text, tile_of
from xetile.dialect.types import WgMapAttr, verify_product_maps, verify_product_types
from xetile.dialect.wg_map import WgMap
from xetile.dialect.wg_map_inference import map_of


def check_product_shapes(a: Sequence[int], b: Sequence[int], c: Sequence[int] | None) -> None:
    """Verify the M x K, K x N and M x N shapes of a product, all of two dimensions or all of the four of blocks.

    Args:
        a, b: shapes of the operands.
        c: shape of the accumulator or the result; None if there is none yet.
    """
    shapes = [a, b] if c is None else [a, b, c]
    if len({*map(len, shapes)}) != 1 or len(a) not in (2, 4):
        raise Invalid("XT1254", f"A is {text(a)}, B {text(b)}{'' if c is None else f' and C {text(c)}'}: they must all "
                      "have two dimensions, or all the four of blocks\nbring all into blocks with "
                      "xt.tile_pack(v, (rows, columns)), or none with xt.tile_unpack(v)")
    if len(a) == 4:
        _check_blocks(a[2:], b[2:], None if c is None else c[2:])
    (rows, inner), (depth, columns) = flat_shape(a), flat_shape(b)
    if inner != depth:
        raise Invalid("XT1250", f"A is {text(a)} and B is {text(b)}: A has {inner} columns and B {depth} rows\n"
                      f"make B's tile {inner}x{columns}, or A's tile {rows}x{depth}", about=("a", "b"))
    if c is not None and flat_shape(c) != (rows, columns):
        raise Invalid("XT1253", f"A {text(a)} times B {text(b)} is {rows}x{columns}, and the accumulator is {text(c)}\n"
                      f"make the accumulator {rows}x{columns}: xt.zeros(({rows}, {columns}), dtype)",
                      about=("acc", "a", "b"))


def _check_blocks(a: Sequence[int], b: Sequence[int], c: Sequence[int] | None) -> None:
    """Verify that the blocks of A, B and the accumulator multiply."""
    if a[1] != b[0]:
        raise Invalid("XT1255", f"tile_mma of blocks {text(a)} and {text(b)}: those of A have {a[1]} columns and those "
                      f"of B {b[0]} rows\npack B in blocks of {a[1]} rows: inner_blocks=({a[1]}, {b[1]})",
                      about=("a", "b"))
    if c is not None and tuple(c) != (a[0], b[1]):
        raise Invalid("XT1256", f"the blocks of the accumulator are {text(c)}, and those of the product {a[0]}x{b[1]}\n"
                      f"pack it so: xt.tile_pack(acc, ({a[0]}, {b[1]}))", about=("acc", "a", "b"))


@operation_definition
class TileMmaOp(MultiplyAddOp):
    """Matrix product ``a @ b``, plus ``acc`` if there is one, of 2D or blocked 4D vectors."""

    name = "xetile.tile_mma"
    RECORD: ClassVar[Record] = MULTIPLIED
    wg_map = opt_prop_def(WgMapAttr)

    def __init__(self, a: SSAValue, b: SSAValue, acc: SSAValue | None, result: Attribute,
                 wg_map: WgMap | None = None) -> None:
        super().__init__(operands=[a, b, [acc] if acc is not None else []], result_types=[result],
                         properties={"wg_map": WgMapAttr(wg_map) if wg_map else None})

    def verify_(self) -> None:
        check_product_shapes(shape_of(self.a), shape_of(self.b), shape_of(self.result))
        check_accumulator(self.a, self.acc, self.result)
        verify_product_types(self.a.type, self.b.type, self.result.type)
        acc = None if self.acc is None else map_of(self.acc)
        result = None if self.wg_map is None else self.wg_map.data
        verify_product_maps(map_of(self.a), map_of(self.b), acc, result, flat_shape(shape_of(self.a))[1])


@operation_definition
class TileMmaScaledOp(ScaledMultiplyAddOp):
    """Block-scaled product ``acc + (a x scale_a) @ (b x scale_b)``: a scale for each 32 elements along K."""

    name = "xetile.tile_mma_scaled"
    RECORD: ClassVar[Record] = SCALED
    wg_map = opt_prop_def(WgMapAttr)

    def __init__(self, a: SSAValue, b: SSAValue, acc: SSAValue, scale_a: SSAValue, scale_b: SSAValue,
                 wg_map: WgMap | None = None) -> None:
        super().__init__(operands=[a, b, acc, scale_a, scale_b], result_types=[acc.type],
                         properties={"wg_map": WgMapAttr(wg_map) if wg_map else None})

    def verify_(self) -> None:
        check_accumulator(self.a, self.acc, self.result)
        check_scaled_types(self.a.type, self.b.type, self.result.type, self.scale_a.type, self.scale_b.type)
        check_product_shapes(shape_of(self.a), shape_of(self.b), shape_of(self.acc))
        (m, k), (_, n) = flat_shape(shape_of(self.a)), flat_shape(shape_of(self.b))
        if k % DEPTH:
            raise Invalid("XT1261", f"{k} columns of A do not divide into blocks of {DEPTH}, which share a scale\n"
                          f"make K of the tiles a multiple of {DEPTH}", about=("a",))
        scales = ("A", self.a, self.scale_a, (m, k // DEPTH)), ("B", self.b, self.scale_b, (k // DEPTH, n))
        for name, operand, scale, wanted in scales:
            if flat_shape(shape_of(scale)) != wanted:
                raise Invalid("XT1261", f"the scales of {name} are {text(shape_of(scale))}, and {name} is "
                              f"{text(shape_of(operand))}\ngive one for each {DEPTH} of K: {text(wanted)}",
                              about=(f"scale_{name.lower()}",))


@operation_definition
class LoadMmaOp(IRDLOperation):
    """Fused load and product ``acc + load(a) @ load(b)``, for CPUs, whose FMA takes a memory operand (beyond
    XeTile.md).

    Products with what lies outside an array add nothing, whatever stands on the other side of them.
    """

    name = "xetile.load_mma"
    RECORD: ClassVar[Record] = MAD
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
        check_accumulator(self.a, self.acc, self.result)
        check_product_shapes(a.shape, b.shape, flat_shape(shape_of(self.result)))
        verify_product_types(VectorType(a.element_type, a.shape), VectorType(b.element_type, b.shape), self.result.type)
