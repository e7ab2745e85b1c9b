"""Products of 8-bit floats with a scale for each 32 of a row of A and of a column of B. They go beyond the seed.

A scale is a byte s and stands for 2^(s - 127); 255 is NaN (E8M0, OCP Microscaling Formats). Lane m holds that of row m
of A, lane n that of column n of B, as LLVM's ``xegpu.dpas_mx`` has them.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, VectorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    base,
    operand_def,
    opt_prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from xegpu.declaring import operation_definition
from xegpu.dtypes import f32, of_mlir, u8
from xegpu.errors import Invalid
from xegpu.layouts import LaneMap

VECTOR = base(VectorType)
DEPTH = 32
"""Elements of a row of A, or of a column of B, that share a scale."""
ROWS = 8
"""Rows of A that the engine takes."""
SCALE_MAPS = LaneMap((ROWS, 1)), LaneMap((1, 16))
"""How the scales of A and of B lie over the lanes."""


@operation_definition
class DpasScaledOp(IRDLOperation):
    """D = C + (A x scales of its rows) x (B x scales of its columns), 8x32 by 32x16, on blocks or on their fragments.

    ``lanes`` is on fragments: those that DPAS takes, and a byte of each scale.
    """

    name = "xegpu.dpas_scaled"
    a = operand_def(VECTOR)
    b = operand_def(VECTOR)
    acc = operand_def(VECTOR)
    scale_a = operand_def(VECTOR)
    scale_b = operand_def(VECTOR)
    lanes = opt_prop_def(IntegerAttr)
    result = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = ("$a `,` $b `,` $acc `,` $scale_a `,` $scale_b attr-dict `:` type($a) `,` type($b) `,` "
                       "type($acc) `,` type($scale_a) `,` type($scale_b) `->` type($result)")

    def __init__(self, a: SSAValue, b: SSAValue, acc: SSAValue, scale_a: SSAValue, scale_b: SSAValue,
                 lanes: int | None = None) -> None:
        super().__init__(operands=[a, b, acc, scale_a, scale_b], result_types=[acc.type],
                         properties={"lanes": IntegerAttr(lanes, i64) if lanes else None})

    def verify_(self) -> None:
        if self.acc.type != self.result.type:
            raise Invalid("XT3201", f"the accumulator is {self.acc.type} and the result {self.result.type}\n"
                          "make both the same")
        check_scaled_types(self.a.type, self.b.type, self.result.type, self.scale_a.type, self.scale_b.type)


def check_scaled_types(a: Attribute, b: Attribute, result: Attribute, *scales: Attribute) -> None:
    """Raise a verifier's error unless 8-bit floats are multiplied into f32, with bytes for scales."""
    types = [of_mlir(type_.element_type) for type_ in (a, b, result, *scales)]  # type: ignore[attr-defined]
    if any(type_.kind != "s" for type_ in types[:2]) or types[2] is not f32 or any(t is not u8 for t in types[3:]):
        raise Invalid("XT1260", f"{types[0]} by {types[1]} into {types[2]} with scales of {types[3]} and {types[4]} is "
                      "no scaled product\nmultiply e4m3 or e5m2 into f32, with scales of u8: 2^(scale - 127)")
