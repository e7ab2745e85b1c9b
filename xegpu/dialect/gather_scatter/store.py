"""Scatter stores and scattered prefetches."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue
from xdsl.irdl import operand_def, traits_def

from xegpu.dialect.block_io import DESC, desc_of
from xegpu.dialect.gather_scatter.descriptor import check_vector, lanes_shape, scatter_of, values_shape
from xegpu.dialect.hints import HintedOp, check_hints
from xegpu.ir.op_definition import operation_definition
from xegpu.ir.record import GATHERED, Record
from xegpu.ir.traits import WritesMemory
from xegpu.mlir.vector import VECTOR


@operation_definition
class StoreScatterOp(HintedOp):
    """Scatter store; masked-off elements access no memory."""

    name = "xegpu.store_scatter"
    RECORD: ClassVar[Record] = GATHERED
    MESSAGE: ClassVar[str] = "store"
    value = operand_def(VECTOR)
    desc = operand_def(DESC)
    mask = operand_def(VECTOR)
    traits = traits_def(WritesMemory(1))
    assembly_format = "$value `,` $desc `,` $mask attr-dict `:` type($value) `,` type($desc) `,` type($mask)"

    def __init__(self, value: SSAValue, desc: SSAValue, mask: SSAValue) -> None:
        super().__init__(operands=[value, desc, mask])

    def verify_(self) -> None:
        check_hints(self, "store")
        desc = desc_of(self.desc)
        check_vector("value", self.value, values_shape(desc), desc.element_type)
        check_vector("mask", self.mask, lanes_shape(desc), i1)


@operation_definition
class PrefetchOp(HintedOp):
    """Scattered prefetch into the caches."""

    name = "xegpu.prefetch"
    RECORD: ClassVar[Record] = GATHERED
    MESSAGE: ClassVar[str] = "prefetch"
    desc = operand_def(DESC)
    assembly_format = "$desc attr-dict `:` type($desc)"

    def __init__(self, desc: SSAValue) -> None:
        super().__init__(operands=[desc])

    def verify_(self) -> None:
        check_hints(self, "prefetch")
        scatter_of(desc_of(self.desc))
