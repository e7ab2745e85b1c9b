"""Vectors in registers as words of 32 bits and as narrower elements: ``pack``, ``bitcast``. The lowering adds both."""

from __future__ import annotations

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    operand_def,
    opt_prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from xegpu.declaring import operation_definition
from xegpu.dialect.attributes import SgMapAttr
from xegpu.dialect.vectors import VECTOR, shape_of, vector
from xegpu.dtypes import i1, of_mlir
from xegpu.errors import Invalid
from xegpu.layouts import LaneMap


@operation_definition
class PackOp(IRDLOperation):
    """A whole block ``[k, n]`` in registers to VNNI form ``[k / v, n, v]``. It goes beyond the seed.

    After ``distribute`` both are fragments: ``[k, 1]`` to ``[k / v, v]``, the same elements of the same lane.
    """

    name = "xegpu.pack"
    source = operand_def(VECTOR)
    sg_map = opt_prop_def(SgMapAttr)
    result = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

    def __init__(self, source: SSAValue, sg_map: LaneMap | None = None) -> None:
        shape, element = shape_of(source), source.type.element_type  # type: ignore[attr-defined]
        factor = 32 // of_mlir(element).bits
        result = (shape[0] // factor, factor) if sg_map else (shape[0] // factor, shape[1], factor)
        super().__init__(operands=[source], result_types=[vector(result, element)],
                         properties={"sg_map": SgMapAttr(sg_map) if sg_map else None})

    def verify_(self) -> None:
        shape = shape_of(self.source)
        factor = 32 // of_mlir(self.source.type.element_type).bits  # type: ignore[attr-defined]
        if factor < 2 or len(shape) != 2 or shape[0] % factor:
            raise Invalid("XT3207", f"{self.source.type} does not pack into 32-bit words along its rows\n" + (
                "its elements fill such words by themselves" if factor < 2 else
                f"make it two dimensions, and its {shape[0]} rows a multiple of {factor}"))
        expected = (shape[0] // factor, factor) if self.sg_map else (shape[0] // factor, shape[1], factor)
        if self.result.type != (made := vector(expected, self.source.type.element_type)):  # type: ignore[attr-defined]
            raise Invalid("XT3206", f"{self.source.type} packs into {made}, not {self.result.type}\nwrite {made}")


@operation_definition
class BitcastOp(IRDLOperation):
    """A block of words to a block of narrower elements: row ``i`` becomes rows, the lowest bits first.

    ``%h = xegpu.bitcast %w : vector<8x16xui32> -> vector<16x16xf16>``: the order in which VNNI form holds the rows of
    B, so that packing the result moves nothing. Fragments keep their lanes. It goes beyond the seed.
    """

    name = "xegpu.bitcast"
    source = operand_def(VECTOR)
    result = result_def(VECTOR)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

    def __init__(self, source: SSAValue, element: Attribute) -> None:
        super().__init__(operands=[source], result_types=[split_rows(source, element)])

    def verify_(self) -> None:
        check_split_rows(self.source, self.result)


def split_rows(source: SSAValue, element: Attribute) -> VectorType[Attribute]:
    """The type of words as rows of narrower elements: rows are the last dimension but one."""
    factor = of_mlir(source.type.element_type).bits // of_mlir(element).bits  # type: ignore[attr-defined]
    *outer, rows, columns = shape_of(source)
    return vector((*outer, rows * factor, columns), element)


def check_split_rows(source: SSAValue, result: SSAValue) -> None:
    """Raise a verifier's error unless one type holds the bits of the other, its words cut up along the rows."""
    if len(shape_of(source)) < 2:
        raise Invalid("XT3213", f"{source.type} has no rows, which its words would become more of\n"
                      "cast it to two dimensions first: 16 elements are 16x1 or 1x16")
    wide, narrow = (of_mlir(value.type.element_type) for value in (source, result))  # type: ignore[attr-defined]
    if i1 in (wide, narrow) or wide.bits <= narrow.bits or wide.bits % narrow.bits:
        raise Invalid("XT3211", f"words of {wide} do not hold a number of {narrow}\n"
                      f"narrower elements come of wider ones; of equal ones arith.bitcast makes others")
    if result.type != (wanted := split_rows(source, result.type.element_type)):  # type: ignore[attr-defined]
        raise Invalid("XT3212", f"{source.type} as {narrow} is a {wanted}, not a {result.type}\n"
                      f"each row gives {wide.bits // narrow.bits}")


OPERATIONS = (PackOp, BitcastOp)
