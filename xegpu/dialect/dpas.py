"""Matrix multiply-accumulate: ``dpas`` (XeGPU.md), ``mad`` on vector engines, fused load and ``mad``, scaled ``dpas``.

Operands are blocks before ``distribute-lanes`` and fragments of one lane after it, when the operation has lane maps.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure

from xegpu.dialect.block_io import DESC, check_block, desc_of
from xegpu.dialect.types import MAP_NAMES, SgMapAttr, check_dpas, two_sizes
from xegpu.ir.create import initialize
from xegpu.ir.dtypes import STORED, DType, e4m3, e5m2, f32, of_mlir, u8
from xegpu.ir.op_definition import operation_definition
from xegpu.ir.record import Record
from xegpu.ir.traits import ReadsMemory
from xegpu.layout.lane_map import LaneMap
from xegpu.mlir.vector import VECTOR, shape_of
from xegpu.support.errors import ElementTypeError, Invalid, ShapeError
from xegpu.target.targets import TARGETS


def _types(engine: str) -> tuple[DType, ...]:
    """Element types of the operands and accumulators of an engine's products, on any target."""
    shapes = [shape for target in TARGETS.values() for shape in target.mma_shapes if shape.engine == engine]
    types = {dtype for shape in shapes for dtype in (shape.a, shape.b, *shape.accumulators)}
    return tuple(dtype for dtype in STORED if dtype in types)


DPAS, MAD = Record(_types("dpas"), rounding="sum"), Record(_types("vector"), rounding="sum")
MULTIPLIED = Record(tuple(dtype for dtype in STORED if dtype in DPAS.elements or dtype in MAD.elements), rounding="sum")
"""Record of the products of all engines."""
SCALED = Record((f32, e4m3, e5m2, u8), rounding="sum")


@lru_cache(maxsize=256)
def _lane_map(lanes: LaneMap) -> SgMapAttr:
    return SgMapAttr(lanes)


def check_accumulator(first: SSAValue, acc: SSAValue | None, result: SSAValue) -> None:
    """Verify that a product has the type of its accumulator, if any; ``first`` is its first operand."""
    if acc is not None and acc.type != result.type:
        raise Invalid("XT3201", f"the accumulator is {acc.type} and the result {result.type}\n" + (
            "the accumulator is the last operand: write it behind A and B" if first.type == result.type else
            "make them equal: the result is the accumulator with the product added"))


def check_product(a: tuple[int, int], b: tuple[int, int], c: tuple[int, ...]) -> None:
    """Verify the M x K, K x N and M x N shapes of a product."""
    (m, k), (rows, n) = a, b
    if rows != k or c != (m, n):
        raise Invalid("XT3202", f"{m}x{k} by {rows}x{n} does not give {'x'.join(map(str, c))}"
                      + (f": A has {k} columns and B {rows} rows" if rows != k else "") +
                      ("\nA and B are exchanged: write B behind A" if n == m and c == (rows, k) else
                       f"\nmultiply MxK by KxN, as {m}x{k} by {k}x{n} into {m}x{n}; fragments of a lane need "
                       f"{', '.join(MAP_NAMES)}"))


class MultiplyAddOp(IRDLOperation):
    """Base of D = C + A x B: operands and syntax of ``dpas``, common to all versions of XeGPU."""

    a = operand_def(VECTOR)
    b = operand_def(VECTOR)
    acc = opt_operand_def(VECTOR)
    result = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$a `,` $b (`,` $acc^)? attr-dict `:` type($a) `,` type($b) (`,` type($acc)^)? `->` type($result)"
    )
    traits = traits_def(Pure())


class ScaledMultiplyAddOp(IRDLOperation):
    """Base of D = C + (A x scales of A) x (B x scales of B): operands and syntax."""

    a = operand_def(VECTOR)
    b = operand_def(VECTOR)
    acc = operand_def(VECTOR)
    scale_a = operand_def(VECTOR)
    scale_b = operand_def(VECTOR)
    result = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = ("$a `,` $b `,` $acc `,` $scale_a `,` $scale_b attr-dict `:` type($a) `,` type($b) `,` "
                       "type($acc) `,` type($scale_a) `,` type($scale_b) `->` type($result)")


