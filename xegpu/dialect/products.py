"""Products of blocks: ``dpas`` (XeGPU.md), and the plain ``mad``, which the lowering adds.

Operands are whole blocks before ``distribute`` and fragments of one lane after it, when the operation has maps.
"""

from __future__ import annotations

from functools import lru_cache

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

from xegpu.declaring import operation_definition
from xegpu.dialect.attributes import SgMapAttr
from xegpu.dialect.lane_rules import MAP_NAMES, check_dpas, two_sizes
from xegpu.dialect.vectors import VECTOR, shape_of
from xegpu.dtypes import of_mlir
from xegpu.errors import Invalid, ShapeError
from xegpu.layouts import LaneMap


@lru_cache(maxsize=256)
def _lane_map(lanes: LaneMap) -> SgMapAttr:
    return SgMapAttr(lanes)


class MultiplyAddOp(IRDLOperation):
    """D = C + A x B: the operands of ``dpas`` and its text, which are the same in every generation of XeGPU."""

    a = operand_def(VECTOR)
    b = operand_def(VECTOR)
    acc = opt_operand_def(VECTOR)
    result = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$a `,` $b (`,` $acc^)? attr-dict `:` type($a) `,` type($b) (`,` type($acc)^)? `->` type($result)"
    )
    traits = traits_def(Pure())


class ProductOp(MultiplyAddOp):
    """D = C + A x B over one block."""

    sg_map_a = opt_prop_def(SgMapAttr)
    sg_map_b = opt_prop_def(SgMapAttr)
    sg_map_c = opt_prop_def(SgMapAttr)

    def __init__(self, a: SSAValue, b: SSAValue, acc: SSAValue | None, result: Attribute | None = None,
                 maps: tuple[LaneMap, LaneMap, LaneMap] | None = None) -> None:
        assert result is not None or acc is not None
        attributes = [None, None, None] if maps is None else [_lane_map(lanes) for lanes in maps]
        super().__init__(
            operands=[a, b, [acc] if acc is not None else []],
            result_types=[result if result is not None else acc.type],  # type: ignore[union-attr]
            properties=dict(zip(("sg_map_a", "sg_map_b", "sg_map_c"), attributes, strict=True)),
        )

    @property
    def maps(self) -> tuple[LaneMap, LaneMap, LaneMap] | None:
        """Lane maps of A, B and C, None on whole blocks."""
        if self.sg_map_a is None or self.sg_map_b is None or self.sg_map_c is None:
            return None
        return self.sg_map_a.data, self.sg_map_b.data, self.sg_map_c.data

    def sizes(self) -> tuple[int, int, int]:
        """M, N and K of the product."""
        maps = self.maps
        if maps is None:
            a, b = shape_of(self.a), shape_of(self.b)
            depth = a[1] * (a[2] if len(a) == 3 else 1)
            return a[0], b[1], depth
        # A lane map says nothing of the columns of a block; one unit across is what the engines read.
        a_map, _, c_map = maps
        rows, columns = c_map.block(two_sizes(shape_of(self.result)), c_map.unit[1])
        return rows, columns, a_map.block(two_sizes(shape_of(self.a)), a_map.unit[1])[1]

    def verify_(self) -> None:
        if self.acc is not None and self.acc.type != self.result.type:
            raise Invalid("XT3201", f"the accumulator is {self.acc.type} and the result {self.result.type}\n"
                          "make them equal: the result is the accumulator with the product added")
        missing = [name for name in MAP_NAMES if name not in self.properties]
        if 0 < len(missing) < len(MAP_NAMES):
            raise Invalid("XT3516", f"{missing[0]} is missing: fragments of a lane have three maps\n"
                          f"give {', '.join(MAP_NAMES)}, or none of them with whole blocks", alone=True)
        if self.maps is None:
            self._verify_words()
        m, n, k = self.sizes()
        maps = self.maps
        if maps is None:
            b = shape_of(self.b)
            rows = b[0] * (b[2] if len(b) == 3 else 1)
            if rows != k or shape_of(self.result) != (m, n):
                raise Invalid("XT3202", f"{self.a.type} x {self.b.type} does not give {self.result.type}" + (
                              f": A has {k} columns and B {rows} rows" if rows != k else "") + "\n"
                              f"multiply MxK by KxN, as {m}x{k} by {k}x{n} into {m}x{n}; fragments of a lane need "
                              f"{', '.join(MAP_NAMES)}")
            return
        try:
            fits = maps[0].fragment((m, k)) == shape_of(self.a) and maps[1].fragment((k, n)) == shape_of(self.b)
        except ShapeError as error:
            raise Invalid.of(error) from None
        if not fits:
            raise Invalid("XT3517",
                          f"fragments {self.a.type} and {self.b.type} are not those of a product of {m}x{k} by "
                          f"{k}x{n}\n"
                          f"a lane has {_fragment(maps[0], (m, k))} of A and {_fragment(maps[1], (k, n))} of B")

    def _verify_words(self) -> None:
        """A third dimension is that of the elements in a word of 32 bits; A has one only where B has."""
        together = 32 // of_mlir(self.a.type.element_type).bits  # type: ignore[attr-defined]
        ranks = [len(shape_of(value)) for value in (self.a, self.b)]
        for name, value, rank in zip("AB", (self.a, self.b), ranks, strict=True):
            if rank not in (2, 3) or (rank == 3 and (together == 1 or shape_of(value)[2] != together)):
                raise Invalid("XT3203", f"{name} is {value.type}\nwrite two dimensions" + (
                    f", or three of which the last is the {together} elements of a word" if together > 1 else ""))
        if ranks == [3, 2]:
            raise Invalid("XT3204", f"A is in words, {self.a.type}, and B is not, {self.b.type}\n"
                          "load B with packed, or leave A in two dimensions")


def _fragment(lanes: LaneMap, shape: tuple[int, int]) -> str:
    return "x".join(map(str, lanes.fragment(shape)))


@operation_definition
class DpasOp(ProductOp):
    """The matrix engine's product; B in VNNI form (3D) once packed."""

    name = "xegpu.dpas"

    def verify_(self) -> None:
        if (maps := self.maps) is not None:
            check_dpas(maps, of_mlir(self.a.type.element_type).bits)  # type: ignore[attr-defined]
        super().verify_()


@operation_definition
class MadOp(ProductOp):
    """The same product in plain multiply-adds, where no matrix engine takes the types. It goes beyond the seed."""

    name = "xegpu.mad"


OPERATIONS = (DpasOp, MadOp)
