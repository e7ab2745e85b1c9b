"""Fused GEMM loop and store: a product along all of K and the store of C, in one operation (beyond XeGPU.md)."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import I1, IndexType, UnitAttr, i1
from xdsl.ir import Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    operand_def,
    opt_prop_def,
    region_def,
    result_def,
    traits_def,
)
from xdsl.traits import NoTerminator, Pure

from xegpu.dialect.block_io import DESC, check_block, desc_of
from xegpu.dialect.dpas import check_product
from xegpu.ir.dtypes import bf16, f16, f32, i8, i32, u8
from xegpu.ir.op_definition import operation_definition
from xegpu.ir.record import Record

FUSED = Record((f32, f16, bf16, i32, i8, u8), rounding="sum")
"""Record of products of the micro-kernels (:mod:`xegpu.target.gemm_microkernel`)."""


def _product_sizes(a: SSAValue, b: SSAValue) -> tuple[int, int, int]:
    """M and N of the product of two descriptors' tiles, and K of one step."""
    (m, k), n = desc_of(a).shape, desc_of(b).shape[1]
    return m, n, k


def _check_operands(a: SSAValue, b: SSAValue, c: SSAValue) -> None:
    for value in (a, b, c):
        check_block(desc_of(value))
    m, n, k = _product_sizes(a, b)
    check_product((m, k), (desc_of(b).shape[0], n), (m, n))


@operation_definition
class FusedStoreCheckOp(IRDLOperation):
    """Run-time legality of one call for the product along K from ``first`` to ``end`` and its store, and its extents.

    ``rows``, ``columns`` and ``depth`` are those of the product, clipped to C and to the columns of A. The call is
    ``legal`` if none of them is zero, the blocks of A and B lie inside their arrays, rows of C do not overlap, and C
    shares no memory with A or B.
    """

    name = "xegpu.fused_store_check"
    RECORD: ClassVar[Record] = FUSED
    a = operand_def(DESC)
    b = operand_def(DESC)
    c = operand_def(DESC)
    first = operand_def(IndexType)
    end = operand_def(IndexType)
    legal = result_def(I1)
    rows = result_def(IndexType)
    columns = result_def(IndexType)
    depth = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "$a `,` $b `,` $c `,` `[` $first `,` $end `]` attr-dict `:` type($a) `,` type($b) `,` type($c)"

    def __init__(self, a: SSAValue, b: SSAValue, c: SSAValue, bounds: tuple[SSAValue, SSAValue]) -> None:
        super().__init__(operands=[a, b, c, *bounds], result_types=[i1, *[IndexType()] * 3])

    @property
    def sizes(self) -> tuple[int, int, int]:
        """M and N of the product, and K of one step."""
        return _product_sizes(self.a, self.b)

    def verify_(self) -> None:
        _check_operands(self.a, self.b, self.c)


@operation_definition
class LoadMadStoreOp(IRDLOperation):
    """``store(load(a) @ load(b), c)`` along K from ``first`` on, ``rows`` x ``columns`` x ``depth`` where ``legal``.

    The last four are results of :class:`FusedStoreCheckOp`. Where one call is not legal the body runs: a loop of
    ``load_mad`` whose sums begin at zero, and the stores of these sums, row by row from ``c`` on.

    Attributes:
        m, n: implied by the descriptors; C is as large as A has rows and B columns.
        ends_kernel: nothing that the kernel does comes behind it.
    """

    name = "xegpu.load_mad_store"
    RECORD: ClassVar[Record] = FUSED
    a = operand_def(DESC)
    b = operand_def(DESC)
    c = operand_def(DESC)
    first = operand_def(IndexType)
    legal = operand_def(I1)
    rows = operand_def(IndexType)
    columns = operand_def(IndexType)
    depth = operand_def(IndexType)
    ends_kernel = opt_prop_def(UnitAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = ("$a `,` $b `,` $c `,` `[` $first `]` `if` $legal `,` `[` $rows `,` $columns `,` $depth `]` "
                       "attr-dict `:` type($a) `,` type($b) `,` type($c) $body")

    def __init__(self, check: FusedStoreCheckOp, body: Region, *, ends_kernel: bool) -> None:
        super().__init__(operands=[check.a, check.b, check.c, check.first, *check.results], regions=[body],
                         properties={"ends_kernel": UnitAttr() if ends_kernel else None})

    @property
    def sizes(self) -> tuple[int, int, int]:
        """M and N of the product, and K of one step."""
        return _product_sizes(self.a, self.b)

    def verify_(self) -> None:
        _check_operands(self.a, self.b, self.c)


OPERATIONS = (FusedStoreCheckOp, LoadMadStoreOp)
