"""LLVM's XeGPU dialect: its MLIR context with the upstream dialects it is used with."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects import builtin, cf, func, math, memref, scf, ub
from xdsl.ir import Dialect, Operation

from xegpu.dialect import Vector
from xegpu.dialect.hints import CacheHintAttr
from xegpu.dialect.sync import NAMED, NbarrierType
from xegpu.dialect.types import SgMapAttr
from xegpu.interop.llvm.dialect import gather_scatter, matrix, ops, scaled, types, vector
from xegpu.mlir.arith import Arith
from xegpu.mlir.gpu import Gpu

UpstreamXeGPU = Dialect(
    "xegpu",
    [*ops.OPERATIONS, *gather_scatter.OPERATIONS, *matrix.OPERATIONS, *scaled.OPERATIONS, vector.FenceOp, *NAMED],
    [types.LayoutAttr, types.SliceAttr, types.RangeAttr, CacheHintAttr, types.BlockAttr, types.DescType,
     SgMapAttr, matrix.MemLayoutAttr, matrix.MemDescType, NbarrierType],
)


_IN_OTHER_FORM: tuple[type[Operation], ...] = (
    vector.MultiReductionOp, vector.InsertStridedSliceOp, gather_scatter.StepOp, *vector.WHOLE_VECTORS)
_NAMES = {operation.name for operation in _IN_OTHER_FORM}
UpstreamVector = Dialect("vector", [*(operation for operation in Vector.operations if operation.name not in _NAMES),
                                    *_IN_OTHER_FORM], list(Vector.attributes))


def context() -> Context:
    """MLIR context with LLVM's XeGPU dialect instead of this one."""
    result = Context()
    for dialect in (builtin.Builtin, Arith, cf.Cf, func.Func, Gpu, math.Math, memref.MemRef, scf.Scf, ub.UB,
                    UpstreamVector, UpstreamXeGPU):
        result.load_dialect(dialect)
    return result
