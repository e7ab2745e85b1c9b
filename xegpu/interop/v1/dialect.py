"""XeGPU dialect version 1 (XeGPU-older.md): operations, and the verification rules specific to it.

An operation with ``mode = vc`` works on vectors of the subgroup, and its descriptor has no ``sg_map``; without it, it
works on the fragment of a lane, and its descriptor has one. Rules common to both versions are verified after import.
"""

from __future__ import annotations

from typing import Any

from xdsl.context import Context
from xdsl.dialects import builtin, func, math, memref, scf, ub
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr
from xdsl.ir import Dialect
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    OptionalDef,
    ParsePropInAttrDict,
    RangeLengthConstraint,
    VarOperandDef,
    base,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
)

from xegpu.dialect import Vector, XeGPU, block_io, gather_scatter
from xegpu.dialect.block_io import DESC as PRESENT_DESC
from xegpu.dialect.dpas import MultiplyAddOp
from xegpu.dialect.hints import LEVELS, HintedOp
from xegpu.dialect.sync import FenceOp
from xegpu.dialect.types import DescriptorType, TensorDesc, TensorDescType
from xegpu.interop.v1.types import VC, OlderDescType, WordAttr
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.op_definition import operation_definition
from xegpu.mlir.arith import Arith
from xegpu.mlir.gpu import Gpu
from xegpu.mlir.vector import VECTOR, shape_of
from xegpu.support.errors import Invalid

DESC = base(OlderDescType)


class OlderOp(IRDLOperation):
    """Base of operations with a mode."""

    mode = opt_prop_def(WordAttr)
    irdl_options = (ParsePropInAttrDict(),)

    @property
    def is_vc(self) -> bool:
        """Whether it works on vectors of the subgroup (``mode = vc``)."""
        return self.mode == VC

    @property
    def parameters(self) -> TensorDesc:
        """Parameters of its descriptor, an operand or the result."""
        return next(value.type.data for value in (*self.operands, *self.results)
                    if isinstance(value.type, DescriptorType))

    def check_mode(self) -> None:
        """Verify that there is no other mode than ``vc``."""
        if self.mode is not None and not self.is_vc:
            raise Invalid("XT3401", f"there is no mode {self.mode.data}\nwrite mode = vc, or nothing for SIMT",
                          alone=True)

    def verify_(self) -> None:
        """Verify that the descriptor has an ``sg_map`` if and only if the mode is not ``vc``."""
        self.check_mode()
        mapped = self.parameters.sg_map is not None
        if self.is_vc and mapped:
            raise Invalid("XT3402", "mode = vc works on whole vectors, and its descriptor has an sg_map\n"
                          "drop the sg_map, or the mode")
        if not self.is_vc and not mapped:
            raise Invalid("XT3403", "without a mode this works on the fragment of a lane, and its descriptor has no "
                          "sg_map\nadd {mode = vc}, or an sg_map to the descriptor")


class OlderHintedOp(OlderOp, HintedOp):
    """Base of operations with cache hints."""


class VectorOp(OlderHintedOp):
    """Base of operations on scattered descriptors, which exist with ``mode = vc`` only."""

    def verify_(self) -> None:
        """Verify that the mode is ``vc``."""
        if not self.is_vc:
            raise Invalid("XT3404", "this is an operation of mode = vc only\nadd {mode = vc}", alone=True)
        super().verify_()


def _form_of(present: type[IRDLOperation], base: type[OlderOp], **more: Any) -> Any:
    """Operation of version 1 that is declared as the present one, on version 1's descriptors and with a mode.

    Args:
        present: its operands, results, properties, traits and assembly format are those of the new class.
        base: what else has a mode of that kind: the class that verifies it.
        more: further fields and methods of the class.
    """
    declared = present.get_irdl_definition()
    fields: dict[str, Any] = {"name": present.name, "__doc__": present.__doc__, "__module__": __name__,
                              "__annotations__": {}, "traits": declared.traits, **more}
    if declared.assembly_format is not None:
        fields["assembly_format"] = declared.assembly_format
    for name, operand in declared.operands:
        define = var_operand_def if isinstance(operand, VarOperandDef) else operand_def
        fields[name] = define(_constraint(operand.constr))
    for name, result in declared.results:
        fields[name] = result_def(_constraint(result.constr))
    inherited = {"operandSegmentSizes", *LEVELS}
    fields |= {name: (opt_prop_def if isinstance(known, OptionalDef) else prop_def)(known.constr)
               for name, known in declared.properties.items() if name not in inherited}
    if sized := tuple(option for option in declared.options if isinstance(option, AttrSizedOperandSegments)):
        fields["irdl_options"] = (*sized, ParsePropInAttrDict())
    return operation_definition(type(present.__name__, (base,), fields))


def _constraint(declared: Any) -> Any:
    """Constraint of one operand or result, with version 1's descriptors for present ones."""
    several: Any = declared.constraint if isinstance(declared, RangeLengthConstraint) else declared
    return DESC if several.constr == PRESENT_DESC else several.constr


