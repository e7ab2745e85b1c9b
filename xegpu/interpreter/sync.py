"""NumPy semantics of barriers, fences and compile hints.

All instances run in lock step, so barriers are no-ops; where subgroups wait for one another at named barriers,
:mod:`xegpu.interpreter.subgroup_scheduler` runs them as cooperative threads.
"""

from __future__ import annotations

from xdsl.dialects.gpu import BarrierOp

from xegpu.dialect.sync import OPERATIONS, CompileHintOp, InitNbarrierOp
from xegpu.interpreter.interpreter import Semantics

SEMANTICS: Semantics = {
    **dict.fromkeys((BarrierOp, *OPERATIONS, CompileHintOp), lambda machine, operation, operands: None),
    InitNbarrierOp: lambda machine, operation, operands: operands[0],
}


