"""The context that reads and prints the earlier generation with the dialects around it."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects import builtin, func, math, memref, scf, ub
from xdsl.ir import Dialect

from xegpu.dialect import Vector, XeGPU
from xegpu.dialect.attributes import TensorDescType
from xegpu.dialect.conversions import Arith
from xegpu.dialect.kernels import Gpu
from xegpu.dialect.synchronisation import FenceOp
from xegpu.older.attributes import OlderDescType, WordAttr
from xegpu.older.ops import OPERATIONS

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
