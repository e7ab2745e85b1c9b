"""Address payloads: message registers of 2D block IO, created once and updated in place.

    %p = payload_create %d : tensor_desc<8x16xbf16> -> payload<tensor_desc<8x16xbf16>>
    scf.for %k = ... {
      %d1 = update_nd_offset %d, [%0, %k]
      payload_set %p, %d1 {columns}
      payload_prefetch %p, [0, 0] }
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import I64, IndexType, IntegerAttr, UnitAttr, i64
from xdsl.ir import ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    base,
    irdl_attr_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from xegpu.dialect.block_io import DESC, check_block, desc_of
from xegpu.dialect.hints import HintedOp, check_hints
from xegpu.dialect.types import TensorDesc, TensorDescType
from xegpu.ir.op_definition import operation_definition
from xegpu.ir.record import MOVED, Record
from xegpu.mlir.vector import IntegersAttr, integers, values_of
from xegpu.support.errors import Invalid

DISTANCE = 512
"""Exclusive limit of a block message's immediate offsets from its address, in elements along either axis."""


@irdl_attr_definition
class PayloadType(ParametrizedAttribute, TypeAttribute):
    """``!xegpu.payload<!xegpu.tensor_desc<8x16xbf16>>``: an address of blocks that such descriptors describe."""

    name = "xegpu.payload"
    desc: TensorDescType


def payload_desc(value: SSAValue) -> TensorDesc:
    """The parameters of the blocks that a payload is the address of."""
    assert isinstance(value.type, PayloadType)
    return value.type.desc.data


PAYLOAD = base(PayloadType)


@operation_definition
class PayloadCreateOp(IRDLOperation):
    """A new payload with the address of the block that a descriptor describes."""

    name = "xegpu.payload_create"
    RECORD: ClassVar[Record] = MOVED
    desc = operand_def(DESC)
    result = result_def(PAYLOAD)
    assembly_format = "$desc attr-dict `:` type($desc) `->` type($result)"

    def __init__(self, desc: SSAValue) -> None:
        assert isinstance(desc.type, TensorDescType)
        super().__init__(operands=[desc], result_types=[PayloadType(desc.type)])

    def verify_(self) -> None:
        check_block(desc_of(self.desc))
        if self.result.type != PayloadType(self.desc.type):  # type: ignore[arg-type]
            raise Invalid("XT3120", f"a payload for {self.desc.type} is no {self.result.type}\n"
                          "write the descriptor's type in the payload's")


@operation_definition
class PayloadSetOp(IRDLOperation):
    """Moves a payload, in place, to the rows, the columns, or both, of a descriptor on the same array."""

    name = "xegpu.payload_set"
    RECORD: ClassVar[Record] = MOVED
    payload = operand_def(PAYLOAD)
    desc = operand_def(DESC)
    rows = opt_prop_def(UnitAttr)
    columns = opt_prop_def(UnitAttr)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$payload `,` $desc attr-dict `:` type($payload) `,` type($desc)"

    def __init__(self, payload: SSAValue, desc: SSAValue, *, rows: bool, columns: bool) -> None:
        super().__init__(operands=[payload, desc], properties={
            "rows": UnitAttr() if rows else None, "columns": UnitAttr() if columns else None})

    def verify_(self) -> None:
        if self.payload.type != PayloadType(self.desc.type):  # type: ignore[arg-type]
            raise Invalid("XT3120", f"a {self.payload.type} cannot follow a {self.desc.type}\n"
                          "move it by a descriptor of the type that it was created from")
        if self.rows is None and self.columns is None:
            raise Invalid("XT3121", "neither rows nor columns of the payload are set\nwrite rows, columns, or both "
                          "in its braces", alone=True)


@operation_definition
class PayloadPrefetchOp(HintedOp):
    """A block to the caches, a constant distance (rows, columns) behind a payload's address."""

    name = "xegpu.payload_prefetch"
    RECORD: ClassVar[Record] = MOVED
    MESSAGE: ClassVar[str] = "prefetch"
    payload = operand_def(PAYLOAD)
    distance = prop_def(IntegersAttr)
    assembly_format = "$payload `,` $distance attr-dict `:` type($payload)"

    def __init__(self, payload: SSAValue, distance: tuple[int, int]) -> None:
        super().__init__(operands=[payload], properties={"distance": integers(distance)})

    @property
    def offsets(self) -> tuple[int, int]:
        """The distance: rows, columns."""
        rows, columns = values_of(self.distance)
        return rows, columns

    def verify_(self) -> None:
        check_hints(self, "prefetch")
        if len(self.distance) != 2 or not all(0 <= each < DISTANCE for each in values_of(self.distance)):
            raise Invalid("XT3122", f"a prefetch reaches two distances of 0 to {DISTANCE - 1} behind its payload, not "
                          f"{list(values_of(self.distance))}\nset the payload closer", alone=True)


@operation_definition
class SubgroupBroadcastOp(IRDLOperation):
    """The index that a lane of a subgroup has, for all lanes; a compiler does not see how it came about.

    The lane, 0 unless ``lane`` says another, counted modulo the subgroup's size, changes nothing, since all lanes have
    the same index; but broadcasts from two lanes are no common subexpression to a compiler.
    """

    name = "xegpu.subgroup_broadcast"
    RECORD: ClassVar[Record] = Record()
    value = operand_def(IndexType)
    lane = opt_prop_def(IntegerAttr[I64])
    result = result_def(IndexType)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$value attr-dict `:` type($value)"

    def __init__(self, value: SSAValue, lane: int = 0) -> None:
        super().__init__(operands=[value], properties={"lane": IntegerAttr(lane, i64) if lane else None},
                         result_types=[IndexType()])

    @property
    def lane_number(self) -> int:
        """The lane."""
        return self.lane.value.data if self.lane is not None else 0


OPERATIONS = (PayloadCreateOp, PayloadSetOp, PayloadPrefetchOp, SubgroupBroadcastOp)
