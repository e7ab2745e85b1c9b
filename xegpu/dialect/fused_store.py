"""A product along all of K that is stored where it belongs, in one operation (it goes beyond XeGPU.md)."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, UnitAttr
from xdsl.ir import Region, SSAValue
from xdsl.irdl import IRDLOperation, ParsePropInAttrDict, operand_def, opt_prop_def, region_def, traits_def
from xdsl.traits import NoTerminator

from xegpu.dialect.block_io import DESC, check_block, desc_of
from xegpu.dialect.dpas import check_product
from xegpu.ir.op_definition import operation_definition


@operation_definition
class LoadMadStoreOp(IRDLOperation):
    """``store(load(a) @ load(b), c)`` along K from ``first`` to ``end``, a tile of ``a`` and of ``b`` a step.

    Its body is what it means, and what runs where one call cannot do it: a loop of ``load_mad`` whose sums begin at
    zero, and the stores of these sums, row by row from ``c`` on.

    Attributes:
        m, n: implied by the descriptors; C is as large as A has rows and B columns.
        ends_kernel: nothing that the kernel does comes behind it.
    """

    name = "xegpu.load_mad_store"
    a = operand_def(DESC)
    b = operand_def(DESC)
    c = operand_def(DESC)
    first = operand_def(IndexType)
    end = operand_def(IndexType)
    ends_kernel = opt_prop_def(UnitAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = ("$a `,` $b `,` $c `,` `[` $first `,` $end `]` attr-dict `:` type($a) `,` type($b) `,` type($c) "
                       "$body")

    def __init__(self, a: SSAValue, b: SSAValue, c: SSAValue, bounds: tuple[SSAValue, SSAValue], body: Region, *,
                 ends_kernel: bool) -> None:
        super().__init__(operands=[a, b, c, *bounds], regions=[body],
                         properties={"ends_kernel": UnitAttr() if ends_kernel else None})

    @property
    def sizes(self) -> tuple[int, int, int]:
        """M and N of the product, and K of one step."""
        (m, k), n = desc_of(self.a).shape, desc_of(self.b).shape[1]
        return m, n, k

    def verify_(self) -> None:
        for value in (self.a, self.b, self.c):
            check_block(desc_of(value))
        m, n, k = self.sizes
        check_product((m, k), (desc_of(self.b).shape[0], n), (m, n))


OPERATIONS = (LoadMadStoreOp,)
