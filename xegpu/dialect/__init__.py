"""The XeGPU dialect, defined in xDSL, and its MLIR context."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects import builtin, func, math, memref, scf, ub
from xdsl.dialects import vector as xdsl_vector
from xdsl.ir import Dialect

from xegpu.dialect import (
    block_io,
    bounds,
    convert_layout,
    debug,
    dpas,
    fused_store,
    gather_scatter,
    hints,
    inline,
    payload,
    reduction,
    scalar,
    sync,
    types,
    vector,
)
from xegpu.ir.dtypes import I4x2Type, U4x2Type
from xegpu.mlir import vector as mlir_vector
from xegpu.mlir.arith import Arith
from xegpu.mlir.gpu import Gpu
from xegpu.support.location import SourceLocation

XeGPU = Dialect(
    "xegpu",
    [*block_io.DESCRIPTOR_OPERATIONS, *block_io.OPERATIONS, *dpas.OPERATIONS, *vector.OPERATIONS,
     vector.PadOp, dpas.DpasScaledOp, *convert_layout.OPERATIONS, dpas.LoadMadOp, vector.IotaOp,
     reduction.ReduceOp, reduction.BroadcastOp, sync.CompileHintOp, *sync.OPERATIONS, *gather_scatter.OPERATIONS,
     *debug.OPERATIONS, *scalar.OPERATIONS, *bounds.OPERATIONS, *payload.OPERATIONS,
     *fused_store.OPERATIONS, *inline.OPERATIONS],
    [SourceLocation, types.SgMapAttr, types.BlockTdescAttr, types.ScatterTdescAttr, types.TensorDescType,
     gather_scatter.AtomicKindAttr, hints.CacheHintAttr, sync.NbarrierType, payload.PayloadType,
     inline.NumpyFunctionAttr, I4x2Type, U4x2Type],
)

Vector = Dialect(
    "vector",
    [*(op for op in xdsl_vector.Vector.operations if op is not xdsl_vector.ExtractOp), mlir_vector.ExtractOp,
     mlir_vector.ExtractStridedSliceOp, mlir_vector.InsertStridedSliceOp, mlir_vector.ShapeCastOp,
     mlir_vector.TransposeOp],
    list(xdsl_vector.Vector.attributes),
)


def context(*more: Dialect) -> Context:
    """MLIR context with the XeGPU dialect, the upstream dialects it is used with, and ``more``."""
    result = Context()
    for dialect in (builtin.Builtin, Arith, func.Func, Gpu, math.Math, memref.MemRef, scf.Scf, ub.UB, Vector, XeGPU,
                    *more):
        result.load_dialect(dialect)
    return result