def _verify_chunk(self: Any) -> None:
    """Verify the mode of a ``create_tdesc``, and that its chunk is that of its descriptor."""
    VectorOp.verify_(self)
    scatter, attribute = self.parameters.scatter, self.chunk_size_per_lane
    if scatter is not None and attribute is not None and attribute.value.data != scatter.chunk_size:
        raise Invalid("XT3411", f"chunk_size_per_lane is {attribute.value.data}, and {self.result.type} has chunks of "
                      f"{scatter.chunk_size}\nmake its second dimension the chunk", alone=True)


SAME_FORM: dict[type[IRDLOperation], Any] = {
    block_io.CreateNdTdescOp: _form_of(block_io.CreateNdTdescOp, OlderOp),
    block_io.UpdateNdOffsetOp: _form_of(block_io.UpdateNdOffsetOp, OlderOp),
    block_io.StoreNdOp: _form_of(block_io.StoreNdOp, OlderHintedOp),
    block_io.PrefetchNdOp: _form_of(block_io.PrefetchNdOp, OlderHintedOp),
    gather_scatter.CreateTdescOp: _form_of(gather_scatter.CreateTdescOp, VectorOp, verify_=_verify_chunk,
                                           chunk_size_per_lane=opt_prop_def(IntegerAttr)),
    **{kind: _form_of(kind, VectorOp) for kind in (
        gather_scatter.UpdateOffsetOp, gather_scatter.LoadGatherOp, gather_scatter.StoreScatterOp,
        gather_scatter.PrefetchOp, gather_scatter.AtomicRMWOp)},
}
"""Present operations, and the forms in version 1 of those that convert one to one, both ways."""


@operation_definition
class LoadNdOp(OlderHintedOp):
    """Block load; ``vnni_axis = 0`` packs rows into words, ``vnni_axis = 1`` splits the columns into words."""

    name = "xegpu.load_nd"
    desc = operand_def(DESC)
    vnni_axis = opt_prop_def(IntegerAttr)
    transpose = opt_prop_def(ArrayAttr)
    transpose_bit_width = opt_prop_def(IntegerAttr)
    result = result_def(VECTOR)
    assembly_format = "$desc attr-dict `:` type($desc) `->` type($result)"

    @property
    def axis(self) -> int | None:
        """Dimension that VNNI form splits."""
        return None if self.vnni_axis is None else self.vnni_axis.value.data

    def split_shape(self) -> tuple[int, ...]:
        """Shape of a block whose columns are split into words."""
        desc = self.parameters
        rows, columns = desc.shape
        return rows, columns * desc.dtype.bits // 32, 32 // desc.dtype.bits

    def verify_(self) -> None:
        super().verify_()
        desc = self.parameters
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
class DpasOp(MultiplyAddOp, OlderOp):
    """DPAS, D = C + A x B; elements under 32 bits are in words, A as ``[m, k / v, v]`` and B as ``[k / v, n, v]``."""

    name = "xegpu.dpas"

    def verify_(self) -> None:
        self.check_mode()
        bits = of_mlir(self.a.type.element_type).bits  # type: ignore[attr-defined]
        for name, value, axis in (("A", self.a, 1), ("B", self.b, 0)):
            rank = 3 if self.is_vc and bits < 32 else 2
            if len(shape_of(value)) != rank:
                raise Invalid("XT3410", f"{name} is {value.type}, and {rank} dimensions are needed here\n" + (
                    f"load it with vnni_axis = {axis}, in words of 32 bits" if rank == 3 else
                    "a lane's fragment has two; whole vectors need {mode = vc}" if bits < 32 else
                    "elements of 32 bits are words already"))


_FENCE = {"memory_kind": ("ugm", "slm"), "fence_op": ("none",), "fence_scope": ("local", "tile")}


@operation_definition
class MfenceOp(IRDLOperation):
    """Memory fence with the scope of one XeCore (``local``) or one tile of them."""

    name = "xegpu.mfence"
    memory_kind = prop_def(StringAttr)
    fence_op = prop_def(StringAttr)
    fence_scope = prop_def(StringAttr)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict"

    def verify_(self) -> None:
        for name, known in _FENCE.items():
            attribute = self.properties[name]
            assert isinstance(attribute, StringAttr)
            if attribute.data not in known:
                raise Invalid("XT3413", f'a fence has no {name} "{attribute.data}"\nuse '
                              + " or ".join(f'"{word}"' for word in known))
        if (self.memory_kind.data, self.fence_scope.data) == ("slm", "tile"):
            raise Invalid("XT3352", "shared local memory belongs to one XeCore, and this fence is for the whole tile\n"
                          'use fence_scope = "local", or memory_kind = "ugm"')


OPERATIONS = (LoadNdOp, DpasOp, MfenceOp, *SAME_FORM.values())
_NAMES = {operation.name for operation in (*OPERATIONS, FenceOp)}
OlderXeGPU = Dialect(
    "xegpu",
    [*OPERATIONS, *(operation for operation in XeGPU.operations if operation.name not in _NAMES)],
    [*(attribute for attribute in XeGPU.attributes if attribute is not TensorDescType), OlderDescType, WordAttr],
)
"""XeGPU dialect version 1, with the present version's extensions beyond both documents."""


def context() -> Context:
    """MLIR context with version 1 of the dialect instead of the present one."""
    result = Context()
    for dialect in (builtin.Builtin, Arith, func.Func, Gpu, math.Math, memref.MemRef, scf.Scf, ub.UB, Vector,
                    OlderXeGPU):
        result.load_dialect(dialect)
    return result
