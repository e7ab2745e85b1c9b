"""Operations of the earlier generation (XeGPU-older.md), and the rules that are its own.

An operation with ``mode = vc`` works on whole vectors, and its descriptor has no ``sg_map``; without it, it works on
the fragment of a lane, and its descriptor has one. What both generations demand is verified after the conversion.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects import builtin, func, math, memref, scf, ub
from xdsl.dialects.builtin import ArrayAttr, IndexType, IntegerAttr, StringAttr, VectorType
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    base,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure

from xegpu.dialect import Vector, XeGPU
from xegpu.dialect.block_io import desc_of
from xegpu.dialect.dpas import MultiplyAddOp
from xegpu.dialect.gather_scatter import AtomicKindAttr
from xegpu.dialect.hints import CacheHintAttr
from xegpu.dialect.sync import FenceOp
from xegpu.dialect.types import TensorDescType
from xegpu.interop.v1.types import VC, OlderDescType, WordAttr
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.op_definition import operation_definition
from xegpu.ir.traits import MovesView
from xegpu.mlir.arith import Arith
from xegpu.mlir.gpu import Gpu
from xegpu.mlir.vector import shape_of
from xegpu.support.errors import Invalid

DESC = base(OlderDescType)
VECTOR = base(VectorType)


class OlderOp(IRDLOperation):
    """What operations on memory and vectors have in common: a mode."""

    mode = opt_prop_def(WordAttr)
    irdl_options = (ParsePropInAttrDict(),)

    @property
    def is_vc(self) -> bool:
        """Whether it works on whole vectors."""
        return self.mode == VC

    def check_mode(self, desc: SSAValue) -> None:
        """Raise a verifier's error unless mode and descriptor agree: a map without ``mode = vc``, none with it."""
        if self.mode is not None and not self.is_vc:
            raise Invalid("XT3401", f"there is no mode {self.mode.data}\nwrite mode = vc, or nothing for SIMT",
                          alone=True)
        mapped = desc_of(desc).sg_map is not None
        if self.is_vc and mapped:
            raise Invalid("XT3402", "mode = vc works on whole vectors, and its descriptor has an sg_map\n"
                          "drop the sg_map, or the mode")
        if not self.is_vc and not mapped:
            raise Invalid("XT3403", "without a mode this works on the fragment of a lane, and its descriptor has no "
                          "sg_map\nadd {mode = vc}, or an sg_map to the descriptor")


class HintedOp(OlderOp):
    """An operation that takes cache hints."""

    l1_hint = opt_prop_def(CacheHintAttr)
    l2_hint = opt_prop_def(CacheHintAttr)
    l3_hint = opt_prop_def(CacheHintAttr)


class VectorOp(HintedOp):
    """An operation on single elements, of which there is no form for fragments."""

    def check_mode(self, desc: SSAValue) -> None:
        """Raise a verifier's error unless it works on whole vectors."""
        if not self.is_vc:
            raise Invalid("XT3404", "this is an operation of mode = vc only\nadd {mode = vc}", alone=True)
        super().check_mode(desc)


@operation_definition
class CreateNdTdescOp(OlderOp):
    """A descriptor of a block, or of a line."""

    name = "xegpu.create_nd_tdesc"
    source = operand_def(Attribute)
    offsets = var_operand_def(IndexType)
    shape = var_operand_def(IndexType)
    strides = var_operand_def(IndexType)
    result = result_def(DESC)
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())  # type: ignore[assignment]
    traits = traits_def(Pure())
    assembly_format = (
        "$source `,` `[` $offsets `]` (`,` `[` $shape^ `]` `,` `[` $strides `]`)? attr-dict "
        "`:` type($source) `->` type($result)"
    )

    def __init__(self, source: SSAValue, offsets: Sequence[SSAValue], shape: Sequence[SSAValue],
                 strides: Sequence[SSAValue], result: Attribute) -> None:
        super().__init__(operands=[source, offsets, shape, strides], result_types=[result])

    def verify_(self) -> None:
        self.check_mode(self.result)


@operation_definition
class UpdateNdOffsetOp(OlderOp):
    """The descriptor moved by offsets, in elements."""

    name = "xegpu.update_nd_offset"
    desc = operand_def(DESC)
    offsets = var_operand_def(IndexType)
    result = result_def(DESC)
    traits = traits_def(Pure(), MovesView())
    assembly_format = "$desc `,` `[` $offsets `]` attr-dict `:` type($desc) `->` type($result)"

    def verify_(self) -> None:
        self.check_mode(self.desc)


