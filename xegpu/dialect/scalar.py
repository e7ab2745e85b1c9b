"""Scalar memory operations: ``load_scalar``, beyond the specification."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IndexType, MemRefType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    result_def,
    traits_def,
    var_operand_def,
)

from xegpu.ir import dtypes
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.memref import is_shared
from xegpu.ir.op_definition import operation_definition
from xegpu.ir.record import Record
from xegpu.ir.traits import ReadsMemory
from xegpu.support.errors import ElementTypeError, Invalid, RankError

TYPES = (dtypes.i32, dtypes.u32, dtypes.i64, dtypes.u64, dtypes.f32)
"""Element types of scalar loads and extracts."""


@operation_definition
class LoadScalarOp(IRDLOperation):
    """Subgroup-uniform scalar load from an array in global memory.

    ``%at = xegpu.load_scalar %table, [%i, %c2] : memref<?x?xi64, strided<[?, ?]>> -> i64``. It is the same operation at
    every stage; its result is used like a scalar argument: as an address, a size or a loop bound.
    """

    name = "xegpu.load_scalar"
    RECORD: ClassVar[Record] = Record(TYPES, defined="positions")
    array = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    result = result_def(Attribute)
    traits = traits_def(ReadsMemory((0,)))
    assembly_format = "$array `,` `[` $indices `]` attr-dict `:` type($array) `->` type($result)"

    def __init__(self, array: SSAValue, indices: list[SSAValue]) -> None:
        assert isinstance(array.type, MemRefType)
        super().__init__(operands=[array, indices], result_types=[array.type.element_type])

    def verify_(self) -> None:
        type_ = self.array.type
        assert isinstance(type_, MemRefType)
        if is_shared(type_):
            raise Invalid("XT1240", "load_scalar takes an array in global memory, not one in shared local memory\n"
                          "load a tile of that, or pass the array as an argument", kind=ElementTypeError)
        if self.result.type != type_.element_type or type_.element_type not in [dtype.mlir for dtype in TYPES]:
            raise Invalid("XT1241", f"load_scalar gives {', '.join(map(str, TYPES))}, and the array holds "
                          f"{of_mlir(type_.element_type)}\nconvert the array before the launch, as in "
                          "array.astype(numpy.int32), or load a tile", kind=ElementTypeError)
        rank, count = len(type_.get_shape()), len(self.indices)
        if count != rank:
            raise Invalid("XT1242", f"the array has {rank} dimension{'s' * (rank != 1)}, and load_scalar got {count} "
                          f"{'index' if count == 1 else 'indices'}\ngive an index for each dimension", kind=RankError)


OPERATIONS = (LoadScalarOp,)
