"""Synchronisation of memory accesses (XeGPU.md, ``fence``). The barrier is MLIR's own ``gpu.barrier``."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.irdl import IRDLOperation, ParsePropInAttrDict, irdl_op_definition, prop_def
from xdsl.utils.exceptions import VerifyException

SCOPES = ("workgroup", "gpu")
MEMORIES = ("global", "shared")


@irdl_op_definition
class FenceOp(IRDLOperation):
    """What a subgroup wrote before it is seen by all of ``scope`` before what it writes after it."""

    name = "xegpu.fence"
    scope = prop_def(StringAttr)
    memory_kind = prop_def(StringAttr)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict"

    def __init__(self, scope: str, memory_kind: str) -> None:
        super().__init__(properties={"scope": StringAttr(scope), "memory_kind": StringAttr(memory_kind)})

    def verify_(self) -> None:
        if self.scope.data not in SCOPES:
            raise VerifyException(f'a fence has no scope "{self.scope.data}"\nuse "workgroup" or "gpu"')
        if self.memory_kind.data not in MEMORIES:
            raise VerifyException(f'a fence has no memory kind "{self.memory_kind.data}"\nuse "global" or "shared"')
        if (self.scope.data, self.memory_kind.data) == ("gpu", "shared"):
            raise VerifyException("shared local memory belongs to one work-group, and this fence is for the whole gpu\n"
                                  'use the scope "workgroup", or the memory "global"')