@operation_definition
class LoadNdOp(HintedOp):
    """A block from memory; ``vnni_axis = 0`` packs rows into words, ``vnni_axis = 1`` splits the columns into words."""

    name = "xegpu.load_nd"
    desc = operand_def(DESC)
    vnni_axis = opt_prop_def(IntegerAttr)
    transpose = opt_prop_def(ArrayAttr)
    transpose_bit_width = opt_prop_def(IntegerAttr)
    result = result_def(VECTOR)
    assembly_format = "$desc attr-dict `:` type($desc) `->` type($result)"

    @property
    def axis(self) -> int | None:
        """The dimension that VNNI form splits."""
        return None if self.vnni_axis is None else self.vnni_axis.value.data

    def split_shape(self) -> tuple[int, ...]:
        """The shape of a whole block whose columns are split into words."""
        desc = desc_of(self.desc)
        rows, columns = desc.shape
        return rows, columns * desc.dtype.bits // 32, 32 // desc.dtype.bits

    def verify_(self) -> None:
        self.check_mode(self.desc)
        desc = desc_of(self.desc)
        if self.transpose_bit_width is not None and not self.is_vc:
            raise Invalid("XT3405", "transpose_bit_width is of mode = vc only\nadd {mode = vc}, and drop the sg_map",
                          alone=True)
        if self.axis is None:
            return
        if self.axis not in (0, 1):
            raise Invalid("XT3406", f"vnni_axis is 0 or 1, not {self.axis}\nuse 0 for operand B, 1 for operand A",
                          alone=True)
        if self.transpose is not None:
            raise Invalid("XT3407", "VNNI transformation and transpose cannot be combined\n"
                          "a transposed load with transpose_bit_width = 32 gives VNNI form by itself", alone=True)
        if desc.dtype.bits >= 32 or len(desc.shape) != 2:
            raise Invalid("XT3408", f"VNNI form is of blocks of elements of 8 and 16 bits, not of {self.desc.type}\n"
                          "drop vnni_axis")
        if self.axis == 1 and self.is_vc and shape_of(self.result) != self.split_shape():
            raise Invalid("XT3107", f"this load gives {list(self.split_shape())}, not {list(shape_of(self.result))}\n"
                          "vnni_axis = 1 splits the columns into words of 32 bits")
        together = 32 // desc.dtype.bits
        if desc.sg_map is not None and desc.sg_map.wi_data[self.axis] != together:
            raise Invalid("XT3409",
                          f"wi_data[{self.axis}] is {desc.sg_map.wi_data[self.axis]}, and {together} elements "
                          f"of {desc.element_type} make 32 bits along vnni_axis = {self.axis}\n"
                          f"write wi_data = {[together, 1] if self.axis == 0 else [1, together]}")


@operation_definition
class StoreNdOp(HintedOp):
    """A block to memory."""

    name = "xegpu.store_nd"
    value = operand_def(VECTOR)
    desc = operand_def(DESC)
    assembly_format = "$value `,` $desc attr-dict `:` type($value) `,` type($desc)"

    def verify_(self) -> None:
        self.check_mode(self.desc)


@operation_definition
class PrefetchNdOp(HintedOp):
    """A block to the caches."""

    name = "xegpu.prefetch_nd"
    desc = operand_def(DESC)
    assembly_format = "$desc attr-dict `:` type($desc)"

    def verify_(self) -> None:
        self.check_mode(self.desc)


@operation_definition
class DpasOp(MultiplyAddOp, OlderOp):
    """D = C + A x B; elements under 32 bits come in words, A as ``[m, k / v, v]`` and B as ``[k / v, n, v]``."""

    name = "xegpu.dpas"

    def verify_(self) -> None:
        if self.mode is not None and not self.is_vc:
            raise Invalid("XT3401", f"there is no mode {self.mode.data}\nwrite mode = vc, or nothing for SIMT",
                          alone=True)
        bits = of_mlir(self.a.type.element_type).bits  # type: ignore[attr-defined]
        for name, value, axis in (("A", self.a, 1), ("B", self.b, 0)):
            rank = 3 if self.is_vc and bits < 32 else 2
            if len(shape_of(value)) != rank:
                raise Invalid("XT3410", f"{name} is {value.type}, and {rank} dimensions are needed here\n" + (
                    f"load it with vnni_axis = {axis}, in words of 32 bits" if rank == 3 else
                    "a lane's fragment has two; whole vectors need {mode = vc}" if bits < 32 else
                    "elements of 32 bits are words already"))


@operation_definition
class CreateTdescOp(VectorOp):
    """A descriptor of single elements."""

    name = "xegpu.create_tdesc"
    source = operand_def(Attribute)
    offsets = operand_def(VECTOR)
    chunk_size_per_lane = opt_prop_def(IntegerAttr)
    result = result_def(DESC)
    traits = traits_def(Pure())
    assembly_format = "$source `,` $offsets attr-dict `:` type($source) `,` type($offsets) `->` type($result)"

    def verify_(self) -> None:
        self.check_mode(self.result)
        scatter, said = desc_of(self.result).scatter, self.chunk_size_per_lane
        if scatter is not None and said is not None and said.value.data != scatter.chunk_size:
            raise Invalid("XT3411", f"chunk_size_per_lane is {said.value.data}, and {self.result.type} has chunks of "
                          f"{scatter.chunk_size}\nmake its second dimension the chunk", alone=True)