class ProductOp(MultiplyAddOp):
    """Matrix multiply-accumulate of one block, D = C + A x B."""

    sg_map_a = opt_prop_def(SgMapAttr)
    sg_map_b = opt_prop_def(SgMapAttr)
    sg_map_c = opt_prop_def(SgMapAttr)

    def __init__(self, a: SSAValue, b: SSAValue, acc: SSAValue | None, result: Attribute | None = None,
                 maps: tuple[LaneMap, LaneMap, LaneMap] | None = None) -> None:
        assert result is not None or acc is not None
        attributes = [None, None, None] if maps is None else [_lane_map(lanes) for lanes in maps]
        initialize(self, [a, b] if acc is None else [a, b, acc],
                   [result if result is not None else acc.type],  # type: ignore[union-attr]
                   dict(zip(("sg_map_a", "sg_map_b", "sg_map_c"), attributes, strict=True)))

    @property
    def maps(self) -> tuple[LaneMap, LaneMap, LaneMap] | None:
        """Lane maps of A, B and C, None before distribution."""
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
        # A lane map does not determine a block's columns; the engines read operands that are one unit wide.
        a_map, _, c_map = maps
        rows, columns = c_map.block(two_sizes(shape_of(self.result)), c_map.unit[1])
        return rows, columns, a_map.block(two_sizes(shape_of(self.a)), a_map.unit[1])[1]

    def verify_(self) -> None:
        check_accumulator(self.a, self.acc, self.result)
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
            check_product((m, k), (rows, n), shape_of(self.result))
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
        """Verify a third dimension, the elements in a word of 32 bits; A has one only where B has."""
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
    """Matrix multiply-accumulate of the matrix engine; B is in VNNI form (3D) once packed."""

    name = "xegpu.dpas"
    RECORD: ClassVar[Record] = DPAS

    def verify_(self) -> None:
        if (maps := self.maps) is not None:
            rows = shape_of(self.result)[0]  # C has a column a lane
            check_dpas(maps, of_mlir(self.a.type.element_type).bits, rows)  # type: ignore[attr-defined]
        super().verify_()


@operation_definition
class MadOp(ProductOp):
    """Matrix multiply-accumulate in vector multiply-adds, for types without DPAS. It goes beyond the specification."""

    name = "xegpu.mad"
    RECORD: ClassVar[Record] = MAD


OPERATIONS = (DpasOp, MadOp)


@operation_definition
class LoadMadOp(IRDLOperation):
    """Fused load and ``mad``: ``acc + load(a) @ load(b)``, the accumulators in row-major blocks. Beyond XeGPU.md.

    Out-of-bounds elements of one operand add nothing, even where the other operand is infinite or NaN.
    """

    name = "xegpu.load_mad"
    RECORD: ClassVar[Record] = MAD
    a = operand_def(DESC)
    b = operand_def(DESC)
    acc = var_operand_def(VECTOR)
    sg_map = opt_prop_def(SgMapAttr)
    results_ = var_result_def(VECTOR)
    traits = traits_def(ReadsMemory((0, 1)))
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
        check_product((m, k), (desc_of(self.b).shape[0], n), (m, n))
        if m % rows or n % columns or m * n != rows * columns * len(self.acc):
            raise Invalid("XT3210", f"{len(self.acc)} blocks of {rows}x{columns} are not a product of {m}x{n}\n"
                          "give the accumulators row by row, so that together they are as large as the product")


DEPTH = 32
"""Block size of the scales: elements of a row of A, or of a column of B, that share one."""
ROWS = 8
"""Rows of A in one scaled DPAS (its repeat count)."""
SCALE_MAPS = LaneMap((ROWS, 1)), LaneMap((1, 16))
"""Lane maps of the scales of A and of B."""


@operation_definition
class DpasScaledOp(ScaledMultiplyAddOp):
    """Scaled DPAS of 8-bit floats: D = C + (A x row scales) x (B x column scales), 8x32 by 32x16. Beyond XeGPU.md.

    A scale is a byte s with the value 2^(s - 127); 255 is NaN (E8M0, OCP Microscaling Formats). Lane m holds the scale
    of row m of A, lane n that of column n of B, as in LLVM's ``xegpu.dpas_mx``. ``lanes`` is set on fragments: those of
    DPAS, and one byte of each scale.
    """

    name = "xegpu.dpas_scaled"
    RECORD: ClassVar[Record] = SCALED
    lanes = opt_prop_def(IntegerAttr)

    def __init__(self, a: SSAValue, b: SSAValue, acc: SSAValue, scale_a: SSAValue, scale_b: SSAValue,
                 lanes: int | None = None) -> None:
        super().__init__(operands=[a, b, acc, scale_a, scale_b], result_types=[acc.type],
                         properties={"lanes": IntegerAttr(lanes, i64) if lanes else None})

    def verify_(self) -> None:
        check_accumulator(self.a, self.acc, self.result)
        check_scaled_types(self.a.type, self.b.type, self.result.type, self.scale_a.type, self.scale_b.type)


def check_scaled_types(a: Attribute, b: Attribute, result: Attribute, *scales: Attribute) -> None:
    """Verify the types of a scaled product: 8-bit floats into f32, with scales of u8."""
    types = [of_mlir(type_.element_type) for type_ in (a, b, result, *scales)]  # type: ignore[attr-defined]
    if any(type_.kind != "s" for type_ in types[:2]) or types[2] is not f32 or any(t is not u8 for t in types[3:]):
        raise Invalid("XT1260", f"{types[0]} by {types[1]} into {types[2]} with scales of {types[3]} and {types[4]} is "
                      "no scaled product\nmultiply e4m3 or e5m2 into f32, with scales of u8: 2^(scale - 127)",
                      kind=ElementTypeError)
