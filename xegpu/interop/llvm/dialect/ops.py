"""Block loads and stores, DPAS and layout conversion of LLVM 23's XeGPU dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerAttr, UnitAttr, VectorType, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure

from xegpu.dialect.block_io import check_load_form, check_loaded, check_stored, check_words
from xegpu.dialect.dpas import MultiplyAddOp, check_accumulator, check_product
from xegpu.dialect.hints import CacheHintAttr, HintedOp, check_hints
from xegpu.interop.llvm.dialect.descriptors import DESC, CreateNdTdescOp, UpdateNdOffsetOp
from xegpu.interop.llvm.dialect.types import (
    HINTS,
    LAYOUT,
    LayoutAttr,
    Mixed,
    check_offsets,
    desc_of,
    joined,
    shape_of,
    split,
)
from xegpu.ir.assembly_format import OptionalDynamicIndexList
from xegpu.ir.op_definition import operation_definition
from xegpu.mlir.vector import VECTOR
from xegpu.support.errors import Invalid

BLOCK = "$desc `` custom<OptionalDynamicIndexList>($offsets, $const_offsets)"
"""Assembly format of a descriptor with the offsets of a block: ``%d[%i, 8]``."""


class MovementOp(HintedOp):
    """Base of block load, store and prefetch: a descriptor, offsets, cache hints, a layout."""

    desc = operand_def(DESC)
    offsets = var_operand_def(IndexType)
    const_offsets = opt_prop_def(DenseArrayBase)
    layout = opt_prop_def(LAYOUT)
    custom_directives = (OptionalDynamicIndexList,)

    @property
    def starts(self) -> list[SSAValue | int]:
        """Offsets of the block; empty up to LLVM 22, where the descriptor has them."""
        return joined(self.offsets, self.const_offsets)

    def verify_(self) -> None:
        desc = desc_of(self.desc)
        if self.starts:
            check_offsets(self.starts, self.desc, desc.shape)
        if isinstance(self.layout, LayoutAttr):
            self.layout.data.check(desc.shape)
        check_hints(self, self.MESSAGE, HINTS[self.MESSAGE])


@operation_definition
class LoadNdOp(MovementOp):
    """Block load: ``load_nd %d[%i, %j] <{packed}> : !xegpu.tensor_desc<16x16xbf16> -> vector<8x16x2xbf16>``."""

    name = "xegpu.load_nd"
    packed = opt_prop_def(UnitAttr)
    transpose = opt_prop_def(DenseArrayBase)
    transpose_bit_width = opt_prop_def(IntegerAttr)
    result = result_def(VECTOR)
    assembly_format = f"{BLOCK} prop-dict attr-dict `:` type($desc) `->` type($result)"

    def __init__(self, desc: SSAValue, offsets: Mixed, result: Attribute, transpose: bool = False,
                 layout: Attribute | None = None) -> None:
        values, literals = split(offsets)
        permutation = DenseArrayBase.from_list(i64, [1, 0]) if transpose else None
        super().__init__(operands=[desc, values], result_types=[result],
                         properties={"const_offsets": literals, "transpose": permutation, "layout": layout})

    def verify_(self) -> None:
        super().verify_()
        desc = desc_of(self.desc)
        axes = None if self.transpose is None else [int(axis) for axis in self.transpose.get_values()]
        check_load_form(axes, self.packed is not None, desc.dtype)
        if self.packed is not None and len(desc.shape) != 2:
            raise Invalid("XT3101", f"a block of {len(desc.shape)} dimensions, {self.desc.type}, is not loaded packed\n"
                          "describe a block of two dimensions")
        if self.packed is not None:
            check_words("rows", desc.shape[0], 32 // desc.dtype.bits, desc.element_type)
        shape = desc.loaded(self.packed is not None)
        if self.transpose is not None:
            shape = (*shape[:-2], *reversed(shape[-2:]))
        fragment = shape_of(self.result)
        rows, *columns = desc.shape
        is_stacked = fragment == (rows * desc.block.array_length, *columns) and self.packed is None and \
            self.transpose is None and desc.block.array_length > 1  # blocks below each other
        if desc.layout is not None and len(fragment) < len(desc.shape):
            raise Invalid("XT3107", f"{self.result.type} is a lane's part, and {self.desc.type} has a layout\n"
                          "drop the layout where a lane's vector is loaded")
        check_loaded(self.result.type, fragment if len(fragment) == 1 or is_stacked else shape, desc.element_type)


@operation_definition
class StoreNdOp(MovementOp):
    """Block store: ``store_nd %v, %d[%i, %j] : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>``."""

    name = "xegpu.store_nd"
    MESSAGE: ClassVar[str] = "store"
    value = operand_def(VECTOR)
    assembly_format = f"$value `,` {BLOCK} prop-dict attr-dict `:` type($value) `,` type($desc)"

    def __init__(self, value: SSAValue, desc: SSAValue, offsets: Mixed, layout: Attribute | None = None) -> None:
        values, literals = split(offsets)
        super().__init__(operands=[value, desc, values], properties={"const_offsets": literals, "layout": layout})

    def verify_(self) -> None:
        super().verify_()
        desc = desc_of(self.desc)
        fragment = shape_of(self.value)
        if desc.block.array_length > 1:
            raise Invalid("XT3108", f"a store has one block, and {self.desc.type} has {desc.block.array_length}\n"
                          "store each block through a descriptor without array_length")
        if desc.layout is not None and len(fragment) < len(desc.shape):
            raise Invalid("XT3108", f"{self.value.type} is a lane's part, and {self.desc.type} has a layout\n"
                          "drop the layout where a lane's vector is stored")
        check_stored(self.value.type, fragment if len(fragment) == 1 else desc.loaded(), desc.element_type)


@operation_definition
class PrefetchNdOp(MovementOp):
    """Block prefetch: ``prefetch_nd %d[%i, %j] <{l1_hint = #xegpu.cache_hint<cached>}> : !xegpu.tensor_desc<...>``."""

    name = "xegpu.prefetch_nd"
    MESSAGE: ClassVar[str] = "prefetch"
    assembly_format = f"{BLOCK} prop-dict attr-dict `:` type($desc)"

    def __init__(self, desc: SSAValue, offsets: Mixed, layout: Attribute | None = None) -> None:
        values, literals = split(offsets)
        cached = CacheHintAttr("cached")
        super().__init__(operands=[desc, values], properties={"const_offsets": literals, "l1_hint": cached,
                                                              "l2_hint": cached, "layout": layout})


@operation_definition
class DpasOp(MultiplyAddOp):
    """DPAS: ``dpas %a, %b, %c {layout_a = ..., layout_b = ..., layout_cd = ...} : ... -> vector<8x16xf32>``."""

    name = "xegpu.dpas"
    layout_a = opt_prop_def(LAYOUT)
    layout_b = opt_prop_def(LAYOUT)
    layout_cd = opt_prop_def(LAYOUT)

    def __init__(self, a: SSAValue, b: SSAValue, acc: SSAValue | None, result: Attribute,
                 layouts: Sequence[LayoutAttr] = ()) -> None:
        names = ("layout_a", "layout_b", "layout_cd")
        super().__init__(operands=[a, b, [] if acc is None else [acc]], result_types=[result],
                         properties=dict(zip(names, layouts, strict=False)))

    def verify_(self) -> None:
        check_accumulator(self.a, self.acc, self.result)
        if self.a.type.element_type != self.b.type.element_type:  # type: ignore[attr-defined]
            raise Invalid("XT3606",
                          f"A is {self.a.type} and B {self.b.type}\nLLVM's dpas takes two operands of one type")
        a, b, c = shape_of(self.a), shape_of(self.b), shape_of(self.result)
        if len(c) == 1:  # fragments of a lane, which do not determine the block's shape
            return
        if len(c) > 2 and len(a) == len(b) == len(c) and a[:-2] == b[:-2] == c[:-2]:  # a batch of products
            check_product((a[-2], a[-1]), (b[-2], b[-1]), c[-2:])
            return
        if len(a) != 2 or len(b) not in (2, 3) or len(c) != 2:
            raise Invalid("XT3203", "A and the result have two dimensions, B two, or three in VNNI form\n"
                          "cast the operands")
        depth = b[0] * (b[2] if len(b) == 3 else 1)
        check_product((a[0], a[1]), (depth, b[1]), c)


@operation_definition
class ConvertLayoutOp(IRDLOperation):
    """Layout conversion: ``convert_layout %v <{input_layout = ..., target_layout = ...}> : vector<256x256xf32>``."""

    name = "xegpu.convert_layout"
    SHAPE: ClassVar = VarConstraint("SHAPE", AnyAttr())
    source = operand_def(SHAPE)
    input_layout = opt_prop_def(LAYOUT)
    target_layout = prop_def(LAYOUT)
    result = result_def(SHAPE)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$source prop-dict attr-dict `:` type($source)"
    traits = traits_def(Pure())

    def __init__(self, source: SSAValue, source_layout: LayoutAttr | None, target_layout: LayoutAttr) -> None:
        super().__init__(operands=[source], result_types=[source.type],
                         properties={"input_layout": source_layout, "target_layout": target_layout})

    def verify_(self) -> None:
        layouts = [layout.data for layout in (self.input_layout, self.target_layout) if isinstance(layout, LayoutAttr)]
        if len({bool(layout.sg_layout) for layout in layouts}) > 1:
            raise Invalid("XT3607", "one layout distributes a tile to subgroups, and the other to lanes\n"
                          "give both sg_layout, or neither")
        for layout in layouts if isinstance(self.source.type, VectorType) else ():
            layout.check(shape_of(self.source))


OPERATIONS: list[type[Operation]] = [CreateNdTdescOp, UpdateNdOffsetOp, LoadNdOp, StoreNdOp, PrefetchNdOp, DpasOp,
                                     ConvertLayoutOp]