@operation_definition
class UpdateOffsetOp(VectorOp):
    """The descriptor with each lane moved by an offset of its own."""

    name = "xegpu.update_offset"
    desc = operand_def(DESC)
    offsets = operand_def(VECTOR)
    result = result_def(DESC)
    traits = traits_def(Pure(), MovesView())
    assembly_format = "$desc `,` $offsets attr-dict `:` type($desc) `,` type($offsets) `->` type($result)"

    def verify_(self) -> None:
        self.check_mode(self.desc)


@operation_definition
class LoadGatherOp(VectorOp):
    """The elements of a descriptor, where the mask is set."""

    name = "xegpu.load_gather"
    desc = operand_def(DESC)
    mask = operand_def(VECTOR)
    padding = opt_prop_def(Attribute)
    transpose = opt_prop_def(ArrayAttr)
    result = result_def(VECTOR)
    assembly_format = "$desc `,` $mask attr-dict `:` type($desc) `,` type($mask) `->` type($result)"

    def verify_(self) -> None:
        self.check_mode(self.desc)


@operation_definition
class StoreScatterOp(VectorOp):
    """A vector to the elements of a descriptor, where the mask is set."""

    name = "xegpu.store_scatter"
    value = operand_def(VECTOR)
    desc = operand_def(DESC)
    mask = operand_def(VECTOR)
    assembly_format = "$value `,` $desc `,` $mask attr-dict `:` type($value) `,` type($desc) `,` type($mask)"

    def verify_(self) -> None:
        self.check_mode(self.desc)


@operation_definition
class PrefetchOp(VectorOp):
    """The elements of a descriptor to the caches."""

    name = "xegpu.prefetch"
    desc = operand_def(DESC)
    assembly_format = "$desc attr-dict `:` type($desc)"

    def verify_(self) -> None:
        self.check_mode(self.desc)


@operation_definition
class AtomicRMWOp(VectorOp):
    """Each element updated atomically; the values that were found."""

    name = "xegpu.atomic_rmw"
    kind = prop_def(AtomicKindAttr)
    value = operand_def(VECTOR)
    desc = operand_def(DESC)
    mask = operand_def(VECTOR)
    result = result_def(VECTOR)
    assembly_format = ("$kind $value `,` $desc `,` $mask attr-dict `:` type($value) `,` type($desc) `,` type($mask) "
                       "`->` type($result)")

    def verify_(self) -> None:
        self.check_mode(self.desc)


_FENCE = {"memory_kind": ("ugm", "slm"), "fence_op": ("none",), "fence_scope": ("local", "tile")}


@operation_definition
class MfenceOp(IRDLOperation):
    """What was written before is seen before what is written after: within one XeCore, or within one tile of them."""

    name = "xegpu.mfence"
    memory_kind = prop_def(StringAttr)
    fence_op = prop_def(StringAttr)
    fence_scope = prop_def(StringAttr)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict"

    def verify_(self) -> None:
        for name, known in _FENCE.items():
            said = self.properties[name]
            assert isinstance(said, StringAttr)
            if said.data not in known:
                raise Invalid("XT3413", f'a fence has no {name} "{said.data}"\nuse '
                              + " or ".join(f'"{word}"' for word in known))
        if (self.memory_kind.data, self.fence_scope.data) == ("slm", "tile"):
            raise Invalid("XT3352", "shared local memory belongs to one XeCore, and this fence is for the whole tile\n"
                          'use fence_scope = "local", or memory_kind = "ugm"')


OPERATIONS = (CreateNdTdescOp, UpdateNdOffsetOp, LoadNdOp, StoreNdOp, PrefetchNdOp, DpasOp, CreateTdescOp,
              UpdateOffsetOp, LoadGatherOp, StoreScatterOp, PrefetchOp, AtomicRMWOp, MfenceOp)


# The context that reads and prints the earlier generation with the dialects around it.


_NAMES = {operation.name for operation in (*OPERATIONS, FenceOp)}
OlderXeGPU = Dialect(
    "xegpu",
    [*OPERATIONS, *(operation for operation in XeGPU.operations if operation.name not in _NAMES)],
    [*(attribute for attribute in XeGPU.attributes if attribute is not TensorDescType), OlderDescType, WordAttr],
)
"""The earlier generation; what the present one adds beyond both documents is in it as it is."""


def context() -> Context:
    """A context with the earlier generation in the place of the present one."""
    result = Context()
    for dialect in (builtin.Builtin, Arith, func.Func, Gpu, math.Math, memref.MemRef, scf.Scf, ub.UB, Vector,
                    OlderXeGPU):
        result.load_dialect(dialect)
    return result
