"""The XeGPU dialect, declared with xDSL, and the context that reads and prints it."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects import builtin, func, math, memref, scf, ub
from xdsl.dialects import vector as xdsl_vector
from xdsl.ir import Dialect

from xegpu.dialect import (
    attributes,
    block_io,
    block_ops,
    compile_hints,
    descriptors,
    diagnostics,
    hints,
    lane_layouts,
    loaded_products,
    padding,
    positions,
    products,
    scalars,
    scaled_products,
    scattered,
    synchronisation,
    vectors,
    words,
)
from xegpu.dialect.conversions import Arith
from xegpu.dialect.kernels import Gpu

XeGPU = Dialect(
    "xegpu",
    [*descriptors.OPERATIONS, *block_io.OPERATIONS, *products.OPERATIONS, *words.OPERATIONS, padding.PadOp,
     scaled_products.DpasScaledOp, lane_layouts.ConvertLayoutOp,
     loaded_products.LoadMadOp, positions.IotaOp, block_ops.ReduceOp, block_ops.BroadcastOp,
     compile_hints.CompileHintOp, *synchronisation.OPERATIONS,
     *scattered.OPERATIONS, *diagnostics.OPERATIONS, *scalars.OPERATIONS],
    [attributes.SourceLocation, attributes.SgMapAttr, attributes.BlockTdescAttr, attributes.ScatterTdescAttr,
     attributes.TensorDescType, scattered.AtomicKindAttr, hints.CacheHintAttr,
     synchronisation.NbarrierType],
)

Vector = Dialect(
    "vector",
    [*xdsl_vector.Vector.operations, vectors.ExtractStridedSliceOp, vectors.InsertStridedSliceOp,
     vectors.ShapeCastOp, vectors.TransposeOp],
    list(xdsl_vector.Vector.attributes),
)


def context(*more: Dialect) -> Context:
    """A context with the XeGPU dialect, the dialects around it, and ``more``."""
    result = Context()
    for dialect in (builtin.Builtin, Arith, func.Func, Gpu, math.Math, memref.MemRef, scf.Scf, ub.UB, Vector, XeGPU,
                    *more):
        result.load_dialect(dialect)
    return result
