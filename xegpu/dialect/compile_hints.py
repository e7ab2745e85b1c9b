"""Hints to the compiler behind the dialect (XeGPU-older.md, ``compile_hint``), which XeGPU.md leaves out."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.irdl import IRDLOperation, ParsePropInAttrDict, prop_def

from xegpu.declaring import operation_definition
from xegpu.errors import Invalid

SCHEDULE_BARRIER = "schedule_barrier"


@operation_definition
class CompileHintOp(IRDLOperation):
    """``xegpu.compile_hint {hint = "schedule_barrier"}``: no instruction is moved across this place."""

    name = "xegpu.compile_hint"
    hint = prop_def(StringAttr)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict"

    def __init__(self, hint: str = SCHEDULE_BARRIER) -> None:
        super().__init__(properties={"hint": StringAttr(hint)})

    def verify_(self) -> None:
        if self.hint.data != SCHEDULE_BARRIER:
            raise Invalid("XT3283", f'there is no hint "{self.hint.data}"\nuse "{SCHEDULE_BARRIER}"')
